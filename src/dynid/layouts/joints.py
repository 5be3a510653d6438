"""Assignment of columns to joints: column order, joints without a column, and columns that belong to no joint."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass, few
from dynid.layouts.effort import load_of
from dynid.layouts.names import Family, columns_of_slide, naming
from dynid.layouts.physics import DECISIVE, EXPLAINS, FITS, Motion, description_scale, exchanges, gain, misfit
from dynid.layouts.proposal import POSE, Answers, Decision, Excerpt, Option, decided
from dynid.log.joints import hand_joints
from dynid.robot.load import rest_position
from dynid.robot.model import JointType, RobotModel, on_branches_of, path_to_base

# Which numbered column belongs to which joint.

KEY = "log.order"
BASE_TO_TIP, ALPHABETICAL, TIP_TO_BASE = "base-to-tip", "alphabetical", "tip-to-base"
LEVEL_BY_LEVEL, EXCHANGED = "level-by-level", "limbs-exchanged-in-pairs"
WORDS = {
    BASE_TO_TIP: "in the order of the joints",
    ALPHABETICAL: "in alphabetical order of the joints",
    TIP_TO_BASE: "from tip to base",
    EXCHANGED: "with pairs of identical limbs exchanged, right before left",
    LEVEL_BY_LEVEL: "level by level: the first joints of all legs or arms, then the second ones",
}
Order = tuple[int, ...]
# Minimum number of joints of a leg or arm, and maximum relative difference in mass between two identical
# ones.
_JOINTS_OF_LIMB, _OTHER_MASS = 3, 0.2


def decide_order(
    robot: RobotModel, family: Family, motion: Motion | None, answers: Answers
) -> tuple[Decision, Order]:
    """Decide the order of the columns.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    family : Family
        Column group.
    motion : Motion or None
        Motion in rad, with the columns in the order of their numbers.
    answers : Answers
        User answers by key.

    Returns
    -------
    decision : Decision
        The decision on the order.
    order : tuple of int
        Column index of each joint, from 0.

    """
    joints = family.joints
    if family.named:
        if family.ordered:
            return Decision(KEY, BASE_TO_TIP, family.ordered, likely=True), tuple(range(len(joints)))
        why = f"'{family.labels}' name the joints" if family.labels else "each column names its joint"
        return Decision(KEY, BASE_TO_TIP, (why,)), tuple(range(len(joints)))
    ways = _ways(robot, joints)
    options = tuple(
        Option(name, ", ".join(joints[order.index(k)] for k in range(len(order))))
        for name, order in ways.items()
    )
    given = answers.get(KEY)
    if given is not None and "," in given:
        names = [text.strip() for text in given.split(",")]
        if sorted(names) == sorted(joints):
            return Decision(KEY, given, ("as you say",)), tuple(names.index(joint) for joint in joints)
    decision = decided(_found(robot, family, motion, ways, options), answers)
    return decision, ways.get(decision.value or "", ways[BASE_TO_TIP])


def _ways(robot: RobotModel, joints: Sequence[str]) -> dict[str, Order]:
    """Usual column orders by name, where order[j] is the column index of joint j. Duplicates are left out."""
    bodies = robot.independent_bodies.tolist()
    level = {name: len(path_to_base(robot, i)) for name, i in zip(robot.joint_names, bodies, strict=True)}
    plain, alphabet = tuple(range(len(joints))), sorted(joints)
    ways = {BASE_TO_TIP: plain}
    by_name = tuple(alphabet.index(joint) for joint in joints)
    if by_name != plain:
        ways[ALPHABETICAL] = by_name
    if len(joints) > 1 and plain[::-1] != by_name:
        ways[TIP_TO_BASE] = plain[::-1]
    if (exchanged := _limbs_exchanged(robot, joints)) is not None and exchanged not in ways.values():
        ways[EXCHANGED] = exchanged
    levels = sorted(joints, key=lambda joint: level[joint])
    by_level = tuple(levels.index(joint) for joint in joints)
    if by_level not in ways.values():
        ways[LEVEL_BY_LEVEL] = by_level
    return ways


def _limbs_exchanged(robot: RobotModel, joints: Sequence[str]) -> Order | None:
    """Order in which each pair of limbs is exchanged, as FR, FL, RR, RL for FL, FR, RL, RR; None without pairs.

    Paired limbs may be mirror images, in which case a rigid model fits the torque of each with the motion of
    the other.
    """
    order = list(range(len(joints)))
    done: set[int] = set()
    for alike in _limbs(robot, joints):  # limbs nearest to the base first
        for limb, other in zip(alike[::2], alike[1::2], strict=False):
            if not done & {*limb.joints, *other.joints} and limb.weighs_as(other):
                for i, j in zip(limb.joints, other.joints, strict=True):
                    order[i], order[j] = j, i
                done |= {*limb.joints, *other.joints}
    return tuple(order) if order != list(range(len(joints))) else None


@dataclass(frozen=True)
class _Limb:
    """A leg or an arm.

    Attributes
    ----------
    joints : tuple of int
        Joint indices.
    mass : float
        Mass of all links of the limb, kg; nan if unknown.

    """

    joints: tuple[int, ...]
    mass: float

    def weighs_as(self, other: _Limb) -> bool:
        return not abs(self.mass - other.mass) > _OTHER_MASS * max(self.mass, other.mass)


def _limbs(robot: RobotModel, joints: Sequence[str]) -> Collection[list[_Limb]]:
    """Limbs grouped by parent link and sequence of joint types. Fingers and tools at a wrist do not count."""
    bodies = dict(zip(robot.joint_names, robot.independent_bodies.tolist(), strict=True))
    paths = [path_to_base(robot, bodies[name])[::-1] for name in joints]
    whole = [path_to_base(robot, body) for body in range(robot.n_bodies)]
    hands = hand_joints(robot)
    limbs: dict[tuple[int, tuple[JointType, ...]], list[_Limb]] = {}
    for root in sorted({body for path in paths for body in path}, key=lambda body: len(whole[body])):
        limb = tuple(k for k, path in enumerate(paths) if root in path)
        if sum(joints[k] not in hands for k in limb) < _JOINTS_OF_LIMB:
            continue
        kinds = tuple(robot.joint_types[bodies[joints[k]]] for k in limb)
        mass = sum(float(robot.inertia_prior[body, 0]) for body, path in enumerate(whole) if root in path)
        limbs.setdefault((int(robot.parent[root]), kinds), []).append(_Limb(limb, mass))
    return limbs.values()


def _found(
    robot: RobotModel,
    family: Family,
    motion: Motion | None,
    ways: Mapping[str, Order],
    options: tuple[Option, ...],
) -> Decision:
    load, meaning, counted = load_of(robot), family.meaning, f"numbered from {family.first}"
    question = (
        "which number is which joint? Choose an order, or list the joints in the order of "
        "the numbers, separated by commas"
    )
    if len(family.joints) == 1:
        return Decision(KEY, BASE_TO_TIP, ("one joint",), options=options)
    best = _best(robot, family.joints, motion, ways)
    source = f"{counted}; {meaning.said_by}"
    if best is None:
        if meaning.ordered:
            return Decision(KEY, BASE_TO_TIP, (source,), options=options)
        if not {ALPHABETICAL, EXCHANGED} & ways.keys() and not meaning.unordered:
            why = f"{counted}, {WORDS[BASE_TO_TIP]}; no {load} confirms it"
            return Decision(KEY, BASE_TO_TIP, (why,), options=options, likely=True)
        why = f"{counted}; there is no {load} to determine the order of the numbers"
        return Decision(KEY, None, (why,), question, options)
    if best.exchanged < -DECISIVE:
        why = f"{counted}, but a rigid model fits the {load} far better with {best.pair} exchanged"
        return Decision(KEY, None, (why,), question, options)
    proven = best.others > DECISIVE and best.exchanged > DECISIVE
    if proven and (best.name == BASE_TO_TIP or not meaning.ordered):
        why = f"{counted}, {WORDS[best.name]}: in any other order a rigid model fits the {load} far worse"
        return Decision(
            KEY, best.name, (source if meaning.ordered else "", why)[not meaning.ordered :], options=options
        )
    if best.name != BASE_TO_TIP and best.others > DECISIVE:
        why = f"{counted}; a rigid model fits the {load} best {WORDS[best.name]}"
        return Decision(KEY, None, (why,), question, options)
    if meaning.ordered:
        return Decision(KEY, BASE_TO_TIP, (source,), options=options)
    if best.name == BASE_TO_TIP and best.others > DECISIVE and not meaning.unordered:
        why = (
            f"{counted}, {WORDS[BASE_TO_TIP]}: in the other usual orders a rigid model fits the "
            f"{load} far worse"
        )
        return Decision(KEY, BASE_TO_TIP, (why,), options=options, likely=True)
    if not {ALPHABETICAL, EXCHANGED} & ways.keys() and not meaning.unordered:
        why = f"{counted}, {WORDS[BASE_TO_TIP]}; the {load} does not contradict it"
        return Decision(KEY, BASE_TO_TIP, (why,), options=options, likely=True)
    other = "alphabetical" if ALPHABETICAL in ways else "with limbs exchanged"
    why = f"{counted}; the {load} does not show whether the order is that of the model file or {other}"
    return Decision(KEY, None, (why,), question, options)


@dataclass(frozen=True)
class _Best:
    """The usual order that fits best.

    Attributes
    ----------
    name : str
        Name of the order.
    others : float
        Difference in fit to the second-best usual order, as a sum of logarithms; negative if that order
        is better.
    exchanged : float
        The same for the best order with two joints exchanged.
    pair : str
        The two joints of `exchanged`.

    """

    name: str
    others: float
    exchanged: float
    pair: str


def _best(
    robot: RobotModel, joints: Sequence[str], motion: Motion | None, ways: Mapping[str, Order]
) -> _Best | None:
    """Find the usual order that fits best; None if the torque cannot be fitted."""
    if motion is None or motion.tau is None:
        return None
    place = [robot.joint_names.index(candidate) for candidate in joints]

    def whole(order: Order) -> Order:
        """Extend an order to all joints of the robot; joints without a column keep their places."""
        all_ = list(range(robot.n))
        for j, k in enumerate(order):
            all_[place[j]] = place[k]
        return tuple(all_)

    tried = {name: _fit(robot, motion, whole(order)) for name, order in ways.items()}
    fits = {name: candidate for name, candidate in tried.items() if candidate is not None}
    if BASE_TO_TIP not in fits:
        return None
    name, here = BASE_TO_TIP, fits[BASE_TO_TIP]
    for other, candidate in fits.items():
        # An unusual order is selected only on decisive evidence.
        if candidate.worse_than(here) < -DECISIVE and candidate.good():
            name, here = other, candidate
    others = min(
        (candidate.worse_than(here) for other, candidate in fits.items() if other != name), default=np.inf
    )
    worst, pair = np.inf, ""
    for i, j, order in exchanges(ways[name]):
        fit = _fit(robot, motion, whole(order))
        value = np.inf if fit is None else fit.worse_than(here)
        if fit is not None and value < 0 and not fit.good((place[i], place[j])):
            value = 0.0  # a bad fit that is slightly better proves nothing
        if value < worst:
            worst, pair = value, f"{joints[i]} and {joints[j]}"
    return _Best(name, float(others), float(worst), pair)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Fit of a rigid model with one order of the columns.

    Attributes
    ----------
    motion : Motion
        Motion with the columns in this order.
    left : (n,) array
        Unexplained share of each joint's torque.

    """

    robot: RobotModel
    motion: Motion
    left: Float

    @cached_property
    def described(self) -> tuple[Float, Float, Float] | None:
        """Scale, explained share and size of the torque predicted from the model file."""
        return description_scale(self.robot, self.motion)

    def good(self, joints: Sequence[int] = ()) -> bool:
        part = self.left[list(joints)] if joints else self.left[self.left < 1.0]
        return len(part) > 0 and bool((np.sqrt(part) <= FITS).all())

    def worse_than(self, other: _Fit) -> float:
        """How much worse this order fits than another; positive if the other is better.

        If a rigid model with free parameters does not distinguish them, the masses of the model file decide.
        """
        worse = gain(other.left, self.left)
        if abs(worse) > DECISIVE or self.described is None or other.described is None:
            return worse
        if max(self.described[1].max(), other.described[1].max()) <= EXPLAINS:
            return worse
        mine, others = (
            1 - np.minimum(prediction[1] * (prediction[0] > 0), 1 - 1e-6)
            for prediction in (self.described, other.described)
        )
        return float(np.log(mine / others).sum())


