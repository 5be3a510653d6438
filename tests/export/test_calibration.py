"""Zero offsets in the calibration file of a LeRobot arm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, UsageError
from dynid.exporters.formats import Request, files_of
from dynid.log import LogSection, MotorCalibration, moved, read_calibration
from dynid.robot import Reading, RobotModel, load_robot
from dynid.terms import RigidBody, Terms
from dynid.terms.zero_offset import ZeroOffset
from tests.log.test_calibration import MOTORS, section

TABLE = {name: one.model_dump() for name, one in MOTORS.items()}
ZEROS = np.array([0.02, -0.03])


@pytest.fixture
def robot(robot_file: Path) -> RobotModel:
    return load_robot(robot_file)


def written(
    robot: RobotModel, log: LogSection | None, zeros: np.ndarray, folder: Path
) -> tuple[dict[str, MotorCalibration], list[str]]:
    offset = ZeroOffset(joints=robot.joint_names, inertia=tuple(robot.inertia_prior.ravel().tolist()))
    theta = np.concatenate([robot.inertia_prior.ravel(), zeros])
    sink, target = Diagnostics(), folder / "again.json"
    request = Request(
        robot, Terms((RigidBody(), offset)), np.ones(2), "lerobot", None, Reading(), False, sink, log=log
    )
    target.write_bytes(files_of(request, target, theta)[target])
    return read_calibration(target), [one.identifier for one in sink.items]


@pytest.mark.parametrize(("unit", "backwards"), [("%", -1.0), ("deg", 1.0)])
def test_zero_offsets_move_the_range(robot: RobotModel, tmp_path: Path, unit: str, backwards: float) -> None:
    # Shares of the elbow's motor count against its encoder; degrees never do.
    found, said = written(robot, section(TABLE, unit), ZEROS, tmp_path)
    assert found == moved(MOTORS, {"shoulder": 0.02, "elbow": -0.03 * backwards})[0]
    assert found != MOTORS
    assert "calibration-turn" not in said


def test_a_joint_that_was_turned_around_moves_the_other_way(robot: RobotModel, tmp_path: Path) -> None:
    log = section(TABLE)
    assert log.position is not None
    log.position.sign["shoulder"] = -1
    found, _ = written(robot, log, ZEROS, tmp_path)
    assert found == moved(MOTORS, {"shoulder": -0.02, "elbow": 0.03})[0]


def test_what_cannot_be_written_is_said(robot: RobotModel, tmp_path: Path) -> None:
    whole = TABLE | {"shoulder": {"range_min": 0, "range_max": 4095}}
    found, said = written(robot, section(whole), np.array([0.02, 0.0]), tmp_path)
    assert (found["shoulder"].range_min, found["shoulder"].range_max) == (0, 4095)
    assert "calibration-turn" in said
    found, said = written(robot, section(TABLE), np.zeros(2), tmp_path)
    assert found == MOTORS
    assert "calibration-same" in said


def test_a_log_without_a_calibration_has_nothing_to_move(robot: RobotModel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lerobot-calibrate"):
        written(robot, section(None, "deg"), ZEROS, tmp_path)
