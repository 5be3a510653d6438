"""Gear ratios, torque constants and drive gains in the experiment file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, InputError, InputErrors, UsageError
from dynid.identification import Experiment, open_log
from dynid.log import write_log
from dynid.robot import RobotModel, load_robot
from tests.command_line import Run

LOG = """
[log]
time = { column = "t", unit = "s" }
position = { columns = "q_{joint}", unit = "rad" }
effort = { columns = "i_{joint}", unit = "A" }
"""
CURRENT = np.array([[2.0, -3.0]])


def experiment(tmp_path: Path, robot: str) -> Experiment:
    (tmp_path / "experiment.toml").write_text(f"[robot]\n{robot}\n{LOG}")
    return Experiment.read(tmp_path / "experiment.toml")


def torque(tmp_path: Path, arm: RobotModel, robot: str) -> list[float]:
    """What a current of 2 and -3 A is at the joints."""
    t = np.arange(3.0)
    columns = {f"q_{j}": np.zeros(3) for j in arm.joint_names}
    columns |= {f"i_{j}": np.full(3, CURRENT[0, k]) for k, j in enumerate(arm.joint_names)}
    file = write_log(tmp_path / "log.parquet", t, columns)
    one = experiment(tmp_path, robot)
    log = open_log(one, [file], one.with_drives(arm), ["*"], Diagnostics())
    tau = log.read(log.trajectories[0]).tau
    assert tau is not None
    return [float(value) for value in tau[0]]


@pytest.fixture
def arm(robot_file: Path) -> RobotModel:
    return load_robot(robot_file)


def test_a_gain_makes_torque_of_a_current(tmp_path: Path, arm: RobotModel) -> None:
    assert torque(tmp_path, arm, "drive_gain = { shoulder = 10.0, elbow = -4.0 }") == [20.0, 12.0]


def test_constants_and_ratios_make_the_same(tmp_path: Path, arm: RobotModel) -> None:
    robot = "gear_ratio = { shoulder = 100, elbow = 50 }\ntorque_constant = { shoulder = 0.1, elbow = 0.2 }"
    assert torque(tmp_path, arm, robot) == pytest.approx([20.0, -30.0])


def test_what_is_given_here_stands_above_the_description(tmp_path: Path, arm: RobotModel) -> None:
    known = replace(arm, drive=replace(arm.drive, drive_gain=np.array([1.0, 1.0])))
    assert torque(tmp_path, known, "drive_gain = { elbow = 5.0 }") == [2.0, -15.0]
    robot = "torque_constant = { shoulder = 0.1, elbow = 0.2 }"
    assert torque(tmp_path, known, robot) == pytest.approx([0.2, -0.6])


def test_rotors_are_known_at_the_joints(tmp_path: Path, arm: RobotModel) -> None:
    known = replace(arm, drive=replace(arm.drive, rotor_inertia=np.array([0.5, 0.2])))
    found = experiment(tmp_path, "gear_ratio = { shoulder = 10 }").with_drives(known)
    assert found.drive.rotor_inertia.tolist() == pytest.approx([0.005, 0.2])
    assert found.drive.reflected_rotor_inertia.tolist() == pytest.approx([0.5, 0.2])


def test_mistakes_are_reported_with_their_line(tmp_path: Path, arm: RobotModel) -> None:
    one = experiment(tmp_path, "[robot.drive_gain]\nshoulder = 1.0\nelbw = 2.0")
    with pytest.raises(InputErrors, match=r"experiment\.toml:4.*'elbw'.*did you mean 'elbow'"):
        one.with_drives(arm)
    with pytest.raises(InputError, match="other than 0"):
        experiment(tmp_path, "gear_ratio = { shoulder = 0 }")
    coupled = replace(arm, drive=replace(arm.drive, transmission=np.array([[2.0, 0.0], [1.0, 3.0]])))
    with pytest.raises(UsageError, match="coupled"):
        experiment(tmp_path, "gear_ratio = { shoulder = 3 }").with_drives(coupled)


def test_the_command_line_reads_them(tmp_path: Path, robot_file: Path, train_log: Path, run: Run) -> None:
    text = (
        f"[robot]\ndrive_gain = {{ shoulder = 1.0, elbow = 1.0 }}\n{LOG.replace('i_{joint}', 'tau_{joint}')}"
    )
    (tmp_path / "experiment.toml").write_text(text)
    done = run("check", robot_file, train_log, "-c", tmp_path / "experiment.toml", "--no-fit")
    assert done.code == 0
    (tmp_path / "experiment.toml").write_text(text.replace("drive_gain", "# drive_gain"))
    done = run("check", robot_file, train_log, "-c", tmp_path / "experiment.toml", "--no-fit")
    assert done.code == 3
    assert "under [robot] in the experiment file" in done.err
