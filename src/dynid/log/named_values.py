"""Text whose lines name each value: t=0.01 q1=0.2 tau1=3, or Pos1: 12.5 deg, Torque1: 3 Nm."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dynid.base.numbers import number_of
from dynid.log.arrays import ArrayTable, Budget, reading
from dynid.log.dialect import COMMENT
from dynid.log.records import arrays_of

# Python's objects take so many times the bytes of the text.
_TIMES_TEXT = 8
# Longer lines are none that a program prints.
_LONGEST_LINE = 4096
# So many lines of one form, and this share of all, make a log; a program that starts prints others first.
_LEAST_LINES, _SHARE = 3, 0.8
_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|nan|inf)"
_LIST = rf"[\[(]\s*{_NUMBER}(?:[\s,;]+{_NUMBER})*\s*[\])]"
_PAIR = re.compile(
    rf"(?P<key>[^\W\d][^:=,;|\t]{{0,60}}?)\s*[:=]\s*(?P<value>{_NUMBER}(?![\w.:])|{_LIST})"
    r"(?:\s*(?P<unit>[a-zµ°%][\w/%°^*·]*)(?![\w .\[\]]*[:=]))?[\s,;|]*",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"[\s,;]+")


class NamedValuesReader:
    """Opens text of lines that name their values."""

    name = "named values"
    suffixes = (".txt", ".log")

    def can_read(self, head: bytes) -> bool:
        """Whether most of the first lines name the same values, two or more."""
        lines = head.decode("utf-8", "replace").splitlines()[:-1]
        return _form(map(_keys, _rows(lines))) is not None

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> ArrayTable:
        """Opens a file; lines of another form are left out. Raises RefusedError for one that is too large."""
        budget = Budget(path)
        budget.spend(_TIMES_TEXT * budget.size, "named values")
        with reading(path, "named values"), path.open(encoding="utf-8", errors="replace") as file:
            lines = [_pairs(line) for line in _rows(file)]
            form = _form(tuple(key for key, _ in pairs) for pairs in lines)
            whole = [pairs for pairs in lines if form is not None and tuple(key for key, _ in pairs) == form]
            others = len(lines) - len(whole)
            left_out = [f"{others} line(s) of another form"] if others else []
            arrays, unread = arrays_of([_record(pairs) for pairs in whole])
            return ArrayTable(path, arrays, [*left_out, *unread])


def _rows(lines: Iterable[str]) -> list[str]:
    plain = (line.strip() for line in lines)
    return [line for line in plain if line and not COMMENT.match(line)]


def _pairs(line: str) -> list[tuple[str, str]]:
    """Names with their values, [] = the line is of another form. A unit is a part of the name."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(line) <= _LONGEST_LINE:
        pair = _PAIR.match(line, at)
        if pair is None:
            return []
        unit = f" [{pair['unit']}]" if pair["unit"] else ""
        found.append((pair["key"].strip() + unit, pair["value"]))
        at = pair.end()
    return found


def _keys(line: str) -> tuple[str, ...]:
    return tuple(key for key, _ in _pairs(line))


def _form(keys: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """The names that most lines have; None = there are none."""
    counted = Counter(keys)
    (form, count), *_ = counted.most_common(1) or [((), 0)]
    return form if len(form) > 1 and count >= max(_LEAST_LINES, _SHARE * counted.total()) else None


def _record(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Values by name; those of one name are a list."""
    by_name: dict[str, list[float]] = {}
    lists = set()
    for key, text in pairs:
        if text[0] in "[(":
            lists.add(key)
        numbers = [number_of(one) for one in _BETWEEN.split(text.strip("[]() \t")) if one]
        by_name.setdefault(key, []).extend(numbers)
    return {key: values if len(values) > 1 or key in lists else values[0] for key, values in by_name.items()}
