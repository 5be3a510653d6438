"""Units of time, position and velocity, from column names, clock rates, joint limits and derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import NOWHERE
from dynid.base.records import dataclass
from dynid.base.units import factor, is_multiple, is_unit_of
from dynid.layouts.clock import EPOCH, Clock, rate_question
from dynid.layouts.effort import NEAR, force_unit, scale_of, torque_size
from dynid.layouts.meaning import Meaning
from dynid.layouts.names import Family
from dynid.layouts.physics import (
    DECISIVE,
    FITS,
    WHOLE,
    Motion,
    Recording,
    decide_calibration,
    evidence,
    from_another_zero,
    gain,
    misfit,
    motion_of,
    velocity_ratio,
)
from dynid.layouts.presets import UNKNOWN
from dynid.layouts.proposal import Answers, Decision, Option, decided
from dynid.log.joints import ANGLE_BEYOND
from dynid.log.joints import JOINT_LIMITS_BEYOND as BEYOND
from dynid.log.mapping import PERCENT
from dynid.robot.model import RobotModel

# Units of position and velocity per joint type, and the units with which the joints stay within their limits.

POSITIONS, VELOCITIES = ("rad", "deg"), ("rad/s", "deg/s", "rpm")
# Rare units, accepted only from a column name or an answer.
_SMALL = ("arcmin", "arcsec")
TURN = "turn"
ANGLES = (*POSITIONS, "mrad", TURN, *_SMALL)
SPEEDS = (*VELOCITIES, "mrad/s", "turn/s", *(f"{unit}/s" for unit in _SMALL))
# Minimum span of the most mobile joint for gravity to show in the torque, rad; assumed span of a joint
# without limits: two turns.
MOVED, TURNS = 0.1, 4 * np.pi
# Minimum span of prismatic joints, m. Positions that fit the limits in metres are taken as metres unless
# other evidence contradicts: in inches the motion would be 39 times smaller, and robots recorded for
# identification move by more than 1/39 of their range.
SLID = 0.005


@dataclass(frozen=True)
class Kind:
    """Units of revolute joints, or of a robot whose joints are all prismatic.

    Attributes
    ----------
    length, speed : str
        Quantities of position and velocity.
    positions, velocities : tuple of str
        Units that are tried on every log.
    all_positions, all_velocities : tuple of str
        Units accepted from column names and answers.
    moved : float
        Minimum span of a motion, rad or m.
    slides : bool
        Whether the joints are prismatic.

    """

    length: str
    speed: str
    positions: tuple[str, ...]
    velocities: tuple[str, ...]
    all_positions: tuple[str, ...]
    all_velocities: tuple[str, ...]
    moved: float
    slides: bool

    @property
    def neither(self) -> str:
        """Message that no unit of position fits the joint limits."""
        return f"neither {' nor '.join(self.positions)} fits the limits"


_TURNING = Kind("angle", "angular velocity", POSITIONS, VELOCITIES, ANGLES, SPEEDS, MOVED, False)
LENGTHS, SLIDE_SPEEDS = ("m", "mm", "cm", "in"), ("m/s", "mm/s", "cm/s", "in/s")
SLIDING = Kind("length", "velocity", *2 * (LENGTHS, SLIDE_SPEEDS), SLID, True)


def kind_of(robot: RobotModel) -> Kind:
    """Kind of a robot: prismatic only if all joints are prismatic, otherwise revolute.

    In a mixed robot, `units_of_slides` determines the units of the prismatic joints separately.
    """
    return SLIDING if all(robot.prismatic) else _TURNING


def si(unit: str, quantity: str) -> float:
    """Factor from a unit to SI.

    One percent of a motor's range counts as one degree, because ranges are about 200 degrees.
    """
    if unit == PERCENT:
        unit = "deg"
    return factor(unit, (quantity,), NOWHERE)[1]


def in_range(robot: RobotModel, span: Float, unit: str) -> bool:
    """Whether joint spans (n,) in this unit fit within the limits and at least one joint moves noticeably."""
    kind = kind_of(robot)
    counted = np.array(robot.prismatic) == kind.slides
    moved = si(unit, kind.length) * span[counted]
    return bool((moved <= room(robot)[counted]).all() and moved.max(initial=0.0) >= kind.moved)


def room(robot: RobotModel) -> Float:
    """Available range (n,) of each joint within its limits, rad or m; two turns for a joint without limits."""
    free = robot.limits.upper - robot.limits.lower
    return np.asarray(np.where(np.isfinite(free), (1 + BEYOND) * free + ANGLE_BEYOND, TURNS))


def units_within_limits(robot: RobotModel, span: Float) -> tuple[str, ...]:
    """Units in which the spans (n,) fit the joint limits and are not too small.

    For a robot with revolute joints, the units are angles and only the revolute joints count.
    """
    return tuple(u for u in kind_of(robot).positions if in_range(robot, span, u))


def beyond_limits(robot: RobotModel, span: Float, units: Sequence[str]) -> float:
    """Largest ratio of a joint's span (n,) to its available range; with several units, the smallest of their ratios.

    For a robot with revolute joints, the units are angles and only the revolute joints count.
    """
    kind = kind_of(robot)
    counted = np.array(robot.prismatic) == kind.slides
    farthest = float((span / room(robot))[counted].max(initial=0.0))
    return min((si(unit, kind.length) * farthest for unit in units), default=np.inf)


def stays_within_limits(robot: RobotModel, span: Float, unit: str) -> Bool:
    """Joints (n,) whose spans fit their limits in this unit; prismatic joints of a mixed robot count in metres."""
    kind = kind_of(robot)
    scale = si(unit, kind.length) if kind.slides else np.where(robot.prismatic, 1.0, si(unit, kind.length))
    return np.asarray(scale * span <= room(robot))


def widest(q: Float) -> float:
    """Largest span of the columns (T, n)."""
    with np.errstate(invalid="ignore"):
        span = np.nanmax(q, axis=0, initial=-np.inf) - np.nanmin(q, axis=0, initial=np.inf)
    return float(np.max(span, initial=0.0))


# Position unit selected by the effort: only with this unit does a rigid model, or the masses of the model
# file, fit it.

# Trial factors on the angles. If one of them fits far better, the positions are motor angles (unknown gear
# ratio) or in another unit; the last factor converts turns.
STRETCHES = (0.5, 0.7, 1.4, 2.0, 2 * np.pi)


def _why_none(kind: Kind, meaning: Meaning) -> str:
    """Reason why no unit was selected: the values are encoder counts, or no unit fits."""
    return meaning.doubt if meaning.doubt and meaning.unit == UNKNOWN else kind.neither


def _gears(robot: RobotModel) -> str:
    """Where the gear ratios of motor positions come from."""
    if (np.abs(robot.drive.gear_ratio) == 1).all():
        return "and the gear ratios, which are asked for next"
    return "which are divided by the gear ratios of the model file"


def by_torque(
    robot: RobotModel,
    motion: Motion | None,
    left: Sequence[str],
    meaning: Meaning,
    effort: Meaning | None,
    widest: float,
) -> tuple[str | None, tuple[str, ...], str]:
    """Select the position unit by the torque.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    motion : Motion or None
        Filtered motion.
    left : sequence of str
        Candidate units.
    meaning : Meaning
        Signal and unit according to the column names.
    effort : Meaning or None
        Signal and unit of the effort.
    widest : float
        Largest span of a position column.

    Returns
    -------
    unit : str or None
        The selected unit; None if the torque does not decide.
    why : tuple of str
        Evidence for the selection.
    question : str
        Question to the user; empty if none is needed.

    """
    kind = kind_of(robot)
    ask = f"are the positions in {' or '.join(kind.positions)}?"
    if PERCENT in left:
        ask = f"are the positions in {' or '.join(left)} of each motor's range (LeRobot without use_degrees)?"
        return (PERCENT, (), "") if len(left) == 1 else (None, ("nothing distinguishes them",), ask)
    if not left and widest < kind.moved and not meaning.doubt:
        why = (
            f"the largest joint motion is {widest:.3g}: in {' or '.join(kind.positions)} the "
            "robot hardly moves"
        )
        return None, (why,), f"which unit do the positions have? {why[0].upper()}{why[1:]}"
    if not left:
        return (
            None,
            (
                f"{_why_none(kind, meaning)}; give encoder counts as a fraction of a turn (for example, "
                "1/4096 turn) and their zero as an offset under [log] position",
            ),
            f"which unit do the positions have ({_why_none(kind, meaning)})? For counts, give the "
            "angle of one count: 1/4096 turn, 0.01 deg, or a comma-separated value per joint; "
            f"motor positions also need --answer log.position.side=motor, {_gears(robot)}",
        )
    named = meaning.unit in kind.all_positions and not meaning.doubt
    best = meaning.unit if named and meaning.unit in left else left[0]
    others = [u for u in POSITIONS if u != best]
    seen = None if motion is None else evidence(robot, _read(motion, best), _read(motion, others[0]))
    if seen is None:
        return (best, (), "") if len(left) == 1 else (None, ("nothing distinguishes them",), ask)
    advantage, words = seen
    if not named and (turns := _as_turns(robot, motion, best, effort)) is not None:
        return TURN, (turns,), ""
    stretched = _stretched(robot, motion, best)
    if stretched is not None and len(left) == 1:
        return (
            None,
            (f"in {best}, but {stretched}",),
            f"which unit do the positions have? In {best}, {stretched}",
        )
    if advantage > DECISIVE:
        return (best, (f"{words} in {best}",), "") if stretched is None else (None, (stretched,), ask)
    if advantage < -DECISIVE:
        if len(left) > 1 and not named:
            return others[0], (f"{words} in {others[0]}",), ""
        return None, (f"but {words} in {others[0]}",), ask
    return (
        (best, ("the torque neither confirms nor contradicts it",), "")
        if len(left) == 1
        else (None, ("nothing distinguishes them",), ask)
    )


def by_force(
    robot: RobotModel, motion: Motion | None, left: Sequence[str], meaning: Meaning, effort: Meaning | None
) -> tuple[str | None, tuple[str, ...], str]:
    """Select the position unit of prismatic joints by the force that the masses of the model file require.

    A fit of a free rigid model cannot decide: the force is linear in the positions, so every unit fits
    equally well. Arguments and return values are those of `by_torque`.
    """
    neither = SLIDING.neither
    if not left:
        return None, (neither,), f"which unit do the positions have? {neither.capitalize()}"
    if len(left) == 1:
        return left[0], (), ""
    ask = f"are the positions in {' or '.join(left)}?"
    if meaning.unit in SLIDING.all_positions and not meaning.doubt:
        return None, ("nothing distinguishes them",), ask
    newtons = None if motion is None or effort is None else force_unit(robot, motion, effort)
    if motion is not None and newtons is not None:
        scales = {unit: scale_of(robot, motion.read_as(si(unit, "length"))) for unit in left}
        shares = {
            unit: newtons * estimate.middle for unit, estimate in scales.items() if estimate is not None
        }
        near = [unit for unit, share in shares.items() if 1 / NEAR < share < NEAR]
        words = ", ".join(f"{share:.3g} in {unit}" for unit, share in shares.items())
        if words:
            words = f"the ratio of the measured force to the force from the model file's masses is {words}"
        if len(near) == 1:
            return near[0], (words,), ""
        if words:
            return None, (words,), ask
    if "m" in left:
        return (
            "m",
            (f"in {' or '.join(unit for unit in left if unit != 'm')} the robot would hardly move",),
            "",
        )
    return None, ("the joint limits allow each, and no force in a known unit distinguishes them",), ask


def _stretched(robot: RobotModel, motion: Motion | None, unit: str) -> str | None:
    """Evidence that the angles are scaled, for example because they are motor angles; None if there is none."""
    here = None if motion is None else misfit(robot, motion.read_as(si(unit, "angle")))
    if motion is None or here is None:
        return None
    for factor_ in STRETCHES:
        there = misfit(robot, motion.read_as(factor_ * si(unit, "angle")))
        if there is not None and gain(there, here) > DECISIVE and (np.sqrt(there[there < 1]) <= FITS).all():
            reading = "turns" if factor_ == STRETCHES[-1] else "motor angles before the gears"
            return f"a rigid model fits the torque far better with {factor_:.3g} times the angles: {reading}?"
    return None


def _as_turns(robot: RobotModel, motion: Motion | None, unit: str, effort: Meaning | None) -> str | None:
    """Evidence that positions are in turns; None if it is not conclusive.

    Three conditions must hold: the joints stay within their limits, the torque fits turns decisively better
    than the usual unit, and only with turns does the torque have the size that the model file predicts. The
    last condition excludes motor angles and encoder counts, which can meet the first two by chance.
    """
    if motion is None or effort is None or effort.quantity not in ("torque", "effort") or effort.doubt:
        return None
    size = 1.0 if effort.unit == UNKNOWN else torque_size(effort.unit)
    if size is None or not in_range(robot, np.ptp(motion.q, axis=0), TURN):
        return None
    seen = evidence(robot, _read(motion, TURN), _read(motion, unit))
    here, there = (scale_of(robot, motion.read_as(si(name, "angle"))) for name in (TURN, unit))
    if seen is None or seen[0] <= DECISIVE or here is None:
        return None
    others = [] if there is None else [size * there.middle]
    if not 1 / NEAR < size * here.middle < NEAR or any(1 / NEAR < ratio < NEAR for ratio in others):
        return None
    share = f"with a torque {size * here.middle:.2g} times the one predicted from the model file"
    return f"{seen[1]} in {TURN} than in {unit}, {share}" + "".join(
        f" ({ratio:.2g} times)" for ratio in others
    )


def _read(motion: Motion, unit: str) -> Motion:
    return motion.read_as(si(unit, "angle"))


DAY = "day"
TIMES = ("s", "ms", "us", "ns")
# Two examples for the unit of counts; the user may answer any other angle per count.
_OF_COUNTS = (
    Option("1/4096 turn", "4096 counts per turn; write the count of your encoder"),
    Option("0.01 deg", "hundredths of a degree"),
)
# Controllers record between 2 and 20,000 rows per second.
FASTEST_STEP, SLOWEST_STEP = 5e-5, 0.5
# No joint moves faster than this multiple of its velocity limit.
TOO_FAST = 3.0
# Minimum share of the logged velocity explained by the derivative of the position, and maximum factor between
# their scales.
FOLLOWS, ALIKE = 0.5, 1.2
# Percentages saturate at their end; at least this many saturated samples are no coincidence.
AT_AN_END = 3


@dataclass(frozen=True)
class Units:
    """Selected units, and the motion in these units.

    Attributes
    ----------
    second, scale : float
        Factors of the time and position units to SI; nan if unknown. `scale` has shape (n,) if the joints
        have different units.
    calibration : Decision or None
        Calibration file of positions in percent of a motor's range.
    beyond : float
        Largest ratio of a joint's span to its available range, in the unit of the column name if there is
        one, otherwise in the selected unit.

    """

    time: Decision
    position: Decision
    velocity: Decision | None
    second: float
    scale: float | Float
    motion: Motion | None
    calibration: Decision | None = None
    beyond: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether all joints stay within their limits."""
        return self.beyond <= 1.0


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
    """Select the units with which clock, positions and velocities agree with each other and with the robot.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    recording : Recording
        Columns as logged.
    clock : Clock
        The clock of the log.
    positions_of : Family
        Column group of the positions.
    velocity : Meaning or None
        Signal and unit of the velocity.
    answers : Answers
        User answers by key.
    per_percent : (n,) array or None
        Angle of one percent from the calibration file, rad.
    effort : Meaning or None
        Signal and unit of the effort.

    """
    kind, position = kind_of(robot), positions_of.meaning
    times, time_why = _times(clock, answers)
    positions, position_why = _positions(robot, recording.q, position, answers)
    motions = {unit: motion_of(recording, si(unit, "time")) for unit in times}
    times = [unit for unit in times if motions[unit] is not None] or times
    fits = [
        (t, p)
        for t, p in product(times, positions)
        if (motion_in_time := motions.get(t)) is None
        or _slow_enough(robot, motion_in_time, si(p, kind.length))
    ] or list(product(times, positions))

    def with_velocities(readings: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
        return [
            (t, p, v)
            for t, p in readings
            if velocity is not None and (motion_in_time := motions.get(t)) is not None
            for v in _velocities(robot, motion_in_time, p, velocity, answers)
        ]

    pairs = with_velocities(fits)
    if pairs:
        narrowed = {(t, p) for t, p, _ in pairs}
        if len(narrowed) < len(fits) or clock.step == 1.0:
            time_why = (*time_why, "with it, the logged velocity is the derivative of the position")
        fits = [reading for reading in fits if reading in narrowed]
    left_times = list(dict.fromkeys(t for t, _ in fits)) if positions else times
    left_positions = list(dict.fromkeys(p for _, p in fits)) if times else positions
    shown = motions.get(left_times[0]) if left_times else None
    if len(left_positions) == 1 and left_positions[0] in kind.all_positions:
        scale_left = si(left_positions[0], kind.length)
        if from_another_zero(robot, positions_of.joints, recording, scale_left).any():
            shown = None  # about a wrong zero, the torque gives no evidence about units
    if kind.slides:
        timed = shown if len(left_times) == 1 else None
        chosen, why, question = by_force(robot, timed, left_positions, position, effort)
    else:
        chosen, why, question = by_torque(robot, shown, left_positions, position, effort, widest(recording.q))
    span = np.ptp(recording.q[np.isfinite(recording.q).all(axis=1)], axis=0)
    names = [*ANGLES, PERCENT] if PERCENT in position.units else kind.all_positions
    far = chosen == position.unit and not question and beyond_limits(robot, span, [chosen]) > BY_FAR
    if far:
        question = (
            f"are the positions in {chosen} motor positions? As joint positions they exceed the limits by far"
        )
        chosen = None
    unit_decision = decided(
        Decision(
            "log.position.unit",
            chosen,
            (*position_why, *why),
            question,
            (*(() if left_positions or kind.slides else _OF_COUNTS), *_options(names)),
            example=("log.position.side=motor", "") if far else ("", ""),
        ),
        answers,
    )
    unit = unit_decision.value
    time_decision = _time_decision(clock, left_times, time_why, answers)
    if unit is not None:
        pairs = [reading for reading in pairs if reading[1] == unit]
    if unit == TURN and TURN not in positions:
        pairs = with_velocities([(t, TURN) for t in left_times])
    if time_decision.value is not None:
        pairs = [reading for reading in pairs if reading[0] == time_decision.value]
    sure = time_decision.value is not None and unit is not None
    second = si(time_decision.value, "time") if time_decision.value in (*TIMES, DAY, *times) else float("nan")
    known = unit in kind.all_positions or (unit is not None and is_multiple(unit))
    scale: float | Float = si(unit, kind.length) if unit and known else float("nan")
    if unit == PERCENT and per_percent is not None:
        scale = per_percent
    named = (
        position.unit if position.unit in kind.all_positions and "log.position.unit" not in answers else unit
    )
    looked_at = [named] if named and (named != unit or known) else units_within_limits(robot, span)
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
        beyond_limits(robot, span, looked_at),
    )


