"""A regression made of factors holds what the data determine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from dynid.estimate import OLS, WLS, regression_of, solve
from dynid.factor import Assembly, Blocking, structural_base
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter
from dynid.terms import Coulomb, Offset, RigidBody, Viscous
from dynid.testing import exact_samples, factors_of, random_robot, synthetic_regression, true_parameters

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
        Blocking(4.0),
    )
    factors = assembly.factors([samples])
    regression = regression_of(robot, TERMS, structural, factors)
    assert regression.base.rank == structural.rank
    assert regression.factors is factors
    assert (regression.spread > 0).all()
    np.testing.assert_allclose(
        OLS().fit(regression).value, regression.base.reduce(theta), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("stands", ["nothing", "another"])
def test_a_part_of_a_log_that_does_not_tell_a_column_from_others(stands: str) -> None:
    """Its parameter is zero there, and the others predict as well as they can."""
    whole = synthetic_regression(3).regression
    own = whole.base.independent
    rng = np.random.default_rng(2)
    X, y = np.zeros((300, len(whole.columns))), rng.normal(size=300)
    X[:, own] = rng.normal(size=(300, len(own)))
    X[:, own[2]] = 0.0 if stands == "nothing" else 3.0 * X[:, own[1]] - X[:, own[0]]
    part = replace(whole, factors=factors_of([X], [y], [own], len(whole.columns), 5))
    value, R = solve(part, np.ones(1))
    assert value[2] == pytest.approx(0.0, abs=1e-9)
    others = np.delete(own, 2)
    best = np.linalg.lstsq(X[:, others], y, rcond=None)[0]
    np.testing.assert_allclose(np.delete(value, 2), best, rtol=1e-9, atol=1e-10)
    assert np.isfinite(R).all()
    assert np.isfinite(WLS().fit(part).value).all()


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_intervals_are_students(level: float) -> None:
    found = OLS().fit(synthetic_regression(3).regression)
    low, high = student.interval(level, found.degrees_of_freedom, loc=found.value, scale=found.std)
    np.testing.assert_allclose(found.value - found.half_width(level), low)
    np.testing.assert_allclose(found.value + found.half_width(level), high)
