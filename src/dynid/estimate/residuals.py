"""What a model leaves of a log's torque."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked_bool, locked_int, shared
from dynid.base.records import dataclass

# Samples below which a stretch says nothing of its autocorrelation.
LEAST_STRETCH = 8
# Residuals correlated over so many times longer than white noise behind the same filter hold errors of the model: with
# the right terms it is 1.0 to 1.6 times on simulated recordings of 15 s, without rotor inertias up to 12 times.
BEYOND_NOISE = 3.0


@dataclass(frozen=True, eq=False)
class Residuals:
    """Measured and predicted torque, filtered alike, at the decimated rate.

    t: (T,) s, on the log's clock.    trajectory: (T,) index into `trajectories`.    segment: (T,).
    measured, predicted: (T, n) N m.    q, dq: (T, n), for plots against position and velocity.
    rate: Hz.
    std: (T, n) standard deviation of the predicted torque from that of the parameters; None = not known.
    temperature: (T, n) of the drives, degrees C, nan where a joint has none; None = not logged.
    counted: (T, n) where a joint's equation counts: not where it stands while others move; None = everywhere.
    """

    trajectories: tuple[str, ...]
    joint_names: tuple[str, ...]
    t: Float
    trajectory: Int
    segment: Int
    measured: Float
    predicted: Float
    q: Float
    dq: Float
    rate: float
    std: Float | None = None
    temperature: Float | None = None
    counted: Bool | None = None

    def __post_init__(self) -> None:
        T, n = len(self.t), len(self.joint_names)
        object.__setattr__(self, "t", shared(self.t, (T,), "t"))
        for name in ("trajectory", "segment"):
            object.__setattr__(self, name, locked_int(getattr(self, name), (T,), name))
        for name in ("measured", "predicted", "q", "dq"):
            object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name in ("std", "temperature"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        if self.counted is not None:
            object.__setattr__(self, "counted", locked_bool(self.counted, (T, n), "counted"))

    @property
    def error(self) -> Float:
        """Measured minus predicted torque, (T, n)."""
        return self.measured - self.predicted

    @property
    def error_counted(self) -> Float:
        """The same, (T, n), and zero where a joint's equation does not count."""
        return self.error if self.counted is None else np.where(self.counted, self.error, 0.0)

    def counts(self, joint: int) -> Bool:
        """(T,) where the joint's equation counts."""
        return np.ones(len(self.t), dtype=np.bool_) if self.counted is None else self.counted[:, joint]

    def mean_square(self, values: Float) -> Float:
        """Mean of the squares of values (T, n) by joint, (n,), where its equation counts."""
        if self.counted is None:
            return np.asarray(np.mean(values**2, axis=0))
        return np.asarray(np.sum(values**2 * self.counted, axis=0) / np.maximum(self.counted.sum(axis=0), 1))


def autocorrelation(parts: Sequence[Float], most: int | None = None) -> Float:
    """Autocorrelation of a signal at lags 0, 1, ..., summed over its unbroken parts (T,) about their common mean.

    most: greatest lag, None = half the longest part. All nan where the signal is constant.
    """
    longest = max(len(part) for part in parts)
    lags = max(longest // 2, 1) if most is None else min(max(longest // 2, 1), most)
    mean = np.concatenate(parts).mean()
    total = np.zeros(lags + 1)
    for part in parts:
        line = part - mean
        power = np.abs(np.fft.rfft(line, 1 << int(2 * len(line)).bit_length())) ** 2
        width = min(len(line), lags + 1)
        total[:width] += np.fft.irfft(power)[:width]
    return total / total[0] if total[0] > 0 else np.full(lags + 1, np.nan)


def rows_alike(correlation: Float) -> float:
    """How many correlated samples weigh as much as one independent one: 1 + 2 sum up to the first change of sign."""
    negative = np.flatnonzero(correlation < 0)
    end = int(negative[0]) if len(negative) else len(correlation)
    return 1.0 + 2.0 * float(correlation[1:end].sum())


def rows_alike_of(stretches: Sequence[Float]) -> Float:
    """`rows_alike` of each column (n,) of unbroken stretches (T, n), at least one of them; 1 where none is long enough.

    Source: Bartlett 1946; Madsen et al. 2020 find residuals whose printed deviations are four times too small.
    """
    found = np.ones(stretches[0].shape[1])
    long = [part for part in stretches if len(part) >= LEAST_STRETCH]
    for j in range(len(found) if long else 0):
        correlation = autocorrelation([part[:, j] for part in long])
        if np.isfinite(correlation).all():
            found[j] = rows_alike(correlation)
    return found


def rows_a_sample(residuals: Residuals) -> Float:
    """How many rows carry the information of one independent row, by joint (n,), at least 1.

    1 + 2 sum of the autocorrelation of the residual up to its first sign change, over all unbroken stretches: the
    variance of a mean of correlated rows is that many times larger than of independent ones.
    """
    cuts = np.flatnonzero((np.diff(residuals.trajectory) != 0) | (np.diff(residuals.segment) != 0)) + 1
    return rows_alike_of(np.split(residuals.error_counted, cuts))


def beyond_noise(alike: Float, white: float) -> Bool:
    """Where residuals are correlated over far longer than white noise behind the same filter: there the model errs.

    alike: rows that carry the information of one independent row.    white: the same of such noise.
    """
    return np.asarray(alike > BEYOND_NOISE * white)


def noise_rows_a_sample(rate: float, cutoff: float, order: int) -> float:
    """The same of white noise behind a Butterworth low pass run forward and backward, at least 1.

    rate / (2 B), B = int_0^inf |H(f)|^4 df = f_c (1 - a) pi a / sin(pi a), a = 1 / (2 order).    rate, cutoff: Hz.
    """
    a = 0.5 / order
    shape = (1.0 - a) * np.pi * a / np.sin(np.pi * a)
    return float(max(1.0, rate / (2.0 * cutoff * shape)))
