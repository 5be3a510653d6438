"""Read Parquet logs, one row group at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import InputError, Place, UnfitDataError
from dynid.base.tables import codes_of, numbers_of
from dynid.log.log import ColumnInfo, Text

# Convert columns of Arrow tables to columns of a log; a column of lists becomes the columns name[0], name[1], ...

# Maximum length of lists: robots have fewer joints, and images have more numbers.
MAX_WIDTH = 512


class ArrowColumns:
    """Columns of a log that correspond to the columns of an Arrow schema.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the Arrow table.
    width : callable
        width(name) returns the length of the lists in a column; None if all lists are missing.
    path : Path
        Path of the file, which messages state.
    labels : mapping of str to sequence of str, optional
        Names of the components of each list column, instead of their numbers.

    Attributes
    ----------
    left_out : tuple of str
        One line of text for each column without numbers or text.

    """

    def __init__(
        self,
        schema: Any,
        width: Callable[[str], int | None],
        path: Path,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.path, self._schema = path, schema
        self._sources: dict[str, tuple[str, int | None]] = {}
        self._widths: dict[str, int] = {}
        check_unique(tuple(schema.names), path)
        left_out: dict[str, str] = {}
        for field in schema:
            size = width(field.name) if _is_list(field.type) else None
            if size is not None and 0 < size <= MAX_WIDTH:
                self._widths[field.name] = size
                if size == 1:
                    self._sources[field.name] = field.name, 0
                    continue
                given = (labels or {}).get(field.name, ())
                parts = given if len(set(given)) == len(given) == size else range(size)
                self._sources |= {f"{field.name}[{part}]": (field.name, i) for i, part in enumerate(parts)}
                continue
            self._sources[field.name] = field.name, None
            if not _is_plain(field.type):
                left_out[field.name] = f"{field.name}: {field.type}" + (f" of {size}" if size else "")
        self.names, self.left_out = tuple(self._sources), tuple(left_out.values())
        self.usable = tuple(name for name in self.names if name not in left_out)

    def sources(self, names: Sequence[str]) -> list[str]:
        """Names of the Arrow columns that contain the given columns of the log, without repetition."""
        return list(dict.fromkeys(self._sources[name][0] for name in names))

    def values(self, batch: Mapping[str, Any], names: Sequence[str], row: int) -> dict[str, Float | Text]:
        """Extract columns of the log.

        Parameters
        ----------
        batch : mapping of str to pyarrow array
            Columns of the Arrow table.
        names : sequence of str
            Columns of the log.
        row : int
            Number of the first row in the file, which messages state.

        Raises
        ------
        InputError
            If the length of a list differs from the first list.

        """
        lists: dict[str, Float] = {}
        columns: dict[str, Float | Text] = {}
        for name in names:
            source, place = self._sources[name]
            if place is None:
                columns[name] = arrow_column(batch[source], name, self.path)
                continue
            if source not in lists:
                lists[source] = self._matrix(batch[source], source, row)
            columns[name] = np.ascontiguousarray(lists[source][:, place])
        return columns

    def info(self, name: str, rows: int | None) -> ColumnInfo:
        """Metadata of a column from the schema."""
        source, place = self._sources[name]
        kind = self._schema.field(source).type
        if place is None:
            return ColumnInfo(str(kind), source, () if rows is None else (rows,), row_count=rows)
        shape = () if rows is None else (rows, self._widths[source])
        return ColumnInfo(str(kind.value_type), source, shape, row_count=rows)

    def _matrix(self, array: Any, source: str, row: int) -> Float:
        import pyarrow as pa
        import pyarrow.compute as pc

        width = self._widths[source]
        if pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        lengths = codes_of(pc.list_value_length(array))
        wrong = np.flatnonzero((lengths != width) & (lengths >= 0))
        if len(wrong):
            raise InputError(
                "ragged-row",
                found=f"a list of {lengths[wrong[0]]} numbers in column '{source}'",
                expected=f"{width} numbers, as in the first row",
                do="export lists of equal length",
                place=Place(file=str(self.path), row=row + int(wrong[0])),
            )
        numbers = numbers_of(array.flatten()).astype(np.float64)
        values = np.full((len(lengths), width), np.nan)
        values[lengths == width] = numbers.reshape(-1, width)
        return values


def list_width(array: Any) -> int | None:
    """Length of the first list in a column that is not missing; None if all lists are missing."""
    for cell in array:
        if cell.is_valid:
            return len(cell)
    return None


def check_unique(names: tuple[str, ...], path: Path) -> None:
    """Raise InputError if two columns have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            "duplicate-column",
            found=f"duplicate column(s) {', '.join(twice)}",
            expected="unique names",
            do="rename them in the file",
            place=Place(file=str(path)),
        )


