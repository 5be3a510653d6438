"""Tables with a row for each event, or for each change: empty cells where a channel reported nothing.

A row for the sensors of one joint, or for one signal, says nothing of the others, which were measured at other times.
A row on change says that the others are what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.clocks import Series
from dynid.log.log import ColumnInfo, Table, Text
from dynid.log.parts import are_of_one_signal, first_rows, has_each_signal_once, is_called_clock, numbers_of

# More cells of a channel are empty than would be masked, or interpolated, as single ones that were lost.
_FEW = 0.01
# Rows of single joints or channels have less of the channels than this share; where positions and efforts come in rows
# of their own, the rows of the positions are those of the log.
_PART = 0.5
_WHOLE = 0.5  # of the first rows
# Changes of a channel by its smallest step, within this factor, each way: so many do not come without as many rows in
# which it stays what it is, unless such rows are left out.
_CHANGES, _WITHIN = 20, 1.5
# Channels with fewer values than this share of the most are states, which may begin late.
_SLOW = 0.1
# Values of a channel that tell more than its start.
_LEAST = 10
_ROWS = 32768


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a channel that are not empty: at (k,) rows ascending, values (k,)."""

    at: Int
    values: Float


def with_cells_filled(table: Table) -> Table:
    """The table; one whose rows each have a part of the channels with all of them in every row."""
    if getattr(table, "streams", None) is not None:
        return table
    try:
        return _filled(table) or table
    except InputError:  # what is wrong with its columns is said where they are used
        return table


def _filled(table: Table) -> Table | None:
    first = first_rows(table)
    clock = next((name for name in first if is_called_clock(name) and is_clock(first[name])), None)
    if clock is None or all(np.isnan(one).mean() <= _FEW or np.isnan(one).all() for one in first.values()):
        return None
    if _are_whole([~np.isnan(values) for name, values in first.items() if name != clock]):
        return None  # a slow channel, or values that were lost: not worth reading all of a long log
    columns = numbers_of(table, tuple(first))
    t = columns.pop(clock)
    columns = {name: values for name, values in columns.items() if np.isfinite(values).any()}
    if not is_clock(t):
        return None
    present = {name: np.isfinite(values) for name, values in columns.items()}
    partial = [name for name, there in present.items() if not there.all()]
    if all((~present[name]).mean() <= _FEW for name in partial):
        return None
    cells = {name: Cells(np.flatnonzero(there), columns[name][there]) for name, there in present.items()}
    # Some write all channels anew now and then, changed or not.
    anew = np.all([present[name] for name in partial], axis=0)
    told = [cells[name] for name in partial]
    if any(
        _is_on_change([np.diff(one.values)[~left_out[one.at[1:]]] for one in told])
        for left_out in (np.zeros_like(anew), anew)
    ):
        return held(table, table.column_names, clock, t, cells)
    if _is_of_parts(present, tuple(partial)):
        return interpolated(table, table.column_names, clock, t, cells)
    return None


def _are_whole(present: Sequence[Bool]) -> bool:
    """Whether most rows have all channels but slow ones."""
    most = max(int(there.sum()) for there in present)
    fast = [there for there in present if there.sum() >= _SLOW * most]
    return bool(np.all(fast, axis=0).mean() > _WHOLE)


def with_all_channels(table: Table, clock: str, t: Float, cells: Mapping[str, Cells]) -> Table | None:
    """A table of rows of single channels, or single joints, with all of them in every row; None = they share no time.

    cells: of each channel.    t: of the table's rows.
    """
    names = (clock, *cells)
    changes = _is_on_change([np.diff(one.values) for one in cells.values()])
    return (held if changes else interpolated)(table, names, clock, t, cells)


def is_clock(t: Float) -> bool:
    """Whether a column is complete, and time passes in it; events of one moment share it."""
    return bool(np.isfinite(t).all() and len(t) > 1 and (np.diff(t) >= 0).all() and t[-1] > t[0])


def _is_on_change(channels: Sequence[Float]) -> bool:
    """Whether values are written where they change: none comes twice in a row, though smallest steps are many.

    channels: steps from each value to the next one.
    """
    stepped = False
    for steps in channels:
        if (steps == 0).any():
            return False
        least = np.abs(steps).min(initial=np.inf)
        up, down = ((sign * steps > 0) & (np.abs(steps) < _WITHIN * least) for sign in (1, -1))
        stepped |= bool(min(up.sum(), down.sum()) >= _CHANGES)
    return stepped


def _is_of_parts(present: Mapping[str, Bool], partial: tuple[str, ...]) -> bool:
    """Whether rows are those of single joints or channels, and none has half of all."""
    masks = list(present.values())
    counts = np.sum(masks, axis=0)
    if counts.max() >= _PART * len(masks) or min(present[name].sum() for name in partial) < _LEAST:
        return False
    groups: dict[bytes, list[str]] = {}
    for name in partial:
        groups.setdefault(present[name].tobytes(), []).append(name)
    return all(len(one) == 1 or _is_of_a_joint(one) for one in groups.values())


