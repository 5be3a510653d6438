"""Join recordings that consist of several files (one per signal or joint) into a table."""

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

# Join a folder with one file per signal (for example, q.csv, dq.csv and tau.csv) into a table.

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".asc", ".npy")
_ROWS = 32768
_LOOKED_AT = 2000  # number of first rows in which columns are compared
MOST_FILES = 32  # maximum number of files of a recording; a folder with more files contains several logs
# A file with fewer rows than this share of the longest file is not a signal but, for example, a table of parameters.
_LEFT_OUT = 0.5


def signal_files(folder: Path) -> list[Path]:
    """Files of a folder that may each contain a signal; [] if there are fewer than 2 or more than `MOST_FILES`."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in SUFFIXES)
    return files if 2 <= len(files) <= MOST_FILES else []


def open_signals(folder: Path, files: Sequence[Path], opened: Callable[[Path], Table]) -> SignalFolder:
    """Join the longest files of a folder into a table, and ignore shorter files.

    Parameters
    ----------
    folder : Path
        Path of the folder.
    files : sequence of Path
        Files of the folder.
    opened : callable
        Opens a file as a table.

    Raises
    ------
    InputError
        If only one file has the largest number of rows, or if several others have nearly as many rows: then the folder
        contains several logs.

    """
    tables: dict[Path, Table] = {}
    counts: dict[Path, int] = {}
    left: dict[Path, str] = {}
    for file in files:
        try:
            tables[file] = opened(file)
            counts[file] = row_count(tables[file])
        except InputError:
            # A .txt file is often a note. Any other unreadable file may be a damaged signal.
            if file.suffix.lower() != ".txt":
                raise
            left[file] = "not a table of numbers"
    longest = max(counts.values(), default=0)
    signals = [file for file, count in counts.items() if count == longest]
    others = [file for file, count in counts.items() if count < longest]
    nearly = [file for file in others if counts[file] > _LEFT_OUT * longest]
    if len(signals) < 2 or len(nearly) > 1:
        shown = ", ".join(f"{file.name} ({count} rows)" for file, count in counts.items())
        raise InputError(
            "different-lengths",
            found=f"a folder with files of different lengths: {shown}",
            expected="a recording with one signal per file and the same number of rows in all files",
            do=_advice(folder, {file: tables[file].column_names for file in counts}, signals[0])
            if signals
            else "",
            place=Place(file=str(folder)),
        )
    left |= {file: f"{counts[file]} rows" for file in others}
    return SignalFolder(folder, {file.stem: tables[file] for file in signals}, longest, left)


def _advice(folder: Path, columns_of: Mapping[Path, Sequence[str]], whole: Path) -> str:
    """Advice for a folder with files of different lengths; `whole` is a file of the largest length."""
    # Logs of the same robot have most of their columns in common.
    columns = set(columns_of[whole])
    logs = [
        file
        for file, names in columns_of.items()
        if 2 * len(columns & set(names)) > max(len(columns), len(names))
    ]
    if len(logs) == 1:
        lead = f"if {whole.name} is the whole log, pass it"
    else:
        lead = f"if {'each file' if len(logs) == len(columns_of) else 'each of these'} is a log, pass them"
    return (
        f"{lead} instead of the folder: {given(folder, logs)}; put the signals of a recording, with equal numbers of "
        "rows, into a separate folder"
    )


def given(folder: Path, files: Sequence[Path]) -> str:
    """Command-line arguments that name the files: a pattern if it matches no other file, else all paths."""
    endings = {file.suffix for file in files}
    if len(files) > 1 and len(endings) == 1:
        pattern = f"*{endings.pop()}"
        if sorted(folder.glob(pattern)) == sorted(files):
            return str(folder / pattern)
    return " ".join(map(str, files))


class SignalFolder:
    """Table that joins the files of a folder.

    Columns are named FILE/COLUMN, or FILE[0], FILE[1], ... if the file has no column names. A clock that is equal in
    all files is a single column.

    Parameters
    ----------
    path : Path
        Path of the folder.
    tables : mapping of str to Table
        Table of each file, by file name.
    rows : int
        Number of rows of each table.
    left : mapping of Path to str
        Ignored files of the folder, with the reason.

    """

    def __init__(self, path: Path, tables: Mapping[str, Table], rows: int, left: Mapping[Path, str]) -> None:
        self.path = path
        self._tables = dict(tables)
        first = {stem: _first(table) for stem, table in self._tables.items()}
        self.row_count: int | None = rows
        self._places: dict[str, tuple[str, str]] = {}
        alike = _shared_clocks(first)
        for stem, values in first.items():
            names = [name for name in values if name not in alike]
            for k, name in enumerate(names):
                shown = (
                    (stem if len(names) == 1 else f"{stem}[{k}]") if is_nameless(name) else f"{stem}/{name}"
                )
                self._places[shown] = (stem, name)
        stem = next(iter(first))
        self._places = {
            ("time" if is_nameless(name) else name): (stem, name) for name in alike
        } | self._places
        self.column_names = tuple(self._places)
        self.remarks = tuple(
            remark for table in self._tables.values() for remark in getattr(table, "remarks", ())
        )
        if left:
            shown = ", ".join(f"{file.name} ({reason})" for file, reason in left.items())
            text = f"{', '.join(self._tables)} are read ({rows} rows each); ignored: {shown}"
            self.remarks += (Finding(Level.NOTE, "other-files", text, Place(file=str(path))),)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the names and hashes of the files."""
        return files_digest([table.path for table in self._tables.values()])

    def number(self, cell: str) -> float:
        """Convert a cell to a number."""
        number = getattr(next(iter(self._tables.values())), "number", float)
        return float(number(cell))

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column from its file."""
        stem, name = self._places[column]
        known = getattr(self._tables[stem], "info", None)
        info: ColumnInfo = known(name) if known is not None else ColumnInfo()
        return info

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows."""
        wanted: dict[str, list[str]] = {}
        for column in columns:
            stem, name = self._places[column]
            wanted.setdefault(stem, []).append(name)
        parts = [
            _rebatched(self._tables[stem].batches(tuple(dict.fromkeys(names)), rows, start, stop), rows)
            for stem, names in wanted.items()
        ]
        for batch in zip(*parts, strict=True):
            read = dict(zip(wanted, batch, strict=True))
            yield {column: read[self._places[column][0]][self._places[column][1]] for column in columns}


