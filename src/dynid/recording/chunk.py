"""Rows of a recording: trajectories, and consecutive rows of one in SI units at the joints."""

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
    """A contiguous run of rows of one file: what one motion of the robot left in the log.

    left_out: rows of the file that are not read, as their time stamps are damaged.
    misplaced: rows that stand a few rows from their place by time, and are put there.
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
    """Consecutive rows of one trajectory in SI units, still on the log's own time stamps.

    t (T,), every other array (T, n) in the order of the robot's joints, None where not logged; nan = missing.
    first_row: row number within the file, counted from 0 at the first data row; rows that are left out further down do
    not count.
    effort is joint-side torque or force (drive gain, gear ratio and sign applied).
    theta, dtheta: motor motion brought to the joint; that of the link for joints without a second encoder.
    commands: (T, 3 n), positions, velocities and feed-forward, of drives that close their loop on board.
    empty: times of rows among these that were left out, as they hold nothing but a time.
    spread: those of t that differ from the stamps, as several rows shared one.
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
    empty: Float = field(default_factory=lambda: np.zeros(0))
    spread: Float = field(default_factory=lambda: np.zeros(0))


# Chunks of a log cut, ordered and joined.


def within(chunk: RawChunk, trajectory: Trajectory) -> RawChunk:
    """The rows within the trajectory's own time."""
    start, end = trajectory.start_time, trajectory.end_time
    outside = (chunk.t < start) | (chunk.t > end)
    if len(chunk.empty) or len(chunk.spread):
        empty, spread = (x[(x >= start) & (x <= end)] for x in (chunk.empty, chunk.spread))
        chunk = replace(chunk, empty=empty, spread=spread)
    if not outside.any():
        return chunk
    index = np.flatnonzero(~outside)
    first = chunk.first_row + (int(index[0]) if len(index) else 0)
    return replace(taken(chunk, index), first_row=first)


def taken(chunk: RawChunk, index: Any) -> RawChunk:
    """The rows of an index."""

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
        extra={name: values[index] for name, values in chunk.extra.items()},
    )


def pieces_of(chunk: RawChunk, rows: int) -> Iterator[RawChunk]:
    """The chunk in pieces of at most so many rows."""
    if len(chunk.t) <= rows:
        yield chunk
        return
    for first in range(0, len(chunk.t), rows):
        piece = replace(taken(chunk, slice(first, first + rows)), first_row=chunk.first_row + first)
        yield piece if first == 0 else replace(piece, empty=np.zeros(0), spread=np.zeros(0))


def in_order(chunks: Iterator[RawChunk], rows: int) -> Iterator[RawChunk]:
    """The chunks with rows in the order of time that stand no more than `rows` rows from their place."""
    pending: RawChunk | None = None
    for chunk in chunks:
        whole = chunk if pending is None else joined([pending, chunk])
        whole = taken(whole, np.argsort(whole.t, kind="stable"))
        cut = max(len(whole.t) - rows, 0)
        pending = replace(taken(whole, slice(cut, None)), first_row=whole.first_row + cut, empty=np.zeros(0))
        yield taken(whole, slice(cut))
    if pending is not None:
        yield pending


def joined(chunks: list[RawChunk]) -> RawChunk:
    """Consecutive chunks as one."""
    if len(chunks) == 1:
        return chunks[0]
    first = chunks[0]

    def join(parts: list[Float | None]) -> Float | None:
        present = [part for part in parts if part is not None]
        return np.concatenate(present) if present else None

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
        extra={name: np.concatenate([chunk.extra[name] for chunk in chunks]) for name in first.extra},
        empty=np.concatenate([chunk.empty for chunk in chunks]),
        spread=np.concatenate([chunk.spread for chunk in chunks]),
    )
