"""Free knots of a spline: several vectors of them are tried, the most promising one is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.excitation.design import Problem, Task, check_size, check_start, draws, solve
from dynid.trajectories.basis import SplineBasis

CANDIDATES, ITERATIONS, LEAST = 12, 12, 0.4


def drawn_knots(basis: SplineBasis, count: int, seed: int = 0) -> list[SplineBasis]:
    """The family with uniform knots, then `count` with drawn ones; the same for a seed.

    Intervals are LEAST of a uniform one and random shares of the rest, so that no stretch asks for endless jerk.
    """
    rng = np.random.default_rng(seed)
    found = [basis]
    for _ in range(count):
        shares = LEAST / basis.pieces + (1.0 - LEAST) * rng.dirichlet(np.ones(basis.pieces))
        inner: Float = basis.duration * np.cumsum(shares)[:-1]
        found.append(SplineBasis(basis.duration, basis.pieces, tuple(float(x) for x in inner)))
    return found


def with_free_knots(task: Task, count: int, seed: int = 0) -> Task:
    """The task with the knots that a short search from one start gets farthest with, the uniform ones among them.

    Raises UsageError for a family that is no spline or has knots of its own.
    """
    if not isinstance(task.basis, SplineBasis) or task.basis.breaks or count < 1:
        raise UsageError(
            "free-knots",
            found=f"{count} vectors of knots",
            expected="1 or more, for one spline without motion.knots",
        )
    check_size(task)
    check_start(task)
    tried = [replace(task, basis=basis) for basis in drawn_knots(task.basis, count, seed)]
    return min(tried, key=lambda one: _reached(one, seed))


def _reached(task: Task, seed: int) -> float:
    problem = Problem(task)
    return solve(problem, draws(problem, CANDIDATES, seed)[0], ITERATIONS).value
