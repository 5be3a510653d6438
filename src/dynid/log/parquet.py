"""Parquet logs, read row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import InputError, Place, UnfitDataError
from dynid.log.log import ColumnInfo, Text

MAGIC = b"PAR1"


class ParquetReader:
    """Opens Parquet files, known by their first four bytes."""

    name = "parquet"
    suffixes = (".parquet", ".pq")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are those of this format."""
        return head[:4] == MAGIC

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ParquetTable:
        """Opens a file; raises UnfitDataError if it is truncated, InputError if it is damaged otherwise."""
        return ParquetTable(path)


class ParquetTable:
    """An open Parquet file."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        with path.open("rb") as file:
            file.seek(0, 2)
            size = file.tell()
            file.seek(max(size - 4, 0))
            complete = file.read() == MAGIC and size > 12
        if not complete:
            raise UnfitDataError(
                "truncated",
                found=f"a Parquet file of {size} bytes without its footer: no row can be recovered",
                expected="the whole file (the table of contents is written last)",
                do="copy it again, or record in a format that survives interruption",
                place=Place(file=str(path)),
            )
        try:
            self._file = pq.ParquetFile(
                path, memory_map=False, pre_buffer=False, page_checksum_verification=True
            )
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        self.column_names = tuple(self._file.schema_arrow.names)
        check_unique(self.column_names, path)
        self.row_count: int | None = self._file.metadata.num_rows

    def info(self, column: str) -> ColumnInfo:
        """What the file's schema says of a column."""
        rows = self._file.metadata.num_rows
        kind = self._file.schema_arrow.field(column).type
        return ColumnInfo(str(kind), column, (rows,), row_count=rows)

    def extent(self, column: str) -> tuple[float, float] | None:
        """Least and greatest value of a column of numbers by the file's own statistics, None where it has none."""
        meta = self._file.metadata
        paths = [meta.schema.column(i).path for i in range(meta.num_columns)]
        if column not in paths:
            return None
        index = paths.index(column)
        found = [meta.row_group(g).column(index).statistics for g in range(meta.num_row_groups)]
        if not found or not all(s is not None and s.has_min_max for s in found):
            return None
        ends = [value for s in found for value in (s.min, s.max)]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in ends):
            return None
        return float(min(ends)), float(max(ends))

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; row groups outside start..stop are not decoded."""
        import pyarrow as pa

        meta = self._file.metadata
        end = meta.num_rows if stop is None else min(stop, meta.num_rows)
        groups, first, at = [], None, 0
        for g in range(meta.num_row_groups):
            size = meta.row_group(g).num_rows
            if at + size > start and at < end:
                groups.append(g)
                first = at if first is None else first
            at += size
        if not groups or first is None:
            return
        position = first
        try:
            for batch in self._file.iter_batches(
                batch_size=rows, row_groups=groups, columns=list(columns), use_threads=True
            ):
                a, b = max(start - position, 0), min(end - position, batch.num_rows)
                position += batch.num_rows
                if b > a:
                    yield {
                        name: arrow_column(batch.column(name).slice(a, b - a), name, self.path)
                        for name in columns
                    }
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InputError:
        text = " ".join(str(error).split())[:200]
        return InputError(
            "parquet",
            found=f"a damaged Parquet file ({text})",
            expected="a readable one",
            place=Place(file=str(self.path)),
        )


def check_unique(names: tuple[str, ...], path: Path) -> None:
    """Raises InputError for a column name that is used twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            "duplicate-column",
            found=f"column(s) {', '.join(twice)} more than once",
            expected="unique names",
            place=Place(file=str(path)),
        )


def arrow_column(array: Any, name: str, path: Path) -> Float | Text:
    """An Arrow array as numbers or text; raises InputError for what is neither."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = array.type
    if kinds.is_dictionary(kind) or kinds.is_string(kind) or kinds.is_large_string(kind):
        coded = array if kinds.is_dictionary(kind) else array.dictionary_encode()
        # Indices may be unsigned, as polars writes them.
        codes = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return Text(codes, tuple(str(value) for value in coded.dictionary.to_pylist()))
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        array = array.cast(pa.int64())
    if not (kinds.is_floating(array.type) or kinds.is_integer(array.type) or kinds.is_boolean(array.type)):
        raise InputError(
            "column-type",
            found=f"column '{name}' of type {kind}",
            expected="numbers or text",
            place=Place(file=str(path)),
        )
    if kinds.is_boolean(array.type):
        array = array.cast(pa.int8())
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)
