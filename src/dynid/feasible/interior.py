"""The entropic optimum by Newton's method: the distance is its own barrier, so that no cone program is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Bool, Float, Int
from dynid.base.eigenvalues import generalised_eigenvalues
from dynid.feasible.cones import Certificate
from dynid.feasible.density import BARRIER, slack
from dynid.feasible.whitened import Whitened
from dynid.kernel import cho_factor, cho_solve
from dynid.spatial.inertia import pseudo_inertia

STEPS = 150
ROUNDS = 6
# Stages of ten times the weight before the last: most of them, and the value over the weight that needs none.
STAGES, GENTLE, LOOSE = 9, 1e4, 0.1
SETTLED = 1e-20
LEAST_STEP = 1e-10
# How near to the edge of physical consistency a first guess and a step may come.
INSIDE = 0.9
_BASIS = np.stack([pseudo_inertia(unit) for unit in np.eye(10)])


@dataclass(frozen=True, eq=False)
class Entropic:
    """f(u) = ||data u + start||^2 + sum over others w (theta - centre)^2 / spread^2 + sum over bodies w D(P || P0).

    bodies: (nb, 10) columns of each.    weight: (p,) w; that of a body's mass counts for the body.
    compactness: c of `dynid.feasible.density`; D is then (1 - BARRIER) of the entropic distance and BARRIER of the
    barrier of the density limit, which are the same for c = 0, no limit.
    """

    program: Whitened
    bodies: Int
    centre: Float
    weight: Float
    compactness: float = 0.0

    @cached_property
    def of_bodies(self) -> Float:
        """(nb,) weights of the bodies."""
        return np.asarray(self.weight[self.bodies[:, 0]])

    @cached_property
    def others(self) -> Bool:
        """(p,) which parameters belong to no body."""
        mask = np.ones(len(self.centre), dtype=np.bool_)
        mask[self.bodies] = False
        return mask

    @cached_property
    def _roots(self) -> Float:
        # Roots of the weights of what belongs to no body.
        return np.asarray(np.sqrt(self.weight[self.others]))

    @cached_property
    def _inverses(self) -> Float:
        return np.asarray(np.linalg.inv(self._inertias(self.centre)))

    @cached_property
    def _prior_log_det(self) -> Float:
        return np.asarray(np.linalg.slogdet(self._inertias(self.centre))[1])

    @cached_property
    def _prior_traces(self) -> Float:
        # (nb, 10) of tr(P0^-1 E_k).
        return np.asarray(self._inverses.reshape(-1, 16) @ _BASIS.reshape(10, 16).T)

    @cached_property
    def _prior_shares(self) -> Float:
        # (nb,) c m^(3/2) / det(P)^(1/4) of the priors: the square root of their density over the greatest.
        return self._shares(self.centre, self._prior_log_det)

    def _shares(self, theta: Float, log_det: Float) -> Float:
        return np.asarray(self.compactness * theta[self.bodies[:, 0]] ** 1.5 * np.exp(-log_det / 4))

    def _inertias(self, theta: Float) -> Float:
        return np.asarray((theta[self.bodies] @ _BASIS.reshape(10, 16)).reshape(-1, 4, 4))

    def _log_dets(self, inertias: Float) -> Float | None:
        # (nb,) of bodies that are physically consistent, None where one is not.
        try:
            triangles = np.linalg.cholesky(inertias)
        except LinAlgError:
            return None
        return np.asarray(2.0 * np.log(triangles.diagonal(axis1=1, axis2=2)).sum(axis=1))

    def exists(self, theta: Float) -> bool:
        """Whether every body is physically consistent, no denser than the limit."""
        log_det = self._log_dets(self._inertias(theta))
        return log_det is not None and bool((self._shares(theta, log_det) < 1.0).all())

    def value(self, u: Float) -> float:
        """f, infinite where a body is not physically consistent."""
        program = self.program
        theta = program.theta(u)
        log_det = self._log_dets(self._inertias(theta))
        if log_det is None:
            return np.inf
        here = self._shares(theta, log_det)
        if not (here < 1.0).all():
            return np.inf
        trace = (self._prior_traces * theta[self.bodies]).sum(axis=1)
        others = self.others
        far = self._roots * (theta[others] - self.centre[others]) / program.spread[others]
        missed = program.data @ u + program.start
        masses, at_prior = self.bodies[:, 0], self._prior_shares
        away = trace - 4.0 - 6.0 * at_prior * (theta[masses] / self.centre[masses] - 1.0)
        limit = away / (1.0 - at_prior) - 4.0 * np.log((1.0 - here) / (1.0 - at_prior))
        entropy = (1.0 - BARRIER) * (trace - 4.0) + BARRIER * limit - (log_det - self._prior_log_det)
        return float(missed @ missed + far @ far + self.of_bodies @ entropy)

    def slopes(self, u: Float) -> tuple[Float, Float]:
        """Gradient (p,) and Hessian (p, p) at a u where every body exists."""
        program = self.program
        theta = program.theta(u)
        inertias = self._inertias(theta)
        inverse = np.linalg.inv(inertias)
        turned = inverse[:, None] @ _BASIS
        at_prior = self._prior_traces
        here = np.einsum("bkii->bk", turned)
        flat = turned.reshape(-1, 10, 16)
        curve = flat @ turned.transpose(0, 1, 3, 2).reshape(-1, 10, 16).transpose(0, 2, 1)
        slope = (1.0 - BARRIER) * (at_prior - here)
        share = self._shares(theta, np.linalg.slogdet(inertias)[1])
        masses = theta[self.bodies[:, 0]]
        # 4 d log f of f = det(P)^(1/4) - c m^(3/2), at the prior and here.
        slope += BARRIER * _log_slope(at_prior, self._prior_shares, self.centre[self.bodies[:, 0]])
        log_slope = _log_slope(here, share, masses)
        slope -= BARRIER * log_slope
        # -4 d^2 log f = (4 d log f)^2 / 4 - 4 d^2 f / f
        bent = here[:, :, None] * here[:, None, :] / 4.0 - curve
        bent[:, 0, 0] -= 3.0 * share / masses**2
        of_limit = log_slope[:, :, None] * log_slope[:, None, :] / 4.0 - bent / (1.0 - share)[:, None, None]
        curve = (1.0 - BARRIER) * curve + BARRIER * of_limit
        gradient = np.zeros(len(theta))
        turned_hessian = np.zeros((len(theta), len(theta)))  # of theta, which has a block a body, times T
        spread, others = program.spread, self.others
        gradient[others] = 2.0 * (self.weight * (theta - self.centre) / spread)[others]
        turned_hessian[others] = 2.0 * self.weight[others, None] * program.T[others]
        of_bodies, own = self.of_bodies, spread[self.bodies]
        gradient[self.bodies] = of_bodies[:, None] * slope * own
        blocks = of_bodies[:, None, None] * curve * (own[:, :, None] * own[:, None, :])
        turned_hessian[self.bodies] = blocks @ program.T[self.bodies]
        missed = program.data @ u + program.start
        return (
            2.0 * program.data.T @ missed + program.T.T @ gradient,
            2.0 * program.gram + program.T.T @ turned_hessian,
        )

    def first(self) -> Float:
        """The program's reference (p,), with every body drawn towards its centre until it exists."""
        theta = self.program.reference.copy()
        for ten in self.bodies:
            prior, aim = pseudo_inertia(self.centre[ten]), pseudo_inertia(theta[ten])
            least = float(generalised_eigenvalues(aim - prior, prior)[0])
            share = 1.0 if least > -INSIDE else INSIDE / -least
            theta[ten] = self.centre[ten] + share * (theta[ten] - self.centre[ten])
            while not slack(theta[ten], self.compactness) > 0:
                theta[ten] = (theta[ten] + self.centre[ten]) / 2
        return theta


