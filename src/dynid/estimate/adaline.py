"""Adaline: least squares by the delta rule, for comparison with methods that learn."""

from __future__ import annotations

import numpy as np

from dynid.base.options import check_options
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, Status, require_enough
from dynid.estimate.least_squares import WLS, completed, residual_sigma, solve
from dynid.estimate.options import interval_kind, last_move, most_rounds
from dynid.factor.factor import stack


@dataclass(frozen=True)
class Adaline:
    """One linear neuron: weights x learn by x += a r, r = X'(y - X x), over all equations at once.

    a = r'r / r'X'X r, the step that lowers the error most. Columns are scaled to length 1, so that units do not matter,
    and joints weigh as in `WLS`, whose minimum it walks to: after enough rounds both agree. It needs about as many
    rounds as the square of the condition number of the scaled columns.

    rounds: greatest number of steps.    tolerance: distance from the minimum, in standard deviations, that ends it.
    Source: Widrow and Hoff 1960; Leboutet et al. 2021 for robots.
    """

    rounds: int = most_rounds(1_000_000)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
    name: str = "adaline"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Learns from zero, with the joints' weights of weighted least squares."""
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
