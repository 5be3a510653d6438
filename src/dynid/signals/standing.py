"""Times at which a joint stands still in mid-log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.log.absent import STILL
from dynid.signals.samples import Samples

# s: motion is looked at in bins; a joint stands from so many of them on, which is longer than most reversals take.
# From so few on it stands briefly, as between two moves.
BIN, LEAST_BINS, BRIEF_BINS = 0.1, 10, 4
# s, and bins of it: the shortest pause between two moves, which a joint that turns back at 0.1 rad/s^2 or more does not
# make.
PAUSE, PAUSE_BINS = 0.2, 4


@dataclass(frozen=True)
class Stand:
    """A joint, by its index, that stands still from start to end, s, in a trajectory."""

    joint: int
    trajectory: str
    start: float
    end: float


def stands(batches: Iterable[Samples], least: int = LEAST_BINS) -> tuple[Stand, ...]:
    """Every time at which a joint stands still for so many bins or more, a second, and moves before or after.

    It may travel by `STILL` in a second, and by that part of it in fewer bins.
    """
    return tuple(stand for run in _runs_of_bins(batches, least) for stand in run.stands())


def _runs_of_bins(batches: Iterable[Samples], least: int) -> Iterator[_Bins]:
    run, last = _Bins("", -1, least), -np.inf
    for samples in batches:
        if run.segment != samples.segment:
            yield run
            run, last = _Bins(samples.trajectory, samples.segment, least), -np.inf
        new = own_samples(samples) & (samples.t > last)
        if new.any():
            run.add(samples.t[new], samples.q[new])
            last = float(samples.t[new][-1])
    yield run


class _Bins:
    """The bins of a segment, in which a joint stands or moves: of a day's log no more is kept than that."""

    def __init__(self, trajectory: str, segment: int, least: int) -> None:
        self.trajectory, self.segment, self._least = trajectory, segment, least
        self._times: list[Float] = []
        self._still: list[Bool] = []
        # Greatest and negative least positions of the last bins, (2, B, n), and whether joints stood in them so far.
        self._open: Float | None = None
        self._stood: Bool | None = None

    def add(self, t: Float, q: Float) -> None:
        """Samples (T,), (T, n) that follow the last ones."""
        first = np.flatnonzero(np.diff(np.floor(t / BIN), prepend=-np.inf))
        self._times.append(np.stack([t[first], t[np.append(first[1:], len(t)) - 1]], axis=1))
        ends = np.stack([np.maximum.reduceat(one, first, axis=0) for one in (q, -q)])
        stood = np.zeros(ends.shape[1:], dtype=np.bool_)
        if self._open is not None and self._stood is not None:
            ends = np.concatenate([self._open, ends], axis=1)
            stood = np.concatenate([self._stood, stood])
        known = max(len(stood) - self._least + 1, 0)
        stood |= _still(ends, self._least, STILL * self._least / LEAST_BINS)
        self._still.append(stood[:known])
        self._open, self._stood = ends[:, known:], stood[known:]

    def stands(self) -> Iterator[Stand]:
        """Every time at which a joint stands, of those that move, too."""
        if self._stood is None:
            return
        times, still = np.concatenate(self._times), np.concatenate([*self._still, self._stood])
        for j in np.flatnonzero(still.any(axis=0) & ~still.all(axis=0)).tolist():
            edges = np.flatnonzero(np.diff(still[:, j], prepend=False, append=False))
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                yield Stand(j, self.trajectory, float(times[a, 0]), float(times[b - 1, 1]))


def move_seconds(parts: Sequence[Float], rate: float, slowness: float = 1.0) -> float:
    """How long joints move from one pause to the next, s, the median; inf where less than half of motion is such moves.

    parts: uniform positions, each (n, T).    rate: Hz.    slowness: what speeds at rest are of those of other robots.
    """
    width = max(1, round(PAUSE / PAUSE_BINS * rate))
    longest = slowness * STILL * PAUSE / (BIN * LEAST_BINS)
    moves, moving = [], 0
    for q in parts:
        first = np.arange(0, q.shape[1], width)
        ends = np.stack([np.maximum.reduceat(one, first, axis=1).T for one in (q, -q)])
        for still in _still(ends, PAUSE_BINS, longest).T:
            # A move lies between two pauses: what comes before the first or after the last has no end.
            edges = np.flatnonzero(np.diff(still))
            moves.append(np.diff(edges[0 if still[0] else 1 :])[::2])
            moving += int((~still).sum())
    found = np.concatenate(moves)
    return float(np.median(found)) * width / rate if found.sum() > 0.5 * moving else np.inf


def _still(ends: Float, least: int, longest: float) -> Bool:
    # Bins (B, n), by their greatest and negative least positions (2, B, n), in so many that travel no further.
    found = np.zeros(ends.shape[1:], dtype=np.bool_)
    windows = len(found) - least + 1
    if windows > 0:
        travel = np.lib.stride_tricks.sliding_window_view(ends, least, axis=1).max(axis=3).sum(axis=0)
        for shift in range(least):
            found[shift : shift + windows] |= travel <= longest
    return found


def own_samples(samples: Samples) -> Bool:
    """Samples (T,) of a batch that are in no other one: overlap with neighbouring batches left out, rest not."""
    return np.asarray(np.any([samples.keep, *samples.left_out.values()], axis=0))
