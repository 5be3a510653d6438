"""Files of named arrays and of messages as tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import DynidError, InputError, Place, RefusedError
from dynid.base.records import dataclass
from dynid.log.log import ColumnInfo, Text

# Files of named arrays as tables: an array of one axis is a column, one of two is name[0], name[1], ...

# Columns that one array may make: robots have fewer joints, pictures more.
MAX_WIDTH = 512
MAX_FIELDS = 10_000
# What the numbers of a file may take in memory, whatever it claims: real logs are compressed to a hundredth at best.
LEAST_BUDGET, TIMES_FILE = 1 << 28, 100
# Of the message about what is no column.
SHOWN = 60
# A list of text that names the columns of others.
_NAMES = re.compile(r"names?|joints?|labels?|dofs?|columns?", re.IGNORECASE)
_NUMBERS = "fiub"
_CLOCK = re.compile(r"time|stamp|clock|(?<![a-z])t$", re.IGNORECASE)
# Of the steps of a clock: so many run back at most, where motions follow one another, and so many go on; two clocks say
# the same within this share of a step.
_RUNS_BACK, _AHEAD, _SAME_STEP = 0.01, 0.5, 1e-3
_LEAST_ROWS = 100  # of a recording; of settings with as many numbers, less one, nothing is made
_TIMES = "mM"

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredArray:
    """An array in a file.

    read: gives rows start..stop of it as it is stored, along its first axis, or with axis = 1 along its second.
    labels: of its columns, () = they have none.    unit: in the file's words.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int, int], Array]
    labels: tuple[str, ...] = ()
    unit: str = ""

    @staticmethod
    def of(name: str, values: Array, labels: tuple[str, ...] = (), unit: str = "") -> StoredArray:
        """An array that is in memory."""

        def read(start: int, stop: int, axis: int) -> Array:
            return values[start:stop] if axis == 0 else values[:, start:stop]

        return StoredArray(name, values.shape, values.dtype, read, labels, unit)


@dataclass(frozen=True, eq=False)
class _Field:
    """An array as columns: rows along `axis`, the first of them where `most` are fewer."""

    array: StoredArray
    axis: int
    most: int | None = None

    @property
    def rows(self) -> int:
        whole = self.array.shape[self.axis]
        return whole if self.most is None else min(whole, self.most)

    @property
    def columns(self) -> tuple[str, ...]:
        shape = self.array.shape
        if len(shape) == 1:
            return (self.array.name,)
        width = shape[1 - self.axis]
        labels = self.array.labels if len(set(self.array.labels)) == width else tuple(map(str, range(width)))
        return (self.array.name,) if width == 1 else tuple(f"{self.array.name}[{one}]" for one in labels)

    def read(self, start: int, stop: int) -> Float:
        """Rows (k, columns)."""
        values = self.array.read(start, stop, self.axis)
        values = values if values.ndim == 2 else values[:, None]
        values = values if self.axis == 0 else values.T
        if values.dtype.kind in _TIMES:  # as Arrow keeps them: ns
            kind = "datetime64[ns]" if values.dtype.kind == "M" else "timedelta64[ns]"
            values = values.astype(kind).astype(np.int64)
        return np.asarray(values, dtype=np.float64)


