"""Every estimator keeps the contract: one suite for all, on rigid and on elastic joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dynid.estimate import (
    CATALOGUE,
    CLIE,
    CLOE,
    DIDIM,
    IRLS,
    IV,
    MAP,
    OE,
    OLS,
    WLS,
    Estimate,
    Estimator,
    FeasibleFit,
    Given,
    RecursiveLeastSquares,
    Regression,
    Ridge,
    ServoOE,
    Status,
    completed,
    residual_sigma,
)
from dynid.estimate.source import source_of
from dynid.feasible import UNLIMITED
from dynid.papers import CDKF, EKF, ML, TLS, UKF, Adaline, Hopfield
from dynid.rows import Equations
from dynid.testing import EstimatorContract, MotionEstimatorContract

Options = Sequence[Mapping[str, Any]]


# The density limit is in kg/m^3 whatever units a law turns masses and lengths into.
ANY = UNLIMITED


class TestOLS(EstimatorContract):
    def estimator(self) -> Estimator:
        return OLS()


class TestWLS(EstimatorContract):
    def estimator(self) -> Estimator:
        return WLS()

    def unfinished(self) -> Estimator:
        return WLS(rounds=1, tolerance=1e-12)


class TestRidge(EstimatorContract):
    biased = True

    def estimator(self) -> Estimator:
        return Ridge(strength=2.0)

    def unfinished(self) -> Estimator:
        return Ridge(rounds=1, tolerance=1e-12)


class TestGentleRidge(EstimatorContract):
    def estimator(self) -> Estimator:
        return Ridge(strength=1e-6)


class TestHuber(EstimatorContract):
    def estimator(self) -> Estimator:
        return IRLS()

    def unfinished(self) -> Estimator:
        return IRLS(rounds=1, tolerance=1e-9)


class TestTukey(EstimatorContract):
    def estimator(self) -> Estimator:
        return IRLS("tukey")

    def unfinished(self) -> Estimator:
        return IRLS("tukey", rounds=1, tolerance=1e-9)


class TestTLS(EstimatorContract):
    def estimator(self) -> Estimator:
        return TLS()


class TestTLSOnMotion(MotionEstimatorContract):
    invariance = 0.1  # noise of the encoders is drawn in the order of the log

    def estimator(self) -> Estimator:
        return TLS()

    def unfinished(self) -> Estimator:
        return TLS(rounds=1, tolerance=1e-12)

    def test_factors_alone_are_refused_in_words(self) -> None:
        """Factors alone are weighted least squares, and the status says so: see TestTLS."""


class TestAdaline(EstimatorContract):
    def estimator(self) -> Estimator:
        return Adaline(tolerance=1e-4)

    def unfinished(self) -> Estimator:
        return Adaline(rounds=2)


class TestHopfield(EstimatorContract):
    def estimator(self) -> Estimator:
        return Hopfield(tolerance=1e-4)

    def unfinished(self) -> Estimator:
        return Hopfield(rounds=2)


class TestFeasible(EstimatorContract):
    def estimator(self) -> Estimator:
        return FeasibleFit(density=ANY)

    def wrong_options(self) -> Options:
        return (
            {"strength": "much"}, {"prior": "wishful"}, {"weights": "none"},
            {"inner": WLS(), "weights": "equal"},
        )  # fmt: skip


class OnFactorsOfMotion(MotionEstimatorContract):
    """Estimators of physically consistent bodies, on the factors of a robot in motion."""

    draws = 6

    def test_factors_alone_are_refused_in_words(self) -> None:
        """Factors are all it needs."""


class TestFeasibleBodies(OnFactorsOfMotion):
    def estimator(self) -> Estimator:
        return FeasibleFit(density=ANY)


class TestFeasibleIRLS(OnFactorsOfMotion):
    def estimator(self) -> Estimator:
        return FeasibleFit(density=ANY, inner=IRLS())

    def unfinished(self) -> Estimator:
        return FeasibleFit(density=ANY, inner=IRLS(rounds=1, tolerance=1e-9), strength=1.0)


class TestMAP(OnFactorsOfMotion):
    def estimator(self) -> Estimator:
        return MAP()


class TestElasticMAP(OnFactorsOfMotion):
    elastic = True

    def estimator(self) -> Estimator:
        return MAP()


class TestElasticFeasible(OnFactorsOfMotion):
    elastic = True

    def estimator(self) -> Estimator:
        return FeasibleFit(density=ANY)


@dataclass(frozen=True)
class GivenFirst:
    """The first base parameter held at what weighted least squares say, with their covariance."""

    rounds: int = 30
    tolerance: float = 1e-4
    name: str = "two_step"

    def __post_init__(self) -> None:
        Given(np.ones((1, 1)), np.ones(1), np.ones((1, 1)), self.rounds, self.tolerance)

    def fit(self, regression: Regression) -> Estimate:
        first = WLS().fit(regression)
        known = Given(
            regression.base.B[:1], first.value[:1], first.covariance[:1, :1], self.rounds, self.tolerance
        )
        return known.fit(regression)


class TestGiven(EstimatorContract):
    def estimator(self) -> Estimator:
        return GivenFirst()

    def unfinished(self) -> Estimator:
        return GivenFirst(rounds=1, tolerance=1e-12)


class TestRecursive(EstimatorContract):
    def estimator(self) -> Estimator:
        return Recursive()


@dataclass(frozen=True)
class Recursive:
    """Recursive least squares through the equations in their order, at the weights of weighted least squares."""

    intervals: str = "jackknife"
    name: str = "recursive"

    def __post_init__(self) -> None:
        WLS(intervals=self.intervals)

    def fit(self, regression: Regression) -> Estimate:
        first, base = WLS().fit(regression), regression.base
        online = RecursiveLeastSquares(base.independent, variance=1e12, weights=first.weights.tolist())
        for piece in source_of(regression, self.name).pieces(base.mask):
            for part in np.array_split(np.arange(len(piece.times[0])), 5):
                online.update(Equations(piece.columns, piece.panels), 0.1, part)
        status = Status(True, f"{online.count} equations one after the other")
        R, sigma = online.root[:-1, :-1], residual_sigma(regression, online.value)
        return completed(self, regression, online.value, R, first.weights, sigma, 1.0, None, status)


class TestML(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return ML()

    def unfinished(self) -> Estimator:
        return ML(rounds=1, tolerance=1e-9)


class TestIV(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return IV()

    def unfinished(self) -> Estimator:
        return IV(rounds=1, tolerance=1e-9)


class Simulating(MotionEstimatorContract):
    """Those that simulate to the end: what is left is the step of the integration, not the data's noise."""

    def wrong_options(self) -> Options:
        return {"kp": 3.0}, {"kp": [1.0, -1.0], "kd": 1.0}, {"kp": np.inf, "kd": 1.0}


