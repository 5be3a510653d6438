"""Logs without positions or efforts, and efforts in units that their joints do not take."""

from __future__ import annotations

from pathlib import Path

import pytest

import dynid
from dynid.base import Float, InputError
from dynid.layouts import found_tables, propose_logs
from dynid.log import write_log
from tests.layouts.plants import UR_JOINTS, run

UR = run("ur10e", UR_JOINTS)


def log(folder: Path, **signals: Float) -> Path:
    columns = {
        f"{name}_j{k}": values[:, k] for name, values in signals.items() for k in range(values.shape[1])
    }
    return write_log(folder / "log.csv", UR.t, columns)


def test_a_log_of_torques_alone_lacks_positions(tmp_path: Path) -> None:
    path = log(tmp_path, raw_torque=UR.tau, smoothed_torque=UR.tau)
    with pytest.raises(InputError, match=r"no-position.*found efforts \(raw_torque_j") as stop:
        dynid.read_log(path, UR.robot)
    assert "--answer" not in str(stop.value)
    # Another column a joint may be the position.
    path = log(tmp_path, raw_torque=UR.tau, other=UR.q)
    assert propose_logs(UR.robot, [path])["log.position.columns"].refusal is None


def test_a_log_of_positions_alone_lacks_efforts(tmp_path: Path) -> None:
    path = log(tmp_path, position=UR.q)
    with pytest.raises(
        InputError, match=r"no-effort.*found a log without efforts.*with known gains kp and kd"
    ):
        found_tables(UR.robot, "ur.urdf", [path], {}, None)
    # Nothing else is asked before: the answer would be of no use, but to whom the motion is enough.
    path = log(tmp_path, position=UR.q, strange=UR.tau)
    answers = {"log.effort.columns": "none"}
    with pytest.raises(InputError, match="no-effort"):
        found_tables(UR.robot, "ur.urdf", [path], answers, None)
    read = dynid.read_log(path, UR.robot, answers=answers | {"log.order": "base-to-tip"})
    assert read.read(read.trajectories[0]).tau is None


def test_commands_that_do_not_stand_in_are_named(tmp_path: Path) -> None:
    path = log(tmp_path, position=UR.q, target_position=10 * UR.wanted)
    with pytest.raises(InputError, match=r"no-effort.*name target_position_j\{index\} as command_position"):
        found_tables(UR.robot, "ur.urdf", [path], {}, None)


def test_commanded_positions_stand_in_for_efforts_as_before(tmp_path: Path) -> None:
    path = log(tmp_path, position=UR.q, target_position=UR.wanted)
    assert propose_logs(UR.robot, [path])["log.effort.columns"].refusal is None


def test_fewer_columns_than_joints_are_counted(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", UR.t, {"x_0": UR.q[:, 0], "x_1": UR.q[:, 1]})
    question = propose_logs(UR.robot, [path])["log.position.columns"].question
    assert "2 numeric columns (x_0, x_1) for 6 joints" in question


def test_newtons_are_no_effort_of_joints_that_turn(tmp_path: Path) -> None:
    columns = {f"position_rad[{joint}]": UR.q[:, j] for j, joint in enumerate(UR_JOINTS)}
    columns |= {f"force_N[{joint}]": 3 * UR.tau[:, j] for j, joint in enumerate(UR_JOINTS)}
    columns |= {f"torque_Nm[{joint}]": UR.tau[:, j] for j, joint in enumerate(UR_JOINTS)}
    found = propose_logs(UR.robot, [write_log(tmp_path / "log.csv", UR.t, columns)])
    assert found.open == ()
    assert found["log.effort.columns"].value == "torque_Nm[{joint}]"
