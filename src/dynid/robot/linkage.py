"""Four-bar linkages between a motor and its joint: a transmission whose ratio depends on the position."""

from __future__ import annotations

import math

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass


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
        """Crank angle phi(q), of any shape, rad; raises UnfitDataError where the bars do not reach each other."""
        return self._turned(q, self._crank_angle(q))

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
        """The inverse, q(phi), from the triangle at the joint; raises UnfitDataError where there is none."""
        a = phi + float(self._crank_angle(np.zeros(1))[0])
        x, y = self.crank * np.cos(a) - self.ground, self.crank * np.sin(a)
        distance = np.hypot(x, y)
        with np.errstate(invalid="ignore"):
            opening = np.arccos(
                (self.rocker**2 + distance**2 - self.coupler**2) / (2 * self.rocker * distance)
            )
        best, far = np.full(np.shape(phi), np.nan), np.full(np.shape(phi), np.inf)
        # The bars close in two ways; where both have this crank angle, the joint turned about as far as the crank.
        for side in (1.0, -1.0):
            q = phi + _wrapped(np.arctan2(y, x) + side * opening - self.zero - phi)
            with np.errstate(invalid="ignore"):
                found = np.abs(self._turned(q, self._closed(q)) - phi) < 1e-6
            better = found & (np.abs(q - phi) < far)
            best, far = np.where(better, q, best), np.where(better, np.abs(q - phi), far)
        self._refuse(phi, np.isnan(best), "phi")
        return best

    def _turned(self, q: Float, crank: Float) -> Float:
        start = float(self._crank_angle(np.zeros(1))[0])
        return np.asarray(q + _wrapped(crank - q - start))

    def _crank_angle(self, q: Float) -> Float:
        found = self._closed(q)
        self._refuse(q, np.isnan(found), "q")
        return found

    def _closed(self, q: Float) -> Float:
        # The crank's angle, nan where the bars are apart.
        b = q + self.zero
        x, y = self.ground + self.rocker * np.cos(b), self.rocker * np.sin(b)
        distance = np.hypot(x, y)
        side = math.copysign(1.0, math.sin(self.zero)) * (-1.0 if self.crossed else 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (self.crank**2 + distance**2 - self.coupler**2) / (2 * self.crank * distance)
            return np.asarray(np.arctan2(y, x) + side * np.arccos(cosine))

    def _refuse(self, given: Float, apart: Bool, symbol: str) -> None:
        apart = apart & np.isfinite(given)
        if apart.any():
            raise UnfitDataError(
                "linkage-apart",
                found=f"a four-bar linkage that does not close at {symbol} = {float(given[apart].flat[0]):.4g} rad",
                expected="positions that the bars can reach",
                do="check the bars' lengths, `zero`, and the offset and unit of the position",
            )


def _wrapped(angle: Float) -> Float:
    return np.asarray(np.remainder(angle + np.pi, 2 * np.pi) - np.pi)
