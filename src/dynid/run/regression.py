"""The regression that a run came from, from what the run holds."""

from __future__ import annotations

from dynid.estimate.estimator import Regression
from dynid.estimate.prior import likely_bodies, parameter_spread
from dynid.factor.data_base import influence
from dynid.run.result import Identification


def regression_of_run(one: Identification) -> Regression:
    """Factors, base parameters and priors of a run; without its samples."""
    columns, base = one.estimate.columns, one.estimate.base
    held = {int(c) for factor in one.factors.total for c in factor.columns}
    factors = one.factors if held <= set(base.independent.tolist()) else one.factors.select(base.mask)
    spread = parameter_spread(one.robot, columns, influence(factors, base))
    return Regression(columns, base, factors, spread, likely=likely_bodies(one.robot, columns, spread))
