"""Time stamps kept in two columns, whole seconds and nanoseconds, as the messages of ROS have them: one column more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.log.log import ColumnInfo, Table, Text

_SECONDS_PER_NANOSECOND = 1e-9
# Behind a separator or nothing in any case, else with a capital letter (stampSec): "msec" are no whole seconds.
_SECONDS = re.compile(r"(?<![A-Za-z])(?i:secs?|seconds)$|(?<=[a-z])(?:Secs?|Seconds)$")
_NANOSECONDS = re.compile(
    r"(?<![A-Za-z])(?i:n(?:ano_?)?sec(?:ond)?s?|nanos)$|(?<=[a-z])(?:N(?:ano)?[Ss]ec(?:ond)?s?|Nanos)$"
)


def split_stamps(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Columns of seconds and nanoseconds that belong together, by the name of their sum: "sec + nanosec"."""
    by_stem = {_SECONDS.sub("", name): name for name in names if _SECONDS.search(name)}
    found = {}
    for name in names:
        seconds = by_stem.get(_NANOSECONDS.sub("", name)) if _NANOSECONDS.search(name) else None
        if seconds is not None:
            found[f"{seconds} + {name}"] = (seconds, name)
    return found


def is_remainder(t: Float) -> bool:
    """Whether numbers are the nano-, micro- or milliseconds since the last full second: they start anew with each."""
    step = np.diff(t)
    back = step[step < 0]
    if not len(back) or not (step > 0).any() or not 0 <= t.min() <= t.max() < 1e9:
        return False
    second = next(one for one in (1e3, 1e6, 1e9) if t.max() < one)
    # No further than a row or two from the last second to the first stamp of the next one.
    return bool((np.abs(back + second) <= 3.0 * np.median(step[step > 0])).all())


def with_whole_stamps(table: Table) -> Table:
    """The table, with a column of seconds for each time stamp that it keeps in two."""
    names = table.column_names
    pairs = {whole: pair for whole, pair in split_stamps(names).items() if whole not in names}
    return _WholeStamps(table, pairs) if pairs else table


class _WholeStamps:
    """A table with sums of columns: t = seconds + 1e-9 nanoseconds."""

    def __init__(self, table: Table, pairs: Mapping[str, tuple[str, str]]) -> None:
        self.path: Path = table.path
        self.column_names = (*table.column_names, *pairs)
        self.row_count = table.row_count
        self._table, self._pairs = table, pairs
        streams: Mapping[str, tuple[str, ...]] | None = getattr(table, "streams", None)
        if streams is not None:
            self.streams = {
                stream: (*names, *(whole for whole, pair in pairs.items() if set(pair) <= set(names)))
                for stream, names in streams.items()
            }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def info(self, column: str) -> ColumnInfo:
        """What the file says of a column; a sum is in seconds."""
        known = getattr(self._table, "info", None)
        if column not in self._pairs:
            return known(column) if known is not None else ColumnInfo()
        first = known(self._pairs[column][0]) if known is not None else ColumnInfo()
        return ColumnInfo("float64", unit="s", row_count=first.row_count, rate=first.rate)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns."""
        stored = dict.fromkeys(part for name in columns for part in self._pairs.get(name, (name,)))
        for batch in self._table.batches(tuple(stored), rows, start, stop):
            yield {name: self._column(batch, name) for name in columns}

    def _column(self, batch: Mapping[str, Float | Text], name: str) -> Float | Text:
        if name not in self._pairs:
            return batch[name]
        seconds, nanoseconds = (batch[part] for part in self._pairs[name])
        if isinstance(seconds, Text) or isinstance(nanoseconds, Text):
            return seconds if isinstance(seconds, Text) else nanoseconds
        return np.asarray(seconds + _SECONDS_PER_NANOSECOND * nanoseconds)
