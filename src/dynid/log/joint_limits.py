"""Positions that lie outside of the description's joint limits throughout: the log counts from another zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.log.absent import hand_joints
from dynid.log.log import ChannelMap
from dynid.robot.model import RobotModel

# A joint may leave its range by this share of it, and a joint that turns this much further, rad: limits are those of
# the description, which the arm's maker or its user may have drawn a little tighter.
BEYOND, BESIDE = 0.1, 0.05
# Share of the rows that lie further outside where a joint counts from another zero. A motion that only passes its
# limits turns back; about a wrong zero it has a part in which readings happen to be allowed.
OUTSIDE = 0.8
TURN = 2 * np.pi
# Gravity along an axis to this sine: turning about it leaves all weights as they are.
ALONG = 1e-6
_LISTED = 4  # joints whose readings are told


def room(robot: RobotModel) -> tuple[Float, Float]:
    """Least and largest position (n,) of each joint that its limits allow with some slack; infinite without limits."""
    low, high = robot.limits.lower, robot.limits.upper
    limited = np.isfinite(low) & np.isfinite(high) & (high > low)
    slack = np.where(limited, BEYOND * np.where(limited, high - low, 0.0), 0.0)
    slack += np.where(robot.prismatic, 0.0, BESIDE)
    return np.where(limited, low - slack, -np.inf), np.where(limited, high + slack, np.inf)


class RangeWatch:
    """Counts the rows in which joints lie outside of their limits, while a log passes by.

    share, turned: (n,) share of the rows, as logged, and with the whole turns of each trajectory that suit it best.
    """

    def __init__(self, robot: RobotModel) -> None:
        self.low, self.high = room(robot)
        self._turns = np.isfinite(self.low) & ~np.array(robot.prismatic)
        self._middle = 0.5 * np.where(self._turns, self.low, 0.0) + 0.5 * np.where(
            self._turns, self.high, 0.0
        )
        self._rows = 0
        self._outside, self._turned = np.zeros(robot.n), np.zeros(robot.n)
        self._shifts: Float | None = None
        self._here = np.zeros((4, robot.n))

    def see(self, q: Float) -> None:
        """Looks at the next positions (T, n) of a trajectory, in rad and m."""
        if not len(q):
            return
        if self._shifts is None:
            first = np.where(np.isfinite(q[0]), q[0], self._middle)
            nearest = np.round((self._middle - first) / TURN)
            whole = np.stack([0.0 * nearest, nearest - 1.0, nearest, nearest + 1.0])
            self._shifts = TURN * np.where(self._turns, whole, 0.0)
        self._rows += len(q)
        least, most = q.min(axis=0), q.max(axis=0)
        for k, j in np.ndindex(self._here.shape):
            shift = self._shifts[k, j]
            low, high = self.low[j] - shift, self.high[j] - shift
            if low <= least[j] and most[j] <= high:
                continue
            if most[j] < low or least[j] > high:
                self._here[k, j] += len(q)
            elif np.isfinite(low):  # some are, or some are missing
                self._here[k, j] += ((q[:, j] < low) | (q[:, j] > high)).sum()

    def end(self) -> None:
        """Ends a trajectory: the next one may be whole turns away."""
        self._outside += self._here[0]
        self._turned += self._here.min(axis=0)
        self._here[:], self._shifts = 0.0, None

    @property
    def share(self) -> Float:
        """Of the rows, as logged."""
        return self._outside / max(self._rows, 1)

    @property
    def turned(self) -> Float:
        """Of the rows, each trajectory moved by whole turns."""
        return self._turned / max(self._rows, 1)

    def displaced(self, lower: Float, upper: Float) -> Bool:
        """Joints (n,) outside that another zero would bring inside.    lower, upper: (n,) range read."""
        fits = self.low - lower <= self.high - upper
        return np.asarray((self.turned > OUTSIDE) & fits)


def common_shift(robot: RobotModel, lower: Float, upper: Float, joints: Sequence[int]) -> tuple[float, float]:
    """Least and largest shift with which all these joints lie within their limits; empty where least > largest.

    lower, upper: (n,) range read.
    """
    low, high = room(robot)
    of = list(joints)
    return float((low - lower)[of].max(initial=-np.inf)), float((high - upper)[of].min(initial=np.inf))


def half_turn(least: float, most: float) -> float | None:
    """The odd number of half turns, in rad, that lies deepest within a range of shifts; None = none does.

    Servos and absolute encoders count from 0 to a turn and have their zero in the middle.
    """
    if not least <= most or not np.isfinite([least, most]).all():
        return None
    middle = 0.5 * least + 0.5 * most
    nearest = 0.5 * TURN * (2 * np.round((middle / (0.5 * TURN) - 1) / 2) + 1)
    return float(nearest) if least <= nearest <= most else None


def check_limits(
    robot: RobotModel,
    mapping: ChannelMap,
    watch: RangeWatch,
    lower: Float,
    upper: Float,
    diagnostics: Diagnostics,
) -> None:
    """Claims outside-limits for joints of an arm that lie outside of their limits nearly throughout.

    A warning where only joints are concerned whose zero no torque depends on, a note (whole-turns) where whole turns
    explain it.
    """
    hands = hand_joints(robot)
    arm = np.array([name not in hands for name in robot.joint_names])
    displaced = arm & watch.displaced(lower, upper)
    told = _Told(robot, mapping, lower, upper, watch)
    around = arm & (watch.share > OUTSIDE) & (watch.turned <= OUTSIDE)
    if around.any():
        diagnostics.note(
            "whole-turns",
            f"{told.readings(around, watch.share)}: whole turns away from them. The dynamics are the same; where poses "
            "of the log are compared with the description's, count from its zero",
        )
    if not displaced.any():
        return
    found = f"positions outside of the joints' limits: {told.readings(displaced, watch.turned)}"
    expected = "positions that count from the description's zero"
    if (displaced <= _indifferent(robot)).all():
        diagnostics.warn(
            "outside-limits",
            f"{found}; expected {expected}: no torque depends on the zero of this joint; {told.advice(displaced)}",
        )
    else:
        diagnostics.claim("outside-limits", found=found, expected=expected, do=told.advice(displaced))


def _indifferent(robot: RobotModel) -> Bool:
    """Joints (n,) whose zero no torque depends on: slides of the base, and turns of it about gravity's line."""
    found = np.zeros(robot.n, dtype=np.bool_)
    gravity = np.asarray(robot.gravity)
    for j, i in enumerate(robot.independent_bodies.tolist()):
        if robot.parent[i] >= 0 or np.count_nonzero(robot.projection[:, j]) > 1:
            continue
        axis = robot.T_parent_joint[i][:3, :3] @ robot.axis[i]
        across = np.linalg.norm(np.cross(axis, gravity)) <= ALONG * np.linalg.norm(gravity)
        found[j] = bool(robot.prismatic[j] or across)
    return found


