"""The motion that the chosen columns show: unit, zero and order, each of which the others are judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.base.units import is_unit_of
from dynid.layouts.clock import Clock, rate_from_velocity
from dynid.layouts.joints import Order, decide_order, in_order
from dynid.layouts.names import Family
from dynid.layouts.physics import (
    DECISIVE,
    OFFSET,
    Motion,
    Recording,
    answered_offsets,
    decide_counters_zero,
    decide_offset,
    evidence,
    moved_by,
    rad_by_joint,
    unwrapped,
)
from dynid.layouts.presets import UNKNOWN
from dynid.layouts.proposal import AS_YOU_SAY, ROWS, Answers, Decision, Excerpt, Option, Refusal, decided
from dynid.layouts.units import (
    BY_FAR,
    METRE,
    Units,
    by_joint,
    decide_units,
    kind_of,
    over_angles,
    si,
    slides_among,
    speeds_of_slides,
    stays_within_limits,
    units_of_slides,
    units_within_limits,
    widest,
)
from dynid.log.checks import MOVED
from dynid.log.joints import WITHOUT_EFFORT, hand_joints
from dynid.robot.model import RobotModel

SIDE, UNIT = "log.position.side", "log.position.unit"
_LOOKS = 2  # at slides: in the unit of angle that is found without them, and in that which is found with them


@dataclass(frozen=True)
class MeasuredMotion:
    """How the columns are to be read.

    columns: number of the column of each joint.    zero: None = that of the description.    side: of positions and
    velocities, where it is answered or found; None = that of the joints.
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
    """Units, side, order and zero of positions and velocities.    chosen: by channel, "position" among them."""
    at_joints = _measured_motion(robot, look, clock, chosen, answers)
    if SIDE in answers or at_joints.units.fits or (np.abs(robot.drive.own_ratio) == 1).all():
        return at_joints
    at_motors = _measured_motion(robot, look, clock, chosen, {**answers, SIDE: "motor"})
    if not at_motors.units.fits:
        return at_joints
    said = chosen["position"].meaning
    read = "divided by the gear ratios of the description, as angles of motors, the joints stay within their limits"
    if (said.unit == UNKNOWN or said.doubt) and not said.motor and UNIT not in answers:
        # As counts they may stay within them, too: nothing but the user tells them apart.
        position = at_joints.units.position
        unit = at_motors.units.position.value or " or ".join(kind_of(robot).positions)
        why = f"{read} in {unit} (--answer log.position.side=motor)"
        return replace(
            at_joints, units=replace(at_joints.units, position=replace(position, why=(*position.why, why)))
        )
    torque = None
    if at_motors.motion is not None and at_joints.motion is not None:
        torque = evidence(robot, at_motors.motion, at_joints.motion)
    least = DECISIVE if at_joints.units.beyond <= BY_FAR else -DECISIVE
    if torque is not None and torque[0] <= least:
        return at_joints
    if torque is None and at_joints.units.beyond <= BY_FAR:
        return at_joints
    why = f"{read}; as those of the joints they move {at_joints.units.beyond:.3g} times as far as these allow"
    return replace(at_motors, side=Decision(SIDE, "motor", (why,), optional=True, likely=True))


