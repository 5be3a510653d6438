"""Messages one after the other, each a tree of named numbers, texts and lists, as arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynid.log.arrays import MAX_FIELDS, MAX_WIDTH, Array, StoredArray

_MAX_DEPTH = 8
# What the entries of a list of trees call themselves by.
_OWN_NAMES = ("name", "joint_name", "joint")


def arrays_of(records: Sequence[Mapping[str, Any]]) -> tuple[list[StoredArray], list[str]]:
    """Arrays by path ("state.q"), a row for each record, and what is no array, in words.

    Numbers are columns, lists of numbers matrices, texts columns of text; what a record lacks is missing. Lists of
    texts that are the same in every record are the labels of lists of numbers that are equally long.
    """
    trees = [flat(one) for one in records]
    names = list(dict.fromkeys(name for one in trees for name in one))[:MAX_FIELDS]
    kept = {name: [one.get(name) for one in trees] for name in names}
    labels = {name: found for name, cells in kept.items() if (found := _labels(cells))}
    arrays, left_out = [], []
    for name, cells in kept.items():
        if name in labels:
            left_out.append(f"{name} = {', '.join(labels[name])}"[:60])
            continue
        values = _array(cells)
        if values is None:
            left_out.append(f"{name}: neither a number, a text, nor lists of equally many numbers")
            continue
        width = values.shape[1] if values.ndim == 2 else 0
        named = next((found for found in labels.values() if len(found) == width), ())
        arrays.append(StoredArray.of(name, values, named))
    return arrays, left_out


def flat(tree: Mapping[str, Any], path: str = "", depth: int = 0) -> dict[str, Any]:
    """The values of a tree by their paths, "state.q"."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            found |= flat(value, f"{name}.", depth + 1)
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            found |= _side_by_side(name, value)
        else:
            found[name] = value
    return found


def _side_by_side(name: str, trees: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A list of trees, one a joint: lists by their keys, with the joints' own names in brackets."""
    own = [
        next((str(tree[key]) for key in _OWN_NAMES if isinstance(tree.get(key), str)), "") for tree in trees
    ]
    shown = own if all(own) and len(set(own)) == len(own) else [str(k) for k in range(len(trees))]
    return {
        f"{name}.{key}[{joint}]": value
        for joint, tree in zip(shown, trees, strict=True)
        for key, value in tree.items()
        if key not in _OWN_NAMES and isinstance(value, int | float)
    }


def _labels(cells: Sequence[Any]) -> tuple[str, ...]:
    first = next((one for one in cells if one), None)
    if not isinstance(first, list) or not all(isinstance(one, str) for one in first):
        return ()
    same = all(one == first for one in cells if one is not None)
    return tuple(first) if same and len(set(first)) == len(first) else ()


def _array(cells: Sequence[Any]) -> Array | None:
    present = [one for one in cells if one is not None]
    if not present:
        return None
    if all(isinstance(one, int | float) for one in present):
        return np.array([np.nan if one is None else float(one) for one in cells])
    if all(isinstance(one, str) for one in present):
        return np.array(["" if one is None else one for one in cells])
    if not all(isinstance(one, list) for one in present):
        return None
    width = max(len(one) for one in present)
    if not 0 < width <= MAX_WIDTH:
        return None
    values = np.full((len(cells), width), np.nan)
    for k, one in enumerate(cells):
        if not one:  # a message without velocities, say
            continue
        if len(one) != width or not all(isinstance(x, int | float) or x is None for x in one):
            return None
        values[k] = [np.nan if x is None else float(x) for x in one]
    return values
