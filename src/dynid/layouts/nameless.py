"""Tables without names: columns one a joint side by side, known by what derives from what, and by the torque."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from dynid.base.arrays import Float
from dynid.layouts.clock import steps_per_unit
from dynid.layouts.meaning import BRACKETED_UNIT, EFFORTS, Meaning, is_written_unit, meaning_of_slides, single
from dynid.layouts.names import Family, families, joint_labels, naming
from dynid.layouts.physics import DECISIVE, FITS, Recording, misfit, motion_of, runs_of
from dynid.layouts.presets import Preset
from dynid.layouts.proposal import Excerpt
from dynid.log.joints import hand_joints
from dynid.robot.model import RobotModel

_PLACED = re.compile(r"(.+)\[(\d+)\]")
# Files without names that are parts of one recording: joint1/column[2].
_BY_PLACE = re.compile(r"/column\[\d+\]$")
# Steps of a clock are even but for this share of them, within this factor.
_EVEN, _WITHIN = 0.9, 1.5
_ROWS_OF_RECORDING = 100
# Two groups of columns are copies of one another (measured and wanted) with this correlation.
_COPY = 0.98
_TIME_UNITS, _ANGLE_UNITS = (1.0, 1e-3, 1e-6, 1e-9), (1.0, np.pi / 180)
# Groups that are tried as position and torque of an arm.
_MOST_TRIED = 4


def is_nameless(look: Excerpt) -> bool:
    """Whether all columns are called by their places in one table, as of an array of two axes that is all of a file."""
    placed = [_PLACED.fullmatch(name) for name in look.names]
    return bool(placed) and [(one[1], int(one[2])) for one in placed if one] == [
        (placed[0][1] if placed[0] else "", k) for k in range(len(placed))
    ]


def nameless(look: Excerpt, robot: RobotModel) -> tuple[list[Family], list[tuple[str, Meaning]]]:
    """The groups of columns, one a joint side by side, and the clock at the beginning or the end of the rows."""
    names = list(look.numeric)
    values = look.table(names)
    clocks = [name for k, name in enumerate(names) if _is_clock(values[:, k])]
    while names and names[0] in clocks:
        names = names[1:]
    while names and names[-1] in clocks:
        names = names[:-1]
    # Steps of exactly 1 are a count of rows, or of milliseconds: the rate of the rows is looked for instead.
    steps = {one: np.diff(values[:, k]) for k, one in enumerate(look.numeric) if one in clocks}
    timed = [one for one, own in steps.items() if (own[own > 0] != 1).any()]
    times = [(one, Meaning("time", said_by="it ascends in even steps")) for one in timed if one not in names]
    t = look.table([times[0][0]])[:, 0] if times else None
    ways = [_side_by_side(look, robot, names, joints, t) for joints in _in_groups(robot, len(names))]
    # By chance a few columns of a wrong way are derivatives of one another, too.
    known = [len({"position", "effort"} & {one.meaning.quantity for one in way}) for way in ways]
    return ways[known.index(max(known))], times[:1]


def _in_groups(robot: RobotModel, columns: int) -> list[tuple[str, ...]]:
    """The joints that may have a column in each group, those first that go into so many: all, or those of no hand."""
    hands = hand_joints(robot)
    arm = tuple(one for one in robot.joint_names if one not in hands)
    ways = [robot.joint_names, *([arm] if arm and hands and columns % len(arm) == 0 else [])]
    return sorted(ways, key=lambda one: columns % len(one) != 0)


def _side_by_side(
    look: Excerpt, robot: RobotModel, names: Sequence[str], joints: tuple[str, ...], t: Float | None
) -> list[Family]:
    """Groups of as many columns as there are joints, one behind the other.    t: (T,), None = no clock."""
    n = len(joints)
    parts = [tuple(names[k : k + n]) for k in range(0, len(names) - n + 1, n)]
    blocks = [look.table(part) for part in parts]
    whole = [_whole(robot, joints, block) for block in blocks]
    meanings = _chain(parts, blocks, t) or _by_torque(robot, parts, whole, t) or [Meaning()] * len(parts)
    missing = tuple(one for one in robot.joint_names if one not in joints)
    return [
        Family(_run(part), part, joints, False, 0, missing, meaning)
        for part, meaning in zip(parts, meanings, strict=True)
    ]


def _whole(robot: RobotModel, joints: Sequence[str], block: Float) -> Float:
    """Columns of some joints (T, m) as those of all (T, n); the others stand still at 0."""
    found = np.zeros((len(block), robot.n))
    found[:, [robot.joint_names.index(one) for one in joints]] = block
    return found


def states_apart(found: Sequence[Family], look: Excerpt, robot: RobotModel) -> list[Family]:
    """The groups; an array of states, positions with velocities beside them, is several."""
    apart: list[Family] = []
    for one in found:
        count = len(one.columns) // robot.n if len(one.columns) % robot.n == 0 else 1
        if one.named or count < 2 or not all(map(_PLACED.fullmatch, one.columns)):
            apart.append(one)
            continue
        parts = [one.columns[k : k + robot.n] for k in range(0, len(one.columns), robot.n)]
        meanings = _chain(parts, [look.table(part) for part in parts], None)
        apart += [
            replace(one, template=_run(part), columns=part, meaning=meaning)
            for part, meaning in zip(parts, meanings, strict=bool(meanings))
        ] or [one]
    return apart


def known_by_derivative(found: Sequence[Family], look: Excerpt) -> list[Family]:
    """The groups; where none is called a position, the one that another, the velocity, is the derivative of is.

    They are looked for among those of which no name says anything, and those that are called velocities.
    """
    if any(one.meaning.quantity == "position" for one in found):
        return list(found)
    free = [
        k
        for k, one in enumerate(found)
        if one.meaning.quantity in ("", "velocity") and one.meaning.role in ("", "measured")
    ]
    blocks = {k: look.table(found[k].columns) for k in free}
    derived = [
        (i, j)
        for i, j in permutations(free, 2)
        if not found[i].meaning.quantity
        and found[i].joints == found[j].joints
        and len(found[i].columns) == len(found[j].columns)
        and steps_per_unit(blocks[i], blocks[j], None) is not None
    ]
    if len(derived) != 1:  # none, or accelerations and copies beside them: a question
        return list(found)
    (root, speed), groups = derived[0], list(found)
    said = f"{groups[speed].template} is its derivative"
    groups[root] = replace(
        groups[root], meaning=replace(groups[root].meaning, quantity="position", said_by=said)
    )
    if not groups[speed].meaning.quantity:
        said = f"it is the derivative of {groups[root].template}"
        groups[speed] = replace(
            groups[speed], meaning=replace(groups[speed].meaning, quantity="velocity", said_by=said)
        )
    others = [k for k in free if k not in (root, speed) and not groups[k].meaning.quantity]
    by_place = all(_BY_PLACE.search(groups[k].template) for k in (root, speed, *others))
    if len(others) == 1 and by_place and not any(one.meaning.quantity in EFFORTS for one in groups):
        (k,) = others
        said = "neither a position nor its derivative"
        groups[k] = replace(groups[k], meaning=replace(groups[k].meaning, quantity="effort", said_by=said))
    return groups


def _is_clock(values: Float) -> bool:
    steps = np.diff(values)
    if not len(steps):
        return False
    middle = float(np.median(steps))
    # Recordings one behind the other begin at the same time each.
    again = np.flatnonzero(steps <= 0)
    begun = np.abs(values[again + 1] - values[0]) <= _WITHIN * middle
    if not begun.all() or len(again) * _ROWS_OF_RECORDING > len(values):
        return False
    return bool(((steps > middle / _WITHIN) & (steps < middle * _WITHIN)).mean() > _EVEN)


def _run(part: Sequence[str]) -> str:
    ends = [found for name in (part[0], part[-1]) if (found := _PLACED.fullmatch(name))]
    return f"{ends[0][1]}[{ends[0][2]}:{int(ends[1][2]) + 1}]"


def _chain(parts: Sequence[Sequence[str]], blocks: Sequence[Float], t: Float | None) -> list[Meaning]:
    """Positions are what other columns are the derivative of, and no derivative themselves; [] = there are none."""
    steps = None if t is None else np.diff(t)
    derived = {
        (i, j)
        for i, j in permutations(range(len(blocks)), 2)
        if steps_per_unit(blocks[i], blocks[j], steps) is not None
    }
    roots = [
        i for i in range(len(blocks)) if any(a == i for a, _ in derived) and all(b != i for _, b in derived)
    ]
    if not roots:
        return []
    speeds = {b for a, b in derived if a in roots}
    further = {b for a, b in derived if a in speeds}
    known = set(roots) | speeds | further
    copies = {
        k for k in range(len(blocks)) if k not in known and any(_alike(blocks[k], blocks[i]) for i in known)
    }
    words = ", ".join(_run(parts[k]) for k in sorted(speeds))
    meanings = []
    for k in range(len(blocks)):
        if k in roots:
            meanings.append(Meaning("position", said_by=f"{words} are its derivative"))
        elif k in further:
            meanings.append(Meaning("acceleration", said_by="name"))
        elif k in speeds:
            meanings.append(Meaning("velocity", said_by="it is the derivative of the position"))
        elif k in copies:
            meanings.append(Meaning())
        else:
            meanings.append(Meaning("effort", said_by="neither a position nor its derivative"))
    return meanings


def _alike(a: Float, b: Float) -> bool:
    with np.errstate(invalid="ignore", divide="ignore"):
        both = [np.corrcoef(a[:, j], b[:, j])[0, 1] for j in range(a.shape[1])]
    return bool(np.nanmedian([*both, 0.0]) > _COPY)


def _by_torque(
    robot: RobotModel, parts: Sequence[Sequence[str]], blocks: Sequence[Float], t: Float | None
) -> list[Meaning]:
    """Positions and efforts are what a rigid arm explains, one by the other; [] = nothing decides."""
    if t is None or not 2 <= len(blocks) <= _MOST_TRIED:
        return []
    tried: list[tuple[float, int, int]] = []
    for i, j in permutations(range(len(blocks)), 2):
        read = Recording(t, blocks[i], None, blocks[j], runs_of(t))
        for second in _TIME_UNITS:
            motion = motion_of(read, second)
            if motion is None:
                continue
            for angle in _ANGLE_UNITS:
                left = misfit(robot, motion.read_as(angle))
                if left is not None and (np.sqrt(left[left < 1]) <= FITS).all() and (left < 1).any():
                    tried.append((float(np.log(left).sum()), i, j))
            break
    tried.sort()
    others = [value for value, i, j in tried if (i, j) != tried[0][1:]]
    if not tried or (others and others[0] - tried[0][0] < DECISIVE):
        return []
    _, i, j = tried[0]
    meanings = [Meaning()] * len(blocks)
    for k in range(len(blocks)):
        # What was commanded goes with what was measured: which is which is asked.
        if k == i or (k != j and _alike(blocks[k], blocks[i])):
            said = f"no names; a rigid arm that moves so takes the torque {_run(parts[j])}"
            meanings[k] = Meaning("position", said_by=said)
        elif k == j or _alike(blocks[k], blocks[j]):
            said = f"no names; a rigid arm takes it when it moves as {_run(parts[i])}"
            meanings[k] = Meaning("effort", said_by=said)
    return meanings


# Units that a file states beside its columns, below their names or as an attribute, read as a part of the
# name.


def with_stated_units(look: Excerpt) -> dict[str, str]:
    """The columns' names by their names with the unit that the file states of them: q1 by "q1 [deg]"."""
    stated = {} if look.bag else {column.name: column.info.unit for column in look.stream.columns}
    return {_named(name, stated.get(name, "")): name for name in look.names}


