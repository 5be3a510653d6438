"""Tables with one series behind the other, the rows of a signal or a joint in one piece, put side by side.

Foxglove's plots are exported so, and so is what pandas melts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import Place
from dynid.log.log import Table, Text
from dynid.log.long_rows import rearranged
from dynid.log.parts import (
    SeriesOnOneClock,
    ascending,
    clock_among,
    first_rows,
    has_each_signal_once,
    numbers_of,
)

_ROWS = 32768
# Rows of a block, at least; a robot has no more joints, and a plot no more series.
_LEAST, _MOST = 10, 128
_OF_JOINTS = re.compile(
    r"(?:joint|motor|axis|actuator|servo|dof)[_ .-]?(?:name|id|index|idx|no|number|label)?s?", re.IGNORECASE
)
_OF_SIGNALS = re.compile(
    r"_?(?:variable|signal|channel|field|topic|metric|measurement|series|key|name|tag)s?(?:[_ .-]?(?:name|id))?",
    re.IGNORECASE,
)


def with_blocks_side_by_side(table: Table) -> Table:
    """The table; one of series one behind the other with a column for each."""
    named = [(key, _OF_SIGNALS.fullmatch(key) is not None) for key in table.column_names]
    keys = [(key, of_signals) for key, of_signals in named if of_signals or _OF_JOINTS.fullmatch(key)]
    return rearranged(table, keys, _side_by_side)


def _side_by_side(table: Table, key: str, of_signals: bool) -> Table | None:
    first = next((batch[key] for batch in table.batches((key,), _LEAST, 0, _LEAST)), None)
    count = 0 if first is None else len(first.codes if isinstance(first, Text) else first)
    if first is None or len({_name(first, k) for k in range(count)}) != 1:
        return None
    blocks = _blocks(batch[key] for batch in table.batches((key,), _ROWS))
    if blocks is None:
        return None
    whole = numbers_of(table, tuple(name for name in first_rows(table) if name != key))
    looks = [{name: values[a:b] for name, values in whole.items()} for a, b in blocks.values()]
    clocks = set.intersection(*({*ascending(one)} for one in looks))
    clock = clock_among([name for name in whole if name in clocks])
    # What is the same throughout each block numbers it.
    numbering = {name for name in whole if all(len(np.unique(one[name])) == 1 for one in looks)}
    signals = [name for name in whole if name not in clocks | numbering]
    if clock is None or not signals:
        return None
    if not (len(signals) == 1 if of_signals else has_each_signal_once(signals)):
        return None
    # Recordings one behind the other go on, or are told apart by words that are none of these.
    if max(one[clock][0] for one in looks) >= min(one[clock][-1] for one in looks):
        return None
    places = {
        label if of_signals else f"{name}[{label}]": (label, name) for name in signals for label in blocks
    }

    def read(label: str, names: tuple[str, ...]) -> dict[str, Float]:
        return {name: whole[name][slice(*blocks[label])] for name in names}

    times = {label: read(label, (clock,))[clock] for label in blocks}
    return _BlocksOnOneClock(table, times, places, read, clock, key)


class _BlocksOnOneClock(SeriesOnOneClock):
    """The blocks of a table; its file is that of the table."""

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
            f"the rows of each {key} stand in one piece, {len(times)} one behind the other: they are put side by side, "
            f"at the times of {self.rows_of}"
        )
        note = Diagnostic(Severity.NOTE, "joints-in-rows", text, Place(file=str(table.path)))
        self.remarks = (*getattr(table, "remarks", ()), note)


def _blocks(batches: Iterator[Float | Text]) -> dict[str, tuple[int, int]] | None:
    """First and last row of each name, None where one comes again.    batches: of the column of names."""
    found: dict[str, tuple[int, int]] = {}
    row, last = 0, None
    for values in batches:
        codes = values.codes if isinstance(values, Text) else values
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])).tolist()
        for a, b in zip(starts, [*starts[1:], len(codes)], strict=True):
            name = _name(values, a)
            if name != last and (name in found or not name or len(found) == _MOST):
                return None
            found[name] = (found[name][0] if name == last else row + a, row + b)
            last = name
        row += len(codes)
    return found if len(found) > 1 and all(b - a >= _LEAST for a, b in found.values()) else None


def _name(values: Float | Text, row: int) -> str:
    """A cell of a column of names or numbers, "" = missing."""
    if isinstance(values, Text):
        return values.names[values.codes[row]] if values.codes[row] >= 0 else ""
    return f"{values[row]:g}" if np.isfinite(values[row]) else ""
