"""Logs of commands: what of the drives' position controllers nobody declared, their gains, delay and loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, UnfitDataError
from dynid.base.numerics import nnls, student_quantile
from dynid.base.records import dataclass
from dynid.diagnosis.input_checks import friction_power
from dynid.estimate.estimator import Regression
from dynid.estimate.prior import regression_of
from dynid.estimate.servo_error import ServoTiming
from dynid.estimate.source import LogSource
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking
from dynid.factor.factor import Factors
from dynid.kernel import Panels, cho_factor, cho_solve
from dynid.log.read import Log
from dynid.recording.commands import MOVED
from dynid.robot.drive import COMPUTER, DRIVE, Servo
from dynid.robot.load import lock_joints
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import block_of_motion
from dynid.signals.first_look import median_step
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.terms.catalogue import DEFAULT_TERMS
from dynid.terms.exports import Column, Of, Reads, Traits
from dynid.terms.friction import WIDTH, direction
from dynid.terms.nominal import Nominal
from dynid.terms.term import Term, Terms
from dynid.terms.torque_delay import earlier

# How much later than it was logged a command makes its torque.
#
# A torque that is made of commands too early looks like friction and inertia that no robot has, so the lag
# is estimated before anything else: the plain model is fitted to the commanded torque at every lag of a
# grid, all from one pass.

# s, and samples of the log: how far lags are searched. Buses and firmware of servos take 1 to 60 ms, a slow log's
# commands up to a few of its own rows.
LONGEST, MOST_SAMPLES = 0.1, 5.0
# Points of the grid at most; between them the misfit is a parabola.
MOST_POINTS = 50
# Hz, and share of the rate. A lag shows in fast motion, friction that the model lacks in slow one: the widest band that
# an automatic cut-off may have.
BAND, BAND_SHARE = 25.0, 0.2
# Samples in motion that determine a lag to a tenth of a millisecond.
ENOUGH = 200_000
# Samples that say what friction takes on average.
ENOUGH_FOR_POWER = 2000
# Joints are weighted by what the model misses of them, which the lag changes.
ROUNDS = 3
# Of a column's square, in the normal equations of columns of length one.
RIDGE = 1e-10


@dataclass(frozen=True)
class CommandLag:
    """By how much torque comes later than its command, s, with its 95 % half width; nan where there are few blocks.

    hold: s, for which a command acts: half of it is part of the lag.    bounded: whether it is the longest that was
    tried.    rate: of the log, Hz.    driven: whether friction would give most joints power, as none does.
    """

    seconds: float
    half_width: float
    hold: float
    bounded: bool
    rate: float
    driven: bool = False

    @staticmethod
    def of(
        seconds: float, half_width: float, rate: float, bounded: bool = False, driven: bool = False
    ) -> CommandLag:
        """Commands are held from row to row; where torque comes sooner, the drive had more of them than the log has."""
        return CommandLag(seconds, half_width, min(1.0 / rate, 2.0 * seconds), bounded, rate, driven)

    @property
    def delay(self) -> float:
        """Seconds from a command to the beginning of its torque."""
        return max(self.seconds - 0.5 * self.hold, 0.0)

    def __str__(self) -> str:
        half = f" +- {1e3 * self.half_width:.1g}" if np.isfinite(self.half_width) else ""
        return f"{1e3 * self.delay:.3g}{half} ms ({self.delay * self.rate:.2g} samples)"


def find_command_lag(prepared: Prepared, seed: int = 0) -> CommandLag:
    """The lag by which commanded torque fits the plain model best.

    The plain model is linear, so that its misfit at all lags takes one triangle of its columns and the delayed torques;
    the minimum is that of a parabola through the best three. The jackknife leaves out blocks of time.

    prepared: a log whose torque has no lag yet.
    """
    robot, batches = prepared.log.robot, list(some(prepared))
    moved = np.max([np.ptp(samples.q, axis=0) for samples in batches], axis=0) > MOVED
    lags = grid(prepared.source_rate)
    plain, rows = DEFAULT_TERMS, TorqueRows()
    alive = plain.alive(robot, moved)
    base = structural_base(robot, plain, rows, seed).mask & alive
    wanted = np.concatenate([base, np.ones(len(lags), dtype=np.bool_)])
    terms, filters = Terms((*plain, _Shifted(tuple(lags)))), prepared.parallel_filter()
    seconds = block_of_motion(batches, prepared.bandwidth)
    assembly = Assembly(robot, terms, rows, wanted, filters, Blocking(seconds))
    grams, count = _grams(assembly.factors(batches), wanted), int(base.sum())
    total = grams.sum(axis=0)
    size = np.diagonal(total, axis1=1, axis2=2)[:, -1]
    for _ in range(ROUNDS):
        weights = np.where(moved & (size > 0), 1.0 / np.where(size > 0, size, 1.0), 0.0)
        missed = _missed(total, weights, count)
        size = missed[int(np.argmin(missed @ weights))]
    curve, M, half = missed @ weights, len(grams), np.nan
    if M > 2:
        without = np.array([_minimum(lags, _missed(total - own, weights, count) @ weights) for own in grams])
        spread = np.sqrt((M - 1) / M * np.sum((without - without.mean()) ** 2))
        half = float(student_quantile(M - 1, 0.975)) * float(spread)
    best = int(np.argmin(curve))
    theta = _fitted(total, weights, count)
    power = friction_power(robot, plain, _some_motion(batches), base) @ theta[:, best]
    driven = 2 * int(np.sum(power[moved] < 0)) > int(moved.sum())
    found, bounded = max(_minimum(lags, curve), 0.0), best == len(lags) - 1
    return CommandLag.of(found, half, prepared.source_rate, bounded, driven)


def reading(robot: RobotModel, log: Log, servo: Servo) -> Prepared:
    """The log with the torque of some controllers, without a lag, in the band in which lags are searched."""
    as_read = replace(log, robot=robot.with_servo(replace(servo, delay=np.nan)))
    rate = 1.0 / float(np.median([median_step(as_read, i) for i in range(len(log.trajectories))]))
    cutoff = min(BAND, BAND_SHARE * rate)
    return prepare(as_read, Preparation(cutoff=cutoff), Diagnostics())


def some(prepared: Prepared) -> Iterator[Samples]:
    """As many samples of a log as determine a lag, those in motion counted: a robot may stand for an hour before it.

    Raises UnfitDataError for a log without any.
    """
    count = 0
    for window in prepared.windows():
        samples = prepared.process(window)
        moving = int(samples.keep.sum())
        if not moving:
            continue
        yield samples
        count += moving
        if count > ENOUGH:
            return
    if not count:
        raise UnfitDataError(
            "no-samples", found="no usable sample", expected="motion longer than the filters' edges"
        )


@dataclass(frozen=True)
class _Shifted(Term):
    """The torque of the samples at several lags: targets that stand beside the model's columns."""

    lags: tuple[float, ...]
    name: str = "shifted"
    traits = Traits(reads=Reads.RATE)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One a lag."""
        names = [f"shift{k}" for k in range(len(self.lags))]
        return tuple(Column(name, "1", self.name, 0, prior=0.0, of=Of.ROBOT) for name in names)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """All of them on every joint."""
        servo = robot.drive.servo
        back = np.zeros_like(samples.q)
        if servo is not None and servo.on_board:
            # What the measured motion takes off the torque is not late where the loop is closed on board.
            back = servo.kp * samples.q + servo.kd * samples.dq
        lines = np.array([earlier(samples.tau + back, lag * samples.rate) - back for lag in self.lags])
        index = np.arange(len(self.lags), dtype=np.int64)
        values = tuple(np.ascontiguousarray(lines[:, :, j]) for j in range(robot.n))
        return Panels(columns=(index,) * robot.n, values=values)


def grid(rate: float) -> Float:
    """Lags to try, s, at a rate in Hz."""
    reach = max(LONGEST, MOST_SAMPLES / rate)
    step = max(1.0 / rate, reach / MOST_POINTS)
    # One point before zero, so that no lag at all may be the minimum of a parabola, too.
    return np.asarray(step * np.arange(-1, int(np.ceil(reach / step)) + 1))


def _grams(factors: Factors, wanted: Bool) -> Float:
    """X'X (M, n, w, w) of columns and delayed torques by block and joint."""
    place, w = np.cumsum(wanted) - 1, int(wanted.sum())
    found = np.zeros((len(factors.blocks), len(factors.group_names), w, w))
    for m, block in enumerate(factors.blocks):
        for g, factor in enumerate(block.groups):
            own, R = place[factor.columns], factor.R[:, :-1]
            found[m, g][np.ix_(own, own)] = R.T @ R
    return found