def time_unit(clock: Clock, answers: Answers) -> Decision:
    """Select the unit of the clock from the clock alone."""
    times, why = _times(clock, answers)
    return _time_decision(clock, times, why, answers)


def _options(units: Sequence[str]) -> tuple[Option, ...]:
    return tuple(Option(unit, unit) for unit in units)


def _times(clock: Clock, answers: Answers) -> tuple[list[str], tuple[str, ...]]:
    named = clock.meaning.unit
    if clock.counted:
        return ([] if clock.meaning.doubt else [named]), (clock.meaning.said_by,)
    if "log.time.unit" in answers:
        return [answers["log.time.unit"]], ()
    epoch = [u for u in TIMES if EPOCH[0] < clock.first * si(u, "time") < EPOCH[1]]
    if epoch:
        return epoch, (f"it counts {epoch[0]} since 1970",)
    # Days, as in spreadsheets and MATLAB's datenum: only with days do such small steps give a plausible rate.
    steps = [u for u in (*TIMES, DAY) if FASTEST_STEP <= clock.step * si(u, "time") <= SLOWEST_STEP]
    if named in TIMES and not clock.meaning.doubt:
        who = "its name" if clock.meaning.said_by == "name" else "the preset"
        return [named] if named in steps or not steps else [named, *steps], (f"{who} says {named}",)
    return steps, (f"time step {clock.step:.6g}",)


