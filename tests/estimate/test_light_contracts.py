"""A small dose of the contract suites that run only on demand: elastic joints and Kalman filters, short motion."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.estimate import CLIE, CLOE, DIDIM, IV, OE, Estimator
from dynid.papers import CDKF, EKF, UKF
from dynid.testing import measured_regression

ELASTIC = [IV(), DIDIM(), CLIE(), CLOE(), OE()]
KALMAN = [EKF(), UKF(), CDKF()]
SECONDS = 2.5


def named(value: object) -> str | None:
    return getattr(value, "name", None)


@pytest.mark.parametrize(
    ("method", "elastic", "precision"),
    [
        *((method, True, 2e-4) for method in ELASTIC),
        *(
            (method, elastic, 1e-2)
            for method in KALMAN
            for elastic in (False, True)
            if method.name == "ekf" or not elastic
        ),
    ],
    ids=named,
)
def test_without_noise_the_truth_comes_back(method: Estimator, elastic: bool, precision: float) -> None:
    case = measured_regression(1, quiet=True, elastic=elastic, seconds=SECONDS)
    found = method.fit(case.regression)
    size = np.maximum(np.abs(case.beta), case.size)
    np.testing.assert_array_less(np.abs(found.value - case.beta) / size, precision)


@pytest.mark.parametrize("method", [*ELASTIC, EKF()], ids=named)
def test_with_noise_it_is_complete_and_intervals_hold(method: Estimator) -> None:
    case = measured_regression(2, elastic=method.name != "ekf", seconds=SECONDS)
    found = method.fit(case.regression)
    assert found.status.ok, found.status.text
    for part in (found.value, found.covariance, found.textbook_covariance, found.parameters, found.sigma):
        assert np.isfinite(part).all()
    assert np.linalg.eigvalsh(found.covariance)[0] >= -1e-9 * np.abs(found.covariance).max()
    np.testing.assert_allclose(
        case.regression.base.reduce(found.parameters),
        found.value,
        rtol=1e-8,
        atol=1e-9 * np.abs(found.value).max(),
    )
    assert np.mean(np.abs(found.value - case.beta) <= found.half_width()) >= 0.85