def arrow_column(array: Any, name: str, path: Path) -> Float | Text:
    """Convert an Arrow array to numbers or text; raise InputError for other types."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = array.type
    if kinds.is_dictionary(kind) or kinds.is_string(kind) or kinds.is_large_string(kind):
        coded = array if kinds.is_dictionary(kind) else array.dictionary_encode()
        return Text(codes_of(coded.indices), tuple(str(value) for value in coded.dictionary.to_pylist()))
    if kinds.is_timestamp(kind) or kinds.is_duration(kind):
        array = array.cast(pa.int64())
    if not (kinds.is_floating(array.type) or kinds.is_integer(array.type) or kinds.is_boolean(array.type)):
        raise InputError(
            "column-type",
            found=f"column '{name}' of type {kind}",
            expected="numbers or text",
            do="convert the column to numbers or text",
            place=Place(file=str(path)),
        )
    if kinds.is_boolean(array.type):
        array = array.cast(pa.int8())
    return np.asarray(numbers_of(array), dtype=np.float64)


def _is_plain(kind: Any) -> bool:
    import pyarrow.types as kinds

    return any(
        is_kind(kind)
        for is_kind in (
            kinds.is_dictionary, kinds.is_string, kinds.is_large_string, kinds.is_timestamp, kinds.is_duration,
            kinds.is_floating, kinds.is_integer, kinds.is_boolean,
        )
    )  # fmt: skip


def _is_list(kind: Any) -> bool:
    import pyarrow.types as kinds

    listed = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    return bool(listed and (kinds.is_floating(kind.value_type) or kinds.is_integer(kind.value_type)))


MAGIC = b"PAR1"
FIRST_LISTS = 64  # number of rows that are read together to find the length of lists


class ParquetReader:
    """Opens Parquet files, recognised by their first four bytes."""

    name = "parquet"
    suffixes = (".parquet", ".pq")

    def can_read(self, head: bytes) -> bool:
        """Whether a file that begins with the bytes `head` has this format."""
        return head[:4] == MAGIC

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ParquetTable:
        """Open a file; raise UnfitDataError if it is truncated, InputError if it is damaged."""
        return ParquetTable(path)


class ParquetTable:
    """Open Parquet file.

    Parameters
    ----------
    path : Path
        Path of the file.
    labels : mapping of str to sequence of str, optional
        Names of the components of each list column, instead of their numbers.

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
                found=f"a Parquet file of {size} bytes without its footer, so that no row can be recovered",
                expected="the complete file (the footer is written last)",
                do="copy it again, or record in a format that survives interruption, such as MCAP or CSV",
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
        """Numeric columns and text columns."""
        return {"": self._columns.usable}

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column in the schema."""
        return self._columns.info(column, self.row_count)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches; row groups outside of start to stop are not decoded."""
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
            # Do not use threads: with batches of ten thousands of rows they wait for each other. For an hour at 1 kHz,
            # they need 60 % more processor time and save no time on two processors.
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
            expected="a readable file",
            do="copy or export it again",
            place=Place(file=str(self.path)),
        )
