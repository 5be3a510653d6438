"""Text tables that are turned: a line for each signal, as numpy.savetxt writes an array of signals by time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from dynid.base.numbers import number_of
from dynid.log.arrays import ArrayTable, Budget, StoredArray
from dynid.log.dialect import COMMENT

# Lines of a turned table, and cells of each: of a log there are more rows, and fewer columns.
_MOST_LINES, _LEAST_CELLS = 128, 500
_TIMES_LINES = 4
_MOST_BYTES = 1 << 28
_BETWEEN = re.compile(r"\s*[,;\t]\s*|\s+")


def signals_in_rows(path: Path) -> ArrayTable | None:
    """The table of a file whose few long lines are one signal each, by name where they begin with one; else None.

    Raises RefusedError for a file that is too large.
    """
    lines: list[str] = []
    if path.stat().st_size > _MOST_BYTES:
        return None
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            if line.strip() and not COMMENT.match(line):
                lines.append(line.strip())
            if len(lines) > _MOST_LINES or (lines and len(lines[-1]) < _LEAST_CELLS):
                return None
    Budget(path).spend(sum(map(len, lines)) * 8, "numbers")
    rows = [[one for one in _BETWEEN.split(line) if one] for line in lines]
    count = len(rows[0]) if rows else 0
    if len(rows) < 2 or count < max(_LEAST_CELLS, _TIMES_LINES * len(rows)) or {count} != {*map(len, rows)}:
        return None
    named = [_number(cells[0]) is None for cells in rows]
    if any(named) and not (all(named) and len({cells[0] for cells in rows}) == len(rows)):
        return None
    values = [[_number(cell) for cell in cells[any(named) :]] for cells in rows]
    if any(cell is None for cells in values for cell in cells):
        return None
    numbers = np.array(values, dtype=np.float64)
    if not any(named):
        return ArrayTable(path, [StoredArray.of("column", numbers)])
    return ArrayTable(path, [StoredArray.of(cells[0], one) for cells, one in zip(rows, numbers, strict=True)])


def _number(cell: str) -> float | None:
    try:
        return number_of(cell)
    except ValueError:
        return None
