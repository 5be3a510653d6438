"""Answers that nothing in the log asked for, and those that nothing depends on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError
from dynid.layouts import found_tables, propose_logs
from dynid.log import read_log, write_log
from tests.layouts.pendulum import pendulum, swing
from tests.layouts.plants import UR_JOINTS, run

UR = run("ours", UR_JOINTS)  # of which no preset knows the gains


def test_a_sign_is_turned_by_an_answer_that_one_joint_is_not_asked_for(tmp_path: Path) -> None:
    robot = pendulum(tmp_path)
    t, q, _, tau = swing(robot)
    path = write_log(tmp_path / "log.csv", t, {"angle_rad": q, "current_mA": -1e3 * tau / 1.5})
    # A unit that the name states is not asked for, whatever the sign.
    found = propose_logs(robot, [path], {"robot.drive_gain": "1.5"})
    assert found.open == ()
    assert found["log.effort.unit"].value == "mA"
    tables, _ = found_tables(
        robot, "pendulum.urdf", [path], {"robot.drive_gain": "1.5", "log.effort.sign": "-1"}, None
    )
    assert tables["log"]["effort"]["sign"] == {"knee": -1}
    with_gain = replace(robot, drive=robot.drive.with_constants(drive_gain={0: 1.5}))
    log = read_log(path, with_gain, tables["log"])
    np.testing.assert_allclose(log.read(log.trajectories[0]).tau[:, 0], tau, rtol=0, atol=1e-9)


def test_gains_that_are_answered_count_more_than_those_of_the_description(tmp_path: Path) -> None:
    robot = pendulum(tmp_path)
    robot = replace(robot, drive=robot.drive.with_constants(drive_gain={0: 3.0}))
    t, q, _, tau = swing(robot)
    path = write_log(tmp_path / "log.csv", t, {"angle_rad": q, "current_mA": 1e3 * tau / 1.5})
    assert propose_logs(robot, [path], {"robot.drive_gain": "1.5"}).gains == {"knee": 1.5}
    assert propose_logs(robot, [path]).gains == {}


def test_an_answer_that_nothing_depends_on_is_said(tmp_path: Path) -> None:
    robot = pendulum(tmp_path)
    t, q, _, tau = swing(robot)
    path = write_log(tmp_path / "log.csv", t, {"angle_rad": q, "torque_Nm": tau})
    _, note = found_tables(
        robot, "pendulum.urdf", [path], {"robot.drive_gain": "1.5", "log.time.unit": "s"}, None
    )
    assert "The answers to robot.drive_gain have no effect" in note.text


def test_gains_are_asked_for_joints_with_an_effort_alone(tmp_path: Path) -> None:
    columns = {f"{joint}_pos": UR.q[:, j] for j, joint in enumerate(UR_JOINTS)}
    columns |= {f"{joint}_current_mA": 1e3 * UR.tau[:, j] * (j < 5) for j, joint in enumerate(UR_JOINTS)}
    path = write_log(tmp_path / "log.csv", UR.t, columns)
    (question,) = propose_logs(UR.robot, [path]).open
    assert question.key == "robot.drive_gain"
    assert (
        f"5 numbers from base to tip, separated by commas ({', '.join(UR_JOINTS[:5])})" in question.question
    )
    five = {"robot.drive_gain": "1, 2, 3, 4, 5"}
    assert propose_logs(UR.robot, [path], five).gains == dict(zip(UR_JOINTS, (1, 2, 3, 4, 5), strict=False))
    assert (
        propose_logs(UR.robot, [path], {"robot.drive_gain": "1, 2, 3, 4, 5, 6"}).gains["wrist_3_joint"] == 6
    )
    # Zero is zero whatever an ampere is worth; another effort needs its gain.
    tables, _ = found_tables(UR.robot, "ur.urdf", [path], five, None)
    known = replace(
        UR.robot, drive=UR.robot.drive.with_constants(drive_gain=dict(enumerate((1, 2, 3, 4, 5))))
    )
    log = read_log(path, known, tables["log"])
    np.testing.assert_allclose(log.read(log.trajectories[0]).tau[:, 4], 5 * UR.tau[:, 4], rtol=0, atol=1e-9)
    columns["wrist_3_joint_current_mA"] = 1e3 * UR.tau[:, 5]
    log = read_log(write_log(tmp_path / "all.csv", UR.t, columns), known, tables["log"])
    with pytest.raises(InputError, match=r"no drive_gain for wrist_3_joint"):
        log.read(log.trajectories[0])


def test_a_column_or_a_list_of_them_is_an_answer(tmp_path: Path) -> None:
    robot = pendulum(tmp_path)
    t, q, _, tau = swing(robot)
    columns = {"a1 position [rad]": q, "a2 position [rad]": -q, "a1 torque [Nm]": tau, "a2 torque [Nm]": -tau}
    path = write_log(tmp_path / "one.csv", t, columns)
    answers = {"log.position.columns": "a1 position [rad]", "log.effort.columns": "a1 torque [Nm]"}
    found = propose_logs(robot, [path], answers)
    assert found.open == ()
    assert found.groups["position"].columns == {"knee": "a1 position [rad]"}
    assert found["log.position.unit"].value == "rad"
    assert found["log.effort.unit"].value == "N m"
    columns = {f"x{j}": UR.q[:, (j + 1) % 6] for j in range(6)} | {f"tau{j}": UR.tau[:, j] for j in range(6)}
    path = write_log(tmp_path / "six.csv", UR.t, columns)
    found = propose_logs(UR.robot, [path], {"log.position.columns": "x5, x0, x1, x2, x3, x4"})
    assert list(found.groups["position"].columns.values()) == ["x5", "x0", "x1", "x2", "x3", "x4"]
    assert found.open == ()
