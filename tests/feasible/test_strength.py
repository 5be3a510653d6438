"""Strength of the prior: the L-curve, and values of earlier versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import SolverError, UsageError
from dynid.estimate import FeasibleFit
from dynid.identification import Experiment, settings_to_experiment
from dynid.papers import l_curve_strength


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
    assert np.linalg.norm(answer(chosen) - truth) < 1.5 * min(errors)
    assert grid[0] < chosen < grid[-1]


def test_strengths_without_solution_are_passed_over_and_none_is_an_error() -> None:
    def weak_fail(strength: float) -> tuple[float, float]:
        if strength < 0.5:
            raise SolverError("not-solved", found="x", expected="y")
        return 1.0 + strength, 2.0 / strength

    assert l_curve_strength(weak_fail, (0.1, 1.0, 2.0, 10.0)) in (1.0, 2.0, 10.0)
    with pytest.raises(SolverError, match="1 of 3"):
        l_curve_strength(weak_fail, (0.1, 0.2, 1.0))
    with pytest.raises(UsageError, match="2 strengths"):
        l_curve_strength(lambda s: (s, s), (0.1, 0.2))


def test_conflicts_do_not_count_as_unsolved_strengths() -> None:
    def excluded(_strength: float) -> tuple[float, float]:
        raise SolverError("constraints-in-conflict", found="total mass", expected="less")

    with pytest.raises(SolverError, match="total mass"):
        l_curve_strength(excluded)


@pytest.mark.parametrize("strength", ["held-out", "l-curve"])
def test_experiment_files_of_earlier_versions_are_read(tmp_path: Path, strength: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        f'[estimate]\nmethod = "feasible"\nstrength = "{strength}"\nprior = "geodesic"\nweights = "equal"\n'
    )
    settings = Experiment.read(path).settings()
    assert settings.estimator == FeasibleFit(strength=strength, prior="geodesic", weights="equal")
    assert Experiment.from_dict(settings_to_experiment(settings)).settings().estimator == settings.estimator


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
