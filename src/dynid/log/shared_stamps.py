"""Different rows with one time stamp, as a clock coarser than the rows leaves them: set evenly between stamps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dynid.log.chunks import joined, taken
from dynid.log.log import RawChunk
from dynid.log.time_order import longest_step

# A row was late where the stamp before is farther than the next one by this factor, and by no more rows than came late.
LATE = 1.5
# Rows at one stamp that are looked at together; a clock that gives more of them one stamp stands.
MOST_ROWS = 1000


def spread_stamps(chunks: Iterator[RawChunk]) -> Iterator[RawChunk]:
    """Passes chunks on, with even times for rows that differ and share a stamp.

    They lie from their stamp up to the next one, or from the one before where a row was late. Rows that repeat each
    other keep their stamp, as do those that share one for longer than what counts as a gap: nobody knows then whether
    some between them are lost.
    """
    last: RawChunk | None = None  # row that was passed on, with its stamp
    time = -np.inf  # that it was given
    held: RawChunk | None = None  # rows of one stamp, of which the next one is not known yet
    for chunk in chunks:
        whole = chunk if held is None else joined([held, chunk])
        if not len(whole.t):
            continue
        held, cut = None, int(np.searchsorted(whole.t, whole.t[-1]))
        if 1 < len(whole.t) - cut <= MOST_ROWS:
            held = replace(taken(whole, slice(cut, None)), first_row=whole.first_row + cut, empty=np.zeros(0))
            whole = taken(whole, slice(cut))
        if not len(whole.t):
            continue
        own, whole = whole, _spread(whole, last, time, float(held.t[0]) if held is not None else np.inf)
        last, time = taken(own, slice(-1, None)), float(whole.t[-1])
        yield whole
    if held is not None:
        yield _spread(held, last, time, np.inf)


def _spread(chunk: RawChunk, last: RawChunk | None, last_time: float, next_stamp: float) -> RawChunk:
    """The chunk with even times.    last, last_time: the row before it, s; next_stamp: of the row after it, s."""
    if last is not None and last.t[0] == chunk.t[0]:  # the first row of its stamp has been passed on
        whole = _spread(joined([last, chunk]), None, -np.inf, next_stamp)
        return taken(replace(whole, first_row=chunk.first_row, empty=chunk.empty), slice(1, None))
    if not (np.diff(chunk.t) == 0.0).any():
        return chunk
    t, moved = chunk.t.copy(), np.zeros(len(chunk.t), dtype=np.bool_)
    starts = np.flatnonzero(np.diff(chunk.t, prepend=-np.inf) != 0.0)
    stops = np.append(starts[1:], len(t))
    for a, b in zip(starts.tolist(), stops.tolist(), strict=True):
        if b - a < 2 or _all_alike(chunk, a, b):
            continue
        before = float(t[a] - (t[a - 1] if a else last_time))
        after = float((chunk.t[b] if b < len(t) else next_stamp) - t[a])
        late = LATE * after < before < (b - a + 0.5) * after
        step = min(before / (b - a), after) if late else min(after / (b - a), 2.0 * before)
        if np.isfinite(step) and 0.0 < (b - a) * step <= longest_step(step):
            t[a:b] += step * (np.arange(b - a) - (b - a - 1 if late else 0))
            moved[a : b - 1 if late else b] = True
            moved[a] = late
    return replace(chunk, t=t, spread=t[moved])


def _all_alike(chunk: RawChunk, a: int, b: int) -> bool:
    return all(
        np.array_equal(x[a:b], np.broadcast_to(x[a], x[a:b].shape), equal_nan=True)
        for x in (chunk.q, chunk.dq, chunk.tau)
        if x is not None
    )
