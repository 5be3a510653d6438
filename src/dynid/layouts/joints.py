"""Which column is which joint, which joints have none, and columns that are no joints."""

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

# Which numbered column is which joint.

KEY = "log.order"
BASE_TO_TIP, ALPHABETICAL, TIP_TO_BASE = "base-to-tip", "alphabetical", "tip-to-base"
LEVEL_BY_LEVEL, EXCHANGED = "level-by-level", "limbs-exchanged-in-pairs"
WORDS = {
    BASE_TO_TIP: "as the joints are",
    ALPHABETICAL: "in alphabetical order of the joints",
    TIP_TO_BASE: "from tip to base",
    EXCHANGED: "with limbs of one make exchanged in pairs, right before left",
    LEVEL_BY_LEVEL: "level by level, the first joints of all legs or arms before the second ones",
}
Order = tuple[int, ...]
# Of a leg or an arm, at least; two of one make weigh the same but for this share.
_JOINTS_OF_LIMB, _OTHER_MASS = 3, 0.2


def decide_order(
    robot: RobotModel, family: Family, motion: Motion | None, answers: Answers
) -> tuple[Decision, Order]:
    """The order of columns, and for each joint the number of its column from 0.

    motion: read in rad, columns as they are numbered.
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
        names = [one.strip() for one in given.split(",")]
        if sorted(names) == sorted(joints):
            return Decision(KEY, given, ("as you say",)), tuple(names.index(one) for one in joints)
    decision = decided(_found(robot, family, motion, ways, options), answers)
    return decision, ways.get(decision.value or "", ways[BASE_TO_TIP])


def _ways(robot: RobotModel, joints: Sequence[str]) -> dict[str, Order]:
    """Orders that programs write, order[j] the number of the column of joint j; those that differ."""
    bodies = robot.independent_bodies.tolist()
    level = {name: len(path_to_base(robot, i)) for name, i in zip(robot.joint_names, bodies, strict=True)}
    plain, alphabet = tuple(range(len(joints))), sorted(joints)
    ways = {BASE_TO_TIP: plain}
    by_name = tuple(alphabet.index(one) for one in joints)
    if by_name != plain:
        ways[ALPHABETICAL] = by_name
    if len(joints) > 1 and plain[::-1] != by_name:
        ways[TIP_TO_BASE] = plain[::-1]
    if (exchanged := _limbs_exchanged(robot, joints)) is not None and exchanged not in ways.values():
        ways[EXCHANGED] = exchanged
    levels = sorted(joints, key=lambda one: level[one])
    by_level = tuple(levels.index(one) for one in joints)
    if by_level not in ways.values():
        ways[LEVEL_BY_LEVEL] = by_level
    return ways


def _limbs_exchanged(robot: RobotModel, joints: Sequence[str]) -> Order | None:
    """The order with each second limb before the first of its pair: FR, FL, RR, RL for FL, FR, RL, RR; None = no pairs.

    They may be mirrors of one another, so that a rigid arm explains the torque of one by the other's motion, too.
    """
    order = list(range(len(joints)))
    done: set[int] = set()
    for alike in _limbs(robot, joints):  # those nearest to the base first
        for one, other in zip(alike[::2], alike[1::2], strict=False):
            if not done & {*one.joints, *other.joints} and one.weighs_as(other):
                for i, j in zip(one.joints, other.joints, strict=True):
                    order[i], order[j] = j, i
                done |= {*one.joints, *other.joints}
    return tuple(order) if order != list(range(len(joints))) else None


@dataclass(frozen=True)
class _Limb:
    """A leg or an arm.    joints: by number.    mass: of all that they carry, kg; nan where it is not known."""

    joints: tuple[int, ...]
    mass: float

    def weighs_as(self, other: _Limb) -> bool:
        return not abs(self.mass - other.mass) > _OTHER_MASS * max(self.mass, other.mass)


def _limbs(robot: RobotModel, joints: Sequence[str]) -> Collection[list[_Limb]]:
    """Limbs that hang on one body and have as many joints of the same kinds; fingers and tools at a wrist are none."""
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
    load, said, counted = load_of(robot), family.meaning, f"numbered from {family.first}"
    question = (
        "which number is which joint? One of these, or the joints in the order of the numbers, with commas"
    )
    if len(family.joints) == 1:
        return Decision(KEY, BASE_TO_TIP, ("one joint",), options=options)
    best = _best(robot, family.joints, motion, ways)
    source = f"{counted}; {said.said_by}"
    if best is None:
        if said.ordered:
            return Decision(KEY, BASE_TO_TIP, (source,), options=options)
        if not {ALPHABETICAL, EXCHANGED} & ways.keys() and not said.unordered:
            why = f"{counted}, {WORDS[BASE_TO_TIP]}; no {load} confirms it"
            return Decision(KEY, BASE_TO_TIP, (why,), options=options, likely=True)
        why = f"{counted}; no {load} says which order the numbers have"
        return Decision(KEY, None, (why,), question, options)
    if best.exchanged < -DECISIVE:
        why = f"{counted}, but a rigid arm fits the {load} far better with {best.pair} exchanged"
        return Decision(KEY, None, (why,), question, options)
    proven = best.others > DECISIVE and best.exchanged > DECISIVE
    if proven and (best.name == BASE_TO_TIP or not said.ordered):
        why = f"{counted}, {WORDS[best.name]}: in any other order a rigid arm fits the {load} far worse"
        return Decision(
            KEY, best.name, (source if said.ordered else "", why)[not said.ordered :], options=options
        )
    if best.name != BASE_TO_TIP and best.others > DECISIVE:
        why = f"{counted}; a rigid arm fits the {load} best {WORDS[best.name]}"
        return Decision(KEY, None, (why,), question, options)
    if said.ordered:
        return Decision(KEY, BASE_TO_TIP, (source,), options=options)
    if best.name == BASE_TO_TIP and best.others > DECISIVE and not said.unordered:
        why = f"{counted}, {WORDS[BASE_TO_TIP]}: in the other usual orders a rigid arm fits the {load} far worse"
        return Decision(KEY, BASE_TO_TIP, (why,), options=options, likely=True)
    if not {ALPHABETICAL, EXCHANGED} & ways.keys() and not said.unordered:
        why = f"{counted}, {WORDS[BASE_TO_TIP]}; the {load} does not contradict it"
        return Decision(KEY, BASE_TO_TIP, (why,), options=options, likely=True)
    other = "the alphabet's" if ALPHABETICAL in ways else "one with limbs exchanged"
    why = f"{counted}; the {load} does not say whether the order is the robot file's or {other}"
    return Decision(KEY, None, (why,), question, options)


@dataclass(frozen=True)
class _Best:
    """The usual order that fits best.

    others, exchanged: how much worse the best of the other usual orders is, and the best with two joints exchanged, as
    sums of logarithms; below 0 = better.    pair: of the latter.
    """

    name: str
    others: float
    exchanged: float
    pair: str


def _best(
    robot: RobotModel, joints: Sequence[str], motion: Motion | None, ways: Mapping[str, Order]
) -> _Best | None:
    """None without torque that speaks."""
    if motion is None or motion.tau is None:
        return None
    place = [robot.joint_names.index(one) for one in joints]

    def whole(order: Order) -> Order:
        """Of all joints of the robot, those that the log does not have where they are."""
        all_ = list(range(robot.n))
        for j, k in enumerate(order):
            all_[place[j]] = place[k]
        return tuple(all_)

    tried = {name: _fit(robot, motion, whole(order)) for name, order in ways.items()}
    fits = {name: one for name, one in tried.items() if one is not None}
    if BASE_TO_TIP not in fits:
        return None
    name, here = BASE_TO_TIP, fits[BASE_TO_TIP]
    for other, one in fits.items():
        # What is unusual needs proof.
        if one.worse_than(here) < -DECISIVE and one.good():
            name, here = other, one
    others = min((one.worse_than(here) for other, one in fits.items() if other != name), default=np.inf)
    worst, pair = np.inf, ""
    for i, j, order in exchanges(ways[name]):
        fit = _fit(robot, motion, whole(order))
        value = np.inf if fit is None else fit.worse_than(here)
        if fit is not None and value < 0 and not fit.good((place[i], place[j])):
            value = 0.0  # a little less bad is no better reading
        if value < worst:
            worst, pair = value, f"{joints[i]} and {joints[j]}"
    return _Best(name, float(others), float(worst), pair)


@dataclass(frozen=True, eq=False)
class _Fit:
    """What a rigid arm leaves in one order of the columns.    motion: read in this order."""

    robot: RobotModel
    motion: Motion
    left: Float

    @cached_property
    def described(self) -> tuple[Float, Float, Float] | None:
        """What the description explains."""
        return description_scale(self.robot, self.motion)

    def good(self, joints: Sequence[int] = ()) -> bool:
        part = self.left[list(joints)] if joints else self.left[self.left < 1.0]
        return len(part) > 0 and bool((np.sqrt(part) <= FITS).all())

    def worse_than(self, other: _Fit) -> float:
        """Above 0 where the other is better; the description is asked where a free arm does not distinguish them."""
        worse = gain(other.left, self.left)
        if abs(worse) > DECISIVE or self.described is None or other.described is None:
            return worse
        if max(self.described[1].max(), other.described[1].max()) <= EXPLAINS:
            return worse
        mine, others = (
            1 - np.minimum(one[1] * (one[0] > 0), 1 - 1e-6) for one in (self.described, other.described)
        )
        return float(np.log(mine / others).sum())


def _fit(robot: RobotModel, motion: Motion, order: Order) -> _Fit | None:
    read = motion.read_as(1.0, order)
    left = misfit(robot, read)
    return None if left is None else _Fit(robot, read, left)


def in_order(columns: Sequence[str], order: Sequence[int]) -> tuple[str, ...]:
    """Columns by joint."""
    return tuple(columns[k] for k in order)


# Joints without a column in the chosen groups: slides in columns of their own, and joints that are held.

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
    """Columns of joints that slide, by joint and channel, where those of the others are angles.

    A joint is found if it has a column of every channel that the others have.
    efforts: the group with those of all joints, such as currents; a slide's is in the others' unit then, "" here.
    """
    taken = {column for one in chosen.values() for column in one.columns}
    left = [name for name in look.numeric if name not in taken]
    found = {}
    for joint in missing:
        own = columns_of_slide(joint, left) if robot.prismatic[robot.joint_names.index(joint)] else {}
        if own and efforts is not None and efforts.named and joint in efforts.joints:
            own.setdefault("effort", (efforts.columns[efforts.joints.index(joint)], ""))
        wanted = [kind for kind, one in chosen.items() if joint in one.missing and kind in KINDS_OF_SLIDES]
        if own and all(kind in own for kind in wanted):
            found[joint] = {kind: own[kind] for kind in wanted}
    return found


def slides_decision(slides: Mapping[str, Mapping[str, tuple[str, str]]]) -> Decision:
    """What is said of such joints."""
    said = [f"{column} {unit}".strip() for own in slides.values() for column, unit in own.values()]
    verb = "slides" if len(slides) == 1 else "slide"
    why = f"{', '.join(slides)} {verb}, in columns of other units: {', '.join(said)}"
    return Decision("log.position.slides", "as their names say", (why,), likely=True)


def held_joints(
    robot: RobotModel, look: Excerpt, chosen: Mapping[str, Family], missing: Sequence[str], answers: Answers
) -> list[Decision]:
    """Where the joints stand that the log does not have."""
    taken = {column for one in chosen.values() for column in one.columns}
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
    """Columns that are called as those of a group, but for names that are no joints': they may be of missing joints."""
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
    """Where a joint stands that the log does not have.

    apart: whether that matters to none that it has.    named: columns of the log that name it nevertheless.
    alike: those that may be its under another name, and the one at its place.
    """
    key, j = f"{LOCK}{joint}", robot.joint_names.index(joint)
    rest = rest_position(robot, joint)
    why = f"the log has no column of '{joint}': it is held"
    if named:
        why = (
            f"no column of '{joint}' is one of these groups, though {few(named, _NAMED)} "
            f"name{'s' if len(named) == 1 else ''} it: it is held; columns and unit may be tables by joint"
        )
    if apart:
        found = Decision(
            key, f"{rest:g}", (f"{why}; it stands on a branch of its own, where its place does not matter",)
        )
    elif joint in hand_joints(robot):
        found = Decision(
            key, f"{rest:g}", (f"{why}; a joint of a hand, whose place matters little",), likely=True
        )
    else:
        unit = "m" if robot.prismatic[j] else "rad"
        question = f"at which position does '{joint}' stand, in {unit}?"
        if alike[0]:
            question += (
                f" Or does the log call it otherwise ({few(alike[0], _NAMED)}): --answer "
                f"'log.position.columns.{joint}={(*alike[1], alike[0][0])[0]}', and so for velocity and effort?"
            )
        if leaders := leaders_of(robot, joint):
            factors = ", ".join(f"{name} = {factor:.1f}" for name, factor in leaders.items())
            question += (
                " If bars keep its link level, write a robot file with the lines "
                f"urdf = '{Path(robot.source).name}', [[joint]], name = '{joint}', follows = {{ {factors} }}"
            )
        found = Decision(key, None, (why,), question)
    if key in answers:
        try:
            value = float(answers[key])
        except ValueError:
            return found
        return Decision(key, f"{value:g}", ("as you say",)) if np.isfinite(value) else found
    return found


