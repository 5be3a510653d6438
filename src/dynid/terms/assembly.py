"""Panels of several terms side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples

Values = TypeVar("Values", Bool, Float)


def split(values: Values, counts: Sequence[int]) -> list[Values]:
    """The part (p_i,) of a mask or of values (p,) that belongs to each of several terms with p_i parameters."""
    return list(np.split(values, np.cumsum(counts)[:-1])) if counts else []


def joined(robot: RobotModel, parts: list[Panels], counts: Sequence[int], samples: Samples) -> Panels:
    """Panels of several terms with `counts` parameters as those of one."""
    first = np.cumsum([0, *counts], dtype=np.int64)[:-1]
    nothing, none = np.zeros((0, len(samples))), np.zeros(0, dtype=np.int64)
    return Panels(
        columns=tuple(
            np.concatenate([none, *(p.columns[j] + a for p, a in zip(parts, first, strict=True))])
            for j in range(robot.n)
        ),
        values=tuple(np.concatenate([nothing, *(p.values[j] for p in parts)]) for j in range(robot.n)),
    )


def side_by_side(
    robot: RobotModel,
    parts: Iterable[tuple[Callable[[RobotModel, Samples, Bool], Panels], Samples, int]],
    samples: Samples,
    wanted: Bool | None,
    target: Float | None,
    joints: Bool | None = None,
) -> Panels:
    """Regressors of several terms side by side: functions, what each is shown, and how many parameters it has.

    wanted: (p,) of all, None = every one.    target: (T, n), appended to each joint's panel as its last line.
    joints: (n,) that get columns, None = all.
    """
    columns: list[list[Int]] = [[] for _ in range(robot.n)]
    values: list[list[Float]] = [[] for _ in range(robot.n)]
    first = 0
    for regressor, seen, count in parts:
        part_wanted = np.ones(count, dtype=np.bool_) if wanted is None else wanted[first : first + count]
        if part_wanted.any():
            part = regressor(robot, seen, part_wanted)
            for joint, own in enumerate(part.columns):
                if len(own) and (joints is None or joints[joint]):
                    columns[joint].append(own + first)
                    values[joint].append(part.values[joint])
        first += count
    for joint in range(robot.n):
        if target is not None:
            values[joint].append(target[None, :, joint])
        elif not values[joint]:
            values[joint].append(np.zeros((0, len(samples))))
    return Panels(
        columns=tuple(np.concatenate([np.zeros(0, dtype=np.int64), *c]) for c in columns),
        values=tuple(np.concatenate(v) for v in values),
    )