def _time_decision(clock: Clock, left: Sequence[str], why: tuple[str, ...], answers: Answers) -> Decision:
    key, options = "log.time.unit", _options(TIMES)
    if clock.counted:
        return rate_question(clock)
    if len(left) == 1 and not (
        clock.step == 1.0 and clock.meaning.unit == UNKNOWN and "velocity" not in " ".join(why)
    ):
        rate = 1.0 / (clock.step * si(left[0], "time"))
        return decided(
            Decision(key, left[0], (*why, f"{rate:.6g} rows per second"), options=options), answers
        )
    if len(left) == 1:
        why = (*why, "a step of exactly 1 may also be a row count")
    question = f"which unit does the time column have (time step {clock.step:.6g})?"
    return decided(
        Decision(key, None, why or ("no unit gives a usual sampling rate",), question, options), answers
    )


def _positions(
    robot: RobotModel, q: Float, meaning: Meaning, answers: Answers
) -> tuple[list[str], tuple[str, ...]]:
    if "log.position.unit" in answers:
        return [answers["log.position.unit"]], ()
    kind = kind_of(robot)
    counted = np.array(robot.prismatic) == kind.slides
    with np.errstate(invalid="ignore"):
        span = np.nanmax(q, axis=0, initial=-np.inf) - np.nanmin(q, axis=0, initial=np.inf)
    tried = dict.fromkeys((*kind.positions, *([meaning.unit] if meaning.unit in kind.all_positions else [])))
    likely = [u for u in tried if in_range(robot, span, u)]
    if PERCENT in meaning.units:
        shared, seen = _percent(q)
        if shared and in_range(robot, span, PERCENT):
            return [PERCENT], (seen,)
        if shared is None and "deg" in likely:
            return [*likely, PERCENT], (seen,)
    spans = ", ".join(f"{value:.3g}" for value in span[counted & (span > 0)]) or "0"
    if meaning.doubt and meaning.unit == UNKNOWN and meaning.said_by != "name":
        return [], (meaning.doubt,)
    if meaning.unit in kind.all_positions:
        who = "the name" if meaning.said_by == "name" else "the preset"
        if meaning.unit in likely and not meaning.doubt:
            return [meaning.unit], (
                f"{who} says {meaning.unit}; the joints span {spans}, which fits their limits",
            )
        others = [u for u in likely if u != meaning.unit]
        return [meaning.unit, *others], (f"{who} says {meaning.unit}, but the joints span {spans}",)
    if len(likely) == 1:
        other = " or ".join(u for u in kind.positions if u != likely[0])
        return likely, (
            f"the joints span {spans}: in {other} the robot would exceed its limits or hardly move",
        )
    return likely, (f"the joints span {spans}",)


