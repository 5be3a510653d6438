"""Sums of torque sinusoids for torque-controlled arms, and the motion that a model predicts for them."""

from __future__ import annotations

import math

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.trajectories.trajectory import blend


@dataclass(frozen=True, eq=False)
class TorqueSinusoids:
    """Torque tau_j(t) = offset_j + w(t) sum_k amplitude_jk sin(2 pi frequency_jk t + phase_jk).

    It can be used as a controller of dynid.simulate: `torque` accepts and ignores a state.
    Source: Chavez et al. 2012, eqs. 27-32; the window w is added so that the arm starts smoothly.

    Parameters
    ----------
    offset : ndarray, shape (n,), N m (N)
    amplitude : ndarray, shape (n, N), N m (N)
    frequency : ndarray, shape (n, N), Hz
    phase : ndarray, shape (n, N), rad
    ramp : float, s
        Time in which w rises smoothly from 0 to 1; 0 = w is 1 from the start.

    Raises
    ------
    UsageError
        For different shapes, a negative frequency or ramp, and numbers that are not finite.

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
                "torque-sinusoids",
                found="numbers out of range",
                expected="finite numbers, frequencies >= 0 Hz, ramp >= 0 s",
            )

    def torque(self, t: Float, state: object = None) -> Float:
        """Torque (T, n) at times t (T,), N m (N)."""
        return self.derivatives(t)[0]

    def derivatives(self, t: Float) -> tuple[Float, Float, Float]:
        """Torque and its first two time derivatives, each (T, n)."""
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
        """Upper bound of |tau| at any time, (n,), N m (N)."""
        return np.asarray(np.abs(self.offset) + np.abs(self.amplitude).sum(axis=1))


@dataclass(frozen=True, eq=False)
class TorqueMotion:
    """Torque sinusoids with the predicted motion, as a table with smooth interpolation.

    Between rows, polynomials of degree 5 match q, dq and ddq at both ends. Before and after the motion, the first and
    last pose are returned; what the arm does there is not planned.

    Parameters
    ----------
    sines : TorqueSinusoids
        The torque.
    step : float, s
        Time between rows.
    q, dq, ddq : ndarray, shape (T, n), rad (m), rad/s (m/s) and rad/s^2 (m/s^2)
        Predicted motion at times 0, step, ...

    Raises
    ------
    UsageError
        For fewer than two rows, and numbers that are not finite.

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
                found=f"a table of shape {shape} with step {self.step} s",
                expected=f"two or more rows of {n} finite numbers, and a step > 0",
            )

    @property
    def duration(self) -> float:
        """Duration of the motion, s."""
        return self.step * (len(self.q) - 1)

    @property
    def highest_frequency(self) -> float:
        """Highest frequency of the sinusoids, Hz."""
        return float(self.sines.frequency.max())

    def torque(self, t: Float) -> Float:
        """Commanded torque (T, n) at times t (T,), N m (N)."""
        return self.sines.torque(t)

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Predicted q, dq, ddq, each (T, n), at times t (T,)."""
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
        # Coefficients of the powers 0 to 5 of x, which runs from 0 to 1 in each interval.
        h = self.step
        at, to = k, k + 1
        p0, v0, a0 = self.q[at], h * self.dq[at], h**2 * self.ddq[at]
        p1, v1, a1 = self.q[to], h * self.dq[to], h**2 * self.ddq[to]
        d, e, f = p1 - p0 - v0 - 0.5 * a0, v1 - v0 - a0, a1 - a0
        return p0, v0, 0.5 * a0, 10 * d - 4 * e + 0.5 * f, -15 * d + 7 * e - f, 6 * d - 3 * e + 0.5 * f