class ArrayTable:
    """The arrays of a file as columns.

    Arrays share rows where they are equally long, or some one row longer, as states are than inputs. Of a matrix the
    rows run along the axis that is as long as most arrays of the file are, else along the longer one.
    """

    def __init__(
        self,
        path: Path,
        arrays: Sequence[StoredArray],
        left_out: Sequence[str] = (),
        trajectory: str | None = None,
    ) -> None:
        self.path, self.trajectory = path, trajectory
        arrays = _labelled(arrays)
        lengths = Counter(max(one.shape) for one in arrays if _is_usable(one))
        usual = lengths.most_common(1)[0][0] if lengths else 0
        # Text in every row names motions; other text says what the arrays are.
        usable = [one for one in arrays if _is_usable(one) or (_is_text(one) and one.shape[0] == usual)]
        fields = [_Field(one, _row_axis(one.shape, usual)) for one in usable]
        fields, longer = _of_one_length(fields)
        self._places = {name: (field, i) for field in fields for i, name in enumerate(field.columns)}
        self.column_names = tuple(self._places)
        if len(self.column_names) < sum(len(field.columns) for field in fields):
            names = [name for field in fields for name in field.columns]
            twice = sorted(name for name, count in Counter(names).items() if count > 1)
            raise InputError(
                "duplicate-column",
                found=f"column(s) {', '.join(twice[:6])} more than once",
                expected="unique names",
                place=Place(file=str(path)),
            )
        counts = {field.rows for field in fields}
        self.row_count: int | None = counts.pop() if len(counts) == 1 else None
        self.constants = {one.name: value for one in arrays if (value := _one_number(one)) is not None}
        self.left_out = (*(_told(one) for one in arrays if one not in usable), *left_out)
        turned = [field.array.name for field in fields if field.axis == 1 and min(field.array.shape) > 1]
        self.remarks: tuple[Finding, ...] = (
            (
                Finding(
                    Level.NOTE,
                    "transposed",
                    f"rows run along the second axis of {', '.join(turned[:8])}",
                    Place(file=str(path)),
                ),
            )
            if turned
            else ()
        )
        if longer:
            text = f"{', '.join(longer[:8])} have one row more than the others, the last, which is left out"
            note = Finding(Level.NOTE, "last-row", text, Place(file=str(path)))
            self.remarks = (*self.remarks, note)

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Columns of equally long arrays, the most columns first."""
        found: dict[int, list[str]] = {}
        for name, (field, _) in self._places.items():
            found.setdefault(field.rows, []).append(name)
        if len(found) == 1:
            return {"": self.column_names}
        ordered = sorted(found.items(), key=lambda item: -len(item[1]))
        return {f"{rows} rows": tuple(names) for rows, names in ordered}

    def info(self, column: str) -> ColumnInfo:
        """The array that a column is a part of."""
        field, _ = self._places[column]
        array = field.array
        return ColumnInfo(str(array.dtype), array.name, array.shape, array.unit, field.rows)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; raises InputError for columns of different lengths."""
        count = self._common_length(columns)
        end = count if stop is None else min(stop, count)
        for first in range(start, end, rows):
            last = min(first + rows, end)
            read: dict[int, Float] = {}
            batch: dict[str, Float | Text] = {}
            for name in columns:
                field, i = self._places[name]
                if _is_text(field.array):
                    with reading(self.path, f"array '{name}'"):
                        batch[name] = _coded(field.array.read(first, last, 0))
                    continue
                if id(field) not in read:
                    with reading(self.path, f"array '{field.array.name}'"):
                        read[id(field)] = field.read(first, last)
                batch[name] = np.ascontiguousarray(read[id(field)][:, i])
            yield batch

    def _common_length(self, columns: Sequence[str]) -> int:
        lengths = {self._places[name][0].rows: name for name in columns}
        if len(lengths) > 1:
            lengths_text = ", ".join(f"{name} ({rows} rows)" for rows, name in lengths.items())
            raise InputError(
                "different-lengths",
                found=f"columns of different lengths: {lengths_text}",
                expected="equally long ones, or a time column of their own",
                do='name the time of the others in their table under [log]: time = { column = "...", unit = "s" }',
                place=Place(file=str(self.path)),
            )
        return next(iter(lengths), 0)


class reading:  # noqa: N801  (a context manager, used as a function)
    """Turns whatever a reader of others' files raises into one InputError."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, DynidError) or not isinstance(error, Exception):
            return
        raise damaged(self.path, f"{self.what} that cannot be read", error) from error


def damaged(path: Path, what: str, error: Exception | None = None) -> InputError:
    """The error for a file that is not what it claims to be."""
    text = "" if error is None else f" ({' '.join(f'{type(error).__name__}: {error}'.split())[:160]})"
    return InputError(
        "damaged",
        found=what + text,
        expected="a whole file",
        do="copy or write it again",
        place=Place(file=str(path)),
    )


class Budget:
    """What the numbers of a file may take in memory: it is spent before memory is taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.left = self.most = max(LEAST_BUDGET, TIMES_FILE * self.size)

    def spend(self, size: int, what: str) -> None:
        """Takes this many bytes; raises RefusedError where more are asked for than are left."""
        self.left -= size
        if size < 0 or self.left < 0:
            raise RefusedError(
                "too-large",
                found=f"{what}, which makes {self.most - self.left} bytes of a file of {self.size}",
                expected=f"at most {self.most}",
                do="write the log without it, or in another format",
                place=Place(file=str(self.path)),
            )


def nbytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Of an array, as stored or as float64, whatever is more."""
    return prod(int(n) for n in shape) * max(dtype.itemsize, 8)


def fields_of(name: str, values: Array) -> list[StoredArray]:
    """A plain array, or the fields of a structured one; axes of length 1 of arrays with more than two are left out."""
    if values.dtype.names:
        return [
            one
            for part in values.dtype.names
            for one in fields_of(f"{name}.{part}" if name else part, values[part])
        ]
    plain = np.atleast_1d(values if values.ndim <= 2 else values.squeeze())
    return [StoredArray.of(name or "column", plain)]


def _labelled(arrays: Sequence[StoredArray]) -> list[StoredArray]:
    """The arrays, matrices without labels with those of a list of names that is as long as they are wide."""
    lists = [
        tuple(map(str, one.read(0, one.shape[0], 0)))
        for one in arrays
        if _is_text(one) and _NAMES.search(one.name)
    ]
    lists = [names for names in lists if len(set(names)) == len(names)]
    return [
        replace(one, labels=next((names for names in lists if len(names) in one.shape), ()))
        if len(one.shape) == 2 and not one.labels and one.dtype.kind in _NUMBERS
        else one
        for one in arrays
    ]


def _of_one_length(fields: Sequence[_Field]) -> tuple[list[_Field], list[str]]:
    """The fields without the last row of those that are one row longer than as many others, and how these are called.

    A rollout holds the state before each input and after the last one. Signals with a clock of their own are as long
    by chance: they are left as they are.
    """
    lengths = Counter(field.rows for field in fields if not _is_text(field.array))
    steps = [rows for rows in lengths if rows + 1 in lengths and rows >= _LEAST_ROWS]
    if len(steps) != 1:
        return list(fields), []
    rows = steps[0]
    short, long = ([one for one in fields if one.rows == count] for count in (rows, rows + 1))
    of_short, of_long = (_clocks(part, rows) for part in (short, long))
    # A value without its time, or a time without its value.
    if len(of_long) == len(long) or not _agree(list(of_short.values()), list(of_long.values())):
        return list(fields), []
    return [replace(one, most=rows) if one in long else one for one in fields], list(
        dict.fromkeys(one.array.name for one in long)
    )


def _clocks(fields: Sequence[_Field], rows: int) -> dict[str, Float]:
    """The first rows of what may be a clock: a single column that is called one, or ascends, whatever it is called."""
    found = {}
    for one in fields:
        if _is_text(one.array) or len(one.columns) > 1:
            continue
        try:
            values = one.read(0, rows)[:, 0]
        except Exception:  # whatever a damaged file makes of it: it is told where the array is read
            values = np.full(rows, np.nan)
        steps = np.diff(values)
        ascends = bool((steps >= 0).mean() >= 1 - _RUNS_BACK and (steps > 0).mean() >= _AHEAD)
        if ascends or _CLOCK.search(one.array.name):
            found[one.array.name] = values
    return found


def _agree(some: Sequence[Float], others: Sequence[Float]) -> bool:
    """Whether each clock (T,) of the signals with fewer says what one of the others' does; without any all agree."""
    fewer, more = sorted((some, others), key=len)
    return all(any(np.allclose(one, other, rtol=0.0, atol=_apart(one)) for other in more) for one in fewer)


def _apart(clock: Float) -> float:
    return _SAME_STEP * float(np.ptp(clock)) / len(clock)


def _row_axis(shape: tuple[int, ...], usual: int) -> int:
    if len(shape) == 1 or shape[0] == usual:
        return 0
    return int(shape[1] == usual or shape[1] > shape[0])


