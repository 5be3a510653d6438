"""Feasible parameters closest to data or coefficients: one convex program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.feasible.bodies import BARRIER, barrier, least_eigenvalues
from dynid.feasible.cones import Answer, Block, Certificate, Cone, slack, solve_program
from dynid.feasible.constraints import Convex, refuse_conflict
from dynid.feasible.distance import divergence, entropic_program
from dynid.feasible.interior import Entropic, Whitened, entropic_optimum
from dynid.feasible.region import INSIDE, Setting
from dynid.terms.exports import Column

# Weight of the barrier against the border of consistency, in variances of one equation: it may cost a hundredth of one.
BARRIER_WEIGHT = 1e-2
# Weight of the prior after scaling: far above the tolerance of the solver, far below one.
PRIOR_WEIGHT = 1e-2
# Distance from a constraint, in its size, at which it counts as active.
ACTIVE = 1e-5
# Factor and number of increases of the distance's weight if the cone solver stalls.
_RAISED, _RAISES = 10.0, 6


class Distance(StrEnum):
    """Distance of parameters from their prior.

    euclidean: sum ((theta - prior) / spread)^2. entropic: for links sum tr(P0^-1 P) - log det(P0^-1 P) - 4, the Bregman
    divergence of the pseudo-inertias, which is unbounded where a link stops being physical, and does not depend on
    frames and units.
    """

    EUCLIDEAN = "euclidean"
    ENTROPIC = "entropic"


@dataclass(frozen=True, eq=False)
class Feasible:
    """Physically consistent parameters and their certificate.

    Attributes
    ----------
    parameters : ndarray, shape (p,)
        Parameters.
    cost : float
        ||A theta - y||^2.
    certificate : Certificate
        Certificate of optimality.
    seconds : float, s
        Computing time.
    task : Task
        Problem that was solved.

    """

    parameters: Float
    cost: float
    certificate: Certificate
    seconds: float
    task: Task

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", locked(self.parameters, (None,), "parameters"))

    @cached_property
    def distance(self) -> float:
        """Distance from the prior."""
        return self.task.away(self.parameters) / PRIOR_WEIGHT

    @cached_property
    def least_eigenvalue(self) -> Float:
        """Least eigenvalue (links,) of the pseudo-inertias."""
        eigenvalues = least_eigenvalues(self.task.setting.columns, self.parameters)
        return locked(eigenvalues, (None,), "least_eigenvalue")

    @cached_property
    def active(self) -> tuple[str, ...]:
        """Names of the active constraints."""
        conditions = self.task.setting.conditions
        return tuple(c.name for c in conditions if slack(c.block, self.parameters) <= ACTIVE)


def feasible_parameters(
    A: Float,
    y: Float,
    columns: tuple[Column, ...],
    constraints: Sequence[Convex],
    prior: Float,
    spread: Float,
    strength: float,
    distance: Distance = Distance.EUCLIDEAN,
    pull: Float | None = None,
) -> Feasible:
    """Minimise ||A theta - y||^2 + strength distance(theta, prior) under convex constraints.

    Parameters
    ----------
    A : ndarray, shape (r, p)
        Rows of data or of coefficients.
    y : ndarray, shape (r,)
        Right side.
    columns : tuple of Column
        Columns of the model.
    constraints : sequence of Convex
        Constraints.
    prior : ndarray, shape (p,)
        Prior; nan = unknown.
    spread : ndarray, shape (p,)
        Typical sizes, > 0.
    strength : float
        Weight of the prior, > 0.
    distance : Distance
        Distance from the prior.
    pull : ndarray, shape (p,), optional
        Weight > 0 of each parameter in the distance; None = 1. In the entropic distance the weight of a mass
        counts for its whole link.

    Returns
    -------
    Feasible
        Parameters.

    Raises
    ------
    SolverError
        If the constraints exclude every solution, with those in conflict, or if the solution does not pass the checks.
    UsageError
        If shapes disagree.

    """
    p = len(columns)
    if A.ndim != 2 or A.shape[1] != p or y.shape != (len(A),) or prior.shape != (p,) or spread.shape != (p,):
        raise UsageError(
            "feasible-shapes",
            found=f"A {A.shape}, y {y.shape}, prior {prior.shape}, spread {spread.shape} for {p} parameters",
            expected="A (r, p), y (r,), prior (p,), spread (p,)",
        )
    return nearest(A, y, Setting.of(columns, constraints, prior, spread), strength, distance, pull)


def nearest(
    A: Float,
    y: Float,
    setting: Setting,
    strength: float,
    distance: Distance,
    pull: Float | None = None,
    near: Float | None = None,
) -> Feasible:
    """`feasible_parameters` in a setting that many programs share.

    Parameters
    ----------
    A : ndarray, shape (r, p)
        Rows of data or of coefficients.
    y : ndarray, shape (r,)
        Right side.
    setting : Setting
        Constraints, prior and typical sizes.
    strength : float
        Weight of the prior, > 0.
    distance : Distance
        Distance from the prior.
    pull : ndarray, shape (p,), optional
        Weight of each parameter in the distance; None = 1.
    near : ndarray, shape (p,), optional
        Solution of a similar program, from which the search for the entropic optimum starts.

    Returns
    -------
    Feasible
        Parameters.

    """
    started = time.perf_counter()
    p, spread = len(setting.columns), setting.spread
    if not strength > 0:
        raise UsageError("prior-strength", found=f"strength = {strength}", expected="a number > 0")
    if not (np.isfinite(A).all() and np.isfinite(y).all()):
        raise UsageError("feasible-values", found="nan or inf in A or y", expected="finite numbers")
    weight = PRIOR_WEIGHT * (np.ones(p) if pull is None else pull)
    if not (weight > 0).all():
        raise UsageError("prior-pull", found=f"pull = {pull}", expected="numbers > 0")
    rows = _triangular(np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT / strength))
    task = Task(rows, setting, weight, distance, near if distance is Distance.ENTROPIC else None)
    theta, certificate = _optimum(task)
    theta = np.where(setting.absent, 0.0, theta)
    # Rounding may leave a value just beyond its bound, which file formats may reject.
    theta = np.where(np.abs(theta - setting.lower) < INSIDE * spread, setting.lower, theta)
    cost = float(np.sum((A @ theta - y) ** 2))
    return Feasible(theta, cost, certificate, time.perf_counter() - started, task)


def least_squares_within(
    A: Float, y: Float, setting: Setting, optimum: Float | None = None, barrier: float = BARRIER_WEIGHT
) -> Feasible:
    """Minimise ||A theta - y||^2 within a setting, for equations that determine every parameter of the robot.

    A barrier keeps links off the border of consistency: the entropic distance from the centre of the setting.

    Parameters
    ----------
    A : ndarray, shape (r, p)
        Equations, zero for absent parameters.
    y : ndarray, shape (r,)
        Right side.
    setting : Setting
        Constraints and typical sizes.
    optimum : ndarray, shape (p,), optional
        The minimum over links and bounds alone; it is the answer if it fulfils the constraints.
    barrier : float
        Weight of the barrier.

    Returns
    -------
    Feasible
        Parameters.

    """
    if optimum is None or setting.violated(optimum):
        return nearest(A, y, setting, barrier, Distance.ENTROPIC)
    rows = np.column_stack([A * setting.spread, y])
    task = Task(rows, setting, np.ones(len(optimum)), Distance.EUCLIDEAN, optimum)
    return Feasible(optimum, float(np.sum((A @ optimum - y) ** 2)), Certificate(0.0, 0.0, 0.0, 0), 0.0, task)


@dataclass(frozen=True, eq=False)
class Task:
    """Minimise ||X (theta / spread) - z||^2 + weighted distance(theta, centre) under the conditions of a setting.

    Attributes
    ----------
    rows : ndarray, shape (k, p + 1)
        [X, z].
    setting : Setting
        Constraints, prior and typical sizes.
    weight : ndarray, shape (p,)
        Weight of each parameter in the distance.
    distance : Distance
        Distance from the centre.
    start : ndarray, shape (p,), optional
        Start of the programs; any will do, a near one is more accurate. None = the minimum without conditions, with
        squares as distances.

    """

    rows: Float
    setting: Setting
    weight: Float
    distance: Distance
    start: Float | None = None

    @property
    def bodies(self) -> Int:
        """Columns (nb, 10) of each link."""
        return self.setting.bodies

    @property
    def centre(self) -> Float:
        """Centre (p,) of the distance."""
        return self.setting.centre

    @property
    def spread(self) -> Float:
        """Typical sizes (p,) of the unknowns."""
        return self.setting.spread

    @property
    def reference(self) -> Float:
        """Start (p,) of the programs."""
        return self.whitened.reference

    @cached_property
    def pulled(self) -> Bool:
        """Parameters (p,) that the prior pulls by a square of their own."""
        mask = np.ones(len(self.spread), dtype=np.bool_)
        if self.distance is not Distance.EUCLIDEAN:
            mask[self.bodies] = False
        return mask

    @cached_property
    def whitened(self) -> Whitened:
        """Unknowns in which all directions have the same curvature."""
        return Whitened.of(self.rows, self.start, self.centre, self.spread, self.weight)

    def away(self, theta: Float) -> float:
        """Weighted distance of parameters from the centre."""
        far = self.weight * ((theta - self.centre) / self.spread) ** 2
        squares = float(np.where(self.pulled, far, 0.0).sum())
        if self.distance is Distance.EUCLIDEAN:
            return squares
        return squares + sum(
            float(self.weight[ten[0]]) * self._measure(theta[ten], self.centre[ten]) for ten in self.bodies
        )

    def _measure(self, pi: Float, prior: Float) -> float:
        compactness = self.setting.compactness
        if not compactness:
            return divergence(pi, prior)
        return (1.0 - BARRIER) * divergence(pi, prior) + BARRIER * barrier(pi, prior, compactness)

    def value(self, theta: Float) -> float:
        """Objective at parameters (p,)."""
        residual = self.rows[:, :-1] @ (theta / self.spread) - self.rows[:, -1]
        return float(residual @ residual) + self.away(theta)

    def cones(self, first: int) -> tuple[Float, list[Block]]:
        """Linear objective (n,) and blocks in d, theta = reference + spread d; auxiliary unknowns begin at `first`."""
        linear, blocks = np.zeros(first), list[Block]()
        if self.distance is Distance.ENTROPIC:
            linear, blocks = entropic_program(
                self.bodies,
                self.reference,
                self.centre,
                self.spread,
                self.weight,
                first,
                self.setting.compactness,
            )
        n = len(linear)
        blocks += [c.around(self.reference, self.spread, n) for c in self.setting.conditions]
        return linear, blocks


def _optimum(task: Task) -> tuple[Float, Certificate]:
    if task.distance is Distance.EUCLIDEAN and not task.setting.violated(task.reference):
        return task.reference, Certificate(0.0, 0.0, 0.0, 0)
    if task.distance is not Distance.ENTROPIC:
        return _solved(task)
    optimum = _interior(task)
    if optimum is not None:
        return optimum
    try:
        return _solved(task)
    except SolverError as error:
        inner = _further_inside(task) if error.identifier == "not-solved" else None
        if inner is None:
            raise
        return inner


def _further_inside(task: Task) -> tuple[Float, Certificate] | None:
    """Entropic optimum with the least increased weight of the distance that fulfils all conditions; None if none does.

    It is feasible and slightly nearer to the prior than the true optimum. The difference is unknown, so gap = inf.
    """
    for k in range(1, _RAISES + 1):
        optimum = _interior(replace(task, weight=task.weight * _RAISED**k))
        if optimum is not None:
            return optimum[0], replace(optimum[1], gap=np.inf)
    return None


def _interior(task: Task) -> tuple[Float, Certificate] | None:
    """Entropic optimum by Newton's method; None if it stalls or violates conditions that it does not handle."""
    setting = task.setting
    program = Entropic(task.whitened, setting.bodies, setting.centre, task.weight, setting.compactness)
    optimum = entropic_optimum(program, setting.region, task.start)
    return None if optimum is None or setting.violated(optimum[0]) else optimum


