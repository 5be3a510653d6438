"""Limits of single links as plain data, the form of experiment files and run folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, Place, RefusedError, UsageError
from dynid.base.options import option, options_of
from dynid.base.records import dataclass
from dynid.feasible.constraints import BodyMass, CentreHalfSpaces, Convex, InsideEllipsoid, InsideHull
from dynid.robot.formats import read_description
from dynid.robot.meshes import LONGEST, mesh_points
from dynid.robot.model import RobotModel
from dynid.robot.options import Reading, Vector
from dynid.robot.shapes import Geometry, described_shapes, spread_directions
from dynid.robot.xml import inside
from dynid.spatial.algebra import rotation_rpy

# Polytopes with few planes around many points.

# Corners of a hull: more would make programs slow.
MOST_POINTS = 100
_DIRECTIONS = 64


def enclosing_points(points: Float) -> Float:
    """Corners (k, 3) of the convex hull of points, or of a polytope around it if the hull has more than 100 corners.

    The polytope touches the hull with one plane in each of 64 spread directions and their opposites, and along the
    axes. Raises UsageError if the points lie in a plane or span more than 20 m.
    """
    from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

    span = float(np.ptp(points, axis=0).max())
    if span > LONGEST:
        raise UsageError(
            "mesh-size",
            found=f"a body {span:.4g} m long",
            expected=f"at most {LONGEST:g} m",
            do="scale a mesh in millimetres by 0.001",
        )
    try:
        hull = ConvexHull(points)
        corners = points[hull.vertices]
        if len(corners) <= MOST_POINTS:
            return np.asarray(corners)
        normals = np.concatenate([spread_directions(_DIRECTIONS), np.eye(3)])
        normals = np.concatenate([normals, -normals])
        planes = np.column_stack([normals, -(corners @ normals.T).max(axis=0)])
        return np.asarray(HalfspaceIntersection(planes, corners.mean(axis=0)).intersections)
    except QhullError as error:
        raise UsageError(
            "flat-hull",
            found=f"{len(points)} points without volume",
            expected="at least four points that do not lie in one plane",
        ) from error


@dataclass(frozen=True)
class LinkLimits:
    """[[estimate.limits]]: what is known of one link."""

    body: int = option(doc="number of the link, as in the parameters' names", least=1)
    mass: tuple[float, float] | None = option(None, "window", unit="kg", least=0)
    centre_lower: Vector | None = option(None, "least coordinates of the centre of mass", unit="m")
    centre_upper: Vector | None = option(None, "greatest coordinates of the centre of mass", unit="m")
    hull: list[Vector] | None = option(
        None, "the centre of mass lies in their convex hull", kind="a list of points (m)"
    )
    mesh: str | None = option(
        None,
        "in place of `hull`: a mesh beside the experiment file; run folders contain its hull",
        kind="a file, STL or OBJ",
    )
    mesh_scale: float | None = option(
        None, "0.001 for a mesh in millimetres; 1 without it", unit="m per unit of the file", above=0
    )
    mesh_xyz: Vector | None = option(
        None, "origin of the mesh's frame in the frame of the joint; zero without it", unit="m"
    )
    mesh_rpy: Vector | None = option(
        None, "roll, pitch and yaw of the mesh's frame; zero without it", unit="rad"
    )
    whole_body: bool | None = option(
        None,
        "all of the link lies in the hull, not only its centre of mass: its inertia must fit in, too",
    )
    ellipsoid_semi_axes: Vector | None = option(
        None, "all of the link lies in this ellipsoid along the axes of the frame", unit="m", above=0
    )
    ellipsoid_centre: Vector | None = option(None, "its centre; the origin of the frame without it", unit="m")


# A mesh becomes a hull before limits are applied.
KEYS = tuple(name for name in options_of(LinkLimits) if not name.startswith("mesh"))


def limits_of_body(entry: Mapping[str, Any]) -> Sequence[Convex]:
    """Constraints of one entry of `[[estimate.limits]]`.

    Parameters
    ----------
    entry : mapping
        Keys of `LinkLimits` other than those of a mesh.

    Returns
    -------
    sequence of Convex
        Constraints.

    Raises
    ------
    UsageError
        For an unknown key, a missing body, a flat hull or semi-axes that are not positive.

    """
    unknown = sorted(set(entry) - set(KEYS))
    if unknown or "body" not in entry:
        raise UsageError(
            "body-limits",
            found=f"keys {', '.join(sorted(entry)) or 'none'}",
            expected="body and some of " + ", ".join(KEYS[1:]),
        )
    body = int(entry["body"])
    constraints: list[Convex] = []
    if entry.get("mass") is not None:
        lower, upper = entry["mass"]
        constraints.append(BodyMass(body, float(lower), float(upper)))
    low, high = entry.get("centre_lower"), entry.get("centre_upper")
    if low is not None or high is not None:
        constraints.append(
            CentreHalfSpaces.box(body, _three_floats(low, -np.inf), _three_floats(high, np.inf))
        )
    if entry.get("hull") is not None:
        points = np.array(entry["hull"], dtype=np.float64).reshape(-1, 3)
        # Also for whole_body: a flat hull is reported here and not during a fit.
        centre = CentreHalfSpaces.hull(body, points)
        corners = tuple((float(x), float(y), float(z)) for x, y, z in points)
        constraints.append(InsideHull(body, corners) if entry.get("whole_body") else centre)
    elif entry.get("whole_body"):
        raise UsageError("body-limits", found="whole_body without hull", expected="a hull of the whole link")
    axes = entry.get("ellipsoid_semi_axes")
    if axes is not None:
        semi = _three_floats(axes, np.nan)
        if not min(semi) > 0:
            raise UsageError("ellipsoid", found=f"semi-axes {list(semi)}", expected="three lengths > 0")
        constraints.append(InsideEllipsoid(body, _three_floats(entry.get("ellipsoid_centre"), 0.0), semi))
    return constraints


def with_hull_of_mesh(entry: Mapping[str, Any], folder: Path, place: Place) -> dict[str, Any]:
    """Entry in which the keys of a mesh are replaced by the hull of the mesh in the joint frame.

    Parameters
    ----------
    entry : mapping
        mesh: STL or OBJ file below `folder`. mesh_scale: m per unit of the file. mesh_xyz, mesh_rpy: frame of the mesh
        in the joint frame, m and rad.
    folder : Path
        Folder of the experiment file.
    place : Place
        Place for messages.

    Returns
    -------
    dict
        Entry with `hull`.

    Raises
    ------
    InputError
        For a mesh that cannot be read or has no volume.
    RefusedError
        For a mesh outside the folder.

    """
    if entry.get("mesh") is None:
        return dict(entry)
    path = inside(folder, str(entry["mesh"]), place)
    points = mesh_points(path) * float(entry.get("mesh_scale") or 1.0)
    R = rotation_rpy(np.array(entry.get("mesh_rpy") or (0.0, 0.0, 0.0)))
    try:
        corners = enclosing_points(points @ R.T + np.array(entry.get("mesh_xyz") or (0.0, 0.0, 0.0)))
    except UsageError as error:
        raise InputError(
            error.identifier,
            found=error.found,
            expected=error.expected,
            do=error.do,
            place=Place(file=str(path)),
        ) from error
    kept = {key: value for key, value in entry.items() if not key.startswith("mesh")}
    return kept | {"hull": corners.tolist()}


def _three_floats(values: Sequence[float] | None, missing: float) -> tuple[float, float, float]:
    if values is None:
        return missing, missing, missing
    x, y, z = (float(v) for v in values)
    return x, y, z


# Hulls for `[[estimate.limits]]` from the shapes in a URDF or MJCF.


def limits_from_description(
    path: Path,
    reading: Reading | None = None,
    geometry: Geometry = "collision",
    diagnostics: Diagnostics | None = None,
) -> list[dict[str, Any]]:
    """Entries of `[[estimate.limits]]` from a robot file: the hull of all shapes of each link, in its joint frame.

    Parameters
    ----------
    path : Path
        URDF (plain or xacro) or MJCF; of an MJCF those collision geoms that may touch others (contype or conaffinity).
    reading : Reading, optional
        Options of reading.
    geometry : {"collision", "visual"}
        Shapes to use.
    diagnostics : Diagnostics, optional
        Receives warnings.

    Returns
    -------
    list of dict
        One entry per link with shapes, see `limits_of_robot`.

    Raises
    ------
    InputErrors
        With all faults of the file.
    UsageError
        For another format.

    """
    from dynid.robot.load import read_robot  # loads readers of all formats, which pages of a run do not need

    sink = diagnostics if diagnostics is not None else Diagnostics()
    reading = reading if reading is not None else Reading()
    tag = read_description(path, reading, sink).tag
    if tag not in ("robot", "mujoco"):
        raise UsageError(
            "limits-format",
            found=f"<{tag}> in '{path}'",
            expected="a URDF or MJCF file, from which shapes can be read",
            do="write [[estimate.limits]] with mesh = ... yourself",
        )
    return limits_of_robot(read_robot(path, reading, Diagnostics()), geometry, sink)


def limits_of_robot(
    robot: RobotModel, geometry: Geometry = "collision", diagnostics: Diagnostics | None = None
) -> list[dict[str, Any]]:
    """Entries of `[[estimate.limits]]` for the links of a robot whose file has shapes, see `described_shapes`.

    Links on fixed and locked joints count to the link that carries them. A link with a shape that cannot be read, such
    as a missing mesh, is left out with a warning, since its hull would be too small.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    geometry : {"collision", "visual"}
        Shapes to use.
    diagnostics : Diagnostics, optional
        Receives warnings.

    Returns
    -------
    list of dict
        One entry per link.

    Raises
    ------
    RefusedError
        For a mesh outside its folder or package.

    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    corners: list[list[Float]] = [[] for _ in robot.body_names]
    faults: dict[int, DynidError] = {}
    for shape in described_shapes(robot):
        if shape.geometry != geometry or shape.body < 0 or shape.body in faults:
            continue
        try:
            corners[shape.body].append(shape.read().corners())
        except RefusedError:
            raise
        except DynidError as error:
            faults[shape.body] = error
    entries = []
    for body, points in enumerate(corners):
        try:
            if points and body not in faults:
                hull = enclosing_points(np.concatenate(points)).tolist()
                entries.append({"body": body + 1, "hull": hull, "whole_body": True})
        except DynidError as error:
            faults[body] = error
    for body in sorted(faults):
        sink.warn("shape-unread", f"no limits for link '{robot.body_names[body]}': {faults[body]}")
    return entries


def limits_text(entries: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """Entries as TOML; names: of all links, for comments."""
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
