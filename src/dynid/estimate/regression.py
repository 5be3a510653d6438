"""A regression from the factors of a robot's equations."""

from __future__ import annotations

from dynid.estimate.estimator import Regression, Source
from dynid.estimate.prior import likely_bodies, parameter_spread
from dynid.factor.base import BaseMap
from dynid.factor.data_base import data_base, influence
from dynid.factor.factor import Factors
from dynid.robot.model import RobotModel
from dynid.terms.term import Terms


def regression_of(
    robot: RobotModel, terms: Terms, structural: BaseMap, factors: Factors, source: Source | None = None
) -> Regression:
    """What an estimator gets: base parameters that the data determine, their factors, and the spread of the priors.

    structural: base parameters of the equations.    factors: over their columns.    source: the equations one by one.
    """
    base = data_base(structural, factors)
    columns = terms.columns(robot)
    kept = factors if base.rank == structural.rank else factors.select(base.mask)
    spread = parameter_spread(robot, columns, influence(kept, base))
    return Regression(
        columns, base, kept, spread, source=source, likely=likely_bodies(robot, columns, spread)
    )
