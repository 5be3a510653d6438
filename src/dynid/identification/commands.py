"""Logs of commands: estimate unknown gains, delays and loops of the position controllers."""

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
from dynid.recording.commands import MOVED, interpolated, speed_of_law
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
from dynid.terms.torque_delay import shifted

# The lag between a logged command and its torque.
#
# Torque from commands at the wrong time looks like friction and inertia that no robot has, so the lag is estimated
# first: one pass over the log fits the default model to the commanded torque at every lag of a grid.

# Longest lag of the search in s, and in samples of the log. Buses and firmware of servos take 1 to 60 ms, commands of a
# slow log up to a few of its rows.
LONGEST, MOST_SAMPLES = 0.1, 5.0
# Points of the grid at most; between them the squared error is a parabola.
MOST_POINTS = 50
# Hz, and share of the rate: upper limits of an automatic cutoff frequency. A lag shows in fast motion, missing friction
# in slow motion.
BAND, BAND_SHARE = 25.0, 0.2
# Moving samples that determine a lag to a tenth of a millisecond.
ENOUGH = 200_000
# Samples that determine the mean power of friction.
ENOUGH_FOR_POWER = 2000
# Rounds of weighting joints by their errors, which depend on the lag.
ROUNDS = 3
# Ridge in the normal equations of columns of unit length.
RIDGE = 1e-10


