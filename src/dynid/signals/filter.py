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

# Of the sampling rate; a low pass above it takes nothing away and is left out.
HIGHEST_SHARE = 0.45


@lru_cache(maxsize=64)
def zero_phase_filter(cutoff: float, order: int, rate: float) -> ZeroPhase:
    """The filter of these settings, designed once."""
    return ZeroPhase(cutoff, order, rate)


@dataclass(frozen=True)
class ZeroPhase:
    """Butterworth low pass of an order and cut-off (Hz, -6 dB after both passes) at a sampling rate (Hz).

    Its gain is |H(f)|^2 of the one-way filter, its phase zero.
    Raises UsageError unless the cut-off lies below half the rate.
    """

    cutoff: float
    order: int
    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.cutoff < 0.5 * self.rate:
            raise UsageError(
                "cutoff",
                found=f"a cut-off of {self.cutoff:g} Hz at {self.rate:g} samples a second",
                expected=f"below {0.5 * self.rate:g} Hz",
            )

    @cached_property
    def sections(self) -> Float:
        """(s, 6) second-order sections of the one-way filter."""
        return butterworth(self.order, self.cutoff, self.rate)

    @cached_property
    def settled(self) -> Float:
        """(s, 2) state of the sections after a constant input of 1."""
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
        """Samples after which it has fallen to 1e-6: what an end leaves there is lost in any sensor's noise."""
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
        """Filters each line (L, T) along time and returns its samples start, start + step, ...

        continued: the ends are, by odd reflection; only samples a margin away from both can do without.
        """
        T = lines.shape[1]
        if T < 2:
            return np.array(lines[:, start::step])
        return zero_phase(lines, self.sections, self.settled, self.pad(T, continued), start, step)

    def pad(self, count: int, continued: bool = True) -> int:
        """Samples by which lines of `count` samples are continued at both ends."""
        return min(self.settling, count - 1) if continued else 0


def low_passed(
    lines: Float, cutoffs: Sequence[float], order: int, rate: float, start: int = 0, step: int = 1
) -> Float:
    """Lines (L, T), each through the zero-phase low pass of its own cut-off (Hz), at samples start, start + step, ...

    Those whose cut-off is at least 0.45 of the rate stay as they are.
    """
    distinct = sorted(set(cutoffs))
    found = np.empty((len(lines), len(range(start, lines.shape[1], step))))
    for cutoff in distinct:
        own = slice(None) if len(distinct) == 1 else np.flatnonzero(np.equal(cutoffs, cutoff))
        if cutoff < HIGHEST_SHARE * rate:
            part = np.ascontiguousarray(lines[own])
            found[own] = zero_phase_filter(cutoff, order, rate)(part, start, step)
        else:
            found[own] = lines[own, start::step]
    return found


def settling_of(cutoffs: Sequence[float], order: int, rate: float) -> int:
    """Samples that `low_passed` needs on each side."""
    filters = (zero_phase_filter(c, order, rate) for c in set(cutoffs) if c < HIGHEST_SHARE * rate)
    return max((one.settling for one in filters), default=0)


