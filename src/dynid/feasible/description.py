"""What the shapes in a URDF or MJCF say of its bodies: hulls for `[[estimate.limits]]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, RefusedError, UsageError
from dynid.feasible.description_mjcf import points_of_mjcf
from dynid.feasible.mesh import enclosing_points, mesh_points
from dynid.feasible.solids import ball_points, box_points, capsule_points, cylinder_points
from dynid.robot.link_model import model_of_links
from dynid.robot.link_tree import Children, children_of
from dynid.robot.links import LinkTree
from dynid.robot.locking import as_described, lock_joints
from dynid.robot.mesh_files import mesh_path
from dynid.robot.model import RobotModel
from dynid.robot.reading import Reading
from dynid.robot.source import read_description
from dynid.robot.urdf import lint
from dynid.robot.xml import Element, number, numbers
from dynid.spatial.algebra import placement, rotation_rpy

Geometry = Literal["collision", "visual"]


@dataclass(frozen=True)
class _Shapes:
    """Where shapes are looked for."""

    urdf: LinkTree
    children: Children
    folder: Path
    geometry: str
    packages: Sequence[str]


def limits_from_description(
    path: Path,
    reading: Reading | None = None,
    geometry: Geometry = "collision",
    diagnostics: Diagnostics | None = None,
) -> list[dict[str, Any]]:
    """One entry of `[[estimate.limits]]` for each body with shapes: the hull of them all, in the joint's frame.

    path: a URDF, plain or as xacro, or an MJCF; for `geometry` in an MJCF see `points_of_mjcf`.
    Links on fixed and held joints count to the body that carries them. Bodies with a shape that cannot be read, such as
    a mesh that is not there or not STL or OBJ, are left out with a warning: their hull would be too small.
    Meshes are looked for as `mesh_path` does.
    Raises InputErrors with what is wrong in the file, UsageError for another format, RefusedError for a mesh outside
    its folder or package.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    reading = reading if reading is not None else Reading()
    element = read_description(path, reading, sink)
    if element.tag not in ("robot", "mujoco"):
        raise UsageError(
            "limits-format",
            found=f"<{element.tag}> in '{path}'",
            expected="a URDF or MJCF: only they have shapes that are read",
            do="write [[estimate.limits]] with mesh = ... by hand",
        )
    if element.tag == "robot":
        robot, points = _points_of_urdf(element, path, reading, geometry, sink)
    else:
        robot, points = points_of_mjcf(element, path, reading, geometry == "collision", sink)
    names, carried = _on_carriers(robot, reading, points)
    entries = []
    for number_of_body, (name, own) in enumerate(zip(names, carried, strict=True), 1):
        try:
            if len(own):
                entries.append(
                    {"body": number_of_body, "hull": enclosing_points(own).tolist(), "whole_body": True}
                )
        except DynidError as error:
            sink.warn("shape-unread", f"body '{name}' is left out: {error}")
    return entries


def _on_carriers(
    robot: RobotModel, reading: Reading, points: list[Float | None]
) -> tuple[tuple[str, ...], list[Float]]:
    # What a body that is held is known by belongs to the one that carries it.
    described = as_described(robot, reading, Diagnostics())
    held = {name: value for name, value in described.locked.items() if name in robot.joint_names}
    if not held:
        return robot.body_names, [np.zeros((0, 3)) if own is None else own for own in points]
    found = lock_joints(robot, held)
    carried: list[list[Float] | None] = [[] for _ in described.body_names]
    for own, on, T in zip(points, found.carrier, found.frames, strict=True):
        if on < 0:
            continue
        so_far = carried[on]
        carried[on] = None if own is None or so_far is None else [*so_far, own @ T[:3, :3].T + T[:3, 3]]
    return described.body_names, [np.concatenate([np.zeros((0, 3)), *(parts or [])]) for parts in carried]


def _points_of_urdf(
    element: Element, path: Path, reading: Reading, geometry: Geometry, sink: Diagnostics
) -> tuple[RobotModel, list[Float | None]]:
    urdf = lint(element, path.parent, reading, Diagnostics())
    robot = model_of_links(urdf, str(path))
    shapes = _Shapes(urdf, children_of(urdf.joints), path.parent, geometry, reading.packages)
    points: list[Float | None] = []
    for name in robot.body_names:
        try:
            points.append(_points_below(shapes, name, np.eye(4)))
        except RefusedError:
            raise
        except DynidError as error:
            sink.warn("shape-unread", f"body '{name}' is left out: {error}")
            points.append(None)
    return robot, points


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


def _points_below(shapes: _Shapes, link: str, frame: Float) -> Float:
    # Corners of the link's shapes and of all links fixed to it, (k, 3).
    found = [_points(shapes, one) @ frame[:3, :3].T + frame[:3, 3] for one in _elements(shapes, link)]
    for joint in shapes.children.get(link, []):
        if not joint.moves:
            found.append(_points_below(shapes, joint.child, frame @ joint.placement))
    return np.concatenate([np.zeros((0, 3)), *found])


def _elements(shapes: _Shapes, link: str) -> list[Element]:
    return [one for one in shapes.urdf.links[link].element.children if one.tag == shapes.geometry]


def _points(shapes: _Shapes, element: Element) -> Float:
    errors: list[DynidError] = []
    geometry = element.find("geometry")
    shape = geometry.children[0] if geometry is not None and geometry.children else None
    if shape is None:
        raise InputError("shape", found=f"<{element.tag}> without a shape", place=element.place)
    if shape.tag == "mesh":
        scale = np.array(numbers(shape, "scale", 3, errors, (1.0, 1.0, 1.0)))
        points = (
            mesh_points(
                mesh_path(shape.attributes.get("filename", ""), shapes.folder, shape.place, shapes.packages)
            )
            * scale
        )
    elif shape.tag == "box":
        points = box_points(np.array(numbers(shape, "size", 3, errors, (np.nan,) * 3)) / 2)
    elif shape.tag in ("cylinder", "capsule"):
        solid = cylinder_points if shape.tag == "cylinder" else capsule_points
        points = solid(number(shape, "radius", errors), number(shape, "length", errors))
    elif shape.tag == "sphere":
        points = ball_points(number(shape, "radius", errors))
    else:
        raise InputError(
            "shape", found=f"a shape <{shape.tag}>", expected="mesh, box, cylinder, sphere", place=shape.place
        )
    T = np.eye(4)
    origin = element.find("origin")
    if origin is not None:
        rpy, xyz = (np.array(numbers(origin, key, 3, errors, (0.0,) * 3)) for key in ("rpy", "xyz"))
        T = placement(rotation_rpy(rpy), xyz)
    if errors:
        raise errors[0]
    if not np.isfinite(points).all():
        raise InputError(
            "shape", found=f"<{shape.tag}> without its sizes", expected="finite numbers", place=shape.place
        )
    return np.asarray(points @ T[:3, :3].T + T[:3, 3])
