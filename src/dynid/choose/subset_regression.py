"""Held-out errors of any choice of columns from factors that hold all of them: nothing is read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.factor.factor import Factors, branches, stack, triangle_of
from dynid.factor.folds import Fold, block_counts, judged_equations
from dynid.kernel import qr_panel, solve_triangular
from dynid.terms.exports import Column, MotionBasis, Of
from dynid.terms.term import CATALOGUE, Term

# What every block of a log says of a wide model's columns, group by group: each joint's equations hold few
# of them.


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Rows whose squares are those of the blocks' equations: of each group a triangle a block, at the group's weight.

    width: number of columns and target, c + 1.    places: by group those that its rows hold, (w,), the target's c last.
    lines: by group its rows of every block, (w, M, r): a line a column.
    used: columns (g, c) of each group, and (k, c) of further equations, which couple columns as well.
    """

    width: int
    places: tuple[Int, ...]
    lines: tuple[Float, ...]
    used: Bool

    @staticmethod
    def of(factors: Factors, columns: Int, weights: Float, known: Float | None = None) -> BlockRows:
        """From factors whose columns are all among some, (c,), and the weights (g,) of their groups.

        known: (k, c + 1) equations beside those of the log, which may couple columns as well.
        """
        position = {int(c): i for i, c in enumerate(columns)}
        places, lines = [], []
        for g, weight in enumerate(weights):
            filled = [block.groups[g].rows for block in factors.blocks]
            rows = np.zeros((len(filled), max(map(len, filled)), len(filled[0].T)))
            for padded, block_rows in zip(rows, filled, strict=True):
                padded[: len(block_rows)] = block_rows
            own = factors.blocks[0].groups[g].columns
            places.append(np.array([*(position[int(c)] for c in own), len(columns)], dtype=np.int64))
            lines.append(np.sqrt(weight) * np.ascontiguousarray(rows.transpose(2, 0, 1)))
        used = np.zeros((len(places), len(columns) + 1), dtype=np.bool_)
        for row, place in zip(used, places, strict=True):
            row[place] = True
        if known is not None:
            used = np.concatenate([used, known != 0])
        return BlockRows(len(columns) + 1, tuple(places), tuple(lines), used[:, :-1])

    @staticmethod
    def of_triangles(triangles: Float) -> BlockRows:
        """From triangles (M, c + 1, c + 1) over all columns."""
        width = triangles.shape[-1]
        lines = np.ascontiguousarray(triangles.transpose(2, 0, 1))
        return BlockRows(width, (np.arange(width),), (lines,), np.ones((1, width - 1), dtype=np.bool_))

    def __len__(self) -> int:
        return int(self.lines[0].shape[1])

    def squares(self, blocks: Int, used: Int, x: Float) -> Float:
        """Squared errors (K, m) of some blocks for values x (u, K) of some columns and the target."""
        value = np.zeros((self.width, x.shape[1]))
        value[used] = x
        among = np.zeros(self.width, dtype=np.bool_)
        among[used] = True
        found = np.zeros((x.shape[1], len(blocks)))
        part = _part(blocks)
        for place, lines in zip(self.places, self.lines, strict=True):
            own = np.flatnonzero(among[place])
            rows = lines[own][:, part] if isinstance(part, slice) else lines[np.ix_(own, part)]
            errors = value[place[own]].T @ rows.reshape(len(own), -1)
            found += np.square(errors, out=errors).reshape(x.shape[1], len(blocks), -1).sum(axis=2)
        return found

    def residualised(
        self, blocks: Int, kept: Int, behind: Int, solved: Float
    ) -> tuple[tuple[Int, Float], ...]:
        """Columns `behind` (e,), the target last, of some blocks less what others (k,) explain of them, solved (k, e).

        Groups of equations that share no column of the model are branches. By branch the places (e_b,) in `behind` of
        its columns and of the target, and their lines (e_b, m, R).
        """
        of_kept = np.full(self.width, -1)
        of_kept[kept] = np.arange(len(kept))
        part, of_branches = _part(blocks), list[tuple[Int, Float]]()
        for members in _sets(self.used[:, kept]):
            mine = np.flatnonzero(np.append(self.used[members].any(axis=0), True)[behind])
            number = np.full(self.width, -1)
            number[behind[mine]] = np.arange(len(mine))
            groups = [(self.places[g], self.lines[g]) for g in members if g < len(self.places)]
            found = np.zeros((len(mine), len(blocks), sum(lines.shape[2] for _, lines in groups)))
            first = 0
            for place, lines in groups:
                own, r = lines[:, part], lines.shape[2]
                known = of_kept[place] >= 0
                there = found[:, :, first : first + r]
                there[number[place[number[place] >= 0]]] = own[number[place] >= 0]
                there -= np.tensordot(solved[np.ix_(of_kept[place[known]], mine)].T, own[known], 1)
                first += r
            of_branches.append((mine, found))
        return tuple(of_branches)


