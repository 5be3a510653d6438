"""Sequences of smooth moves: friction sweeps at constant velocity, and poses approached from both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.trajectories.trajectory import blend

# s: shortest blend of an approach; a faster one excites vibrations while the static torque is measured.
GENTLE = 0.25
# Greatest first derivative of the septic blend, and greatest second derivative, at x = 1/2 - sqrt(5)/10.
_STEEPEST = 140.0 / 64.0
_SHARPEST = 84.0 * 5.0**0.5 / 25.0


@dataclass(frozen=True, eq=False)
class SmoothMoves:
    """Straight moves between poses with a smooth start, constant velocity and a smooth stop, each followed by a dwell.

    A move takes cruise + 2 ramp and has the velocity distance / (cruise + ramp).

    Parameters
    ----------
    poses : ndarray, shape (K + 1, n), rad (m)
    cruise : ndarray, shape (K,), s
        Time at constant velocity.
    ramp : ndarray, shape (K,), s
        Time of each of the two blends, > 0.
    hold : ndarray, shape (K,), s
        Dwell after the move.

    Raises
    ------
    UsageError
        For times that are negative or not finite.

    """

    poses: Float
    cruise: Float
    ramp: Float
    hold: Float

    def __post_init__(self) -> None:
        K = len(self.poses) - 1
        object.__setattr__(self, "poses", locked(self.poses, (None, None), "poses"))
        for name in ("cruise", "ramp", "hold"):
            object.__setattr__(self, name, locked(getattr(self, name), (K,), name))
        times = np.stack([self.cruise, self.ramp, self.hold])
        if (
            K < 1
            or not np.isfinite(self.poses).all()
            or not np.isfinite(times).all()
            or times.min() < 0
            or not (self.ramp > 0).all()
        ):
            raise UsageError(
                "moves",
                found=f"{K} moves with a time or pose out of range",
                expected="at least one move, finite poses, ramps > 0, other times >= 0",
            )

    @property
    def starts(self) -> Float:
        """Start times of the moves, and the end of the last one, (K + 1,), s."""
        return np.concatenate([[0.0], np.cumsum(self.cruise + 2 * self.ramp + self.hold)])

    @property
    def duration(self) -> float:
        """Duration of the motion, s."""
        return float(self.starts[-1])

    @property
    def highest_frequency(self) -> float:
        """Frequency with half a period in the shortest ramp, Hz."""
        return float(0.5 / self.ramp.min())

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Exact q, dq, ddq, each (T, n), at times t (T,)."""
        k, step, s = self._progress(t)
        q = self.poses[k] + s[0][:, None] * step
        return q, s[1][:, None] * step, s[2][:, None] * step

    def jerk(self, t: Float) -> Float:
        """Exact third derivative (T, n)."""
        _, step, s = self._progress(t)
        return np.asarray(s[3][:, None] * step)

    def _move(self, t: Float) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.clip(np.searchsorted(self.starts, t, side="right") - 1, 0, len(self.cruise) - 1)

    def _progress(
        self, t: Float
    ) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], Float, tuple[Float, Float, Float, Float]]:
        t = np.asarray(t, dtype=np.float64)
        k = self._move(t)
        step = self.poses[k + 1] - self.poses[k]
        ramp, cruise = self.ramp[k], self.cruise[k]
        since = t - self.starts[k]
        up, down = since / ramp, (since - ramp - cruise) / ramp
        speed = 1.0 / (cruise + ramp)
        u, v = blend(np.clip(up, 0.0, 1.0)), blend(np.clip(down, 0.0, 1.0))
        level = np.clip(since - ramp, 0.0, cruise)
        share = ramp * _area(np.clip(up, 0.0, 1.0)) + level
        share = share + ramp * (np.clip(down, 0.0, 1.0) - _area(np.clip(down, 0.0, 1.0)))
        s = (
            speed * share,
            speed * (u[0] - v[0]),
            speed * (u[1] - v[1]) / ramp,
            speed * (u[2] - v[2]) / ramp**2,
        )
        return k, step, s


def _area(x: Float) -> Float:
    # Integral of the septic blend from 0 to x.
    return np.asarray(x**5 * (7.0 - 14.0 * x + 10.0 * x**2 - 2.5 * x**3))


