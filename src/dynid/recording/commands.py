"""Commands of the drives, and the torque that position controllers compute from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.recording.chunk import RawChunk, joined, taken
from dynid.robot.drive import Servo

# Torque computed from commands: its delay, and the slopes for a controller's damping.

# Past rows kept for interpolation, whose slopes need one row on each side.
NEIGHBOURS = 2
# rad or m: if a joint moves by more while its logged velocity is constant, the velocity was not measured.
MOVED = 2e-3


@dataclass(frozen=True, eq=False)
class Commands:
    """Commands of the drives.

    Parameters
    ----------
    t : ndarray, shape (n_samples,), s
    q_des, dq_des, tau_ff : ndarray, shape (n_samples, n_joints), rad, rad/s, N m (m, m/s, N)

    """

    t: Float
    q_des: Float
    dq_des: Float
    tau_ff: Float

    def clean(self) -> Commands:
        """Commands without incomplete rows and without rows whose time does not increase."""
        sound = np.isfinite(np.column_stack([self.t, self.q_des, self.dq_des, self.tau_ff])).all(axis=1)
        t, q, v, u = (part[sound] for part in (self.t, self.q_des, self.dq_des, self.tau_ff))
        increasing = _is_increasing(t)
        return Commands(t[increasing], q[increasing], v[increasing], u[increasing])


def slopes(t: Float, q: Float) -> Float:
    """Derivative of positions by second-order differences; zero for a single row.

    Parameters
    ----------
    t : ndarray, shape (n_samples,), s
        Time.
    q : ndarray, shape (n_samples, n_joints), rad or m
        Positions.

    Returns
    -------
    ndarray, shape (n_samples, n_joints), rad/s or m/s

    """
    increasing = _is_increasing(t)
    if increasing.sum() < 2:
        return np.zeros_like(q)
    dq = np.empty_like(q)
    dq[increasing] = np.gradient(q[increasing], t[increasing], axis=0)
    # A row that repeats a time stamp gets the slope of the row before.
    return np.asarray(dq[increasing][np.maximum(np.cumsum(increasing) - 1, 0)])


def speed_of_law(t: Float, q: Float, dq: Float | None) -> Float:
    """Velocity that controllers damp: the measured one, or slopes of q if it was not measured.

    A constant velocity of a moving joint is an unused channel of the log; the drive itself knows its speed.

    Parameters
    ----------
    t : ndarray, shape (n_samples,), s
        Time.
    q, dq : ndarray, shape (n_samples, n_joints), rad, rad/s (m, m/s)
        Positions, and measured velocities or None.

    Returns
    -------
    ndarray, shape (n_samples, n_joints), rad/s or m/s

    """
    if dq is None:
        return slopes(t, q)
    dead = (np.ptp(q, axis=0) > MOVED) & (np.ptp(dq, axis=0) == 0.0)
    return np.where(dead, slopes(t, q), dq) if dead.any() else dq


def servo_torque(servo: Servo) -> Callable[[RawChunk], RawChunk]:
    """Make a function that adds to a chunk the torque that the drives' controllers compute, without delay.

    Chunks keep their commands only if the controllers close their loop on board.

    Parameters
    ----------
    servo : Servo
        Gains of the controllers.

    Returns
    -------
    callable
        Takes and returns a RawChunk.

    """

    def with_torque(chunk: RawChunk) -> RawChunk:
        if chunk.commands is None:
            return chunk
        speed = speed_of_law(chunk.t, chunk.q, chunk.dq)
        tau = servo.torque(chunk.q, speed, *np.split(chunk.commands, 3, axis=1))
        return replace(chunk, tau=tau, commands=chunk.commands if servo.on_board else None)

    return with_torque


def delayed(chunks: Iterator[RawChunk], servo: Servo) -> Iterator[RawChunk]:
    """Yield chunks whose torque is delayed by the lag of the servo.

    If chunks have commands, the commands are delayed, and the torque follows from them and the current motion. Rows
    before the first torque are left out. Interpolation is cubic Hermite, which does not attenuate the motion.

    Parameters
    ----------
    chunks : iterator of RawChunk
        Consecutive chunks of a trajectory.
    servo : Servo
        Controllers with their lag (s).

    Yields
    ------
    RawChunk

    """
    past: RawChunk | None = None
    start, seconds = np.inf, servo.lag
    for chunk in chunks:
        whole = chunk if past is None else joined([past, chunk])
        start = min(start, float(whole.t[0]))
        index = np.flatnonzero(chunk.t - seconds >= start)
        if whole.tau is not None and len(index):
            late = whole.tau if whole.commands is None else whole.commands
            tau = interpolated(whole.t, late, chunk.t - seconds)
            if whole.commands is not None:
                speed = speed_of_law(chunk.t, chunk.q, chunk.dq)
                tau = servo.torque(chunk.q, speed, *np.split(tau, 3, axis=1))
            part = taken(replace(chunk, tau=tau), index)
            yield replace(part, first_row=chunk.first_row + int(index[0]))
        needed = int(np.searchsorted(whole.t, whole.t[-1] - seconds)) - NEIGHBOURS
        past = taken(whole, slice(max(needed, 0), None))


def interpolated(t: Float, values: Float, at: Float) -> Float:
    """Interpolate by cubics with second-order slopes; rows that repeat a time stamp are ignored.

    Parameters
    ----------
    t : ndarray, shape (n_samples,), s
        Times of the values.
    values : ndarray, shape (n_samples, n_channels)
        Values.
    at : ndarray, shape (k,), s
        Times of the result; beyond the ends, the values there.

    Returns
    -------
    ndarray, shape (k, n_channels)

    """
    increasing = _is_increasing(t)
    t, values = t[increasing], values[increasing]
    if len(t) < 2:
        return np.repeat(values[:1], len(at), axis=0)
    slope = np.gradient(values, t, axis=0)
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(t) - 2)
    h = (t[k + 1] - t[k])[:, None]
    s = np.clip((at - t[k])[:, None] / h, 0.0, 1.0)
    before, after = s**2 * (3.0 - 2.0 * s), s * (1.0 - s)
    rise = h * (after * (1.0 - s) * slope[k] - after * s * slope[k + 1])
    return np.asarray(values[k] + before * (values[k + 1] - values[k]) + rise)


def _is_increasing(t: Float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    increasing = np.ones(len(t), dtype=np.bool_)
    increasing[1:] = t[1:] > np.maximum.accumulate(t)[:-1]
    return increasing
