"""Covariance for residuals whose correlation reaches beyond a block: neighbouring blocks count together."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.blocks import BlockScores

# Constant of the Bartlett kernel in Andrews' rule for the bandwidth.
_BARTLETT = 1.1447
_MOST_CORRELATED = 0.97


def hac(blocks: BlockScores, bandwidth: float | None = None) -> Float:
    """Heteroscedasticity and autocorrelation consistent covariance in the blocks' coordinates, (f, f).

    G_0 + sum_l w_l (G_l + G_l'), G_l = sum_m d_m d_{m+l}' over blocks l apart in one segment,
    w_l = 1 - l / bandwidth, d_m the standardised scores. It is never indefinite.
    bandwidth: in blocks, 1 = none but the block itself; None = Andrews' plug-in rule.
    Source: Newey and West 1987; Andrews 1991, eq. 6.2 and 6.4.
    """
    D = blocks.standardised()
    width = automatic_bandwidth(D, blocks.segment) if bandwidth is None else bandwidth
    white = D.T @ D
    for lag in range(1, int(np.ceil(width))):
        together = blocks.segment[lag:] == blocks.segment[:-lag]
        G = D[:-lag][together].T @ D[lag:][together]
        white += (1.0 - lag / width) * (G + G.T)
    return np.asarray(white)


def automatic_bandwidth(scores: Float, segment: np.ndarray) -> float:
    """Andrews' bandwidth for the Bartlett kernel, in blocks, at least 1 and at most a third of them.

    1.1447 (alpha M)^(1/3), alpha = sum_i 4 r_i^2 s_i^4 / ((1 - r_i)^6 (1 + r_i)^2) / sum_i s_i^4 / (1 - r_i)^4, with
    r_i and s_i^2 of a first-order autoregression of score i over neighbouring blocks of one segment.
    scores: (M, f).
    """
    together = segment[1:] == segment[:-1]
    before, after = scores[:-1][together], scores[1:][together]
    square = (before**2).sum(axis=0)
    if not len(before) or not (square > 0).any():
        return 1.0
    product = (before * after).sum(axis=0)
    r = np.clip(product / np.where(square > 0, square, np.inf), -_MOST_CORRELATED, _MOST_CORRELATED)
    s4 = (((after - r * before) ** 2).sum(axis=0)) ** 2
    top = np.sum(4.0 * r**2 * s4 / ((1.0 - r) ** 6 * (1.0 + r) ** 2))
    alpha = top / np.sum(s4 / (1.0 - r) ** 4)
    width = _BARTLETT * (alpha * len(scores)) ** (1.0 / 3.0)
    return float(np.clip(width, 1.0, max(len(scores) / 3.0, 1.0)))
