"""Recordings in several files, one a signal or a joint, as one table."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import InputError, Place
from dynid.log.clocks import Series
from dynid.log.log import ColumnInfo, ManyTopics, Table, Text

# A folder with a file for each signal, q.csv beside dq.csv and tau.csv, as one table.

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".asc", ".npy")
_ROWS = 32768
# Of columns that are compared.
_LOOKED_AT = 2000
MOST_FILES = 32
# Of the longest files' rows: what is shorter than that, as a table of parameters is, is no recording beside it.
_LEFT_OUT = 0.5


def signal_files(folder: Path) -> list[Path]:
    """Files of a folder that may hold one signal each; [] = fewer than two, or more than any robot has."""
    found = sorted(one for one in folder.iterdir() if one.is_file() and one.suffix.lower() in SUFFIXES)
    return found if 2 <= len(found) <= MOST_FILES else []


def open_signals(folder: Path, files: Sequence[Path], opened: Callable[[Path], Table]) -> SignalFolder:
    """The files of a folder side by side: those of the longest length; shorter ones are of something else.

    Raises InputError where the longest is alone, or others are nearly as long: then the folder holds several logs.
    """
    tables: dict[Path, Table] = {}
    counts: dict[Path, int] = {}
    left: dict[Path, str] = {}
    for file in files:
        try:
            tables[file] = opened(file)
            counts[file] = row_count(tables[file])
        except InputError:
            # Notes are often .txt; any other file that cannot be read may be a damaged signal.
            if file.suffix.lower() != ".txt":
                raise
            left[file] = "no table of numbers"
    longest = max(counts.values(), default=0)
    signals = [file for file, count in counts.items() if count == longest]
    others = [file for file, count in counts.items() if count < longest]
    nearly = [file for file in others if counts[file] > _LEFT_OUT * longest]
    if len(signals) < 2 or len(nearly) > 1:
        shown = ", ".join(f"{file.name} ({count} rows)" for file, count in counts.items())
        raise InputError(
            "different-lengths",
            found=f"a folder of files of different lengths: {shown}",
            expected="one signal a file, with a row a moment in all of them: a folder is read as one recording",
            do=_advice(folder, {file: tables[file].column_names for file in counts}, signals[0])
            if signals
            else "",
            place=Place(file=str(folder)),
        )
    left |= {file: f"{counts[file]} rows" for file in others}
    return SignalFolder(folder, {file.stem: tables[file] for file in signals}, longest, left)


def _advice(folder: Path, columns_of: Mapping[Path, Sequence[str]], whole: Path) -> str:
    """What to give in place of a folder of files of different lengths.    whole: the longest, or one of those."""
    # Logs of one robot have most of their columns in common, whatever else was recorded in some of them.
    columns = set(columns_of[whole])
    logs = [
        file
        for file, names in columns_of.items()
        if 2 * len(columns & set(names)) > max(len(columns), len(names))
    ]
    if len(logs) == 1:
        said = f"if {whole.name} is the whole log, give it"
    else:
        said = f"if {'each file' if len(logs) == len(columns_of) else 'each of these'} is a log of its own, give them"
    return (
        f"{said} in place of the folder: {given(folder, logs)}; put signals of one recording, of as many rows each, "
        "into a folder of their own"
    )


def given(folder: Path, files: Sequence[Path]) -> str:
    """Files of a folder as they are written on the command line: by a pattern, where it holds no others."""
    endings = {file.suffix for file in files}
    if len(files) > 1 and len(endings) == 1:
        pattern = f"*{endings.pop()}"
        if sorted(folder.glob(pattern)) == sorted(files):
            return str(folder / pattern)
    return " ".join(map(str, files))


class SignalFolder:
    """Tables side by side: columns FILE/COLUMN, FILE[0], ... of files without names, and once what all have alike.

    tables: by the names of their files.    rows: of each.    left: other files of the folder, and what they are.
    """

    def __init__(self, path: Path, tables: Mapping[str, Table], rows: int, left: Mapping[Path, str]) -> None:
        self.path = path
        self._tables = dict(tables)
        first = {stem: _first(table) for stem, table in self._tables.items()}
        self.row_count: int | None = rows
        self._places: dict[str, tuple[str, str]] = {}
        alike = _alike(first)
        for stem, values in first.items():
            own = [name for name in values if name not in alike]
            for k, name in enumerate(own):
                shown = (stem if len(own) == 1 else f"{stem}[{k}]") if is_nameless(name) else f"{stem}/{name}"
                self._places[shown] = (stem, name)
        stem = next(iter(first))
        self._places = {
            ("time" if is_nameless(name) else name): (stem, name) for name in alike
        } | self._places
        self.column_names = tuple(self._places)
        self.remarks = tuple(one for table in self._tables.values() for one in getattr(table, "remarks", ()))
        if left:
            shown = ", ".join(f"{file.name} ({what})" for file, what in left.items())
            text = f"{', '.join(self._tables)} are read, {rows} rows each; no part of it: {shown}"
            self.remarks += (Finding(Level.NOTE, "other-files", text, Place(file=str(path))),)

    @cached_property
    def sha256(self) -> str:
        """Of the files' names and hashes."""
        return files_digest([table.path for table in self._tables.values()])

    def number(self, cell: str) -> float:
        """The number of a cell."""
        number = getattr(next(iter(self._tables.values())), "number", float)
        return float(number(cell))

    def info(self, column: str) -> ColumnInfo:
        """What the column's file says of it."""
        stem, name = self._places[column]
        known = getattr(self._tables[stem], "info", None)
        info: ColumnInfo = known(name) if known is not None else ColumnInfo()
        return info

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns."""
        wanted: dict[str, list[str]] = {}
        for column in columns:
            stem, name = self._places[column]
            wanted.setdefault(stem, []).append(name)
        parts = [
            _even(self._tables[stem].batches(tuple(dict.fromkeys(names)), rows, start, stop), rows)
            for stem, names in wanted.items()
        ]
        for batch in zip(*parts, strict=True):
            read = dict(zip(wanted, batch, strict=True))
            yield {column: read[self._places[column][0]][self._places[column][1]] for column in columns}


def is_nameless(name: str) -> bool:
    """Whether a column is called by its place."""
    return name == "column" or name.startswith("column[")


def _alike(first: Mapping[str, Mapping[str, Float]]) -> list[str]:
    """Clocks that all files have alike."""
    one, *others = first.values()
    return [
        name
        for name, values in one.items()
        if _is_clock(values)
        and all(name in other and np.array_equal(values, other[name]) for other in others)
    ]


def _first(table: Table) -> dict[str, Float]:
    """First rows of its columns, text left out."""
    batch = next(iter(table.batches(table.column_names, _LOOKED_AT, 0, _LOOKED_AT)), {})
    return {name: values for name, values in batch.items() if not isinstance(values, Text)}


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(paths: Sequence[Path]) -> str:
    """SHA-256 of the names and hashes of files."""
    lines = "".join(f"{file_digest(path)} {path.name}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()


def row_count(table: Table) -> int:
    """Rows of a table, counted where its file does not say."""
    if table.row_count is not None:
        return table.row_count
    names = table.column_names[:1]
    count = 0
    for batch in table.batches(names, _ROWS):
        values = batch[names[0]]
        count += len(values.codes) if isinstance(values, Text) else len(values)
    return count


def _is_clock(values: Float) -> bool:
    return len(values) > 1 and bool((np.diff(values) > 0).all())


def _even(batches: Iterator[Mapping[str, Float | Text]], rows: int) -> Iterator[dict[str, Float]]:
    """Batches of numbers of exactly so many rows each, but for the last."""
    left: dict[str, Float] = {}
    for batch in batches:
        numbers = {name: values for name, values in batch.items() if not isinstance(values, Text)}
        left = {name: np.concatenate([left[name], one]) if left else one for name, one in numbers.items()}
        while left and len(next(iter(left.values()))) >= rows:
            yield {name: values[:rows] for name, values in left.items()}
            left = {name: values[rows:] for name, values in left.items()}
    if left and len(next(iter(left.values()))):
        yield left


# Files that are parts of one recording, one a joint or one a signal, as one table with columns FILE/COLUMN.
#
# Each has a clock of its own: what the files hold is brought to the times of one of them.

_PARTS_ROWS = 32768
# Rows of a file that are looked at for its clock.
_PARTS_LOOKED_AT = 2000
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
        self.remarks += (Finding(Level.NOTE, "parts", text, Place(file=str(path))),)

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
    batches = list(table.batches(names, _PARTS_ROWS))
    return {name: np.concatenate([np.zeros(0), *(_numbers(one[name]) for one in batches)]) for name in names}


def _numbers(values: Float | Text) -> Float:
    return np.full(len(values.codes), np.nan) if isinstance(values, Text) else values


def first_rows(table: Table) -> dict[str, Float]:
    """First rows of its columns of numbers."""
    batch = next(iter(table.batches(table.column_names, _PARTS_LOOKED_AT, 0, _PARTS_LOOKED_AT)), {})
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
