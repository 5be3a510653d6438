"""Every built-in estimator keeps the contract."""

from __future__ import annotations

from dynid.estimate import CATALOGUE, OLS, WLS, Estimator, Ridge
from dynid.testing import EstimatorContract


class TestOLS(EstimatorContract):
    def estimator(self) -> Estimator:
        return OLS()


class TestWLS(EstimatorContract):
    def estimator(self) -> Estimator:
        return WLS()


class TestRidge(EstimatorContract):
    biased = True

    def estimator(self) -> Estimator:
        return Ridge(strength=2.0)


class TestGentleRidge(EstimatorContract):
    def estimator(self) -> Estimator:
        return Ridge(strength=1e-6)


def test_every_registered_estimator_is_named_as_registered() -> None:
    assert {name: kind().name for name, kind in CATALOGUE.items()} == {name: name for name in CATALOGUE}
