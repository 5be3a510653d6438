"""The entropic optimum by Newton's method: the distance is its own barrier, so that no cone program is needed."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Float
from dynid.feasible.central_path import near_optimum
from dynid.feasible.cones import Certificate
from dynid.feasible.entropic_problem import Entropic
from dynid.kernel import cho_factor, cho_solve

STEPS = 150
# A minimum that no bound holds and that so few steps reach needs no path.
QUICK = 12
ROUNDS = 6
# Shares of the value that a step gains: where the search has ended, and what is lost in rounding; by how much a step
# gains less than the one before while the search goes on there.
SETTLED, ROUNDING, CLOSER = 1e-20, 1e-13, 0.25
LEAST_STEP = 1e-10


def entropic_optimum(problem: Entropic, lower: Float, upper: Float) -> tuple[Float, Certificate] | None:
    """The minimum among consistent bodies, the other parameters within bounds (p,); None if the search stalls.

    Newton's method with the bounds that hold in force. f is convex: what passes every other constraint is the
    constrained minimum as well.
    """
    program, others = problem.program, problem.others
    first = problem.first()
    u, ended = _descended(problem, program.unknowns(first), np.zeros((0, len(lower))), QUICK)
    if ended is not None and ended[1].ok:
        theta = program.theta(u)
        side = np.where(theta < lower, -1.0, np.where(theta > upper, 1.0, 0.0)) * others
        if not side.any():
            return theta, ended[1]
        # A minimum beyond few bounds is near the one within them.
        found = _within(problem, lower, upper, theta, side)
        if found is not None:
            return found
    near = near_optimum(problem, lower, upper, first)
    return None if near is None else _within(problem, lower, upper, *near)


def _within(
    problem: Entropic, lower: Float, upper: Float, near: Float, side: Float
) -> tuple[Float, Certificate] | None:
    """The minimum within bounds, from what `near_optimum` returns: parameters (p,) near it and the bounds in force."""
    program, theta, side = problem.program, near.copy(), side.copy()
    for _ in range(ROUNDS):
        held = np.flatnonzero(side)
        theta[held] = np.where(side < 0, lower, upper)[held]
        A = (program.spread[:, None] * program.T)[held]
        u, ended = _descended(problem, program.unknowns(theta), A)
        if ended is None or not ended[1].ok:
            return None
        pull, certificate = ended
        theta = np.where(side == 0, program.theta(u), theta)
        beyond = problem.others & (side == 0) & ((theta < lower) | (theta > upper))
        # A held parameter that would rather come back in is let go.
        back = held[pull * side[held] < 0.0]
        if not beyond.any() and not len(back):
            return theta, certificate
        side[back] = 0.0
        side[beyond] = np.where(theta < lower, -1.0, 1.0)[beyond]
    return None


def _descended(
    problem: Entropic, u: Float, A: Float, steps: int = STEPS
) -> tuple[Float, tuple[Float, Certificate] | None]:
    """Newton's method along A u = const until a step gains no more than rounding.

    Returns where it ended, the forces that hold A u and the certificate; None for these where it stalls.
    """
    value, decrease = problem.value(u), np.inf
    for step in range(steps):
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
        before, decrease = decrease, -float(along @ direction)
        share = decrease / (1.0 + abs(value))
        if share > ROUNDING:
            length, there = _step(problem, u, value, direction, decrease)
        else:  # The value no longer tells steps apart, but each doubles the number of right digits.
            length = 1.0 if share <= SETTLED or decrease <= CLOSER * before else 0.0
            there = value
        u, value = u + length * direction, there
        if length == 0.0 or share <= SETTLED:
            size = 1.0 + float(np.abs(hessian @ u).max())
            return u, (force, Certificate(0.0, float(np.abs(along).max()) / size, share, step))
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
