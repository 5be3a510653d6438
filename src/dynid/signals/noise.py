"""Noise of the measured motion before and after the filters, and directions and reversals that stand out of it."""

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

ROWS = 20_000  # of a log that the noise is estimated from
BAND = (0.25, 0.45)  # of the sampling rate: no arm moves there


@dataclass(frozen=True, eq=False)
class MotionNoise:
    """White noise of positions, and of measured velocities, at the rate of a log.

    Attributes
    ----------
    position, velocity : ndarray, shape (n,), rad and rad/s, or m and m/s
        Standard deviations.
    motor_position, motor_velocity : ndarray, shape (n,), optional
        The same for second encoders; None if there are none.
    measured : bool
        Whether velocities were measured, not differentiated.
    rate : float, Hz
        Rate of the log.
    decimation : int
        Rows of the log per sample.
    cutoffs : tuple of float, Hz
        Cutoff frequencies of the filter before differentiation.
    order : int
        Order of that filter.

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
        """Estimate the noise of a prepared log.

        Parameters
        ----------
        prepared : Prepared
            The log.
        position : float or sequence of float, optional, rad or m
            Standard deviation of the positions if it is known, for all joints or per joint.

        Returns
        -------
        MotionNoise
            The noise.

        """
        n, settings = prepared.joints, prepared.settings
        q, dq, theta, dtheta = _levels(prepared.log)
        known = None if position is None else np.broadcast_to(np.asarray(position, dtype=np.float64), (n,))
        return MotionNoise(
            position=q if known is None else known,
            velocity=dq,
            motor_position=theta if known is None or theta is None else known,
            motor_velocity=dtheta,
            measured=settings.velocity == "measured",
            rate=prepared.source_rate,
            decimation=prepared.state_decimation,
            cutoffs=settings.state_cutoffs(n),
            order=settings.state_order,
        )

    @property
    def present(self) -> bool:
        """Whether there is any noise."""
        return bool((self.velocity if self.measured else self.position).any())

    def draw(self, count: int, rng: np.random.Generator, motor: bool = False) -> tuple[Float, Float, Float]:
        """Draw noise of q, dq and ddq as it is after the filters.

        Parameters
        ----------
        count : int
            Number of samples.
        rng : Generator
            Source of random numbers.
        motor : bool
            Whether the noise of the second encoders is drawn.

        Returns
        -------
        tuple of ndarray, shape (count, n)
            Noise of q, dq and ddq.

        """
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
        """Samples with drawn noise added to their motion."""
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
    # No arm moves at a quarter of the rate and above, so that the spectrum there is noise.
    for chunk in log.chunks(log.trajectories[0], ROWS):
        levels = tuple(
            None if values is None else white_level(np.asarray(values).T)
            for values in (chunk.q, chunk.dq, chunk.theta, chunk.dtheta)
        )
        q, dq, theta, dtheta = levels
        zero = np.zeros(log.robot.n)
        return q if q is not None else zero, dq if dq is not None else zero, theta, dtheta
    zero = np.zeros(log.robot.n)
    return zero, zero, None, None


def white_level(lines: Float) -> Float:
    """Standard deviation (L,) of white noise in signals (L, T), from the upper half of their spectra."""
    lines = np.where(np.isfinite(lines), lines, 0.0)
    size = int(min(512, lines.shape[1]))
    if size < 32:
        return np.zeros(len(lines))
    frequency, power = density(lines, 1.0, size, "linear")
    upper = (frequency >= BAND[0]) & (frequency <= BAND[1])
    return np.asarray(np.sqrt(0.5 * np.median(power[:, upper], axis=1)))


# The last direction of motion of each joint, which determines the sign of its friction at rest.

# Standard deviations of a logged position by which a joint must move back to count as reversed; noise stays within.
SEEN = 3.0
LEAST = 1e-9  # rad (m): the same for positions without noise


def seen_travel(prepared: Prepared) -> Float:
    """Least visible travel of each joint in a log, (n,), rad (m)."""
    return np.maximum(SEEN * MotionNoise.of(prepared).position, LEAST)


def last_direction(samples: Samples, travel: Float) -> Float:
    """Sign of each joint's last motion by more than `travel`, however slow.

    A joint that creeps back by a hundredth of a degree under its servo has reversed its friction.

    Parameters
    ----------
    samples : Samples
        The samples.
    travel : ndarray, shape (n,), rad or m
        Least visible travel.

    Returns
    -------
    ndarray, shape (T, n)
        The sign, between -1 and 1 during a reversal; 0 = unknown, until a joint has moved by twice `travel` after the
        start of the log or a gap.

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


# Correlated joint motions: along how many independent directions of the joint space a log moves.

# Share of the joints' mean variance from which a direction counts: motion there is a tenth as fast.
COUNTS = 0.01


@dataclass(frozen=True, eq=False)
class Directions:
    """Number of moving joints and of independent directions of their motion.

    They are counted as eigenvalues of at least COUNTS of the correlation of joint velocities. Joints that move
    independently have as many directions as joints, moves between two poses with one profile have one.

    Attributes
    ----------
    joints : int
        Moving joints.
    directions : int
        Independent directions.

    """

    joints: int
    directions: int

    @property
    def in_step(self) -> bool:
        """Whether the motions are strongly correlated: at most half as many directions as joints."""
        return 0 < 2 * self.directions <= self.joints


def directions_of(batches: Iterable[Samples]) -> Directions:
    """Directions along which samples move, without joints at rest."""
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
