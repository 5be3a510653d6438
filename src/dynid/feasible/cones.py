"""Cone programs solved with clarabel, and checked afterwards without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache
from math import isqrt
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import ResourceError, SolverError
from dynid.base.records import dataclass

# Greatest step towards the boundary of the cones: the solver's default, then a shorter one if it stalls near the
# boundary.
STEPS = (0.99, 0.9)
# Relative tolerances of the checks, above the solver's own 1e-9.
PRIMAL_TOLERANCE = 1e-7
DUAL_TOLERANCE = 1e-6
GAP_TOLERANCE = 1e-5


class Cone(StrEnum):
    """Set that the lines of a block must lie in."""

    ZERO = "zero"
    POSITIVE = "positive"
    BALL = "ball"
    SEMIDEFINITE = "semidefinite"
    EXPONENTIAL = "exponential"
    DENSITY = "density"


@dataclass(frozen=True, eq=False)
class Block:
    """Condition that offset + matrix x lies in a cone.

    A semidefinite block stores the upper triangle column by column, with off-diagonal entries times sqrt(2). A ball is
    s_0 >= ||s_1...||, an exponential cone s_1 exp(s_0 / s_1) <= s_2. A density block stores the triangle of a 4 x 4
    matrix M and a constant c: M >= 0 and det(M)^(1/4) >= c M_44^(3/2). This set is convex but not a cone, and is
    rewritten as cones with auxiliary unknowns when it is solved.

    Attributes
    ----------
    cone : Cone
        Cone.
    matrix : ndarray, shape (m, n)
        Matrix.
    offset : ndarray, shape (m,)
        Offset.

    """

    cone: Cone
    matrix: Float
    offset: Float


@dataclass(frozen=True)
class Certificate:
    """Result of the checks that are made without the solver, all relative to the size of the problem.

    Attributes
    ----------
    primal : float
        Greatest violation of a cone.
    dual : float
        Greatest violation of a dual cone or of stationarity.
    gap : float
        Difference between primal and dual objective.
    iterations : int
        Iterations of the solver.

    """

    primal: float
    dual: float
    gap: float
    iterations: int

    @property
    def ok(self) -> bool:
        """Whether all three are within their tolerances."""
        return self.primal <= PRIMAL_TOLERANCE and self.dual <= DUAL_TOLERANCE and self.gap <= GAP_TOLERANCE


@dataclass(frozen=True, eq=False)
class Answer:
    """Solution of a cone program.

    Attributes
    ----------
    x : ndarray, shape (n,)
        Solution.
    duals : tuple of ndarray
        Dual vector of each block.
    certificate : Certificate
        Result of the checks.
    feasible : bool
        False if the solver proved that no x exists.

    """

    x: Float
    duals: tuple[Float, ...]
    certificate: Certificate
    feasible: bool


def solve_cones(P: Float, q: Float, blocks: Sequence[Block]) -> Answer:
    """Minimise x'Px/2 + q'x with every block in its cone.

    Parameters
    ----------
    P : ndarray, shape (n, n)
        Positive semidefinite matrix.
    q : ndarray, shape (n,)
        Linear objective.
    blocks : sequence of Block
        Conditions.

    Returns
    -------
    Answer
        Solution.

    Raises
    ------
    SolverError
        If neither an optimum nor a proof of infeasibility passes the checks.
    ResourceError
        If clarabel is not installed.

    """
    clarabel = _clarabel()
    from scipy.sparse import csc_matrix, triu

    matrix = np.concatenate([np.zeros((0, len(q))), *(block.matrix for block in blocks)])
    offset = np.concatenate([np.zeros(0), *(block.offset for block in blocks)])
    kinds = {
        Cone.ZERO: clarabel.ZeroConeT,
        Cone.POSITIVE: clarabel.NonnegativeConeT,
        Cone.BALL: clarabel.SecondOrderConeT,
        Cone.SEMIDEFINITE: lambda m: clarabel.PSDTriangleConeT(side_of(m)),
        Cone.EXPONENTIAL: lambda _: clarabel.ExponentialConeT(),
    }
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.max_iter = 200
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-9
    cones = [kinds[block.cone](len(block.offset)) for block in blocks]
    upper, ends = (
        triu(csc_matrix(P), format="csc"),
        np.cumsum([len(block.offset) for block in blocks], dtype=np.int64),
    )
    for longest in STEPS:
        settings.max_step_fraction = longest
        solution = clarabel.DefaultSolver(upper, q, csc_matrix(-matrix), offset, cones, settings).solve()
        x, z = np.array(solution.x), np.array(solution.z)
        duals = tuple(np.split(z, ends)[:-1])
        if str(solution.status) in {"PrimalInfeasible", "AlmostPrimalInfeasible"}:
            return Answer(x, duals, Certificate(np.inf, np.inf, np.inf, solution.iterations), False)
        certificate = certify(P, q, blocks, x, duals, solution.iterations)
        if certificate.ok:
            break
    else:
        raise SolverError(
            "not-solved",
            found=f"solver status {solution.status}; checks: primal {certificate.primal:.1e}, "
            f"dual {certificate.dual:.1e}, gap {certificate.gap:.1e}",
            expected=f"at most {PRIMAL_TOLERANCE:.0e}, {DUAL_TOLERANCE:.0e}, {GAP_TOLERANCE:.0e}",
            do="widen the narrowest constraint or raise the strength of the prior",
        )
    return Answer(x, duals, certificate, True)


def certify(
    P: Float, q: Float, blocks: Sequence[Block], x: Float, duals: Sequence[Float], iterations: int = 0
) -> Certificate:
    """Check the optimality of x and the duals by definition: cones, dual cones, stationarity and duality gap.

    Parameters
    ----------
    P : ndarray, shape (n, n)
        Positive semidefinite matrix.
    q : ndarray, shape (n,)
        Linear objective.
    blocks : sequence of Block
        Conditions.
    x : ndarray, shape (n,)
        Solution.
    duals : sequence of ndarray
        Dual vector of each block.
    iterations : int
        Iterations of the solver.

    Returns
    -------
    Certificate
        Violations.

    """
    if not np.isfinite(x).all():
        return Certificate(np.inf, np.inf, np.inf, iterations)
    primal = dual = bound = 0.0
    Px = P @ x
    stationary = Px + q
    size = max(1.0, float(np.abs(Px).max(initial=0.0)), float(np.abs(q).max(initial=0.0)))
    for block, z in zip(blocks, duals, strict=True):
        scale = max(1.0, float(np.abs(block.offset).max(initial=0.0)))
        primal = max(primal, violation(block.cone, block.offset + block.matrix @ x) / scale)
        dual = max(dual, _dual_violation(block.cone, z) / max(1.0, float(np.abs(z).max(initial=0.0))))
        pull = block.matrix.T @ z
        stationary = stationary - pull
        size = max(size, float(np.abs(pull).max(initial=0.0)))
        bound += float(block.offset @ z)
    dual = max(dual, float(np.abs(stationary).max(initial=0.0)) / size)
    value = float(x @ Px / 2 + q @ x)
    gap = abs(float(x @ Px + q @ x) + bound) / max(1.0, abs(value))
    return Certificate(primal, dual, gap, iterations)


def violation(cone: Cone, s: Float) -> float:
    """Distance of s from its cone, 0 inside."""
    if cone is Cone.ZERO:
        return float(np.abs(s).max(initial=0.0))
    if cone in (Cone.POSITIVE, Cone.SEMIDEFINITE, Cone.DENSITY):
        return float(violations(cone, s[None])[0])
    if cone is Cone.BALL:
        return max(0.0, float(np.linalg.norm(s[1:]) - s[0]))
    if s[1] <= 0:
        return max(float(-s[1]), float(s[0]), float(-s[2]), 0.0)
    return max(0.0, float(s[1] * np.exp(min(s[0] / s[1], 700.0)) - s[2]))


def violations(cone: Cone, s: Float) -> Float:
    """Distances (k,) of many s (k, m) from one cone."""
    if cone is Cone.POSITIVE:
        return np.asarray(np.maximum(-s, 0.0).max(axis=1, initial=0.0))
    if cone is Cone.SEMIDEFINITE:
        return np.asarray(np.maximum(-np.linalg.eigvalsh(from_triangle(s))[:, 0], 0.0))
    if cone is Cone.DENSITY:
        return np.maximum(-_density_margins(s), 0.0)
    return np.array([violation(cone, values) for values in s])


def slack(block: Block, x: Float) -> float:
    """Distance of offset + matrix x inside its cone, negative outside; not for exponential cones."""
    s = block.offset + block.matrix @ x
    if block.cone is Cone.BALL:
        return float(s[0] - np.linalg.norm(s[1:]))
    if block.cone is Cone.DENSITY:
        return float(_density_margins(s[None])[0])
    if block.cone is Cone.SEMIDEFINITE:
        return float(np.linalg.eigvalsh(from_triangle(s))[0])
    return float(-np.abs(s).max()) if block.cone is Cone.ZERO else float(s.min())


def _density_margins(s: Float) -> Float:
    # det(M)^(1/4) - c M_44^(3/2), or the least eigenvalue of M if that is negative, (k,) of (k, 11).
    values = np.linalg.eigvalsh(from_triangle(s[:, :10]))
    root = np.maximum(values, 0.0).prod(axis=1) ** 0.25
    return np.where(values[:, 0] < 0, values[:, 0], root - s[:, 10] * np.maximum(s[:, 9], 0.0) ** 1.5)


def _dual_violation(cone: Cone, z: Float) -> float:
    if cone is Cone.ZERO:
        return 0.0
    if cone is Cone.EXPONENTIAL:
        u, v, w = z
        if u >= 0:
            return max(float(u), float(-v), float(-w), 0.0)
        return max(0.0, float(-u * np.exp(min(v / u, 700.0)) - np.e * w))
    return violation(cone, z)


def triangle(matrix: Float) -> Float:
    """Upper triangle of a symmetric matrix, column by column, with off-diagonal entries times sqrt(2)."""
    rows, columns, scale = _places(len(matrix))
    return np.asarray(matrix[rows, columns] * scale)


def from_triangle(s: Float) -> Float:
    """Symmetric matrix of a `triangle`, or matrices (k, n, n) of (k, m)."""
    n = side_of(s.shape[-1])
    rows, columns, scale = _places(n)
    M = np.zeros((*s.shape[:-1], n, n))
    M[..., rows, columns] = M[..., columns, rows] = s / scale
    return M


@cache
def _places(n: int) -> tuple[Int, Int, Float]:
    # Row, column and scale of each entry of a triangle.
    rows, columns = np.array([(i, j) for j in range(n) for i in range(j + 1)]).T
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def side_of(m: int) -> int:
    """Side of the matrix whose triangle has m entries."""
    return (isqrt(8 * m + 1) - 1) // 2


def _clarabel() -> Any:
    try:
        import clarabel
    except ImportError as error:
        raise ResourceError(
            "no-clarabel",
            found="no package clarabel",
            expected="the solver of cone programs",
            do="pip install clarabel",
        ) from error
    return clarabel


# Cones for the determinant of a 4 x 4 matrix that is linear in the unknowns, and for its lower bound.

# Number of unknowns that `below_determinant`, `fourth_root` and `three_halves` add.
LOWER, ROOT, POWER = 10, 3, 1
_PLACES = [(i, j) for j in range(4) for i in range(j, 4)]
_DIAGONAL = [k for k, (i, j) in enumerate(_PLACES) if i == j]


def solve_program(P: Float, q: Float, blocks: Sequence[Block]) -> Answer:
    """Minimise x'Px/2 + q'x as `solve_cones`, with blocks of Cone.DENSITY rewritten as cones.

    Parameters
    ----------
    P : ndarray, shape (n, n)
        Positive semidefinite matrix.
    q : ndarray, shape (n,)
        Linear objective.
    blocks : sequence of Block
        Conditions.

    Returns
    -------
    Answer
        x (n,) without auxiliary unknowns, and one dual vector per block. The dual of a density block is that of its
        matrix, with 0 for its constant.

    """
    dense = [k for k, block in enumerate(blocks) if block.cone is Cone.DENSITY]
    if not dense:
        return solve_cones(P, q, blocks)
    n, added = len(q), LOWER + ROOT + POWER
    width = n + added * len(dense)
    wide = [replace(block, matrix=_widened(block.matrix, width)) for block in blocks]
    further: list[Block] = []
    for place, k in enumerate(dense):
        z = n + added * place
        matrix, offset, c = wide[k].matrix[:10], wide[k].offset[:10], float(wide[k].offset[10])
        wide[k] = below_determinant(matrix, offset, z)
        further += fourth_root(z, z + LOWER, width)
        root = np.eye(width)[z + LOWER + 2]
        further += three_halves(root / c, matrix[9], float(offset[9]), z + LOWER + ROOT)
    answer = solve_cones(np.pad(P, (0, width - n)), np.pad(q, (0, width - n)), [*wide, *further])
    duals = list(answer.duals[: len(blocks)])
    for k in dense:
        duals[k] = np.append(triangle(from_triangle(duals[k])[:4, :4]), 0.0)
    return replace(answer, x=answer.x[:n], duals=tuple(duals))


def _widened(matrix: Float, width: int) -> Float:
    # np.pad is several times slower on the thousands of half-spaces of meshes.
    wide = np.zeros((len(matrix), width))
    wide[:, : matrix.shape[1]] = matrix
    return wide


def below_determinant(matrix: Float, offset: Float, z: int) -> Block:
    """[[M, Z], [Z', diag Z]] >= 0, so that det M >= Z_11 Z_22 Z_33 Z_44, with equality for the best Z.

    Parameters
    ----------
    matrix : ndarray, shape (10, n)
        Triangle of M, linear part.
    offset : ndarray, shape (10,)
        Triangle of M, constant part.
    z : int
        Index of the first of the ten unknowns of lower triangular Z.

    References
    ----------
    Ben-Tal and Nemirovski 2001, section 4.2.

    """
    n = matrix.shape[1]
    lines = np.zeros((36, n))
    for column in np.flatnonzero(matrix.any(axis=0)):
        lines[:, column] = triangle(_in_corner(from_triangle(matrix[:, column])))
    for k, (row, of) in enumerate(_PLACES):
        unit = np.zeros((8, 8))
        unit[row, 4 + of] = unit[4 + of, row] = 1.0
        if row == of:
            unit[4 + row, 4 + row] = 1.0
        lines[:, z + k] = triangle(unit)
    return Block(Cone.SEMIDEFINITE, lines, triangle(_in_corner(from_triangle(offset))))


def diagonal(z: int) -> list[int]:
    """Indices of Z_11 ... Z_44 of `below_determinant`."""
    return [z + k for k in _DIAGONAL]


def fourth_root(z: int, g: int, n: int) -> list[Block]:
    """Blocks for x[g + 2] <= (Z_11 Z_22 Z_33 Z_44)^(1/4), by way of x[g] and x[g + 1].

    Parameters
    ----------
    z : int
        Index of the first unknown of Z, see `below_determinant`.
    g : int
        Index of the first of the three unknowns.
    n : int
        Number of unknowns.

    """
    first, second, third, fourth = (np.eye(n)[k] for k in diagonal(z))
    half, other, root = np.eye(n)[g : g + ROOT]
    return [mean(half, first, second), mean(other, third, fourth), mean(root, half, other)]


def three_halves(power: Float, mass: Float, offset: float, v: int) -> list[Block]:
    """Blocks for power x >= (mass x + offset)^(3/2), by way of x[v] <= (mass x + offset)^(1/2).

    Parameters
    ----------
    power, mass : ndarray, shape (n,)
        Linear functions.
    offset : float
        Offset.
    v : int
        Index of the auxiliary unknown.

    """
    n = len(mass)
    root = np.eye(n)[v]
    # power v >= mass^2 and mass >= v^2
    upper = Block(
        Cone.BALL, np.array([power + root, 2.0 * mass, power - root]), np.array([0.0, 2.0 * offset, 0.0])
    )
    lower = Block(Cone.BALL, np.array([mass, 2.0 * root, mass]), np.array([offset + 1.0, 0.0, offset - 1.0]))
    return [upper, lower]


def mean(root: Float, a: Float, b: Float) -> Block:
    """Block for root x <= sqrt((a x) (b x)), with both factors not negative."""
    return Block(Cone.BALL, np.array([a + b, 2.0 * root, a - b]), np.zeros(3))


def _in_corner(M: Float) -> Float:
    whole = np.zeros((8, 8))
    whole[:4, :4] = M
    return whole
