"""Which trajectories a log holds, and which parts of them are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import InputError, Place
from dynid.base.numbers import number_of
from dynid.base.options import option
from dynid.log.log import ChannelMap, Table, Text, Trajectory

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


def trajectories_in(tables: Sequence[Table], m: ChannelMap) -> list[Trajectory]:
    """Trajectories of all tables; raises InputError where the rows of one do not stand together."""
    found: list[Trajectory] = []
    for table in tables:
        runs = _runs(table, m)
        names = [name for name, *_ in runs]
        again = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if again is not None:
            rows = [first for name, first, *_ in runs if name == again]
            raise InputError(
                "interleaved",
                found=f"trajectory '{again}' in several pieces (rows {', '.join(map(str, rows[:4]))})",
                expected="the rows of a trajectory together",
                place=Place(file=str(table.path), row=rows[1]),
            )
        found += [
            Trajectory(name, table.path, first, count, start, end) for name, first, count, start, end in runs
        ]
    # A name that several files use is qualified by its file: by the stem, or by as much of the path as it takes.
    for qualified in (_by_stem, _by_path):
        uses = Counter(one.name for one in found)
        found = [replace(one, name=qualified(one)) if uses[one.name] > 1 else one for one in found]
    return found


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else path.stem


def _by_stem(one: Trajectory) -> str:
    stem = _stem(one.file)
    return f"{one.file.parent.name}/{stem}" if one.name == stem else f"{stem}:{one.name}"


def _by_path(one: Trajectory) -> str:
    return f"{one.file}:{one.name.rpartition(':')[2]}"


def _runs(table: Table, m: ChannelMap) -> list[tuple[str, int, int, float, float]]:
    extent = getattr(table, "extent", None)
    if m.trajectory is None and extent is not None and table.row_count:
        ends = extent(m.time.column)
        if ends is not None:
            return [(_stem(table.path), 0, table.row_count, ends[0] * m.time.factor, ends[1] * m.time.factor)]
    columns = (m.time.column, *((m.trajectory,) if m.trajectory else ()))
    runs: list[list[Any]] = []
    row = 0
    for batch in table.batches(columns, ROWS * 4):
        t = column_numbers(batch[m.time.column], m.time.column, table, row) * m.time.factor
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
            part = t[a:b][np.isfinite(t[a:b])]
            low, high = (float(part.min()), float(part.max())) if len(part) else (np.nan, np.nan)
            if runs and runs[-1][0] == name:
                runs[-1][2] += b - a
                runs[-1][3] = float(np.fmin(runs[-1][3], low))
                runs[-1][4] = float(np.fmax(runs[-1][4], high))
            else:
                runs.append([name, row + a, b - a, low, high])
        row += len(t)
    if not runs:
        raise InputError(
            "no-rows", found="a log without rows", expected="data", place=Place(file=str(table.path))
        )
    return [(name, first, count, start, end) for name, first, count, start, end in runs]


def _label(value: float) -> str:
    return str(int(value)) if np.isfinite(value) and value == int(value) else repr(float(value))


def selected(found: list[Trajectory], wanted: Sequence[Selection]) -> Iterator[Trajectory]:
    """The wanted ones, each once; raises InputError for a pattern that matches none and for an empty window."""
    names = [one.name for one in found]
    given: set[Trajectory] = set()
    for selection in wanted:
        hits = [
            one for one in found if one.name == selection.pattern or fnmatchcase(one.name, selection.pattern)
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
            part = _part(one, selection)
            if part not in given:
                given.add(part)
                yield part


def _part(one: Trajectory, selection: Selection) -> Trajectory:
    start, end = one.start_time, one.end_time
    if selection.part is not None:
        a, b = selection.part
        start, end = start + a * (end - start), start + b * (end - start)
    if selection.window is not None:
        start, end = max(start, selection.window[0]), min(end, selection.window[1])
    if (start, end) == (one.start_time, one.end_time):
        return one
    if not start < end:
        asked = selection.window if selection.window is not None else selection.part
        raise InputError(
            "empty-window",
            found=f"no row of trajectory '{one.name}' in {list(asked or ())}",
            expected=f"a part of its {one.start_time:.6g} to {one.end_time:.6g} s",
            place=Place(file=str(one.file)),
        )
    return replace(one, start_time=start, end_time=end)
