"""Motions that are linear in their coefficients, q(t) = B(t) X: Fourier series, B-splines and chains of motions."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from dynid.base.arrays import Float, Int, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.trajectories.trajectory import FourierTrajectory, Trajectory, blend

# Equal control points at each end of a spline: velocity, acceleration and jerk are zero there.
ENDS_AT_REST = 4


class Basis(Protocol):
    """Protocol of families of motions: m functions of time, shared by all joints.

    The first function is the start pose (and the end pose, if the motion returns). If all other coefficients are zero,
    the robot stays there.
    """

    @property
    def duration(self) -> float:
        """Duration of the motion, s."""
        ...

    @property
    def size(self) -> int:
        """Number of functions m."""
        ...

    @property
    def highest_frequency(self) -> float:
        """Approximate highest frequency in the motion, Hz."""
        ...

    def values(self, t: Float) -> tuple[Float, Float, Float, Float]:
        """The functions and their first three derivatives at times t (T,), each (T, m)."""
        ...


@dataclass(frozen=True)
class FourierBasis:
    """Basis of FourierTrajectory: pose, then windowed sines, then windowed cosines; m = 1 + 2 N.

    Parameters
    ----------
    duration : float, s
    harmonics : int
        Number of harmonics N.
    frequency : float, Hz
        Frequency of the first harmonic.
    ramp : float, s
        Duration of the window's rise and fall.

    Raises
    ------
    UsageError
        For numbers that FourierTrajectory rejects.

    """

    duration: float
    harmonics: int
    frequency: float
    ramp: float = 2.0

    def __post_init__(self) -> None:
        nothing = np.zeros((1, max(self.harmonics, 0)))
        FourierTrajectory(np.zeros(1), nothing, nothing, self.frequency, self.duration, self.ramp)

    @property
    def size(self) -> int:
        """Number of functions, 1 + 2 N."""
        return 1 + 2 * self.harmonics

    @property
    def highest_frequency(self) -> float:
        """Frequency of the last harmonic or, if higher, of the ramps, Hz."""
        return max(self.frequency * self.harmonics, 0.5 / self.ramp)

    def values(self, t: Float) -> tuple[Float, Float, Float, Float]:
        """The functions and their first three derivatives at times t (T,), each (T, m), by Leibniz' rule."""
        t = np.asarray(t, dtype=np.float64)
        omega = 2.0 * np.pi * self.frequency * np.arange(1, self.harmonics + 1)
        s, c = np.sin(t[:, None] * omega), np.cos(t[:, None] * omega)
        f = [np.concatenate([s, c], axis=1), np.concatenate([c, -s], axis=1)]
        f += [-f[0], -f[1]]
        turn = np.tile(omega, 2)
        f = [turn**order * values for order, values in enumerate(f)]
        w = [values[:, None] for values in self._window(t)]
        unit_column = np.ones((len(t), 1))

        def derivative(order: int) -> Float:
            product = sum(math.comb(order, k) * w[k] * f[order - k] for k in range(order + 1))
            return np.concatenate([unit_column * (order == 0), product], axis=1)

        return derivative(0), derivative(1), derivative(2), derivative(3)

    def _window(self, t: Float) -> tuple[Float, Float, Float, Float]:
        up = blend(np.clip(t / self.ramp, 0.0, 1.0))
        down = blend(np.clip((self.duration - t) / self.ramp, 0.0, 1.0))
        r = self.ramp
        return (
            up[0] + down[0] - 1.0,
            (up[1] - down[1]) / r,
            (up[2] + down[2]) / r**2,
            (up[3] - down[3]) / r**3,
        )


@dataclass(frozen=True)
class SplineBasis:
    """Basis of B-splines of degree 5 with three zero derivatives at both ends.

    The first four and the last four control points of the clamped spline are the start pose, so that m = pieces - 1.
    Source: Zollo et al. 2014 (fifth-order B-splines as excitation).

    Parameters
    ----------
    duration : float, s
    pieces : int
        Number of intervals between uniform knots.
    breaks : tuple of float, s
        Inner knots, ascending within (0, duration); () = uniform.
    degree : int
        5.

    Raises
    ------
    UsageError
        For fewer than 6 intervals, or knots that are not ascending.

    """

    duration: float
    pieces: int = 20
    breaks: tuple[float, ...] = ()
    degree: int = 5

    def __post_init__(self) -> None:
        inner = np.array(self.breaks)
        good = (
            np.isfinite(self.duration)
            and self.duration > 0
            and len(self._inner) + 1 >= 6
            and self.degree == 5
        )
        ordered = bool((np.diff([0.0, *inner, self.duration]) > 0).all()) if len(inner) else True
        if not (good and ordered):
            raise UsageError(
                "spline-knots",
                found=f"a spline of degree {self.degree} with {len(self._inner) + 1} intervals in {self.duration} s",
                expected="degree 5 and at least 6 intervals between ascending knots",
            )

    @property
    def _inner(self) -> Float:
        if self.breaks:
            return np.array(self.breaks)
        return np.linspace(0.0, self.duration, self.pieces + 1)[1:-1]

    @property
    def size(self) -> int:
        """Number of free control points per joint."""
        return len(self._inner) + 1 + self.degree - 2 * ENDS_AT_REST + 1

    @property
    def highest_frequency(self) -> float:
        """Frequency with half a period in the shortest interval, Hz."""
        return float(0.5 / np.diff([0.0, *self._inner, self.duration]).min())

    def values(self, t: Float) -> tuple[Float, Float, Float, Float]:
        """The functions and their first three derivatives at times t (T,), each (T, m); constant outside the motion."""
        from scipy.interpolate import BSpline

        ends = self.degree + 1
        knots = np.concatenate([np.zeros(ends), self._inner, np.full(ends, self.duration)])
        count = len(knots) - ends
        spline = BSpline(knots, np.eye(count), self.degree)
        at = np.clip(np.asarray(t, dtype=np.float64), 0.0, self.duration)
        inside = (at == t)[:, None]
        orders = []
        for order in range(4):
            full = spline(at) if order == 0 else spline.derivative(order)(at) * inside
            free = full[:, ENDS_AT_REST : count - ENDS_AT_REST]
            # The splines sum to 1. With a constant first function, the others are offsets from the start pose.
            orders.append(np.concatenate([np.full((len(at), 1), float(order == 0)), free], axis=1))
        return orders[0], orders[1], orders[2], orders[3]


