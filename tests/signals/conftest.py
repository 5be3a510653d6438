"""A small robot and logs of it for the tests of signals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel, load_robot

TEXT = """\
name = "pair"
gravity = [0.0, 0.0, -9.81]
convention = "placements"

[[joint]]
name = "shoulder"
type = "continuous"
xyz = [0.0, 0.0, 0.3]
axis = [0.0, 1.0, 0.0]

[[joint]]
name = "slide"
type = "prismatic"
xyz = [0.4, 0.0, 0.0]
axis = [1.0, 0.0, 0.0]
"""
MakeLog = Callable[..., Log]


@pytest.fixture(scope="session")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("robot") / "pair.toml"
    path.write_text(TEXT)
    return load_robot(path)


@pytest.fixture
def make_log(robot: RobotModel, tmp_path: Path) -> MakeLog:
    """Writes and opens a log: times, positions, and what else there is; names: one a row."""

    def make(
        t: np.ndarray,
        q: np.ndarray,
        dq: np.ndarray | None = None,
        tau: np.ndarray | None = None,
        names: list[str] | None = None,
        **extra: np.ndarray,
    ) -> Log:
        columns = canonical_columns(robot.joint_names, q, dq, q + 1.0 if tau is None else tau)
        return read_log(write_log(tmp_path / "log.parquet", t, columns | extra, names), robot)

    return make
