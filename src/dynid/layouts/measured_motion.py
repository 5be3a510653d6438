"""The motion that the chosen columns show: unit, zero and order, each of which the others are judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.base.units import is_unit_of
from dynid.layouts.calibration import rad_by_joint
from dynid.layouts.clock import Clock
from dynid.layouts.decision import Answers, Decision, Option, decided
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.names import Family
from dynid.layouts.order import Order, decide_order, in_order
from dynid.layouts.physics import Motion, Recording, unwrapped
from dynid.layouts.slide_units import (
    METRE,
    by_joint,
    over_angles,
    slides_among,
    speeds_of_slides,
    units_of_slides,
)
from dynid.layouts.unit_kinds import kind_of, si
from dynid.layouts.units import Units, decide_units
from dynid.layouts.zero import OFFSET, answered_offsets, decide_counters_zero, decide_offset, moved_by
from dynid.robot.model import RobotModel

SIDE, UNIT = "log.position.side", "log.position.unit"
_LOOKS = 2  # at slides: in the unit of angle that is found without them, and in that which is found with them


@dataclass(frozen=True)
class MeasuredMotion:
    """How the columns are to be read.

    columns: number of the column of each joint.    zero: None = that of the description.    side: of positions and
    velocities, where it is answered; None = that of the joints.
    motion: in SI units; None where unit or zero are not known.
    """

    units: Units
    order: Decision
    columns: Order
    zero: Decision | None
    motion: Motion | None
    side: Decision | None = None


def measured_motion(
    robot: RobotModel, look: Excerpt, clock: Clock, chosen: Mapping[str, Family], answers: Answers
) -> MeasuredMotion:
    """Units, order and zero of positions and velocities.    chosen: groups by channel, "position" among them."""
    family = chosen["position"]
    said = {kind: one.meaning for kind, one in chosen.items()}
    per_percent = rad_by_joint(robot, family, answers)
    side = _side(answers)
    geared = side is not None and side.value == "motor"
    offsets = answered_offsets(family.joints, answers)

    first, ratios = _units_by_joint(robot, family.joints, answers)
    answered = slides_among(robot, family.joints, answers.get(UNIT, "").split(",")) if first else {}

    def units_of(recording: Recording) -> Units:
        return decide_units(
            robot,
            recording,
            clock,
            family,
            said.get("velocity"),
            {**answers, UNIT: first} if first else answers,
            per_percent,
            said.get("effort"),
        )

    def read(at: Order) -> tuple[Units, Decision | None, Motion | None]:
        plain = moved_by(_recording(robot, look, clock, chosen, at, geared), robot, offsets)
        recording = replace(plain, q=plain.q * ratios)
        units = units_of(recording)
        counted = first or units.position.value or ""
        if first:
            units = replace(units, position=replace(units.position, value=answers[UNIT]))
            units = _speeds_by_joint(robot, family.joints, answered, units, first)
        elif slides_among(robot, family.joints, family.joints):
            units, recording, counted = with_slides(robot, family.joints, plain, units, units_of)
        zero = decide_offset(robot, family.joints, recording, units.scale, counted, answers)
        if zero is None and OFFSET not in answers and isinstance(units.scale, float):
            zero = decide_counters_zero(robot, family.joints, recording, units.scale, counted, units.motion)
        known = units.motion is not None and np.isfinite(units.scale).all() and (zero is None or zero.sure)
        return units, zero, units.motion.read_as(units.scale) if units.motion is not None and known else None

    plain = tuple(range(len(family.joints)))
    units, zero, motion = read(plain)
    if zero is not None and zero.likely and zero.value is not None:
        found = measured_motion(robot, look, clock, chosen, {**answers, OFFSET: zero.value})
        return replace(found, zero=zero)
    order, at = decide_order(robot, family, motion, answers)
    if at != plain:
        # Limits and masses are those of the joints: units are looked at again in the order that was found.
        units, zero, motion = read(at)
    return MeasuredMotion(units, order, at, zero, motion, side)


def with_slides(
    robot: RobotModel,
    joints: Sequence[str],
    plain: Recording,
    units: Units,
    units_of: Callable[[Recording], Units],
) -> tuple[Units, Recording, str]:
    """Units by joint where some slide among others that turn; the recording in that of the latter, and this unit.

    plain: as logged.    units: of joints that turn, where slides are looked at as those are.    units_of: of a
    recording whose slides are in their unit; where it is another, slides are looked at once more.
    """
    slides = slides_among(robot, joints, joints)
    named = f"{', '.join(slides)} {'slides' if len(slides) == 1 else 'slide'}"
    tried: list[str] = []
    recording = plain
    while (angle := units.position.value or "") not in tried:
        if not is_unit_of(angle, "angle"):
            return units, plain, angle
        if len(tried) == _LOOKS:
            break
        tried.append(angle)
        slides = units_of_slides(robot, joints, plain.q, angle)
        recording = replace(plain, q=plain.q * over_angles(robot, slides, angle))
        units = units_of(recording)
    unknown = [joint for joint, unit in slides.items() if not unit]
    reason = ""
    if angle != tried[-1]:
        reason = f"what turns fits {' and '.join(dict.fromkeys([*tried, angle]))}, each with other units of what slides"
    elif unknown and angle != "rad":
        reason = f"no unit of length fits the limits of {', '.join(unknown)}"
    if reason:
        example = ",".join("mm" if joint in slides else angle for joint in joints)
        question = f"which unit has each joint, from base to tip, with commas ({example}, for one)?"
        asked = Decision(UNIT, None, (f"{named}, and {reason}",), question)
        return replace(units, position=asked, scale=float("nan")), recording, angle
    slides = {joint: unit or METRE for joint, unit in slides.items()}
    value = by_joint(joints, angle, slides)
    likely = units.position.likely or value != angle
    why = f"{named}: in {', '.join(dict.fromkeys(slides.values()))}" + (", by the limits" if likely else "")
    position = replace(units.position, value=value, why=(*units.position.why, why), likely=likely)
    units = _speeds_by_joint(robot, joints, slides, replace(units, position=position), angle)
    return units, recording, angle


def _speeds_by_joint(
    robot: RobotModel, joints: Sequence[str], slides: Mapping[str, str], units: Units, angle: str
) -> Units:
    """Units with one of velocity for each joint where some slide among others that turn.    slides: their units."""
    velocity = units.velocity
    if not slides or velocity is None or velocity.value is None or units.motion is None:
        return units
    speeds = speeds_of_slides(robot, slides, units.motion, angle)
    wrong = [joint for joint, speed in speeds.items() if not speed]
    if wrong:
        why = f"of {', '.join(wrong)} it does not follow the derivative of the position"
        left_out = (f"{why}: left out, velocities are made from positions",)
        return replace(units, velocity=replace(velocity, value=None, why=left_out))
    return replace(units, velocity=replace(velocity, value=by_joint(joints, velocity.value, speeds)))


def _units_by_joint(robot: RobotModel, joints: Sequence[str], answers: Answers) -> tuple[str, Float]:
    """The first of several units that are answered, one a joint, and those of all over it (n,); "", ones = no such.

    Where joints slide beside others that turn, the first of a joint that turns.
    Raises UsageError for as many units as there are no joints, and for what is no unit of these.
    """
    ratios = np.ones(robot.n)
    units = [one.strip() for one in answers.get(UNIT, "").split(",")]
    if len(units) == 1:
        return "", ratios
    numbers = [robot.joint_names.index(joint) for joint in joints]
    lengths = ["length" if robot.prismatic[j] else "angle" for j in numbers]
    if len(units) != len(joints) or not all(map(is_unit_of, units, lengths)):
        slides = [joint for joint, length in zip(joints, lengths, strict=True) if length == "length"]
        kinds = (
            kind_of(robot).length
            if len(slides) in (0, len(joints))
            else f"angle ({', '.join(slides)}: of length)"
        )
        raise UsageError(
            "unknown-answer",
            found=f"{UNIT} = {answers[UNIT]}",
            expected=f"a unit of {kinds}, or {len(joints)} from base to tip, with commas",
        )
    of = kind_of(robot).length
    first = units[lengths.index(of)] if of in lengths else units[0]
    for j, unit, length in zip(numbers, units, lengths, strict=True):
        ratios[j] = si(unit, length) / si(first, of if of in lengths else length)
    return first, ratios


def _side(answers: Answers) -> Decision | None:
    """Whether positions are those of motors before their gears, where that is answered: nothing else says so."""
    if SIDE not in answers:
        return None
    question = "are positions those of the joints (link) or of the motors (motor)?"
    options = (Option("link", "of the joints"), Option("motor", "before the gears"))
    return decided(Decision(SIDE, None, (), question, options, optional=True), answers)


def _recording(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    chosen: Mapping[str, Family],
    at: Sequence[int],
    geared: bool,
) -> Recording:
    """What was logged, by joint.    geared: whether positions and velocities are those of the motors."""
    t = look.table([clock.column.value or ""])[:, 0]
    read = {kind: _table(robot, look, family, at) for kind, family in chosen.items()}
    q, dq = unwrapped(read["position"]), read.get("velocity")
    if geared:
        at_joints = np.linalg.inv(robot.drive.transmission).T
        q, dq = q @ at_joints, None if dq is None else dq @ at_joints
    return Recording(t, q, dq, read.get("effort"), clock.runs)


def _table(robot: RobotModel, look: Excerpt, family: Family, at: Sequence[int]) -> Float:
    """Columns by joint, (T, n); joints that the log does not have stand still at 0."""
    read = look.table(family.columns if family.named else in_order(family.columns, at))
    whole = np.zeros((len(read), robot.n))
    whole[:, [robot.joint_names.index(one) for one in family.joints]] = read
    return whole
