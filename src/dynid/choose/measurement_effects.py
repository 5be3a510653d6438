"""What the log adds to the robot, estimated beside the chosen model with intervals from blocks of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.distributions import student_quantile
from dynid.base.records import dataclass
from dynid.choose.comparison import ModelComparison
from dynid.choose.search import Fitted
from dynid.choose.selection import MeasurementEffect
from dynid.choose.wide_model import Label
from dynid.estimate.blocks import BlockScores
from dynid.estimate.estimator import Estimate
from dynid.estimate.uncertainty import Intervals, covariance_of
from dynid.factor.factor import Factors, stack
from dynid.kernel import solve_triangular
from dynid.robot.model import RobotModel
from dynid.terms.choice import EVERYWHERE, Role

DEPENDENT = 1e-6
# The kind of an effect of the log and its joint, "" = of the whole log.
EffectPlace = tuple[str, str]


@dataclass(frozen=True, eq=False)
class _Fit:
    index: Int
    value: Float
    half_width: Float


def estimate_effects(
    robot: RobotModel, comparison: ModelComparison, factors: Factors, first: Fitted, labels: Sequence[Label]
) -> tuple[MeasurementEffect, ...]:
    """Effects of the log, each beside the chosen model; a jackknife over blocks for each.

    labels: of the chosen model, from which a kind that it contains is taken. Relative sizes are relative to that of the
    first joint where the model does not hold the effect; some stand not beside but in place of others.
    """
    wide = comparison.wide.terms.columns(robot)
    place = {column.name: i for i, column in enumerate(wide)}
    weights = np.asarray(first.estimate.weights)
    found: list[MeasurementEffect] = []
    for effect in comparison.wide.proposals:
        if not effect.measured:
            continue
        own = comparison.wide.of(effect)
        if effect.relative:
            right = next((label for label in own if label not in labels), None)
            own = tuple(label for label in own if label != right)
        held = [label for label in labels if label[0] not in effect.instead_of]
        names = (*comparison.fixed, *comparison.wide.names(dict.fromkeys([*held, *own])))
        index = np.array(
            [place[comparison.regression.names[i]] for i in comparison.regression.index(names)],
            dtype=np.int64,
        )
        fit = _fit(factors, index, weights)
        by_column = dict(zip(fit.index.tolist(), zip(fit.value, fit.half_width, strict=True), strict=True))
        for label in own:
            for name in comparison.wide.members[label]:
                own_name = name.split(":", 1)[1]
                if place[name] in by_column and own_name not in effect.auxiliary:
                    value, half = by_column[place[name]]
                    found.append(
                        MeasurementEffect(
                            name=own_name,
                            kind=effect.label,
                            joint=_joint(robot, label),
                            unit=wide[place[name]].unit,
                            value=float(value),
                            half_width=float(half),
                            adopted=label in labels,
                            fault=effect.role is Role.LOG,
                        )
                    )
    return tuple(found)


def as_estimated(found: Sequence[MeasurementEffect], estimate: Estimate) -> tuple[MeasurementEffect, ...]:
    """Those that the model contains with the values and intervals of its final fit, the others as they are."""
    half = estimate.half_width()
    values = {
        estimate.columns[i].name: (float(estimate.value[k]), float(half[k]))
        for k, i in enumerate(estimate.base.independent)
    }
    return tuple(
        replace(one, value=values[one.name][0], half_width=values[one.name][1])
        if one.adopted and one.name in values
        else one
        for one in found
    )


def place_of(robot: RobotModel, label: Label) -> EffectPlace:
    """Kind and joint of an effect."""
    return label[0], _joint(robot, label)


def _joint(robot: RobotModel, label: Label) -> str:
    return "" if label[1] == EVERYWHERE else robot.joint_names[label[1]]


def _fit(factors: Factors, index: Int, weights: Float) -> _Fit:
    """Weighted least squares over some columns of wide factors, with 95 % half widths from the jackknife."""
    mask = np.zeros(factors.parameter_count, dtype=np.bool_)
    mask[index] = True
    # Of the sum, which all effects share: blocks are gone through once, for the columns that are independent.
    R = stack([factor.select(mask) for factor in factors.total], index, weights)
    size = np.linalg.norm(R[:-1, :-1], axis=0)
    good = np.abs(np.diag(R)[:-1]) > DEPENDENT * np.where(size > 0, size, np.inf)
    if not good.all():
        return _fit(factors, index[good], weights)
    b = len(index)
    inverse = solve_triangular(R[:b, :b], np.eye(b))
    value = inverse @ R[:b, b]
    theta = np.zeros(factors.parameter_count)
    theta[index] = value
    blocks = BlockScores.of(factors.select(mask), index, theta, inverse, weights)
    blocks = blocks.grouped(factors.independent())
    std = np.sqrt(np.diag(covariance_of(Intervals.JACKKNIFE, blocks)))
    return _Fit(index, value, float(student_quantile(blocks.count - 1, 0.975)) * std)
