"""The entropic optimum by Newton's method: the distance is its own barrier, so that no cone program is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from dynid.base.arrays import Bool, Float, Int
from dynid.feasible.cones import Certificate
from dynid.feasible.whitened import Whitened
from dynid.spatial.inertia import pseudo_inertia

STEPS = 40
ROUNDS = 6
# Stages of ten times the weight before the last: most of them, and the value over the weight that needs none.
STAGES, GENTLE, LOOSE = 9, 1e4, 0.1
SETTLED = 1e-20
LEAST_STEP = 1e-10
# How near to the edge of what can exist a first guess and a step may come.
INSIDE = 0.9
_BASIS = np.stack([pseudo_inertia(unit) for unit in np.eye(10)])


@dataclass(frozen=True, eq=False)
class Entropic:
    """f(u) = ||data u + start||^2 + sum over others w (theta - centre)^2 / spread^2 + sum over bodies w D(P || P0).

    bodies: (nb, 10) columns of each.    weight: (p,) w; that of a body's mass counts for the body.
    """

    program: Whitened
    bodies: Int
    centre: Float
    weight: Float

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
    def _inverses(self) -> Float:
        return np.asarray(np.linalg.inv(self._inertias(self.centre)))

    def _inertias(self, theta: Float) -> Float:
        return np.asarray(np.einsum("bk,kij->bij", theta[self.bodies], _BASIS))

    def value(self, u: Float) -> float:
        """f, infinite where a body cannot exist."""
        program = self.program
        theta = program.theta(u)
        ratio = self._inverses @ self._inertias(theta)
        sign, log_det = np.linalg.slogdet(ratio)
        if not (sign > 0).all() or not all(self._exists(P) for P in self._inertias(theta)):
            return np.inf
        far = (np.sqrt(self.weight) * (theta - self.centre) / program.spread)[self.others]
        missed = program.data @ u + program.start
        entropy = np.einsum("bii->b", ratio) - log_det - 4.0
        return float(missed @ missed + far @ far + self.of_bodies @ entropy)

    @staticmethod
    def _exists(P: Float) -> bool:
        try:
            np.linalg.cholesky(P)
        except LinAlgError:
            return False
        return True

    def slopes(self, u: Float) -> tuple[Float, Float]:
        """Gradient (p,) and Hessian (p, p) at a u where every body exists."""
        program = self.program
        theta = program.theta(u)
        inverse = np.linalg.inv(self._inertias(theta))
        turned = np.einsum("bij,kjl->bkil", inverse, _BASIS)
        slope = np.einsum("bij,kji->bk", self._inverses, _BASIS) - np.einsum("bkii->bk", turned)
        curve = np.einsum("bkij,blji->bkl", turned, turned)
        gradient = np.zeros(len(theta))
        hessian = np.zeros((len(theta), len(theta)))
        spread = program.spread
        gradient[self.others] = 2.0 * (self.weight * (theta - self.centre) / spread)[self.others]
        hessian[self.others, self.others] = 2.0 * self.weight[self.others]
        for b, (ten, w) in enumerate(zip(self.bodies, self.of_bodies, strict=True)):
            gradient[ten] = w * slope[b] * spread[ten]
            hessian[np.ix_(ten, ten)] = w * curve[b] * np.outer(spread[ten], spread[ten])
        missed = program.data @ u + program.start
        return (
            2.0 * program.data.T @ missed + program.T.T @ gradient,
            2.0 * program.data.T @ program.data + program.T.T @ hessian @ program.T,
        )

    def first(self) -> Float:
        """The program's reference (p,), with every body drawn towards its centre until it exists."""
        theta = self.program.reference.copy()
        for ten in self.bodies:
            prior, aim = pseudo_inertia(self.centre[ten]), pseudo_inertia(theta[ten])
            least = float(eigvalsh(aim - prior, prior)[0])
            share = 1.0 if least > -INSIDE else INSIDE / -least
            theta[ten] = self.centre[ten] + share * (theta[ten] - self.centre[ten])
        return theta


@dataclass(frozen=True, eq=False)
class Minimum:
    """theta: (p,).    pull: (h,) how fast f falls as a held parameter grows.    certificate: how well it is one."""

    theta: Float
    pull: Float
    certificate: Certificate


def entropic_optimum(problem: Entropic, lower: Float, upper: Float) -> tuple[Float, Certificate] | None:
    """The minimum among bodies that can exist, the other parameters within bounds (p,); None if the search stalls.

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
    # and less, so that no body is thrown against the edge of what can exist.
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
        try:
            factor = cho_factor(hessian)
            inverse = cho_solve(factor, A.T)
            force = np.linalg.solve(A @ inverse, -inverse.T @ gradient)
        except LinAlgError:
            return u, None
        along = gradient + A.T @ force
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
