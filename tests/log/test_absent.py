"""Joints that a log does not hold, or holds without effort: held and said, never guessed over."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynid
from dynid.base import Float, InputError, UsageError
from dynid.kernel import inverse_dynamics
from dynid.log import Log, read_log, write_log
from dynid.robot import RobotModel, load_robot, lock_joints
from tests.command_line import Run
from tests.log.bags import states, write_bag

LINK = (
    '<link name="{child}"><inertial><origin xyz="0.1 0.02 0.05"/><mass value="{mass}"/>'
    '<inertia ixx="0.02" iyy="0.03" izz="0.025" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    '<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="0.3 0 0.1"/>'
    '<axis xyz="{axis}"/><limit lower="{lower}" upper="2" velocity="3" effort="100"/></joint>'
)
ARM = ("j1", "j2", "j3")
FINGERS = ("left", "right")


def described(folder: Path) -> Path:
    """Three joints and two fingers, the second of which cannot close."""
    parts = [
        ("j1", "base", "l1", "revolute", "0 0 1", 4, -2), ("j2", "l1", "l2", "revolute", "0 1 0", 3, -2),
        ("j3", "l2", "l3", "revolute", "0 1 0", 2, -2), ("left", "l3", "f1", "prismatic", "0 1 0", 0.5, 0),
        ("right", "l3", "f2", "prismatic", "0 1 0", 0.4, 0.01),
    ]  # fmt: skip
    text = "".join(
        LINK.format(name=name, parent=parent, child=child, kind=kind, axis=axis, mass=mass, lower=lower)
        for name, parent, child, kind, axis, mass, lower in parts
    )
    path = folder / "arm.urdf"
    path.write_text(f'<robot name="arm"><link name="base"/>{text}</robot>')
    return path


@pytest.fixture
def robot(tmp_path: Path) -> RobotModel:
    return load_robot(described(tmp_path))


def motion(robot: RobotModel, fingers: tuple[float, float] = (0.0, 0.01)) -> dict[str, Float]:
    """Columns of a log: the arm moves, the fingers stand; friction and noise."""
    rng, t = np.random.default_rng(0), np.arange(3000) / 100.0
    rate, phase = rng.uniform(0.5, 3.0, (3, 3)), rng.uniform(0, 6, (3, 3))
    angle = t[:, None, None] * rate + phase
    q = np.zeros((3000, 5))
    dq, ddq = q.copy(), q.copy()
    q[:, :3] = 0.5 * np.sin(angle).sum(-1)
    dq[:, :3], ddq[:, :3] = 0.5 * (rate * np.cos(angle)).sum(-1), -0.5 * (rate**2 * np.sin(angle)).sum(-1)
    q[:, 3:] = fingers
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq) + 0.8 * dq
    tau += 0.02 * rng.normal(size=tau.shape)
    tau[:, 3:] = 0.0
    columns = {f"q_{name}": q[:, j] for j, name in enumerate(robot.joint_names)}
    return {"t": t} | columns | {f"tau_{name}": tau[:, j] for j, name in enumerate(robot.joint_names)}


def written(path: Path, columns: dict[str, Float]) -> Path:
    return write_log(path, columns["t"], {name: values for name, values in columns.items() if name != "t"})


def without(columns: dict[str, Float], *endings: str) -> dict[str, Float]:
    return {name: values for name, values in columns.items() if not name.endswith(endings)}


def texts(log: Log) -> list[str]:
    return [one.text for one in log.remarks if one.identifier == "joint-held" and one.severity == "warning"]


def same(log: Log, robot: RobotModel, places: dict[str, float]) -> None:
    wanted = lock_joints(robot, places).robot
    assert log.robot.joint_names == ARM
    assert dict(log.robot.locked) == pytest.approx(places)
    np.testing.assert_allclose(log.robot.inertia_prior, wanted.inertia_prior, atol=1e-12)


def test_fingers_that_are_not_in_a_log_are_held(robot: RobotModel, tmp_path: Path) -> None:
    log = read_log(written(tmp_path / "log.csv", without(motion(robot), *FINGERS)), robot)
    same(log, robot, {"left": 0.0, "right": 0.01})
    (text,) = texts(log)
    assert text.startswith("not in the log: joints 'left' at 0, 'right' at 0.01 are locked")
    assert log.read(log.trajectories[0]).q.shape == (3000, 3)
    # What the user has said is not said again.
    held = lock_joints(robot, {"left": 0.02, "right": 0.03}).robot
    assert not texts(read_log(tmp_path / "log.csv", held))


@pytest.mark.parametrize(
    "section",
    [
        {"position": {"columns": "p_{joint}", "unit": "rad"}, "effort": {"columns": "e_{joint}", "unit": "N m"}},
        {"position": {"columns": {j: f"p_{j}" for j in ARM}, "unit": "rad"},
         "effort": {"columns": {j: f"e_{j}" for j in ARM}, "unit": "N m"}},
        {"position": {"columns": "n{number}", "unit": "rad"}, "effort": {"columns": "m{number}", "unit": "N m"}},
    ],
)  # fmt: skip
def test_mappings_may_leave_joints_out(section: dict[str, Any], robot: RobotModel, tmp_path: Path) -> None:
    columns = motion(robot)
    named = {"t": columns["t"]}
    for k, j in enumerate(ARM, 1):
        named |= {f"p_{j}": columns[f"q_{j}"], f"e_{j}": columns[f"tau_{j}"]}
        named |= {f"n{k}": columns[f"q_{j}"], f"m{k}": columns[f"tau_{j}"]}
    path = written(tmp_path / "log.parquet", named)
    same(
        read_log(path, robot, {"time": {"column": "t", "unit": "s"}, **section}),
        robot,
        {"left": 0.0, "right": 0.01},
    )


def test_names_are_not_mistaken_for_joints_that_are_absent(robot: RobotModel, tmp_path: Path) -> None:
    columns = motion(robot)
    renamed = without(columns, "left") | {"q_lft": columns["q_left"]}
    with pytest.raises(InputError, match="no-mapping"):
        read_log(written(tmp_path / "a.csv", renamed), robot)
    with pytest.raises(InputError, match="no-mapping"):
        read_log(written(tmp_path / "b.csv", {"t": columns["t"], "x": columns["t"]}), robot)
    numbered = {"t": columns["t"]} | {f"n{k}": columns["q_j1"] for k in (1, 3, 4)}
    with pytest.raises(InputError, match=r"missing-column.*'n2'"):
        read_log(written(tmp_path / "c.csv", numbered), robot, {
            "time": {"column": "t", "unit": "s"}, "position": {"columns": "n{number}", "unit": "rad"},
        })  # fmt: skip
    with pytest.raises(InputError, match=r"missing-column.*'lost'"):
        read_log(written(tmp_path / "d.csv", columns), robot, {
            "time": {"column": "t", "unit": "s"},
            "position": {"columns": {"j1": "q_j1", "j2": "lost"}, "unit": "rad"},
        })  # fmt: skip


def test_joints_without_effort_are_held_where_they_stand(robot: RobotModel, tmp_path: Path) -> None:
    columns = motion(robot, (0.015, 0.03))
    for name, kept in (("zero", columns), ("none", without(columns, "tau_left", "tau_right"))):
        log = read_log(written(tmp_path / f"{name}.csv", kept), robot)
        same(log, robot, {"left": 0.015, "right": 0.03})
        assert texts(log)[0].startswith("without effort in the log: joints 'left' at 0.015")
    columns["q_left"] = 0.01 + 0.01 * np.sin(columns["t"])
    log = read_log(written(tmp_path / "moving.csv", columns), robot)
    same(log, robot, {"left": 0.5 * (columns["q_left"].min() + columns["q_left"].max()), "right": 0.03})
    assert "(the motion of 'left' by 0.02 m is ignored)" in texts(log)[0]
    # A force that is told, and not measured, is no more than none.
    gripping = {**columns, "tau_left": np.full_like(columns["t"], 20.0)}
    log = read_log(written(tmp_path / "gripping.csv", gripping), robot)
    same(log, robot, {"left": 0.5 * (columns["q_left"].min() + columns["q_left"].max()), "right": 0.03})
    assert any("constant effort (the motion of 'left' by 0.02 m" in one for one in texts(log))
    # A joint that carries others is not left out of its motion: its equation is.
    inner = read_log(written(tmp_path / "inner.csv", without(columns, "tau_j2")), robot)
    assert inner.robot.joint_names == ARM
    assert inner.unmeasured == ("j2",)
    (said,) = [one.text for one in inner.remarks if one.identifier == "joint-unmeasured"]
    assert "'j2' moves without an effort" in said
    # At rest in another log it is held there, unless a model has it: its motion is used then, as in the training.
    rests = without(columns, "tau_j2") | {"q_j2": np.full_like(columns["t"], 0.2)}
    still = read_log(written(tmp_path / "still.csv", rests), robot)
    assert still.robot.joint_names == tuple(j for j in ARM if j != "j2")
    again = still.of_robot(inner.robot)
    assert (again.robot.joint_names, again.unmeasured) == (ARM, ("j2",))
    assert (again.read(again.trajectories[0]).q[:, ARM.index("j2")] == 0.2).all()
    assert not any("'j2'" in one for one in texts(again))
    # Motors that several joints share leave no equation to leave out.
    shared = np.eye(5)
    shared[2, 1] = 0.5
    coupled = replace(robot, drive=replace(robot.drive, transmission=shared))
    with pytest.raises(InputError, match=r"no-effort.*'j2'.*--lock 'j2=VALUE'"):
        read_log(tmp_path / "inner.csv", coupled)
    columns["q_j2"] = np.full(3000, 0.3)
    assert read_log(written(tmp_path / "still.csv", without(columns, "tau_j2")), robot).robot.joint_names == (
        "j1",
        "j3",
    )


def test_a_jaw_that_turns_without_an_effort_is_used_within_its_limits(tmp_path: Path) -> None:
    """What leaves them is an opening in a unit of its own, 0 to 255: such a joint is held."""
    parts = [
        ("j1", "base", "l1", "revolute", "0 0 1", 4, -2), ("j2", "l1", "l2", "revolute", "0 1 0", 3, -2),
        ("j3", "l2", "l3", "revolute", "0 1 0", 2, -2), ("jaw", "l3", "f1", "revolute", "0 0 1", 0.5, 0),
        ("thumb", "l3", "f2", "revolute", "0 0 1", 0.4, 0),
    ]  # fmt: skip
    text = "".join(
        LINK.format(name=name, parent=parent, child=child, kind=kind, axis=axis, mass=mass, lower=lower)
        for name, parent, child, kind, axis, mass, lower in parts
    )
    path = tmp_path / "arm.urdf"
    path.write_text(f'<robot name="arm"><link name="base"/>{text}</robot>')
    robot = load_robot(path)
    columns = motion(robot)
    columns["q_jaw"] = 1.0 + np.sin(columns["t"])
    columns["q_thumb"] = 127.0 + 127.0 * np.sin(columns["t"])
    log = read_log(written(tmp_path / "log.csv", columns), robot)
    assert log.robot.joint_names == (*ARM, "jaw")
    assert log.unmeasured == ("jaw",)
    assert "the motion of 'thumb' by 254 rad is ignored" in texts(log)[0]
    # Hands of many joints are held: their motion costs more than it tells.
    many = path.read_text()
    for k in range(2):
        many = many.replace(
            "</robot>",
            LINK.format(
                name=f"f{k}", parent="l3", child=f"g{k}", kind="revolute", axis="0 0 1", mass=0.1, lower=0
            )
            + "</robot>",
        )
    (tmp_path / "hand.urdf").write_text(many)
    of_hand = {f"q_f{k}": columns["q_jaw"] for k in range(2)}
    hand = read_log(written(tmp_path / "hand.csv", columns | of_hand), load_robot(tmp_path / "hand.urdf"))
    assert hand.robot.joint_names == ARM
    assert hand.unmeasured == ()
    # Nothing is known of a joint without limits, and a joint whose motor moves others has no equation to leave out.
    free = robot.limits.upper.copy()
    free[3] = np.inf
    endless = replace(robot, limits=replace(robot.limits, upper=free))
    assert read_log(tmp_path / "log.csv", endless).unmeasured == ()
    shared = np.eye(5)
    shared[2, 3] = 0.5
    coupled = replace(robot, drive=replace(robot.drive, transmission=shared))
    with pytest.raises(InputError, match="coupled-lock"):
        read_log(tmp_path / "log.csv", coupled)


def two_arms(folder: Path) -> Path:
    """A waist that carries two arms of two joints each."""
    parts = [
        ("waist", "base", "torso", "revolute", "0 0 1", 9, -2), ("a1", "torso", "la1", "revolute", "0 1 0", 4, -2),
        ("a2", "la1", "la2", "revolute", "0 1 0", 3, -2), ("b1", "torso", "lb1", "revolute", "0 1 0", 4, -2),
        ("b2", "lb1", "lb2", "revolute", "0 1 0", 3, -2),
    ]  # fmt: skip
    text = "".join(
        LINK.format(name=name, parent=parent, child=child, kind=kind, axis=axis, mass=mass, lower=lower)
        for name, parent, child, kind, axis, mass, lower in parts
    )
    path = folder / "arms.urdf"
    path.write_text(f'<robot name="arms"><link name="base"/>{text}</robot>')
    return path


def test_what_stands_still_apart_from_all_motion_is_held(tmp_path: Path) -> None:
    robot, rng, t = load_robot(two_arms(tmp_path)), np.random.default_rng(1), np.arange(2000) / 100.0
    q = np.tile([0.0, 0.0, 0.0, 0.4, -0.2], (2000, 1))
    q[:, 1] += np.sin(1.3 * t)
    encoders = q + 1e-4 * rng.normal(size=q.shape)
    dq = np.gradient(q, 0.01, axis=0)
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, np.gradient(dq, 0.01, axis=0))
    tau += 0.1 * rng.normal(size=tau.shape)

    def read(name: str, q: Float, tau: Float) -> Log:
        columns = {f"q_{one}": q[:, j] for j, one in enumerate(robot.joint_names)}
        columns |= {f"tau_{one}": tau[:, j] for j, one in enumerate(robot.joint_names)}
        return read_log(written(tmp_path / f"{name}.csv", {"t": t} | columns), robot)

    # The waist carries the arm that moves, and a2 moves with it: their torque says something.
    log = read("one", encoders, tau)
    assert log.robot.joint_names == ("waist", "a1", "a2")
    assert log.robot.locked == pytest.approx({"b1": 0.4, "b2": -0.2}, abs=1e-3)
    assert texts(log)[0].startswith("at rest, like all joints before and after them: joints 'b1' at 0.4")
    # An effort of one value is none where the joint stands still, whatever carries it; the rest of an arm is not.
    constant = tau.copy()
    constant[:, [2, 4]] = 0.3, 0.1
    log = read("constant", encoders + np.outer(np.sin(t), [1, 0, 0, 0, 0]), constant)
    assert log.robot.joint_names == ("waist", "a1", "b1")
    assert texts(log)[0].startswith("at rest, with an effort that never changes: joints 'a2' at ")
    # A robot that stands still is none of it.
    assert read("still", np.zeros_like(q), tau).robot.n == 5


def test_joints_that_no_topic_of_a_bag_holds_are_held(robot: RobotModel, tmp_path: Path) -> None:
    columns = motion(robot)
    t = columns["t"]
    q, tau = (np.stack([columns[f"{key}_{j}"] for j in ARM], axis=1) for key in ("q", "tau"))
    path = write_bag(tmp_path / "run_mcap", states(t, ARM, q, tau=tau))
    same(read_log(path, robot), robot, {"left": 0.0, "right": 0.01})
    strange = write_bag(tmp_path / "strange_mcap", states(t, (*ARM[:2], "arm/j3"), q, tau=tau))
    with pytest.raises(InputError, match=r"missing-joint.*no j3, left, right"):
        read_log(strange, robot)


def test_a_run_without_fingers_goes_all_the_way(robot: RobotModel, run: Run, tmp_path: Path) -> None:
    whole = described(tmp_path)
    log = written(tmp_path / "log.parquet", motion(robot))
    lacking = written(tmp_path / "other.parquet", without(motion(robot), *FINGERS))
    done = run("identify", whole, log, "--validate", lacking, "--out", tmp_path / "run", "--no-auto", "-v")
    assert done.code == 0, done.err
    assert "'left' at 0, 'right' at 0.01 are locked" in done.err
    assert " inf" not in done.out.replace(" information ", " ")
    stored = dynid.load(tmp_path / "run")
    assert stored.robot.joint_names == ARM
    assert stored.robot.locked == pytest.approx({"left": 0.0, "right": 0.01})
    assert stored.validations[0].scores.total_relative < 0.05
    for log_again in (log, lacking):
        again = run("validate", tmp_path / "run", log_again)
        assert again.code == 0, again.err
    assert run("report", tmp_path / "run").code == 0
    # The robot with its fingers, changed in place: they keep what is described.
    done = run("export", tmp_path / "run", "--to", tmp_path / "found.urdf", "--allow-unphysical")
    assert done.code == 0, done.err
    found = load_robot(tmp_path / "found.urdf")
    assert found.joint_names == robot.joint_names
    np.testing.assert_allclose(found.inertia_prior[3:], robot.inertia_prior[3:], atol=1e-12)
    held = lock_joints(found, dict(stored.robot.locked)).robot
    np.testing.assert_allclose(held.inertia_prior, stored.estimate.parameters[:30].reshape(3, 10), atol=1e-9)
    assert json.loads((tmp_path / "run" / "model.json").read_text())["robot"]["locked"]["right"] == 0.01


def test_python_takes_the_whole_robot_as_well(robot: RobotModel, tmp_path: Path) -> None:
    columns = motion(robot)
    q, tau = (np.stack([columns[f"{key}_{j}"] for j in ARM], axis=1) for key in ("q", "tau"))
    log = Log.from_arrays(robot, columns["t"], q, tau, joints=ARM)
    settings = dynid.Settings(terms=dynid.terms.RigidBody() + dynid.terms.Viscous())
    found = dynid.identify(robot, log, settings)
    assert found.robot.joint_names == ARM
    assert np.isfinite(found.training.scores.relative).all()
    whole = Log.from_frame(_frame(columns), replace(robot))
    assert dynid.validate(found, whole).scores.total_relative < 0.05
    with pytest.raises(UsageError, match="other-joints"):
        dynid.validate(found, Log.from_arrays(robot, columns["t"], q[:, :2], tau[:, :2], joints=ARM[:2]))


def _frame(columns: dict[str, Float]) -> Any:
    import pyarrow as pa

    return pa.table(columns)
