"""The joints of a log against those of the robot: missing ones, limits, and pairs of encoders."""

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

# Joints of a robot that a log does not hold, such as fingers: they are held, and that is said.

# rad or m; no joint that moves on purpose moves less, and encoders of fingers are as noisy.
STILL = 2e-3
# Of the way between a joint's limits: by how much further it may have moved.
BEYOND = 0.05
# Of last joints whose motion is used without an effort: the jaws of two arms. A hand of twenty joints would cost more
# than all others together, and its light fingers tell little.
MOST_JAWS = 2
# Why joints are held.
WITHOUT = "without effort in the log"
UNCHANGED = "at rest, with an effort that never changes"
CONSTANT = "with one and the same effort throughout"
APART = "at rest, with all that they carry and that carries them"
UNEXPLAINED = (
    "at rest, with an effort that is not the torque of what they carry, as where a brake or friction holds it"
)
# Words in names of joints of hands, whose place hardly matters to an arm, and of their bodies: the last joint of an arm
# may move a body called hand or gripper.
_FINGERS = ("finger", "jaw", "claw", "thumb", "knuckle")
_HAND = (*_FINGERS, "gripper", "hand")
_GROUPS = ("position", "velocity", "effort")
_OF_JOINTS = (
    *_GROUPS, "motor_position", "motor_velocity", "temperature", "command_position", "command_velocity",
    "command_effort",
)  # fmt: skip
_LISTED = 8

# What to do where the effort of a joint was not logged.
WITHOUT_EFFORT = (
    "log it, or leave the joint out: the last ones of a chain with --tip LINK, "
    "one that stood still with --lock JOINT=VALUE"
)


def hand_joints(robot: RobotModel) -> frozenset[str]:
    """Joints of a hand: by their names, or by those of the bodies that they move, where they carry none but such."""
    found = [_has(joint, _HAND) for joint in robot.tree_joint_names]
    alone = np.ones(robot.n_bodies, dtype=np.bool_)
    for i in reversed(range(robot.n_bodies)):
        found[i] = found[i] or (bool(alone[i]) and _has(robot.body_names[i], _FINGERS))
        if robot.parent[i] >= 0:
            alone[robot.parent[i]] &= found[i]
    return frozenset(robot.tree_joint_names[i] for i in robot.independent_bodies.tolist() if found[i])


def _has(name: str, words: Iterable[str]) -> bool:
    return any(word in name.lower() for word in words)


def absent_joints(mapping: ChannelMap | None, columns: Iterable[str], robot: RobotModel) -> tuple[str, ...]:
    """The joints of which a log has no column: neither position nor velocity nor effort.

    mapping: None or without positions = dynid's own column names.
    () as well where the log holds none of the robot's joints, or positions of joints that the robot does not know: it
    may be a matter of names then, which the mapping is to settle. The last joints alone may be absent where columns are
    numbered.
    """
    have = set(columns)
    if mapping is None or not mapping.position:
        known = {*robot.tree_joint_names, *robot.locked}
        named = {one.removeprefix("q_") for one in have if one.startswith("q_") and ":" not in one}
        if named - known:
            return ()
        logged = [any(f"{prefix}_{j}" in have for prefix in ("q", "dq", "tau")) for j in robot.joint_names]
    else:
        logged = [any(_there(mapping, group, j, have) for group in _GROUPS) for j in robot.joint_names]
        if mapping.numbered and logged != sorted(logged, reverse=True):
            return ()
    return (
        tuple(j for j, one in zip(robot.joint_names, logged, strict=True) if not one) if any(logged) else ()
    )


def _there(mapping: ChannelMap, group: str, joint: str, have: set[str]) -> bool:
    channel = getattr(mapping, group).get(joint)
    # A column that was named for this very joint is missed where it is missing.
    return channel is not None and (channel.column in have or group not in mapping.made)


def without_joints(mapping: ChannelMap, joints: Iterable[str]) -> ChannelMap:
    """The mapping without some joints."""
    gone = set(joints)

    def kept(group: Mapping[str, object]) -> dict[str, object]:
        return {joint: value for joint, value in group.items() if joint not in gone}

    changed: dict[str, object] = {name: kept(getattr(mapping, name)) for name in _OF_JOINTS}
    return replace(mapping, **changed)  # type: ignore[arg-type]  # fields of one type, each a mapping by joint


def without_effort(mapping: ChannelMap, joints: Iterable[str]) -> ChannelMap:
    """The mapping without the efforts of some joints."""
    gone = set(joints)
    return replace(mapping, effort={joint: one for joint, one in mapping.effort.items() if joint not in gone})


