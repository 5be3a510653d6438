"""Four-bar linkages between a motor and its joint: a transmission whose ratio depends on the position."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float
from dynid.errors import UnfitDataError, UsageError


@dataclass(frozen=True)
class FourBar:
    """A crank drives a joint through a coupler: the crank's angle phi as a function of the joint's position q.

    Seen along the joint axis: the crank turns about a point at the distance `ground` from the axis, the rocker
    is fixed to the joint's body and makes the angle b = q + zero with the line from that point to the axis.

        |g + r e(b) - c e(a)| = l,    phi(q) = q + (a - b) - (a - b at q = 0),    e(x) = (cos x, sin x)

    ground, crank, coupler, rocker: lengths g, c, l, r > 0 in m.    zero: rad, neither 0 nor pi, where the bars
    lie in line.    crossed: whether coupler and ground line cross.
    A parallelogram, g = l and c = r, has phi = q.

    Raises UsageError for lengths that are not positive, or bars in line or apart at q = 0.
    """

    ground: float
    crank: float
    coupler: float
    rocker: float
    zero: float = math.pi / 2
    crossed: bool = False

    def __post_init__(self) -> None:
        lengths = (self.ground, self.crank, self.coupler, self.rocker)
        if not all(math.isfinite(x) and x > 0 for x in lengths):
            raise UsageError("linkage", found=f"bars of {lengths} m", expected="four lengths > 0")
        if abs(math.sin(self.zero)) < 1e-6:
            raise UsageError(
                "linkage",
                found=f"zero = {self.zero:g} rad: bars in line",
                expected="an open linkage at q = 0",
            )
        self._crank_angle(np.zeros(1))

    def angle(self, q: Float) -> Float:
        """phi(q), of any shape, rad; raises UnfitDataError where the bars do not reach each other."""
        turned = self._crank_angle(q) - q
        start = float(self._crank_angle(np.zeros(1))[0])
        return np.asarray(q + np.remainder(turned - start + np.pi, 2 * np.pi) - np.pi)

    def slopes(self, q: Float) -> tuple[Float, Float]:
        """First and second derivative of phi, from the loop's velocity and acceleration."""
        a, b = self._crank_angle(q), q + self.zero
        c, r, g = self.crank, self.rocker, self.ground
        ux, uy = g + r * np.cos(b) - c * np.cos(a), r * np.sin(b) - c * np.sin(a)
        along_rocker = r * (uy * np.cos(b) - ux * np.sin(b))
        along_crank = c * (uy * np.cos(a) - ux * np.sin(a))
        first = along_rocker / along_crank
        # d/dq of u . (r e'(b) - c e'(a) phi') = 0.
        vx = -r * np.sin(b) + c * np.sin(a) * first
        vy = r * np.cos(b) - c * np.cos(a) * first
        turning = ux * (-r * np.cos(b) + c * np.cos(a) * first**2) + uy * (
            -r * np.sin(b) + c * np.sin(a) * first**2
        )
        return first, (vx**2 + vy**2 + turning) / along_crank

    def joint(self, phi: Float) -> Float:
        """The inverse, q(phi), by Newton's method from q = phi."""
        q = np.array(phi, dtype=np.float64)
        for _ in range(50):
            step = (self.angle(q) - phi) / self.slopes(q)[0]
            q = q - np.clip(step, -0.3, 0.3)
            if np.nanmax(np.abs(step), initial=0.0) < 1e-14:
                break
        return q

    def _crank_angle(self, q: Float) -> Float:
        b = q + self.zero
        x, y = self.ground + self.rocker * np.cos(b), self.rocker * np.sin(b)
        distance = np.hypot(x, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (self.crank**2 + distance**2 - self.coupler**2) / (2 * self.crank * distance)
        apart = ~(np.abs(cosine) <= 1.0) & np.isfinite(q)
        if apart.any():
            raise UnfitDataError(
                "linkage-apart",
                found=f"a four-bar linkage that does not close at q = {float(q[apart].flat[0]):.4g} rad",
                expected="positions that the bars can reach",
                do="check the bars' lengths, `zero`, and the offset and unit of the position",
            )
        side = math.copysign(1.0, math.sin(self.zero)) * (-1.0 if self.crossed else 1.0)
        return np.asarray(np.arctan2(y, x) + side * np.arccos(cosine))
