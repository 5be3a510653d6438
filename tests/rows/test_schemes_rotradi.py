"""The benchmark of Chavez-Olivares et al. 2012 with held torque, encoder counts and joints that stick."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dynid_studies.rotradi import POLE, TERMS, THETA, arm, exciting, full, measured, phases, truth

from dynid.base import Float
from dynid.estimate import RecursiveLeastSquares
from dynid.factor import structural_base
from dynid.rows import EnergyRows, FilteredPowerRows, MomentumRows, PowerRows, Rows, TorqueRows
from dynid.signals import Samples
from dynid.simulation.open_loop import open_loop

CUTOFF = POLE / (2 * np.pi)
FILTERED_POWER = FilteredPowerRows(CUTOFF, 1, "zero")


@pytest.fixture(scope="module")
def exact() -> Samples:
    return truth(exciting(phases(seed=0)))


@pytest.fixture(scope="module")
def run(exact: Samples) -> Samples:
    return measured(exact)


def fitted(rows: Rows, run: Samples) -> tuple[Float, Float, Float]:
    """Estimated and true base parameters, from P(0) = 1e6, and one set of full parameters."""
    robot = arm()
    base = structural_base(robot, TERMS, rows)
    estimate = RecursiveLeastSquares(base.independent, variance=1e6)
    estimate.update(rows.equations(robot, TERMS, run, base.mask))
    return estimate.value, base.reduce(full(THETA)), base.lift(estimate.value)


def median_error(rows: Rows, run: Samples) -> float:
    value, truth, _ = fitted(rows, run)
    assert len(truth) == 21
    return float(100 * np.median(np.abs(value - truth) / np.abs(truth)))


@pytest.mark.parametrize(
    ("rows", "percent"),
    [
        (MomentumRows(CUTOFF, 1, "zero", stick=0.01), 0.15),
        (MomentumRows(CUTOFF, 2, "zero", stick=0.01), 0.15),
        (EnergyRows("zero"), 0.15),
        (FILTERED_POWER, 0.15),
    ],
)
def test_rotradi(rows: Rows, percent: float, run: Samples) -> None:
    assert median_error(rows, run) < percent


def test_friction_at_rest_biases_rows_that_do_not_know_of_it(run: Samples) -> None:
    plain = median_error(MomentumRows(CUTOFF, 1, "zero"), run)
    assert plain > 20 * median_error(MomentumRows(CUTOFF, 1, "zero", stick=0.01), run)


def test_joints_of_the_benchmark_stick(exact: Samples) -> None:
    slow = (np.abs(exact.dq) < 0.01).mean(axis=0)
    assert ((slow > 0.05) & (slow < 0.17)).all()
    assert (exact.dq == 0).mean() > 0.08


def test_open_loop_of_filtered_power(run: Samples) -> None:
    theta = fitted(FILTERED_POWER, run)[2]
    found = open_loop(arm(), TERMS, theta, run, "zero")
    assert found.diverged_at is None
    assert found.norm.max() < 0.05


def test_noise_costs_schemes_with_accelerations_most(exact: Samples) -> None:
    # A hundredth of the encoder's counts.
    coarse = measured(exact, counts=10_240)
    errors = {
        rows.name: median_error(rows, coarse)
        for rows in (
            TorqueRows(),
            MomentumRows(CUTOFF, 2, "zero", stick=0.03),
            PowerRows(),
            EnergyRows("zero"),
            FILTERED_POWER,
        )
    }
    assert errors["momentum"] < 3.0, errors
    assert errors["energy"] < 6.0, errors
    assert errors["filtered_power"] < 30.0, errors  # noise of the velocity squared
    assert min(errors["torque"], errors["power"]) > 60.0, errors


def test_eigenvalues_of_the_covariance_fall(run: Samples) -> None:
    robot = arm()
    base = structural_base(robot, TERMS, FILTERED_POWER)
    estimate = RecursiveLeastSquares(base.independent, variance=1e6)
    equations = FILTERED_POWER.equations(robot, TERMS, run, base.mask)
    greatest = [1e6]
    for first in range(0, len(run), 100):
        estimate.update(equations, 0.25, slice(first, first + 100))
        greatest.append(float(estimate.eigenvalues[0]))
    assert (np.diff(greatest) <= 1e-9 * np.array(greatest[:-1])).all()
    assert greatest[-1] < 1.0


def test_stretches_of_sliding_begin_anew() -> None:
    robot, rows = arm(), MomentumRows(1.0, 1, stick=0.1)
    still = Samples.from_motion(np.zeros((12, 3)), np.zeros((12, 3)), np.zeros((12, 3)), np.ones((12, 3)))
    speed = np.zeros((12, 3))
    speed[2:6, 1], speed[6:9, 1] = 1.0, -1.0
    samples = replace(still, dq=speed)
    wanted = np.ones(36, dtype=np.bool_)
    shoulder = rows.equations(robot, TERMS, samples, wanted).panels[1]
    begins = [0, 1, 2, 6, 9, 10, 11]
    assert not shoulder[:, begins].any()
    assert shoulder[-1, [3, 4, 5, 7, 8]].all()
    assert rows.equations(robot, TERMS, still, wanted).panels[1].any() == np.False_
