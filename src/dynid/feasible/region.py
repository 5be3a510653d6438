"""The feasible region as functions with derivatives for Newton's method: half-spaces, cones and links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.feasible.bodies import body_columns, compactness, plausible
from dynid.feasible.cones import Cone, violations
from dynid.feasible.constraints import Condition, Convex, DensityLimit, PhysicalBodies, all_conditions
from dynid.spatial.inertia import eigenvalues
from dynid.terms.exports import Column

# Linear conditions: bounds of single parameters, and planes over several.

# Index of a row over several parameters.
SEVERAL = -1


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """Half-spaces rows theta >= edge, each in units of a typical size.

    Attributes
    ----------
    rows : ndarray, shape (k, p)
        Normals.
    edge : ndarray, shape (k,)
        Edges.
    index : ndarray of int, shape (k,)
        Parameter of a bound; SEVERAL = a plane over several parameters.
    value : ndarray, shape (k,)
        Bound of the parameter; nan for a plane.
    equal : ndarray of bool, shape (k,)
        Whether the row is an equation, as both ends of an interval without width; the other end is omitted.

    """

    rows: Float
    edge: Float
    index: Int
    value: Float
    equal: Bool

    @staticmethod
    def of(lower: Float, upper: Float, spread: Float, conditions: Sequence[Condition] = ()) -> HalfSpaces:
        """Half-spaces of bounds and of conditions.

        Parameters
        ----------
        lower, upper : ndarray, shape (p,)
            Bounds, which conditions on single parameters tighten.
        spread : ndarray, shape (p,)
            Typical sizes.
        conditions : sequence of Condition
            Conditions; those over several parameters become planes.

        """
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
        """Distance (k,) of parameters (p,) inside, negative outside."""
        # Exactly zero at a bound, unlike the rounded row.
        room = self.rows @ theta - self.edge
        of_one = np.flatnonzero(self.index >= 0)
        indices = self.index[of_one]
        room[of_one] = self.rows[of_one, indices] * (theta[indices] - self.value[of_one])
        return np.asarray(room)

    def beyond(self, theta: Float, barely: float) -> Bool:
        """Rows (k,) that parameters (p,) violate by more than `barely`; equations on either side."""
        room = self.room(theta)
        return np.asarray(np.where(self.equal, -np.abs(room), room) < -barely)

    def at(self, theta: Float, active: Bool) -> Float:
        """Parameters (p,) with those whose bound is active, (k,), exactly at it."""
        which = active & (self.index >= 0)
        at_bounds = theta.copy()
        at_bounds[self.index[which]] = self.value[which]
        return at_bounds


def _without_twins(rows: Float, edges: Float) -> tuple[Float, Float, Bool]:
    """Planes (k, p) and edges (k,) without the second of opposite pairs (equations), and which rows those are."""
    kept, equal = np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    for k in range(len(rows)):
        if kept[k]:
            twins = kept & (rows == -rows[k]).all(axis=1) & (edges == -edges[k])
            equal[k] = twins.any()
            kept &= ~twins
    return rows[kept], edges[kept], equal[kept]


# Second-order cones as concave functions with derivatives.

# Rounding of the tip of a cone, in its size: at the centre of a ball the radius has no derivative.
TIP = 1e-9


@dataclass(frozen=True, eq=False)
class Balls:
    """Cones ||s_1..|| <= s_0 for the lines s = offset + matrix theta, in units of a typical size.

    Attributes
    ----------
    matrix : ndarray, shape (k, m, p)
        Matrices of the k cones.
    offset : ndarray, shape (k, m)
        Offsets.

    """

    matrix: Float
    offset: Float

    @staticmethod
    def of(conditions: Sequence[Condition], p: int) -> Balls:
        """Second-order cones among conditions on p parameters."""
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
        """F = s_0 - ||s_1..||, (k,); negative outside."""
        s = self.matrix @ theta + self.offset
        return np.asarray(s[:, 0] - self._size(s))

    def slopes(self, theta: Float) -> tuple[Float, Float]:
        """Gradients (k, p), and curved (k, m - 1, p) with which the Hessian of f is -curved' curved."""
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
    """Intersection of half-spaces, second-order cones and pseudo-inertias P >= margin.

    Attributes
    ----------
    sides : HalfSpaces
        Half-spaces.
    balls : Balls
        Second-order cones.
    bodies : ndarray of int, shape (nb, 10)
        Columns of each link.
    margin : ndarray, shape (nb,), kg m^2 and kg
        Least eigenvalue; 0 = positive definite only.

    """

    sides: HalfSpaces
    balls: Balls
    bodies: Int
    margin: Float

    @cached_property
    def bounded(self) -> Int:
        """Indices (nm,) of the links with a margin."""
        return np.flatnonzero(self.margin > 0)

    def curved_inside(self, theta: Float) -> bool:
        """Whether parameters (p,) fulfil the cones and the margins."""
        return bool((self.balls.room(theta) >= 0.0).all()) and all(
            float(eigenvalues(theta[self.bodies[body]])[0]) >= self.margin[body] for body in self.bounded
        )


