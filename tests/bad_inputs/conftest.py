"""The arm and its clean log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.robot import RobotModel, load_robot
from tests.bad_inputs.clean_logs import Columns, clean_columns, write_arm


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    return load_robot(write_arm(tmp_path_factory.mktemp("robot") / "arm.toml"))


@pytest.fixture(scope="module")
def bare(robot: RobotModel) -> RobotModel:
    """The same arm, its inertias unknown."""
    return replace(robot, inertia_prior=np.full((3, 10), np.nan))


@pytest.fixture(scope="module")
def clean(robot: RobotModel) -> Columns:
    return clean_columns(robot)
