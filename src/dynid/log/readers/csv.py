"""Read text logs with one row per line and any separator in blocks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass, few
from dynid.base.tables import codes_of, numbers_of, reader_of
from dynid.log.log import ColumnInfo, Text
from dynid.log.readers.dialect import (
    BLANK,
    END_TAG,
    MISSING,
    Dialect,
    bytes_with_plain_signs,
    cut_off,
    dialect_of,
    numbers_without,
    with_plain_signs,
)

BLOCK_BYTES = 2_000_000  # size of a block of text that is parsed at once
SHOWN = 60  # maximum number of characters of a line in a message
# If the first rows, up to this number, all have the same number of cells, the header is wrong and not the rows.
ROWS_OF_ONE_WIDTH = 1000
NAMED = 6  # maximum number of columns listed in a message
_CASES = (str.lower, str.upper, str.title, str.capitalize)
_TEXT_MARKS = (b"\xff\xfe", b"\xfe\xff")
_COMMENTS = (b"#", b"%", b"//")
_BLANKS = re.compile(rb"[ \t]+")


class CsvReader:
    """Opens text files of numbers that no other reader recognises."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".txt", ".dat", ".log", ".asc")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are text."""
        return b"\0" not in head or head.startswith(_TEXT_MARKS)

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> CsvTable:
        """Open a file.

        Parameters
        ----------
        path : Path
            Path of the file.
        delimiter, decimal : str, optional
            Separator and decimal sign; None means that they are detected.

        Raises
        ------
        InputError
            If the file is empty, or if its separator is not the given one.

        """
        known = path.stat()
        dialect = _dialect(path, known.st_mtime_ns, known.st_size, delimiter, decimal)
        return CsvTable(path, dialect, delimiter is None or decimal is None)


@lru_cache(maxsize=64)
def _dialect(path: Path, changed: int, size: int, delimiter: str | None, decimal: str | None) -> Dialect:
    """Dialect of a file, cached per version of the file (`changed`, `size`) because a log is opened several times."""
    return dialect_of(path, delimiter, decimal)


