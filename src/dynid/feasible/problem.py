"""The feasible parameters closest to data or coefficients: one convex program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import SolverError, UsageError
from dynid.feasible.bodies import body_columns, least_eigenvalues, plausible
from dynid.feasible.cones import Answer, Block, Certificate, Cone, slack, solve_cones
from dynid.feasible.conflict import refuse_conflict
from dynid.feasible.constraints import Condition, Convex, all_conditions
from dynid.feasible.entropic import divergence, entropic_program
from dynid.feasible.geodesic import geodesic, linearised
from dynid.feasible.interior import Entropic, entropic_optimum
from dynid.feasible.whitened import Whitened
from dynid.terms.term import Column

# The program is scaled so that the prior weighs this much: far above the solver's tolerance, far below one.
PRIOR_WEIGHT = 1e-2
INSIDE = 1e-9
ACTIVE = 1e-5
# Convex steps of the geodesic distance: most of them, and the relative gain below which they end.
_STEPS, _GAIN = 40, 1e-6


class Distance(StrEnum):
    """How far parameters are from their prior.

    euclidean: sum ((theta - prior) / spread)^2.    entropic: for bodies sum tr(P0^-1 P) - log det(P0^-1 P) - 4, the
    Bregman divergence of the pseudo-inertias, which grows without bound where a body stops being physical.
    geodesic: for bodies sum ||log(P0^-1/2 P P0^-1/2)||^2 / 2, the Riemannian distance: free of frames and units like
    the entropic one, and the same for a body too heavy or too light by one factor. Solved by convex steps.
    """

    EUCLIDEAN = "euclidean"
    ENTROPIC = "entropic"
    GEODESIC = "geodesic"


@dataclass(frozen=True, eq=False)
class Feasible:
    """Physically consistent parameters, and the evidence.

    parameters: (p,).    cost: ||A theta - y||^2.    distance: from the prior.
    least_eigenvalue: (bodies,) of the pseudo-inertias.    active: names of the constraints that hold the answer.
    certificate: of optimality.    seconds: taken.
    """

    parameters: Float
    cost: float
    distance: float
    least_eigenvalue: Float
    active: tuple[str, ...]
    certificate: Certificate
    seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", locked(self.parameters, (None,), "parameters"))
        object.__setattr__(
            self, "least_eigenvalue", locked(self.least_eigenvalue, (None,), "least_eigenvalue")
        )


def feasible_parameters(
    A: Float,
    y: Float,
    columns: tuple[Column, ...],
    constraints: Sequence[Convex],
    prior: Float,
    spread: Float,
    strength: float,
    distance: Distance = Distance.EUCLIDEAN,
) -> Feasible:
    """Min ||A theta - y||^2 + strength distance(theta, prior) under convex constraints.

    A: (r, p), rows of data or of coefficients.    y: (r,).    prior: (p,), nan = unknown.    spread: (p,) > 0.
    Raises SolverError (exit code 5) when the constraints exclude every solution, naming those in conflict, and when an
    answer does not pass the checks; UsageError for shapes that disagree.
    """
    started = time.perf_counter()
    p = len(columns)
    if A.ndim != 2 or A.shape[1] != p or y.shape != (len(A),) or prior.shape != (p,) or spread.shape != (p,):
        raise UsageError(
            "feasible-shapes",
            found=f"A {A.shape}, y {y.shape}, prior {prior.shape}, spread {spread.shape} for {p} parameters",
            expected="A (r, p), y (r,), prior (p,), spread (p,)",
        )
    if not strength > 0:
        raise UsageError("prior-strength", found=f"strength = {strength}", expected="a number > 0")
    if not (np.isfinite(A).all() and np.isfinite(y).all()):
        raise UsageError("feasible-values", found="nan or inf in A or y", expected="finite numbers")
    centre = plausible(columns, prior, spread)
    conditions = all_conditions(constraints, columns, spread)
    rows = _triangular(np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT / strength))
    reference = _without_constraints(rows, centre, spread)
    if distance is Distance.EUCLIDEAN and all(c.violation(reference) <= INSIDE * c.size for c in conditions):
        theta, certificate = reference, Certificate(0.0, 0.0, 0.0, 0)
    else:
        found = None
        if distance is Distance.ENTROPIC:
            found = _interior(rows, reference, columns, conditions, centre, spread)
        solve = _geodesic if distance is Distance.GEODESIC else _solved
        theta, certificate = found or solve(rows, reference, columns, conditions, centre, spread, distance)
    return Feasible(
        parameters=theta,
        cost=float(np.sum((A @ theta - y) ** 2)),
        distance=_away(theta, columns, centre, spread, distance),
        least_eigenvalue=least_eigenvalues(columns, theta),
        active=tuple(c.name for c in conditions if slack(c.block, theta) <= ACTIVE),
        certificate=certificate,
        seconds=time.perf_counter() - started,
    )


def _away(
    theta: Float, columns: tuple[Column, ...], centre: Float, spread: Float, distance: Distance
) -> float:
    far = ((theta - centre) / spread) ** 2
    if distance is Distance.EUCLIDEAN:
        return float(far.sum())
    bodies = body_columns(columns)
    far[bodies] = 0.0
    measure = divergence if distance is Distance.ENTROPIC else geodesic
    return float(far.sum()) + sum(measure(theta[ten], centre[ten]) for ten in bodies)


def _interior(
    rows: Float,
    reference: Float,
    columns: tuple[Column, ...],
    conditions: Sequence[Condition],
    centre: Float,
    spread: Float,
) -> tuple[Float, Certificate] | None:
    """The entropic optimum if no constraint but bounds of single parameters holds it; None where cones are needed."""
    bodies = body_columns(columns)
    lower, upper = (np.array([getattr(c, end) for c in columns]) for end in ("lower", "upper"))
    program = Whitened.of(rows, reference, centre, spread, PRIOR_WEIGHT)
    found = entropic_optimum(Entropic(program, bodies, centre, PRIOR_WEIGHT), lower, upper)
    if found is None or any(c.violation(found[0]) > INSIDE * c.size for c in conditions):
        return None
    return found


def _geodesic(
    rows: Float,
    reference: Float,
    columns: tuple[Column, ...],
    conditions: Sequence[Condition],
    centre: Float,
    spread: Float,
    distance: Distance,
) -> tuple[Float, Certificate]:
    # Gauss-Newton: each step is a convex program with the logarithm in its linear form, halved until the whole cost
    # falls; the way between two feasible points is feasible.
    bodies = body_columns(columns)

    def whole(theta: Float) -> float:
        missed = rows[:, :-1] @ (theta / spread) - rows[:, -1]
        return float(missed @ missed) + PRIOR_WEIGHT * _away(theta, columns, centre, spread, distance)

    try:
        start = _solved(rows, reference, columns, conditions, centre, spread, Distance.ENTROPIC)
    except SolverError:
        start = _solved(rows, reference, columns, conditions, centre, spread, Distance.EUCLIDEAN)
    theta, certificate = start
    value = whole(theta)
    for _ in range(_STEPS):
        further = np.zeros((10 * len(bodies), len(columns) + 1))
        for b, ten in enumerate(bodies):
            J, r = linearised(theta[ten], centre[ten])
            lines = slice(10 * b, 10 * b + 10)
            further[lines, ten], further[lines, -1] = J * spread[ten], r
        stacked = _triangular(np.concatenate([rows, np.sqrt(PRIOR_WEIGHT) * further]))
        aim, checked = _solved(stacked, theta, columns, conditions, centre, spread, distance)
        step, gain = 1.0, 0.0
        while step > 1e-3 and not (gain := value - whole(theta + step * (aim - theta))) > 0:
            step /= 2
        if gain <= 0:
            break
        theta, value, certificate = theta + step * (aim - theta), value - gain, checked
        if gain < _GAIN * value:
            break
    return theta, certificate


def _triangular(rows: Float) -> Float:
    # Same ||A x - y||^2 up to a constant in at most p lines.
    if len(rows) < rows.shape[1]:
        return rows
    return np.asarray(np.linalg.qr(rows, mode="r")[:-1])


def _without_constraints(rows: Float, centre: Float, spread: Float) -> Float:
    # theta = centre + spread x with min ||X x - z||^2 + w ||x||^2; y stands for A theta, so A centre is taken off.
    X = rows[:, :-1]
    z = rows[:, -1] - X @ (centre / spread)
    p = X.shape[1]
    stacked = np.concatenate([X, np.sqrt(PRIOR_WEIGHT) * np.eye(p)])
    x = np.linalg.lstsq(stacked, np.concatenate([z, np.zeros(p)]), rcond=None)[0]
    return np.asarray(centre + spread * x)


def _solved(
    rows: Float,
    reference: Float,
    columns: tuple[Column, ...],
    conditions: Sequence[Condition],
    centre: Float,
    spread: Float,
    distance: Distance,
) -> tuple[Float, Certificate]:
    # Data that know some directions a million times better than others want the first form, bodies far from their
    # priors the second; a solver that stalls in the one may go through in the other.
    programs = (_whitened_program, _residual_program)
    for program in programs:
        try:
            answer, theta = program(rows, reference, columns, conditions, centre, spread, distance)
        except SolverError as error:
            if error.identifier != "not-solved" or program is programs[-1]:
                raise
            continue
        break
    if not answer.feasible:
        refuse_conflict(conditions, reference, spread)
    return theta, answer.certificate


def _whitened_program(
    rows: Float,
    reference: Float,
    columns: tuple[Column, ...],
    conditions: Sequence[Condition],
    centre: Float,
    spread: Float,
    distance: Distance,
) -> tuple[Answer, Float]:
    # Unknowns: those of `Whitened`, and what the entropic distance adds.
    p = len(columns)
    program = Whitened.of(rows, reference, centre, spread, PRIOR_WEIGHT)
    pulled = np.ones(p, dtype=np.bool_)
    linear, blocks = np.zeros(p), list[Block]()
    bodies = body_columns(columns)
    if distance is not Distance.EUCLIDEAN:
        pulled[bodies] = False
    if distance is Distance.ENTROPIC:
        linear, blocks = entropic_program(bodies, reference, centre, spread, p)
    n = len(linear)
    data, prior, T = program.data, program.prior * pulled[:, None], program.T
    P = np.zeros((n, n))
    P[:p, :p] = 2.0 * (data.T @ data + prior.T @ prior)
    q = PRIOR_WEIGHT * linear
    q[:p] = T.T @ q[:p] + 2.0 * (data.T @ program.start + np.sqrt(PRIOR_WEIGHT) * (prior.T @ program.away))
    blocks = [replace(block, matrix=_turned(block.matrix, T)) for block in blocks]
    for condition in conditions:
        block = condition.block
        matrix = np.zeros((len(block.offset), n))
        matrix[:, :p] = block.matrix * spread @ T
        blocks.append(Block(block.cone, matrix, block.offset + block.matrix @ reference))
    answer = solve_cones(P, q, blocks)
    return answer, program.theta(answer.x[:p])


def _residual_program(
    rows: Float,
    reference: Float,
    columns: tuple[Column, ...],
    conditions: Sequence[Condition],
    centre: Float,
    spread: Float,
    distance: Distance,
) -> tuple[Answer, Float]:
    # Unknowns: d with theta = reference + spread d, the residuals r, and what the entropic distance adds. Residuals
    # of their own keep the square of the condition number out.
    p, k = len(columns), len(rows)
    X = rows[:, :-1]
    start = X @ (reference / spread) - rows[:, -1]
    away = (reference - centre) / spread
    weight = np.full(p, 2.0 * PRIOR_WEIGHT)
    linear, blocks = np.zeros(p + k), list[Block]()
    bodies = body_columns(columns)
    if distance is not Distance.EUCLIDEAN:
        weight[bodies] = 0.0
    if distance is Distance.ENTROPIC:
        linear, blocks = entropic_program(bodies, reference, centre, spread, p + k)
    n = len(linear)
    P = np.diag(np.concatenate([weight, np.full(k, 2.0), np.zeros(n - p - k)]))
    q = PRIOR_WEIGHT * linear
    q[:p] += weight * away
    residual = np.zeros((k, n))
    residual[:, :p], residual[:, p : p + k] = X, -np.eye(k)
    blocks = [Block(Cone.ZERO, residual, start), *blocks]
    for condition in conditions:
        block = condition.block
        matrix = np.zeros((len(block.offset), n))
        matrix[:, :p] = block.matrix * spread
        blocks.append(Block(block.cone, matrix, block.offset + block.matrix @ reference))
    answer = solve_cones(P, q, blocks)
    return answer, np.asarray(reference + spread * answer.x[:p])


def _turned(matrix: Float, T: Float) -> Float:
    p = len(T)
    return np.concatenate([matrix[:, :p] @ T, matrix[:, p:]], axis=1)