@dataclass
class EffortWatch:
    """Joints whose effort says nothing of the motion, while a log passes by.

    mute: (n,) joints without effort, or with one that is always 0, so far.
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
        """Looks at the next rows."""
        if chunk.tau is not None:
            self.mute &= ~((chunk.tau != 0) & np.isfinite(chunk.tau)).any(axis=0)
            self._least, self._most = _widened(self._least, self._most, chunk.tau)
            self._efforts += np.isfinite(chunk.tau).sum(axis=0)
        self._low, self._high = _widened(self._low, self._high, chunk.q)

    @property
    def idle(self) -> bool:
        """Whether no joint can be found any more: all moved, and all have an effort."""
        return not (self._silent() | self._stood()).any()

    @property
    def resting(self) -> dict[str, float]:
        """Joints that stood still throughout, and where."""
        return {
            self.robot.joint_names[j]: float(0.5 * self._low[j] + 0.5 * self._high[j])
            for j in np.flatnonzero(self._stood())
        }

    def held(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Joints that are to be held, by reason: (where, in the middle of their motion; its range).

        Others whose effort says nothing are `unmeasured`.

        Those that carry no joint with an effort, unless they are few and turn within known limits, those without an
        effort that stand still, and those that stand still with all that they carry and that carries them: the model's
        torque is one number then, and what is measured of it differs by friction at rest. An effort of a joint at rest
        that never changes is none.
        """
        names, ends, apart = self.robot.joint_names, self._ends(), self._apart()
        jaws = self._jaws()
        if self._silent().all() or apart.all():
            return {}
        found: dict[str, dict[str, tuple[float, float]]] = {}
        for j in np.flatnonzero(self._silent() | apart).tolist():
            moved = float(self._high[j] - self._low[j])
            last = ends[j] and j not in jaws
            if last or apart[j] or self._may_be_held(j):
                steady = UNCHANGED if moved <= STILL else CONSTANT
                why = WITHOUT if self.mute[j] else APART if apart[j] and not ends[j] else steady
                found.setdefault(why, {})[names[j]] = (
                    float(0.5 * self._low[j] + 0.5 * self._high[j]) if moved >= 0 else 0.0,
                    max(moved, 0.0),
                )
        return found

    def unmeasured(self) -> tuple[str, ...]:
        """Joints without an effort that move and carry joints with one, or are few and turn within known limits.

        Raises InputError for such a joint without a channel of effort whose motor moves other joints, too.
        """
        names, ends, alone = self.robot.joint_names, self._ends(), own_motors(self.robot)
        jaws = self._jaws()
        found = []
        for j in np.flatnonzero(self._silent() & ~self._apart()).tolist():
            if self._silent().all() or self._may_be_held(j) or (ends[j] and j not in jaws):
                continue
            if alone[j]:
                found.append(names[j])
            elif names[j] not in self.mapping.effort:
                raise InputError(
                    "no-effort",
                    found=f"a joint without effort that moves by {self._high[j] - self._low[j]:.3g}, carries joints "
                    "with one and shares motors with others",
                    expected="torque or current of every motor that several joints share",
                    do=f"map its effort, or hold it: --lock '{names[j]}=VALUE'",
                    place=Place(joint=names[j]),
                )
        return tuple(found)

    def _may_be_held(self, j: int) -> bool:
        # In mid-chain: it stands still, and no other joint's motor moves it.
        own = self.robot.joint_names[j] not in self.mapping.effort or bool(own_motors(self.robot)[j])
        return own and bool(self._high[j] - self._low[j] <= STILL)

    def _jaws(self) -> frozenset[int]:
        # Last joints without an effort that turn within their limits, if they are few. A jaw that swings turns the
        # wrist, and fingers that slide weigh the same wherever they are; what leaves the joint's limits is an opening
        # in a unit of its own. A pendulum has no limits, and no motor.
        robot = self.robot
        moved, free = self._high - self._low, (1.0 + BEYOND) * (robot.limits.upper - robot.limits.lower)
        turns = self._ends() & own_motors(robot) & ~np.array(robot.prismatic)
        hands = np.isin(robot.joint_names, sorted(hand_joints(robot)))
        found = np.flatnonzero(turns & (moved > STILL) & (moved <= free) & (np.isfinite(free) | ~hands))
        return frozenset(found.tolist()) if len(found) <= MOST_JAWS else frozenset()

    def _stood(self) -> Bool:
        # No row with a position leaves both ends infinite, the wrong way round: nothing is known to stand.
        return np.asarray((self._low <= self._high) & (self._high - self._low <= STILL))

    def _silent(self) -> Bool:
        # A wrist that was not moved holds its own weight in all poses of the arm, and a finger grips by a force that is
        # told: an effort that never changes is no measurement. One value alone cannot change.
        return self.mute | ((self._efforts > 1) & (self._most <= self._least))

    def _apart(self) -> Bool:
        # Joints at rest all of whose bodies, those that these carry and those that carry them are at rest.
        return self._stood() & ~on_branches_of(self.robot, ~self._stood())

    def _ends(self) -> Bool:
        # Joints without effort all of whose further joints have none.
        silent = self._silent()
        return np.asarray(silent & ~carriers(self.robot, ~silent))


