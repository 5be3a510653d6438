"""Capsules round the collision shapes of a URDF: boxes, cylinders, spheres and meshes, each enclosed as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, UsageError
from dynid.excitation.capsules import Capsule, Capsules, keep_apart
from dynid.excitation.mesh import read_vertices
from dynid.robot.link_model import model_of_links
from dynid.robot.links import LinkJoint
from dynid.robot.locking import lock_joints
from dynid.robot.mesh_files import mesh_path
from dynid.robot.model import RobotModel
from dynid.robot.source import read_description
from dynid.robot.urdf import lint
from dynid.robot.xml import Element, numbers
from dynid.spatial.algebra import placement, rotation_rpy

DIRECTIONS, ROUNDS = 100, 60
_THIN = 1e-4


def shape_capsules(
    robot: RobotModel,
    path: Path,
    clearance: float = 0.0,
) -> Capsules:
    """A capsule round every collision shape of a URDF, and all pairs that must stay apart.

    path: what the robot was read from, and will be read again as it was.
    clearance: m that they are to keep.
    Shapes of links that fixed joints bolt to a body move with it; those of the base stand still.
    Raises UsageError for a file that is no URDF or has no collision shapes, InputError for a mesh that is missing or
    cannot be read, RefusedError for one outside its folder, ResourceError for a format that needs the package coal.
    """
    reading = robot.reading
    file = read_description(path, reading, Diagnostics())
    if file.tag != "robot":
        raise UsageError(
            "no-shapes",
            found=f"<{file.tag}> in '{path}'",
            expected="a URDF, whose links have collision shapes",
        )
    urdf = lint(file, path.parent, reading, Diagnostics())
    whole = model_of_links(urdf, str(path))
    held = {name: value for name, value in robot.locked.items() if name in whole.joint_names}
    places = lock_joints(whole, held) if held else None
    above = {joint.child: joint for joint in urdf.joints.values()}
    made: list[Capsule] = []
    for name, link in urdf.links.items():
        body, frame = _carried(whole, name, above)
        if places is not None and body >= 0:
            body, frame = int(places.carrier[body]), places.frames[body] @ frame
        for collision in link.element.all("collision"):
            shape = _shape(collision, path.parent, reading.packages)
            if shape is not None:
                start, end, radius = shape
                made.append(
                    Capsule(
                        body, frame[:3, :3] @ start + frame[:3, 3], frame[:3, :3] @ end + frame[:3, 3], radius
                    )
                )
    if not made:
        raise UsageError(
            "no-shapes",
            found=f"no collision shape in '{path}'",
            expected="<collision> elements",
            do="give radii",
        )
    return keep_apart(robot, made, clearance)


def enclosing(vertices: Float) -> tuple[Float, Float, float]:
    """Ends and radius of a small capsule round points (V, 3): the best of several directions.

    The radius is that of the circle round the points seen along the direction; the segment is as short as it can be.
    Source: Badoiu and Clarkson 2003 (the circle).
    """
    points = _outermost(np.asarray(vertices, dtype=np.float64))
    middle = points.mean(axis=0)
    _, _, Vt = np.linalg.svd(points - middle, full_matrices=False)
    rng = np.random.default_rng(0)
    tries = [*Vt, *np.eye(3), *rng.normal(size=(DIRECTIONS, 3))]
    best: tuple[float, Float, Float, float] | None = None
    for direction in tries:
        u = direction / np.linalg.norm(direction)
        start, end, radius = _along(points, u)
        volume = np.pi * radius**2 * (float(np.linalg.norm(end - start)) + 4.0 / 3.0 * radius)
        if best is None or volume < best[0]:
            best = (volume, start, end, radius)
    if best is None:
        raise UsageError("mesh", found="no vertex", expected="points")
    return best[1], best[2], max(best[3], _THIN)


def _outermost(vertices: Float) -> Float:
    points = np.unique(vertices, axis=0)
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:
        return points  # flat or too few, where no hull is needed


def _along(points: Float, u: Float) -> tuple[Float, Float, float]:
    x = points @ u
    across = points - np.outer(x, u)
    centre = across.mean(axis=0)
    for k in range(1, ROUNDS):
        gap = across - centre
        centre = centre + gap[int((gap**2).sum(axis=1).argmax())] / (k + 1)
    distance = np.linalg.norm(across - centre, axis=1)
    radius = float(distance.max())
    cap = np.sqrt(np.maximum(radius**2 - distance**2, 0.0))
    low, high = float((x + cap).min()), float((x - cap).max())
    if low > high:
        low = high = 0.5 * (low + high)
        # One ball holds all only if it reaches the farthest point from the centre just chosen.
        radius = float(np.linalg.norm(points - (centre + low * u), axis=1).max())
    return centre + low * u, centre + high * u, radius


def _carried(robot: RobotModel, link: str, above: dict[str, LinkJoint]) -> tuple[int, Float]:
    # The body that a link moves with (-1 = base), and the link's frame in it.
    frame = np.eye(4)
    while link in above and not above[link].moves:
        frame = above[link].placement @ frame
        link = above[link].parent
    return (robot.body_names.index(link) if link in robot.body_names else -1), frame


def _shape(collision: Element, folder: Path, packages: Sequence[str]) -> tuple[Float, Float, float] | None:
    geometry = collision.find("geometry")
    kind = geometry.children[0] if geometry is not None and geometry.children else None
    if kind is None:
        return None
    frame = np.eye(4)
    if (origin := collision.find("origin")) is not None:
        xyz, rpy = (_numbers(origin, name, 3, (0.0,) * 3) for name in ("xyz", "rpy"))
        frame = placement(rotation_rpy(rpy), xyz)
    start, end, radius = _own(kind, folder, packages)
    return frame[:3, :3] @ start + frame[:3, 3], frame[:3, :3] @ end + frame[:3, 3], radius


def _own(kind: Element, folder: Path, packages: Sequence[str]) -> tuple[Float, Float, float]:
    axis = np.array([0.0, 0.0, 1.0])
    if kind.tag in ("sphere", "cylinder", "capsule"):
        half = 0.0 if kind.tag == "sphere" else 0.5 * _numbers(kind, "length", 1)[0]
        return -half * axis, half * axis, max(float(_numbers(kind, "radius", 1)[0]), _THIN)
    if kind.tag == "box":
        size = 0.5 * _numbers(kind, "size", 3)
        return enclosing(np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * size)
    if kind.tag == "mesh":
        scale = _numbers(kind, "scale", 3, (1.0, 1.0, 1.0))
        return enclosing(read_vertices(_mesh_path(kind, folder, packages)) * scale)
    raise InputError(
        "shape", found=f"a <{kind.tag}>", expected="box, cylinder, sphere or mesh", place=kind.place
    )


def _mesh_path(kind: Element, folder: Path, packages: Sequence[str]) -> Path:
    path = mesh_path(kind.attributes.get("filename", ""), folder, kind.place, packages)
    if not path.exists():
        raise InputError(
            "mesh-missing",
            found="no such file",
            expected=f"the mesh '{path}'",
            do="put it there, or give radii",
            place=kind.place,
        )
    return path


def _numbers(element: Element, name: str, count: int, default: tuple[float, ...] | None = None) -> Float:
    if default is None and name not in element.attributes:
        raise InputError(
            "shape", found=f"a <{element.tag}> without {name}", expected=f"its {name}", place=element.place
        )
    errors: list[DynidError] = []
    found = numbers(element, name, count, errors, default or (0.0,) * count)
    if errors:
        raise errors[0]
    return np.array(found)