def _is_usable(one: StoredArray) -> bool:
    shape = one.shape
    return (
        one.dtype.kind in _NUMBERS + _TIMES
        and len(shape) in (1, 2)
        and max(shape) > 1
        and min(shape) >= 1
        and (len(shape) == 1 or min(shape) <= MAX_WIDTH)
    )


def _is_text(one: StoredArray) -> bool:
    return one.dtype.kind in "US" and len(one.shape) == 1 and one.shape[0] > 1


def _coded(values: Array) -> Text:
    names, codes = np.unique(values, return_inverse=True)
    text = [
        name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names.tolist()
    ]
    return Text(codes.astype(np.int64), tuple(text))


def _one_number(one: StoredArray) -> float | None:
    """The number of an array that holds one alone."""
    if one.dtype.kind not in _NUMBERS or prod(one.shape) != 1 or len(one.shape) > 2:
        return None
    try:
        return float(np.ravel(one.read(0, 1, 0))[0])
    except Exception:  # whatever a damaged file makes of it
        return None


def _told(one: StoredArray) -> str:
    if one.dtype.kind == "O":
        return f"{one.name}: Python objects, which are never loaded"
    if prod(one.shape) <= 1 and one.dtype.kind in _NUMBERS + "US" and len(one.shape) <= 2:
        try:
            values = np.ravel(one.read(0, 1, 0))
            return f"{one.name} = {values[0]}"[:SHOWN] if len(values) else f"{one.name}: empty"
        except Exception:  # whatever a damaged file makes of it: it is no column
            return f"{one.name}: one value"
    if one.dtype.kind in "US" and len(one.shape) == 1:
        return f"{one.name} = {', '.join(map(str, one.read(0, 16, 0)))}"[:SHOWN]
    shape = "x".join(map(str, one.shape))
    return f"{one.name}: {shape} of {one.dtype}"


# Messages one after the other, each a tree of named numbers, texts and lists, as arrays by name.

_MAX_DEPTH = 8
# What the entries of a list of trees call themselves by.
_OWN_NAMES = ("name", "joint_name", "joint")


def arrays_of(records: Sequence[Mapping[str, Any]]) -> tuple[list[StoredArray], list[str]]:
    """Arrays by path ("state.q"), a row for each record, and what is no array, in words.

    Numbers are columns, lists of numbers matrices, texts columns of text; what a record lacks is missing. Lists of
    texts that are the same in every record are the labels of lists of numbers that are equally long.
    """
    trees = [flat(one) for one in records]
    names = list(dict.fromkeys(name for one in trees for name in one))[:MAX_FIELDS]
    kept = {name: [one.get(name) for one in trees] for name in names}
    labels = {name: found for name, cells in kept.items() if (found := _labels(cells))}
    arrays, left_out = [], []
    for name, cells in kept.items():
        if name in labels:
            left_out.append(f"{name} = {', '.join(labels[name])}"[:60])
            continue
        values = _array(cells)
        if values is None:
            left_out.append(f"{name}: neither a number, a text, nor lists of equally many numbers")
            continue
        width = values.shape[1] if values.ndim == 2 else 0
        named = next((found for found in labels.values() if len(found) == width), ())
        arrays.append(StoredArray.of(name, values, named))
    return arrays, left_out


def flat(tree: Mapping[str, Any], path: str = "", depth: int = 0) -> dict[str, Any]:
    """The values of a tree by their paths, "state.q"."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            found |= flat(value, f"{name}.", depth + 1)
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            found |= _side_by_side(name, value)
        else:
            found[name] = value
    return found


def _side_by_side(name: str, trees: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A list of trees, one a joint: lists by their keys, with the joints' own names in brackets."""
    own = [
        next((str(tree[key]) for key in _OWN_NAMES if isinstance(tree.get(key), str)), "") for tree in trees
    ]
    shown = own if all(own) and len(set(own)) == len(own) else [str(k) for k in range(len(trees))]
    return {
        f"{name}.{key}[{joint}]": value
        for joint, tree in zip(shown, trees, strict=True)
        for key, value in tree.items()
        if key not in _OWN_NAMES and isinstance(value, int | float)
    }


