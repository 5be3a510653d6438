"""Triangle surfaces of shapes and simple solids, their simplification, and the surfaces of a robot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int, locked, locked_int
from dynid.base.errors import DynidError, InputError
from dynid.base.records import dataclass
from dynid.robot.meshes import LONGEST
from dynid.robot.model import RobotModel
from dynid.robot.shapes import DescribedShape, Geometry, Shape, by_link, described_shapes

ROUND = 24  # sides of a circle: looks smooth on a screen with few triangles
_DISCS = 6  # rings of a sphere between equator and pole


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles in the joint frame of a body.

    Parameters
    ----------
    body : int
        Body that carries the surface; -1 = base.
    link : str
        Name of the link in the robot file.
    kind : str
        "mesh", "solid", "capsule" (derived from the joints) or "obstacle".
    vertices : ndarray, shape (V, 3), m
    triangles : ndarray, shape (T, 3)
        Indices of vertices.

    """

    body: int
    link: str
    kind: str
    vertices: Float
    triangles: Int

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", locked(self.vertices, (None, 3), "vertices"))
        object.__setattr__(self, "triangles", locked_int(self.triangles, (None, 3), "triangles"))


def surface_of(shape: Shape, kind: str = "", parts: int = 1) -> Surface:
    """Convert a shape to triangles.

    Parameters
    ----------
    shape : Shape
        The shape.
    kind : str
        Kind of the surface; "" = "mesh" or "solid".
    parts : int
        Squares along each side of a box.

    Returns
    -------
    Surface

    """
    if shape.kind == "mesh":
        vertices, triangles = shape.vertices, shape.triangles
    elif shape.kind == "box":
        vertices, triangles = box(0.5 * np.array(shape.size), parts)
    elif shape.kind == "ellipsoid":
        vertices, triangles = ellipsoid(np.array(shape.size))
    elif shape.kind == "cylinder":
        vertices, triangles = cylinder(*shape.size)
    else:
        vertices, triangles = capsule(*shape.size) if shape.kind == "capsule" else capsule(shape.size[0], 0.0)
    placed = vertices @ shape.frame[:3, :3].T + shape.frame[:3, 3]
    surface_kind = kind or ("mesh" if shape.kind == "mesh" else "solid")
    return Surface(shape.body, shape.link, surface_kind, placed, triangles)


def box(half: Float, parts: int = 1) -> tuple[Float, Int]:
    """A box with half sides (3,), each face with parts x parts squares: 12 parts^2 triangles.

    Large boxes need several parts, since each triangle that reaches behind the camera is left out.
    """
    u, v = (x.ravel() for x in np.meshgrid(*[np.linspace(-1.0, 1.0, parts + 1)] * 2, indexing="ij"))
    i, j = (x.ravel() for x in np.meshgrid(*[np.arange(parts)] * 2, indexing="ij"))
    a = i * (parts + 1) + j
    front = np.concatenate(
        [np.stack([a, a + parts + 1, a + parts + 2], 1), np.stack([a, a + parts + 2, a + 1], 1)]
    )
    sheets: list[Float] = []
    triangles: list[Int] = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            sheet = np.roll(np.column_stack([u, v, np.full(len(u), sign)]), axis + 1, axis=1)
            triangles.append((front if sign > 0 else front[:, ::-1]) + len(sheets) * len(u))
            sheets.append(sheet * half)
    return np.concatenate(sheets), np.concatenate(triangles)


def cylinder(radius: float, length: float) -> tuple[Float, Int]:
    """A closed cylinder along z, centred at the origin."""
    h = 0.5 * length
    return _revolved(np.array([[0.0, -h], [radius, -h], [radius, h], [0.0, h]]))


