"""Wrench rows against pinocchio, on random trees with prismatic joints, and of loads without a robot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid import regressor
from dynid.base import Float, InputError
from dynid.robot import RobotModel, load_example
from dynid.rows import load_regressor, wrench_regressor
from dynid.testing import random_motion, random_robot
from dynid.verbs import wrench_base

pin = pytest.importorskip("pinocchio")
STATES = 12


def with_sensor(robot: RobotModel, body: int, seed: int) -> RobotModel:
    frame = np.eye(4)
    rng = np.random.default_rng(seed)
    frame[:3, :3] = pin.exp3(rng.normal(size=3))
    frame[:3, 3] = 0.1 * rng.normal(size=3)
    return replace(robot, frames={"sensor": (body, frame)})


def pinocchio_rows(robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
    """Wrench (T, 6, 10 (1 + k)) at the frame of the link 'sensor'."""
    model = pin.Model()
    for i in range(robot.n_bodies):
        slides = robot.tree.prismatic[i]
        kind = pin.JointModelPrismaticUnaligned if slides else pin.JointModelRevoluteUnaligned
        parent = int(robot.parent[i]) + 1
        model.addJoint(parent, kind(robot.axis[i].copy()), pin.SE3(robot.T_parent_joint[i].copy()), f"j{i}")
    model.gravity.linear = robot.gravity.copy()
    data = model.createData()
    body, frame = robot.link_frame("sensor")
    carried = [i for i in range(robot.n_bodies) if body < 0 or (body in robot.tree.paths[i] and i != body)]
    rows = []
    for state in zip(q, dq, ddq, strict=True):
        pin.forwardKinematics(model, data, *state)
        sensor = data.oMi[body + 1] * pin.SE3(frame.copy())
        local = pin.SE3(frame.copy())
        moving = [(sensor, local.actInv(data.v[body + 1]), local.actInv(data.a[body + 1]))]
        moving += [(data.oMi[i + 1], data.v[i + 1], data.a[i + 1]) for i in carried]
        blocks = []
        for place, v, a in moving:
            felt = pin.Motion(a.linear - place.rotation.T @ robot.gravity, a.angular)
            blocks.append(sensor.actInv(place).toDualActionMatrix() @ pin.bodyRegressor(v, felt))
        rows.append(np.concatenate(blocks, axis=1))
    return np.array(rows)


@pytest.mark.parametrize("seed", range(12))
def test_wrench_of_any_link_is_pinocchios(seed: int) -> None:
    robot = random_robot(seed, 6, 0.4)
    for body in (-1, 1, 5):
        sensed = with_sensor(robot, body, seed)
        q, dq, ddq = random_motion(seed, STATES, robot.n)
        rows = wrench_regressor(sensed, "sensor", q, dq, ddq)
        expected = pinocchio_rows(sensed, q, dq, ddq)
        np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def test_wrench_of_a_load_needs_no_robot() -> None:
    omega, alpha, specific = np.random.default_rng(0).normal(size=(3, STATES, 3))
    rows = load_regressor(omega, alpha, specific)
    for row, w, a, d in zip(rows, omega, alpha, specific, strict=True):
        expected = pin.bodyRegressor(pin.Motion(np.zeros(3), w), pin.Motion(d, a))
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)


def test_an_unknown_link_is_named_with_the_nearest_one() -> None:
    robot = with_sensor(random_robot(0, 3), 2, 0)
    state = np.zeros((1, 3))
    with pytest.raises(InputError, match=r"unknown link 'sensr'.*did you mean 'sensor'"):
        wrench_regressor(robot, "sensr", state, state, state)


def test_a_plate_under_a_panda_determines_more_than_its_joints() -> None:
    """43 base parameters from joint torques; 48 from the wrench under the base, 47 if its six biases are unknown."""
    robot = load_example("panda")
    state = np.zeros((1, robot.n))
    assert regressor(robot, state, state, state).base.rank == 43
    assert wrench_base(robot, biases=False).rank == 48
    assert wrench_base(robot).rank - 6 == 47
    assert wrench_base(robot, biases=False, torque=True).rank == 48
    assert wrench_base(robot, torque=True).rank - 6 == 47
    assert wrench_base(robot).names[:7] == (
        *(f"bias {axis}" for axis in ("fx", "fy", "fz", "tx", "ty", "tz")),
        "m1",
    )
