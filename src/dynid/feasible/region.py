"""Where parameters may be, as functions that Newton's method follows: half-spaces, cones, least bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.feasible.bodies import NO_ROTORS, body_columns, compactness, plausible
from dynid.feasible.cones import Cone, violations
from dynid.feasible.constraints import Condition, Convex, DensityLimit, PhysicalBodies, all_conditions
from dynid.spatial.inertia import eigenvalues
from dynid.terms.exports import Column

# Linear conditions: bounds of single parameters, and planes that several lie on one side of.

# In place of a parameter's index, of a row over several.
SEVERAL = -1


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """rows theta >= edge, (k, p) and (k,), each in units of a typical size.

    index: (k,) of the parameter that a bound is of; SEVERAL = a plane.    value: (k,) the bound; nan of a plane.
    equal: (k,) which hold as equations, as both ends of a window without width; the other end is left out.
    """

    rows: Float
    edge: Float
    index: Int
    value: Float
    equal: Bool

    @staticmethod
    def of(lower: Float, upper: Float, spread: Float, conditions: Sequence[Condition] = ()) -> HalfSpaces:
        """Of bounds (p,), tightened by conditions on single parameters, and of planes among the conditions."""
        linear = [condition.block for condition in conditions if condition.block.cone is Cone.POSITIVE]
        rows = np.concatenate([np.zeros((0, len(lower))), *(block.matrix for block in linear)])
        edges = np.concatenate([np.zeros(0), *(-block.offset for block in linear)])
        single = np.count_nonzero(rows, axis=1) == 1
        lower, upper = lower.copy(), upper.copy()
        for row, edge in zip(rows[single], edges[single], strict=True):
            j = int(np.flatnonzero(row)[0])
            bound = edge / row[j]
            if row[j] > 0:
                lower[j] = max(lower[j], bound)
            else:
                upper[j] = min(upper[j], bound)
        known = lower == upper
        low, high = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper) & ~known)
        index = np.concatenate([low, high])
        sign = np.concatenate([np.ones(len(low)), -np.ones(len(high))]) / spread[index]
        value = np.concatenate([lower[low], upper[high]])
        bounds = np.zeros((len(index), len(lower)))
        bounds[np.arange(len(index)), index] = sign
        several = np.count_nonzero(rows, axis=1) > 1
        planes, ends, equal = _without_twins(rows[several], edges[several])
        return HalfSpaces(
            np.concatenate([bounds, planes]),
            np.concatenate([sign * value, ends]),
            np.concatenate([index, np.full(len(ends), SEVERAL)]),
            np.concatenate([value, np.full(len(ends), np.nan)]),
            np.concatenate([known[index], equal]),
        )

    @property
    def count(self) -> int:
        """Number of rows k."""
        return len(self.edge)

    def room(self, theta: Float) -> Float:
        """How far parameters (p,) are inside, (k,); below zero outside."""
        # Exactly zero at a bound, which rounding of the row would miss.
        room = self.rows @ theta - self.edge
        of_one = np.flatnonzero(self.index >= 0)
        indices = self.index[of_one]
        room[of_one] = self.rows[of_one, indices] * (theta[indices] - self.value[of_one])
        return np.asarray(room)

    def beyond(self, theta: Float, barely: float) -> Bool:
        """Which (k,) parameters (p,) are beyond by more than so much; of equations on either side."""
        room = self.room(theta)
        return np.asarray(np.where(self.equal, -np.abs(room), room) < -barely)

    def at(self, theta: Float, active: Bool) -> Float:
        """Parameters (p,) with those whose bound is held, (k,), exactly at it."""
        which = active & (self.index >= 0)
        at_bounds = theta.copy()
        at_bounds[self.index[which]] = self.value[which]
        return at_bounds


def _without_twins(rows: Float, edges: Float) -> tuple[Float, Float, Bool]:
    """Planes (k, p) with edges (k,) less those that another turned round makes equations, and which are such."""
    kept, equal = np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    for k in range(len(rows)):
        if kept[k]:
            twins = kept & (rows == -rows[k]).all(axis=1) & (edges == -edges[k])
            equal[k] = twins.any()
            kept &= ~twins
    return rows[kept], edges[kept], equal[kept]


# Second-order cones as concave functions with slopes: balls, cylinders and cones around centres of mass.

# In sizes of a cone, by which its tip is rounded off: at the centre of a ball its radius has no slope.
TIP = 1e-9


@dataclass(frozen=True, eq=False)
class Balls:
    """||s_1.. || <= s_0 for the lines s = offset + matrix theta of each of k cones, in units of a typical size.

    matrix: (k, m, p).    offset: (k, m).
    """

    matrix: Float
    offset: Float

    @staticmethod
    def of(conditions: Sequence[Condition], p: int) -> Balls:
        """Those among conditions on p parameters."""
        blocks = [condition.block for condition in conditions if condition.block.cone is Cone.BALL]
        most = max((len(block.offset) for block in blocks), default=1)
        matrix, offset = np.zeros((len(blocks), most, p)), np.zeros((len(blocks), most))
        for k, block in enumerate(blocks):
            matrix[k, : len(block.offset)], offset[k, : len(block.offset)] = block.matrix, block.offset
        return Balls(matrix, offset)

    @property
    def count(self) -> int:
        """Number of cones k."""
        return len(self.matrix)

    def room(self, theta: Float) -> Float:
        """F = s_0 - ||s_1..||, (k,); below zero outside."""
        s = self.matrix @ theta + self.offset
        return np.asarray(s[:, 0] - self._size(s))

    def slopes(self, theta: Float) -> tuple[Float, Float]:
        """Gradients (k, p), and curved (k, m - 1, p) such that the Hessian of f is -curved' curved."""
        s = self.matrix @ theta + self.offset
        size = self._size(s)[:, None]
        way, rest = s[:, 1:] / size, self.matrix[:, 1:]
        along = np.einsum("km,kmp->kp", way, rest)
        # The root of 1 - w w' is 1 - (1 - root(1 - w'w)) w w' / w'w.
        square = (way**2).sum(axis=1)
        share = np.where(square > 0, 1.0 - np.sqrt(np.maximum(1.0 - square, 0.0)), 0.0)
        share = share / np.where(square > 0, square, 1.0)
        curved = (rest - (share[:, None] * way)[:, :, None] * along[:, None, :]) / np.sqrt(size)[:, :, None]
        return self.matrix[:, 0] - along, curved

    @staticmethod
    def _size(s: Float) -> Float:
        return np.asarray(np.sqrt((s[:, 1:] ** 2).sum(axis=1) + TIP**2))


