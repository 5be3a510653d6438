"""Pivot tables with one row per joint, signal or event to tables with one row per time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.clocks import Series
from dynid.log.log import ColumnInfo, Table, Text
from dynid.log.readers.parts import (
    SeriesOnOneClock,
    are_of_one_signal,
    ascending,
    clock_among,
    first_rows,
    has_each_signal_once,
    is_called_clock,
    numbers_of,
)

# Pivot tables with one row per time and joint (or signal) to one row per time.

# Names of a column that contains the joint of each row.
KEY = re.compile(
    r"(?:(?:joint|motor|axis|actuator|servo|dof|can)[_ .-]?(?:name|id|index|idx|no|number|label)?s?|name|id)",
    re.IGNORECASE,
)
# Names of a column that contains the signal of each row; a second column contains its value.
SIGNAL = re.compile(
    r"_?(?:variable|signal|channel|field|topic|metric|measurement|quantity|series|key|name|tag)s?"
    r"(?:[_ .-]?(?:name|id))?",
    re.IGNORECASE,
)
# Number of rows from which the layout is detected, and maximum number of joints or signals.
_LOOKED_AT, MOST_JOINTS = 1024, 128


@dataclass(frozen=True)
class _Layout:
    """Layout of a table with several rows per time.

    Parameters
    ----------
    key : str
        Column that contains the joint or signal of each row.
    names : tuple of str
        Joints or signals, in the order of the rows.
    shared : tuple of str
        Columns with the same value in all rows of a time, time columns, and columns of text.
    clock : str, optional
        Ascending column that is equal in all rows of a time.
    signals : bool
        True if `key` contains signals, False if it contains joints.

    """

    key: str
    names: tuple[str, ...]
    shared: tuple[str, ...]
    clock: str | None
    signals: bool = False


def with_joints_side_by_side(table: Table) -> Table:
    """Pivot a table with one row per time and joint or signal; return other tables unchanged."""
    for of_signals, pattern in ((False, KEY), (True, SIGNAL)):
        for key in (name for name in table.column_names if pattern.fullmatch(name)):
            others = tuple(name for name in table.column_names if name != key)
            first = next(iter(table.batches((key, *others), _LOOKED_AT, 0, _LOOKED_AT)), None)
            layout = None if first is None else _layout(key, first, of_signals)
            if layout is not None:
                return _SideBySide(table, layout)
    return table


def rearranged(
    table: Table, keys: Iterable[tuple[str, bool]], of_key: Callable[[Table, str, bool], Table | None]
) -> Table:
    """Pivot a table by the first key column that allows this; return the table unchanged if none does.

    Parameters
    ----------
    table : Table
        Table to pivot.
    keys : iterable of (str, bool)
        Possible key columns, each with True if it contains signals and False if it contains joints.
    of_key : callable
        Returns the table pivoted by a key column, or None.

    """
    for key, of_signals in keys:
        try:
            pivoted = of_key(table, key, of_signals)
        except InputError:  # errors in a column are reported when the log is read
            continue
        if pivoted is not None:
            return pivoted
    return table


def _layout(key: str, first: Mapping[str, Float | Text], of_signals: bool) -> _Layout | None:
    cells = _cells(first[key])
    if cells is None:
        return None
    names = tuple(dict.fromkeys(cells))
    m = len(names)
    # At each of the first three times, every joint must occur once and in the same order.
    if not 2 <= m <= MOST_JOINTS or len(cells) < 3 * m or tuple(cells[: 3 * m]) != names * 3:
        return None
    numbers = {name: values for name, values in first.items() if name != key and not isinstance(values, Text)}
    clocks = [name for name, values in numbers.items() if _ascends(values)]
    texts = [name for name, values in first.items() if name != key and isinstance(values, Text)]
    start = np.arange(len(cells)) // m * m
    same = [
        name
        for name, values in numbers.items()
        if np.ptp(values) > 0 and np.array_equal(values[: 3 * m], values[start][: 3 * m])
    ]
    shared = [name for name in numbers if name in clocks or name in same]
    if len(shared) == len(numbers):
        return None
    both = [name for name in clocks if name in same]
    if of_signals and (len(numbers) - len(shared) != 1 or not isinstance(first[key], Text)):
        return None
    return _Layout(key, names, (*texts, *shared), both[0] if both else None, of_signals)


def _cells(values: Float | Text) -> list[str] | None:
    """Cells of a column as text; None if the column has numbers that are not integers."""
    if isinstance(values, Text):
        return [values.names[code] if code >= 0 else "" for code in values.codes]
    whole = np.isfinite(values) & (values == np.round(values))
    return [str(int(value)) for value in values] if whole.all() else None


def _ascends(values: Float) -> bool:
    steps = np.diff(values)
    return bool((steps >= 0).all() and (steps > 0).any())


class _SideBySide:
    """Pivoted table: shared columns keep their names, and other columns become name[joint] (or the signal's name)."""

    row_count: int | None = None

    def __init__(self, table: Table, layout: _Layout) -> None:
        self.path: Path = table.path
        self._table, self._layout = table, layout
        shown = shown_names(layout.names)
        value_columns = [
            name for name in table.column_names if name != layout.key and name not in layout.shared
        ]
        self._places = {
            shown[k] if layout.signals else f"{name}[{shown[k]}]": (name, k)
            for name in value_columns
            for k in range(len(layout.names))
        }
        self.column_names = (*layout.shared, *self._places)
        of, count = "signal" if layout.signals else "joint", len(layout.names)
        text = f"each row has one {of} ('{layout.key}'): the {count} rows of a time are pivoted to one row"
        text += "" if layout.clock else ", at the time of the first row"
        note = Finding(Level.NOTE, "joints-in-rows", text, Place(file=str(table.path)))
        self.remarks = (*getattr(table, "remarks", ()), note)

    def number(self, cell: str) -> float:
        """Convert a cell to a number."""
        number = getattr(self._table, "number", float)
        return float(number(cell))

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches; if a time has no row of a joint, its values are missing."""
        at = 0
        for part in self._moments(columns, rows):
            count = len(next(iter(part.values()))[0]) if part else 0
            a, b = max(start - at, 0), count if stop is None else min(stop - at, count)
            if b > a:
                yield {name: _as_column(codes[a:b], texts) for name, (codes, texts) in part.items()}
            at += count
            if stop is not None and at >= stop:
                return

    def _moments(
        self, columns: tuple[str, ...], rows: int
    ) -> Iterator[dict[str, tuple[Any, tuple[str, ...] | None]]]:
        layout = self._layout
        stored = [layout.key, *([layout.clock] if layout.clock else [])]
        stored += [self._places[name][0] if name in self._places else name for name in columns]
        wanted = tuple(dict.fromkeys(stored))
        left: dict[str, Any] = {}
        for batch in self._table.batches(wanted, rows * len(layout.names)):
            whole = {name: _joined(left.get(name), batch[name]) for name in wanted}
            begins = self._begins(whole)
            edges = np.flatnonzero(begins)
            cut = int(edges[-1]) if len(edges) else 0
            left = {name: _cut(values, cut, None) for name, values in whole.items()}
            if cut:
                yield self._side_by_side(
                    {k: _cut(v, 0, cut) for k, v in whole.items()}, begins[:cut], columns
                )
        if left and len(_column(left[layout.key])):
            yield self._side_by_side(left, self._begins(left), columns)

    def _begins(self, whole: Mapping[str, Any]) -> Bool:
        """Mask of the first row of each time: the clock changes, or the order of joints starts again."""
        place = self._joint(whole[self._layout.key])
        begins = np.ones(len(place), dtype=np.bool_)
        begins[1:] = np.diff(place) <= 0
        if self._layout.clock:
            begins[1:] |= np.diff(_column(whole[self._layout.clock])) != 0
        return begins

    def _joint(self, values: Float | Text) -> Int:
        """Index of each row's joint in the layout; -1 for a joint that does not occur in the first rows."""
        place = {name: k for k, name in enumerate(self._layout.names)}
        if isinstance(values, Text):
            known = np.array([*(place.get(name, -1) for name in values.names), -1], dtype=np.int64)
            return known[values.codes]
        return np.array(
            [place.get(str(int(value)), -1) if np.isfinite(value) else -1 for value in values], dtype=np.int64
        )

    def _side_by_side(
        self, whole: Mapping[str, Any], begins: Bool, columns: Sequence[str]
    ) -> dict[str, tuple[Any, tuple[str, ...] | None]]:
        place, moment = self._joint(whole[self._layout.key]), np.cumsum(begins) - 1
        count = int(moment[-1]) + 1 if len(moment) else 0
        made: dict[str, tuple[Any, tuple[str, ...] | None]] = {}
        for name in columns:
            source, k = self._places.get(name, (name, -1))
            values = whole[source]
            texts = values.names if isinstance(values, Text) else None
            plain = _column(values)
            if k < 0:
                made[name] = (plain[begins], texts)
                continue
            out = np.full(count, -1 if texts is not None else np.nan, dtype=plain.dtype)
            is_joint = place == k
            out[moment[is_joint]] = plain[is_joint]
            made[name] = (out, texts)
        return made


def shown_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the joints; if they are numbers other than 0, 1, ... or 1, 2, ..., they are renumbered from 1."""
    if not all(name.isdigit() for name in names):
        return tuple(names)
    numbers = sorted(int(name) for name in names)
    if numbers in (list(range(len(names))), list(range(1, len(names) + 1))):
        return tuple(names)
    return tuple(str(numbers.index(int(name)) + 1) for name in names)


def _column(values: Float | Text) -> Any:
    return values.codes if isinstance(values, Text) else values


def _cut(values: Any, start: int, stop: int | None) -> Any:
    return Text(values.codes[start:stop], values.names) if isinstance(values, Text) else values[start:stop]


def _joined(before: Any, after: Any) -> Any:
    if before is None or not len(_column(before)):
        return after
    if not isinstance(before, Text):
        return np.concatenate([before, after])
    place = {name: k for k, name in enumerate(dict.fromkeys((*before.names, *after.names)))}
    codes = [
        np.array([*(place[name] for name in part.names), -1], dtype=np.int64)[part.codes]
        for part in (before, after)
    ]
    return Text(np.concatenate(codes), tuple(place))


def _as_column(values: Any, texts: tuple[str, ...] | None) -> Float | Text:
    return values if texts is None else Text(values, texts)


# Fill the empty cells of tables with one row per event or per change.
#
# A row for one joint or signal has empty cells because the other channels were measured at other times; these cells are
# interpolated. A row for a change has empty cells because the other channels are unchanged; these cells repeat the last
# value.

# If at most this share of a channel's cells is empty, they are single missing values, which are filled later.
_FEW = 0.01
# Each row of a table with rows for single joints or signals has less than this share of the channels. A table with
# separate rows for positions and efforts exceeds this share; there, the rows of the positions are used.
_PART = 0.5
_WHOLE = 0.5  # if more than this share of the first rows has all fast channels, no cell needs filling
# If a channel changes by its smallest step (within the factor _WITHIN) this often in each direction and never repeats a
# value, rows without a change were omitted.
_CHANGES, _WITHIN = 20, 1.5
# A channel with fewer values than this share of the most frequent channel is a slow state and may begin late.
_SLOW = 0.1
# Minimum number of values of a channel that follows the motion.
_LEAST = 10
_ROWS = 32768


@dataclass(frozen=True, eq=False)
class Cells:
    """Nonempty cells of a channel.

    Parameters
    ----------
    at : ndarray of int, shape (k,)
        Row numbers in ascending order.
    values : ndarray, shape (k,)

    """

    at: Int
    values: Float


def with_cells_filled(table: Table) -> Table:
    """Fill the empty cells of a table whose rows have only some of the channels; return other tables unchanged."""
    if getattr(table, "streams", None) is not None:
        return table
    try:
        return _filled(table) or table
    except InputError:  # errors in a column are reported when the log is read
        return table


def _filled(table: Table) -> Table | None:
    first = first_rows(table)
    clock = next((name for name in first if is_called_clock(name) and is_clock(first[name])), None)
    if clock is None or all(
        np.isnan(values).mean() <= _FEW or np.isnan(values).all() for values in first.values()
    ):
        return None
    if _rows_are_complete([~np.isnan(values) for name, values in first.items() if name != clock]):
        return None  # only slow channels have empty cells, so there is no need to read the whole log
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
    # Some programs sometimes write all channels even if they are unchanged; such rows must not hide the omissions.
    anew = np.all([present[name] for name in partial], axis=0)
    reported = [cells[name] for name in partial]
    if any(
        _is_on_change([np.diff(channel.values)[~left_out[channel.at[1:]]] for channel in reported])
        for left_out in (np.zeros_like(anew), anew)
    ):
        return forward_filled(table, table.column_names, clock, t, cells)
    if _is_of_parts(present, tuple(partial)):
        return interpolated(table, table.column_names, clock, t, cells)
    return None


def _rows_are_complete(present: Sequence[Bool]) -> bool:
    """Whether most rows have all channels that are not slow."""
    most = max(int(there.sum()) for there in present)
    fast = [there for there in present if there.sum() >= _SLOW * most]
    return bool(np.all(fast, axis=0).mean() > _WHOLE)


def with_all_channels(table: Table, clock: str, t: Float, cells: Mapping[str, Cells]) -> Table | None:
    """Make rows with all channels from rows for single joints or signals.

    Values that are written only on change are repeated; other values are interpolated. Returns None if the channels do
    not overlap in time.

    Parameters
    ----------
    table : Table
        Table as logged.
    clock : str
        Column of the time.
    t : ndarray, shape (n_rows,)
        Time of its rows.
    cells : mapping of str to Cells
        Nonempty cells of each channel.

    """
    names = (clock, *cells)
    changes = _is_on_change([np.diff(channel.values) for channel in cells.values()])
    return (forward_filled if changes else interpolated)(table, names, clock, t, cells)


def is_clock(t: Float) -> bool:
    """Whether a column has no missing value, increases and never decreases (simultaneous events share a stamp)."""
    return bool(np.isfinite(t).all() and len(t) > 1 and (np.diff(t) >= 0).all() and t[-1] > t[0])


def _is_on_change(channels: Sequence[Float]) -> bool:
    """Whether values are written only on change: no value is repeated, although many steps are of the smallest size.

    Parameters
    ----------
    channels : sequence of ndarray
        Differences between consecutive values of each channel.

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
    """Whether each row has the channels of a single joint or a single channel, and less than half of all channels."""
    masks = list(present.values())
    counts = np.sum(masks, axis=0)
    if counts.max() >= _PART * len(masks) or min(present[name].sum() for name in partial) < _LEAST:
        return False
    groups: dict[bytes, list[str]] = {}
    for name in partial:
        groups.setdefault(present[name].tobytes(), []).append(name)
    return all(len(group) == 1 or _is_of_a_joint(group) for group in groups.values())


def _is_of_a_joint(names: Sequence[str]) -> bool:
    return has_each_signal_once(names) and not are_of_one_signal(names)


def forward_filled(
    table: Table, names: tuple[str, ...], clock: str, t: Float, cells: Mapping[str, Cells]
) -> Table | None:
    """Repeat each value until the next value of its channel; None if the channels do not overlap in time.

    Parameters
    ----------
    table : Table
        Table as logged.
    names : tuple of str
        Columns of the result.
    clock : str
        Column of the time.
    t : ndarray, shape (n_rows,)
        Time of its rows.
    cells : mapping of str to Cells
        Nonempty cells of each channel.

    """
    last = np.flatnonzero(
        np.append(np.diff(t) > 0, True)
    )  # only the last row of a time includes all its changes
    most = max(len(channel.at) for channel in cells.values())
    lasting = [channel for channel in cells.values() if len(channel.at) >= _SLOW * most]
    rows = last[last >= max(channel.at[0] for channel in lasting)]
    filled = {clock: t[rows]}
    for name, channel in cells.items():
        place = np.searchsorted(channel.at, rows, side="right") - 1
        filled[name] = np.where(place >= 0, channel.values[np.maximum(place, 0)], np.nan)
    text = "values are written only on change: each value is repeated until the next"
    return _FilledCells(table, names, rows, filled, text) if len(rows) >= _LEAST else None


def interpolated(
    table: Table, names: tuple[str, ...], clock: str, t: Float, cells: Mapping[str, Cells]
) -> Table | None:
    """Interpolate all channels to the times of the slowest channel; None if the channels do not overlap in time.

    Channels with fewer than `_SLOW` times the values of the most frequent channel do not set the times.

    Parameters
    ----------
    table : Table
        Table as logged.
    names : tuple of str
        Columns of the result.
    clock : str
        Column of the time.
    t : ndarray, shape (n_rows,)
        Time of its rows.
    cells : mapping of str to Cells
        Nonempty cells of each channel.

    """
    series = {}
    for name, channel in cells.items():
        stamps, order = np.unique(t[channel.at], return_index=True)
        series[name] = (Series(stamps, channel.values[order]), channel.at[order])
    most = max(len(samples.t) for samples, _ in series.values())
    fast = [name for name, (samples, _) in series.items() if len(samples.t) >= _SLOW * most]
    slowest = min(fast, key=lambda name: len(series[name][0].t))
    low, high = max(series[name][0].t[0] for name in fast), min(series[name][0].t[-1] for name in fast)
    slowest_series, rows = series[slowest]
    inside = (slowest_series.t >= low) & (slowest_series.t <= high)
    times = slowest_series.t[inside]
    text = (
        f"each row has only some of the channels: all channels are interpolated linearly to the {len(times)} rows of "
        f"'{slowest}'"
    )
    filled = {clock: times} | {name: samples.at(times) for name, (samples, _) in series.items()}
    return _FilledCells(table, names, rows[inside], filled, text) if len(times) >= _LEAST else None


class _FilledCells:
    """Table of selected rows with all cells filled.

    Parameters
    ----------
    table : Table
        Table as logged.
    names : tuple of str
        Column names.
    rows : ndarray of int
        Selected rows of `table`.
    numbers : mapping of str to ndarray
        Values of the numeric columns in these rows.
    text : str
        Note that tells the user how the cells were filled.

    """

    def __init__(
        self, table: Table, names: tuple[str, ...], rows: Int, numbers: Mapping[str, Float], text: str
    ) -> None:
        self.path: Path = table.path
        self.column_names = names
        self.row_count: int | None = len(rows)
        self._table, self._rows, self._numbers = table, rows, numbers
        note = Finding(Level.NOTE, "empty-cells", text, Place(file=str(table.path)))
        self.remarks = (*getattr(table, "remarks", ()), note)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in (
            "first_line",
            "wrong_row",
            "extent",
        ):  # they refer to the original rows
            raise AttributeError(name)
        return getattr(self._table, name)

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column: only its unit."""
        known = getattr(self._table, "info", None) if column in self._table.column_names else None
        return ColumnInfo(unit=known(column).unit) if known is not None else ColumnInfo()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows."""
        end = len(self._rows) if stop is None else min(stop, len(self._rows))
        others = self._others([name for name in columns if name not in self._numbers])
        for first in range(start, end, rows):
            part = slice(first, min(first + rows, end))
            yield {
                name: self._numbers[name][part] if name in self._numbers else _part(others[name], part)
                for name in columns
            }

    def _others(self, names: list[str]) -> dict[str, Float | Text]:
        """Text columns in the selected rows; each text is repeated until the next text."""
        columns: dict[str, Float | Text] = {}
        for name in names:
            codes, words = [np.zeros(0, dtype=np.int64)], dict[str, int]()
            for batch in self._table.batches((name,), _ROWS):
                values = batch[name]
                if not isinstance(values, Text):
                    codes.append(np.full(len(values), -1))
                    continue
                known = np.array([words.setdefault(word, len(words)) for word in values.names] + [-1])
                codes.append(known[values.codes])
            whole = np.concatenate(codes)
            at = np.maximum.accumulate(np.where(whole >= 0, np.arange(len(whole)), -1))
            last_words = np.where(at >= 0, whole[at], -1)[self._rows]
            columns[name] = Text(last_words, tuple(words)) if words else np.full(len(self._rows), np.nan)
        return columns


def _part(values: Float | Text, part: slice) -> Float | Text:
    return Text(values.codes[part], values.names) if isinstance(values, Text) else values[part]


# Pivot tables with one row per report of a joint or per value of a signal, in any order.
#
# A process historian writes a row for each change of a signal, and a bus log has a row for each frame of a drive.

_MIXED_ROWS_ROWS = 32768
# The rows are mixed if at least this share has another joint or signal than the previous row.
_IN_TURN = 0.5
# Minimum number of values of a channel whose rate is known, and minimum number of such channels.
_MIXED_ROWS_LEAST, _CHANNELS = 10, 2


def with_reports_side_by_side(table: Table) -> Table:
    """Pivot a table whose rows are reports of single joints or signals; return other tables unchanged."""
    if getattr(table, "streams", None) is not None:
        return table
    keys = [
        (name, of_signals)
        for of_signals, pattern in ((False, KEY), (True, SIGNAL))
        for name in table.column_names
        if pattern.fullmatch(name)
    ]
    return rearranged(table, keys, _side_by_side)


def _side_by_side(table: Table, key: str, of_signals: bool) -> Table | None:
    first = first_rows(table)
    clock = next((name for name in first if is_called_clock(name) and is_clock(first[name])), None)
    signals = [name for name, values in first.items() if name not in (key, clock) and _varies(values)]
    if clock is None or not signals or (of_signals and len(signals) > 1) or not has_each_signal_once(signals):
        return None
    codes, labels = _labels(table, key)
    turns = np.diff(codes) != 0
    if not _CHANNELS <= len(labels) <= MOST_JOINTS or turns.mean() < _IN_TURN or (codes < 0).any():
        return None
    shown = shown_names(labels)
    whole = numbers_of(table, (clock, *signals))
    t = whole.pop(clock)
    if not is_clock(t):
        return None
    cells: dict[str, Cells] = {}
    for name, values in whole.items():
        for k, label in enumerate(shown):
            at = np.flatnonzero((codes == k) & np.isfinite(values))
            if len(at):
                cells[label if of_signals else f"{name}[{label}]"] = Cells(at, values[at])
    if sum(len(channel.at) >= _MIXED_ROWS_LEAST for channel in cells.values()) < _CHANNELS:
        return None
    return with_all_channels(table, clock, t, cells)


def _varies(values: Float) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known) and np.ptp(known) > 0)


