"""Files that are parts of one recording, one a joint or one a signal, as one table with columns FILE/COLUMN.

Each has a clock of its own: what the files hold is brought to the times of one of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import InputError, Place
from dynid.log.clocks import Series
from dynid.log.log import ColumnInfo, ManyTopics, Table, Text
from dynid.log.signal_folder import SignalFolder, files_digest, is_nameless, row_count

_ROWS = 32768
# Rows of a file that are looked at for its clock.
_LOOKED_AT = 2000
# Files with fewer rows than this share of the most follow the others.
_SLOW = 0.1
# What a clock is called, where several columns ascend.
_CLOCK = re.compile(
    r"time|stamp|clock|zeit|milli|micro|(?<![a-z/])(?:t|ts|[mun]?s|[mu]?secs?)(?![a-z])", re.IGNORECASE
)
# Files whose names differ in a number alone are those of joints where a word says so, else recordings of one robot.
_OF_JOINTS = re.compile(
    r"(?<![a-z])(?:joint|axis|axe|achse|gelenk|dof|motor|servo|drive|actuator|vesc|odrive|moteus|esc|can|node|slave|id|"
    r"dxl|dynamixel|controller|link|[ajqms](?=\d))(?![a-z])",
    re.IGNORECASE,
)
# What files and sheets of one signal of all joints are called.
_OF_SIGNALS = re.compile(
    r"(?<![a-z])(?:pos|vel|speed|angle|torq|tau|moment|effort|curr|strom|acc|d*q(?![a-z])|qd(?![a-z]))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
# Steps of a clock are even but for this share of them, within this factor.
_EVEN, _WITHIN = 0.9, 1.5


def recordings(files: Sequence[Path]) -> list[dict[str, Path]]:
    """The files of each recording by their labels: those of one folder, where others have files of the same names.

    The label is a file's name without its ending, or its folder's where all names are the same.
    """
    folders: dict[Path, dict[str, Path]] = {}
    for file in files:
        folders.setdefault(file.parent, {})[file.stem] = file
    if len({file.stem for file in files}) == len(files):
        return [{file.stem: file for file in files}]
    if all(len(one) == 1 for one in folders.values()) and len({one.name for one in folders}) == len(files):
        return [{file.parent.name: file for file in files}]
    return list(folders.values())


def may_be_parts(labels: Sequence[str], joints: Sequence[str] = ()) -> bool:
    """Whether files that are called so may be parts of one recording, and not recordings of one robot.

    joints: of the robot.
    """
    named = [any(joint.lower() in label.lower() for joint in joints) for label in labels]
    others = [label for label, own in zip(labels, named, strict=True) if not own]
    alike = Counter(_NUMBER.sub("", label) for label in others)
    repeated = [label for label in others if alike[_NUMBER.sub("", label)] > 1]
    return len(labels) > 1 and all(map(_OF_JOINTS.search, repeated))


def are_joints(labels: Sequence[str]) -> bool:
    """Whether the names of files say that each is of a joint or drive."""
    return len(labels) > 1 and all(map(_OF_JOINTS.search, labels))


def are_signals(labels: Sequence[str]) -> bool:
    """Whether the names of files say that each is of a signal."""
    return len(labels) > 1 and all(map(_OF_SIGNALS.search, labels))


def has_each_signal_once(names: Sequence[str]) -> bool:
    """Whether columns can be those of one joint: q1 to q6 are those of all."""
    return len({_NUMBER.sub("", name) for name in names}) == len(names)


def are_of_one_signal(names: Sequence[str]) -> bool:
    """Whether columns are called by one signal, or by none."""
    return len({found[0].lower() for name in names if (found := _OF_SIGNALS.search(name))}) <= 1


def open_parts(parts: Mapping[str, Path], opened: Callable[[Path], Table]) -> Table:
    """The files of a recording side by side.    parts: by label.

    Raises InputError where they have no rows or clocks in common.
    """
    tables = {label: opened(file) for label, file in parts.items()}
    path = shown_path(tuple(parts.values()))
    if any(isinstance(table, ManyTopics) for table in tables.values()):
        raise InputError(
            "different-columns",
            found="bags as parts of one recording",
            expected="files of columns",
            place=Place(file=str(path)),
        )
    return side_by_side(path, tables)


def side_by_side(path: Path, tables: Mapping[str, Table]) -> Table:
    """Tables of one recording, by label, on one clock; raises InputError where they have none in common."""
    return with_own_clocks(path, tables) or _row_by_row(path, tables)


def _row_by_row(path: Path, tables: Mapping[str, Table]) -> Table:
    counts = {label: row_count(table) for label, table in tables.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{label} ({count} rows)" for label, count in counts.items())
        raise InputError(
            "different-lengths",
            found=f"parts of one recording of different lengths, not all with a clock: {shown}",
            expected="a row a moment in all of them, or a time in each",
            place=Place(file=str(path)),
        )
    return SignalFolder(path, tables, next(iter(counts.values())), {})


def with_own_clocks(path: Path, tables: Mapping[str, Table]) -> Table | None:
    """The tables on one clock, by label; None where one has no clock, or all have the same."""
    first = {label: first_rows(table) for label, table in tables.items()}
    clocks = {label: clock for label, values in first.items() if (clock := _clock(values)) is not None}
    if len(clocks) < len(tables):
        return None
    times = [first[label][clock] for label, clock in clocks.items()]
    if all(np.array_equal(one, times[0]) for one in times) and len(set(map(row_count, tables.values()))) == 1:
        return None
    return PartsOnOneClock(path, tables, clocks, {label: tuple(one) for label, one in first.items()})


def shown_path(files: Sequence[Path]) -> Path:
    """What messages call them."""
    return files[0].with_name(f"{files[0].stem}...{files[-1].name}")


class SeriesOnOneClock:
    """Series with stamps of their own at the times of one of them, the slowest, on straight lines.

    times: (T,) by label.    read: columns of a label.    places: label and name of each column, beside that of time.
    clock: what the column of time is called.
    """

    def __init__(
        self,
        path: Path,
        times: Mapping[str, Float],
        places: Mapping[str, tuple[str, str]],
        read: Callable[[str, tuple[str, ...]], Mapping[str, Float]],
        clock: str,
    ) -> None:
        self.path, self._times, self._places, self._columns = path, dict(times), dict(places), read
        self._series: dict[str, Series] = {}
        counts = {label: len(t) for label, t in times.items()}
        enough = [label for label, count in counts.items() if count >= _SLOW * max(counts.values())]
        self.rows_of = min(enough, key=lambda label: counts[label])
        known = {label: t[np.isfinite(t)] for label, t in times.items()}
        low, high = (pick(float(t[end]) for t in known.values()) for pick, end in ((max, 0), (min, -1)))
        own = np.unique(known[self.rows_of])
        self._t = own[(own >= low) & (own <= high)]
        if len(self._t) < 2:
            spans = ", ".join(f"{label} from {t[0]:.6g} to {t[-1]:.6g}" for label, t in known.items())
            raise InputError(
                "no-overlap",
                found=f"parts that share no time: {spans}",
                expected="parts of one recording, with clocks that share some time",
                place=Place(file=str(path)),
            )
        self.row_count: int | None = len(self._t)
        self._clock = clock
        self.column_names = (clock, *places)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns."""
        end = len(self._t) if stop is None else min(stop, len(self._t))
        for first in range(start, end, rows):
            t = self._t[first : min(first + rows, end)]
            self._read([name for name in columns if name != self._clock and name not in self._series])
            yield {name: t if name == self._clock else self._series[name].at(t) for name in columns}

    def _read(self, columns: Sequence[str]) -> None:
        wanted: dict[str, dict[str, str]] = {}
        for column in columns:
            label, name = self._places[column]
            wanted.setdefault(label, {})[name] = column
        for label, own in wanted.items():
            t, read = self._times[label], self._columns(label, tuple(own))
            for name, values in read.items():
                there = np.isfinite(t) & np.isfinite(values)
                stamps, order = np.unique(t[there], return_index=True)
                self._series[own[name]] = Series(stamps, values[there][order])


