"""Any robot description in, a RobotModel out; the format is recognised by the content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.robot.formats import read_robot_file
from dynid.robot.locking import as_described
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading

# Beyond these a description is in other units than kg and m, or nonsense.
LARGEST_MASS = 1e9
LARGEST_LENGTH = 1e6


def load_robot(
    path: str | Path,
    *,
    root: str | None = None,
    tip: str | None = None,
    lock: Mapping[str, float] | None = None,
    gravity: tuple[float, float, float] | None = None,
    packages: str | Path | Sequence[str | Path] = (),
    xacro: Mapping[str, str | bool | int | float] | bool | None = None,
    diagnostics: Diagnostics | None = None,
) -> RobotModel:
    """Reads a robot from URDF, xacro, MJCF, SDF, USD or dynid TOML.

    root: link that stands still, for files with several trees.
    tip: last link of a chain from the base; joints beside it and beyond are held.
    lock: joints that are held, and where (rad or m).
    gravity: m/s^2 in the base frame, instead of the file's (URDF: 9.81 along -z).
    packages: folders that hold the packages of "package://" names; see `find_package`.
    xacro: arguments of a xacro file; with them, or with True, a file that is not named `.xacro` is expanded, too.
    diagnostics: receives the warnings.

    Raises InputError (with file and line) for what cannot be understood, RefusedError for entities, escaping paths,
    xacro in a file that is not named so and robots over the size budget, UsageError for numbers that are not finite,
    ResourceError for a missing package.
    """
    folders = (packages,) if isinstance(packages, str | Path) else tuple(packages)
    reading = Reading(
        root=root,
        tip=tip,
        lock=lock or {},
        gravity=gravity,
        packages=tuple(str(one) for one in folders),
        xacro=xacro or {},
    )
    return read_robot(path, reading, diagnostics)


def read_robot(path: str | Path, reading: Reading, diagnostics: Diagnostics | None = None) -> RobotModel:
    """The robot of a description, read as asked; raises as `load_robot`."""
    sink = diagnostics if diagnostics is not None else Diagnostics()
    # What overflows in a product of absurd numbers is found by their size.
    with np.errstate(over="ignore", invalid="ignore"):
        robot = read_robot_file(Path(path), reading, sink)
        _check_size(robot, Path(path))
    return as_described(robot, reading, sink)


def _check_size(robot: RobotModel, path: Path) -> None:
    mass, moment = robot.inertia_prior[:, :1], robot.inertia_prior[:, 1:4]
    for found, largest, unit, names in (
        (mass, LARGEST_MASS, "kg", robot.body_names),
        (
            np.where(mass > 0, moment / np.where(mass > 0, mass, 1.0), moment),
            LARGEST_LENGTH,
            "m from its joint to its centre of mass",
            robot.body_names,
        ),
        (robot.inertia_prior[:, 4:], LARGEST_MASS * LARGEST_LENGTH**2, "kg m^2", robot.body_names),
        (robot.T_parent_joint[:, :3, 3], LARGEST_LENGTH, "m from its parent", robot.body_names),
    ):
        size = np.abs(found).reshape(len(found), -1).max(axis=1, initial=0.0)
        if (over := np.flatnonzero(size > largest)).size:
            link = names[int(over[0])]
            raise InputError(
                "no-size",
                found=f"link '{link}': {size[over[0]]:.3g} {unit}",
                expected=f"at most {largest:g} {unit.split()[0]}",
                do="check the unit: SI is kg and m",
                place=Place(file=str(path)),
            )


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
