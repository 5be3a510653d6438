"""Which part of a log informs which parameter, and which part the result hangs on: from factors, block by block."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Float, locked
from dynid.base.records import dataclass
from dynid.estimate.blocks import BlockScores
from dynid.estimate.estimator import Estimate
from dynid.factor.factor import Factors, stack
from dynid.kernel import solve_triangular


@dataclass(frozen=True, eq=False)
class Influence:
    """Information and influence on each of b base parameters by group of equations and by block of time.

    group_share: (b, g), block_share: (b, M): share of the information on a parameter, with all others left free; each
    line sums to 1.
    shift: (b, M) by how many of its standard deviations a value changes when a block is left out.
    leverage: (M,) mean share of a block over all directions.    cook: (M,) mean square of what leaving a block out
    changes, over all directions of the fit in units of their textbook variance.
    Source: Frisch and Waugh 1933 (partial regression); Belsley, Kuh and Welsch 1980 (DFBETAS); Cook 1977.
    """

    group_share: Float
    block_share: Float
    shift: Float
    leverage: Float
    cook: Float

    def __post_init__(self) -> None:
        b, M = self.shift.shape
        object.__setattr__(self, "group_share", locked(self.group_share, (b, None), "group_share"))
        object.__setattr__(self, "block_share", locked(self.block_share, (b, M), "block_share"))
        object.__setattr__(self, "shift", locked(self.shift, (b, M), "shift"))
        object.__setattr__(self, "leverage", locked(self.leverage, (M,), "leverage"))
        object.__setattr__(self, "cook", locked(self.cook, (M,), "cook"))


def influence_of(estimate: Estimate, factors: Factors) -> Influence | None:
    """From the factors that were fitted, at the weights of the fit; None where they are not of this estimate."""
    independent = estimate.base.independent
    known = {int(c) for c in independent}
    if not factors.blocks or len(estimate.weights) != len(factors.group_names):
        return None
    if any(int(c) not in known for factor in factors.total for c in factor.columns):
        return None
    b = len(independent)
    R = stack(factors.total, independent, np.asarray(estimate.weights))[:b, :b]
    try:
        inverse = solve_triangular(R, np.eye(b))
    except LinAlgError:
        return None
    blocks = BlockScores.of(factors, independent, estimate.full_vector, inverse, np.asarray(estimate.weights))
    Z = inverse @ inverse.T
    size = np.diag(Z)
    place = {int(c): i for i, c in enumerate(independent)}
    group_share = np.zeros((b, len(factors.group_names)))
    for g, (factor, weight) in enumerate(zip(factors.total, estimate.weights, strict=True)):
        rows = np.array([place[int(c)] for c in factor.columns], dtype=np.int64)
        group_share[:, g] = weight * np.sum((factor.R[:, :-1] @ Z[rows]) ** 2, axis=0) / size
    # r H r' for the rows r of the inverse, one block after the other.
    block_share = np.array([((inverse @ H) * inverse).sum(axis=1) for H in blocks.information]).T
    changes = blocks.without()
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = -(changes @ inverse.T) / estimate.std
    return Influence(
        group_share=group_share,
        block_share=block_share / size[:, None],
        shift=np.nan_to_num(shift.T),
        leverage=blocks.leverage(),
        cook=np.mean(changes**2, axis=1),
    )
