"""The benchmark of Chavez-Olivares et al. 2012 with held torque, encoder counts and joints that stick."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.arrays import Float
from dynid.estimate.recursive import RecursiveLeastSquares
from dynid.factor.base import structural_base
from dynid.rows import EnergyRows, FilteredPowerRows, MomentumRows, Rows
from dynid.signals.samples import Samples
from tests.rotradi import TERMS, arm, measured, parameters

CUTOFF = 9.11 / (2 * np.pi)


@pytest.fixture(scope="module")
def run() -> Samples:
    return measured(seed=0)


def fitted(rows: Rows, run: Samples) -> tuple[Float, Float]:
    """Estimated and true base parameters, from P(0) = 1e6."""
    robot = arm()
    base = structural_base(robot, TERMS, rows)
    estimate = RecursiveLeastSquares(base.independent, variance=1e6)
    estimate.update(rows.equations(robot, TERMS, run, base.mask))
    return estimate.value, base.reduce(parameters())


@pytest.mark.parametrize(
    ("rows", "percent"),
    [
        (MomentumRows(CUTOFF, 1, "zero"), 2.5),
        (EnergyRows("zero"), 0.15),
        (FilteredPowerRows(CUTOFF, 1, "zero"), 0.15),
    ],
)
def test_rotradi(rows: Rows, percent: float, run: Samples) -> None:
    value, truth = fitted(rows, run)
    assert len(truth) == 21
    assert 100 * np.median(np.abs(value - truth) / np.abs(truth)) < percent


def test_eigenvalues_of_the_covariance_fall(run: Samples) -> None:
    robot, rows = arm(), FilteredPowerRows(CUTOFF, 1, "zero")
    base = structural_base(robot, TERMS, rows)
    estimate = RecursiveLeastSquares(base.independent, variance=1e6)
    equations = rows.equations(robot, TERMS, run, base.mask)
    greatest = [1e6]
    for first in range(0, len(run), 100):
        estimate.update(equations, 0.25, slice(first, first + 100))
        greatest.append(float(estimate.eigenvalues[0]))
    assert (np.diff(greatest) <= 1e-9 * np.array(greatest[:-1])).all()
    assert greatest[-1] < 1.0
