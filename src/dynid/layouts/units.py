"""Units of time, position and velocity: what the names say, checked against clocks, limits and derivatives."""

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

# Kinds of joints and the units of their positions and velocities, and which fit the joints' limits.

POSITIONS, VELOCITIES = ("rad", "deg"), ("rad/s", "deg/s", "rpm")
# With those that so few logs use that nothing but a name or an answer speaks for them.
_SMALL = ("arcmin", "arcsec")
TURN = "turn"
ANGLES = (*POSITIONS, "mrad", TURN, *_SMALL)
SPEEDS = (*VELOCITIES, "mrad/s", "turn/s", *(f"{one}/s" for one in _SMALL))
# A motion that is to show gravity spans this much on some joint, rad; a joint without limits at most two turns.
MOVED, TURNS = 0.1, 4 * np.pi
# Of slides, m. What fits as m is taken to be m where nothing else speaks: as inches it would be a 39th of that motion,
# and robots that are logged to be identified move by more than a 39th of their range.
SLID = 0.005


@dataclass(frozen=True)
class Kind:
    """Units of joints that turn, or of a robot whose joints all slide.

    length, speed: what they are units of.    positions, velocities: those that a log is looked at for; all_positions,
    all_velocities: with those of names and answers.    moved: what a motion spans at least, rad or m.
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
        """That no unit fits."""
        return f"neither {' nor '.join(self.positions)} fits the limits"


_TURNING = Kind("angle", "angular velocity", POSITIONS, VELOCITIES, ANGLES, SPEEDS, MOVED, False)
LENGTHS, SLIDE_SPEEDS = ("m", "mm", "cm", "in"), ("m/s", "mm/s", "cm/s", "in/s")
SLIDING = Kind("length", "velocity", *2 * (LENGTHS, SLIDE_SPEEDS), SLID, True)


def kind_of(robot: RobotModel) -> Kind:
    """Units of angle where a joint turns: those of slides beside it are found by their own columns."""
    return SLIDING if all(robot.prismatic) else _TURNING


def si(unit: str, quantity: str) -> float:
    """Factor of a unit to SI.    A percent of a motor's range is about a degree: ranges are about 200 degrees."""
    if unit == PERCENT:
        unit = "deg"
    return factor(unit, (quantity,), NOWHERE)[1]


def in_range(robot: RobotModel, span: Float, unit: str) -> bool:
    """Whether joints that move by spans (n,) in a unit stay within their limits, and do not hardly move."""
    kind = kind_of(robot)
    counted = np.array(robot.prismatic) == kind.slides
    moved = si(unit, kind.length) * span[counted]
    return bool((moved <= room(robot)[counted]).all() and moved.max(initial=0.0) >= kind.moved)


def room(robot: RobotModel) -> Float:
    """How far joints (n,) can move within their limits, rad or m; two turns where they have none."""
    free = robot.limits.upper - robot.limits.lower
    return np.asarray(np.where(np.isfinite(free), (1 + BEYOND) * free + ANGLE_BEYOND, TURNS))


def units_within_limits(robot: RobotModel, span: Float) -> tuple[str, ...]:
    """Units in which joints move by spans (n,) as their limits let them, and not by too little.

    Of angle, where only joints that turn are looked at, or of length where all slide.
    """
    return tuple(u for u in kind_of(robot).positions if in_range(robot, span, u))


def beyond_limits(robot: RobotModel, span: Float, units: Sequence[str]) -> float:
    """Motion by spans (n,) over what the limits allow, of the joint that goes farthest; the least of several units.

    Of angle, where only joints that turn are looked at, or of length where all slide.
    """
    kind = kind_of(robot)
    counted = np.array(robot.prismatic) == kind.slides
    farthest = float((span / room(robot))[counted].max(initial=0.0))
    return min((si(unit, kind.length) * farthest for unit in units), default=np.inf)


def stays_within_limits(robot: RobotModel, span: Float, unit: str) -> Bool:
    """Joints (n,) whose spans fit their limits in a unit of angle, those of slides beside them in metres."""
    kind = kind_of(robot)
    scale = si(unit, kind.length) if kind.slides else np.where(robot.prismatic, 1.0, si(unit, kind.length))
    return np.asarray(scale * span <= room(robot))


def widest(q: Float) -> float:
    """The greatest of the spans of columns (T, n)."""
    with np.errstate(invalid="ignore"):
        span = np.nanmax(q, axis=0, initial=-np.inf) - np.nanmin(q, axis=0, initial=np.inf)
    return float(np.max(span, initial=0.0))


