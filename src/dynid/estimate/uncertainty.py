"""Covariance that holds when residuals are autocorrelated: blocks of time, not samples, are independent."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from dynid.arrays import Float, Int
from dynid.factor.factor import Factors

LARGEST_LEVERAGE = 1.0 - 1e-6


def block_jackknife(
    factors: Factors, columns: Int, theta: Float, inverse: Float, weights: Float
) -> tuple[Float, Float]:
    """Covariance of a least-squares estimate by leaving out one block at a time, exactly, without refitting.

    With A the total normal matrix, A_m that of block m and g_m = X_m' W e_m its score, the estimate without
    block m differs by -(A - A_m)^-1 g_m; cov = (M - 1)/M sum (d_m - mean d)(d_m - mean d)'.
    All is done in coordinates where A = I, so the condition number of A does not enter.

    columns: (b,) parameters.    theta: (p,) estimate.    inverse: (b, b) with A^-1 = inverse inverse'.
    weights: (g,).
    Where only some directions are free, inverse is (b, f) and A^-1 stands for the inverse in those directions.
    Returns the covariance (b, b) and the blocks' shares of the information (M,).
    Source: Cameron, Gelbach and Miller 2008 (CR3); Efron and Tibshirani 1993, chapter 11.
    """
    b = inverse.shape[1]
    position = {int(c): i for i, c in enumerate(columns)}
    shifts, leverage = [], []
    for block in factors.blocks:
        H = np.zeros((b, b))
        score = np.zeros(b)
        for factor, weight in zip(block.groups, weights, strict=True):
            place = np.array([position[int(c)] for c in factor.columns], dtype=np.int64)
            X = factor.R[:, :-1] @ inverse[place]
            H += weight * (X.T @ X)
            score += weight * (inverse[place].T @ factor.gradient(theta))
        shifts.append(_without_block(H, score))
        leverage.append(np.trace(H) / b)
    M = len(shifts)
    D = np.array(shifts) - np.mean(shifts, axis=0)
    white = (M - 1) / M * (D.T @ D)
    return inverse @ white @ inverse.T, np.array(leverage)


def _without_block(H: Float, score: Float) -> Float:
    # (1 - H)^-1 score; where a block holds all there is to know of a direction, its leverage is kept below one.
    try:
        L = np.linalg.cholesky(np.eye(len(H)) - H)
    except LinAlgError:
        L = np.zeros_like(H)
    if (np.diag(L) ** 2 > 1.0 - LARGEST_LEVERAGE).all():
        return np.asarray(cho_solve((L, True), score, check_finite=False))
    share, directions = np.linalg.eigh(H)
    remaining = 1.0 - np.minimum(share, LARGEST_LEVERAGE)
    return np.asarray(directions @ ((directions.T @ score) / remaining))
