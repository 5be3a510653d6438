"""The factor on the torque of some drives with which physically consistent bodies fit it beside that of the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.estimate.estimator import Regression
from dynid.estimate.feasible import Among, FeasibleFit
from dynid.factor.factor import Factors, stack

# Logarithms of factors that are tried: up to four times either way, in steps of the root of two; and steps about a
# factor that is nearly right, after which a parabola leaves a few thousandths of it.
TRIED = np.log(2.0) * np.arange(-4, 5) / 2.0
NEARBY = (np.log(1.2), np.log(1.04))


@dataclass(frozen=True, eq=False)
class ScaledDrives:
    """Consistent fits of equations in which the torque of some groups is multiplied by a factor s.

    min_s,theta sum_g w_g / s_g^2 ||s_g tau_g - Y_g theta||^2, s_g = s in those groups and 1 in the others: errors
    count as errors of the torque that is logged, so that no factor makes them small.
    regression: of the model.    weights: (g,).    fit: consistent, its strength a number.    own: (g,) those groups.
    """

    regression: Regression
    weights: Float
    fit: FeasibleFit
    own: Bool

    def best(self, factors: Factors, near: float | None = None) -> tuple[float, Float]:
        """The factor that fits best, and parameters (p,).    near: one that is nearly right; None = any is tried.

        Raises SolverError where no consistent bodies are found.
        """

        def cost(size: float) -> float:
            return self.missed(factors, np.exp(size), self.parameters(factors, np.exp(size)))

        found = _vertex(cost, TRIED) if near is None else float(np.log(near))
        for step in NEARBY:
            found = _vertex(cost, found + step * np.arange(-1, 2))
        return float(np.exp(found)), self.parameters(factors, np.exp(found))

    def missed(self, factors: Factors, factor: float, theta: Float) -> float:
        """Weighted squares of the logged torque that parameters (p,) miss."""
        full, base = np.zeros(len(theta)), self.regression.base
        full[base.independent] = base.reduce(theta)
        parts = zip(self._weights(factor), factors.total, self._scales(factor), strict=True)
        return float(sum(w * group.with_target_times(s).residual_square(full) for w, group, s in parts))

    def parameters(self, factors: Factors, factor: float) -> Float:
        """(p,) of the consistent fit."""
        base, scales = self.regression.base, self._scales(factor)
        scaled = [group.with_target_times(s) for group, s in zip(factors.total, scales, strict=True)]
        R, b = stack(scaled, base.independent, self._weights(factor)), base.rank
        rows = R[:b, :b] @ base.B, R[:b, b]
        return self.fit.consistent(self.regression, *rows, float(self.fit.strength), self._among).parameters

    def _scales(self, factor: float) -> Float:
        return np.where(self.own, factor, 1.0)

    def _weights(self, factor: float) -> Float:
        return np.asarray(self.weights / self._scales(factor) ** 2)

    @cached_property
    def _among(self) -> Among:
        return self.fit.among(self.regression)


def _vertex(cost: Callable[[float], float], at: Float) -> float:
    """Where a parabola through the least of some costs and those beside it is least; at a border that."""
    costs = np.array([cost(float(x)) for x in at])
    k = int(np.clip(np.argmin(costs), 1, len(at) - 2))
    left, middle, right = costs[k - 1 : k + 2]
    step, bend = float(at[k] - at[k - 1]), float(left - 2.0 * middle + right)
    if not bend > 0.0:
        return float(at[int(np.argmin(costs))])
    return float(at[k] + np.clip(0.5 * step * (left - right) / bend, -step, step))
