"""Held-out errors of models with any subset of columns, from factors of a wide model, without another pass."""

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

# Equations of a wide model per block and group; the equations of a joint contain only few of the columns.


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Weighted triangular factors of all blocks and groups.

    Attributes
    ----------
    width : int
        Number of columns and target, c + 1.
    places : tuple of ndarray of int, each of shape (w,)
        Columns of each group; the last is the target, c.
    lines : tuple of ndarray, each of shape (w, M, r)
        Rows of each group: columns, blocks, rows of the factor.
    used : ndarray of bool, shape (g + k, c)
        Columns of each group and of each additional equation, which also couples columns.

    """

    width: int
    places: tuple[Int, ...]
    lines: tuple[Float, ...]
    used: Bool

    @staticmethod
    def of(factors: Factors, columns: Int, weights: Float, known: Float | None = None) -> BlockRows:
        """Build from factors with given columns (c,) and weights (g,) of the groups.

        `known` (k, c + 1) are additional equations, which can also couple columns.
        """
        position = {int(c): i for i, c in enumerate(columns)}
        places, lines = [], []
        for g, weight in enumerate(weights):
            filled = [block.groups[g].rows for block in factors.blocks]
            rows = np.zeros((len(filled), max(map(len, filled)), len(filled[0].T)))
            for padded, block_rows in zip(rows, filled, strict=True):
                padded[: len(block_rows)] = block_rows
            group_columns = factors.blocks[0].groups[g].columns
            places.append(
                np.array([*(position[int(c)] for c in group_columns), len(columns)], dtype=np.int64)
            )
            lines.append(np.sqrt(weight) * np.ascontiguousarray(rows.transpose(2, 0, 1)))
        used = np.zeros((len(places), len(columns) + 1), dtype=np.bool_)
        for row, place in zip(used, places, strict=True):
            row[place] = True
        if known is not None:
            used = np.concatenate([used, known != 0])
        return BlockRows(len(columns) + 1, tuple(places), tuple(lines), used[:, :-1])

    @staticmethod
    def of_triangles(triangles: Float) -> BlockRows:
        """Build from triangular factors (M, c + 1, c + 1) over all columns."""
        width = triangles.shape[-1]
        lines = np.ascontiguousarray(triangles.transpose(2, 0, 1))
        return BlockRows(width, (np.arange(width),), (lines,), np.ones((1, width - 1), dtype=np.bool_))

    def __len__(self) -> int:
        return int(self.lines[0].shape[1])

    def squares(self, blocks: Int, used: Int, x: Float) -> Float:
        """Squared errors (K, m) of some blocks (m,) for coefficients x (u, K) of the used columns and target (u,)."""
        value = np.zeros((self.width, x.shape[1]))
        value[used] = x
        among = np.zeros(self.width, dtype=np.bool_)
        among[used] = True
        squared = np.zeros((x.shape[1], len(blocks)))
        part = _part(blocks)
        for place, lines in zip(self.places, self.lines, strict=True):
            present = np.flatnonzero(among[place])
            rows = lines[present][:, part] if isinstance(part, slice) else lines[np.ix_(present, part)]
            errors = value[place[present]].T @ rows.reshape(len(present), -1)
            squared += np.square(errors, out=errors).reshape(x.shape[1], len(blocks), -1).sum(axis=2)
        return squared

    def residualised(
        self, blocks: Int, kept: Int, behind: Int, solved: Float
    ) -> tuple[tuple[Int, Float], ...]:
        """Residual columns of some blocks after regression on the kept columns.

        Groups of equations that share no column of the model are separate branches.

        `blocks` (m,); `kept` (k,): columns of the model; `behind` (e,): other columns; the last is the target; `solved`
        (k, e): regression coefficients of the other columns on the kept columns. Result: for each branch the indices
        (e_b,) of its columns in `behind`, and their residual rows (e_b, m, R).
        """
        of_kept = np.full(self.width, -1)
        of_kept[kept] = np.arange(len(kept))
        part, of_branches = _part(blocks), list[tuple[Int, Float]]()
        for members in _sets(self.used[:, kept]):
            branch_columns = np.flatnonzero(np.append(self.used[members].any(axis=0), True)[behind])
            number = np.full(self.width, -1)
            number[behind[branch_columns]] = np.arange(len(branch_columns))
            groups = [(self.places[g], self.lines[g]) for g in members if g < len(self.places)]
            residual_rows = np.zeros(
                (len(branch_columns), len(blocks), sum(lines.shape[2] for _, lines in groups))
            )
            first = 0
            for place, lines in groups:
                group_lines, r = lines[:, part], lines.shape[2]
                known = of_kept[place] >= 0
                rows = residual_rows[:, :, first : first + r]
                rows[number[place[number[place] >= 0]]] = group_lines[number[place] >= 0]
                rows -= np.tensordot(
                    solved[np.ix_(of_kept[place[known]], branch_columns)].T, group_lines[known], 1
                )
                first += r
            of_branches.append((branch_columns, residual_rows))
        return tuple(of_branches)


def _part(blocks: Int) -> slice | Int:
    # A slice of consecutive blocks avoids a copy.
    whole = len(blocks) > 0 and bool((np.diff(blocks) == 1).all())
    return slice(int(blocks[0]), int(blocks[-1]) + 1) if whole else np.asarray(blocks)


def fold_triangles(factors: Factors, blocks: Sequence[Int], columns: Int, weights: Float) -> list[Float]:
    """Triangular factors (c + 1, c + 1) of several sets of blocks."""
    return [stack(factors.subset(members.tolist()).total, columns, weights) for members in blocks]


# Bounded least squares from a triangular factor, for coefficients that are physically nonnegative.

# Columns below this relative distance from the others are dependent.
DEPENDENT = 1e-6
# Relative rounding error of a gradient; most active-set steps per coefficient.
BOUNDS_ROUNDING, MOST_STEPS = 1e-12, 3
# Dry friction more than this many standard errors below zero drives the joint (by chance once in 700).
DRIVEN = 3.0


def bounded_columns(columns: Sequence[Column], estimate: Estimate) -> frozenset[str]:
    """Names of the columns of friction, rotors and springs with physically nonnegative coefficients.

    Columns of links are not bounded, because their coefficients are base parameters, which combine several parameters.
    If dry friction drives a joint significantly, the log probably has a wrong sign there; this joint has no bounds.
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
    """Least-squares coefficients (c,) of some columns; other and dependent columns get zero.

    `triangle` is the triangular factor of c columns and the target, which is the last.
    """
    kept, R = independent(triangle, index)
    k = len(kept)
    x = np.zeros(triangle.shape[1] - 1)
    x[kept] = solve_triangular(R[:k, :k], R[:k, k], check_finite=False)
    return x