@dataclass(frozen=True)
class CommandLag:
    """Lag of the torque after its command.

    Attributes
    ----------
    seconds, half_width : float, s
        The lag and its 95 % half width; nan for too few blocks.
    hold : float, s
        Time for which a command acts; half of it is part of the lag.
    bounded : bool
        Whether the lag is the longest of the search.
    rate : float, Hz
        Rate of the log.
    driven : bool
        Whether friction would feed power to most joints, which is impossible.

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
        """The lag of commands that act from row to row, or for less if the lag is shorter than half a row."""
        return CommandLag(seconds, half_width, min(1.0 / rate, 2.0 * seconds), bounded, rate, driven)

    @property
    def delay(self) -> float:
        """Seconds from a command to the start of its torque."""
        return max(self.seconds - 0.5 * self.hold, 0.0)

    def __str__(self) -> str:
        half = f" +- {1e3 * self.half_width:.1g}" if np.isfinite(self.half_width) else ""
        return f"{1e3 * self.delay:.3g}{half} ms ({self.delay * self.rate:.2g} samples)"


def find_command_lag(prepared: Prepared, seed: int = 0) -> CommandLag:
    """Estimate the lag at which the commanded torque fits the plain model best.

    The plain model is linear, so that its errors at all lags follow from one triangular factor of its columns and the
    delayed torques. The minimum is that of a parabola through the best three lags. The interval is a jackknife over
    blocks of time. `seed` is that of the random states for the structural base.
    """
    robot, batches = prepared.log.robot, list(enough_samples(prepared))
    moved = np.max([np.ptp(samples.q, axis=0) for samples in batches], axis=0) > MOVED
    lags = candidate_lags(prepared.source_rate)
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
        errors = _squared_errors(total, weights, count)
        size = errors[int(np.argmin(errors @ weights))]
    curve, M, half = errors @ weights, len(grams), np.nan
    if M > 2:
        without = np.array(
            [_minimum(lags, _squared_errors(total - block, weights, count) @ weights) for block in grams]
        )
        spread = np.sqrt((M - 1) / M * np.sum((without - without.mean()) ** 2))
        half = float(student_quantile(M - 1, 0.975)) * float(spread)
    best = int(np.argmin(curve))
    theta = _fitted(total, weights, count)
    power = friction_power(robot, plain, _some_motion(batches), base) @ theta[:, best]
    driven = 2 * int(np.sum(power[moved] < 0)) > int(moved.sum())
    lag, bounded = max(_minimum(lags, curve), 0.0), best == len(lags) - 1
    return CommandLag.of(lag, half, prepared.source_rate, bounded, driven)


def prepared_with(robot: RobotModel, log: Log, servo: Servo) -> Prepared:
    """The log with torque computed from its commands without a lag, filtered to the band in which lags are searched."""
    as_read = replace(log, robot=robot.with_servo(replace(servo, delay=np.nan)))
    rate = 1.0 / float(np.median([median_step(as_read, i) for i in range(len(log.trajectories))]))
    cutoff = min(BAND, BAND_SHARE * rate)
    return prepare(as_read, Preparation(cutoff=cutoff), Diagnostics())


def enough_samples(prepared: Prepared) -> Iterator[Samples]:
    """Samples from the start of a log until enough of them move; a robot may rest for an hour before.

    Raises UnfitDataError for a log without usable samples.
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
    """The torque of the samples at several lags, as further columns next to those of the model."""

    lags: tuple[float, ...]
    name: str = "shifted"
    traits = Traits(reads=Reads.RATE)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column per lag."""
        names = [f"shift{k}" for k in range(len(self.lags))]
        return tuple(Column(name, "1", self.name, 0, prior=0.0, of=Of.ROBOT) for name in names)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """All columns on every joint."""
        servo = robot.drive.servo
        back = np.zeros_like(samples.q)
        if servo is not None and servo.on_board:
            # With the loop closed on board only the command is late, not the feedback of the measured motion.
            back = servo.kp * samples.q + servo.kd * samples.dq
        lines = np.array([shifted(samples.tau + back, lag * samples.rate) - back for lag in self.lags])
        index = np.arange(len(self.lags), dtype=np.int64)
        values = tuple(np.ascontiguousarray(lines[:, :, j]) for j in range(robot.n))
        return Panels(columns=(index,) * robot.n, values=values)


def candidate_lags(rate: float) -> Float:
    """Lags of the search, s, for a rate in Hz."""
    reach = max(LONGEST, MOST_SAMPLES / rate)
    step = max(1.0 / rate, reach / MOST_POINTS)
    # One point before zero, so that the minimum of a parabola may lie at zero lag.
    return np.asarray(step * np.arange(-1, int(np.ceil(reach / step)) + 1))


def _grams(factors: Factors, wanted: Bool) -> Float:
    """X'X (M, n, w, w) of columns and delayed torques, by block and joint."""
    place, w = np.cumsum(wanted) - 1, int(wanted.sum())
    grams = np.zeros((len(factors.blocks), len(factors.group_names), w, w))
    for m, block in enumerate(factors.blocks):
        for g, factor in enumerate(block.groups):
            indices, R = place[factor.columns], factor.R[:, :-1]
            grams[m, g][np.ix_(indices, indices)] = R.T @ R
    return grams


def _squared_errors(grams: Float, weights: Float, count: int) -> Float:
    """Squared errors (K, n) of the plain model, by lag and joint.

    `grams` (n, w, w): X'X of `count` columns of the model, then of the torque at K lags; `weights` (n,): weights of the
    joints; `count`: columns of the model. The result has shape (K, n).
    """
    theta = _fitted(grams, weights, count)
    square = np.array([np.diag(g)[count:] for g in grams]).T
    left = square + np.array(
        [
            np.einsum("ik,ik->k", theta, g[:count, :count] @ theta - 2.0 * g[:count, count:])
            for g in grams
        ]
    ).T  # fmt: skip
    # Scaled, so that a torque does not fit better merely because it is smaller at some lag.
    return np.asarray(np.maximum(left, 0.0) * square[0] / np.where(square > 0, square, 1.0))


def _fitted(grams: Float, weights: Float, count: int) -> Float:
    # (count, K) parameters by lag.
    total = np.einsum("g,gij->ij", weights, grams)
    size = np.sqrt(np.maximum(np.diag(total)[:count], 1e-300))
    A = total[:count, :count] / np.outer(size, size) + RIDGE * np.eye(count)
    return np.asarray(cho_solve(cho_factor(A), total[:count, count:] / size[:, None]) / size[:, None])


