"""Moving-block bootstrap from factors: runs of neighbouring blocks are drawn with replacement and fitted anew."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.estimate.blocks import BlockScores


def bootstrap(blocks: BlockScores, replicates: int = 500, run: int = 2, seed: int = 0) -> Float:
    """Changes of the estimate over bootstrap samples in the blocks' coordinates, (replicates, f), at the fit's weights.

    Each sample is made of runs of `run` consecutive blocks, as many blocks as the log has, runs beginning anywhere and
    never crossing into another segment; it is solved exactly, (sum H_m)^-1 sum g_m, g_m = standardised scores.
    In directions of which a sample has less information than a block has on average, 1 / M, it counts as having that:
    a block that alone determines a direction is missing from one sample in three, and without this limit its variance
    would have no bound (see `BlockScores.jackknifed`). Deterministic for a seed.
    Source: Kuensch 1989; Efron and Tibshirani 1993, section 8.6.
    Raises UsageError for fewer than two replicates or a run below one block.
    """
    if replicates < 2 or run < 1:
        raise UsageError(
            "bootstrap", found=f"{replicates} replicates of runs of {run} blocks", expected="at least 2 and 1"
        )
    rng = np.random.default_rng(seed)
    runs = _runs(blocks.segment, run)
    scores = blocks.standardised()
    scores = scores - scores.mean(axis=0)
    M, f = scores.shape
    found = np.zeros((replicates, f))
    for k in range(replicates):
        drawn = rng.integers(len(runs), size=-(-M // min(run, M)))
        picked = np.concatenate([runs[i] for i in drawn])[:M]
        counts = np.bincount(picked, minlength=M).astype(np.float64)
        H = np.tensordot(counts, blocks.information, axes=1)
        found[k] = _solved(H, counts @ scores, 1.0 / M)
    return found


def _solved(H: Float, score: Float, least: float) -> Float:
    try:
        np.linalg.cholesky(H - least * np.eye(len(H)))
    except np.linalg.LinAlgError:
        share, directions = np.linalg.eigh(H)
        return np.asarray(directions @ ((directions.T @ score) / np.maximum(share, least)))
    return np.asarray(np.linalg.solve(H, score))


def bootstrap_covariance(blocks: BlockScores) -> Float:
    """Covariance of the changes that `bootstrap` finds, in the blocks' coordinates, (f, f)."""
    changes = bootstrap(blocks)
    return np.asarray(np.cov(changes, rowvar=False).reshape(changes.shape[1], changes.shape[1]))


def _runs(segment: Int, run: int) -> list[Int]:
    """Every run of neighbouring blocks of one segment; a segment shorter than `run` is one."""
    found = []
    for number in np.unique(segment):
        own = np.flatnonzero(segment == number)
        found += [own[i : i + run] for i in range(max(len(own) - run + 1, 1))]
    return found
