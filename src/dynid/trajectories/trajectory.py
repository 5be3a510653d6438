"""Excitation motions: smooth, with exact derivatives, inside the joint limits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.robot.model import Limits, RobotModel

# Points per period of the highest harmonic at which limits are checked: a sinusoid exceeds them by at most 0.4 %.
POINTS_PER_CYCLE = 40
# s: time in which a joint reaches its greatest velocity, if no limit of acceleration is known.
SPEED_UP_SECONDS = 0.25


class Trajectory(Protocol):
    """Protocol of planned motions, from t = 0 to t = duration, s."""

    @property
    def duration(self) -> float:
        """Duration of the motion, s."""
        ...

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Exact q, dq, ddq, each (T, n), at times t (T,)."""
        ...


@dataclass(frozen=True, eq=False)
class FourierTrajectory:
    """Finite Fourier series about a centre, from rest to rest.

    q(t) = centre + w(t) sum_k (sine_k sin(2 pi k f t) + cosine_k cos(2 pi k f t)), k = 1..N. The window w rises from 0
    to 1 within `ramp`, falls in the same way at the end, and has three continuous derivatives. Before 0 and after
    `duration`, the robot rests at the centre.
    Source: Swevers et al. 1997 (Fourier series as excitation).

    Parameters
    ----------
    centre : ndarray, shape (n,), rad (m)
    sine, cosine : ndarray, shape (n, N), rad (m)
    frequency : float, Hz
        Frequency f of the first harmonic.
    duration, ramp : float, s

    Raises
    ------
    UsageError
        If two ramps do not fit into the duration, or a number is out of range.

    """

    centre: Float
    sine: Float
    cosine: Float
    frequency: float
    duration: float
    ramp: float

    def __post_init__(self) -> None:
        n, harmonics = len(self.centre), np.shape(self.sine)[-1]
        object.__setattr__(self, "centre", locked(self.centre, (n,), "centre"))
        for name in ("sine", "cosine"):
            object.__setattr__(self, name, locked(getattr(self, name), (n, harmonics), name))
        numbers = (self.frequency, self.duration, self.ramp)
        arrays = (self.centre, self.sine, self.cosine)
        finite = all(math.isfinite(x) for x in numbers) and all(bool(np.isfinite(x).all()) for x in arrays)
        if not finite or min(numbers) <= 0 or n < 1 or harmonics < 1:
            raise UsageError(
                "fourier-numbers",
                found=f"{n} joints, {harmonics} harmonics, frequency {self.frequency} Hz, "
                f"duration {self.duration} s, ramp {self.ramp} s",
                expected="finite coefficients and positive, finite times",
            )
        if 2 * self.ramp > self.duration:
            raise UsageError(
                "fourier-ramp",
                found=f"two ramps of {self.ramp} s in {self.duration} s",
                expected=f"ramps of at most {self.duration / 2:g} s",
            )

    @staticmethod
    def random(
        robot: RobotModel,
        duration: float,
        harmonics: int = 6,
        seed: int = 0,
        frequency: float = 0.1,
        ramp: float = 2.0,
        margin: float = 0.05,
    ) -> FourierTrajectory:
        """Draw a random motion that uses the robot's limits up to a margin.

        Coefficients of harmonic k are normal with standard deviation 1/k, so that all harmonics have the same speed.
        Acceleration is limited to the velocity limit per SPEED_UP_SECONDS.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        duration, ramp : float, s
            Duration, and duration of the window's rise and fall.
        harmonics : int
            Number of harmonics.
        seed : int
            Seed of the random numbers; the same seed gives the same motion.
        frequency : float, Hz
            Frequency of the first harmonic.
        margin : float
            Share of each limit that stays unused.

        Returns
        -------
        FourierTrajectory

        """
        if harmonics < 1:
            raise UsageError("fourier-numbers", found=f"{harmonics} harmonics", expected="at least 1")
        rng = np.random.default_rng(seed)
        fading = 1.0 / np.arange(1, harmonics + 1)
        sine, cosine = rng.normal(0.0, 1.0, (2, robot.n, harmonics)) * fading
        drawn = FourierTrajectory(np.zeros(robot.n), sine, cosine, frequency, duration, ramp)
        return fit_to_limits(drawn, robot.limits, margin, robot.limits.velocity / SPEED_UP_SECONDS)

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.centre)

    @property
    def harmonics(self) -> int:
        """Number of harmonics N."""
        return int(self.sine.shape[1])

    @property
    def highest_frequency(self) -> float:
        """Frequency of the last harmonic, Hz."""
        return self.frequency * self.harmonics

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Exact q, dq, ddq, each (T, n), at times t (T,)."""
        w, dw, ddw = (x[:, None] for x in self.window(t))
        s, ds, dds = self.series(t)
        return self.centre + w * s, dw * s + w * ds, ddw * s + 2.0 * dw * ds + w * dds

    def series(self, t: Float) -> tuple[Float, Float, Float]:
        """The series without centre and window, and its first two derivatives, each (T, n)."""
        omega = 2.0 * np.pi * self.frequency * np.arange(1, self.harmonics + 1)
        phase = np.asarray(t, dtype=np.float64)[:, None] * omega
        s, c = np.sin(phase), np.cos(phase)
        a, b = self.sine.T, self.cosine.T
        return s @ a + c @ b, (c * omega) @ a - (s * omega) @ b, -(s * omega**2) @ a - (c * omega**2) @ b

    def window(self, t: Float) -> tuple[Float, Float, Float]:
        """Window w and its first two derivatives, each (T,): septic blends at both ends, 1 between them, 0 outside."""
        rise = np.clip(np.asarray(t, dtype=np.float64) / self.ramp, 0.0, 1.0)
        fall = np.clip((self.duration - np.asarray(t, dtype=np.float64)) / self.ramp, 0.0, 1.0)
        (u, du, ddu, _), (v, dv, ddv, _) = blend(rise), blend(fall)
        # The ramps do not overlap: one of rise and fall is always 1, so that their product is a sum.
        return u + v - 1.0, (du - dv) / self.ramp, (ddu + ddv) / self.ramp**2

    def to_json(self) -> str:
        """The motion as JSON text, without loss of digits."""
        arrays = {name: getattr(self, name).tolist() for name in ("centre", "sine", "cosine")}
        numbers = {name: float(getattr(self, name)) for name in ("frequency", "duration", "ramp")}
        return json.dumps({"kind": "fourier", "format": 1} | arrays | numbers, indent=1)

    @staticmethod
    def from_json(text: str) -> FourierTrajectory:
        """Convert JSON text to a motion; raises InputError if it is not one."""
        try:
            data: Any = json.loads(text)
            if data["kind"] != "fourier" or data["format"] != 1:
                raise ValueError(f"kind {data['kind']!r}, format {data['format']!r}")
            return FourierTrajectory(
                centre=np.array(data["centre"], dtype=np.float64),
                sine=np.array(data["sine"], dtype=np.float64),
                cosine=np.array(data["cosine"], dtype=np.float64),
                frequency=float(data["frequency"]),
                duration=float(data["duration"]),
                ramp=float(data["ramp"]),
            )
        except (ValueError, KeyError, TypeError, IndexError, UsageError) as error:
            raise InputError(
                "trajectory-json",
                found=f"text that is not a trajectory ({type(error).__name__}: {error})",
                expected='kind = "fourier", format = 1, centre, sine, cosine, frequency, duration, ramp',
            ) from error


def fit_to_limits(
    trajectory: FourierTrajectory, limits: Limits, margin: float = 0.05, acceleration: Float | None = None
) -> FourierTrajectory:
    """Scale each joint's motion to the tightest of its limits, and centre it between its position limits.

    A joint without finite limits keeps its motion; one without position limits keeps its centre. Limits are checked on
    a grid of POINTS_PER_CYCLE points per period of the highest harmonic, between which a sinusoid exceeds its greatest
    grid value by at most 0.4 %.

    Parameters
    ----------
    trajectory : FourierTrajectory
        The motion.
    limits : Limits
        Limits of the joints.
    margin : float
        Share of each limit that stays unused, 0.004 < margin < 1.
    acceleration : ndarray, shape (n,), rad/s^2 (m/s^2), optional
        Greatest acceleration; None = no bound.

    Returns
    -------
    FourierTrajectory

    Raises
    ------
    UsageError
        For another margin, or another number of joints.

    """
    if not 0.004 < margin < 1:
        raise UsageError("limit-margin", found=f"margin = {margin}", expected="a share between 0.004 and 1")
    if len(limits.lower) != trajectory.n:
        raise UsageError(
            "array-shape", found=f"limits of {len(limits.lower)} joints", expected=f"{trajectory.n} joints"
        )
    q, dq, ddq = trajectory.motion(limit_grid(trajectory))
    swing = q - trajectory.centre
    high, low = swing.max(axis=0), swing.min(axis=0)
    bound = (
        np.full(trajectory.n, np.inf) if acceleration is None else np.asarray(acceleration, dtype=np.float64)
    )
    free = np.stack(
        [
            _ratio(limits.upper - limits.lower, high - low),
            _ratio(limits.velocity, np.abs(dq).max(axis=0)),
            _ratio(bound, np.abs(ddq).max(axis=0)),
        ]
    ).min(axis=0)
    scale = np.where(np.isfinite(free), (1.0 - margin) * free, 1.0)
    bounded = np.isfinite(limits.lower) & np.isfinite(limits.upper)
    middle = 0.5 * (np.where(bounded, limits.lower, 0.0) + np.where(bounded, limits.upper, 0.0))
    centre = np.where(bounded, middle - 0.5 * scale * (high + low), trajectory.centre)
    by_joint = scale[:, None]
    return replace(
        trajectory, centre=centre, sine=by_joint * trajectory.sine, cosine=by_joint * trajectory.cosine
    )


def limit_grid(trajectory: FourierTrajectory) -> Float:
    """Times (T,) on which limits are checked: POINTS_PER_CYCLE points per period of the highest harmonic."""
    cycles = trajectory.duration * max(trajectory.highest_frequency, 1.0 / trajectory.ramp)
    return np.linspace(0.0, trajectory.duration, math.ceil(cycles * POINTS_PER_CYCLE) + 1)


def blend(x: Float) -> tuple[Float, Float, Float, Float]:
    """Septic polynomial from 0 to 1 on [0, 1] and its first three derivatives, which are zero at both ends."""
    value = x**4 * (35.0 - 84.0 * x + 70.0 * x**2 - 20.0 * x**3)
    rest = x * (1.0 - x)
    return value, 140.0 * rest**3, 420.0 * rest**2 * (1.0 - 2.0 * x), 840.0 * rest * (1.0 - 5.0 * rest)


def _ratio(limit: Float, used: Float) -> Float:
    return np.asarray(np.divide(limit, used, out=np.full(len(used), np.inf), where=used > 0))
