"""Columns that are the orientation of a body, and no signals of joints: the four of a unit quaternion."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from dynid.base.arrays import Float

# What distinguishes the components of one: a number, or their letter.
_COMPONENT = re.compile(r"(\d+|[wxyz])(?=\W*$)", re.IGNORECASE)
_COMPONENTS = 4
_PLACED = re.compile(r"(.+)\[\d+\]")
# A body that moves freely has a place and a unit quaternion.
POSE = 7
# Squares sum to one but for this share of what the largest of them changes by: rounding is less, and what joints do,
# each by itself, is more.
_STEADY = 0.05


def candidates(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Columns that may be one by their place: four whose names differ in a number or w, x, y, z, then any four."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_COMPONENT.sub("", name), []).append(name)
    for group in (*alike.values(), names):
        for window in zip(*(islice(group, k, None) for k in range(_COMPONENTS)), strict=False):
            yield tuple(window)


def of_states(names: Sequence[str], joints: int) -> set[str]:
    """Columns of arrays, such as qpos[0], qpos[1], ..., that are long enough for a pose beside as many joints."""
    arrays: dict[str, list[str]] = {}
    for name in names:
        if placed := _PLACED.fullmatch(name):
            arrays.setdefault(placed[1], []).append(name)
    return {name for array in arrays.values() if len(array) >= joints + POSE for name in array}


def may_be_quaternion(values: Float) -> bool:
    """Whether the squares of columns (T, 4) sum to one in every row, about."""
    off = np.abs((values**2).sum(axis=1) - 1.0)
    return bool((off[np.isfinite(off)] < _STEADY).all())


def is_quaternion(values: Float) -> bool:
    """Whether the squares of columns (T, 4) sum to one in every row while they change."""
    squares = (values**2)[np.isfinite(values).all(axis=1)]
    if not len(squares):
        return False
    return bool(np.abs(squares.sum(axis=1) - 1.0).max() < _STEADY * np.ptp(squares, axis=0).max())
