"""Compare the joints of a log with the joints of the robot: missing joints, joint limits and motor encoders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.log.log import ChannelMap
from dynid.recording import RawChunk
from dynid.robot.load import own_motors
from dynid.robot.model import RobotModel, carriers, on_branches_of

# Lock joints of the robot that are missing in the log (for example, fingers), and name them in a finding.

# rad or m. A joint that moves less is at rest: intended motions are larger, and finger encoders have this much noise.
STILL = 2e-3
# A joint may move by this fraction more than the range between its limits.
BEYOND = 0.05
# Maximum number of last joints whose motion is used without an effort: the jaws of two arms. A hand of twenty joints
# would need more computing time than all other joints, and its light fingers contribute little.
MOST_JAWS = 2
# Reasons why joints are locked.
WITHOUT = "without effort in the log"
UNCHANGED = "at rest, with an effort that never changes"
CONSTANT = "with a constant effort"
APART = "at rest, like all joints before and after them"
UNEXPLAINED = (
    "at rest, with an effort that differs from the load torque (a brake or friction carries the load)"
)
# Words in the names of finger links, and of the joints of a hand, whose positions have little effect on the arm. The
# link words exclude hand and gripper, because the last joint of the arm may move a link of this name.
_FINGERS = ("finger", "jaw", "claw", "thumb", "knuckle")
_HAND = (*_FINGERS, "gripper", "hand")
_GROUPS = ("position", "velocity", "effort")
_OF_JOINTS = (
    *_GROUPS, "motor_position", "motor_velocity", "temperature", "command_position", "command_velocity",
    "command_effort",
)  # fmt: skip
_LISTED = 8

# Advice for a joint without a logged effort.
WITHOUT_EFFORT = (
    "log it, or leave the joint out: the last joints of a chain with --tip LINK, "
    "a joint at rest with --lock JOINT=VALUE"
)


def hand_joints(robot: RobotModel) -> frozenset[str]:
    """Joints of a hand, from the names of the joints, or of finger links that carry only joints of a hand."""
    is_hand = [_contains_any(joint, _HAND) for joint in robot.tree_joint_names]
    alone = np.ones(robot.n_bodies, dtype=np.bool_)
    for i in reversed(range(robot.n_bodies)):
        is_hand[i] = is_hand[i] or (bool(alone[i]) and _contains_any(robot.body_names[i], _FINGERS))
        if robot.parent[i] >= 0:
            alone[robot.parent[i]] &= is_hand[i]
    return frozenset(robot.tree_joint_names[i] for i in robot.independent_bodies.tolist() if is_hand[i])


def _contains_any(name: str, words: Iterable[str]) -> bool:
    return any(word in name.lower() for word in words)


def absent_joints(mapping: ChannelMap | None, columns: Iterable[str], robot: RobotModel) -> tuple[str, ...]:
    """Joints that have no column of position, velocity or effort in a log.

    Parameters
    ----------
    mapping : ChannelMap, optional
        Mapping of the columns. None, or a mapping without positions, means dynid's standard column names.
    columns : iterable of str
        Columns of the log.
    robot : RobotModel
        Robot of the log.

    Returns
    -------
    tuple of str
        Absent joints; () if the log has none of the robot's joints, or has positions of joints that the robot does not
        have. In these two cases the names may differ, and the user must map them. If the columns are numbered, only
        the last joints may be absent.

    """
    have = set(columns)
    if mapping is None or not mapping.position:
        known = {*robot.tree_joint_names, *robot.locked}
        named = {
            column.removeprefix("q_") for column in have if column.startswith("q_") and ":" not in column
        }
        if named - known:
            return ()
        logged = [any(f"{prefix}_{j}" in have for prefix in ("q", "dq", "tau")) for j in robot.joint_names]
    else:
        logged = [any(_has_column(mapping, group, j, have) for group in _GROUPS) for j in robot.joint_names]
        if mapping.numbered and logged != sorted(logged, reverse=True):
            return ()
    return (
        tuple(j for j, is_logged in zip(robot.joint_names, logged, strict=True) if not is_logged)
        if any(logged)
        else ()
    )


def _has_column(mapping: ChannelMap, group: str, joint: str, have: set[str]) -> bool:
    channel = getattr(mapping, group).get(joint)
    # A column that the mapping names for this joint counts as present; if it is missing, an error follows later.
    return channel is not None and (channel.column in have or group not in mapping.made)


def without_joints(mapping: ChannelMap, joints: Iterable[str]) -> ChannelMap:
    """Remove all channels of some joints from a mapping."""
    gone = set(joints)

    def kept(group: Mapping[str, object]) -> dict[str, object]:
        return {joint: value for joint, value in group.items() if joint not in gone}

    changed: dict[str, object] = {name: kept(getattr(mapping, name)) for name in _OF_JOINTS}
    return replace(mapping, **changed)  # type: ignore[arg-type]  # each field is a mapping by joint


def without_effort(mapping: ChannelMap, joints: Iterable[str]) -> ChannelMap:
    """Remove the efforts of some joints from a mapping."""
    gone = set(joints)
    return replace(
        mapping, effort={joint: channel for joint, channel in mapping.effort.items() if joint not in gone}
    )


@dataclass
class EffortWatch:
    """Finds joints whose effort is missing, always 0 or constant, chunk by chunk.

    Parameters
    ----------
    robot : RobotModel
    mapping : ChannelMap
    mute : ndarray of bool, shape (n_joints,)
        Mask of the joints that had no effort other than 0 so far.

    """

    robot: RobotModel
    mapping: ChannelMap
    mute: Bool = field(init=False)

    def __post_init__(self) -> None:
        n = self.robot.n
        self.mute = np.ones(n, dtype=np.bool_)
        self._low, self._high = np.full(n, np.inf), np.full(n, -np.inf)
        self._least, self._most = np.full(n, np.inf), np.full(n, -np.inf)
        self._efforts = np.zeros(n, dtype=np.int64)

    def see(self, chunk: RawChunk) -> None:
        """Add the next rows."""
        if chunk.tau is not None:
            self.mute &= ~((chunk.tau != 0) & np.isfinite(chunk.tau)).any(axis=0)
            self._least, self._most = _widened(self._least, self._most, chunk.tau)
            self._efforts += np.isfinite(chunk.tau).sum(axis=0)
        self._low, self._high = _widened(self._low, self._high, chunk.q)

    @property
    def idle(self) -> bool:
        """Whether the search can stop because all joints have moved and have a useful effort."""
        return not (self._without_useful_effort() | self._at_rest()).any()

    @property
    def resting(self) -> dict[str, float]:
        """Position (rad or m) of each joint that is at rest in the whole log."""
        return {
            self.robot.joint_names[j]: float(0.5 * self._low[j] + 0.5 * self._high[j])
            for j in np.flatnonzero(self._at_rest())
        }

    def joints_to_lock(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Joints to lock.

        A joint is locked in three cases. It has no useful effort and carries no joint with one (except for at most two
        jaws that rotate within known limits). It has no useful effort and is at rest. Or it is at rest together with
        all joints before and after it: then its model torque is constant, and the measured torque differs from it by
        an unknown static friction. A constant effort is not useful. Other joints without a useful effort are
        `unmeasured`.

        Returns
        -------
        dict of str to dict of str to tuple of float, rad or m
            Joints by the reason for locking, each with the middle and the range of its motion.

        """
        names, ends, apart = self.robot.joint_names, self._last_joints(), self._resting_branches()
        jaws = self._jaws()
        if self._without_useful_effort().all() or apart.all():
            return {}
        by_reason: dict[str, dict[str, tuple[float, float]]] = {}
        for j in np.flatnonzero(self._without_useful_effort() | apart).tolist():
            moved = float(self._high[j] - self._low[j])
            last = ends[j] and j not in jaws
            if last or apart[j] or self._can_be_locked(j):
                steady = UNCHANGED if moved <= STILL else CONSTANT
                why = WITHOUT if self.mute[j] else APART if apart[j] and not ends[j] else steady
                by_reason.setdefault(why, {})[names[j]] = (
                    float(0.5 * self._low[j] + 0.5 * self._high[j]) if moved >= 0 else 0.0,
                    max(moved, 0.0),
                )
        return by_reason

    def unmeasured(self) -> tuple[str, ...]:
        """Moving joints without a useful effort that cannot be locked.

        These joints carry joints with an effort, or are at most two jaws that rotate within known limits.

        Raises
        ------
        InputError
            If one of these joints has no effort channel and shares its motor with other joints.

        """
        names, ends, alone = self.robot.joint_names, self._last_joints(), own_motors(self.robot)
        jaws = self._jaws()
        unmeasured = []
        for j in np.flatnonzero(self._without_useful_effort() & ~self._resting_branches()).tolist():
            if self._without_useful_effort().all() or self._can_be_locked(j) or (ends[j] and j not in jaws):
                continue
            if alone[j]:
                unmeasured.append(names[j])
            elif names[j] not in self.mapping.effort:
                raise InputError(
                    "no-effort",
                    found=f"a joint without effort that moves by {self._high[j] - self._low[j]:.3g} and shares its "
                    "motors with other joints",
                    expected="the torque or current of every motor that drives several joints",
                    do=f"map its effort, or lock it: --lock '{names[j]}=VALUE'",
                    place=Place(joint=names[j]),
                )
        return tuple(unmeasured)

    def _can_be_locked(self, j: int) -> bool:
        # A joint in the chain can be locked if it is at rest and shares no motor with another joint.
        independent = self.robot.joint_names[j] not in self.mapping.effort or bool(own_motors(self.robot)[j])
        return independent and bool(self._high[j] - self._low[j] <= STILL)

    def _jaws(self) -> frozenset[int]:
        # At most MOST_JAWS revolute last joints without an effort that move within their limits. The load of a revolute
        # jaw on the wrist depends on its angle; the weight of a sliding finger does not. A hand joint that exceeds its
        # limits is logged in another unit. An arm joint without limits is accepted: it is a pendulum without a motor.
        robot = self.robot
        moved, free = self._high - self._low, (1.0 + BEYOND) * (robot.limits.upper - robot.limits.lower)
        turns = self._last_joints() & own_motors(robot) & ~np.array(robot.prismatic)
        hands = np.isin(robot.joint_names, sorted(hand_joints(robot)))
        jaws = np.flatnonzero(turns & (moved > STILL) & (moved <= free) & (np.isfinite(free) | ~hands))
        return frozenset(jaws.tolist()) if len(jaws) <= MOST_JAWS else frozenset()

    def _at_rest(self) -> Bool:
        # A joint without any position has low = inf > high = -inf and does not count as at rest.
        return np.asarray((self._low <= self._high) & (self._high - self._low <= STILL))

    def _without_useful_effort(self) -> Bool:
        # A constant effort is not measured: gravity on a wrist changes with the pose of the arm, and a constant finger
        # effort is the commanded grip force. An effort with a single sample is accepted, because it cannot change.
        return self.mute | ((self._efforts > 1) & (self._most <= self._least))

    def _resting_branches(self) -> Bool:
        # Joints at rest on branches of the robot where all other joints are at rest, too.
        return self._at_rest() & ~on_branches_of(self.robot, ~self._at_rest())

    def _last_joints(self) -> Bool:
        # Joints without a useful effort that carry no joint with a useful effort.
        silent = self._without_useful_effort()
        return np.asarray(silent & ~carriers(self.robot, ~silent))