def least_squares_within_bounds(triangle: Float, index: Int, bounded: Bool) -> Float:
    """Least-squares coefficients (c,) as in `least_squares`, but nonnegative for the bounded columns.

    The free columns are eliminated first, [R11 R12 z1; 0 R22 z2]; the bounded coefficients are then
    min ||R22 x - z2||, x >= 0.

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
    """Remove dependent columns; return the remaining columns and their triangular factor with the target."""
    kept = index
    while True:
        R = triangle_of(triangle, np.append(kept, triangle.shape[1] - 1))
        size = np.linalg.norm(R[:, :-1], axis=0)
        weak = np.abs(np.diag(R)[:-1]) <= DEPENDENT * np.where(size > 0, size, 1.0)
        if not weak.any():
            return kept, R
        kept = kept[~weak]


def nonnegative(R: Float, z: Float, positive: Bool) -> Float:
    """Nonnegative least squares, min ||R x - z|| with x >= 0, for independent columns R (m, k) and target z (m,).

    The active-set method frees the coefficient with the steepest gradient, and fixes a coefficient at the first bound
    on the way to the next solution. `positive` (k,) marks initially free coefficients, which are positive without
    bounds.

    Source: Lawson and Hanson 1974, chapter 23.
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
    """Least-squares solution of A x = b for independent columns."""
    R = qr_panel(np.vstack([A.T, b]))
    return solve_triangular(R[:-1, :-1], R[:-1, -1], check_finite=False)


def _is_dry(column: Column) -> bool:
    return CATALOGUE.get(column.term, Term).traits.basis is MotionBasis.SIGN


# A column whose remaining norm is below this share of its norm adds nothing to the model.
FAINT = 1e-4


