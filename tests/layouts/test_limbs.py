"""Numbered joints of legs: level by level, as some simulators count, or right legs before left ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.kernel import inverse_dynamics
from dynid.layouts import propose_logs
from dynid.robot import RobotModel, load_robot
from tests.layouts.test_strangers import csv

LEGS = ("FL", "FR", "RL", "RR")
NAMES = tuple(f"{leg}_{joint}" for leg in LEGS for joint in ("a_hip", "b_thigh", "c_calf"))
BODY = '<link name="{0}"><inertial><origin xyz="{1}"/><mass value="{2}"/><inertia ixx="{3}" iyy="{3}" izz="{3}" ixy="0" ixz="0" iyz="0"/></inertial></link>'  # noqa: E501
JOINT = '<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><origin xyz="{3}"/><axis xyz="{4}"/><limit lower="-2" upper="2" velocity="20" effort="40"/></joint>'  # noqa: E501


def walker(folder: Path, lean: float) -> RobotModel:
    """Four legs of three joints.    lean: by how much a thigh's centre lies outwards, m."""
    parts = []
    for leg in LEGS:
        x, y = 0.2 if leg[0] == "F" else -0.2, 0.1 if leg[1] == "L" else -0.1
        outwards = np.sign(y) * lean
        links = (("hip", f"0 {outwards} 0", 0.7, 0.001), ("thigh", f"0 {outwards} -0.05", 1.1, 0.006))
        for name, com, mass, inertia in (*links, ("calf", "0.01 0 -0.08", 0.3, 0.002)):
            parts.append(BODY.format(f"{leg}_{name}", com, mass, inertia))
        parts.append(JOINT.format(f"{leg}_a_hip", "trunk", f"{leg}_hip", f"{x} {y} 0", "1 0 0"))
        parts.append(JOINT.format(f"{leg}_b_thigh", f"{leg}_hip", f"{leg}_thigh", f"0 {outwards} 0", "0 1 0"))
        parts.append(JOINT.format(f"{leg}_c_calf", f"{leg}_thigh", f"{leg}_calf", "0 0 -0.21", "0 1 0"))
    path = folder / "walker.urdf"
    path.write_text(f'<robot name="walker"><link name="trunk"/>{"".join(parts)}</robot>')
    return load_robot(path, diagnostics=Diagnostics())


def logged(robot: RobotModel, folder: Path, order: tuple[str, ...]) -> Path:
    t = np.arange(0.0, 30.0, 0.01)
    rng = np.random.default_rng(4)
    q = np.zeros((len(t), robot.n))
    for f in (0.13, 0.31, 0.57):
        q += rng.uniform(0.15, 0.35, robot.n) * np.sin(
            2 * np.pi * f * t[:, None] + rng.uniform(0, 6, robot.n)
        )
    dq = np.gradient(q, t, axis=0)
    ddq = np.gradient(dq, t, axis=0)
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    tau = tau + 0.1 * np.tanh(dq / 0.03) + rng.normal(0, 0.01, tau.shape)
    places = [robot.joint_names.index(name) for name in order]
    columns: dict[str, Float] = {"stamp": 1.7e9 + t}
    for k, j in enumerate(places):
        columns |= {f"motor[{k}].q": q[:, j], f"motor[{k}].dq": dq[:, j], f"motor[{k}].tau": tau[:, j]}
    return csv(folder / "log.csv", columns)


LEVELS = tuple(f"{leg}_{joint}" for joint in ("a_hip", "b_thigh", "c_calf") for leg in LEGS)
RIGHT_FIRST = tuple(
    f"{leg}_{joint}" for leg in ("FR", "FL", "RR", "RL") for joint in ("a_hip", "b_thigh", "c_calf")
)


@pytest.mark.parametrize(
    ("order", "called"),
    [(NAMES, "base-to-tip"), (LEVELS, "level-by-level"), (RIGHT_FIRST, "limbs-exchanged-in-pairs")],
)
def test_the_torque_says_in_which_order_legs_are_numbered(
    order: tuple[str, ...], called: str, tmp_path: Path
) -> None:
    robot = walker(tmp_path, lean=0.04)
    assert robot.joint_names == NAMES
    found = propose_logs(robot, [logged(robot, tmp_path, order)])
    assert not found.open
    assert found["log.order"].value == called
    assert found.groups["position"].columns == {name: f"motor[{order.index(name)}].q" for name in NAMES}


def test_mirrors_of_one_another_are_asked_for(tmp_path: Path) -> None:
    robot = walker(tmp_path, lean=0.0)
    asked = propose_logs(robot, [logged(robot, tmp_path, RIGHT_FIRST)])["log.order"]
    assert asked.question
    assert "limbs-exchanged-in-pairs" in {one.value for one in asked.options}
    assert not propose_logs(
        robot, [logged(robot, tmp_path, RIGHT_FIRST)], {"log.order": "limbs-exchanged-in-pairs"}
    ).open


def with_two_at_its_wrist(folder: Path, names: tuple[str, str], count: int) -> RobotModel:
    """An arm of four joints that carries two chains of `count` joints."""
    parts, below = [], "base"
    for k in range(4):
        parts.append(BODY.format(f"arm{k}", "0.02 0.03 -0.1", 2.0 - 0.3 * k, 0.01))
        parts.append(JOINT.format(f"shoulder_{k}", below, f"arm{k}", "0 0 -0.25", ("0 0 1", "0 1 0")[k % 2]))
        below = f"arm{k}"
    for y, name in zip((0.05, -0.05), names, strict=True):
        before = below
        for k in range(count):
            parts.append(BODY.format(f"{name}{k}", "0 0 -0.05", 0.2, 0.0005))
            parts.append(JOINT.format(f"{name}_{k}", before, f"{name}{k}", f"0 {y} -0.05", "0 1 0"))
            before = f"{name}{k}"
    path = folder / "arm.urdf"
    path.write_text(f'<robot name="arm"><link name="base"/>{"".join(parts)}</robot>')
    return load_robot(path, diagnostics=Diagnostics())


@pytest.mark.parametrize(
    ("names", "count"),
    [(("left_finger", "right_finger"), 1), (("left_finger", "right_finger"), 3), (("e", "f"), 1)],
)
def test_fingers_and_tools_are_no_limbs(names: tuple[str, str], count: int, tmp_path: Path) -> None:
    robot = with_two_at_its_wrist(tmp_path, names, count)
    asked = propose_logs(robot, [logged(robot, tmp_path, robot.joint_names)])["log.order"]
    assert "limbs-exchanged-in-pairs" not in {one.value for one in asked.options}
    assert count > 1 or (asked.value == "base-to-tip" and asked.sure)


def test_limbs_of_other_masses_or_kinds_are_no_pair(tmp_path: Path) -> None:
    walker(tmp_path, lean=0.0)
    text = (tmp_path / "walker.urdf").read_text()
    for old, new in (
        ('<link name="FL_thigh"><inertial><origin xyz="0 0.0 -0.05"/><mass value="1.1"/>',
         '<link name="FL_thigh"><inertial><origin xyz="0 0.0 -0.05"/><mass value="3.1"/>'),
        ('<joint name="RL_c_calf" type="revolute">', '<joint name="RL_c_calf" type="prismatic">'),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "walker.urdf").write_text(text)
    robot = load_robot(tmp_path / "walker.urdf", diagnostics=Diagnostics())
    path = logged(robot, tmp_path, robot.joint_names)
    assert "limbs-exchanged-in-pairs" not in {
        one.value for one in propose_logs(robot, [path])["log.order"].options
    }
