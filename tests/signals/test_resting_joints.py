"""A joint that stands still is fitted where a servo holds it and held in the model where a brake does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.identification import Settings, identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel, load_robot
from dynid.run import validate
from dynid.signals import unexplained_at_rest
from dynid.signals.effort_at_rest import _RestingTrial
from dynid.terms import Coulomb, RigidBody, Viscous
from tests.robot.shipped import shipped

pin = pytest.importorskip("pinocchio")

RATE, SECONDS = 100.0, 20.0
NOISE = 0.01  # of a joint's torque
FRICTION = 0.1  # viscous and Coulomb, of a joint's torque
ARMS = {"xarm7": "xarm_description/urdf/xarm7.urdf", "talos": "talos_data/robots/talos_left_arm.urdf"}


def arm(name: str) -> RobotModel:
    return load_robot(shipped(ARMS[name]))


def recorded(robot: RobotModel, path: Path, joint: int, holds: str, seed: int, at: float = 0.1) -> Log:
    """A motion with one joint at rest; torque by pinocchio, and of that joint by what holds it."""
    rng, n = np.random.default_rng(seed), robot.n
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    w, phase = 2 * np.pi * rng.uniform(0.1, 0.7, (4, n)), rng.uniform(0.0, 6.0, (4, n))
    angle = t[:, None, None] * w + phase
    size = np.where(np.arange(n) == joint, 0.0, 0.25)
    q = np.where(np.arange(n) == joint, at, 0.2) + size * np.sin(angle).sum(axis=1)
    dq, ddq = size * (w * np.cos(angle)).sum(axis=1), -size * (w**2 * np.sin(angle)).sum(axis=1)
    model = pin.buildModelFromUrdf(str(robot.source))
    data = model.createData()
    load = np.array([pin.rnea(model, data, *row) for row in zip(q, dq, ddq, strict=True)])
    scale = load.std(axis=0)
    tau = load + FRICTION * scale * (dq + np.tanh(dq / 0.01))
    if holds != "servo":
        tau[:, joint] = {
            "brake, no torque": np.zeros(len(t)),
            "brake, constant": np.full(len(t), load[0, joint]),
            "brake, drifting": scale[joint] * np.sin(2 * np.pi * t / 45.0),
            "friction at rest": stuck(load[:, joint], 2.0 * scale[joint]),
        }[holds]
    tau += NOISE * scale * rng.normal(size=tau.shape)
    write_log(path, t, canonical_columns(robot.joint_names, q, tau=tau))
    return read_log(path, robot)


def stuck(load: Float, friction: float) -> Float:
    """Torque of a motor that follows its load only as far as friction at rest lets it."""
    found, held = np.empty(len(load)), float(load[0])
    for i, one in enumerate(load):
        held = float(np.clip(held, one - friction, one + friction))
        found[i] = held
    return found


@pytest.mark.parametrize("joint", [0, 2, 4])
@pytest.mark.parametrize("name", list(ARMS))
def test_what_a_servo_holds_is_told_from_what_a_brake_holds(name: str, joint: int, tmp_path: Path) -> None:
    robot = arm(name)
    for seed, holds in enumerate(
        ("servo", "brake, no torque", "brake, constant", "brake, drifting", "friction at rest")
    ):
        log = recorded(robot, tmp_path / f"{seed}.parquet", joint, holds, seed)
        assert list(log.resting) == [robot.joint_names[joint]]
        found = unexplained_at_rest(log)
        assert found == (() if holds == "servo" else (robot.joint_names[joint],)), holds


@pytest.mark.parametrize("silent", [0, 3])
@pytest.mark.parametrize("holds", ["servo", "brake, drifting"])
def test_a_moving_joint_without_effort_leaves_the_resting_ones_judged(
    holds: str, silent: int, tmp_path: Path
) -> None:
    robot, resting = arm("xarm7"), 4
    chunks = recorded(robot, tmp_path / "all.parquet", resting, holds, 3)
    chunk = chunks.read(chunks.trajectories[0])
    columns = canonical_columns(robot.joint_names, chunk.q, tau=chunk.tau)
    del columns[f"tau_{robot.joint_names[silent]}"]
    write_log(tmp_path / "log.parquet", chunk.t, columns)
    log = read_log(tmp_path / "log.parquet", robot)
    assert log.unmeasured == (robot.joint_names[silent],)
    assert list(log.resting) == [robot.joint_names[resting]]
    assert unexplained_at_rest(log) == (() if holds == "servo" else (robot.joint_names[resting],))


def test_efforts_that_never_change_in_a_part_of_a_log_explain_nothing() -> None:
    rng = np.random.default_rng(0)
    bodies, friction = rng.normal(size=(3, 200, 4)), rng.normal(size=(3, 200, 2))
    effort = bodies @ rng.normal(size=4)
    effort[1] = 0.0
    trial = _RestingTrial(bodies, friction, effort, np.arange(200) % 2 == 1)
    assert trial.explained(np.array([0, 1]), 2) == pytest.approx(1.0, abs=1e-9)
    assert trial.explained(np.array([0, 2]), 1) == 0.0


def test_a_braked_joint_does_not_bend_the_fit(tmp_path: Path) -> None:
    robot, settings = arm("xarm7"), Settings(terms=RigidBody() + Viscous() + Coulomb())
    log = recorded(robot, tmp_path / "brake.parquet", 2, "brake, no torque", 7)
    found = identify(robot, log, settings, threads=1)
    assert dict(found.robot.locked) == pytest.approx({robot.joint_names[2]: 0.1})
    # Noise is a hundredth of the torque.
    assert found.validations[0].scores.total_relative < 2 * NOISE
    assert "joint-held" in {one.identifier for one in found.diagnostics}
    # Held by its servo it is a joint like any other.
    log = recorded(robot, tmp_path / "servo.parquet", 2, "servo", 7)
    assert identify(robot, log, settings, threads=1).robot.n == robot.n
    for name, at, warned in (("there", 0.1, False), ("elsewhere", 0.6, True)):
        other = recorded(robot, tmp_path / f"{name}.parquet", 2, "brake, no torque", 8, at)
        diagnostics = Diagnostics()
        validate(found, other, diagnostics, threads=1)
        assert ("held-elsewhere" in {one.identifier for one in diagnostics}) is warned


def test_a_joint_at_rest_whose_effort_never_changes_is_held_wherever_it_is(tmp_path: Path) -> None:
    robot = arm("xarm7")
    log = recorded(robot, tmp_path / "log.parquet", 3, "servo", 1)
    chunk = log.read(log.trajectories[0])
    tau = np.array(chunk.tau)
    for value in (0.0, 1.5):
        tau[:, 3] = value
        write_log(tmp_path / "flat.parquet", chunk.t, canonical_columns(robot.joint_names, chunk.q, tau=tau))
        held = read_log(tmp_path / "flat.parquet", robot).robot
        assert dict(held.locked) == pytest.approx({robot.joint_names[3]: 0.1})
