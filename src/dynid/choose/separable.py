"""Filtered equations in memory: a trial value of a shape changes one joint's lines, all else is projected out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.parallel import ordered_map
from dynid.factor.assemble import Assembly
from dynid.factor.factor import Factors, stack
from dynid.kernel import qr_panel
from dynid.signals.samples import Samples
from dynid.signals.turning_points import REACH
from dynid.terms.curve import JointMotion, ShapedTerm
from dynid.terms.term import Term, Terms


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

    def lines(self, terms: Terms, target: bool = False) -> Lines:
        """Filtered columns of terms (with the target as a last line called "" when asked for).

        A few lines are sooner written than handed to threads, so only whole equations go to several.
        """
        robot, rows = self.assembly.robot, self.assembly.rows
        names = np.array([c.name for c in terms.columns(robot)])
        wanted = np.isin(names, self.names) | (not target)

        def one(batch: int) -> tuple[tuple[Int, ...], list[Float]]:
            equations = rows.equations(robot, terms, self.batches[batch], wanted)
            panels = [panel if target else panel[:-1] for panel in equations.panels]
            return equations.columns, [self._filtered(p, batch, g) for g, p in enumerate(panels)]

        parts = list(ordered_map(one, range(len(self.batches)), self.threads if target else 1))
        columns = parts[0][0]
        return Lines(
            names=tuple(tuple(names[c].tolist()) + (("",) if target else ()) for c in columns),
            values=tuple(np.concatenate([p[g] for _, p in parts], axis=1) for g in range(len(columns))),
        )

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
        robot, q, speed, unit = self.assembly.robot, list[Float](), list[Float](), 1.0
        for samples in self.batches:
            seen = samples
            if term is not None:
                seen, units = term.followed(robot, samples)
                unit = float(units[joint])
            q.append(seen.q[samples.keep, joint])
            speed.append(np.abs(seen.dq[samples.keep, joint]))
        fast, path = np.concatenate(speed), np.concatenate(q)
        return JointMotion(float(fast.max()), float(np.median(fast)), float(np.ptp(path)), REACH * unit)


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """Least squares over some blocks with every coefficient but those of a few trial lines eliminated.

    U: (rows, r) orthonormal basis of the columns that stay.    y_left: (rows,) what of the target it does not reach.
    own: indices of the own equations, which are the last rows.
    scale: square root of the weight of every own equation, kept here or not.
    """

    U: Float
    y_left: Float
    own: Int
    scale: Float

    def project(self, C: Float) -> tuple[Float, Float]:
        """Coefficients of trial lines C (c, own rows), and the residual of the whole problem, (rows,)."""
        rows = len(self.y_left)
        full = np.zeros((rows, len(C)))
        full[rows - len(self.own) :] = (C * self.scale).T[self.own]
        for _ in range(2):
            full -= self.U @ (self.U.T @ full)
        norm = np.linalg.norm(full, axis=0)
        size = np.where(norm > 1e-12 * max(float(norm.max(initial=0.0)), 1e-300), norm, np.inf)
        a = np.linalg.lstsq(full / size, self.y_left, rcond=1e-10)[0] / size
        return a, self.y_left - full @ a


@dataclass(frozen=True, eq=False)
class JointProblem:
    """The equations that a joint's trial terms act on, with all other terms' columns.

    groups: those the trial terms act on.    rest: other terms' columns there.
    """

    separable: SeparableProblem
    groups: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    values: tuple[Float, ...]

    @property
    def blocks(self) -> Int:
        """Block of each own equation, groups one after the other."""
        return np.concatenate([self.separable.block_of[g] for g in self.groups])

    @property
    def target(self) -> Float:
        """Target of each own equation."""
        return np.concatenate([values[-1] for values in self.values])

    def trial(self, term: Term | Terms) -> Float:
        """Lines of trial terms over the own equations, (c, rows)."""
        terms = term if isinstance(term, Terms) else Terms((term,))
        found = self.separable.lines(terms)
        order = [c.name for c in terms.columns(self.separable.assembly.robot)]
        width = sum(len(self.separable.block_of[g]) for g in self.groups)
        C = np.zeros((len(order), width))
        first = 0
        for g in self.groups:
            last = first + len(self.separable.block_of[g])
            for name, line in zip(found.names[g], found.values[g], strict=True):
                C[order.index(name), first:last] = line
            first = last
        return C

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """Columns that stay, in the model's order."""
        every = set().union(*(set(names) for names in self.names)) - {""}
        outside = [f for g, f in enumerate(self.separable.factors.total) if g not in self.groups]
        elsewhere = {self.separable.column_names[i] for f in outside for i in f.columns}
        return tuple(n for n in self.separable.names if n in every or n in elsewhere)

    @cached_property
    def own_rows(self) -> Float:
        """The staying columns in the own equations, (rows, b)."""
        place = {name: i for i, name in enumerate(self.shared)}
        parts = []
        for names, values in zip(self.names, self.values, strict=True):
            part = np.zeros((values.shape[1], len(self.shared)))
            for name, line in zip(names, values, strict=True):
                if name in place:
                    part[:, place[name]] = line
            parts.append(part)
        return np.concatenate(parts)

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
        rows = self.own_rows[own] * self.scale[own, None]
        A = np.concatenate([other[:, :-1], rows])
        y = np.concatenate([other[:, -1], self.target[own] * self.scale[own]])
        U = orthonormal(A)
        return ReducedProblem(U, y - U @ (U.T @ y), np.flatnonzero(own), self.scale)

    def _others(self, training: Sequence[int]) -> Float:
        separable = self.separable
        others = [g for g in range(len(separable.factors.group_names)) if g not in self.groups]
        if not others:
            return np.zeros((0, len(self.shared) + 1))
        keep = np.isin(separable.column_names, self.shared)
        part = separable.factors.subset(training).select(keep)
        index = np.array([separable.column_names.index(n) for n in self.shared], dtype=np.int64)
        return stack([part.total[g] for g in others], index, separable.weights[others])


def orthonormal(A: Float) -> Float:
    """Orthonormal basis U (rows, r) of the columns of A (rows, b).

    From triangles, twice, which costs products of matrices alone; directions below 1e-9 of the largest are left out.
    """
    norm = np.linalg.norm(A, axis=0)
    norm = np.where(norm > 0, norm, 1.0)
    R = qr_panel(np.ascontiguousarray((A / norm).T))
    _, s, Wt = np.linalg.svd(R)
    good = s > 1e-9 * s[0]
    U = A @ (Wt[good].T / s[good] / norm[:, None])
    return np.asarray(U @ np.linalg.inv(qr_panel(np.ascontiguousarray(U.T))))


def joint_problem(separable: SeparableProblem, static: Lines, extra: Terms, probe: Lines) -> JointProblem:
    """A joint's problem.    static: columns and target of the terms that stay, `extra`: further terms that stay.

    probe: lines of the trial terms, which say where they act.
    """
    groups = tuple(g for g, names in enumerate(probe.names) if names)
    more = separable.lines(extra) if extra.terms else None
    names, values = [], []
    for g in groups:
        more_names = more.names[g] if more is not None else ()
        more_values = more.values[g] if more is not None else static.values[g][:0]
        names.append((*more_names, *static.names[g]))
        values.append(np.concatenate([more_values, static.values[g]]))
    return JointProblem(separable, groups, tuple(names), tuple(values))