@dataclass(frozen=True, eq=False)
class BasisTrajectory:
    """A motion q = B(t) X.

    Parameters
    ----------
    basis : Basis
        The functions B.
    X : ndarray, shape (m, n), rad (m)
        Coefficients.

    """

    basis: Basis
    X: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", locked(self.X, (self.basis.size, None), "X"))

    @property
    def duration(self) -> float:
        """Duration of the motion, s."""
        return self.basis.duration

    @property
    def highest_frequency(self) -> float:
        """Approximate highest frequency in the motion, Hz."""
        return self.basis.highest_frequency

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Exact q, dq, ddq, each (T, n), at times t (T,)."""
        B, dB, ddB, _ = self.basis.values(np.asarray(t, dtype=np.float64))
        return B @ self.X, dB @ self.X, ddB @ self.X

    def jerk(self, t: Float) -> Float:
        """Exact third derivative (T, n)."""
        return np.asarray(self.basis.values(np.asarray(t, dtype=np.float64))[3] @ self.X)


# Several motions in sequence: designed together, recorded together or one by one.

# rad (m): greatest gap between the end of a motion and the start of the next.
CONTACT = 1e-6


@dataclass(frozen=True, eq=False)
class Chain:
    """A sequence of motions that are at rest at both ends.

    Raises UsageError for an empty sequence, and for a motion that does not start where the previous one ends.
    """

    parts: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError("chain", found="no motion", expected="at least one")
        for before, after in zip(self.parts[:-1], self.parts[1:], strict=True):
            end = before.motion(np.array([before.duration]))[0]
            start = after.motion(np.zeros(1))[0]
            if end.shape != start.shape or np.abs(end - start).max() > CONTACT:
                raise UsageError(
                    "chain",
                    found="a motion that does not start where the previous one ends",
                    expected="the same pose",
                )

    @property
    def starts(self) -> Float:
        """Start times of the parts, and the end of the last one, s."""
        return _starts(self.parts)

    @property
    def duration(self) -> float:
        """Duration of all parts, s."""
        return float(self.starts[-1])

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Exact q, dq, ddq, each (T, n), at times t (T,)."""
        t = np.asarray(t, dtype=np.float64)
        part = _part_index(self.starts, t)
        n = self.parts[0].motion(np.zeros(1))[0].shape[1]
        whole = np.zeros((3, len(t), n))
        for k, trajectory in enumerate(self.parts):
            here = part == k
            if here.any():
                whole[:, here] = trajectory.motion(t[here] - self.starts[k])
        return whole[0], whole[1], whole[2]


@dataclass(frozen=True)
class Together:
    """Basis of several motions in sequence that start and end at the same pose, designed together.

    The first function is the common pose. Then come the other functions of each part, which are zero outside its time.

    Parameters
    ----------
    parts : tuple of Basis
        Bases of the motions.

    Raises
    ------
    UsageError
        Without parts.

    """

    parts: tuple[Basis, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError("chain", found="no motion", expected="at least one")

    @property
    def starts(self) -> Float:
        """Start times of the parts, and the end of the last one, s."""
        return _starts(self.parts)

    @property
    def duration(self) -> float:
        """Duration of all motions, s."""
        return float(self.starts[-1])

    @property
    def size(self) -> int:
        """Number of functions: one, and the free functions of all parts."""
        return 1 + sum(part.size - 1 for part in self.parts)

    @property
    def highest_frequency(self) -> float:
        """Highest frequency of all parts, Hz."""
        return max(part.highest_frequency for part in self.parts)

    def own(self, part: int, X: Float) -> Float:
        """Coefficients (m_part, n) of one part, from those of all parts (m, n).

        Parameters
        ----------
        part : int
            Index of the part.
        X : ndarray, shape (m, n), rad (m)
            Coefficients of all parts.

        Returns
        -------
        ndarray, shape (m_part, n)

        """
        first = 1 + sum(basis.size - 1 for basis in self.parts[:part])
        return np.concatenate([X[:1], X[first : first + self.parts[part].size - 1]])

    def values(self, t: Float) -> tuple[Float, Float, Float, Float]:
        """The functions and their first three derivatives at times t (T,), each (T, m)."""
        t = np.asarray(t, dtype=np.float64)
        part, starts = _part_index(self.starts, t), self.starts
        orders = np.zeros((4, len(t), self.size))
        orders[0, :, 0] = 1.0
        first = 1
        for k, basis in enumerate(self.parts):
            here, width = np.flatnonzero(part == k), basis.size - 1
            if len(here):
                part_values = np.stack(basis.values(t[here] - starts[k]))
                orders[:, here, first : first + width] = part_values[:, :, 1:]
            first += width
        return orders[0], orders[1], orders[2], orders[3]


def _starts(parts: tuple[Basis, ...] | tuple[Trajectory, ...]) -> Float:
    return np.concatenate([[0.0], np.cumsum([part.duration for part in parts])])


def _part_index(starts: Float, t: Float) -> Int:
    return np.clip(np.searchsorted(starts, t, side="right") - 1, 0, len(starts) - 2)
