"""Tables with a row for each report of a joint, or for each value of a signal, in any order: all side by side.

Historians write a row for each change of a tag; buses a frame of a drive when it comes.
"""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.log.empty_cells import Cells, is_clock, with_all_channels
from dynid.log.log import Table, Text
from dynid.log.long_rows import KEY, MOST_JOINTS, SIGNAL, rearranged, shown_names
from dynid.log.parts import first_rows, has_each_signal_once, is_called_clock, numbers_of

_ROWS = 32768
# Rows of reports follow one another in turn: so many are of another joint or signal than the row before.
_IN_TURN = 0.5
# Values of a channel from which its times can be known, and so many channels of which they are.
_LEAST, _CHANNELS = 10, 2


def with_reports_side_by_side(table: Table) -> Table:
    """The table; one whose rows are reports of single joints, or signals, with all of them in every row."""
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
    if sum(len(one.at) >= _LEAST for one in cells.values()) < _CHANNELS:
        return None
    return with_all_channels(table, clock, t, cells)


def _varies(values: Float) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known) and np.ptp(known) > 0)


def _labels(table: Table, key: str) -> tuple[Int, tuple[str, ...]]:
    """The number of the label of each row, -1 = none, and the labels; too many are none."""
    known: dict[str, int] = {}
    found: list[Int] = [np.zeros(0, dtype=np.int64)]
    for batch in table.batches((key,), _ROWS):
        values = batch[key]
        if isinstance(values, Text):
            own = np.array(
                [known.setdefault(name, len(known)) for name in values.names] + [-1], dtype=np.int64
            )
            found.append(own[values.codes])
        else:
            found.append(_numbered(values, known))
        if len(known) > MOST_JOINTS:
            return np.zeros(0, dtype=np.int64), ()
    return np.concatenate(found), tuple(known)


def _numbered(values: Float, known: dict[str, int]) -> Int:
    numbers, places = np.unique(values, return_inverse=True)
    if len(numbers) > MOST_JOINTS or not (np.isfinite(numbers) & (numbers == np.round(numbers))).all():
        return np.full(len(values), -1, dtype=np.int64)
    own = np.array([known.setdefault(str(int(one)), len(known)) for one in numbers], dtype=np.int64)
    return own[places]
