"""Triangles of one shape, and those of simple solids."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int, locked, locked_int
from dynid.base.records import dataclass
from dynid.robot.shapes import Shape

ROUND = 24  # sides of what is round: smooth at the size of a screen, and few triangles
_DISCS = 6  # rings between equator and pole


@dataclass(frozen=True, eq=False)
class Surface:
    """Triangles in the joint frame of a body.

    body: index of the body that carries it, -1 = the base.    link: the link's own name in the description.
    vertices: (V, 3), m.    triangles: (T, 3) indices of vertices.
    kind: "mesh", "solid", "capsule" (derived) or "obstacle".
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
    """The surface of a shape.    kind: "" = mesh or solid, whichever it is.    parts: of the sides of a box."""
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
    said = kind or ("mesh" if shape.kind == "mesh" else "solid")
    return Surface(shape.body, shape.link, said, placed, triangles)


def box(half: Float, parts: int = 1) -> tuple[Float, Int]:
    """A box with half sizes (3,), each side of parts x parts squares: 12 parts^2 triangles.

    Large boxes need parts: what reaches behind the eye is left out triangle by triangle.
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
    """A closed cylinder along z about its middle."""
    h = 0.5 * length
    return _revolved(np.array([[0.0, -h], [radius, -h], [radius, h], [0.0, h]]))


def capsule(radius: float, length: float) -> tuple[Float, Int]:
    """A capsule along z; length: between the centres of its ends; 0 makes a ball."""
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
    """A capsule round the segment from start to end, m."""
    way = np.asarray(end, dtype=np.float64) - start
    length = float(np.linalg.norm(way))
    vertices, triangles = capsule(radius, length)
    return vertices @ along(way).T + 0.5 * (np.asarray(start) + end), triangles


def along(direction: Float) -> Float:
    """A rotation (3, 3) that turns z to a direction; the identity for none."""
    length = float(np.linalg.norm(direction))
    if length == 0.0:
        return np.eye(3)
    z = direction / length
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def _revolved(profile: Float) -> tuple[Float, Int]:
    # A profile (k, 2) of radius and height, turned about z; its ends close on the axis.
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
