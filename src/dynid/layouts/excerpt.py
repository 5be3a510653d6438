"""The first rows of a log, column by column, as far as a guess needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import InputError, Place
from dynid.layouts.orientations import candidates, is_quaternion, may_be_quaternion, of_states
from dynid.log.contents import Contents, Stream, Values, contents
from dynid.log.log import ManyTopics
from dynid.log.row_numbers import ROW

# Enough for gravity to be seen from many sides, read in a moment.
ROWS = 60_000
# What holds no number here is looked at further.
FIRST_ROWS = 100
# Of a column's cells: with so many numbers the others are mistakes, and the column is none of words.
MOSTLY = 0.9


@dataclass(eq=False)
class Excerpt:
    """A log's columns and its first rows.

    stream: columns that share rows, those of the joints.    bag: whether columns have dynid's own names.
    joints: how many the robot has.
    """

    contents: Contents
    stream: Stream
    bag: bool
    joints: int
    _seen: dict[str, Values] = field(default_factory=dict)
    _order: Int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the stream's columns, without a topic before them."""
        return tuple(_plain(column.name) for column in self.stream.columns)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """Of its columns of numbers, without those that hold none, and without orientations."""
        named = {_plain(column.name): column.name for column in self.stream.columns if column.numeric}
        if self.bag:
            return tuple(named)
        late = [name for name, values in self._first.items() if not _holds_numbers(values)]
        out = {name for name, values in self.values(late).items() if not _holds_numbers(values)}
        out.update(*self.orientations)
        return tuple(name for name in named if name not in out)

    @cached_property
    def orientations(self) -> tuple[tuple[str, ...], ...]:
        """Columns that are unit quaternions, four each; none of an array that may hold all joints beside a pose."""
        first = {name: values for name, values in self._first.items() if isinstance(values, np.ndarray)}
        found: list[tuple[str, ...]] = []
        states = of_states(tuple(first), self.joints)
        for four in candidates(tuple(name for name in first if name not in states)):
            fresh = not {*four} & {name for one in found for name in one}
            if fresh and may_be_quaternion(np.stack([first[name] for name in four], axis=1)):
                found += [four] if is_quaternion(self.table(four)) else []
        return tuple(found)

    @cached_property
    def _first(self) -> dict[str, Values]:
        """A few rows of the columns of numbers."""
        if self.bag:
            return {}
        named = {column.name: _plain(column.name) for column in self.stream.columns if column.numeric}
        return {named[full]: values for full, values in self.contents.read([*named], FIRST_ROWS).items()}

    @property
    def topic(self) -> str | None:
        """Topic of a bag that the names are on, where there are several."""
        return self.stream.name if self.bag and len(self.contents.streams) > 1 else None

    def values(self, names: Sequence[str]) -> dict[str, Values]:
        """First rows of the named columns."""
        new = [name for name in names if name not in self._seen]
        if new:
            full = {_plain(column.name): column.name for column in self.stream.columns}
            # The rows of a bag are those of the columns that are read together.
            read = self.contents.read([*full.values()] if self.bag else [full[name] for name in new], ROWS)
            self._seen |= {_plain(name): self._ordered(values) for name, values in read.items()}
        return {name: self._seen[name] for name in names}

    def fill(self, values: Mapping[str, Float]) -> None:
        """Has columns give other values from here on, in the rows as they are now."""
        self._seen |= values

    def put_in_order(self, order: Int) -> None:
        """Has all columns give their first rows in another order, or some of them, from here on."""
        self._order = order if self._order is None else self._order[order]
        self._seen = {name: _taken(values, order) for name, values in self._seen.items()}

    def refuse_words(self, names: Sequence[str]) -> None:
        """Raises InputError for a word in one of these columns where nearly all cells are numbers: it is no signal."""
        for name, cells in self.values(names).items():
            wrong = [row for row, cell in enumerate(cells) if not _is_number(str(cell))]
            if 0 < len(wrong) <= (1.0 - MOSTLY) * len(cells):
                raise InputError(
                    "text-cell",
                    found=f"column '{name}' = '{cells[wrong[0]]}'",
                    expected="a number",
                    place=Place(file=str(self.contents.path), row=wrong[0]),
                )

    def _ordered(self, values: Values) -> Values:
        return values if self._order is None else _taken(values, self._order)

    def table(self, names: Sequence[str]) -> Float:
        """Columns of numbers side by side, (T, k)."""
        found = self.values([name for name in names if name != ROW or ROW in self.names])
        if ROW in names and ROW not in found:
            found[ROW] = np.arange(len(next(iter(self.values(self.names[:1]).values()))), dtype=np.float64)
        return np.stack([np.asarray(found[name], dtype=np.float64) for name in names], axis=1)


def _holds_numbers(values: Values) -> bool:
    return not (isinstance(values, np.ndarray) and len(values) and np.isnan(values).all())


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _taken(values: Values, order: Int) -> Values:
    return values[order] if isinstance(values, np.ndarray) else tuple(values[k] for k in order.tolist())


def excerpt(path: str | Path | Mapping[str, Path], joints: Sequence[str]) -> Excerpt:
    """Looks into a log; the stream is the one that names most of the joints, or has most columns.

    Raises InputError for what cannot be read.
    """
    found = contents(path)
    if not found.streams:
        raise InputError("no-columns", found="a log without columns", expected="columns of numbers")
    words = [one.lower() for one in joints]

    def named(stream: Stream) -> tuple[int, int]:
        names = " ".join(column.name.lower() for column in stream.columns)
        return sum(word in names for word in words), len(stream.columns)

    return Excerpt(found, max(found.streams, key=named), isinstance(found.table, ManyTopics), len(joints))


def _plain(name: str) -> str:
    """A column of a bag without its topic."""
    topic, mark, rest = name.rpartition(":")
    return rest if mark and topic.startswith("/") else name
