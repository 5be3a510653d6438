"""Rows whose time stamps cannot be: missing ones, and those that the stamps before and after them contradict."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import LARGEST_VALUE, Bool, Float, Int
from dynid.base.records import dataclass

# Steps above six median steps count as gaps, but at least 20 ms, which no motion jumps over.
GAP_STEPS, GAP_LEAST = 6.0, 0.02
# Controllers record between 2 and 20,000 rows a second.
SLOWEST, FASTEST = 2.0, 20_000.0
# A stretch of fewer rows that contradicts its neighbours is damaged; one of more may as well be right.
LONGEST_DAMAGE = 50
# Rows that stand so many rows from their place, as messages that overtake one another, are put there.
FEW_ROWS = 10
# Median steps beside such rows once they are in place: wrong stamps leave holes where they should be, and those of a
# clock that was set back lie between others.
WHOLE = 0.6, 1.75
# Of the rows: where more stamps are damaged, nothing says which of them are right.
DAMAGED_SHARE = 0.01
# Rows of a stretch of ascending time that is taken for a motion by itself.
LEAST_ROWS = 100
# How near to the first time a clock that was set to zero begins anew, as a share of all.
NEAR_BEGIN = 0.02


def longest_step(median: float) -> float:
    """Time steps above this count as gaps (s).    median: of the steps, s."""
    return max(GAP_STEPS * median, GAP_LEAST)


def missing_stamps(t: Float) -> Bool:
    """Which stamps (T,) s are no time at all."""
    return np.asarray(~(np.abs(t) <= LARGEST_VALUE))


def damaged_stamps(t: Float) -> Bool:
    """Which stamps (T,) s cannot be right, in rows that should be in the order of time.

    That are those without a number; short stretches that time runs back to or from, unless their time is what the rows
    between them and the next long stretch take; and of what runs back then the rows until time is where it was.
    """
    damaged = missing_stamps(t)
    rows = np.flatnonzero(~damaged)
    # What was left out may have hidden that the stretch beside it is damaged, too.
    while len(wrong := rows[_torn(rows, t[rows])]):
        damaged[wrong] = True
        rows = np.flatnonzero(~damaged)
    damaged[rows[_behind(t[rows])]] = True
    return damaged


def misplaced_rows(t: Float) -> int:
    """How many rows stand a few rows from their place by the stamps (T,), s; 0 where that does not explain the stamps.

    Sorted they have to follow one another as all rows do.
    """
    t = t[~missing_stamps(t)]
    order = np.argsort(t, kind="stable")
    away = np.abs(order - np.arange(len(t)))
    moved, step = away > 0, np.diff(t[order])
    if not moved.any() or away.max() > FEW_ROWS or moved.sum() > DAMAGED_SHARE * len(t):
        return 0
    beside = step[moved[1:] | moved[:-1]] / np.median(step[step > 0])
    return int(moved.sum()) if WHOLE[0] <= beside.min() and beside.max() <= WHOLE[1] else 0


def stretches_stand_alone(t: Float) -> bool:
    """Whether stretches of ascending time are recordings: long, and begun anew or of times of their own.

    So are those of a counter that wraps: all but the first begin at its bottom, and all but the last end at its top.

    Times that overlap otherwise are those of a clock that was set back in the course of a motion.
    """
    edges = np.array([0, *(np.flatnonzero(np.diff(t) < 0) + 1), len(t)])
    begins, ends = t[edges[:-1]], t[edges[1:] - 1]
    if (np.diff(edges) < LEAST_ROWS).any():
        return False
    span = NEAR_BEGIN * (np.nanmax(t) - np.nanmin(t))
    anew, over = begins - np.nanmin(t) <= span, np.nanmax(t) - ends <= span
    by_time = np.argsort(begins)
    apart = begins[by_time][1:] > ends[by_time][:-1]
    wraps = len(begins) > 1 and bool(anew[1:].all() and over[:-1].all())
    return bool(anew.all() or apart.all() or wraps)


def _torn(rows: Int, t: Float) -> Bool:
    """Short stretches of the stamps (k,) of these rows that time runs back to or from and that fit to no other."""
    step = np.diff(t)
    if not (step < 0).any():
        return np.zeros(len(t), dtype=np.bool_)
    typical = float(np.median(step[step > 0])) if (step > 0).any() else 0.0
    edges = np.flatnonzero((step < 0) | (step > longest_step(typical))) + 1
    first, stop = np.r_[0, edges], np.r_[edges, len(rows)]
    runs_back = np.r_[False, step[edges - 1] < 0, False]
    short = stop - first < LONGEST_DAMAGE
    torn = short & (runs_back[:-1] | runs_back[1:])
    pieces, longs = np.flatnonzero(torn), np.flatnonzero(~short)
    if len(longs):
        # Where every row takes one step, stamps less that of their row are constant.
        offset = t - typical * rows
        after = np.searchsorted(longs, pieces)
        apart = np.full(len(pieces), np.inf)
        for side, here, there in ((after, stop - 1, first), (after - 1, first, stop - 1)):
            other = longs[np.clip(side, 0, len(longs) - 1)]
            between = np.abs(offset[here[pieces]] - offset[there[other]])
            apart = np.where((side >= 0) & (side < len(longs)), np.minimum(apart, between), apart)
        torn[pieces] = apart > longest_step(typical)
    return np.repeat(torn, stop - first)


def _behind(t: Float) -> Bool:
    """Rows behind the latest stamp before them, and those right after them that have only come up to it."""
    latest = np.maximum.accumulate(t)
    behind = t < latest
    since = np.maximum.accumulate(np.where(np.diff(latest, prepend=-np.inf) > 0, np.arange(len(t)), 0))
    before = np.r_[0, np.cumsum(behind)]
    return np.asarray(behind | (before[:-1] > before[since]))


@dataclass(frozen=True, eq=False)
class TimeOrder:
    """The stamps of a trajectory of which some are damaged.

    first_row: of the trajectory in its file.    t, damaged: (T,).    misplaced: rows that are to be put in order.
    """

    first_row: int
    t: Float
    damaged: Bool
    misplaced: int = 0

    def ends(self) -> tuple[float, float]:
        """First and last time (s), of all rows that have one where too many are damaged; nan where none has."""
        known = self.t[~self.damaged if self._few(slice(None)) else ~missing_stamps(self.t)]
        return (float(known.min()), float(known.max())) if len(known) else (np.nan, np.nan)

    def begins_anew(self) -> list[int]:
        """Rows of the file at which recordings begin behind the first one; [] where the stamps say no such thing."""
        explained = self.misplaced or self._few(slice(None)) or missing_stamps(self.t).any()
        if explained or not stretches_stand_alone(self.t):
            return []
        return [self.first_row + row + 1 for row in np.flatnonzero(np.diff(self.t) < 0).tolist()]

    def left_out(self, start: float, end: float) -> tuple[int, ...]:
        """Rows of the file that a part of the trajectory, from start to end (s), does without.

        That are all damaged ones. Where there are too many within the part they stay, and stop who reads them.
        """
        inside = np.flatnonzero(~self.damaged & (self.t >= start) & (self.t <= end))
        out = self.damaged.copy()
        if (start, end) == self.ends() or not len(inside):
            part = slice(None)
        else:
            part = slice(int(inside[0]), int(inside[-1]) + 1)
        if not self._few(part):
            out[part] = False
        return tuple((self.first_row + np.flatnonzero(out)).tolist())

    def _few(self, part: slice) -> bool:
        damaged = self.damaged[part]
        return bool(damaged.sum() <= DAMAGED_SHARE * len(damaged))
