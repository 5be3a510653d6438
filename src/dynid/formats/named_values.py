"""Text whose lines name each value: t=0.01 q1=0.2 tau1=3, or Pos1: 12.5 deg, Torque1: 3 Nm; and lines of loggers.

Lines of loggers have a prefix, [INFO] [1700000000.25] [arm]: 0.1 0.2, and then values with or without names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dynid.base import Budget, number_of
from dynid.log import COMMENT, ArrayTable, arrays_of, reading, seconds_of

# Memory of Python's objects relative to the text.
_TIMES_TEXT = 8
# Characters; programs do not print longer lines.
_LONGEST_LINE = 4096
# Least number of lines of one form, and their share, in a log: a program prints other lines at its start.
_LEAST_LINES, _SHARE = 3, 0.8
# Column name of a time in a prefix.
_STAMP = "stamp [s]"
# Column name of numbers without names.
_NUMBER_NAME = "column"
_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf)"
_LIST = rf"[\[(]\s*{_NUMBER}(?:[\s,;]+{_NUMBER})*\s*[\])]"
_BARE = rf"{_NUMBER}(?:[\s,;]+{_NUMBER}(?![\w.:]))*"
_PAIR = re.compile(
    rf"(?P<key>[^\W\d][^:=,;|\t]{{0,60}}?)\s*[:=]\s*(?P<value>{_BARE}(?![\w.:])|{_LIST})"
    r"(?:\s*(?P<unit>[a-zµ°%][\w/%°^*·]*)(?![\w .\[\]]*[:=]))?[\s,;|]*",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"[\s,;]+")
_NUMBERS = re.compile(rf"[\[(]?\s*({_BARE})\s*[\])]?", re.IGNORECASE)
# Prefixes of loggers; simulation time follows wall time. An arrow follows the time of day in Arduino's serial monitor.
_PREFIX = re.compile(
    r"(?:(?P<arrow>\d\d?:\d\d:\d\d(?:[.,]\d+)?)\s*->|\[?(?P<date>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?)\]?"
    r"|\[\s*(?:\d+\.\d+,\s*)?(?P<stamp>\d+\.\d+)\s*\]"
    r"|(?P<level>\[?\s*\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR)\b\s*\]?)"
    r"|\[[A-Za-z_/][^\]\s,]*\]|(?<=\s)-(?=\s)|(?<=\s)[A-Za-z_][\w./]*(?=\s+-\s|\s+[-+]?[\d.])|(?<=\s)[A-Za-z_][\w./]*:(?=\s+[A-Za-z]))"
    r":?\s*"
)


class NamedValuesReader:
    """Opens text of lines that name their values."""

    name = "named values"
    suffixes = (".txt", ".log", ".csv")

    def can_read(self, head: bytes) -> bool:
        """Whether most of the first lines name the same two or more values, or have a logger's prefix and numbers."""
        lines = _rows(head.decode("utf-8", "replace").splitlines()[:-1])
        form = _form(map(_form_of, map(_pairs, lines)))
        # A line of names above numbers is the head of a table, whatever its first column contains.
        return form is not None and not (
            form[0] == _NUMBER_NAME and not _pairs(lines[0]) and len(_BETWEEN.split(lines[0])) >= len(form)
        )

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Open a file; lines in another form are left out.

        Raises RefusedError if the file is too large.
        """
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "named values")
        with reading(path, "named values"), path.open(encoding="utf-8", errors="replace") as file:
            lines = [_pairs(line) for line in _rows(file)]
            form = _form(map(_form_of, lines))
            whole = [pairs for pairs in lines if form is not None and _form_of(pairs) == form]
            others = len(lines) - len(whole)
            left_out = [f"{others} line(s) in another form"] if others else []
            arrays, unread = arrays_of([_record(pairs) for pairs in whole])
            return ArrayTable(path, arrays, [*left_out, *unread])


def _rows(lines: Iterable[str]) -> list[str]:
    plain = (line.strip() for line in lines)
    return [line for line in plain if line and not COMMENT.match(line)]


def _without_prefix(line: str) -> tuple[str, str | None, bool]:
    """A line without its logger's prefix, the time in the prefix in s as text, and whether there is a prefix."""
    at, time, logged = 0, None, False
    while (prefix := _PREFIX.match(line, at)) is not None:
        if not (
            logged
            or prefix["date"]
            or prefix["stamp"]
            or prefix["level"]
            or prefix["arrow"]
            or line[at] == "["
        ):
            break
        logged = logged or bool(prefix["stamp"] or prefix["level"] or prefix["arrow"])
        at_day = prefix["date"] or prefix["arrow"]
        stamp = prefix["stamp"] or (at_day and repr(seconds_of(at_day)))
        time, at = stamp or time, prefix.end()
    return (line[at:], time, True) if logged else (line, None, False)


def _pairs(line: str) -> list[tuple[str, str]]:
    """Names with their values, [] = the line has another form. A unit is part of the name."""
    named: list[tuple[str, str]] = []
    at = 0
    line, time, logged = _without_prefix(line)
    numbers = _NUMBERS.fullmatch(line) if logged and len(line) <= _LONGEST_LINE else None
    if numbers is not None:
        return [(_NUMBER_NAME, f"{time} {numbers[1]}" if time else numbers[1])]
    while at < len(line) <= _LONGEST_LINE:
        pair = _PAIR.match(line, at)
        if pair is None:
            return []
        unit = f" [{pair['unit']}]" if pair["unit"] else ""
        named.append((pair["key"].strip() + unit, pair["value"]))
        at = pair.end()
    return [(_STAMP, time), *named] if named and time and all(key != _STAMP for key, _ in named) else named


def _form_of(pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    if [key for key, _ in pairs] == [_NUMBER_NAME]:
        return (_NUMBER_NAME,) * len(_BETWEEN.split(pairs[0][1]))
    return tuple(key for key, _ in pairs)


def _form(forms: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The names that most lines have; None if there are none."""
    counted = Counter(forms)
    (form, count), *_ = counted.most_common(1) or [((), 0)]
    return form if len(form) > 1 and count >= max(_LEAST_LINES, _SHARE * counted.total()) else None


def _record(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Values by name; several values of one name are a list."""
    by_name: dict[str, list[float]] = {}
    lists = set()
    for key, text in pairs:
        if text[0] in "[(":
            lists.add(key)
        numbers = [number_of(number) for number in _BETWEEN.split(text.strip("[]() \t")) if number]
        by_name.setdefault(key, []).extend(numbers)
    return {key: values if len(values) > 1 or key in lists else values[0] for key, values in by_name.items()}