def _part(blocks: Int) -> slice | Int:
    # Blocks in a row are no copy.
    whole = len(blocks) > 0 and bool((np.diff(blocks) == 1).all())
    return slice(int(blocks[0]), int(blocks[-1]) + 1) if whole else np.asarray(blocks)


def fold_triangles(factors: Factors, blocks: Sequence[Int], columns: Int, weights: Float) -> list[Float]:
    """Triangles (c + 1, c + 1) of several sets of blocks, each merged group by group first."""
    return [stack(factors.subset(own.tolist()).total, columns, weights) for own in blocks]


# Columns that are not negative by nature, and least squares within these bounds from a triangle that holds
# them.

DEPENDENT = 1e-6
# Of a gradient, relative to what it is the product of; and steps of an active set a coefficient.
BOUNDS_ROUNDING, MOST_STEPS = 1e-12, 3
# Standard errors below zero at which dry friction is taken to drive a joint: the other sign by chance once in 700.
DRIVEN = 3.0


def bounded_columns(columns: Sequence[Column], estimate: Estimate) -> frozenset[str]:
    """Names of columns of friction, rotors and springs that are not negative by nature.

    Coefficients of a body's columns are those of base parameters, sums of several. Dry friction that drives a joint
    beyond chance is a sign of the log, which every model of it shows: that joint is without bounds.
    """
    driven = {
        estimate.columns[i].owner
        for i, value, std in zip(estimate.base.independent, estimate.value, estimate.std, strict=True)
        if _is_dry(estimate.columns[i]) and value < -DRIVEN * std
    }
    return frozenset(
        column.name
        for column in columns
        if column.lower >= 0 and column.of is not Of.BODY and column.owner not in driven
    )


def least_squares(triangle: Float, index: Int) -> Float:
    """(c,) coefficients of some columns, zero elsewhere; one that depends on others is left out.

    triangle: of c columns and the target, the last.
    """
    kept, R = independent(triangle, index)
    k = len(kept)
    x = np.zeros(triangle.shape[1] - 1)
    x[kept] = solve_triangular(R[:k, :k], R[:k, k], check_finite=False)
    return x


def least_squares_within_bounds(triangle: Float, index: Int, bounded: Bool) -> Float:
    """(c,) as `least_squares`, the coefficients of the bounded columns among those of the index at least zero.

    With the free columns eliminated first, [R11 R12 z1; 0 R22 z2], the bounded ones are min ||R22 x - z2||, x >= 0.
    Source: Lawson and Hanson 1974, chapter 23.
    """
    kept, R = independent(triangle, np.concatenate([index[~bounded], index[bounded]]))
    x, free = np.zeros(triangle.shape[1] - 1), np.zeros(triangle.shape[1] - 1, dtype=np.bool_)
    free[index[~bounded]] = True
    k, f = len(kept), int(free[kept].sum())
    x[kept] = solve_triangular(R[:k, :k], R[:k, k], check_finite=False)
    if not (x[kept[f:]] < 0).any():
        return x
    scale = np.linalg.norm(R[f:k, f:k], axis=0)
    part = nonnegative(R[f:k, f:k] / scale, R[f:k, k], x[kept[f:]] > 0) / scale
    x[kept[f:]] = part
    x[kept[:f]] = solve_triangular(R[:f, :f], R[:f, k] - R[:f, f:k] @ part, check_finite=False)
    return x


