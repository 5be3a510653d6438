"""Filters over logs that are too long for them: a message with an estimate, before any time is spent."""

from __future__ import annotations

import pytest

from dynid.base import UsageError
from dynid.estimate import FILTERS, BaseDynamics, seconds_a_step
from dynid.factor import structural_base
from dynid.kernel import using
from dynid.papers import CDKF, EKF, UKF
from dynid.papers.kalman import KalmanFit
from dynid.rows import TorqueRows
from dynid.terms import Coulomb, RigidBody, Terms, Viscous
from dynid.testing import measured_regression, random_robot
from tests.kernels import native_is_built


@pytest.mark.parametrize("method", [EKF, UKF, CDKF])
def test_a_log_that_would_take_too_long_is_refused_with_an_estimate(method: type[KalmanFit]) -> None:
    regression = measured_regression(1, seconds=4.0).regression
    with pytest.raises(UsageError, match=r"about .* min .* steps of \d+ points, up to 8 passes") as refused:
        method(longest=1e-6).fit(regression)
    assert refused.value.exit_code == 2
    assert "part = [0.0, 0.0" in str(refused.value)


def modelled(joints: int, terms: Terms) -> BaseDynamics:
    robot = random_robot(1, joints, 0.0)
    return BaseDynamics(robot, terms, structural_base(robot, terms, TorqueRows()))


def test_the_estimate_is_that_of_the_path_that_will_be_taken() -> None:
    """Native steps before NumPy's with native equations, before all in NumPy; more joints and more points cost more."""
    smooth, sharp = (
        RigidBody() + Viscous() + Coulomb(width=0.05),
        RigidBody() + Viscous() + Coulomb(width=0.0),
    )
    small, large, other = modelled(3, smooth), modelled(7, smooth), modelled(7, sharp)
    extended, unscented = FILTERS["ekf"], FILTERS["ukf"]
    with using("numpy"):
        slow = seconds_a_step(extended, large)
        assert not extended.is_compiled(large)
    assert seconds_a_step(extended, small) < seconds_a_step(extended, large)
    if not native_is_built():
        return
    with using("native"):
        assert extended.is_compiled(large)
        assert not extended.is_compiled(other)
        assert not unscented.is_compiled(large)
        steps = [(extended, large), (extended, other), (unscented, large)]
        taken = [seconds_a_step(kind, model) for kind, model in steps]
        assert taken == sorted(taken)
        assert taken[1] < slow


@pytest.mark.skipif(not native_is_built(), reason="the native kernel was not built")
def test_a_log_that_numpy_is_refused_is_followed_by_the_native_kernel() -> None:
    """4 s of motion, where the fit may take a tenth of a second."""
    regression = measured_regression(1, seconds=4.0).regression
    short = EKF(longest=0.1 / 60.0, rounds=2)
    with using("native"):
        assert short.fit(regression).value.shape == (regression.base.rank,)
    with using("numpy"), pytest.raises(UsageError, match="too-long"):
        short.fit(regression)
