"""Logs of commands: what of the drives' position controllers nobody declared, their gains and their delay.

A torque that is made of commands too early looks like friction and inertia that no robot has, so the delay is estimated
before anything else: the plain model is fitted to the commanded torque at every lag of a grid, all from one pass.
Gains that are unknown are estimated before that, against the torque of the description's bodies, which gives them a
scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.distributions import student_quantile
from dynid.base.errors import InputError
from dynid.base.scipy_functions import nnls
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.factor import Factors
from dynid.kernel import Panels, cho_factor, cho_solve
from dynid.log.commands import MOVED
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.robot.servo import Servo
from dynid.rows.torque import TorqueRows
from dynid.run.validation import block_seconds
from dynid.signals.first_look import median_step
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.terms.default import DEFAULT_TERMS
from dynid.terms.friction import WIDTH, direction
from dynid.terms.nominal import Nominal
from dynid.terms.term import Column, Of, Term, Terms
from dynid.terms.torque_delay import earlier

# s, and samples of the log: how far lags are searched. Buses and firmware of servos take 1 to 60 ms, a slow log's
# commands up to a few of its own rows.
LONGEST, MOST_SAMPLES = 0.1, 5.0
# Points of the grid at most; between them the misfit is a parabola.
MOST_POINTS = 50
# Hz, and share of the rate. A lag shows in fast motion, friction that the model lacks in slow one: the widest band that
# an automatic cut-off may have.
BAND, BAND_SHARE = 25.0, 0.2
# Samples that determine a lag to a tenth of a millisecond.
ENOUGH = 200_000
# Joints are weighted by what the model misses of them, which the lag changes.
ROUNDS = 3
# Of a column's square, in the normal equations of columns of length one.
RIDGE = 1e-10
# A gain is determined by a joint whose bodies' torque explains this share of what friction, rotor and damping leave of
# its errors: below it, what the description lacks decides instead.
LEAST_EXPLAINED = 0.25
# Joints whose gains are listed one by one in a message.
LONGEST_LIST = 7


@dataclass(frozen=True)
class CommandLag:
    """By how much torque comes later than its command, s, with its 95 % half width; nan where there are few blocks.

    hold: s, for which a command acts: half of it is part of the lag.    bounded: whether it is the longest that was
    tried.    rate: of the log, Hz.
    """

    seconds: float
    half_width: float
    hold: float
    bounded: bool
    rate: float

    @property
    def delay(self) -> float:
        """Seconds from a command to the beginning of its torque."""
        return max(self.seconds - 0.5 * self.hold, 0.0)

    def __str__(self) -> str:
        half = f" +- {1e3 * self.half_width:.1g}" if np.isfinite(self.half_width) else ""
        return f"{1e3 * self.delay:.3g}{half} ms ({self.delay * self.rate:.2g} samples)"


def with_found_servo(
    robot: RobotModel, log: Log, seed: int, threads: int, diagnostics: Diagnostics
) -> RobotModel:
    """The robot with gains and delay of its position controllers, those that are unknown found in a log of commands.

    The same robot for a log whose torque was measured.    Claims: drive-gain where gains were estimated.

    Raises InputError for unknown gains of a robot whose bodies are unknown, too, or that the log does not determine.
    """
    if not log.mapping.commanded:
        return robot
    servo = robot.drive.servo or Servo.unknown(robot.n)
    if not servo.known:
        servo = _with_gains(robot, log, servo, diagnostics)
    if not np.isfinite(servo.delay):
        lag = find_command_lag(_reading(robot, log, servo), seed, threads)
        servo = replace(servo, delay=lag.delay, hold=lag.hold)
        _report(lag, diagnostics)
    elif not np.isfinite(servo.hold):
        servo = replace(servo, hold=1.0 / _reading(robot, log, servo).source_rate)
    return robot.with_servo(servo)


def find_command_lag(prepared: Prepared, seed: int = 0, threads: int = 1) -> CommandLag:
    """The lag by which commanded torque fits the plain model best.

    The plain model is linear, so that its misfit at all lags takes one triangle of its columns and the delayed torques;
    the minimum is that of a parabola through the best three. The jackknife leaves out blocks of time.

    prepared: a log whose torque has no lag yet.
    """
    robot, batches = prepared.log.robot, list(_some(prepared))
    moved = np.max([np.ptp(samples.q, axis=0) for samples in batches], axis=0) > MOVED
    lags = _grid(prepared.source_rate)
    plain, rows = DEFAULT_TERMS, TorqueRows()
    alive = np.concatenate([term.alive(robot, moved) for term in plain])
    base = structural_base(robot, plain, rows, seed).mask & alive
    wanted = np.concatenate([base, np.ones(len(lags), dtype=np.bool_)])
    terms, filters = Terms((*plain, _Shifted(tuple(lags)))), prepared.parallel_filter()
    assembly = Assembly(robot, terms, rows, wanted, filters, block_seconds(prepared))
    grams, count = _grams(assembly.factors(batches, threads), wanted), int(base.sum())
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
    found, hold = max(_minimum(lags, curve), 0.0), 1.0 / prepared.source_rate
    # Torque that comes sooner than that of commands held from row to row: the log has few of the drive's commands.
    return CommandLag(
        found, half, min(hold, 2.0 * found), int(np.argmin(curve)) == len(lags) - 1, prepared.source_rate
    )


def _report(lag: CommandLag, diagnostics: Diagnostics) -> None:
    text = f"commands act {lag} after they were logged, and are held for {1e3 * lag.hold:.3g} ms"
    if lag.bounded:
        text += ". That is the longest that was tried: give drive.delay, or check that commands and measurements are "
        diagnostics.warn("command-delay", text + "on one clock")
    else:
        diagnostics.note("command-delay", text)


def _reading(robot: RobotModel, log: Log, servo: Servo) -> Prepared:
    """The log with the torque of some controllers, without a lag, in the band in which lags are searched."""
    as_read = replace(log, robot=robot.with_servo(replace(servo, delay=np.nan)))
    rate = 1.0 / float(np.median([median_step(as_read, i) for i in range(len(log.trajectories))]))
    cutoff = min(BAND, BAND_SHARE * rate)
    return prepare(as_read, Preparation(cutoff=cutoff), Diagnostics())


def _some(prepared: Prepared) -> Iterator[Samples]:
    count = 0
    for window in prepared.windows():
        samples = prepared.process(window)
        yield samples
        count += len(samples)
        if count > ENOUGH:
            return


@dataclass(frozen=True)
class _Shifted(Term):
    """The torque of the samples at several lags: targets that stand beside the model's columns."""

    lags: tuple[float, ...]
    name: str = "shifted"

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


