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

# Arrow arrays from values and back by their buffers, since pyarrow's conversions import pandas if it is installed.


def arrow_array(values: Any) -> Any:
    """Convert numbers, text, or lists or arrays of numbers to an Arrow array; other values as pyarrow does."""
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
    """Return a reader of bytes that are copied into Arrow's memory.

    Arrow's threads release their input late. To release a Python object they need the interpreter, and the process
    aborts if the interpreter is exiting by then.
    """
    import pyarrow as pa

    memory = pa.allocate_buffer(len(block))
    memoryview(memory).cast("B")[:] = block
    return pa.BufferReader(memory)


def numbers_of(array: Any) -> npt.NDArray[Any]:
    """Convert an Arrow array of numbers or booleans to NumPy: of its type, or float64 with NaN if values are missing.

    Contiguous values without gaps are not copied; the array is then read-only.
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
    """Convert an Arrow array of integers, such as dictionary indices, to int64, with -1 for missing values."""
    numbers = numbers_of(array)
    # pyarrow's fill_null imports pandas. With gaps, integers become float64, which is exact for indices of a table.
    return (
        np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
        if array.null_count
        else numbers.astype(np.int64)
    )


def arrays_of(lists: Any) -> list[npt.NDArray[Any]]:
    """Convert an Arrow array of lists of numbers to a list of arrays."""
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
    # Empty lists have no type, unlike empty arrays: only pa.array handles them, but it imports pandas.
    if not (len(flat) or isinstance(flat, np.ndarray)) or ends[-1] > np.iinfo(np.int32).max:
        return pa.array(values)
    return pa.ListArray.from_arrays(arrow_array(ends.astype(np.int32)), arrow_array(flat))


# Parquet tables of a run folder, and data frames; pyarrow is imported on first use.


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns (lists or arrays of equal length) as a zstd-compressed Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: arrow_array(values) for name, values in columns.items()})
    # Measured numbers rarely repeat, and a search for repetitions takes longer than writing.
    repeating = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    pq.write_table(table, path, compression="zstd", use_dictionary=repeating)


def read_table(path: Path) -> dict[str, Any]:
    """Read a Parquet file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to array or list
        Columns: numbers as arrays, text as lists, lists of numbers as lists of arrays.

    """
    import pyarrow.parquet as pq
    from pyarrow import types

    table = pq.ParquetFile(path).read()  # pq.read_table imports pandas if it is installed
    return {
        name: numbers_of(column)
        if types.is_primitive(column.type)
        else arrays_of(column)
        if types.is_list(column.type) and types.is_primitive(column.type.value_type)
        else column.to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Convert columns (lists or arrays of equal length) to a data frame.

    The library is polars or pandas: the one that is already imported, else an installed one. Without either, the result
    is an Arrow table.
    """
    import pyarrow as pa

    table = pa.table(dict(columns))
    for library in sorted(("polars", "pandas"), key=lambda name: name not in sys.modules):
        if library in sys.modules or find_spec(library) is not None:
            module = import_module(library)
            return module.from_arrow(table) if library == "polars" else table.to_pandas()
    return table
