"""Joints that a log does not have: on a branch of their own their place matters to nothing, else it is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, Float, InputError
from dynid.kernel import inverse_dynamics
from dynid.layouts import experiment_text, propose_logs
from dynid.layouts.joints import _apart
from dynid.log import hand_joints
from dynid.robot import RobotModel, load_robot

LIMIT = '<limit lower="-2" upper="2" velocity="3" effort="50"/>'
LIMIT_OF_FINGER = '<limit lower="0" upper="0.04" velocity="1" effort="20"/>'
INERTIAL = (
    '<inertial><origin xyz="0.1 0 0"/><mass value="2"/><inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" '
    'izz="0.02"/></inertial>'
)
# A waist that carries two arms.
TREE = (("waist", "base", "t"), ("l1", "t", "a"), ("l2", "a", "b"), ("r1", "t", "c"), ("r2", "c", "d"))


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    parts = [
        f'<link name="{child}">{INERTIAL}</link><joint name="{joint}" type="revolute"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>{LIMIT}</joint>'
        for joint, parent, child in TREE
    ]
    path = tmp_path_factory.mktemp("tree") / "two_arms.urdf"
    path.write_text(f'<robot name="two"><link name="base"/>{"".join(parts)}</robot>')
    return load_robot(path, diagnostics=Diagnostics())


@pytest.mark.parametrize(
    ("missing", "apart"),
    [
        (("l1", "l2", "waist"), {"l1", "l2"}),  # the waist carries the arm that is logged
        (("r1", "r2"), set()),  # the waist is logged, and carries both
        (("l1", "l2", "r2", "waist"), {"l1", "l2"}),  # r1 carries r2
    ],
)
def test_only_a_branch_of_its_own_does_not_matter(
    robot: RobotModel, missing: tuple[str, ...], apart: set[str]
) -> None:
    assert {joint for joint in missing if _apart(robot, joint, missing)} == apart


def test_torque_of_logged_joints_does_not_know_the_place_of_those_apart(robot: RobotModel) -> None:
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromUrdf(robot.source)
    data = model.createData()
    rng = np.random.default_rng(0)
    q, v, a = rng.normal(size=(3, model.nv))
    still = [model.getJointId(name) - 1 for name in ("l1", "l2", "waist")]
    logged = [model.getJointId(name) - 1 for name in ("r1", "r2")]
    v[still] = a[still] = 0.0
    elsewhere = q.copy()
    elsewhere[still[:2]] += 1.0
    torques = [pin.rnea(model, data, place, v, a).copy()[logged] for place in (q, elsewhere)]
    np.testing.assert_allclose(torques[0], torques[1], atol=1e-12)


def write_arm(folder: Path, columns: dict[str, Float]) -> Path:
    """A log of columns, which stand for r1 and r2 of the second arm, and of nothing else."""
    path = folder / "log.csv"
    np.savetxt(
        path, np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns), comments=""
    )
    return path


def arm_motion() -> tuple[Float, Float]:
    """Time (T,) and positions (T, 2)."""
    t = np.arange(800) / 100
    return t, np.column_stack([np.sin(1.3 * t), 0.7 * np.cos(1.9 * t)])


def test_gains_are_asked_of_the_joints_that_the_log_has(robot: RobotModel, tmp_path: Path) -> None:
    t, q = arm_motion()
    columns = {"t": t}
    for k, joint in enumerate(("r1", "r2")):
        columns |= {
            f"{joint}.position_deg": np.degrees(q[:, k]),
            f"{joint}.current_mA": 100 * np.sin(q[:, k]),
        }
    log = write_arm(tmp_path, columns)
    found = propose_logs(robot, [log])
    assert "2 numbers" in found["robot.drive_gain"].question
    assert "drive_gain = { r1 = ?, r2 = ? }" in experiment_text(found, "call")
    answered = propose_logs(robot, [log], {"robot.drive_gain": "2, 3"})
    assert answered.gains == {"r1": 2.0, "r2": 3.0}
    assert all(" 0," not in why for why in found["log.position.unit"].why)  # spans of joints that are held


def test_columns_numbered_along_one_chain_are_asked_for_with_its_tip(
    robot: RobotModel, tmp_path: Path
) -> None:
    t, _ = arm_motion()
    log = write_arm(tmp_path, {"t": t} | {f"q_{k}": np.sin((1 + 0.1 * k) * t) for k in (1, 2, 3)})
    (why,) = [one for one in propose_logs(robot, [log])["log.position.columns"].why if "--tip" in one]
    assert "3 columns" in why
    assert "5 joints" in why
    assert "--tip b or --tip d" in why
    # Who opens the log reads the same, whatever is answered.
    for answers in ({}, {"log.position.columns": "q_1,q_2,q_3"}, {"log.effort.columns": "u_1,u_2,u_3"}):
        with pytest.raises(InputError, match=r"3 columns but the robot has 5 joints.*--tip b or --tip d"):
            dynid.read_log(log, robot, answers=answers)


def test_columns_that_are_known_stand_in_a_file_that_asks_for_the_clock(
    robot: RobotModel, tmp_path: Path
) -> None:
    t, q = arm_motion()
    columns = {"counter": 0 * t} | {f"{j}/measured_q": q[:, k] for k, j in enumerate(("r1", "r2"))}
    text = experiment_text(propose_logs(robot, [write_arm(tmp_path, columns)]), "call")
    assert '"{joint}/measured_q"' in text.split("not used:")[0]


@pytest.mark.parametrize("late", [False, True])
def test_columns_without_a_number_are_none(robot: RobotModel, tmp_path: Path, late: bool) -> None:
    """A sensor that is dead leaves its joint without effort, and the others theirs; one that wakes late does not."""
    t, q = arm_motion()
    columns = {"t": t}
    for k, joint in enumerate(("r1", "r2", "waist")):
        columns |= {f"q_{joint}": q[:, k % 2], f"tau_{joint}": 10.0 * np.sin(q[:, k % 2])}
    columns["tau_r2"] = np.where((t > 3.0) & late, columns["tau_r2"], np.nan)
    found = propose_logs(robot, [write_arm(tmp_path, columns)])["log.effort.columns"]
    assert found.value is not None
    told = [why for why in found.why if "r2 without an effort column" in why]
    assert bool(told) is not late
    assert all("--tip" in why for why in told)
    # Most joints have to have an effort: one of three is of another kind.
    columns["tau_r1"] = np.full(len(t), np.nan)
    few = propose_logs(robot, [write_arm(tmp_path, columns)])["log.effort.columns"]
    assert (few.value is None) is not late
    columns["tau_r1"] = 10.0 * np.sin(q[:, 0])
    # Without its positions a joint is held, and its effort is of no use.
    columns |= {"q_r2": np.full(len(t), np.nan), "tau_r2": 10.0 * np.sin(q[:, 1])}
    found = propose_logs(robot, [write_arm(tmp_path, columns)])
    assert found["log.effort.columns"].value is not None
    assert "robot.lock.r2" in {one.key for one in found.decisions}


def arm_with_finger(folder: Path) -> RobotModel:
    links = (("a1", "b"), ("a2", "c"), ("a3", "d"), ("finger_joint", "e"))
    parts = [
        f'<link name="{child}">{INERTIAL}</link><joint name="{joint}" type="revolute"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>{LIMIT}</joint>'
        for (joint, child), parent in zip(links, ("a", "b", "c", "d"), strict=True)
    ]
    (folder / "arm.urdf").write_text(f'<robot name="arm"><link name="a"/>{"".join(parts)}</robot>')
    return load_robot(folder / "arm.urdf", diagnostics=Diagnostics())


def test_a_hand_without_effort_is_held_though_it_has_positions(tmp_path: Path) -> None:
    arm = arm_with_finger(tmp_path)
    t, q = arm_motion()
    columns = {"t": t} | {f"q_{joint}": q[:, k % 2] for k, joint in enumerate(arm.joint_names)}
    columns |= {f"tau_a{k}": np.sin(k + q[:, 0]) for k in (1, 2, 3)}
    found = propose_logs(arm, [write_arm(tmp_path, columns)])
    assert found["log.effort.columns"].value is not None
    assert found["robot.lock.finger_joint"].value == "0"


def test_a_joint_that_moves_a_finger_is_one_of_a_hand_whatever_it_is_called(tmp_path: Path) -> None:
    arm_with_finger(tmp_path)
    text = (tmp_path / "arm.urdf").read_text()
    t, q = arm_motion()
    columns = {"t": t} | {f"q_a{k}": q[:, k % 2] for k in (1, 2, 3)}
    columns |= {f"tau_a{k}": np.sin(k + q[:, 0]) for k in (1, 2, 3)}
    for body, asked in (("left_outer_knuckle", False), ("flange", True)):
        named = text.replace("finger_joint", "drive_joint").replace('"e"', f'"{body}"')
        (tmp_path / "arm.urdf").write_text(named)
        found = propose_logs(load_robot(tmp_path / "arm.urdf"), [write_arm(tmp_path, columns)])
        assert (found["robot.lock.drive_joint"].value is None) == asked


def test_a_knuckle_that_carries_other_joints_is_no_end_of_an_arm(tmp_path: Path) -> None:
    arm = replace(arm_with_finger(tmp_path), body_names=("b", "knuckle", "d", "tip"))
    assert hand_joints(arm) == {"finger_joint"}
    assert hand_joints(replace(arm, body_names=("b", "c", "knuckle", "tip"))) == {"a3", "finger_joint"}


@pytest.mark.parametrize("unit", ["rad", "deg"])
@pytest.mark.parametrize("opening", [None, 255.0, 1000.0])
def test_an_opening_on_another_scale_is_no_position_of_a_hand(
    unit: str, opening: float | None, tmp_path: Path
) -> None:
    """It is held, with the reason, and its effort left out; a position within the joint's limits is kept."""
    arm = arm_with_finger(tmp_path)
    t, q = arm_motion()
    names = [f"{joint}_position" for joint in arm.joint_names]
    scale = np.degrees(1.0) if unit == "deg" else 1.0
    columns = {"t": t} | {name: scale * q[:, k % 2] for k, name in enumerate(names)}
    columns |= {f"{joint}_effort": np.sin(k + q[:, 0]) for k, joint in enumerate(arm.joint_names)}
    if opening is not None:
        columns[names[-1]] = np.round(opening * (0.5 + 0.5 * np.sin(t)))
    found = propose_logs(arm, [write_arm(tmp_path, columns)])
    held = "robot.lock.finger_joint" in {one.key for one in found.decisions}
    assert held == (opening is not None)
    assert ("finger_joint" in found.groups["effort"].columns) == (opening is None)
    if opening is not None:
        (why,) = [one for one in found["log.position.columns"].why if "not a position of that joint" in one]
        assert f"to {opening:g}" in why


