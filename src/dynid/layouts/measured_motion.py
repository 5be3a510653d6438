"""Decide the units, zero and order of the selected columns, each checked against the motion that results."""

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
    decide_calibration,
    decide_counters_zero,
    decide_offset,
    evidence,
    joints_in_percent,
    moved_by,
    percent_as_angles,
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
from dynid.log.mapping import LIMITS, PERCENT
from dynid.robot.model import RobotModel

SIDE, UNIT = "log.position.side", "log.position.unit"
_LOOKS = 2  # attempts: with the angle unit selected without the prismatic joints, then with them


@dataclass(frozen=True)
class MeasuredMotion:
    """Interpretation of the columns.

    Attributes
    ----------
    columns : tuple of int
        Column index of each joint.
    zero : Decision or None
        Offset of the positions; None if they count from the zero of the model file.
    motion : Motion or None
        Motion in SI units; None if the unit or the zero is unknown.
    side : Decision or None
        Whether positions and velocities are measured at motors or joints, if answered or detected; None
        means joints.

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
    """Decide units, side (joint or motor), order and zero of positions and velocities.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    look : Excerpt
        Names and first rows of the log.
    clock : Clock
        The clock of the log.
    chosen : dict
        Column group of each channel; "position" is required.
    answers : Answers
        User answers by key.

    """
    at_joints = _measured_motion(robot, look, clock, chosen, answers)
    if SIDE in answers or at_joints.units.fits or (np.abs(robot.drive.own_ratio) == 1).all():
        return at_joints
    at_motors = _measured_motion(robot, look, clock, chosen, {**answers, SIDE: "motor"})
    if not at_motors.units.fits:
        return at_joints
    meaning = chosen["position"].meaning
    read = (
        "as motor positions, divided by the gear ratios of the model file, the joints stay "
        "within their limits"
    )
    if (meaning.unit == UNKNOWN or meaning.doubt) and not meaning.motor and UNIT not in answers:
        # Encoder counts may fit the limits on either side, so only the user can decide.
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
    why = f"{read}; as joint positions they span {at_joints.units.beyond:.3g} times the available range"
    return replace(at_motors, side=Decision(SIDE, "motor", (why,), optional=True, likely=True))


def _measured_motion(
    robot: RobotModel, look: Excerpt, clock: Clock, chosen: Mapping[str, Family], answers: Answers
) -> MeasuredMotion:
    """Do the work of `measured_motion` for joint positions, unless an answer states that they are motor positions."""
    family = chosen["position"]
    meanings = {kind: group.meaning for kind, group in chosen.items()}
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
            meanings.get("velocity"),
            {**answers, UNIT: first} if first else answers,
            per_percent,
            meanings.get("effort"),
        )

    def read(at: Order) -> tuple[Units, Decision | None, Motion | None]:
        plain = moved_by(_recording(robot, look, clock, chosen, at, geared), robot, offsets)
        recording = replace(plain, q=plain.q * ratios)
        shares = () if first else joints_in_percent(robot, family, plain.q)
        units = units_of(recording)
        if shares:
            units, recording = with_shares(robot, family, plain, shares, answers, units_of)
        counted = first or units.position.value or ""
        if first and units.velocity is not None and units.velocity.value is None and plain.dq is not None:
            # Each joint's velocity may be in the unit of its position, per second.
            alike = units_of(replace(recording, dq=plain.dq * ratios)).velocity
            if alike is not None and alike.value == f"{first}/s":
                each = ",".join(f"{unit.strip()}/s" for unit in answers[UNIT].split(","))
                units = replace(units, velocity=replace(alike, value=each))
        elif first:
            units = _speeds_by_joint(robot, family.joints, answered, units, first)
        if first:
            units = replace(units, position=replace(units.position, value=answers[UNIT]))
        elif not geared and not shares and slides_among(robot, family.joints, family.joints):
            units, recording, counted = with_slides(robot, family.joints, plain, units, units_of)
        zero = decide_offset(robot, family.joints, recording, units.scale, counted, answers)
        if zero is None and OFFSET not in answers and isinstance(units.scale, float):
            zero = decide_counters_zero(robot, family.joints, recording, units.scale, counted, units.motion)
        known = units.motion is not None and np.isfinite(units.scale).all() and (zero is None or zero.sure)
        return units, zero, units.motion.read_as(units.scale) if units.motion is not None and known else None

    plain = tuple(range(len(family.joints)))
    units, zero, motion = read(plain)
    if zero is not None and zero.likely and zero.value is not None:
        shifted = _measured_motion(robot, look, clock, chosen, {**answers, OFFSET: zero.value})
        return replace(shifted, zero=zero)
    order, at = decide_order(robot, family, motion, answers)
    if at != plain:
        # Limits and masses belong to the joints, so the units are decided again in the order just decided.
        units, zero, motion = read(at)
    return MeasuredMotion(units, order, at, zero, motion, side)


def with_shares(
    robot: RobotModel,
    family: Family,
    plain: Recording,
    shares: Sequence[str],
    answers: Answers,
    units_of: Callable[[Recording], Units],
) -> tuple[Units, Recording]:
    """Decide the units of a robot with some joints in percent of their motors' range.

    The other joints decide the unit of angle. If they are in percent, too, the units are decided for all joints alike.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    family : Family
        Column group of the positions.
    plain : Recording
        Recording as logged.
    shares : sequence of str
        Joints in percent.
    answers : Answers
        User answers by key.
    units_of : callable
        Decides the units of a recording.

    Returns
    -------
    units : Units
        Units with an entry per joint.
    recording : Recording
        Recording with all positions in the angle unit.

    """
    numbers = [robot.joint_names.index(joint) for joint in shares]
    others = plain.q.copy()
    others[:, numbers] = 0.0
    angle = units_of(replace(plain, q=others)).position.value or ""
    if not is_unit_of(angle, "angle"):
        return units_of(plain), plain
    q = percent_as_angles(robot, family, plain.q, shares, si(angle, "angle"), answers)
    recording = replace(plain, q=q)
    units = units_of(recording)
    why = f"{', '.join(shares)} in {PERCENT} of the range, as {family.meaning.said_by} says"
    value = ",".join(PERCENT if joint in shares else angle for joint in family.joints)
    position = replace(units.position, value=value, why=(*units.position.why, why))
    asked = decide_calibration(answers)
    if asked.value is None:
        assumed = "without the file that lerobot-calibrate wrote, 0 to 100 % are the limits in the robot file"
        asked = replace(asked, value=LIMITS, why=(assumed,), question="", likely=True)
    return replace(units, position=position, calibration=asked), recording


def with_slides(
    robot: RobotModel,
    joints: Sequence[str],
    plain: Recording,
    units: Units,
    units_of: Callable[[Recording], Units],
) -> tuple[Units, Recording, str]:
    """Decide the units of a robot with prismatic and revolute joints.

    The units of the prismatic joints are decided for a candidate angle unit. If the angle unit then changes,
    they are decided once more.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    joints : sequence of str
        Names of the joints.
    plain : Recording
        Recording as logged.
    units : Units
        Units decided with the prismatic joints treated as revolute joints.
    units_of : callable
        Decides the units of a recording whose prismatic joints are already scaled.

    Returns
    -------
    units : Units
        Units with an entry per joint.
    recording : Recording
        Recording with all positions expressed through the angle unit.
    angle : str
        The angle unit.

    """
    slides = slides_among(robot, joints, joints)
    named = f"{', '.join(slides)} {'is' if len(slides) == 1 else 'are'} prismatic"
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
        reason = (
            f"the revolute joints fit {' and '.join(dict.fromkeys([*tried, angle]))}, each with "
            "other units of the prismatic joints"
        )
    elif unknown and angle != "rad":
        reason = f"no unit of length fits the limits of {', '.join(unknown)}"
    if reason:
        example = ",".join("mm" if joint in slides else angle for joint in joints)
        question = (
            "which unit does each joint have, from base to tip, separated by commas (for "
            f"example, {example})?"
        )
        asked = Decision(UNIT, None, (f"{named}, and {reason}",), question)
        return replace(units, position=asked, scale=float("nan")), recording, angle
    slides = {joint: unit or METRE for joint, unit in slides.items()}
    value = by_joint(joints, angle, slides)
    likely = units.position.likely or value != angle
    why = f"{named}: in {', '.join(dict.fromkeys(slides.values()))}" + (", from the limits" if likely else "")
    position = replace(units.position, value=value, why=(*units.position.why, why), likely=likely)
    units = _speeds_by_joint(robot, joints, slides, replace(units, position=position), angle)
    return units, recording, angle


def _speeds_by_joint(
    robot: RobotModel, joints: Sequence[str], slides: Mapping[str, str], units: Units, angle: str
) -> Units:
    """Replace the velocity unit by one per joint if the robot has prismatic and revolute joints.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    joints : sequence of str
        Names of the joints.
    slides : dict
        Position unit of each prismatic joint.
    units : Units
        Units decided so far.
    angle : str
        Unit of the revolute joints.

    """
    velocity = units.velocity
    if not slides or velocity is None or velocity.value is None or units.motion is None:
        return units
    speeds = speeds_of_slides(robot, slides, units.motion, angle)
    wrong = [joint for joint, speed in speeds.items() if not speed]
    if wrong:
        why = f"for {', '.join(wrong)} it is not the derivative of the position"
        left_out = (f"left out because {why}; velocity is computed from position",)
        return replace(units, velocity=replace(velocity, value=None, why=left_out))
    return replace(units, velocity=replace(velocity, value=by_joint(joints, velocity.value, speeds)))


def _units_by_joint(robot: RobotModel, joints: Sequence[str], answers: Answers) -> tuple[str, Float]:
    """First of several answered units, and the ratio (n,) of each joint's unit to it.

    If the robot has prismatic and revolute joints, the first unit of a revolute joint is used. Returns "" and
    ones if the answer is a single unit.

    Raises
    ------
    UsageError
        If the number of units differs from the number of joints, or a unit does not match its joint.

    """
    ratios = np.ones(robot.n)
    units = [text.strip() for text in answers.get(UNIT, "").split(",")]
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
            expected=f"a unit of {kinds}, or {len(joints)} units from base to tip, separated by commas",
        )
    of = kind_of(robot).length
    first = units[lengths.index(of)] if of in lengths else units[0]
    for j, unit, length in zip(numbers, units, lengths, strict=True):
        ratios[j] = si(unit, length) / si(first, of if of in lengths else length)
    return first, ratios


def _side(answers: Answers) -> Decision | None:
    """The answer whether positions are motor positions; None without an answer, as the log does not show it."""
    if SIDE not in answers:
        return None
    question = "are the positions joint positions (link) or motor positions (motor)?"
    options = (Option("link", "joint positions"), Option("motor", "motor positions, before the gears"))
    return decided(Decision(SIDE, None, (), question, options, optional=True), answers)


def _recording(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    chosen: Mapping[str, Family],
    at: Sequence[int],
    geared: bool,
) -> Recording:
    """Read the columns of each joint.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    look : Excerpt
        Names and first rows of the log.
    clock : Clock
        The clock of the log.
    chosen : dict
        Column group of each channel.
    at : sequence of int
        Column index of each joint.
    geared : bool
        Whether positions and velocities are measured at the motors.

    """
    t = look.table([clock.column.value or ""])[:, 0]
    read = {kind: _table(robot, look, family, at) for kind, family in chosen.items()}
    q, dq = unwrapped(read["position"]), read.get("velocity")
    if geared:
        at_joints = np.linalg.inv(robot.drive.transmission).T
        q, dq = q @ at_joints, None if dq is None else dq @ at_joints
    return Recording(t, q, dq, read.get("effort"), clock.runs)


def _table(robot: RobotModel, look: Excerpt, family: Family, at: Sequence[int]) -> Float:
    """Read the columns (T, n) sorted by joint; a joint without a column is constant at 0."""
    read = look.table(family.columns if family.named else in_order(family.columns, at))
    whole = np.zeros((len(read), robot.n))
    whole[:, [robot.joint_names.index(joint) for joint in family.joints]] = read
    return whole


# A robot that does not move: no unit can be detected and no parameter identified.


def standstill(look: Excerpt, chosen: Mapping[str, Family], motion: MeasuredMotion | None) -> Refusal | None:
    """Refusal of a log in which no joint moves.

    None if a joint moves, or if it may move in rows beyond the excerpt.
    """
    if "position" not in chosen:
        return None
    q = look.table(chosen["position"].columns)
    # Without a known unit, assume radians, the largest of the usual units.
    scale = 1.0 if motion is None else motion.units.scale
    scale = scale if isinstance(scale, float) and np.isfinite(scale) else 1.0
    most = scale * widest(q)
    if len(q) >= ROWS or most > MOVED:
        return None
    rows = f"{len(q)} rows"
    return Refusal(
        f"no joint moves in this log ('{chosen['position'].template}', {rows})",
        "motion",
        "record an exciting motion; for static poses use `dynid statics`",
        "standstill",
        unfit=True,
    )


# Joints whose columns are used: those with both a position and an effort.

LEAST_MEASURED = 2.0 / 3.0  # of the joints with a position; the same share as for shortened names


def on_common_joints(
    robot: RobotModel, chosen: dict[str, Family], decisions: dict[str, Decision]
) -> dict[str, Family]:
    """Restrict positions, velocities and efforts to the joints that they have in common.

    Hand joints without an effort are fixed and their positions dropped, because logs often lack the effort of a
    hand. An effort that covers most of the other joints is kept, and the joints without one contribute their
    motion only. Any other velocity or effort that covers fewer joints than the positions is dropped.
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
        group = kept.get(kind)
        if group is not None and group.named and set(group.joints) > set(position.joints):
            kept[kind] = _of_joints(group, position.joints)
        elif kind == "effort" and group is not None and _is_enough(group, position, decisions):
            lacking = ", ".join(joint for joint in position.joints if joint not in group.joints)
            _add_why(
                decisions,
                kind,
                f"{lacking} without an effort column: only the motion is used; {WITHOUT_EFFORT}",
            )
        elif group is not None and group.joints != position.joints:
            del kept[kind]
            lacking = ", ".join(group.missing) or "joints"
            advice = "" if kind == "velocity" else f"; {WITHOUT_EFFORT}"
            why = (f"'{group.template}' lacks {lacking}{advice}",)
            question = "" if kind == "velocity" else "which columns are the effort?"
            key = f"log.{kind}.columns"
            decisions[key] = Decision(key, None, why, question, optional=kind == "velocity")
    return kept


