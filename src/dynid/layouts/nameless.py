"""Group columns without names by joint, and detect their signals by derivatives and by the torque of a rigid model."""

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
# Columns of several files without names that form one recording: joint1/column[2].
_BY_PLACE = re.compile(r"/column\[\d+\]$")
# Minimum share of even clock steps, and maximum factor between an even step and the median.
_EVEN, _WITHIN = 0.9, 1.5
_ROWS_OF_RECORDING = 100
# Correlation above which two groups are copies of each other (measured and commanded).
_COPY = 0.98
_TIME_UNITS, _ANGLE_UNITS = (1.0, 1e-3, 1e-6, 1e-9), (1.0, np.pi / 180)
# Maximum number of groups that are tried as position and torque.
_MOST_TRIED = 4


def is_nameless(look: Excerpt) -> bool:
    """Whether the file is a single table whose columns have no names, such as a two-dimensional array."""
    placed = [_PLACED.fullmatch(name) for name in look.names]
    return bool(placed) and [(match[1], int(match[2])) for match in placed if match] == [
        (placed[0][1] if placed[0] else "", k) for k in range(len(placed))
    ]


def nameless(look: Excerpt, robot: RobotModel) -> tuple[list[Family], list[tuple[str, Meaning]]]:
    """Group adjacent columns of a table without names, one column per joint, and find its clock column.

    The clock is searched for among the first and the last columns.
    """
    names = list(look.numeric)
    values = look.table(names)
    clocks = [name for k, name in enumerate(names) if _is_clock(values[:, k])]
    while names and names[0] in clocks:
        names = names[1:]
    while names and names[-1] in clocks:
        names = names[:-1]
    # Steps of exactly 1 may count rows or milliseconds, so the sampling rate is asked for or detected later.
    steps = {
        clock_name: np.diff(values[:, k]) for k, clock_name in enumerate(look.numeric) if clock_name in clocks
    }
    timed = [clock_name for clock_name, step in steps.items() if (step[step > 0] != 1).any()]
    times = [
        (clock_name, Meaning("time", said_by="it increases in even steps"))
        for clock_name in timed
        if clock_name not in names
    ]
    t = look.table([times[0][0]])[:, 0] if times else None
    ways = [_side_by_side(look, robot, names, joints, t) for joints in _in_groups(robot, len(names))]
    # In a wrong grouping, a few columns may be derivatives of each other by coincidence.
    known = [len({"position", "effort"} & {group.meaning.quantity for group in way}) for way in ways]
    return ways[known.index(max(known))], times[:1]


def _in_groups(robot: RobotModel, columns: int) -> list[tuple[str, ...]]:
    """Candidate sets of joints with one column in each group: all joints, or all except the hand's.

    Sets that divide the number of columns evenly come first.
    """
    hands = hand_joints(robot)
    arm = tuple(joint for joint in robot.joint_names if joint not in hands)
    ways = [robot.joint_names, *([arm] if arm and hands and columns % len(arm) == 0 else [])]
    return sorted(ways, key=lambda joints: columns % len(joints) != 0)


def _side_by_side(
    look: Excerpt, robot: RobotModel, names: Sequence[str], joints: tuple[str, ...], t: Float | None
) -> list[Family]:
    """Split the columns into consecutive groups of one column per joint.

    Parameters
    ----------
    look : Excerpt
        Names and first rows of the log.
    robot : RobotModel
        The robot.
    names : sequence of str
        Names of the columns.
    joints : tuple of str
        Names of the joints.
    t : (T,) array or None
        Time; None without a clock.

    """
    n = len(joints)
    parts = [tuple(names[k : k + n]) for k in range(0, len(names) - n + 1, n)]
    blocks = [look.table(part) for part in parts]
    whole = [_whole(robot, joints, block) for block in blocks]
    meanings = _chain(parts, blocks, t) or _by_torque(robot, parts, whole, t) or [Meaning()] * len(parts)
    missing = tuple(joint for joint in robot.joint_names if joint not in joints)
    return [
        Family(_run(part), part, joints, False, 0, missing, meaning)
        for part, meaning in zip(parts, meanings, strict=True)
    ]


