"""Joints that are held, chains of larger robots and floating bases: pinocchio and MuJoCo as oracles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float, InputError, UsageError
from dynid.kernel import inverse_dynamics
from dynid.robot import RobotModel, load_example, load_robot, lock_joints, robot_from_dict, robot_to_dict
from tests.robot.shipped import shipped
from tests.robot.texts import ARM, swap


def torque(robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
    motion = robot.tree_motion(q, dq, ddq)
    return inverse_dynamics(robot.tree, robot.inertia_prior, *motion) @ robot.projection


def states(n: int, seed: int = 0) -> tuple[Float, Float, Float]:
    q, dq, ddq = np.random.default_rng(seed).normal(size=(3, 12, n))
    return q, dq, ddq


def reduced_torque(model: pin.Model, names: tuple[str, ...], q: Float, dq: Float, ddq: Float) -> Float:
    """Of pinocchio's model, joints in the order of names; continuous joints as cosine and sine."""
    data, rows = model.createData(), []
    at = [model.joints[model.getJointId(name)] for name in names]
    for position, velocity, acceleration in zip(q, dq, ddq, strict=True):
        full, v, a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for joint, x, y, z in zip(at, position, velocity, acceleration, strict=True):
            full[joint.idx_q : joint.idx_q + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
            v[joint.idx_v], a[joint.idx_v] = y, z
        found = pin.rnea(model, data, full, v, a)
        rows.append([found[joint.idx_v] for joint in at])
    return np.array(rows)


@pytest.mark.parametrize(
    ("file", "held"),
    [
        ("panda_description/urdf/panda.urdf", {"panda_finger_joint1": 0.02}),
        ("ur_description/urdf/ur5_robot.urdf", {"elbow_joint": 0.7}),
        ("g1_description/urdf/g1_29dof_rev_1_0.urdf", {"waist_yaw_joint": 0.4, "left_knee_joint": 0.3}),
    ],
)
def test_holding_joints_is_building_a_reduced_model(file: str, held: dict[str, float]) -> None:
    path = shipped(file)
    said = Diagnostics()
    robot = load_robot(path, lock=held, diagnostics=said)
    model = pin.buildModelFromUrdf(str(path))
    neutral = pin.neutral(model)
    whole = load_robot(path)
    q = np.array([held.get(name, 0.0) for name in whole.joint_names])
    gone = [name for name in whole.tree_joint_names if name not in robot.tree_joint_names]
    for name, value in zip(
        whole.tree_joint_names, whole.projection @ q + whole.projection_offset, strict=True
    ):
        neutral[model.joints[model.getJointId(name)].idx_q] = value
    reduced = pin.buildReducedModel(model, [model.getJointId(name) for name in gone], neutral)
    assert dict(robot.locked) == held
    assert robot.n == reduced.nv
    q, dq, ddq = states(robot.n)
    wanted = reduced_torque(reduced, robot.joint_names, q, dq, ddq)
    np.testing.assert_allclose(torque(robot, q, dq, ddq), wanted, atol=1e-10 * np.abs(wanted).max())
    (note,) = [one for one in said if one.identifier == "joint-held"]
    assert note.severity == "note"
    assert all(f"'{name}' at {value:g}" in note.text for name, value in held.items())


def test_a_tip_keeps_its_chain_and_holds_the_rest() -> None:
    path = shipped("baxter_description/urdf/baxter.urdf")
    robot = load_robot(path, tip="left_gripper")
    assert len(robot.joint_names) == 7
    assert all(name.startswith("left_") for name in robot.joint_names)
    whole = load_robot(path)
    q, dq, ddq = states(7)
    wide = [np.zeros((12, whole.n)) for _ in range(3)]
    index = [whole.joint_names.index(name) for name in robot.joint_names]
    for full, own in zip(wide, (q, dq, ddq), strict=True):
        full[:, index] = own
    for name, value in robot.locked.items():
        wide[0][:, whole.joint_names.index(name)] = value
    wanted = torque(whole, *wide)[:, index]
    np.testing.assert_allclose(torque(robot, q, dq, ddq), wanted, atol=1e-10 * np.abs(wanted).max())
    # The other arm stands on the base and is gone; the fingers ride on the last link.
    assert not any("right" in body for body in robot.body_names)
    assert any("gripper" in link for link in robot.merged[-1])


def test_what_is_held_can_be_read_again_and_stored() -> None:
    path = shipped("panda_description/urdf/panda.urdf")
    robot = load_robot(path, lock={"panda_finger_joint1": 0.01}, tip="panda_hand", gravity=(0, 1, -9))
    again = robot_from_dict(robot_to_dict(robot))
    assert again.reading == robot.reading
    assert again.locked == robot.locked == {"panda_finger_joint1": 0.01}
    assert robot.gravity.tolist() == [0.0, 1.0, -9.0]
    assert "panda_finger_joint1 at 0.01" in str(robot)


def test_joints_that_follow_are_held_with_their_leader(tmp_path: Path) -> None:
    second = (
        '<link name="l2"><inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>'
        '<joint name="j2" type="prismatic"><parent link="l1"/><child link="l2"/><axis xyz="1 0 0"/>'
        '<limit lower="0" upper="1" velocity="1" effort="1"/>{}</joint>'
    )
    third = second.replace("l1", "base").replace("l2", "l3").replace("j2", "j3").format("") + "</robot>"
    mimic = '<mimic joint="j1" multiplier="2" offset="0.1"/>'
    path = tmp_path / "robot.urdf"
    path.write_text(swap(ARM, "</robot>", second.format(mimic) + third))
    robot = load_robot(path, lock={"j1": 0.3})
    assert robot.joint_names == ("j3",)
    found = lock_joints(load_robot(path), {"j3": 0.5})
    assert found.robot.joint_names == ("j1",)
    assert found.robot.has_mimic
    assert found.carrier.tolist() == [0, 1, -1]
    for lock, error, words in (
        ({"j2": 0.0}, InputError, "follows another"),
        ({"j4": 0.0}, InputError, "did you mean"),
        ({"j1": 0.0, "j3": 0.0}, InputError, "every joint locked"),
        ({"j1": np.nan}, UsageError, "finite"),
    ):
        with pytest.raises(error, match=words):
            load_robot(path, lock=lock)
    with pytest.raises(InputError, match="not a moving link"):
        load_robot(path, tip="base")


def test_a_joint_rests_at_the_limit_nearest_to_zero(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    extra = '<link name="l2"/><joint name="j2" type="revolute"><parent link="l1"/><child link="l2"/>'
    extra += '<limit lower="0.4" upper="1" velocity="1" effort="1"/></joint></robot>'
    path.write_text(swap(ARM, "</robot>", extra))
    assert load_robot(path, tip="l1").locked == {"j2": 0.4}


def test_a_motor_of_several_joints_cannot_be_held_alone() -> None:
    robot = load_example("arm7")
    N = np.eye(7)
    N[5, 6] = 1.0
    with pytest.raises(InputError, match="coupled-lock"):
        lock_joints(replace(robot, drive=replace(robot.drive, transmission=N)), {robot.joint_names[6]: 0.0})
    linked = lock_joints(robot, {robot.joint_names[2]: 0.1}).robot
    assert linked.drive.transmission.shape == (6, 6)


FLOATING = """<mujoco><compiler angle="radian"/><worldbody><body name="trunk" pos="0 0 1" euler="0.3 0.2 0.1">
<freejoint name="root"/><inertial pos="0 0 0.1" mass="5" diaginertia="0.1 0.2 0.25"/>
<body name="thigh" pos="0.1 0.2 0"><joint name="hip" axis="0 1 0" ref="0.2"/>
<inertial pos="0.05 0 -0.2" mass="2" diaginertia="0.02 0.02 0.01"/>
<body name="foot" pos="0 0 -0.4"><joint name="knee" axis="1 0 0"/>
<inertial pos="0 0.02 -0.1" mass="1" diaginertia="0.01 0.01 0.005"/></body></body></body>
<body name="ball" pos="1 0 0"><joint type="free" name="rolls"/><geom size="0.1"/></body></worldbody></mujoco>"""


def test_a_free_base_is_held_still_and_said_aloud(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(FLOATING)
    said = Diagnostics()
    robot = load_robot(path, diagnostics=said)
    assert robot.joint_names == ("hip", "knee")
    assert robot.locked == {"root": 0.0, "rolls": 0.0}
    (warning,) = said.warnings
    assert warning.identifier == "free-base"
    assert "free joint 'root' is fixed" in warning.text
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    q, dq, ddq = states(2)
    wanted = []
    for row in range(len(q)):
        mujoco.mj_resetData(model, data)
        for k, name in enumerate(robot.joint_names):
            joint = model.joint(name)
            data.qpos[joint.qposadr], data.qvel[joint.dofadr], data.qacc[joint.dofadr] = (
                q[row, k],
                dq[row, k],
                ddq[row, k],
            )
        mujoco.mj_inverse(model, data)
        wanted.append([data.qfrc_inverse[model.joint(name).dofadr[0]] for name in robot.joint_names])
    np.testing.assert_allclose(torque(robot, q, dq, ddq), wanted, atol=1e-9)


def test_a_floating_base_of_a_urdf_is_held_still(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    joint = '<joint name="float" type="floating"><parent link="world"/><child link="base"/></joint></robot>'
    path.write_text(swap(ARM, "</robot>", '<link name="world"/>' + joint))
    said = Diagnostics()
    assert load_robot(path, diagnostics=said).joint_names == ("j1",)
    assert [one.identifier for one in said.warnings] == ["free-base"]


def test_a_ball_joint_may_be_held(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(FLOATING.replace('name="knee" axis="1 0 0"', 'name="knee" type="ball"'))
    with pytest.raises(InputError, match="--lock 'knee=0'"):
        load_robot(path)
    robot = load_robot(path, lock={"knee": 0.0})
    assert robot.joint_names == ("hip",)
    assert robot.merged[0] == ("thigh", "foot")