def _triangular(rows: Float) -> Float:
    # The same ||A x - y||^2 up to a constant, in at most p lines.
    if len(rows) < rows.shape[1]:
        return rows
    return np.asarray(np.linalg.qr(rows, mode="r")[:-1])


def _solved(task: Task) -> tuple[Float, Certificate]:
    # The first form suits data of very different information per direction, the second links far from their priors. If
    # the solver stalls in one, the other may succeed.
    programs = (_whitened_program, _residual_program)
    for program in programs:
        try:
            answer, theta = program(task)
        except SolverError as error:
            if error.identifier != "not-solved" or program is programs[-1]:
                raise
            continue
        break
    if not answer.feasible:
        refuse_conflict(task.setting.conditions, task.reference, task.spread)
    return theta, answer.certificate


def _whitened_program(task: Task) -> tuple[Answer, Float]:
    # Unknowns: as in `Whitened`, then the unknowns of the entropic distance.
    p, program = len(task.spread), task.whitened
    data, prior, T = program.data, program.prior * task.pulled[:, None], program.T
    q, blocks = task.cones(p)
    P = np.zeros((len(q), len(q)))
    P[:p, :p] = 2.0 * (data.T @ data + prior.T @ prior)
    q[:p] = T.T @ q[:p] + 2.0 * (data.T @ program.start + prior.T @ (np.sqrt(task.weight) * program.away))
    answer = solve_program(P, q, [replace(block, matrix=_in_unknowns(block.matrix, T)) for block in blocks])
    return answer, program.theta(answer.x[:p])


def _residual_program(task: Task) -> tuple[Answer, Float]:
    # Unknowns: d with theta = reference + spread d, the residuals r, and the unknowns of the entropic distance.
    # Explicit residuals avoid the square of the condition number.
    p, k = len(task.spread), len(task.rows)
    X = task.rows[:, :-1]
    start = X @ (task.reference / task.spread) - task.rows[:, -1]
    weight = 2.0 * task.weight * task.pulled
    q, blocks = task.cones(p + k)
    n = len(q)
    P = np.diag(np.concatenate([weight, np.full(k, 2.0), np.zeros(n - p - k)]))
    q[:p] += weight * ((task.reference - task.centre) / task.spread)
    residual = np.zeros((k, n))
    residual[:, :p], residual[:, p : p + k] = X, -np.eye(k)
    answer = solve_program(P, q, [Block(Cone.ZERO, residual, start), *blocks])
    return answer, np.asarray(task.reference + task.spread * answer.x[:p])


def _in_unknowns(matrix: Float, T: Float) -> Float:
    p = len(T)
    return np.concatenate([matrix[:, :p] @ T, matrix[:, p:]], axis=1)
