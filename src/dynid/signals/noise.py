"""Noise of the measured motion: how strong it is in a log, and what the filters make of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.records import dataclass
from dynid.kernel import stop_operator
from dynid.log.joints import STILL
from dynid.log.read import Log
from dynid.signals.filter import density, first_difference, low_passed, second_difference
from dynid.signals.prepare import Prepared
from dynid.signals.samples import Samples

ROWS = 20_000
BAND = (0.25, 0.45)


@dataclass(frozen=True, eq=False)
class MotionNoise:
    """White noise of positions (and of velocities where those were measured) at a log's rate.

    position, velocity: (n,) standard deviation, rad and rad/s (m, m/s).    motor_position, motor_velocity: (n,) of
    second encoders, None = there are none.    measured: whether velocities were measured, not differentiated.
    rate: of the log, Hz.    decimation: log samples a sample.    cutoffs, order: (n,) Hz, of the filter before
    differentiation.
    """

    position: Float
    velocity: Float
    motor_position: Float | None
    motor_velocity: Float | None
    measured: bool
    rate: float
    decimation: int
    cutoffs: tuple[float, ...]
    order: int

    def __post_init__(self) -> None:
        n = len(self.position)
        for name in ("position", "velocity", "motor_position", "motor_velocity"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, locked(getattr(self, name), (n,), name))

    @staticmethod
    def of(prepared: Prepared, position: float | Sequence[float] | None = None) -> MotionNoise:
        """Noise of a prepared log; position: its standard deviation where it is known, one number or one a joint."""
        n, settings = prepared.joints, prepared.settings
        q, dq, theta, dtheta = _levels(prepared.log)
        given = None if position is None else np.broadcast_to(np.asarray(position, dtype=np.float64), (n,))
        return MotionNoise(
            position=q if given is None else given,
            velocity=dq,
            motor_position=theta if given is None or theta is None else given,
            motor_velocity=dtheta,
            measured=settings.velocity == "measured",
            rate=prepared.source_rate,
            decimation=prepared.state_decimation,
            cutoffs=settings.state_cutoffs(n),
            order=settings.state_order,
        )

    @property
    def present(self) -> bool:
        """Whether there is any."""
        return bool((self.velocity if self.measured else self.position).any())

    def draw(self, count: int, rng: np.random.Generator, motor: bool = False) -> tuple[Float, Float, Float]:
        """Noise of q, dq, ddq in `count` samples, (count, n) each, as the filters let it through."""
        position = self.motor_position if motor and self.motor_position is not None else self.position
        velocity = self.motor_velocity if motor and self.motor_velocity is not None else self.velocity
        total = max(count * self.decimation, 16)
        index = np.arange(count) * self.decimation
        q = self._smooth(position[:, None] * rng.standard_normal((len(position), total)))
        if self.measured:
            dq = self._smooth(velocity[:, None] * rng.standard_normal((len(velocity), total)))
            return q[:, index].T, dq[:, index].T, first_difference(dq, self.rate, index).T
        return (
            q[:, index].T,
            first_difference(q, self.rate, index).T,
            second_difference(q, self.rate, index).T,
        )

    def added(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Samples with noise drawn and added to their motion."""
        q, dq, ddq = self.draw(len(samples), rng)
        moved = replace(samples, q=samples.q + q, dq=samples.dq + dq, ddq=samples.ddq + ddq)
        if samples.theta is None or samples.dtheta is None or samples.ddtheta is None:
            return moved
        theta, dtheta, ddtheta = self.draw(len(samples), rng, motor=True)
        return replace(
            moved,
            theta=samples.theta + theta,
            dtheta=samples.dtheta + dtheta,
            ddtheta=samples.ddtheta + ddtheta,
        )

    def _smooth(self, lines: Float) -> Float:
        return low_passed(lines, self.cutoffs, self.order, self.rate)