def _some_motion(batches: Sequence[Samples]) -> Samples:
    # Enough samples for the mean power of friction.
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


# Unknown gains of position controllers, from the torque of the model file's links along a log.

# Share of a joint's position errors (after friction, rotor and damping) that the torque of the links must explain to
# determine its gain; below it errors of the model file would decide.
LEAST_EXPLAINED = 0.25
# Joints whose gains a message lists one by one.
LONGEST_LIST = 7


# Share of a joint's moving rows at its torque limit from which a controller cannot follow: pushing as hard as it can,
# it no longer answers to its error. It follows if its error is less than half of its motion, as standard deviations.
AT_LIMIT, FOLLOWED = 0.5, 0.5
# Of a joint's greatest speed: slower rows may rest against something, where a controller may push at its limit.
MOVES = 0.05


def contradicted_gains(log: Log, servo: Servo) -> dict[int, float]:
    """Joints that follow their commands although their declared gains would hold them at their torque limits.

    A controller at its limit does not depend on its error, so it cannot follow a command for most of the time. Late
    commands make errors of their own, so the share is the least over all lags of the search.

    Result: share of the moving rows at the limit, by index of the joint.
    """
    limited = np.isfinite(servo.effort_limit)
    if not limited.any():
        return {}
    as_read = replace(log, robot=log.robot.with_servo(replace(servo, delay=np.nan, loop=DRIVE)))
    lags: Float = np.zeros(1)
    # Per joint: moving rows, those at the limit at each lag, and sums of squares of error and motion.
    moving, full, error, motion = np.zeros(log.robot.n), np.zeros((1, log.robot.n)), 0.0, 0.0
    for trajectory in log.trajectories:
        for chunk in as_read.chunks(trajectory):
            if chunk.commands is None or len(chunk.t) < 2:
                continue
            if len(lags) == 1:
                rate = 1.0 / median_step(as_read, log.trajectories.index(trajectory))
                lags = candidate_lags(rate)[1:]
                full = np.zeros((len(lags), log.robot.n))
            speed = speed_of_law(chunk.t, chunk.q, chunk.dq)
            moves = np.abs(speed) > MOVES * np.abs(speed).max(axis=0)
            for k, lag in enumerate(lags.tolist()):
                late = interpolated(chunk.t, chunk.commands, chunk.t - lag)
                torque = servo.torque(chunk.q, speed, *np.split(late, 3, axis=1))
                full[k] += (moves & (np.abs(torque) >= servo.effort_limit)).sum(axis=0)
            moving += moves.sum(axis=0)
            error += len(chunk.t) * np.var(chunk.commands[:, : log.robot.n] - chunk.q, axis=0)
            motion += len(chunk.t) * np.var(chunk.q, axis=0)
        if moving.sum() > ENOUGH:
            break
    share = full.min(axis=0) / np.maximum(moving, 1.0)
    wrong = limited & (share >= AT_LIMIT) & (np.sqrt(error) < FOLLOWED * np.sqrt(motion))
    return {int(j): float(share[j]) for j in np.flatnonzero(wrong)}