def _widened(low: Float, high: Float, values: Float) -> tuple[Float, Float]:
    fine = np.isfinite(values)
    return (
        np.minimum(low, values.min(axis=0, initial=np.inf, where=fine)),
        np.maximum(high, values.max(axis=0, initial=-np.inf, where=fine)),
    )


def reason_of(why: str, joints: Mapping[str, tuple[float, float]], robot: RobotModel) -> str:
    """Text that states why joints are locked, and lists the joints whose motion is ignored.

    Parameters
    ----------
    why : str
        Reason for locking.
    joints : mapping of str to tuple of float, rad or m
        Position and range of motion of each joint.
    robot : RobotModel
        Robot of the joints.

    """
    moving = [
        f"'{name}' by {moved:.3g} {'m' if robot.prismatic[robot.joint_names.index(name)] else 'rad'}"
        for name, (_, moved) in joints.items()
        if moved > STILL
    ]
    return why + (f" (the motion of {', '.join(moving[:_LISTED])} is ignored)" if moving else "")


# Detect a wrong zero: positions are outside the joint limits of the URDF in nearly the whole log.

# A joint may exceed its limits by this fraction of their range, and a revolute joint by ANGLE_BEYOND (rad) in addition:
# the limits in a URDF are often slightly tighter than the limits of the robot.
JOINT_LIMITS_BEYOND, ANGLE_BEYOND = 0.1, 0.05
# The zero is wrong if more than this share of the rows is outside the limits. With a correct zero, a motion exceeds its
# limits only for a short time; with a wrong zero, some positions may still be within the limits.
OUTSIDE = 0.8
TURN = 2 * np.pi  # rad
# If the sine of the angle between gravity and an axis is smaller, rotation about the axis changes no gravity torque.
ALONG = 1e-6
_JOINT_LIMITS_LISTED = 4  # joints listed in a message