class PartsOnOneClock(SeriesOnOneClock):
    """Tables of one recording on the clock of one of them: columns LABEL/COLUMN.

    clocks: the column of time, by label.    columns: those of numbers.
    """

    def __init__(
        self,
        path: Path,
        tables: Mapping[str, Table],
        clocks: Mapping[str, str],
        columns: Mapping[str, Sequence[str]],
    ) -> None:
        self._tables, self._clocks = dict(tables), dict(clocks)
        places: dict[str, tuple[str, str]] = {}
        for label, names in columns.items():
            own = [name for name in names if name != clocks[label]]
            alone = len(own) == 1
            places |= {
                label if alone and is_nameless(name) else f"{label}/{name}": (label, name) for name in own
            }
        times = {label: self._of_table(label, (clock,))[clock] for label, clock in clocks.items()}
        clock = next(iter(clocks.values()))
        super().__init__(path, times, places, self._of_table, "time" if is_nameless(clock) else clock)
        text = (
            f"{', '.join(tables)} are parts of one recording: a row for each of {self.rows_of}, {self.row_count} in "
            "all, to whose times the others are brought on straight lines"
        )
        self.remarks = tuple(one for table in tables.values() for one in getattr(table, "remarks", ()))
        self.remarks += (Diagnostic(Severity.NOTE, "parts", text, Place(file=str(path))),)

    @cached_property
    def sha256(self) -> str:
        """Of the files' names and hashes."""
        return files_digest([table.path for table in self._tables.values()])

    def info(self, column: str) -> ColumnInfo:
        """What the column's file says of it."""
        label, name = self._places.get(column, next(iter(self._clocks.items())))
        known = getattr(self._tables[label], "info", None)
        return ColumnInfo(unit=known(name).unit) if known is not None else ColumnInfo()

    def _of_table(self, label: str, names: tuple[str, ...]) -> dict[str, Float]:
        return numbers_of(self._tables[label], names)


