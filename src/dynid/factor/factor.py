"""Factors: one small triangle per group of equations and block, whatever the length of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked, locked_int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import qr_panel
from dynid.signals.repetition import PARTS_OF_A_MOTION

# Share of a column over all blocks below which a block contains only the decay of earlier motion.
TRACE = 1e-9
# Share of a column of a triangle below which an entry is rounding.
ROUNDING = 1e-13
# Least number of parts taken as independent: ten give a standard error that is known to a quarter.
LEAST_INDEPENDENT = 10


@dataclass(frozen=True, eq=False)
class Factor:
    """Sufficient statistics of one group of equations, [X y] = Q R.

    ||y - X b||^2 = ||R[:, :w] b - R[:, w]||^2 for every b.

    Attributes
    ----------
    columns : ndarray of int, shape (w,)
        Indices of the parameters, ascending.
    R : ndarray, shape (w + 1, w + 1)
        Upper triangle, target last.
    count : int
        Number of equations.
    sums : ndarray, shape (w + 1,)
        Sum of every column of [X y].
    target_abs : float
        Sum of |y|.

    """

    columns: Int
    R: Float
    count: int
    sums: Float
    target_abs: float

    def __post_init__(self) -> None:
        w = len(self.columns)
        object.__setattr__(self, "columns", locked_int(self.columns, (w,), "columns"))
        object.__setattr__(self, "R", locked(self.R, (w + 1, w + 1), "R"))
        object.__setattr__(self, "sums", locked(self.sums, (w + 1,), "sums"))

    @staticmethod
    def from_panel(columns: Int, panel: Float) -> Factor:
        """Factor of a panel (w + 1, T) with one line per column, the target last."""
        return Factor(
            columns=columns,
            R=qr_panel(panel),
            count=int(panel.shape[1]),
            sums=panel.sum(axis=1),
            target_abs=float(np.abs(panel[-1]).sum()),
        )

    @staticmethod
    def empty(columns: Int) -> Factor:
        """Factor of no equation."""
        return Factor(columns, np.zeros((len(columns) + 1,) * 2), 0, np.zeros(len(columns) + 1), 0.0)

    def merge(self, other: Factor) -> Factor:
        """Factor of both sets of equations; raises UsageError if their columns differ."""
        return merged([self, other])

    def select(self, keep: Bool) -> Factor:
        """Factor with only the parameters of a mask over all parameters; the others are taken as zero."""
        inside = keep[self.columns]
        if inside.all():
            return self
        wanted = np.flatnonzero(np.append(inside, True))
        R = triangle_of(self.R, wanted)
        return Factor(self.columns[inside], R, self.count, self.sums[wanted], self.target_abs)

    def renumbered(self, number: Int) -> Factor:
        """Factor with other parameter numbers.

        number: (p,) new number of every parameter; those with -1 are taken as zero.
        """
        mine = number[self.columns]
        if np.array_equal(mine, self.columns):
            return self
        place = np.flatnonzero(mine >= 0)
        place = place[np.argsort(mine[place])]
        wanted = np.append(place, len(mine))
        R = triangle_of(self.R, wanted)
        return Factor(mine[place], R, self.count, self.sums[wanted], self.target_abs)

    def times(self, factor: float) -> Factor:
        """Factor of the equations multiplied by a positive number."""
        return replace(self, R=factor * self.R, sums=factor * self.sums, target_abs=factor * self.target_abs)

    def left(self, value: Float) -> Float:
        """Residual in the rows of the triangle, (w + 1,), as long as y - X b, for values over all parameters."""
        return np.asarray(self.R[:, -1] - self.R[:, :-1] @ value[self.columns])

    def residual_square(self, value: Float) -> float:
        """||y - X b||^2 for values over all parameters."""
        residual = self.left(value)
        return float(residual @ residual)

    def residual_sum(self, value: Float) -> float:
        """Sum of y - X b."""
        return float(self.sums[-1] - self.sums[:-1] @ value[self.columns])

    def gradient(self, value: Float) -> Float:
        """X'(y - X b) over the columns of this factor, (w,)."""
        return np.asarray(self.R[:, :-1].T @ self.left(value))

    def without(self, gone: Bool) -> Factor:
        """Factor with the columns marked in `gone` (w,) set to zero."""
        kept = np.append(~gone, True)
        return replace(self, R=self.R * kept, sums=self.sums * kept)

    @cached_property
    def rows(self) -> Float:
        """Rows (r, w + 1) of the triangle that contain more than rounding: few equations fill a part of it."""
        if self.count > len(self.columns):
            return self.R
        filled = np.abs(self.R) > ROUNDING * np.linalg.norm(self.R, axis=0)
        return np.asarray(self.R[filled.any(axis=1)])

    @property
    def target_square(self) -> float:
        """Squared norm of the target, ||y||^2."""
        return float(self.R[:, -1] @ self.R[:, -1])


