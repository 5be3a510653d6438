"""Linkages between actuators and joints: smooth maps phi(q) of joint positions to actuator coordinates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass

# Steps from the reference to an actuator position, and Newton iterations at the last one: phi is smooth and monotonic
# within the reach of a linkage, so that a step of an eighth of the way stays on its branch.
_STEPS = 8
_ITERATIONS = 12
_HALVINGS = 30
_CLOSE = 1e-13  # rad or m: change of the joint position at which Newton's method has converged


class Linkage(ABC):
    """A linkage by which k actuators move k joints: a smooth map phi(q), whatever the mechanism is.

    Torque follows from virtual work, tau_joint = D' tau_actuator with D = dphi/dq. A kind is a frozen dataclass of
    plain numbers with `reference` and `closed`.

    Attributes
    ----------
    kind : str
        Name in run folders.
    noun : str
        Name in messages.

    """

    kind: str = ""
    noun: str = "linkage"

    @property
    @abstractmethod
    def reference(self) -> Float:
        """Joint positions (k,) at which the linkage closes, rad (m)."""

    @abstractmethod
    def closed(self, q: Float) -> tuple[Float, Float, Float]:
        """Map joint positions to actuator coordinates, with derivatives.

        Parameters
        ----------
        q : ndarray, shape (T, k), rad (m)
            Joint positions.

        Returns
        -------
        phi : ndarray, shape (T, k), rad (m)
            Actuator coordinates; nan where the linkage does not close.
        D : ndarray, shape (T, k, k)
            First derivatives dphi_a / dq_j.
        H : ndarray, shape (T, k, k, k)
            Second derivatives d^2 phi_a / dq_i dq_j.

        """

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, Any]) -> Linkage:
        """Linkage from the numbers of its fields, as a run folder has them."""
        return cls(**{name: _tuples(value) for name, value in numbers.items()})

    @property
    def sliding(self) -> Bool:
        """Which actuators have a length instead of an angle as their coordinate, (k,)."""
        return np.zeros(self.size, dtype=np.bool_)

    @property
    def size(self) -> int:
        """Number of joints and of actuators."""
        return len(self.reference)

    def evaluate(self, q: Float) -> tuple[Float, Float, Float]:
        """Map as `closed` does; raises UnfitDataError where the linkage does not close."""
        values = _closed(self, np.asarray(q, dtype=np.float64).tobytes())
        self.refuse(q, np.asarray(np.isnan(values[0]).any(axis=1)), "q")
        return values

    def closes(self, q: Float) -> Bool:
        """Whether the linkage closes at joint positions (T, k), (T,)."""
        return np.asarray(np.isfinite(self.closed(q)[0]).all(axis=1))

    def within_reach(self, q: Float) -> Float:
        """Joint positions (T, k), moved towards the reference where the linkage does not close."""
        for _ in range(_HALVINGS):
            apart = ~self.closes(q)
            if not apart.any():
                break
            q = np.where(apart[:, None], 0.5 * (q + self.reference), q)
        return q

    def inverse(self, phi: Float) -> Float:
        """Joint positions (T, k) at actuator coordinates (T, k); raises UnfitDataError where it does not close."""
        first = self.closed(self.reference[None])[0]
        q = np.tile(self.reference, (len(phi), 1))
        with np.errstate(all="ignore"):
            for step in range(1, _STEPS + 1):
                target = first + (phi - first) * (step / _STEPS)
                for _ in range(_ITERATIONS if step == _STEPS else 2):
                    reached, D, _ = self.closed(q)
                    change = solved(D, target - reached)
                    q = q + change
                    if not np.abs(np.nan_to_num(change)).max(initial=0.0) > _CLOSE:
                        break
            reached = self.closed(q)[0]
        self.refuse(phi, np.asarray(~(np.abs(reached - phi) < 1e-6).all(axis=1)), "phi")
        return q

    def refuse(self, given: Float, apart: Bool, symbol: str) -> None:
        """Raise UnfitDataError if one of the finite positions (T, k) is among those where the linkage is apart."""
        apart = apart & np.isfinite(given).all(axis=1)
        if apart.any():
            place = ", ".join(f"{value:.3g}" for value in given[apart][0])
            raise UnfitDataError(
                "linkage-apart",
                found=f"a {self.noun} that does not close at {symbol} = {place} rad",
                expected="positions within its reach",
                do="check its lengths and angles, and the offset and unit of the position",
            )


# Friction, rotors, torque and speed of the motors ask for the map at the same positions in turn.
@lru_cache(maxsize=4)
def _closed(linkage: Linkage, positions: bytes) -> tuple[Float, Float, Float]:
    """Read-only map of joint positions as bytes, with derivatives."""
    values = linkage.closed(np.frombuffer(positions).reshape(-1, linkage.size))
    for value in values:
        value.flags.writeable = False
    return values


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def solved(matrices: Float, right: Float) -> Float:
    """Solutions (T, k) of matrices (T, k, k) x = right (T, k); nan for singular matrices."""
    if right.shape[1] == 1:
        return np.asarray(right / matrices[:, :, 0])
    regular = np.abs(np.linalg.det(matrices)) > 0.0
    safe = np.where(regular[:, None, None], matrices, np.eye(right.shape[1]))
    solutions = np.linalg.solve(safe, right[:, :, None])[:, :, 0]
    return np.where(regular[:, None], solutions, np.nan)


def groups_of(linkages: Sequence[Linkage | None]) -> list[tuple[list[int], Linkage]]:
    """Each linkage with the indices of its joints, from the linkage of each joint."""
    members: dict[int, tuple[list[int], Linkage]] = {}
    for joint, linkage in enumerate(linkages):
        if linkage is not None:
            members.setdefault(id(linkage), ([], linkage))[0].append(joint)
    return list(members.values())


@dataclass(frozen=True)
class FourBar(Linkage):
    """A four-bar linkage: a crank drives a joint through a coupler, with crank angle phi(q) at joint position q.

    Seen along the joint axis, the crank turns about a point at the distance `ground` from the axis. The rocker is
    fixed to the joint's link and makes the angle b = q + zero with the line from that point to the axis:

        |g + r e(b) - c e(a)| = l,    phi(q) = q + (a - b) - (a - b at q = at),    e(x) = (cos x, sin x)

    A parallelogram, g = l and c = r, has phi = q.

    Parameters
    ----------
    ground, crank, coupler, rocker : float, m
        Lengths g, c, l, r > 0.
    zero : float, rad
        Angle of the rocker at q = 0.
    crossed : bool
        Whether coupler and ground line cross.
    at : float, rad
        Joint position at which the crank angle equals it.

    Raises
    ------
    UsageError
        If a length is not positive, or the bars are collinear at `at`.
    UnfitDataError
        If the bars do not close at `at`.

    """

    ground: float
    crank: float
    coupler: float
    rocker: float
    zero: float = math.pi / 2
    crossed: bool = False
    at: float = 0.0
    kind = "four_bar"
    noun = "four-bar linkage"

    def __post_init__(self) -> None:
        lengths = (self.ground, self.crank, self.coupler, self.rocker)
        if not all(math.isfinite(x) and x > 0 for x in lengths):
            raise UsageError("linkage", found=f"bar lengths {lengths} m", expected="four lengths > 0")
        if abs(math.sin(self.zero + self.at)) < 1e-6:
            raise UsageError(
                "linkage",
                found=f"a rocker at {self.zero + self.at:.3g} rad, where the bars are collinear",
                expected="an angle other than 0 and pi",
            )
        self.evaluate(self.reference[None])

    @property
    def reference(self) -> Float:
        """Joint position (1,) at which the crank angle equals it."""
        return np.array([self.at])

    def closed(self, q: Float) -> tuple[Float, Float, Float]:
        """Crank angle and its derivatives, from position, velocity and acceleration of the loop."""
        a, b = self.crank_angle(q[:, 0]), q[:, 0] + self.zero
        c, r, g = self.crank, self.rocker, self.ground
        ux, uy = g + r * np.cos(b) - c * np.cos(a), r * np.sin(b) - c * np.sin(a)
        with np.errstate(divide="ignore", invalid="ignore"):
            along_crank = c * (uy * np.cos(a) - ux * np.sin(a))
            first = r * (uy * np.cos(b) - ux * np.sin(b)) / along_crank
            # d/dq of u . (r e'(b) - c e'(a) phi') = 0.
            vx = -r * np.sin(b) + c * np.sin(a) * first
            vy = r * np.cos(b) - c * np.cos(a) * first
            turning = ux * (-r * np.cos(b) + c * np.cos(a) * first**2) + uy * (
                -r * np.sin(b) + c * np.sin(a) * first**2
            )
            second = (vx**2 + vy**2 + turning) / along_crank
        start = float(self.crank_angle(self.reference)[0]) - self.zero - self.at
        phi = q[:, 0] + _wrapped(a - b - start)
        return phi[:, None], first[:, None, None], second[:, None, None, None]

    def inverse(self, phi: Float) -> Float:
        """Joint positions (T, 1) in closed form: the two circles of coupler and rocker meet twice."""
        a = phi[:, 0] - self.at + float(self.crank_angle(self.reference)[0])
        x, y = self.crank * np.cos(a) - self.ground, self.crank * np.sin(a)
        distance = np.hypot(x, y)
        with np.errstate(invalid="ignore"):
            opening = np.arccos(
                (self.rocker**2 + distance**2 - self.coupler**2) / (2 * self.rocker * distance)
            )
        best, far = np.full(len(phi), np.nan), np.full(len(phi), np.inf)
        # Of two solutions with this crank angle, the one closest to q = phi is right.
        for side in (1.0, -1.0):
            q = phi[:, 0] + _wrapped(np.arctan2(y, x) + side * opening - self.zero - phi[:, 0])
            with np.errstate(invalid="ignore"):
                meets = np.abs(self.closed(q[:, None])[0][:, 0] - phi[:, 0]) < 1e-6
            better = meets & (np.abs(q - phi[:, 0]) < far)
            best = np.where(better, q, best)
            far = np.where(better, np.abs(q - phi[:, 0]), far)
        self.refuse(phi, np.isnan(best), "phi")
        return best[:, None]

    def crank_angle(self, q: Float) -> Float:
        """Angle a of the crank (T,) against the ground line; nan where the bars do not close."""
        b = q + self.zero
        x, y = self.ground + self.rocker * np.cos(b), self.rocker * np.sin(b)
        distance = np.hypot(x, y)
        side = math.copysign(1.0, math.sin(self.zero + self.at)) * (-1.0 if self.crossed else 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (self.crank**2 + distance**2 - self.coupler**2) / (2 * self.crank * distance)
            return np.asarray(np.arctan2(y, x) + side * np.arccos(cosine))


def _wrapped(angle: Float) -> Float:
    return np.asarray(np.remainder(angle + np.pi, 2 * np.pi) - np.pi)


@dataclass(frozen=True)
class Table(Linkage):
    """A measured or computed map of one joint: actuator coordinates at joint positions, joined by a cubic spline.

    The spline (not-a-knot) has continuous second derivatives, so that rotor torques behind it are continuous.

    Parameters
    ----------
    position : tuple of float, rad (m)
        Joint positions, ascending, at least four.
    actuator : tuple of float, rad (m)
        Actuator coordinates at these positions, strictly monotonic.
    cylinder : bool
        Whether they are lengths.

    Raises
    ------
    UsageError
        If there are fewer than four points, they are not ascending, or the map is not monotonic between them.

    """

    position: tuple[float, ...]
    actuator: tuple[float, ...]
    cylinder: bool = False
    kind = "table"
    noun = "table of a linkage"

    def __post_init__(self) -> None:
        q, phi = np.array(self.position, dtype=np.float64), np.array(self.actuator, dtype=np.float64)
        ordered = bool(len(q) == len(phi) >= 4 and np.isfinite([*q, *phi]).all() and (np.diff(q) > 0).all())
        if ordered:
            between = np.linspace(q[0], q[-1], 8 * len(q))
            slope = self.closed(between[:, None])[1]
            ordered = bool((slope > 0).all() or (slope < 0).all())
        if not ordered:
            raise UsageError(
                "linkage",
                found=f"a table of {len(q)} positions and {len(phi)} actuator coordinates",
                expected="four or more ascending positions, and coordinates that only rise or only fall",
            )

    @property
    def sliding(self) -> Bool:
        """Whether the coordinate is a length, (1,)."""
        return np.array([self.cylinder])

    @property
    def reference(self) -> Float:
        """The middle of the table, (1,)."""
        return np.array([0.5 * (self.position[0] + self.position[-1])])

    def closed(self, q: Float) -> tuple[Float, Float, Float]:
        """Spline and its derivatives; nan outside the table."""
        from scipy.interpolate import CubicSpline

        spline = CubicSpline(self.position, self.actuator, extrapolate=False)
        phi, first, second = (spline(q[:, 0], order) for order in range(3))
        return phi[:, None], first[:, None, None], second[:, None, None, None]