def _labels(table: Table, key: str) -> tuple[Int, tuple[str, ...]]:
    """Index of each row's label (-1 if missing) and all labels; both are empty if there are too many labels."""
    known: dict[str, int] = {}
    parts: list[Int] = [np.zeros(0, dtype=np.int64)]
    for batch in table.batches((key,), _MIXED_ROWS_ROWS):
        values = batch[key]
        if isinstance(values, Text):
            numbers = np.array(
                [known.setdefault(name, len(known)) for name in values.names] + [-1], dtype=np.int64
            )
            parts.append(numbers[values.codes])
        else:
            parts.append(_numbered(values, known))
        if len(known) > MOST_JOINTS:
            return np.zeros(0, dtype=np.int64), ()
    return np.concatenate(parts), tuple(known)


def _numbered(values: Float, known: dict[str, int]) -> Int:
    numbers, places = np.unique(values, return_inverse=True)
    if len(numbers) > MOST_JOINTS or not (np.isfinite(numbers) & (numbers == np.round(numbers))).all():
        return np.full(len(values), -1, dtype=np.int64)
    label_numbers = np.array(
        [known.setdefault(str(int(number)), len(known)) for number in numbers], dtype=np.int64
    )
    return label_numbers[places]


# Pivot tables with a contiguous block of rows for each signal or joint, as Foxglove plots and pandas.melt export them.

