"""Shares of a motor's range to angles and back, against LeRobot's own rule of its positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError, InputErrors
from dynid.log import (
    LogSection,
    MotorCalibration,
    calibration_json,
    channel_map,
    motor_of,
    moved,
    rad_per_percent,
    read_calibration,
)
from dynid.robot import RobotModel

TURN = 2 * np.pi / 4096
MOTORS = {
    "shoulder": MotorCalibration(id=1, drive_mode=0, homing_offset=-310, range_min=742, range_max=3351),
    "elbow": MotorCalibration(id=2, drive_mode=1, homing_offset=12, range_min=905, range_max=3120),
    "gripper": MotorCalibration(id=3, drive_mode=0, homing_offset=0, range_min=2040, range_max=3510),
}


def percent(motor: str, counts: float, motors: dict[str, MotorCalibration] = MOTORS) -> float:
    """The position that LeRobot logs of an encoder's counts, in percent."""
    one = motors[motor]
    share = (counts - one.range_min) / (one.range_max - one.range_min)
    if motor == "gripper":
        return 100 * (1 - share if one.drive_mode else share)
    return (200 * share - 100) * (-1 if one.drive_mode else 1)


@pytest.mark.parametrize("motor", ["shoulder", "elbow"])
def test_a_percentage_is_the_turn_from_the_middle_of_the_range(motor: str) -> None:
    one = MOTORS[motor]
    for counts in (one.range_min, 1700.0, 2048.0, one.range_max):
        angle = rad_per_percent(motor, one) * percent(motor, counts)
        assert angle == pytest.approx((counts - (one.range_min + one.range_max) / 2) * TURN, abs=1e-12)


def test_a_gripper_counts_from_its_lower_end() -> None:
    one = MOTORS["gripper"]
    for counts in (2040.0, 2600.0, 3510.0):
        angle = rad_per_percent("gripper", one) * percent("gripper", counts)
        assert angle == pytest.approx((counts - one.range_min) * TURN, abs=1e-12)


def section(calibration: object, unit: str = "%") -> LogSection:
    log = {
        "time": {"column": "timestamp", "unit": "s"},
        "position": {"columns": "observation.state[{joint}.pos]", "unit": unit, "calibration": calibration},
        "command_position": {"columns": "action[{joint}.pos]", "unit": unit},
    }
    return LogSection.model_validate(log)


def test_positions_and_commands_have_the_scale_of_their_motor(robot: RobotModel, tmp_path: Path) -> None:
    (tmp_path / "arm.json").write_bytes(calibration_json(MOTORS))
    found = channel_map(section("arm.json"), robot, str(tmp_path / "experiment.toml"))
    for channels in (found.position, found.command_position):
        assert {joint: one.factor for joint, one in channels.items()} == {
            joint: rad_per_percent(joint, MOTORS[joint]) for joint in robot.joint_names
        }
    table = {name: one.model_dump() for name, one in MOTORS.items()}
    assert channel_map(section(table), robot).position == found.position


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "arm.json"
    path.write_bytes(calibration_json(MOTORS))
    assert read_calibration(path) == MOTORS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "invalid JSON"),
        ('{"homing_offset": [1], "motor_names": ["a"]}', "no table of motors"),
        ('{"a": {"range_min": 5, "range_max": 5}}', "motor 'a' with a range from 5 to 5 counts"),
        ('{"a": {"range_min": 5}}', "range_max"),
    ],
)
def test_what_is_no_calibration_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "arm.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"arm\.json") as failure:
        read_calibration(path)
    assert said in str(failure.value)


def test_percent_without_a_calibration_or_with_another_arms(robot: RobotModel) -> None:
    with pytest.raises(InputErrors, match="calibration of the motors"):
        channel_map(section(None), robot)
    with pytest.raises(InputErrors, match="names no motor"):
        channel_map(section({"wrist": {"range_min": 5, "range_max": 50}}), robot)


def test_the_column_names_the_motor_before_the_joint_does() -> None:
    motors = ("lift", "shoulder_lift", "2")
    assert motor_of("observation.state[shoulder_lift.pos]", "2", motors) == "shoulder_lift"
    assert motor_of("q7", "2", motors) == "2"
    assert motor_of("uplift", "3", motors) is None


def test_a_moved_range_reads_further_by_the_angle() -> None:
    angle = 25 * TURN
    again, left = moved(MOTORS, {"shoulder": angle, "gripper": -angle})
    assert left == ()
    assert again["elbow"] == MOTORS["elbow"]
    for motor, sign in (("shoulder", 1), ("gripper", -1)):
        read = rad_per_percent(motor, again[motor]) * percent(motor, 2500.0, again)
        was = rad_per_percent(motor, MOTORS[motor]) * percent(motor, 2500.0)
        assert read - was == pytest.approx(sign * angle, abs=1e-12)


def test_a_range_stays_within_a_turn() -> None:
    whole = {"roll": MotorCalibration(range_min=0, range_max=4095)}
    assert moved(whole, {"roll": 0.1}) == (whole, ("roll",))
    assert moved(whole, {"roll": TURN / 3}) == (whole, ())
