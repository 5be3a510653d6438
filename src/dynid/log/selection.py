"""Which trajectories a log holds, and which parts of them are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

import numpy as np

from dynid.base.arrays import LARGEST_VALUE, Float
from dynid.base.errors import InputError, Place
from dynid.base.numbers import number_of
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.log.log import ChannelMap, Table, Text, Trajectory
from dynid.log.time_order import TimeOrder, damaged_stamps, misplaced_rows, missing_stamps

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
