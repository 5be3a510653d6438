"""URDF trees against pinocchio: random ones, and the robots of example-robot-data."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float
from dynid.kernel import inverse_dynamics, torque_regressor
from dynid.robot import JointType, RobotModel, load_robot

ROBOTS = [
    "a1_description/urdf/a1.urdf",
    "alex_description/urdf/alex_nub_hands.urdf",
    "anymal_b_simple_description/robots/anymal-kinova.urdf",
    "baxter_description/urdf/baxter.urdf",
    "centauro_description/urdf/centauro.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "human_description/robots/human.urdf",
    "icub_description/robots/icub.urdf",
    "kinova_description/robots/kinova.urdf",
    "panda_description/urdf/panda.urdf",
    "pr2_description/urdf/pr2.urdf",
    "so_arm_description/urdf/so101.urdf",
    "solo_description/robots/solo12.urdf",
    "talos_data/robots/talos_full_v2.urdf",
    "tiago_description/robots/tiago.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "ur_description/urdf/ur10_robot.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "z1_description/urdf/z1.urdf",
]


@dataclass(frozen=True)
class Joint:
    """What the generator decided about one joint."""

    name: str
    kind: str
    parent: str
    child: str
    mimic: tuple[str, float, float] | None


def numbers(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)


def inertial(random: np.random.Generator) -> str:
    # Inertia of a few point masses: always physical, never aligned.
    points = random.normal(scale=0.2, size=(6, 3))
    masses = random.uniform(0.1, 1.0, 6)
    com = masses @ points / masses.sum()
    arm = points - com
    matrix = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, arm, strict=True))
    rpy = random.uniform(-3, 3, 3)
    entries = (
        " ".join(
            f'{name}="{matrix[i, j]!r}"'
            for name, i, j in (
                ("ixx", 0, 0),
                ("ixy", 0, 1),
                ("ixz", 0, 2),
                ("iyy", 1, 1),
                ("iyz", 1, 2),
                ("izz", 2, 2),
            )
        )
        .replace("np.float64(", "")
        .replace(")", "")
    )
    return (
        f'<inertial><origin xyz="{numbers(com)}" rpy="{numbers(rpy)}"/>'
        f'<mass value="{float(masses.sum())!r}"/>'
        f"<inertia {entries}/></inertial>"
    )


def random_urdf(seed: int, n: int = 14) -> tuple[str, list[Joint]]:
    """A tree of n joints of all kinds in any orientation, written in random order, and its joints."""
    random = np.random.default_rng(seed)
    links, joints, parts = ["base"], [], [f'<link name="base">{inertial(random)}</link>']
    for i in range(n):
        parent = links[random.integers(max(0, len(links) - 4), len(links))]
        kind = str(random.choice(["revolute", "continuous", "prismatic", "fixed"], p=[0.35, 0.2, 0.2, 0.25]))
        kind = "revolute" if i == 0 else kind
        leaders = [joint.name for joint in joints if joint.kind != "fixed"]
        mimic = None
        if leaders and kind != "fixed" and random.random() < 0.25:
            mimic = (str(random.choice(leaders)), float(random.uniform(-2, 2)), float(random.uniform(-1, 1)))
        joint = Joint(f"j{random.integers(1_000_000)}_{i}", kind, parent, f"l{i}", mimic)
        axis = random.normal(size=3)
        axis /= np.linalg.norm(axis)
        follow = (
            ""
            if mimic is None
            else f'<mimic joint="{mimic[0]}" multiplier="{mimic[1]!r}" offset="{mimic[2]!r}"/>'
        )
        parts.append(
            f'<joint name="{joint.name}" type="{kind}"><parent link="{parent}"/><child link="{joint.child}"/>'
            f'<origin xyz="{numbers(random.normal(scale=0.4, size=3))}" '
            f'rpy="{numbers(random.uniform(-3, 3, 3))}"/><axis xyz="{numbers(axis)}"/>'
            f'<limit lower="-3" upper="3" velocity="1" effort="1"/>{follow}</joint>'
        )
        empty = kind == "fixed" and random.random() < 0.3
        parts.append(f'<link name="{joint.child}">{"" if empty else inertial(random)}</link>')
        links.append(joint.child)
        joints.append(joint)
    random.shuffle(parts)
    return f'<robot name="random{seed}">' + "\n".join(parts) + "</robot>", joints


class Oracle:
    """pinocchio's dynamics in the order of dynid's joints."""

    def __init__(self, model: Any, robot: RobotModel) -> None:
        self.model, self.data, self.robot = model, model.createData(), robot
        self.model.gravity.linear = np.array(robot.gravity)
        self.joints = [model.joints[model.getJointId(name)] for name in robot.tree_joint_names]
        self.rows = [joint.idx_v for joint in self.joints]
        self.columns = np.concatenate([np.arange(10 * j.id - 10, 10 * j.id) for j in self.joints])

    def motion(self, q: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        Q, V, A = np.zeros(self.model.nq), np.zeros(self.model.nv), np.zeros(self.model.nv)
        for i, joint in enumerate(self.joints):
            V[joint.idx_v], A[joint.idx_v] = dq[i], ddq[i]
            turns = [np.cos(q[i]), np.sin(q[i])] if joint.nq == 2 else [q[i]]
            Q[joint.idx_q : joint.idx_q + joint.nq] = turns
        return Q, V, A

    def torque(self, q: Float, dq: Float, ddq: Float) -> Float:
        return np.array(pin.rnea(self.model, self.data, *self.motion(q, dq, ddq)))[self.rows]

    def regressor(self, q: Float, dq: Float, ddq: Float) -> Float:
        Y = pin.computeJointTorqueRegressor(self.model, self.data, *self.motion(q, dq, ddq))
        return np.array(Y)[np.ix_(self.rows, self.columns)]


def states(n: int, seed: int, count: int = 4) -> tuple[Float, Float, Float]:
    random = np.random.default_rng(seed)
    return tuple(random.uniform(-2, 2, (count, n)) for _ in range(3))  # type: ignore[return-value]  # three arrays


def agree(found: Float, truth: Float, tolerance: float = 1e-10) -> None:
    assert found.shape == truth.shape
    assert np.abs(found - truth).max() <= tolerance * max(1.0, float(np.abs(truth).max()))


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_have_pinocchios_torque_and_regressor(seed: int, tmp_path: Path) -> None:
    text, _ = random_urdf(seed)
    (tmp_path / "robot.urdf").write_text(text)
    robot = load_robot(tmp_path / "robot.urdf")
    oracle = Oracle(pin.buildModelFromXML(text), robot)
    assert list(oracle.model.names)[1:] == list(robot.tree_joint_names)
    q, dq, ddq = states(robot.n_bodies, seed)
    agree(
        inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq),
        np.array([oracle.torque(*motion) for motion in zip(q, dq, ddq, strict=True)]),
    )
    agree(
        torque_regressor(robot.tree, q, dq, ddq).dense(10 * robot.n_bodies),
        np.array([oracle.regressor(*motion) for motion in zip(q, dq, ddq, strict=True)]),
    )


@pytest.mark.parametrize("seed", range(8))
def test_mimic_joints_are_projected(seed: int, tmp_path: Path) -> None:
    text, joints = random_urdf(seed, 10)
    (tmp_path / "robot.urdf").write_text(text)
    robot = load_robot(tmp_path / "robot.urdf")
    moving = {joint.name: joint for joint in joints if joint.kind != "fixed"}
    assert set(robot.joint_names) == {name for name, joint in moving.items() if joint.mimic is None}
    q, dq, ddq = states(robot.n, seed)
    J = np.zeros((robot.n_bodies, robot.n))
    full: dict[str, tuple[Float, Float]] = {}
    for name, joint in moving.items():  # leaders come first
        i = robot.tree_joint_names.index(name)
        if joint.mimic is None:
            k = robot.joint_names.index(name)
            J[i, k] = 1.0
            full[name] = q[:, k], dq[:, k]
        else:
            leader, factor, offset = joint.mimic
            J[i] = factor * J[robot.tree_joint_names.index(leader)]
            full[name] = factor * full[leader][0] + offset, factor * full[leader][1]
    tree_q, tree_dq, tree_ddq = robot.tree_motion(q, dq, ddq)
    agree(tree_q, np.column_stack([full[name][0] for name in robot.tree_joint_names]), 1e-13)
    agree(tree_dq, np.column_stack([full[name][1] for name in robot.tree_joint_names]), 1e-13)
    agree(np.array(robot.projection), J, 1e-13)
    oracle = Oracle(pin.buildModelFromXML(text), robot)
    truth = [J.T @ oracle.torque(*motion) for motion in zip(tree_q, tree_dq, tree_ddq, strict=True)]
    found = inverse_dynamics(robot.tree, robot.inertia_prior, tree_q, tree_dq, tree_ddq) @ robot.projection
    agree(found, np.array(truth))


def example(name: str) -> Path:
    """Where the wheel of example-robot-data put a robot."""
    try:
        installed = distribution("example-robot-data").files or []
    except PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    return next(
        Path(str(file.locate())).resolve() for file in installed if str(file).endswith(f"robots/{name}")
    )


@pytest.mark.parametrize("name", ROBOTS, ids=lambda name: Path(name).stem)
def test_real_robots_have_pinocchios_torque_and_regressor(name: str) -> None:
    path = example(name)
    diagnostics = Diagnostics()
    robot = load_robot(path, diagnostics=diagnostics)
    assert not {item.identifier for item in diagnostics} - {
        "triangle-inequality",
        "inertial-missing",
        "inertia-not-psd",
        "limit-missing",  # a <limit> of effort and velocity alone
        "mesh-missing",  # a note: some meshes belong to packages that are not installed
    }
    oracle = Oracle(pin.buildModelFromUrdf(str(path)), robot)
    assert list(oracle.model.names)[1:] == list(robot.tree_joint_names)
    q, dq, ddq = states(robot.n_bodies, 1, 2)
    agree(
        inverse_dynamics(robot.tree, np.nan_to_num(robot.inertia_prior), q, dq, ddq),
        np.array([oracle.torque(*motion) for motion in zip(q, dq, ddq, strict=True)]),
    )
    agree(
        torque_regressor(robot.tree, q, dq, ddq).dense(10 * robot.n_bodies),
        np.array([oracle.regressor(*motion) for motion in zip(q, dq, ddq, strict=True)]),
    )


def test_limits_friction_and_merged_links_are_read(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(
        '<robot name="r"><link name="base"/><link name="a"/><link name="tool"/><link name="b"/>'
        '<link name="c"/>'
        '<joint name="j1" type="revolute"><parent link="base"/><child link="a"/>'
        '<limit lower="-1" upper="2" velocity="3" effort="4"/>'
        '<dynamics damping="0.5" friction="0.25"/></joint>'
        '<joint name="f" type="fixed"><parent link="a"/><child link="tool"/></joint>'
        '<joint name="j2" type="continuous"><parent link="tool"/><child link="b"/>'
        '<limit lower="-1" upper="2" velocity="0" effort="0"/></joint>'
        '<joint name="j3" type="prismatic"><parent link="b"/><child link="c"/><axis xyz="0 2 0"/>'
        '<limit lower="0" upper="0.1" velocity="1" effort="1"/></joint></robot>'
    )
    robot = load_robot(tmp_path / "robot.urdf", gravity=(0.0, 9.81, 0.0))
    assert robot.name == "r"
    assert robot.joint_types == (JointType.REVOLUTE, JointType.CONTINUOUS, JointType.PRISMATIC)
    assert robot.limits.lower.tolist() == [-1.0, -np.inf, 0.0]
    assert robot.limits.upper.tolist() == [2.0, np.inf, 0.1]
    assert robot.limits.velocity.tolist() == [3.0, np.inf, 1.0]
    assert robot.limits.effort.tolist() == [4.0, np.inf, 1.0]
    assert robot.friction_prior[0].tolist() == [0.5, 0.25]
    assert np.isnan(robot.friction_prior[1:]).all()
    assert robot.merged == (("a", "tool"), ("b",), ("c",))
    assert robot.axis.tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert robot.gravity.tolist() == [0.0, 9.81, 0.0]
    assert np.isnan(robot.inertia_prior).all()