def _percent(q: Float) -> tuple[bool | None, str]:
    """Whether the values look like percentages of a range, and the reason; None if undecided."""
    size = np.abs(q[np.isfinite(q)])
    if size.max(initial=0.0) > WHOLE:
        return False, ""
    if (size == WHOLE).sum() >= AT_AN_END:
        return True, f"they saturate at {WHOLE:g} in {int((size == WHOLE).sum())} samples"
    return None, f"no value exceeds {WHOLE:g}, the end of a percentage"


def _slow_enough(robot: RobotModel, motion: Motion, scale: float) -> bool:
    fastest = np.abs(motion.dq).max(axis=0) * scale
    known = np.isfinite(robot.limits.velocity) & (np.array(robot.prismatic) == kind_of(robot).slides)
    return bool((fastest[known] <= TOO_FAST * robot.limits.velocity[known]).all())


def _velocities(
    robot: RobotModel, motion: Motion, unit: str, meaning: Meaning, answers: Answers
) -> list[str]:
    """Units in which the logged velocity is the derivative of the position in the given unit."""
    kind = kind_of(robot)
    scale = si(unit, kind.length)
    ratio, share = velocity_ratio(motion)
    good = (share > FOLLOWS) & (ratio > 0)
    if not good.any() or good.sum() < 0.5 * (np.abs(motion.dq).max(axis=0) > 0).sum():
        return []
    slope = float(np.median(ratio[good]))
    alike = good & (np.array(robot.prismatic) == kind.slides)
    if (np.abs(np.log(ratio[alike] / slope)) > np.log(NEAR)).any():
        return []  # noise changes a ratio by a factor of two at most, so some joint has another unit
    wanted = (
        [answers["log.velocity.unit"]]
        if "log.velocity.unit" in answers
        else [
            *dict.fromkeys(
                (*kind.velocities, *([f"{unit}/s"] if is_unit_of(f"{unit}/s", kind.speed) else []))
            )
        ]
    )
    if meaning.unit in kind.all_velocities and not meaning.doubt:
        wanted = [meaning.unit]
    # measured * unit = derivative * scale
    return [u for u in wanted if 1 / ALIKE < slope * si(u, kind.speed) / scale < ALIKE]