def independent(triangle: Float, index: Int) -> tuple[Int, Float]:
    """Some columns less those that depend on others among them, and the triangle of what is left with the target."""
    kept = index
    while True:
        R = triangle_of(triangle, np.append(kept, triangle.shape[1] - 1))
        size = np.linalg.norm(R[:, :-1], axis=0)
        weak = np.abs(np.diag(R)[:-1]) <= DEPENDENT * np.where(size > 0, size, 1.0)
        if not weak.any():
            return kept, R
        kept = kept[~weak]


def nonnegative(R: Float, z: Float, positive: Bool) -> Float:
    """The x >= 0 with the least ||R x - z|| for columns R (m, k) that are independent.

    positive: (k,) the coefficients to begin with, those that are positive without bounds.

    Active set: one leaves at the first bound that is met on the way to the next solution, and the one enters whose
    gradient is steepest. Source: Lawson and Hanson 1974, chapter 23.
    """
    k = R.shape[1]
    square, along = R.T @ R, R.T @ z
    limit = BOUNDS_ROUNDING * np.sqrt(np.diag(square) * float(z @ z))
    x, free = np.zeros(k), np.zeros(k, dtype=np.bool_)
    wanted = positive
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
            free &= ~(below & (x <= BOUNDS_ROUNDING * np.abs(step)))
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
    return solve_triangular(R[:-1, :-1], R[:-1, -1], check_finite=False)


def _is_dry(column: Column) -> bool:
    return CATALOGUE.get(column.term, Term).traits.basis is MotionBasis.SIGN


# A column that a model explains down to this share of itself offers it nothing.
FAINT = 1e-4


@dataclass(frozen=True, eq=False)
class Share:
    """What a model leaves of a fold.

    training: of the other columns and the target, (r, e + 1), freed from the model's columns.
    size: (e + 1,) of them before.    held_out: the same of the blocks left out, by branch the places (e_b,) of its
    columns and of the target, which is the last, and their lines (e_b, m, r).
    blocks: (m,) their numbers.
    """

    training: Float
    size: Float
    held_out: tuple[tuple[Int, Float], ...]
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
        found = np.zeros((len(columns), len(self.blocks)))
        for places, lines in self.held_out:
            number = {int(place): i for i, place in enumerate(places)}
            untouched = np.square(lines[-1]).sum(axis=1)
            for k, column in enumerate(columns.tolist()):
                if column in number:
                    errors = lines[-1] - x[k] * lines[number[column]]
                    found[k] += np.einsum("mr,mr->m", errors, errors)
                else:
                    found[k] += untouched
        return found

    def _squares_with_all(self, columns: Int) -> Float:
        """(m,) of the model with all of some columns."""
        x: Float = np.zeros(len(columns))
        if len(columns):
            scale = self.left[columns]
            solved, *_ = np.linalg.lstsq(self.training[:, columns] / scale, self.training[:, -1], rcond=FAINT)
            x = np.asarray(solved / scale)
        found = np.zeros(len(self.blocks))
        for places, lines in self.held_out:
            _, number, among = np.intersect1d(places, columns, return_indices=True)
            found += np.square(lines[-1] - np.tensordot(x[among], lines[number], 1)).sum(axis=1)
        return found

    def beside(self, more: Int, rest: Int) -> Share:
        """What is left with some more columns in the model.    rest: places of the others and of the target."""
        while True:
            Q, R = np.linalg.qr(self.training[:, more])
            weak = np.abs(np.diag(R)) <= DEPENDENT * self.size[more]
            if not weak.any():
                break
            more = more[~weak]
        along = Q.T @ self.training[:, rest]
        solved, held_out = solve_triangular(R, along), list[tuple[Int, Float]]()
        rest = np.where(rest < 0, len(self.size) - 1, rest)
        for places, lines in _coupled(self.held_out, more):
            _, joined, among = np.intersect1d(places, more, return_indices=True)
            kept = np.flatnonzero(np.isin(rest, places))
            others = lines[np.searchsorted(places, rest[kept])]
            others -= np.tensordot(solved[np.ix_(among, kept)].T, lines[joined], 1)
            held_out.append((kept, others))
        return Share(self.training[:, rest] - Q @ along, self.size[rest], tuple(held_out), self.blocks)


