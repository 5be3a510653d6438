"""Held-out errors of any choice of columns from factors that hold all of them: nothing is read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.factor.factor import Factors, stack, triangle_of
from dynid.factor.folds import Fold, block_counts
from dynid.kernel import qr_panel, solve_triangular

DEPENDENT = 1e-6
# A column that a model explains down to this share of itself offers it nothing.
FAINT = 1e-4
# Of a gradient, relative to what it is the product of; and steps of an active set a coefficient.
ROUNDING, MOST_STEPS = 1e-12, 3


@dataclass(frozen=True, eq=False)
class Share:
    """What a model leaves of a fold.

    triangle: of the other columns and the target in training, (r, e + 1), freed from the model's columns.
    size: (e + 1,) of them before.    held_out: (m, c + 1, e + 1) the same of the blocks left out.
    blocks: (m,) their numbers.
    """

    triangle: Float
    size: Float
    held_out: Float
    blocks: Int


@dataclass(frozen=True, eq=False)
class Residualised:
    """What columns outside a model could add to it, worked out for all of them at once.

    place: by column of the regression its place in the shares, one a fold.    count: number of blocks.
    """

    place: dict[int, int]
    shares: tuple[Share, ...]
    count: int

    def squares(self, columns: Sequence[int]) -> Float:
        """Held-out squared error by block, (M,), of the model with some more columns of the regression."""
        found = np.zeros(self.count)
        places = np.array([self.place[c] for c in columns if c in self.place], dtype=np.int64)
        for share in self.shares:
            left = np.linalg.norm(share.triangle[:, places], axis=0)
            used = places[left > FAINT * share.size[places]]
            errors = share.held_out[:, :, -1]
            if len(used):
                scale = np.linalg.norm(share.triangle[:, used], axis=0)
                x, *_ = np.linalg.lstsq(share.triangle[:, used] / scale, share.triangle[:, -1], rcond=FAINT)
                errors = errors - share.held_out[:, :, used] @ (x / scale)
            found[share.blocks] = np.sum(errors**2, axis=1)
        return found


@dataclass(frozen=True, eq=False)
class SubsetRegression:
    """Triangles of a wide model over its columns, all groups at their weights: one a block, one a training fold.

    names: (c,) of the columns, the wide model's order.    blocks: (M, c + 1, c + 1).
    folds: per fold its training triangle and the numbers of the blocks it leaves out.
    bounded: names of columns whose coefficients are not negative by nature.
    """

    names: tuple[str, ...]
    blocks: Float
    folds: tuple[tuple[Float, Int], ...]
    counts: Float
    bounded: frozenset[str] = frozenset()

    @staticmethod
    def of(
        factors: Factors,
        names: Sequence[str],
        columns: Int,
        weights: Float,
        folds: Sequence[Fold],
        bounded: Iterable[str] = (),
    ) -> SubsetRegression:
        """From factors of the wide model.

        names: (p,) of all its columns.    columns: (c,) those that the factors hold.    weights: (g,).
        folds: at least LEAST_FOLDS of them.
        """
        blocks = np.array([stack(block.groups, columns, weights) for block in factors.blocks])
        c = len(columns)
        own = [_merged(blocks[fold.held_out], c) for fold in folds]
        training = [_merged(np.array(own[:f] + own[f + 1 :]), c) for f in range(len(folds))]
        return SubsetRegression(
            names=tuple(names[i] for i in columns),
            blocks=blocks,
            folds=tuple((R, fold.held_out) for R, fold in zip(training, folds, strict=True)),
            counts=block_counts(factors),
            bounded=frozenset(bounded),
        )

    @cached_property
    def total(self) -> Float:
        """Triangle of all blocks."""
        return _merged(self.blocks, len(self.names))

    @property
    def target_square(self) -> float:
        """Sum of squared, weighted targets."""
        return float(np.sum(self.total[:, -1] ** 2))

    def index(self, names: Iterable[str]) -> Int:
        """Places of some columns; those that the data do not hold are left out."""
        wanted = set(names)
        return np.array([i for i, name in enumerate(self.names) if name in wanted], dtype=np.int64)

    def squares(self, names: Iterable[str]) -> Float:
        """Held-out squared error by block, (M,), of the model with these columns."""
        return np.asarray(self.squares_of([names])[0])

    def squares_of(self, models: Sequence[Iterable[str]], within_bounds: bool = False) -> Float:
        """Held-out squared errors by model and block, (K, M); the blocks are gone through once for all models.

        within_bounds: whether coefficients of `bounded` columns are at least zero.
        """
        solved = self._within_bounds if within_bounds else self._solved
        indices = [self.index(names) for names in models]
        found = np.zeros((len(models), len(self.blocks)))
        for training, left_out in self.folds:
            x = np.column_stack([np.append(solved(training, index), -1.0) for index in indices])
            for block in left_out:
                found[:, block] = np.sum((self.blocks[block] @ x) ** 2, axis=0)
        return found

    def values(self, names: Iterable[str]) -> dict[str, float]:
        """Coefficients of the model with these columns, fitted on all blocks."""
        index = self.index(names)
        x = self._solved(self.total, index)
        return {self.names[i]: float(x[i]) for i in index}

    def rank(self, names: Iterable[str]) -> int:
        """Number of independent columns among some."""
        return int(np.count_nonzero(self._solved(self.total, self.index(names))))

    def residualised(self, names: Iterable[str]) -> Residualised:
        """What all other columns could add to the model with these."""
        index = self.index(names)
        rest = np.setdiff1d(np.arange(len(self.names)), index)
        parts = []
        for training, left_out in self.folds:
            kept, _ = _independent(training, index)
            behind = [*rest, len(self.names)]
            R = qr_panel(np.ascontiguousarray(training[:, [*kept, *behind]].T))
            k = len(kept)
            solved = solve_triangular(R[:k, :k], R[:k, k:], check_finite=False)
            blocks = self.blocks[left_out]
            held_out = blocks[:, :, behind] - blocks[:, :, kept] @ solved
            size = np.linalg.norm(training[:, behind], axis=0)
            parts.append(Share(R[k:, k:], size, held_out, left_out))
        return Residualised({int(c): i for i, c in enumerate(rest)}, tuple(parts), len(self.blocks))

    def _solved(self, triangle: Float, index: Int) -> Float:
        """(c,) least-squares coefficients of some columns, zero elsewhere; one that depends on others is left out."""
        kept, R = _independent(triangle, index)
        k = len(kept)
        x = np.zeros(len(self.names))
        x[kept] = solve_triangular(R[:k, :k], R[:k, k], check_finite=False)
        return x

    def _within_bounds(self, triangle: Float, index: Int) -> Float:
        """(c,) as `_solved`, `bounded` columns at least zero.

        With the free columns eliminated first, [R11 R12 z1; 0 R22 z2], the bounded ones are min ||R22 x - z2||, x >= 0.
        Source: Lawson and Hanson 1974, chapter 23.
        """
        x = self._solved(triangle, index)
        bounded = np.array([self.names[i] in self.bounded for i in index], dtype=np.bool_)
        if (x[index[bounded]] >= 0).all():
            return x
        kept, R = _independent(triangle, np.concatenate([index[~bounded], index[bounded]]))
        k, f = len(kept), int(np.isin(kept, index[~bounded]).sum())
        scale = np.linalg.norm(R[f:k, f:k], axis=0)
        part = nonnegative(R[f:k, f:k] / scale, R[f:k, k]) / scale
        x = np.zeros(len(self.names))
        x[kept[f:]] = part
        x[kept[:f]] = solve_triangular(R[:f, :f], R[:f, k] - R[:f, f:k] @ part, check_finite=False)
        return x


def _independent(triangle: Float, index: Int) -> tuple[Int, Float]:
    """Some columns less those that depend on others among them, and the triangle of what is left with the target."""
    kept = index
    while True:
        R = triangle_of(triangle, np.append(kept, triangle.shape[1] - 1))
        size = np.linalg.norm(R[:, :-1], axis=0)
        weak = np.abs(np.diag(R)[:-1]) <= DEPENDENT * np.where(size > 0, size, 1.0)
        if not weak.any():
            return kept, R
        kept = kept[~weak]


def nonnegative(R: Float, z: Float) -> Float:
    """The x >= 0 with the least ||R x - z|| for columns R (m, k) that are independent.

    Active set: from the coefficients that are positive without bounds, one leaves at the first bound that is met on the
    way to the next solution, and the one enters whose gradient is steepest. Source: Lawson and Hanson 1974, chapter 23.
    """
    k = R.shape[1]
    square, along = R.T @ R, R.T @ z
    limit = ROUNDING * np.sqrt(np.diag(square) * float(z @ z))
    x, free = np.zeros(k), np.zeros(k, dtype=np.bool_)
    wanted = _least_squares(R, z) > 0
    for _ in range(MOST_STEPS * (k + 1)):
        free |= wanted
        while True:
            step = np.zeros(k)
            step[free] = _least_squares(R[:, free], z)
            below = free & (step <= 0)
            if not below.any():
                break
            share = np.min(x[below] / np.maximum(x[below] - step[below], np.finfo(np.float64).tiny))
            x = x + share * (step - x)
            free &= ~(below & (x <= ROUNDING * np.abs(step)))
            x[~free] = 0.0
        x = step
        slope = np.where(free, -np.inf, along - square @ x - limit)
        wanted = np.arange(k) == np.argmax(slope)
        if not slope.max(initial=-np.inf) > 0:
            return x
    return x


def _least_squares(A: Float, b: Float) -> Float:
    """The x with the least ||A x - b|| for independent columns."""
    R = qr_panel(np.vstack([A.T, b]))
    return np.asarray(np.linalg.solve(R[:-1, :-1], R[:-1, -1]))


def _merged(triangles: Float, width: int) -> Float:
    return np.asarray(qr_panel(np.ascontiguousarray(triangles.reshape(-1, width + 1).T)))
