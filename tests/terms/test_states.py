"""States that a user hands over: one, or a batch of them."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.terms import ChannelTorque, RigidBody, Viscous, states
from dynid.testing import random_robot

TERMS = RigidBody() + Viscous()


def test_one_state_is_a_batch_of_one() -> None:
    robot = random_robot(1, 3)
    motion = np.random.default_rng(0).normal(size=(3, 5, 3))
    theta = np.random.default_rng(1).normal(size=len(TERMS.columns(robot)))
    batch, shape = states(robot, TERMS, *motion)
    assert shape == (5, 3)
    wanted = TERMS.torque(robot, batch, theta)
    for t in range(5):
        one, shape = states(robot, TERMS, *motion[:, t])
        assert shape == (3,)
        np.testing.assert_allclose(TERMS.torque(robot, one, theta)[0], wanted[t], rtol=1e-12)


@pytest.mark.parametrize("shape", [(2,), (4, 2), (3, 4), (1, 1, 3), ()])
def test_states_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    robot = random_robot(1, 3)
    with pytest.raises(UsageError, match=r"expected \(T, 3\) or \(3,\)"):
        states(robot, TERMS, *np.zeros((3, *shape)))
    with pytest.raises(UsageError, match="dq of shape"):
        states(robot, TERMS, np.zeros((4, 3)), np.zeros((5, 3)), np.zeros((4, 3)))


def test_channels_are_of_every_state_or_the_same_for_all() -> None:
    robot, motion = random_robot(1, 3), np.zeros((3, 4, 3))
    terms = TERMS + ChannelTorque("gripper", "joint2")
    for given in (np.arange(4.0), 2.0, [2.0]):
        found, _ = states(robot, terms, *motion, extra={"gripper": given})
        np.testing.assert_array_equal(found.extra["gripper"], np.broadcast_to(given, 4))
    with pytest.raises(UsageError, match="channel 'gripper' with 3 values; expected 4"):
        states(robot, terms, *motion, extra={"gripper": np.zeros(3)})
    with pytest.raises(UsageError, match="missing-channel"):
        states(robot, terms, *motion)
