"""Polytopes of few planes around many points."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.robot.mesh import LONGEST
from dynid.robot.solids import spread_directions

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