def _measured_motion(
    robot: RobotModel, look: Excerpt, clock: Clock, chosen: Mapping[str, Family], answers: Answers
) -> MeasuredMotion:
    """As `measured_motion`, with positions of the joints unless it is answered that they are those of motors."""
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
        if first and units.velocity is not None and units.velocity.value is None and plain.dq is not None:
            # Velocities in the units of the positions, one a joint.
            alike = units_of(replace(recording, dq=plain.dq * ratios)).velocity
            if alike is not None and alike.value == f"{first}/s":
                each = ",".join(f"{unit.strip()}/s" for unit in answers[UNIT].split(","))
                units = replace(units, velocity=replace(alike, value=each))
        elif first:
            units = _speeds_by_joint(robot, family.joints, answered, units, first)
        if first:
            units = replace(units, position=replace(units.position, value=answers[UNIT]))
        elif not geared and slides_among(robot, family.joints, family.joints):
            units, recording, counted = with_slides(robot, family.joints, plain, units, units_of)
        zero = decide_offset(robot, family.joints, recording, units.scale, counted, answers)
        if zero is None and OFFSET not in answers and isinstance(units.scale, float):
            zero = decide_counters_zero(robot, family.joints, recording, units.scale, counted, units.motion)
        known = units.motion is not None and np.isfinite(units.scale).all() and (zero is None or zero.sure)
        return units, zero, units.motion.read_as(units.scale) if units.motion is not None and known else None

    plain = tuple(range(len(family.joints)))
    units, zero, motion = read(plain)
    if zero is not None and zero.likely and zero.value is not None:
        found = _measured_motion(robot, look, clock, chosen, {**answers, OFFSET: zero.value})
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


# Logs of a robot that stands still: neither units nor anything else can be told of them, and nothing
# identified.


def standstill(look: Excerpt, chosen: Mapping[str, Family], motion: MeasuredMotion | None) -> Refusal | None:
    """Why nothing is to be asked of a log in which no joint moves; None where one does, or may in rows further on."""
    if "position" not in chosen:
        return None
    q = look.table(chosen["position"].columns)
    # Of the usual units a radian is the largest.
    scale = 1.0 if motion is None else motion.units.scale
    scale = scale if isinstance(scale, float) and np.isfinite(scale) else 1.0
    most = scale * widest(q)
    if len(q) >= ROWS or most > MOVED:
        return None
    rows = f"{len(q)} rows"
    return Refusal(
        f"no joint that moves in this log ('{chosen['position'].template}', {rows})",
        "motion",
        "record an exciting motion; poses at rest, in rows far apart, are for `dynid statics`",
        "standstill",
        unfit=True,
    )


# The joints whose columns are used: those that positions and efforts have in common.

LEAST_MEASURED = 2.0 / 3.0  # of the joints with a position, as for names that are shortened


def on_common_joints(
    robot: RobotModel, chosen: dict[str, Family], decisions: dict[str, Decision]
) -> dict[str, Family]:
    """Velocities and efforts that cover fewer joints than the positions are of no use, but for those of a hand.

    A hand's positions are often logged without its effort: it is held then. Of another joint without one the motion is
    used, where most joints have one.
    """
    position, effort = chosen.get("position"), chosen.get("effort")
    if position is None:
        return chosen
    kept = dict(chosen)
    if effort is not None and effort.named and position.named:
        without = [joint for joint in position.joints if joint not in effort.joints]
        if without and hand_joints(robot).issuperset(without):
            position = _of_joints(position, [joint for joint in position.joints if joint not in without])
            kept["position"] = position
    for kind in ("velocity", "effort"):
        one = kept.get(kind)
        if one is not None and one.named and set(one.joints) > set(position.joints):
            kept[kind] = _of_joints(one, position.joints)
        elif kind == "effort" and one is not None and _is_enough(one, position, decisions):
            lacking = ", ".join(joint for joint in position.joints if joint not in one.joints)
            _add_why(decisions, kind, f"{lacking} without one: the motion is used alone; {WITHOUT_EFFORT}")
        elif one is not None and one.joints != position.joints:
            del kept[kind]
            lacking = ", ".join(one.missing) or "joints"
            advice = "" if kind == "velocity" else f"; {WITHOUT_EFFORT}"
            why = (f"'{one.template}' lacks {lacking}{advice}",)
            question = "" if kind == "velocity" else "which columns are the effort?"
            key = f"log.{kind}.columns"
            decisions[key] = Decision(key, None, why, question, optional=kind == "velocity")
    return kept


