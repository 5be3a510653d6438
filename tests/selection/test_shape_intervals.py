"""Intervals that estimated shapes widen."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dynid.base import Float
from dynid.choose.shape_intervals import _jackknife, widened_by
from dynid.estimate import OLS, Estimate
from dynid.testing import synthetic_regression


@pytest.mark.parametrize("seed", range(5))
def test_shapes_estimated_on_a_share_of_a_long_log_only_widen_intervals(seed: int) -> None:
    """What a share shows scatters: it took more from a variance than there was, and intervals became 1e140 wide."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-4, 1, 8)
    root = rng.normal(size=(8, 8))
    covariance = root @ root.T * np.outer(size, size)
    root = rng.normal(size=(8, 8))
    change = 0.5 * (root + root.T) * np.outer(size, size)
    share = 0.02
    assert (np.diag(covariance + change / share) < 0).any()
    found = widened_by(covariance, change, share)
    assert (np.diag(found) >= np.diag(covariance) * (1.0 - 1e-9)).all()
    assert (np.diag(found) <= np.diag(covariance) + 50.0 * np.abs(root).sum() * size**2 / share).all()
    assert np.linalg.eigvalsh((found - covariance) / np.outer(size, size)).min() > -1e-6


@pytest.mark.parametrize("seed", range(5))
def test_of_all_equations_the_sum_is_that_of_a_joint_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain, joint = (root @ root.T for root in rng.normal(size=(2, 6, 6)))
    np.testing.assert_allclose(widened_by(plain, joint - plain, 1.0), joint, atol=1e-10)


@pytest.mark.parametrize("away", [0.0, 30.0])
def test_what_a_search_leaves_of_a_score_is_no_disagreement_of_blocks(away: float) -> None:
    """The covariance is that about the optimum, wherever the estimate ended, in standard deviations from it."""
    case = synthetic_regression(3, count=600, blocks=12)
    optimum = OLS().fit(case.regression)

    def covariance(estimate: Estimate) -> Float:
        fitted: Any = SimpleNamespace(
            estimate=estimate, regression=case.regression, factors=case.regression.factors
        )
        return _jackknife(fitted, fitted, [])

    elsewhere = replace(optimum, value=optimum.value + away * optimum.std)
    np.testing.assert_allclose(covariance(elsewhere), covariance(optimum), rtol=1e-6)
