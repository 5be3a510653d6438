"""Noise of the measured motion: how strong it is in a log, and what the filters make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.records import dataclass
from dynid.log.read import Log
from dynid.signals.density import density
from dynid.signals.differentiate import first_difference, second_difference
from dynid.signals.filter import low_passed
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
