"""Sandwich covariance: valid whatever the weights of a fit, whether or not they are inverse variances."""

from __future__ import annotations

from dynid.base.arrays import Float
from dynid.estimate.blocks import BlockScores


def sandwich(blocks: BlockScores) -> Float:
    """Covariance A^-1 (sum g_m g_m') A^-1 of a weighted fit, (b, b), every block's score g_m standardised.

    Standardised by (1 - H_m)^-1/2, which makes the mean of each term right when residuals are equally noisy.
    Source: Liang and Zeger 1986; Bell and McCaffrey 2002 (CR2).
    """
    D = blocks.standardised()
    return blocks.covariance(D.T @ D)