def with_gains(
    robot: RobotModel,
    log: Log,
    servo: Servo,
    diagnostics: Diagnostics,
    reason: str = "unknown controller gains,",
) -> Servo:
    """Estimate unknown gains with which the controllers carry the model file's links along the log.

    Per joint, q_des - q = (torque of links + rotor + friction + offset) / kp - (kd / kp) (dq_des - dq), with
    nonnegative quotients. Joints that do not determine their gains get the median of the others. Without a commanded
    velocity kd is part of the viscous friction and stays unchanged. `reason` begins the message of the claim
    drive-gain.

    Raises InputError if the model file has no inertias or the log does not determine any gain.
    """
    names = robot.joint_names
    unknown = ~np.isfinite(servo.kp)
    unknown_names = ", ".join(names[j] for j in np.flatnonzero(unknown))
    if not np.isfinite(robot.inertia_prior).all():
        raise InputError(
            "no-gains",
            found=f"commands of {unknown_names} instead of a measured torque, without controller gains or inertias",
            expected="kp (and kd if there is damping), or a model file with inertias, which give the gains a scale",
            do="set kp = ... and kd = ... under [drive] of the experiment, or --kp and --kd",
        )
    unit = replace(servo, kp=np.ones(robot.n), kd=np.zeros(robot.n), effort_limit=np.full(robot.n, np.inf))
    parts = [enough_samples(prepared_with(robot, log, unit))]
    if log.channels.command_velocity:
        parts.append(
            enough_samples(
                prepared_with(robot, log, replace(unit, kp=np.zeros(robot.n), kd=np.ones(robot.n)))
            )
        )
    readings = list(zip(*parts, strict=True))
    kp, kd = np.array(servo.kp), np.array(servo.kd)
    estimates = {j: _gains(robot, readings, j) for j in np.flatnonzero(unknown).tolist()}
    determined = [j for j, gains in estimates.items() if gains.explained >= LEAST_EXPLAINED]
    if not determined:
        nearest = max(estimates.values(), key=lambda gains: gains.explained)
        raise InputError(
            "no-gains",
            found=f"commands of {unknown_names}, whose position errors the torque of the links explains to at most "
            f"{100 * nearest.explained:.2g} %, too little to estimate gains",
            expected="kp of these joints, or motion in which the links matter",
            do="set kp = ... (and kd = ...) under [drive] of the experiment, or --kp; dynid init reads them from a "
            "log with the commanded torque",
        )
    for j, gains in estimates.items():
        source = [gains] if j in determined else [estimates[k] for k in determined]
        kp[j] = np.median([estimate.kp for estimate in source])
        kd[j] = np.median([estimate.kd for estimate in source]) if log.channels.command_velocity else kd[j]
    if len(estimates) > LONGEST_LIST:
        chosen = kp[list(estimates)]
        words = [f"{chosen.min():.3g} to {chosen.max():.3g}"]
    else:
        words = [f"{names[j]} {kp[j]:.3g}" + (f" and {kd[j]:.2g}" if kd[j] else "") for j in estimates]
    undetermined = [names[j] for j in estimates if j not in determined]
    remark = f" (not determined by {', '.join(undetermined)}, which get the median)" if undetermined else ""
    diagnostics.claim(
        "drive-gain",
        found=f"{reason} estimated from the model file's links as kp (and kd) {', '.join(words)}"
        f"{remark}: inertias, friction and torques have the scale of its masses",
        expected="gains from the settings of the drives",
        do="set kp and kd under [drive] of the experiment, or --kp and --kd",
    )
    return replace(servo, kp=kp, kd=kd)


@dataclass(frozen=True)
class _Gains:
    # `explained`: share of the joint's position errors, after friction, rotor and damping, that the links explain.
    kp: float
    kd: float
    explained: float


