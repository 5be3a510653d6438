"""Time stamps and trajectories: order of time, selection, repeated stamps, and channels with separate clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import LARGEST_VALUE, Bool, Float, Int
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import InputError, Place
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.base.units import number_of
from dynid.log.log import Channel, ChannelMap, Table, Text
from dynid.recording import SLOWER, RawChunk, Trajectory, joined, rows_only, taken

# Detect damaged time stamps: missing stamps, and stamps that contradict their neighbours.

# A time step is a gap if it exceeds six median steps and 20 ms. No robot motion is faster than 20 ms.
GAP_STEPS, GAP_LEAST = 6.0, 0.02
# Rows per second: lowest and highest rate at which controllers record.
SLOWEST, FASTEST = 2.0, 20_000.0
# Rows. A shorter trajectory is ignored if other trajectories are longer; else the log is rejected.
MIN_ROWS = 50
# Rows. A section that contradicts its neighbours is damaged if it is shorter; if it is longer, the neighbours may be
# the damaged sections.
LONGEST_DAMAGE = 50
# Rows. Messages that overtake each other are out of order by at most this many rows and are sorted by time.
FEW_ROWS = 10
# Median steps: smallest and largest step allowed around sorted rows. Sorting a wrong stamp leaves a larger step at its
# correct place; sorting the rows after a clock was set back gives smaller steps.
WHOLE = 0.6, 1.75
# Share of the rows. If more stamps are damaged, it is unclear which stamps are correct.
DAMAGED_SHARE = 0.01
# Rows: minimum length of a section of ascending time that counts as a separate motion.
LEAST_ROWS = 100
# Share of the whole time span: a clock that was reset to zero restarts within this distance of the first time.
NEAR_BEGIN = 0.02


def longest_step(median: float) -> float:
    """Longest time step in s that is not a gap, for a median time step in s."""
    return max(GAP_STEPS * median, GAP_LEAST)


def missing_stamps(t: Float) -> Bool:
    """Mask (T,) of time stamps that are missing, infinite or larger than `LARGEST_VALUE`."""
    return np.asarray(~(np.abs(t) <= LARGEST_VALUE))


def damaged_stamps(t: Float) -> Bool:
    """Mask of wrong time stamps, in rows that should be in order of time.

    A stamp is damaged in three cases: it is missing; it belongs to a short section that begins or ends with a step back
    in time and whose time does not match the row numbers of the next long section; or it is earlier than a stamp before
    it.

    Parameters
    ----------
    t : ndarray, shape (n_samples,), s
        Time stamps.

    Returns
    -------
    ndarray of bool, shape (n_samples,)

    """
    damaged = missing_stamps(t)
    rows = np.flatnonzero(~damaged)
    # Repeat the search, since a damaged section can hide damage in the section next to it.
    while len(wrong := rows[_contradicting(rows, t[rows])]):
        damaged[wrong] = True
        rows = np.flatnonzero(~damaged)
    damaged[rows[_behind_latest(t[rows])]] = True
    return damaged


def misplaced_rows(t: Float) -> int:
    """Number of rows that are out of order by at most `FEW_ROWS` rows.

    Returns 0 if the time steps around these rows are not as even as elsewhere after sorting: then the stamps are wrong,
    not the order of the rows.

    Parameters
    ----------
    t : ndarray, shape (n_samples,), s
        Time stamps.

    """
    t = t[~missing_stamps(t)]
    order = np.argsort(t, kind="stable")
    away = np.abs(order - np.arange(len(t)))
    moved, step = away > 0, np.diff(t[order])
    if not moved.any() or away.max() > FEW_ROWS or moved.sum() > DAMAGED_SHARE * len(t):
        return 0
    around = step[moved[1:] | moved[:-1]] / np.median(step[step > 0])
    return int(moved.sum()) if WHOLE[0] <= around.min() and around.max() <= WHOLE[1] else 0


def stretches_stand_alone(t: Float) -> bool:
    """Whether every section of ascending time is a separate recording.

    All sections must be long, and one of three conditions must be met: all sections begin near the first time; the
    sections do not overlap in time; or a counter wraps, so that all sections but the first begin at its minimum and all
    but the last end at its maximum. Any other overlap means that the clock was set back during a motion.
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