def _whole(robot: RobotModel, joints: Sequence[str], block: Float) -> Float:
    """Extend columns (T, m) of some joints to all joints (T, n); the other joints are constant at 0."""
    whole = np.zeros((len(block), robot.n))
    whole[:, [robot.joint_names.index(joint) for joint in joints]] = block
    return whole


def states_apart(groups: Sequence[Family], look: Excerpt, robot: RobotModel) -> list[Family]:
    """Split each array of states, in which the velocities follow the positions, into groups of one signal."""
    apart: list[Family] = []
    for group in groups:
        count = len(group.columns) // robot.n if len(group.columns) % robot.n == 0 else 1
        if group.named or count < 2 or not all(map(_PLACED.fullmatch, group.columns)):
            apart.append(group)
            continue
        parts = [group.columns[k : k + robot.n] for k in range(0, len(group.columns), robot.n)]
        meanings = _chain(parts, [look.table(part) for part in parts], None)
        apart += [
            replace(group, template=_run(part), columns=part, meaning=meaning)
            for part, meaning in zip(parts, meanings, strict=bool(meanings))
        ] or [group]
    return apart


def known_by_derivative(candidates: Sequence[Family], look: Excerpt) -> list[Family]:
    """Mark the position group if no name does: the group whose derivative is another group.

    Only groups with an unknown signal and groups named as velocities are compared.
    """
    if any(group.meaning.quantity == "position" for group in candidates):
        return list(candidates)
    free = [
        k
        for k, group in enumerate(candidates)
        if group.meaning.quantity in ("", "velocity") and group.meaning.role in ("", "measured")
    ]
    blocks = {k: look.table(candidates[k].columns) for k in free}
    derived = [
        (i, j)
        for i, j in permutations(free, 2)
        if not candidates[i].meaning.quantity
        and candidates[i].joints == candidates[j].joints
        and len(candidates[i].columns) == len(candidates[j].columns)
        and steps_per_unit(blocks[i], blocks[j], None) is not None
    ]
    if len(derived) != 1:  # none, or several pairs because of accelerations or copies: the user is asked
        return list(candidates)
    (root, speed), groups = derived[0], list(candidates)
    source = f"{groups[speed].template} is its derivative"
    groups[root] = replace(
        groups[root], meaning=replace(groups[root].meaning, quantity="position", said_by=source)
    )
    if not groups[speed].meaning.quantity:
        source = f"it is the derivative of {groups[root].template}"
        groups[speed] = replace(
            groups[speed], meaning=replace(groups[speed].meaning, quantity="velocity", said_by=source)
        )
    others = [k for k in free if k not in (root, speed) and not groups[k].meaning.quantity]
    by_place = all(_BY_PLACE.search(groups[k].template) for k in (root, speed, *others))
    if len(others) == 1 and by_place and not any(group.meaning.quantity in EFFORTS for group in groups):
        (k,) = others
        source = "neither a position nor its derivative"
        groups[k] = replace(groups[k], meaning=replace(groups[k].meaning, quantity="effort", said_by=source))
    return groups


def _is_clock(values: Float) -> bool:
    steps = np.diff(values)
    if not len(steps):
        return False
    middle = float(np.median(steps))
    # Concatenated recordings all restart at the same time.
    again = np.flatnonzero(steps <= 0)
    begun = np.abs(values[again + 1] - values[0]) <= _WITHIN * middle
    if not begun.all() or len(again) * _ROWS_OF_RECORDING > len(values):
        return False
    return bool(((steps > middle / _WITHIN) & (steps < middle * _WITHIN)).mean() > _EVEN)


def _run(part: Sequence[str]) -> str:
    ends = [match for name in (part[0], part[-1]) if (match := _PLACED.fullmatch(name))]
    return f"{ends[0][1]}[{ends[0][2]}:{int(ends[1][2]) + 1}]"


