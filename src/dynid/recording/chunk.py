"""Rows of a recording: trajectories, and chunks of consecutive rows in SI units at the joints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass


@dataclass(frozen=True)
class Trajectory:
    """A contiguous run of rows of one file: one motion of the robot.

    Parameters
    ----------
    name : str
    file : Path
    first_row : int
        Row within the file, counted from 0.
    row_count : int
    start_time, end_time : float, s
    left_out : tuple of int
        Rows of the file that are not read because their time stamps are damaged.
    misplaced : int
        Number of rows that are out of order by a few rows, and are sorted by time.

    """

    name: str
    file: Path
    first_row: int
    row_count: int
    start_time: float
    end_time: float
    left_out: tuple[int, ...] = ()
    misplaced: int = 0


@dataclass(frozen=True)
class RawChunk:
    """Consecutive rows of one trajectory in SI units, at the log's own time stamps.

    Arrays are in the order of the robot's joints; None if not logged, nan if missing.

    Parameters
    ----------
    trajectory : Trajectory
    first_row : int
        Row within the file, counted from 0 at the first data row.
    t : ndarray, shape (n_samples,), s
    q, dq : ndarray, shape (n_samples, n_joints), rad, rad/s (m, m/s)
    tau : ndarray, shape (n_samples, n_joints), N m (N)
        Joint-side torque or force, with drive gain, gear ratio and sign applied.
    theta, dtheta : ndarray, shape (n_samples, n_joints), rad, rad/s (m, m/s)
        Reflected motor motion; that of the link for joints without a second encoder.
    temperature : ndarray, shape (n_samples, n_joints), degC
    extra : mapping of str to ndarray, shape (n_samples,)
    commands : ndarray, shape (n_samples, 3 n_joints), optional
        Commanded positions, velocities and feed-forward torques.
    wrench : mapping of str to ndarray, shape (n_samples, 6), N, N m
        fx, fy, fz, tx, ty, tz of each force/torque sensor, in the axes of the log.
    empty : ndarray, s
        Times of rows that are left out because they have nothing but a time.
    spread : ndarray, s
        Times in `t` that differ from the time stamps, since several rows shared one.
    without_effort : ndarray, s
        Times of rows that are left out because every effort is 0 between rows with efforts.
    bridged : mapping of str to ndarray, shape (n_joints,)
        Number of missing values of each channel that were interpolated.
    effort_every : int
        Rows per measured effort; efforts between those are interpolated.

    """

    trajectory: Trajectory
    first_row: int
    t: Float
    q: Float
    dq: Float | None
    tau: Float | None
    theta: Float | None
    dtheta: Float | None
    temperature: Float | None
    extra: Mapping[str, Float]
    commands: Float | None = None
    wrench: Mapping[str, Float] = field(default_factory=dict)
    empty: Float = field(default_factory=lambda: np.zeros(0))
    spread: Float = field(default_factory=lambda: np.zeros(0))
    without_effort: Float = field(default_factory=lambda: np.zeros(0))
    bridged: Mapping[str, Float] = field(default_factory=dict)
    effort_every: int = 1


# Times of rows that are left out or moved, not of the rows of a chunk.
_TIMES = ("empty", "spread", "without_effort")


# Cutting, ordering and joining of chunks.


def within(chunk: RawChunk, trajectory: Trajectory) -> RawChunk:
    """Select the rows of a chunk within the time of a trajectory.

    Parameters
    ----------
    chunk : RawChunk
        Rows in the order of time.
    trajectory : Trajectory
        Trajectory whose start and end time bound the rows.

    Returns
    -------
    RawChunk

    """
    start, end = trajectory.start_time, trajectory.end_time
    outside = (chunk.t < start) | (chunk.t > end)
    times = {name: values for name in _TIMES if len(values := getattr(chunk, name))}
    if times:
        inside = {name: values[(values >= start) & (values <= end)] for name, values in times.items()}
        chunk = replace(chunk, **inside)
    if not outside.any():
        return chunk
    index = np.flatnonzero(~outside)
    first = chunk.first_row + (int(index[0]) if len(index) else 0)
    return replace(taken(chunk, index), first_row=first)


def taken(chunk: RawChunk, index: Any) -> RawChunk:
    """Select rows of a chunk.

    Parameters
    ----------
    chunk : RawChunk
        The chunk.
    index : ndarray or slice
        Row numbers, a mask (n_samples,), or a slice.

    Returns
    -------
    RawChunk
        With `first_row` unchanged.

    """

    def take(values: Float | None) -> Float | None:
        return None if values is None else values[index]

    return replace(
        chunk,
        t=chunk.t[index],
        q=chunk.q[index],
        dq=take(chunk.dq),
        tau=take(chunk.tau),
        theta=take(chunk.theta),
        dtheta=take(chunk.dtheta),
        temperature=take(chunk.temperature),
        commands=take(chunk.commands),
        wrench={name: values[index] for name, values in chunk.wrench.items()},
        extra={name: values[index] for name, values in chunk.extra.items()},
    )


def pieces_of(chunk: RawChunk, rows: int) -> Iterator[RawChunk]:
    """Split a chunk.

    Parameters
    ----------
    chunk : RawChunk
        The chunk.
    rows : int
        Most rows of a piece.

    Yields
    ------
    RawChunk

    """
    if len(chunk.t) <= rows:
        yield chunk
        return
    for first in range(0, len(chunk.t), rows):
        part = slice(first, first + rows)
        yield taken(chunk, part) if first == 0 else rows_only(chunk, part)


def rows_only(chunk: RawChunk, part: slice) -> RawChunk:
    """Select consecutive rows of a chunk, without what is known of rows that were left out or changed.

    Parameters
    ----------
    chunk : RawChunk
        The chunk.
    part : slice
        Rows, with a step of 1.

    Returns
    -------
    RawChunk

    """
    first = chunk.first_row + part.indices(len(chunk.t))[0]
    nothing: dict[str, Any] = {name: np.zeros(0) for name in _TIMES}
    return replace(taken(chunk, part), first_row=first, bridged={}, **nothing)


def in_order(chunks: Iterator[RawChunk], rows: int) -> Iterator[RawChunk]:
    """Sort rows by time that are out of order by a few rows.

    Parameters
    ----------
    chunks : iterator of RawChunk
        Consecutive chunks.
    rows : int
        Most rows by which a row is out of order.

    Yields
    ------
    RawChunk

    """
    pending: RawChunk | None = None
    for chunk in chunks:
        whole = chunk if pending is None else joined([pending, chunk])
        whole = taken(whole, np.argsort(whole.t, kind="stable"))
        cut = max(len(whole.t) - rows, 0)
        pending = rows_only(whole, slice(cut, None))
        yield taken(whole, slice(cut))
    if pending is not None:
        yield pending


def joined(chunks: list[RawChunk]) -> RawChunk:
    """Join consecutive chunks.

    Parameters
    ----------
    chunks : list of RawChunk
        Chunks with the same channels.

    Returns
    -------
    RawChunk

    """
    if len(chunks) == 1:
        return chunks[0]
    first = chunks[0]

    def join(parts: list[Float | None]) -> Float | None:
        present = [part for part in parts if part is not None]
        return np.concatenate(present) if present else None

    times: dict[str, Any] = {
        name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in _TIMES
    }
    return replace(
        first,
        t=np.concatenate([chunk.t for chunk in chunks]),
        q=np.concatenate([chunk.q for chunk in chunks]),
        dq=join([chunk.dq for chunk in chunks]),
        tau=join([chunk.tau for chunk in chunks]),
        theta=join([chunk.theta for chunk in chunks]),
        dtheta=join([chunk.dtheta for chunk in chunks]),
        temperature=join([chunk.temperature for chunk in chunks]),
        commands=join([chunk.commands for chunk in chunks]),
        wrench={name: np.concatenate([chunk.wrench[name] for chunk in chunks]) for name in first.wrench},
        extra={name: np.concatenate([chunk.extra[name] for chunk in chunks]) for name in first.extra},
        **times,
    )
