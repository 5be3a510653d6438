"""Uniform time grids from time stamps."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float

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
