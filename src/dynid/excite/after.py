"""What to record next: the factors of an earlier run as part of the criterion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.arrays import Float
from dynid.errors import UnfitDataError
from dynid.excite.criteria import Information
from dynid.excite.plan import information_of
from dynid.factor.base import BaseMap
from dynid.factor.factor import Factors, stack
from dynid.residuals import Residuals, autocorrelation, rows_alike
from dynid.robot.model import RobotModel
from dynid.terms.term import Terms

LEAST_STRETCH = 8


def information_after(
    robot: RobotModel, terms: Terms, factors: Factors, sigma: Float, correlation: Float | None = None
) -> Information:
    """The criterion of a motion to be recorded beside what the factors hold.

    factors: by joint, of the same model.    sigma: (n,) deviation of the residuals, N m (N).
    correlation: (n,) rows that count as one independent row, see `rows_a_sample`; None = 1 each.
    A second of new motion counts as many rows as a second of what was recorded, of the same deviation and correlation.
    Raises UnfitDataError if the factors are not those of torque rows of this model.
    """
    spread = np.ones(robot.n) if correlation is None else np.sqrt(correlation)
    information = information_of(robot, terms, np.asarray(sigma, dtype=np.float64) * spread)
    recorded = _triangle(information.base, robot, factors, information.noise)
    seconds = sum(block.end - block.start for block in factors.blocks)
    rate = factors.count / robot.n / seconds if seconds > 0 else 1.0
    return replace(information, recorded=recorded, rate=rate)


def rows_a_sample(residuals: Residuals) -> Float:
    """How many rows carry the information of one independent row, by joint (n,), at least 1.

    1 + 2 sum of the autocorrelation of the residual up to its first sign change, over all unbroken stretches: the
    variance of a mean of correlated rows is that many times larger than of independent ones.
    Source: Bartlett 1946; Madsen et al. 2020 find residuals whose printed deviations are four times too small.
    """
    error = residuals.error
    cuts = np.flatnonzero((np.diff(residuals.trajectory) != 0) | (np.diff(residuals.segment) != 0)) + 1
    stretches = [part for part in np.split(error, cuts) if len(part) >= LEAST_STRETCH]
    if not stretches:
        return np.ones(error.shape[1])
    found = np.ones(error.shape[1])
    for j in range(error.shape[1]):
        correlation = autocorrelation([part[:, j] for part in stretches])
        if np.isfinite(correlation).all():
            found[j] = rows_alike(correlation)
    return found


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