def _missed(grams: Float, weights: Float, count: int) -> Float:
    """Squares (K, n) by lag and joint that the plain model, fitted at that lag, leaves of the torque's.

    grams: (n, w, w) of `count` columns of the model, then of the torque at K lags.    weights: (n,) of the joints.
    """
    theta = _fitted(grams, weights, count)
    square = np.array([np.diag(g)[count:] for g in grams]).T
    left = square + np.array(
        [
            np.einsum("ik,ik->k", theta, g[:count, :count] @ theta - 2.0 * g[:count, count:])
            for g in grams
        ]
    ).T  # fmt: skip
    # A torque must not fit better for being smaller at some lag.
    return np.asarray(np.maximum(left, 0.0) * square[0] / np.where(square > 0, square, 1.0))


def _fitted(grams: Float, weights: Float, count: int) -> Float:
    # (count, K) parameters by lag.
    total = np.einsum("g,gij->ij", weights, grams)
    size = np.sqrt(np.maximum(np.diag(total)[:count], 1e-300))
    A = total[:count, :count] / np.outer(size, size) + RIDGE * np.eye(count)
    return np.asarray(cho_solve(cho_factor(A), total[:count, count:] / size[:, None]) / size[:, None])


def _some_motion(batches: Sequence[Samples]) -> Samples:
    # As many samples as say what friction takes on average.
    kept = [(samples.q[samples.keep], samples.dq[samples.keep]) for samples in batches]
    q, dq = (np.concatenate(lines) for lines in zip(*kept, strict=True))
    step = max(len(q) // ENOUGH_FOR_POWER, 1)
    return Samples.from_motion(q[::step], dq[::step], np.zeros_like(q[::step]))


def _minimum(at: Float, curve: Float) -> float:
    k = int(np.argmin(curve))
    if k in (0, len(curve) - 1):
        return float(at[k])
    before, here, after = curve[k - 1 : k + 2]
    bend = before - 2.0 * here + after
    return float(at[k] + 0.5 * (at[1] - at[0]) * (before - after) / bend) if bend > 0 else float(at[k])


# Gains of position controllers that nobody declared, by the torque that the description's bodies need along
# a log.

# A gain is determined by a joint whose bodies' torque explains this share of what friction, rotor and damping leave of
# its errors: below it, what the description lacks decides instead.
LEAST_EXPLAINED = 0.25
# Joints whose gains are listed one by one in a message.
LONGEST_LIST = 7


def with_gains(robot: RobotModel, log: Log, servo: Servo, diagnostics: Diagnostics) -> Servo:
    """Controllers whose unknown gains carry the description's bodies along the log.

    Joint by joint, q_des - q = (bodies' torque + rotor + friction + offset) / kp - (kd / kp) (dq_des - dq), in which no
    quotient is negative. Joints that do not determine theirs take the median of those that do. Without a commanded
    velocity kd is part of the viscous friction, and stays.
    """
    names = robot.joint_names
    unknown = ~np.isfinite(servo.kp)
    who = ", ".join(name for name, one in zip(names, unknown, strict=True) if one)
    if not np.isfinite(robot.inertia_prior).all():
        raise InputError(
            "no-gains",
            found=f"commands of {who} in place of a measured torque, without the gains of the position controllers "
            "and with a description without inertias",
            expected="kp, and kd if there is damping; or bodies, whose torque along the log gives gains a scale",
            do="give them as kp = ..., kd = ... under [drive] of the experiment, or as --kp and --kd",
        )
    unit = replace(servo, kp=np.ones(robot.n), kd=np.zeros(robot.n), effort_limit=np.full(robot.n, np.inf))
    parts = [some(reading(robot, log, unit))]
    if log.channels.command_velocity:
        parts.append(some(reading(robot, log, replace(unit, kp=np.zeros(robot.n), kd=np.ones(robot.n)))))
    readings = list(zip(*parts, strict=True))
    kp, kd = np.array(servo.kp), np.array(servo.kd)
    own = {j: _gains(robot, readings, j) for j in np.flatnonzero(unknown).tolist()}
    sure = [j for j, gains in own.items() if gains.explained >= LEAST_EXPLAINED]
    if not sure:
        nearest = max(own.values(), key=lambda gains: gains.explained)
        raise InputError(
            "no-gains",
            found=f"commands of {who}, with which the torque of the description's bodies has little to do (at most "
            f"{100 * nearest.explained:.2g} % of what friction leaves of a joint's error is explained)",
            expected="kp of these joints, or motion that their bodies' torque follows",
            do="give kp = ... (and kd = ...) under [drive] of the experiment, or --kp; dynid init reads them from a "
            "log that holds the commanded torque, too",
        )
    for j, gains in own.items():
        source = [gains] if j in sure else [own[k] for k in sure]
        kp[j] = np.median([one.kp for one in source])
        kd[j] = np.median([one.kd for one in source]) if log.channels.command_velocity else kd[j]
    if len(own) > LONGEST_LIST:
        chosen = kp[list(own)]
        words = [f"{chosen.min():.3g} to {chosen.max():.3g}"]
    else:
        words = [f"{names[j]} {kp[j]:.3g}" + (f" and {kd[j]:.2g}" if kd[j] else "") for j in own]
    like = [names[j] for j in own if j not in sure]
    taken = f" (not determined by {', '.join(like)}, which take those of the others)" if like else ""
    scale = "all inertias, friction and torques carry the scale of the description's masses"
    diagnostics.claim(
        "drive-gain",
        found=f"position controllers whose gains nobody declared; kp (and kd) that suit the description's bodies are "
        f"{', '.join(words)}{taken}: {scale}",
        expected="gains from the drives' settings",
        do="give kp and kd under [drive] of the experiment, or as --kp and --kd",
    )
    return replace(servo, kp=kp, kd=kd)


@dataclass(frozen=True)
class _Gains:
    # Of a joint, and the share of what friction, rotor and damping leave of its errors that its bodies explain.
    kp: float
    kd: float
    explained: float


def _gains(robot: RobotModel, readings: Sequence[tuple[Samples, ...]], joint: int) -> _Gains:
    """Gains of a joint at the lag that explains its errors best.

    readings: by stretch of the log, the same samples with the errors of position, and of velocity, as torque.
    """
    kept = [np.logical_and.reduce([one.keep for one in stretch]) for stretch in readings]
    columns = []
    for (samples, *_), keep in zip(readings, kept, strict=True):
        bodies = Nominal().rigid(robot, samples.q, samples.dq, samples.ddq)
        ones = np.ones_like(samples.q)
        forms = (bodies, samples.ddq, samples.dq, direction(samples, WIDTH), ones, -ones)
        columns.append(np.column_stack([form[keep, joint] for form in forms]))
    known = np.concatenate(columns)
    found = []
    for lag in grid(readings[0][0].rate):
        errors = np.concatenate(
            [
                np.column_stack([earlier(one.tau[:, [joint]], lag * one.rate)[keep, 0] for one in stretch])
                for stretch, keep in zip(readings, kept, strict=True)
            ]
        )
        R: Float = np.asarray(np.linalg.qr(np.column_stack([known, -errors[:, 1:], errors[:, 0]]), mode="r"))
        size = np.maximum(np.linalg.norm(R[:, :-1], axis=0), np.finfo(float).tiny)
        quotients, left = nnls(R[:, :-1] / size, R[:, -1])
        without = nnls((R[:, :-1] / size)[:, 1:], R[:, -1])[1]
        explained = 1.0 - (left / without) ** 2 if without > 0 and quotients[0] > 0 else 0.0
        found.append((left, explained, quotients / size))
    _, explained, quotients = min(found, key=lambda one: one[0])
    if not explained > 0:
        return _Gains(np.nan, np.nan, 0.0)
    kp = 1.0 / quotients[0]
    return _Gains(kp, float(kp * quotients[-1]) if len(readings[0]) > 1 else 0.0, float(explained))


# Delay and loops of position controllers, by simulated positions where the log is slow.

# s: rows from which on torque that is rebuilt from positions says little of a lag, on arms in MuJoCo it is 1 to 10 ms
# off at rows of 10 to 33 ms, that of simulated positions 0.1 to 0.4 ms; and from which on no computer would close the
# loops of a robot.
SLOW_ROW = 0.0099
# s of motion in which the robot is simulated, in the busiest parts of the log: they determine a lag to some 0.1 ms. Of
# a robot that stands most of the time twice as many seconds are looked at, which hold less motion but cost as much.
SEARCHED, PART = 20.0, 5.0
LOOKED_AT = 2.0 * SEARCHED


@dataclass(frozen=True)
class DriveTiming:
    """Controllers with their delay and loop, and how these were found.

    lag: None where it was declared.    simulated: whether positions said when torque comes.
    rate: of the log, Hz.    exchanged: whether friction rules out where loops are usually closed at such a rate.
    """

    servo: Servo
    lag: CommandLag | None
    rate: float
    simulated: bool = False
    exchanged: bool = False


def find_drive_timing(robot: RobotModel, log: Log, servo: Servo, seed: int, threads: int) -> DriveTiming:
    """Delay and loop of controllers with known gains, those that nobody declared.

    First the lag at which commanded torque fits the plain model; in a slow log then the one at which the simulated
    robot follows its commands as the log does. Loops are taken to be closed by a computer in fast logs, and on board of
    the drives in slow ones, unless friction would drive most joints then, and not otherwise.
    """
    rate = reading(robot, log, servo).source_rate
    slow = 1.0 / rate > SLOW_ROW
    first = _first(robot, log, replace(servo, loop=servo.loop or (DRIVE if slow else COMPUTER)), seed)
    if not servo.loop and first.lag is not None and first.lag.driven:
        other = _first(robot, log, replace(servo, loop=COMPUTER if slow else DRIVE), seed)
        if other.lag is not None and not other.lag.driven:
            first = replace(other, exchanged=True)
    if first.lag is None or not slow:
        return first
    # A drive that has no more commands than the log holds them for a row, which is half of that as a lag.
    near = replace(first.servo, delay=max(first.lag.seconds - 0.5 / rate, 0.0), hold=1.0 / rate)
    found = _by_positions(robot.with_servo(near), log, seed, threads)
    if found is None:
        return first
    half = float(student_quantile(found.blocks - 1, 0.975)) * found.deviation
    lag = CommandLag.of(found.lag, half, rate)
    timed = replace(first.servo, delay=lag.delay, hold=lag.hold)
    return replace(first, servo=timed, lag=lag, simulated=True)


def _first(robot: RobotModel, log: Log, servo: Servo, seed: int) -> DriveTiming:
    prepared = reading(robot, log, servo)
    rate = prepared.source_rate
    if np.isfinite(servo.delay):
        hold = servo.hold if np.isfinite(servo.hold) else 1.0 / rate
        return DriveTiming(replace(servo, hold=hold), None, rate)
    lag = find_command_lag(prepared, seed)
    return DriveTiming(replace(servo, delay=lag.delay, hold=lag.hold), lag, rate)


def _by_positions(robot: RobotModel, log: Log, seed: int, threads: int) -> ServoTiming | None:
    try:
        log = _without_still(replace(log, robot=robot))
        prepared = prepare(log, Preparation(), Diagnostics())
        return ServoTiming.of(_regression(prepared, list(_busiest(prepared)), seed, threads))
    except DynidError:
        # A robot that cannot be simulated, too short a log: the run itself says what stops it.
        return None


def _without_still(log: Log) -> Log:
    """The log of the robot whose joints that stand all the time are held there: friction says nothing of them."""
    robot = log.robot
    values = np.concatenate([samples.q for samples in some(prepare(log, Preparation(), Diagnostics()))])
    still = np.flatnonzero(np.ptp(values, axis=0) <= MOVED).tolist()
    if not still:
        return log
    where = {robot.joint_names[j]: float(np.median(values[:, j])) for j in still}
    return log.of_robot(lock_joints(robot, where).robot)


def _regression(prepared: Prepared, batches: list[Samples], seed: int, threads: int) -> Regression:
    log, rows = prepared.log, TorqueRows()
    base = structural_base(log.robot, DEFAULT_TERMS, rows, seed)
    moved = np.max([np.ptp(samples.q, axis=0) for samples in batches], axis=0) > MOVED
    alive = DEFAULT_TERMS.alive(log.robot, moved)
    filters, seconds = prepared.parallel_filter(), block_of_motion(batches, prepared.bandwidth)
    assembly = Assembly(log.robot, DEFAULT_TERMS, rows, base.mask & alive, filters, Blocking(seconds))
    source = LogSource(assembly, batches, threads, commands=log.commands_of)
    return regression_of(log.robot, DEFAULT_TERMS, base, assembly.factors(batches), source)


def _busiest(prepared: Prepared) -> Iterator[Samples]:
    """The parts of the log in which the joints move most, with `SEARCHED` seconds of motion, in their order."""
    parts = [
        samples.part(start, start + round(PART * samples.rate))
        for samples in some(prepared)
        for start in range(0, len(samples), round(PART * samples.rate))
    ]
    speed = np.array([np.sum(part.dq**2, axis=0) for part in parts])
    busy = (speed / np.maximum(speed.sum(axis=0), np.finfo(float).tiny)).sum(axis=1)
    order = np.argsort(-busy, kind="stable")[: round(LOOKED_AT / PART)]
    moving = np.array([float(parts[k].keep.sum()) / parts[k].rate for k in order.tolist()])
    before = np.cumsum(moving) - moving
    yield from (parts[k] for k in sorted(order[before < SEARCHED].tolist()))


def with_found_servo(
    robot: RobotModel, log: Log, seed: int, threads: int, diagnostics: Diagnostics
) -> RobotModel:
    """The robot with gains and delay of its position controllers, those that are unknown found in a log of commands.

    The same robot for a log whose torque was measured.    Claims: drive-gain where gains were estimated.

    Raises InputError for unknown gains of a robot whose bodies are unknown, too, or that the log does not determine.
    """
    if not log.channels.commanded:
        return robot
    # The simulation of servo loops is loaded for logs of commands alone.

    servo = robot.drive.servo or Servo.unknown(robot.n)
    if not servo.known:
        servo = with_gains(robot, log, servo, diagnostics)
    timing = find_drive_timing(robot, log, servo, seed, threads)
    _report(timing, diagnostics)
    if not servo.loop:
        _report_loop(timing, diagnostics)
    return robot.with_servo(timing.servo)


def _report(timing: DriveTiming, diagnostics: Diagnostics) -> None:
    lag = timing.lag
    if lag is None:
        return
    text = f"commands act {lag} after they were logged, and are held for {1e3 * lag.hold:.3g} ms"
    if timing.simulated:
        diagnostics.note("command-delay", text + ": so the simulated robot follows them best")
    elif lag.bounded:
        text += ". That is the longest that was tried: give drive.delay, or check that commands and measurements are "
        diagnostics.warn("command-delay", text + "on one clock")
    else:
        diagnostics.note("command-delay", text)


def _report_loop(timing: DriveTiming, diagnostics: Diagnostics) -> None:
    servo = timing.servo
    late = float(servo.kp.max()) * servo.lag
    row = f"{1e3 / timing.rate:.3g} ms"
    if servo.on_board:
        taken, why = "on board of the drives", f"of {row}, in which no computer closes one"
        other, wrong = COMPUTER, "more than is found"
    else:
        taken, why = "by a computer that sends torques", f"of {row}"
        other, wrong = DRIVE, "less than is found"
    if timing.exchanged:
        why = f"of {row}, but friction would drive most joints otherwise"
    diagnostics.note(
        "command-loop",
        f"position loops are taken to be closed {taken}: nobody declared it, and the log has rows {why}. If it is the "
        f"other way round, viscous friction is up to {late:.2g} N m s/rad {wrong}: give --loop {other}, or "
        f'loop = "{other}" under [drive] of the experiment',
    )
