"""Parquet logs, read row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dynid.base.arrays import Float
from dynid.base.errors import InputError, Place, UnfitDataError
from dynid.log.arrow_columns import ArrowColumns, list_width
from dynid.log.log import ColumnInfo, Text

MAGIC = b"PAR1"
# Rows that are looked at for the length of their lists.
FIRST_LISTS = 64


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
    """An open Parquet file.

    labels: names of the columns that a list column makes, by its name, in place of their numbers.
    """

    def __init__(self, path: Path, labels: Mapping[str, Sequence[str]] | None = None) -> None:
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
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        self.row_count: int | None = self._file.metadata.num_rows
        self._columns = ArrowColumns(self._file.schema_arrow, self._list_width, path, labels)
        self.column_names, self.left_out = self._columns.names, self._columns.left_out

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """The columns that hold numbers or text."""
        return {"": self._columns.usable}

    def info(self, column: str) -> ColumnInfo:
        """What the file's schema says of a column."""
        return self._columns.info(column, self.row_count)

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
            # Threads that decode columns of a few ten thousand rows wait for each other: an hour at 1 kHz takes 60 %
            # more processor time with them, and on two processors not less time.
            for batch in self._file.iter_batches(
                batch_size=rows, row_groups=groups, columns=self._columns.sources(columns), use_threads=False
            ):
                a, b = max(start - position, 0), min(end - position, batch.num_rows)
                position += batch.num_rows
                if b > a:
                    parts = {name: batch.column(name).slice(a, b - a) for name in batch.schema.names}
                    yield self._columns.values(parts, columns, position - batch.num_rows + a)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error

    def _list_width(self, column: str) -> int | None:
        import pyarrow as pa

        kind = self._file.schema_arrow.field(column).type
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        try:
            for batch in self._file.iter_batches(batch_size=FIRST_LISTS, columns=[column]):
                if (width := list_width(batch.column(0))) is not None:
                    return width
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        return None

    def _damaged(self, error: Exception) -> InputError:
        text = " ".join(str(error).split())[:200]
        return InputError(
            "parquet",
            found=f"a damaged Parquet file ({text})",
            expected="a readable one",
            place=Place(file=str(self.path)),
        )