def _contradicting(rows: Int, t: Float) -> Bool:
    """Mask (k,) of short sections next to a step back in time whose times do not continue a neighbouring long section.

    Parameters
    ----------
    rows : ndarray of int, shape (k,)
        Row numbers of the stamps.
    t : ndarray, shape (k,), s
        Time stamps.

    """
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
        # If the time step is constant, the stamp minus the row number times the step is constant, too.
        offset = t - typical * rows
        after = np.searchsorted(longs, pieces)
        apart = np.full(len(pieces), np.inf)
        for side, here, there in ((after, stop - 1, first), (after - 1, first, stop - 1)):
            other = longs[np.clip(side, 0, len(longs) - 1)]
            between = np.abs(offset[here[pieces]] - offset[there[other]])
            apart = np.where((side >= 0) & (side < len(longs)), np.minimum(apart, between), apart)
        torn[pieces] = apart > longest_step(typical)
    return np.repeat(torn, stop - first)


def _behind_latest(t: Float) -> Bool:
    """Mask of rows earlier than the latest stamp before them, and of later rows up to the next new latest stamp."""
    latest = np.maximum.accumulate(t)
    behind = t < latest
    since = np.maximum.accumulate(np.where(np.diff(latest, prepend=-np.inf) > 0, np.arange(len(t)), 0))
    before = np.r_[0, np.cumsum(behind)]
    return np.asarray(behind | (before[:-1] > before[since]))


@dataclass(frozen=True, eq=False)
class TimeOrder:
    """Time stamps of a trajectory with damaged or misplaced stamps.

    Parameters
    ----------
    first_row : int
        First row of the trajectory in its file.
    t : ndarray, shape (n_samples,), s
        Time stamps.
    damaged : ndarray of bool, shape (n_samples,)
        Mask of the damaged stamps.
    misplaced : int
        Number of rows that must be sorted.

    """

    first_row: int
    t: Float
    damaged: Bool
    misplaced: int = 0

    def ends(self) -> tuple[float, float]:
        """First and last undamaged time in s; nan if there is none.

        If more than `DAMAGED_SHARE` of the stamps are damaged, the first and last of all valid numbers.
        """
        known = self.t[~self.damaged if self._few(slice(None)) else ~missing_stamps(self.t)]
        return (float(known.min()), float(known.max())) if len(known) else (np.nan, np.nan)

    def begins_anew(self) -> list[int]:
        """Rows of the file at which the second and later recordings begin; [] for a single recording."""
        explained = self.misplaced or self._few(slice(None)) or missing_stamps(self.t).any()
        if explained or not stretches_stand_alone(self.t):
            return []
        return [self.first_row + row + 1 for row in np.flatnonzero(np.diff(self.t) < 0).tolist()]

    def left_out(self, start: float, end: float) -> tuple[int, ...]:
        """Rows of the file to ignore because of damaged stamps, for a part of the trajectory from start to end (s).

        If more than `DAMAGED_SHARE` of the rows in the part are damaged, they stay in it, and the checks of the log
        reject the part.
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


# Find the trajectories of a log and select the parts to use.

ROWS = 32768


@dataclass(frozen=True)
class Selection:
    """Trajectories to use, by name, and the part of each trajectory.

    Parameters
    ----------
    pattern : str
        Name or glob pattern of the trajectories.
    window : tuple of float, s, optional
        Start and end on the log's clock.
    part : tuple of float, optional
        Start and end as fractions (0 to 1) of the trajectory's duration.

    """

    pattern: str = option("*", "name or pattern")
    window: tuple[float, float] | None = option(
        None, "start, end on the log's clock; limited to the trajectory (and to `part`)", unit="s"
    )
    part: tuple[float, float] | None = option(
        None, "start, end as fractions of the trajectory's duration", least=0, most=1
    )


def column_numbers(values: Float | Text, name: str, table: Table, row: int) -> Float:
    """Convert a column to numbers.

    Parameters
    ----------
    values : ndarray or Text, shape (n_samples,)
        Cells of the column.
    name : str
        Name of the column.
    table : Table
        Table of the column.
    row : int
        Row number of the first value in the file, which the error message states.

    Raises
    ------
    InputError
        If a cell is not a number.

    """
    if not isinstance(values, Text):
        return values
    number = getattr(table, "number", cell_number)
    first_line = getattr(table, "first_line", None)
    numbers, wrong = np.full(len(values.names) + 1, np.nan), []
    for code, cell in enumerate(values.names):
        try:
            numbers[code] = number(cell)
        except ValueError:
            wrong.append(code)
    bad = np.flatnonzero(np.isin(values.codes, wrong))
    if not len(bad):
        return numbers[values.codes]
    look = getattr(table, "wrong_row", None)
    if look is not None and (row_error := look(name)) is not None:
        raise row_error
    at = int(bad[0])
    cell = values.names[values.codes[at]]
    raise InputError(
        "text-cell",
        found=f"column '{name}' = '{cell}'",
        expected="a number",
        do='set decimal = "," under [log]' if cell.count(",") == 1 and "." not in cell else "",
        place=Place(
            file=str(table.path), line=None if first_line is None else first_line + row + at, row=row + at
        ),
    )


def cell_number(cell: str) -> float:
    """Convert a cell to a number, nan if it is empty; raise ValueError for text."""
    return number_of(cell or "nan")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Trajectories of one or more files.

    Parameters
    ----------
    trajectories : tuple of Trajectory
    orders : mapping of (Path, int) to TimeOrder
        Time stamps of each trajectory whose time does not ascend, by file and first row.

    """

    trajectories: tuple[Trajectory, ...]
    orders: Mapping[tuple[Path, int], TimeOrder]

    def part(self, trajectory: Trajectory, start: float, end: float) -> Trajectory:
        """Part of a trajectory from start to end (s) that omits rows with damaged time stamps."""
        order = self.orders.get((trajectory.file, trajectory.first_row))
        out = order.left_out(start, end) if order is not None else ()
        misplaced = order.misplaced if order is not None else 0
        return replace(trajectory, start_time=start, end_time=end, left_out=out, misplaced=misplaced)


