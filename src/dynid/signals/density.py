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
    size = _batch_size(lines, window)
    power = sum(_power(part) for part in _spectra(lines, window, size, detrend))
    return _scaled(power, lines, rate, window)


def pair_density(x: Float, y: Float, rate: float, window: int) -> tuple[Float, Float, Float, Any]:
    """Frequencies (F,), Hz, and one-sided densities by Welch's method: of x, of y, and conj(X) Y, (..., F) each.

    x, y: lines (..., T) whose leading axes go together as numpy's do.
    """
    sums: list[Any] = [0.0, 0.0, 0.0]
    size = _batch_size(max(x, y, key=np.size), window)
    for a, b in zip(_spectra(x, window, size=size), _spectra(y, window, size=size), strict=True):
        found = _power(a), _power(b), (a.conj() * b).sum(axis=-2)
        sums = [before + own for before, own in zip(sums, found, strict=True)]
    frequency, xx = _scaled(sums[0], x, rate, window)
    return frequency, xx, _scaled(sums[1], x, rate, window)[1], _scaled(sums[2], x, rate, window)[1]


def averaged_density(parts: Sequence[Float], rate: float, window: int) -> tuple[Float, Float]:
    """Frequencies (F,), Hz, and the density (..., F) by Welch's method, averaged over the parts by their length.

    parts: each (..., T_i) with T_i >= window, at least one.    rate: Hz.    window: samples.
    """
    found = [density(part, rate, window) for part in parts]
    weights = np.array([part.shape[-1] for part in parts], dtype=np.float64)
    return found[0][0], np.average([d for _, d in found], axis=0, weights=weights)


def _batch_size(lines: Float, window: int) -> int:
    # Windows whose transforms fit into the caches together.
    together = int(np.prod(lines.shape[:-1])) * window
    return max(BATCH // max(together, 1), 1)


def _spectra(lines: Float, window: int, size: int, detrend: str = "constant") -> Iterator[Any]:
    # Transforms (..., windows, F), `size` windows at a time.
    views = np.lib.stride_tricks.sliding_window_view(lines, window, axis=-1)
    views = views[..., :: window - window // 2, :]
    taper = _hann(window)
    ramp = np.arange(window) - 0.5 * (window - 1)
    for start in range(0, views.shape[-2], size):
        part = views[..., start : start + size, :]
        part = part - part.mean(axis=-1, keepdims=True)
        if detrend == "linear":
            part -= (part @ ramp)[..., None] / max(ramp @ ramp, 1e-300) * ramp
        part *= taper
        yield np.fft.rfft(part, axis=-1)


def _power(transforms: Any) -> Any:
    return (transforms.real**2 + transforms.imag**2).sum(axis=-2)


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