def _fit(robot: RobotModel, motion: Motion, order: Order) -> _Fit | None:
    read = motion.read_as(1.0, order)
    left = misfit(robot, read)
    return None if left is None else _Fit(robot, read, left)


def in_order(columns: Sequence[str], order: Sequence[int]) -> tuple[str, ...]:
    """Columns sorted by joint."""
    return tuple(columns[k] for k in order)


# Joints without a column in the selected groups: prismatic joints with separate columns, and joints that get
# a fixed position.

LOCK = "robot.lock."
_NAMED = 4  # columns that are listed
KINDS_OF_SLIDES = ("position", "velocity", "effort")


def slides_beside(
    robot: RobotModel,
    look: Excerpt,
    chosen: Mapping[str, Family],
    missing: Sequence[str],
    efforts: Family | None = None,
) -> dict[str, dict[str, tuple[str, str]]]:
    """Find separate columns of prismatic joints in a log whose other positions are angles.

    A joint is included only if it has a column of every channel that the other joints have.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    look : Excerpt
        Names and first rows of the log.
    chosen : dict
        Column group of each channel.
    missing : sequence of str
        Joints without a column.
    efforts : Family or None
        Group with the efforts of all joints, such as currents. A prismatic joint without an effort column
        takes its effort from this group, with unit "" (the unit of the group).

    Returns
    -------
    columns : dict
        Column and unit per joint and channel.

    """
    taken = {column for group in chosen.values() for column in group.columns}
    left = [name for name in look.numeric if name not in taken]
    columns = {}
    for joint in missing:
        candidates = columns_of_slide(joint, left) if robot.prismatic[robot.joint_names.index(joint)] else {}
        if candidates and efforts is not None and efforts.named and joint in efforts.joints:
            candidates.setdefault("effort", (efforts.columns[efforts.joints.index(joint)], ""))
        wanted = [
            kind for kind, group in chosen.items() if joint in group.missing and kind in KINDS_OF_SLIDES
        ]
        if candidates and all(kind in candidates for kind in wanted):
            columns[joint] = {kind: candidates[kind] for kind in wanted}
    return columns


