"""The entropic optimum by Newton's method: the distance is its own barrier, so that no cone program is needed."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Bool, Float
from dynid.feasible.central_path import NEAR, NEAREST, CentralPath
from dynid.feasible.cones import Certificate
from dynid.feasible.entropic_problem import Entropic
from dynid.feasible.half_spaces import SEVERAL, HalfSpaces
from dynid.feasible.region import Region
from dynid.kernel import cho_factor, cho_solve

STEPS = 150
# A minimum that no bound holds and that so few steps reach needs no path.
QUICK = 12
ROUNDS = 6
# Shares of the value that a step gains: where the search has ended, and what is lost in rounding; by how much a step
# gains less than the one before while the search goes on there.
SETTLED, ROUNDING, CLOSER = 1e-20, 1e-13, 0.25
LEAST_STEP = 1e-10
# In sizes of its row, by how much a half-space that another holds may be missed in rounding; and the part of a row's
# length that others do not make up, below which it says no more than they do.
BARELY, DEPENDENT = 1e-12, 1e-9


def entropic_optimum(
    problem: Entropic, region: Region, near: Float | None = None
) -> tuple[Float, Certificate] | None:
    """The minimum among consistent bodies within a region; None if the search stalls.    near: (p,) it may be.

    Newton's method with the half-spaces that hold in force. f is convex: what passes every other constraint is the
    constrained minimum as well. Where a curved limit holds, the end of a path from the inside is the answer.
    """
    found = _nearby(problem, region, near) if near is not None else _quickly(problem, region)
    if found is not None and region.curved_inside(found[0]):
        return found
    path = CentralPath.begun(problem, region)
    if path is None or not path.follow(*NEAR):
        return None
    found = _within(problem, region.sides, path.theta, path.held)
    if found is not None and region.curved_inside(found[0]):
        return found
    path.follow(*NEAREST)  # where that stalls, what was reached may do
    certificate = path.certificate
    return (path.theta, certificate) if certificate.ok else None


def _nearby(problem: Entropic, region: Region, near: Float) -> tuple[Float, Certificate] | None:
    # What holds the answer to almost the same program most often holds this one as well.
    return _within(problem, region.sides, near, region.sides.room(near) <= BARELY, QUICK)


def _quickly(problem: Entropic, region: Region) -> tuple[Float, Certificate] | None:
    # The minimum without half-spaces, or near it where it lies beyond some.
    first = problem.first(np.zeros(len(problem.bodies)))
    u, ended = _descended(problem, problem.program.unknowns(first), np.zeros((0, len(first))), QUICK)
    if ended is None or not ended[1].ok:
        return None
    theta = problem.program.theta(u)
    held = region.sides.beyond(theta, 0.0)
    return _within(problem, region.sides, theta, held) if held.any() else (theta, ended[1])


def _within(
    problem: Entropic, sides: HalfSpaces, near: Float, held: Bool, steps: int = STEPS
) -> tuple[Float, Certificate] | None:
    """The minimum within half-spaces, from parameters (p,) near it and those in force there, (k,)."""
    program, theta = problem.program, near
    turned = (sides.rows * program.spread) @ program.T
    for _ in range(ROUNDS):
        held = _independent(turned, held | sides.equal)
        theta = sides.at(theta, held)
        u, A = program.unknowns(theta), turned[held]
        if (sides.index[held] == SEVERAL).any():
            u = u - A.T @ np.linalg.solve(A @ A.T, sides.room(program.theta(u))[held])
        u, ended = _descended(problem, u, A, steps)
        if ended is None or not ended[1].ok:
            return None
        pull, certificate = ended
        theta = sides.at(program.theta(u), held)
        beyond = ~held & sides.beyond(theta, BARELY)
        # What is held and would rather come back in is let go.
        back = np.flatnonzero(held)[(pull > 0.0) & ~sides.equal[held]]
        if not beyond.any() and not len(back):
            return theta, certificate
        held[back] = False
        held |= beyond
    return None


def _independent(rows: Float, held: Bool) -> Bool:
    """Those held (k,) whose rows (k, p) are independent: a box around a body holds a sphere around the box as well."""
    kept, basis = held.copy(), np.zeros((0, rows.shape[1]))
    for row in np.flatnonzero(held).tolist():
        own = rows[row] / np.linalg.norm(rows[row])
        for _ in range(2):  # the second time makes up for rounding
            own = own - basis.T @ (basis @ own)
        size = np.linalg.norm(own)
        if size < DEPENDENT:
            kept[row] = False
        else:
            basis = np.concatenate([basis, own[None] / size])
    return kept


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
