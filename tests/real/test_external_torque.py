"""Pushes by hand on a real arm: found, and free motion does not cross thresholds more often than they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.dynamics import Dynamics
from dynid.exporters import ExportModel
from dynid.identification import Experiment, identify, open_log
from dynid.log import Log
from dynid.robot import load_robot
from dynid.verbs import thresholds
from dynid.verbs.external_torque import external_torque
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.usefixtures("unexamined")

FREE = [f"val/ur-20_01_17-p{k}" for k in range(1, 11)] + ["val/ur-20_01_17-ptp_10_points"]
# When the motors' currents of an arm at rest change by more than noise, s from the start of the record.
PUSHES = {
    "collision/ur-20_01_22-push_pose_1": ((1.9, 2.8), (4.4, 5.9), (8.3, 9.6), (11.5, 13.4)),
    "collision/ur-20_01_22-push_pose_2": (
        (0.6, 1.6),
        (2.5, 3.9),
        (4.5, 6.3),
        (7.7, 9.3),
        (10.9, 12.7),
        (14.1, 15.4),
    ),
}


def opened(data_dir: Path, what: object) -> Log:
    experiment = Experiment.read(ROBOTS / "ur10e_innopolis.experiment.toml")
    robot = load_robot(ROBOTS / "ur10e_innopolis.toml")
    file = data_dir / "ur10e_innopolis" / "data.parquet"
    return open_log(experiment, [file], robot, what, Diagnostics())  # type: ignore[arg-type] # names or windows


@pytest.fixture(scope="module")
def model(data_dir: Path) -> Dynamics:
    experiment = Experiment.read(ROBOTS / "ur10e_innopolis.experiment.toml")
    log = opened(data_dir, experiment.data.train)
    run = identify(log.robot, log, experiment.settings(), diagnostics=Diagnostics())
    return ExportModel.of_run(run).dynamics


@pytest.mark.parametrize("rate", [0.01, 0.02, 0.05])
def test_pushes_are_found_and_free_motion_is_not_taken_for_one(
    model: Dynamics, data_dir: Path, rate: float
) -> None:
    found = thresholds(model, opened(data_dir, ["id/ur-20_02_12-40sec_12harm"]), rate)
    free = external_torque(model, opened(data_dir, FREE))
    alarms = np.concatenate([found.crossed(one.torque, one.dq).any(axis=1) for one in free])
    assert alarms.mean() <= rate
    for one in external_torque(model, opened(data_dir, list(PUSHES))):
        crossed, t = found.crossed(one.torque, one.dq).any(axis=1), one.t - one.t[0]
        spans = [(t >= a) & (t <= b) for a, b in PUSHES[one.trajectory]]
        assert all(crossed[span].any() for span in spans)
        assert not crossed[~np.any(spans, axis=0)].any()


def test_held_out_motion_is_free(model: Dynamics, data_dir: Path) -> None:
    (one,) = external_torque(model, opened(data_dir, ["id/ur-20_02_12-40sec_12harm"]))
    spread: Float = np.sqrt((one.torque**2).mean(axis=0))
    (pushed,) = external_torque(model, opened(data_dir, ["collision/ur-20_01_22-push_pose_2"]))
    assert (np.abs(pushed.torque).max(axis=0)[:3] > 10.0 * spread[:3]).all()