def _named(name: str, unit: str) -> str:
    plain = unit.strip("[]() ")
    return name if not is_written_unit(plain) or BRACKETED_UNIT.search(name) else f"{name} [{plain}]"


def groups_as_named(found: Sequence[Family], plain: Mapping[str, str]) -> list[Family]:
    """Groups of columns whose names had their units, called as the file calls them.    plain: names by those."""
    return [_as_named(one, plain) for one in found]


def _as_named(one: Family, plain: Mapping[str, str]) -> Family:
    columns = tuple(plain.get(name, name) for name in one.columns)
    added = one.columns[0].removeprefix(columns[0]) if columns and columns != one.columns else ""
    return replace(one, template=one.template.removesuffix(added), columns=columns)


def meanings_as_named(
    found: Sequence[tuple[str, Meaning]], plain: Mapping[str, str]
) -> list[tuple[str, Meaning]]:
    """Columns that stand alone, called as the file calls them, with their meanings."""
    return [(plain.get(name, name), meaning) for name, meaning in found]


# The groups of a log's columns, one column a joint, and what each means of this robot.


def column_groups(
    look: Excerpt, robot: RobotModel, known: Sequence[Preset]
) -> tuple[list[Family], list[tuple[str, Meaning]]]:
    """The groups, one column a joint, and what the columns of none mean.    known: presets that fit the log."""
    if is_nameless(look):
        found, alone = nameless(look, robot)
    else:
        found = states_apart(_families(look, robot, known), look, robot)
        found = _of_actuators(robot, known_by_derivative(found, look))
        grouped = {column for one in found for column in one.columns}
        named = with_stated_units(look)
        alone = single([name for name, plain in named.items() if plain not in grouped], known)
        alone = meanings_as_named(alone, named)
    return _of_slides(found) if all(robot.prismatic) else found, alone