def _chain(parts: Sequence[Sequence[str]], blocks: Sequence[Float], t: Float | None) -> list[Meaning]:
    """Detect the signals by derivatives: positions have derivatives among the groups and are no derivative themselves.

    Empty if there is no position group.
    """
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
    """Detect positions and efforts as the pair that a rigid model explains; empty if no pair is decisively best."""
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
        # Commanded and measured signals get the same meaning here; the user is asked which is measured.
        if k == i or (k != j and _alike(blocks[k], blocks[i])):
            source = f"no names; a rigid model with this motion needs the torque {_run(parts[j])}"
            meanings[k] = Meaning("position", said_by=source)
        elif k == j or _alike(blocks[k], blocks[j]):
            source = f"no names; a rigid model with the motion {_run(parts[i])} needs this torque"
            meanings[k] = Meaning("effort", said_by=source)
    return meanings


# Units stated outside of the column names, below them or as an attribute, are treated as a part of the name.


def with_stated_units(look: Excerpt) -> dict[str, str]:
    """Names in the file by names that include the stated unit, such as q1 by "q1 [deg]"."""
    stated = {} if look.bag else {column.name: column.info.unit for column in look.stream.columns}
    return {_named(name, stated.get(name, "")): name for name in look.names}


def _named(name: str, unit: str) -> str:
    plain = unit.strip("[]() ")
    return name if not is_written_unit(plain) or BRACKETED_UNIT.search(name) else f"{name} [{plain}]"


def groups_as_named(groups: Sequence[Family], plain: Mapping[str, str]) -> list[Family]:
    """Rename groups of columns as in the file.

    Parameters
    ----------
    groups : sequence of Family
        Column groups.
    plain : dict
        Names in the file by names with units.

    """
    return [_as_named(group, plain) for group in groups]


def _as_named(group: Family, plain: Mapping[str, str]) -> Family:
    columns = tuple(plain.get(name, name) for name in group.columns)
    added = group.columns[0].removeprefix(columns[0]) if columns and columns != group.columns else ""
    return replace(group, template=group.template.removesuffix(added), columns=columns)


def meanings_as_named(
    columns: Sequence[tuple[str, Meaning]], plain: Mapping[str, str]
) -> list[tuple[str, Meaning]]:
    """Rename ungrouped columns as in the file, and keep their meanings."""
    return [(plain.get(name, name), meaning) for name, meaning in columns]


# Groups of a log's columns, one column per joint, and their meanings for this robot.


def column_groups(
    look: Excerpt, robot: RobotModel, known: Sequence[Preset]
) -> tuple[list[Family], list[tuple[str, Meaning]]]:
    """Groups of columns with one column per joint, and the meanings of ungrouped columns.

    Parameters
    ----------
    look : Excerpt
        Names and first rows of the log.
    robot : RobotModel
        The robot.
    known : sequence of Preset
        Presets that match the log.

    """
    if is_nameless(look):
        groups, alone = nameless(look, robot)
    else:
        groups = states_apart(_families(look, robot, known), look, robot)
        groups = _of_actuators(robot, known_by_derivative(groups, look))
        grouped = {column for group in groups for column in group.columns}
        named = with_stated_units(look)
        alone = single([name for name, plain in named.items() if plain not in grouped], known)
        alone = meanings_as_named(alone, named)
    return _of_slides(groups) if all(robot.prismatic) else groups, alone


def without_silent(groups: Sequence[Family], look: Excerpt) -> tuple[list[Family], tuple[str, ...]]:
    """Drop efforts that are 0 in every row, and list them. Some simulators log zeros.

    Positions and efforts that are constant are dropped too if other groups of the same signal change: they
    are limits, calibrations or rated torques.
    """
    signals = [group for group in groups if group.meaning.quantity in (*EFFORTS, "position")]
    values = {group.template: look.table(group.columns) for group in signals}
    still = {name for name, block in values.items() if not (np.nanmax(block, 0) - np.nanmin(block, 0)).any()}
    moving = {_kind(group) for group in signals if group.template not in still}
    silent = {
        group.template
        for group in signals
        if group.meaning.quantity in EFFORTS and not np.nan_to_num(values[group.template]).any()
    }
    out = silent | {group.template for group in signals if group.template in still and _kind(group) in moving}
    return [group for group in groups if group.template not in out], tuple(sorted(silent))


