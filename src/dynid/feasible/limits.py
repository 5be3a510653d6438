"""What is known of one body, as plain data: the form in which experiment files and run folders hold it."""

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

# Polytopes of few planes around many points.

MOST_POINTS = 100
_DIRECTIONS = 64


def enclosing_points(points: Float) -> Float:
    """Corners (k, 3) of the convex hull of points, or of a polytope around it where the hull has more than 100.

    The polytope touches the hull with one plane in each of 64 spread directions and their opposites, and along the
    axes.    Raises UsageError if the points lie in a plane or span more than 20 m.
    """
    from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

    span = float(np.ptp(points, axis=0).max())
    if span > LONGEST:
        raise UsageError(
            "mesh-size",
            found=f"a body {span:.4g} m long",
            expected=f"at most {LONGEST:g} m",
            do="a mesh in millimetres has the scale 0.001",
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
    """Constraints of one entry, with the keys of `LinkLimits` other than those of a mesh.

    Raises UsageError for an unknown key, a missing body, a flat hull or semi-axes that are not positive.
    """
    unknown = sorted(set(entry) - set(KEYS))
    if unknown or "body" not in entry:
        raise UsageError(
            "body-limits",
            found=f"keys {', '.join(sorted(entry)) or 'none'}",
            expected="body and some of " + ", ".join(KEYS[1:]),
        )
    body = int(entry["body"])
    found: list[Convex] = []
    if entry.get("mass") is not None:
        lower, upper = entry["mass"]
        found.append(BodyMass(body, float(lower), float(upper)))
    low, high = entry.get("centre_lower"), entry.get("centre_upper")
    if low is not None or high is not None:
        found.append(CentreHalfSpaces.box(body, _three(low, -np.inf), _three(high, np.inf)))
    if entry.get("hull") is not None:
        points = np.array(entry["hull"], dtype=np.float64).reshape(-1, 3)
        # Also where the whole body lies in it: a flat hull is reported here and not in the middle of a fit.
        centre = CentreHalfSpaces.hull(body, points)
        corners = tuple((float(x), float(y), float(z)) for x, y, z in points)
        found.append(InsideHull(body, corners) if entry.get("whole_body") else centre)
    elif entry.get("whole_body"):
        raise UsageError("body-limits", found="whole_body without hull", expected="the hull it lies in")
    axes = entry.get("ellipsoid_semi_axes")
    if axes is not None:
        semi = _three(axes, np.nan)
        if not min(semi) > 0:
            raise UsageError("ellipsoid", found=f"semi-axes {list(semi)}", expected="three lengths > 0")
        found.append(InsideEllipsoid(body, _three(entry.get("ellipsoid_centre"), 0.0), semi))
    return found


def with_hull_of_mesh(entry: Mapping[str, Any], folder: Path, place: Place) -> dict[str, Any]:
    """The entry with the hull of its mesh, in the joint's frame, in place of the keys of the mesh.

    The file of the mesh lies below `folder`.
    Raises InputError for a mesh that cannot be read or has no volume, RefusedError for one outside the folder.
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


def _three(values: Sequence[float] | None, missing: float) -> tuple[float, float, float]:
    if values is None:
        return missing, missing, missing
    x, y, z = (float(v) for v in values)
    return x, y, z


# What the shapes in a URDF or MJCF say of its bodies: hulls for `[[estimate.limits]]`.


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
