"""MJCF: MuJoCo finds the same torque, rotors and friction in what was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.exporters.mjcf import new_mjcf, quaternion
from dynid.robot import load_robot
from dynid.spatial.algebra import rotation_quaternion
from tests.export.models import check_in_mujoco, model_of, shipped
from tests.robot_files import ROBOTS


@pytest.mark.parametrize("name", ["ur10e_innopolis", "puma560", "kr300_rptu", "panda_gaz", "urdf"])
def test_mujoco_finds_the_torque_of_the_model(name: str) -> None:
    path = shipped("ur_description/urdf/ur5_robot.urdf") if name == "urdf" else ROBOTS / f"{name}.toml"
    model = model_of(load_robot(path))
    check_in_mujoco(new_mjcf(model), model)


def test_followers_and_limits(tmp_path: Path) -> None:
    robot = load_robot(shipped("panda_description/urdf/panda.urdf"))
    assert robot.has_mimic
    path = tmp_path / "panda.xml"
    path.write_bytes(new_mjcf(model_of(robot)))
    theirs = mujoco.MjModel.from_xml_path(str(path))
    assert theirs.neq == robot.n_bodies - robot.n
    again = load_robot(path)
    assert again.tree_joint_names == robot.tree_joint_names
    shown = [again.tree_joint_names.index(name) for name in robot.joint_names]
    np.testing.assert_allclose(again.limits.lower[shown], robot.limits.lower)
    np.testing.assert_allclose(again.limits.effort[shown], robot.limits.effort)


def test_hostile_names_stay_names() -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    evil = '"/><body/><!-- \x07'
    names = tuple(f"{evil}{i}" for i in range(robot.n))
    named = replace(robot, name=evil, body_names=names, tree_joint_names=names, joint_names=names)
    theirs = mujoco.MjModel.from_xml_string(new_mjcf(model_of(named)).decode())
    assert theirs.nbody == robot.n + 1


def test_quaternions_of_rotations() -> None:
    rng = np.random.default_rng(0)
    for q in [*rng.normal(size=(50, 4)), *np.eye(4)]:
        R = rotation_quaternion(q)
        np.testing.assert_allclose(rotation_quaternion(quaternion(R)), R, atol=1e-15)
        assert np.linalg.norm(quaternion(R)) == pytest.approx(1.0, abs=1e-15)
        assert abs(quaternion(R) @ q) == pytest.approx(np.linalg.norm(q), rel=1e-14)
