"""CSV logs with a header line, streamed in blocks."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import InputError, Place
from dynid.base.numbers import number_of
from dynid.log.log import Text

BLOCK_BYTES = 8_000_000


class CsvReader:
    """Opens text files of numbers; it takes what no other reader claims by its first bytes."""

    name = "csv"
    suffixes = (".csv", ".tsv", ".txt")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are text."""
        return b"\0" not in head

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> CsvTable:
        """Opens a file; raises InputError if its header is missing, ambiguous or in another dialect."""
        return CsvTable(path, delimiter or ",", decimal or ".")


class CsvTable:
    """An open CSV file; its first line names the columns."""

    row_count: int | None = None

    def __init__(self, path: Path, delimiter: str, decimal: str) -> None:
        self.path, self.delimiter, self.decimal = path, delimiter, decimal
        self.column_names = self._header()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; raises InputError naming row and column of a cell that is no number."""
        import pyarrow as pa
        from pyarrow import csv as pacsv

        def opened(kinds: Mapping[str, Any]) -> Any:
            return pacsv.open_csv(
                self.path,
                read_options=pacsv.ReadOptions(
                    block_size=BLOCK_BYTES,
                    use_threads=True,
                    column_names=list(self.column_names),
                    skip_rows=1,
                ),
                parse_options=pacsv.ParseOptions(delimiter=self.delimiter),
                convert_options=pacsv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict(kinds),
                    decimal_point=self.decimal,
                    null_values=["", "nan", "NaN", "NAN", "null", "NULL"],
                    true_values=[],  # a name may be called True
                    false_values=[],
                ),
            )

        try:
            # The types are guessed from the first block: a column that begins with whole numbers, or with nothing,
            # must not be held to that further down, and a name that is a date is still a name.
            with opened({}) as first_look:
                kinds = {}
                for field in first_look.schema:
                    if pa.types.is_integer(field.type) or pa.types.is_null(field.type):
                        kinds[field.name] = pa.float64()
                    elif pa.types.is_temporal(field.type):
                        kinds[field.name] = pa.string()
            stream = opened(kinds)
            position = 0
            for batch in stream:
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
        except pa.ArrowException as error:
            raise self._explained(error, columns) from error

    def _header(self) -> tuple[str, ...]:
        with self.path.open("r", encoding="utf-8-sig", errors="strict", newline="") as file:
            try:
                line = file.readline()
            except UnicodeDecodeError as error:
                raise self._error(
                    "encoding", f"byte {error.start} that is not UTF-8", "UTF-8 text", line=1
                ) from error
        if not line.strip():
            raise self._error("file-empty", "an empty first line", "a header line with column names", line=1)
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=self.delimiter))]
        if len(cells) == 1:
            for other in (";", "\t", ","):
                if other != self.delimiter and line.count(other) >= 1:
                    shown = "\\t" if other == "\t" else other
                    raise self._error(
                        "delimiter",
                        f"columns separated by '{shown}'",
                        f"'{self.delimiter}'",
                        line=1,
                        do=f'set delimiter = "{shown}" under [log]'
                        + (' (and decimal = "," if numbers are written 1,5)' if other == ";" else ""),
                    )
        if all(_is_number(cell) for cell in cells):
            raise self._error(
                "no-header", "numbers in the first line", "a header line with column names", line=1,
                do="add one, then map the columns under [log]",
            )  # fmt: skip
        twice = sorted({cell for cell in cells if cells.count(cell) > 1})
        if twice:
            raise self._error(
                "duplicate-column", f"column(s) {', '.join(twice)} more than once", "unique names", line=1
            )
        return tuple(cells)

    def _column(self, array: Any, name: str, first_row: int) -> Float | Text:
        import pyarrow.types as kinds

        if kinds.is_null(array.type):
            return np.full(len(array), np.nan)
        if kinds.is_string(array.type):
            coded = array.dictionary_encode()
            codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
            return Text(codes, tuple(str(value) for value in coded.dictionary.to_pylist()))
        if not (kinds.is_floating(array.type) or kinds.is_integer(array.type)):
            raise self._error(
                "column-type", f"column '{name}' of type {array.type}", "numbers", row=first_row
            )
        return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)

    def _explained(self, error: Exception, columns: tuple[str, ...]) -> InputError:
        # The fast reader says that something is wrong; a slow second look says where.
        with self.path.open("r", encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=self.delimiter)
            header = [cell.strip() for cell in next(reader)]
            texts: dict[int, bool] = {}
            row = -1
            for cells in reader:
                if not cells:
                    continue
                row += 1
                if len(cells) != len(header):
                    return self._error(
                        "ragged-row",
                        f"{len(cells)} cells",
                        f"{len(header)}, as in the header",
                        line=reader.line_num,
                        row=row,
                    )
                for name in columns:
                    i = header.index(name)
                    cell = cells[i].strip().replace(self.decimal, ".")
                    good = not cell or _is_number(cell) or cell.lower() in ("nan", "null")
                    if row == 0:
                        texts[i] = not good
                    if not good and not texts.get(i, False):
                        return self.text_cell(name, cells[i], row, reader.line_num)
        return self._error("csv", " ".join(str(error).split())[:200], "a CSV file with one number a cell")

    def text_cell(self, column: str, cell: str, row: int, line: int) -> InputError:
        """The error for a cell that should be a number."""
        comma = "," in cell and _is_number(cell.replace(",", "."))
        do = 'set decimal = "," under [log]' if comma else ""
        return self._error(
            "text-cell", f"column '{column}' = '{cell}'", "a number", line=line, row=row, do=do
        )

    def _error(
        self,
        identifier: str,
        found: str,
        expected: str,
        *,
        line: int | None = None,
        row: int | None = None,
        do: str = "",
    ) -> InputError:
        return InputError(
            identifier,
            found=found,
            expected=expected,
            do=do,
            place=Place(file=str(self.path), line=line, row=row),
        )


def _is_number(cell: str) -> bool:
    try:
        number_of(cell)
    except ValueError:
        return False
    return True
