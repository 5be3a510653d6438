"""Arrow arrays, Parquet tables and data frames."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Arrow arrays from values and back by their buffers, since pyarrow's own way loads pandas where it is
# installed.


def arrow_array(values: Any) -> Any:
    """An Arrow array of numbers, text, or lists or arrays of numbers; of what pyarrow makes of anything else."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if not isinstance(values, np.ndarray):
        values = list(values)
        if values and all(type(value) is str for value in values):
            return _text_array(values)
        if values and all(type(value) is list for value in values):
            return _list_array(values, [value for cell in values for value in cell])
        if values and all(isinstance(value, np.ndarray) for value in values):
            return _list_array(values, np.concatenate(values))
        if not all(type(value) in (int, float) for value in values):
            return pa.array(values)
    numbers = np.ascontiguousarray(values)
    if numbers.ndim == 1 and numbers.dtype == np.bool_:
        bits = pa.py_buffer(np.packbits(numbers, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(numbers), [None, bits])
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf" or numbers.dtype.itemsize < 4:
        return pa.array(values)
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def reader_of(block: bytes) -> Any:
    """A reader of bytes that are copied into memory of Arrow's own.

    Arrow's threads let go of what they read when they come to it. Of an object of Python's they need the interpreter
    for that, and where it is about to end by then the whole process is aborted.
    """
    import pyarrow as pa

    memory = pa.allocate_buffer(len(block))
    memoryview(memory).cast("B")[:] = block
    return pa.BufferReader(memory)


def numbers_of(array: Any) -> npt.NDArray[Any]:
    """An Arrow array of numbers or truths as a NumPy array of its type, or of float64 with NaN where there is none.

    The values are not copied where Arrow holds them in one piece without gaps; such an array is read-only.
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    if isinstance(array, pa.ChunkedArray):
        parts = [numbers_of(part) for part in array.chunks]
        return np.concatenate(parts) if len(parts) != 1 else parts[0]
    kind = array.type
    if kinds.is_boolean(kind) and not array.null_count:
        first, count, buffer = array.offset, len(array), array.buffers()[1]
        bits = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
        return np.unpackbits(bits, count=first + count, bitorder="little")[first:].astype(np.bool_)
    if not (kinds.is_integer(kind) or kinds.is_float32(kind) or kinds.is_float64(kind)):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    valid, data = array.buffers()
    first, count = array.offset, len(array)
    dtype = np.dtype(kind.to_pandas_dtype())
    if data is None or not count:
        return np.zeros(count, dtype)
    values = np.frombuffer(data, dtype, count, first * dtype.itemsize)
    if not array.null_count:
        return values
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=first + count, bitorder="little")[first:]
    return np.where(bits.astype(np.bool_), values, np.nan)


def codes_of(array: Any) -> npt.NDArray[np.int64]:
    """An Arrow array of integers, such as indices into a dictionary; -1 where there is none."""
    numbers = numbers_of(array)
    # pyarrow's fill_null loads pandas. Gaps make float64 of integers, which holds every index of a table.
    return (
        np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
        if array.null_count
        else numbers.astype(np.int64)
    )


def arrays_of(lists: Any) -> list[npt.NDArray[Any]]:
    """The arrays of an Arrow array of lists of numbers."""
    arrays: list[npt.NDArray[Any]] = []
    for part in lists.chunks:
        values, ends = numbers_of(part.values), numbers_of(part.offsets)
        arrays += [values[a:b] for a, b in pairwise(ends)]
    return arrays


def _text_array(values: Sequence[str]) -> Any:
    import pyarrow as pa

    cells = [value.encode() for value in values]
    ends = np.concatenate([[0], np.cumsum([len(cell) for cell in cells])])
    if ends[-1] > np.iinfo(np.int32).max:
        return pa.array(values)
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(cells))]
    return pa.Array.from_buffers(pa.string(), len(cells), buffers)


def _list_array(values: Sequence[Any], flat: Any) -> Any:
    import pyarrow as pa

    ends = np.concatenate([[0], np.cumsum([len(cell) for cell in values])])
    # Of lists without a number only arrays say which type they are of; pa.array loads pandas.
    if not (len(flat) or isinstance(flat, np.ndarray)) or ends[-1] > np.iinfo(np.int32).max:
        return pa.array(values)
    return pa.ListArray.from_arrays(arrow_array(ends.astype(np.int32)), arrow_array(flat))


# Parquet tables of a run folder, and data frames; pyarrow is loaded when the first one is touched.


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes columns (lists or arrays of equal length) as a zstd-compressed Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: arrow_array(values) for name, values in columns.items()})
    # Measured numbers hardly repeat themselves, and looking for it takes longer than writing them.
    repeating = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    pq.write_table(table, path, compression="zstd", use_dictionary=repeating)


def read_table(path: Path) -> dict[str, Any]:
    """Reads a Parquet file as columns: numbers as arrays, text as lists, lists of numbers as lists of arrays."""
    import pyarrow.parquet as pq
    from pyarrow import types

    table = pq.ParquetFile(path).read()  # pq.read_table loads pandas where it is installed
    return {
        name: numbers_of(column)
        if types.is_primitive(column.type)
        else arrays_of(column)
        if types.is_list(column.type) and types.is_primitive(column.type.value_type)
        else column.to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Columns (lists or arrays of equal length) as a data frame.

    Of polars or pandas: of the one that the program has loaded, else of one that is installed; else an Arrow table.
    """
    import pyarrow as pa

    table = pa.table(dict(columns))
    for library in sorted(("polars", "pandas"), key=lambda name: name not in sys.modules):
        if library in sys.modules or find_spec(library) is not None:
            module = import_module(library)
            return module.from_arrow(table) if library == "polars" else table.to_pandas()
    return table
