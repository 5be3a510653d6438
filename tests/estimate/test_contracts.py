"""Every built-in estimator keeps the contract."""

from __future__ import annotations

import pytest

from dynid.estimate import (
    CATALOGUE,
    CLIE,
    CLOE,
    DIDIM,
    IRLS,
    IV,
    ML,
    OE,
    OLS,
    TLS,
    WLS,
    Automatic,
    Estimator,
    Ridge,
)
from dynid.testing import EstimatorContract, MotionEstimatorContract


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


class TestHuber(EstimatorContract):
    def estimator(self) -> Estimator:
        return IRLS()


class TestTukey(EstimatorContract):
    def estimator(self) -> Estimator:
        return IRLS("tukey")


class TestTLS(EstimatorContract):
    def estimator(self) -> Estimator:
        return TLS()


class TestAutomatic(EstimatorContract):
    def estimator(self) -> Estimator:
        return Automatic()


class TestML(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return ML()


class TestIV(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return IV()


class TestDIDIM(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return DIDIM()


class TestCLIE(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return CLIE()


class TestCLOE(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return CLOE()


class TestOE(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return OE()


class TestElasticML(MotionEstimatorContract):
    elastic = True

    def estimator(self) -> Estimator:
        return ML()


@pytest.mark.slow
class TestElasticIV(MotionEstimatorContract):
    elastic = True

    def estimator(self) -> Estimator:
        return IV()


@pytest.mark.slow
class TestElasticCLOE(MotionEstimatorContract):
    elastic = True

    def estimator(self) -> Estimator:
        return CLOE()


@pytest.mark.slow
class TestElasticOE(MotionEstimatorContract):
    elastic = True

    def estimator(self) -> Estimator:
        return OE()


def test_every_registered_estimator_is_named_as_registered() -> None:
    assert {name: kind().name for name, kind in CATALOGUE.items()} == {name: name for name in CATALOGUE}