def _gains(robot: RobotModel, readings: Sequence[tuple[Samples, ...]], joint: int) -> _Gains:
    """Gains of a joint at the lag that explains its errors best.

    `readings` contains, for each stretch of the log, the same samples with the position errors, and the velocity
    errors if velocities are commanded, in place of the torque.
    """
    kept = [np.logical_and.reduce([batch.keep for batch in stretch]) for stretch in readings]
    columns = []
    for (samples, *_), keep in zip(readings, kept, strict=True):
        bodies = Nominal().rigid(robot, samples.q, samples.dq, samples.ddq)
        constant = np.ones_like(samples.q)
        forms = (bodies, samples.ddq, samples.dq, direction(samples, WIDTH), constant, -constant)
        columns.append(np.column_stack([form[keep, joint] for form in forms]))
    known = np.concatenate(columns)
    trials = []
    for lag in candidate_lags(readings[0][0].rate):
        errors = np.concatenate(
            [
                np.column_stack(
                    [shifted(batch.tau[:, [joint]], lag * batch.rate)[keep, 0] for batch in stretch]
                )
                for stretch, keep in zip(readings, kept, strict=True)
            ]
        )
        R: Float = np.asarray(np.linalg.qr(np.column_stack([known, -errors[:, 1:], errors[:, 0]]), mode="r"))
        size = np.maximum(np.linalg.norm(R[:, :-1], axis=0), np.finfo(float).tiny)
        quotients, residual = nnls(R[:, :-1] / size, R[:, -1])
        without = nnls((R[:, :-1] / size)[:, 1:], R[:, -1])[1]
        explained = 1.0 - (residual / without) ** 2 if without > 0 and quotients[0] > 0 else 0.0
        trials.append((residual, explained, quotients / size))
    _, explained, quotients = min(trials, key=lambda trial: trial[0])
    if not explained > 0:
        return _Gains(np.nan, np.nan, 0.0)
    kp = 1.0 / quotients[0]
    return _Gains(kp, float(kp * quotients[-1]) if len(readings[0]) > 1 else 0.0, float(explained))


# Delay and loops of position controllers, from simulated positions if the log is slow.

# s: in logs with slower rows, the lag of commanded torque is inaccurate (1 to 10 ms off on simulated arms at rows of 10
# to 33 ms; simulated positions 0.1 to 0.4 ms), and computers close the loops of robots faster.
SLOW_ROW = 0.0099
# s of simulated motion, and length of its parts, the busiest of the log: they determine a lag to about 0.1 ms.
# LOOKED_AT limits the seconds for a robot that rests most of the time.
SEARCHED, PART = 20.0, 5.0
LOOKED_AT = 2.0 * SEARCHED


@dataclass(frozen=True)
class DriveTiming:
    """Controllers with their delay and loop, and the evidence.

    Attributes
    ----------
    servo : Servo
        The controllers.
    lag : CommandLag, optional
        The lag; None if the delay was declared.
    rate : float, Hz
        Rate of the log.
    simulated : bool
        Whether the lag is from simulated positions.
    exchanged : bool
        Whether friction contradicts the loop that is usual at this rate.

    """

    servo: Servo
    lag: CommandLag | None
    rate: float
    simulated: bool = False
    exchanged: bool = False


def find_drive_timing(robot: RobotModel, log: Log, servo: Servo, seed: int, threads: int) -> DriveTiming:
    """Estimate the undeclared delay and loop of controllers with known gains.

    The first estimate is the lag at which commanded torque fits the plain model; in a slow log, a second one is the lag
    at which the simulated robot follows its commands as in the log. Loops are assumed to be closed by a computer in
    fast logs and on board of the drives in slow ones, unless only the other choice gives dissipative friction.
    """
    rate = prepared_with(robot, log, servo).source_rate
    slow = 1.0 / rate > SLOW_ROW
    first = _first_timing(robot, log, replace(servo, loop=servo.loop or (DRIVE if slow else COMPUTER)), seed)
    if not servo.loop and first.lag is not None and first.lag.driven:
        other = _first_timing(robot, log, replace(servo, loop=COMPUTER if slow else DRIVE), seed)
        if other.lag is not None and not other.lag.driven:
            first = replace(other, exchanged=True)
    if first.lag is None or not slow:
        return first
    # Each command acts for a row, since the drive gets no more commands than the log: half a row of the lag.
    near = replace(first.servo, delay=max(first.lag.seconds - 0.5 / rate, 0.0), hold=1.0 / rate)
    timing = _by_positions(robot.with_servo(near), log, seed, threads)
    if timing is None:
        return first
    half = float(student_quantile(timing.blocks - 1, 0.975)) * timing.deviation
    lag = CommandLag.of(timing.lag, half, rate)
    timed = replace(first.servo, delay=lag.delay, hold=lag.hold)
    return replace(first, servo=timed, lag=lag, simulated=True)