def butterworth(order: int, cutoff: float, rate: float) -> Float:
    """Digital Butterworth low pass as second-order sections (s, 6) of b0, b1, b2, 1, a1, a2, the sharpest last.

    order: of the low pass.    cutoff: Hz, at -3 dB.    rate: Hz.
    The analogue poles on a circle of warped radius go through the bilinear transform; all zeros lie at half the rate.
    Source: Oppenheim and Schafer 2010, section 7.2.
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
    found = np.array(sections, dtype=np.float64)
    # The first section carries the whole gain, which is 1 at rest.
    found[0, :3] *= np.prod(found[:, 3:].sum(axis=1) / found[:, :3].sum(axis=1))
    return found


# Central differences on a uniform grid.


def first_difference(x: Float, rate: float, at: Int | None = None) -> Float:
    """First time derivative along the last axis, of fourth order: exact for polynomials of degree 4.

    dx_k = (8 (x_{k+1} - x_{k-1}) - (x_{k+2} - x_{k-2})) / (12 h); at frequency f its gain is off by (2 pi f h)^4 / 30.
    The two samples at each end take the value of their inner neighbour.
    x: (..., T), T >= 5.    rate: 1/h, Hz.    at: indices k wanted, None = all.
    """
    two_before, before, after, two_after = _around(x, at, -2, -1, 1, 2)
    return _to_ends((8.0 * (after - before) - (two_after - two_before)) * (rate / 12.0), at)


def second_difference(x: Float, rate: float, at: Int | None = None) -> Float:
    """Second time derivative along the last axis, of fourth order: exact for polynomials of degree 5.

    ddx_k = (-x_{k+2} + 16 x_{k+1} - 30 x_k + 16 x_{k-1} - x_{k-2}) / (12 h^2); the rest as in first_difference.
    """
    two_before, before, own, after, two_after = _around(x, at, -2, -1, 0, 1, 2)
    outer, inner = two_after + two_before, after + before
    return _to_ends((16.0 * inner - outer - 30.0 * own) * (rate**2 / 12.0), at)


def _around(x: Float, at: Int | None, *shifts: int) -> list[Float]:
    # Samples k + shift of the wanted k; of all that lie two from the ends, without a copy, where none are named.
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
    found = np.empty((*inner.shape[:-1], inner.shape[-1] + 4))
    found[..., 2:-2] = inner
    found[..., :2], found[..., -2:] = inner[..., :1], inner[..., -1:]
    return found


# Power spectral densities by Welch's method: of one signal, of two, averaged over contiguous stretches.

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


# Uniform time grids from time stamps.

UNIFORM = 0.02


def sensible_rate(median_dt: float) -> float:
    """1/median_dt, rounded to a whole number of Hz where it lies within half a percent of one."""
    rate = 1.0 / median_dt
    whole = round(rate)
    return float(whole) if whole > 0 and abs(rate / whole - 1.0) < 5e-3 else rate


def is_uniform(t: Float, rate: float) -> bool:
    """Whether time stamps lie within 2 % of a step from the uniform grid that starts at the first."""
    return bool(np.abs((t - t[0]) * rate - np.arange(len(t))).max(initial=0.0) < UNIFORM)


def at_times(t: Float, lines: Float, grid: Float) -> Float:
    """Values of each line (L, T), known at increasing times t, at the times of the grid; (L, len(grid)).

    Monotone cubic interpolation (Fritsch and Carlson 1980) around each grid point: local, without overshoot.
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
    """Slope (L, T) at each time, of size and sign that keep the cubics monotone between (L, T - 1) secants."""
    if len(step) == 1:
        return np.repeat(secant, 2, axis=1)
    before, after = step[:-1], step[1:]
    a, b = secant[:, :-1], secant[:, 1:]
    found = np.empty((len(secant), len(step) + 1))
    w1, w2 = 2.0 * after + before, after + 2.0 * before
    # A weighted harmonic mean where the secants share their sign. Secants of denormal size overflow when inverted;
    # their slope is zero, as it should be.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        inner = (w1 + w2) / (w1 / a + w2 / b)
    found[:, 1:-1] = np.where(np.sign(a) * np.sign(b) > 0, inner, 0.0)
    found[:, 0] = _end_slope(step[0], step[1], secant[:, 0], secant[:, 1])
    found[:, -1] = _end_slope(step[-1], step[-2], secant[:, -1], secant[:, -2])
    return found


def _end_slope(own: float, other: float, near: Float, far: Float) -> Float:
    # The parabola through three points, as far as it stays monotone.
    slope = ((2.0 * own + other) * near - own * far) / (own + other)
    slope = np.where(np.sign(slope) != np.sign(near), 0.0, slope)
    bent = (np.sign(near) != np.sign(far)) & (np.abs(slope) > 3.0 * np.abs(near))
    return np.where(bent, 3.0 * near, slope)


def bracketed(t: Float, grid: Float, longest: float) -> Bool:
    """Whether each grid time lies between two time stamps that are at most `longest` apart."""
    after = np.clip(np.searchsorted(t, grid), 1, len(t) - 1)
    return np.asarray(t[after] - t[after - 1] <= longest)
