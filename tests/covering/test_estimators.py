"""Estimators on robots that have everything: without noise they find the truth, by every scheme."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.estimate import OLS, WLS, RecursiveLeastSquares, Regression, regression_of
from dynid.factor import Assembly, BaseMap, Blocking, structural_base
from dynid.rows import ElasticRows, MotorRows, PowerRows, Rows, TorqueRows
from dynid.signals import ParallelFilter, Samples
from dynid.testing import RobotCase
from tests.covering.oracle import EVERY, ONE_ENCODER, TWO_ENCODERS, agree

RATE = 100.0


def measured(case: RobotCase) -> Samples:
    """Six seconds of motion with its torque, in which every sample is a state of its own."""
    return case.samples(600, seed=15, rate=RATE)


def regression(case: RobotCase, rows: Rows, samples: Samples) -> tuple[Regression, BaseMap]:
    """The regression of unfiltered samples."""
    structural = structural_base(case.robot, case.terms, rows)
    plain = ParallelFilter(RATE, None, 4, 1)
    assembly = Assembly(case.robot, case.terms, rows, structural.mask, plain, Blocking(1.0))
    return regression_of(case.robot, case.terms, structural, assembly.factors([samples])), structural


def scaled_error(found: Regression, value: np.ndarray, truth: np.ndarray) -> float:
    """Greatest error of a parameter as a share of the torque that it makes."""
    size = found.base.scale[found.base.independent]
    return float((size * np.abs(value - found.base.reduce(truth))).max() / (size * np.abs(value)).max())


SCHEMES = [(case, rows) for case in ONE_ENCODER for rows in (TorqueRows(), MotorRows())]
SCHEMES += [(case, ElasticRows(form=form)) for case in TWO_ENCODERS for form in ("total", "link")]


@pytest.mark.parametrize(
    ("case", "rows"), [pytest.param(c.values[0], r, id=f"{r.name} {c.id}") for c, r in SCHEMES]
)
def test_least_squares_finds_the_truth(case: RobotCase, rows: Rows) -> None:
    found, structural = regression(case, rows, measured(case))
    for method in (OLS(), WLS()):
        estimate = method.fit(found)
        assert scaled_error(found, estimate.value, case.theta) < 1e-8
        # All that is fitted predicts what was measured.
        other = case.samples(20, seed=16)
        lifted = estimate.full_vector
        known = case.terms.torque(case.robot, other, lifted)
        if isinstance(rows, ElasticRows):
            p = len(case.theta)
            lines = case.terms.torque_regressor(case.robot, other, np.ones(p, dtype=np.bool_)).dense(p)
            agree(lines @ lifted, lines @ case.theta, 1e-6)
        else:
            agree(known, other.tau, 1e-6)
    assert structural.rank >= found.base.rank


@pytest.mark.parametrize("case", ONE_ENCODER)
def test_recursion_ends_where_least_squares_is(case: RobotCase) -> None:
    samples = measured(case)
    found, _ = regression(case, TorqueRows(), samples)
    base = found.base
    size = base.scale[base.independent]
    equations = TorqueRows().equations(case.robot, case.terms, samples, base.mask)
    estimate = RecursiveLeastSquares(base.independent, variance=1e12)
    for first in range(0, len(samples), 50):
        estimate.update(equations, 1.0, slice(first, first + 50))
    error = size * np.abs(estimate.value - base.reduce(case.theta))
    assert error.max() < 1e-4 * (size * np.abs(estimate.value)).max()


@pytest.mark.parametrize("case", EVERY)
def test_base_parameters_are_all_that_torque_shows(case: RobotCase) -> None:
    rows = ElasticRows() if case.levels["encoders"] == "two" else TorqueRows()
    base = structural_base(case.robot, case.terms, rows)
    motion = replace(case.motion(30, seed=17), tau=np.zeros((30, case.robot.n)))
    # Two sets of parameters with the same base parameters make the same torque.
    other = base.lift(base.reduce(case.theta))
    p = len(case.theta)
    every = np.ones(p, dtype=np.bool_)
    for regressor in (case.terms.torque_regressor, case.terms.motor_regressor):
        if regressor == case.terms.motor_regressor and case.levels["encoders"] == "one":
            continue
        lines = regressor(case.robot, motion, every).dense(p)
        agree(lines @ other, lines @ case.theta, 1e-9)
    # And power, a sum over the joints, shows no more.
    if case.levels["encoders"] == "one":
        assert structural_base(case.robot, case.terms, PowerRows()).rank <= base.rank