def without_silent(found: Sequence[Family], look: Excerpt) -> tuple[list[Family], tuple[str, ...]]:
    """The groups but efforts that are 0 in every row, as of simulators that have none, and what these are called.

    Positions and efforts that never change are left out, too, where others do: limits, calibrations, rated torques.
    """
    signals = [one for one in found if one.meaning.quantity in (*EFFORTS, "position")]
    values = {one.template: look.table(one.columns) for one in signals}
    still = {name for name, one in values.items() if not (np.nanmax(one, 0) - np.nanmin(one, 0)).any()}
    moving = {_kind(one) for one in signals if one.template not in still}
    silent = {
        one.template
        for one in signals
        if one.meaning.quantity in EFFORTS and not np.nan_to_num(values[one.template]).any()
    }
    out = silent | {one.template for one in signals if one.template in still and _kind(one) in moving}
    return [one for one in found if one.template not in out], tuple(sorted(silent))


def _kind(one: Family) -> str:
    return "position" if one.meaning.quantity == "position" else "effort"


def _families(look: Excerpt, robot: RobotModel, known: Sequence[Preset]) -> list[Family]:
    """The groups of columns; numbered ones may be those of the arm without its hand."""
    plain, numbers = with_stated_units(look), {*look.numeric} - ({"t"} if look.bag else set())
    columns = [name for name, own in plain.items() if own in numbers]
    numeric = {*look.numeric}.union(*look.orientations)
    texts = look.values([name for name in look.names if name not in numeric]) if not look.bag else {}
    labels = joint_labels(texts, robot.joint_names)
    found = families(columns, robot.joint_names, known, look.bag, labels)
    if beside := _of_turning(robot, columns, found, known, look.bag):
        return groups_as_named(beside, plain)
    hands = hand_joints(robot)
    arm = [one for one in robot.joint_names if one not in hands]
    if len(arm) == robot.n or not arm or any(one.meaning.quantity == "position" for one in found):
        return groups_as_named(found, plain)
    hand = tuple(one for one in robot.joint_names if one in hands)
    own = [replace(one, missing=(*one.missing, *hand)) for one in families(columns, arm, known, look.bag)]
    return groups_as_named(own, plain)


