"""Sums of torque sinusoids, for arms that are commanded by torque, and the motion that they are expected to make."""

from __future__ import annotations

import math

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.trajectories.trajectory import blend


@dataclass(frozen=True, eq=False)
class TorqueSinusoids:
    """tau_j(t) = offset_j + w(t) sum_k amplitude_jk sin(2 pi frequency_jk t + phase_jk), a function of time alone.

    offset: (n,) N m (N).    amplitude, frequency, phase: (n, N); N m (N), Hz, rad.
    ramp: s in which the window w rises smoothly from 0 to 1; 0 = w is 1 from the start.
    A controller of dynid.simulate: `torque` takes and ignores a state.
    Raises UsageError for shapes that differ, a frequency or ramp below zero or a number that is not finite.
    Source: Chavez et al. 2012, eqs. 27-32; the window is added here, so that the arm starts without a jerk.
    """

    offset: Float
    amplitude: Float
    frequency: Float
    phase: Float
    ramp: float = 0.0

    def __post_init__(self) -> None:
        n, N = np.shape(self.amplitude)
        object.__setattr__(self, "offset", locked(self.offset, (n,), "offset"))
        for name in ("amplitude", "frequency", "phase"):
            object.__setattr__(self, name, locked(getattr(self, name), (n, N), name))
        every = np.concatenate(
            [self.offset, self.amplitude.ravel(), self.frequency.ravel(), self.phase.ravel(), [self.ramp]]
        )
        if not np.isfinite(every).all() or (self.frequency < 0).any() or self.ramp < 0:
            raise UsageError(
                "torque-sinusoids", found="numbers out of range", expected="finite, frequencies >= 0 Hz"
            )

    def torque(self, t: Float, state: object = None) -> Float:
        """Torque (T, n) at times t (T,)."""
        return self.derivatives(t)[0]

    def derivatives(self, t: Float) -> tuple[Float, Float, Float]:
        """Torque and its first two derivatives, each (T, n)."""
        omega = 2.0 * np.pi * self.frequency
        angle = np.asarray(t, dtype=np.float64)[:, None, None] * omega + self.phase
        a, s, c = self.amplitude, np.sin(angle), np.cos(angle)
        f, df, ddf = (a * s).sum(-1), (a * omega * c).sum(-1), -(a * omega**2 * s).sum(-1)
        w, dw, ddw = (factor[:, None] for factor in self._window(np.asarray(t, dtype=np.float64)))
        return self.offset + w * f, dw * f + w * df, ddw * f + 2.0 * dw * df + w * ddf

    def _window(self, t: Float) -> tuple[Float, Float, Float]:
        if self.ramp == 0.0:
            return np.ones(len(t)), np.zeros(len(t)), np.zeros(len(t))
        w, dw, ddw, _ = blend(np.clip(t / self.ramp, 0.0, 1.0))
        return w, dw / self.ramp, ddw / self.ramp**2

    @property
    def greatest(self) -> Float:
        """Bound of |tau| at any time, (n,)."""
        return np.asarray(np.abs(self.offset) + np.abs(self.amplitude).sum(axis=1))


@dataclass(frozen=True, eq=False)
class TorqueMotion:
    """Torque sinusoids and the motion that a model makes of them, as a table between whose points it is smooth.

    q, dq, ddq: (T, n) at times 0, step, ...; between them the polynomials of fifth degree that join both ends' q, dq
    and ddq. Before the motion the arm rests at its first pose, after it at its last one: what it does there is not
    planned.    Raises UsageError for fewer than two points or numbers that are not finite.
    """

    sines: TorqueSinusoids
    step: float
    q: Float
    dq: Float
    ddq: Float

    def __post_init__(self) -> None:
        shape = np.shape(self.q)
        for name in ("q", "dq", "ddq"):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))
        n = len(self.sines.offset)
        table = np.stack([self.q, self.dq, self.ddq])
        if (
            table.ndim != 3
            or shape[0] < 2
            or shape[1] != n
            or not (np.isfinite(table).all() and self.step > 0)
        ):
            raise UsageError(
                "torque-motion",
                found=f"a table of shape {shape}, step {self.step} s",
                expected=f"two or more rows of {n} finite numbers",
            )

    @property
    def duration(self) -> float:
        """Length of the motion, s."""
        return self.step * (len(self.q) - 1)

    @property
    def highest_frequency(self) -> float:
        """Of the fastest sinusoid, Hz."""
        return float(self.sines.frequency.max())

    def torque(self, t: Float) -> Float:
        """Commanded torque (T, n) at times t (T,)."""
        return self.sines.torque(t)

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Expected q, dq, ddq, each (T, n), at times t (T,)."""
        t = np.asarray(t, dtype=np.float64)
        k = np.clip((t / self.step).astype(np.int64), 0, len(self.q) - 2)
        x = (np.clip(t, 0.0, self.duration) / self.step - k)[:, None]
        orders = [np.zeros((len(t), self.q.shape[1])) for _ in range(3)]
        for power, factor in enumerate(self._polynomials(k)):
            for order in range(min(power, 2) + 1):
                rest = power - order
                orders[order] += math.perm(power, order) * factor * x**rest / self.step**order
        outside = (t < 0.0) | (t > self.duration)
        for values in orders[1:]:
            values[outside] = 0.0
        return orders[0], orders[1], orders[2]

    def _polynomials(self, k: Int) -> tuple[Float, ...]:
        # Coefficients of the powers 0 to 5 of the share x of each interval.
        h = self.step
        at, to = k, k + 1
        p0, v0, a0 = self.q[at], h * self.dq[at], h**2 * self.ddq[at]
        p1, v1, a1 = self.q[to], h * self.dq[to], h**2 * self.ddq[to]
        d, e, f = p1 - p0 - v0 - 0.5 * a0, v1 - v0 - a0, a1 - a0
        return p0, v0, 0.5 * a0, 10 * d - 4 * e + 0.5 * f, -15 * d + 7 * e - f, 6 * d - 3 * e + 0.5 * f
