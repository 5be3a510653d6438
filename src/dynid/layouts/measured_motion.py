"""The motion that the chosen columns show: unit, zero and order, each of which the others are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from dynid.layouts.unit_kinds import kind_of, si
from dynid.layouts.units import Units, decide_units
from dynid.layouts.zero import OFFSET, answered_offsets, decide_counters_zero, decide_offset, moved_by
from dynid.robot.model import RobotModel

SIDE, UNIT = "log.position.side", "log.position.unit"


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

    def read(at: Order) -> tuple[Units, Decision | None, Motion | None]:
        recording = moved_by(_recording(robot, look, clock, chosen, at, geared), robot, offsets)
        recording = replace(recording, q=recording.q * ratios)
        units = decide_units(
            robot,
            recording,
            clock,
            family,
            said.get("velocity"),
            {**answers, UNIT: first} if first else answers,
            per_percent,
            said.get("effort"),
        )
        if first:
            units = replace(units, position=replace(units.position, value=answers[UNIT]))
        unit = units.position.value or ""
        zero = decide_offset(robot, family.joints, recording, units.scale, first or unit, answers)
        if zero is None and OFFSET not in answers and isinstance(units.scale, float):
            counted = first or unit
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


def _units_by_joint(robot: RobotModel, joints: Sequence[str], answers: Answers) -> tuple[str, Float]:
    """The first of several units that are answered, one a joint, and those of all over it (n,); "", ones = no such.

    Raises UsageError for as many units as there are no joints, and for what is no unit of these.
    """
    ratios = np.ones(robot.n)
    units = [one.strip() for one in answers.get(UNIT, "").split(",")]
    if len(units) == 1:
        return "", ratios
    length = kind_of(robot).length
    if len(units) != len(joints) or not all(is_unit_of(one, length) for one in units):
        raise UsageError(
            "unknown-answer",
            found=f"{UNIT} = {answers[UNIT]}",
            expected=f"a unit of {length}, or {len(joints)} from base to tip, with commas",
        )
    for joint, unit in zip(joints, units, strict=True):
        ratios[robot.joint_names.index(joint)] = si(unit, length) / si(units[0], length)
    return units[0], ratios


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
