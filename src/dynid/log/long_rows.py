"""Tables with a row for each joint, or signal, and moment, put side by side: one row for each moment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.log import Table, Text

# A column that may say which joint a row is of.
KEY = re.compile(
    r"(?:(?:joint|motor|axis|actuator|servo|dof|can)[_ .-]?(?:name|id|index|idx|no|number|label)?s?|name|id)",
    re.IGNORECASE,
)
# One that may say which signal a row is of, beside its one value.
SIGNAL = re.compile(
    r"_?(?:variable|signal|channel|field|topic|metric|measurement|quantity|series|key|name|tag)s?"
    r"(?:[_ .-]?(?:name|id))?",
    re.IGNORECASE,
)
# Rows that are looked at, and the most joints of a robot.
_LOOKED_AT, MOST_JOINTS = 1024, 128


@dataclass(frozen=True)
class _Layout:
    """How moments follow one another.

    key: the column that names the joints, in the order in which `names` has them.    shared: columns of the moment.
    clock: a shared column of numbers that is the same throughout a moment, where there is one.    signals: whether
    they name signals, which are columns by these names, and not joints.
    """

    key: str
    names: tuple[str, ...]
    shared: tuple[str, ...]
    clock: str | None
    signals: bool = False


def with_joints_side_by_side(table: Table) -> Table:
    """The table; one whose rows are those of single joints with a row for each moment."""
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
    """The first table that a column makes of a table, or the table.

    keys: columns that may say what a row is of, and whether that is a signal.    of_key: None = it says no such thing.
    """
    for key, of_signals in keys:
        try:
            found = of_key(table, key, of_signals)
        except InputError:  # what is wrong with its columns is said where they are used
            continue
        if found is not None:
            return found
    return table


def _layout(key: str, first: Mapping[str, Float | Text], of_signals: bool) -> _Layout | None:
    cells = _cells(first[key])
    if cells is None:
        return None
    names = tuple(dict.fromkeys(cells))
    m = len(names)
    # Each of the first moments has every joint once, in the same order.
    if not 2 <= m <= MOST_JOINTS or len(cells) < 3 * m or tuple(cells[: 3 * m]) != names * 3:
        return None
    numbers = {name: values for name, values in first.items() if name != key and not isinstance(values, Text)}
    clocks = [name for name, values in numbers.items() if _ascends(values)]
    texts = [name for name, values in first.items() if name != key and isinstance(values, Text)]
    start = np.arange(len(cells)) // m * m
    same = [
        name
        for name, one in numbers.items()
        if np.ptp(one) > 0 and np.array_equal(one[: 3 * m], one[start][: 3 * m])
    ]
    shared = [name for name in numbers if name in clocks or name in same]
    if len(shared) == len(numbers):
        return None
    both = [name for name in clocks if name in same]
    if of_signals and (len(numbers) - len(shared) != 1 or not isinstance(first[key], Text)):
        return None
    return _Layout(key, names, (*texts, *shared), both[0] if both else None, of_signals)


def _cells(values: Float | Text) -> list[str] | None:
    """Cells of a column of names, or of whole numbers; else None."""
    if isinstance(values, Text):
        return [values.names[code] if code >= 0 else "" for code in values.codes]
    whole = np.isfinite(values) & (values == np.round(values))
    return [str(int(one)) for one in values] if whole.all() else None


def _ascends(values: Float) -> bool:
    steps = np.diff(values)
    return bool((steps >= 0).all() and (steps > 0).any())


class _SideBySide:
    """The table of moments: shared columns as they are, others as name[joint]."""

    row_count: int | None = None

    def __init__(self, table: Table, layout: _Layout) -> None:
        self.path: Path = table.path
        self._table, self._layout = table, layout
        shown = shown_names(layout.names)
        own = [name for name in table.column_names if name != layout.key and name not in layout.shared]
        self._places = {
            shown[k] if layout.signals else f"{name}[{shown[k]}]": (name, k)
            for name in own
            for k in range(len(layout.names))
        }
        self.column_names = (*layout.shared, *self._places)
        of, count = "signal" if layout.signals else "joint", len(layout.names)
        text = f"each row is one {of}'s, by '{layout.key}': the {count} of a moment are put side by side"
        text += "" if layout.clock else ", at the time of the first of them"
        note = Diagnostic(Severity.NOTE, "joints-in-rows", text, Place(file=str(table.path)))
        self.remarks = (*getattr(table, "remarks", ()), note)

    def number(self, cell: str) -> float:
        """The number of a cell."""
        number = getattr(self._table, "number", float)
        return float(number(cell))

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; joints that a moment lacks are missing."""
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
        """Whether a row is the first one of a moment: its joint comes no later than the last, or time is new."""
        place = self._joint(whole[self._layout.key])
        begins = np.ones(len(place), dtype=np.bool_)
        begins[1:] = np.diff(place) <= 0
        if self._layout.clock:
            begins[1:] |= np.diff(_column(whole[self._layout.clock])) != 0
        return begins

    def _joint(self, values: Float | Text) -> Int:
        """Places of the joints in the order of the layout; -1 = of none that its beginning has."""
        place = {name: k for k, name in enumerate(self._layout.names)}
        if isinstance(values, Text):
            known = np.array([*(place.get(one, -1) for one in values.names), -1], dtype=np.int64)
            return known[values.codes]
        return np.array(
            [place.get(str(int(one)), -1) if np.isfinite(one) else -1 for one in values], dtype=np.int64
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
            own = place == k
            out[moment[own]] = plain[own]
            made[name] = (out, texts)
        return made


def shown_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the joints; numbers that do not count from 0 or 1 do so from 1."""
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
        np.array([*(place[one] for one in part.names), -1], dtype=np.int64)[part.codes]
        for part in (before, after)
    ]
    return Text(np.concatenate(codes), tuple(place))


def _as_column(values: Any, texts: tuple[str, ...] | None) -> Float | Text:
    return values if texts is None else Text(values, texts)