def _log_slope(trace: Float, share: Float, masses: Float) -> Float:
    # (nb, 10) of 4 log(det(P)^(1/4) - c m^(3/2)), share = c m^(3/2) / det(P)^(1/4), trace = tr(P^-1 E_k).
    slope = trace.copy()
    slope[:, 0] -= 6.0 * share / masses
    return np.asarray(slope / (1.0 - share)[:, None])


@dataclass(frozen=True, eq=False)
class Minimum:
    """theta: (p,).    pull: (h,) how fast f falls as a held parameter grows.    certificate: how well it is one."""

    theta: Float
    pull: Float
    certificate: Certificate


def entropic_optimum(problem: Entropic, lower: Float, upper: Float) -> tuple[Float, Certificate] | None:
    """The minimum among consistent bodies, the other parameters within bounds (p,); None if the search stalls.

    Newton's method with the bounds that hold in force. f is convex: what passes every other constraint is the
    constrained minimum as well.
    """
    theta = problem.first()
    side = np.zeros(len(lower))  # -1 held at its lower bound, 1 at its upper one
    for _ in range(ROUNDS):
        held = np.flatnonzero(side)
        theta[held] = np.where(side < 0, lower, upper)[held]
        found = _minimum(problem, theta, held)
        if found is None:
            return None
        theta = np.where(side == 0, found.theta, theta)
        beyond = problem.others & (side == 0) & ((theta < lower) | (theta > upper))
        # A held parameter that would rather come back in is let go.
        back = held[found.pull * side[held] < 0.0]
        if not beyond.any() and not len(back):
            return theta, found.certificate
        side[back] = 0.0
        side[beyond] = np.where(theta < lower, -1.0, 1.0)[beyond]
    return None


