"""Folds: which blocks of time are left out together, so that a model is judged on motion that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UnfitDataError
from dynid.factor.factor import Factors

# With two folds a model is fitted on half of the data, and one difference between folds has no spread.
LEAST_FOLDS = 3
# A fold of a single block borders on training data on both sides: filtered neighbours are correlated.
BLOCKS_A_FOLD = 2
LEAST_BLOCKS = LEAST_FOLDS * BLOCKS_A_FOLD


@dataclass(frozen=True, eq=False)
class Fold:
    """Numbers of the blocks that a model is fitted on, and of those that it is then judged on, both ascending."""

    training: Int
    held_out: Int


def folds(counts: Sequence[float] | Float, wanted: int = 5) -> tuple[Fold, ...]:
    """Contiguous runs of whole blocks, each held out once, with about as many equations each.

    counts: (M,) equations by block.    wanted: number of folds; at least LEAST_FOLDS are made, and at most as many as
    leave BLOCKS_A_FOLD blocks for each.    Deterministic.
    Returns () for fewer than LEAST_BLOCKS blocks, on which nothing can be compared.
    """
    size = np.asarray(counts, dtype=np.float64)
    M = len(size)
    if M < LEAST_BLOCKS:
        return ()
    number = max(min(wanted, M // BLOCKS_A_FOLD), LEAST_FOLDS)
    share = np.cumsum(np.maximum(size, 0.0))
    share = share / share[-1] if share[-1] > 0 else np.arange(1, M + 1) / M
    middle = share - 0.5 * np.diff(share, prepend=0.0)
    # A block belongs to the fold in which its middle lies; none is left without a block.
    cuts = np.searchsorted(middle, np.arange(1, number) / number)
    for i in range(number - 1):
        cuts[i] = min(max(cuts[i], 1 if i == 0 else cuts[i - 1] + 1), M - (number - 1 - i))
    every = np.arange(M)
    return tuple(Fold(np.setdiff1d(every, part), part) for part in np.split(every, cuts))


def folds_of(factors: Factors, wanted: int = 5) -> tuple[Fold, ...]:
    """Folds of the blocks of factors."""
    return folds(block_counts(factors), wanted)


def block_counts(factors: Factors) -> Float:
    """(M,) number of equations by block, all groups together."""
    return np.array([float(sum(group.count for group in block.groups)) for block in factors.blocks])


def too_few_blocks(M: int) -> UnfitDataError:
    """The error of so few blocks that `folds` makes none of them."""
    return UnfitDataError(
        "too-short-to-hold-out",
        found=f"{M} {'block' if M == 1 else 'blocks'} of data",
        expected=f"at least {LEAST_BLOCKS}, to hold {LEAST_FOLDS} parts out in turn",
        do="take a longer log, a shorter block_seconds, or validate on another log",
    )
