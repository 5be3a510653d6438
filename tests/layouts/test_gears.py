"""Signals of motors before gears that no description says: their ratios are asked for, and answered."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError, UsageError
from dynid.kernel import inverse_dynamics
from dynid.layouts import experiment_text, found_tables, propose_logs
from tests.layouts.test_limbs import with_two_at_its_wrist
from tests.layouts.test_strangers import ARM, csv, numbered

RATIOS = np.array([101.0, 101.0, 101.0, 51.0, 51.0, -51.0])
TICK = 2 * np.pi / 131072
GIVEN = ",".join(f"{one:g}" for one in RATIOS)
COUNTS = {"log.position.unit": "1/131072 turn", "log.position.side": "motor"}


def of_drives(folder: Path) -> Path:
    columns = {"timestamp_us": np.round(1e6 * ARM.t)}
    columns |= numbered("drive#_position_actual_value", np.round(ARM.q * RATIOS / TICK), 0)
    columns |= numbered("drive#_torque_actual_value", np.round(1e3 * ARM.tau), 0)
    return csv(folder / "log.csv", columns)


def test_positions_of_motors_ask_for_the_ratios_of_gears(tmp_path: Path) -> None:
    path = of_drives(tmp_path)
    with pytest.raises(InputError) as info:
        found_tables(ARM.robot, "arm.urdf", [path], COUNTS, None)
    assert "robot.gear_ratio: how many motor turns" in str(info.value)
    assert "log.effort.unit" not in str(info.value)  # nothing shows it before
    found = propose_logs(ARM.robot, [path], COUNTS | {"robot.gear_ratio": GIVEN})
    tables = tomllib.loads(experiment_text(found, "dynid init"))
    assert list(tables["robot"]["gear_ratio"].values()) == RATIOS.tolist()
    assert tables["log"]["position"]["side"] == "motor"


def test_the_motion_at_the_joints_is_looked_at(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("motor_pos_#", ARM.q * RATIOS) | numbered("tau_#", ARM.tau)
    answers = {"log.position.unit": "rad", "log.position.side": "motor", "robot.gear_ratio": GIVEN}
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns)], answers)
    assert not found.open
    assert found["log.effort.unit"].value == "N m"


@pytest.mark.parametrize("wrong", ["101,101", "0", "many"])
def test_answers_that_are_no_ratios_are_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as info:
        propose_logs(ARM.robot, [of_drives(tmp_path)], COUNTS | {"robot.gear_ratio": wrong})
    assert "6 (" in str(info.value)
    assert "joint6) from base to tip" in str(info.value)


def test_joints_of_a_hand_need_no_ratios(tmp_path: Path) -> None:
    robot = with_two_at_its_wrist(tmp_path, ("left_finger", "right_finger"), 1)
    t = np.arange(0.0, 30.0, 0.01)
    q = np.zeros((len(t), robot.n))
    q[:, :4] = 0.5 * np.sin(t[:, None] * np.array([1.1, 1.7, 2.3, 2.9]) + np.arange(4))
    ddq = np.gradient(np.gradient(q, t, axis=0), t, axis=0)
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, np.gradient(q, t, axis=0), ddq)
    ratios = np.array([50.0, 50.0, 30.0, -30.0])
    columns = {"t": t} | numbered("motor_pos_#", q[:, :4] * ratios) | numbered("tau_#", tau[:, :4])
    answers = {"log.position.unit": "rad", "log.position.side": "motor"}
    path = csv(tmp_path / "log.csv", columns)
    asked = propose_logs(robot, [path], answers)["robot.gear_ratio"].question
    assert "4 (shoulder_0, shoulder_1, shoulder_2, shoulder_3)" in asked
    found = propose_logs(robot, [path], answers | {"robot.gear_ratio": "50,50,30,-30"})
    assert not found.open
    written = tomllib.loads(experiment_text(found, "dynid init"))
    assert list(written["robot"]["gear_ratio"].values())[:4] == ratios.tolist()
