"""Rows of a log cleaned while they stream: duplicates and missing rows dropped, turns undone, gaps split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.log.log import RawChunk
from dynid.signals.time_base import TimeBase

TURN = 2.0 * np.pi


@dataclass(frozen=True, eq=False)
class Piece:
    """Clean rows of one segment: lines (L, T) of all channels over times t (T,)."""

    segment: int
    t: Float
    lines: Float
    last: bool


def pieces(
    chunks: Iterator[RawChunk],
    prismatic: Sequence[bool],
    longest_step: float,
    first_segment: int,
    time_base: TimeBase | None = None,
) -> Iterator[Piece]:
    """Yields clean pieces in order; a step longer than `longest_step` seconds starts a new segment.

    time_base: what is done to held rows and time stamps, None = nothing.
    The last piece of every segment is marked; it may be empty.
    """
    segment, n = first_segment, len(prismatic)
    turning = ~np.array(prismatic)
    end_time = -np.inf
    end_position: Float | None = None
    end_motor: Float | None = None
    turned, turned_motor = np.zeros((2, n))
    pending: Piece | None = None
    motors: list[slice] = []
    rows = clean_rows(chunks, motors)
    for t, logged in rows if time_base is None else time_base.stream(rows, n):
        before, end_position = end_position, logged[:n, -1].copy()
        unwrapped, turned = _unwrapped(logged[:n], before, turned, turning)
        lines = [_with(logged, slice(0, n), unwrapped)]
        if motors:
            before, end_motor = end_motor, logged[motors[0], -1].copy()
            unwrapped, turned_motor = _unwrapped(logged[motors[0]], before, turned_motor, turning)
            lines.append(_with(lines[0], motors[0], unwrapped))
        starts = np.flatnonzero(np.diff(t, prepend=end_time) > longest_step)
        edges = [0, *[int(k) for k in starts if k > 0], len(t)]
        for a, b in pairwise(edges):
            broken = a in starts and np.isfinite(end_time)
            if pending is not None:
                yield replace(pending, last=broken)
            if broken:
                segment += 1
            pending = Piece(segment, t[a:b], lines[-1][:, a:b], last=False)
            end_time = float(t[b - 1])
    if pending is not None:
        yield replace(pending, last=True)


def clean_rows(
    chunks: Iterable[RawChunk], motors: list[slice] | None = None
) -> Iterator[tuple[Float, Float]]:
    """Complete rows at increasing times: (times (T,), lines (L, T) of all channels), never empty.

    motors: takes the lines of the motors' positions, if there are any.
    """
    end_time = -np.inf
    for chunk in chunks:
        t, lines = _finite(chunk)
        if not (np.diff(t, prepend=end_time) > 0).all():
            later = t > np.maximum.accumulate(np.concatenate([[end_time], t]))[:-1]
            t, lines = t[later], lines[:, later]
        if len(t) == 0:
            continue
        if chunk.theta is not None and motors is not None and not motors:
            motors.append(_motor_lines(chunk))
        end_time = float(t[-1])
        yield t, lines


def _finite(chunk: RawChunk) -> tuple[Float, Float]:
    parts = [
        chunk.q.T,
        *(x.T for x in (chunk.dq, chunk.tau, chunk.theta, chunk.dtheta, chunk.temperature) if x is not None),
    ]
    parts += [values[None, :] if values.ndim == 1 else values.T for values in chunk.extra.values()]
    lines = _under_one_another(parts)
    # A sum is finite only if all its parts are: one look at every value in the usual case.
    with np.errstate(invalid="ignore"):
        complete = np.isfinite(lines.sum()) and np.isfinite(chunk.t.sum())
    if complete:
        return chunk.t, lines
    good = np.isfinite(chunk.t) & np.isfinite(lines).all(axis=0)
    return chunk.t[good], lines[:, good]


def _under_one_another(parts: Sequence[Float]) -> Float:
    """The parts (L_i, T) as one array (L, T): that in which they lie so already, or a copy."""
    base = parts[0].base
    if not isinstance(base, np.ndarray) or base.nbytes != sum(part.nbytes for part in parts):
        return np.concatenate(parts)
    at = parts[0].__array_interface__["data"][0]
    for part in parts:
        place = part.__array_interface__["data"][0]
        if part.base is not base or place != at or not part.flags.c_contiguous:
            return np.concatenate(parts)
        at += part.nbytes
    return base.reshape(-1, parts[0].shape[1])


def _with(lines: Float, index: slice, values: Float) -> Float:
    # The lines may belong to the chunk that others look at: they are changed in a copy.
    if np.shares_memory(lines[index], values):
        return lines
    lines = lines.copy()
    lines[index] = values
    return lines


def _motor_lines(chunk: RawChunk) -> slice:
    first = sum(x.shape[1] for x in (chunk.q, chunk.dq, chunk.tau) if x is not None)
    return slice(first, first + chunk.q.shape[1])


def _unwrapped(q: Float, before: Float | None, turned: Float, turning: Bool) -> tuple[Float, Float]:
    """Undoes jumps of a whole turn, to within what a joint can move in one step.

    q: (n, T) as logged.    before: (n,) the values that came before.    turned: (n,) turns undone so far.
    Returns the values on one branch, and the turns undone at their end.
    """
    spread = q.max(axis=1) - q.min(axis=1)
    far = np.abs(q[:, 0] - before) if before is not None else np.zeros(len(q))
    if not ((spread > 0.7 * TURN) | (far > 0.7 * TURN))[turning].any():
        return (q - TURN * turned[:, None] if turned.any() else q), turned
    step = np.diff(q, axis=1, prepend=q[:, :1] if before is None else before[:, None])
    turns = np.where(np.abs(np.abs(step) - TURN) < 0.25 * TURN, np.round(step / TURN), 0.0)
    total = turned[:, None] + np.cumsum(turns, axis=1) * turning[:, None]
    return q - TURN * total, total[:, -1].copy()
