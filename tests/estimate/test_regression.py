"""A regression made of factors holds what the data determine."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from dynid.estimate.least_squares import OLS
from dynid.estimate.regression import regression_of
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.rows.torque import TorqueRows
from dynid.signals.parallel import ParallelFilter
from dynid.terms import Coulomb, Offset, RigidBody, Viscous
from dynid.testing import random_robot, synthetic_regression
from dynid.testing.motion import exact_samples, true_parameters

TERMS = RigidBody() + Viscous() + Coulomb(0.1) + Offset()


def test_exact_equations_give_the_true_base_parameters_back() -> None:
    robot = random_robot(5, 3, 0.0)
    theta = true_parameters(robot, TERMS)
    samples = exact_samples(robot, TERMS, theta, 40.0, 2)
    structural = structural_base(robot, TERMS, TorqueRows())
    assembly = Assembly(
        robot,
        TERMS,
        TorqueRows(),
        structural.mask,
        ParallelFilter(samples.rate, samples.rate / 8),
        4.0,
    )
    factors = assembly.factors([samples])
    regression = regression_of(robot, TERMS, structural, factors)
    assert regression.base.rank == structural.rank
    assert regression.factors is factors
    assert (regression.spread > 0).all()
    np.testing.assert_allclose(
        OLS().fit(regression).value, regression.base.reduce(theta), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_intervals_are_students(level: float) -> None:
    found = OLS().fit(synthetic_regression(3).regression)
    low, high = student.interval(level, found.degrees_of_freedom, loc=found.value, scale=found.std)
    np.testing.assert_allclose(found.value - found.half_width(level), low)
    np.testing.assert_allclose(found.value + found.half_width(level), high)
