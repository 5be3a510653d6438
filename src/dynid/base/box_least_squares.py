"""Nonlinear least squares of a few unknowns between 0 and 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynid.base.arrays import Float

# Of a step beside the unknowns and of a gain beside the sum of squares, below which the search has arrived.
STEP, GAIN = 1e-5, 1e-8
# Trials in all.
TRIALS = 30
# The first damping, and the least, relative to the greatest curvature of an unknown.
DAMPING, LEAST = 1e-3, 1e-12


def least_squares_in_box(
    residual: Callable[[Float], Float], jacobian: Callable[[Float], Float], start: Float
) -> tuple[Float, float]:
    """The unknowns (s,) from 0 to 1 with the least sum of squares of a residual (rows,), and that sum.

    jacobian: (rows, s) of the unknowns at which the residual was last asked for.

    Levenberg and Marquardt's method: steps are damped as much as they miss what the linear residual promised, a step
    that leaves the box ends at its wall, and an unknown whose slope presses it against a wall stays.
    Source of the damping: Nielsen 1999, IMM-REP-1999-05.
    """
    u = np.clip(start, 0.0, 1.0)
    r = residual(u)
    cost, damping, growth, left = float(r @ r), np.nan, 2.0, TRIALS - 1
    arrived = False
    while left > 0 and not arrived:
        J = jacobian(u)
        square, slope = J.T @ J, J.T @ r
        steepest = float(np.max(np.diag(square), initial=0.0))
        free = ~(((u <= 0.0) & (slope > 0.0)) | ((u >= 1.0) & (slope < 0.0)))
        if not (steepest > 0.0 and slope[free].any()):
            break
        damping = DAMPING * steepest if np.isnan(damping) else max(damping, LEAST * steepest)
        while left > 0 and not arrived:
            step = np.zeros(len(u))
            damped = square[np.ix_(free, free)] + damping * np.eye(int(free.sum()))
            step[free] = np.linalg.solve(damped, -slope[free])
            tried = np.clip(u + step, 0.0, 1.0)
            step = tried - u
            there = residual(tried)
            left -= 1
            gain = cost - float(there @ there)
            arrived = float(np.linalg.norm(step)) <= STEP * (STEP + float(np.linalg.norm(u)))
            if gain > 0.0:
                promised = -float(step @ (2.0 * slope + square @ step))
                arrived = arrived or gain <= GAIN * cost
                share = gain / promised if promised > 0.0 else 0.0
                damping, growth = damping * max(1.0 / 3.0, 1.0 - (2.0 * share - 1.0) ** 3), 2.0
                u, r, cost = tried, there, cost - gain
                break
            damping, growth = damping * growth, 2.0 * growth
    return u, cost
