"""Physically consistent estimates: what they cost, what no real robot has, and their posterior."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Estimator, Regression
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.posterior import MAP, with_further
from dynid.feasible.bodies import body_columns, is_described, plausible
from dynid.feasible.constraints import ColumnBounds, PhysicalBodies
from dynid.feasible.problem import Feasible, feasible_parameters
from dynid.feasible.refinement import Chart
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import eigenvalues, is_physical, pseudo_inertia
from dynid.terms.exports import Column
from dynid.terms.spring import is_spring_stiffness

# Factor by which consistent links may raise the error of a group of equations.
MUCH_WORSE = 1.2
# Rounding of parameters on the border of consistency.
BORDER = 1e-10
# Factor beyond which a widened uncertainty of a link is told: half as much again is no usual error of a robot file.
WIDER = 1.5
# Factor within which the rotor inertia in a robot file is that of the log.
NEAR = 2.0
# Joint parameters that are never negative.
NOT_NEGATIVE = {
    "rotor_inertia": "rotor inertia",
    "viscous": "viscous friction",
    "coulomb": "coulomb friction",
    "presliding": "coulomb friction",
}


def unconstrained(estimator: Estimator) -> Estimator:
    """Method whose answer is made physically consistent; any other method itself."""
    return estimator.unconstrained if isinstance(estimator, FeasibleFit | MAP) else estimator


def project_to_physical(
    wanted: Estimator,
    regression: Regression,
    free: Estimate,
    diagnostics: Diagnostics,
) -> tuple[Estimate, Estimator]:
    """Physically consistent estimate, if one is wanted, and the estimator that it came from.

    Parameters
    ----------
    wanted : Estimator
        Estimator.
    regression : Regression
        Its input.
    free : Estimate
        Unconstrained estimate.
    diagnostics : Diagnostics
        Receives warnings: of consistency, constraints or a prior with which a joint is fitted much worse, and of
        descriptions that the log contradicts.

    Returns
    -------
    estimate : Estimate
        Estimate.
    estimator : Estimator
        Its estimator.

    Raises
    ------
    SolverError
        If no consistent links are found.

    """
    if isinstance(wanted, FeasibleFit):
        estimate, answer = wanted.solution(regression, free)
        if much_worse(estimate, free):
            diagnostics.warn("constraints-cost", _cost_text(wanted, estimate, answer, free))
    elif isinstance(wanted, MAP):
        estimate = wanted.around(regression, free)
        if much_worse(estimate, free):
            ratio, group = _worst(estimate, free)
            diagnostics.warn(
                "consistency-costs",
                f"enforcing physically consistent links raises the torque error of '{group}' by "
                f"{100 * (ratio - 1):.2g} %; {_ADD}",
            )
    else:
        return free, wanted
    if isinstance(wanted, MAP) or wanted.inner is None:
        estimate = with_further(estimate, wanted.unconstrained.fit(regression), free)
    return estimate, wanted


_ADD = "check for a missing rotor or load, a wrong drive gain, or a tilted base"


def left_out_descriptions(estimate: Estimate) -> Bool:
    """Links (n_links,) whose values in the robot file the log contradicts, so that they were left out.

    None for methods without a prior of links.
    """
    bodies = body_columns(estimate.columns)
    if not len(estimate.link_widths):
        return np.zeros(len(bodies), dtype=np.bool_)
    return np.array(
        [
            widths[3] > 0 and is_described(np.array([estimate.columns[k].prior for k in ten]))
            for ten, widths in zip(bodies, estimate.link_widths, strict=True)
        ],
        dtype=np.bool_,
    )


def _widened(estimate: Estimate) -> list[tuple[int, float]]:
    """Described links whose uncertainty the log widened beyond that of the others, with the factor."""
    bodies = body_columns(estimate.columns)
    if not len(estimate.link_widths):
        return []
    widths = np.asarray(estimate.link_widths)
    described = [is_described(np.array([estimate.columns[k].prior for k in ten])) for ten in bodies]
    kept = np.flatnonzero(np.array(described, dtype=np.bool_) & (widths[:, 3] == 0)).tolist()
    least = min((float(widths[link, 0]) for link in kept), default=1.0)
    factors = [(link, float(widths[link, 0]) / least) for link in kept]
    return [(link, factor) for link, factor in factors if factor >= WIDER]


def without_contradicted(robot: RobotModel, estimate: Estimate) -> RobotModel:
    """Robot without the descriptions of links that the log contradicts."""
    prior = np.array(robot.inertia_prior)
    for ten in body_columns(estimate.columns)[left_out_descriptions(estimate)]:
        prior[estimate.columns[ten[0]].owner] = np.nan
    return replace(robot, inertia_prior=prior)


def warn_of_descriptions(robot: RobotModel, estimate: Estimate, diagnostics: Diagnostics) -> None:
    """Warn of links whose values were left out, and of rotors whose described inertia was at the joint already.

    Links whose prior the log widened are named by a note.
    """
    for link, factor in _widened(estimate):
        ten = body_columns(estimate.columns)[link]
        mass = estimate.columns[ten[0]]
        diagnostics.note(
            "description-contradicted",
            f"the log disagrees with link '{robot.body_names[mass.owner]}' of the robot file: {mass.prior:.4g} kg, "
            f"{estimate.parameters[ten[0]]:.3g} kg by the log. Its uncertainty was widened {factor:.2g} times",
        )
    for ten in body_columns(estimate.columns)[left_out_descriptions(estimate)]:
        mass = estimate.columns[ten[0]]
        diagnostics.warn(
            "description-contradicted",
            f"the log contradicts link '{robot.body_names[mass.owner]}' of the robot file: {mass.prior:.4g} kg, "
            f"{estimate.parameters[ten[0]]:.3g} kg by the log. Its description was left out. Check its units (g, "
            "g mm^2), the order of its inertias, the variant of the robot, and loads that are not declared",
        )

    twice = _reflected_twice(robot, estimate)
    if twice:
        joints = ", ".join(f"'{robot.joint_names[joint]}' {value:.3g}" for joint, value in twice)
        worst = twice[0][0]
        described, ratio = float(robot.drive.rotor_inertia[worst]), abs(float(robot.drive.own_ratio[worst]))
        diagnostics.warn(
            "description-contradicted",
            f"rotor inertias of the robot file seem to be those at the joints: {described * ratio**2:.4g} kg m^2 "
            f"at '{robot.joint_names[worst]}' by the robot file; by the log {joints}. Give rotor_inertia at the motor: "
            f"divide it by the square of the gear ratio ({described:.4g} / {ratio:g}^2 = {described / ratio**2:.3g})",
        )


def _reflected_twice(robot: RobotModel, estimate: Estimate) -> list[tuple[int, float]]:
    """Joints whose described rotor inertia was that at the joint already, with the estimated one, kg m^2 at the joint.

    It was reflected twice if the estimate is nearer to the described value over the square of the gear ratio than to
    the described value.
    """
    bodies = set(body_columns(estimate.columns).ravel().tolist())
    at_motors, ratios = robot.drive.rotor_inertia, np.abs(robot.drive.own_ratio)
    joints = []
    for k, (column, value) in enumerate(zip(estimate.columns, estimate.parameters, strict=True)):
        if k in bodies or column.owner >= robot.n or not (column.prior > 0 and value > 0):
            continue
        ratio, at_motor = float(ratios[column.owner]), float(at_motors[column.owner])
        known = [scale for scale in (1.0, ratio**2) if np.isclose(column.prior, scale * at_motor, rtol=1e-9)]
        over = np.log(column.prior / value)
        if known and ratio > 1 and abs(over - 2 * np.log(ratio)) < min(np.log(NEAR), abs(over)):
            joints.append((int(column.owner), float(value * ratio**2 / known[0])))
    return joints


def body_fault(name: str, pi: Float) -> str:
    """Sentence that says why ten numbers are not those of a physical link."""
    values = ", ".join(f"{value:.3g}" for value in eigenvalues(pi))
    return f"link '{name}': mass {pi[0]:.4g} kg, pseudo-inertia eigenvalues {values}"


def unphysical(robot: RobotModel, estimate: Estimate) -> tuple[str, ...]:
    """Properties of an estimate that no real robot has, one sentence each: links, rotors, friction and springs.

    These are the reasons for which an export is refused.
    """
    theta = estimate.parameters
    bodies = [
        body_fault(robot.body_names[estimate.columns[ten[0]].owner], theta[ten])
        for ten in body_columns(estimate.columns)
        if not is_physical(theta[ten], BORDER)
    ]
    joints = [
        f"joint '{robot.joint_names[column.owner]}': {NOT_NEGATIVE.get(column.term, 'stiffness')} {value:.4g}"
        for column, value in zip(estimate.columns, theta, strict=True)
        if (column.term in NOT_NEGATIVE or is_spring_stiffness(column)) and value < 0
    ]
    return (*bodies, *joints)


def much_worse(real: Estimate, free: Estimate) -> bool:
    """Whether an estimate fits some group of equations much worse than the unconstrained one."""
    return _worst(real, free)[0] > MUCH_WORSE


def _worst(real: Estimate, free: Estimate) -> tuple[float, str]:
    # Greatest factor of a group's residuals, and that group.
    worse = np.asarray(real.sigma) / np.asarray(free.sigma)
    return float(worse.max()), real.group_names[int(np.argmax(worse))]


def _cost_text(fit: FeasibleFit, real: Estimate, answer: Feasible, free: Estimate) -> str:
    ratio, group = _worst(real, free)
    text = f"enforcing physical consistency raises the error of '{group}' by {100 * (ratio - 1):.2g} %"
    active = f"; active constraints: {', '.join(answer.active)}" if answer.active else ""
    strong = f" (strength = {fit.factor:g})" if fit.factor > 1.0 else ""
    return f"{text}{active}{_limits_text(fit)}. Relax your constraints or prior{strong}, or {_ADD}"


def _limits_text(fit: FeasibleFit) -> str:
    known = []
    if fit.total_mass is not None:
        known.append("total_mass = [{:.4g}, {:.4g}]".format(*fit.total_mass))
    known += [f"limits of {len(fit.limits)} links"] if fit.limits else []
    return f" (set: {' and '.join(known)})" if known else ""


# Posterior of physically consistent links, in coordinates in which every point is consistent.

# Step of central differences in the coordinates.
STEP = 1e-5
# Most Newton steps to the mode.
ROUNDS = 500
# Squared Newton decrement at the mode, and below which whole steps are safe.
CONVERGED, CLOSE = 1e-10, 0.05
# Eigenvalues of the correlations below this are rounding.
SHARPEST = 1e-8
MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class Posterior:
    """Laplace approximation of a posterior over full parameters.

    Attributes
    ----------
    columns : tuple of Column
        Columns of the model.
    problem : Problem
        Log density.
    x : ndarray, shape (p,)
        Mode in the coordinates of the chart.
    curvature : ndarray, shape (p, p)
        Curvature of minus the log density there.
    parameters : ndarray, shape (p,)
        Parameters at the mode.
    covariance : ndarray, shape (p, p)
        Covariance of the parameters, linearised there.
    prior_share : ndarray, shape (p,)
        Posterior over prior variance of each parameter: near 1 only the prior decides.

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
        """Standard deviations (p,)."""
        return np.sqrt(np.diag(self.covariance))

    def sample(self, count: int, seed: int = 0) -> Float:
        """Random parameters of physically consistent links within the bounds of friction.

        Coordinates are curved away from well-known directions, so a draw is not a step along the tangent: estimate and
        prior are moved at random by their uncertainty, and the mode is computed again.

        Parameters
        ----------
        count : int
            Number of draws.
        seed : int
            Seed.

        Returns
        -------
        ndarray, shape (count, p)
            Parameters.

        Raises
        ------
        UsageError
            For a count below 1.

        References
        ----------
        Randomised maximum a posteriori, Bardsley et al. 2014.

        """
        if count < 1:
            raise UsageError("posterior-count", found=f"{count} draws", expected="at least 1")
        rng = np.random.default_rng(seed)
        return np.array([_mode(self.problem.perturbed(rng), self.parameters) for _ in range(count)])


