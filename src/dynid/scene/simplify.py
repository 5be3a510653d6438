"""Fewer triangles: vertices of one cell become one, at the point that keeps the planes round it best.

Source: Lindstrom, Out-of-core simplification of large polygonal models, SIGGRAPH 2000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.scene.surface import Surface

# Bytes of a vertex and of a triangle as pages hold them: three numbers of 16 bits each.
VERTEX_BYTES, TRIANGLE_BYTES = 6, 6
# Vertices nearer than this share of a shape's size are one: STL writes each corner of each triangle.
_SAME = 1e-5
_GROWTH = 1.25
# Singular values below this share of the greatest leave a vertex where the mean of its cell is.
_FLAT = 1e-3


def simplified(surfaces: Sequence[Surface], most_bytes: int) -> tuple[Surface, ...]:
    """The surfaces with at most `most_bytes` of vertices and triangles in all, with one size of cells for all."""
    welded = [_clustered(one, _SAME * max(_size(one), 1e-9), exact=True) for one in surfaces]
    if size_of(welded) <= most_bytes:
        return tuple(welded)
    # A cell of side h holds about two triangles of h^2 / 2 of the surface's area.
    most = max(most_bytes / (TRIANGLE_BYTES + 0.5 * VERTEX_BYTES), 12.0)
    cell = float(np.sqrt(sum(_area(one) for one in welded) / most))
    while True:
        found = [_clustered(one, min(cell, 0.5 * _size(one))) for one in welded]
        if size_of(found) <= most_bytes or cell > max(map(_size, welded)):
            return tuple(found)
        cell *= _GROWTH


def size_of(surfaces: Sequence[Surface]) -> int:
    """Bytes of all vertices and triangles as pages hold them."""
    return sum(VERTEX_BYTES * len(one.vertices) + TRIANGLE_BYTES * len(one.triangles) for one in surfaces)


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
    # A triangle that stands twice, whichever way round, is drawn once.
    a, b, c = np.sort(faces, axis=1).T
    _, first = np.unique((a * count + b) * count + c, return_index=True)
    return faces[np.sort(first)]


def _best(vertices: Float, triangles: Int, group: Int, count: int, cell: float) -> Float:
    # By cell the point x that minimises sum (n.x - d)^2 area^2 over its triangles, about the mean of its vertices.
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
