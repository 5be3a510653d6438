"""Efforts of the other sign on every joint, as sensors and some drives log them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import InputError
from dynid.layouts import experiment_text, propose_logs
from dynid.log import read_log, write_log
from tests.layouts.plants import UR_JOINTS, run

UR = run("ur10e", UR_JOINTS)


def written(folder: Path, sign: float) -> Path:
    columns = {f"q{j + 1}": UR.q[:, j] for j in range(6)} | {
        f"tau{j + 1}": sign * UR.tau[:, j] for j in range(6)
    }
    return write_log(folder / "log.csv", UR.t, columns)


def test_a_sign_that_all_efforts_have_turned_is_asked_for_and_written(tmp_path: Path) -> None:
    path = written(tmp_path, -1.0)
    found = propose_logs(UR.robot, [path])
    assert [one.key for one in found.open] == ["log.effort.sign"]
    assert found["log.effort.unit"].value == "N m"
    with pytest.raises(InputError, match=r"log\.effort\.sign=-1\|1"):
        dynid.read_log(path, UR.robot)
    answered = propose_logs(UR.robot, [path], {"log.effort.sign": "-1"})
    assert answered.open == ()
    log = read_log(path, UR.robot, tomllib.loads(experiment_text(answered, "dynid init"))["log"])
    np.testing.assert_allclose(log.read(log.trajectories[0]).tau, UR.tau, rtol=0, atol=1e-9)
    kept = tomllib.loads(
        experiment_text(propose_logs(UR.robot, [path], {"log.effort.sign": "1"}), "dynid init")
    )["log"]
    assert "sign" not in kept["effort"]


def test_efforts_of_drives_and_of_a_robot_that_hangs_are_of_no_other_sign(tmp_path: Path) -> None:
    path = written(tmp_path, 1.0)
    for robot in (UR.robot, replace(UR.robot, gravity=-UR.robot.gravity)):
        assert "log.effort.sign" not in [one.key for one in propose_logs(robot, [path]).decisions]