# The unit of positions that the effort speaks for: a rigid arm, or the robot file's masses, fit it so
# alone.

# Positions that fit far better this many times as large are those of motors, or of another unit; the last are turns.
STRETCHES = (0.5, 0.7, 1.4, 2.0, 2 * np.pi)


def _why_none(kind: Kind, said: Meaning) -> str:
    """Why no unit is taken: counts are known to be none, or none fits."""
    return said.doubt if said.doubt and said.unit == UNKNOWN else kind.neither


def _gears(robot: RobotModel) -> str:
    """Where the gears of motors are known from."""
    if (np.abs(robot.drive.gear_ratio) == 1).all():
        return "and the ratios of their gears, which are asked for then"
    return "and are divided by the gear ratios of the description"


def by_torque(
    robot: RobotModel,
    motion: Motion | None,
    left: Sequence[str],
    said: Meaning,
    effort: Meaning | None,
    widest: float,
) -> tuple[str | None, tuple[str, ...], str]:
    """The position unit that the torque speaks for: it, evidence, question.    widest: span of a column."""
    kind = kind_of(robot)
    ask = f"are the positions in {' or '.join(kind.positions)}?"
    if PERCENT in left:
        ask = f"are the positions in {' or '.join(left)} of each motor's range (LeRobot without use_degrees)?"
        return (PERCENT, (), "") if len(left) == 1 else (None, ("nothing decides between them",), ask)
    if not left and widest < kind.moved and not said.doubt:
        why = f"the joints move by {widest:.3g} at most: as {' or '.join(kind.positions)} the robot hardly moves"
        return None, (why,), f"in which unit are the positions? {why[0].upper()}{why[1:]}"
    if not left:
        return (
            None,
            (
                f"{_why_none(kind, said)}; counts of an encoder are shares of a turn (1/4096 turn for one), "
                "and their zero is an offset under [log] position",
            ),
            f"which unit have the positions ({_why_none(kind, said)})? Of counts it is what one is worth: "
            "1/4096 turn, 0.01 deg, or one for each joint with commas; "
            f"those of motors take --answer log.position.side=motor, too, {_gears(robot)}",
        )
    named = said.unit in kind.all_positions and not said.doubt
    best = said.unit if named and said.unit in left else left[0]
    others = [u for u in POSITIONS if u != best]
    seen = None if motion is None else evidence(robot, _read(motion, best), _read(motion, others[0]))
    if seen is None:
        return (best, (), "") if len(left) == 1 else (None, ("nothing decides between them",), ask)
    advantage, words = seen
    if not named and (turns := _as_turns(robot, motion, best, effort)) is not None:
        return TURN, (turns,), ""
    stretched = _stretched(robot, motion, best)
    if stretched is not None and len(left) == 1:
        return (
            None,
            (f"as {best}, but {stretched}",),
            f"in which unit are the positions? As {best}, {stretched}",
        )
    if advantage > DECISIVE:
        return (best, (f"{words} as {best}",), "") if stretched is None else (None, (stretched,), ask)
    if advantage < -DECISIVE:
        if len(left) > 1 and not named:
            return others[0], (f"{words} as {others[0]}",), ""
        return None, (f"but {words} as {others[0]}",), ask
    return (
        (best, ("the torque neither confirms nor contradicts it",), "")
        if len(left) == 1
        else (None, ("nothing decides between them",), ask)
    )


def by_force(
    robot: RobotModel, motion: Motion | None, left: Sequence[str], said: Meaning, effort: Meaning | None
) -> tuple[str | None, tuple[str, ...], str]:
    """The unit of slides' positions in which the robot file's masses need the logged force.    As `by_torque`.

    The force of slides is linear in their positions: in any unit a rigid robot fits it as well.
    """
    neither = SLIDING.neither
    if not left:
        return None, (neither,), f"which unit have the positions? {neither.capitalize()}"
    if len(left) == 1:
        return left[0], (), ""
    ask = f"are the positions in {' or '.join(left)}?"
    if said.unit in SLIDING.all_positions and not said.doubt:
        return None, ("nothing decides between them",), ask
    newtons = None if motion is None or effort is None else force_unit(robot, motion, effort)
    if motion is not None and newtons is not None:
        scales = {unit: scale_of(robot, motion.read_as(si(unit, "length"))) for unit in left}
        shares = {unit: newtons * one.middle for unit, one in scales.items() if one is not None}
        near = [unit for unit, share in shares.items() if 1 / NEAR < share < NEAR]
        words = ", ".join(f"{share:.3g} as {unit}" for unit, share in shares.items())
        if words:
            words = f"the force over that of the robot file's masses is {words}"
        if len(near) == 1:
            return near[0], (words,), ""
        if words:
            return None, (words,), ask
    if "m" in left:
        return "m", (f"as {' or '.join(one for one in left if one != 'm')} the robot hardly moved",), ""
    return None, ("the limits allow each, and no force in a known unit decides between them",), ask