def slides_decision(slides: Mapping[str, Mapping[str, tuple[str, str]]]) -> Decision:
    """Decision that lists the separate columns of the prismatic joints."""
    listed = [f"{column} {unit}".strip() for columns in slides.values() for column, unit in columns.values()]
    verb = "slides" if len(slides) == 1 else "slide"
    why = f"{', '.join(slides)} {verb}, with separate columns in other units: {', '.join(listed)}"
    return Decision("log.position.slides", "as in their names", (why,), likely=True)


def held_joints(
    robot: RobotModel, look: Excerpt, chosen: Mapping[str, Family], missing: Sequence[str], answers: Answers
) -> list[Decision]:
    """Decide the fixed position of each joint that has no column."""
    taken = {column for group in chosen.values() for column in group.columns}
    left = [name for name in look.names if name not in taken]
    alike = _alike(chosen["position"], left) if "position" in chosen else []
    return [
        _held(
            robot,
            joint,
            _apart(robot, joint, missing),
            answers,
            naming(joint, left),
            (alike, alike[k : k + 1]),
        )
        for k, joint in enumerate(missing)
    ]


def _alike(family: Family, left: Sequence[str]) -> list[str]:
    """Columns whose names match a group except for the joint name. They may belong to a missing joint."""
    before, joint, behind = family.template.partition("{joint}")
    if not joint or not before + behind:
        return []
    return [
        name
        for name in left
        if len(name) > len(before + behind) and name.startswith(before) and name.endswith(behind)
    ]


