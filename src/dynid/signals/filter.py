"""Zero-phase filters, differences, spectral densities and uniform grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import zero_phase

# Zero-phase Butterworth filters: run forward and backward, so that nothing is delayed.

# Of the sampling rate: a low pass above it removes nothing and is left out.
HIGHEST_SHARE = 0.45


@lru_cache(maxsize=64)
def zero_phase_filter(cutoff: float, order: int, rate: float) -> ZeroPhase:
    """Zero-phase filter, designed once for each set of arguments.

    Parameters
    ----------
    cutoff : float, Hz
        Cutoff frequency, -6 dB after both passes.
    order : int
        Order of the one-way Butterworth filter.
    rate : float, Hz
        Sampling rate.

    Returns
    -------
    ZeroPhase
        The filter.

    """
    return ZeroPhase(cutoff, order, rate)


@dataclass(frozen=True)
class ZeroPhase:
    """Butterworth low pass that runs forward and backward, with gain |H(f)|^2 of the one-way filter and no phase.

    Parameters
    ----------
    cutoff : float, Hz
        Cutoff frequency, -6 dB after both passes.
    order : int
        Order of the one-way filter.
    rate : float, Hz
        Sampling rate.

    Raises
    ------
    UsageError
        If the cutoff frequency does not lie below half the rate.

    """

    cutoff: float
    order: int
    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.cutoff < 0.5 * self.rate:
            raise UsageError(
                "cutoff",
                found=f"a cutoff frequency of {self.cutoff:.4g} Hz at {self.rate:.4g} samples per second",
                expected=f"below {0.5 * self.rate:g} Hz",
            )

    @cached_property
    def sections(self) -> Float:
        """(s, 6) second-order sections of the one-way filter."""
        return butterworth(self.order, self.cutoff, self.rate)

    @cached_property
    def settled(self) -> Float:
        """(s, 2) steady state of the sections for a constant input of 1."""
        states, level = [], 1.0
        for b0, b1, b2, _, a1, a2 in self.sections:
            gain = (b0 + b1 + b2) / (1.0 + a1 + a2)
            states.append([level * (gain - b0), level * (b2 - a2 * gain)])
            level *= gain
        return np.array(states)

    @cached_property
    def settling(self) -> int:
        """Samples after which the one-way impulse response has fallen to 1e-11."""
        return self._fallen_to(1e-11)

    @cached_property
    def margin(self) -> int:
        """Samples after which it has fallen to 1e-6, below the noise of any sensor."""
        return self._fallen_to(1e-6)

    def _fallen_to(self, share: float) -> int:
        poles = np.concatenate([np.roots(section[3:]) for section in self.sections])
        slowest = float(np.abs(poles).max())
        return int(np.ceil(np.log(share) / np.log(slowest))) + 8 * self.order

    def gain(self, frequency: Float) -> Float:
        """Gain of both passes together at frequencies in Hz."""
        back = np.exp(-2j * np.pi * np.asarray(frequency, dtype=np.float64) / self.rate)
        delays = np.array([np.ones_like(back), back, back * back])
        response = np.prod((self.sections[:, :3] @ delays) / (self.sections[:, 3:] @ delays), axis=0)
        return np.asarray(np.abs(response) ** 2)

    def __call__(self, lines: Float, start: int = 0, step: int = 1, continued: bool = True) -> Float:
        """Filter along time.

        `lines` (L, T): signals; `start`, `step`: the samples start, start + step, ... are returned; `continued`:
        whether the ends are continued by odd reflection; only samples a margin away from both ends do without it.
        Result: the filtered samples, (L, K).
        """
        T = lines.shape[1]
        if T < 2:
            return np.array(lines[:, start::step])
        return zero_phase(lines, self.sections, self.settled, self.pad(T, continued), start, step)

    def pad(self, count: int, continued: bool = True) -> int:
        """Samples by which signals of `count` samples are continued at both ends."""
        return min(self.settling, count - 1) if continued else 0


def low_passed(
    lines: Float, cutoffs: Sequence[float], order: int, rate: float, start: int = 0, step: int = 1
) -> Float:
    """Filter each signal by a zero-phase low pass of its own cutoff frequency.

    Signals whose cutoff frequency is at least 0.45 of the rate are not filtered.

    Parameters
    ----------
    order, rate, start, step
        As for `zero_phase_filter` and its call.
    lines : ndarray, shape (L, T)
        Signals.
    cutoffs : sequence of float, Hz
        Cutoff frequency of each signal.

    Returns
    -------
    ndarray, shape (L, K)
        The samples.

    """
    distinct = sorted(set(cutoffs))
    filtered = np.empty((len(lines), len(range(start, lines.shape[1], step))))
    for cutoff in distinct:
        rows = slice(None) if len(distinct) == 1 else np.flatnonzero(np.equal(cutoffs, cutoff))
        if cutoff < HIGHEST_SHARE * rate:
            part = np.ascontiguousarray(lines[rows])
            filtered[rows] = zero_phase_filter(cutoff, order, rate)(part, start, step)
        else:
            filtered[rows] = lines[rows, start::step]
    return filtered


def settling_of(cutoffs: Sequence[float], order: int, rate: float) -> int:
    """Samples that `low_passed` needs on each side."""
    filters = (zero_phase_filter(c, order, rate) for c in set(cutoffs) if c < HIGHEST_SHARE * rate)
    return max((low_pass.settling for low_pass in filters), default=0)


def butterworth(order: int, cutoff: float, rate: float) -> Float:
    """Digital Butterworth low pass, -3 dB at the cutoff frequency, as second-order sections.

    The analogue poles lie on a circle of warped radius and are mapped by the bilinear transform; all zeros lie at half
    the rate.

    Result: rows b0, b1, b2, 1, a1, a2; the section with the sharpest resonance last, (s, 6).

    References
    ----------
    Oppenheim and Schafer 2010, section 7.2.

    """
    warped = 4.0 * np.tan(np.pi * cutoff / rate)
    angle = np.pi * np.arange(-order + 1, order, 2) / (2.0 * order)
    analogue = -warped * np.exp(1j * angle[angle > -1e-9])
    poles = (4.0 + analogue) / (4.0 - analogue)
    poles = poles[np.argsort(np.abs(poles), kind="stable")]
    real = np.abs(poles.imag) < 1e-12
    sections = []
    for pole in poles[real].real:
        sections.append([1.0, 1.0, 0.0, 1.0, -pole, 0.0])
    for pole in poles[~real]:
        sections.append([1.0, 2.0, 1.0, 1.0, -2.0 * pole.real, abs(pole) ** 2])
    table = np.array(sections, dtype=np.float64)
    # The whole gain, 1 at frequency 0, is in the first section.
    table[0, :3] *= np.prod(table[:, 3:].sum(axis=1) / table[:, :3].sum(axis=1))
    return table


# Central differences on a uniform grid.


def first_difference(x: Float, rate: float, at: Int | None = None) -> Float:
    """First time derivative along the last axis, of fourth order: exact for polynomials of degree 4.

    dx_k = (8 (x_{k+1} - x_{k-1}) - (x_{k+2} - x_{k-2})) / (12 h); the relative error of its gain at frequency f is
    (2 pi f h)^4 / 30. The two samples at each end get the value of their inner neighbour.

    Parameters
    ----------
    x : ndarray, shape (..., T)
        Signals with T >= 5.
    rate : float, Hz
        Sampling rate 1/h.
    at : ndarray of int, optional
        Indices k of the wanted samples; None = all.

    Returns
    -------
    ndarray, shape (..., K)
        The derivatives.

    """
    two_before, before, after, two_after = _around(x, at, -2, -1, 1, 2)
    return _to_ends((8.0 * (after - before) - (two_after - two_before)) * (rate / 12.0), at)


def second_difference(x: Float, rate: float, at: Int | None = None) -> Float:
    """Second time derivative along the last axis, of fourth order: exact for polynomials of degree 5.

    ddx_k = (-x_{k+2} + 16 x_{k+1} - 30 x_k + 16 x_{k-1} - x_{k-2}) / (12 h^2). Arguments and result as for
    `first_difference`.
    """
    two_before, before, centre, after, two_after = _around(x, at, -2, -1, 0, 1, 2)
    outer, inner = two_after + two_before, after + before
    return _to_ends((16.0 * inner - outer - 30.0 * centre) * (rate**2 / 12.0), at)


def _around(x: Float, at: Int | None, *shifts: int) -> list[Float]:
    # Samples k + shift of the wanted k; without `at`, views for all k at least two from the ends.
    T = x.shape[-1]
    if T < 5:
        raise UsageError("too-few-samples", found=f"{T} samples", expected="at least 5 to differentiate")
    if at is None:
        return [x[..., 2 + shift : T - 2 + shift] for shift in shifts]
    k = np.clip(at, 2, T - 3)
    return [x[..., k + shift] for shift in shifts]


def _to_ends(inner: Float, at: Int | None) -> Float:
    if at is not None:
        return np.asarray(inner)
    extended = np.empty((*inner.shape[:-1], inner.shape[-1] + 4))
    extended[..., 2:-2] = inner
    extended[..., :2], extended[..., -2:] = inner[..., :1], inner[..., -1:]
    return extended


# Power spectral densities by Welch's method: of one signal, of two, averaged over contiguous stretches.

# Values that are transformed at a time, to fit into the processor's caches.
BATCH = 1 << 16


def density(
    lines: Float, rate: float, window: int, detrend: Literal["constant", "linear"] = "constant"
) -> tuple[Float, Float]:
    """One-sided power spectral density by Welch's method with half-overlapping Hann windows.

    `lines` (..., T): signals; `rate` in Hz: sampling rate; `window`: samples of a window, at most T; `detrend`: trend
    that is subtracted from each window. Result: frequencies in Hz and densities in unit^2/Hz, (F,) and (..., F).

    References
    ----------
    Welch 1967.

    """
    size = _batch_size(lines, window)
    power = sum(_power(part) for part in _spectra(lines, window, size, detrend))
    return _scaled(power, lines, rate, window)


def pair_density(x: Float, y: Float, rate: float, window: int) -> tuple[Float, Float, Float, Any]:
    """One-sided spectral densities of two signals and their cross-spectral density by Welch's method.

    `x`, `y` (..., T): signals whose leading axes broadcast. Result: frequencies (F,) in Hz, and the densities of x, of
    y and of conj(X) Y, (..., F) each.
    """
    sums: list[Any] = [0.0, 0.0, 0.0]
    size = _batch_size(max(x, y, key=np.size), window)
    for a, b in zip(_spectra(x, window, size=size), _spectra(y, window, size=size), strict=True):
        powers = _power(a), _power(b), (a.conj() * b).sum(axis=-2)
        sums = [before + new for before, new in zip(sums, powers, strict=True)]
    frequency, xx = _scaled(sums[0], x, rate, window)
    return frequency, xx, _scaled(sums[1], x, rate, window)[1], _scaled(sums[2], x, rate, window)[1]


def averaged_density(parts: Sequence[Float], rate: float, window: int) -> tuple[Float, Float]:
    """Density and frequencies as in `density`, averaged over stretches weighted by their length.

    Parameters
    ----------
    rate, window
        As for `density`.
    parts : sequence of ndarray, shape (..., T_i)
        Stretches with T_i >= window, at least one.

    """
    densities = [density(part, rate, window) for part in parts]
    weights = np.array([part.shape[-1] for part in parts], dtype=np.float64)
    return densities[0][0], np.average([d for _, d in densities], axis=0, weights=weights)


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
    # One-sided: negative frequencies count as well, except at 0 and at half the rate.
    count = (lines.shape[-1] - window) // (window - window // 2) + 1
    twice = np.full(sums.shape[-1], 2.0 / (count * rate * (_hann(window) ** 2).sum()))
    twice[0] *= 0.5
    if window % 2 == 0:
        twice[-1] *= 0.5
    return np.asarray(np.fft.rfftfreq(window, 1.0 / rate), dtype=np.float64), sums * twice


# Uniform time grids from time stamps.

UNIFORM = 0.02  # of a step: stamps nearer to the grid need no interpolation


def sensible_rate(median_dt: float) -> float:
    """1/median_dt in Hz, rounded to an integer if within half a percent of it."""
    rate = 1.0 / median_dt
    whole = round(rate)
    return float(whole) if whole > 0 and abs(rate / whole - 1.0) < 5e-3 else rate


def is_uniform(t: Float, rate: float) -> bool:
    """Whether time stamps lie within 2 % of a step of the uniform grid that starts at the first."""
    return bool(np.abs((t - t[0]) * rate - np.arange(len(t))).max(initial=0.0) < UNIFORM)


def at_times(t: Float, lines: Float, grid: Float) -> Float:
    """Monotone cubic interpolation, which is local and does not overshoot.

    Parameters
    ----------
    t : ndarray, shape (T,), s
        Increasing times of the values.
    lines : ndarray, shape (L, T)
        Values.
    grid : ndarray, shape (G,), s
        Times of the result.

    Returns
    -------
    ndarray, shape (L, G)
        Values at the times of the grid.

    References
    ----------
    Fritsch and Carlson 1980.

    """
    if len(t) < 2:
        return np.repeat(lines, len(grid), axis=1)
    step = np.diff(t)
    secant = np.diff(lines, axis=1) / step
    slope = _slopes(step, secant)
    at = np.clip(np.searchsorted(t, grid, side="right") - 1, 0, len(t) - 2)
    x, h = grid - t[at], step[at]
    left, right, mean = slope[:, at], slope[:, at + 1], secant[:, at]
    bend = (3.0 * mean - 2.0 * left - right) / h
    twist = (left + right - 2.0 * mean) / (h * h)
    return np.ascontiguousarray(lines[:, at] + x * (left + x * (bend + x * twist)))


def _slopes(step: Float, secant: Float) -> Float:
    """Slopes (L, T) with which cubics with secants (L, T - 1) are monotone."""
    if len(step) == 1:
        return np.repeat(secant, 2, axis=1)
    before, after = step[:-1], step[1:]
    a, b = secant[:, :-1], secant[:, 1:]
    slopes = np.empty((len(secant), len(step) + 1))
    w1, w2 = 2.0 * after + before, after + 2.0 * before
    # Weighted harmonic mean of secants of the same sign. Denormal secants overflow when inverted, which gives the
    # correct slope of zero.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        inner = (w1 + w2) / (w1 / a + w2 / b)
    slopes[:, 1:-1] = np.where(np.sign(a) * np.sign(b) > 0, inner, 0.0)
    slopes[:, 0] = _end_slope(step[0], step[1], secant[:, 0], secant[:, 1])
    slopes[:, -1] = _end_slope(step[-1], step[-2], secant[:, -1], secant[:, -2])
    return slopes


def _end_slope(step: float, other: float, near: Float, far: Float) -> Float:
    # Slope of the parabola through three points, limited so that it stays monotone.
    slope = ((2.0 * step + other) * near - step * far) / (step + other)
    slope = np.where(np.sign(slope) != np.sign(near), 0.0, slope)
    bent = (np.sign(near) != np.sign(far)) & (np.abs(slope) > 3.0 * np.abs(near))
    return np.where(bent, 3.0 * near, slope)


def bracketed(t: Float, grid: Float, longest: float) -> Bool:
    """Whether each grid time (G,) lies between two stamps (T,) that are at most `longest` s apart."""
    after = np.clip(np.searchsorted(t, grid), 1, len(t) - 1)
    return np.asarray(t[after] - t[after - 1] <= longest)
