"""Variable projection with filtered equations in memory: each trial shape recomputes only one joint's columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import compress

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.numerics import least_squares_in_box
from dynid.base.parallel import ordered_map
from dynid.base.records import dataclass
from dynid.choose.subset_regression import least_squares_within_bounds
from dynid.factor.assemble import Assembly
from dynid.factor.factor import Factor, Factors, branches, stack
from dynid.kernel import Panels, qr_panel
from dynid.signals.parallel import SideBySide
from dynid.signals.samples import REACH, Samples
from dynid.terms.curve import ShapedTerm, followed, of_joints, range_of, shapes_of, starts, with_shape_table
from dynid.terms.exports import JointMotion, mean_warmth
from dynid.terms.forms import inner_term
from dynid.terms.term import Terms

# A joint moved in one direction only if the other direction has less than this share of its squared velocity.
ONE_WAY = 0.01


@dataclass(frozen=True, eq=False)
class Lines:
    """Filtered columns of some terms: names and values (w, T) per group of equations."""

    names: tuple[tuple[str, ...], ...]
    values: tuple[Float, ...]


@dataclass(frozen=True, eq=False)
class SeparableProblem:
    """A model with given shapes, its factors and weights, and samples for trial shapes.

    Attributes
    ----------
    assembly : Assembly
    factors : Factors
    weights : ndarray, shape (g,)
        Weights of the groups of equations.
    names : tuple of str
        Base columns.
    batches : tuple of Samples
        All samples of the factors, or a share of each block.
    threads : int

    """

    assembly: Assembly
    factors: Factors
    weights: Float
    names: tuple[str, ...]
    batches: tuple[Samples, ...]
    threads: int

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names of all columns of the model."""
        return tuple(c.name for c in self.assembly.terms.columns(self.assembly.robot))

    def total(self, blocks: Sequence[int]) -> tuple[Factor, ...]:
        """Factors of all groups over some blocks."""
        if len(blocks) == len(self.factors.blocks):
            return self.factors.total
        key = tuple(blocks)
        if key not in self._totals:
            self._totals.clear()  # keep only the latest fold
            self._totals[key] = self.factors.subset(blocks).total
        return self._totals[key]

    @cached_property
    def _totals(self) -> dict[tuple[int, ...], tuple[Factor, ...]]:
        return {}

    def lines(self, terms: Terms, target: bool = False, names: Sequence[str] = ()) -> Lines:
        """Compute the filtered columns of terms.

        Only whole equations use several threads, because the overhead is too large for a few columns. If the equations
        are torques, columns without target are computed and filtered for all batches at once.

        `terms`: terms with fixed shapes; `target`: whether to append the target as a last column named ""; `names`:
        names of the terms' parameters, if already known.
        """
        regressor = getattr(self.assembly.rows, "regressor", None)
        if regressor is not None and not target:
            return self._at_once(terms, regressor, names)
        robot, rows = self.assembly.robot, self.assembly.rows
        parameter_names = np.array(names or [c.name for c in terms.columns(robot)])
        wanted = np.isin(parameter_names, self.names) | (not target)

        def batch_lines(batch: int) -> tuple[tuple[Int, ...], list[Float]]:
            equations = rows.equations(robot, terms, self.batches[batch], wanted)
            panels = [panel if target else panel[:-1] for panel in equations.panels]
            return equations.columns, [self._filtered(p, batch, g) for g, p in enumerate(panels)]

        parts = list(ordered_map(batch_lines, range(len(self.batches)), self.threads if target else 1))
        columns = parts[0][0]
        return Lines(
            names=tuple(tuple(parameter_names[c].tolist()) + (("",) if target else ()) for c in columns),
            values=tuple(np.concatenate([p[g] for _, p in parts], axis=1) for g in range(len(columns))),
        )

    def _at_once(self, terms: Terms, regressor: Callable[..., Panels], names: Sequence[str]) -> Lines:
        robot = self.assembly.robot
        names = names or [c.name for c in terms.columns(robot)]
        every = np.ones(len(names), dtype=np.bool_)
        whole = regressor(robot, terms, self._side_by_side.samples, every, self.batches)
        columns, panels = whole.columns, whole.values
        values = []
        for panel, gates in zip(panels, zip(*self._opened, strict=True), strict=True):
            if not len(panel):
                values.append(np.zeros((0, sum(count for _, count in gates))))
                continue
            lines = self._side_by_side.filtered(panel)
            open_ones = [gate for gate, _ in gates if gate is not None]
            values.append(lines[:, np.concatenate(open_ones)] if open_ones else lines)
        return Lines(tuple(tuple(names[i] for i in c.tolist()) for c in columns), tuple(values))

    @cached_property
    def _side_by_side(self) -> SideBySide:
        return SideBySide.of(self.batches, self.assembly.parallel)

    def _filtered(self, panel: Float, batch: int, group: int) -> Float:
        opened, count = self._opened[batch][group]
        if not len(panel):
            return np.zeros((0, count))
        values, _ = self.assembly.parallel.apply(np.ascontiguousarray(panel), self.batches[batch])
        return values if opened is None else values[:, opened]

    @cached_property
    def _opened(self) -> tuple[tuple[tuple[Bool | None, int], ...], ...]:
        # Per batch and group: mask of the kept samples that count (None for all), and their number.
        opened = []
        for samples in self.batches:
            kept = self.assembly.parallel.kept(samples)
            groups = range(len(self.factors.group_names))
            if samples.gate is None:
                opened.append(tuple((None, len(kept)) for _ in groups))
            else:
                gates = [samples.gate[kept, group] for group in groups]
                opened.append(tuple((gate, int(gate.sum())) for gate in gates))
        return tuple(opened)

    @cached_property
    def block_of(self) -> tuple[Int, ...]:
        """Index of each equation's block, per group."""
        starts = np.array([block.start for block in self.factors.blocks])
        segments = np.array([block.segment for block in self.factors.blocks])
        blocks: list[list[Int]] = [[] for _ in self.factors.group_names]
        for samples, opened in zip(self.batches, self._opened, strict=True):
            kept = self.assembly.parallel.kept(samples)
            in_segment = np.flatnonzero(segments == samples.segment)
            place = (
                np.searchsorted(starts[in_segment], samples.t[kept] + 0.25 / samples.rate, side="right") - 1
            )
            number = in_segment[np.maximum(place, 0)] if len(in_segment) else np.zeros(0, dtype=np.int64)
            for group, numbers in enumerate(blocks):
                gate = opened[group][0]
                numbers.append(number if gate is None else number[gate])
        return tuple(np.concatenate(numbers) for numbers in blocks)

    def motion(self, joint: int, term: ShapedTerm | None = None) -> JointMotion:
        """Summary of a joint's motion in the kept samples, or of the quantity that the shapes of a term depend on."""
        robot, q, velocity, unit = self.assembly.robot, list[Float](), list[Float](), 1.0
        warm = list[Float]()
        for samples in self.batches:
            seen = samples
            if term is not None:
                seen, units = followed(term, robot, samples)
                unit = float(units[joint])
            q.append(seen.q[samples.keep, joint])
            velocity.append(seen.dq[samples.keep, joint])
            if samples.temperature is not None:
                warm.append(samples.temperature[samples.keep, joint])
        dq, path = np.concatenate(velocity), np.concatenate(q)
        fast, back = np.abs(dq), float(np.sum(dq[dq < 0] ** 2) / max(float(np.sum(dq**2)), 1e-300))
        return JointMotion(
            float(fast.max()),
            float(np.median(fast)),
            float(np.ptp(path)),
            REACH * unit,
            ONE_WAY <= back <= 1.0 - ONE_WAY,
            warmth=mean_warmth(np.concatenate(warm)) if warm else None,
        )


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """Least squares over some blocks, with all coefficients eliminated except those of the trial columns.

    Attributes
    ----------
    A : ndarray, shape (b, rows)
        Static columns, as rows.
    basis : ndarray, shape (b, r)
        A' basis is orthonormal up to rounding.
    y_left : ndarray, shape (rows,)
        Target, orthogonal to the static columns.
    own : ndarray of int
        Indices of the joint's equations that the blocks contain; these are the last rows.
    scale : ndarray
        Square root of the weight of every equation of the joint.

    """

    A: Float
    basis: Float
    y_left: Float
    own: Int
    scale: Float

    @staticmethod
    def of(A: Float, y: Float, rows: Int, scale: Float) -> ReducedProblem:
        """Build from the static columns and the target."""
        basis = orthonormal(A)
        return ReducedProblem(A, basis, beyond(A, basis, y), rows, scale)

    def left(self, C: Float) -> Float:
        """Make trial columns C (c, rows of the joint) orthogonal to the static columns, (c, rows)."""
        rows = len(self.y_left)
        full = np.zeros((len(C), rows))
        full[:, rows - len(self.own) :] = (C * self.scale)[:, self.own]
        return beyond(self.A, self.basis, full)

    def project(self, left: Float, bounded: Bool) -> tuple[Float, Float]:
        """Coefficients of trial columns from `left` (c, rows), and residual of the whole problem, (rows,).

        `bounded` (c,) marks nonnegative coefficients.
        """
        norm = np.linalg.norm(left, axis=1)
        size = np.where(norm > 1e-12 * max(float(norm.max(initial=0.0)), 1e-300), norm, np.inf)
        triangle = qr_panel(np.vstack([left / size[:, None], self.y_left]))
        a = np.linalg.lstsq(triangle[:-1, :-1], triangle[:-1, -1], rcond=1e-10)[0] / size
        if (a[bounded] < 0).any():
            a = least_squares_within_bounds(triangle, np.arange(len(left)), bounded) / size
        return a, self.y_left - a @ left


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Equations that a joint's trial terms act on, with the columns of all other terms.

    Attributes
    ----------
    separable : SeparableProblem
    groups : tuple of int
        Groups of equations that the trial terms act on.
    names, values : tuple
        Columns of the other terms in these groups; the last is the target.

    """

    separable: SeparableProblem
    groups: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    values: tuple[tuple[Float, ...], ...]

    @property
    def blocks(self) -> Int:
        """Block of each of the joint's equations, group after group."""
        return np.concatenate([self.separable.block_of[g] for g in self.groups])

    @property
    def target(self) -> Float:
        """Target of each of the joint's equations."""
        return np.concatenate([values[-1] for values in self.values])

    def trial(self, terms: Terms, names: Sequence[str]) -> Float:
        """Columns of trial terms over the joint's equations, (c, rows), in the order of their parameter names."""
        columns = self.separable.lines(terms, names=names)
        width = sum(len(self.separable.block_of[g]) for g in self.groups)
        C = np.zeros((len(names), width))
        first = 0
        for g in self.groups:
            last = first + len(self.separable.block_of[g])
            for name, line in zip(columns.names[g], columns.values[g], strict=True):
                C[names.index(name), first:last] = line
            first = last
        return C

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """Static columns in the order of the model."""
        every = set().union(*(set(names) for names in self.names)) - {""}
        total = self.separable.factors.total
        used = np.zeros((len(total), len(self.separable.column_names)), dtype=np.bool_)
        for row, factor in zip(used, total, strict=True):
            row[factor.columns] = True
        # Equations of other branches of the robot do not contain these columns.
        here = used[list(self.groups)].any(axis=0)
        coupled = np.logical_or.reduce([columns for columns in branches(used) if (columns & here).any()])
        outside = np.delete(used, self.groups, axis=0).any(axis=0) & coupled
        elsewhere = {self.separable.column_names[i] for i in np.flatnonzero(outside)}
        return tuple(n for n in self.separable.names if n in every or n in elsewhere)

    @cached_property
    def scale(self) -> Float:
        """Square root of the weight of each of the joint's equations, including the share of equations not kept."""
        separable = self.separable
        parts = []
        for g in self.groups:
            kept = len(separable.block_of[g])
            parts.append(
                np.full(kept, np.sqrt(separable.weights[g] * separable.factors.total[g].count / max(kept, 1)))
            )
        return np.concatenate(parts)

    def reduced(self, training: Sequence[int]) -> ReducedProblem:
        """Least-squares problem over some blocks."""
        other = self._others(training)
        in_training = np.isin(self.blocks, np.asarray(training))
        inside = slice(None) if in_training.all() else in_training
        scale = self.scale[inside]
        A = np.zeros((len(self.shared), len(other) + len(scale)))
        A[:, : len(other)] = other[:, :-1].T
        for name, line in self._own_lines.items():
            A[self.shared.index(name), len(other) :] = line[inside] * scale
        y = np.concatenate([other[:, -1], self.target[inside] * scale])
        return ReducedProblem.of(A, y, np.flatnonzero(in_training), self.scale)

    def without(self, names: Collection[str]) -> tuple[JointProblem, dict[str, Float]]:
        """Remove some static columns; return the problem and the removed columns (rows,) in the order of the model."""
        own_lines = self._own_lines
        lines = {name: own_lines[name] for name in self.shared if name in names}
        kept = [[name not in names for name in group] for group in self.names]
        rest = replace(
            self,
            names=tuple(tuple(compress(group, keep)) for group, keep in zip(self.names, kept, strict=True)),
            values=tuple(tuple(compress(group, keep)) for group, keep in zip(self.values, kept, strict=True)),
        )
        return rest, lines

    def alone_here(self, names: Collection[str]) -> frozenset[str]:
        """Static columns among some that occur in no other equations."""
        others = (f for g, f in enumerate(self.separable.factors.total) if g not in self.groups)
        elsewhere = {self.separable.column_names[i] for f in others for i in f.columns}
        return frozenset(names).intersection(self.shared) - elsewhere

    @property
    def _own_lines(self) -> dict[str, Float]:
        """Static columns in the joint's equations, (rows,) each."""
        kept = set(self.shared)
        width = [len(values[-1]) for values in self.values]
        lines: dict[str, Float] = {}
        for g, (names, values) in enumerate(zip(self.names, self.values, strict=True)):
            first = sum(width[:g])
            for name, line in zip(names, values, strict=True):
                if name in kept and len(width) == 1:
                    lines[name] = line
                elif name in kept:
                    lines.setdefault(name, np.zeros(sum(width)))[first : first + width[g]] = line
        return lines

    def _others(self, training: Sequence[int]) -> Float:
        separable = self.separable
        others = [g for g in range(len(separable.factors.group_names)) if g not in self.groups]
        keep = np.isin(separable.column_names, self.shared)
        others = [g for g in others if keep[separable.factors.total[g].columns].any()]
        if not others:
            return np.zeros((0, len(self.shared) + 1))
        total = separable.total(training)
        index = np.array([separable.column_names.index(n) for n in self.shared], dtype=np.int64)
        return stack([total[g].select(keep) for g in others], index, separable.weights[others])


