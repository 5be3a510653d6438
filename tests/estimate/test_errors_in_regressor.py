"""Noise in the regressor: total least squares, maximum likelihood and instruments where plain fits shrink."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh

from dynid.estimate import IV, WLS, Estimator
from dynid.estimate.instrumental import least_correlation
from dynid.papers import ML, TLS
from dynid.papers.total import smallest
from dynid.signals.noise import white_level
from dynid.testing import (
    DenseSource,
    Synthetic,
    encoder_noise,
    factors_of,
    measured_regression,
    synthetic_regression,
)


def noisy_columns(seed: int, size: float, known: bool = True) -> Synthetic:
    """Equations whose columns were measured with white noise."""
    case = synthetic_regression(seed, count=4000, blocks=40, noise=(0.2, 0.1))
    rng = np.random.default_rng(seed + 99)
    columns = [factor.columns for factor in case.regression.factors.total]
    X = [one + size * rng.normal(size=one.shape) * (one != 0) for one in case.X]
    factors = factors_of(X, case.y, columns, len(case.regression.columns), 40)
    noise = tuple(size**2 * np.eye(len(c)) for c in columns) if known else None
    source = DenseSource(tuple(columns), tuple(X), case.y, noise)
    return replace(case, X=tuple(X), regression=replace(case.regression, factors=factors, source=source))


def test_smallest_is_the_generalised_eigenvector() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 5))
    root = rng.normal(size=(5, 5))
    C = root @ root.T
    value, ratio = smallest(np.linalg.qr(A)[1], C)
    values, vectors = eigh(A.T @ A, C)
    np.testing.assert_allclose(ratio, values[0], rtol=1e-8)
    np.testing.assert_allclose(value, -vectors[:-1, 0] / vectors[-1, 0], rtol=1e-7)


def test_with_noise_in_the_target_alone_it_is_least_squares() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=60)
    errors = np.zeros((4, 4))
    errors[3, 3] = 1.0
    value, _ = smallest(np.linalg.qr(np.column_stack([X, y]))[1], errors)
    np.testing.assert_allclose(value, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-7)


def test_total_least_squares_takes_the_shrinking_away() -> None:
    plain, total = [], []
    for seed in range(6):
        case = noisy_columns(seed, 0.3)
        plain.append(WLS().fit(case.regression).value - case.beta)
        found = TLS().fit(case.regression)
        assert found.status.ok
        total.append(found.value - case.beta)
    assert np.linalg.norm(np.mean(total, axis=0)) < 0.2 * np.linalg.norm(np.mean(plain, axis=0))


def test_total_least_squares_intervals_hold() -> None:
    inside: list[bool] = []
    for seed in range(12):
        case = noisy_columns(seed, 0.3)
        found = TLS().fit(case.regression)
        inside += (np.abs(found.value - case.beta) <= found.half_width()).tolist()
    assert np.mean(inside) > 0.85


def test_without_noise_of_the_columns_its_covariance_is_that_of_least_squares() -> None:
    case = noisy_columns(1, 1e-7)
    found, plain = (one(tolerance=1e-10).fit(case.regression) for one in (TLS, WLS))
    for own, other in (
        (found.covariance, plain.covariance),
        (found.textbook_covariance, plain.textbook_covariance),
    ):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-6 * np.abs(other).max())


def test_too_much_noise_is_reported() -> None:
    case = noisy_columns(1, 0.1)
    source = case.regression.source
    assert isinstance(source, DenseSource)
    assert source.noise is not None
    loud = replace(source, noise=tuple(400.0 * one for one in source.noise))
    found = TLS().fit(replace(case.regression, source=loud))
    assert "exceeds the residual" in found.status.text


def test_unknown_noise_is_reported() -> None:
    found = TLS().fit(noisy_columns(1, 0.3, known=False).regression)
    assert "weighted least squares" in found.status.text


@pytest.mark.parametrize("method", [TLS(), ML(), IV()])
def test_encoder_noise_shrinks_plain_fits_only(method: Estimator) -> None:
    # Filters that let everything through: noise of the acceleration is as large as the acceleration.
    plain, found = [], []
    for seed in range(3):
        case = measured_regression(seed, position_noise=1e-3, torque_noise=0.01, motion=1)
        plain.append((WLS().fit(case.regression).value - case.beta) / case.size)
        found.append((method.fit(case.regression).value - case.beta) / case.size)
    assert np.linalg.norm(np.mean(found, axis=0)) < 0.4 * np.linalg.norm(np.mean(plain, axis=0))


def test_likelihood_without_noise_of_the_motion_is_least_squares() -> None:
    case = measured_regression(1, position_noise=0.0)
    found, plain = ML().fit(case.regression), WLS().fit(case.regression)
    np.testing.assert_array_equal(found.value, plain.value)
    assert "noise of the motion is unknown" in found.status.text
    given = ML(position_noise=1e-4).fit(case.regression)
    assert np.abs(given.value - plain.value).max() > 0


def test_likelihood_climbs_where_it_should() -> None:
    # Its step is zero where central differences of its own cost are zero.
    from dynid.estimate import SimulationProblem
    from dynid.papers.likelihood import Likelihood

    case = measured_regression(2, seconds=4.0, position_noise=1e-3)
    simulation = SimulationProblem.of(case.regression, "ml", 1.0)
    likelihood = Likelihood.of(simulation, encoder_noise(2, 1e-3))
    point = likelihood.at(case.beta * 1.01)
    variance = likelihood.matched(point, np.ones(2))
    slope = likelihood.slope(point, variance)
    for i in range(0, len(case.beta), 3):
        h = 1e-4 * case.size[i]
        moved = np.zeros(len(case.beta))
        moved[i] = h
        change = [likelihood.cost(likelihood.at(point.value + s * moved), variance) for s in (1, -1)]
        wanted = -(change[0] - change[1]) / (2 * h)
        np.testing.assert_allclose(slope.scores.sum(axis=0)[i], wanted, rtol=2e-3)


def test_instruments_without_noise_are_the_regressor() -> None:
    case = measured_regression(1, quiet=True)
    found = IV().fit(case.regression)
    np.testing.assert_allclose(found.value, WLS().fit(case.regression).value, rtol=1e-5, atol=1e-6)


def test_least_correlation() -> None:
    rng = np.random.default_rng(0)
    W = rng.normal(size=(5000, 3))
    assert least_correlation(W.T @ W, W.T @ W, W.T @ W) == pytest.approx(1.0, abs=1e-9)
    Z = W.copy()
    Z[:, 1] = rng.normal(size=5000)
    assert least_correlation(Z.T @ W, Z.T @ Z, W.T @ W) < 0.05


def test_noise_level_is_read_from_the_upper_half_of_the_spectrum() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(20000) / 1000.0
    lines = np.stack([np.sin(2 * np.pi * f * t) for f in (0.5, 3.0)])
    noisy = lines + np.array([[1e-5], [1e-3]]) * rng.normal(size=lines.shape)
    np.testing.assert_allclose(white_level(noisy), [1e-5, 1e-3], rtol=0.05)


def test_weights_of_instruments_are_those_of_their_own_residuals() -> None:
    """Encoder noise makes least squares' residuals too small in one group, so that its weights are not yet right."""
    case = measured_regression(3, position_noise=3e-3, torque_noise=0.02)
    found = IV().fit(case.regression)
    np.testing.assert_allclose(found.weights * found.sigma**2, 1.0, rtol=3e-3)
    first = WLS().fit(case.regression)
    assert np.abs(found.sigma / first.sigma - 1.0).max() > 0.01