def trajectories_in(tables: Sequence[Table], m: ChannelMap) -> Trajectories:
    """Find the trajectories of all tables; raise InputError if the rows of a trajectory are not contiguous."""
    trajectories: list[Trajectory] = []
    orders: dict[tuple[Path, int], TimeOrder] = {}
    for table in tables:
        runs = _runs(table, m)
        names = [run.name for run in runs]
        again = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if again is not None:
            rows = [run.first for run in runs if run.name == again]
            raise InputError(
                "interleaved",
                found=f"trajectory '{again}' in several pieces (from rows {', '.join(map(str, rows[:4]))} on)",
                expected="contiguous rows",
                do="sort the file by trajectory, or give each piece a different name",
                place=Place(file=str(table.path), row=rows[1]),
            )
        for run in runs:
            start, end = run.start, run.end
            if not run.ascends:
                order = orders[table.path, run.first] = _order(table, m, run)
                start, end = order.ends()
            trajectories.append(Trajectory(run.name, table.path, run.first, run.count, start, end))
    # If several files use a name, add the stem of the file to it, or its path if the stems are equal.
    for qualified in (_by_stem, _by_path):
        uses = Counter(trajectory.name for trajectory in trajectories)
        trajectories = [
            replace(trajectory, name=qualified(trajectory)) if uses[trajectory.name] > 1 else trajectory
            for trajectory in trajectories
        ]
    return Trajectories(tuple(trajectories), orders)


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else path.stem


def _by_stem(trajectory: Trajectory) -> str:
    stem = _stem(trajectory.file)
    return f"{trajectory.file.parent.name}/{stem}" if trajectory.name == stem else f"{stem}:{trajectory.name}"


def _by_path(trajectory: Trajectory) -> str:
    return f"{trajectory.file}:{trajectory.name.rpartition(':')[2]}"


@dataclass
class _Run:
    """Consecutive rows of the same trajectory; `ascends`: every row has a time, and time never decreases."""

    name: str
    first: int
    count: int = 0
    start: float = np.nan
    end: float = np.nan
    ascends: bool = True
    last: float = -LARGEST_VALUE

    def add(self, t: Float) -> None:
        self.count += len(t)
        known = t[np.isfinite(t)]
        if len(known):
            self.start = float(np.fmin(self.start, known.min()))
            self.end = float(np.fmax(self.end, known.max()))
        self.ascends &= bool(self.last <= t[0] and (t[1:] >= t[:-1]).all() and t[-1] <= LARGEST_VALUE)
        self.last = float(t[-1])


