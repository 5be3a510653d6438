"""What a log file holds before anything is known of the robot: columns, shapes, types, rates and first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic
from dynid.base.errors import InputError, Place
from dynid.base.overview import shortened
from dynid.base.records import dataclass
from dynid.log.files import open_parts_of, open_table
from dynid.log.log import ColumnInfo, ManyTopics, Table, Text

FIRST_ROWS = 3
# Enough to distinguish a clock from a count, read from the front of the file.
LOOKED_AT_ROWS = 2000
ROWS = 32768
# Of a line on the terminal.
NAME_WIDTH, CELL_WIDTH = 60, 14

Values = Float | tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """One column of a log.

    info: what the file itself says of it.    numeric: whether its first rows are numbers.    first: its first values,
    nan or "" where missing.    step: median step over the first rows where they ascend strictly, as a clock does, else
    None.
    """

    name: str
    info: ColumnInfo
    numeric: bool
    first: tuple[float, ...] | tuple[str, ...]
    step: float | None


@dataclass(frozen=True)
class Stream:
    """Columns that share rows.

    name: topic or group, "" = the file has no others.    row_count, rate (Hz): None = the file does not say.
    """

    name: str
    row_count: int | None
    rate: float | None
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Contents:
    """What a log file holds.

    trajectory: column that names the motion of each row, where the file itself says so.    left_out: what is in the
    file and no column, in words.    constants: single numbers by name.
    """

    path: Path
    table: Table
    streams: tuple[Stream, ...]
    trajectory: str | None
    left_out: tuple[str, ...]
    remarks: tuple[Diagnostic, ...]
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of all streams."""
        return tuple(column for stream in self.streams for column in stream.columns)

    def read(self, names: Sequence[str], rows: int | None = None) -> dict[str, Values]:
        """Values of columns of one stream: (T,) numbers, missing = nan, or text.

        rows: the first ones only, None = all.

        Raises InputError for what cannot be read, and for columns that do not share rows.
        """
        return _read(self.table, tuple(names), rows)

    def lines(self) -> list[str]:
        """Lines of text for the terminal."""
        lines = []
        for stream in self.streams:
            facts = [f"{len(stream.columns)} columns"]
            facts += [f"{stream.row_count} rows"] if stream.row_count is not None else []
            facts += [f"{stream.rate:.4g} Hz"] if stream.rate is not None else []
            lines += ["", f"{stream.name or self.path.name}: {', '.join(facts)}"]
            width = min(max((len(one.name) for one in stream.columns), default=0), NAME_WIDTH)
            lines += [_line(one, width) for one in stream.columns]
        if self.trajectory is not None:
            lines += ["", f"motions are distinguished by the column '{self.trajectory}'"]
        if self.left_out:
            lines += ["", "no columns: " + "; ".join(self.left_out)]
        return lines[1:]


def contents(
    path: str | Path | Mapping[str, Path],
    delimiter: str | None = None,
    decimal: str | None = None,
    definitions: Sequence[Path] = (),
) -> Contents:
    """Looks into a log file or folder of any format that has a reader; reads its first rows.

    path: of several files that are parts of one recording, by their labels.
    delimiter, decimal: of text files, None = as found.    definitions: .msg files, for bags that lack them.

    Raises InputError for what no reader takes, UnfitDataError for what is cut off.
    """
    if isinstance(path, Mapping):
        table = open_parts_of(path, delimiter, decimal)
    else:
        table = open_table(path, delimiter, decimal, definitions)
    streams = tuple(_stream(table, *one) for one in _streams(table).items())
    return Contents(
        table.path,
        table,
        streams,
        getattr(table, "trajectory", None),
        tuple(getattr(table, "left_out", ())),
        tuple(getattr(table, "remarks", ())),
        dict(getattr(table, "constants", {})),
    )


def _streams(table: Table) -> Mapping[str, tuple[str, ...]]:
    found: Mapping[str, tuple[str, ...]] = getattr(table, "streams", {"": table.column_names})
    unlike = getattr(table, "unlike", ())
    return {name: tuple(one for one in columns if one not in unlike) for name, columns in found.items()}


def _stream(table: Table, name: str, columns: tuple[str, ...]) -> Stream:
    infos = {column: _info(table, column) for column in columns}
    values = _read(table, columns, LOOKED_AT_ROWS) if columns else {}
    counts = [one.row_count for one in infos.values() if one.row_count is not None]
    rates = [one.rate for one in infos.values() if one.rate is not None]
    return Stream(
        name,
        counts[0] if counts else table.row_count,
        rates[0] if rates else None,
        tuple(_column(column, infos[column], values.get(column, ())) for column in columns),
    )


def _info(table: Table, column: str) -> ColumnInfo:
    known = getattr(table, "info", None)
    info: ColumnInfo = known(column) if known is not None else ColumnInfo()
    return info


def _column(name: str, info: ColumnInfo, values: Values) -> Column:
    if isinstance(values, tuple):
        return Column(name, info, False, values[:FIRST_ROWS], None)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values are looked at by the checks
        steps = np.diff(values)
    ascends = len(steps) > 0 and bool((steps > 0).all())
    first = tuple(float(value) for value in values[:FIRST_ROWS])
    return Column(name, info, True, first, float(np.median(steps)) if ascends else None)


def _read(table: Table, columns: tuple[str, ...], rows: int | None) -> dict[str, Values]:
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise InputError(
            "missing-column",
            found=f"no column '{missing[0]}'",
            expected="one of " + ", ".join(table.column_names[:40]),
            place=Place(file=str(table.path)),
        )
    source = table.of_columns(columns) if isinstance(table, ManyTopics) else table
    parts: dict[str, list[Float | Text]] = {name: [] for name in columns}
    for batch in source.batches(columns, ROWS if rows is None else max(rows, 1), 0, rows):
        for name in columns:
            parts[name].append(batch[name])
    return {name: _whole(values) for name, values in parts.items()}


def _whole(parts: Sequence[Float | Text]) -> Values:
    if not any(isinstance(one, Text) for one in parts):
        numbers = [one for one in parts if not isinstance(one, Text)]
        return np.concatenate(numbers) if numbers else np.zeros(0)
    cells: list[str] = []
    for one in parts:
        if isinstance(one, Text):
            cells += [one.names[code] if code >= 0 else "" for code in one.codes]
        else:
            cells += ["" if np.isnan(value) else repr(float(value)) for value in one]
    return tuple(cells)


def _line(column: Column, width: int) -> str:
    first = ", ".join(
        f"{value:.6g}" if isinstance(value, float) else f"'{shortened(value, CELL_WIDTH)}'"
        for value in column.first
    )
    facts = [column.info.dtype or ("number" if column.numeric else "text")]
    facts += [f"of {column.info.field} {column.info.shape}"] if len(column.info.shape) > 1 else []
    facts += [f"[{column.info.unit}]"] if column.info.unit else []
    facts += [f"ascends by {column.step:.4g}"] if column.step is not None else []
    return f"  {shortened(column.name, NAME_WIDTH):<{width}}  {first}, ...  ({', '.join(facts)})"