def _velocity_decision(
    kind: Kind, pairs: Sequence[tuple[str, str, str]], meaning: Meaning, sure: bool, answers: Answers
) -> Decision:
    key, options = "log.velocity.unit", _options(kind.all_velocities)
    units = list(dict.fromkeys(v for *_, v in pairs))
    if len(units) == 1 and sure:
        why = ("in this unit it is the derivative of the position",)
        return decided(Decision(key, units[0], why, options=options, optional=True), answers)
    if sure or not units:
        why = (
            "left out because it is not the derivative of the position; velocity is computed from position",
        )
        return decided(Decision(key, None, why, options=options, optional=True), answers)
    return decided(
        Decision(key, None, ("follows from the units of time and position",), options=options, optional=True),
        answers,
    )


# Units of prismatic joints whose columns share a group with those of revolute joints, such as mm next to
# degrees.

METRE = "m"
# Common units of logs. If none of them fits the limits, the user is asked rather than a rarer unit tried.
_TRIED = (METRE, "mm")
BY_FAR = 10.0  # ratio of span to available range that a wrong limit does not explain but a wrong unit does
# Maximum factor between the logged velocity and the derivative of the position, and minimum share that the
# derivative explains.
_ALIKE, _FOLLOWS = 1.2, 0.5


def units_of_slides(robot: RobotModel, joints: Sequence[str], q: Float, angle: str) -> dict[str, str]:
    """Unit of length of each prismatic joint in a robot that also has revolute joints; "" if none fits its limits.

    All joints get the same unit if one fits all. If several fit, the longest is selected: a motion that fits
    the limits in metres would be negligible in millimetres.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    joints : sequence of str
        Joints that have a position column.
    q : (T, n) array
        Positions as logged.
    angle : str
        Unit of the revolute joints.

    """
    slides = slides_among(robot, joints, joints)
    fits = {joint: _fitting(robot, robot.joint_names.index(joint), q, angle) for joint in slides}
    common = [unit for unit in _TRIED if all(unit in of for of in fits.values())]
    return {joint: (common or fits[joint] or [""])[0] for joint in slides}