class CsvTable:
    """Open text file; its header line, or the last comment line above the rows, names the columns.

    Parameters
    ----------
    path : Path
        Path of the file.
    dialect : Dialect
        Dialect of the file.
    detected : bool
        Whether the dialect was detected; a note then reports it.

    """

    row_count: int | None = None

    def __init__(self, path: Path, dialect: Dialect, detected: bool = False) -> None:
        self.path, self.dialect = path, dialect
        again = {name for others in dialect.twins.values() for name in others}
        self.column_names = tuple(name for name in dialect.names if name not in again)
        self.constants = dialect.stated
        plain = dialect.delimiter == "," and dialect.decimal == "." and dialect.named
        place = Place(file=str(path))
        notes = [Finding(Level.NOTE, "dialect", dialect.words, place)] if detected and not plain else []
        self._units = {
            name: unit for name, unit in zip(dialect.names, dialect.in_cells, strict=False) if unit
        }
        self._cut = cut_off(path, dialect)
        if self._cut is not None and self._cut[1] != END_TAG:
            shown = self._cut[1] if len(self._cut[1]) <= SHOWN else f"{self._cut[1][:SHOWN]}..."
            count = self._cut[2]
            text = f"the last line, '{shown}', has too few cells and is ignored"
            if count > 1:
                text = f"the last {count} lines, from '{shown}' on, have too few cells and are ignored"
            notes.append(Finding(Level.WARNING, "last-line", text, place))
        if self.unlike:
            text = f"duplicate columns with different values are ignored: {few(self.unlike, NAMED)}"
            notes.append(Finding(Level.WARNING, "columns-of-one-name", text, place))
        self.remarks = tuple(notes)

    @property
    def unlike(self) -> tuple[str, ...]:
        """Names that are ambiguous because several columns with different values have this name."""
        return self.dialect.unlike

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns whose first cell is text."""
        cells = zip(self.dialect.names, self.dialect.first, strict=False)
        return tuple(name for name, cell in cells if not self.dialect.is_number(cell))

    @property
    def first_line(self) -> int:
        """Line number of the first row, counted from 1."""
        return self.dialect.head_lines + 1

    def number(self, cell: str) -> float:
        """Convert a cell to a number, nan if it is missing; raise ValueError for text."""
        return self.dialect.number(cell)

    def info(self, column: str) -> ColumnInfo:
        """Unit of a column, if the file states units."""
        units = self.dialect.units
        return ColumnInfo(unit=units[self.dialect.names.index(column)] if units else "")

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches.

        Parameters
        ----------
        columns : tuple of str
            Names of the columns.
        rows : int
            Maximum number of rows in a batch.
        start, stop : int
            First row and the row after the last row; None means the end.

        Raises
        ------
        InputError
            If a cell is not a number (the message states row and column), or if duplicate columns have different
            values.

        """
        twins = {name: self.dialect.twins[name] for name in columns if name in self.dialect.twins}
        read = (*columns, *(twin for others in twins.values() for twin in others))
        for batch in self._batches(read, rows, start, stop):
            for name, others in twins.items():
                if not all(_same(batch[name], batch[twin]) for twin in others):
                    raise self.differing((name,))
            yield {name: batch[name] for name in columns} if twins else batch

    def differing(self, names: Sequence[str]) -> InputError:
        """Error for duplicate columns with different values."""
        return self._error(
            "duplicate-column",
            f"duplicate column(s) {', '.join(names)} with different values",
            "unique names, or the same values",
            line=self.dialect.head_lines or None,
            do="rename them in the file",
        )

    def _batches(
        self, columns: tuple[str, ...], rows: int, start: int, stop: int | None
    ) -> Iterator[Mapping[str, Float | Text]]:
        import pyarrow as pa
        from pyarrow import csv as pacsv

        blank = self.dialect.delimiter == BLANK

        def parsed(block: bytes, kinds: Mapping[str, Any]) -> Any:
            return pacsv.read_csv(
                reader_of(block),
                read_options=pacsv.ReadOptions(
                    block_size=max(len(block), 1), use_threads=True, column_names=list(self.dialect.names)
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter="\t" if blank else self.dialect.delimiter,
                    newlines_in_values=self.dialect.broken,
                ),
                convert_options=pacsv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict(kinds),
                    decimal_point=self.dialect.decimal,
                    null_values=sorted({way(cell) for cell in MISSING for way in _CASES} | {"NaN", "-NaN"}),
                    true_values=[],  # "True" may be a name
                    false_values=[],
                ),
            )

        try:
            kinds: dict[str, Any] = {}
            position, texts = 0, set(self.texts)
            for block in self._blocks():
                if not kinds:
                    # Arrow guesses the types from the first block. A column that begins with integers or empty cells
                    # may continue with other numbers, and a name that looks like a date must remain text.
                    for field in parsed(block, {}).schema:
                        kinds[field.name] = field.type
                        if pa.types.is_integer(field.type) or pa.types.is_null(field.type):
                            kinds[field.name] = pa.float64()
                        # Arrow guesses that status words such as 0x0627 are integers, but then fails to read them.
                        named = field.name in texts or field.name in self._units
                        if pa.types.is_temporal(field.type) or named:
                            kinds[field.name] = pa.string()
                for batch in parsed(block, kinds).to_batches():
                    for first in range(0, batch.num_rows, rows):
                        piece = batch.slice(first, rows)
                        a = max(start - position, 0)
                        b = piece.num_rows if stop is None else min(stop - position, piece.num_rows)
                        if b > a:
                            yield {
                                name: self._column(piece.column(name).slice(a, b - a), name, position + a)
                                for name in columns
                            }
                        position += piece.num_rows
                        if stop is not None and position >= stop:
                            return
        except MemoryError:
            raise
        except pa.ArrowException as error:
            raise self._explained(error, columns) from error

    def wrong_row(self, column: str) -> InputError | None:
        """Error for the first cell of a column that is not a number; None if all cells are numbers."""
        return self._wrong_row((column,)) if column in self.column_names else None

    def _blocks(self) -> Iterator[bytes]:
        """Yield the rows as blocks of complete lines of about BLOCK_BYTES.

        Arrow's stream reader is not used: its threads call Python to read ahead, which aborts or hangs if the program
        ends before the whole file is read.
        """
        rest = b""
        with _Lines(self.path, self.dialect, self._cut and self._cut[0]) as lines:
            while data := lines.read(BLOCK_BYTES):
                rest += data
                end = _whole_lines(rest, self.dialect.broken)
                rows = self._without_remarks(bytes_with_plain_signs(rest[:end]), lines.head)
                if rows.strip(b"\r\n"):
                    yield rows
                rest = rest[end:]
        if (rows := self._without_remarks(bytes_with_plain_signs(rest), lines.head)).strip(b"\r\n"):
            yield rows

    def _without_remarks(self, text: bytes, head: _Head) -> bytes:
        """Remove repeated header lines and comments from a block of text."""
        rows = head.removed_from(text)
        if not self.dialect.broken and rows.count(b'"') % 2:
            raise self._open_quote() or self._error("csv", "a quote that is not closed", "pairs of quotes")
        if self.dialect.broken or not any(mark in rows for mark in _COMMENTS):
            return rows
        return b"\n".join(line for line in rows.split(b"\n") if not line.lstrip().startswith(_COMMENTS))

    def _remark(self, line: str) -> bool:
        return not self.dialect.broken and line.lstrip().encode().startswith(_COMMENTS)

    def _column(self, array: Any, name: str, first_row: int) -> Float | Text:
        import pyarrow.types as kinds

        if kinds.is_null(array.type):
            return np.full(len(array), np.nan)
        if name in self._units:
            array = numbers_without(array, self._units[name], self.dialect.decimal, MISSING)
        if kinds.is_string(array.type):
            coded = array.dictionary_encode()
            return Text(codes_of(coded.indices), tuple(str(value) for value in coded.dictionary.to_pylist()))
        if not (kinds.is_floating(array.type) or kinds.is_integer(array.type)):
            raise self._error(
                "column-type", f"column '{name}' of type {array.type}", "numbers", row=first_row
            )
        return np.asarray(numbers_of(array), dtype=np.float64)

    def _open_quote(self) -> InputError | None:
        """Error for the first line with an odd number of quotes; None if there is none."""
        lines: Any = _Lines(self.path, self.dialect, self._cut and self._cut[0])
        with io.BufferedReader(lines) as file:
            for number, line in enumerate(file, self.first_line):
                if line.count(b'"') % 2:
                    shown = line[:SHOWN].decode("utf-8", "replace").strip()
                    return self._error(
                        "ragged-row",
                        f"a quote that is not closed, in '{shown}'",
                        "pairs of quotes in a line",
                        line=number,
                        do="remove or close it",
                    )
        return None

    def _explained(self, error: Exception, columns: tuple[str, ...]) -> InputError:
        # The fast reader does not report where the error is, so a slow second pass locates it.
        open_quote = None if self.dialect.broken else self._open_quote()
        row_error = open_quote or self._wrong_row(columns)
        shown = " ".join(str(error).split())[:200]
        return row_error or self._error("csv", shown, "a CSV file with one number per cell")

    def _wrong_row(self, columns: tuple[str, ...]) -> InputError | None:
        blank = self.dialect.delimiter == BLANK
        count = len(self.dialect.names)
        lines: Any = _Lines(self.path, self.dialect, self._cut and self._cut[0])
        with io.TextIOWrapper(lines, "utf-8", "replace", newline="") as file:
            plain = map(with_plain_signs, file)
            written = (
                line for line in plain if not (lines.head.contains(line.encode()) or self._remark(line))
            )
            reader = csv.reader(written, delimiter="\t" if blank else self.dialect.delimiter)
            texts: dict[int, bool] = {}
            row = -1
            for cells in reader:
                if not cells:
                    continue
                row += 1
                line = reader.line_num + self.dialect.head_lines
                if len(cells) != count:
                    others = {len(other) for other in islice(reader, ROWS_OF_ONE_WIDTH) if other}
                    if row == 0 and self.dialect.named and others == {len(cells)}:
                        finding = f"{count} names in the header but {len(cells)} cells in every row"
                        do = "give each column a name in the header"
                        return self._error("ragged-row", finding, "equal numbers", line=line, do=do)
                    expected = f"{count}, as in the {'header' if self.dialect.named else 'other rows'}"
                    return self._error("ragged-row", f"{len(cells)} cells", expected, line=line, row=row)
                for name in columns:
                    i = self.dialect.names.index(name)
                    good = self.dialect.is_number_of(i, cells[i])
                    if row == 0:
                        texts[i] = not good
                    if not good and not texts.get(i, False):
                        return self._text_cell(name, cells, row, line)
        return None

    def _text_cell(self, column: str, cells: Sequence[str], row: int, line: int) -> InputError:
        """Error for a row with a cell that should be a number."""
        cell = cells[self.dialect.names.index(column)]
        finding, expected, do = f"column '{column}' = '{cell}'", "a number", ""
        if unit := self._units.get(column):
            expected = f"a number in {unit}, or in another unit of the same quantity"
        comma = self.dialect.decimal == "." and "," in cell and self.dialect.is_number(cell.replace(",", "."))
        if comma and not any("." in value and self.dialect.is_number(value) for value in cells):
            do = 'set decimal = "," under [log]'
        if not any(self.dialect.is_number_of(k, value) for k, value in enumerate(cells)):
            finding = f"another header line, {', '.join(cells)[:SHOWN]}"
            expected = f"rows of numbers, or the header of line {self.dialect.head_lines}"
            do = "split the file above that line and pass the parts as several logs"
        return self._error("text-cell", finding, expected, line=line, row=row, do=do)

    def _error(
        self,
        identifier: str,
        finding: str,
        expected: str,
        *,
        line: int | None = None,
        row: int | None = None,
        do: str = "",
    ) -> InputError:
        return InputError(
            identifier,
            found=finding,
            expected=expected,
            do=do,
            place=Place(file=str(self.path), line=line, row=row),
        )


