"""How much later than it was logged a command makes its torque.

A torque that is made of commands too early looks like friction and inertia that no robot has, so the lag is estimated
before anything else: the plain model is fitted to the commanded torque at every lag of a grid, all from one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.distributions import student_quantile
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass
from dynid.diagnosis.negative_friction import friction_power
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking
from dynid.factor.factor import Factors
from dynid.kernel import Panels, cho_factor, cho_solve
from dynid.log.commands import MOVED
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.robot.servo import Servo
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import block_of_motion
from dynid.signals.first_look import median_step
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.terms.default import DEFAULT_TERMS
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
    alive = np.concatenate([term.alive(robot, moved) for term in plain])
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
    reads_rate = True

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
