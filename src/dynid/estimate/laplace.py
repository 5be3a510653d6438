"""The posterior of physically consistent bodies, expanded in coordinates in which every point is such a body."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.feasible.bodies import body_columns, plausible
from dynid.feasible.constraints import ColumnBounds, PhysicalBodies
from dynid.feasible.problem import feasible_parameters
from dynid.feasible.refinement import Chart
from dynid.spatial.inertia import pseudo_inertia
from dynid.terms.term import Column

STEP = 1e-5
ROUNDS = 500
# Squared Newton decrement at which the mode is found, and below which whole steps are safe.
CONVERGED, CLOSE = 1e-10, 0.05
# Eigenvalues of the correlations below this are rounding.
SHARPEST = 1e-8
MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class Posterior:
    """Laplace approximation of a posterior over full parameters.

    x: (p,) mode in the coordinates of the chart.    curvature: (p, p) of minus the log density there.
    parameters: (p,) at the mode.    covariance: (p, p) of parameters, linearised there.
    prior_share: (p,) posterior over prior variance of each parameter: near 1 the prior alone speaks.
    """

    columns: tuple[Column, ...]
    problem: Problem
    x: Float
    curvature: Float
    parameters: Float
    covariance: Float
    prior_share: Float

    def __post_init__(self) -> None:
        p = len(self.columns)
        for name, shape in (
            ("x", (p,)),
            ("curvature", (p, p)),
            ("parameters", (p,)),
            ("covariance", (p, p)),
            ("prior_share", (p,)),
        ):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))

    @cached_property
    def std(self) -> Float:
        """(p,) standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    def sample(self, count: int, seed: int = 0) -> Float:
        """Parameters of draws, (count, p), all of physically consistent bodies and within the bounds of friction.

        Coordinates bend away from directions that data know well, so a draw is no step along the tangent: estimate and
        prior are moved at random by as much as they are uncertain, and the mode is estimated again from the old one.
        Raises UsageError for a count below 1.
        Source: randomised maximum a posteriori, Bardsley et al. 2014.
        """
        if count < 1:
            raise UsageError("posterior-count", found=f"{count} draws", expected="at least 1")
        rng = np.random.default_rng(seed)
        return np.array([_mode(self.problem.perturbed(rng), self.parameters) for _ in range(count)])


def posterior(estimate: Estimate, spread: Float, strength: float = 1.0) -> Posterior:
    """The posterior of full parameters theta whose bodies are all physically consistent.

    -2 log p(theta) = (B theta - beta)' C^-1 (B theta - beta) + strength ||(theta - prior) / spread||^2, for theta with
    consistent bodies, with C the estimate's covariance from blocks (see _whitening for its correlations). It is
    expanded to second order about its mode in log-Cholesky coordinates x, where its density is
    p(theta(x)) |d theta / d x|; the logarithm of that determinant is linear in x. An unknown body's prior is a
    plausible one.
    spread: (p,) prior standard deviations at strength 1.
    Raises SolverError if the mode is not found.
    Source: Tierney and Kadane 1986 (Laplace); Rucker and Wensing 2022 (coordinates).
    """
    columns = estimate.columns
    whiten = _whitening(estimate)
    A, y = whiten @ estimate.base.B, whiten @ estimate.value
    prior = np.array([column.prior for column in columns])
    problem = Problem(columns, spread, A, y, plausible(columns, prior, spread), strength)
    x = problem.chart.coordinates(_mode(problem, _start(problem, columns, prior, spread)))
    H = problem.hessian(x)
    curvature, directions = np.linalg.eigh(H)
    if not curvature.min() > 0:
        raise SolverError(
            "posterior-mode",
            found=f"curvature {curvature.min():.2g} at the supposed mode",
            expected="a maximum of the posterior",
            do="raise the strength of the prior",
        )
    root = problem.chart.jacobian(x) @ (directions / np.sqrt(curvature))
    covariance = root @ root.T
    return Posterior(
        columns=columns,
        problem=problem,
        x=x,
        curvature=H,
        parameters=problem.chart.parameters(x),
        covariance=covariance,
        prior_share=np.clip(np.diag(covariance) * strength / spread**2, 0.0, 1.0),
    )


def _whitening(estimate: Estimate) -> Float:
    """(b, b) W with W' W the inverse of the covariance.

    Its standard deviations come from blocks; M blocks do not give the correlations of b > M parameters, so those are a
    mean of the blocks' and the textbook's, which weighs b to M.
    Source: shrinkage of covariances, Ledoit and Wolf 2004.
    """
    b, M = estimate.base.rank, estimate.degrees_of_freedom + 1.0
    std = np.maximum(estimate.std, np.finfo(np.float64).tiny)
    own = np.asarray(estimate.covariance) / np.outer(std, std)
    textbook = np.asarray(estimate.textbook_covariance) / np.outer(
        estimate.textbook_std, estimate.textbook_std
    )
    values, vectors = np.linalg.eigh((M * own + b * textbook) / (M + b))
    return np.asarray((vectors / np.sqrt(np.maximum(values, SHARPEST))).T / std)


