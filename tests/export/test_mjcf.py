"""MJCF: MuJoCo finds the same torque, rotors and friction in what was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.base import RefusedError
from dynid.exporters import ExportModel, export_parameters, new_mjcf
from dynid.exporters.mjcf import quaternion
from dynid.robot import RobotModel, load_robot
from dynid.spatial import rotation_quaternion
from dynid.terms import Coulomb, RigidBody, RotorInertia, TorsionSpring, Viscous
from dynid.testing import random_robot
from tests.export.models import check_in_mujoco, model_of, shipped, states
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


PARALLELOGRAM = """
name = "parallelogram"
convention = "standard_dh"
[[joint]]
name = "turn"
a = 0.2
alpha = 1.5707963267948966
d = 0.75
[[joint]]
name = "shoulder"
a = 1.1
alpha = 0.0
d = 0.0
[[joint]]
name = "elbow"
a = 0.9
alpha = 0.0
d = 0.0
[[joint]]
name = "crank"
parent = "turn"
a = 0.25
alpha = 0.0
d = 0.0
follows = { shoulder = 1.0, elbow = 1.0 }
follows_offset = 1.2
[[joint]]
name = "coupler"
parent = "crank"
a = 1.1
alpha = 0.0
d = 0.0
follows = { elbow = -0.7 }
follows_offset = -1.2
"""


def followers(name: str, folder: Path) -> RobotModel:
    """Robots with joints that follow one other, or several."""
    if name == "panda":
        return load_robot(shipped("panda_description/urdf/panda.urdf"))
    if name == "random":
        return random_robot(1, n=5, mimic=True)
    path = folder / "parallelogram.toml"
    path.write_text(PARALLELOGRAM)
    return load_robot(path)


def exported(model: ExportModel, path: Path, springs: bool = False) -> ExportModel:
    """The model whose file was written by `export_parameters`, with springs of its joints on request."""
    robot, terms = model.robot, RigidBody() + RotorInertia() + Viscous() + Coulomb()
    theta = np.concatenate([model.inertia.ravel(), model.rotor, model.viscous, model.coulomb])
    if springs:
        terms, theta = terms + TorsionSpring((robot.joint_names[0],)), np.append(theta, [3.0, -0.5])
    export_parameters(robot, terms, theta, path, force=True)
    return ExportModel.of_terms(robot, terms, theta)


def accelerated(theirs: mujoco.MjModel, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
    """Torque of every joint of a file by MuJoCo, without its constraints, (T, nv)."""
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    state, torque = mujoco.MjData(theirs), []
    for at, speed, change in zip(q, dq, ddq, strict=True):
        state.qpos[:], state.qvel[:], state.qacc[:] = at, speed, change
        mujoco.mj_inverse(theirs, state)
        torque.append(np.array(state.qfrc_inverse))
    return np.array(torque)


def in_their_order(theirs: mujoco.MjModel, robot: RobotModel) -> list[int]:
    """Joints of the robot's tree in the order of the file."""
    names = [theirs.joint(i).name for i in range(theirs.njnt)]
    return [robot.tree_joint_names.index(name) for name in names]


@pytest.mark.parametrize("springs", [False, True])
@pytest.mark.parametrize("name", ["panda", "random", "parallelogram"])
def test_followers_have_the_torque_of_the_model(name: str, springs: bool, tmp_path: Path) -> None:
    robot, path = followers(name, tmp_path), tmp_path / "model.xml"
    model = exported(model_of(robot), path, springs)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    order = in_their_order(theirs, robot)
    q, dq, ddq = states(robot)
    found = accelerated(theirs, *(part[:, order] for part in robot.tree_motion(q, dq, ddq)))
    wanted = model.rigid_torque(q, dq, ddq) + model.viscous * dq
    # Followers have no motors: their torque arrives at the joints that they follow.
    np.testing.assert_allclose(
        found @ robot.projection[order], wanted, rtol=0, atol=1e-10 * np.abs(wanted).max()
    )


@pytest.mark.parametrize("name", ["panda", "random", "parallelogram"])
def test_followers_are_held_to_their_rule(name: str, tmp_path: Path) -> None:
    robot, path = followers(name, tmp_path), tmp_path / "model.xml"
    model = exported(model_of(robot), path)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    order, n = in_their_order(theirs, robot), robot.n_bodies - robot.n
    leaders = [order.index(robot.tree_joint_names.index(joint)) for joint in robot.joint_names]
    theirs.opt.disableflags |= int(
        mujoco.mjtDisableBit.mjDSBL_LIMIT | mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
    )
    state = mujoco.MjData(theirs)
    rng = np.random.default_rng(0)
    for q, dq, tau in rng.normal(size=(10, 3, robot.n)):
        at, speed, _ = (part[0, order] for part in robot.tree_motion(q[None], dq[None], dq[None]))
        state.qpos[:], state.qvel[:], state.qfrc_applied[:] = at, speed, 0.0
        state.qfrc_applied[leaders] = tau
        mujoco.mj_forward(theirs, state)
        assert state.nefc == n
        np.testing.assert_allclose(state.efc_pos, 0.0, atol=1e-12)
        np.testing.assert_allclose(state.efc_vel, 0.0, atol=1e-12)
        bare = replace(model, coulomb=np.zeros(robot.n), offset=np.zeros(robot.n))
        wanted = bare.forward_dynamics(q[None], dq[None], tau[None])[0]
        np.testing.assert_allclose(state.qacc[leaders], wanted, rtol=0, atol=5e-3 * np.abs(wanted).max())
        state.qpos[[i for i in range(theirs.nq) if i not in leaders]] += 0.1
        mujoco.mj_forward(theirs, state)
        assert np.abs(state.efc_pos).min() > 0.01


@pytest.mark.parametrize("suffix", ["urdf", "sdf"])
def test_what_follows_several_joints_has_no_place_in_urdf_and_sdf(suffix: str, tmp_path: Path) -> None:
    robot, path = followers("parallelogram", tmp_path), tmp_path / f"model.{suffix}"
    with pytest.raises(
        RefusedError, match=r"joint 'crank': found a joint that follows several joints .'shoulder', 'elbow'"
    ):
        exported(model_of(robot), path)
    assert not path.exists()


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
