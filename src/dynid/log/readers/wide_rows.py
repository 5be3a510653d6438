"""Convert tables with lists in cells, with a clock per channel, or with a row per signal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import InputError, Place
from dynid.base.files import Budget
from dynid.base.units import number_of
from dynid.log.log import ColumnInfo, Table, Text
from dynid.log.readers.arrays import ArrayTable, StoredArray
from dynid.log.readers.dialect import COMMENT
from dynid.log.readers.json_files import with_plain_numbers
from dynid.log.readers.parts import SeriesOnOneClock, ascending, first_rows, is_called_clock, numbers_of

# Split cells that contain a list (as pandas and bagpy write messages) into a column for each number.

# [1, 2], (1, 2), [1 2], array('d', [1, 2]), array([1, 2]), tensor([1, 2])
_LIST = re.compile(
    r"(?:(?:np\.|numpy\.)?(?:array|tensor)\((?:'\w',\s*)?)?[\[(]\s*(?P<inside>[^\[\]()]*?),?\s*[\])](?:[^\])]*\))?"
)
# A cell 1 2 3
_BARE = re.compile(r"[-+.\deE]+(?:\s+[-+.\deE]+)+")
# A cell 1.0,2.0. Two numbers without decimal points do not match, since they may be a number with a decimal comma.
_COMMAS = re.compile(r"[-+.\deE]+(?:[,;]\s*[-+.\deE]+){2,}|[-+\d]*\.[\deE+-]*[,;]\s*[-+\d]*\.[\deE+-]*")
_BETWEEN = re.compile(r"\s*[,;]\s*|\s+")
_MOST = 512  # maximum length of a list


def with_lists_apart(table: Table) -> Table:
    """Expand list columns to name[0], name[1], ..., or to name[JOINT] if another column contains lists of names."""
    texts = tuple(getattr(table, "texts", ()))
    first = next(iter(table.batches(texts, 1, 0, 1)), {}) if texts else {}
    cells = {
        name: values.names[int(values.codes[0])]
        for name, values in first.items()
        if isinstance(values, Text) and len(values.codes) and values.codes[0] >= 0
    }
    parts = {name: words for name, cell in cells.items() if (words := _parts(cell))}
    numbers = {name: len(words) for name, words in parts.items() if _numbers(words, len(words)) is not None}
    numbers = {name: count for name, count in numbers.items() if 1 <= count <= _MOST}
    if not numbers:
        return table
    named = [
        name for name, words in parts.items() if name not in numbers and len(set(words)) == len(words) > 1
    ]
    return _Lists(table, numbers, {name: tuple(parts[name]) for name in named[:1]})


def _parts(cell: str) -> list[str]:
    plain = with_plain_numbers(cell.strip())
    if _BARE.fullmatch(plain):
        return plain.split()
    if _COMMAS.fullmatch(plain):
        return _BETWEEN.split(plain)
    match = _LIST.fullmatch(plain)
    return [item.strip("'\"") for item in _BETWEEN.split(match["inside"]) if item] if match else []


def _numbers(parts: list[str], count: int) -> list[float] | None:
    if len(parts) != count:
        return None
    try:
        return [number_of(part) for part in parts]
    except ValueError:
        return None


class _Lists:
    """Table in which each number of a list is a column.

    Parameters
    ----------
    table : Table
        Table as logged.
    counts : mapping of str to int
        List length of each list column.
    names : mapping of str to tuple of str
        Column that contains the same list of names in every row; the names label all lists of this length.

    """

    def __init__(self, table: Table, counts: Mapping[str, int], names: Mapping[str, tuple[str, ...]]) -> None:
        self.path: Path = table.path
        self._table, self._counts, self._names = table, counts, names
        labels = next(iter(names.values()), ())
        self._labelled = {name for name, count in counts.items() if count == len(labels)}
        self._places = {
            f"{name}[{labels[i] if name in self._labelled else i}]": (name, i)
            for name, count in counts.items()
            for i in range(count)
        }
        kept = (name for name in table.column_names if name not in counts)
        self.column_names = (*kept, *self._places)
        self.texts = tuple(name for name in getattr(table, "texts", ()) if name not in counts)
        self.row_count = table.row_count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column from the file."""
        known = getattr(self._table, "info", None)
        if column in self._places:
            name, _ = self._places[column]
            return ColumnInfo("float64", name)
        return known(column) if known is not None else ColumnInfo()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches; raise InputError if the length or the names of a list change."""
        sources = [self._places[name][0] if name in self._places else name for name in columns]
        checked = list(self._names) if self._labelled & set(sources) else []
        stored = tuple(dict.fromkeys((*sources, *checked)))
        row = start
        for batch in self._table.batches(stored, rows, start, stop):
            for name in checked:
                self._check(name, batch[name], row)
            lists = {
                name: self._numbers(name, batch[name], row)
                for name in dict.fromkeys(sources)
                if name in self._counts
            }
            yield {
                name: lists[source][:, self._places[name][1]] if source in lists else batch[source]
                for name, source in zip(columns, sources, strict=True)
            }
            stored_values = batch[stored[0]]
            row += len(stored_values.codes) if isinstance(stored_values, Text) else len(stored_values)

    def _numbers(self, name: str, values: Float | Text, row: int) -> Float:
        count = self._counts[name]
        if not isinstance(values, Text):
            return np.full((len(values), count), np.nan)
        table = np.full((len(values.names) + 1, count), np.nan)
        for code, cell in enumerate(values.names):
            numbers = _numbers(_parts(cell), count)
            if numbers is None:
                at = row + int(np.flatnonzero(values.codes == code)[0])
                raise self._wrong(
                    f"column '{name}' = '{cell[:60]}'", f"a list of {count} numbers, as in the first row", at
                )
            table[code] = numbers
        return table[values.codes]

    def _check(self, name: str, values: Float | Text, row: int) -> None:
        for code, cell in enumerate(values.names if isinstance(values, Text) else ()):
            if tuple(_parts(cell)) != self._names[name]:
                at = row + int(np.flatnonzero(values.codes == code)[0])  # type: ignore[union-attr]  # of text
                raise self._wrong(
                    f"column '{name}' = '{cell[:60]}'", "the same joints in the same order in every row", at
                )

    def _wrong(self, finding: str, expected: str, row: int) -> InputError:
        place = Place(file=str(self.path), row=row)
        return InputError("list-cell", found=finding, expected=expected, place=place)


# Join tables with a clock before each channel, or before the channels of each joint: time, q1, time, q2, ...

# Minimum number of clocks. Two clocks may be the clocks of two computers.
_LEAST = 3


def with_one_clock(table: Table) -> Table:
    """Join the channels of a table with a clock for each channel or group; return other tables unchanged."""
    try:
        clocks = _clocks(table)
        return table if clocks is None else _PairedClocks(table, clocks)
    except InputError:  # the clocks do not overlap
        return table


def _clocks(table: Table) -> tuple[int, ...] | None:
    """Indices of clocks that start at the first column and follow at equal distances; None for other tables."""
    names = table.column_names
    called = [k for k, name in enumerate(names) if is_called_clock(name)]
    if len(called) < _LEAST or called[0] != 0:
        return None
    step = called[1]
    if step < 2 or called != list(range(0, len(names), step)) or len(names) % step:
        return None
    first = first_rows(table)
    known = {name: values[np.isfinite(values)] for name, values in first.items()}
    return tuple(called) if {*ascending(known)} >= {names[k] for k in called} else None


class _PairedClocks(SeriesOnOneClock):
    """Table with several clocks, joined on the slowest clock; `clocks` are the indices of the time columns."""

    def __init__(self, table: Table, clocks: tuple[int, ...]) -> None:
        names, step = table.column_names, clocks[1]
        self._table = table
        places = {name: (names[k], name) for k in clocks for name in names[k + 1 : k + step]}
        times = numbers_of(table, tuple(names[k] for k in clocks))
        super().__init__(table.path, times, places, self._of_clock, names[0])
        text = (
            f"{len(clocks)} clocks, one before {'each channel' if step == 2 else f'each {step - 1} channels'}"
        )
        if any(not np.array_equal(t, times[names[0]], equal_nan=True) for t in times.values()):
            text += f": the channels are interpolated linearly to the times of '{self.rows_of}'"
        self.remarks = (
            *getattr(table, "remarks", ()),
            Finding(Level.NOTE, "parts", text, Place(file=str(table.path))),
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._table, name)

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Columns with a single clock."""
        return {"": self.column_names}

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column from the file."""
        known = getattr(self._table, "info", None)
        return ColumnInfo(unit=known(column).unit) if known is not None else ColumnInfo()

    def _of_clock(self, clock: str, names: tuple[str, ...]) -> Mapping[str, Float]:
        return numbers_of(self._table, names)


# Read transposed text tables with a line per signal, as numpy.savetxt writes an array (n_signals, n_samples).

# Maximum number of lines and minimum number of cells per line; other logs have more rows and fewer columns.
_MOST_LINES, _LEAST_CELLS = 128, 500
_TIMES_LINES = 4  # minimum ratio of the number of cells per line to the number of lines
_MOST_BYTES = 1 << 28
_SIGNALS_IN_ROWS_BETWEEN = re.compile(r"\s*[,;\t]\s*|\s+")


def signals_in_rows(path: Path) -> ArrayTable | None:
    """Open a text file with a signal per line, which may begin with the name of the signal; None for other files.

    Raises RefusedError if the file is too large.
    """
    lines: list[str] = []
    if path.stat().st_size > _MOST_BYTES:
        return None
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            if line.strip() and not COMMENT.match(line):
                lines.append(line.strip())
            if len(lines) > _MOST_LINES or (lines and len(lines[-1]) < _LEAST_CELLS):
                return None
    Budget(path).spend(sum(map(len, lines)) * 8, "numbers")
    rows = [[cell for cell in _SIGNALS_IN_ROWS_BETWEEN.split(line) if cell] for line in lines]
    count = len(rows[0]) if rows else 0
    if len(rows) < 2 or count < max(_LEAST_CELLS, _TIMES_LINES * len(rows)) or {count} != {*map(len, rows)}:
        return None
    named = [_number(cells[0]) is None for cells in rows]
    if any(named) and not (all(named) and len({cells[0] for cells in rows}) == len(rows)):
        return None
    values = [[_number(cell) for cell in cells[any(named) :]] for cells in rows]
    if any(cell is None for cells in values for cell in cells):
        return None
    numbers = np.array(values, dtype=np.float64)
    if not any(named):
        return ArrayTable(path, [StoredArray.of("column", numbers)])
    return ArrayTable(
        path, [StoredArray.of(cells[0], signal) for cells, signal in zip(rows, numbers, strict=True)]
    )


def _number(cell: str) -> float | None:
    try:
        return number_of(cell)
    except ValueError:
        return None