def room(robot: RobotModel) -> tuple[Float, Float]:
    """Lowest and highest allowed position (n,), rad or m: the limits and a margin, infinite without limits."""
    low, high = robot.limits.lower, robot.limits.upper
    limited = np.isfinite(low) & np.isfinite(high) & (high > low)
    slack = np.where(limited, JOINT_LIMITS_BEYOND * np.where(limited, high - low, 0.0), 0.0)
    slack += np.where(robot.prismatic, 0.0, ANGLE_BEYOND)
    return np.where(limited, low - slack, -np.inf), np.where(limited, high + slack, np.inf)


class RangeWatch:
    """Counts the rows in which each joint is outside its limits, chunk by chunk."""

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
        """Count the rows outside the limits in the next positions (T, n) of a trajectory, rad or m."""
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
            elif np.isfinite(low):  # only some positions are outside, or some are missing
                self._here[k, j] += ((q[:, j] < low) | (q[:, j] > high)).sum()

    def end(self) -> None:
        """End a trajectory; the positions of the next trajectory may differ by whole turns."""
        self._outside += self._here[0]
        self._turned += self._here.min(axis=0)
        self._here[:], self._shifts = 0.0, None

    @property
    def share(self) -> Float:
        """Share (n,) of the rows in which the logged positions are outside the limits."""
        return self._outside / max(self._rows, 1)

    @property
    def turned(self) -> Float:
        """Share (n,) of the rows outside the limits, for the number of whole turns that minimizes it per trajectory."""
        return self._turned / max(self._rows, 1)

    def displaced(self, lower: Float, upper: Float) -> Bool:
        """Mask (n,) of joints outside their limits whose range of positions would fit with another zero.

        Parameters
        ----------
        lower, upper : ndarray, shape (n_joints,), rad or m
            Range of the logged positions.

        """
        fits = self.low - lower <= self.high - upper
        return np.asarray((self.turned > OUTSIDE) & fits)


