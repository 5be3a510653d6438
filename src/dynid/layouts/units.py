"""Units of time, position and velocity: what the names say, checked against clocks, limits and derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.base.units import is_multiple
from dynid.layouts.calibration import decide_calibration
from dynid.layouts.clock import EPOCH, Clock
from dynid.layouts.decision import Answers, Decision, Option, decided
from dynid.layouts.meaning import Meaning
from dynid.layouts.names import Family
from dynid.layouts.physics import Motion, Recording, motion_of, velocity_ratio
from dynid.layouts.presets import UNKNOWN
from dynid.layouts.row_clock import rate_question
from dynid.layouts.unit_kinds import ANGLES, TURN, Kind, in_range, kind_of, si, widest
from dynid.layouts.units_by_torque import by_force, by_torque
from dynid.layouts.zero import from_another_zero
from dynid.log.calibration import PERCENT
from dynid.robot.model import RobotModel

DAY = "day"
TIMES = ("s", "ms", "us", "ns")
# What counts are said to be, for two: whatever they are worth is an answer.
_OF_COUNTS = (
    Option("1/4096 turn", "4096 counts a turn, or as many as there are"),
    Option("0.01 deg", "hundredths of a degree"),
)
# Controllers record between 2 and 20,000 rows a second.
FASTEST_STEP, SLOWEST_STEP = 5e-5, 0.5
# Faster than this many times its limit no joint moves.
TOO_FAST = 3.0
# A logged velocity follows the derivative where it explains this share of it; their units fit within this factor.
FOLLOWS, ALIKE = 0.5, 1.2
# Shares of a range end here, and are cut off there: that many rows at an end are no chance.
WHOLE, AT_AN_END = 100.0, 3


@dataclass(frozen=True)
class Units:
    """What was decided, and the motion read so.

    second, scale: of the time and position units, nan = not known; (n,) where a unit is another of every joint.
    calibration: the file that says what a percent of a motor's range is, where positions are in percent.
    """

    time: Decision
    position: Decision
    velocity: Decision | None
    second: float
    scale: float | Float
    motion: Motion | None
    calibration: Decision | None = None


def decide_units(
    robot: RobotModel,
    recording: Recording,
    clock: Clock,
    positions_of: Family,
    velocity: Meaning | None,
    answers: Answers,
    per_percent: Float | None = None,
    effort: Meaning | None = None,
) -> Units:
    """The units under which clock, positions and velocities agree with one another and with the robot.

    per_percent: (n,) rad, of the calibration that was named.
    """
    kind, position = kind_of(robot), positions_of.meaning
    times, time_why = _times(clock, answers)
    positions, position_why = _positions(robot, recording.q, position, answers)
    motions = {unit: motion_of(recording, si(unit, "time")) for unit in times}
    times = [unit for unit in times if motions[unit] is not None] or times
    fits = [
        (t, p)
        for t, p in product(times, positions)
        if (one := motions.get(t)) is None or _slow_enough(robot, one, si(p, kind.length))
    ] or list(product(times, positions))

    def with_velocities(readings: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
        return [
            (t, p, v)
            for t, p in readings
            if velocity is not None and (one := motions.get(t)) is not None
            for v in _velocities(kind, one, p, velocity, answers)
        ]

    pairs = with_velocities(fits)
    if pairs:
        narrowed = {(t, p) for t, p, _ in pairs}
        if len(narrowed) < len(fits) or clock.step == 1.0:
            time_why = (*time_why, "the logged velocity is the derivative of the position so")
        fits = [one for one in fits if one in narrowed]
    left_times = list(dict.fromkeys(t for t, _ in fits)) if positions else times
    left_positions = list(dict.fromkeys(p for _, p in fits)) if times else positions
    shown = motions.get(left_times[0]) if left_times else None
    if len(left_positions) == 1 and left_positions[0] in kind.all_positions:
        scale_left = si(left_positions[0], kind.length)
        if from_another_zero(robot, positions_of.joints, recording, scale_left).any():
            shown = None  # about a wrong zero torque tells nothing of units
    if kind.slides:
        timed = shown if len(left_times) == 1 else None
        chosen, why, question = by_force(robot, timed, left_positions, position, effort)
    else:
        chosen, why, question = by_torque(robot, shown, left_positions, position, effort, widest(recording.q))
    names = [*ANGLES, PERCENT] if PERCENT in position.units else kind.all_positions
    unit_decision = decided(
        Decision(
            "log.position.unit",
            chosen,
            (*position_why, *why),
            question,
            (*(() if left_positions or kind.slides else _OF_COUNTS), *_options(names)),
        ),
        answers,
    )
    unit = unit_decision.value
    time_decision = _time_decision(clock, left_times, time_why, answers)
    if unit is not None:
        pairs = [one for one in pairs if one[1] == unit]
    if unit == TURN and TURN not in positions:
        pairs = with_velocities([(t, TURN) for t in left_times])
    if time_decision.value is not None:
        pairs = [one for one in pairs if one[0] == time_decision.value]
    sure = time_decision.value is not None and unit is not None
    second = si(time_decision.value, "time") if time_decision.value in (*TIMES, DAY, *times) else float("nan")
    known = unit in kind.all_positions or (unit is not None and is_multiple(unit))
    scale: float | Float = si(unit, kind.length) if unit and known else float("nan")
    if unit == PERCENT and per_percent is not None:
        scale = per_percent
    motion = motions.get(time_decision.value or "") if sure else None
    if motion is None and sure and np.isfinite(second):
        motion = motion_of(recording, second)
    return Units(
        time_decision,
        unit_decision,
        None if velocity is None else _velocity_decision(kind, pairs, velocity, sure, answers),
        second,
        scale,
        motion,
        decide_calibration(answers) if unit == PERCENT else None,
    )


def time_unit(clock: Clock, answers: Answers) -> Decision:
    """The unit of the clock as far as it shows by itself."""
    times, why = _times(clock, answers)
    return _time_decision(clock, times, why, answers)


def _options(units: Sequence[str]) -> tuple[Option, ...]:
    return tuple(Option(unit, unit) for unit in units)


def _times(clock: Clock, answers: Answers) -> tuple[list[str], tuple[str, ...]]:
    said = clock.meaning.unit
    if clock.counted:
        return ([] if clock.meaning.doubt else [said]), (clock.meaning.said_by,)
    if "log.time.unit" in answers:
        return [answers["log.time.unit"]], ()
    epoch = [u for u in TIMES if EPOCH[0] < clock.first * si(u, "time") < EPOCH[1]]
    if epoch:
        return epoch, (f"it counts {epoch[0]} since 1970",)
    # Of spreadsheets, and of MATLAB's datenum: no other unit makes rows of so small steps.
    steps = [u for u in (*TIMES, DAY) if FASTEST_STEP <= clock.step * si(u, "time") <= SLOWEST_STEP]
    if said in TIMES and not clock.meaning.doubt:
        who = "its name" if clock.meaning.said_by == "name" else "the preset"
        return [said] if said in steps or not steps else [said, *steps], (f"{who} says {said}",)
    return steps, (f"steps of {clock.step:.6g}",)


def _time_decision(clock: Clock, left: Sequence[str], why: tuple[str, ...], answers: Answers) -> Decision:
    key, options = "log.time.unit", _options(TIMES)
    if clock.counted:
        return rate_question(clock)
    if len(left) == 1 and not (
        clock.step == 1.0 and clock.meaning.unit == UNKNOWN and "velocity" not in " ".join(why)
    ):
        rate = 1.0 / (clock.step * si(left[0], "time"))
        return decided(Decision(key, left[0], (*why, f"{rate:.6g} rows a second"), options=options), answers)
    if len(left) == 1:
        why = (*why, "a step of exactly 1 may also be a count of rows")
    question = f"which unit has the time column, with steps of {clock.step:.6g}?"
    return decided(Decision(key, None, why or ("no unit makes a usual rate",), question, options), answers)


def _positions(
    robot: RobotModel, q: Float, said: Meaning, answers: Answers
) -> tuple[list[str], tuple[str, ...]]:
    if "log.position.unit" in answers:
        return [answers["log.position.unit"]], ()
    kind = kind_of(robot)
    counted = np.array(robot.prismatic) == kind.slides
    with np.errstate(invalid="ignore"):
        span = np.nanmax(q, axis=0, initial=-np.inf) - np.nanmin(q, axis=0, initial=np.inf)
    tried = dict.fromkeys((*kind.positions, *([said.unit] if said.unit in kind.all_positions else [])))
    likely = [u for u in tried if in_range(robot, span, u)]
    if PERCENT in said.units:
        shared, seen = _percent(q)
        if shared and in_range(robot, span, PERCENT):
            return [PERCENT], (seen,)
        if shared is None and "deg" in likely:
            return [*likely, PERCENT], (seen,)
    spans = ", ".join(f"{value:.3g}" for value in span[counted & (span > 0)]) or "0"
    if said.doubt and said.unit == UNKNOWN and said.said_by != "name":
        return [], (said.doubt,)
    if said.unit in kind.all_positions:
        who = "the name" if said.said_by == "name" else "the preset"
        if said.unit in likely and not said.doubt:
            return [said.unit], (f"{who} says {said.unit}; the joints span {spans}, as they can",)
        others = [u for u in likely if u != said.unit]
        return [said.unit, *others], (f"{who} says {said.unit}, but the joints span {spans}",)
    if len(likely) == 1:
        other = " or ".join(u for u in kind.positions if u != likely[0])
        return likely, (f"the joints span {spans}: as {other} the robot cannot move so, or hardly moved",)
    return likely, (f"the joints span {spans}",)


def _percent(q: Float) -> tuple[bool | None, str]:
    """Whether positions are shares of a range, as far as their sizes show it, and why."""
    size = np.abs(q[np.isfinite(q)])
    if size.max(initial=0.0) > WHOLE:
        return False, ""
    if (size == WHOLE).sum() >= AT_AN_END:
        return True, f"they are cut off at {WHOLE:g}, {int((size == WHOLE).sum())} times"
    return None, f"none is beyond {WHOLE:g}, where a percentage ends"


def _slow_enough(robot: RobotModel, motion: Motion, scale: float) -> bool:
    fastest = np.abs(motion.dq).max(axis=0) * scale
    known = np.isfinite(robot.limits.velocity) & (np.array(robot.prismatic) == kind_of(robot).slides)
    return bool((fastest[known] <= TOO_FAST * robot.limits.velocity[known]).all())


def _velocities(kind: Kind, motion: Motion, unit: str, said: Meaning, answers: Answers) -> list[str]:
    """Units in which the velocity is the derivative of a position that is read in a unit."""
    scale = si(unit, kind.length)
    ratio, share = velocity_ratio(motion)
    good = (share > FOLLOWS) & (ratio > 0)
    if not good.any() or good.sum() < 0.5 * (np.abs(motion.dq).max(axis=0) > 0).sum():
        return []
    slope = float(np.median(ratio[good]))
    wanted = (
        [answers["log.velocity.unit"]]
        if "log.velocity.unit" in answers
        else [*dict.fromkeys((*kind.velocities, *(one for one in kind.all_velocities if one == f"{unit}/s")))]
    )
    if said.unit in kind.all_velocities and not said.doubt:
        wanted = [said.unit]
    # measured * unit = derivative * scale
    return [u for u in wanted if 1 / ALIKE < slope * si(u, kind.speed) / scale < ALIKE]


def _velocity_decision(
    kind: Kind, pairs: Sequence[tuple[str, str, str]], said: Meaning, sure: bool, answers: Answers
) -> Decision:
    key, options = "log.velocity.unit", _options(kind.all_velocities)
    units = list(dict.fromkeys(v for *_, v in pairs))
    if len(units) == 1 and sure:
        why = ("it is the derivative of the position in this unit",)
        return decided(Decision(key, units[0], why, options=options, optional=True), answers)
    if sure or not units:
        why = (
            "it does not follow the derivative of the position: left out, velocities are made from positions",
        )
        return decided(Decision(key, None, why, options=options, optional=True), answers)
    return decided(
        Decision(key, None, ("as the units of time and position are",), options=options, optional=True),
        answers,
    )