def _runs(table: Table, m: ChannelMap) -> list[_Run]:
    extent = getattr(table, "extent", None)
    if m.trajectory is None and extent is not None and table.row_count:
        ends = extent(m.time.column)
        if ends is not None:
            start, end = (bound * m.time.factor for bound in ends)
            return [_Run(_stem(table.path), 0, table.row_count, start, end)]
    columns = (m.time.column, *((m.trajectory,) if m.trajectory else ()))
    runs: list[_Run] = []
    row = 0
    for batch in table.batches(columns, ROWS * 4):
        t = _times(batch, table, m, row)
        labels = (
            batch[m.trajectory]
            if m.trajectory
            else Text(np.zeros(len(t), dtype=np.int64), (_stem(table.path),))
        )
        if not isinstance(labels, Text):
            values, codes = np.unique(labels, return_inverse=True)
            labels = Text(codes.astype(np.int64), tuple(_label(value) for value in values))
        edges = [0, *(np.flatnonzero(np.diff(labels.codes)) + 1).tolist(), len(t)]
        for a, b in pairwise(edges):
            if b == a:
                continue
            name = labels.names[labels.codes[a]] if labels.codes[a] >= 0 else ""
            if not runs or runs[-1].name != name:
                runs.append(_Run(name, row + a))
            runs[-1].add(t[a:b])
        row += len(t)
    if not runs:
        raise InputError(
            "no-rows",
            found="a log without rows",
            expected="data",
            do="check that the recording was started and the export is complete",
            place=Place(file=str(table.path)),
        )
    return runs


def _order(table: Table, m: ChannelMap, run: _Run) -> TimeOrder:
    t = np.empty(run.count)
    at = 0
    for batch in table.batches((m.time.column,), ROWS * 4, run.first, run.first + run.count):
        part = _times(batch, table, m, run.first + at)
        t[at : at + len(part)] = part
        at += len(part)
    misplaced = 0 if m.sort else misplaced_rows(t)
    return TimeOrder(run.first, t, missing_stamps(t) if m.sort or misplaced else damaged_stamps(t), misplaced)


def _times(batch: Mapping[str, Float | Text], table: Table, m: ChannelMap, row: int) -> Float:
    return column_numbers(batch[m.time.column], m.time.column, table, row) * m.time.factor


def _label(value: float) -> str:
    return str(int(value)) if np.isfinite(value) and value == int(value) else repr(float(value))


def selected(available: Trajectories, wanted: Sequence[Selection]) -> Iterator[Trajectory]:
    """Yield each wanted trajectory once; raise InputError if a pattern has no match or a window is empty."""
    names = [trajectory.name for trajectory in available.trajectories]
    given: set[Trajectory] = set()
    for selection in wanted:
        hits = [
            trajectory
            for trajectory in available.trajectories
            if trajectory.name == selection.pattern or fnmatchcase(trajectory.name, selection.pattern)
        ]
        if not hits:
            near = get_close_matches(selection.pattern, names, n=1, cutoff=0.4)
            raise InputError(
                "unknown-trajectory",
                found=f"no trajectory '{selection.pattern}'",
                expected="one of " + ", ".join(names[:12]) + (" ..." if len(names) > 12 else ""),
                do=f"did you mean '{near[0]}'?" if near else "",
            )
        for trajectory in hits:
            part = available.part(trajectory, *_time_range(trajectory, selection))
            if part not in given:
                given.add(part)
                yield part


def _time_range(trajectory: Trajectory, selection: Selection) -> tuple[float, float]:
    start, end = trajectory.start_time, trajectory.end_time
    if selection.part is not None:
        a, b = selection.part
        start, end = start + a * (end - start), start + b * (end - start)
    if selection.window is not None:
        start, end = max(start, selection.window[0]), min(end, selection.window[1])
    if (start, end) == (trajectory.start_time, trajectory.end_time):
        return start, end
    if not start < end:
        asked = selection.window if selection.window is not None else selection.part
        raise InputError(
            "empty-window",
            found=f"no row of trajectory '{trajectory.name}' in {list(asked or ())}",
            expected=f"a part of {trajectory.start_time:.6g} to {trajectory.end_time:.6g} s",
            do="correct window or part under [data]",
            place=Place(file=str(trajectory.file)),
        )
    return start, end


# Space rows evenly if they share a time stamp because the resolution of the clock is lower than the row rate.

# Ratio of the time steps before and after rows with the same stamp: if it is larger, but not larger than the number of
# these rows, they were delayed.
LATE = 1.5
# Maximum number of rows with the same stamp that are spaced evenly. With more rows, the clock has stopped.
MOST_ROWS = 1000


