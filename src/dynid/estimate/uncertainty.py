"""Covariance that holds when residuals are autocorrelated: blocks of time, not samples, are independent."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.estimate.blocks import BlockScores
from dynid.estimate.bootstrap import bootstrap_covariance
from dynid.estimate.hac import hac
from dynid.estimate.sandwich import sandwich
from dynid.estimate.shrinkage import shrunk
from dynid.factor.factor import Factors


class Intervals(StrEnum):
    """How the covariance of a least-squares fit is found from its blocks."""

    JACKKNIFE = "jackknife"
    SANDWICH = "sandwich"
    HAC = "hac"
    BOOTSTRAP = "bootstrap"


DESCRIBED = {
    Intervals.JACKKNIFE: "by leaving out each block of time in turn",
    Intervals.SANDWICH: "from the scores of the blocks of time, each corrected for its leverage",
    Intervals.HAC: "from the scores of blocks of time, neighbours counted together as HAC does",
    Intervals.BOOTSTRAP: "from 500 bootstrap samples of runs of neighbouring blocks of time",
}


def check_intervals(name: str) -> None:
    """Raises UsageError for a method that does not exist."""
    if name not in {kind.value for kind in Intervals}:
        raise UsageError(
            "intervals",
            found=f"intervals = '{name}'",
            expected="one of " + ", ".join(k.value for k in Intervals),
        )


def covariance_of(kind: str, blocks: BlockScores) -> Float:
    """Covariance of a least-squares estimate by one of the methods, (b, b), definite however few the blocks are."""
    check_intervals(kind)
    return blocks.covariance(shrunk(_IN_BLOCKS[Intervals(kind)](blocks), blocks))


def jackknife(blocks: BlockScores) -> Float:
    """Covariance by leaving out one block at a time, without refitting, in the blocks' coordinates, (f, f).

    With A the total normal matrix, A_m that of block m and g_m = X_m' W e_m its score, the estimate without
    block m differs by -(A - A_m)^-1 g_m; cov = (M - 1)/M sum (d_m - mean d)(d_m - mean d)'. This is exact but for
    directions that a block determines alone (`BlockScores.jackknifed`).
    Source: Cameron, Gelbach and Miller 2008 (CR3); Efron and Tibshirani 1993, chapter 11.
    """
    shifts = blocks.jackknifed()
    D = shifts - shifts.mean(axis=0)
    return np.asarray((blocks.count - 1) / blocks.count * (D.T @ D))


_IN_BLOCKS: dict[Intervals, Callable[[BlockScores], Float]] = {
    Intervals.JACKKNIFE: jackknife,
    Intervals.SANDWICH: sandwich,
    Intervals.HAC: hac,
    Intervals.BOOTSTRAP: bootstrap_covariance,
}


def block_jackknife(
    factors: Factors, columns: Int, theta: Float, inverse: Float, weights: Float
) -> tuple[Float, Float]:
    """The jackknife's covariance (b, b) and the blocks' shares of the information (M,).

    columns: (b,) parameters.    theta: (p,) estimate.    inverse: (b, f) with A^-1 = inverse inverse'; f < b where
    only some directions are free.    weights: (g,).
    """
    blocks = BlockScores.of(factors, columns, theta, inverse, weights)
    independent = blocks.grouped(factors.independent())
    return covariance_of(Intervals.JACKKNIFE, independent), blocks.leverage()
