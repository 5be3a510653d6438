"""Held-out errors of any choice of columns from factors that hold all of them: nothing is read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.choose.block_rows import BlockRows, fold_triangles
from dynid.choose.bounds import DEPENDENT, independent, least_squares, least_squares_within_bounds
from dynid.factor.comparison import Candidate, compare, gain
from dynid.factor.factor import Factors, triangle_of
from dynid.factor.folds import Fold, block_counts, judged_equations
from dynid.kernel import qr_panel, solve_triangular

# A column that a model explains down to this share of itself offers it nothing.
FAINT = 1e-4
# Equations of standard deviation one that what is known of a column beforehand is worth. With the most of them a body
# is known to a hundredth of its mass, which no description is.
STRENGTHS = (0.0, 1.0, 10.0, 100.0, 1e3, 1e4)
# Standard errors that it has to gain, and share of the squared error: a little less matters to no choice.
SURE, WORTH = 2.0, 0.05


@dataclass(frozen=True, eq=False)
class Share:
    """What a model leaves of a fold.

    training: of the other columns and the target, (r, e + 1), freed from the model's columns.
    size: (e + 1,) of them before.    held_out: (e + 1, m, r) the same of the blocks left out, a line a column.
    blocks: (m,) their numbers.
    """

    training: Float
    size: Float
    held_out: Float
    blocks: Int

    @cached_property
    def left(self) -> Float:
        """(e + 1,) sizes of the columns and the target in training."""
        return np.asarray(np.linalg.norm(self.training, axis=0))

    @cached_property
    def offers(self) -> Bool:
        """(e + 1,) columns that the model does not explain."""
        return np.asarray(self.left > FAINT * self.size)

    def squares_of(self, models: Sequence[Int]) -> Float:
        """Squared errors of the blocks left out, (K, m), of the model with some more columns, by their places."""
        offered = [places[self.offers[places]] for places in models]
        one = [k for k, places in enumerate(offered) if len(places) == 1]
        found = np.empty((len(models), len(self.blocks)))
        found[one] = self._squares_with_each(np.array([offered[k][0] for k in one], dtype=np.int64))
        for k, places in enumerate(offered):
            if len(places) != 1:
                found[k] = self._squares_with_all(places)
        return found

    def _squares_with_each(self, columns: Int) -> Float:
        """(K, m) of models with one more column each."""
        x = self.training[:, -1] @ self.training[:, columns] / self.left[columns] ** 2
        errors = self.held_out[-1] - x[:, None, None] * self.held_out[columns]
        return np.asarray(np.einsum("kmc,kmc->km", errors, errors))

    def _squares_with_all(self, columns: Int) -> Float:
        """(m,) of the model with all of some columns."""
        errors = self.held_out[-1]
        if len(columns):
            scale = self.left[columns]
            x, *_ = np.linalg.lstsq(self.training[:, columns] / scale, self.training[:, -1], rcond=FAINT)
            errors = errors - np.tensordot(x / scale, self.held_out[columns], 1)
        return np.asarray(np.sum(errors**2, axis=1))

    def beside(self, more: Int, rest: Int) -> Share:
        """What is left with some more columns in the model.    rest: places of the others and of the target."""
        while True:
            Q, R = np.linalg.qr(self.training[:, more])
            weak = np.abs(np.diag(R)) <= DEPENDENT * self.size[more]
            if not weak.any():
                break
            more = more[~weak]
        along = Q.T @ self.training[:, rest]
        explained = np.tensordot(solve_triangular(R, along).T, self.held_out[more], 1)
        return Share(
            self.training[:, rest] - Q @ along, self.size[rest], self.held_out[rest] - explained, self.blocks
        )


@dataclass(frozen=True, eq=False)
class Residualised:
    """What columns outside a model could add to it, worked out for all of them at once.

    place: by column of the regression its place in the shares, one a fold.    count: number of blocks.
    """

    place: dict[int, int]
    shares: tuple[Share, ...]
    count: int

    def squares_of(self, models: Sequence[Int]) -> Float:
        """Held-out squared errors by block, (K, M), of the model with some more columns of the regression each."""
        places = [self._places(columns) for columns in models]
        found = np.zeros((len(models), self.count))
        for share in self.shares:
            found[:, share.blocks] = share.squares_of(places)
        return found

    def beside(self, columns: Int) -> Residualised:
        """What the others could add to the model with some more columns of the regression."""
        more = self._places(columns)
        others = [column for column, place in self.place.items() if place not in more]
        rest = np.array([*(self.place[column] for column in others), -1])
        shares = tuple(share.beside(more, rest) for share in self.shares)
        return Residualised({column: i for i, column in enumerate(others)}, shares, self.count)

    def _places(self, columns: Int) -> Int:
        return np.array([self.place[c] for c in columns.tolist() if c in self.place], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SubsetRegression:
    """A wide model's equations, all groups at their weights: rows by block, a triangle a training fold.

    names: (c,) of the columns, the wide model's order.    blocks: M of them.
    folds: per fold its training triangle and the numbers of the blocks it leaves out.    total: triangle of all blocks.
    bounded: names of columns whose coefficients are not negative by nature.
    known: (k, c + 1) equations of standard deviation one, what is known of the columns beforehand; None = nothing.
    undrawn: the same without these in its training; None = they are not.
    """

    names: tuple[str, ...]
    blocks: BlockRows
    folds: tuple[tuple[Float, Int], ...]
    total: Float
    counts: Float
    bounded: frozenset[str] = frozenset()
    known: Float | None = None
    undrawn: SubsetRegression | None = None

    @staticmethod
    def of(
        factors: Factors,
        names: Sequence[str],
        columns: Int,
        weights: Float,
        folds: Sequence[Fold],
        bounded: Iterable[str] = (),
        known: Float | None = None,
    ) -> SubsetRegression:
        """From factors of the wide model.

        names: (p,) of all its columns.    columns: (c,) those that the factors hold.    weights: (g,).
        folds: at least LEAST_FOLDS of them.    known: (k, c + 1), None = nothing.
        """
        c, seen = len(columns), judged_equations(factors, folds)
        own = fold_triangles(factors, [fold.held_out for fold in folds], columns, weights)
        training = [_merged(np.array(own[:f] + own[f + 1 :]), c) for f in range(len(folds))]
        return SubsetRegression(
            names=tuple(names[i] for i in columns),
            blocks=BlockRows.of(seen, columns, weights),
            folds=tuple((R, fold.held_out) for R, fold in zip(training, folds, strict=True)),
            total=_merged(np.array([training[0], own[0]]), c),
            counts=block_counts(seen),
            bounded=frozenset(bounded),
            known=known,
        )

    def drawn(self, names: Iterable[str]) -> SubsetRegression:
        """The same with what is known in every training, worth what suits a model best.

        A description may be wrong: it counts where it gains notably and beyond chance, and for as little as is within
        chance of the best.    names: of the model, whose held-out error decides.
        """
        if self.known is None:
            return self
        missed = self._squares_by_strength(names)
        tried = [Candidate(f"{STRENGTHS[k]:g}", k, own) for k, own in enumerate(missed)]
        chosen = compare(tried, self.counts).chosen
        share, std = gain(missed[0], missed[chosen], self.counts)
        if not share > max(SURE * std, WORTH):
            return self
        strength = STRENGTHS[chosen]
        c, more = len(self.names), np.sqrt(strength) * self.known
        folds = tuple((_merged(np.concatenate([R, more]), c), left_out) for R, left_out in self.folds)
        return replace(self, folds=folds, undrawn=self)

    def squares_at_best(self, models: Sequence[Iterable[str]]) -> Float:
        """Held-out squared errors by model and block, (K, M), what is known being worth what suits each model best."""
        if self.undrawn is None:
            return self.squares_of(models)
        found = [self.undrawn._squares_by_strength(names) for names in models]
        return np.array([one[int(np.argmin(one.sum(axis=1)))] for one in found])

    def _squares_by_strength(self, names: Iterable[str]) -> Float:
        # (S, M): of a model, by what the known is worth.
        index = self.index(names)
        used = np.append(index, len(self.names))
        missed = np.zeros((len(STRENGTHS), len(self.blocks)))
        known = np.zeros((0, len(used))) if self.known is None else self.known[:, used]
        for training, left_out in self.folds:
            R, x = triangle_of(training, used), np.full((len(used), len(STRENGTHS)), -1.0)
            for k, strength in enumerate(STRENGTHS):
                more = np.concatenate([R, np.sqrt(strength) * known])
                x[:-1, k] = least_squares(_merged(more, len(index)), np.arange(len(index)))
            missed[:, left_out] = self.blocks.squares(left_out, used, x)
        return missed

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
        indices = [self.index(names) for names in models]
        bounded = np.array([within_bounds and name in self.bounded for name in self.names], dtype=np.bool_)
        common, others = _shared(indices)
        common = common[np.argsort(bounded[common], kind="stable")]  # the free ones are eliminated first
        found = np.zeros((len(models), len(self.blocks)))
        for training, left_out in self.folds:
            # What the models share is triangular once for all of them, and less what depends on it: a bounded column
            # is left out whether the free ones stand before it or not.
            gone = bounded[common] & ~np.isin(common, independent(training, common)[0])
            order = np.concatenate([common[~gone], others])
            places = [np.flatnonzero(np.isin(order, index)) for index in indices]
            used = np.append(order, len(self.names))
            triangle = triangle_of(training, used)
            x = np.full((len(used), len(models)), -1.0)
            for m, place in enumerate(places):
                x[:-1, m] = least_squares_within_bounds(triangle, place, bounded[order[place]])
            found[:, left_out] = self.blocks.squares(left_out, used, x)
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
            kept, _ = independent(training, index)
            behind = np.append(rest, len(self.names))
            R = qr_panel(np.ascontiguousarray(training[:, [*kept, *behind]].T))
            k = len(kept)
            solved = solve_triangular(R[:k, :k], R[:k, k:], check_finite=False)
            held_out = self.blocks.residualised(left_out, kept, behind, solved)
            size = np.linalg.norm(training[:, behind], axis=0)
            parts.append(Share(R[k:, k:], size, held_out, left_out))
        return Residualised({int(c): i for i, c in enumerate(rest)}, tuple(parts), len(self.blocks))

    def _solved(self, triangle: Float, index: Int) -> Float:
        """(c,) least-squares coefficients of some columns, zero elsewhere; one that depends on others is left out."""
        return least_squares(triangle, index)


def _shared(indices: Sequence[Int]) -> tuple[Int, Int]:
    """The columns that all of several models have, and those that some of them have."""
    columns, count = np.unique(np.concatenate(indices), return_counts=True)
    return columns[count == len(indices)], columns[count < len(indices)]


def _merged(triangles: Float, width: int) -> Float:
    return np.asarray(qr_panel(np.ascontiguousarray(triangles.reshape(-1, width + 1).T)))