@dataclass(frozen=True, eq=False)
class Block:
    """Factors of consecutive samples of one segment: the unit of cross-validation and of the jackknife.

    In a motion that repeats often, a block contains the same part of several repetitions.

    Attributes
    ----------
    trajectory : str
        Trajectory.
    segment : int
        Segment.
    start, end : float, s
        First and last time.
    groups : tuple of Factor
        Factor of each group of equations.
    motion : ndarray, shape (n,), optional
        Sum of the squared velocities of every joint at the samples of its equations; None = unknown.
    part : int, optional
        Part of a motion that repeats, the same in every repetition and in other trajectories with that motion; None =
        the motion does not repeat.
    stretches : ndarray, shape (K, 2), s, optional
        First and last time of its runs of consecutive samples, if it contains a part of several repetitions; None = all
        from `start` to `end`.

    """

    trajectory: str
    segment: int
    start: float
    end: float
    groups: tuple[Factor, ...]
    motion: Float | None = None
    part: int | None = None
    stretches: Float | None = None

    @property
    def spans(self) -> Float:
        """First and last time (K, 2) of the runs of consecutive samples, s of the trajectory's clock."""
        return np.array([[self.start, self.end]]) if self.stretches is None else self.stretches

    @property
    def seconds(self) -> float:
        """Duration of the samples of the block, s."""
        return float(np.diff(self.spans, axis=1).sum())

    @property
    def length(self) -> float:
        """Median duration of a run of consecutive samples, s."""
        return float(np.median(np.diff(self.spans, axis=1)))

    def when(self, digits: int) -> str:
        """Time of the block in words."""
        text = f"{self.start:.{digits}f} to {self.end:.{digits}f} s"
        if self.stretches is None:
            return text
        return f"{text} ({len(self.stretches)} times {self.length:.{digits}f} s)"


