"""Several trajectories on one time axis, and long signals thinned without losing peaks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.estimate.scores import Residuals

# Pause between trajectories, as a share of the total time; steps of time above which a line is broken.
_WIDEST_GAP = 0.02
_STEPS = 2.5


@dataclass(frozen=True, eq=False)
class Span:
    """Name of a trajectory and the drawn times of its first and last sample."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """Drawn time of every sample, (n_samples,), first sample after every gap, and spans of the trajectories."""

    x: Float
    starts: Int
    spans: tuple[Span, ...]


def lay_out(residuals: Residuals) -> Timeline:
    """Place the trajectories one after another; pauses take at most 2 % of the total time."""
    starts = run_starts(residuals)
    ends = np.append(starts[1:], len(residuals.t))
    lengths = [float(residuals.t[b - 1] - residuals.t[a]) for a, b in zip(starts, ends, strict=True)]
    gap = _WIDEST_GAP * max(sum(lengths), 1e-9)
    x = np.empty(len(residuals.t))
    spans: list[Span] = []
    cursor = 0.0
    for i, (a, b) in enumerate(zip(starts, ends, strict=True)):
        same = i > 0 and residuals.trajectory[a] == residuals.trajectory[a - 1]
        pause = float(residuals.t[a] - residuals.t[a - 1]) if same else gap
        cursor += min(max(pause, 0.0), gap) if i else 0.0
        x[a:b] = cursor + (residuals.t[a:b] - residuals.t[a])
        end = cursor + lengths[i]
        if same:
            spans[-1] = Span(spans[-1].name, spans[-1].start, end)
        else:
            spans.append(Span(residuals.trajectories[int(residuals.trajectory[a])], cursor, end))
        cursor = end
    # Time of samples that were left out stays empty: no line crosses it.
    behind = np.flatnonzero(np.diff(residuals.t) * residuals.rate > _STEPS) + 1
    return Timeline(x, np.array(sorted({*starts.tolist(), *behind.tolist()}), dtype=np.int64), tuple(spans))


def run_starts(residuals: Residuals) -> Int:
    """Index of the first sample of every contiguous part of one trajectory and segment."""
    if len(residuals.t) == 0:
        return np.zeros(0, dtype=np.int64)
    change = (
        (np.diff(residuals.trajectory) != 0) | (np.diff(residuals.segment) != 0) | (np.diff(residuals.t) < 0)
    )
    return np.append(0, np.flatnonzero(change) + 1).astype(np.int64)


def thin(signals: Sequence[Float], points: int) -> Int:
    """Indices of at most `points` samples, with the extremes of every signal in every bucket.

    signals: each (n_samples,).    Returns ascending indices; all if n_samples <= points.
    """
    T = len(signals[0])
    if points >= T:
        return np.arange(T)
    buckets = max(points // (2 * len(signals)), 1)
    edges = np.unique(np.linspace(0, T, buckets + 1).astype(np.int64))
    # The last sample of a shorter bucket is repeated, which does not change its extremes.
    places = edges[:-1, None] + np.arange(np.diff(edges).max())
    places = np.minimum(places, edges[1:, None] - 1)
    kept = []
    for signal in signals:
        parts = signal[places]
        known = np.isfinite(parts).any(axis=1)
        for missing, extreme in ((np.inf, np.argmin), (-np.inf, np.argmax)):
            values = np.where(np.isnan(parts), missing, parts)
            kept.append((edges[:-1] + extreme(values, axis=1))[known])
    return np.unique(np.concatenate(kept))


def broken(values: Float, indices: Int, starts: Int) -> Float:
    """Select values and put nan between contiguous parts, so that no line joins them.

    Parameters
    ----------
    values : ndarray, shape (n_samples,)
        The signal.
    indices : ndarray, shape (k,)
        Samples to select, ascending.
    starts : ndarray
        First sample of every contiguous part.

    Returns
    -------
    ndarray

    """
    places = np.searchsorted(indices, starts[1:])
    return np.insert(values[indices].astype(np.float64), places, np.nan)
