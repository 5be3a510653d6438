"""The groups of a log's columns, one column a joint, and what each means of this robot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.layouts.excerpt import Excerpt
from dynid.layouts.meaning import EFFORTS, Meaning, meaning_of_slides, single
from dynid.layouts.nameless import is_nameless, known_by_derivative, nameless, states_apart
from dynid.layouts.names import Family, families, joint_labels, naming
from dynid.layouts.presets import Preset
from dynid.layouts.stated_units import groups_as_named, meanings_as_named, with_stated_units
from dynid.log.absent import hand_joints
from dynid.robot.model import RobotModel


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
