"""Power spectral densities by Welch's method: of one signal, of two, averaged over contiguous stretches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from dynid.base.arrays import Float

# Values transformed at a time: what fits into the caches.
BATCH = 1 << 16


def density(
    lines: Float, rate: float, window: int, detrend: Literal["constant", "linear"] = "constant"
) -> tuple[Float, Float]:
    """Frequencies (F,), Hz, and the one-sided density (..., F) of lines (..., T), unit^2/Hz.

    Windows of Hann, half overlapping, of `window` <= T samples; `detrend` is taken off each of them.
    Source: Welch 1967.
    """
    power = _mean((part.real**2 + part.imag**2).sum(axis=-2) for part in _spectra(lines, window, detrend))
    return _scaled(power, lines, rate, window)


def cross_density(x: Float, y: Float, rate: float, window: int) -> tuple[Float, Any]:
    """Frequencies (F,), Hz, and the one-sided cross-density conj(X) Y of lines (..., T) by Welch's method, (..., F)."""
    both = zip(_spectra(x, window), _spectra(y, window), strict=True)
    return _scaled(_mean((a.conj() * b).sum(axis=-2) for a, b in both), x, rate, window)


def averaged_density(parts: Sequence[Float], rate: float, window: int) -> tuple[Float, Float]:
    """Frequencies (F,), Hz, and the density (..., F) by Welch's method, averaged over the parts by their length.

    parts: each (..., T_i) with T_i >= window, at least one.    rate: Hz.    window: samples.
    """
    found = [density(part, rate, window) for part in parts]
    weights = np.array([part.shape[-1] for part in parts], dtype=np.float64)
    return found[0][0], np.average([d for _, d in found], axis=0, weights=weights)


def _spectra(lines: Float, window: int, detrend: str = "constant") -> Iterator[Any]:
    # Transforms (..., windows, F), batch by batch.
    views = np.lib.stride_tricks.sliding_window_view(lines, window, axis=-1)
    views = views[..., :: window - window // 2, :]
    size = max(BATCH * views.shape[-2] // max(views.size, 1), 1)
    taper = _hann(window)
    ramp = np.arange(window) - 0.5 * (window - 1)
    for start in range(0, views.shape[-2], size):
        part = views[..., start : start + size, :]
        part = part - part.mean(axis=-1, keepdims=True)
        if detrend == "linear":
            part -= (part @ ramp)[..., None] / max(ramp @ ramp, 1e-300) * ramp
        yield np.fft.rfft(part * taper, axis=-1)


def _mean(sums: Iterator[Any]) -> Any:
    total: Any = 0.0
    for part in sums:
        total = total + part
    return total


def _hann(window: int) -> Float:
    if window == 1:
        return np.ones(1)
    return np.asarray(0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(window) / window))


def _scaled(sums: Any, lines: Float, rate: float, window: int) -> tuple[Float, Any]:
    # One-sided: what lies at negative frequencies counts as well, except at 0 and at half the rate.
    count = (lines.shape[-1] - window) // (window - window // 2) + 1
    twice = np.full(sums.shape[-1], 2.0 / (count * rate * (_hann(window) ** 2).sum()))
    twice[0] *= 0.5
    if window % 2 == 0:
        twice[-1] *= 0.5
    return np.asarray(np.fft.rfftfreq(window, 1.0 / rate), dtype=np.float64), sums * twice