def orthonormal(A: Float) -> Float:
    """Compute W (b, r) such that A' W is an orthonormal basis of the rows of A (b, rows), up to rounding.

    Directions with singular values below 1e-9 of the largest are dropped.
    """
    if not len(A):  # the joint's branch has no other columns
        return np.zeros((0, 0))
    R = qr_panel(A)
    norm = np.linalg.norm(R, axis=0)
    norm = np.where(norm > 0, norm, 1.0)
    _, s, Wt = np.linalg.svd(R / norm)
    good = s > 1e-9 * s[0]
    return np.asarray(Wt[good].T / s[good] / norm[:, None])


def beyond(A: Float, basis: Float, values: Float) -> Float:
    """Make values (rows,) or (c, rows) orthogonal to the rows of A, with the basis (b, r) of `orthonormal`.

    The second projection removes the rounding error of the first, up to 1e-7.
    """
    for _ in range(2):
        values = values - (((values @ A.T) @ basis) @ basis.T) @ A
    return values


def joint_problem(separable: SeparableProblem, static: Lines, extra: Terms, probe: Lines) -> JointProblem:
    """Build the problem of a joint.

    `static`: columns and target of the terms without estimated shapes; `extra`: other terms with fixed shapes during
    the trial; `probe`: columns of the trial terms, which show the groups that they act on.
    """
    groups = tuple(g for g, names in enumerate(probe.names) if names)
    more = separable.lines(extra) if extra.terms else None
    names, values = [], []
    for g in groups:
        more_names = more.names[g] if more is not None else ()
        more_values = more.values[g] if more is not None else ()
        names.append((*more_names, *static.names[g]))
        values.append((*more_values, *static.values[g]))
    return JointProblem(separable, groups, tuple(names), tuple(values))