@dataclass(frozen=True, eq=False)
class Region:
    """All of half-spaces, second-order cones, and pseudo-inertias P >= margin of bodies.

    bodies: (nb, 10) columns of each.    margin: (nb,) least eigenvalue, kg m^2 and kg; 0 = none but that of existing.
    """

    sides: HalfSpaces
    balls: Balls
    bodies: Int
    margin: Float

    @cached_property
    def bounded(self) -> Int:
        """Which bodies have a margin, (nm,)."""
        return np.flatnonzero(self.margin > 0)

    def curved_inside(self, theta: Float) -> bool:
        """Whether parameters (p,) are within what is no half-space."""
        return bool((self.balls.room(theta) >= 0.0).all()) and all(
            float(eigenvalues(theta[self.bodies[body]])[0]) >= self.margin[body] for body in self.bounded
        )


# What parameters may be, whatever the data say: bounds, bodies that exist, and where unknown ones plausibly
# lie.

# By how much of its size a condition may be missed.
INSIDE = 1e-9


@dataclass(frozen=True, eq=False)
class Setting:
    """One for all programs that differ in their equations and in the strength of the prior alone.

    centre: (p,) the prior, plausible where it is unknown.    spread: (p,) > 0.
    compactness: of the density limit; 0 = none.    rotors: (nr,) indices of rotor inertias whose centre is known, > 0:
    bodies of one number, in the entropic and the geodesic distance as positive as links.
    margins: (nb,) least eigenvalue of each body's pseudo-inertia; None = 0.
    """

    columns: tuple[Column, ...]
    conditions: tuple[Condition, ...]
    centre: Float
    spread: Float
    compactness: float = 0.0
    rotors: Int = field(default_factory=NO_ROTORS.copy)
    margins: Float | None = None

    @staticmethod
    def of(
        columns: tuple[Column, ...],
        constraints: Sequence[Convex],
        prior: Float,
        spread: Float,
        rotors: Int | None = None,
    ) -> Setting:
        """prior: (p,), nan = unknown.    rotors: None = none whose inertia is known."""
        densest = min((c.densest for c in constraints if isinstance(c, DensityLimit)), default=np.inf)
        return Setting(
            columns,
            all_conditions(constraints, columns, spread),
            plausible(columns, prior, spread, densest),
            spread,
            compactness(densest),
            NO_ROTORS if rotors is None else rotors,
            _margins(columns, constraints),
        )

    @cached_property
    def margin(self) -> Float:
        """(nb,) least eigenvalue of each body's pseudo-inertia."""
        return np.zeros(len(self.bodies)) if self.margins is None else self.margins

    @cached_property
    def bodies(self) -> Int:
        """(nb, 10) columns of each."""
        return body_columns(self.columns)

    @cached_property
    def absent(self) -> Bool:
        """(p,) which parameters the robot lacks."""
        return np.array([column.absent for column in self.columns], dtype=np.bool_)

    @cached_property
    def lower(self) -> Float:
        """(p,) bounds of single parameters."""
        return np.array([column.lower for column in self.columns])

    @cached_property
    def upper(self) -> Float:
        """(p,) bounds of single parameters."""
        return np.array([column.upper for column in self.columns])

    @cached_property
    def region(self) -> Region:
        """Bounds of what belongs to no body, linear conditions, cones and margins; of what the robot lacks none."""
        free = self.absent.copy()
        free[self.bodies] = True
        lower, upper = np.where(free, -np.inf, self.lower), np.where(free, np.inf, self.upper)
        present = [condition for condition in self.conditions if self._present(condition)]
        sides = HalfSpaces.of(lower, upper, self.spread, present)
        return Region(sides, Balls.of(present, len(self.columns)), self.bodies, self.margin)

    def _present(self, condition: Condition) -> bool:
        return not condition.block.matrix[:, self.absent].any()

    def violated(self, theta: Float) -> bool:
        """Whether some condition is."""
        return any(
            (sizes * violations(cone, offsets + matrix @ theta) > INSIDE * sizes).any()
            for cone, matrix, offsets, sizes in self._stacked
        )

    @cached_property
    def _stacked(self) -> list[tuple[Cone, Float, Float, Float]]:
        # By cone and number of lines m the k conditions together: (k, m, p) and (k, m), and their sizes (k,).
        kinds: dict[tuple[Cone, int], list[Condition]] = {}
        for condition in self.conditions:
            kinds.setdefault((condition.block.cone, len(condition.block.offset)), []).append(condition)
        return [
            (
                cone,
                np.stack([condition.block.matrix for condition in like]),
                np.stack([condition.block.offset for condition in like]),
                np.array([condition.size for condition in like]),
            )
            for (cone, _), like in kinds.items()
        ]


def _margins(columns: tuple[Column, ...], constraints: Sequence[Convex]) -> Float:
    bodies = body_columns(columns)
    margins = np.zeros(len(bodies))
    for constraint in constraints:
        if isinstance(constraint, PhysicalBodies):
            priors = [np.array([columns[k].prior for k in ten]) for ten in bodies]
            margins = np.maximum(margins, [constraint.of_body(prior) for prior in priors])
    return margins