def _labels(cells: Sequence[Any]) -> tuple[str, ...]:
    first = next((one for one in cells if one), None)
    if not isinstance(first, list) or not all(isinstance(one, str) for one in first):
        return ()
    same = all(one == first for one in cells if one is not None)
    return tuple(first) if same and len(set(first)) == len(first) else ()


def _array(cells: Sequence[Any]) -> Array | None:
    present = [one for one in cells if one is not None]
    if not present:
        return None
    if all(isinstance(one, int | float) for one in present):
        return np.array([np.nan if one is None else float(one) for one in cells])
    if all(isinstance(one, str) for one in present):
        return np.array(["" if one is None else one for one in cells])
    if not all(isinstance(one, list) for one in present):
        return None
    width = max(len(one) for one in present)
    if not 0 < width <= MAX_WIDTH:
        return None
    values = np.full((len(cells), width), np.nan)
    for k, one in enumerate(cells):
        if not one:  # a message without velocities, say
            continue
        if len(one) != width or not all(isinstance(x, int | float) or x is None for x in one):
            return None
        values[k] = [np.nan if x is None else float(x) for x in one]
    return values


# Lists of episodes, each of which holds its signals as equally long lists: one trajectory each.

# Rows of an episode: lists that are shorter are of joints, or of settings.
LEAST_ROWS = 20
# Signals that are equally long, at least: what is commanded and what came of it.
_LEAST_SIGNALS = 2
# What names the episode of each row; the second where a signal is called so.
_EPISODES_NAMES = ("episode", "number of the episode")


def are_episodes(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each record holds several signals as lists of equally many rows, and not the state at one moment.

    Messages hold lists, too, of joints or of a scanner's rays, beside a stamp that ascends from one to the next.
    """
    if not records or any(len(_signals(one)) < _LEAST_SIGNALS for one in map(flat, records)):
        return False
    numbers = [{name for name, one in record.items() if _is_number(one)} for record in records]
    shared = set.intersection(*numbers)
    return not any(
        len(records) > 2 and all(a[name] < b[name] for a, b in pairwise(records))
        for name in shared
        if not isinstance(records[0][name], int)  # numbers of episodes ascend as well
    )


def arrays_of_episodes(records: Sequence[Mapping[str, Any]]) -> tuple[list[StoredArray], list[str], str]:
    """Signals of all episodes one behind the other, what is none of them, and the array that names the episodes.

    Signals are those that each episode has in each of its rows.
    """
    found = [_signals(flat(one)) for one in records]
    shared = [name for name in found[0] if all(name in one for one in found)][:MAX_FIELDS]
    arrays = []
    for name in shared:
        parts = [one[name] for one in found]
        if len({part.shape[1:] for part in parts}) == 1:
            arrays.append(StoredArray.of(name, np.concatenate(parts)))
    taken = {one.name for one in arrays}
    episode = next(name for name in _EPISODES_NAMES if name not in taken)
    rows = [len(next(iter(one.values()))) for one in found]
    numbers = np.repeat([str(k + 1) for k in range(len(records))], rows)
    others = dict.fromkeys(name for one in records for name in flat(one) if name not in taken)
    left_out = [f"{name}: of episodes, not of rows" for name in others]
    return [*arrays, StoredArray.of(episode, numbers)], left_out, episode


def _signals(record: Mapping[str, Any]) -> dict[str, Array]:
    """Lists of numbers, or of lists of equally many numbers, that are as long as most are; () = too short."""
    lists = {name: one for name, one in record.items() if isinstance(one, list) and len(one) >= LEAST_ROWS}
    usual = Counter(map(len, lists.values())).most_common(1)
    found = {}
    for name, one in lists.items():
        if len(one) == usual[0][0] and (values := _numbers(one)) is not None:
            found[name] = values
    return found


def _numbers(cells: Sequence[Any]) -> Array | None:
    """(T,) or (T, k); None for what is none."""
    try:
        values = np.array([np.nan if one is None else one for one in cells], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values if values.ndim in (1, 2) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
