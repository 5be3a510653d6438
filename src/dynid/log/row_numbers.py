"""Rows counted from 0 as a clock, for logs without one: `time = { column = "row", unit = "1/500 s" }`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.log.log import Table, Text

ROW = "row"


def with_row_numbers(table: Table) -> Table:
    """The table with a column "row" of row numbers, where it has none of that name."""
    return table if ROW in table.column_names or not table.column_names else _Numbered(table)


class _Numbered:
    def __init__(self, table: Table) -> None:
        self.path: Path = table.path
        self.column_names = (*table.column_names, ROW)
        self.row_count = table.row_count
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns."""
        stored = tuple(name for name in columns if name != ROW) or self._table.column_names[:1]
        row = start
        for batch in self._table.batches(stored, rows, start, stop):
            one = batch[stored[0]]
            count = len(one.codes) if isinstance(one, Text) else len(one)
            numbers = np.arange(row, row + count, dtype=np.float64)
            row += count
            yield {name: numbers if name == ROW else batch[name] for name in columns}