@dataclass(frozen=True, eq=False)
class Share:
    """Residual columns of a fold after regression on the model's columns.

    Attributes
    ----------
    training : ndarray, shape (r, e + 1)
        Other columns and target in training, orthogonal to the model's columns.
    size : ndarray, shape (e + 1,)
        Their norms before the regression.
    held_out : tuple
        Residual columns of the held-out blocks: for each branch the indices (e_b,) of its columns and the target,
        which is the last, and their rows (e_b, m, r).
    blocks : ndarray of int, shape (m,)
        Numbers of the held-out blocks.

    """

    training: Float
    size: Float
    held_out: tuple[tuple[Int, Float], ...]
    blocks: Int

    @cached_property
    def left(self) -> Float:
        """Norms (e + 1,) of the residual columns and the target in training."""
        return np.asarray(np.linalg.norm(self.training, axis=0))

    @cached_property
    def offers(self) -> Bool:
        """Mask (e + 1,) of the columns that the model's columns do not explain."""
        return np.asarray(self.left > FAINT * self.size)

    def squares_of(self, models: Sequence[Int]) -> Float:
        """Held-out squared errors (K, m) of the model with additional columns, given by their indices."""
        offered = [places[self.offers[places]] for places in models]
        single = [k for k, places in enumerate(offered) if len(places) == 1]
        squared = np.empty((len(models), len(self.blocks)))
        squared[single] = self._squares_with_each(np.array([offered[k][0] for k in single], dtype=np.int64))
        for k, places in enumerate(offered):
            if len(places) != 1:
                squared[k] = self._squares_with_all(places)
        return squared

    def _squares_with_each(self, columns: Int) -> Float:
        """Held-out squared errors (K, m) of models with one additional column each."""
        x = self.training[:, -1] @ self.training[:, columns] / self.left[columns] ** 2
        squared = np.zeros((len(columns), len(self.blocks)))
        for places, lines in self.held_out:
            number = {int(place): i for i, place in enumerate(places)}
            untouched = np.square(lines[-1]).sum(axis=1)
            for k, column in enumerate(columns.tolist()):
                if column in number:
                    errors = lines[-1] - x[k] * lines[number[column]]
                    squared[k] += np.einsum("mr,mr->m", errors, errors)
                else:
                    squared[k] += untouched
        return squared

    def _squares_with_all(self, columns: Int) -> Float:
        """Held-out squared errors (m,) of the model with several additional columns together."""
        x: Float = np.zeros(len(columns))
        if len(columns):
            scale = self.left[columns]
            solved, *_ = np.linalg.lstsq(self.training[:, columns] / scale, self.training[:, -1], rcond=FAINT)
            x = np.asarray(solved / scale)
        squared = np.zeros(len(self.blocks))
        for places, lines in self.held_out:
            _, number, among = np.intersect1d(places, columns, return_indices=True)
            squared += np.square(lines[-1] - np.tensordot(x[among], lines[number], 1)).sum(axis=1)
        return squared

    def beside(self, more: Int, rest: Int) -> Share:
        """Residual columns with additional columns in the model; `rest` are indices of the others and the target."""
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
    """Merge the branches, indices (e_b,) and rows (e_b, m, r), that share any of some columns."""
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
    """Sets of groups that share columns directly or indirectly; `used` (g, c) are the columns of each group."""
    alone = [np.array([g]) for g in np.flatnonzero(~used.any(axis=1))]
    sets = [np.flatnonzero(used[:, columns].any(axis=1)) for columns in branches(used)]
    return [members for members in (*alone, *sets) if len(members)]