def _coupled(of_branches: Sequence[tuple[Int, Float]], columns: Int) -> list[tuple[Int, Float]]:
    """Branches, places (e_b,) and lines (e_b, m, r) each, with those as one that have one of some columns in common."""
    used = np.array([np.isin(columns, places) for places, _ in of_branches])
    coupled = list[tuple[Int, Float]]()
    for members in _sets(used):
        if len(members) == 1:
            coupled.append(of_branches[members[0]])
            continue
        places = np.unique(np.concatenate([of_branches[b][0] for b in members]))
        rows = [of_branches[b][1].shape[2] for b in members]
        lines = np.zeros((len(places), of_branches[0][1].shape[1], sum(rows)))
        for b, last, r in zip(members, np.cumsum(rows), rows, strict=True):
            lines[np.searchsorted(places, of_branches[b][0]), :, last - r : last] = of_branches[b][1]
        coupled.append((places, lines))
    return coupled


def _sets(used: Bool) -> list[Int]:
    """Numbers of the groups that share columns, directly or through others; used: (g, c) columns of each group."""
    alone = [np.array([g]) for g in np.flatnonzero(~used.any(axis=1))]
    sets = [np.flatnonzero(used[:, columns].any(axis=1)) for columns in branches(used)]
    return [members for members in (*alone, *sets) if len(members)]


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
class Prior:
    """What is known of a wide model's columns before the log.

    weights: (g,) of the groups in training, 1 / variance of an equation and number of samples that count as one.
    equations: (k, c + 1) of standard deviation one, of the columns and the target.
    """

    weights: Float
    equations: Float


@dataclass(frozen=True, eq=False)
class SubsetRegression:
    """A wide model's equations, all groups at their weights: rows by block, a triangle a training fold.

    names: (c,) of the columns, the wide model's order.    blocks: M of them.
    folds: per fold its training triangle and the numbers of the blocks it leaves out.
    data, total: triangles of all blocks without and with what is known beforehand.
    bounded: names of columns whose coefficients are not negative by nature.
    """

    names: tuple[str, ...]
    blocks: BlockRows
    folds: tuple[tuple[Float, Int], ...]
    data: Float
    total: Float
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
        prior: Prior | None = None,
    ) -> SubsetRegression:
        """From factors of the wide model.

        names: (p,) of all its columns.    columns: (c,) those that the factors hold.    weights: (g,).
        folds: at least LEAST_FOLDS of them.    prior: which every training has beside its blocks; None = none.
        """
        c, seen = len(columns), judged_equations(factors, folds)
        in_training = weights if prior is None else prior.weights
        own = fold_triangles(factors, [fold.held_out for fold in folds], columns, in_training)
        known = np.zeros((0, c + 1)) if prior is None else prior.equations
        training = [_merged(np.concatenate([*own[:f], *own[f + 1 :], known]), c) for f in range(len(folds))]
        return SubsetRegression(
            names=tuple(names[i] for i in columns),
            blocks=BlockRows.of(seen, columns, weights, known),
            folds=tuple((R, fold.held_out) for R, fold in zip(training, folds, strict=True)),
            data=_merged(np.concatenate(own), c),
            total=_merged(np.concatenate([training[0], own[0]]), c),
            counts=block_counts(seen),
            bounded=frozenset(bounded),
        )

    @property
    def target_square(self) -> float:
        """Sum of squared, weighted targets of the blocks."""
        target = np.array([len(self.names)])
        return float(self.blocks.squares(np.arange(len(self.blocks)), target, np.ones((1, 1))).sum())

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
        x = least_squares(self.total, index)
        return {self.names[i]: float(x[i]) for i in index}

    def rank(self, names: Iterable[str]) -> int:
        """Number of columns among some that the data tell apart."""
        return int(np.count_nonzero(least_squares(self.data, self.index(names))))

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


def _shared(indices: Sequence[Int]) -> tuple[Int, Int]:
    """The columns that all of several models have, and those that some of them have."""
    columns, count = np.unique(np.concatenate(indices), return_counts=True)
    return columns[count == len(indices)], columns[count < len(indices)]


def _merged(triangles: Float, width: int) -> Float:
    return np.asarray(qr_panel(np.ascontiguousarray(triangles.reshape(-1, width + 1).T)))