def without_other_scales(
    robot: RobotModel, look: Excerpt, position: Family, decisions: dict[str, Decision]
) -> Family:
    """Drop the columns of hand joints that are not joint positions, such as 0 to 255 or percent."""
    ends, units, strange = _other_scales(robot, look, position) if position.named else ({}, (), [])
    if not strange:
        return position
    ranges = ", ".join(f"'{joint}' from {ends[joint][0]:.4g} to {ends[joint][1]:.4g}" for joint in strange)
    why = f"{ranges}: not a position of that joint in {' or '.join(units)} or m, so it is fixed"
    _add_why(decisions, "position", why)
    return _of_joints(position, [joint for joint in position.joints if joint not in strange])


def in_known_order(
    robot: RobotModel, look: Excerpt, clock: Clock, chosen: dict[str, Family], answers: Answers
) -> dict[str, Family]:
    """Sort numbered columns by joint if a hand's column is no joint position and the motion determines the order."""
    position = chosen.get("position")
    if position is None or position.named or len(position.columns) != len(position.joints):
        return chosen
    clock = rate_from_velocity(look, clock, chosen)
    if clock.column.value is None or not clock.runs:
        return chosen
    alike = {
        kind: group for kind, group in chosen.items() if not group.named and group.joints == position.joints
    }
    if any(len(group.columns) != len(group.joints) for group in alike.values()):
        return chosen
    if not _other_scales(robot, look, position)[2]:
        return chosen
    motion = measured_motion(robot, look, clock, chosen, answers)
    if not motion.order.sure:
        return chosen
    by_joint = {
        kind: replace(
            group, columns=in_order(group.columns, motion.columns), named=True, ordered=motion.order.why
        )
        for kind, group in alike.items()
    }
    return chosen | by_joint if _other_scales(robot, look, by_joint["position"])[2] else chosen


