"""Efforts as shares of a rated torque, and in units of their own for each joint."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputErrors, UsageError
from dynid.layouts import Proposal, experiment_text, propose_logs
from dynid.log import read_log
from dynid.robot import RobotModel, load_robot
from tests.layouts.test_slides import SCARA, SLIDES, motion
from tests.layouts.test_strangers import ARM, csv, numbered

RATED = np.array([1.27, 1.27, 0.64, 0.32, 0.16, 0.16])
RATIOS = np.array([101.0, 101.0, 101.0, 51.0, 51.0, 51.0])
TORQUE = "log.effort.rated_torque"
GEARS = "robot.gear_ratio"
ANSWERS = {TORQUE: "1.27,1.27,.64,.32,.16,.16", GEARS: ",".join(f"{ratio:g}" for ratio in RATIOS)}


def listed(values: np.ndarray) -> str:
    return ",".join(f"{value:.8g}" for value in values)


def shares(folder: Path, name: str, whole: float) -> Path:
    columns = {"t": ARM.t} | numbered("q_#", ARM.q) | numbered(name, ARM.tau / RATIOS / RATED * whole)
    return csv(folder / "log.csv", columns)


def read_with(robot: RobotModel, path: Path, found: Proposal) -> np.ndarray:
    tables = tomllib.loads(experiment_text(found, "dynid init"))
    ratios = tables.get("robot", {}).get("gear_ratio", {})
    numbers = {robot.joint_names.index(joint): ratio for joint, ratio in ratios.items()}
    geared = load_robot_with(robot, numbers)
    log = read_log(path, geared, tables["log"])
    chunk = next(iter(log.chunks(log.trajectories[0])))
    assert chunk.tau is not None
    return np.asarray(chunk.tau)


def load_robot_with(robot: RobotModel, ratios: dict[int, float]) -> RobotModel:
    from dataclasses import replace

    return replace(robot, drive=robot.drive.with_constants(gear_ratio=ratios))


@pytest.mark.parametrize(
    ("name", "whole", "unit"),
    [
        ("torque%_#", 100.0, "% of rated torque"),
        ("axis#_torque_permille", 1000.0, "permille of rated torque"),
    ],
)
def test_shares_ask_for_the_rated_torques_and_the_gears(
    name: str, whole: float, unit: str, tmp_path: Path
) -> None:
    path = shares(tmp_path, name, whole)
    asked = propose_logs(ARM.robot, [path])
    assert [one.key for one in asked.open] == [GEARS, TORQUE]
    assert "6 numbers from base to tip" in asked[TORQUE].question
    found = propose_logs(ARM.robot, [path], ANSWERS)
    assert not found.open
    assert (found["log.effort.unit"].value, found["log.effort.side"].value) == (unit, "motor")
    tau = read_with(ARM.robot, path, found)
    np.testing.assert_allclose(tau, ARM.tau[: len(tau)], rtol=1e-4, atol=1e-4)


def test_known_gears_are_not_asked_for_and_masses_hint_at_the_torques(tmp_path: Path) -> None:
    robot = load_robot_with(ARM.robot, dict(enumerate(RATIOS.tolist())))
    found = propose_logs(robot, [shares(tmp_path, "torque_#_percent", 100.0)])
    assert [one.key for one in found.open] == [TORQUE]
    assert "with the masses of the model file, it would be" in found[TORQUE].why[-1]


def test_rated_torques_of_joints_need_no_gears(tmp_path: Path) -> None:
    path = shares(tmp_path, "torque_#_percent", 100.0)
    at_joints = {TORQUE: listed(RATED * RATIOS), "log.effort.side": "link"}
    found = propose_logs(ARM.robot, [path], at_joints)
    assert not found.open
    np.testing.assert_allclose(read_with(ARM.robot, path, found)[:50], ARM.tau[:50], rtol=1e-4, atol=1e-4)


def test_a_gain_takes_shares_as_raw_values(tmp_path: Path) -> None:
    found = propose_logs(
        ARM.robot,
        [shares(tmp_path, "torque_#_percent", 100.0)],
        {"robot.drive_gain": listed(RATED * RATIOS / 100)},
    )
    assert not found.open
    assert found["log.effort.unit"].value == "raw"


def test_torques_in_newton_metres_are_asked_nothing(tmp_path: Path) -> None:
    columns = {"t": ARM.t} | numbered("q_#", ARM.q) | numbered("torque_#", ARM.tau)
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns)])
    assert not found.open
    assert found["log.effort.unit"].value == "N m"
    assert TORQUE not in [one.key for one in found.decisions]


@pytest.mark.parametrize("wrong", ["1,2", "0", "-1,1,1,1,1,1", "many"])
def test_answers_that_are_no_rated_torques_are_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one positive number, or 6"):
        propose_logs(ARM.robot, [shares(tmp_path, "torque_#_percent", 100.0)], ANSWERS | {TORQUE: wrong})


def test_an_experiment_without_a_rated_torque_is_refused_with_its_joints(tmp_path: Path) -> None:
    path = shares(tmp_path, "torque_#", 100.0)
    effort = {"columns": "torque_{number}", "unit": "% of rated torque", "rated_torque": {"joint1": 1.0}}
    tables = {
        "time": {"column": "t", "unit": "s"},
        "position": {"columns": "q_{number}", "unit": "rad"},
        "effort": effort,
    }
    with pytest.raises(InputErrors, match="without rated_torque of joint2, joint3"):
        read_log(path, ARM.robot, tables)


def test_units_of_a_torque_may_differ_by_joint(tmp_path: Path) -> None:
    path = shares(tmp_path, "torque_#", 100.0)
    units = ",".join(f"{one:.6g} N m" for one in RATED / 100)
    answers = {"log.effort.unit": units, "log.effort.side": "motor", GEARS: ANSWERS[GEARS]}
    found = propose_logs(ARM.robot, [path], answers)
    assert not found.open
    np.testing.assert_allclose(read_with(ARM.robot, path, found)[:50], ARM.tau[:50], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrong", ["1 N m,2 N m", "N m,N m,N m,N m,N m,A", "N m,N m,N m,N m,N m,furlong"])
def test_units_by_joint_that_do_not_fit_are_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="6 from base to tip"):
        propose_logs(ARM.robot, [shares(tmp_path, "torque_#", 100.0)], {"log.effort.unit": wrong})


def test_the_motor_of_a_slide_gives_a_torque_and_turns_by_rad_a_metre(tmp_path: Path) -> None:
    """As of a SCARA's drives: motor angles in degrees and percent of rated torque of all joints."""
    robot_file = tmp_path / "scara.urdf"
    robot_file.write_text(SCARA)
    t, q, _, tau = motion(robot_file)
    ratios, rated = np.where(SLIDES, 314.16, 50.0), np.array([1.27, 0.64, 0.32, 0.16])
    kinds = {"pos": np.rad2deg(q * ratios), "torque%": 100 * tau / ratios / rated}
    names = [f"J{k + 1}_{kind}" for kind in kinds for k in range(4)]
    path = csv(
        tmp_path / "log.csv", {"time": t} | dict(zip(names, np.hstack([*kinds.values()]).T, strict=True))
    )
    answers = {GEARS: listed(ratios), TORQUE: listed(rated), "log.position.side": "motor"}
    robot = load_robot(robot_file)
    found = propose_logs(robot, [path], answers | {"log.position.unit": "deg"})
    assert not found.open
    read = read_with(robot, path, found)
    np.testing.assert_allclose(read, tau[: len(read)], rtol=1e-4, atol=1e-4)