def _kind(group: Family) -> str:
    return "position" if group.meaning.quantity == "position" else "effort"


def _families(look: Excerpt, robot: RobotModel, known: Sequence[Preset]) -> list[Family]:
    """Group the columns by joint; if no group is a position, also try numbered columns without the hand's."""
    plain, numbers = with_stated_units(look), {*look.numeric} - ({"t"} if look.bag else set())
    columns = [name for name, file_name in plain.items() if file_name in numbers]
    numeric = {*look.numeric}.union(*look.orientations)
    texts = look.values([name for name in look.names if name not in numeric]) if not look.bag else {}
    labels = joint_labels(texts, robot.joint_names)
    groups = families(columns, robot.joint_names, known, look.bag, labels)
    if beside := _of_turning(robot, columns, groups, known, look.bag):
        return groups_as_named(beside, plain)
    hands = hand_joints(robot)
    arm = [joint for joint in robot.joint_names if joint not in hands]
    if len(arm) == robot.n or not arm or any(group.meaning.quantity == "position" for group in groups):
        return groups_as_named(groups, plain)
    hand = tuple(joint for joint in robot.joint_names if joint in hands)
    of_arm = [
        replace(group, missing=(*group.missing, *hand)) for group in families(columns, arm, known, look.bag)
    ]
    return groups_as_named(of_arm, plain)


def _of_turning(
    robot: RobotModel, columns: Sequence[str], groups: Sequence[Family], known: Sequence[Preset], bag: bool
) -> list[Family]:
    """Group the columns of the revolute joints of a robot that also has prismatic joints.

    These groups replace groups that contain prismatic joints only; the columns of prismatic joints are then
    found one at a time. Empty if no group is limited to prismatic joints, or if no column names the position
    of a revolute joint.
    """
    slides = [joint for joint, slide in zip(robot.joint_names, robot.prismatic, strict=True) if slide]
    turning = [joint for joint in robot.joint_names if joint not in slides]
    positions = [group for group in groups if group.meaning.quantity == "position"]
    if (
        not turning
        or not slides
        or (positions and all(set(group.joints) & set(turning) for group in positions))
    ):
        return []
    kept = [group for group in groups if set(group.joints) & set(turning)]
    taken = {column for group in kept for column in group.columns}
    named = [
        name for name in columns if name not in taken and any(naming(joint, [name]) for joint in turning)
    ]
    of_turning = [
        replace(group, missing=tuple(joint for joint in robot.joint_names if joint not in group.joints))
        for group in families(named, turning, known, bag)
    ]
    both = [*kept, *of_turning]
    return both if any(group.meaning.quantity == "position" for group in both) else []


def _of_actuators(robot: RobotModel, groups: Sequence[Family]) -> list[Family]:
    """Rank the efforts of simulated actuators: joint torque before actuator force, and force before input.

    Inputs of position controllers are commanded positions.
    """
    servo = robot.drive.servo
    kinds = {group.meaning.actuator for group in groups if group.meaning.quantity in EFFORTS}

    def meaning(meaning: Meaning) -> Meaning:
        if meaning.actuator == "input" and servo is not None and servo.known:
            return Meaning("position", "commanded", "rad", meaning.said_by)
        better = {None} if meaning.actuator == "force" else {None, "force"}
        return replace(meaning, role="spare") if meaning.actuator is not None and better & kinds else meaning

    return [replace(group, meaning=meaning(group.meaning)) for group in groups]


def _of_slides(groups: Sequence[Family]) -> list[Family]:
    """Adapt the meanings of the groups to a robot whose joints are all prismatic."""

    def meaning(group: Family) -> Meaning:
        place = "{joint}" if "{joint}" in group.template else "{number}"
        return meaning_of_slides(group.meaning, group.template.replace("{index}", place), place)

    return [replace(group, meaning=meaning(group)) for group in groups]