def common_shift(robot: RobotModel, lower: Float, upper: Float, joints: Sequence[int]) -> tuple[float, float]:
    """Smallest and largest shift that brings all given joints within their limits.

    Parameters
    ----------
    robot : RobotModel
        Robot with the limits.
    lower, upper : ndarray, shape (n_joints,), rad or m
        Range of the logged positions.
    joints : sequence of int
        Joint indices.

    Returns
    -------
    tuple of float, rad or m
        No shift fits if the first value exceeds the second.

    """
    low, high = room(robot)
    of = list(joints)
    return float((low - lower)[of].max(initial=-np.inf)), float((high - upper)[of].min(initial=np.inf))


def half_turn(least: float, most: float) -> float | None:
    """Odd multiple of half a turn (rad) closest to the middle of an interval of shifts; None if it is outside.

    Servos and absolute encoders count from 0 to one turn, with the zero of the joint at half a turn.
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
    """Report joints of an arm that are outside their limits in nearly the whole log.

    The finding outside-limits is an error, or a warning if no torque depends on the zero of these joints. If whole
    turns explain the positions, the finding is a note (whole-turns).

    Parameters
    ----------
    robot : RobotModel
        Robot with the limits.
    mapping : ChannelMap
        Mapping with offsets and units of the positions.
    watch : RangeWatch
        Counts of rows outside the limits.
    lower, upper : ndarray, shape (n_joints,), rad or m
        Range of the logged positions.
    diagnostics : Diagnostics
        Collects the findings.

    """
    hands = hand_joints(robot)
    arm = np.array([name not in hands for name in robot.joint_names])
    displaced = arm & watch.displaced(lower, upper)
    wording = _LimitText(robot, mapping, lower, upper, watch)
    around = arm & (watch.share > OUTSIDE) & (watch.turned <= OUTSIDE)
    if around.any():
        diagnostics.note(
            "whole-turns",
            f"{wording.readings(around, watch.share)}: off by whole turns. The dynamics do not change; subtract the "
            "turns to compare poses with the URDF",
        )
    if not displaced.any():
        return
    finding = f"positions outside the joint limits: {wording.readings(displaced, watch.turned)}"
    expected = "positions relative to the zero of the URDF"
    if (displaced <= _zero_is_irrelevant(robot)).all():
        diagnostics.warn(
            "outside-limits",
            f"{finding}; no torque depends on the zero of these joints; {wording.advice(displaced)}",
        )
    else:
        diagnostics.claim("outside-limits", found=finding, expected=expected, do=wording.advice(displaced))


def _zero_is_irrelevant(robot: RobotModel) -> Bool:
    """Mask (n,) of joints whose zero does not affect any torque: prismatic or vertical revolute joints of the base."""
    indifferent = np.zeros(robot.n, dtype=np.bool_)
    gravity = np.asarray(robot.gravity)
    for j, i in enumerate(robot.independent_bodies.tolist()):
        if robot.parent[i] >= 0 or np.count_nonzero(robot.projection[:, j]) > 1:
            continue
        axis = robot.T_parent_joint[i][:3, :3] @ robot.axis[i]
        across = np.linalg.norm(np.cross(axis, gravity)) <= ALONG * np.linalg.norm(gravity)
        indifferent[j] = bool(robot.prismatic[j] or across)
    return indifferent


class _LimitText:
    """Texts about joints outside their limits and about offsets that correct them, in the units of the log."""

    def __init__(
        self, robot: RobotModel, mapping: ChannelMap, lower: Float, upper: Float, watch: RangeWatch
    ) -> None:
        self.robot, self.mapping = robot, mapping
        self.lower, self.upper, self.watch = lower, upper, watch

    def readings(self, joints: Bool, share: Float) -> str:
        """List the joints with their range of positions, their limits, and the share of the log outside the limits."""
        texts = []
        for j in np.flatnonzero(joints).tolist():
            unit = "m" if self.robot.prismatic[j] else "rad"
            limits = self.robot.limits
            texts.append(
                f"{self.robot.joint_names[j]} from {self.lower[j]:.3g} to {self.upper[j]:.3g} {unit}, limits "
                f"{limits.lower[j]:.3g} to {limits.upper[j]:.3g}, {100 * share[j]:.0f} % of the log"
            )
        more = f" and {len(texts) - _JOINT_LIMITS_LISTED} more" if len(texts) > _JOINT_LIMITS_LISTED else ""
        return "; ".join(texts[:_JOINT_LIMITS_LISTED]) + more

    def advice(self, displaced: Bool) -> str:
        """Advice on offsets or signs that bring the joints within their limits."""
        names, of = self.robot.joint_names, np.flatnonzero(displaced).tolist()
        low, high = self.watch.low, self.watch.high
        if all(low[j] <= -self.upper[j] and -self.lower[j] <= high[j] for j in of):
            signs = ", ".join(f"{names[j]} = -1" for j in of)
            turned = f"or, if signs are flipped, set position.sign = {{ {signs} }}; "
        else:
            turned = ""
        shift = self._common_half_turn(displaced)
        if shift is not None:
            every = [j for j in range(self.robot.n) if not self.robot.prismatic[j]]
            return (
                f"if the zero is off by half a turn, set {self._table(dict.fromkeys(every, shift))} under [log]; "
                f"{turned}correct the limits if they are wrong"
            )
        ranges = {j: common_shift(self.robot, self.lower, self.upper, [j]) for j in of}
        halves = {
            j: None if self.robot.prismatic[j] else half_turn(*interval) for j, interval in ranges.items()
        }
        known = {j: half for j, half in halves.items() if half is not None}
        parts = [f"{self._table(known)} (half a turn)"] if known else []
        parts += [
            f"position.offset of {names[j]} between {self._value(j, least)} and {self._value(j, most)}"
            for j, (least, most) in ranges.items()
            if j not in known
        ]
        return f"set {', '.join(parts)} under [log]; {turned}correct the limits if they are wrong"

    def _common_half_turn(self, displaced: Bool) -> float | None:
        """Half turn that brings all revolute joints within their limits; None unless several joints are outside."""
        hands = hand_joints(self.robot)
        turning = ~np.array(self.robot.prismatic)
        needed = turning & np.array([name not in hands for name in self.robot.joint_names])
        if np.count_nonzero(displaced) < 2 or (displaced & ~turning).any():
            return None
        joints = np.flatnonzero(needed | displaced).tolist()
        return half_turn(*common_shift(self.robot, self.lower, self.upper, joints))

    def _table(self, shifts: Mapping[int, float]) -> str:
        offsets = ", ".join(
            f"{self.robot.joint_names[j]} = {self._value(j, shift)}" for j, shift in shifts.items()
        )
        return f"position.offset = {{ {offsets} }}"

    def _value(self, joint: int, shift: float) -> str:
        """Text of the present offset plus a shift (rad or m), in the unit of the joint's column."""
        name = self.robot.joint_names[joint]
        channel = self.mapping.position.get(name)
        whole = self.mapping.position_offset.get(name, 0.0) + shift
        return f"{whole / (channel.factor if channel is not None else 1.0):.6g}"