def _held(
    robot: RobotModel,
    joint: str,
    apart: bool,
    answers: Answers,
    named: Sequence[str],
    alike: tuple[Sequence[str], Sequence[str]],
) -> Decision:
    """Decide the fixed position of a joint that has no column.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    joint : str
        Name of the joint.
    apart : bool
        Whether this position has no effect on the joints that have columns.
    answers : Answers
        User answers by key.
    named : sequence of str
        Columns whose names contain this joint's name.
    alike : pair of sequences of str
        Columns that may belong to this joint under another name, and the most likely one of them.

    """
    key, j = f"{LOCK}{joint}", robot.joint_names.index(joint)
    rest = rest_position(robot, joint)
    why = f"the log has no column of '{joint}', so its position is fixed"
    if named:
        why = (
            f"'{joint}' has no column in these groups, although {few(named, _NAMED)} "
            f"name{'s' if len(named) == 1 else ''} "
            "it: its position is fixed; columns and unit may be tables with an entry per joint"
        )
    if apart:
        decision = Decision(
            key, f"{rest:g}", (f"{why}; it lies on a separate branch, where its position has no effect",)
        )
    elif joint in hand_joints(robot):
        decision = Decision(
            key, f"{rest:g}", (f"{why}; a hand joint, whose position has little effect",), likely=True
        )
    else:
        unit = "m" if robot.prismatic[j] else "rad"
        question = f"at which position is '{joint}' fixed, in {unit}?"
        if alike[0]:
            question += (
                f" Or does the log use another name for it ({few(alike[0], _NAMED)})? Then answer "
                f"--answer 'log.position.columns.{joint}={(*alike[1], alike[0][0])[0]}', and the same "
                "for velocity and effort."
            )
        if leaders := leaders_of(robot, joint):
            factors = ", ".join(f"{name} = {factor:.1f}" for name, factor in leaders.items())
            question += (
                " If a parallel linkage keeps its link level, write a robot file with the lines urdf "
                f"= '{Path(robot.source).name}', [[joint]], name = '{joint}', follows = {{ {factors} }}"
            )
        decision = Decision(key, None, (why,), question)
    if key in answers:
        try:
            value = float(answers[key])
        except ValueError:
            return decision
        return Decision(key, f"{value:g}", ("as you say",)) if np.isfinite(value) else decision
    return decision