def _stretched(robot: RobotModel, motion: Motion | None, unit: str) -> str | None:
    """What speaks for positions of another size than the unit's: those of motors before their gears, for one."""
    here = None if motion is None else misfit(robot, motion.read_as(si(unit, "angle")))
    if motion is None or here is None:
        return None
    for factor_ in STRETCHES:
        there = misfit(robot, motion.read_as(factor_ * si(unit, "angle")))
        if there is not None and gain(there, here) > DECISIVE and (np.sqrt(there[there < 1]) <= FITS).all():
            what = "turns" if factor_ == STRETCHES[-1] else "motors before gears"
            return f"a rigid arm fits the torque far better with {factor_:.3g} times the angles: {what}?"
    return None


def _as_turns(robot: RobotModel, motion: Motion | None, unit: str, effort: Meaning | None) -> str | None:
    """What says that positions are in turns, and no other length than that of the unit; None = it is not beyond doubt.

    They stay within the limits, a fit or the description speaks for them as for one of the usual units, and as turns
    alone the torque is as large as the robot file's: the angles of motors, and counts, would be as well by chance.
    """
    if motion is None or effort is None or effort.quantity not in ("torque", "effort") or effort.doubt:
        return None
    size = 1.0 if effort.unit == UNKNOWN else torque_size(effort.unit)
    if size is None or not in_range(robot, np.ptp(motion.q, axis=0), TURN):
        return None
    seen = evidence(robot, _read(motion, TURN), _read(motion, unit))
    here, there = (scale_of(robot, motion.read_as(si(one, "angle"))) for one in (TURN, unit))
    if seen is None or seen[0] <= DECISIVE or here is None:
        return None
    others = [] if there is None else [size * there.middle]
    if not 1 / NEAR < size * here.middle < NEAR or any(1 / NEAR < one < NEAR for one in others):
        return None
    share = f"and is {size * here.middle:.2g} times the robot file's then"
    return f"{seen[1]} as {TURN} than as {unit}, {share}" + "".join(f" ({one:.2g} times)" for one in others)


