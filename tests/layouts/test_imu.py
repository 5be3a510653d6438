"""An IMU is recognised by the names of its columns, and makes the base of a robot with legs float."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import experiment_text
from dynid.layouts.propose import propose
from dynid.layouts.write import imu_link
from dynid.log.mapping import imu_columns
from dynid.robot import RobotModel, load_example, load_robot
from tests.robot.shipped import shipped


@pytest.mark.parametrize(
    ("gyro", "acceleration"),
    [
        ("imu.angular_velocity.", "imu.linear_acceleration."),
        ("gyro_", "acc_"),
        ("imu_gyro[", "imu_accel["),
        ("w_", "a_"),
        ("trunk/gyroscope_", "trunk/accelerometer_"),
    ],
)
def test_columns_of_an_imu_by_their_names(gyro: str, acceleration: str) -> None:
    """In any order, beside the twist of an odometry, whose acceleration is not there."""
    end = "]" if gyro.endswith("[") else ""
    names = [[f"{stem}{axis}{end}" for axis in "xyz"] for stem in (gyro, acceleration)]
    others = [f"odom.angular_velocity.{axis}" for axis in "xyz"] + ["q_1", "velocity_1", "effort_x"]
    assert imu_columns([*others, *reversed(names[0] + names[1])]) == tuple(map(tuple, names))


def test_several_imus_and_parts_of_one_are_not_taken() -> None:
    """Unless one is named after an IMU."""
    both = [
        f"{stem}_{kind}_{axis}" for stem in ("left", "right") for kind in ("gyro", "acc") for axis in "xyz"
    ]
    assert imu_columns(both) is None
    assert imu_columns(["gyro_x", "gyro_y", "gyro_z", "acc_x", "acc_y"]) is None
    named = [f"imu_{kind}_{axis}" for kind in ("gyro", "acc") for axis in "xyz"]
    assert imu_columns([*both, *named]) == (tuple(named[:3]), tuple(named[3:]))


def _text(robot: RobotModel, folder: Path) -> str:
    t = np.arange(400) * 0.01
    columns = {"time": t}
    for j, name in enumerate(robot.joint_names):
        columns |= {f"position_{name}": 0.3 * np.sin((1 + 0.1 * j) * t), f"effort_{name}": 5 * np.cos(t + j)}
    columns |= {f"imu_{kind}_{axis}": np.sin(t) for kind in ("gyro", "acc") for axis in "xyz"}
    path = folder / "log.csv"
    table = np.column_stack(list(columns.values()))
    np.savetxt(path, table, delimiter=",", header=",".join(columns), comments="", fmt="%.6f")
    return experiment_text(propose(robot, path), "dynid init")


def test_init_writes_the_imu_of_a_quadruped(tmp_path: Path) -> None:
    """At the link of its base that is named after one; the columns are not listed as unused."""
    text = _text(load_robot(shipped("go2_description/urdf/go2.urdf")), tmp_path)
    table = tomllib.loads(text)["log"]["imu"]
    assert table["link"] == "imu"
    assert table["gyro"] == ["imu_gyro_x", "imu_gyro_y", "imu_gyro_z"]
    assert table["acceleration"] == ["imu_acc_x", "imu_acc_y", "imu_acc_z"]
    assert "not used" not in text


def test_init_leaves_the_base_of_an_arm_fixed(tmp_path: Path) -> None:
    """The table is there, but commented out."""
    robot = load_example("arm7")
    text = _text(robot, tmp_path)
    assert not imu_link(robot)[1]
    assert "imu" not in tomllib.loads(text)["log"]
    assert "# [log.imu]" in text
