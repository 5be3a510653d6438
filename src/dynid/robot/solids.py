"""Points whose convex hull holds a simple solid about its own frame, with as little more as few points allow."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float

_ROUND = 12


def box_points(half: Float) -> Float:
    """Corners (8, 3) of a box with half sizes (3,)."""
    return np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]) * half


def ball_points(radius: float) -> Float:
    """Points (128, 3) around a ball."""
    # The hull of these directions holds a ball of 0.97 times their length.
    n = spread_directions(64)
    return 1.03 * radius * np.concatenate([n, -n])


def cylinder_points(radius: float, length: float) -> Float:
    """Two polygons (24, 3) around the circles of a cylinder along z."""
    turn = 2 * np.pi * np.arange(_ROUND) / _ROUND
    out = radius / np.cos(np.pi / _ROUND)
    circle = np.column_stack([out * np.cos(turn), out * np.sin(turn), np.zeros(_ROUND)])
    return along(circle, length)


def capsule_points(radius: float, length: float) -> Float:
    """Points (256, 3) around a capsule along z; length: between the centres of its ends."""
    return along(ball_points(radius), length)


def along(points: Float, length: float) -> Float:
    """The points half a length up and half a length down the z axis."""
    up = np.array([0.0, 0.0, length / 2])
    return np.concatenate([points + up, points - up])


def spread_directions(count: int) -> Float:
    """Unit vectors (count, 3) spread evenly over half of the sphere, along a Fibonacci spiral."""
    k = np.arange(count) + 0.5
    z = k / count
    turn = np.pi * (1.0 + np.sqrt(5.0)) * k
    radius = np.sqrt(1.0 - z**2)
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn), z])
