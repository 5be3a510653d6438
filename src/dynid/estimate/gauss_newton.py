"""Gauss-Newton on simulated runs: each round is a weighted linear regression, so all that holds for those holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Piece, Regression, Status
from dynid.estimate.least_squares import Method, completed, full_vector, residual_sigma, solve
from dynid.estimate.simulated import tried
from dynid.estimate.source import factors_of_pieces
from dynid.factor.factor import Factors, group_scale

HALVINGS = 5
# Slopes of a run are those between its samples: at a minimum of the sum they may still ask for a part of a deviation.
NEAR = 0.5
# Runs of blocks that intervals are made from, at least: of fewer a spread says little, and Student's quantile grows.
LEAST_RUNS = 8


@dataclass(frozen=True, eq=False)
class Problem:
    """Residuals that are no linear functions of the parameters.

    names: of their groups.    linear: value (b,) -> pieces with the slopes of what is predicted as columns, and
    residual + slope value as target; it may raise SolverError where the model cannot be simulated.
    """

    names: tuple[str, ...]
    linear: Callable[[Float], Iterator[Piece]]


@dataclass(frozen=True, eq=False)
class _Linear:
    """Linearised equations at a value, and the mean square of each group's residual there."""

    value: Float
    factors: Factors
    square: Float

    @staticmethod
    def at(regression: Regression, problem: Problem, value: Float) -> _Linear:
        factors = factors_of_pieces(regression, problem.linear(value), problem.names)
        theta, total = full_vector(regression, value), factors.total
        found = np.array([f.residual_square(theta) / max(f.count, 1) for f in total])
        return _Linear(value, factors, np.maximum(found, 1e-24 / group_scale(total)))

    @property
    def weights(self) -> Float:
        return 1.0 / self.square

    def cost(self, weights: Float) -> float:
        counts = np.array([f.count for f in self.factors.total])
        return float(np.sum(weights * counts * self.square))


def minimised(
    method: Method,
    regression: Regression,
    problem: Problem,
    nearest: Callable[[Float, Float], Float],
    start: Float,
    rounds: int,
    tolerance: float,
    what: str,
    memory: float = 0.0,
    enough: Callable[[], bool] = lambda: False,
) -> Estimate:
    """Fits by Gauss-Newton with halved steps; groups weigh 1/sigma^2 of their residuals, found anew each round.

    nearest: value (b,) and triangle R (b, b) of equations -> the nearest value that can be simulated: there steps end,
    and where the equations ask for more, intervals cover the difference.    start: can be simulated.
    tolerance: move of the estimate, in standard deviations, that ends it.    what: for the text of the status.
    memory: s, within which residuals are correlated: blocks that are shorter count together in the intervals.
    enough: asked after every step whether what is sought is known, though other parameters may still move.
    """
    here = _Linear.at(regression, problem, start)
    stopped: str | None = None
    moved, done, known = np.inf, 0, False
    target, free, R = here.value, here.value, np.eye(len(start))
    for done in range(1, rounds + 1):
        free, R = solve(replace(regression, factors=here.factors), here.weights)
        target = nearest(free, R)
        moved = float(np.linalg.norm(R @ (target - here.value)) / np.sqrt(len(start)))
        if moved < tolerance or done == rounds:
            break
        found = _lowered(regression, problem, here, target - here.value, moved / tolerance)
        if isinstance(found, str):
            stopped = found
            break
        here = found
        known = enough()
        if known:
            break
    value = target if moved < tolerance else here.value
    sigma = residual_sigma(regression, value)
    weighted = here.factors.scaled(here.weights)
    held = float(np.linalg.norm(R @ (target - free)) / np.sqrt(len(start)))
    status = _status(what + _held(held, tolerance), done, moved, np.inf if known else tolerance, stopped)
    together = _together(regression, memory)
    estimate = completed(
        method, regression, value, R, 1.0 / sigma**2, sigma, 1.0, None, status, weighted, together
    )
    away = np.outer(target - free, target - free)
    return replace(
        estimate,
        covariance=estimate.covariance + away,
        textbook_covariance=estimate.textbook_covariance + away,
    )


def _together(regression: Regression, memory: float) -> int:
    # Neighbouring blocks as long as the memory together, where enough of such runs are left.
    blocks = regression.factors.blocks
    length = float(np.median([block.length for block in blocks]))
    wanted = int(np.ceil(memory / length)) if length > 0 else 1
    return max(min(wanted, len(blocks) // LEAST_RUNS), 1)


def _lowered(
    regression: Regression, problem: Problem, here: _Linear, step: Float, longest: float
) -> _Linear | str:
    # The first of the step, which is `longest` tolerances long, and its halves that lowers the cost; what was wrong if
    # none does, "" at a minimum. A half that is shorter than the tolerance would end the search: it is not tried.
    wrong = ""
    for halving in range(HALVINGS):
        if halving and longest / 2**halving < 1.0:
            break
        try:
            trial = _Linear.at(regression, problem, here.value + step / 2**halving)
        except SolverError as error:
            wrong = tried(error)
            continue
        if trial.cost(here.weights) < here.cost(here.weights):
            return trial
    return wrong


def _held(held: float, tolerance: float) -> str:
    if held < tolerance:
        return ""
    return f", held where the mass matrix is positive definite, {held:.2g} standard deviations from the equations'"


def _status(what: str, rounds: int, moved: float, tolerance: float, stopped: str | None) -> Status:
    text = f"{what}, {rounds} Gauss-Newton rounds"
    if moved < tolerance:
        return Status(True, text)
    if stopped == "" and moved < NEAR:
        return Status(True, f"{text}; no smaller step lowers the residual")
    text += f"; the estimate still moves by {moved:.2g} standard deviations a round"
    if stopped is not None:
        text += f"; {stopped or 'no smaller step lowers the residual'}"
    return Status(False, f"{text}: begin nearer (richer motion, better prior), raise rounds, or use 'didim'")
