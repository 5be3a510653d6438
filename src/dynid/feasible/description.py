"""What the shapes in a URDF or MJCF say of its bodies: hulls for `[[estimate.limits]]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, RefusedError, UsageError
from dynid.feasible.enclosing import enclosing_points
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading
from dynid.robot.shapes import Geometry, described_shapes
from dynid.robot.source import read_description


def limits_from_description(
    path: Path,
    reading: Reading | None = None,
    geometry: Geometry = "collision",
    diagnostics: Diagnostics | None = None,
) -> list[dict[str, Any]]:
    """One entry of `[[estimate.limits]]` for each body with shapes: the hull of them all, in the joint's frame.

    path: a URDF, plain or as xacro, or an MJCF, whose collision geoms are those that may touch others (contype or
    conaffinity). Otherwise as `limits_of_robot`.
    Raises InputErrors with what is wrong in the file, UsageError for another format.
    """
    from dynid.robot.load import read_robot  # readers of all formats, which pages of a run do without

    sink = diagnostics if diagnostics is not None else Diagnostics()
    reading = reading if reading is not None else Reading()
    tag = read_description(path, reading, sink).tag
    if tag not in ("robot", "mujoco"):
        raise UsageError(
            "limits-format",
            found=f"<{tag}> in '{path}'",
            expected="a URDF or MJCF: only they have shapes that are read",
            do="write [[estimate.limits]] with mesh = ... by hand",
        )
    return limits_of_robot(read_robot(path, reading, Diagnostics()), geometry, sink)


def limits_of_robot(
    robot: RobotModel, geometry: Geometry = "collision", diagnostics: Diagnostics | None = None
) -> list[dict[str, Any]]:
    """One entry of `[[estimate.limits]]` for each body of a robot whose description has shapes; see `described_shapes`.

    Links on fixed and held joints count to the body that carries them. Bodies with a shape that cannot be read, such as
    a mesh that is not there, are left out with a warning: their hull would be too small.
    Raises RefusedError for a mesh outside its folder or package.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    corners: list[list[Float]] = [[] for _ in robot.body_names]
    faults: dict[int, DynidError] = {}
    for one in described_shapes(robot):
        if one.geometry != geometry or one.body < 0 or one.body in faults:
            continue
        try:
            corners[one.body].append(one.read().corners())
        except RefusedError:
            raise
        except DynidError as error:
            faults[one.body] = error
    entries = []
    for body, own in enumerate(corners):
        try:
            if own and body not in faults:
                hull = enclosing_points(np.concatenate(own)).tolist()
                entries.append({"body": body + 1, "hull": hull, "whole_body": True})
        except DynidError as error:
            faults[body] = error
    for body in sorted(faults):
        sink.warn("shape-unread", f"body '{robot.body_names[body]}' is left out: {faults[body]}")
    return entries


def limits_text(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """The entries as TOML; names: of all bodies, for comments."""
    lines = []
    for entry in entries:
        label = "".join(c if c.isprintable() else "?" for c in names[entry["body"] - 1])
        lines += [
            f"# {label}",
            "[[estimate.limits]]",
            f"body = {entry['body']}",
            "whole_body = true",
            "hull = [",
        ]
        lines += [f"  [{x:.6g}, {y:.6g}, {z:.6g}]," for x, y, z in entry["hull"]]
        lines += ["]", ""]
    return "\n".join(lines)
