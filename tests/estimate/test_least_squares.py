"""Least squares against dense linear algebra, its symmetries, and the limits of the pull to the prior."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import t as student

from dynid.base import Float, UnfitDataError, UsageError
from dynid.estimate import OLS, WLS, BlockScores, Estimate, Regression, Ridge
from dynid.estimate.uncertainty import jackknife
from dynid.factor import stack
from dynid.testing import Synthetic, factors_of, synthetic_regression


def rebuilt(case: Synthetic, X: list[Float], y: list[Float]) -> Regression:
    """The same regression with other dense equations."""
    own = [factor.columns for factor in case.regression.factors.total]
    blocks = len(case.regression.factors.blocks)
    return replace(case.regression, factors=factors_of(X, y, own, len(case.regression.columns), blocks))


def weighted(case: Synthetic, weights: Float) -> tuple[Float, Float]:
    root = np.sqrt(weights)
    X = np.concatenate([w * one for w, one in zip(root, case.X, strict=True)])
    return X, np.concatenate([w * one for w, one in zip(root, case.y, strict=True)])


@pytest.mark.parametrize("seed", range(4))
def test_ols_is_lstsq(seed: int) -> None:
    case = synthetic_regression(seed)
    X, y = weighted(case, np.ones(2))
    found = OLS().fit(case.regression)
    wanted, square, *_ = np.linalg.lstsq(X, y, rcond=None)
    np.testing.assert_allclose(found.value, wanted, rtol=1e-10)
    textbook = square[0] / (len(y) - 5) * np.linalg.inv(X.T @ X)
    np.testing.assert_allclose(found.textbook_covariance, textbook, rtol=1e-9)
    assert found.status.ok


@pytest.mark.parametrize("seed", range(4))
def test_wls_is_weighted_lstsq_at_its_own_fixed_point(seed: int) -> None:
    case = synthetic_regression(seed, noise=(1.0, 0.01, 0.1))
    found = WLS(tolerance=1e-10).fit(case.regression)
    assert found.status.ok
    np.testing.assert_allclose(found.weights, 1.0 / found.sigma**2, rtol=1e-8)
    X, y = weighted(case, found.weights)
    wanted = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(found.value, wanted, rtol=1e-9)
    np.testing.assert_allclose(found.textbook_covariance, np.linalg.inv(X.T @ X), rtol=1e-9)
    for g, (A, b) in enumerate(zip(case.X, case.y, strict=True)):
        e = b - A @ found.value
        own = int(A.any(axis=0).sum())
        np.testing.assert_allclose(found.sigma[g], np.sqrt(e @ e / (len(b) - own)), rtol=1e-9)
    np.testing.assert_allclose(found.sigma, (1.0, 0.01, 0.1), rtol=0.1)


def test_weights_pay_where_noise_differs() -> None:
    errors = dict.fromkeys(("ols", "wls"), 0.0)
    for seed in range(10):
        case = synthetic_regression(seed, noise=(3.0, 0.01))
        for estimator in (OLS(), WLS()):
            errors[estimator.name] += float(np.sum((estimator.fit(case.regression).value - case.beta) ** 2))
    assert errors["wls"] < 0.5 * errors["ols"]


@pytest.mark.parametrize("seed", range(4))
def test_jackknife_is_what_leaving_blocks_out_gives(seed: int) -> None:
    case = synthetic_regression(seed, count=240, blocks=8, correlation=0.6)
    found = OLS().fit(case.regression)
    X, y = weighted(case, np.ones(2))
    block = np.concatenate([np.repeat(np.arange(8), 30)] * 2)
    without = [np.linalg.lstsq(X[block != m], y[block != m], rcond=None)[0] for m in range(8)]
    shift = np.array(without) - np.mean(without, axis=0)
    R = stack(case.regression.factors.total, case.regression.base.independent, np.ones(2))
    blocks = BlockScores.of(
        case.regression.factors,
        case.regression.base.independent,
        found.full_vector,
        np.linalg.inv(R[:5, :5]),
        np.ones(2),
    )
    np.testing.assert_allclose(blocks.covariance(jackknife(blocks)), 7 / 8 * shift.T @ shift, rtol=1e-7)
    assert found.degrees_of_freedom == 7
    information = np.linalg.inv(X.T @ X)
    share = [np.trace(information @ X[block == m].T @ X[block == m]) / 5 for m in range(8)]
    np.testing.assert_allclose(found.block_leverage, share, rtol=1e-9)


@cache
def correlated(seed: int) -> Synthetic:
    return synthetic_regression(seed, count=3000, blocks=30, correlation=0.9, noise=(0.3, 0.05))


@pytest.mark.parametrize("kind", [OLS, WLS])
def test_intervals_are_honest_under_autocorrelation(kind: type[OLS] | type[WLS]) -> None:
    honest: list[bool] = []
    textbook: list[bool] = []
    for seed in range(30):
        case = correlated(seed)
        found = kind().fit(case.regression)
        error = np.abs(found.value - case.beta)
        honest += (error <= found.half_width()).tolist()
        textbook += (error <= 1.96 * found.textbook_std).tolist()
    assert 0.85 <= np.mean(honest) <= 0.99
    assert np.mean(textbook) < 0.65


def test_white_residuals_make_both_covariances_agree() -> None:
    ratio = [
        found.std / found.textbook_std
        for found in (OLS().fit(synthetic_regression(s, noise=(0.2, 0.2)).regression) for s in range(20))
    ]
    assert 0.9 < np.mean(ratio) < 1.15


@pytest.mark.parametrize("kind", [OLS, WLS])
def test_units_of_the_torque(kind: type[OLS] | type[WLS]) -> None:
    case = synthetic_regression(1)
    plain = kind().fit(case.regression)
    scaled = kind().fit(rebuilt(case, list(case.X), [1000.0 * y for y in case.y]))
    for name, power in (("value", 1), ("std", 1), ("textbook_std", 1), ("sigma", 1), ("parameters", 1)):
        np.testing.assert_allclose(getattr(scaled, name), 1000.0**power * getattr(plain, name), rtol=1e-9)
    np.testing.assert_allclose(scaled.block_leverage, plain.block_leverage, rtol=1e-9)


@pytest.mark.parametrize("kind", [OLS, WLS])
def test_units_of_a_parameter(kind: type[OLS] | type[WLS]) -> None:
    case = synthetic_regression(1)
    factor = 10.0 ** np.array([-6.0, -3.0, 0.0, 3.0, 6.0])
    plain = kind().fit(case.regression)
    scaled = kind().fit(rebuilt(case, [X / factor for X in case.X], list(case.y)))
    for name in ("value", "std", "textbook_std"):
        np.testing.assert_allclose(getattr(scaled, name), factor * getattr(plain, name), rtol=1e-7)


def test_units_of_one_joint_matter_to_ols_only() -> None:
    case = synthetic_regression(1)
    X, y = [case.X[0], 100.0 * case.X[1]], [case.y[0], 100.0 * case.y[1]]
    changed = rebuilt(case, X, y)
    # The fixed point is reached to its tolerance, from wherever the iteration starts.
    tight = WLS(tolerance=1e-12, rounds=100)
    np.testing.assert_allclose(tight.fit(changed).value, tight.fit(case.regression).value, rtol=1e-9)
    np.testing.assert_allclose(tight.fit(changed).std, tight.fit(case.regression).std, rtol=1e-7)
    moved = OLS().fit(changed).value - OLS().fit(case.regression).value
    assert np.abs(moved).max() > 1e-6


# Ridge


def pulled() -> Synthetic:
    rng = np.random.default_rng(3)
    return synthetic_regression(
        3, count=60, blocks=6, noise=(2.0, 1.0), prior=rng.normal(0, 1, 7), spread=rng.uniform(0.1, 3.0, 7)
    )


@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
def test_ridge_is_tikhonov_over_all_parameters(strength: float) -> None:
    # Its penalty on base parameters is what minimising over the full parameters leaves.
    case = pulled()
    found = Ridge(strength).fit(case.regression)
    X, y = weighted(case, found.weights)
    W = X @ case.regression.base.B
    pull = np.sqrt(strength) / case.regression.spread
    rows = np.vstack([W, np.diag(pull)])
    theta = np.linalg.lstsq(rows, np.append(y, pull * case.regression.prior), rcond=None)[0]
    np.testing.assert_allclose(found.value, case.regression.base.B @ theta, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.parameters, theta, rtol=1e-8, atol=1e-9)


def test_ridge_between_its_limits() -> None:
    case = pulled()
    prior = case.regression.base.reduce(case.regression.prior)
    free = WLS(tolerance=1e-10).fit(case.regression)
    weak = Ridge(1e-10, tolerance=1e-10).fit(case.regression)
    np.testing.assert_allclose(weak.value, free.value, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(weak.std, free.std, rtol=1e-6)
    strong = Ridge(1e14).fit(case.regression)
    np.testing.assert_allclose(strong.value, prior, atol=1e-6)
    np.testing.assert_allclose(strong.parameters, case.regression.prior, atol=1e-6)
    distance = [np.linalg.norm(Ridge(s).fit(case.regression).value - prior) for s in (0.1, 1.0, 10.0, 1e3)]
    assert all(nearer < further for further, nearer in pairwise(distance))
    assert "prior" in Ridge().fit(case.regression).status.text


def test_ridge_is_certain_where_the_prior_speaks() -> None:
    # A parameter without data: the interval is the prior's, given the parameters that the data do determine.
    case = synthetic_regression(5, count=60, blocks=6)
    X = [one.copy() for one in case.X]
    for one in X:
        one[:, 2] *= 1e-9
    y = [b - A[:, 2] * case.beta[2] for A, b in zip(case.X, case.y, strict=True)]
    found = Ridge(1.0).fit(rebuilt(case, X, y))
    B = case.regression.base.B
    given_others = 1.0 / np.sqrt(np.linalg.inv(B @ B.T)[2, 2])
    np.testing.assert_allclose(found.std[2], given_others, rtol=0.02)


def test_options_are_checked() -> None:
    for strength in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="strength"):
            Ridge(strength)


# Hard cases


def test_a_joint_fitted_without_residual_is_reported_or_bounded() -> None:
    case = synthetic_regression(2)
    found = WLS().fit(rebuilt(case, list(case.X), [case.y[0], case.X[1] @ case.beta]))
    assert np.isfinite(found.value).all()
    assert np.isfinite(found.std).all()
    np.testing.assert_allclose(case.X[1] @ found.value, case.X[1] @ case.beta, rtol=1e-6, atol=1e-9)


def test_weights_that_do_not_settle_are_no_success() -> None:
    found = WLS(rounds=1, tolerance=1e-14).fit(synthetic_regression(2).regression)
    assert not found.status.ok
    assert "after 1 rounds" in found.status.text


def test_a_parameter_known_from_one_block_only() -> None:
    case = synthetic_regression(2, count=240, blocks=8)
    X = [one.copy() for one in case.X]
    for one in X:
        one[30:, 3] = 0.0
    y = [A @ case.beta + 0.1 * np.random.default_rng(0).normal(0, 1, 240) for A in X]
    found = OLS().fit(rebuilt(case, X, y))
    assert np.isfinite(found.covariance).all()
    assert found.std[3] > 0
    assert found.block_leverage[0] == found.block_leverage.max()
    np.testing.assert_allclose(found.block_leverage.sum(), 1.0, rtol=1e-9)


def test_refusals_name_the_numbers() -> None:
    with pytest.raises(UnfitDataError, match=r"8 equations for 5 base parameters; expected at least 10"):
        OLS().fit(synthetic_regression(0, count=4, blocks=4).regression)
    with pytest.raises(UnfitDataError, match=r"2 block\(s\)"):
        WLS().fit(synthetic_regression(0, blocks=2).regression)


# The estimate itself


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    return OLS().fit(synthetic_regression(0, blocks=11).regression)


def test_half_widths_are_students(estimate: Estimate) -> None:
    for level in (0.5, 0.9, 0.95, 0.999):
        wanted = student.ppf(0.5 + level / 2, 10) * np.sqrt(np.diag(estimate.covariance))
        np.testing.assert_allclose(estimate.half_width(level), wanted, rtol=1e-9)


def test_derived_figures(estimate: Estimate) -> None:
    np.testing.assert_allclose(estimate.relative_std, estimate.std / np.abs(estimate.value))
    zero = replace(estimate, value=np.zeros(5))
    assert np.isinf(zero.relative_std).all()
    full = estimate.full_vector
    np.testing.assert_array_equal(full[estimate.base.independent], estimate.value)
    assert not np.delete(full, estimate.base.independent).any()
    assert estimate.units == ("1",) * 5
    assert len(estimate.names) == 5
    assert estimate.names[0].startswith("a1 ")


def test_estimates_are_locked_and_consistent(estimate: Estimate) -> None:
    with pytest.raises(ValueError, match="read-only"):
        estimate.value[0] = 1.0
    with pytest.raises(UsageError, match="covariance of shape"):
        replace(estimate, covariance=np.eye(4))