def refuse_unlike(table: Any, wanted: Collection[str] | None = None) -> None:
    """Raise InputError if wanted columns of a text file are duplicate with different values; None means all columns."""
    if isinstance(table, CsvTable):
        unlike = [name for name in table.unlike if wanted is None or name in wanted]
        if unlike:
            raise table.differing(unlike)


def _same(column: Float | Text, other: Float | Text) -> bool:
    """Whether two columns have the same values."""
    if isinstance(column, Text) and isinstance(other, Text):
        return [column.names[k] for k in column.codes] == [other.names[k] for k in other.codes]
    if isinstance(column, Text) or isinstance(other, Text):
        return False
    return bool(np.array_equal(column, other, equal_nan=True))


def _whole_lines(text: bytes, quoted: bool) -> int:
    """Length of the complete lines in a text; if `quoted`, quoted cells may contain line breaks."""
    end = text.rfind(b"\n") + 1
    while quoted and end > 0 and text.count(b'"', 0, end) % 2:
        end = text.rfind(b"\n", 0, end - 1) + 1
    return end


@dataclass(frozen=True)
class _Head:
    """Lines above the first row. A restarted recorder repeats them, possibly with other blanks or quotes.

    Parameters
    ----------
    lines : frozenset of tuple of bytes
        Cells of each line without surrounding blanks and quotes, and without empty cells at the end.
    marks : frozenset of bytes
        Longest cell of each line, for a fast test whether a text may contain the line.
    separator : bytes
        Separator of the cells.

    """

    lines: frozenset[tuple[bytes, ...]]
    marks: frozenset[bytes]
    separator: bytes

    @staticmethod
    def of(written: Iterable[bytes], separator: bytes) -> _Head:
        lines = frozenset(cells for line in written if (cells := _plain_cells(line, separator)))
        return _Head(lines, frozenset(max(cells, key=len) for cells in lines), separator)

    def contains(self, line: bytes) -> bool:
        """Whether a line repeats a header line."""
        return any(mark in line for mark in self.marks) and _plain_cells(line, self.separator) in self.lines

    def removed_from(self, text: bytes) -> bytes:
        """Remove all header lines from a text."""
        if not any(mark in text for mark in self.marks):
            return text
        return b"\n".join(line for line in text.split(b"\n") if not self.contains(line))


