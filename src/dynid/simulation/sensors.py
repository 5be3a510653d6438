"""Sensors: measured values from the true motion and torque."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass


class Sensor(Protocol):
    """Interface of a sensor."""

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Measured values (T, n) of true values (T, n)."""
        ...


@dataclass(frozen=True)
class Chain:
    """Sensors in series: each measures the output of the one before."""

    sensors: tuple[Sensor, ...]

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Output of the last sensor, (T, n); a copy of the true values without sensors."""
        measured = np.array(values)
        for sensor in self.sensors:
            measured = sensor.measure(measured, rng)
        return measured


@dataclass(frozen=True, eq=False)
class Encoder:
    """Position quantised to the nearest multiple of the resolution.

    Parameters
    ----------
    resolution : ndarray, shape (n,) or (1,), rad (m) per count
        Resolution; 0 = ideal.

    Raises
    ------
    UsageError
        If the resolution is negative or not finite.

    """

    resolution: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolution", _checked(self.resolution, "resolution"))

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Quantised values (T, n); the generator is not used."""
        return _quantised(values, self.resolution)


@dataclass(frozen=True, eq=False)
class Noise:
    """White Gaussian noise.

    Parameters
    ----------
    std : ndarray, shape (n,) or (1,), unit of the values
        Standard deviation.

    Raises
    ------
    UsageError
        If the deviation is negative or not finite.

    """

    std: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", _checked(self.std, "std"))

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Noisy values (T, n)."""
        return np.asarray(values + self.std * rng.standard_normal(np.shape(values)))


@dataclass(frozen=True, eq=False)
class NoiseRatio:
    """White Gaussian noise with a signal-to-noise ratio, 10 log10(power of values / power of noise) dB.

    The power of the values is their mean square, per joint.

    Parameters
    ----------
    snr_db : ndarray, shape (n,) or (1,), dB
        Signal-to-noise ratio.

    Raises
    ------
    UsageError
        If the ratio is not finite.

    """

    snr_db: Float

    def __post_init__(self) -> None:
        ratio = locked(np.atleast_1d(self.snr_db), (None,), "snr_db")
        if not np.isfinite(ratio).all():
            raise UsageError("sensor", found=f"snr_db = {ratio.tolist()}", expected="finite numbers")
        object.__setattr__(self, "snr_db", ratio)

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Noisy values (T, n)."""
        std = np.sqrt(np.nanmean(values**2, axis=0)) * 10.0 ** (-self.snr_db / 20.0)
        return np.asarray(values + std * rng.standard_normal(np.shape(values)))


@dataclass(frozen=True, eq=False)
class TorqueSensor:
    """Torque with white Gaussian noise, then quantised.

    Parameters
    ----------
    noise_std, resolution : ndarray, shape (n,) or (1,), N m (N)
        Standard deviation of the noise, and resolution.

    Raises
    ------
    UsageError
        If one is negative or not finite.

    """

    noise_std: Float
    resolution: Float

    def __post_init__(self) -> None:
        for name in ("noise_std", "resolution"):
            object.__setattr__(self, name, _checked(getattr(self, name), name))

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Measured values (T, n)."""
        return Chain((Noise(self.noise_std), Encoder(self.resolution))).measure(values, rng)


@dataclass(frozen=True, eq=False)
class Ripple:
    """Torque ripple, amplitude sin(cycles position + phase), as from gears, cogging and strain gauges.

    Parameters
    ----------
    position : ndarray, shape (T, n), rad
        Position of the rotating part: a motor for cogging, a joint for a strain wave gear.
    amplitude : ndarray, shape (n,) or (1,), unit of the values
        Amplitude.
    cycles : ndarray, shape (n,) or (1,), 1/rad
        Cycles per radian of position.
    phase : float, rad
        Phase.

    """

    position: Float
    amplitude: Float
    cycles: Float
    phase: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", locked(self.position, (None, None), "position"))
        for name in ("amplitude", "cycles"):
            object.__setattr__(self, name, _checked(getattr(self, name), name))

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Values with ripple, (T, n); the generator is not used."""
        return np.asarray(values + self.amplitude * np.sin(self.cycles * self.position + self.phase))