class _Told:
    """What is said of joints and of their zeros, in the units of the log."""

    def __init__(
        self, robot: RobotModel, mapping: ChannelMap, lower: Float, upper: Float, watch: RangeWatch
    ) -> None:
        self.robot, self.mapping = robot, mapping
        self.lower, self.upper, self.watch = lower, upper, watch

    def readings(self, joints: Bool, share: Float) -> str:
        """Range, limits and share of the log of joints."""
        said = []
        for j in np.flatnonzero(joints).tolist():
            unit = "m" if self.robot.prismatic[j] else "rad"
            limits = self.robot.limits
            said.append(
                f"{self.robot.joint_names[j]} from {self.lower[j]:.3g} to {self.upper[j]:.3g} {unit}, limits "
                f"{limits.lower[j]:.3g} to {limits.upper[j]:.3g}, {100 * share[j]:.0f} % of the log"
            )
        more = f" and {len(said) - _LISTED} more" if len(said) > _LISTED else ""
        return "; ".join(said[:_LISTED]) + more

    def advice(self, displaced: Bool) -> str:
        """The offsets that would bring joints within their limits, or the sign."""
        names, of = self.robot.joint_names, np.flatnonzero(displaced).tolist()
        low, high = self.watch.low, self.watch.high
        if all(low[j] <= -self.upper[j] and -self.lower[j] <= high[j] for j in of):
            signs = ", ".join(f"{names[j]} = -1" for j in of)
            turned = f"position.sign = {{ {signs} }} does, too, if they are turned; "
        else:
            turned = ""
        shift = self._of_all(displaced)
        if shift is not None:
            every = [j for j in range(self.robot.n) if not self.robot.prismatic[j]]
            return (
                f"zero is half a turn away? {self._table(dict.fromkeys(every, shift))} brings every joint within its "
                f"limits; {turned}mend the limits where they are wrong"
            )
        ranges = {j: common_shift(self.robot, self.lower, self.upper, [j]) for j in of}
        halves = {j: None if self.robot.prismatic[j] else half_turn(*one) for j, one in ranges.items()}
        known = {j: one for j, one in halves.items() if one is not None}
        said = [f"{self._table(known)}, half a turn"] if known else []
        said += [
            f"an offset of {names[j]} between {self._value(j, least)} and {self._value(j, most)}"
            for j, (least, most) in ranges.items()
            if j not in known
        ]
        return (
            f"{', '.join(said)} under [log] brings them within their limits; {turned}mend the limits where "
            "they are wrong"
        )

    def _of_all(self, displaced: Bool) -> float | None:
        """The half turn that brings every joint that turns within its limits, where several lie outside."""
        hands = hand_joints(self.robot)
        turning = ~np.array(self.robot.prismatic)
        needed = turning & np.array([name not in hands for name in self.robot.joint_names])
        if np.count_nonzero(displaced) < 2 or (displaced & ~turning).any():
            return None
        joints = np.flatnonzero(needed | displaced).tolist()
        return half_turn(*common_shift(self.robot, self.lower, self.upper, joints))

    def _table(self, shifts: Mapping[int, float]) -> str:
        offsets = ", ".join(
            f"{self.robot.joint_names[j]} = {self._value(j, one)}" for j, one in shifts.items()
        )
        return f"position.offset = {{ {offsets} }}"

    def _value(self, joint: int, shift: float) -> str:
        """The offset in the unit of the joint's column that moves it by a shift from where it is."""
        name = self.robot.joint_names[joint]
        channel = self.mapping.position.get(name)
        whole = self.mapping.position_offset.get(name, 0.0) + shift
        return f"{whole / (channel.factor if channel is not None else 1.0):.6g}"