# Feasible parameters, whatever the data: bounds, consistent links, and plausible positions of unknown ones.

# Relative violation of a condition that is tolerated.
INSIDE = 1e-9


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything that programs share which differ only in equations and strength of the prior.

    Attributes
    ----------
    columns : tuple of Column
        Columns of the model.
    conditions : tuple of Condition
        Conditions.
    centre : ndarray, shape (p,)
        Prior, with plausible values where it is unknown.
    spread : ndarray, shape (p,)
        Typical sizes, > 0.
    compactness : float
        Compactness of the density limit; 0 = none.
    margins : ndarray, shape (nb,), optional
        Least eigenvalue of the pseudo-inertia of each link; None = 0.

    """

    columns: tuple[Column, ...]
    conditions: tuple[Condition, ...]
    centre: Float
    spread: Float
    compactness: float = 0.0
    margins: Float | None = None

    @staticmethod
    def of(
        columns: tuple[Column, ...],
        constraints: Sequence[Convex],
        prior: Float,
        spread: Float,
    ) -> Setting:
        """Setting of constraints and a prior.

        Parameters
        ----------
        columns : tuple of Column
            Columns of the model.
        constraints : sequence of Convex
            Constraints.
        prior : ndarray, shape (p,)
            Prior; nan = unknown.
        spread : ndarray, shape (p,)
            Typical sizes, > 0.

        """
        densest = min((c.densest for c in constraints if isinstance(c, DensityLimit)), default=np.inf)
        return Setting(
            columns,
            all_conditions(constraints, columns, spread),
            plausible(columns, prior, spread, densest),
            spread,
            compactness(densest),
            _margins(columns, constraints),
        )

    @cached_property
    def margin(self) -> Float:
        """Least eigenvalue (nb,) of the pseudo-inertia of each link."""
        return np.zeros(len(self.bodies)) if self.margins is None else self.margins

    @cached_property
    def bodies(self) -> Int:
        """Columns (nb, 10) of each link."""
        return body_columns(self.columns)

    @cached_property
    def absent(self) -> Bool:
        """Parameters (p,) that the robot does not have."""
        return np.array([column.absent for column in self.columns], dtype=np.bool_)

    @cached_property
    def lower(self) -> Float:
        """Lower bounds (p,) of single parameters."""
        return np.array([column.lower for column in self.columns])

    @cached_property
    def upper(self) -> Float:
        """Upper bounds (p,) of single parameters."""
        return np.array([column.upper for column in self.columns])

    @cached_property
    def region(self) -> Region:
        """Bounds of parameters of no link, linear conditions, cones and margins, without absent parameters."""
        free = self.absent.copy()
        free[self.bodies] = True
        lower, upper = np.where(free, -np.inf, self.lower), np.where(free, np.inf, self.upper)
        present = [condition for condition in self.conditions if self._present(condition)]
        sides = HalfSpaces.of(lower, upper, self.spread, present)
        return Region(sides, Balls.of(present, len(self.columns)), self.bodies, self.margin)

    def _present(self, condition: Condition) -> bool:
        return not condition.block.matrix[:, self.absent].any()

    def violated(self, theta: Float) -> bool:
        """Whether some condition is violated."""
        return any(
            (sizes * violations(cone, offsets + matrix @ theta) > INSIDE * sizes).any()
            for cone, matrix, offsets, sizes in self._stacked
        )

    @cached_property
    def _stacked(self) -> list[tuple[Cone, Float, Float, Float]]:
        # Conditions stacked by cone and number of lines m: (k, m, p) and (k, m), and their sizes (k,).
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
