"""What drives were commanded, and the torque that position controllers make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.recording.chunk import RawChunk, joined, taken
from dynid.robot.drive import Servo

# Torque made of commands: when it acts, and the slopes that a controller's damping needs.

# Rows of the past beside those that are asked for: slopes of the interpolation take one on each side.
BESIDE = 2
# rad or m, that a joint has to go before a velocity that never changes counts as not measured.
MOVED = 2e-3


@dataclass(frozen=True, eq=False)
class Commands:
    """What the drives were commanded: t (T,), s; q_des, dq_des, tau_ff (T, n), rad, rad/s, N m (m, m/s, N)."""

    t: Float
    q_des: Float
    dq_des: Float
    tau_ff: Float

    def clean(self) -> Commands:
        """Complete rows at increasing times."""
        sound = np.isfinite(np.column_stack([self.t, self.q_des, self.dq_des, self.tau_ff])).all(axis=1)
        t, q, v, u = (part[sound] for part in (self.t, self.q_des, self.dq_des, self.tau_ff))
        later = _later_than_before(t)
        return Commands(t[later], q[later], v[later], u[later])


def slopes(t: Float, q: Float) -> Float:
    """The derivative (T, n) of positions at times t, by second-order differences; zero of a single row."""
    later = _later_than_before(t)
    if later.sum() < 2:
        return np.zeros_like(q)
    dq = np.empty_like(q)
    dq[later] = np.gradient(q[later], t[later], axis=0)
    # A row that repeats a stamp has the slope of the one before.
    return np.asarray(dq[later][np.maximum(np.cumsum(later) - 1, 0)])


def speed_of_law(t: Float, q: Float, dq: Float | None) -> Float:
    """The velocity (T, n) that controllers damp: the measured one, and slopes of q where none was.

    A column that never changes while its joint moves is a channel that nobody fills; the drive knows its own speed.
    """
    if dq is None:
        return slopes(t, q)
    dead = (np.ptp(q, axis=0) > MOVED) & (np.ptp(dq, axis=0) == 0.0)
    return np.where(dead, slopes(t, q), dq) if dead.any() else dq


def servo_torque(servo: Servo) -> Callable[[RawChunk], RawChunk]:
    """Return what gives chunks the torque that the drives' controllers make of their commands, on time.

    Chunks keep their commands only where the controllers close their loop on board.
    """

    def with_torque(chunk: RawChunk) -> RawChunk:
        if chunk.commands is None:
            return chunk
        speed = speed_of_law(chunk.t, chunk.q, chunk.dq)
        tau = servo.torque(chunk.q, speed, *np.split(chunk.commands, 3, axis=1))
        return replace(chunk, tau=tau, commands=chunk.commands if servo.on_board else None)

    return with_torque


def delayed(chunks: Iterator[RawChunk], servo: Servo) -> Iterator[RawChunk]:
    """The chunks with their torque later by the lag, or that of late commands and the motion of the moment.

    Rows before the first torque are left out. Between rows by cubic Hermite interpolation, which takes nothing off the
    motion's frequencies.
    """
    past: RawChunk | None = None
    start, seconds = np.inf, servo.lag
    for chunk in chunks:
        whole = chunk if past is None else joined([past, chunk])
        start = min(start, float(whole.t[0]))
        index = np.flatnonzero(chunk.t - seconds >= start)
        if whole.tau is not None and len(index):
            late = whole.tau if whole.commands is None else whole.commands
            tau = _interpolated(whole.t, late, chunk.t - seconds)
            if whole.commands is not None:
                speed = speed_of_law(chunk.t, chunk.q, chunk.dq)
                tau = servo.torque(chunk.q, speed, *np.split(tau, 3, axis=1))
            part = taken(replace(chunk, tau=tau), index)
            yield replace(part, first_row=chunk.first_row + int(index[0]))
        needed = int(np.searchsorted(whole.t, whole.t[-1] - seconds)) - BESIDE
        past = taken(whole, slice(max(needed, 0), None))


def _interpolated(t: Float, values: Float, at: Float) -> Float:
    """Values (T, n) at times `at`, t increasing but for rows that repeat a stamp."""
    later = _later_than_before(t)
    t, values = t[later], values[later]
    if len(t) < 2:
        return np.repeat(values[:1], len(at), axis=0)
    slope = np.gradient(values, t, axis=0)
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, len(t) - 2)
    h = (t[k + 1] - t[k])[:, None]
    s = np.clip((at - t[k])[:, None] / h, 0.0, 1.0)
    before, after = s**2 * (3.0 - 2.0 * s), s * (1.0 - s)
    rise = h * (after * (1.0 - s) * slope[k] - after * s * slope[k + 1])
    return np.asarray(values[k] + before * (values[k + 1] - values[k]) + rise)


def _later_than_before(t: Float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    later = np.ones(len(t), dtype=np.bool_)
    later[1:] = t[1:] > np.maximum.accumulate(t)[:-1]
    return later
