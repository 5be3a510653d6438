"""Filtered equations in memory: a trial value of a shape changes one joint's lines, all else is projected out."""

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

# Share of a joint's squared velocities below which it did not move that way.
ONE_WAY = 0.01


@dataclass(frozen=True, eq=False)
class Lines:
    """Filtered columns of some terms by group of equations: names and values (w, T) of each."""

    names: tuple[tuple[str, ...], ...]
    values: tuple[Float, ...]


@dataclass(frozen=True, eq=False)
class SeparableProblem:
    """A model at some shapes with its factors and weights, and the samples to try others on.

    names: of the columns that count (base columns).    batches: all of the factors' samples, or a share of each block.
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
        """Factor of every group over some blocks."""
        if len(blocks) == len(self.factors.blocks):
            return self.factors.total
        key = tuple(blocks)
        if key not in self._totals:
            self._totals.clear()  # one fold after the other
            self._totals[key] = self.factors.subset(blocks).total
        return self._totals[key]

    @cached_property
    def _totals(self) -> dict[tuple[int, ...], tuple[Factor, ...]]:
        return {}

    def lines(self, terms: Terms, target: bool = False, names: Sequence[str] = ()) -> Lines:
        """Filtered columns of terms (with the target as a last line called "" when asked for).

        names: of the terms' parameters, where they are known already.

        A few lines are sooner written than handed to threads, so only whole equations go to several; where the rows are
        torques these lines are written and filtered for all batches at once.
        """
        regressor = getattr(self.assembly.rows, "regressor", None)
        if regressor is not None and not target:
            return self._at_once(terms, regressor, names)
        robot, rows = self.assembly.robot, self.assembly.rows
        own = np.array(names or [c.name for c in terms.columns(robot)])
        wanted = np.isin(own, self.names) | (not target)

        def one(batch: int) -> tuple[tuple[Int, ...], list[Float]]:
            equations = rows.equations(robot, terms, self.batches[batch], wanted)
            panels = [panel if target else panel[:-1] for panel in equations.panels]
            return equations.columns, [self._filtered(p, batch, g) for g, p in enumerate(panels)]

        parts = list(ordered_map(one, range(len(self.batches)), self.threads if target else 1))
        columns = parts[0][0]
        return Lines(
            names=tuple(tuple(own[c].tolist()) + (("",) if target else ()) for c in columns),
            values=tuple(np.concatenate([p[g] for _, p in parts], axis=1) for g in range(len(columns))),
        )

    def _at_once(self, terms: Terms, regressor: Callable[..., Panels], names: Sequence[str]) -> Lines:
        robot = self.assembly.robot
        names = names or [c.name for c in terms.columns(robot)]
        every = np.ones(len(names), dtype=np.bool_)
        whole = regressor(robot, terms, self._side_by_side.samples, every, self.batches)
        columns, panels = whole.columns, whole.values
        found = []
        for panel, gates in zip(panels, zip(*self._opened, strict=True), strict=True):
            if not len(panel):
                found.append(np.zeros((0, sum(count for _, count in gates))))
                continue
            lines = self._side_by_side.filtered(panel)
            open_ones = [gate for gate, _ in gates if gate is not None]
            found.append(lines[:, np.concatenate(open_ones)] if open_ones else lines)
        return Lines(tuple(tuple(names[i] for i in c.tolist()) for c in columns), tuple(found))

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
        # By batch and group, which of the samples that stay count, None = all, and how many.
        found = []
        for samples in self.batches:
            kept = self.assembly.parallel.kept(samples)
            groups = range(len(self.factors.group_names))
            if samples.gate is None:
                found.append(tuple((None, len(kept)) for _ in groups))
            else:
                gates = [samples.gate[kept, group] for group in groups]
                found.append(tuple((gate, int(gate.sum())) for gate in gates))
        return tuple(found)

    @cached_property
    def block_of(self) -> tuple[Int, ...]:
        """By group, the number of each equation's block."""
        starts = np.array([block.start for block in self.factors.blocks])
        segments = np.array([block.segment for block in self.factors.blocks])
        found: list[list[Int]] = [[] for _ in self.factors.group_names]
        for samples, opened in zip(self.batches, self._opened, strict=True):
            kept = self.assembly.parallel.kept(samples)
            own = np.flatnonzero(segments == samples.segment)
            place = np.searchsorted(starts[own], samples.t[kept] + 0.25 / samples.rate, side="right") - 1
            number = own[np.maximum(place, 0)] if len(own) else np.zeros(0, dtype=np.int64)
            for group, numbers in enumerate(found):
                gate = opened[group][0]
                numbers.append(number if gate is None else number[gate])
        return tuple(np.concatenate(numbers) for numbers in found)

    def motion(self, joint: int, term: ShapedTerm | None = None) -> JointMotion:
        """How a joint moved in the samples that are kept, or what the shapes of a term on it are about."""
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
    """Least squares over some blocks with every coefficient but those of a few trial lines eliminated.

    A: (b, rows) columns that stay, a line each.    basis: (b, r), A' basis is orthonormal but for rounding.
    y_left: (rows,) what of the target they do not reach.
    own: indices of the own equations, which are the last rows.
    scale: square root of the weight of every own equation, kept here or not.
    """

    A: Float
    basis: Float
    y_left: Float
    own: Int
    scale: Float

    @staticmethod
    def of(A: Float, y: Float, own: Int, scale: Float) -> ReducedProblem:
        """Of the columns that stay and the target."""
        basis = orthonormal(A)
        return ReducedProblem(A, basis, beyond(A, basis, y), own, scale)

    def left(self, C: Float) -> Float:
        """What of trial lines C (c, own rows) the columns that stay do not reach, (c, rows)."""
        rows = len(self.y_left)
        full = np.zeros((len(C), rows))
        full[:, rows - len(self.own) :] = (C * self.scale)[:, self.own]
        return beyond(self.A, self.basis, full)

    def project(self, left: Float, bounded: Bool) -> tuple[Float, Float]:
        """Coefficients of trial lines by their `left` (c, rows), and the residual of the whole problem, (rows,).

        bounded: (c,) which coefficients are at least zero.
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
    """The equations that a joint's trial terms act on, with all other terms' columns.

    groups: those the trial terms act on.    names, values: the other terms' columns there, the target last.
    """

    separable: SeparableProblem
    groups: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    values: tuple[tuple[Float, ...], ...]

    @property
    def blocks(self) -> Int:
        """Block of each own equation, groups one after the other."""
        return np.concatenate([self.separable.block_of[g] for g in self.groups])

    @property
    def target(self) -> Float:
        """Target of each own equation."""
        return np.concatenate([values[-1] for values in self.values])

    def trial(self, terms: Terms, names: Sequence[str]) -> Float:
        """Lines of trial terms with parameters of these names over the own equations, (c, rows)."""
        found = self.separable.lines(terms, names=names)
        width = sum(len(self.separable.block_of[g]) for g in self.groups)
        C = np.zeros((len(names), width))
        first = 0
        for g in self.groups:
            last = first + len(self.separable.block_of[g])
            for name, line in zip(found.names[g], found.values[g], strict=True):
                C[names.index(name), first:last] = line
            first = last
        return C

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """Columns that stay, in the model's order."""
        every = set().union(*(set(names) for names in self.names)) - {""}
        total = self.separable.factors.total
        used = np.zeros((len(total), len(self.separable.column_names)), dtype=np.bool_)
        for row, factor in zip(used, total, strict=True):
            row[factor.columns] = True
        # Equations of other branches of the robot say nothing about these columns.
        here = used[list(self.groups)].any(axis=0)
        coupled = np.logical_or.reduce([columns for columns in branches(used) if (columns & here).any()])
        outside = np.delete(used, self.groups, axis=0).any(axis=0) & coupled
        elsewhere = {self.separable.column_names[i] for i in np.flatnonzero(outside)}
        return tuple(n for n in self.separable.names if n in every or n in elsewhere)

    @cached_property
    def scale(self) -> Float:
        """Square root of the weight of each own equation, which stands for those that are not kept as well."""
        own = self.separable
        parts = []
        for g in self.groups:
            kept = len(own.block_of[g])
            parts.append(np.full(kept, np.sqrt(own.weights[g] * own.factors.total[g].count / max(kept, 1))))
        return np.concatenate(parts)

    def reduced(self, training: Sequence[int]) -> ReducedProblem:
        """The least-squares problem over some blocks."""
        other = self._others(training)
        own = np.isin(self.blocks, np.asarray(training))
        inside = slice(None) if own.all() else own
        scale = self.scale[inside]
        A = np.zeros((len(self.shared), len(other) + len(scale)))
        A[:, : len(other)] = other[:, :-1].T
        for name, line in self._own_lines.items():
            A[self.shared.index(name), len(other) :] = line[inside] * scale
        y = np.concatenate([other[:, -1], self.target[inside] * scale])
        return ReducedProblem.of(A, y, np.flatnonzero(own), self.scale)

    def without(self, names: Collection[str]) -> tuple[JointProblem, dict[str, Float]]:
        """The problem without some of the columns that stay, and their lines (rows,) in it, in the model's order."""
        own = self._own_lines
        lines = {name: own[name] for name in self.shared if name in names}
        kept = [[name not in names for name in group] for group in self.names]
        rest = replace(
            self,
            names=tuple(tuple(compress(group, keep)) for group, keep in zip(self.names, kept, strict=True)),
            values=tuple(tuple(compress(group, keep)) for group, keep in zip(self.values, kept, strict=True)),
        )
        return rest, lines

    def alone_here(self, names: Collection[str]) -> frozenset[str]:
        """Those of some columns that stay and count in no other equations."""
        others = (f for g, f in enumerate(self.separable.factors.total) if g not in self.groups)
        elsewhere = {self.separable.column_names[i] for f in others for i in f.columns}
        return frozenset(names).intersection(self.shared) - elsewhere

    @property
    def _own_lines(self) -> dict[str, Float]:
        """The staying columns in the own equations, (rows,) each."""
        kept = set(self.shared)
        width = [len(values[-1]) for values in self.values]
        found: dict[str, Float] = {}
        for g, (names, values) in enumerate(zip(self.names, self.values, strict=True)):
            first = sum(width[:g])
            for name, line in zip(names, values, strict=True):
                if name in kept and len(width) == 1:
                    found[name] = line
                elif name in kept:
                    found.setdefault(name, np.zeros(sum(width)))[first : first + width[g]] = line
        return found

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
    """W (b, r) such that A' W is an orthonormal basis of the lines of A (b, rows), but for rounding.

    Directions below 1e-9 of the largest are left out.
    """
    if not len(A):  # the branch of a joint has no other columns
        return np.zeros((0, 0))
    R = qr_panel(A)
    norm = np.linalg.norm(R, axis=0)
    norm = np.where(norm > 0, norm, 1.0)
    _, s, Wt = np.linalg.svd(R / norm)
    good = s > 1e-9 * s[0]
    return np.asarray(Wt[good].T / s[good] / norm[:, None])


