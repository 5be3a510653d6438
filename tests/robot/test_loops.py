"""Closed loops: motors' positions and torque as in MuJoCo, whose constraint forces are eliminated."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base import Diagnostics, Float
from dynid.robot import Reading, RobotModel, read_robot
from dynid.simulation import inverse
from dynid.terms import MotorInertia, RigidBody
from tests.loop_plants import BARS, LoopPlant, ankle, knee, swing

TIME = np.arange(0.0, 2.0, 0.02)


def robot_of(text: str, folder: Path, name: str = "leg.xml") -> RobotModel:
    (folder / name).write_text(text)
    return read_robot(folder / name, Reading())


def torque(robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
    """Torque of the motors with the links and rotors of the robot file."""
    rotors = np.nan_to_num(robot.drive.rotor_inertia)
    theta = np.concatenate([robot.inertia_prior.ravel(), rotors])
    return robot.drive.motor_torque(q, inverse(robot, RigidBody() + MotorInertia(), theta, q, dq, ddq))


def test_two_rods_of_an_ankle_are_those_of_mujoco(tmp_path: Path) -> None:
    plant = LoopPlant(ankle(), ["knee", "ankle_pitch", "ankle_roll"], ["knee", "left_motor", "right_motor"])
    robot = robot_of(ankle(), tmp_path)
    assert robot.joint_names == ("knee", "ankle_pitch", "ankle_roll")
    q, dq, ddq = swing(TIME, np.array([0.0, -0.05, 0.0]), np.array([0.6, 0.4, 0.2]), 1)
    tau, theta = plant.torque(q, dq, ddq)
    np.testing.assert_allclose(robot.drive.motor_position(q), theta, atol=1e-11)
    # Cranks of 2 g are part of the shin, whose inertia changes by 1e-9 kg m^2.
    np.testing.assert_allclose(torque(robot, q, dq, ddq)[:, 1:], tau[:, 1:], atol=1e-7)
    np.testing.assert_allclose(torque(robot, q, dq, ddq)[:, 0], tau[:, 0], atol=2e-5)


def test_a_knee_that_closes_within_its_limits_is_that_of_mujoco(tmp_path: Path) -> None:
    plant = LoopPlant(knee(), ["hip", "knee"], ["hip", "crank"], start={"knee": -1.55})
    robot = robot_of(knee(), tmp_path)
    q, dq, ddq = swing(TIME, np.array([0.0, -1.5]), np.array([0.8, 0.7]), 2)
    tau, theta = plant.torque(q, dq, ddq)
    np.testing.assert_allclose(robot.drive.motor_position(q), theta, atol=1e-11)
    np.testing.assert_allclose(torque(robot, q, dq, ddq), tau, atol=2e-5)
    # The same knee as bars in TOML, whose crank angle is counted from elsewhere.
    bars = ", ".join(f"{name} = {value}" for name, value in BARS.items())
    tree = knee().split('<body name="crank">')[0] + "</body></worldbody></mujoco>"
    (tmp_path / "tree.xml").write_text(tree)
    declared = robot_of(
        f'mjcf = "tree.xml"\n[[joint]]\nname = "knee"\ndrive.linkage = {{ {bars} }}\ndrive.rotor_inertia = 0.012\n',
        tmp_path,
        "leg.toml",
    )
    shift = declared.drive.motor_position(q)[:, 1] - theta[:, 1]
    np.testing.assert_allclose(shift, shift[0], atol=1e-11)
    np.testing.assert_allclose(torque(declared, q, dq, ddq), tau, atol=2e-5)


def test_rods_of_passive_cranks_are_still_a_warning(tmp_path: Path) -> None:
    (tmp_path / "leg.xml").write_text(knee().replace('joint="crank"/>', 'joint="knee"/>'))
    diagnostics = Diagnostics()
    robot = read_robot(tmp_path / "leg.xml", Reading(), diagnostics)
    assert robot.joint_names == ("hip", "knee", "crank", "rod")
    assert "closed-loop" in {item.identifier for item in diagnostics.warnings}


def test_the_motors_of_rods_are_named(tmp_path: Path) -> None:
    (tmp_path / "leg.xml").write_text(ankle())
    diagnostics = Diagnostics()
    read_robot(tmp_path / "leg.xml", Reading(), diagnostics)
    (note,) = (item for item in diagnostics if item.identifier == "rods-read")
    assert (
        "'left_motor' is the motor of 'ankle_pitch', 'right_motor' is the motor of 'ankle_roll'" in note.text
    )
