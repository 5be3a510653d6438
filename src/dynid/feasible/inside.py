"""A body whose mass lies in a convex shape: what that says of its ten parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.feasible.bodies import TRIANGLE
from dynid.feasible.cones import triangle
from dynid.feasible.constraints import CentreHalfSpaces, Condition, ten_of, window
from dynid.robot.solids import spread_directions
from dynid.terms.term import Column

_SLABS = 32


@dataclass(frozen=True)
class InsideHull:
    """A body made of positive mass inside the convex hull of points (k, 3) of its joint frame, m.

    The centre of mass lies in the hull. Along each of 35 directions n, with low <= n x <= high in the hull,
    integral (n x - low)(high - n x) dm >= 0: with the pseudo-inertia positive, just what makes mass, mean and spread
    along n possible between low and high. And the body lies in the smallest ellipsoid around the points.
    These are linear in the parameters and hold for every such body; they do not quite exclude all others.
    Source: Wensing, Kim and Slotine 2018, section IV; moments on an interval: Schmuedgen 2017, theorem 10.1.
    """

    body: int
    points: tuple[tuple[float, float, float], ...]

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """Half-spaces of the centre of mass, slabs and one ellipsoid."""
        ten = ten_of(columns, self.body)
        points = np.array(self.points, dtype=np.float64)
        found = list(CentreHalfSpaces.hull(self.body, points).conditions(columns, spread))
        for normal in np.concatenate([np.eye(3), spread_directions(_SLABS)]):
            low, high = float((points @ normal).min()), float((points @ normal).max())
            # In units of the slab's half width squared, so that all weigh alike.
            Q = slab(normal, low, high) / ((high - low) / 2) ** 2
            name = f"body {self.body} in its hull along ({', '.join(f'{x:.2g}' for x in normal)})"
            found += _moment(name, Q, ten, columns, spread)
        A, centre = _ellipsoid(self.points)
        Q = np.zeros((4, 4))
        Q[:3, :3], Q[:3, 3], Q[3, :3], Q[3, 3] = -A, A @ centre, A @ centre, 1.0 - centre @ A @ centre
        return [
            *found,
            *_moment(f"body {self.body} in the ellipsoid around its hull", Q, ten, columns, spread),
        ]


def slab(normal: Float, low: float, high: float) -> Float:
    """Q (4, 4) with (n x - low)(high - n x) = [x; 1]' Q [x; 1]."""
    Q = np.zeros((4, 4))
    Q[:3, :3] = -np.outer(normal, normal)
    Q[:3, 3] = Q[3, :3] = (low + high) / 2 * np.asarray(normal)
    Q[3, 3] = -low * high
    return Q


def smallest_ellipsoid(points: Float, tolerance: float = 1e-2) -> tuple[Float, Float]:
    """A (3, 3) and c (3,) of the ellipsoid (x - c)' A (x - c) <= 1 of least volume around points (k, 3).

    Close to it by `tolerance`; every point is inside.    Source: Khachiyan 1996; Todd and Yildirim 2007.
    """
    k, d = points.shape
    lifted = np.column_stack([points, np.ones(k)]).T
    u = np.full(k, 1.0 / k)
    for _ in range(100_000):
        M = np.einsum("ik,ik->k", lifted, np.linalg.solve((lifted * u) @ lifted.T, lifted))
        j = int(np.argmax(M))
        excess = float(M[j]) / (d + 1) - 1.0
        if excess < tolerance:
            break
        step = (float(M[j]) - d - 1.0) / ((d + 1) * (float(M[j]) - 1.0))
        u *= 1.0 - step
        u[j] += step
    centre = points.T @ u
    A = np.linalg.inv((points.T * u) @ points - np.outer(centre, centre)) / d
    away = points - centre
    return np.asarray(A / np.einsum("ki,ij,kj->k", away, A, away).max()), np.asarray(centre)


@lru_cache(maxsize=256)
def _ellipsoid(points: tuple[tuple[float, float, float], ...]) -> tuple[Float, Float]:
    # One fit asks for the same few ellipsoids many times.
    A, centre = smallest_ellipsoid(np.array(points, dtype=np.float64))
    A.setflags(write=False)
    centre.setflags(write=False)
    return A, centre


def _moment(name: str, Q: Float, ten: Int, columns: tuple[Column, ...], spread: Float) -> list[Condition]:
    # tr(P Q) >= 0.
    row = np.zeros(len(columns))
    row[ten] = triangle(Q) @ TRIANGLE
    return window(name, row, 0.0, np.inf, "kg", float(spread[ten[0]]))