def _widened(low: Float, high: Float, values: Float) -> tuple[Float, Float]:
    fine = np.isfinite(values)
    return (
        np.minimum(low, values.min(axis=0, initial=np.inf, where=fine)),
        np.maximum(high, values.max(axis=0, initial=-np.inf, where=fine)),
    )


def reason_of(why: str, found: Mapping[str, tuple[float, float]], robot: RobotModel) -> str:
    """Why joints are held whose effort says nothing, in words."""
    moving = [
        f"'{name}' by {moved:.3g} {'m' if robot.prismatic[robot.joint_names.index(name)] else 'rad'}"
        for name, (_, moved) in found.items()
        if moved > STILL
    ]
    return why + (f" (moving {', '.join(moving[:_LISTED])}, which is left out)" if moving else "")


# Positions that lie outside of the description's joint limits throughout: the log counts from another zero.

# A joint may leave its range by this share of it, and a joint that turns this much further, rad: limits are those of
# the description, which the arm's maker or its user may have drawn a little tighter.
JOINT_LIMITS_BEYOND, BESIDE = 0.1, 0.05
# Share of the rows that lie further outside where a joint counts from another zero. A motion that only passes its
# limits turns back; about a wrong zero it has a part in which readings happen to be allowed.
OUTSIDE = 0.8
TURN = 2 * np.pi
# Gravity along an axis to this sine: turning about it leaves all weights as they are.
ALONG = 1e-6
_JOINT_LIMITS_LISTED = 4  # joints whose readings are told


def room(robot: RobotModel) -> tuple[Float, Float]:
    """Least and largest position (n,) of each joint that its limits allow with some slack; infinite without limits."""
    low, high = robot.limits.lower, robot.limits.upper
    limited = np.isfinite(low) & np.isfinite(high) & (high > low)
    slack = np.where(limited, JOINT_LIMITS_BEYOND * np.where(limited, high - low, 0.0), 0.0)
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
        more = f" and {len(said) - _JOINT_LIMITS_LISTED} more" if len(said) > _JOINT_LIMITS_LISTED else ""
        return "; ".join(said[:_JOINT_LIMITS_LISTED]) + more

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


# Two encoders a joint: the motor's reading, brought to the joint, must follow the link's.

FOLLOWS = 0.8
SLOPE = (0.5, 2.0)
RATIO_MATCHES = 0.1
FAR_APART = 0.5
STRIDE = 8


class EncoderWatch:
    """Compares motor with link positions while the chunks of a log pass by."""

    def __init__(self, robot: RobotModel, mapping: ChannelMap) -> None:
        self.robot, self.mapping = robot, mapping
        n = robot.n
        self.origin: Float | None = None
        self.count = 0
        self.sums = np.zeros((2, n))
        self.squares = np.zeros((3, n))

    def see(self, chunk: RawChunk) -> None:
        """Takes a chunk into the sums."""
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
        """Judges what was seen of the joints that moved.

        Claims: motor positions that are off by the gear ratio or another factor, run against the link's or belong to
        another joint.
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
                    f"motor and link position differ by {apart:.4g} on average: set log.motor_position.offset "
                    "if it is the encoders' zero",
                    Place(joint=name),
                )

    def _judge(self, joint: int, slope: float, correlation: float, sink: Diagnostics) -> None:
        place = Place(joint=self.robot.joint_names[joint])
        if not abs(correlation) > FOLLOWS:
            sink.claim(
                "motor-position",
                found=f"a motor position that does not follow the joint (correlation {correlation:.2g})",
                expected="motor and link position of the same joint",
                do="check the columns under [log] motor_position",
                place=place,
            )
            return
        if slope < 0:
            sink.claim(
                "motor-position-sign",
                found=f"a motor position that runs against the joint (slope {slope:.4g})",
                expected="the same direction",
                do="set log.motor_position.sign of this joint, or the sign of its gear_ratio",
                place=place,
            )
            return
        if SLOPE[0] < slope < SLOPE[1]:
            return
        ratio = abs(float(self.robot.drive.gear_ratio[joint]))
        found = f"a motor position that moves {slope:.4g} times as far as the joint"
        if abs(slope / ratio - 1) < RATIO_MATCHES:
            sink.claim(
                "motor-position-side",
                found=f"{found}: its gear ratio is {ratio:.4g}",
                expected="a motor position divided by the gear ratio, or one that is declared to be the motor's own",
                do='set log.motor_position.side = "motor"',
                place=place,
            )
        elif abs(slope * ratio - 1) < RATIO_MATCHES:
            sink.claim(
                "motor-position-side",
                found=f"{found}: the gear ratio, {ratio:.4g}, was applied although the column is reflected already",
                expected="the gear ratio applied once",
                do='set log.motor_position.side = "link"',
                place=place,
            )
        else:
            sink.claim(
                "unit-suspicion",
                found=found,
                expected=f"a ratio of 1, or the gear ratio of {ratio:.4g}",
                do="declare unit (57.3 = degrees) and side of log.motor_position, and the gear ratio",
                place=place,
            )