def _other_scales(
    robot: RobotModel, look: Excerpt, position: Family
) -> tuple[dict[str, tuple[float, float]], tuple[str, ...], list[str]]:
    """Column ranges per joint, units that fit the arm, and hand joints whose columns fit none of these units."""
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
        span_of_joint = np.zeros(robot.n)
        j = robot.joint_names.index(joint)
        span_of_joint[j] = ends[joint][1] - ends[joint][0]
        if units and not any(stays_within_limits(robot, span_of_joint, unit)[j] for unit in units):
            strange.append(joint)
    return ends, units, strange


def _add_why(decisions: dict[str, Decision], kind: str, why: str) -> None:
    decision = decisions[f"log.{kind}.columns"]
    decisions[decision.key] = replace(decision, why=(*decision.why, why))


def _most_joints(effort: Family, position: Family) -> bool:
    # Columns that name only a few of the joints probably hold another signal.
    if not effort.named or not position.named or not set(effort.joints) < set(position.joints):
        return False
    return len(effort.joints) >= LEAST_MEASURED * len(position.joints)


def _is_enough(effort: Family, position: Family, decisions: Mapping[str, Decision]) -> bool:
    """Whether an incomplete effort is used: it covers most joints, or the user named its columns."""
    named_by_user = any(AS_YOU_SAY in why for why in decisions["log.effort.columns"].why)
    return _most_joints(effort, position) or (named_by_user and set(effort.joints) < set(position.joints))


def _of_joints(family: Family, joints: Sequence[str]) -> Family:
    """Keep only the columns of the given joints; the other joints become missing."""
    column = dict(zip(family.joints, family.columns, strict=True))
    left_out = tuple(joint for joint in family.joints if joint not in joints)
    return replace(
        family,
        columns=tuple(column[joint] for joint in joints),
        joints=tuple(joints),
        missing=(*family.missing, *left_out),
    )