def beyond(A: Float, basis: Float, values: Float) -> Float:
    """What of some values (rows,) or (c, rows) the lines of A do not reach.    basis: (b, r) of `orthonormal`.

    Projected twice: what rounding of the basis, up to 1e-7, leaves the first time is gone after the second.
    """
    for _ in range(2):
        values = values - (((values @ A.T) @ basis) @ basis.T) @ A
    return values


def joint_problem(separable: SeparableProblem, static: Lines, extra: Terms, probe: Lines) -> JointProblem:
    """A joint's problem.    static: columns and target of the terms that stay, `extra`: further terms that stay.

    probe: lines of the trial terms, which say where they act.
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


# Variable projection: shapes are estimated, coefficients are eliminated exactly at every trial value.

STEP = 1e-4
RANDOM_STARTS = 2
REFINED = 2


@dataclass(frozen=True, eq=False)
class Scale:
    """Those of a joint's shapes (s,) that are estimated, f of them, on a scale from 0 to 1 each.

    low, high: bounds (f,).    positive: which are on a logarithmic scale, (f,).    free: which of all these are, (s,).
    """

    low: Float
    high: Float
    positive: Bool
    free: Bool

    @staticmethod
    def of(term: ShapedTerm, motion: JointMotion, free: Bool) -> Scale:
        """From the term's bounds for a motion."""
        low, high = range_of(inner_term(term), motion)[free].T
        return Scale(low, high, np.array([shape.positive for shape in shapes_of(term)])[free], free)

    def value(self, u: Float) -> Float:
        """Estimated shapes (f,) of a point in the unit cube."""
        a, b = self._ends()
        x = a + u * (b - a)
        return np.where(self.positive, np.exp(np.where(self.positive, x, 0.0)), x)

    def unit(self, shape: Float) -> Float:
        """The point in the unit cube of shapes (s,), clipped to it."""
        a, b = self._ends()
        own = shape[self.free]
        x = np.where(self.positive, np.log(np.where(self.positive, own, 1.0)), own)
        return np.clip((x - a) / (b - a), 0.0, 1.0)

    def _ends(self) -> tuple[Float, Float]:
        def scaled(x: Float) -> Float:
            return np.where(self.positive, np.log(np.where(self.positive, x, 1.0)), x)

        return scaled(self.low), scaled(self.high)