def slides_among(robot: RobotModel, joints: Sequence[str], entries: Sequence[str]) -> dict[str, str]:
    """Select the entries of the prismatic joints from a list with one entry per joint.

    Empty if all joints are prismatic, or none is.
    """
    kinds = [robot.prismatic[robot.joint_names.index(joint)] for joint in joints]
    of_slides = {
        joint: entry.strip() for joint, entry, slides in zip(joints, entries, kinds, strict=True) if slides
    }
    return {} if len(of_slides) == len(joints) else of_slides


def _fitting(robot: RobotModel, j: int, q: Float, angle: str) -> list[str]:
    """Units in which a joint stays within its limits and, unless it is at rest, moves noticeably.

    Programs that log radians usually log metres, so metres is added if the joint does not exceed its limits
    by far.
    """
    read = q[np.isfinite(q[:, j]), j]
    if not len(read):
        return [METRE]
    span = float(np.ptp(read))
    near = float(np.abs(read).max())
    ends = np.array([robot.limits.lower[j], robot.limits.upper[j]])
    limited = bool(np.isfinite(ends).all() and ends[1] > ends[0])  # equal limits carry no information
    wide = float(room(robot)[j]) if limited else TURNS
    if span == 0.0:
        farthest = float(np.abs(ends).max()) + SLID if limited else np.inf
        fitting = [unit for unit in _TRIED if si(unit, "length") * near <= farthest]
    else:
        fitting = [unit for unit in _TRIED if SLID <= si(unit, "length") * span <= wide]
    possible = angle == "rad" and span <= BY_FAR * wide and METRE not in fitting
    return [METRE, *fitting] if possible else fitting


