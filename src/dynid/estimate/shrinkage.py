"""A covariance from fewer blocks than parameters, drawn towards the textbook one: it holds in every direction."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.blocks import BlockScores


def shrunk(white: Float, blocks: BlockScores) -> Float:
    """Covariance (f, f) in the blocks' coordinates, drawn towards one that is larger than the textbook's by one factor.

    (1 - l) V + l T, T = H tr V / tr H, H the information of all blocks (the identity without a penalty), and
    l = min(b^2 / d^2, 1) with d^2 = ||S - T||^2, b^2 = (mean |d_m|^4 - ||S||^2) / M, S = mean d_m d_m', d_m the
    standardised scores. M blocks show at most M - 1 directions: of all others V says that they are known exactly.
    white: V, (f, f).
    Source: Ledoit and Wolf 2004, section 3.3.
    """
    D, H = blocks.standardised(), blocks.information.sum(axis=0)
    M, whole = len(D), float(np.trace(H))
    S = D.T @ D / M
    away = float(np.sum((S - np.trace(S) / whole * H) ** 2))
    if away <= 0.0:
        return white
    chance = (float(np.mean(np.sum(D**2, axis=1) ** 2)) - float(np.sum(S**2))) / M
    weight = min(max(chance, 0.0) / away, 1.0)
    return np.asarray((1.0 - weight) * white + weight * np.trace(white) / whole * H)