@dataclass(frozen=True, eq=False)
class Start:
    """Where a search for a joint's shapes begins.

    shape: (s,) present values, which those stay at that are given.    free: (s,) which are estimated.
    fresh: whether to begin with several starts, those of the term, the present ones and seeded random ones, of which
    the best two are refined; else with the present ones alone.
    """

    joint: int
    shape: Float
    free: Bool
    fresh: bool


@dataclass(frozen=True, eq=False)
class Found:
    """The best shapes of a search: values (s,) and cost."""

    shape: Float
    cost: float


def variable_projection(
    own: JointProblem,
    problem: ReducedProblem,
    fixed: Mapping[str, Float],
    term: ShapedTerm,
    start: Start,
    motion: JointMotion,
    seed: int,
    bounded: Collection[str] = (),
) -> Found:
    """Shapes of a term on one joint with the least residual, every coefficient eliminated.

    fixed: lines (rows,) by name of columns that are solved for beside the trial's.
    bounded: names of columns, of `fixed` and of the term, whose coefficients are not negative.
    """
    joint, robot = start.joint, own.separable.assembly.robot
    scale = Scale.of(term, motion, start.free)

    alone = of_joints(term, robot, (joint,))
    own_names = tuple(column.name for column in alone.columns(robot))
    signed = np.array([name in bounded for name in (*fixed, *own_names)], dtype=np.bool_)
    latest: dict[bytes, Float] = {}
    held = problem.left(np.reshape([*fixed.values()], (len(fixed), len(problem.scale))))

    def shape_at(u: Float) -> Float:
        shape = start.shape.copy()
        shape[start.free] = scale.value(u)
        return shape

    def residual(u: Float) -> Float:
        key = u.tobytes()
        if key not in latest:
            lines = own.trial(Terms((with_shape_table(alone, shape_at(u)[None, :]),)), own_names)
            latest.clear()
            latest[key] = problem.project(np.vstack([held, problem.left(lines)]), signed)[1]
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
    found: list[Found] = []
    for point in points:
        u, cost = least_squares_in_box(residual, jacobian, point)
        found.append(Found(shape_at(u), cost))
    return min(found, key=lambda one: one.cost)


def forward_difference(residual: Callable[[Float], Float], u: Float) -> Float:
    """Derivative of a residual (rows,) in the unit cube, (rows, s), by one-sided differences that stay inside."""
    here = residual(u)
    columns = []
    for k in range(len(u)):
        step = STEP if u[k] + STEP <= 1.0 else -STEP
        moved = u.copy()
        moved[k] += step
        columns.append((residual(moved) - here) / step)
    return np.stack(columns, axis=1)