def _is_of_a_joint(names: Sequence[str]) -> bool:
    return has_each_signal_once(names) and not are_of_one_signal(names)


def held(
    table: Table, names: tuple[str, ...], clock: str, t: Float, cells: Mapping[str, Cells]
) -> Table | None:
    """The table with each value until the next one; None = channels share no time.    names: its columns."""
    last = np.flatnonzero(np.append(np.diff(t) > 0, True))  # of the rows of a moment, all changes are made
    most = max(len(one.at) for one in cells.values())
    lasting = [one for one in cells.values() if len(one.at) >= _SLOW * most]
    rows = last[last >= max(one.at[0] for one in lasting)]
    filled = {clock: t[rows]}
    for name, one in cells.items():
        place = np.searchsorted(one.at, rows, side="right") - 1
        filled[name] = np.where(place >= 0, one.values[np.maximum(place, 0)], np.nan)
    said = "values are written where they change: each is held until the next one"
    return _FilledCells(table, names, rows, filled, said) if len(rows) >= _LEAST else None


def interpolated(
    table: Table, names: tuple[str, ...], clock: str, t: Float, cells: Mapping[str, Cells]
) -> Table | None:
    """The table at the times of the slowest channel; None = they share no time.    names: its columns."""
    series = {}
    for name, one in cells.items():
        stamps, order = np.unique(t[one.at], return_index=True)
        series[name] = (Series(stamps, one.values[order]), one.at[order])
    most = max(len(one.t) for one, _ in series.values())
    fast = [name for name, (one, _) in series.items() if len(one.t) >= _SLOW * most]
    slowest = min(fast, key=lambda name: len(series[name][0].t))
    low, high = max(series[name][0].t[0] for name in fast), min(series[name][0].t[-1] for name in fast)
    own, rows = series[slowest]
    inside = (own.t >= low) & (own.t <= high)
    times = own.t[inside]
    said = (
        f"rows have a part of the channels each: these are brought to the {len(times)} rows of '{slowest}' on straight "
        "lines between two samples"
    )
    filled = {clock: times} | {name: one.at(times) for name, (one, _) in series.items()}
    return _FilledCells(table, names, rows[inside], filled, said) if len(times) >= _LEAST else None


class _FilledCells:
    """Some rows of a table, with all of its channels.

    names: of its columns.    rows: of the table.    numbers: those that are numbers.
    """

    def __init__(
        self, table: Table, names: tuple[str, ...], rows: Int, numbers: Mapping[str, Float], said: str
    ) -> None:
        self.path: Path = table.path
        self.column_names = names
        self.row_count: int | None = len(rows)
        self._table, self._rows, self._numbers = table, rows, numbers
        note = Diagnostic(Severity.NOTE, "empty-cells", said, Place(file=str(table.path)))
        self.remarks = (*getattr(table, "remarks", ()), note)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("first_line", "wrong_row", "extent"):  # of rows that are others
            raise AttributeError(name)
        return getattr(self._table, name)

    def info(self, column: str) -> ColumnInfo:
        """What the file says of a column."""
        known = getattr(self._table, "info", None) if column in self._table.column_names else None
        return ColumnInfo(unit=known(column).unit) if known is not None else ColumnInfo()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns."""
        end = len(self._rows) if stop is None else min(stop, len(self._rows))
        others = self._others([name for name in columns if name not in self._numbers])
        for first in range(start, end, rows):
            part = slice(first, min(first + rows, end))
            yield {
                name: self._numbers[name][part] if name in self._numbers else _part(others[name], part)
                for name in columns
            }

    def _others(self, names: list[str]) -> dict[str, Float | Text]:
        """Columns without numbers, whole, in these rows; a word stays until the next one."""
        found: dict[str, Float | Text] = {}
        for name in names:
            codes, words = [np.zeros(0, dtype=np.int64)], dict[str, int]()
            for batch in self._table.batches((name,), _ROWS):
                values = batch[name]
                if not isinstance(values, Text):
                    codes.append(np.full(len(values), -1))
                    continue
                known = np.array([words.setdefault(one, len(words)) for one in values.names] + [-1])
                codes.append(known[values.codes])
            whole = np.concatenate(codes)
            at = np.maximum.accumulate(np.where(whole >= 0, np.arange(len(whole)), -1))
            held = np.where(at >= 0, whole[at], -1)[self._rows]
            found[name] = Text(held, tuple(words)) if words else np.full(len(self._rows), np.nan)
        return found


def _part(values: Float | Text, part: slice) -> Float | Text:
    return Text(values.codes[part], values.names) if isinstance(values, Text) else values[part]
