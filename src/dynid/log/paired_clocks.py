"""Tables with a clock before each channel, or before those of each joint: time, q1, time, q2, ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import InputError, Place
from dynid.log.log import ColumnInfo, Table
from dynid.log.parts import SeriesOnOneClock, ascending, first_rows, is_called_clock, numbers_of

# Two clocks may be those of two computers.
_LEAST = 3


def with_one_clock(table: Table) -> Table:
    """The table; one whose channels have a clock each, or in groups of as many, on the first clock alone."""
    try:
        clocks = _clocks(table)
        return table if clocks is None else _PairedClocks(table, clocks)
    except InputError:  # they share no time, or have no rows in common
        return table


def _clocks(table: Table) -> tuple[int, ...] | None:
    """The places of clocks that stand at even distances from the first column on; None = there are none."""
    names = table.column_names
    called = [k for k, name in enumerate(names) if is_called_clock(name)]
    if len(called) < _LEAST or called[0] != 0:
        return None
    step = called[1]
    if step < 2 or called != list(range(0, len(names), step)) or len(names) % step:
        return None
    first = first_rows(table)
    known = {name: values[np.isfinite(values)] for name, values in first.items()}
    return tuple(called) if {*ascending(known)} >= {names[k] for k in called} else None


class _PairedClocks(SeriesOnOneClock):
    """A table with its channels at the times of the first clock.    clocks: the places of the columns of time."""

    def __init__(self, table: Table, clocks: tuple[int, ...]) -> None:
        names, step = table.column_names, clocks[1]
        self._table = table
        places = {name: (names[k], name) for k in clocks for name in names[k + 1 : k + step]}
        times = numbers_of(table, tuple(names[k] for k in clocks))
        super().__init__(table.path, times, places, self._of_clock, names[0])
        text = (
            f"a clock before {'each channel' if step == 2 else 'the channels of each'}, {len(clocks)} in all"
        )
        if any(not np.array_equal(one, times[names[0]], equal_nan=True) for one in times.values()):
            text += f": the channels are brought to the times of '{self.rows_of}' on straight lines"
        self.remarks = (
            *getattr(table, "remarks", ()),
            Diagnostic(Severity.NOTE, "parts", text, Place(file=str(table.path))),
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._table, name)

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Its columns, without the clocks that are left out."""
        return {"": self.column_names}

    def info(self, column: str) -> ColumnInfo:
        """What the file says of a column."""
        known = getattr(self._table, "info", None)
        return ColumnInfo(unit=known(column).unit) if known is not None else ColumnInfo()

    def _of_clock(self, clock: str, names: tuple[str, ...]) -> Mapping[str, Float]:
        return numbers_of(self._table, names)
