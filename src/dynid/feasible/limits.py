"""What is known of one body, as plain data: the form in which experiment files and run folders hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.errors import InputError, Place, UsageError
from dynid.feasible.constraints import BodyMass, CentreHalfSpaces, Convex, InsideEllipsoid
from dynid.feasible.enclosing import enclosing_points
from dynid.feasible.inside import InsideHull
from dynid.robot.mesh import mesh_points
from dynid.robot.xml import inside
from dynid.spatial.algebra import rotation_rpy

KEYS = (
    "body", "mass", "centre_lower", "centre_upper", "hull", "whole_body", "ellipsoid_centre", "ellipsoid_semi_axes",
)  # fmt: skip


def limits_of_body(entry: Mapping[str, Any]) -> Sequence[Convex]:
    """Constraints of one entry.

    body: number from 1.    mass: window, kg.    centre_lower, centre_upper: box of the centre of mass, m.
    hull: points (k, 3) around the centre of mass, m.    whole_body: the whole mass lies in that hull.
    ellipsoid_semi_axes, ellipsoid_centre: m, around the body;
    the centre is the joint
    frame's origin where it is not given.
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

    mesh: STL or OBJ file below `folder`.    mesh_scale: m per unit of the file.    mesh_xyz, mesh_rpy: of the mesh's
    frame in the joint's frame, m and rad.
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