@dataclass(frozen=True, eq=False)
class Gain:
    """Values divided by a gain, for example torque into current: amperes = torque / (N m/A).

    Parameters
    ----------
    gain : ndarray, shape (n,) or (1,)
        Gain, not zero.

    Raises
    ------
    UsageError
        If a gain is zero or not finite.

    """

    gain: Float

    def __post_init__(self) -> None:
        gain = locked(np.atleast_1d(self.gain), (None,), "gain")
        if not (np.isfinite(gain) & (gain != 0)).all():
            raise UsageError("sensor", found=f"gain = {gain.tolist()}", expected="finite numbers, none 0")
        object.__setattr__(self, "gain", gain)

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Divided values (T, n); the generator is not used."""
        return np.asarray(values / self.gain)


@dataclass(frozen=True)
class Latency:
    """Values delayed by `delay` seconds, interpolated by cubics; the first value before the start.

    Parameters
    ----------
    delay : float, s
        Delay.
    rate : float, Hz
        Sampling rate.

    Raises
    ------
    UsageError
        For a negative delay, or a rate that is not positive.

    """

    delay: float
    rate: float

    def __post_init__(self) -> None:
        if not (self.delay >= 0 and np.isfinite(self.delay) and self.rate > 0):
            raise UsageError(
                "sensor", found=f"delay = {self.delay} s at {self.rate} Hz", expected="delay >= 0, rate > 0"
            )

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Delayed values (T, n); the generator is not used."""
        shift = self.delay * self.rate
        whole = round(shift)
        index = np.arange(len(values))
        if abs(shift - whole) < 1e-9:
            return np.asarray(values[np.maximum(index - whole, 0)])
        from scipy.interpolate import CubicSpline

        return np.asarray(CubicSpline(index, values)(np.maximum(index - shift, 0.0)))


@dataclass(frozen=True)
class Dropout:
    """Independently lost samples: missing (nan), or replaced by the last value.

    Parameters
    ----------
    share : float
        Probability of a loss, from 0 to below 1.
    held : bool
        Whether the last value is repeated; the first sample is never lost.

    Raises
    ------
    UsageError
        For another share.

    """

    share: float
    held: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise UsageError("sensor", found=f"dropped = {self.share}", expected="a share from 0 to below 1")

    def measure(self, values: Float, rng: np.random.Generator) -> Float:
        """Values with losses, (T, n)."""
        lost = rng.random(np.shape(values)) < self.share
        lost[0] = False
        if not self.held:
            return np.where(lost, np.nan, values)
        last = np.maximum.accumulate(np.where(lost, 0, np.arange(len(values))[:, None]), axis=0)
        return np.take_along_axis(np.asarray(values), last, axis=0)


def warming(
    power: Float, rate: float, ambient: float, rise: Float, time_constant: float, start: float | None = None
) -> Float:
    """Temperature of drives that dissipate power, time_constant T' = ambient + rise power - T.

    Parameters
    ----------
    power : ndarray, shape (T, n), W
        Dissipated power.
    rate : float, Hz
        Sampling rate.
    ambient : float, degrees C
        Ambient temperature.
    rise : ndarray, shape (n,) or (1,), K/W
        Temperature rise per power.
    time_constant : float, s
        Time constant.
    start : float, degrees C, optional
        Initial temperature; None = ambient.

    Returns
    -------
    ndarray, shape (T, n), degrees C
        Temperature.

    Raises
    ------
    UsageError
        For a time constant or a rate that is not positive.

    """
    if not (time_constant > 0 and rate > 0):
        raise UsageError(
            "sensor", found=f"time_constant = {time_constant} s at {rate} Hz", expected="positive numbers"
        )
    from scipy.signal import lfilter

    # This is exact for power that is constant over a sample.
    keep = float(np.exp(-1.0 / (rate * time_constant)))
    above = lfilter([0.0, 1.0 - keep], [1.0, -keep], rise * power, axis=0)
    fading = keep ** np.arange(len(power))[:, None] * ((ambient if start is None else start) - ambient)
    return np.asarray(ambient + fading + above)


def _checked(values: Float, name: str) -> Float:
    array = locked(np.atleast_1d(values), (None,), name)
    if not (np.isfinite(array) & (array >= 0)).all():
        raise UsageError("sensor", found=f"{name} = {array.tolist()}", expected="finite numbers >= 0")
    return array


def _quantised(values: Float, resolution: Float) -> Float:
    step = np.where(resolution > 0, resolution, 1.0)
    return np.asarray(np.where(resolution > 0, np.round(values / step) * step, values))
