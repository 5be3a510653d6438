"""Traces of CODESYS: properties of each variable, then its times and values, one variable behind the other.

0.Variable; GVL.Axis[1].fActPosition
0.Data;
; 2; 12.5
; 22; 12.7
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.numbers import number_of
from dynid.log.arrays import ArrayTable, Budget, StoredArray, damaged, reading

_TIMES_TEXT = 8  # Python's objects take so many times the bytes of the text
_VARIABLE = re.compile(r"(\d+)\.Variable;\s*(\S.*?)\s*")
_LEAST_ROWS = 2
TIME = "time"
_TRUTHS = {"TRUE": 1.0, "FALSE": 0.0}


class TraceReader:
    """Opens traces that CODESYS saves as text."""

    name = "CODESYS trace"
    suffixes = (".csv", ".trace", ".txt")

    def can_read(self, head: bytes) -> bool:
        """Whether the file begins as such a trace does, and names a variable."""
        lines = head.decode("utf-8-sig", "replace").splitlines()
        return bool(lines) and lines[0].startswith("[key]") and any(map(_VARIABLE.fullmatch, lines))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Opens a file, all variables at the times of the one with the fewest values.

        Raises RefusedError for one that is too large, InputError for one without values.
        """
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "traces")
        with reading(path, "traces"), path.open(encoding="utf-8-sig", errors="replace") as file:
            traces = _traces(file)
        whole = {name: one for name, one in traces.items() if len(one) >= _LEAST_ROWS}
        if not whole:
            raise damaged(path, "a trace without values of a variable")
        start, end = (
            max(one[0, 0] for one in whole.values()),
            min(one[-1, 0] for one in whole.values()),
        )
        t = min((one[:, 0] for one in whole.values()), key=len)
        t = t[(t >= start) & (t <= end)]
        arrays = [StoredArray.of(TIME, t)]
        arrays += [StoredArray.of(name, np.interp(t, *one.T)) for name, one in whole.items()]
        return ArrayTable(path, arrays, [f"{name}: without values" for name in traces.keys() - whole.keys()])


def _traces(lines: Iterable[str]) -> dict[str, Float]:
    """Times and values (T, 2) by variable."""
    found: dict[str, list[tuple[float, float]]] = {}
    rows: list[tuple[float, float]] = []
    for line in lines:
        if named := _VARIABLE.fullmatch(line.strip()):
            rows = found.setdefault(named[2], [])
        cells = [cell.strip() for cell in line.split(";")]
        if len(cells) >= 3 and not cells[0]:
            rows.append((_number(cells[1]), _number(cells[2])))
    return {name: np.array(own, dtype=np.float64).reshape(-1, 2) for name, own in found.items()}


def _number(cell: str) -> float:
    """Raises ValueError for what is none."""
    truth = _TRUTHS.get(cell.upper())
    return number_of(cell.replace(",", ".")) if truth is None else truth
