"""Where a motion turned round: all that friction with a memory has to know of the past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.robot.drive import Drive

# Greatest distance of a joint over which friction builds up, rad (m): ten times what gears and seals were measured at.
REACH = 0.2
# Samples of a path that are looked at first, from its end.
SHORT = 256


@dataclass(frozen=True, eq=False)
class Past:
    """Positions at which the motion before some samples turned round, oldest first.

    joints: by joint, rad (m).    drive: of robots whose motors do not turn as the joints do, None = they do.
    motors: by motor of the drive, rad; () without one.
    Source: return-point memory of rate-independent hysteresis (Mayergoyz 1991): of the past only extremes count, and
    none from before the joint moved by more than twice the greatest distance over which friction builds up.
    """

    joints: tuple[tuple[float, ...], ...]
    drive: Drive | None = None
    motors: tuple[tuple[float, ...], ...] = ()

    @staticmethod
    def none(n: int, drive: Drive | None = None) -> Past:
        """The past of n joints that have not moved yet."""
        nothing = ((),) * n
        if drive is None or (not drive.linkages and np.array_equal(drive.transmission, np.eye(n))):
            return Past(nothing)
        return Past(nothing, drive, nothing)

    def after(self, q: Float) -> Past:
        """The past once the joints have gone through positions q (T, n)."""
        found = replace(self, joints=_followed(self.joints, q, np.full(q.shape[1], REACH)))
        if self.drive is None:
            return found
        reach = REACH * np.abs(self.drive.transmission).max(axis=1)
        return replace(found, motors=_followed(self.motors, self.drive.motor_position(q), reach))

    @property
    def of_motors(self) -> Past:
        """The motors' past in place of the joints'."""
        return self if self.drive is None else Past(self.motors)


def _followed(
    past: tuple[tuple[float, ...], ...], path: Float, reach: Float
) -> tuple[tuple[float, ...], ...]:
    return tuple(
        turning_points((*points, *turning_points(path[:, i], reach[i])), reach[i])
        for i, points in enumerate(past)
    )


def turning_points(path: Sequence[float] | Float, reach: float = REACH) -> tuple[float, ...]:
    """Extremes of a path in their order, its last point included, without what a later swing of 2 reach wiped out."""
    x: Float = np.asarray(path, dtype=np.float64)
    # Most of a long path was wiped out: its end is looked at first. An extreme counts there as it does in the whole
    # path, unless it is where the look begins.
    size = SHORT
    while size < len(x):
        extremes = _extremes(x[-size:])
        first = _first_that_counts(extremes, reach)
        if first > 0:
            return tuple(extremes[first:].tolist())
        size *= 4
    extremes = _extremes(x)
    return tuple(extremes[_first_that_counts(extremes, reach) :].tolist())


def _extremes(x: Float) -> Float:
    """The first and the last point of a path, and where it turns round between them."""
    if len(x) < 3:
        return x
    step = np.diff(x)
    moves = step != 0
    if not moves.all():
        x, step = x[np.append(True, moves)], step[moves]
    if len(x) < 3:
        return x
    rises = step > 0
    ends = np.ones(len(x), dtype=np.bool_)
    np.not_equal(rises[1:], rises[:-1], out=ends[1:-1])
    return x[ends]


def _first_that_counts(x: Float, reach: float) -> int:
    # From the end backwards: once the path seen spans 2 reach, the state at the later extreme is known.
    if len(x) < 3:
        return 0
    backward = x[::-1]
    high, low = np.maximum.accumulate(backward), np.minimum.accumulate(backward)
    wide = np.flatnonzero(high - low >= 2 * reach)
    return 0 if not len(wide) else len(x) - 1 - int(wide[0])
