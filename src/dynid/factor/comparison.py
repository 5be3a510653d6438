"""Models compared on blocks of time that none of them was fitted on: the simplest that is as good as the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model with what it misses on held-out data.

    parameters: how many it has, linear and nonlinear; fewer = simpler.
    squares: (M,) squared error of each block, or fold, by a fit that has not seen it; nan = it could not be fitted.
    """

    name: str
    parameters: float
    squares: Float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Candidates beside the best one.

    best, chosen: places among the candidates.    excess: (k,) squared error in excess of the best one's.
    excess_std: (k,) its standard error over blocks.    within: (k,) whether a candidate is as good as the best.
    """

    candidates: tuple[Candidate, ...]
    best: int
    chosen: int
    excess: Float
    excess_std: Float
    within: Bool

    @property
    def winner(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]


def compare(
    candidates: Sequence[Candidate],
    counts: Sequence[float] | Float,
    errors: float = 1.0,
    negligible: float = 0.0,
    noticeable: float = np.inf,
) -> Comparison:
    """The simplest candidate whose held-out squared error is that of the best one within its standard error.

    counts: (M,) equations by block.    errors: how many standard errors of the paired difference count as chance.
    negligible: share of the best one's error that is of no account.    noticeable: share that is, however unsure.
    Simple = few parameters; of equally simple ones the one that misses least is chosen, then the first.
    Source: Breiman et al. 1984 (rule of one standard error), with paired differences over blocks.
    """
    size = np.asarray(counts, dtype=np.float64)
    total = np.array([float(np.sum(one.squares)) for one in candidates])
    best = int(np.argmin(np.where(np.isnan(total), np.inf, total)))
    excess = total - total[best]
    spread = np.array([standard_error(one.squares - candidates[best].squares, size) for one in candidates])
    chance = np.minimum(errors * spread, noticeable * total[best])
    within = excess <= np.maximum(chance, negligible * total[best])
    within[best] = True
    # Rounding decides nothing: errors count to six digits.
    chosen = min(
        np.flatnonzero(within).tolist(), key=lambda i: (candidates[i].parameters, float(f"{total[i]:.6g}"), i)
    )
    return Comparison(tuple(candidates), best, chosen, excess, spread, within)


def gain(without: Float, squares: Float, counts: Float) -> tuple[float, float]:
    """What a model misses less than another, as a share of what that one misses, and its standard error over blocks.

    without, squares: (M,) held-out squared errors of the other and of the model.    counts: (M,) equations by block.
    Nothing is less than what misses nothing: 0 and 0 then.
    """
    whole, less = float(without.sum()), without - squares
    if whole <= 0:
        return 0.0, 0.0
    return float(less.sum()) / whole, standard_error(less, counts) / whole


def standard_error(sums: Float, counts: Float) -> float:
    """Standard error of a sum over blocks of unlike size, blocks being independent (ratio estimator).

    sums: (M,).    counts: (M,) equations by block; blocks without any are left out.
    """
    used = counts > 0
    x, n = sums[used], counts[used]
    M = len(x)
    if M < 2:
        return 0.0
    spread = x - n * x.sum() / n.sum()
    return float(np.sqrt(M / (M - 1) * (spread @ spread)))
