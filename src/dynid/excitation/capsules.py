"""Capsules and the distance between them."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass


@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` of the segment from `start` to `end`, m, in the joint frame of body (-1 = base)."""

    body: int
    start: Float
    end: Float
    radius: float

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, locked(getattr(self, name), (3,), name))
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise UsageError("capsule", found=f"radius {self.radius} m", expected="a positive one")


def segment_distance(a0: Float, a1: Float, b0: Float, b1: Float) -> tuple[Float, Float, Float, Float]:
    """Distance between segments and where it is met.

    a0, a1, b0, b1: (..., 3).    Returns distance (...), unit vector from b to a (..., 3), and the places s, t in [0, 1]
    along a and b. The least over the interior and the four ends against the other segment: exact, parallel or not.
    """
    u, v, w = a1 - a0, b1 - b0, a0 - b0
    uu, vv, uv = _dot(u, u), _dot(v, v), _dot(u, v)
    uw, vw = _dot(u, w), _dot(v, w)
    det = uu * vv - uv**2
    inner = np.clip(_over(uv * vw - vv * uw, det), 0.0, 1.0)
    zero, one = np.zeros_like(uu), np.ones_like(uu)
    tries = []
    for s in (inner, zero, one):
        tries.append((s, np.clip(_over(vw + s * uv, vv), 0.0, 1.0)))
    for t in (zero, one):
        tries.append((np.clip(_over(t * uv - uw, uu), 0.0, 1.0), t))
    S, T = np.stack([s for s, _ in tries]), np.stack([t for _, t in tries])
    gap = w + S[..., None] * u - T[..., None] * v
    best = np.argmin(_dot(gap, gap), axis=0)[None]
    s, t = np.take_along_axis(S, best, 0)[0], np.take_along_axis(T, best, 0)[0]
    between = w + s[..., None] * u - t[..., None] * v
    distance = np.sqrt(_dot(between, between))
    return distance, between / np.maximum(distance, 1e-12)[..., None], s, t


def _dot(a: Float, b: Float) -> Float:
    return np.asarray((a * b).sum(axis=-1))


def _over(a: Float, b: Float) -> Float:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 1e-14))
