"""Time stamps and trajectories: order, selection, shared stamps and channels with clocks of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from dynid.recording import RawChunk, Trajectory, joined, taken

# Rows whose time stamps cannot be: missing ones, and those that the stamps before and after them
# contradict.

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


# Which trajectories a log holds, and which parts of them are used.

ROWS = 32768


@dataclass(frozen=True)
class Selection:
    """Which trajectories to use, and which part of each.

    pattern: name or glob.    window: seconds on the log's own clock.    part: fractions of its time, 0 to 1.
    """

    pattern: str = option("*", "name or pattern")
    window: tuple[float, float] | None = option(
        None, "from, to on the log's clock; clipped to the trajectory (and to `part`)", unit="s"
    )
    part: tuple[float, float] | None = option(
        None, "from, to as shares of the trajectory's time", least=0, most=1
    )


def column_numbers(values: Float | Text, name: str, table: Table, row: int) -> Float:
    """A column as numbers; raises InputError for a cell that is none. row: of its first cell within the file."""
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
    if look is not None and (found := look(name)) is not None:
        raise found
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
    """The number of a cell, nan where it is empty; raises ValueError for text."""
    return number_of(cell or "nan")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The trajectories of files, and the time stamps of those in which some are damaged, by file and first row."""

    trajectories: tuple[Trajectory, ...]
    orders: Mapping[tuple[Path, int], TimeOrder]

    def part(self, one: Trajectory, start: float, end: float) -> Trajectory:
        """A trajectory from start to end (s), without the rows whose stamps are damaged."""
        order = self.orders.get((one.file, one.first_row))
        out = order.left_out(start, end) if order is not None else ()
        misplaced = order.misplaced if order is not None else 0
        return replace(one, start_time=start, end_time=end, left_out=out, misplaced=misplaced)


def trajectories_in(tables: Sequence[Table], m: ChannelMap) -> Trajectories:
    """Trajectories of all tables; raises InputError where the rows of one do not stand together."""
    found: list[Trajectory] = []
    orders: dict[tuple[Path, int], TimeOrder] = {}
    for table in tables:
        runs = _runs(table, m)
        names = [run.name for run in runs]
        again = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if again is not None:
            rows = [run.first for run in runs if run.name == again]
            raise InputError(
                "interleaved",
                found=f"trajectory '{again}' in several pieces (rows {', '.join(map(str, rows[:4]))})",
                expected="the rows of a trajectory together",
                place=Place(file=str(table.path), row=rows[1]),
            )
        for run in runs:
            start, end = run.start, run.end
            if not run.ascends:
                order = orders[table.path, run.first] = _order(table, m, run)
                start, end = order.ends()
            found.append(Trajectory(run.name, table.path, run.first, run.count, start, end))
    # A name that several files use is qualified by its file: by the stem, or by as much of the path as it takes.
    for qualified in (_by_stem, _by_path):
        uses = Counter(one.name for one in found)
        found = [replace(one, name=qualified(one)) if uses[one.name] > 1 else one for one in found]
    return Trajectories(tuple(found), orders)


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else path.stem


def _by_stem(one: Trajectory) -> str:
    stem = _stem(one.file)
    return f"{one.file.parent.name}/{stem}" if one.name == stem else f"{stem}:{one.name}"


def _by_path(one: Trajectory) -> str:
    return f"{one.file}:{one.name.rpartition(':')[2]}"


@dataclass
class _Run:
    """Consecutive rows of one name.    ascends: whether each has a time, and none runs back."""

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
            start, end = (one * m.time.factor for one in ends)
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
            "no-rows", found="a log without rows", expected="data", place=Place(file=str(table.path))
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


def selected(found: Trajectories, wanted: Sequence[Selection]) -> Iterator[Trajectory]:
    """The wanted ones, each once; raises InputError for a pattern that matches none and for an empty window."""
    names = [one.name for one in found.trajectories]
    given: set[Trajectory] = set()
    for selection in wanted:
        hits = [
            one
            for one in found.trajectories
            if one.name == selection.pattern or fnmatchcase(one.name, selection.pattern)
        ]
        if not hits:
            near = get_close_matches(selection.pattern, names, n=1, cutoff=0.4)
            raise InputError(
                "unknown-trajectory",
                found=f"no trajectory '{selection.pattern}'",
                expected="one of " + ", ".join(names[:12]) + (" ..." if len(names) > 12 else ""),
                do=f"did you mean '{near[0]}'?" if near else "",
            )
        for one in hits:
            part = found.part(one, *_span(one, selection))
            if part not in given:
                given.add(part)
                yield part