def _levels(log: Log) -> tuple[Float, Float, Float | None, Float | None]:
    # No arm moves at a quarter of the log's rate and above: what is there is noise.
    for chunk in log.chunks(log.trajectories[0], ROWS):
        found = tuple(
            None if values is None else white_level(np.asarray(values).T)
            for values in (chunk.q, chunk.dq, chunk.theta, chunk.dtheta)
        )
        q, dq, theta, dtheta = found
        zero = np.zeros(log.robot.n)
        return q if q is not None else zero, dq if dq is not None else zero, theta, dtheta
    zero = np.zeros(log.robot.n)
    return zero, zero, None, None


def white_level(lines: Float) -> Float:
    """Standard deviation (L,) of white noise in lines (L, T), from their spectra's upper half; missing values as 0."""
    lines = np.where(np.isfinite(lines), lines, 0.0)
    size = int(min(512, lines.shape[1]))
    if size < 32:
        return np.zeros(len(lines))
    frequency, power = density(lines, 1.0, size, "linear")
    upper = (frequency >= BAND[0]) & (frequency <= BAND[1])
    return np.asarray(np.sqrt(0.5 * np.median(power[:, upper], axis=1)))


# The direction in which joints moved last, which is what is known of the friction of those that stand
# still.

# A joint has turned back once it has done so by more than this many standard deviations of a logged position, within
# which noise stays that has passed the filters.
SEEN = 3.0
LEAST = 1e-9  # rad (m), where positions have no noise


def seen_travel(prepared: Prepared) -> Float:
    """By how much joints have to move for it to be seen in a log, (n,), rad (m)."""
    return np.maximum(SEEN * MotionNoise.of(prepared).position, LEAST)


def last_direction(samples: Samples, travel: Float) -> Float:
    """Sign of each joint's last motion by more than `travel` (n,), (T, n): between -1 and 1 while it turns back.

    However slow: a joint that creeps back by a hundredth of a degree under its servo has turned its friction round.
    0 = not known, of a joint that has not moved by twice as much since the log or a gap in it.
    """
    before = samples.past.joints if samples.past is not None else ((),) * samples.n
    return np.stack(
        [_turned(before[j], samples.q[:, j], travel[j]) for j in range(samples.n)],
        axis=1,
    )


def _turned(before: tuple[float, ...], path: Float, travel: float) -> Float:
    whole = np.concatenate([before, path])
    spanned = np.maximum.accumulate(whole) - np.minimum.accumulate(whole) >= 2.0 * travel
    state = stop_operator([x / travel for x in before], path / travel)
    return np.asarray(state * spanned[len(before) :])


# Joints that move in step: along how many directions of the joint space a log moves.

# A direction counts from this share of the joints' mean variance: motion along it is a tenth as fast as they are.
COUNTS = 0.01


@dataclass(frozen=True, eq=False)
class Directions:
    """How many joints move, and along how many directions of their space.

    Eigenvalues of the correlation of the joints' velocities from COUNTS on are counted: joints that move
    independently have as many as there are joints; moves between two poses with one profile have one.
    """

    joints: int
    directions: int

    @property
    def in_step(self) -> bool:
        """Whether half of the directions or fewer are used."""
        return 0 < 2 * self.directions <= self.joints


def directions_of(batches: Iterable[Samples]) -> Directions:
    """The directions along which samples move; joints that stand still are left out."""
    count, total, square, low, high = 0, np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0)
    for samples in batches:
        if not len(samples):
            continue
        if not count:
            n = samples.n
            total, square, low, high = np.zeros(n), np.zeros((n, n)), np.full(n, np.inf), np.full(n, -np.inf)
        count += len(samples)
        total, square = total + samples.dq.sum(axis=0), square + samples.dq.T @ samples.dq
        low, high = np.minimum(low, samples.q.min(axis=0)), np.maximum(high, samples.q.max(axis=0))
    moves = high - low > STILL
    if not moves.any():
        return Directions(0, 0)
    mean = total / count
    covariance: Float = (square / count - np.outer(mean, mean))[np.ix_(moves, moves)]
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(covariance / np.outer(size, size))
    return Directions(int(moves.sum()), int((values >= COUNTS).sum()))
