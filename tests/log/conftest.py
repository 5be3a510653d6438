"""A small robot for the tests of logs."""

from __future__ import annotations

import pytest

from dynid.robot import RobotModel, load_robot

TEXT = """\
name = "pair"
gravity = [0.0, 0.0, -9.81]
convention = "placements"

[[joint]]
name = "shoulder"
xyz = [0.0, 0.0, 0.3]
axis = [0.0, 1.0, 0.0]

[[joint]]
name = "elbow"
xyz = [0.4, 0.0, 0.0]
axis = [0.0, 1.0, 0.0]
"""


@pytest.fixture(scope="session")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("robot") / "pair.toml"
    path.write_text(TEXT)
    return load_robot(path)