def over_angles(robot: RobotModel, slides: Mapping[str, str], angle: str) -> Float:
    """Factors (n,) after which the angle unit's factor converts every column to SI; 1 for revolute joints."""
    ratios = np.ones(robot.n)
    for joint, unit in slides.items():
        ratios[robot.joint_names.index(joint)] = si(unit or METRE, "length") / si(angle, "angle")
    return ratios


def by_joint(joints: Sequence[str], turns: str, slides: Mapping[str, str]) -> str:
    """Units of the joints as one comma-separated text, or a single unit if it is rad and m throughout.

    The same applies to rad/s and m/s.
    """
    if turns.startswith("rad") and all(unit.split("/")[0] == METRE for unit in slides.values()):
        return turns
    return ",".join(slides.get(joint, turns) for joint in joints)


def speeds_of_slides(
    robot: RobotModel, slides: Mapping[str, str], motion: Motion, angle: str
) -> dict[str, str]:
    """Velocity unit of each prismatic joint that makes the velocity the derivative of the position; "" if none does.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    slides : dict
        Position unit of each prismatic joint.
    motion : Motion
        Positions scaled by `over_angles`.
    angle : str
        Unit of the revolute joints.

    """
    ratio, share = velocity_ratio(motion)
    speeds = {}
    for joint, unit in slides.items():
        j = robot.joint_names.index(joint)
        alike = [
            speed
            for speed in (f"{unit}/s", *SLIDE_SPEEDS)
            if 1 / _ALIKE < ratio[j] * si(speed, "velocity") / si(angle, "angle") < _ALIKE
        ]
        moves = bool(np.ptp(motion.q[:, j]) > 0)
        speeds[joint] = f"{unit}/s" if not moves or share[j] <= _FOLLOWS else (alike or [""])[0]
    return speeds