def _span(one: Trajectory, selection: Selection) -> tuple[float, float]:
    start, end = one.start_time, one.end_time
    if selection.part is not None:
        a, b = selection.part
        start, end = start + a * (end - start), start + b * (end - start)
    if selection.window is not None:
        start, end = max(start, selection.window[0]), min(end, selection.window[1])
    if (start, end) == (one.start_time, one.end_time):
        return start, end
    if not start < end:
        asked = selection.window if selection.window is not None else selection.part
        raise InputError(
            "empty-window",
            found=f"no row of trajectory '{one.name}' in {list(asked or ())}",
            expected=f"a part of its {one.start_time:.6g} to {one.end_time:.6g} s",
            place=Place(file=str(one.file)),
        )
    return start, end


# Different rows with one time stamp, as a clock coarser than the rows leaves them: set evenly between
# stamps.

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


# Channels with time stamps of their own, brought to the times of the rows.


@dataclass(frozen=True, eq=False)
class Series:
    """Samples of one column on its own clock, missing ones left out: t (k,) s ascending, values (k,)."""

    t: Float
    values: Float

    def at(self, t: Float) -> Float:
        """Values at these times, between two samples on the straight line; nan outside them and in pauses.

        Where two samples are further apart than half of all values, as where an angle begins a new turn, it is the
        nearer one.
        """
        if len(self.t) < 2:
            return np.full(len(t), np.nan)
        right = np.clip(np.searchsorted(self.t, t), 1, len(self.t) - 1)
        step = self.t[right] - self.t[right - 1]
        # Between two samples that a gap parts nothing is known.
        longest = longest_step(float(np.median(np.diff(self.t))))
        known = (step <= longest) | (t == self.t[right]) | (t == self.t[right - 1])
        known &= (t >= self.t[0]) & (t <= self.t[-1])
        before, after = self.values[right - 1], self.values[right]
        nearer = np.where(t - self.t[right - 1] < self.t[right] - t, before, after)
        jumps = np.abs(after - before) > 0.5 * np.ptp(self.values)
        return np.where(known, np.where(jumps, nearer, np.interp(t, self.t, self.values)), np.nan)