def _grid(rate: float) -> Float:
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
    total = np.einsum("g,gij->ij", weights, grams)
    size = np.sqrt(np.maximum(np.diag(total)[:count], 1e-300))
    A = total[:count, :count] / np.outer(size, size) + RIDGE * np.eye(count)
    theta = cho_solve(cho_factor(A), total[:count, count:] / size[:, None]) / size[:, None]
    square = np.array([np.diag(g)[count:] for g in grams]).T
    left = square + np.array(
        [
            np.einsum("ik,ik->k", theta, g[:count, :count] @ theta - 2.0 * g[:count, count:])
            for g in grams
        ]
    ).T  # fmt: skip
    # A torque must not fit better for being smaller at some lag.
    return np.asarray(np.maximum(left, 0.0) * square[0] / np.where(square > 0, square, 1.0))


def _minimum(at: Float, curve: Float) -> float:
    k = int(np.argmin(curve))
    if k in (0, len(curve) - 1):
        return float(at[k])
    before, here, after = curve[k - 1 : k + 2]
    bend = before - 2.0 * here + after
    return float(at[k] + 0.5 * (at[1] - at[0]) * (before - after) / bend) if bend > 0 else float(at[k])


def _with_gains(robot: RobotModel, log: Log, servo: Servo, diagnostics: Diagnostics) -> Servo:
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
    parts = [_some(_reading(robot, log, unit))]
    if log.mapping.command_velocity:
        parts.append(_some(_reading(robot, log, replace(unit, kp=np.zeros(robot.n), kd=np.ones(robot.n)))))
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
        kd[j] = np.median([one.kd for one in source]) if log.mapping.command_velocity else kd[j]
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
    for lag in _grid(readings[0][0].rate):
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
