"""Sandwich covariance: valid whatever the weights of a fit, whether or not they are inverse variances."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.blocks import BlockScores


def sandwich(blocks: BlockScores) -> Float:
    """Covariance sum g_m g_m' of a weighted fit in the blocks' coordinates, (f, f), every score g_m standardised.

    Standardised by (1 - H_m)^-1/2, which makes the mean of each term right when residuals are equally noisy.
    Source: Liang and Zeger 1986; Bell and McCaffrey 2002 (CR2).
    """
    D = blocks.standardised()
    return np.asarray(D.T @ D)