def posterior(estimate: Estimate, spread: Float, strength: float = 1.0) -> Posterior:
    """Posterior of full parameters theta with physically consistent links.

    -2 log p(theta) = (B theta - beta)' C^-1 (B theta - beta) + strength ||(theta - prior) / spread||^2, with the
    estimate's covariance C from blocks (see _whitening for its correlations). It is expanded to second order about its
    mode in log-Cholesky coordinates x, where its density is p(theta(x)) |d theta / d x|; the logarithm of that
    determinant is linear in x. The prior of an unknown link is a plausible one.

    Parameters
    ----------
    estimate : Estimate
        Estimate.
    spread : ndarray, shape (p,)
        Prior standard deviations at strength 1.
    strength : float
        Strength of the prior.

    Returns
    -------
    Posterior
        Posterior.

    Raises
    ------
    SolverError
        If the mode is not found.

    References
    ----------
    Tierney and Kadane 1986 (Laplace); Rucker and Wensing 2022 (coordinates).

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
    """W (b, b) with W' W the inverse of the covariance.

    Standard deviations come from blocks. M blocks do not give the correlations of b > M parameters, so these are a mean
    of the blocks' and the textbook's, weighted M to b. Source: shrinkage of covariances, Ledoit and Wolf 2004.
    """
    b, M = estimate.base.rank, estimate.degrees_of_freedom + 1.0
    std = np.maximum(estimate.std, np.finfo(np.float64).tiny)
    from_blocks = np.asarray(estimate.covariance) / np.outer(std, std)
    textbook = np.asarray(estimate.textbook_covariance) / np.outer(
        estimate.textbook_std, estimate.textbook_std
    )
    values, vectors = np.linalg.eigh((M * from_blocks + b * textbook) / (M + b))
    return np.asarray((vectors / np.sqrt(np.maximum(values, SHARPEST))).T / std)


class Problem:
    """Minus the log density in the coordinates, with exact gradient."""

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
        """Gradient (p,)."""
        return np.asarray(self.chart.jacobian(x).T @ self.force(self.chart.parameters(x)) - self.slope)

    def hessian(self, x: Float) -> Float:
        """Hessian (p, p): exact in the change of the forces, central differences in that of the chart.

        Links do not depend on each other's coordinates, so one of each is moved at a time.
        """
        J, force = self.chart.jacobian(x), self.force(self.chart.parameters(x))
        hessian = J.T @ (self.A.T @ self.A + np.diag(self.pull)) @ J
        for k in range(10):
            step = np.zeros(len(x))
            step[self.chart.bodies[:, k]] = STEP
            ends = [self.chart.jacobian(x + sign * step).T @ force for sign in (1.0, -1.0)]
            slope = (ends[0] - ends[1]) / (2.0 * STEP)
            for ten in self.chart.bodies:
                hessian[ten[k], ten] += slope[ten]
        return np.asarray((hessian + hessian.T) / 2.0)

    def perturbed(self, rng: np.random.Generator) -> Problem:
        """The same with estimate and prior moved at random by their uncertainty."""
        moved = copy(self)
        moved.y = self.y + rng.normal(size=len(self.y))
        moved.centre = self.centre + rng.normal(size=len(self.centre)) / np.sqrt(self.pull)
        return moved

    def force(self, theta: Float) -> Float:
        """Gradient (p,) of misfit and distance in the parameters."""
        return np.asarray(self.A.T @ (self.A @ theta - self.y) + self.pull * (theta - self.centre))


def volume_slope(chart: Chart, columns: tuple[Column, ...]) -> Float:
    """Gradient (p,) of log |det d theta / d x|, which is constant: it is linear in log-Cholesky coordinates."""
    p = len(columns)
    slope = np.zeros(p)
    jacobian = chart.jacobian(np.zeros(p))
    for k in range(10):
        moved = np.zeros(p)
        moved[chart.bodies[:, k]] = 1.0
        moved_jacobian = chart.jacobian(moved)
        for ten in body_columns(columns):
            block = np.ix_(ten, ten)
            slope[ten[k]] = (
                np.linalg.slogdet(moved_jacobian[block])[1] - np.linalg.slogdet(jacobian[block])[1]
            )
    return slope


def _start(problem: Problem, columns: tuple[Column, ...], prior: Float, spread: Float) -> Float:
    """Closest feasible parameters, or plausible links if the solver fails."""
    constraints = (PhysicalBodies(MARGIN), ColumnBounds())
    given = columns, constraints, prior, spread, problem.strength
    try:
        return feasible_parameters(problem.A, problem.y, *given).parameters
    except SolverError:
        return problem.centre


def _mode(problem: Problem, theta: Float) -> Float:
    """Parameters of greatest density, by damped Newton steps over strictly consistent links within bounds.

    In theta the misfit is a square and the volume a sum of w_i log det of trailing minors of the pseudo-inertias, so
    the problem is convex, and damped steps stay within the consistent links (Nesterov and Nemirovski 1994).
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
    """log |det d theta / d x| as sum_i w_i log det P[i:, i:] over the links' pseudo-inertias, with derivatives.

    bodies: (n, 10) indices.    weights: (4,), the same for every link.
    """

    bodies: Int
    weights: Float

    @staticmethod
    def of(problem: Problem) -> Volume:
        """Weights from the slope in the coordinates: P = U U', so log U_ii is half a difference of two such terms."""
        bodies = problem.chart.bodies
        if not len(bodies):
            return Volume(bodies, np.zeros(4))
        first = problem.slope[bodies[0]]
        a = np.append(first[1:4], first[0] - first[1:4].sum())
        return Volume(bodies, 0.5 * np.diff(a, prepend=0.0))

    def derivatives(self, theta: Float) -> tuple[Float, Float]:
        """Gradient (p,) and minus the Hessian (p, p), which is never indefinite."""
        slope, curvature = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
        for ten in self.bodies:
            P = pseudo_inertia(theta[ten])
            for i, weight in enumerate(self.weights):
                parts = np.linalg.solve(P[i:, i:], _UNITS[:, i:, i:])
                slope[ten] += weight * np.trace(parts, axis1=1, axis2=2)
                curvature[np.ix_(ten, ten)] += weight * np.einsum("kab,lba->kl", parts, parts)
        return slope, curvature


_UNITS = np.array([pseudo_inertia(unit) for unit in np.eye(10)])
