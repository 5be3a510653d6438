"""Efforts that are recorded more slowly than positions: rows at the efforts' own times, and evenly between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.recording.chunk import RawChunk, joined, rows_only
from dynid.recording.commands import interpolated

# Efforts with at most one sample per so many positions are slow.
SLOWER = 2
# Samples of the efforts before a row on which its values depend, and of the positions after it.
CONTEXT = 4
# Fewer efforts do not show how fast they are recorded.
LEAST_EFFORTS = 8


def at_times_of_efforts(
    chunks: Iterator[RawChunk], longest_step: Callable[[float], float]
) -> Iterator[RawChunk]:
    """Yield rows at the times of slow efforts and evenly between them; other chunks are passed on.

    An interpolated effort is no measurement: it has lost the steps of friction and whatever is faster. With rows at its
    own times, equations can use the measured efforts alone, and the motion at exactly these times.

    Parameters
    ----------
    chunks : iterator of RawChunk
        Consecutive chunks of a trajectory in the order of time; efforts are nan in rows without one.
    longest_step : callable
        Longest step in s that is no gap, for a usual step in s.

    Yields
    ------
    RawChunk
        With an effort of its own in every `effort_every`-th row, from the first on.

    """
    first = next(chunks, None)
    if first is None:
        return
    every = rows_per_effort(first)
    if every == 1:
        yield first
        yield from chunks
        return
    buffer, done, last = first, -np.inf, False
    while not last:
        chunk = next(chunks, None)
        last = chunk is None
        whole = buffer if chunk is None else joined([buffer, chunk])
        effort_rows = _with_efforts(whole)
        ready = effort_rows if last else effort_rows[: -CONTEXT or None]
        ready = ready[whole.t[ready] > done]
        if len(ready):
            yield _retimed(whole, effort_rows, ready, every, last, longest_step)
            done = float(whole.t[ready[-1]])
            before = effort_rows[effort_rows <= ready[-1]]
            buffer = rows_only(whole, slice(int(before[max(len(before) - CONTEXT, 0)]), None))
        else:
            buffer = whole


def rows_per_effort(chunk: RawChunk) -> int:
    """Number of positions per effort if efforts are slow, else 1."""
    if chunk.tau is None or not np.isnan(chunk.tau).any():
        return 1
    effort_rows, positions = _with_efforts(chunk), np.flatnonzero(np.isfinite(chunk.q).all(axis=1))
    partial = np.isfinite(chunk.tau).any(axis=1).sum()
    if len(effort_rows) < LEAST_EFFORTS or len(positions) < LEAST_EFFORTS or len(effort_rows) < 0.5 * partial:
        return 1
    ratio = float(np.median(np.diff(chunk.t[effort_rows])) / np.median(np.diff(chunk.t[positions])))
    return round(ratio) if ratio >= SLOWER else 1


def _with_efforts(chunk: RawChunk) -> Int:
    return np.flatnonzero(np.isfinite(np.asarray(chunk.tau)).all(axis=1))


def _retimed(
    chunk: RawChunk,
    effort_rows: Int,
    ready: Int,
    every: int,
    ends: bool,
    longest_step: Callable[[float], float],
) -> RawChunk:
    """Rows from the first of the efforts `ready` up to the one after the last, without that."""
    t = chunk.t
    after = effort_rows[np.minimum(np.searchsorted(effort_rows, ready, side="right"), len(effort_rows) - 1)]
    parts = np.arange(every) / every
    times = (t[ready][:, None] + (t[after] - t[ready])[:, None] * parts).ravel()
    if ends:
        times = times[: 1 - every or None]  # nothing follows the last effort
    step = longest_step(float(np.median(np.diff(t[effort_rows]))))
    # Within a gap of the efforts there are no rows.
    apart = np.repeat(t[after] - t[ready] > step, every)[: len(times)]
    # Nor are there any before the first position and after the last.
    q = _values_at(t, chunk.q, t[ready], True, longest_step)
    moving = np.repeat(np.isfinite(q).any(axis=1), every)[: len(times)]
    times = times[moving & (~apart | (np.arange(len(times)) % every == 0))]

    def at(values: Float | None, angles: bool = False) -> Float | None:
        return None if values is None else _values_at(t, values, times, angles, longest_step)

    changed: dict[str, Any] = {
        "q": at(chunk.q, angles=True),
        "dq": at(chunk.dq),
        "tau": at(chunk.tau),
        "theta": at(chunk.theta, angles=True),
        "dtheta": at(chunk.dtheta),
        "temperature": at(chunk.temperature),
        "commands": at(chunk.commands),
        "extra": {name: np.asarray(at(values[:, None]))[:, 0] for name, values in chunk.extra.items()},
        "wrench": {name: at(values) for name, values in chunk.wrench.items()},
    }
    return replace(rows_only(chunk, slice(int(ready[0]), None)), t=times, effort_every=every, **changed)


def _values_at(
    t: Float, values: Float, times: Float, angles: bool, longest_step: Callable[[float], float]
) -> Float:
    """Values (T, n) at other times, each column from its own samples; nan within gaps."""
    result = np.full((values.shape[1], len(times)), np.nan)
    for j in range(values.shape[1]):
        known = np.isfinite(values[:, j])
        if np.count_nonzero(known) < CONTEXT:
            continue
        stamps, samples = t[known], values[known, j]
        if angles:
            samples = np.unwrap(samples)
        right = np.clip(np.searchsorted(stamps, times), 1, len(stamps) - 1)
        steps = np.diff(stamps)
        inside = (steps[right - 1] <= longest_step(float(np.median(steps)))) | (stamps[right] == times)
        inside &= (times >= stamps[0]) & (times <= stamps[-1])
        with np.errstate(all="ignore"):  # damaged stamps can be closer than numbers can tell
            result[j, inside] = interpolated(stamps, samples[:, None], times[inside])[:, 0]
    return result.T
