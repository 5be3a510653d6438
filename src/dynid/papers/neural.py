"""Adaline and Hopfield networks, for comparison with learning methods."""

from __future__ import annotations

import numpy as np

from dynid.base import Float, check_options, dataclass, option
from dynid.estimate import (
    WLS,
    Estimate,
    Regression,
    Status,
    completed,
    interval_kind,
    last_move,
    most_rounds,
    require_enough,
    residual_sigma,
    solve,
)
from dynid.factor import stack

# Adaline: least squares by the delta rule.


@dataclass(frozen=True)
class Adaline:
    """One linear neuron: weights x learn by x += a r, r = X'(y - X x), over all equations at once.

    a = r'r / r'X'X r, the step that lowers the error most. Columns are scaled to length 1, so that units do not
    matter, and joints have the weights of `WLS`, to whose minimum it converges. It needs about as many rounds as the
    square of the condition number of the scaled columns.

    Parameters
    ----------
    rounds : int
        Maximum number of steps.
    tolerance : float
        Distance from the minimum at which it stops, in standard deviations.
    intervals : str
        Kind of confidence intervals.

    References
    ----------
    Widrow and Hoff 1960; Leboutet et al. 2021 for robots.

    """

    rounds: int = most_rounds(1_000_000)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
    name: str = "adaline"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Learn from zero, with the joint weights of weighted least squares."""
        require_enough(regression)
        weights, b = WLS().fit(regression).weights, regression.base.rank
        R = stack(regression.factors.total, regression.base.independent, weights)
        size = np.linalg.norm(R[:b, :b], axis=0)
        X = R[:b, :b] / size
        A, c = X.T @ X, X.T @ R[:b, b]
        x, best = np.zeros(b), size * solve(regression, weights)[0]
        for done in range(self.rounds + 1):
            r = c - A @ x
            # ||X (x - best)||^2 = (best - x)' r, as A best = c.
            away = float(np.sqrt(max((best - x) @ r, 0.0) / b))
            bend = r @ A @ r
            if away < self.tolerance or done == self.rounds or not bend > 0:
                break
            x = x + (r @ r) / bend * r
        value = x / size
        text = f"{done} steps of the delta rule, {away:.2g} standard deviations from least squares"
        if not away < self.tolerance:
            text += ": raise rounds, or use 'wls', which solves the same equations at once"
        status = Status(away < self.tolerance, text)
        sigma = residual_sigma(regression, value)
        return completed(self, regression, value, R[:b, :b], weights, sigma, 1.0, None, status)


# Hopfield and Tank's recurrent network: least squares as the equilibrium of a dynamical system.

# First step of the integration, and its factors after success and failure.
FIRST_STEP, GROWTH, SHRINK = 1e-3, 2.0, 0.25
# Output relative to its limit above which a neuron is saturated.
FULL = 0.999


@dataclass(frozen=True)
class Hopfield:
    """du/dt = X'(y - X x), x = bound tanh(u / bound): neurons u whose outputs x converge to least squares.

    The energy ||y - X x||^2 / 2 never grows. Columns are scaled to length 1 and joints have the weights of `WLS`.
    Outputs stay within +- `bound` times the norm of the target, so that a saturated neuron shows a direction that the
    log does not determine. The equations are stiff and are integrated by implicit steps (Rosenbrock-Euler).

    Parameters
    ----------
    bound : float
        Limit of the outputs, as a multiple of the target's norm.
    rounds : int
        Maximum number of steps.
    tolerance : float
        Distance from the minimum at which it stops, in standard deviations.
    intervals : str
        Kind of confidence intervals.

    Raises
    ------
    UsageError
        For a bound that is not positive, or no round.

    References
    ----------
    Hopfield and Tank 1986; Atencia, Joya and Sandoval 2004; Leboutet et al. 2021 for robots.

    """

    bound: float = option(
        100.0, "hopfield: limit of the outputs, as a multiple of the target's norm; 100 without it", above=0
    )
    rounds: int = most_rounds(500)
    tolerance: float = last_move(0.01)
    intervals: str = interval_kind()
    name: str = "hopfield"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Integrate the network from zero until it is at rest, with the joint weights of weighted least squares."""
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
            # The step was too long for the neurons' curvature.
            if lower > energy * (1.0 + 1e-12):
                h *= SHRINK
                continue
            u, x, energy, h = moved, trial, lower, GROWTH * h
            away = float(np.linalg.norm(X @ (x - best)) / np.sqrt(b))
        return x, done, away