def _minimum(problem: Entropic, theta: Float, held: Int) -> Minimum | None:
    # From theta, whose bodies exist, with held parameters where they are. The distance weighs much at first and less
    # and less, so that no body is thrown against the edge of physical consistency.
    program = problem.program
    A = (program.spread[:, None] * program.T)[held]
    u = program.unknowns(theta)
    heaviest = float(problem.weight.max())
    first = problem.value(u) / (GENTLE * heaviest)
    stages = int(np.clip(np.ceil(np.log10(max(first, 1.0))), 0, STAGES)) if np.isfinite(first) else 0
    for stage in range(stages, 0, -1):
        eased = replace(problem, weight=problem.weight * 10.0**stage)
        u, passed = _descended(eased, u, A, LOOSE * heaviest * 10.0**stage)
        if passed is None:
            return None
    u, ended = _descended(problem, u, A, 0.0)
    if ended is None:
        return None
    return Minimum(program.theta(u), ended[0], ended[1]) if ended[1].ok else None


def _descended(
    problem: Entropic, u: Float, A: Float, enough: float
) -> tuple[Float, tuple[Float, Certificate] | None]:
    """Newton's method along A u = const until a step gains no more than `enough`.

    Returns where it ended, the forces that hold A u and the certificate; None for these where it stalls.
    """
    value = problem.value(u)
    for step in range(STEPS):
        if not np.isfinite(value):
            return u, None
        gradient, hessian = problem.slopes(u)
        force, along = np.zeros(0), gradient
        try:
            factor = cho_factor(hessian)
            if len(A):
                inverse = cho_solve(factor, A.T)
                force = np.linalg.solve(A @ inverse, -inverse.T @ gradient).astype(np.float64, copy=False)
                along = gradient + A.T @ force
        except LinAlgError:
            return u, None
        direction = -cho_solve(factor, along)
        decrease = -float(along @ direction)
        length, there = _step(problem, u, value, direction, decrease)
        if length == 0.0 or decrease <= max(enough, SETTLED * (1.0 + abs(value))):
            size = 1.0 + float(np.abs(hessian @ u).max())
            slope = float(np.abs(along).max()) / size
            return u, (force, Certificate(0.0, slope, decrease / (1.0 + abs(value)), step))
        u, value = u + length * direction, there
    return u, None


def _step(
    problem: Entropic, u: Float, value: float, direction: Float, decrease: float
) -> tuple[float, float]:
    # The longest of the halved steps that lowers the value as it should, and the value there; 0 if none does.
    length = 1.0
    while length > LEAST_STEP:
        there = problem.value(u + length * direction)
        if there < value - 0.25 * length * decrease:
            return length, there
        length *= 0.5
    return 0.0, value
