"""Uniform time grids from time stamps."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

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
    # Slopes of denormal size overflow when inverted; their tangent is zero, as it should be.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(PchipInterpolator(t, lines, axis=1, extrapolate=True)(grid))


def bracketed(t: Float, grid: Float, longest: float) -> Bool:
    """Whether each grid time lies between two time stamps that are at most `longest` apart."""
    after = np.clip(np.searchsorted(t, grid), 1, len(t) - 1)
    return np.asarray(t[after] - t[after - 1] <= longest)