@dataclass(frozen=True, eq=False)
class Residualised:
    """Residual columns outside a model in all folds, for the held-out errors of larger models.

    Attributes
    ----------
    place : dict of int to int
        Index in the shares of each column of the regression.
    shares : tuple of Share
        Residual columns of each fold.
    count : int
        Number of blocks.

    """

    place: dict[int, int]
    shares: tuple[Share, ...]
    count: int

    def squares_of(self, models: Sequence[Int]) -> Float:
        """Held-out squared errors per block, (K, M), of the model with additional columns of the regression."""
        places = [self._places(columns) for columns in models]
        squared = np.zeros((len(models), self.count))
        for share in self.shares:
            squared[:, share.blocks] = share.squares_of(places)
        return squared

    def beside(self, columns: Int) -> Residualised:
        """Residual columns of the model with additional columns of the regression."""
        more = self._places(columns)
        others = [column for column, place in self.place.items() if place not in more]
        rest = np.array([*(self.place[column] for column in others), -1])
        shares = tuple(share.beside(more, rest) for share in self.shares)
        return Residualised({column: i for i, column in enumerate(others)}, shares, self.count)

    def _places(self, columns: Int) -> Int:
        return np.array([self.place[c] for c in columns.tolist() if c in self.place], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of a wide model's coefficients.

    Attributes
    ----------
    weights : ndarray, shape (g,)
        Weights of the groups in training: 1 / (variance of an equation times samples per independent sample).
    equations : ndarray, shape (k, c + 1)
        Equations of the columns and the target with unit standard deviation.

    """

    weights: Float
    equations: Float


@dataclass(frozen=True, eq=False)
class SubsetRegression:
    """Weighted equations of a wide model, for regressions on subsets of its columns.

    Attributes
    ----------
    names : tuple of str, c of them
        Columns in the order of the wide model.
    blocks : BlockRows
        Equations of the M blocks.
    folds : tuple
        For each fold the triangular factor of its training data and the numbers of the held-out blocks.
    data, total : ndarray, shape (c + 1, c + 1)
        Triangular factors of all blocks without and with the prior.
    counts : ndarray, shape (M,)
        Number of equations of each block.
    bounded : frozenset of str
        Columns with physically nonnegative coefficients.

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
        """Build from factors of the wide model.

        `names`: all columns of the wide model; `columns` (c,): columns that the factors contain; `weights` (g,):
        weights of the groups; `folds`: at least LEAST_FOLDS; `bounded`: columns with physically nonnegative
        coefficients; `prior`: prior in every training; None for none.
        """
        c, seen = len(columns), judged_equations(factors, folds)
        in_training = weights if prior is None else prior.weights
        triangles = fold_triangles(factors, [fold.held_out for fold in folds], columns, in_training)
        known = np.zeros((0, c + 1)) if prior is None else prior.equations
        training = [
            _merged(np.concatenate([*triangles[:f], *triangles[f + 1 :], known]), c)
            for f in range(len(folds))
        ]
        return SubsetRegression(
            names=tuple(names[i] for i in columns),
            blocks=BlockRows.of(seen, columns, weights, known),
            folds=tuple((R, fold.held_out) for R, fold in zip(training, folds, strict=True)),
            data=_merged(np.concatenate(triangles), c),
            total=_merged(np.concatenate([training[0], triangles[0]]), c),
            counts=block_counts(seen),
            bounded=frozenset(bounded),
        )

    @property
    def target_square(self) -> float:
        """Sum of the squared weighted targets of all blocks."""
        target = np.array([len(self.names)])
        return float(self.blocks.squares(np.arange(len(self.blocks)), target, np.ones((1, 1))).sum())

    def index(self, names: Iterable[str]) -> Int:
        """Indices of some columns, without columns that the data do not contain."""
        wanted = set(names)
        return np.array([i for i, name in enumerate(self.names) if name in wanted], dtype=np.int64)

    def squares(self, names: Iterable[str]) -> Float:
        """Held-out squared error per block, (M,), of the model with these columns."""
        return np.asarray(self.squares_of([names])[0])

    def squares_of(self, models: Sequence[Iterable[str]], within_bounds: bool = False) -> Float:
        """Held-out squared errors per model and block, (K, M), in a single pass over the blocks.

        If `within_bounds` is True, coefficients of `bounded` columns are nonnegative.
        """
        indices = [self.index(names) for names in models]
        bounded = np.array([within_bounds and name in self.bounded for name in self.names], dtype=np.bool_)
        common, others = _shared(indices)
        common = common[np.argsort(bounded[common], kind="stable")]  # eliminate the free columns first
        squared = np.zeros((len(models), len(self.blocks)))
        for training, left_out in self.folds:
            # Eliminate the common columns once for all models. Bounded common columns that depend on others are
            # removed first, so that the result does not depend on the order of columns.
            gone = bounded[common] & ~np.isin(common, independent(training, common)[0])
            order = np.concatenate([common[~gone], others])
            places = [np.flatnonzero(np.isin(order, index)) for index in indices]
            used = np.append(order, len(self.names))
            triangle = triangle_of(training, used)
            x = np.full((len(used), len(models)), -1.0)
            for m, place in enumerate(places):
                x[:-1, m] = least_squares_within_bounds(triangle, place, bounded[order[place]])
            squared[:, left_out] = self.blocks.squares(left_out, used, x)
        return squared

    def values(self, names: Iterable[str]) -> dict[str, float]:
        """Coefficients of the model with these columns, fitted on all blocks."""
        index = self.index(names)
        x = least_squares(self.total, index)
        return {self.names[i]: float(x[i]) for i in index}

    def rank(self, names: Iterable[str]) -> int:
        """Number of independent columns among some, according to the data."""
        return int(np.count_nonzero(least_squares(self.data, self.index(names))))

    def residualised(self, names: Iterable[str]) -> Residualised:
        """Residuals of all other columns after regression on these columns."""
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
    """Columns in all models, and columns in only some of the models."""
    columns, count = np.unique(np.concatenate(indices), return_counts=True)
    return columns[count == len(indices)], columns[count < len(indices)]


def _merged(triangles: Float, width: int) -> Float:
    return np.asarray(qr_panel(np.ascontiguousarray(triangles.reshape(-1, width + 1).T)))