def leaders_of(robot: RobotModel, joint: str) -> dict[str, float]:
    """Coupling factors to earlier joints if a parallel linkage keeps this joint's link level, as in a palletiser.

    Empty unless the joint carries other joints and at least two joints before it have the same axis
    direction.
    """
    body = robot.tree_joint_names.index(joint)
    above = path_to_base(robot, body)
    carries = any(body in path_to_base(robot, other)[1:] for other in range(robot.n_bodies))
    axis, turned, leaders = robot.axis[body], np.eye(3), dict[str, float]()
    for moving, carrier in pairwise(above):
        turned = robot.T_parent_joint[moving, :3, :3] @ turned
        along = float(robot.axis[carrier] @ turned @ axis)
        name = robot.tree_joint_names[carrier]
        turns = robot.joint_types[carrier] is not JointType.PRISMATIC and name in robot.joint_names
        if not turns or abs(abs(along) - 1.0) > 1e-6:
            break
        leaders[name] = -float(np.sign(along))
    turns = robot.joint_types[body] is not JointType.PRISMATIC
    return dict(reversed(leaders.items())) if carries and turns and len(leaders) >= 2 else {}


def _apart(robot: RobotModel, joint: str, missing: Sequence[str]) -> bool:
    """Whether a joint neither carries a logged joint nor is carried by one, as a joint of another arm."""
    logged = ~np.isin(robot.joint_names, list(missing))
    return not on_branches_of(robot, logged)[robot.joint_names.index(joint)]


