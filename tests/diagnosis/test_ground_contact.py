"""Robots that stand on their feet are recognised, and legs in the air are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

from dynid.base import Diagnostics, Float, UnfitDataError
from dynid.diagnosis import require_free_legs, stance
from dynid.dynamics import Dynamics
from dynid.robot import RobotModel, load_robot
from dynid.signals import Samples
from dynid.testing import smooth_samples

SHANK = np.array([0.0, 0.0, -0.2])


def legged(legs: int, folder: Path) -> RobotModel:
    """A trunk with legs of three joints around it."""
    parts = ['<robot name="legs"><link name="trunk"/>']
    for leg in range(legs):
        angle = 2.0 * np.pi * leg / legs
        at = f"{0.3 * np.cos(angle)} {0.3 * np.sin(angle)} 0"
        joints = (("roll", "1 0 0", at), ("pitch", "0 1 0", "0 0 0"), ("knee", "0 1 0", "0 0 -0.2"))
        parent = "trunk"
        for name, axis, xyz in joints:
            parts.append(
                f'<link name="{name}{leg}"><inertial><origin xyz="0 0 -0.08"/><mass value="0.4"/><inertia ixx="2e-3"'
                f' iyy="2e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/></inertial></link>'
                f'<joint name="j_{name}{leg}" type="revolute"><parent link="{parent}"/><child link="{name}{leg}"/>'
                f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>'
                '<limit lower="-2.6" upper="2.6" effort="50" velocity="20"/></joint>'
            )
            parent = f"{name}{leg}"
    path = folder / f"legs{legs}.urdf"
    path.write_text("".join(parts) + "</robot>")
    return load_robot(path)


def feet(robot: RobotModel, q: Float) -> Float:
    """Positions (T, k, 3) of the feet in the trunk's frame."""
    ends = [body for body in range(robot.n_bodies) if body not in robot.parent]
    poses = Dynamics.of_description(robot).forward_kinematics(q)[:, ends]
    return np.asarray(poses[..., :3, 3] + poses[..., :3, :3] @ SHANK)


def on_the_ground(robot: RobotModel, free: int = 0) -> Float:
    """Poses (60, n) of a trunk that sways over feet that stand; `free` legs at the end move freely."""
    legs, rng = robot.n // 3, np.random.default_rng(0)
    crouched = np.tile([0.0, 0.8, -1.5], legs)
    ground, pose, poses = feet(robot, crouched[None])[0], crouched, []
    phase = rng.uniform(0.0, 6.28, 6)
    air = smooth_samples(robot, 60, 1, 20.0).q
    for k in range(60):
        x, y, z, yaw, pitch, roll = np.sin(0.2 * k * np.arange(1, 7) / 3 + phase) * [
            0.03,
            0.03,
            0.03,
            0.1,
            0.1,
            0.1,
        ]
        turn = np.array([[1.0, -yaw, pitch], [yaw, 1.0, -roll], [-pitch, roll, 1.0]])
        turn, _ = np.linalg.qr(turn)
        turn *= np.sign(np.diag(turn))
        target = ground @ turn + [x, y, z]
        pose = least_squares(lambda p, target=target: (feet(robot, p[None])[0] - target).ravel(), pose).x
        poses.append(pose)
    moved = np.array(poses)
    if free:
        moved[:, -3 * free :] = 0.3 * air[:, -3 * free :]
    return moved


@pytest.mark.parametrize(("legs", "free"), [(3, 0), (4, 0), (6, 0), (5, 1)])
def test_feet_that_stand_are_found(legs: int, free: int, tmp_path: Path) -> None:
    robot = legged(legs, tmp_path)
    q = on_the_ground(robot, free)
    noisy = q + 1e-4 * np.random.default_rng(1).normal(size=q.shape)
    standing = stance(robot, noisy)
    assert standing is not None
    assert len(standing.links) == legs - free
    assert standing.change < 1e-3 < standing.travel


@pytest.mark.parametrize("seed", range(5))
def test_legs_in_the_air_do_not_stand(seed: int, tmp_path: Path) -> None:
    robot = legged(4, tmp_path)
    q = 0.3 * smooth_samples(robot, 300, seed, 50.0).q + np.tile([0.0, 0.8, -1.5], 4)
    assert stance(robot, q) is None
    # Trot: diagonal legs alike.
    q[:, 9:], q[:, 6:9] = q[:, :3], q[:, 3:6]
    assert stance(robot, q) is None


def test_fingers_of_a_hand_that_does_not_move_are_no_feet(tmp_path: Path) -> None:
    robot = legged(3, tmp_path)
    # The same fingers on an arm share its joint, and keep their distances while it moves.
    first = np.arange(robot.n_bodies) == 0
    on_arm = replace(robot, parent=np.where((robot.parent < 0) & ~first, 0, robot.parent))
    q = 0.3 * smooth_samples(robot, 100, 0, 50.0).q
    q[:, 1:] = 0.0
    assert stance(on_arm, q) is None
    assert stance(robot, np.zeros((50, robot.n))) is None


def samples_of(robot: RobotModel, q: Float, tau: Float) -> Samples:
    still = np.zeros(q.shape)
    return replace(smooth_samples(robot, len(q), 0, 20.0), q=q, dq=still, ddq=still, tau=tau)


def test_a_robot_that_stands_is_refused_unless_accepted(tmp_path: Path) -> None:
    robot = legged(4, tmp_path)
    q = on_the_ground(robot)
    weight = Dynamics.of_description(robot).gravity(q)
    # A trunk of 10 kg on all feet.
    standing, model = stance(robot, q), Dynamics.of_description(robot)
    assert standing is not None
    trunk = weight.copy()
    for link, point in zip(standing.links, standing.points, strict=True):
        trunk += model.jacobian(q, link, point)[:, 2] * -10.0 * 9.81 / 4
    with pytest.raises(UnfitDataError, match="feet-on-ground") as refused:
        require_free_legs(robot, [samples_of(robot, q, trunk)], Diagnostics())
    assert "suspend the robot" in str(refused.value)
    accepting = Diagnostics()
    accepting.accept("feet-on-ground")
    require_free_legs(robot, [samples_of(robot, q, trunk)], accepting)
    assert accepting.accepted == ("feet-on-ground",)
    unknown = replace(robot, inertia_prior=np.full_like(robot.inertia_prior, np.nan))
    with pytest.raises(UnfitDataError, match="feet-on-ground"):
        require_free_legs(unknown, [samples_of(robot, q, trunk)], Diagnostics())
    # Legs that all move alike in the air carry their own weight alone.
    silent = Diagnostics()
    require_free_legs(robot, [samples_of(robot, q, 1.1 * weight)], silent)
    assert not silent.items
