"""Any robot description in, a RobotModel out; the format is told by the content."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from dynid.diagnostics import Diagnostics
from dynid.errors import InputError, Place
from dynid.robot.mjcf import read_mjcf
from dynid.robot.model import RobotModel
from dynid.robot.toml import read_toml_robot
from dynid.robot.urdf import read_urdf
from dynid.robot.xml import parse, read_bytes

FORMATS = {"robot": read_urdf, "mujoco": read_mjcf}


def load_robot(
    path: str | Path,
    *,
    root: str | None = None,
    gravity: tuple[float, float, float] | None = None,
    diagnostics: Diagnostics | None = None,
) -> RobotModel:
    """Reads a robot from URDF, MJCF or dynid TOML.

    root: link that stands still, for files with several trees.    gravity: m/s^2 in the base frame, instead of the
    file's (URDF: 9.81 along -z).    diagnostics: receives the warnings.

    Raises InputError (with file and line) for what cannot be understood, RefusedError for entities, remote or escaping
    paths and robots over the size budget.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    robot = _read(Path(path), root, sink)
    return robot if gravity is None else replace(robot, gravity=np.array(gravity))


def load_example(name: str) -> RobotModel:
    """A robot that ships with dynid: "arm7".

    Raises InputError for another name.
    """
    resource = files("dynid.data") / f"{name}.toml"
    if not resource.is_file():
        raise InputError("no-example", found=f"example '{name}'", expected="arm7")
    with as_file(resource) as path:
        return replace(load_robot(path), source=f"example {name}")


def _read(path: Path, root: str | None, diagnostics: Diagnostics) -> RobotModel:
    if path.suffix.lower() == ".toml":
        return read_toml_robot(path, root, diagnostics, _read)
    element = parse(read_bytes(path, "a URDF, MJCF or TOML robot description"), str(path))
    if element.tag not in FORMATS:
        raise InputError(
            "robot-format",
            found=f"XML with root element <{element.tag}>",
            expected="<robot> (URDF) or <mujoco> (MJCF)",
            do="xacro files must be expanded first" if "xacro" in element.tag else "",
            place=Place(file=str(path), line=element.line),
        )
    return FORMATS[element.tag](element, path, root, diagnostics)