class OnOneClock:
    """A table whose channels with clocks of their own are brought to the times of its rows, linearly.

    time: of the rows.    positions: their columns; rows without any of them, which other clocks made, are left out.
    clocks: of each column that has its own, its time column; where that is the time of the rows, the column's cells may
    be empty in between. Rows before the first and after the last sample of any of them are left out.
    """

    def __init__(
        self, table: Table, time: Channel, positions: Sequence[str], clocks: Mapping[str, Channel]
    ) -> None:
        self.path: Path = table.path
        self.column_names = table.column_names
        self._table, self._time = table, time
        self.number: Callable[[str], float] = getattr(table, "number", cell_number)
        self._series = {name: self._read(name, clock) for name, clock in clocks.items()}
        t, there = self._rows(positions)
        low = max((float(one.t[0]) for one in self._series.values()), default=-np.inf)
        high = min((float(one.t[-1]) for one in self._series.values()), default=np.inf)
        self._kept = there & (t >= low) & (t <= high)
        inside = np.flatnonzero(self._kept)
        if not len(inside):
            raise InputError(
                "no-overlap",
                found=f"channels from {low:.6g} to {high:.6g} s and rows from {_ends(t)}",
                expected="clocks that share some time",
                do="look at the units of the time columns",
                place=Place(file=str(self.path)),
            )
        self._kept_rows = inside
        self.row_count: int | None = len(inside)
        self.trajectory = getattr(table, "trajectory", None)
        remarks = self._reported(t[inside], clocks, int(there.sum()) - len(inside), int((~there).sum()))
        self.remarks = (*getattr(table, "remarks", ()), *remarks)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; rows are counted among those that are kept."""
        wanted = self._kept_rows[start:stop]
        if not len(wanted):
            return
        plain = tuple(
            dict.fromkeys((self._time.column, *(one for one in columns if one not in self._series)))
        )
        row = int(wanted[0])
        for batch in self._table.batches(plain, rows, row, int(wanted[-1]) + 1):
            stamps = batch[self._time.column]
            t = column_numbers(stamps, self._time.column, self._table, row) * self._time.factor
            kept = self._kept[row : row + len(t)]
            row += len(t)
            if kept.any():
                yield {
                    name: self._series[name].at(t[kept]) if name in self._series else _part(batch[name], kept)
                    for name in columns
                }

    @property
    def sha256(self) -> str | None:
        """That of the table, where it has one of its own."""
        found: str | None = getattr(self._table, "sha256", None)
        return found

    def _rows(self, positions: Sequence[str]) -> tuple[Float, Bool]:
        """Time of every row, and whether any position is there."""
        columns = (self._time.column, *(one for one in positions if one not in self._series))
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
            t, values = (column_numbers(batch[one], one, self._table, row) for one in (clock.column, name))
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
                expected="ascending time over the whole file",
                do="split the file where its clock starts anew" if len(back) else "",
                place=Place(file=str(self.path), row=at),
            )
        return Series(t, values)

    def _reported(
        self, t: Float, clocks: Mapping[str, Channel], outside: int, empty: int
    ) -> Iterator[Finding]:
        place = Place(file=str(self.path))
        for clock in dict.fromkeys(clocks.values()):
            names = [name for name, one in clocks.items() if one == clock]
            own = self._series[names[0]]
            what = ", ".join(names)
            if np.isin(t, own.t).all():
                text = f"{what} are joined to the rows by equal times of '{clock.column}'"
                yield Finding(Level.NOTE, "joined", text, place)
                continue
            missing = max(float(np.isnan(self._series[name].at(t)).mean()) for name in names)
            text = (
                f"{what} have a clock of their own, '{clock.column}' ({_rate(own.t)}), beside the rows ({_rate(t)}): "
                f"they are brought to the rows' time on straight lines between two samples"
            )
            text += f"; {100 * missing:.2g} % of the rows lie in pauses" if missing else ""
            yield Finding(Level.WARNING, "mixed-rates", text, place)
        if empty:
            text = f"{empty} rows without a position, made by other clocks, are left out"
            yield Finding(Level.NOTE, "empty-rows", text, place)
        if outside:
            text = f"{outside} rows before the first or after the last sample of another clock are left out"
            yield Finding(Level.NOTE, "common-time", text, place)


def _ends(t: Float) -> str:
    return f"{np.nanmin(t):.6g} to {np.nanmax(t):.6g} s" if np.isfinite(t).any() else "nowhere"


def _rate(t: Float) -> str:
    return f"{1.0 / float(np.median(np.diff(t))):.4g} Hz" if len(t) > 1 else "one sample"


def _part(values: Float | Text, kept: Bool) -> Float | Text:
    return Text(values.codes[kept], values.names) if isinstance(values, Text) else values[kept]


# What rows are by themselves: counted from 0, a clock for logs without one, and motions where time begins
# anew.
#
# `time = { column = "row", unit = "1/500 s" }`, `trajectory = "motion"`.

ROW, MOTION = "row", "motion"
_ROWS = 32768


def with_row_numbers(table: Table) -> Table:
    """The table with a column "row" of row numbers, where it has none of that name."""
    return table if ROW in table.column_names or not table.column_names else _OneMore(table, ROW)


class _OneMore:
    """A table with one column more, whose values follow from the numbers of the rows."""

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
        """Yields batches of the named columns."""
        stored = tuple(name for name in columns if name != self._name) or self._table.column_names[:1]
        row = start
        for batch in self._table.batches(stored, rows, start, stop):
            one = batch[stored[0]]
            count = len(one.codes) if isinstance(one, Text) else len(one)
            values = self._values(np.arange(row, row + count, dtype=np.int64))
            row += count
            yield {name: values if name == self._name else batch[name] for name in columns}


def with_motions(table: Table, time: str) -> Table:
    """The table with a column "motion" that names each stretch of ascending time, where it has none of that name."""
    return table if MOTION in table.column_names or time not in table.column_names else _Motions(table, time)


class _Motions(_OneMore):
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