# Variable projection: the search varies only the shapes, and eliminates the coefficients exactly at each trial value.

# Step of the differences in the unit cube; number of random starts; number of starts that are refined.
STEP = 1e-4
RANDOM_STARTS = 2
REFINED = 2


@dataclass(frozen=True, eq=False)
class Scale:
    """Scaling of the f estimated shapes of a joint to the unit cube.

    Attributes
    ----------
    low, high : ndarray, shape (f,)
        Bounds.
    positive : ndarray of bool, shape (f,)
        Shapes with a logarithmic scale.
    free : ndarray of bool, shape (s,)
        Estimated shapes among all s shapes.

    """

    low: Float
    high: Float
    positive: Bool
    free: Bool

    @staticmethod
    def of(term: ShapedTerm, motion: JointMotion, free: Bool) -> Scale:
        """Build from the term's bounds for a motion."""
        low, high = range_of(inner_term(term), motion)[free].T
        return Scale(low, high, np.array([shape.positive for shape in shapes_of(term)])[free], free)

    def value(self, u: Float) -> Float:
        """Estimated shapes (f,) of a point in the unit cube."""
        a, b = self._ends()
        x = a + u * (b - a)
        return np.where(self.positive, np.exp(np.where(self.positive, x, 0.0)), x)

    def unit(self, shape: Float) -> Float:
        """Point of shapes (s,) in the unit cube, clipped to the cube."""
        a, b = self._ends()
        free_shape = shape[self.free]
        x = np.where(self.positive, np.log(np.where(self.positive, free_shape, 1.0)), free_shape)
        return np.clip((x - a) / (b - a), 0.0, 1.0)

    def _ends(self) -> tuple[Float, Float]:
        def scaled(x: Float) -> Float:
            return np.where(self.positive, np.log(np.where(self.positive, x, 1.0)), x)

        return scaled(self.low), scaled(self.high)


