"""The shapes of a description, body by body, as surfaces; else capsules between the joints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.errors import DynidError, InputError
from dynid.base.records import dataclass
from dynid.robot.mesh import LONGEST
from dynid.robot.model import RobotModel
from dynid.robot.shapes import DescribedShape, Geometry, by_link, described_shapes
from dynid.scene.surface import Surface, along, between, cylinder, surface_of

# Of the robot's reach: radius of the capsules that stand for links without shapes, at the base and at the tip.
THICK, SLIM = 0.055, 0.03
_NO_REACH = 0.3


@dataclass(frozen=True, eq=False)
class Shapes:
    """What is drawn of a robot.

    surfaces: in the joint frames of the bodies.    unread: by link, why its shapes could not be read.
    """

    surfaces: tuple[Surface, ...]
    unread: dict[str, str]


def shapes_of(robot: RobotModel, geometry: Geometry = "visual") -> Shapes:
    """Shapes of every body of a robot and of its base.

    geometry: which are wanted, where a link has both; a link takes the others where one of these is missing or cannot
    be read, and capsules between its joints where it has neither.
    """
    unread: dict[str, str] = {}
    try:
        found = [one for one in described_shapes(robot) if not one.scenery]
    except DynidError as error:
        found, unread["robot"] = [], str(error)
    other: Geometry = "collision" if geometry == "visual" else "visual"
    surfaces: list[Surface] = []
    for own in by_link(found).values():
        for kind in (geometry, other):
            made = _read([one for one in own if one.geometry == kind], unread)
            if made:
                surfaces += made
                break
    drawn = {one.body for one in surfaces}
    lost = {one.body for one in found}
    # Where others have shapes, bodies without any are frames: only what has mass, or could not be read, is missing.
    wanted = [
        one for one in capsules_of(robot) if not drawn or one.body in lost or _has_mass(robot, one.body)
    ]
    surfaces += [one for one in wanted if one.body not in drawn]
    return Shapes(tuple(surfaces), unread)


def capsules_of(robot: RobotModel) -> tuple[Surface, ...]:
    """Capsules from each joint to those that hang on it, and a short cylinder about each axis."""
    origins = robot.T_parent_joint[:, :3, 3]
    depth = np.zeros(robot.n_bodies, dtype=np.int64)
    reach = np.zeros(robot.n_bodies)
    for i, parent in enumerate(robot.parent):
        above = (depth[parent], reach[parent]) if parent >= 0 else (-1, 0.0)
        depth[i], reach[i] = above[0] + 1, above[1] + float(np.linalg.norm(origins[i]))
    whole = float(reach.max()) or _NO_REACH
    names = ("base", *robot.body_names)
    made = []
    for body in range(-1, robot.n_bodies):
        share = max(int(depth[body]), 0) / max(int(depth.max()), 1) if body >= 0 else 0.0
        radius = whole * (THICK + (SLIM - THICK) * share)
        parts = [
            between(np.zeros(3), origins[child], radius)
            for child in np.flatnonzero(robot.parent == body)
            if np.linalg.norm(origins[child]) > radius
        ]
        if body >= 0:
            points, faces = cylinder(1.15 * radius, 2.6 * radius)
            parts.append((points @ along(robot.axis[body]).T, faces))
        made += [Surface(body, names[body + 1], "capsule", *part) for part in parts]
    return tuple(made)


def _has_mass(robot: RobotModel, body: int) -> bool:
    return body >= 0 and bool(robot.inertia_prior[body, 0] != 0.0)


def _read(wanted: Sequence[DescribedShape], unread: dict[str, str]) -> list[Surface]:
    # All shapes of a link or none: half a link would deceive.
    made = []
    for one in wanted:
        try:
            surface = surface_of(one.read())
            size = float(np.ptp(surface.vertices, axis=0).max(initial=0.0))
            if not (len(surface.triangles) and size <= LONGEST):
                raise InputError("shape", found=f"a shape {size:.3g} m long", expected=f"up to {LONGEST:g} m")
        except DynidError as error:
            unread.setdefault(one.link, str(error))
            return []
        made.append(surface)
    return made