def _plain_cells(line: bytes, separator: bytes) -> tuple[bytes, ...]:
    cells = [cell.strip(b' \t\r\n"') for cell in line.split(separator)]
    while cells and not cells[-1]:
        cells.pop()
    return tuple(cells)


class _Lines(io.RawIOBase):
    """Stream of the rows of a text file in UTF-8; if blanks separate the cells, each run of blanks becomes a tab.

    Parameters
    ----------
    path : Path
        Path of the file.
    dialect : Dialect
        Dialect of the file.
    end : int, optional
        Byte offset at which reading stops.

    """

    def __init__(self, path: Path, dialect: Dialect, end: int | None = None) -> None:
        super().__init__()
        self._end = end
        plain = dialect.encoding in ("utf-8", "utf-8-sig")
        self._dialect, self._blank = dialect, dialect.delimiter == BLANK
        self._file: Any = path.open("rb") if plain else path.open(encoding=dialect.encoding, newline="")
        head = [self._file.readline() for _ in range(dialect.head_lines)]
        written = (bytes_with_plain_signs(self._as_utf8(line)) for line in head)
        self.head = _Head.of(written, b"\t" if self._blank else dialect.delimiter.encode())
        self._rest = b""

    def readable(self) -> bool:
        """Return True, as required by io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer and return the number of bytes read, 0 at the end of the file."""
        view = memoryview(buffer).cast("B")
        if not self._rest:
            self._rest = self._next(len(view))
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()

    def _next(self, size: int) -> bytes:
        size = max(size, 1) if self._end is None else min(max(size, 1), self._end - self._file.tell())
        text = self._file.read(max(size, 0))
        if not (self._blank or self._dialect.lists or self._dialect.grouped):
            return self._as_utf8(text)
        # Read complete lines: only then blanks at line ends differ from blanks between cells, and lists are complete.
        if self._end is None or self._file.tell() < self._end:
            text += self._file.readline()
        return self._as_utf8(text)

    def _as_utf8(self, text: str | bytes) -> bytes:
        data = text.encode() if isinstance(text, str) else bytes(text)
        if self._dialect.lists or self._dialect.grouped:
            lines = data.decode("utf-8", "replace").split("\n")
            data = "\n".join(self._dialect.as_cells(line) for line in lines).encode()
        if not self._blank:
            return data
        return b"\n".join(_BLANKS.sub(b"\t", line.strip()) for line in data.split(b"\n"))
