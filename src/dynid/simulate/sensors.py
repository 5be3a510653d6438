"""Sensors: what a log holds instead of the true motion and torque."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import UsageError


class Sensor(Protocol):
    """The seam for sensors: true values in, measured values out."""

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Measured values (T, n) of true values (T, n)."""
        ...


@dataclass(frozen=True, eq=False)
class Encoder:
    """Position quantised to whole counts: the nearest multiple of the resolution.

    resolution: (n,) or (1,) rad (m when prismatic) a count, 0 = ideal.
    Raises UsageError if it is negative or not finite.
    """

    resolution: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolution", _checked(self.resolution, "resolution"))

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Quantised values (T, n); the generator is not used."""
        return _quantised(values, self.resolution)


@dataclass(frozen=True, eq=False)
class TorqueSensor:
    """Torque with white Gaussian noise, then quantised.

    noise_std, resolution: (n,) or (1,) N m (N when prismatic).
    Raises UsageError if one is negative or not finite.
    """

    noise_std: Float
    resolution: Float

    def __post_init__(self) -> None:
        for name in ("noise_std", "resolution"):
            object.__setattr__(self, name, _checked(getattr(self, name), name))

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Measured values (T, n)."""
        noisy = values + self.noise_std * rng.standard_normal(np.shape(values))
        return _quantised(noisy, self.resolution)


def _checked(values: Float, name: str) -> Float:
    array = locked(np.atleast_1d(values), (None,), name)
    if not (np.isfinite(array) & (array >= 0)).all():
        raise UsageError("sensor", found=f"{name} = {array.tolist()}", expected="finite numbers >= 0")
    return array


def _quantised(values: Float, resolution: Float) -> Float:
    step = np.where(resolution > 0, resolution, 1.0)
    return np.asarray(np.where(resolution > 0, np.round(values / step) * step, values))
