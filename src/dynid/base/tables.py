"""Parquet tables of a run folder, and data frames; pyarrow is loaded when the first one is touched."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dynid.base.arrow import arrays_of, arrow_array, numbers_of


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
