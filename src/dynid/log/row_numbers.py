"""What rows are by themselves: counted from 0, a clock for logs without one, and motions where time begins anew.

`time = { column = "row", unit = "1/500 s" }`, `trajectory = "motion"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.log.log import Table, Text

ROW, MOTION = "row", "motion"
_ROWS = 32768


def with_row_numbers(table: Table) -> Table:
    """The table with a column "row" of row numbers, where it has none of that name."""
    return table if ROW in table.column_names or not table.column_names else _OneMore(table, ROW)


class _OneMore:
    """A table with one column more, whose values follow from the numbers of the rows."""

    def __init__(self, table: Table, name: str) -> None:
        self.path: Path = table.path
        self.column_names = (*table.column_names, name)
        self.row_count = table.row_count
        self._table, self._name = table, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def _values(self, rows: Int) -> Float | Text:
        return rows.astype(np.float64)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns."""
        stored = tuple(name for name in columns if name != self._name) or self._table.column_names[:1]
        row = start
        for batch in self._table.batches(stored, rows, start, stop):
            one = batch[stored[0]]
            count = len(one.codes) if isinstance(one, Text) else len(one)
            values = self._values(np.arange(row, row + count, dtype=np.int64))
            row += count
            yield {name: values if name == self._name else batch[name] for name in columns}


def with_motions(table: Table, time: str) -> Table:
    """The table with a column "motion" that names each stretch of ascending time, where it has none of that name."""
    return table if MOTION in table.column_names or time not in table.column_names else _Motions(table, time)


class _Motions(_OneMore):
    def __init__(self, table: Table, time: str) -> None:
        super().__init__(table, MOTION)
        begins: list[int] = []
        row, last = 0, -np.inf
        for batch in table.batches((time,), _ROWS):
            values = batch[time]
            t = np.full(len(values.codes), np.nan) if isinstance(values, Text) else values
            before = np.concatenate([[last], t[:-1]])
            begins += (row + np.flatnonzero(t < before)).tolist()
            row, last = row + len(t), float(t[-1]) if len(t) else last
        self._begins = np.array(begins, dtype=np.int64)
        self._names = tuple(f"{table.path.stem} {k + 1}" for k in range(len(begins) + 1))

    def _values(self, rows: Int) -> Text:
        return Text(np.searchsorted(self._begins, rows, side="right").astype(np.int64), self._names)