# More numbered columns than joints: which of them belong to the joints.

_TWIST = 6  # velocities of a free body
_UNIT = 1e-3  # tolerance of the norm of a unit quaternion


def without_spare(
    look: Excerpt, chosen: dict[str, Family], decisions: dict[str, Decision], answers: Answers
) -> dict[str, Family]:
    """Reduce each group to one column per joint and add the decisions on extra columns to `decisions`."""
    kept: dict[str, Family] = {}
    for kind, group in chosen.items():
        which = _which(look, kind, group, answers)
        if which is None:
            kept[kind] = group
            continue
        same = decisions.get("log.position.which")
        if same is not None and which.question and _as_many(group, chosen["position"]):
            # The extra columns are at the same end in all groups.
            which = replace(which, value=same.value, why=("as for the positions",), question="")
        decisions[which.key] = which
        kept[kind] = _cut(group, which.value)
    return kept


def _which(look: Excerpt, kind: str, family: Family, answers: Answers) -> Decision | None:
    """Decide which columns belong to the joints if there are more, for example of fingers, a rail or another arm."""
    if not family.spare:
        return None
    n, m = len(family.joints), len(family.columns)
    key = f"log.{kind}.which"
    reason = f"{m} columns '{family.template}' for {n} joints"
    options = (Option("first", f"the first {n}"), Option("last", f"the last {n}"))
    values = look.table(family.columns)
    still = np.nanmax(values, axis=0) == np.nanmin(values, axis=0)
    for name, alive, dead in (
        ("first", slice(None, n), slice(n, None)),
        ("last", slice(-n, None), slice(None, -n)),
    ):
        if still[dead].all() and not still[alive].any():
            decision = Decision(key, name, (f"{reason}; the others are constant",), options=options)
            return decided(decision, answers)
        if kind == "position" and _of_free_bodies(values[:, dead]) and not _of_free_bodies(values[:, alive]):
            why = f"{reason}; the others are positions and orientations of free bodies"
            return decided(Decision(key, name, (why,), options=options), answers)
    return decided(Decision(key, None, (reason,), "which of them belong to the joints?", options), answers)


def _as_many(group: Family, positions: Family) -> bool:
    """Whether a group has as many extra columns as the positions, or six for every seven of a free body's pose."""
    more, there = len(group.columns) - len(group.joints), len(positions.columns) - len(positions.joints)
    return more == there or (there % POSE == 0 and more == there // POSE * _TWIST)


def _of_free_bodies(values: Float) -> bool:
    """Whether columns (T, m) are poses of free bodies, each a position followed by a unit quaternion."""
    if not values.shape[1] or values.shape[1] % POSE:
        return False
    bodies = values.reshape(len(values), -1, POSE)
    return bool((np.abs((bodies[:, :, 3:] ** 2).sum(axis=2) - 1.0) < _UNIT).all())


def _cut(family: Family, which: str | None) -> Family:
    n = len(family.joints)
    if which == "last":
        return replace(family, columns=family.columns[-n:], first=family.first + len(family.columns) - n)
    return replace(family, columns=family.columns[:n])