def without_other_scales(
    robot: RobotModel, look: Excerpt, position: Family, decisions: dict[str, Decision]
) -> Family:
    """The columns, by joint, without those of a hand that are no position of its joints: 0 to 255, or percent."""
    ends, units, strange = _other_scales(robot, look, position) if position.named else ({}, (), [])
    if not strange:
        return position
    said = ", ".join(f"'{joint}' from {ends[joint][0]:.4g} to {ends[joint][1]:.4g}" for joint in strange)
    why = f"{said}: no position of that joint in {' or '.join(units)} or m, so that it is held"
    _add_why(decisions, "position", why)
    return _of_joints(position, [joint for joint in position.joints if joint not in strange])


def in_known_order(
    robot: RobotModel, look: Excerpt, clock: Clock, chosen: dict[str, Family], answers: Answers
) -> dict[str, Family]:
    """Numbered columns by joint, where one of a hand is no position of its joint and the motion says their order."""
    position = chosen.get("position")
    if position is None or position.named or len(position.columns) != len(position.joints):
        return chosen
    clock = rate_from_velocity(look, clock, chosen)
    if clock.column.value is None or not clock.runs:
        return chosen
    alike = {kind: one for kind, one in chosen.items() if not one.named and one.joints == position.joints}
    if any(len(one.columns) != len(one.joints) for one in alike.values()):
        return chosen
    if not _other_scales(robot, look, position)[2]:
        return chosen
    found = measured_motion(robot, look, clock, chosen, answers)
    if not found.order.sure:
        return chosen
    by_joint = {
        kind: replace(one, columns=in_order(one.columns, found.columns), named=True, ordered=found.order.why)
        for kind, one in alike.items()
    }
    return chosen | by_joint if _other_scales(robot, look, by_joint["position"])[2] else chosen


def _other_scales(
    robot: RobotModel, look: Excerpt, position: Family
) -> tuple[dict[str, tuple[float, float]], tuple[str, ...], list[str]]:
    """Ends of every joint's columns, units that fit the others, and joints of a hand whose columns fit none."""
    hand = sorted(hand_joints(robot).intersection(position.joints), key=position.joints.index)
    if not hand or len(hand) == len(position.joints):
        return {}, (), []
    values = look.table(position.columns)
    with np.errstate(invalid="ignore"):
        low, high = (
            np.nanmin(values, axis=0, initial=np.inf),
            np.nanmax(values, axis=0, initial=-np.inf),
        )
    ends = dict(zip(position.joints, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    span = np.zeros(robot.n)
    for joint, (least, most) in ends.items():
        span[robot.joint_names.index(joint)] = 0.0 if joint in hand else most - least
    units = units_within_limits(robot, span)
    strange = []
    for joint in hand:
        own = np.zeros(robot.n)
        j = robot.joint_names.index(joint)
        own[j] = ends[joint][1] - ends[joint][0]
        if units and not any(stays_within_limits(robot, own, unit)[j] for unit in units):
            strange.append(joint)
    return ends, units, strange


def _add_why(decisions: dict[str, Decision], kind: str, why: str) -> None:
    one = decisions[f"log.{kind}.columns"]
    decisions[one.key] = replace(one, why=(*one.why, why))


def _most_joints(effort: Family, position: Family) -> bool:
    # Columns by names of joints; a few of them alone are likely to be of another kind.
    if not effort.named or not position.named or not set(effort.joints) < set(position.joints):
        return False
    return len(effort.joints) >= LEAST_MEASURED * len(position.joints)


def _is_enough(effort: Family, position: Family, decisions: Mapping[str, Decision]) -> bool:
    """Whether an effort of some of the joints is used: of most of them, or of those that the user named."""
    said = any(AS_YOU_SAY in why for why in decisions["log.effort.columns"].why)
    return _most_joints(effort, position) or (said and set(effort.joints) < set(position.joints))


def _of_joints(family: Family, joints: Sequence[str]) -> Family:
    """Some of the columns, by joint; the others are missing."""
    column = dict(zip(family.joints, family.columns, strict=True))
    left_out = tuple(one for one in family.joints if one not in joints)
    return replace(
        family,
        columns=tuple(column[one] for one in joints),
        joints=tuple(joints),
        missing=(*family.missing, *left_out),
    )
