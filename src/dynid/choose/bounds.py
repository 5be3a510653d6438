"""Columns that are not negative by nature, and least squares within these bounds from a triangle that holds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.estimate.estimator import Estimate
from dynid.factor.factor import triangle_of
from dynid.kernel import qr_panel, solve_triangular
from dynid.terms.catalogue import CATALOGUE
from dynid.terms.column import Column, Of
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.term import Term

DEPENDENT = 1e-6
# Of a gradient, relative to what it is the product of; and steps of an active set a coefficient.
ROUNDING, MOST_STEPS = 1e-12, 3
# Standard errors below zero at which dry friction is taken to drive a joint: the other sign by chance once in 700.
DRIVEN = 3.0


def bounded_columns(columns: Sequence[Column], estimate: Estimate) -> frozenset[str]:
    """Names of columns of friction, rotors and springs that are not negative by nature.

    Coefficients of a body's columns are those of base parameters, sums of several. Dry friction that drives a joint
    beyond chance is a sign of the log, which every model of it shows: that joint is without bounds.
    """
    driven = {
        estimate.columns[i].owner
        for i, value, std in zip(estimate.base.independent, estimate.value, estimate.std, strict=True)
        if _is_dry(estimate.columns[i]) and value < -DRIVEN * std
    }
    return frozenset(
        column.name
        for column in columns
        if column.lower >= 0 and column.of is not Of.BODY and column.owner not in driven
    )


def least_squares(triangle: Float, index: Int) -> Float:
    """(c,) coefficients of some columns, zero elsewhere; one that depends on others is left out.

    triangle: of c columns and the target, the last.
    """
    kept, R = independent(triangle, index)
    k = len(kept)
    x = np.zeros(triangle.shape[1] - 1)
    x[kept] = solve_triangular(R[:k, :k], R[:k, k], check_finite=False)
    return x


def least_squares_within_bounds(triangle: Float, index: Int, bounded: Bool) -> Float:
    """(c,) as `least_squares`, the coefficients of the bounded columns among those of the index at least zero.

    With the free columns eliminated first, [R11 R12 z1; 0 R22 z2], the bounded ones are min ||R22 x - z2||, x >= 0.
    Source: Lawson and Hanson 1974, chapter 23.
    """
    kept, R = independent(triangle, np.concatenate([index[~bounded], index[bounded]]))
    x, free = np.zeros(triangle.shape[1] - 1), np.zeros(triangle.shape[1] - 1, dtype=np.bool_)
    free[index[~bounded]] = True
    k, f = len(kept), int(free[kept].sum())
    x[kept] = solve_triangular(R[:k, :k], R[:k, k], check_finite=False)
    if not (x[kept[f:]] < 0).any():
        return x
    scale = np.linalg.norm(R[f:k, f:k], axis=0)
    part = nonnegative(R[f:k, f:k] / scale, R[f:k, k], x[kept[f:]] > 0) / scale
    x[kept[f:]] = part
    x[kept[:f]] = solve_triangular(R[:f, :f], R[:f, k] - R[:f, f:k] @ part, check_finite=False)
    return x


def independent(triangle: Float, index: Int) -> tuple[Int, Float]:
    """Some columns less those that depend on others among them, and the triangle of what is left with the target."""
    kept = index
    while True:
        R = triangle_of(triangle, np.append(kept, triangle.shape[1] - 1))
        size = np.linalg.norm(R[:, :-1], axis=0)
        weak = np.abs(np.diag(R)[:-1]) <= DEPENDENT * np.where(size > 0, size, 1.0)
        if not weak.any():
            return kept, R
        kept = kept[~weak]


def nonnegative(R: Float, z: Float, positive: Bool) -> Float:
    """The x >= 0 with the least ||R x - z|| for columns R (m, k) that are independent.

    positive: (k,) the coefficients to begin with, those that are positive without bounds.

    Active set: one leaves at the first bound that is met on the way to the next solution, and the one enters whose
    gradient is steepest. Source: Lawson and Hanson 1974, chapter 23.
    """
    k = R.shape[1]
    square, along = R.T @ R, R.T @ z
    limit = ROUNDING * np.sqrt(np.diag(square) * float(z @ z))
    x, free = np.zeros(k), np.zeros(k, dtype=np.bool_)
    wanted = positive
    for _ in range(MOST_STEPS * (k + 1)):
        free |= wanted
        while True:
            step = np.zeros(k)
            step[free] = _least_squares(R[:, free], z)
            below = free & (step <= 0)
            if not below.any():
                break
            share = np.min(x[below] / np.maximum(x[below] - step[below], np.finfo(np.float64).tiny))
            x = x + share * (step - x)
            free &= ~(below & (x <= ROUNDING * np.abs(step)))
            x[~free] = 0.0
        x = step
        slope = np.where(free, -np.inf, along - square @ x - limit)
        wanted = np.arange(k) == np.argmax(slope)
        if not slope.max(initial=-np.inf) > 0:
            return x
    return x


def _least_squares(A: Float, b: Float) -> Float:
    """The x with the least ||A x - b|| for independent columns."""
    R = qr_panel(np.vstack([A.T, b]))
    return solve_triangular(R[:-1, :-1], R[:-1, -1], check_finite=False)


def _is_dry(column: Column) -> bool:
    kind = CATALOGUE.get(column.term, Term)
    return issubclass(kind, JointTerm) and kind.exports_as is MotionBasis.SIGN
