"""Robots of the studies that do not ship with dynid."""

from __future__ import annotations

from importlib.resources import as_file, files

from dynid import load_robot
from dynid.robot import RobotModel


def study_robot(name: str) -> RobotModel:
    """The robot of robots/NAME.toml."""
    with as_file(files("dynid_studies.robots").joinpath(f"{name}.toml")) as path:
        return load_robot(path)