class Problem:
    """Minus the logarithm of the density in the coordinates, with exact gradient."""

    def __init__(
        self, columns: tuple[Column, ...], spread: Float, A: Float, y: Float, centre: Float, strength: float
    ) -> None:
        self.chart = Chart.of(columns, spread)
        self.strength = strength
        self.A, self.y, self.centre = A, y, centre
        self.pull = strength / spread**2
        self.slope = volume_slope(self.chart, columns)

    def value(self, x: Float) -> float:
        """-log p up to a constant."""
        theta = self.chart.parameters(x)
        misfit, away = self.A @ theta - self.y, theta - self.centre
        return float(0.5 * (misfit @ misfit) + 0.5 * (self.pull * away) @ away - self.slope @ x)

    def gradient(self, x: Float) -> Float:
        """Its gradient, (p,)."""
        return np.asarray(self.chart.jacobian(x).T @ self.force(self.chart.parameters(x)) - self.slope)

    def hessian(self, x: Float) -> Float:
        """Its second derivative (p, p): exact in the forces' change, by central differences in that of the chart.

        Bodies do not know each other's coordinates, so one of each is moved at a time.
        """
        J, force = self.chart.jacobian(x), self.force(self.chart.parameters(x))
        found = J.T @ (self.A.T @ self.A + np.diag(self.pull)) @ J
        for k in range(10):
            step = np.zeros(len(x))
            step[self.chart.bodies[:, k]] = STEP
            ends = [self.chart.jacobian(x + sign * step).T @ force for sign in (1.0, -1.0)]
            slope = (ends[0] - ends[1]) / (2.0 * STEP)
            for ten in self.chart.bodies:
                found[ten[k], ten] += slope[ten]
        return np.asarray((found + found.T) / 2.0)

    def perturbed(self, rng: np.random.Generator) -> Problem:
        """The same with estimate and prior moved at random by as much as they are uncertain."""
        moved = copy(self)
        moved.y = self.y + rng.normal(size=len(self.y))
        moved.centre = self.centre + rng.normal(size=len(self.centre)) / np.sqrt(self.pull)
        return moved

    def force(self, theta: Float) -> Float:
        """Gradient of misfit and distance in the parameters, (p,)."""
        return np.asarray(self.A.T @ (self.A @ theta - self.y) + self.pull * (theta - self.centre))


def volume_slope(chart: Chart, columns: tuple[Column, ...]) -> Float:
    """(p,) gradient of log |det d theta / d x|, the same everywhere: it is linear in log-Cholesky coordinates."""
    p = len(columns)
    slope = np.zeros(p)
    here = chart.jacobian(np.zeros(p))
    for k in range(10):
        moved = np.zeros(p)
        moved[chart.bodies[:, k]] = 1.0
        there = chart.jacobian(moved)
        for ten in body_columns(columns):
            block = np.ix_(ten, ten)
            slope[ten[k]] = np.linalg.slogdet(there[block])[1] - np.linalg.slogdet(here[block])[1]
    return slope


def _start(problem: Problem, columns: tuple[Column, ...], prior: Float, spread: Float) -> Float:
    """The closest feasible parameters, or plausible bodies where the solver gives up."""
    held = (PhysicalBodies(MARGIN), ColumnBounds())
    given = columns, held, prior, spread, problem.strength
    try:
        return feasible_parameters(problem.A, problem.y, *given).parameters
    except SolverError:
        return problem.centre


def _mode(problem: Problem, theta: Float) -> Float:
    """Parameters of greatest density, by damped Newton steps from strictly consistent bodies, friction within bounds.

    In theta the misfit is a square and the volume a sum of w_i log det of trailing minors of the pseudo-inertias, so
    that the problem is convex, and damped steps do not leave the consistent bodies (Nesterov and Nemirovski 1994).
    """
    volume = Volume.of(problem)
    F = problem.A.T @ problem.A + np.diag(problem.pull)
    low, high = problem.chart.lower * problem.chart.spread, problem.chart.upper * problem.chart.spread
    theta = np.clip(theta, low, high)
    for _ in range(ROUNDS):
        slope, curvature = volume.derivatives(theta)
        gradient = problem.force(theta) - slope
        free = ~(((theta <= low) & (gradient > 0)) | ((theta >= high) & (gradient < 0)))
        H = (F + curvature)[np.ix_(free, free)]
        size = np.sqrt(np.diag(H))
        step = np.zeros(len(theta))
        step[free] = -np.linalg.solve(H / np.outer(size, size), gradient[free] / size) / size
        decrement = -float(gradient @ step)
        if decrement < CONVERGED:
            return theta
        shorter = 1.0 + np.sqrt(decrement) if decrement > CLOSE else 1.0
        theta = np.clip(theta + step / shorter, low, high)
    raise SolverError(
        "posterior-mode",
        found=f"a step that still gains {decrement:.2g} after {ROUNDS} rounds",
        expected="a maximum of the posterior",
        do="raise the strength of the prior",
    )


@dataclass(frozen=True, eq=False)
class Volume:
    """log |det d theta / d x| as sum_i w_i log det P[i:, i:] over the bodies' pseudo-inertias, with its derivatives.

    bodies: (n, 10) indices.    weights: (4,), the same for every body.
    """

    bodies: Int
    weights: Float

    @staticmethod
    def of(problem: Problem) -> Volume:
        """From the slope in the coordinates: P = U U', so log U_ii is half a difference of two such terms."""
        bodies = problem.chart.bodies
        if not len(bodies):
            return Volume(bodies, np.zeros(4))
        first = problem.slope[bodies[0]]
        a = np.append(first[1:4], first[0] - first[1:4].sum())
        return Volume(bodies, 0.5 * np.diff(a, prepend=0.0))

    def derivatives(self, theta: Float) -> tuple[Float, Float]:
        """Gradient (p,) and minus the second derivative (p, p), which is never indefinite."""
        slope, curvature = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
        for ten in self.bodies:
            P = pseudo_inertia(theta[ten])
            for i, weight in enumerate(self.weights):
                parts = np.linalg.solve(P[i:, i:], _UNITS[:, i:, i:])
                slope[ten] += weight * np.trace(parts, axis1=1, axis2=2)
                curvature[np.ix_(ten, ten)] += weight * np.einsum("kab,lba->kl", parts, parts)
        return slope, curvature


_UNITS = np.array([pseudo_inertia(unit) for unit in np.eye(10)])