def spread_stamps(chunks: Iterator[RawChunk]) -> Iterator[RawChunk]:
    """Yield the chunks with evenly spaced times for rows that share a time stamp.

    The rows are spaced between their stamp and the next stamp, or, if they were delayed, between the previous stamp and
    their stamp. Rows with equal values keep their stamp. Rows also keep their stamp if the spacing would extend over a
    gap, because rows may be missing there.
    """
    last: RawChunk | None = None  # last row that was yielded, with its original stamp
    time = -np.inf  # time assigned to that row, s
    pending: RawChunk | None = None  # rows with the same stamp, until the next stamp is known
    for chunk in chunks:
        whole = chunk if pending is None else joined([pending, chunk])
        if not len(whole.t):
            continue
        pending, cut = None, int(np.searchsorted(whole.t, whole.t[-1]))
        if 1 < len(whole.t) - cut <= MOST_ROWS:
            pending = rows_only(whole, slice(cut, None))
            whole = taken(whole, slice(cut))
        if not len(whole.t):
            continue
        original, whole = (
            whole,
            _spread(whole, last, time, float(pending.t[0]) if pending is not None else np.inf),
        )
        last, time = taken(original, slice(-1, None)), float(whole.t[-1])
        yield whole
    if pending is not None:
        yield _spread(pending, last, time, np.inf)


def _spread(chunk: RawChunk, last: RawChunk | None, last_time: float, next_stamp: float) -> RawChunk:
    """Space the rows of a chunk that share a stamp.

    Parameters
    ----------
    chunk : RawChunk
        Consecutive rows with their original stamps.
    last : RawChunk, optional
        Row before the chunk, with its original stamp.
    last_time : float, s
        Time assigned to that row.
    next_stamp : float, s
        First stamp after the chunk.

    """
    if last is not None and last.t[0] == chunk.t[0]:  # the first row with this stamp is already yielded
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


# Interpolate channels with separate time stamps to the times of the rows.


@dataclass(frozen=True, eq=False)
class Series:
    """Samples of a column with a separate clock, without missing values.

    Parameters
    ----------
    t : ndarray, shape (k,), s
        Times in ascending order.
    values : ndarray, shape (k,)
        Values of the column.

    """

    t: Float
    values: Float

    def at(self, t: Float) -> Float:
        """Interpolate linearly at times `t` in s; nan within gaps, before the first and after the last sample.

        If two neighbouring samples differ by more than half of the range of all values, an angle may wrap between them,
        and the value of the nearer sample is used.
        """
        if len(self.t) < 2:
            return np.full(len(t), np.nan)
        right = np.clip(np.searchsorted(self.t, t), 1, len(self.t) - 1)
        step = self.t[right] - self.t[right - 1]
        # The value within a gap is unknown.
        longest = longest_step(float(np.median(np.diff(self.t))))
        known = (step <= longest) | (t == self.t[right]) | (t == self.t[right - 1])
        known &= (t >= self.t[0]) & (t <= self.t[-1])
        before, after = self.values[right - 1], self.values[right]
        nearer = np.where(t - self.t[right - 1] < self.t[right] - t, before, after)
        jumps = np.abs(after - before) > 0.5 * np.ptp(self.values)
        return np.where(known, np.where(jumps, nearer, np.interp(t, self.t, self.values)), np.nan)


