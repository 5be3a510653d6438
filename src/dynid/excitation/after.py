"""What to record next: the factors of an earlier run as part of the criterion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UnfitDataError
from dynid.excitation.criteria import Criterion, Information
from dynid.excitation.plan import information_of
from dynid.factor.base import BaseMap
from dynid.factor.factor import Factors, stack
from dynid.robot.model import RobotModel
from dynid.terms.term import Terms


def information_after(
    robot: RobotModel, terms: Terms, factors: Factors, sigma: Float, correlation: Float | None = None
) -> Information:
    """The criterion of a motion to be recorded beside what the factors hold.

    factors: by joint, of the same model.    sigma: (n,) deviation of the residuals, N m (N).
    correlation: (n,) rows that count as one independent row, see `estimate.residuals.rows_a_sample`; None = 1 each.
    A second of new motion counts as many rows as a second of what was recorded, of the same deviation and correlation.
    Raises UnfitDataError if the factors are not those of torque rows of this model.
    """
    spread = np.ones(robot.n) if correlation is None else np.sqrt(correlation)
    information = information_of(robot, terms, np.asarray(sigma, dtype=np.float64) * spread)
    recorded = _triangle(information.base, robot, factors, information.noise)
    seconds = sum(block.end - block.start for block in factors.blocks)
    rate = factors.count / robot.n / seconds if seconds > 0 else 1.0
    return replace(information, recorded=recorded, rate=rate)


def information_known(
    robot: RobotModel,
    terms: Terms,
    base: BaseMap,
    recorded: Float,
    noise: Float,
    rate: float,
    asked: Float | None = None,
) -> Information:
    """The criterion of a motion to be recorded beside what an online estimate knows.

    base: its base parameters.    recorded: (b, b) triangle of its equations, in units of their noise.
    noise: (n,) deviation of an equation, N m (N), times the root of how many carry the information of one independent.
    rate: Hz, equations a second and joint.
    asked: (b,) deviations to which they are to be known, the criterion; None = the greatest determinant.
    Raises UnfitDataError where the base parameters are not those of torque rows.
    """
    information = information_of(robot, terms, noise)
    if not np.array_equal(base.independent, information.base.independent):
        raise UnfitDataError(
            "factor-model", found="base parameters of other rows", expected="those of torque rows"
        )
    criterion = Criterion.LOGDET if asked is None else Criterion.PRECISION
    return replace(information, recorded=recorded, rate=rate, asked=asked, criterion=criterion)


def _triangle(base: BaseMap, robot: RobotModel, factors: Factors, noise: Float) -> Float:
    columns = {int(c) for factor in factors.total for c in factor.columns}
    if factors.group_names != robot.joint_names or not columns <= set(base.independent.tolist()):
        raise UnfitDataError(
            "factor-model",
            found="factors of other rows or another model",
            expected="torque rows of the same robot and terms",
            do="identify again with torque rows",
        )
    R = stack(factors.total, base.independent, 1.0 / noise**2)
    return np.asarray(R[:-1, :-1])
