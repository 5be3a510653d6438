"""Robust regression: what its weights are, what outliers do to it, and what its status says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.estimate import IRLS, WLS, Estimate
from dynid.estimate.robust import robust_weights
from dynid.testing import DenseSource, Synthetic, factors_of, synthetic_regression


def with_blows(seed: int, share: float, size: float = 30.0) -> Synthetic:
    """Equations of which a share was hit by foreign torque, in a few bursts."""
    case = synthetic_regression(seed, noise=(0.3, 0.03))
    rng = np.random.default_rng(seed)
    y = [one.copy() for one in case.y]
    for one, sigma in zip(y, (0.3, 0.03), strict=True):
        hit = np.arange(100, 100 + round(share * len(one)))
        one[hit] += size * sigma * (1 + rng.random(len(hit)))
    columns = [factor.columns for factor in case.regression.factors.total]
    factors = factors_of(case.X, y, columns, len(case.regression.columns), 24)
    source = DenseSource(tuple(columns), case.X, tuple(y))
    return replace(case, y=tuple(y), regression=replace(case.regression, factors=factors, source=source))


def error(case: Synthetic, found: Estimate) -> float:
    return float(np.linalg.norm(found.value - case.beta))


@pytest.mark.parametrize(("loss", "c"), [("huber", 1.345), ("tukey", 4.685)])
def test_weights_are_psi_over_u(loss: str, c: float) -> None:
    u = np.linspace(-9, 9, 2001)
    weight, slope = robust_weights(u, loss, c)
    psi = np.clip(u, -c, c) if loss == "huber" else np.where(np.abs(u) < c, u * (1 - (u / c) ** 2) ** 2, 0.0)
    np.testing.assert_allclose(weight * u, psi, atol=1e-12)
    inner = np.abs(np.abs(u) - c) > 0.02
    np.testing.assert_allclose(slope[inner], np.gradient(psi, u)[inner], atol=1e-3)


def test_without_outliers_it_is_nearly_least_squares() -> None:
    # 95 % efficient on Gaussian noise: a little wider, and no nearer to the truth on average.
    ratio = []
    for seed in range(8):
        case = synthetic_regression(seed)
        robust, plain = IRLS().fit(case.regression), WLS().fit(case.regression)
        np.testing.assert_allclose(robust.value, plain.value, atol=3 * plain.textbook_std.max())
        ratio.append(float(np.mean(robust.textbook_std / plain.textbook_std)))
    assert 0.98 < np.mean(ratio) < 1.12


@pytest.mark.parametrize("loss", ["huber", "tukey"])
def test_blows_do_not_move_it(loss: str) -> None:
    plain, robust, clean = [], [], []
    for seed in range(5):
        case = with_blows(seed, 0.03)
        plain.append(error(case, WLS().fit(case.regression)))
        found = IRLS(loss).fit(case.regression)
        robust.append(error(case, found))
        assert "block 3" in found.status.text  # equations 100 to 136 of 24 blocks of 50
        clean.append(error(case, WLS().fit(synthetic_regression(seed).regression)))
    assert np.mean(robust) < 0.25 * np.mean(plain)
    assert np.mean(robust) < (1.3 if loss == "tukey" else 2.5) * np.mean(clean)


def test_intervals_hold_with_outliers() -> None:
    inside: list[bool] = []
    for seed in range(12):
        case = with_blows(seed, 0.02)
        found = IRLS("tukey").fit(case.regression)
        inside += (np.abs(found.value - case.beta) <= found.half_width()).tolist()
    assert np.mean(inside) > 0.88


def test_so_many_outliers_are_reported() -> None:
    found = IRLS().fit(with_blows(1, 0.3, size=15.0).regression)
    assert "too many for outliers" in found.status.text


def test_rounds_that_run_out_are_no_success() -> None:
    found = IRLS(rounds=1, tolerance=1e-12).fit(with_blows(1, 0.05).regression)
    assert not found.status.ok
    assert "raise rounds" in found.status.text


def test_refusals() -> None:
    with pytest.raises(UsageError, match="huber"):
        IRLS("cauchy")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(UsageError, match="tuning"):
        IRLS(tuning=-1.0)
    with pytest.raises(UsageError, match="factors only"):
        IRLS().fit(synthetic_regression(1, with_source=False).regression)
