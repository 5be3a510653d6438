"""Arms of hobby servos that presets know: the data sheet of their drives, at the supply that the user says."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import experiment_text, found_tables, propose_logs
from dynid.layouts.propose import later_question
from dynid.log import LogSection, channel_map, write_log
from dynid.robot import ServoSettings
from tests.layouts.plants import UR_JOINTS, run

OURS = run("ours", UR_JOINTS)
ARM = replace(OURS.robot, name="so101_new_calib")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    columns = {
        f"observation.state.{joint}.pos": np.degrees(OURS.q[:, j]) for j, joint in enumerate(UR_JOINTS)
    }
    ahead = np.degrees(OURS.q + 0.02 * OURS.dq)
    columns |= {f"action.{joint}.pos": ahead[:, j] for j, joint in enumerate(UR_JOINTS)}
    return write_log(tmp_path / "log.csv", OURS.t, columns)


def test_a_data_sheet_stands_for_gains_once_the_supply_is_known(log: Path) -> None:
    (question,) = [one for one in propose_logs(ARM, [log]).open if one.key.startswith("drive.")]
    assert {"sts3215-12v", "sts3215-7v4"} <= {one.value for one in question.options}
    found = propose_logs(ARM, [log], {"drive.servo": "sts3215-7v4", "log.position.unit": "deg"})
    assert found.open == ()
    drive = tomllib.loads(experiment_text(found, "dynid init"))["drive"]
    assert set(drive["stall_torque"].values()) == {1.912}
    servo = (
        ARM.with_servo(ServoSettings(kp=998.0, effort_limit=3.35))
        .with_servo(ServoSettings(**drive))
        .drive.servo
    )
    assert servo is not None
    np.testing.assert_allclose(servo.kp, 2.66 * 1.912)
    np.testing.assert_allclose(servo.effort_limit, 1.912)


def test_an_arm_that_no_preset_knows_is_asked_for_gains(log: Path) -> None:
    keys = {one.key for one in propose_logs(OURS.robot, [log], {"log.position.unit": "deg"}).open}
    assert keys == {"drive.kp", "drive.kd"}


def test_gains_that_are_given_need_no_data_sheet(log: Path) -> None:
    answers = {"log.position.unit": "deg", "drive.kp": "8", "drive.kd": "0"}
    tables, _ = found_tables(ARM, "so101.xml", [log], answers, None)
    assert tables["drive"] == {"kp": 8.0, "kd": 0.0}
    del answers["drive.kp"], answers["drive.kd"]
    tables, _ = found_tables(ARM, "so101.xml", [log], answers, None)
    assert "drive" not in tables or tables["drive"] == {}


@pytest.mark.parametrize("unit", ["deg", "%"])
def test_a_gripper_is_in_percent_of_its_limits_whatever_the_unit_of_the_others(
    unit: str, tmp_path: Path
) -> None:
    joints = (*UR_JOINTS[:-1], "gripper")
    limits = replace(OURS.robot.limits, lower=np.full(6, -4.0), upper=np.full(6, 4.2))
    arm = replace(ARM, joint_names=joints, tree_joint_names=joints)
    arm = replace(arm, limits=limits)
    low, span = arm.limits.lower, arm.limits.upper - arm.limits.lower
    shares = (OURS.q - low) / span
    logged = np.degrees(OURS.q) if unit == "deg" else 200 * shares - 100
    logged[:, -1] = 100 * shares[:, -1]
    ahead = np.roll(logged, -4, axis=0)
    columns = {f"observation.state.{joint}.pos": logged[:, j] for j, joint in enumerate(joints)}
    columns |= {f"action.{joint}.pos": ahead[:, j] for j, joint in enumerate(joints)}
    log = write_log(tmp_path / "log.csv", OURS.t, columns)
    answers = {"drive.servo": "sts3215-12v", "log.position.unit": unit}
    if unit == "%":
        answers["log.position.calibration"] = "limits"
    found = propose_logs(arm, [log], answers)
    assert found.open == ()
    tables = tomllib.loads(experiment_text(found, "dynid init"))
    assert tables["log"]["position"]["calibration"] == "limits"
    channels = channel_map(LogSection.model_validate(tables["log"]), arm)
    for table in (channels.position, channels.command_position):
        factors = np.array([table[joint].factor for joint in joints])
        zeros = np.array([channels.position_offset.get(joint, 0.0) for joint in joints])
        np.testing.assert_allclose(logged * factors + zeros, OURS.q, atol=1e-9)


def test_an_older_gripper_with_a_negative_angle_is_in_degrees_like_the_others(tmp_path: Path) -> None:
    joints = (*UR_JOINTS[:-1], "gripper")
    arm = replace(ARM, joint_names=joints, tree_joint_names=joints)
    logged = np.degrees(OURS.q)
    assert logged[:, -1].min() < 0
    columns = {f"observation.state.{joint}.pos": logged[:, j] for j, joint in enumerate(joints)}
    columns |= {f"action.{joint}.pos": np.roll(logged, -4, axis=0)[:, j] for j, joint in enumerate(joints)}
    log = write_log(tmp_path / "log.csv", OURS.t, columns)
    found = propose_logs(arm, [log], {"drive.servo": "sts3215-12v", "log.position.unit": "deg"})
    assert tomllib.loads(experiment_text(found, "dynid init"))["log"]["position"]["unit"] == "deg"


def test_a_file_named_control_beside_the_states_holds_the_commands(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    ahead = OURS.q + 0.02 * OURS.dq
    for name, q in (("states", OURS.q), ("control", ahead)):
        write_log(folder / f"{name}.csv", OURS.t, {f"{j} [rad]": q[:, k] for k, j in enumerate(UR_JOINTS)})
    found = propose_logs(ARM, [folder], {"drive.servo": "sts3215-12v"})
    assert found.open == ()
    log = tomllib.loads(experiment_text(found, "dynid init"))["log"]
    assert log["position"]["columns"] == "states/{joint} [rad]"
    assert log["command_position"]["columns"] == "control/{joint} [rad]"


def test_the_file_of_ranges_is_named_with_the_unit_that_needs_it(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    columns = {
        f"observation.state.{j}.pos": 20 * np.degrees(OURS.q[:, k]) / 180 for k, j in enumerate(UR_JOINTS)
    }
    columns |= {f"action.{j}.pos": columns[f"observation.state.{j}.pos"] for j in UR_JOINTS}
    asked = propose_logs(ARM, [write_log(log, OURS.t, columns)], {"drive.servo": "sts3215-12v"}).open
    assert [question.key for question in asked] == ["log.position.unit"]
    assert "log.position.calibration=" in later_question(ARM, asked, {})
    assert later_question(ARM, asked, {"log.position.calibration": "limits"}) == ""