class OnOneClock:
    """Table whose channels with separate clocks are interpolated linearly to the times of its rows.

    Rows without a position are ignored, and also rows before the first or after the last sample of a channel. Effort
    rows without a position remain if all efforts have a lower rate than the positions.

    Parameters
    ----------
    table : Table
        Table as logged.
    time : Channel
        Time column of the rows.
    positions : sequence of str
        Position columns.
    clocks : mapping of str to Channel
        Time column of each column with a separate clock. A column that is empty in some rows has the time column of
        the rows here.
    efforts : collection of str
        Effort columns.

    Raises
    ------
    InputError
        If a clock does not ascend, or if the clocks do not overlap in time.

    """

    def __init__(
        self,
        table: Table,
        time: Channel,
        positions: Sequence[str],
        clocks: Mapping[str, Channel],
        efforts: Collection[str] = (),
    ) -> None:
        self.path: Path = table.path
        self.column_names = table.column_names
        self._table, self._time = table, time
        self.number: Callable[[str], float] = getattr(table, "number", cell_number)
        self._series = {name: self._read(name, clock) for name, clock in clocks.items()}
        t, there = self._rows(positions)
        low = max((float(series.t[0]) for series in self._series.values()), default=-np.inf)
        high = min((float(series.t[-1]) for series in self._series.values()), default=np.inf)
        slow = {
            name: clock
            for name, clock in clocks.items()
            if name in efforts and self._is_slow(name, clock, t[there])
        }
        if slow.keys() == set(efforts):
            there = there | np.isin(t, np.concatenate([self._series.pop(name).t for name in slow]))
            clocks = {name: clock for name, clock in clocks.items() if name not in slow}
        self._kept = there & (t >= low) & (t <= high)
        inside = np.flatnonzero(self._kept)
        if not len(inside):
            raise InputError(
                "no-overlap",
                found=f"channels from {low:.6g} to {high:.6g} s but rows from {_ends(t)}",
                expected="clocks that overlap in time",
                do="check the units of the time columns",
                place=Place(file=str(self.path)),
            )
        self._kept_rows = inside
        self.row_count: int | None = len(inside)
        self.trajectory = getattr(table, "trajectory", None)
        remarks = self._remarks_on(t[inside], clocks, int(there.sum()) - len(inside), int((~there).sum()))
        self.remarks = (*getattr(table, "remarks", ()), *remarks)

    def _is_slow(self, name: str, clock: Channel, rows: Float) -> bool:
        """Whether a column uses the time of the rows, but with a usual step at least `SLOWER` times longer."""
        step = float(np.median(np.diff(rows))) if len(rows) > 1 else np.inf
        usual = float(np.median(np.diff(self._series[name].t)))
        return clock.column == self._time.column and usual >= SLOWER * step

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows; `start` and `stop` count the remaining rows."""
        wanted = self._kept_rows[start:stop]
        if not len(wanted):
            return
        plain = tuple(
            dict.fromkeys((self._time.column, *(column for column in columns if column not in self._series)))
        )
        row = int(wanted[0])
        for batch in self._table.batches(plain, rows, row, int(wanted[-1]) + 1):
            stamps = batch[self._time.column]
            t = column_numbers(stamps, self._time.column, self._table, row) * self._time.factor
            kept = self._kept[row : row + len(t)]
            row += len(t)
            if kept.any():
                yield {
                    name: self._series[name].at(t[kept])
                    if name in self._series
                    else _selected_rows(batch[name], kept)
                    for name in columns
                }

    @property
    def sha256(self) -> str | None:
        """SHA-256 of the table's data; None if the table is a single file, whose hash is used."""
        digest: str | None = getattr(self._table, "sha256", None)
        return digest

    def _rows(self, positions: Sequence[str]) -> tuple[Float, Bool]:
        """Time of every row in s, and a mask of the rows with at least one position."""
        columns = (self._time.column, *(column for column in positions if column not in self._series))
        times: list[Float] = [np.zeros(0)]
        present: list[Bool] = [np.zeros(0, dtype=np.bool_)]
        row = 0
        for batch in self._table.batches(columns, ROWS):
            data = [column_numbers(batch[name], name, self._table, row) for name in columns]
            times.append(data[0] * self._time.factor)
            present.append(np.asarray(np.isfinite(data[1:]).any(axis=0)))
            row += len(data[0])
        return np.concatenate(times), np.concatenate(present)

    def _read(self, name: str, clock: Channel) -> Series:
        parts: list[tuple[Float, Float]] = []
        row = 0
        for batch in self._table.batches((clock.column, name), ROWS):
            t, values = (
                column_numbers(batch[column], column, self._table, row) for column in (clock.column, name)
            )
            parts.append((t * clock.factor, values))
            row += len(t)
        t, values = (np.concatenate([part[i] for part in parts] or [np.zeros(0)]) for i in (0, 1))
        there = np.isfinite(t) & np.isfinite(values)
        t, values = t[there], values[there]
        back = np.flatnonzero(np.diff(t) <= 0)
        if len(back) or len(t) < 2:
            at = int(np.flatnonzero(there)[back[0] + 1]) if len(back) else None
            raise InputError(
                "own-clock",
                found=f"time '{clock.column}' of '{name}' that does not ascend"
                if len(back)
                else f"{len(t)} samples of '{name}' on the clock '{clock.column}'",
                expected="ascending time in the whole file" if len(back) else "at least 2 samples",
                do="split the file where its clock restarts" if len(back) else "",
                place=Place(file=str(self.path), row=at),
            )
        return Series(t, values)

    def _remarks_on(
        self, t: Float, clocks: Mapping[str, Channel], outside: int, empty: int
    ) -> Iterator[Finding]:
        place = Place(file=str(self.path))
        for clock in dict.fromkeys(clocks.values()):
            names = [name for name, other in clocks.items() if other == clock]
            series = self._series[names[0]]
            listed = ", ".join(names)
            if np.isin(t, series.t).all():
                text = f"{listed} are joined to the rows with equal times of '{clock.column}'"
                yield Finding(Level.NOTE, "joined", text, place)
                continue
            missing = max(float(np.isnan(self._series[name].at(t)).mean()) for name in names)
            text = (
                f"{listed} have a separate clock '{clock.column}' ({_rate(series.t)}; rows: {_rate(t)}) and are "
                "interpolated linearly to the times of the rows"
            )
            text += f"; {100 * missing:.2g} % of the rows lie in gaps" if missing else ""
            yield Finding(Level.WARNING, "mixed-rates", text, place)
        if empty:
            text = f"{empty} rows without a position are ignored (they belong to other clocks)"
            yield Finding(Level.NOTE, "empty-rows", text, place)
        if outside:
            text = f"{outside} rows before the first or after the last sample of another clock are ignored"
            yield Finding(Level.NOTE, "common-time", text, place)


