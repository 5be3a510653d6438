"""Any robot description in, a RobotModel out; the format is told by the content."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place, UsageError
from dynid.robot.mjcf import read_mjcf
from dynid.robot.model import RobotModel
from dynid.robot.toml import read_toml_robot
from dynid.robot.urdf import read_urdf
from dynid.robot.xml import read_xml

FORMATS = {"robot": read_urdf, "mujoco": read_mjcf}


def load_robot(
    path: str | Path,
    *,
    root: str | None = None,
    gravity: tuple[float, float, float] | None = None,
    diagnostics: Diagnostics | None = None,
) -> RobotModel:
    """Reads a robot from URDF, MJCF or dynid TOML.

    root: link that stands still, for files with several trees.
    gravity: m/s^2 in the base frame, instead of the file's (URDF: 9.81 along -z).
    diagnostics: receives the warnings.

    Raises InputError (with file and line) for what cannot be understood, RefusedError for entities, remote or
    escaping paths and robots over the size budget, UsageError for a gravity that is not three finite numbers.
    """
    if gravity is not None and (len(gravity) != 3 or not np.isfinite(gravity).all()):
        raise UsageError("gravity", found=f"gravity {gravity}", expected="three finite numbers, m/s^2")
    sink = diagnostics if diagnostics is not None else Diagnostics()
    robot = _read(Path(path), root, sink)
    return robot if gravity is None else replace(robot, gravity=np.array(gravity))


def load_example(name: str) -> RobotModel:
    """A robot that ships with dynid, by the name of its description.

    Raises InputError for a name that there is not.
    """
    shipped = {one.name.removesuffix(".toml"): one for one in files("dynid.data").iterdir()}
    shipped = {key: one for key, one in shipped.items() if one.name.endswith(".toml")}
    if name not in shipped:
        raise InputError(
            "no-example", found=f"example '{name}'", expected="one of " + ", ".join(sorted(shipped))
        )
    with as_file(shipped[name]) as path:
        return replace(load_robot(path), source=f"example {name}")


def _read(path: Path, root: str | None, diagnostics: Diagnostics) -> RobotModel:
    if path.suffix.lower() == ".toml":
        return read_toml_robot(path, root, diagnostics, _read_xml)
    return _read_xml(path, root, diagnostics)


def _read_xml(path: Path, root: str | None, diagnostics: Diagnostics) -> RobotModel:
    element = read_xml(path, "a URDF, MJCF or TOML robot description")
    if element.tag not in FORMATS:
        raise InputError(
            "robot-format",
            found=f"XML with root element <{element.tag}>",
            expected="<robot> (URDF) or <mujoco> (MJCF)",
            do="xacro files must be expanded first" if "xacro" in element.tag else "",
            place=Place(file=str(path), line=element.line),
        )
    return FORMATS[element.tag](element, path, root, diagnostics)
