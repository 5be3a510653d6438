"""Solids as convex parts, each with a small capsule round it."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.robot.shapes import Shape

DIRECTIONS, ROUNDS = 40, 60
_THIN = 1e-4
# A mesh is cut while a cut takes so much off the volume of its parts' hulls, into so many parts at most.
LEAST_GAIN, MOST_PARTS = 0.04, 6
CUTS = (0.3, 0.5, 0.7)


def convex_parts(shape: Shape) -> list[Float]:
    """Points (V, 3) in the joint frame, a set for each part: their convex hulls together hold the solid.

    A mesh is cut across by planes along the axes of its extent, each time by the one that leaves the least volume in
    the hulls; every triangle that a plane crosses is cut there, so that no part of the surface is lost.
    """
    if shape.kind != "mesh":
        return [shape.corners()]
    corners = shape.vertices @ shape.frame[:3, :3].T + shape.frame[:3, 3]
    soups = [corners[shape.triangles]]
    whole = _volume(soups[0])
    while len(soups) < MOST_PARTS and whole > 0:
        cuts = [(gain, i, pair) for i, soup in enumerate(soups) for gain, pair in _cuts(soup)]
        if not cuts:
            break
        gain, i, pair = max(cuts, key=lambda cut: cut[0])
        if gain < LEAST_GAIN * whole:
            break
        soups[i : i + 1] = pair
    return [_outermost(soup.reshape(-1, 3)) for soup in soups]


def _cuts(soup: Float) -> list[tuple[float, tuple[Float, Float]]]:
    # Volume gained by each plane across a soup of triangles (F, 3, 3), and the two soups that it leaves.
    points = soup.reshape(-1, 3)
    axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]
    before, found = _volume(soup), []
    for axis in axes:
        along = points @ axis
        low, high = float(along.min()), float(along.max())
        for share in CUTS:
            pair = _clipped(soup, axis, low + share * (high - low))
            if all(len(one) for one in pair):
                found.append((before - sum(_volume(one) for one in pair), pair))
    return found


def _clipped(soup: Float, axis: Float, offset: float) -> tuple[Float, Float]:
    height = soup @ axis - offset
    below, above = (height <= 0).all(axis=1), (height >= 0).all(axis=1)
    crossed = ~(below | above)
    T, h = soup[crossed], height[crossed]
    # The corner that is alone on its side first; the plane cuts both edges that meet there.
    alone = np.argmax((h > 0) == ((h > 0).sum(axis=1) == 1)[:, None], axis=1)
    turn = (alone[:, None] + np.arange(3)) % 3
    rows = np.arange(len(T))[:, None]
    T, h = T[rows, turn], h[rows, turn]
    ab, ac = (T[:, 0] + (T[:, k] - T[:, 0]) * (h[:, :1] / (h[:, :1] - h[:, k : k + 1])) for k in (1, 2))
    tip = np.stack([T[:, 0], ab, ac], axis=1)
    rest = np.concatenate([np.stack([ab, T[:, 1], T[:, 2]], axis=1), np.stack([ab, T[:, 2], ac], axis=1)])
    tip_above = h[:, 0] > 0
    twice = np.concatenate([tip_above, tip_above])
    return (
        np.concatenate([soup[below], tip[~tip_above], rest[twice]]),
        np.concatenate([soup[above & ~below], tip[tip_above], rest[~twice]]),
    )


def _volume(soup: Float) -> float:
    from scipy.spatial import ConvexHull, QhullError

    try:
        return float(ConvexHull(soup.reshape(-1, 3)).volume)
    except (QhullError, ValueError):
        return 0.0


def enclosing(vertices: Float) -> tuple[Float, Float, float]:
    """Ends and radius of a small capsule round points (V, 3): the best of several directions.

    The radius is that of the circle round the points seen along the direction; the segment is as short as it can be.
    Source: Badoiu and Clarkson 2003 (the circle).
    """
    points = _outermost(np.asarray(vertices, dtype=np.float64))
    if not len(points):
        raise UsageError("mesh", found="no vertex", expected="points")
    Vt = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]
    tries = np.concatenate([Vt, np.eye(3), np.random.default_rng(0).normal(size=(DIRECTIONS, 3))])
    U = tries / np.linalg.norm(tries, axis=1)[:, None]
    start, end, radius = _along(points, U)
    length = np.linalg.norm(end - start, axis=1)
    best = int((np.pi * radius**2 * (length + 4.0 / 3.0 * radius)).argmin())
    return start[best], end[best], max(float(radius[best]), _THIN)


def _outermost(vertices: Float) -> Float:
    from scipy.spatial import ConvexHull, QhullError

    points = np.unique(vertices, axis=0)
    try:
        return np.asarray(points[ConvexHull(points).vertices])
    except QhullError:
        return points  # flat or too few, where no hull is needed


def _along(points: Float, U: Float) -> tuple[Float, Float, Float]:
    # Ends (D, 3) and radii (D,) of the capsules along directions (D, 3).
    x = points @ U.T
    across = points[None] - x.T[:, :, None] * U[:, None]
    centre = across.mean(axis=1)
    rows = np.arange(len(U))
    for k in range(1, ROUNDS):
        gap = across - centre[:, None]
        far = (gap**2).sum(axis=2).argmax(axis=1)
        centre = centre + gap[rows, far] / (k + 1)
    distance = np.linalg.norm(across - centre[:, None], axis=2)
    radius = distance.max(axis=1)
    cap = np.sqrt(np.maximum(radius[:, None] ** 2 - distance**2, 0.0)).T
    low, high = (x + cap).min(axis=0), (x - cap).max(axis=0)
    middle, ball = 0.5 * (low + high), low > high
    low, high = np.where(ball, middle, low), np.where(ball, middle, high)
    # One ball holds all only if it reaches the farthest point from the centre just chosen.
    reach = np.linalg.norm(points[None] - (centre + low[:, None] * U)[:, None], axis=2).max(axis=1)
    return centre + low[:, None] * U, centre + high[:, None] * U, np.where(ball, reach, radius)