def _first_timing(robot: RobotModel, log: Log, servo: Servo, seed: int) -> DriveTiming:
    prepared = prepared_with(robot, log, servo)
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
        # The robot cannot be simulated or the log is too short: the identification itself reports that.
        return None


def _without_still(log: Log) -> Log:
    """The log with joints locked that never move, since their friction is unknown."""
    robot = log.robot
    values = np.concatenate(
        [samples.q for samples in enough_samples(prepare(log, Preparation(), Diagnostics()))]
    )
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
    """Parts of the log with the fastest motion, `SEARCHED` seconds of it, in the order of time."""
    parts = [
        samples.part(start, start + round(PART * samples.rate))
        for samples in enough_samples(prepared)
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
    """Estimate unknown gains, delay and loop of the position controllers from a log of commands.

    The robot is unchanged for a log with measured torque. Estimated gains are claimed as drive-gain.

    Raises
    ------
    InputError
        If gains are unknown and the log does not determine them.

    """
    if not log.channels.commanded:
        return robot
    servo = robot.drive.servo or Servo.unknown(robot.n)
    if not servo.known:
        servo = with_gains(robot, log, servo, diagnostics)
    elif wrong := contradicted_gains(log, servo):
        servo = _without_contradicted(robot, log, servo, wrong, diagnostics)
    timing = find_drive_timing(robot, log, servo, seed, threads)
    _report(timing, diagnostics)
    if not servo.loop:
        _report_loop(timing, diagnostics)
    return robot.with_servo(timing.servo)


def _without_contradicted(
    robot: RobotModel, log: Log, servo: Servo, wrong: dict[int, float], diagnostics: Diagnostics
) -> Servo:
    """The controllers with estimates in place of gains that the log contradicts."""
    index = list(wrong)
    shares = ", ".join(f"{robot.joint_names[j]} {100 * share:.0f} %" for j, share in wrong.items())
    reason = (
        f"with the declared gains, controllers would be at their torque limit in most moving samples ({shares}), yet "
        "they follow their commands: the gains do not belong to this arm"
    )
    unknown, undamped = servo.kp.copy(), servo.kd.copy()
    unknown[index], undamped[index] = np.nan, 0.0
    try:
        return with_gains(
            robot, log, replace(servo, kp=unknown, kd=undamped), diagnostics, f"{reason}; they are"
        )
    except InputError:
        diagnostics.claim(
            "drive-gain",
            found=f"{reason}, and the log does not determine others",
            expected="gains from the settings of the drives",
            do="set kp and kd under [drive] of the experiment, or --kp and --kd",
        )
        return servo


def _report(timing: DriveTiming, diagnostics: Diagnostics) -> None:
    lag = timing.lag
    if lag is None:
        return
    text = f"commands act {lag} after they were logged, for {1e3 * lag.hold:.3g} ms each"
    if timing.simulated:
        diagnostics.note("command-delay", text + ", from simulated positions")
    elif lag.bounded:
        text += ", the longest delay of the search: set drive.delay, or check that commands and measurements have "
        diagnostics.warn("command-delay", text + "the same clock")
    else:
        diagnostics.note("command-delay", text)


def _report_loop(timing: DriveTiming, diagnostics: Diagnostics) -> None:
    servo = timing.servo
    late = float(servo.kp.max()) * servo.lag
    row = f"{1e3 / timing.rate:.3g} ms"
    if servo.on_board:
        closed, why = "on board of the drives", f"rows of {row} are too slow for a computer"
        other, wrong = COMPUTER, "more"
    else:
        closed, why = "by a computer that sends torques", f"rows of {row}"
        other, wrong = DRIVE, "less"
    if timing.exchanged:
        why = f"rows of {row}, but otherwise friction would drive most joints"
    diagnostics.warn(
        "command-loop",
        f"position loops are assumed to be closed {closed} ({why}). If not, viscous friction is up to {late:.2g} "
        f'N m s/rad {wrong}: set --loop {other}, or loop = "{other}" under [drive] of the experiment',
    )
