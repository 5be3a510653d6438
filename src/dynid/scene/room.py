"""The bounds of a room as lines: each half-space's plane, as far as the other half-spaces leave it."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.scene.surface import along


def outlines(normals: Float, offsets: Float, centre: Float, half: float) -> Float:
    """Lines (L, 6) round the planes normal . x = offset, from end to end, m.

    normals: (H, 3) unit vectors out of the room.    offsets: (H,).
    centre: (3,) and half: of a cube in the base frame beyond which nothing is drawn.
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