_SERIES_IN_BLOCKS_ROWS = 32768
# Minimum number of rows in a block and maximum number of blocks. Robots have fewer joints, and plots fewer series.
_SERIES_IN_BLOCKS_LEAST, _MOST = 10, 128
_OF_JOINTS = re.compile(
    r"(?:joint|motor|axis|actuator|servo|dof)[_ .-]?(?:name|id|index|idx|no|number|label)?s?", re.IGNORECASE
)
_OF_SIGNALS = re.compile(
    r"_?(?:variable|signal|channel|field|topic|metric|measurement|series|key|name|tag)s?(?:[_ .-]?(?:name|id))?",
    re.IGNORECASE,
)


def with_blocks_side_by_side(table: Table) -> Table:
    """Pivot a table with a contiguous block of rows for each series; return other tables unchanged."""
    named = [(key, _OF_SIGNALS.fullmatch(key) is not None) for key in table.column_names]
    keys = [(key, of_signals) for key, of_signals in named if of_signals or _OF_JOINTS.fullmatch(key)]
    return rearranged(table, keys, _series_in_blocks_side_by_side)


def _series_in_blocks_side_by_side(table: Table, key: str, of_signals: bool) -> Table | None:
    first = next(
        (batch[key] for batch in table.batches((key,), _SERIES_IN_BLOCKS_LEAST, 0, _SERIES_IN_BLOCKS_LEAST)),
        None,
    )
    count = 0 if first is None else len(first.codes if isinstance(first, Text) else first)
    if first is None or len({_name(first, k) for k in range(count)}) != 1:
        return None
    blocks = _blocks(batch[key] for batch in table.batches((key,), _SERIES_IN_BLOCKS_ROWS))
    if blocks is None:
        return None
    whole = numbers_of(table, tuple(name for name in first_rows(table) if name != key))
    looks = [{name: values[a:b] for name, values in whole.items()} for a, b in blocks.values()]
    clocks = set.intersection(*({*ascending(block)} for block in looks))
    clock = clock_among([name for name in whole if name in clocks])
    # A column that is constant within each block only numbers the blocks; it is no signal.
    numbering = {name for name in whole if all(len(np.unique(block[name])) == 1 for block in looks)}
    signals = [name for name in whole if name not in clocks | numbering]
    if clock is None or not signals:
        return None
    if not (len(signals) == 1 if of_signals else has_each_signal_once(signals)):
        return None
    # Blocks that do not overlap in time are consecutive recordings, not parallel signals.
    if max(block[clock][0] for block in looks) >= min(block[clock][-1] for block in looks):
        return None
    places = {
        label if of_signals else f"{name}[{label}]": (label, name) for name in signals for label in blocks
    }

    def read(label: str, names: tuple[str, ...]) -> dict[str, Float]:
        return {name: whole[name][slice(*blocks[label])] for name in names}

    times = {label: read(label, (clock,))[clock] for label in blocks}
    return _BlocksOnOneClock(table, times, places, read, clock, key)


