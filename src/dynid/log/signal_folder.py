"""A folder with a file for each signal, q.csv beside dq.csv and tau.csv, as one table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import InputError, Place
from dynid.log.log import ColumnInfo, Table, Text

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
            self.remarks += (Diagnostic(Severity.NOTE, "other-files", text, Place(file=str(path))),)

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
