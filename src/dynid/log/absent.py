"""Joints of a robot that a log does not hold, such as fingers: they are held, and that is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import InputError, Place
from dynid.log.log import ChannelMap, RawChunk
from dynid.robot.branches import carriers, on_branches_of
from dynid.robot.locking import own_motors
from dynid.robot.model import RobotModel

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