def capsule(radius: float, length: float) -> tuple[Float, Int]:
    """A capsule along z, centred at the origin; length: between the centres of its end caps, 0 = sphere."""
    angle = np.linspace(-0.5 * np.pi, 0.5 * np.pi, 2 * _DISCS + 1)
    rise = np.where(angle <= 0.0, -0.5 * length, 0.5 * length)
    profile = np.column_stack([radius * np.cos(angle), radius * np.sin(angle) + rise])
    middle = np.array([[radius, 0.5 * length]])
    return _revolved(np.concatenate([profile[: _DISCS + 1], middle, profile[_DISCS + 1 :]]))


def ellipsoid(half: Float) -> tuple[Float, Int]:
    """An ellipsoid with half axes (3,)."""
    vertices, triangles = capsule(1.0, 0.0)
    return vertices * half, triangles


def between(start: Float, end: Float, radius: float) -> tuple[Float, Int]:
    """A capsule around the segment from start to end, m."""
    way = np.asarray(end, dtype=np.float64) - start
    length = float(np.linalg.norm(way))
    vertices, triangles = capsule(radius, length)
    return vertices @ along(way).T + 0.5 * (np.asarray(start) + end), triangles


def along(direction: Float) -> Float:
    """A rotation (3, 3) from z to a direction; the identity for a zero vector."""
    length = float(np.linalg.norm(direction))
    if length == 0.0:
        return np.eye(3)
    z = direction / length
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def _revolved(profile: Float) -> tuple[Float, Int]:
    # Surface of revolution of a profile (k, 2) of radius and height about z; its ends are on the axis.
    turn = 2.0 * np.pi * np.arange(ROUND) / ROUND
    rings = np.stack(
        [
            np.outer(profile[:, 0], np.cos(turn)),
            np.outer(profile[:, 0], np.sin(turn)),
            np.outer(profile[:, 1], np.ones(ROUND)),
        ],
        axis=-1,
    )
    k, i = np.meshgrid(np.arange(len(profile) - 1), np.arange(ROUND), indexing="ij")
    a, b = k * ROUND + i, k * ROUND + (i + 1) % ROUND
    triangles = np.stack([np.stack([a, b, b + ROUND], -1), np.stack([a, b + ROUND, a + ROUND], -1)], 2)
    vertices, faces = rings.reshape(-1, 3), triangles.reshape(-1, 3)
    p, q, r = (vertices[faces[:, c]] for c in range(3))
    solid = np.linalg.norm(np.cross(q - p, r - p), axis=1) > 1e-12 * max(float(np.ptp(vertices)), 1e-9) ** 2
    return vertices, faces[solid]


# Simplification: the vertices of a grid cell are merged at the point with the least distance to the planes around it.
#
# Source: Lindstrom, Out-of-core simplification of large polygonal models, SIGGRAPH 2000.

# Bytes of a vertex and of a triangle in a page: three numbers of 16 bits each.
VERTEX_BYTES, TRIANGLE_BYTES = 6, 6
# Share of a shape's size below which vertices are merged, since STL repeats the corners of each triangle.
_SAME = 1e-5
# Growth of the cells until surfaces are small enough: a smaller factor takes more rounds, a larger one loses detail.
_GROWTH = 1.25
# Share of the greatest singular value below which a direction keeps the mean of the cell.
_FLAT = 1e-3


def simplified(surfaces: Sequence[Surface], most_bytes: int) -> tuple[Surface, ...]:
    """Simplify surfaces, with cells of the same size, to at most `most_bytes` of vertices and triangles in total."""
    welded = [_clustered(surface, _SAME * max(_size(surface), 1e-9), exact=True) for surface in surfaces]
    if size_of(welded) <= most_bytes:
        return tuple(welded)
    # A cell of side h contains about two triangles with the area h^2 / 2.
    most = max(most_bytes / (TRIANGLE_BYTES + 0.5 * VERTEX_BYTES), 12.0)
    cell = float(np.sqrt(sum(_area(surface) for surface in welded) / most))
    while True:
        clustered = [_clustered(surface, min(cell, 0.5 * _size(surface))) for surface in welded]
        if size_of(clustered) <= most_bytes or cell > max(map(_size, welded)):
            return tuple(clustered)
        cell *= _GROWTH


