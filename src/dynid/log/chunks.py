"""Chunks of a log cut, ordered and joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.log.log import RawChunk, Trajectory


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


def in_order(chunks: Iterator[RawChunk], rows: int) -> Iterator[RawChunk]:
    """The chunks with rows in the order of time that stand no more than `rows` rows from their place."""
    held: RawChunk | None = None
    for chunk in chunks:
        whole = chunk if held is None else joined([held, chunk])
        whole = taken(whole, np.argsort(whole.t, kind="stable"))
        cut = max(len(whole.t) - rows, 0)
        held = replace(taken(whole, slice(cut, None)), first_row=whole.first_row + cut, empty=np.zeros(0))
        yield taken(whole, slice(cut))
    if held is not None:
        yield held


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