def is_nameless(name: str) -> bool:
    """Whether the reader named a column by its number because the file has no column names."""
    return name == "column" or name.startswith("column[")


def _shared_clocks(first: Mapping[str, Mapping[str, Float]]) -> list[str]:
    """Names of clocks that are equal in all files."""
    reference, *others = first.values()
    return [
        name
        for name, values in reference.items()
        if _is_clock(values)
        and all(name in other and np.array_equal(values, other[name]) for other in others)
    ]


def _first(table: Table) -> dict[str, Float]:
    """First rows of the numeric columns."""
    batch = next(iter(table.batches(table.column_names, _LOOKED_AT, 0, _LOOKED_AT)), {})
    return {name: values for name, values in batch.items() if not isinstance(values, Text)}


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_digest(paths: Sequence[Path]) -> str:
    """SHA-256 over the names and hashes of files."""
    lines = "".join(f"{file_digest(path)} {path.name}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()


def row_count(table: Table) -> int:
    """Number of rows of a table; reads the whole table if its file does not state the number."""
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


def _rebatched(batches: Iterator[Mapping[str, Float | Text]], rows: int) -> Iterator[dict[str, Float]]:
    """Yield batches of numbers with exactly `rows` rows each, except the last."""
    left: dict[str, Float] = {}
    for batch in batches:
        numbers = {name: values for name, values in batch.items() if not isinstance(values, Text)}
        left = {
            name: np.concatenate([left[name], column]) if left else column for name, column in numbers.items()
        }
        while left and len(next(iter(left.values()))) >= rows:
            yield {name: values[:rows] for name, values in left.items()}
            left = {name: values[rows:] for name, values in left.items()}
    if left and len(next(iter(left.values()))):
        yield left


# Join files with separate clocks (one file per joint or signal) into a table with columns FILE/COLUMN.
#
# All files are interpolated to the times of the slowest file.

_PARTS_ROWS = 32768
_PARTS_LOOKED_AT = 2000  # number of first rows from which the clock of a file is detected
# A file with fewer rows than this share of the longest file is a slow signal and does not set the times of the rows.
_SLOW = 0.1
# Names of a clock, which select among several ascending columns.
_CLOCK = re.compile(
    r"time|stamp|clock|zeit|milli|micro|(?<![a-z/])(?:t|ts|[mun]?s|[mu]?secs?)(?![a-z])", re.IGNORECASE
)
# Files whose names differ only in a number belong to different joints if the name contains one of these words.
# Otherwise they are several recordings of a robot.
_OF_JOINTS = re.compile(
    r"(?<![a-z])(?:joint|axis|axe|achse|gelenk|dof|motor|servo|drive|actuator|vesc|odrive|moteus|esc|can|node|slave|id|"
    r"dxl|dynamixel|controller|link|[ajqms](?=\d))(?![a-z])",
    re.IGNORECASE,
)
# Words in the names of files and sheets that contain a signal of all joints.
_OF_SIGNALS = re.compile(
    r"(?<![a-z])(?:pos|vel|speed|angle|torq|tau|moment|effort|curr|strom|acc|d*q(?![a-z])|qd(?![a-z]))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
# More than the share _EVEN of the steps of a clock are within the factor _WITHIN of the median step.
_EVEN, _WITHIN = 0.9, 1.5


def recordings(files: Sequence[Path]) -> list[dict[str, Path]]:
    """Group files into recordings.

    If several folders contain files of the same name, each folder is a recording. Otherwise all files are parts of a
    single recording.

    Returns
    -------
    list of dict of str to Path
        Files of each recording by label: the file name without suffix, or the name of the folder if each folder has a
        single file.

    """
    folders: dict[Path, dict[str, Path]] = {}
    for file in files:
        folders.setdefault(file.parent, {})[file.stem] = file
    if len({file.stem for file in files}) == len(files):
        return [{file.stem: file for file in files}]
    if all(len(members) == 1 for members in folders.values()) and len(
        {folder.name for folder in folders}
    ) == len(files):
        return [{file.parent.name: file for file in files}]
    return list(folders.values())


def may_be_parts(labels: Sequence[str], joints: Sequence[str] = ()) -> bool:
    """Whether files with these names may be parts of a single recording instead of several recordings.

    Parameters
    ----------
    labels : sequence of str
        Names of the files.
    joints : sequence of str
        Joints of the robot.

    """
    named = [any(joint.lower() in label.lower() for joint in joints) for label in labels]
    others = [label for label, has_joint in zip(labels, named, strict=True) if not has_joint]
    alike = Counter(_NUMBER.sub("", label) for label in others)
    repeated = [label for label in others if alike[_NUMBER.sub("", label)] > 1]
    return len(labels) > 1 and all(map(_OF_JOINTS.search, repeated))


def are_joints(labels: Sequence[str]) -> bool:
    """Whether each label contains a word for a joint or drive."""
    return len(labels) > 1 and all(map(_OF_JOINTS.search, labels))


def are_signals(labels: Sequence[str]) -> bool:
    """Whether each label contains a word for a signal."""
    return len(labels) > 1 and all(map(_OF_SIGNALS.search, labels))


def has_each_signal_once(names: Sequence[str]) -> bool:
    """Whether columns may belong to a single joint: no two names differ only in a number, as q1 and q2 do."""
    return len({_NUMBER.sub("", name) for name in names}) == len(names)


def are_of_one_signal(names: Sequence[str]) -> bool:
    """Whether the columns are named after at most one signal."""
    return len({match[0].lower() for name in names if (match := _OF_SIGNALS.search(name))}) <= 1


def open_parts(parts: Mapping[str, Path], opened: Callable[[Path], Table]) -> Table:
    """Open the files of a recording and join them into a table.

    Parameters
    ----------
    parts : mapping of str to Path
        File of each label.
    opened : callable
        Opens a file as a table.

    Raises
    ------
    InputError
        If the files have neither the same number of rows nor overlapping clocks, or if a file is a bag.

    """
    tables = {label: opened(file) for label, file in parts.items()}
    path = shown_path(tuple(parts.values()))
    if any(isinstance(table, ManyTopics) for table in tables.values()):
        raise InputError(
            "different-columns",
            found="bags as parts of a recording",
            expected="files with columns, such as CSV",
            do="pass the bags as separate logs",
            place=Place(file=str(path)),
        )
    return side_by_side(path, tables)


def side_by_side(path: Path, tables: Mapping[str, Table]) -> Table:
    """Join the tables of a recording by time, or row by row if they have no clocks.

    Raises InputError if the clocks do not overlap, or if the numbers of rows differ and clocks are missing.

    Parameters
    ----------
    path : Path
        Name of the recording in messages.
    tables : mapping of str to Table
        Table of each label.

    Returns
    -------
    Table

    """
    return with_own_clocks(path, tables) or _row_by_row(path, tables)


def _row_by_row(path: Path, tables: Mapping[str, Table]) -> Table:
    counts = {label: row_count(table) for label, table in tables.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{label} ({count} rows)" for label, count in counts.items())
        raise InputError(
            "different-lengths",
            found=f"parts of a recording with different lengths, not all of which have a clock: {shown}",
            expected="equal lengths, or a time column in each file",
            do="add a time column to each file",
            place=Place(file=str(path)),
        )
    return SignalFolder(path, tables, next(iter(counts.values())), {})


def with_own_clocks(path: Path, tables: Mapping[str, Table]) -> Table | None:
    """Join tables with different clocks by time; None if a table has no clock, or if all clocks are equal."""
    first = {label: first_rows(table) for label, table in tables.items()}
    clocks = {label: clock for label, values in first.items() if (clock := _clock(values)) is not None}
    if len(clocks) < len(tables):
        return None
    times = [first[label][clock] for label, clock in clocks.items()]
    if all(np.array_equal(t, times[0]) for t in times) and len(set(map(row_count, tables.values()))) == 1:
        return None
    return PartsOnOneClock(path, tables, clocks, {label: tuple(values) for label, values in first.items()})


def shown_path(files: Sequence[Path]) -> Path:
    """Name of several files in messages."""
    return files[0].with_name(f"{files[0].stem}...{files[-1].name}")


class SeriesOnOneClock:
    """Table of series with separate clocks, interpolated linearly to the times of the slowest series.

    Parameters
    ----------
    path : Path
        Path of the recording.
    times : mapping of str to ndarray
        Sample times of each series, by label.
    places : mapping of str to (str, str)
        Label of the series and name in it, for each column except the time column.
    read : callable
        read(label, names) returns columns of a series.
    clock : str
        Name of the time column.

    Raises
    ------
    InputError
        If the series do not overlap in time.

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
        row_times = np.unique(known[self.rows_of])
        self._t = row_times[(row_times >= low) & (row_times <= high)]
        if len(self._t) < 2:
            spans = ", ".join(f"{label} from {t[0]:.6g} to {t[-1]:.6g}" for label, t in known.items())
            raise InputError(
                "no-overlap",
                found=f"parts that do not overlap in time: {spans}",
                expected="parts of a recording, with clocks that overlap",
                do="check the units of the clocks, or pass the files as separate logs",
                place=Place(file=str(path)),
            )
        self.row_count: int | None = len(self._t)
        self._clock = clock
        self.column_names = (clock, *places)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows."""
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
        for label, column_of in wanted.items():
            t, read = self._times[label], self._columns(label, tuple(column_of))
            for name, values in read.items():
                there = np.isfinite(t) & np.isfinite(values)
                stamps, order = np.unique(t[there], return_index=True)
                self._series[column_of[name]] = Series(stamps, values[there][order])


class PartsOnOneClock(SeriesOnOneClock):
    """Tables of a recording at the times of the slowest table, with columns LABEL/COLUMN.

    Parameters
    ----------
    path : Path
        Path of the recording.
    tables : mapping of str to Table
        Table of each label.
    clocks : mapping of str to str
        Time column of each table.
    columns : mapping of str to sequence of str
        Numeric columns of each table.

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
            value_names = [name for name in names if name != clocks[label]]
            alone = len(value_names) == 1
            places |= {
                label if alone and is_nameless(name) else f"{label}/{name}": (label, name)
                for name in value_names
            }
        times = {label: self._of_table(label, (clock,))[clock] for label, clock in clocks.items()}
        clock = next(iter(clocks.values()))
        super().__init__(path, times, places, self._of_table, "time" if is_nameless(clock) else clock)
        text = (
            f"{', '.join(tables)} are read as parts of a recording and interpolated linearly to the {self.row_count} "
            f"rows of {self.rows_of}"
        )
        self.remarks = tuple(remark for table in tables.values() for remark in getattr(table, "remarks", ()))
        self.remarks += (Finding(Level.NOTE, "parts", text, Place(file=str(path))),)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the names and hashes of the files."""
        return files_digest([table.path for table in self._tables.values()])

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column from its file."""
        label, name = self._places.get(column, next(iter(self._clocks.items())))
        known = getattr(self._tables[label], "info", None)
        return ColumnInfo(unit=known(name).unit) if known is not None else ColumnInfo()

    def _of_table(self, label: str, names: tuple[str, ...]) -> dict[str, Float]:
        return numbers_of(self._tables[label], names)


def numbers_of(table: Table, names: tuple[str, ...]) -> dict[str, Float]:
    """Read whole columns of a table as numbers; text becomes nan."""
    batches = list(table.batches(names, _PARTS_ROWS))
    return {
        name: np.concatenate([np.zeros(0), *(_numbers(batch[name]) for batch in batches)]) for name in names
    }


def _numbers(values: Float | Text) -> Float:
    return np.full(len(values.codes), np.nan) if isinstance(values, Text) else values


def first_rows(table: Table) -> dict[str, Float]:
    """First rows of the numeric columns of a table."""
    batch = next(iter(table.batches(table.column_names, _PARTS_LOOKED_AT, 0, _PARTS_LOOKED_AT)), {})
    return {name: values for name, values in batch.items() if not isinstance(values, Text)}


def _clock(first: Mapping[str, Float]) -> str | None:
    """Time column: an ascending column that is named like a clock or has even steps; None if there is none."""
    candidates = ascending(first)
    return clock_among([name for name in candidates if is_called_clock(name) or _is_even(first[name])])


def _is_even(values: Float) -> bool:
    steps = np.diff(values)
    middle = float(np.median(steps))
    return bool(((steps > middle / _WITHIN) & (steps < middle * _WITHIN)).mean() > _EVEN)


def ascending(columns: Mapping[str, Float]) -> list[str]:
    """Columns that never decrease and increase in more than half of the steps (a coarse stamp may be repeated)."""
    names = []
    for name, values in columns.items():
        steps = np.diff(values)
        if len(steps) and (steps >= 0).all() and 2 * (steps > 0).sum() > len(steps):
            names.append(name)
    return names


def is_called_clock(name: str) -> bool:
    """Whether a column is named like a clock."""
    return _CLOCK.search(name) is not None


def clock_among(names: Sequence[str]) -> str | None:
    """First column that is named like a clock, else the first column; None for an empty list."""
    return next((name for name in names if is_called_clock(name)), names[0] if names else None)