def leaders_of(robot: RobotModel, joint: str) -> dict[str, float]:
    """Factors by which a joint follows those before it if bars keep its link level, as in a palletiser.

    Empty unless it carries other joints and turns about the axis of two or more joints before it.
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
    """Whether a joint carries none of those that the log has, and none of them carries it: as of another arm."""
    logged = ~np.isin(robot.joint_names, list(missing))
    return not on_branches_of(robot, logged)[robot.joint_names.index(joint)]


# More numbered columns than joints: which of them are the joints.

_TWIST = 6  # velocities of a body that moves freely
_UNIT = 1e-3  # squares of a quaternion sum to one but for this


def without_spare(
    look: Excerpt, chosen: dict[str, Family], decisions: dict[str, Decision], answers: Answers
) -> dict[str, Family]:
    """The groups with a column a joint; `decisions` gets what was decided of each that had more."""
    kept: dict[str, Family] = {}
    for kind, one in chosen.items():
        which = _which(look, kind, one, answers)
        if which is None:
            kept[kind] = one
            continue
        same = decisions.get("log.position.which")
        if same is not None and which.question and _as_many(one, chosen["position"]):
            # What is not of a joint stands at the same end in all groups.
            which = replace(which, value=same.value, why=("as those of the positions",), question="")
        decisions[which.key] = which
        kept[kind] = _cut(one, which.value)
    return kept


def _which(look: Excerpt, kind: str, family: Family, answers: Answers) -> Decision | None:
    """More numbered columns than joints: fingers, a rail, another arm."""
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
            found = Decision(key, name, (f"{reason}; the others never change",), options=options)
            return decided(found, answers)
        if kind == "position" and _of_free_bodies(values[:, dead]) and not _of_free_bodies(values[:, alive]):
            why = f"{reason}; the others are places and orientations of bodies that move freely"
            return decided(Decision(key, name, (why,), options=options), answers)
    return decided(Decision(key, None, (reason,), "which of them are the joints?", options), answers)


def _as_many(one: Family, positions: Family) -> bool:
    """Whether a group has as many columns as the positions, or six for each seven of bodies that move freely."""
    more, there = len(one.columns) - len(one.joints), len(positions.columns) - len(positions.joints)
    return more == there or (there % POSE == 0 and more == there // POSE * _TWIST)


def _of_free_bodies(values: Float) -> bool:
    """Whether columns (T, m) are places with unit quaternions behind them, seven a body."""
    if not values.shape[1] or values.shape[1] % POSE:
        return False
    bodies = values.reshape(len(values), -1, POSE)
    return bool((np.abs((bodies[:, :, 3:] ** 2).sum(axis=2) - 1.0) < _UNIT).all())


def _cut(family: Family, which: str | None) -> Family:
    n = len(family.joints)
    if which == "last":
        return replace(family, columns=family.columns[-n:], first=family.first + len(family.columns) - n)
    return replace(family, columns=family.columns[:n])
