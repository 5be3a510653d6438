"""Parquet tables of a run folder; pyarrow is loaded when the first one is touched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes columns (lists or arrays of equal length) as a zstd-compressed Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(columns)), path, compression="zstd")


def read_table(path: Path) -> dict[str, Any]:
    """Reads a Parquet file as columns: numbers as arrays, text and nested columns as lists."""
    import pyarrow.parquet as pq
    from pyarrow import types

    table = pq.read_table(path)
    return {
        name: column.to_numpy() if types.is_primitive(column.type) else column.to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
