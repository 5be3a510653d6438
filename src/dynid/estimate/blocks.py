"""What each block of time brings to a least-squares fit: information and score, from factors alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Float, Int, locked, locked_int
from dynid.base.records import dataclass
from dynid.factor.factor import Factors

# Of a direction that one block determines alone, the others keep rounding errors.
LARGEST_LEVERAGE = 1.0 - 1e-6


@dataclass(frozen=True, eq=False)
class BlockScores:
    """M blocks in coordinates where the whole information is the identity, so that its condition does not enter.

    With A = sum X_m' W X_m (and a penalty, if there is one), A^-1 = inverse inverse':
    inverse: (b, f); f < b where only some directions are free.
    information: (M, f, f), H_m = inverse' X_m' W X_m inverse.
    score: (M, f), inverse' X_m' W e_m; they sum to zero without a penalty.
    segment: (M,) number of the stretch of unbroken time that a block lies in.
    """

    inverse: Float
    information: Float
    score: Float
    segment: Int

    def __post_init__(self) -> None:
        M, f = self.score.shape
        object.__setattr__(self, "inverse", locked(self.inverse, (None, f), "inverse"))
        object.__setattr__(self, "information", locked(self.information, (M, f, f), "information"))
        object.__setattr__(self, "score", locked(self.score, (M, f), "score"))
        object.__setattr__(self, "segment", locked_int(self.segment, (M,), "segment"))

    @staticmethod
    def of(factors: Factors, columns: Int, theta: Float, inverse: Float, weights: Float) -> BlockScores:
        """From factors.

        columns: (b,) parameters.    theta: (p,) estimate.    inverse: (b, f).    weights: (g,) of the groups.
        """
        M, f = len(factors.blocks), inverse.shape[1]
        place = np.zeros(factors.parameter_count, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        roots = np.sqrt(weights)
        # A group has the same columns in every block.
        first = factors.blocks[0].groups if factors.blocks else ()
        parts = [root * inverse[place[one.columns]] for root, one in zip(roots, first, strict=False)]
        information, score = np.zeros((M, f, f)), np.zeros((M, f))
        for m, block in enumerate(factors.blocks):
            X = np.concatenate([one.R[:, :-1] @ part for one, part in zip(block.groups, parts, strict=True)])
            left = np.concatenate(
                [root * one.left(theta) for root, one in zip(roots, block.groups, strict=True)]
            )
            information[m], score[m] = X.T @ X, X.T @ left
        segment = np.array([block.segment for block in factors.blocks], dtype=np.int64)
        return BlockScores(inverse, information, score, segment)

    @property
    def count(self) -> int:
        """Number of blocks M."""
        return len(self.score)

    def joined(self, count: int) -> BlockScores:
        """Runs of `count` neighbours of a segment as one block each; what is left over joins the last of them."""
        first = np.concatenate([[True], np.diff(self.segment) != 0])
        place = np.arange(self.count) - np.maximum.accumulate(np.where(first, np.arange(self.count), 0))
        size = np.bincount(np.cumsum(first) - 1)[np.cumsum(first) - 1]
        begins = first | ((place % count == 0) & (place + count <= size))
        at = np.flatnonzero(begins)
        return BlockScores(
            self.inverse,
            np.add.reduceat(self.information, at, axis=0),
            np.add.reduceat(self.score, at, axis=0),
            self.segment[at],
        )

    def grouped(self, together: Sequence[Int]) -> BlockScores:
        """Blocks that depend on each other as one each.    together: numbers of the blocks of each group."""
        return BlockScores(
            self.inverse,
            np.array([self.information[those].sum(axis=0) for those in together]),
            np.array([self.score[those].sum(axis=0) for those in together]),
            np.array([self.segment[those[0]] for those in together]),
        )

    def leverage(self) -> Float:
        """(M,) share of all information in each block."""
        return np.asarray(np.trace(self.information, axis1=1, axis2=2) / self.score.shape[1])

    def without(self) -> Float:
        """(M, f) (1 - H_m)^-1 score_m: by how much the estimate would change, with minus sign, without block m."""
        return np.array([_solved(H, s) for H, s in zip(self.information, self.score, strict=True)])

    def jackknifed(self) -> Float:
        """Changes of the estimate without each block, as far as the other blocks test it.

        The variance of a direction of which a block has the share h is 1 / (1 - h) times that of `standardised`, which
        is unbiased where residuals are equally noisy. Where all other blocks together know less of a direction than
        one block does on average, 1 / M, the block determines it alone: fitting without it tests nothing there, and
        the factor stays M. Without this limit such a direction would have a variance without bound.

        Returns
        -------
        Float
            (M, f) shifts; `without` itself where no block has a share above 1 - 1/M.

        """
        least = 1.0 / self.count
        return np.array([_solved(H, s, least) for H, s in zip(self.information, self.score, strict=True)])

    def standardised(self) -> Float:
        """(M, f) (1 - H_m)^-1/2 score_m: scores as large as they were if the block had not pulled the fit to itself."""
        found = []
        for H, s in zip(self.information, self.score, strict=True):
            share, directions = np.linalg.eigh(H)
            remaining = 1.0 - np.clip(share, 0.0, LARGEST_LEVERAGE)
            found.append(directions @ ((directions.T @ s) / np.sqrt(remaining)))
        return np.array(found)

    def covariance(self, white: Float) -> Float:
        """Takes a covariance in these coordinates (f, f) to parameters, (b, b)."""
        return np.asarray(self.inverse @ white @ self.inverse.T)


def _solved(H: Float, score: Float, least: float = 1.0 - LARGEST_LEVERAGE) -> Float:
    """(1 - H)^-1 score; where less than `least` remains of a direction, (least (1 - H))^-1/2 score in its place."""
    try:
        np.linalg.cholesky((1.0 - least) * np.eye(len(H)) - H)
    except LinAlgError:
        share, directions = np.linalg.eigh(H)
        remaining = 1.0 - np.minimum(share, LARGEST_LEVERAGE)
        amplified = np.sqrt(remaining * np.maximum(remaining, least))
        return np.asarray(directions @ ((directions.T @ score) / amplified))
    return np.asarray(np.linalg.solve(np.eye(len(H)) - H, score))