@pytest.mark.slow
class TestDIDIM(Simulating):
    def estimator(self) -> Estimator:
        return DIDIM()

    def unfinished(self) -> Estimator:
        return DIDIM(rounds=1, tolerance=1e-9)


class TestCLIE(Simulating):
    def estimator(self) -> Estimator:
        return CLIE()

    def unfinished(self) -> Estimator:
        return CLIE(rounds=1, tolerance=1e-9)


@pytest.mark.slow
class TestCLOE(Simulating):
    def estimator(self) -> Estimator:
        return CLOE()

    def unfinished(self) -> Estimator:
        return CLOE(rounds=1, tolerance=1e-9)


class TestOE(MotionEstimatorContract):
    def estimator(self) -> Estimator:
        return OE()

    def unfinished(self) -> Estimator:
        return OE(rounds=1, tolerance=1e-9)


class TestServoOE(MotionEstimatorContract):
    draws = 1
    # The plant's torque is smooth; a computer holds its own for a tick of h = 5 ms, which at w = 2 pi 1.2 rad/s differs
    # by (w h)^2 / 24 = 6e-5 of it, and by a few times that in the worst known parameter.
    precision = 2e-4

    def estimator(self) -> Estimator:
        return ServoOE()

    def unfinished(self) -> Estimator:
        return ServoOE(rounds=1, tolerance=1e-9)


class KalmanContract(MotionEstimatorContract):
    precision = 5e-3
    seconds = 4.0
    invariance = 0.1

    def wrong_options(self) -> Options:
        return ({"position_noise": 0.0},)


@pytest.mark.slow
class TestEKF(KalmanContract):
    def estimator(self) -> Estimator:
        return EKF()

    def unfinished(self) -> Estimator:
        return EKF(rounds=1, tolerance=1e-9)


@pytest.mark.slow
class TestUKF(KalmanContract):
    def estimator(self) -> Estimator:
        return UKF()

    def unfinished(self) -> Estimator:
        return UKF(rounds=1, tolerance=1e-9)


@pytest.mark.slow
class TestCDKF(KalmanContract):
    def estimator(self) -> Estimator:
        return CDKF()


class TestElasticTLS(MotionEstimatorContract):
    elastic = True

    def estimator(self) -> Estimator:
        return TLS()

    def test_factors_alone_are_refused_in_words(self) -> None:
        """Factors alone are weighted least squares, and the status says so: see TestTLS."""


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
class TestElasticDIDIM(MotionEstimatorContract):
    elastic = True

    def estimator(self) -> Estimator:
        return DIDIM()


@pytest.mark.slow
class TestElasticCLIE(MotionEstimatorContract):
    elastic = True

    def estimator(self) -> Estimator:
        return CLIE()


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


class ElasticKalmanContract(KalmanContract):
    elastic = True


@pytest.mark.slow
class TestElasticEKF(ElasticKalmanContract):
    def estimator(self) -> Estimator:
        return EKF()


@pytest.mark.slow
class TestElasticUKF(ElasticKalmanContract):
    def estimator(self) -> Estimator:
        return UKF()


@pytest.mark.slow
class TestElasticCDKF(ElasticKalmanContract):
    def estimator(self) -> Estimator:
        return CDKF()


def test_every_registered_estimator_is_named_as_registered() -> None:
    assert {name: kind().name for name, kind in CATALOGUE.items()} == {name: name for name in CATALOGUE}


def test_every_registered_estimator_is_under_contract() -> None:
    def suites(kind: type) -> list[type]:
        return [one for child in kind.__subclasses__() for one in (child, *suites(child))]

    own = [
        one
        for one in suites(EstimatorContract)
        if one.__module__ == __name__ and one.__name__.startswith("Test")
    ]
    assert {one().estimator().name for one in own} >= set(CATALOGUE)
