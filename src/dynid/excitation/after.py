"""What to record next: the factors of an earlier run as part of the criterion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.excitation.criteria import Criterion, Information
from dynid.excitation.left_out import Whole
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
    What the search leaves out of the model counts as unknown in the record, and as known in the new motion.
    A second of new motion counts as many rows as a second of what was recorded, of the same deviation and correlation.
    Raises UnfitDataError if the factors are not those of torque rows of this model.
    """
    spread = np.ones(robot.n) if correlation is None else np.sqrt(correlation)
    information = information_of(robot, terms, np.asarray(sigma, dtype=np.float64) * spread)
    recorded = _triangle(information, factors)
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
    apart = _apart(information, base.independent)
    if not np.array_equal(base.independent[~apart], information.base.independent):
        raise UnfitDataError(
            "factor-model", found="base parameters of other rows", expected="those of torque rows"
        )
    criterion = Criterion.LOGDET if asked is None else Criterion.PRECISION
    own = None if asked is None else asked[~apart]
    return replace(information, recorded=_rest(recorded, apart), rate=rate, asked=own, criterion=criterion)


def _triangle(information: Information, factors: Factors) -> Float:
    base, robot = information.base, information.robot
    found = np.unique(np.concatenate([factor.columns for factor in factors.total]))
    apart = found[_apart(information, found)]
    columns = np.concatenate([apart, base.independent])
    if factors.group_names != robot.joint_names or not np.isin(found, columns).all():
        raise UnfitDataError(
            "factor-model",
            found="factors of other rows or another model",
            expected="torque rows of the same robot and terms",
            do="identify again with torque rows",
        )
    R, k = np.asarray(stack(factors.total, columns, 1.0 / information.noise**2)), len(apart)
    return np.asarray(R[k:-1, k:-1])


def _apart(information: Information, columns: Int) -> Bool:
    # Which of some parameters are of terms that the search leaves out.
    return np.asarray(Whole(information.terms).parameters(information.robot)[columns])


def _rest(R: Float, apart: Bool) -> Float:
    # The triangle of what equations say of the other parameters, whatever the value of those apart.
    if not apart.any():
        return R
    first = np.concatenate([R[:, apart], R[:, ~apart]], axis=1)
    triangle, k = np.asarray(np.linalg.qr(first, mode="r"), dtype=np.float64), int(apart.sum())
    return np.asarray(triangle[k:, k:])