def numbers_of(table: Table, names: tuple[str, ...]) -> dict[str, Float]:
    """Columns of a table as numbers, whole; words are missing."""
    batches = list(table.batches(names, _ROWS))
    return {name: np.concatenate([np.zeros(0), *(_numbers(one[name]) for one in batches)]) for name in names}


def _numbers(values: Float | Text) -> Float:
    return np.full(len(values.codes), np.nan) if isinstance(values, Text) else values


def first_rows(table: Table) -> dict[str, Float]:
    """First rows of its columns of numbers."""
    batch = next(iter(table.batches(table.column_names, _LOOKED_AT, 0, _LOOKED_AT)), {})
    return {name: values for name, values in batch.items() if not isinstance(values, Text)}


def _clock(first: Mapping[str, Float]) -> str | None:
    """The column of time: one that is called so, or ascends in even steps; None = there is none."""
    found = ascending(first)
    return clock_among([name for name in found if is_called_clock(name) or _is_even(first[name])])


def _is_even(values: Float) -> bool:
    steps = np.diff(values)
    middle = float(np.median(steps))
    return bool(((steps > middle / _WITHIN) & (steps < middle * _WITHIN)).mean() > _EVEN)


def ascending(columns: Mapping[str, Float]) -> list[str]:
    """Columns that may be clocks.    A stamp may come twice where its digits are few."""
    found = []
    for name, values in columns.items():
        steps = np.diff(values)
        if len(steps) and (steps >= 0).all() and 2 * (steps > 0).sum() > len(steps):
            found.append(name)
    return found


def is_called_clock(name: str) -> bool:
    """Whether a column is called like a clock."""
    return _CLOCK.search(name) is not None


def clock_among(names: Sequence[str]) -> str | None:
    """The one that is called a time, else the first; None = there is none."""
    return next((name for name in names if is_called_clock(name)), names[0] if names else None)
