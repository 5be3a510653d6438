"""Hopfield and Tank's recurrent network: least squares as the rest state of a dynamical system."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, Status, require_enough
from dynid.estimate.least_squares import WLS, completed, residual_sigma, solve
from dynid.estimate.options import interval_kind, last_move, most_rounds
from dynid.factor.factor import stack

FIRST_STEP, GROWTH, SHRINK = 1e-3, 2.0, 0.25
FULL = 0.999


@dataclass(frozen=True)
class Hopfield:
    """du/dt = X'(y - X x), x = bound tanh(u / bound): neurons u whose outputs x come to rest at least squares.

    The energy ||y - X x||^2 / 2 never grows along the way. Columns are scaled to length 1 and joints weigh as in `WLS`;
    outputs stay within +- `bound` times the length of the target, so that a neuron that saturates shows a direction
    that the log does not determine. The equations are stiff and followed by implicit steps (Rosenbrock-Euler).

    rounds: greatest number of steps.    tolerance: distance from the minimum, in standard deviations, that ends it.
    Source: Hopfield and Tank 1986; Atencia, Joya and Sandoval 2004; Leboutet et al. 2021 for robots.

    Raises UsageError for a bound that is not positive, or no round.
    """

    bound: float = option(
        100.0, "hopfield: limit of the neurons, in lengths of the target; 100 without it", above=0
    )
    rounds: int = most_rounds(500)
    tolerance: float = last_move(0.01)
    intervals: str = interval_kind()
    name: str = "hopfield"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Lets the network come to rest from zero, with the joints' weights of weighted least squares."""
        require_enough(regression)
        weights, b = WLS().fit(regression).weights, regression.base.rank
        R = stack(regression.factors.total, regression.base.independent, weights)
        size = np.linalg.norm(R[:b, :b], axis=0)
        X, reach = R[:b, :b] / size, self.bound * float(np.linalg.norm(R[:b, b]))
        best = size * solve(regression, weights)[0]
        x, done, away = self._rest(X, R[:b, b], best, reach)
        full = int((np.abs(x) > FULL * reach).sum())
        text = f"a network at rest after {done} steps, {away:.2g} standard deviations from least squares"
        if not away < self.tolerance:
            text += f", {full} neurons saturated: raise bound" if full else ": raise rounds"
            text += ", or use 'wls', which solves the same equations at once"
        value, status = x / size, Status(away < self.tolerance, text)
        sigma = residual_sigma(regression, value)
        return completed(self, regression, value, R[:b, :b], weights, sigma, 1.0, None, status)

    def _rest(self, X: Float, y: Float, best: Float, reach: float) -> tuple[Float, int, float]:
        b = len(best)
        A, c = X.T @ X, X.T @ y
        u, x, h = np.zeros(b), np.zeros(b), FIRST_STEP
        energy, away, done = float(y @ y), np.inf, 0
        while done < self.rounds and not away < self.tolerance:
            done += 1
            slope = 1.0 - (x / reach) ** 2
            moved = u + np.linalg.solve(np.eye(b) / h + A * slope, c - A @ x)
            trial = reach * np.tanh(moved / reach)
            lower = float(np.sum((y - X @ trial) ** 2))
            # A step that raised the energy was too long for the curvature of the neurons.
            if lower > energy * (1.0 + 1e-12):
                h *= SHRINK
                continue
            u, x, energy, h = moved, trial, lower, GROWTH * h
            away = float(np.linalg.norm(X @ (x - best)) / np.sqrt(b))
        return x, done, away
