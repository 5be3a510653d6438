"""The model of a result: what exports hold, at the parameters that were identified."""

from __future__ import annotations

import numpy as np
import pytest

import dynid
from dynid.base import Float
from dynid.dynamics import Dynamics
from dynid.estimate import WLS
from dynid.robot import load_example
from dynid.terms import Coulomb, Offset, PositionFriction, RigidBody, RotorInertia, Terms, Viscous

pytestmark = pytest.mark.usefixtures("unexamined")

PLAIN = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.02) + Offset()


def fitted(terms: Terms) -> dynid.Result:
    robot = load_example("arm7")
    log = dynid.simulate(robot, seconds=8.0, seed=1)
    return dynid.identify(robot, log, dynid.Settings(terms=terms, estimator=WLS()))


def motion(robot: object) -> tuple[Float, Float, Float]:
    q, dq, ddq = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 20, robot.n))  # type: ignore[attr-defined]  # a fixture
    return q, dq, ddq


@pytest.fixture(scope="module")
def result() -> dynid.Result:
    return fitted(PLAIN)


@pytest.mark.filterwarnings("ignore:this motion is not like the recorded one")
def test_its_torque_is_what_the_result_predicts(result: dynid.Result) -> None:
    model = result.model
    assert isinstance(model, Dynamics)
    assert type(model) is Dynamics
    assert model.left_out == ()
    assert result.model is model
    states = motion(result.robot)
    np.testing.assert_allclose(model.torque(*states), result.predict(*states), rtol=0, atol=1e-10)


def test_it_names_what_it_cannot_hold() -> None:
    model = fitted(PLAIN + PositionFriction(3.0)).model
    assert model.left_out == ("position_friction except its mean over the positions of the log",)
    assert "left out: position_friction except" in repr(model)
