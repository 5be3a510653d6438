"""Arms of hobby servos that presets know: the data sheet of their drives, at the supply that the user says."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import experiment_text, found_tables, propose_logs
from dynid.log import write_log
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
