"""SDF: a reader that knows nothing of the writer builds the same robot for pinocchio, which finds the same torque."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest

from dynid.exporters import ExportModel, new_sdf
from dynid.robot import RobotModel, load_robot
from tests.export.models import AGREE, model_of, shipped, states
from tests.robot_files import ROBOTS


def read(data: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(data)  # noqa: S314 - written a moment ago


def numbers(element: ElementTree.Element, path: str) -> np.ndarray:
    text = element.findtext(path)
    assert text is not None, path
    return np.array([float(word) for word in text.split()])


def placed(pose: np.ndarray) -> pin.SE3:
    return pin.SE3(pin.rpy.rpyToMatrix(*pose[3:]), pose[:3])


def built(data: bytes) -> pin.Model:
    """A pinocchio model from the words of the SDF specification: poses relative to links, axes in the child's frame."""
    root = read(data).find("model")
    assert root is not None
    links = {link.get("name"): link for link in root.findall("link")}
    model, index = pin.Model(), {"base": 0}
    for joint in root.findall("joint"):
        if joint.get("type") == "fixed":
            assert joint.findtext("parent") == "world"
            continue
        parent, child = joint.findtext("parent"), joint.findtext("child")
        pose = links[child].find("pose")
        assert pose is not None
        assert pose.get("relative_to") == parent
        kinds = {"revolute": pin.JointModelRevoluteUnaligned, "prismatic": pin.JointModelPrismaticUnaligned}
        kind = kinds[str(joint.get("type"))](numbers(joint, "axis/xyz"))
        frame = placed(numbers(links[child], "pose"))
        index[child] = model.addJoint(index[parent], kind, frame, str(joint.get("name")))
        if links[child].find("inertial") is not None:
            xx, xy, xz, yy, yz, zz = (
                numbers(links[child], f"inertial/inertia/i{key}")[0]
                for key in ("xx", "xy", "xz", "yy", "yz", "zz")
            )
            inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            pose_of_mass = placed(numbers(links[child], "inertial/pose"))
            body = pin.Inertia(numbers(links[child], "inertial/mass")[0], np.zeros(3), inertia)
            model.appendBodyToJoint(index[child], body, pose_of_mass)
    return model


def torques(theirs: pin.Model, model: ExportModel) -> tuple[np.ndarray, np.ndarray]:
    robot = model.robot
    theirs.gravity.linear = np.array(robot.gravity)
    scratch = theirs.createData()
    motion = robot.tree_motion(*states(robot))
    found = np.array([pin.rnea(theirs, scratch, *map(np.array, one)) for one in zip(*motion, strict=True)])
    order = [theirs.joints[theirs.getJointId(name)].idx_v for name in robot.tree_joint_names]
    plain = replace(model, rotor=np.zeros(robot.n))
    return found[:, order] @ robot.projection, plain.rigid_torque(*states(robot))


@pytest.mark.parametrize("name", ["ur10e_innopolis", "puma560", "kr300_rptu", "panda_gaz"])
def test_pinocchio_finds_the_torque_of_the_model(name: str) -> None:
    model = model_of(load_robot(ROBOTS / f"{name}.toml"))
    found, wanted = torques(built(new_sdf(model)), model)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=AGREE * np.abs(wanted).max())


def test_friction_limits_and_followers_are_there() -> None:
    robot: RobotModel = load_robot(shipped("panda_description/urdf/panda.urdf"))
    model = model_of(robot)
    root = read(new_sdf(model)).find("model")
    assert root is not None
    joints = {joint.get("name"): joint for joint in root.findall("joint")}
    for j, name in enumerate(robot.joint_names):
        axis = joints[name].find("axis")
        assert axis is not None
        assert numbers(axis, "dynamics/damping")[0] == model.viscous[j]
        assert numbers(axis, "dynamics/friction")[0] == model.coulomb[j]
        assert numbers(axis, "limit/lower")[0] == robot.limits.lower[j]
        assert numbers(axis, "limit/effort")[0] == robot.limits.effort[j]
    followers = [name for name in robot.tree_joint_names if name not in robot.joint_names]
    assert followers
    for name in followers:
        mimic = joints[name].find("axis/mimic")
        assert mimic is not None
        assert mimic.get("joint") in robot.joint_names


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    model = model_of(load_robot(ROBOTS / "puma560.toml"))
    (tmp_path / "puma560.sdf").write_bytes(new_sdf(model))
    robot = load_robot(tmp_path / "puma560.sdf")
    np.testing.assert_allclose(robot.inertia_prior, model.inertia, atol=1e-14)
    np.testing.assert_allclose(robot.T_parent_joint, model.robot.T_parent_joint, atol=1e-14)


def test_hostile_names_stay_names() -> None:
    robot = load_robot(ROBOTS / "puma560.toml")
    evil = '"/></link>&<!-- \x00\x1b[2J'
    names = tuple(f"{evil}{i}" for i in range(robot.n))
    named = replace(robot, name=evil, body_names=names, tree_joint_names=names, joint_names=names)
    data = new_sdf(model_of(named))
    root = read(data)
    assert len(root.findall("model/joint")) == robot.n + 1
    assert b"\x00" not in data
    assert b"\x1b" not in data