@dataclass(frozen=True, eq=False)
class Factors:
    """All blocks of a log and their sum.

    Attributes
    ----------
    group_names : tuple of str
        Names of the groups of equations.
    parameter_count : int
        Number of parameters that indices refer to.
    blocks : tuple of Block
        Blocks in the order of the log. The sum is formed over all at once, so that its bytes depend on nothing else.

    """

    group_names: tuple[str, ...]
    parameter_count: int
    blocks: tuple[Block, ...]

    @cached_property
    def total(self) -> tuple[Factor, ...]:
        """Factor of every group over all blocks."""
        return tuple(merged([block.groups[g] for block in self.blocks]) for g in range(len(self.group_names)))

    @property
    def count(self) -> int:
        """Number of equations."""
        return sum(factor.count for factor in self.total)

    @property
    def motion(self) -> Float | None:
        """Sum of the squared velocities of every joint by block, (M, n); None if that of a block is unknown."""
        known = [block.motion for block in self.blocks if block.motion is not None]
        return np.array(known) if known and len(known) == len(self.blocks) else None

    def repetitions(self) -> tuple[Int, ...]:
        """Numbers of the blocks that belong together.

        Each block alone, trajectory by trajectory in the order of time; in a motion that repeats, the same part of all
        repetitions, motion by motion.
        """
        names = list(dict.fromkeys(block.trajectory for block in self.blocks))
        first: dict[int, int] = {}
        same: dict[tuple[int, int], list[int]] = {}
        for i, block in enumerate(self.blocks):
            motion_index, part = names.index(block.trajectory), block.part
            if part is not None:
                motion_index = first.setdefault(part // PARTS_OF_A_MOTION, motion_index)
            same.setdefault((motion_index, i if part is None else part), []).append(i)
        return tuple(np.array(same[key], dtype=np.int64) for key in sorted(same))

    def independent(self) -> tuple[Int, ...]:
        """Numbers of the blocks that count as one where blocks are assumed independent, as for confidence intervals.

        They are those of `repetitions`. In a motion that repeats, neighbouring parts are joined as long as
        LEAST_INDEPENDENT remain, since a missing effect lasts longer than one short part.
        """
        groups, motions = list[Int](), dict[int, list[Int]]()
        for numbers in self.repetitions():
            part = self.blocks[numbers[0]].part
            if part is None:
                groups.append(numbers)
            else:
                motions.setdefault(part // PARTS_OF_A_MOTION, []).append(numbers)
        for parts in motions.values():
            count = max(len(parts) // (len(parts) // LEAST_INDEPENDENT or 1), 1)
            groups += [
                np.sort(np.concatenate([parts[i] for i in run]))
                for run in np.array_split(np.arange(len(parts)), count)
            ]
        return tuple(groups)

    def repetitions_merged(self) -> Factors:
        """Factors with one block per part of a motion that repeats, over all its repetitions.

        A missing effect has the same influence in each of them, so they count as one where errors of models are
        compared.
        """
        if all(block.part is None for block in self.blocks):
            return self
        together = [[self.blocks[i] for i in numbers] for numbers in self.repetitions()]
        blocks = tuple(
            replace(
                blocks_together[0],
                end=blocks_together[-1].end,
                groups=tuple(
                    merged([block.groups[g] for block in blocks_together])
                    for g in range(len(self.group_names))
                ),
                motion=sum_of([block.motion for block in blocks_together]),
            )
            for blocks_together in together
        )
        return replace(self, blocks=blocks)

    def subset(self, indices: Iterable[int]) -> Factors:
        """Some of the blocks: a fold, a bootstrap sample, a trajectory."""
        return Factors(self.group_names, self.parameter_count, tuple(self.blocks[i] for i in indices))

    def select(self, keep: Bool) -> Factors:
        """Some of the parameters; the others are taken as zero."""
        blocks = tuple(replace(b, groups=tuple(f.select(keep) for f in b.groups)) for b in self.blocks)
        return Factors(self.group_names, self.parameter_count, blocks)

    def renumbered(self, number: Int, count: int) -> Factors:
        """Factors with other parameter numbers, `count` in total; parameters with number -1 are taken as zero."""
        blocks = tuple(replace(b, groups=tuple(f.renumbered(number) for f in b.groups)) for b in self.blocks)
        return Factors(self.group_names, count, blocks)

    def scaled(self, weights: Float) -> Factors:
        """Factors with the equations of group g times sqrt(weights[g])."""
        roots = np.sqrt(weights)
        blocks = tuple(
            replace(b, groups=tuple(f.times(r) for f, r in zip(b.groups, roots, strict=True)))
            for b in self.blocks
        )
        return replace(self, blocks=blocks)

    def join(self, other: Factors) -> Factors:
        """Blocks of two logs of the same model."""
        if (self.group_names, self.parameter_count) != (other.group_names, other.parameter_count):
            raise UsageError(
                "factor-model", found="factors of two different models", expected="the same groups"
            )
        return Factors(self.group_names, self.parameter_count, self.blocks + other.blocks)


def sum_of(motion: Sequence[Float | None]) -> Float | None:
    """Sum of all motions; None if one is unknown."""
    known = [block_motion for block_motion in motion if block_motion is not None]
    return np.sum(known, axis=0) if len(known) == len(motion) else None


def without_traces(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Blocks in which columns are zero that contain only the decay of another block's motion.

    The response of a filter to a joint that has stopped decays and never reaches zero. Equations with nothing else in a
    column would determine its parameter from the remains of torque divided by almost zero.
    """
    motion = [block.motion for block in blocks if block.motion is not None]
    if len(motion) == len(blocks) and (np.array(motion) > TRACE * np.sum(motion, axis=0)).all():
        return tuple(blocks)
    squares = [
        np.array([np.einsum("ij,ij->j", b.groups[g].R, b.groups[g].R)[:-1] for b in blocks])
        for g in range(len(blocks[0].groups))
    ]
    masks = [
        (group_squares > 0) & (group_squares < TRACE**2 * group_squares.sum(axis=0))
        for group_squares in squares
    ]
    return tuple(
        replace(
            b,
            groups=tuple(
                f.without(group_mask[i]) if group_mask[i].any() else f
                for f, group_mask in zip(b.groups, masks, strict=True)
            ),
        )
        if any(group_mask[i].any() for group_mask in masks)
        else b
        for i, b in enumerate(blocks)
    )


def triangle_of(triangle: Float, index: Int) -> Float:
    """Triangle of some columns of another triangle; leading columns that are all kept stay unchanged."""
    elsewhere = index != np.arange(len(index))
    lead = int(elsewhere.argmax()) if elsewhere.any() else len(index)
    R = np.zeros((len(index), len(index)))
    R[:lead] = triangle[:lead, index]
    R[lead:, lead:] = qr_panel(np.ascontiguousarray(triangle[lead:, index[lead:]].T))
    return R


def merged(factors: Sequence[Factor]) -> Factor:
    """Factor of all equations; raises UsageError if there are none or their columns differ."""
    if not factors:
        raise UsageError("no-factors", found="no block of data", expected="at least one")
    first = factors[0]
    if len(factors) == 1:
        return first
    columns = first.columns.tobytes()  # bytes compare several times as fast as arrays
    if any(other.columns.tobytes() != columns for other in factors[1:]):
        raise UsageError(
            "factor-columns", found="two factors of different columns", expected="the same columns"
        )
    return Factor(
        columns=first.columns,
        R=qr_panel(np.concatenate([factor.rows for factor in factors]).T),
        count=sum(factor.count for factor in factors),
        sums=np.sum([factor.sums for factor in factors], axis=0),
        target_abs=sum(factor.target_abs for factor in factors),
    )


def stack(factors: Sequence[Factor], columns: Int, weights: Float) -> Float:
    """One triangle [R z; 0 rho] of all groups over the given columns, with group g scaled by sqrt(weights[g]).

    Parameters
    ----------
    factors : sequence of Factor
        Groups.
    columns : ndarray of int, shape (b,)
        Indices of the parameters; they must include every column of every factor.
    weights : ndarray, shape (g,)
        Weights of the groups.

    Returns
    -------
    ndarray, shape (b + 1, b + 1)
        Triangle.

    """
    b = len(columns)
    position = {int(c): i for i, c in enumerate(columns)}
    places = [np.array([position[int(c)] for c in factor.columns], dtype=np.int64) for factor in factors]
    used = np.zeros((len(factors), b), dtype=np.bool_)
    for row, place in zip(used, places, strict=True):
        row[place] = True
    triangle = np.zeros((b + 1, b + 1))
    # Branches of a robot share no columns: the triangle of each is that of a smaller matrix.
    for branch in branches(used):
        of_branch = np.flatnonzero(branch)
        lines = [np.zeros((len(of_branch) + 1, 0))]
        for factor, weight, place in zip(factors, weights, places, strict=True):
            if len(place) and branch[place[0]]:
                rows = np.zeros((len(of_branch) + 1, len(place) + 1))
                rows[np.append(np.searchsorted(of_branch, place), -1)] = np.sqrt(weight) * factor.R.T
                lines.append(rows)
        R = qr_panel(np.concatenate(lines, axis=1))
        triangle[np.ix_(of_branch, np.append(of_branch, b))] = R[:-1]
        triangle[b, b] = np.hypot(triangle[b, b], R[-1, -1])
    for factor, weight, place in zip(factors, weights, places, strict=True):
        if not len(place):
            triangle[b, b] = np.hypot(triangle[b, b], np.sqrt(weight) * factor.R[0, 0])
    return triangle


def branches(used: Bool) -> list[Bool]:
    """Sets of columns (b,) that no equations couple; used: (k, b) columns of each group of equations.

    Columns of no group are a set of their own.
    """
    unused: Bool = np.asarray(~used.any(axis=0))
    sets = [unused] if unused.any() else []
    for row in used[used.any(axis=1)]:
        coupled = [columns for columns in sets if (columns & row).any()]
        sets = [columns for columns in sets if not (columns & row).any()]
        sets.append(np.logical_or.reduce([row, *coupled]))
    return sets


def group_scale(factors: Sequence[Factor]) -> Float:
    """Weights (g,) that scale the groups to one size, 1 / mean square of their targets.

    A group with a target of zero, such as the link equations of elastic joints, gets the mean size of the others.
    """
    square = np.array([factor.target_square / max(factor.count, 1) for factor in factors])
    other = float(square[square > 0].mean()) if (square > 0).any() else 1.0
    return 1.0 / np.where(square > 0, square, other)