def _of_turning(
    robot: RobotModel, columns: Sequence[str], found: Sequence[Family], known: Sequence[Preset], bag: bool
) -> list[Family]:
    """The groups of a robot some of whose joints slide, with those of joints that turn in place of slides' alone.

    Slides are then found by their own columns, as a single one is beside many joints that turn; so are those of two
    joints of which one slides, whose columns are no group.
    () where no group is of slides alone, or no column names the position of a joint that turns.
    """
    slides = [joint for joint, slide in zip(robot.joint_names, robot.prismatic, strict=True) if slide]
    turning = [joint for joint in robot.joint_names if joint not in slides]
    positions = [one for one in found if one.meaning.quantity == "position"]
    if not turning or not slides or (positions and all(set(one.joints) & set(turning) for one in positions)):
        return []
    kept = [one for one in found if set(one.joints) & set(turning)]
    taken = {column for one in kept for column in one.columns}
    named = [name for name in columns if name not in taken and any(naming(one, [name]) for one in turning)]
    own = [
        replace(one, missing=tuple(joint for joint in robot.joint_names if joint not in one.joints))
        for one in families(named, turning, known, bag)
    ]
    both = [*kept, *own]
    return both if any(one.meaning.quantity == "position" for one in both) else []


def _of_actuators(robot: RobotModel, found: Sequence[Family]) -> list[Family]:
    """The groups; of simulated actuators the torque at the joints is better than their force, and this than the input.

    Inputs of position controllers are the positions that they were commanded.
    """
    servo = robot.drive.servo
    kinds = {one.meaning.actuator for one in found if one.meaning.quantity in EFFORTS}

    def meaning(said: Meaning) -> Meaning:
        if said.actuator == "input" and servo is not None and servo.known:
            return Meaning("position", "commanded", "rad", said.said_by)
        better = {None} if said.actuator == "force" else {None, "force"}
        return replace(said, role="spare") if said.actuator is not None and better & kinds else said

    return [replace(one, meaning=meaning(one.meaning)) for one in found]


def _of_slides(found: Sequence[Family]) -> list[Family]:
    """The groups, with what their names mean where all joints slide."""

    def meaning(one: Family) -> Meaning:
        place = "{joint}" if "{joint}" in one.template else "{number}"
        return meaning_of_slides(one.meaning, one.template.replace("{index}", place), place)

    return [replace(one, meaning=meaning(one)) for one in found]
