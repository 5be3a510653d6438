"""Strength of the prior: unseen data and the L-curve find what is known to be right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import SolverError, UsageError
from dynid.estimate import Estimator, FeasibleFit
from dynid.feasible import held_out_strength, l_curve_strength
from dynid.identification import Experiment, settings_to_experiment
from dynid.testing import EstimatorContract, measured_regression
from tests.feasible.test_estimator import half


class TestHeldOut(EstimatorContract):
    biased = True

    def estimator(self) -> Estimator:
        return FeasibleFit(strength="held-out")


class TestCorner(EstimatorContract):
    biased = True

    def estimator(self) -> Estimator:
        return FeasibleFit(strength="l-curve")


def test_the_strongest_that_predicts_as_well_is_taken() -> None:
    # Ten folds, best at 1; at 10 worse by less than its standard error, at 100 by more.
    noise = np.random.default_rng(0).normal(size=10)
    extra = {0.1: 0.8, 1.0: 0.0, 10.0: 0.2, 100.0: 0.5}

    def errors(strength: float) -> np.ndarray:
        return 10 + noise + extra[strength] + np.where(strength > 1, np.linspace(-1, 1, 10), 0.0)

    chosen = held_out_strength(errors, (100.0, 0.1, 10.0, 1.0))
    assert chosen.strength == 10.0
    assert not chosen.at_border
    assert chosen.strengths.tolist() == [0.1, 1.0, 10.0, 100.0]
    assert held_out_strength(errors, tuple(extra), deviations=0.0).strength == 1.0
    assert held_out_strength(errors, (0.1, 1.0), deviations=0.0).at_border


def ridge(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A smoothing problem whose small singular values drown in noise, in its own axes: s, y, truth."""
    s = 10.0 ** -np.linspace(0, 6, 30)
    truth = np.ones(30)
    return s, s * truth + 1e-3 * np.random.default_rng(seed).normal(size=30), truth


@pytest.mark.parametrize("seed", range(4))
def test_the_corner_is_close_to_the_best_strength(seed: int) -> None:
    s, y, truth = ridge(seed)
    grid = tuple(10.0**k for k in np.arange(-12, 2.1, 0.5))

    def answer(strength: float) -> np.ndarray:
        return np.asarray(s * y / (s**2 + strength))

    def point(strength: float) -> tuple[float, float]:
        x = answer(strength)
        # Thirty equations that nothing answers to, as in every log with more samples than parameters.
        return float(np.sum((s * x - y) ** 2)) + 30 * 1e-6, float(x @ x)

    chosen = l_curve_strength(point, grid)
    errors = [float(np.linalg.norm(answer(g) - truth)) for g in grid]
    assert np.linalg.norm(answer(chosen.strength) - truth) < 1.5 * min(errors)
    assert not chosen.at_border


def test_strengths_without_solution_are_passed_over_and_none_is_an_error() -> None:
    def weak_ones_fail(strength: float) -> np.ndarray:
        if strength < 0.5:
            raise SolverError("not-solved", found="x", expected="y")
        return np.array([strength, 2 * strength])

    chosen = held_out_strength(weak_ones_fail, (0.1, 1.0, 10.0))
    assert chosen.strength == 1.0
    assert np.isnan(chosen.judged[0])
    with pytest.raises(SolverError, match="no solution"):
        held_out_strength(weak_ones_fail, (0.1, 0.2))
    with pytest.raises(SolverError, match="1 of 3"):
        l_curve_strength(lambda s: tuple(weak_ones_fail(s)), (0.1, 0.2, 1.0))  # type: ignore[arg-type] # two numbers
    with pytest.raises(UsageError, match="2 strengths"):
        l_curve_strength(lambda s: (s, s), (0.1, 0.2))


def test_conflicts_do_not_count_as_unsolved_strengths() -> None:
    def excluded(_strength: float) -> np.ndarray:
        raise SolverError("constraints-in-conflict", found="total mass", expected="less")

    with pytest.raises(SolverError, match="total mass"):
        held_out_strength(excluded)


@pytest.mark.parametrize("strength", ["held-out", pytest.param("l-curve", marks=pytest.mark.slow)])
def test_the_experiment_file_and_the_panda(data_dir: Path, tmp_path: Path, strength: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        f'[estimate]\nmethod = "feasible"\nstrength = "{strength}"\nprior = "geodesic"\nweights = "equal"\n'
    )
    settings = Experiment.read(path).settings()
    assert settings.estimator == FeasibleFit(strength=strength, prior="geodesic", weights="equal")
    assert Experiment.from_dict(settings_to_experiment(settings)).settings().estimator == settings.estimator
    found = half(FeasibleFit(strength=strength), data_dir / "panda_gaz" / "data.parquet", True)
    assert found.validations[0].scores.total_relative < 0.0176
    # This description gives no inertia, so there is nothing whose strength could be chosen.
    assert "no prior inertia" in found.estimate.status.text


@pytest.mark.parametrize("strength", ["held-out", "l-curve"])
def test_the_strength_is_chosen_where_inertias_are_known(strength: str) -> None:
    case = measured_regression(2, torque_noise=0.3)
    assert "chosen by" in FeasibleFit(strength=strength, prior="entropic").fit(case.regression).status.text


@pytest.mark.parametrize("strength", ["unknown", 0.0, -1.0])
def test_wrong_strengths_are_refused(strength: float | str) -> None:
    with pytest.raises(UsageError, match="held-out"):
        FeasibleFit(strength=strength)


def test_ridge_takes_numbers_alone(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('[estimate]\nmethod = "ridge"\nstrength = "held-out"\n')
    with pytest.raises(Exception, match="strength") as stopped:
        Experiment.read(path).settings()
    assert getattr(stopped.value, "exit_code", 1) in (2, 3)
