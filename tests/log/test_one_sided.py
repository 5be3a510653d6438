"""Efforts of one sign: supply currents are noted, torques that change their sign or are constant are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.log import ONE_SIDED, check_log, read_log, write_log
from dynid.robot import RobotModel

t = np.arange(0.0, 40.0, 0.01)
q = 0.6 * np.sin(1.3 * t) + 0.3 * np.sin(2.9 * t + 1.0)
dq = 0.78 * np.cos(1.3 * t) + 0.87 * np.cos(2.9 * t + 1.0)
noise = np.random.default_rng(2).normal(size=len(t))


@pytest.mark.parametrize(
    ("effort", "noted"),
    [
        (0.1 + 0.4 * np.abs(dq) + 0.02 * noise, True),  # of a supply
        (-0.1 - 0.4 * np.abs(dq) - 0.02 * noise, True),
        (0.4 * dq + 0.2 * np.sign(dq), False),
        (5.0 + 0.4 * dq + 0.2 * np.sign(dq), False),  # friction beside a load
        (5.0 * np.cos(q - 1.2) + 0.3 * np.sign(dq), False),  # weight
    ],
)
def test_efforts_that_follow_the_speed_are_noted(
    effort: Float, noted: bool, robot: RobotModel, tmp_path: Path
) -> None:
    columns = {"q_shoulder": q, "q_elbow": q[::-1], "tau_shoulder": effort, "tau_elbow": dq[::-1]}
    log = read_log(write_log(tmp_path / "log.csv", t, columns), robot)
    sink = Diagnostics()
    check_log(log, sink)
    found = [one.place.joint for one in sink if one.identifier == ONE_SIDED]
    assert found == (["shoulder"] if noted else [])
