"""Positions, velocities and torques of motors before gears that the description knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import propose_logs
from dynid.robot import RobotModel
from tests.layouts.test_strangers import ARM, DEG, UR, csv, numbered

RATIOS = np.array([101.0, 101.0, 101.0, 51.0, 51.0, 51.0])
SIDE, UNIT, VELOCITY = "log.position.side", "log.position.unit", "log.velocity.unit"
TICK = 2 * np.pi / 65536
COUNTS = "1/65536 turn"


def geared(robot: RobotModel, factor: float = 1.0) -> RobotModel:
    ratios = dict(enumerate((factor * RATIOS).tolist()))
    return replace(robot, drive=robot.drive.with_constants(gear_ratio=ratios))


def log(folder: Path, position: str, **channels: np.ndarray) -> Path:
    names = {"q": position, "dq": "vel_#", "tau": "torque_#"}
    columns = {"t": ARM.t}
    for kind, values in channels.items():
        columns |= numbered(names[kind], values)
    return csv(folder / "log.csv", columns)


@pytest.mark.parametrize(("name", "scale"), [("pos_#_deg", DEG), ("pos_#_rad", 1.0), ("motor_pos_#", DEG)])
def test_angles_of_motors_are_proposed_where_the_gears_bring_joints_within_their_limits(
    name: str, scale: float, tmp_path: Path
) -> None:
    q, tau = scale * ARM.q * RATIOS, ARM.tau
    found = propose_logs(geared(ARM.robot), [log(tmp_path, name, q=q, tau=tau)])
    assert not found.open
    assert found[SIDE].value == "motor"
    assert found[SIDE].grade == "likely"
    assert "times the available range" in found[SIDE].why[0]
    assert found["log.effort.side"].value == "link"


@pytest.mark.parametrize("name", ["pos_#_deg", "pos_#_rad", "pos_#"])
def test_angles_of_joints_stay_those_of_joints(name: str, tmp_path: Path) -> None:
    q = ARM.q * (DEG if "deg" in name else 1.0)
    found = propose_logs(geared(ARM.robot), [log(tmp_path, name, q=q, tau=ARM.tau)])
    assert not found.open
    assert found[SIDE].value is None


def test_unnamed_angles_that_may_be_counts_are_asked_for_with_the_hint(tmp_path: Path) -> None:
    found = propose_logs(geared(UR.robot), [log(tmp_path, "pos_#", q=DEG * UR.q * RATIOS)], {})
    assert UNIT in [one.key for one in found.open]
    assert "--answer log.position.side=motor" in found[UNIT].why[-1]


def test_named_angles_far_outside_their_limits_are_asked_for_without_gears(tmp_path: Path) -> None:
    """They were taken as those of joints where the effort is a current and shows nothing."""
    path = log(tmp_path, "pos_#_deg", q=DEG * ARM.q * RATIOS, tau=np.cos(ARM.t[:, None] * np.arange(1, 7)))
    found = propose_logs(ARM.robot, [path])
    assert "motor positions" in found[UNIT].question
    assert found[UNIT].example[0] == "log.position.side=motor"


def test_torques_of_motors_are_known_by_the_masses(tmp_path: Path) -> None:
    found = propose_logs(geared(ARM.robot), [log(tmp_path, "pos_#_rad", q=ARM.q, tau=ARM.tau / RATIOS)])
    assert not found.open
    assert (found["log.effort.unit"].value, found["log.effort.side"].value) == ("N m", "motor")


@pytest.mark.parametrize(("answer", "side"), [(COUNTS, "link"), (COUNTS, "motor")])
def test_velocities_in_counts_follow_the_positions(answer: str, side: str, tmp_path: Path) -> None:
    ratios = RATIOS if side == "motor" else np.ones(6)
    path = log(tmp_path, "pos_#", q=np.round(ARM.q * ratios / TICK), dq=ARM.dq * ratios / TICK, tau=ARM.tau)
    found = propose_logs(geared(ARM.robot), [path], {UNIT: answer, SIDE: side})
    assert not found.open
    assert found[VELOCITY].value == f"{COUNTS}/s"


COARSE = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 16.0])
EACH = ",".join(["1/65536 turn"] * 5 + ["1/4096 turn"])


@pytest.mark.parametrize(
    ("per", "unit"),
    [
        (TICK * COARSE, ",".join(["1/65536 turn/s"] * 5 + ["1/4096 turn/s"])),
        (TICK * np.ones(6), "1/65536 turn/s"),
        (1.0, "rad/s"),
    ],
)
def test_velocities_follow_positions_whose_units_differ_by_joint(
    per: np.ndarray | float, unit: str, tmp_path: Path
) -> None:
    path = log(tmp_path, "pos_#", q=np.round(ARM.q / TICK / COARSE), dq=ARM.dq / per, tau=ARM.tau)
    found = propose_logs(ARM.robot, [path], {UNIT: EACH})
    assert not found.open
    assert found[VELOCITY].value == unit


def test_a_velocity_in_another_unit_of_one_joint_is_left_out(tmp_path: Path) -> None:
    dq = ARM.dq * np.array([1.0, 1.0, 1.0, 1.0, 1.0, DEG])
    found = propose_logs(ARM.robot, [log(tmp_path, "pos_#_rad", q=ARM.q, dq=dq, tau=ARM.tau)])
    assert found[VELOCITY].value is None