def _read(motion: Motion, unit: str) -> Motion:
    return motion.read_as(si(unit, "angle"))


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
    beyond: the widest motion over what the limits of its joint allow, in the unit of the name, else in that found.
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
        """Whether the joints stay within their limits."""
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
            for v in _velocities(robot, one, p, velocity, answers)
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
    span = np.ptp(recording.q[np.isfinite(recording.q).all(axis=1)], axis=0)
    names = [*ANGLES, PERCENT] if PERCENT in position.units else kind.all_positions
    far = chosen == position.unit and not question and beyond_limits(robot, span, [chosen]) > BY_FAR
    if far:
        question = (
            f"are the positions in {chosen} those of the motors? As joints' they leave their limits by far"
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


def _velocities(robot: RobotModel, motion: Motion, unit: str, said: Meaning, answers: Answers) -> list[str]:
    """Units in which the velocity is the derivative of a position that is read in a unit."""
    kind = kind_of(robot)
    scale = si(unit, kind.length)
    ratio, share = velocity_ratio(motion)
    good = (share > FOLLOWS) & (ratio > 0)
    if not good.any() or good.sum() < 0.5 * (np.abs(motion.dq).max(axis=0) > 0).sum():
        return []
    slope = float(np.median(ratio[good]))
    alike = good & (np.array(robot.prismatic) == kind.slides)
    if (np.abs(np.log(ratio[alike] / slope)) > np.log(NEAR)).any():
        return []  # noise of the derivative halves a ratio at most: another unit of some joint
    wanted = (
        [answers["log.velocity.unit"]]
        if "log.velocity.unit" in answers
        else [
            *dict.fromkeys(
                (*kind.velocities, *([f"{unit}/s"] if is_unit_of(f"{unit}/s", kind.speed) else []))
            )
        ]
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


# Units of joints that slide whose columns stand in one group with those of joints that turn: mm beside
# degrees.

METRE = "m"
# What logs are written in: what leaves its limits so is asked for, and no rarer unit is tried.
_TRIED = (METRE, "mm")
BY_FAR = 10.0  # times what the limits allow: descriptions are not off by that, units are
# A logged velocity is the derivative of the position in units that agree within this factor, and follows it so far.
_ALIKE, _FOLLOWS = 1.2, 0.5


def units_of_slides(robot: RobotModel, joints: Sequence[str], q: Float, angle: str) -> dict[str, str]:
    """The unit of length of each joint that slides beside others that turn; "" = none fits its limits.

    joints: with a position.    q: (T, n), as logged.    angle: the unit of those that turn. One unit of all where one
    fits all; of several the longest, as where all joints slide: what fits as metres hardly moved as millimetres.
    """
    slides = slides_among(robot, joints, joints)
    fits = {one: _fitting(robot, robot.joint_names.index(one), q, angle) for one in slides}
    common = [unit for unit in _TRIED if all(unit in of for of in fits.values())]
    return {one: (common or fits[one] or [""])[0] for one in slides}


def slides_among(robot: RobotModel, joints: Sequence[str], said: Sequence[str]) -> dict[str, str]:
    """Of joints that slide where others turn, what is said of each; {} where all are of one kind."""
    kinds = [robot.prismatic[robot.joint_names.index(joint)] for joint in joints]
    found = {joint: one.strip() for joint, one, slides in zip(joints, said, kinds, strict=True) if slides}
    return {} if len(found) == len(joints) else found


def _fitting(robot: RobotModel, j: int, q: Float, angle: str) -> list[str]:
    """Units in which a joint stays within its limits, and moves if it moves at all.

    Beside radians metres are what programs write: they are, unless the joint would leave its limits by far.
    """
    read = q[np.isfinite(q[:, j]), j]
    if not len(read):
        return [METRE]
    span = float(np.ptp(read))
    near = float(np.abs(read).max())
    ends = np.array([robot.limits.lower[j], robot.limits.upper[j]])
    limited = bool(np.isfinite(ends).all() and ends[1] > ends[0])  # of no width they say nothing
    wide = float(room(robot)[j]) if limited else TURNS
    if span == 0.0:
        farthest = float(np.abs(ends).max()) + SLID if limited else np.inf
        found = [unit for unit in _TRIED if si(unit, "length") * near <= farthest]
    else:
        found = [unit for unit in _TRIED if SLID <= si(unit, "length") * span <= wide]
    possible = angle == "rad" and span <= BY_FAR * wide and METRE not in found
    return [METRE, *found] if possible else found


def over_angles(robot: RobotModel, slides: Mapping[str, str], angle: str) -> Float:
    """What columns (n,) are multiplied by so that a unit of angle brings all to SI units; 1 for joints that turn."""
    ratios = np.ones(robot.n)
    for joint, unit in slides.items():
        ratios[robot.joint_names.index(joint)] = si(unit or METRE, "length") / si(angle, "angle")
    return ratios


def by_joint(joints: Sequence[str], turns: str, slides: Mapping[str, str]) -> str:
    """Units of joints, one each with commas; one for all where those are rad and m, or a second of these."""
    if turns.startswith("rad") and all(unit.split("/")[0] == METRE for unit in slides.values()):
        return turns
    return ",".join(slides.get(joint, turns) for joint in joints)


def speeds_of_slides(
    robot: RobotModel, slides: Mapping[str, str], motion: Motion, angle: str
) -> dict[str, str]:
    """The unit of velocity of each joint that slides: that of the derivative of its position; "" = it is none.

    motion: its positions over the unit of angle, as `over_angles` makes them.
    """
    ratio, share = velocity_ratio(motion)
    found = {}
    for joint, unit in slides.items():
        j = robot.joint_names.index(joint)
        alike = [
            one
            for one in (f"{unit}/s", *SLIDE_SPEEDS)
            if 1 / _ALIKE < ratio[j] * si(one, "velocity") / si(angle, "angle") < _ALIKE
        ]
        moves = bool(np.ptp(motion.q[:, j]) > 0)
        found[joint] = f"{unit}/s" if not moves or share[j] <= _FOLLOWS else (alike or [""])[0]
    return found