def test_an_opening_among_numbered_columns_is_held_where_the_torque_says_their_order(tmp_path: Path) -> None:
    """A finger that slides, logged from 0 to 1: as metres it would be far away."""
    arm_with_finger(tmp_path)
    head, finger = (tmp_path / "arm.urdf").read_text().split('<joint name="finger_joint"')
    finger = finger.replace('"revolute"', '"prismatic"').replace(LIMIT, LIMIT_OF_FINGER)
    for mass in (5, 4, 3):  # one mass for all bodies would be a placeholder
        head = head.replace('mass value="2"', f'mass value="{mass}"', 1)
    (tmp_path / "arm.urdf").write_text(f'{head}<joint name="finger_joint"{finger}')
    arm = load_robot(tmp_path / "arm.urdf", diagnostics=Diagnostics())
    t = np.arange(0.0, 20.0, 0.01)
    q = np.column_stack([0.6 * np.sin(w * t + k) for k, w in enumerate((1.1, 1.7, 2.3))] + [0.02 + 0 * t])
    dq, ddq = np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0)
    tau = inverse_dynamics(arm.tree, arm.inertia_prior, q, dq, ddq)
    q[:, 3] = 0.5 + 0.45 * np.sin(2.0 * t)
    dq[:, 3], tau[:, 3] = np.gradient(q[:, 3], t), 0.5 * np.sign(np.cos(2.0 * t))
    groups = {"qpos": q, "qvel": dq, "effort": tau}
    columns = {"t": t} | {f"{kind}[{k}]": values[:, k] for kind, values in groups.items() for k in range(4)}
    found = propose_logs(arm, [write_arm(tmp_path, columns)])
    assert found.open == ()
    assert found.locked == {"finger_joint": 0.0}
    for kind, name in (("position", "qpos"), ("velocity", "qvel"), ("effort", "effort")):
        assert tuple(found.groups[kind].columns.values()) == tuple(f"{name}[{k}]" for k in range(3))
    # Nothing moves it where it is within its limits.
    columns["qpos[3]"] = 0.04 * columns["qpos[3]"]
    columns["qvel[3]"] = 0.04 * columns["qvel[3]"]
    assert propose_logs(arm, [write_arm(tmp_path, columns)]).locked == {}


def test_of_two_arms_in_one_log_one_is_asked_for_and_the_hand_is_held(tmp_path: Path) -> None:
    arm = arm_with_finger(tmp_path)
    t, q = arm_motion()
    columns = {"t": t}
    for side in ("left", "right"):
        columns |= {f"{side}_q{k}": q[:, k % 2] for k in (1, 2, 3)}
        columns |= {f"{side}_tau{k}": np.sin(k + q[:, 0]) for k in (1, 2, 3)}
    found = propose_logs(arm, [write_arm(tmp_path, columns)])
    asked = found["log.position.columns"]
    assert [one.value for one in asked.options] == ["left_q{number}", "right_q{number}"]
    assert asked.refusal is None
    answers = {
        f"log.{kind}.columns": f"left_{name}{{number}}"
        for kind, name in (("position", "q"), ("effort", "tau"))
    }
    assert propose_logs(arm, [write_arm(tmp_path, columns)], answers).locked == {"finger_joint": 0.0}
