"""The public regressor against pinocchio's, and its base parameters."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

import dynid
from dynid.base import Float, UsageError
from dynid.robot import RobotModel
from dynid.terms import ChannelTorque, RigidBody, RotorInertia, TorqueDelay, Viscous
from dynid.testing import random_robot

STATES = 40


def motion(robot: RobotModel, seed: int = 0) -> tuple[Float, Float, Float]:
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.normal(0.0, [[[1.0]], [[2.0]], [[5.0]]], (3, STATES, robot.n))
    return q, dq, ddq


def pinocchio_regressor(robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
    """(T, n, 10 n) of a chain of bodies."""
    model = pin.Model()
    for i in range(robot.n):
        kind = pin.JointModelPrismaticUnaligned if robot.prismatic[i] else pin.JointModelRevoluteUnaligned
        model.addJoint(i, kind(robot.axis[i].copy()), pin.SE3(robot.T_parent_joint[i].copy()), f"j{i}")
    model.gravity.linear = robot.gravity.copy()
    data = model.createData()
    return np.stack(
        [
            np.array(pin.computeJointTorqueRegressor(model, data, *state))
            for state in zip(q, dq, ddq, strict=True)
        ]
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_regressor_is_pinocchios(seed: int) -> None:
    robot = random_robot(seed, 6, 0.0)
    q, dq, ddq = motion(robot, seed)
    found = dynid.regressor(robot, q, dq, ddq)
    theirs = pinocchio_regressor(robot, q, dq, ddq)
    assert found.Y.shape == (STATES, 6, 60)
    np.testing.assert_allclose(found.Y, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())
    assert found.names[:11] == (
        "m1",
        "mcx1",
        "mcy1",
        "mcz1",
        "Ixx1",
        "Ixy1",
        "Iyy1",
        "Ixz1",
        "Iyz1",
        "Izz1",
        "m2",
    )
    np.testing.assert_array_equal(found.prior, robot.inertia_prior.ravel())


def test_base_columns_give_the_same_torque() -> None:
    robot = random_robot(4, 5, 0.3)
    found = dynid.regressor(robot, *motion(robot), terms=RigidBody() + RotorInertia() + Viscous())
    theta = np.random.default_rng(1).normal(size=len(found.names))
    beta = found.base.reduce(theta)
    assert found.Y_base.shape == (STATES, 5, found.base.rank)
    size = np.abs(found.Y @ theta).max()
    np.testing.assert_allclose(found.Y_base @ beta, found.Y @ theta, rtol=0, atol=1e-9 * size)
    assert len(found.base.formulas()) == found.base.rank < len(found.names)


def test_one_state_is_a_matrix() -> None:
    robot = random_robot(5, 4)
    q, dq, ddq = motion(robot)
    one = dynid.regressor(robot, q[3].tolist(), dq[3], ddq[3])
    np.testing.assert_array_equal(one.Y, dynid.regressor(robot, q, dq, ddq).Y[3])
    assert one.Y.shape == (4, 40)


def test_what_terms_read_has_to_be_given() -> None:
    robot = random_robot(6, 2, 0.0)
    q, dq, ddq = motion(robot)
    channel = ChannelTorque("pressure", robot.joint_names[0])
    given = dynid.regressor(robot, q, dq, ddq, terms=channel, extra={"pressure": np.arange(STATES)})
    np.testing.assert_array_equal(given.Y[:, 0, 0], np.arange(STATES))
    with pytest.raises(UsageError, match="pressure"):
        dynid.regressor(robot, q, dq, ddq, terms=channel)
    delay = RigidBody() + TorqueDelay(tuple(robot.inertia_prior.ravel()))
    with pytest.raises(UsageError, match="without their rate for the term torque_delay"):
        dynid.regressor(robot, q, dq, ddq, terms=delay)
    faster, slower = (
        dynid.regressor(robot, q, dq, ddq, terms=delay, rate=rate).Y[..., -1] for rate in (200.0, 100.0)
    )
    np.testing.assert_allclose(faster, 2.0 * slower)


@pytest.mark.parametrize(
    "change", [{"q": np.zeros(3)}, {"ddq": np.zeros((2, 4))}, {"dq": np.zeros((1, 1, 4))}]
)
def test_arrays_that_do_not_fit_are_named(change: dict[str, Float]) -> None:
    robot = random_robot(5, 4)
    (name,) = change
    given = {"q": np.zeros(4), "dq": np.zeros(4), "ddq": np.zeros(4)} | change
    with pytest.raises(UsageError, match=rf"found {name} of shape .*expected"):
        dynid.regressor(robot, **given)
