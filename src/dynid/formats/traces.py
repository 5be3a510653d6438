"""Traces of CODESYS: properties of each variable, then its times and values, one variable after another.

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

from dynid.base import Budget, Finding, Float, InputError, Level, Place, dataclass, few, number_of
from dynid.log import ArrayTable, StoredArray, damaged, reading

_TIMES_TEXT = 8  # memory of Python's objects relative to the text
_VARIABLE = re.compile(r"(\d+)\.Variable;\s*(\S.*?)\s*")
_INTEGER = re.compile(r"[+-]?\d+")
_LEAST_ROWS = 2
_LEAST_SHARE = 0.5  # of the longest variable's time: shorter ones would cut the others too much
_NAMED = 4  # names in messages
TIME = "time"
_TRUTHS = {"TRUE": 1.0, "FALSE": 0.0}


class TraceReader:
    """Opens traces saved by CODESYS as text."""

    name = "CODESYS trace"
    suffixes = (".csv", ".trace", ".txt")

    def can_read(self, head: bytes) -> bool:
        """Whether the file starts like such a trace and names a variable."""
        lines = head.decode("utf-8-sig", "replace").splitlines()
        return bool(lines) and lines[0].startswith("[key]") and any(map(_VARIABLE.fullmatch, lines))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file: all variables at the times of the one with the most values, while all were recorded.

        Variables with cells that are not numbers, and variables recorded for less than half of that time, are left out
        with a warning.

        Raises RefusedError if the file is too large; InputError if it has no values, decreasing times, a variable named
        twice, or variables recorded at different times.
        """
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "traces")
        with reading(path, "traces"), path.open(encoding="utf-8-sig", errors="replace") as file:
            cells = _cells(path, file)
        filled = {name: rows for name, rows in cells.items() if len(rows) >= _LEAST_ROWS}
        if not filled:
            raise damaged(path, "a trace without values")
        odd = {name: cell for name, rows in filled.items() if (cell := _first_non_number(rows)) is not None}
        traces = {name: _trace(path, name, rows) for name, rows in filled.items() if name not in odd}
        words = [f"{name} ('{cell}' is not a number)" for name, cell in odd.items()]
        if not traces:
            raise damaged(path, f"a trace in which no variable has numbers only: {few(words, _NAMED)}")
        t = max((trace.t for trace in traces.values()), key=len)
        kept = {name: trace for name, trace in traces.items() if trace.share_of(t) >= _LEAST_SHARE}
        if len(kept) == 1:  # there is nothing else to cut
            kept = {name: trace for name, trace in traces.items() if trace.share_of(t) > 0}
        if len(traces) > 1 and len(kept) == 1:
            others = [name for name in traces if name not in kept]
            raise InputError(
                "damaged",
                found=f"{next(iter(kept))} and {few(others, _NAMED)}, recorded at other times",
                expected="variables of one recording",
                do="record them in one trace",
                place=Place(file=str(path)),
            )
        words += [f"{name} (recorded for less than half of the time)" for name in traces if name not in kept]
        start, end = max(trace.t[0] for trace in kept.values()), min(trace.t[-1] for trace in kept.values())
        t = t[(t >= start) & (t <= end)]
        clock = TIME
        while clock in kept:
            clock = f"trace_{clock}"
        arrays = [
            StoredArray.of(clock, t),
            *(StoredArray.of(name, trace.at(t)) for name, trace in kept.items()),
        ]
        table = ArrayTable(path, arrays, [f"{name}: without values" for name in cells.keys() - filled.keys()])
        if words:
            text = f"variables left out: {few(words, _NAMED)}"
            warning = Finding(Level.WARNING, "variables-left-out", text, Place(file=str(path)))
            table.remarks = (*table.remarks, warning)
        return table


@dataclass(frozen=True, eq=False)
class _Trace:
    """A variable.    t, values: (T,).    held: whether its value stays constant between recorded ones."""

    t: Float
    values: Float
    held: bool

    def share_of(self, t: Float) -> float:
        """Share of the time (T,) for which this was recorded; below 0 = before or after it."""
        return float(
            (min(self.t[-1], t[-1]) - max(self.t[0], t[0])) / max(t[-1] - t[0], np.finfo(float).tiny)
        )

    def at(self, t: Float) -> Float:
        """Values at times (T,) within the time range of the variable."""
        if self.held:
            return np.asarray(self.values[np.searchsorted(self.t, t, side="right") - 1])
        return np.interp(t, self.t, self.values)


_Rows = list[tuple[str, str]]


def _cells(path: Path, lines: Iterable[str]) -> dict[str, _Rows]:
    """Times and values as text, by variable; raises InputError for a variable that occurs twice."""
    variables: dict[str, _Rows] = {}
    rows: _Rows = []
    for number, line in enumerate(lines, 1):
        if named := _VARIABLE.fullmatch(line.strip()):
            if named[2] in variables:
                raise InputError(
                    "duplicate-column",
                    found=f"the variable {named[2]} more than once",
                    expected="unique names",
                    do="remove one of them from the trace",
                    place=Place(file=str(path), line=number),
                )
            rows = variables[named[2]] = []
        cells = [cell.strip() for cell in line.split(";")]
        if len(cells) >= 3 and not cells[0]:
            rows.append((cells[1], cells[2]))
    return variables


def _trace(path: Path, name: str, rows: _Rows) -> _Trace:
    """The trace of a variable; raises InputError if times decrease."""
    t, values = (
        np.array([_number(cell) for cell in part], dtype=np.float64) for part in zip(*rows, strict=True)
    )
    back = np.flatnonzero(~(np.diff(t) >= 0))
    if len(back):
        k = int(back[0])
        raise InputError(
            "damaged",
            found=f"times of {name} that decrease, from {rows[k][0]} to {rows[k + 1][0]} at its value {k + 2}",
            expected="increasing times",
            do=f"save the trace again, or remove {name} from it",
            place=Place(file=str(path)),
        )
    whole = all(cell.upper() in _TRUTHS or _INTEGER.fullmatch(cell) for _, cell in rows)
    return _Trace(t, values, whole)


def _first_non_number(rows: _Rows) -> str | None:
    """The first cell that is not a number."""
    for cell in (cell for row in rows for cell in row):
        try:
            _number(cell)
        except ValueError:
            return cell
    return None


def _number(cell: str) -> float:
    """A number, or 1 and 0 for TRUE and FALSE; raises ValueError for other text."""
    truth = _TRUTHS.get(cell.upper())
    return number_of(cell.replace(",", ".")) if truth is None else truth