def friction_sweep(
    robot: RobotModel,
    velocities: Sequence[float],
    joints: Sequence[str] = (),
    home: Float | None = None,
    acceleration: Float | None = None,
    longest: float = 10.0,
    hold: float = 0.2,
    margin: float = 0.05,
    jerk: Float | None = None,
) -> SmoothMoves:
    """Plan sweeps for friction: each joint in turn across its range and back at each speed, the others at home.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    velocities : sequence of float, rad/s (m/s)
        Speeds > 0.
    joints : sequence of str
        Joints that are swept; () = all.
    home : ndarray, shape (n,), rad (m), optional
        Pose of the other joints; None = middle of the limits.
    acceleration : ndarray, shape (n,), rad/s^2 (m/s^2), optional
        Greatest acceleration; None = full speed within 0.25 s.
    longest : float, s
        Longest time of a sweep; slow sweeps cover less of the range.
    hold : float, s
        Dwell after each move.
    margin : float
        Share of the range that stays free at both ends.
    jerk : ndarray, shape (n,), rad/s^3 (m/s^3), optional
        Greatest jerk; None = no bound.

    Returns
    -------
    SmoothMoves

    Raises
    ------
    UsageError
        For a speed above the joint's limit, and for an unknown joint.

    """
    limits = robot.limits
    names = tuple(joints) or robot.joint_names
    bounded = np.isfinite(limits.lower) & np.isfinite(limits.upper)
    low, high = np.where(bounded, limits.lower, -np.pi), np.where(bounded, limits.upper, np.pi)
    middle = 0.5 * (low + high) if home is None else np.asarray(home, dtype=np.float64)
    poses, cruise, ramp = [middle], [], []
    for name in names:
        if name not in robot.joint_names:
            raise UsageError(
                "unknown-joint",
                found=f"unknown joint '{name}'",
                expected="one of " + ", ".join(robot.joint_names),
            )
        j = robot.joint_names.index(name)
        a, sharp = _pushes(robot, acceleration)[j], np.inf if jerk is None else jerk[j]
        ends = low[j] + margin * (high[j] - low[j]), high[j] - margin * (high[j] - low[j])
        for speed in velocities:
            if not 0 < speed <= limits.velocity[j]:
                raise UsageError(
                    "sweep-velocity",
                    found=f"speed {speed:g} for joint '{name}'",
                    expected=f"above 0 and at most {limits.velocity[j]:g}",
                )
            blend_time = max(_STEEPEST * speed / a, math.sqrt(_SHARPEST * speed / sharp))
            half = 0.5 * min(ends[1] - ends[0], speed * (longest + blend_time))
            centre = min(max(middle[j], ends[0] + half), ends[1] - half)
            for goal in (centre - half, centre + half, centre - half):
                pose = np.array(middle)
                pose[j] = goal
                distance = abs(goal - poses[-1][j])
                if distance == 0.0:
                    continue
                rise = min(blend_time, distance / speed)
                poses.append(pose)
                ramp.append(rise if rise == blend_time else _shortest(distance, a, sharp))
                cruise.append(max(distance / speed - rise, 0.0) if rise == blend_time else 0.0)
        if np.any(poses[-1] != middle):
            distance = abs(middle[j] - poses[-1][j])
            poses.append(middle)
            ramp.append(max(distance / limits.velocity[j], _shortest(distance, a, sharp)))
            cruise.append(0.0)
    return SmoothMoves(np.stack(poses), np.array(cruise), np.array(ramp), np.full(len(ramp), hold))


def static_poses(
    robot: RobotModel,
    poses: Float,
    approach: float = 0.05,
    hold: float = 1.0,
    speed: float = 0.3,
    acceleration: Float | None = None,
    jerk: Float | None = None,
) -> SmoothMoves:
    """Plan static poses, each reached from below and from above in every joint, so that friction averages out.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    poses : ndarray, shape (P, n), rad (m)
        The poses.
    approach : float, rad (m)
        Length of the last move to a pose.
    hold : float, s
        Dwell at a pose.
    speed : float
        Share of the velocity limits.
    acceleration : ndarray, shape (n,), rad/s^2 (m/s^2), optional
        Greatest acceleration; None = full speed within 0.25 s.
    jerk : ndarray, shape (n,), rad/s^3 (m/s^3), optional
        Greatest jerk; None = no bound.

    Returns
    -------
    SmoothMoves

    Raises
    ------
    UsageError
        If a pose or its approach is outside the position limits.

    """
    limits = robot.limits
    P = np.atleast_2d(np.asarray(poses, dtype=np.float64))
    for i, pose in enumerate(P):
        for j, name in enumerate(robot.joint_names):
            if not limits.lower[j] <= pose[j] - approach <= pose[j] + approach <= limits.upper[j]:
                raise UsageError(
                    "pose-limits",
                    found=f"pose {i + 1} with {pose[j]:.4g} +- {approach:g} for joint '{name}'",
                    expected=f"positions within [{limits.lower[j]:g}, {limits.upper[j]:g}]",
                )
    chain = [P[0] - approach]
    holds = []
    for i, pose in enumerate(P):
        if i:
            chain.append(pose - approach)
            holds.append(0.0)
        chain += [pose, pose + approach, pose]
        holds += [hold, 0.0, hold]
    way = np.abs(np.diff(np.stack(chain), axis=0))
    velocity = np.where(np.isfinite(limits.velocity), limits.velocity, 1.0) * speed
    push = _pushes(robot, acceleration) * speed
    ramp = np.maximum((way / velocity).max(axis=1), np.sqrt(_STEEPEST * way / push).max(axis=1))
    ramp = np.maximum(ramp, GENTLE)
    if jerk is not None:
        ramp = np.maximum(ramp, np.cbrt(_SHARPEST * way / jerk).max(axis=1))
    return SmoothMoves(np.stack(chain), np.zeros(len(ramp)), ramp, np.array(holds))


def _shortest(distance: float, acceleration: float, jerk: float) -> float:
    # Duration of each of two consecutive blends over this distance.
    return max(math.sqrt(_STEEPEST * distance / acceleration), float(np.cbrt(_SHARPEST * distance / jerk)))


def _pushes(robot: RobotModel, acceleration: Float | None) -> Float:
    if acceleration is not None:
        return np.asarray(acceleration, dtype=np.float64)
    return np.where(np.isfinite(robot.limits.velocity), robot.limits.velocity, 1.0) / 0.25