@dataclass(frozen=True, eq=False)
class Start:
    """Start of a search for a joint's shapes.

    Attributes
    ----------
    joint : int
    shape : ndarray, shape (s,)
        Present values; fixed shapes stay at these.
    free : ndarray of bool, shape (s,)
        Estimated shapes.
    fresh : bool
        Whether to use several starts (from the term, and seeded random values) and refine the best two; otherwise the
        search starts only at the present values.

    """

    joint: int
    shape: Float
    free: Bool
    fresh: bool


@dataclass(frozen=True, eq=False)
class Found:
    """Best shapes of a search: values (s,) and cost."""

    shape: Float
    cost: float


def variable_projection(
    joint_lines: JointProblem,
    problem: ReducedProblem,
    fixed: Mapping[str, Float],
    term: ShapedTerm,
    start: Start,
    motion: JointMotion,
    seed: int,
    bounded: Collection[str] = (),
) -> Found:
    """Estimate the shapes of a term on a joint by variable projection.

    `fixed` contains columns (rows,) by name that are fitted together with the trial columns. `bounded` contains the
    names of columns, of `fixed` and of the term, with nonnegative coefficients.
    """
    joint, robot = start.joint, joint_lines.separable.assembly.robot
    scale = Scale.of(term, motion, start.free)

    alone = of_joints(term, robot, (joint,))
    own_names = tuple(column.name for column in alone.columns(robot))
    signed = np.array([name in bounded for name in (*fixed, *own_names)], dtype=np.bool_)
    latest: dict[bytes, Float] = {}
    fixed_lines = problem.left(np.reshape([*fixed.values()], (len(fixed), len(problem.scale))))

    def shape_at(u: Float) -> Float:
        shape = start.shape.copy()
        shape[start.free] = scale.value(u)
        return shape

    def residual(u: Float) -> Float:
        key = u.tobytes()
        if key not in latest:
            lines = joint_lines.trial(Terms((with_shape_table(alone, shape_at(u)[None, :]),)), own_names)
            latest.clear()
            latest[key] = problem.project(np.vstack([fixed_lines, problem.left(lines)]), signed)[1]
        return latest[key]

    def jacobian(u: Float) -> Float:
        return forward_difference(residual, u)

    if start.fresh:
        rng = np.random.default_rng(seed)
        points = [scale.unit(shape) for shape in starts(inner_term(term), motion)]
        points += [rng.uniform(0.05, 0.95, len(scale.low)) for _ in range(RANDOM_STARTS)]
        costs = [float(np.sum(residual(point) ** 2)) for point in points]
        points = [points[i] for i in np.argsort(costs, kind="stable")[:REFINED]]
    else:
        points = [scale.unit(start.shape)]
    results: list[Found] = []
    for point in points:
        u, cost = least_squares_in_box(residual, jacobian, point)
        results.append(Found(shape_at(u), cost))
    return min(results, key=lambda result: result.cost)


def forward_difference(residual: Callable[[Float], Float], u: Float) -> Float:
    """Derivative (rows, s) of a residual (rows,) by one-sided differences that stay inside the unit cube."""
    present = residual(u)
    columns = []
    for k in range(len(u)):
        step = STEP if u[k] + STEP <= 1.0 else -STEP
        moved = u.copy()
        moved[k] += step
        columns.append((residual(moved) - present) / step)
    return np.stack(columns, axis=1)
