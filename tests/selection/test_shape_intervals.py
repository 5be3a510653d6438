"""Intervals that estimated shapes widen."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.choose.shape_intervals import widened_by


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