class _BlocksOnOneClock(SeriesOnOneClock):
    """Table in which each block of rows is a column, on a common clock."""

    def __init__(
        self,
        table: Table,
        times: Mapping[str, Float],
        places: Mapping[str, tuple[str, str]],
        read: Callable[[str, tuple[str, ...]], Mapping[str, Float]],
        clock: str,
        key: str,
    ) -> None:
        super().__init__(table.path, times, places, read, clock)
        text = (
            f"the table has {len(times)} contiguous blocks of rows, one per '{key}': they are pivoted to columns at "
            f"the times of {self.rows_of}"
        )
        note = Finding(Level.NOTE, "joints-in-rows", text, Place(file=str(table.path)))
        self.remarks = (*getattr(table, "remarks", ()), note)


def _blocks(batches: Iterator[Float | Text]) -> dict[str, tuple[int, int]] | None:
    """First and last + 1 row of each name in a column; None if the rows of a name are not contiguous."""
    blocks: dict[str, tuple[int, int]] = {}
    row, last = 0, None
    for values in batches:
        codes = values.codes if isinstance(values, Text) else values
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])).tolist()
        for a, b in zip(starts, [*starts[1:], len(codes)], strict=True):
            name = _name(values, a)
            if name != last and (name in blocks or not name or len(blocks) == _MOST):
                return None
            blocks[name] = (blocks[name][0] if name == last else row + a, row + b)
            last = name
        row += len(codes)
    return (
        blocks
        if len(blocks) > 1 and all(b - a >= _SERIES_IN_BLOCKS_LEAST for a, b in blocks.values())
        else None
    )


def _name(values: Float | Text, row: int) -> str:
    """Text of a cell in a column of names or numbers; "" if the cell is missing."""
    if isinstance(values, Text):
        return values.names[values.codes[row]] if values.codes[row] >= 0 else ""
    return f"{values[row]:g}" if np.isfinite(values[row]) else ""
