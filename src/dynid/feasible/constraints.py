"""Convex constraints on parameters, named so that a conflict can be explained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NoReturn, Protocol

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.feasible.bodies import DENSEST, TRIANGLE, body_columns, body_scale, compactness
from dynid.feasible.cones import Block, Cone, side_of, solve_program, triangle, violation
from dynid.robot.shapes import spread_directions
from dynid.spatial.inertia import eigenvalues
from dynid.terms.exports import Column, Of

# kg m^2 and kg: least eigenvalue of a pseudo-inertia.
DEFAULT_MARGIN = 1e-6
# Share of the least second moment of a prior: a tenth of its thickness.
THIN = 1e-2


@dataclass(frozen=True, eq=False)
class Condition:
    """One cone that parameters must lie in: offset + matrix theta.

    Attributes
    ----------
    name : str
        Name for messages.
    block : Block
        Cone.
    unit : str
        Unit of size times the numbers of the block.
    size : float
        Size of the block.

    """

    name: str
    block: Block
    unit: str = ""
    size: float = 1.0

    def violation(self, theta: Float) -> float:
        """Distance of theta from the cone, in `unit`, 0 inside."""
        return self.size * violation(self.block.cone, self.block.offset + self.block.matrix @ theta)

    def around(self, reference: Float, spread: Float, n: int) -> Block:
        """The cone for theta = reference + spread d, where d are the first of n unknowns."""
        block = self.block
        matrix = np.zeros((len(block.offset), n))
        matrix[:, : len(spread)] = block.matrix * spread
        return Block(block.cone, matrix, block.offset + block.matrix @ reference)


class Convex(Protocol):
    """Interface of a convex constraint on the parameters of a model."""

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """Cones of the constraint; spread: (p,) typical sizes that scale them."""
        ...


@dataclass(frozen=True)
class PhysicalBodies:
    """Pseudo-inertia [[S, h], [h', m]] >= margin of every link: positive mass, inertia with the triangle inequality.

    Parameters
    ----------
    margin : float, kg m^2 and kg, optional
        Least eigenvalue; None = DEFAULT_MARGIN, or a share of the least eigenvalue of the prior where that is smaller,
        as for light last links.

    References
    ----------
    Wensing, Kim and Slotine 2018; Gaz et al. 2019, eq. 16.

    """

    margin: float | None = None

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """One semidefinite 4 x 4 cone per link."""
        conditions = []
        for ten in body_columns(columns):
            D = body_scale(spread[ten])
            both = triangle(np.outer(D, D)) / triangle(np.ones((4, 4)))
            matrix = np.zeros((10, len(columns)))
            matrix[:, ten] = both[:, None] * TRIANGLE
            margin = self.of_body(np.array([columns[k].prior for k in ten]))
            block = Block(Cone.SEMIDEFINITE, matrix, -margin * triangle(np.diag(D**2)))
            name = f"pseudo-inertia of body {columns[ten[0]].owner + 1} >= {margin:.3g}"
            conditions.append(Condition(name, block, "of its typical size"))
        return conditions

    def of_body(self, prior: Float) -> float:
        """Margin of a link with a prior (10,), nan = unknown."""
        if self.margin is not None:
            return self.margin
        least = float(eigenvalues(prior)[0]) if np.isfinite(prior).all() else 0.0
        return min(DEFAULT_MARGIN, THIN * least) if least > 0 else DEFAULT_MARGIN


@dataclass(frozen=True)
class DensityLimit:
    """Density limit of every link: det(P)^(1/4) >= c m^(3/2), with the pseudo-inertia P and the mass m.

    Every link of a material no denser than that fulfils it, and so does the uniform ellipsoid of that material. No
    stricter condition on the ten parameters holds for all such links.

    Parameters
    ----------
    densest : float, kg/m^3
        Greatest density.

    """

    densest: float = DENSEST

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """One convex block per link."""
        conditions = []
        for ten in body_columns(columns):
            D = body_scale(spread[ten])
            matrix = np.zeros((11, len(columns)))
            matrix[:10, ten] = (triangle(np.outer(D, D)) / triangle(np.ones((4, 4))))[:, None] * TRIANGLE
            c = compactness(self.densest) * np.sqrt(np.prod(D)) / D[3] ** 3
            block = Block(Cone.DENSITY, matrix, np.append(np.zeros(10), c))
            name = f"density of body {columns[ten[0]].owner + 1} <= {self.densest:g} kg/m^3"
            conditions.append(Condition(name, block, "of its typical size"))
        return conditions


@dataclass(frozen=True)
class ColumnBounds:
    """Bounds that terms declare: friction, rotor inertia and stiffness >= 0."""

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """One half-line per bound; links are left to PhysicalBodies."""
        conditions = []
        for j, column in enumerate(columns):
            if column.of is not Of.BODY:
                row = _row(len(columns), [j], [1.0])
                conditions += window(
                    column.name, row, column.lower, column.upper, column.unit, float(spread[j])
                )
        return conditions


@dataclass(frozen=True)
class TotalMass:
    """Limits of the total mass: lower <= sum of the masses <= upper, kg."""

    lower: float = 0.0
    upper: float = np.inf

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """At most two half-spaces."""
        masses = body_columns(columns)[:, 0]
        row = _row(len(columns), masses, np.ones(len(masses)))
        return window("total mass", row, self.lower, self.upper, "kg", float(spread[masses].sum()))


@dataclass(frozen=True)
class BodyMass:
    """Limits of the mass of a link: lower <= mass <= upper, kg; body counts from 1."""

    body: int
    lower: float = 0.0
    upper: float = np.inf

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """At most two half-spaces."""
        ten = ten_of(columns, self.body)
        row = _row(len(columns), ten[:1], [1.0])
        return window(f"mass of body {self.body}", row, self.lower, self.upper, "kg", float(spread[ten[0]]))


@dataclass(frozen=True)
class CentreHalfSpaces:
    """Centre of mass c of a link in a box or polytope, normals c <= limits, in its joint frame.

    Parameters
    ----------
    body : int
        Link, counted from 1.
    normals : tuple of k tuples of three floats
        Normals.
    limits : tuple of k floats, m
        Limits.

    """

    body: int
    normals: tuple[tuple[float, float, float], ...]
    limits: tuple[float, ...]

    @staticmethod
    def box(
        body: int, lower: tuple[float, float, float], upper: tuple[float, float, float]
    ) -> CentreHalfSpaces:
        """Box lower <= c <= upper of the centre of mass.

        Parameters
        ----------
        body : int
            Link, counted from 1.
        lower, upper : tuple of three floats, m
            Limits; infinite ones are omitted.

        """
        rows: list[tuple[float, float, float]] = []
        limits: list[float] = []
        for k in range(3):
            for sign, bound in ((1.0, upper[k]), (-1.0, -lower[k])):
                if np.isfinite(bound):
                    normal = [0.0, 0.0, 0.0]
                    normal[k] = sign
                    rows.append((normal[0], normal[1], normal[2]))
                    limits.append(float(bound))
        return CentreHalfSpaces(body, tuple(rows), tuple(limits))

    @staticmethod
    def hull(body: int, points: Float) -> CentreHalfSpaces:
        """Convex hull of points (k, 3), such as vertices of a mesh; raises UsageError if they lie in a plane."""
        from scipy.spatial import ConvexHull, QhullError

        try:
            equations = ConvexHull(np.asarray(points, dtype=np.float64)).equations
        except (QhullError, ValueError) as error:
            raise UsageError(
                "flat-hull",
                found=f"{len(points)} points without volume for body {body}",
                expected="at least four points that do not lie in one plane",
            ) from error
        equations = np.unique(np.round(equations, 12), axis=0)
        normals = tuple((float(a), float(b), float(c)) for a, b, c, _ in equations)
        return CentreHalfSpaces(body, normals, tuple((-equations[:, 3]).tolist()))

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """Half-spaces limits m - normals h >= 0, with h = m c."""
        ten = ten_of(columns, self.body)
        size = float(spread[ten[1]])
        conditions = []
        for normal, limit in zip(self.normals, self.limits, strict=True):
            row = _row(len(columns), ten[:4], [limit, *(-v for v in normal)]) / size
            name = f"centre of mass of body {self.body}: {_plane(normal)} <= {limit:g}"
            conditions.append(Condition(name, Block(Cone.POSITIVE, row[None], np.zeros(1)), "kg m", size))
        return conditions


@dataclass(frozen=True)
class CentreCone:
    """Centre of mass c in a ball, cylinder, cone or ellipsoid: ||matrix c + offset|| <= slope c + reach.

    Parameters
    ----------
    body : int
        Link, counted from 1.
    matrix : tuple of k tuples of three floats
        Matrix.
    offset : tuple of k floats
        Offset.
    slope : tuple of three floats
        Slope.
    reach : float, m
        Reach.

    """

    body: int
    matrix: tuple[tuple[float, float, float], ...]
    offset: tuple[float, ...]
    slope: tuple[float, float, float] = (0.0, 0.0, 0.0)
    reach: float = 0.0

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """Cone ||matrix h + offset m|| <= slope h + reach m."""
        ten = ten_of(columns, self.body)
        size = float(spread[ten[1]])
        lines = np.zeros((1 + len(self.offset), len(columns)))
        lines[0, ten[:4]] = (self.reach, *self.slope)
        lines[1:, ten[0]] = self.offset
        lines[1:, ten[1:4]] = self.matrix
        block = Block(Cone.BALL, lines / size, np.zeros(len(lines)))
        return [Condition(f"cone of the centre of mass of body {self.body}", block, "kg m", size)]


@dataclass(frozen=True)
class InsideEllipsoid:
    """Link of positive mass inside the ellipsoid sum ((x - centre) / semi_axes)^2 <= 1 of its joint frame.

    tr(P Q) >= 0 with Q = [[-A, A c], [c'A, 1 - c'A c]], A = diag(1 / semi_axes^2).

    Parameters
    ----------
    body : int
        Link, counted from 1.
    centre, semi_axes : tuple of three floats, m
        Centre and semi-axes.

    References
    ----------
    Wensing, Kim and Slotine 2018, eq. 21.

    """

    body: int
    centre: tuple[float, float, float]
    semi_axes: tuple[float, float, float]

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """One half-space."""
        ten = ten_of(columns, self.body)
        A = np.diag(1.0 / np.square(self.semi_axes))
        c = np.array(self.centre)
        Q = np.zeros((4, 4))
        Q[:3, :3], Q[:3, 3], Q[3, :3], Q[3, 3] = -A, A @ c, A @ c, 1.0 - c @ A @ c
        row = _row(len(columns), ten, triangle(Q) @ TRIANGLE)
        return window(f"ellipsoid of body {self.body}", row, 0.0, np.inf, "kg", float(spread[ten[0]]))


def all_conditions(
    constraints: Sequence[Convex], columns: tuple[Column, ...], spread: Float
) -> tuple[Condition, ...]:
    """Conditions of all constraints, in order.

    Parameters
    ----------
    constraints : sequence of Convex
        Constraints.
    columns : tuple of Column
        Columns of the model.
    spread : ndarray, shape (p,)
        Typical sizes.

    Returns
    -------
    tuple of Condition
        Conditions.

    """
    return tuple(c for constraint in constraints for c in constraint.conditions(columns, spread))


def ten_of(columns: tuple[Column, ...], body: int) -> Int:
    """Indices of the ten parameters of a link, counted from 1; raises UsageError if it does not exist."""
    for ten in body_columns(columns):
        if columns[ten[0]].owner == body - 1:
            return np.asarray(ten)
    raise UsageError(
        "unknown-body",
        found=f"body {body} in a constraint",
        expected=f"1 to {len(body_columns(columns))}",
    )


def window(name: str, row: Float, lower: float, upper: float, unit: str, size: float) -> list[Condition]:
    """Half-spaces lower <= row theta <= upper, in units of `size`; infinite bounds are omitted.

    Parameters
    ----------
    name : str
        Name for messages.
    row : ndarray, shape (p,)
        Linear function.
    lower, upper : float
        Limits.
    unit : str
        Unit of the limits.
    size : float
        Typical size.

    Returns
    -------
    list of Condition
        At most two conditions.

    """
    half_spaces = []
    for sign, bound, text in ((1.0, lower, ">="), (-1.0, upper, "<=")):
        if np.isfinite(bound):
            block = Block(Cone.POSITIVE, sign * row[None] / size, np.array([-sign * bound / size]))
            half_spaces.append(Condition(f"{name} {text} {bound:g}", block, unit, size))
    return half_spaces


def _row(width: int, places: Sequence[int] | Int, values: Sequence[float] | Float) -> Float:
    row = np.zeros(width)
    row[np.asarray(places, dtype=np.int64)] = values
    return row


def _plane(normal: tuple[float, float, float]) -> str:
    parts = [
        f"{'-' if v < 0 else '+'}{'' if abs(v) == 1 else f'{abs(v):.4g} '}{axis}"
        for v, axis in zip(normal, "xyz", strict=True)
        if v
    ]
    return " ".join(parts).lstrip("+")


# Conditions on the ten parameters of a link whose mass lies in a convex shape.

# Number of slab directions: more bound a link more closely and cost time.
_SLABS = 32


@dataclass(frozen=True)
class InsideHull:
    """Link of positive mass inside the convex hull of points of its joint frame.

    The centre of mass lies in the hull. Along each of 35 directions n, with low <= n x <= high in the hull, integral (n
    x - low)(high - n x) dm >= 0. Together with a positive pseudo-inertia this is exactly what makes mass, mean and
    spread along n possible between low and high. The link also lies in the smallest ellipsoid around the points. These
    conditions are linear and hold for every such link; they do not exclude quite all others.

    Parameters
    ----------
    body : int
        Link, counted from 1.
    points : tuple of k tuples of three floats, m
        Points.

    References
    ----------
    Wensing, Kim and Slotine 2018, section IV; moments on an interval: Schmuedgen 2017, theorem 10.1.

    """

    body: int
    points: tuple[tuple[float, float, float], ...]

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """Half-spaces of the centre of mass, slabs and one ellipsoid."""
        ten = ten_of(columns, self.body)
        points = np.array(self.points, dtype=np.float64)
        conditions = list(CentreHalfSpaces.hull(self.body, points).conditions(columns, spread))
        for normal in np.concatenate([np.eye(3), spread_directions(_SLABS)]):
            low, high = float((points @ normal).min()), float((points @ normal).max())
            # In units of the squared half width, so that all slabs weigh alike.
            Q = slab(normal, low, high) / ((high - low) / 2) ** 2
            name = f"body {self.body} in its hull along ({', '.join(f'{x:.2g}' for x in normal)})"
            conditions += _moment(name, Q, ten, columns, spread)
        A, centre = _ellipsoid(self.points)
        Q = np.zeros((4, 4))
        Q[:3, :3], Q[:3, 3], Q[3, :3], Q[3, 3] = -A, A @ centre, A @ centre, 1.0 - centre @ A @ centre
        return [
            *conditions,
            *_moment(f"body {self.body} in the ellipsoid around its hull", Q, ten, columns, spread),
        ]


def slab(normal: Float, low: float, high: float) -> Float:
    """Q (4, 4) with (n x - low)(high - n x) = [x; 1]' Q [x; 1], for a normal n (3,)."""
    Q = np.zeros((4, 4))
    Q[:3, :3] = -np.outer(normal, normal)
    Q[:3, 3] = Q[3, :3] = (low + high) / 2 * np.asarray(normal)
    Q[3, 3] = -low * high
    return Q


def smallest_ellipsoid(points: Float, tolerance: float = 1e-2) -> tuple[Float, Float]:
    """Ellipsoid (x - c)' A (x - c) <= 1 of least volume around points (k, 3).

    Parameters
    ----------
    points : ndarray, shape (k, 3)
        Points, all of which lie inside.
    tolerance : float
        Relative tolerance of the optimum.

    Returns
    -------
    A : ndarray, shape (3, 3)
        Matrix.
    c : ndarray, shape (3,)
        Centre.

    References
    ----------
    Khachiyan 1996; Todd and Yildirim 2007.

    """
    k, d = points.shape
    lifted = np.column_stack([points, np.ones(k)]).T
    u = np.full(k, 1.0 / k)
    for _ in range(100_000):
        M = np.einsum("ik,ik->k", lifted, np.linalg.solve((lifted * u) @ lifted.T, lifted))
        j = int(np.argmax(M))
        excess = float(M[j]) / (d + 1) - 1.0
        if excess < tolerance:
            break
        step = (float(M[j]) - d - 1.0) / ((d + 1) * (float(M[j]) - 1.0))
        u *= 1.0 - step
        u[j] += step
    centre = points.T @ u
    A = np.linalg.inv((points.T * u) @ points - np.outer(centre, centre)) / d
    away = points - centre
    return np.asarray(A / np.einsum("ki,ij,kj->k", away, A, away).max()), np.asarray(centre)


@lru_cache(maxsize=256)
def _ellipsoid(points: tuple[tuple[float, float, float], ...]) -> tuple[Float, Float]:
    # One fit uses the same few ellipsoids many times.
    A, centre = smallest_ellipsoid(np.array(points, dtype=np.float64))
    A.setflags(write=False)
    centre.setflags(write=False)
    return A, centre


def _moment(name: str, Q: Float, ten: Int, columns: tuple[Column, ...], spread: Float) -> list[Condition]:
    # tr(P Q) >= 0.
    row = np.zeros(len(columns))
    row[ten] = triangle(Q) @ TRIANGLE
    return window(name, row, 0.0, np.inf, "kg", float(spread[ten[0]]))


# Constraints that exclude every solution, and the relaxation that they need.

# Weight of a quadratic term that makes the least relaxation unique.
REGULAR = 1e-6
# Prices and relaxations below this count as zero.
SHARE = 1e-3
# Relaxation, in typical sizes, that counts as zero.
NOTHING = 1e-7
# Physical consistency itself is never relaxed.
_OF_BODIES = (Cone.SEMIDEFINITE, Cone.DENSITY)


def refuse_conflict(conditions: Sequence[Condition], reference: Float, spread: Float) -> NoReturn:
    """Raise SolverError with the constraints in conflict and the smallest total relaxation that resolves it.

    Solves min sum t_c with every condition but the physical ones relaxed by t_c of its typical size; conditions with a
    price (dual) are in conflict. A conflict that needs no relaxation is a failure of the solver, and is reported as
    such.

    Parameters
    ----------
    conditions : sequence of Condition
        Conditions.
    reference, spread : ndarray, shape (p,)
        Reference, and typical sizes.

    """
    p, soft = len(reference), [c for c in conditions if c.block.cone not in _OF_BODIES]
    n = p + len(soft)
    P = np.diag(np.concatenate([np.full(p, REGULAR), np.zeros(len(soft))]))
    q = np.concatenate([np.zeros(p), np.ones(len(soft))])
    blocks = []
    for condition in conditions:
        block = condition.around(reference, spread, n)
        if condition in soft:
            block.matrix[:, p + soft.index(condition)] = _unit(block)
        blocks.append(block)
    positive = np.hstack([np.zeros((len(soft), p)), np.eye(len(soft))])
    blocks.append(Block(Cone.POSITIVE, positive, np.zeros(len(soft))))
    answer = solve_program(P, q, blocks)
    if not soft or float(answer.x[p:].max()) < NOTHING:
        raise SolverError(
            "not-solved",
            found="constraints that the solver calls infeasible although some parameters fulfil them",
            expected="a solution that passes the checks",
            do="raise the strength of the prior, or the margin",
        )
    price = [float(_unit(c.block) @ z) for c, z in zip(conditions, answer.duals, strict=False)]
    parties = [c.name for c, value in zip(conditions, price, strict=True) if value > SHARE]
    gaps = [
        f"{c.name} by {t * c.size:.4g} {c.unit}"
        for c, t in zip(soft, answer.x[p:], strict=True)
        if t > SHARE * answer.x[p:].max()
    ]
    raise SolverError(
        "constraints-in-conflict",
        found="no parameters that fulfil " + ", ".join(parties),
        expected="constraints with a common solution; smallest change that gives one: " + ", ".join(gaps),
        do="widen or drop one of them",
    )


def _unit(block: Block) -> Float:
    if block.cone is Cone.SEMIDEFINITE:
        return triangle(np.eye(side_of(len(block.offset))))
    if block.cone is Cone.DENSITY:
        return np.append(triangle(np.eye(4)), 0.0)
    unit = np.ones(len(block.offset))
    if block.cone is Cone.BALL:
        unit[1:] = 0.0
    return unit
