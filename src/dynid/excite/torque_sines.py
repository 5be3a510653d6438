"""Sums of torque sinusoids, for arms that are commanded by torque."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import UsageError


@dataclass(frozen=True, eq=False)
class TorqueSinusoids:
    """tau_j(t) = offset_j + sum_k amplitude_jk sin(2 pi frequency_jk t + phase_jk), zero-order in the state.

    offset: (n,) N m (N).    amplitude, frequency, phase: (n, N); N m (N), Hz, rad.
    A controller of dynid.simulate: `torque` takes and ignores a state.
    Raises UsageError for shapes that differ, a frequency below zero or a number that is not finite.
    Source: Chavez et al. 2012, eqs. 27-32.
    """

    offset: Float
    amplitude: Float
    frequency: Float
    phase: Float

    def __post_init__(self) -> None:
        n, N = np.shape(self.amplitude)
        object.__setattr__(self, "offset", locked(self.offset, (n,), "offset"))
        for name in ("amplitude", "frequency", "phase"):
            object.__setattr__(self, name, locked(getattr(self, name), (n, N), name))
        every = np.concatenate(
            [self.offset, self.amplitude.ravel(), self.frequency.ravel(), self.phase.ravel()]
        )
        if not np.isfinite(every).all() or (self.frequency < 0).any():
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
        return self.offset + (a * s).sum(-1), (a * omega * c).sum(-1), -(a * omega**2 * s).sum(-1)

    @property
    def greatest(self) -> Float:
        """Bound of |tau| at any time, (n,)."""
        return np.asarray(np.abs(self.offset) + np.abs(self.amplitude).sum(axis=1))