def size_of(surfaces: Sequence[Surface]) -> int:
    """Bytes of all vertices and triangles in a page."""
    return sum(
        VERTEX_BYTES * len(surface.vertices) + TRIANGLE_BYTES * len(surface.triangles) for surface in surfaces
    )


def _size(surface: Surface) -> float:
    return float(np.ptp(surface.vertices, axis=0).max()) if len(surface.vertices) else 0.0


def _area(surface: Surface) -> float:
    return float(0.5 * np.linalg.norm(_crosses(surface.vertices, surface.triangles), axis=1).sum())


def _crosses(vertices: Float, triangles: Int) -> Float:
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    return np.cross(b - a, c - a)


def _clustered(surface: Surface, cell: float, exact: bool = False) -> Surface:
    vertices, triangles = surface.vertices, surface.triangles
    if not len(triangles):
        return replace(surface, vertices=np.zeros((0, 3)))
    low = vertices.min(axis=0)
    index = np.floor((vertices - low) / cell).astype(np.int64)
    counts = index.max(axis=0) + 1
    key = (index[:, 0] * counts[1] + index[:, 1]) * counts[2] + index[:, 2]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    faces = group[triangles]
    kept = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    points = vertices[first] if exact else _best(vertices, triangles, group, len(first), cell)
    faces = _distinct(faces[kept], len(first))
    used, renamed = np.unique(faces, return_inverse=True)
    return replace(surface, vertices=points[used], triangles=renamed.reshape(-1, 3))


def _distinct(faces: Int, count: int) -> Int:
    # Remove duplicate triangles, whatever their orientation.
    a, b, c = np.sort(faces, axis=1).T
    _, first = np.unique((a * count + b) * count + c, return_index=True)
    return faces[np.sort(first)]


def _best(vertices: Float, triangles: Int, group: Int, count: int, cell: float) -> Float:
    # For each cell, the point x that minimises sum (n.x - d)^2 area^2 over its triangles, relative to the mean of its
    # vertices.
    crosses = _crosses(vertices, triangles)
    sums = np.stack([np.bincount(group, vertices[:, k], count) for k in range(3)], 1)
    centre = sums / np.bincount(group, minlength=count)[:, None]
    A, b = np.zeros((count, 3, 3)), np.zeros((count, 3))
    for corner in range(3):
        at = group[triangles[:, corner]]
        offset = np.einsum("ti,ti->t", crosses, vertices[triangles[:, corner]] - centre[at])
        for i in range(3):
            b[:, i] += np.bincount(at, crosses[:, i] * offset, count)
            for j in range(3):
                A[:, i, j] += np.bincount(at, crosses[:, i] * crosses[:, j], count)
    moved = np.einsum("kij,kj->ki", np.linalg.pinv(A, rcond=_FLAT, hermitian=True), b)
    far = np.linalg.norm(moved, axis=1) > cell
    moved[far] = 0.0
    return np.asarray(centre + moved)


# Bounds of a room as lines: the plane of each half-space, clipped by the other half-spaces.


