"""What the shapes in a URDF say of its bodies: hulls for `[[estimate.limits]]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dynid.arrays import Float
from dynid.config import read_bytes
from dynid.diagnostics import Diagnostics
from dynid.errors import DynidError, InputError, Place, UsageError
from dynid.feasible.mesh import enclosing_points, mesh_points, spread_directions
from dynid.robot.urdf import read_urdf
from dynid.robot.urdf_lint import Urdf, lint
from dynid.robot.urdf_tree import Children, children_of
from dynid.robot.xml import MAX_BYTES, Element, inside, number, numbers, parse
from dynid.spatial.algebra import placement, rotation_rpy

Geometry = Literal["collision", "visual"]
_ROUND = 12


@dataclass(frozen=True)
class _Shapes:
    """Where shapes are looked for, and what could not be read."""

    urdf: Urdf
    children: Children
    folder: Path
    geometry: str
    diagnostics: Diagnostics


def limits_from_urdf(
    path: Path,
    root: str | None = None,
    geometry: Geometry = "collision",
    diagnostics: Diagnostics | None = None,
) -> list[dict[str, Any]]:
    """One entry of `[[estimate.limits]]` for each body with shapes: the hull of them all, in the joint's frame.

    Links on fixed joints count to the body that carries them. Bodies with a shape that cannot be read, such as a mesh
    that is not there or not STL or OBJ, are left out with a warning: their hull would be too small.
    A mesh of package://NAME is looked for in a folder NAME above the file, or beside one of the folders above.
    Raises InputErrors with what is wrong in the file, UsageError for another format than URDF.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    data = read_bytes(path, "a URDF", MAX_BYTES)
    element = parse(data, str(path))
    if element.tag != "robot":
        raise UsageError(
            "limits-format",
            found=f"<{element.tag}> in '{path}'",
            expected="a URDF: only it has shapes that are read",
            do="write [[estimate.limits]] with mesh = ... by hand",
        )
    robot = read_urdf(element, path, root, Diagnostics())
    urdf = lint(parse(data, str(path)), path.parent, root, Diagnostics())
    shapes = _Shapes(urdf, children_of(urdf.joints), path.parent, geometry, sink)
    entries = []
    for number_of_body, name in enumerate(robot.body_names, 1):
        try:
            points = _points_below(shapes, name, np.eye(4))
            if len(points):
                entries.append(
                    {"body": number_of_body, "hull": enclosing_points(points).tolist(), "whole_body": True}
                )
        except DynidError as error:
            sink.warn("shape-unread", f"body '{name}' is left out: {error}")
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
        points = mesh_points(_mesh_path(shapes, shape)) * scale
    elif shape.tag == "box":
        points = np.array(numbers(shape, "size", 3, errors, (np.nan,) * 3)) / 2 * _signs()
    elif shape.tag in ("cylinder", "capsule"):
        points = _cylinder(shape, errors)
    elif shape.tag == "sphere":
        points = _ball(number(shape, "radius", errors))
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


def _cylinder(shape: Element, errors: list[DynidError]) -> Float:
    # Polygons around the circles, so that the hull holds all of it.
    radius, length = number(shape, "radius", errors), number(shape, "length", errors)
    if shape.tag == "capsule":
        ball = _ball(radius)
        return np.concatenate([ball + _up(length / 2), ball + _up(-length / 2)])
    turn = 2 * np.pi * np.arange(_ROUND) / _ROUND
    out = radius / np.cos(np.pi / _ROUND)
    circle = np.column_stack([out * np.cos(turn), out * np.sin(turn), np.zeros(_ROUND)])
    return np.concatenate([circle + _up(length / 2), circle + _up(-length / 2)])


def _up(height: float) -> Float:
    return np.array([0.0, 0.0, height])


def _ball(radius: float) -> Float:
    # The hull of these 128 directions holds a ball of 0.97 times their length.
    n = spread_directions(64)
    return 1.03 * radius * np.concatenate([n, -n])


def _signs() -> Float:
    return np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def _mesh_path(shapes: _Shapes, mesh: Element) -> Path:
    name = mesh.attributes.get("filename", "")
    for scheme in ("package://", "model://"):
        if name.startswith(scheme):
            package, _, rest = name.removeprefix(scheme).partition("/")
            return inside(_package(shapes.folder, package, mesh.place), rest, mesh.place)
    return inside(shapes.folder, name.removeprefix("file://"), mesh.place)


def _package(folder: Path, name: str, place: Place) -> Path:
    for above in (folder.resolve(), *folder.resolve().parents):
        if name and above.name == name:
            return above
        if name not in ("", ".", "..") and "\\0" not in name and (above / name / "package.xml").is_file():
            return above / name
    raise InputError(
        "package-missing",
        found=f"no folder of the package '{name}' above '{folder}'",
        expected="the file within its package, or beside it",
        place=place,
    )