# Compare the two encoders of a joint: the motor position, divided by the gear ratio, must follow the link position.

FOLLOWS = 0.8  # if the correlation is smaller, the two positions are not of the same joint
SLOPE = (0.5, 2.0)  # allowed ratio of motor to link motion; elastic joints deviate from 1
RATIO_MATCHES = 0.1  # a slope within this relative deviation of the gear ratio is the gear ratio
FAR_APART = 0.5  # rad or m; a larger mean difference is an offset, not an elastic deflection
STRIDE = 8  # rows; only every eighth row is compared


class EncoderWatch:
    """Compares motor with link positions, chunk by chunk."""

    def __init__(self, robot: RobotModel, mapping: ChannelMap) -> None:
        self.robot, self.mapping = robot, mapping
        n = robot.n
        self.origin: Float | None = None
        self.count = 0
        self.sums = np.zeros((2, n))
        self.squares = np.zeros((3, n))

    def see(self, chunk: RawChunk) -> None:
        """Add a chunk to the sums."""
        if chunk.theta is None:
            return
        q, theta = chunk.q[::STRIDE], chunk.theta[::STRIDE]
        good = np.isfinite(q).all(axis=1) & np.isfinite(theta).all(axis=1)
        if not good.any():
            return
        pair = np.stack([q[good], theta[good]])
        if self.origin is None:
            self.origin = pair[:, 0].copy()
        pair = pair - self.origin[:, None]
        self.count += pair.shape[1]
        self.sums += pair.sum(axis=1)
        self.squares += np.stack([(pair[0] ** 2).sum(0), (pair[0] * pair[1]).sum(0), (pair[1] ** 2).sum(0)])

    def finish(self, moved: Bool, sink: Diagnostics) -> None:
        """Compare the motor and link positions of the joints that moved.

        A finding reports a motor position that differs by the gear ratio or another factor, has the opposite sign, or
        belongs to another joint.

        Parameters
        ----------
        moved : ndarray of bool, shape (n_joints,)
            Joints that moved.
        sink : Diagnostics
            Collects the findings.

        """
        if self.origin is None:
            return
        mean = self.sums / self.count
        qq, qt, tt = self.squares / self.count - np.stack([mean[0] ** 2, mean[0] * mean[1], mean[1] ** 2])
        for joint in np.flatnonzero(moved).tolist():
            name = self.robot.joint_names[joint]
            if name not in self.mapping.motor_position:
                continue
            with np.errstate(invalid="ignore", divide="ignore"):
                self._judge(joint, qt[joint] / qq[joint], qt[joint] / np.sqrt(qq[joint] * tt[joint]), sink)
            apart = float((self.origin + mean)[1, joint] - (self.origin + mean)[0, joint])
            if abs(apart) > FAR_APART:
                sink.warn(
                    "encoders-apart",
                    f"the motor and link positions differ by {apart:.3g} on average: set log.motor_position.offset "
                    "if the encoders have different zeros",
                    Place(joint=name),
                )

    def _judge(self, joint: int, slope: float, correlation: float, sink: Diagnostics) -> None:
        place = Place(joint=self.robot.joint_names[joint])
        if not abs(correlation) > FOLLOWS:
            sink.claim(
                "motor-position",
                found=f"a motor position that does not follow the joint (correlation {correlation:.2g})",
                expected="the motor and link positions of the same joint",
                do="check the columns under [log] motor_position",
                place=place,
            )
            return
        if slope < 0:
            sink.claim(
                "motor-position-sign",
                found=f"a motor position that moves opposite to the joint (slope {slope:.3g})",
                expected="the same direction",
                do="set log.motor_position.sign of this joint, or the sign of its gear_ratio",
                place=place,
            )
            return
        if SLOPE[0] < slope < SLOPE[1]:
            return
        ratio = abs(float(self.robot.drive.gear_ratio[joint]))
        finding = f"a motor position that moves {slope:.3g} times as far as the joint"
        if abs(slope / ratio - 1) < RATIO_MATCHES:
            sink.claim(
                "motor-position-side",
                found=f"{finding}; its gear ratio is {ratio:.3g}",
                expected='a motor position divided by the gear ratio, or side = "motor"',
                do='set log.motor_position.side = "motor"',
                place=place,
            )
        elif abs(slope * ratio - 1) < RATIO_MATCHES:
            sink.claim(
                "motor-position-side",
                found=f"{finding}; the gear ratio {ratio:.3g} was applied to a column that is already reflected",
                expected="the gear ratio applied once",
                do='set log.motor_position.side = "link"',
                place=place,
            )
        else:
            sink.claim(
                "unit-suspicion",
                found=finding,
                expected=f"a ratio of 1, or the gear ratio of {ratio:.3g}",
                do="declare unit (57.3 = degrees) and side of log.motor_position, and the gear ratio",
                place=place,
            )