def outlines(normals: Float, offsets: Float, centre: Float, half: float) -> Float:
    """Outlines of the planes normal . x = offset that bound a room.

    Parameters
    ----------
    normals : ndarray, shape (H, 3)
        Unit vectors that point out of the room.
    offsets : ndarray, shape (H,), m
        Distances of the planes from the origin.
    centre : ndarray, shape (3,), m
        Centre of a cube in the base frame that limits the drawing.
    half : float, m
        Half its side.

    Returns
    -------
    ndarray, shape (L, 6), m
        End points of lines.

    """
    sides = np.concatenate([np.eye(3), -np.eye(3)])
    walls = np.concatenate([normals, sides])
    bounds = np.concatenate([offsets, sides @ centre + half])
    lines = [np.zeros((0, 6))]
    for h, (normal, offset) in enumerate(zip(normals, offsets, strict=True)):
        x, y = along(normal).T[:2]
        foot = centre + (offset - centre @ normal) * normal
        # Half a diagonal of the cube reaches every point of it.
        polygon = foot + 2.0 * half * np.array(
            [a * x + b * y for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
        )
        for k, (other, bound) in enumerate(zip(walls, bounds, strict=True)):
            if k != h and len(polygon):
                polygon = _clipped(polygon, other, float(bound))
        lines.append(np.concatenate([polygon, np.roll(polygon, -1, axis=0)], axis=1))
    return np.concatenate(lines)


def _clipped(polygon: Float, normal: Float, bound: float) -> Float:
    # The part of a convex polygon with normal . x <= bound (Sutherland and Hodgman 1974).
    beyond = polygon @ normal - bound
    kept: list[Float] = []
    for k, point in enumerate(polygon):
        before, depth = polygon[k - 1], beyond[k - 1]
        if (beyond[k] > 0.0) != (depth > 0.0):
            kept.append(before + depth / (depth - beyond[k]) * (point - before))
        if beyond[k] <= 0.0:
            kept.append(point)
    return np.reshape(kept, (-1, 3))


# Shapes in the robot file as surfaces, or capsules between the joints.

# Radius of capsules, as a share of the robot's reach, at the base and at the tip (appearance only).
THICK, SLIM = 0.055, 0.03
# m: reach of a robot whose joints coincide.
_NO_REACH = 0.3


@dataclass(frozen=True, eq=False)
class Shapes:
    """Surfaces of a robot.

    Parameters
    ----------
    surfaces : tuple of Surface
        In the joint frames of the bodies.
    unread : dict of str to str
        By link, why its shapes could not be read.

    """

    surfaces: tuple[Surface, ...]
    unread: dict[str, str]


def shapes_of(robot: RobotModel, geometry: Geometry = "visual") -> Shapes:
    """Surfaces of all bodies of a robot and of its base.

    A link without readable shapes of the preferred geometry gets shapes of the other geometry, or capsules between its
    joints.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    geometry : {"visual", "collision"}
        Preferred shapes, if a link has both.

    Returns
    -------
    Shapes

    """
    unread: dict[str, str] = {}
    try:
        described = [candidate for candidate in described_shapes(robot) if not candidate.scenery]
    except DynidError as error:
        described, unread["robot"] = [], str(error)
    other: Geometry = "collision" if geometry == "visual" else "visual"
    surfaces: list[Surface] = []
    for link_shapes in by_link(described).values():
        for kind in (geometry, other):
            made = _read([candidate for candidate in link_shapes if candidate.geometry == kind], unread)
            if made:
                surfaces += made
                break
    drawn = {candidate.body for candidate in surfaces}
    lost = {candidate.body for candidate in described}
    # Where other bodies have shapes, a body without any shape and mass is only a frame: no capsule is drawn for it.
    surfaces += [
        candidate
        for candidate in capsules_of(robot)
        if candidate.body not in drawn
        and (not drawn or candidate.body in lost or _has_mass(robot, candidate.body))
    ]
    return Shapes(tuple(surfaces), unread)


def capsules_of(robot: RobotModel) -> tuple[Surface, ...]:
    """Capsules from each joint to its child joints, and a short cylinder about each axis."""
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
    # All shapes of a link or none, since a part of a link would mislead.
    made = []
    for described in wanted:
        try:
            surface = surface_of(described.read())
            size = float(np.ptp(surface.vertices, axis=0).max(initial=0.0))
            if not (len(surface.triangles) and size <= LONGEST):
                raise InputError("shape", found=f"a shape {size:.3g} m long", expected=f"up to {LONGEST:g} m")
        except DynidError as error:
            unread.setdefault(described.link, str(error))
            return []
        made.append(surface)
    return made