def _ends(t: Float) -> str:
    return f"{np.nanmin(t):.6g} to {np.nanmax(t):.6g} s" if np.isfinite(t).any() else "nowhere"


def _rate(t: Float) -> str:
    return f"{1.0 / float(np.median(np.diff(t))):.4g} Hz" if len(t) > 1 else "one sample"


def _selected_rows(values: Float | Text, kept: Bool) -> Float | Text:
    return Text(values.codes[kept], values.names) if isinstance(values, Text) else values[kept]


# Add computed columns to a table: the row number as clock of a log without time stamps, and the name of the motion,
# which changes where time restarts.
#
# Use them with `time = { column = "row", unit = "1/500 s" }` and `trajectory = "motion"`.

ROW, MOTION = "row", "motion"
_ROWS = 32768


def with_row_numbers(table: Table) -> Table:
    """Add a column "row" with the row numbers, unless the table has a column of this name."""
    return table if ROW in table.column_names or not table.column_names else _WithColumn(table, ROW)


class _WithColumn:
    """Table with an additional column that is computed from the row numbers."""

    def __init__(self, table: Table, name: str) -> None:
        self.path: Path = table.path
        self.column_names = (*table.column_names, name)
        self.row_count = table.row_count
        self._table, self._name = table, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def _values(self, rows: Int) -> Float | Text:
        return rows.astype(np.float64)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows."""
        stored = tuple(name for name in columns if name != self._name) or self._table.column_names[:1]
        row = start
        for batch in self._table.batches(stored, rows, start, stop):
            stored_values = batch[stored[0]]
            count = len(stored_values.codes) if isinstance(stored_values, Text) else len(stored_values)
            values = self._values(np.arange(row, row + count, dtype=np.int64))
            row += count
            yield {name: values if name == self._name else batch[name] for name in columns}


def with_motions(table: Table, time: str) -> Table:
    """Add a column "motion" that names each section of ascending time, unless the table has a column of this name."""
    return table if MOTION in table.column_names or time not in table.column_names else _Motions(table, time)


class _Motions(_WithColumn):
    def __init__(self, table: Table, time: str) -> None:
        super().__init__(table, MOTION)
        begins: list[int] = []
        row, last = 0, -np.inf
        for batch in table.batches((time,), _ROWS):
            values = batch[time]
            t = np.full(len(values.codes), np.nan) if isinstance(values, Text) else values
            before = np.concatenate([[last], t[:-1]])
            begins += (row + np.flatnonzero(t < before)).tolist()
            row, last = row + len(t), float(t[-1]) if len(t) else last
        self._begins = np.array(begins, dtype=np.int64)
        self._names = tuple(f"{table.path.stem} {k + 1}" for k in range(len(begins) + 1))

    def _values(self, rows: Int) -> Text:
        return Text(np.searchsorted(self._begins, rows, side="right").astype(np.int64), self._names)
