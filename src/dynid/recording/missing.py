"""Missing values of channels: interpolated across short holes, from the samples of the channel itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.recording.chunk import RawChunk, joined, rows_only, taken
from dynid.recording.commands import interpolated

# Samples on each side of a hole that give the slope at its edge.
EDGE_SAMPLES = 2
_CHANNELS = ("q", "dq", "tau", "theta", "dtheta", "temperature")


def bridged(chunks: Iterator[RawChunk], longest_step: Callable[[float], float]) -> Iterator[RawChunk]:
    """Yield the chunks with missing values interpolated across holes that are no gaps.

    The usual step of a channel is the median time between its own samples. So a channel that is slower than the rows
    gets a value in each row.

    Parameters
    ----------
    chunks : iterator of RawChunk
        Consecutive chunks of a trajectory, in the order of time.
    longest_step : callable
        Longest step in s that is no gap, for a usual step in s.

    Yields
    ------
    RawChunk
        With the number of interpolated values by channel and joint in `bridged`.

    """
    buffer: RawChunk | None = None
    sent = 0  # rows of the buffer that were passed on; the holes of the others may not have ended
    for chunk in chunks:
        if _is_complete(chunk) and (buffer is None or sent == len(buffer.t)):
            yield chunk
            buffer = rows_only(chunk, slice(-EDGE_SAMPLES, None))
            sent = len(buffer.t)
            continue
        whole = chunk if buffer is None else joined([buffer, chunk])
        reach = _reach(whole, longest_step)
        ready = len(whole.t) if _is_complete(chunk) else len(whole.t) - reach
        if ready > sent:
            yield _filled(whole, sent, ready, longest_step)
        ready = max(ready, sent)
        first = max(ready - reach, 0)
        buffer, sent = rows_only(whole, slice(first, None)), ready - first
    if buffer is not None and sent < len(buffer.t):
        yield _filled(buffer, sent, len(buffer.t), longest_step)


def _is_complete(chunk: RawChunk) -> bool:
    with np.errstate(invalid="ignore"):
        return all(
            values is None or bool(np.isfinite(values.sum()))
            for values in (getattr(chunk, name) for name in _CHANNELS)
        )


def _reach(chunk: RawChunk, longest_step: Callable[[float], float]) -> int:
    """Rows on each side on which an interpolated value depends."""
    rows = [EDGE_SAMPLES]
    step = float(np.median(np.diff(chunk.t))) if len(chunk.t) > 1 else 0.0
    for values in (getattr(chunk, name) for name in _CHANNELS):
        if values is not None and step > 0:
            known = np.isfinite(values).sum(axis=0)
            usual = step * len(chunk.t) / known[known > 0].min(initial=len(chunk.t))
            rows.append(math.ceil((longest_step(usual) + EDGE_SAMPLES * usual) / step))
    return max(rows)


def _filled(chunk: RawChunk, start: int, stop: int, longest_step: Callable[[float], float]) -> RawChunk:
    """Rows start to stop of a chunk, with short holes interpolated from all rows."""
    part = replace(taken(chunk, slice(start, stop)), first_row=chunk.first_row + start)
    changed: dict[str, Any] = {}
    counts: dict[str, Float] = {}
    for name in _CHANNELS:
        values = getattr(chunk, name)
        if values is None or np.isfinite(values[start:stop]).all():
            continue
        whole = np.array(values, order="K")
        for joint in np.flatnonzero(~np.isfinite(values[start:stop]).all(axis=0)).tolist():
            whole[:, joint] = _without_holes(chunk.t, values[:, joint], longest_step)
        changed[name] = whole[start:stop]
        counts[name] = np.isfinite(whole[start:stop]).sum(axis=0) - np.isfinite(values[start:stop]).sum(
            axis=0
        )
    return replace(part, **changed, bridged=counts)


def _without_holes(t: Float, values: Float, longest_step: Callable[[float], float]) -> Float:
    """Values (T,) at times t (T,) with short holes interpolated; wider ones stay nan."""
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < 2 * EDGE_SAMPLES:
        return values
    times = t[known]
    steps = np.diff(times)
    missing = np.flatnonzero(~np.isfinite(values))
    after = np.searchsorted(known, missing)
    inside = (after > 0) & (after < len(known))
    missing, after = missing[inside], after[inside]
    short = steps[after - 1] <= longest_step(float(np.median(steps)))
    missing, before = missing[short], after[short] - 1
    # Angles that wrap are interpolated as if they did not.
    continuous = np.unwrap(values[known])
    turns = continuous[before] - values[known][before]
    filled = values.copy()
    with np.errstate(all="ignore"):  # damaged stamps can be closer than numbers can tell
        filled[missing] = interpolated(times, continuous[:, None], t[missing])[:, 0] - turns
    return filled
