"""Time stamps split over columns or written as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.log.log import Channel, ColumnInfo, Table, Text

# Time stamps kept in two columns, whole seconds and nanoseconds, as the messages of ROS have them: one
# column more.

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


# Times of day, dates and durations written as text: one column more, in seconds.

_SECONDS_PER_DAY = 86_400
# As MATLAB and Oracle write them, in English and German.
_MONTHS = {
    name: str(number)
    for number, names in enumerate(
        (
            "jan",
            "feb",
            "mar mär mrz",
            "apr",
            "may mai",
            "jun",
            "jul",
            "aug",
            "sep sept",
            "oct okt",
            "nov",
            "dec dez",
        ),
        1,
    )
    for name in names.split()
}
_EPOCH = date(1970, 1, 1).toordinal()
_CLOCK = re.compile(
    r"(?:(?P<date>\d{1,4}([-/. ])(?:\d{1,2}|[^\W\d_]{3,4})\2\d{1,4})[T ,_-]\s*)?(?P<h>\d{1,3}):(?P<m>\d{2}):"
    r"(?P<s>\d{2}(?:[.,]\d*|:\d{3,9})?)"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?(?:\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2}))?"
)
# As names of files have it: 20250304_115950_123.
_COMPACT = re.compile(
    r"(?P<date>\d{8})[ T_-]?(?P<h>\d{2})(?P<m>\d{2})(?P<s>\d{2})(?:[._-](?P<rest>\d{1,9}))?"
)
_DURATION = re.compile(
    r"(?P<value>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>sec|secs|s|ms|us|ns)"
)
_UNITS = {"sec": 1.0, "secs": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# How Arrow and Parquet name numbers that are times.
_STAMPS = re.compile(r"(?:timestamp|duration)\[(?P<unit>s|ms|us|ns)\b.*")
_IN_SECONDS = ", time in s"
# Of a column that is looked at.
_LOOKED_AT = 20


def seconds_of(text: str) -> float | None:
    """Seconds since 1970 of a date with a time of day, since midnight of a time of day, or of a duration; else None.

    Which of 3/4/2024 is the month does not matter to differences within one day; the day is taken to be first where
    it may be.
    """
    plain = text.strip()
    found = _CLOCK.fullmatch(plain)
    if found is not None:
        hours = int(found["h"])
        if found["half"]:
            hours = hours % 12 + 12 * (found["half"] in "Pp")
        second = 60.0 * (60 * hours + int(found["m"])) + float(re.sub("[,:]", ".", found["s"]))
        day = 0 if found["date"] is None else _day(found["date"])
        return None if day is None else day * _SECONDS_PER_DAY + second - _zone(found["zone"])
    found = _COMPACT.fullmatch(plain)
    if found is not None:
        day = _day("-".join((found["date"][:4], found["date"][4:6], found["date"][6:])))
        second = (
            3600.0 * int(found["h"]) + 60.0 * int(found["m"]) + float(f"{found['s']}.{found['rest'] or 0}")
        )
        return None if day is None else day * _SECONDS_PER_DAY + second
    found = _DURATION.fullmatch(plain)
    return None if found is None else float(found["value"]) * _UNITS[found["unit"]]


def with_text_times(table: Table) -> Table:
    """The table, with a column of seconds for each column of text that holds times."""
    texts = getattr(table, "texts", ())
    first = next(iter(table.batches(tuple(texts), _LOOKED_AT, 0, _LOOKED_AT)), {}) if texts else {}
    times = {}
    for name in texts:
        values = first.get(name)
        if isinstance(values, Text) and values.names and all(map(_is_time, values.names)):
            times[name + _IN_SECONDS] = name
    times = {new: name for new, name in times.items() if new not in table.column_names}
    return _TextTimes(table, times) if times else table


def clock_as_written(
    tables: Sequence[Table], time: Channel, sink: Diagnostics
) -> tuple[Channel, list[Table]]:
    """The channel of time in the kind in which these logs have it, and the tables with that channel.

    A mapping of a log whose times are texts is good for one of the same columns whose times are numbers, in s where
    nothing says their unit, with a note. The other way round texts stay what is wrong.
    """
    found = [_as_written(table, time) for table in tables]
    chosen = found[0]
    for table, one in zip(tables, found, strict=True):
        if one != time and not one.column.endswith(_IN_SECONDS):
            sink.note(
                "time-in-numbers",
                f"column '{one.column}' holds numbers, where the mapping is for times in words: read in {one.unit}",
                Place(file=str(table.path)),
            )
    return chosen, [
        table if one == chosen else _TimeRenamed(table, one, chosen)
        for table, one in zip(tables, found, strict=True)
    ]


def _as_written(table: Table, time: Channel) -> Channel:
    names, column = table.column_names, time.column
    plain = column.removesuffix(_IN_SECONDS)
    if column in names or plain not in names:
        return time
    known = getattr(table, "info", None)
    stamps = _STAMPS.fullmatch(known(plain).dtype) if known is not None else None
    unit = stamps["unit"] if stamps else "s"
    return Channel(plain, unit, _UNITS[unit])


def _is_time(text: str) -> bool:
    return seconds_of(text) is not None


def _day(text: str) -> int | None:
    cells = [_MONTHS.get(one.lower(), one) for one in re.split("[-/. ]", text)]
    if not all(map(str.isdecimal, cells)):
        return None
    a, b, c = map(int, cells)
    year, month, day = (a, b, c) if a > 31 else (c, b, a) if b <= 12 else (c, a, b)
    try:
        return date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None


def _zone(text: str | None) -> float:
    if text is None or text in ("Z", "UTC"):
        return 0.0
    minutes = 60 * int(text[1:3]) + int(text[-2:])
    return 60.0 * (-minutes if text[0] == "-" else minutes)


class _TextTimes:
    """A table with columns of seconds beside those of text.    times: column of text by that of seconds."""

    def __init__(self, table: Table, times: Mapping[str, str]) -> None:
        self.path: Path = table.path
        self.column_names = (*table.column_names, *times)
        self.row_count = table.row_count
        self._table, self._times = table, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def info(self, column: str) -> ColumnInfo:
        """What the file says of a column."""
        known = getattr(self._table, "info", None)
        if column in self._times:
            return ColumnInfo("float64", unit="s")
        return known(column) if known is not None else ColumnInfo()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; what is no time is missing."""
        stored = tuple(dict.fromkeys(self._times.get(name, name) for name in columns))
        for batch in self._table.batches(stored, rows, start, stop):
            yield {
                name: _seconds(batch[self._times.get(name, name)], name in self._times) for name in columns
            }


def _seconds(values: Float | Text, wanted: bool) -> Float | Text:
    if not wanted or not isinstance(values, Text):
        return values
    known = [seconds_of(one) for one in values.names]
    numbers = np.array([np.nan if one is None else one for one in known] + [np.nan])
    return numbers[values.codes]


class _TimeRenamed:
    """A table whose channel of time stands under the name, and in the unit, that another table has for it."""

    def __init__(self, table: Table, own: Channel, other: Channel) -> None:
        self.path: Path = table.path
        names = (other.column if name == own.column else name for name in table.column_names)
        self.column_names = tuple(dict.fromkeys(names))
        self.row_count = table.row_count
        self._table, self._own, self._other = table, own, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns."""
        own, other = self._own, self._other
        stored = tuple(own.column if name == other.column else name for name in columns)
        for batch in self._table.batches(stored, rows, start, stop):
            values = dict(zip(columns, (batch[name] for name in stored), strict=True))
            clock = values.get(other.column)
            if clock is not None and not isinstance(clock, Text):
                values[other.column] = clock * (own.factor / other.factor)
            yield values
