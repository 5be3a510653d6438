"""Read time stamps that are split into two columns or written as text."""

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

# Add a column with the sum if a time stamp has two columns, seconds and nanoseconds, as in ROS messages.

_SECONDS_PER_NANOSECOND = 1e-9
# The word must follow a separator or begin with a capital letter (stampSec): "msec" is not a column of seconds.
_SECONDS = re.compile(r"(?<![A-Za-z])(?i:secs?|seconds)$|(?<=[a-z])(?:Secs?|Seconds)$")
_NANOSECONDS = re.compile(
    r"(?<![A-Za-z])(?i:n(?:ano_?)?sec(?:ond)?s?|nanos)$|(?<=[a-z])(?:N(?:ano)?[Ss]ec(?:ond)?s?|Nanos)$"
)


def split_stamps(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Find pairs of columns with seconds and nanoseconds; the key "sec + nanosec" is the name of their sum."""
    by_stem = {_SECONDS.sub("", name): name for name in names if _SECONDS.search(name)}
    pairs = {}
    for name in names:
        seconds = by_stem.get(_NANOSECONDS.sub("", name)) if _NANOSECONDS.search(name) else None
        if seconds is not None:
            pairs[f"{seconds} + {name}"] = (seconds, name)
    return pairs


def is_remainder(t: Float) -> bool:
    """Whether times are nano-, micro- or milliseconds since the last full second, and so restart every second."""
    step = np.diff(t)
    back = step[step < 0]
    if not len(back) or not (step > 0).any() or not 0 <= t.min() <= t.max() < 1e9:
        return False
    second = next(limit for limit in (1e3, 1e6, 1e9) if t.max() < limit)
    # Between the last stamp of a second and the first stamp of the next, one or two rows may be missing.
    return bool((np.abs(back + second) <= 3.0 * np.median(step[step > 0])).all())


def with_whole_stamps(table: Table) -> Table:
    """Add a column in seconds for each time stamp that is split into two columns."""
    names = table.column_names
    pairs = {whole: pair for whole, pair in split_stamps(names).items() if whole not in names}
    return _WholeStamps(table, pairs) if pairs else table


class _WholeStamps:
    """Table with additional columns t = seconds + 1e-9 nanoseconds."""

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
        """Metadata of a column from the file; the unit of a sum is seconds."""
        known = getattr(self._table, "info", None)
        if column not in self._pairs:
            return known(column) if known is not None else ColumnInfo()
        first = known(self._pairs[column][0]) if known is not None else ColumnInfo()
        return ColumnInfo("float64", unit="s", row_count=first.row_count, rate=first.rate)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows."""
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


# Add a column in seconds for times of day, dates and durations that are written as text.

_SECONDS_PER_DAY = 86_400
# Names of months as MATLAB and Oracle write them, in English and German.
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
# Compact form, as in file names: 20250304_115950_123.
_COMPACT = re.compile(
    r"(?P<date>\d{8})[ T_-]?(?P<h>\d{2})(?P<m>\d{2})(?P<s>\d{2})(?:[._-](?P<rest>\d{1,9}))?"
)
_DURATION = re.compile(
    r"(?P<value>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>sec|secs|s|ms|us|ns)"
)
_UNITS = {"sec": 1.0, "secs": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# Time types of Arrow and Parquet.
_STAMPS = re.compile(r"(?:timestamp|duration)\[(?P<unit>s|ms|us|ns)\b.*")
_IN_SECONDS = ", time in s"
_LOOKED_AT = 20  # number of first rows from which a time column is detected


def seconds_of(text: str) -> float | None:
    """Convert a time that is written as text to seconds; None for other text.

    The result is the time since 1970 for a date with a time of day, the time since midnight for a time of day, and the
    length of a duration. In an ambiguous date such as 3/4/2024, the first number is read as the day; this has no effect
    on time differences within a day.
    """
    plain = text.strip()
    match = _CLOCK.fullmatch(plain)
    if match is not None:
        hours = int(match["h"])
        if match["half"]:
            hours = hours % 12 + 12 * (match["half"] in "Pp")
        second = 60.0 * (60 * hours + int(match["m"])) + float(re.sub("[,:]", ".", match["s"]))
        day = 0 if match["date"] is None else _day(match["date"])
        return None if day is None else day * _SECONDS_PER_DAY + second - _zone(match["zone"])
    match = _COMPACT.fullmatch(plain)
    if match is not None:
        day = _day("-".join((match["date"][:4], match["date"][4:6], match["date"][6:])))
        second = (
            3600.0 * int(match["h"]) + 60.0 * int(match["m"]) + float(f"{match['s']}.{match['rest'] or 0}")
        )
        return None if day is None else day * _SECONDS_PER_DAY + second
    match = _DURATION.fullmatch(plain)
    return None if match is None else float(match["value"]) * _UNITS[match["unit"]]


def with_text_times(table: Table) -> Table:
    """Add a column in seconds for each column with times that are written as text."""
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
    """Adapt the time channel if the log has numeric times, but the mapping expects times written as text.

    If the file states no unit, the numbers are read in s; a note reports the unit. The opposite case, text in a column
    that is mapped as numbers, remains an error.

    Parameters
    ----------
    tables : sequence of Table
        Tables of the logs.
    time : Channel
        Time channel of the mapping.
    sink : Diagnostics
        Collects the note.

    Returns
    -------
    time : Channel
        Adapted time channel.
    tables : list of Table
        Tables that contain this channel.

    """
    channels = [_adapted(table, time) for table in tables]
    chosen = channels[0]
    for table, channel in zip(tables, channels, strict=True):
        if channel != time and not channel.column.endswith(_IN_SECONDS):
            sink.note(
                "time-in-numbers",
                f"column '{channel.column}' has numbers, but the mapping expects times written as text: the numbers "
                f"are read in {channel.unit}",
                Place(file=str(table.path)),
            )
    return chosen, [
        table if channel == chosen else _TimeRenamed(table, channel, chosen)
        for table, channel in zip(tables, channels, strict=True)
    ]


def _adapted(table: Table, time: Channel) -> Channel:
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
    cells = [_MONTHS.get(part.lower(), part) for part in re.split("[-/. ]", text)]
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
    """Table with additional columns in seconds; `times` maps their names to the text columns."""

    def __init__(self, table: Table, times: Mapping[str, str]) -> None:
        self.path: Path = table.path
        self.column_names = (*table.column_names, *times)
        self.row_count = table.row_count
        self._table, self._times = table, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column from the file."""
        known = getattr(self._table, "info", None)
        if column in self._times:
            return ColumnInfo("float64", unit="s")
        return known(column) if known is not None else ColumnInfo()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches; text that is not a time becomes a missing value."""
        stored = tuple(dict.fromkeys(self._times.get(name, name) for name in columns))
        for batch in self._table.batches(stored, rows, start, stop):
            yield {
                name: _seconds(batch[self._times.get(name, name)], name in self._times) for name in columns
            }


def _seconds(values: Float | Text, wanted: bool) -> Float | Text:
    if not wanted or not isinstance(values, Text):
        return values
    known = [seconds_of(text) for text in values.names]
    numbers = np.array([np.nan if seconds is None else seconds for seconds in known] + [np.nan])
    return numbers[values.codes]


class _TimeRenamed:
    """Table whose time column gets the name and unit of the time column in another table."""

    def __init__(self, table: Table, written: Channel, other: Channel) -> None:
        self.path: Path = table.path
        names = (other.column if name == written.column else name for name in table.column_names)
        self.column_names = tuple(dict.fromkeys(names))
        self.row_count = table.row_count
        self._table, self._written, self._other = table, written, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows."""
        written, other = self._written, self._other
        stored = tuple(written.column if name == other.column else name for name in columns)
        for batch in self._table.batches(stored, rows, start, stop):
            values = dict(zip(columns, (batch[name] for name in stored), strict=True))
            clock = values.get(other.column)
            if clock is not None and not isinstance(clock, Text):
                values[other.column] = clock * (written.factor / other.factor)
            yield values
