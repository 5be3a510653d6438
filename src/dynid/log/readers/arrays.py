"""Make tables from named arrays, from messages and from lists of episodes."""

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
from dynid.base.errors import DynidError, InputError, Place
from dynid.base.records import dataclass
from dynid.log.log import ColumnInfo, Text

# Read named arrays: a vector is a column, and a matrix has the columns name[0], name[1], ...

# Maximum number of columns of an array: robots have fewer joints, and images have more columns.
MAX_WIDTH = 512
MAX_FIELDS = 10_000  # maximum number of arrays in a file
SHOWN = 60  # maximum number of characters of a value in a message
# Names of a list of texts that are the column names of other arrays.
_NAMES = re.compile(r"names?|joints?|labels?|dofs?|columns?", re.IGNORECASE)
_NUMBERS = "fiub"
_CLOCK = re.compile(r"time|stamp|clock|(?<![a-z])t$", re.IGNORECASE)
# Of all steps of a clock, at most the share _RUNS_BACK is negative (where a motion ends), and at least the share _AHEAD
# is positive. Two clocks agree if they differ by less than _SAME_STEP mean steps.
_RUNS_BACK, _AHEAD, _SAME_STEP = 0.01, 0.5, 1e-3
_LEAST_ROWS = 100  # minimum number of rows of a recording; shorter arrays may be settings
_TIMES = "mM"  # NumPy kinds of durations and times

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredArray:
    """Array in a file, read on demand.

    Parameters
    ----------
    name : str
    shape : tuple of int
    dtype : numpy.dtype
    read : callable
        read(start, stop, axis) returns the entries start to stop along axis 0 or 1, as stored in the file.
    labels : tuple of str
        Column names; () if the file has none.
    unit : str
        Unit as written in the file.

    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int, int], Array]
    labels: tuple[str, ...] = ()
    unit: str = ""

    @staticmethod
    def of(name: str, values: Array, labels: tuple[str, ...] = (), unit: str = "") -> StoredArray:
        """Make a StoredArray from an array in memory."""

        def read(start: int, stop: int, axis: int) -> Array:
            return values[start:stop] if axis == 0 else values[:, start:stop]

        return StoredArray(name, values.shape, values.dtype, read, labels, unit)


@dataclass(frozen=True, eq=False)
class _Field:
    """Columns of an array whose rows run along `axis`; limited to the first `most` rows if given."""

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
        return (self.array.name,) if width == 1 else tuple(f"{self.array.name}[{label}]" for label in labels)

    def read(self, start: int, stop: int) -> Float:
        """Read the rows start to stop as an array (k, n_columns)."""
        values = self.array.read(start, stop, self.axis)
        values = values if values.ndim == 2 else values[:, None]
        values = values if self.axis == 0 else values.T
        if values.dtype.kind in _TIMES:  # convert to ns, the unit of times in Arrow tables
            kind = "datetime64[ns]" if values.dtype.kind == "M" else "timedelta64[ns]"
            values = values.astype(kind).astype(np.int64)
        return np.asarray(values, dtype=np.float64)


class ArrayTable:
    """Table with the arrays of a file as columns.

    Arrays of the same length share rows. Arrays that are one row longer share these rows, too: a simulation has one
    more state than inputs. The rows of a matrix run along the axis whose length is the most frequent length in the
    file, else along the longer axis.

    Parameters
    ----------
    path : Path
        Path of the file.
    arrays : sequence of StoredArray
        Arrays of the file.
    left_out : sequence of str
        One line of text for each other entry of the file.
    trajectory : str, optional
        Name of the array with the motion of each row.

    Raises
    ------
    InputError
        If two columns have the same name.

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
        lengths = Counter(max(array.shape) for array in arrays if _is_usable(array))
        usual = lengths.most_common(1)[0][0] if lengths else 0
        # A text array with one entry per row names the motion of each row; other text arrays are descriptions.
        usable = [
            array for array in arrays if _is_usable(array) or (_is_text(array) and array.shape[0] == usual)
        ]
        fields = [_Field(array, _row_axis(array.shape, usual)) for array in usable]
        fields, longer = _cut_to_one_length(fields)
        self._places = {name: (field, i) for field in fields for i, name in enumerate(field.columns)}
        self.column_names = tuple(self._places)
        if len(self.column_names) < sum(len(field.columns) for field in fields):
            names = [name for field in fields for name in field.columns]
            twice = sorted(name for name, count in Counter(names).items() if count > 1)
            raise InputError(
                "duplicate-column",
                found=f"duplicate column(s) {', '.join(twice[:6])}",
                expected="unique names",
                do="rename them in the file",
                place=Place(file=str(path)),
            )
        counts = {field.rows for field in fields}
        self.row_count: int | None = counts.pop() if len(counts) == 1 else None
        self.constants = {
            array.name: value for array in arrays if (value := _single_number(array)) is not None
        }
        self.left_out = (*(_left_out_text(array) for array in arrays if array not in usable), *left_out)
        turned = [field.array.name for field in fields if field.axis == 1 and min(field.array.shape) > 1]
        self.remarks: tuple[Finding, ...] = (
            (
                Finding(
                    Level.NOTE,
                    "transposed",
                    f"rows run along the second axis of {', '.join(turned[:8])}: transposed",
                    Place(file=str(path)),
                ),
            )
            if turned
            else ()
        )
        if longer:
            text = f"the last row of {', '.join(longer[:8])} is ignored: the other arrays are one row shorter"
            note = Finding(Level.NOTE, "last-row", text, Place(file=str(path)))
            self.remarks = (*self.remarks, note)

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Columns grouped by the number of rows of their arrays, the largest group first."""
        by_length: dict[int, list[str]] = {}
        for name, (field, _) in self._places.items():
            by_length.setdefault(field.rows, []).append(name)
        if len(by_length) == 1:
            return {"": self.column_names}
        ordered = sorted(by_length.items(), key=lambda item: -len(item[1]))
        return {f"{rows} rows": tuple(names) for rows, names in ordered}

    def info(self, column: str) -> ColumnInfo:
        """Metadata of the array that contains a column."""
        field, _ = self._places[column]
        array = field.array
        return ColumnInfo(str(array.dtype), array.name, array.shape, array.unit, field.rows)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows; raise InputError if their lengths differ."""
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
                expected="equal lengths, or a separate time column",
                do="name the time column of the others in their table under [log]: "
                'time = { column = "...", unit = "s" }',
                place=Place(file=str(self.path)),
            )
        return next(iter(lengths), 0)


class reading:  # noqa: N801  (a context manager, used as a function)
    """Context manager that converts any error of a third-party reader to an InputError.

    Parameters
    ----------
    path : Path
        Path of the file.
    subject : str
        Part of the file that is read, which the message names.

    """

    def __init__(self, path: Path, subject: str) -> None:
        self.path, self.subject = path, subject

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, DynidError) or not isinstance(error, Exception):
            return
        raise damaged(self.path, f"{self.subject} that cannot be read", error) from error


def damaged(path: Path, finding: str, error: Exception | None = None) -> InputError:
    """Error for a damaged file.

    Parameters
    ----------
    path : Path
        Path of the file.
    finding : str
        Text that describes the damage.
    error : Exception, optional
        Cause; the message quotes its text.

    """
    text = "" if error is None else f" ({' '.join(f'{type(error).__name__}: {error}'.split())[:160]})"
    return InputError(
        "damaged",
        found=finding + text,
        expected="an undamaged file",
        do="copy or export it again",
        place=Place(file=str(path)),
    )


def nbytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """Size of an array in bytes, as stored or as float64, whichever is larger."""
    return prod(int(n) for n in shape) * max(dtype.itemsize, 8)


def fields_of(name: str, values: Array) -> list[StoredArray]:
    """Split a structured array into its fields; remove axes of length 1 from arrays with more than two axes."""
    if values.dtype.names:
        return [
            array
            for part in values.dtype.names
            for array in fields_of(f"{name}.{part}" if name else part, values[part])
        ]
    plain = np.atleast_1d(values if values.ndim <= 2 else values.squeeze())
    return [StoredArray.of(name or "column", plain)]


def _labelled(arrays: Sequence[StoredArray]) -> list[StoredArray]:
    """Label the columns of unlabelled matrices with a list of names in the file that has the same length."""
    lists = [
        tuple(map(str, array.read(0, array.shape[0], 0)))
        for array in arrays
        if _is_text(array) and _NAMES.search(array.name)
    ]
    lists = [names for names in lists if len(set(names)) == len(names)]
    return [
        replace(array, labels=next((names for names in lists if len(names) in array.shape), ()))
        if len(array.shape) == 2 and not array.labels and array.dtype.kind in _NUMBERS
        else array
        for array in arrays
    ]


def _cut_to_one_length(fields: Sequence[_Field]) -> tuple[list[_Field], list[str]]:
    """Remove the last row of fields that are one row longer than the others.

    A simulated trajectory contains the state before each input and the state after the last input. Signals with a
    separate clock may be one row longer by chance, and keep their last row.

    Returns
    -------
    fields : list of _Field
        All fields.
    cut : list of str
        Names of the arrays without their last row.

    """
    lengths = Counter(field.rows for field in fields if not _is_text(field.array))
    steps = [rows for rows in lengths if rows + 1 in lengths and rows >= _LEAST_ROWS]
    if len(steps) != 1:
        return list(fields), []
    rows = steps[0]
    short, long = ([field for field in fields if field.rows == count] for count in (rows, rows + 1))
    of_short, of_long = (_clocks(part, rows) for part in (short, long))
    # Do not remove the row if this would separate values from their times, or pair clocks that differ.
    if len(of_long) == len(long) or not _clocks_agree(list(of_short.values()), list(of_long.values())):
        return list(fields), []
    return [replace(field, most=rows) if field in long else field for field in fields], list(
        dict.fromkeys(field.array.name for field in long)
    )


def _clocks(fields: Sequence[_Field], rows: int) -> dict[str, Float]:
    """First rows of each field that may be a clock: a single column that is named like a clock or ascends."""
    clocks = {}
    for field in fields:
        if _is_text(field.array) or len(field.columns) > 1:
            continue
        try:
            values = field.read(0, rows)[:, 0]
        except Exception:  # an error due to a damaged file is reported when the log is read
            values = np.full(rows, np.nan)
        steps = np.diff(values)
        ascends = bool((steps >= 0).mean() >= 1 - _RUNS_BACK and (steps > 0).mean() >= _AHEAD)
        if ascends or _CLOCK.search(field.array.name):
            clocks[field.array.name] = values
    return clocks


def _clocks_agree(some: Sequence[Float], others: Sequence[Float]) -> bool:
    """Whether each clock (T,) of the smaller set equals a clock of the larger set; True if a set is empty."""
    fewer, more = sorted((some, others), key=len)
    return all(
        any(np.allclose(clock, other, rtol=0.0, atol=_clock_tolerance(clock)) for other in more)
        for clock in fewer
    )


def _clock_tolerance(clock: Float) -> float:
    return _SAME_STEP * float(np.ptp(clock)) / len(clock)


def _row_axis(shape: tuple[int, ...], usual: int) -> int:
    if len(shape) == 1 or shape[0] == usual:
        return 0
    return int(shape[1] == usual or shape[1] > shape[0])


def _is_usable(array: StoredArray) -> bool:
    shape = array.shape
    return (
        array.dtype.kind in _NUMBERS + _TIMES
        and len(shape) in (1, 2)
        and max(shape) > 1
        and min(shape) >= 1
        and (len(shape) == 1 or min(shape) <= MAX_WIDTH)
    )


def _is_text(array: StoredArray) -> bool:
    return array.dtype.kind in "US" and len(array.shape) == 1 and array.shape[0] > 1


def _coded(values: Array) -> Text:
    names, codes = np.unique(values, return_inverse=True)
    text = [
        name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names.tolist()
    ]
    return Text(codes.astype(np.int64), tuple(text))


def _single_number(array: StoredArray) -> float | None:
    """Value of an array that contains a single number; None for other arrays."""
    if array.dtype.kind not in _NUMBERS or prod(array.shape) != 1 or len(array.shape) > 2:
        return None
    try:
        return float(np.ravel(array.read(0, 1, 0))[0])
    except Exception:  # a damaged file can raise any error
        return None


def _left_out_text(array: StoredArray) -> str:
    if array.dtype.kind == "O":
        return f"{array.name}: Python objects, which are never loaded"
    if prod(array.shape) <= 1 and array.dtype.kind in _NUMBERS + "US" and len(array.shape) <= 2:
        try:
            values = np.ravel(array.read(0, 1, 0))
            return f"{array.name} = {values[0]}"[:SHOWN] if len(values) else f"{array.name}: empty"
        except Exception:  # a damaged file can raise any error, which is irrelevant here: this is no column
            return f"{array.name}: one value"
    if array.dtype.kind in "US" and len(array.shape) == 1:
        return f"{array.name} = {', '.join(map(str, array.read(0, 16, 0)))}"[:SHOWN]
    shape = "x".join(map(str, array.shape))
    return f"{array.name}: {shape} of {array.dtype}"


# Convert sequences of messages to named arrays. Each message is a tree of named numbers, texts and lists.

_MAX_DEPTH = 8  # maximum nesting of a tree
# Keys with the name of each entry in a list of trees.
_OWN_NAMES = ("name", "joint_name", "joint")


def arrays_of(records: Sequence[Mapping[str, Any]]) -> tuple[list[StoredArray], list[str]]:
    """Convert records to arrays named by their path ("state.q"), with one row per record.

    Numbers become columns, lists of numbers become matrices, and texts become text columns. If a record lacks an entry,
    its value is missing. If a list of texts is the same in every record, it labels the lists of numbers of the same
    length.

    Parameters
    ----------
    records : sequence of mapping
        Nested records.

    Returns
    -------
    arrays : list of StoredArray
        Arrays with one row per record.
    left_out : list of str
        One line of text for each entry that is not an array.

    """
    trees = [flat(record) for record in records]
    names = list(dict.fromkeys(name for tree in trees for name in tree))[:MAX_FIELDS]
    kept = {name: [tree.get(name) for tree in trees] for name in names}
    labels = {name: texts for name, cells in kept.items() if (texts := _labels(cells))}
    arrays, left_out = [], []
    for name, cells in kept.items():
        if name in labels:
            left_out.append(f"{name} = {', '.join(labels[name])}"[:60])
            continue
        values = _array(cells)
        if values is None:
            left_out.append(f"{name}: neither a number, a text, nor lists of equal length")
            continue
        width = values.shape[1] if values.ndim == 2 else 0
        named = next((texts for texts in labels.values() if len(texts) == width), ())
        arrays.append(StoredArray.of(name, values, named))
    return arrays, left_out


def flat(tree: Mapping[str, Any], path: str = "", depth: int = 0) -> dict[str, Any]:
    """Flatten a tree to a mapping from paths (for example, "state.q") to values."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            leaves |= flat(value, f"{name}.", depth + 1)
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            leaves |= _side_by_side(name, value)
        else:
            leaves[name] = value
    return leaves


def _side_by_side(name: str, trees: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Flatten a list with one tree per joint to a mapping name.key[joint] -> value."""
    labels = [
        next((str(tree[key]) for key in _OWN_NAMES if isinstance(tree.get(key), str)), "") for tree in trees
    ]
    shown = labels if all(labels) and len(set(labels)) == len(labels) else [str(k) for k in range(len(trees))]
    return {
        f"{name}.{key}[{joint}]": value
        for joint, tree in zip(shown, trees, strict=True)
        for key, value in tree.items()
        if key not in _OWN_NAMES and isinstance(value, int | float)
    }


def _labels(cells: Sequence[Any]) -> tuple[str, ...]:
    first = next((cell for cell in cells if cell), None)
    if not isinstance(first, list) or not all(isinstance(text, str) for text in first):
        return ()
    same = all(cell == first for cell in cells if cell is not None)
    return tuple(first) if same and len(set(first)) == len(first) else ()


def _array(cells: Sequence[Any]) -> Array | None:
    present = [cell for cell in cells if cell is not None]
    if not present:
        return None
    if all(isinstance(cell, int | float) for cell in present):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    if all(isinstance(cell, str) for cell in present):
        return np.array(["" if cell is None else cell for cell in cells])
    if not all(isinstance(cell, list) for cell in present):
        return None
    width = max(len(cell) for cell in present)
    if not 0 < width <= MAX_WIDTH:
        return None
    values = np.full((len(cells), width), np.nan)
    for k, cell in enumerate(cells):
        if not cell:  # for example, a message without velocities
            continue
        if len(cell) != width or not all(isinstance(x, int | float) or x is None for x in cell):
            return None
        values[k] = [np.nan if x is None else float(x) for x in cell]
    return values


# Convert lists of episodes. An episode has its signals as lists of equal length and becomes a trajectory.

# Minimum number of rows of an episode. A shorter list has values per joint, or settings.
LEAST_ROWS = 20
# Minimum number of signals of equal length: the command and the response.
_LEAST_SIGNALS = 2
# Name of the array with the episode of each row; the second name is used if a signal has the first name.
_EPISODES_NAMES = ("episode", "number of the episode")


def are_episodes(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each record is an episode with several signals of equal length, instead of a state at a single time.

    A message may also contain lists (for example, one value per joint or per ray of a scanner), but its time stamp
    ascends from message to message.
    """
    if not records or any(len(_signals(record)) < _LEAST_SIGNALS for record in map(flat, records)):
        return False
    numbers = [{name for name, value in record.items() if _is_number(value)} for record in records]
    shared = set.intersection(*numbers)
    return not any(
        len(records) > 2 and all(a[name] < b[name] for a, b in pairwise(records))
        for name in shared
        if not isinstance(records[0][name], int)  # episode numbers ascend as well
    )


def arrays_of_episodes(records: Sequence[Mapping[str, Any]]) -> tuple[list[StoredArray], list[str], str]:
    """Concatenate the signals of all episodes.

    Parameters
    ----------
    records : sequence of mapping
        Episodes.

    Returns
    -------
    arrays : list of StoredArray
        Signals that occur in every episode, and the array with the episode of each row.
    left_out : list of str
        One line of text for each other entry.
    episode : str
        Name of the array with the episode of each row.

    """
    episodes = [_signals(flat(record)) for record in records]
    shared = [name for name in episodes[0] if all(name in signals for signals in episodes)][:MAX_FIELDS]
    arrays = []
    for name in shared:
        parts = [signals[name] for signals in episodes]
        if len({part.shape[1:] for part in parts}) == 1:
            arrays.append(StoredArray.of(name, np.concatenate(parts)))
    taken = {array.name for array in arrays}
    episode = next(name for name in _EPISODES_NAMES if name not in taken)
    rows = [len(next(iter(signals.values()))) for signals in episodes]
    numbers = np.repeat([str(k + 1) for k in range(len(records))], rows)
    others = dict.fromkeys(name for record in records for name in flat(record) if name not in taken)
    left_out = [f"{name}: per episode, not per row" for name in others]
    return [*arrays, StoredArray.of(episode, numbers)], left_out, episode


def _signals(record: Mapping[str, Any]) -> dict[str, Array]:
    """Lists of numbers, or of lists of equal length, whose length is the most frequent length in the record."""
    lists = {
        name: cells for name, cells in record.items() if isinstance(cells, list) and len(cells) >= LEAST_ROWS
    }
    usual = Counter(map(len, lists.values())).most_common(1)
    signals = {}
    for name, cells in lists.items():
        if len(cells) == usual[0][0] and (values := _numbers(cells)) is not None:
            signals[name] = values
    return signals


def _numbers(cells: Sequence[Any]) -> Array | None:
    """Convert cells to an array (T,) or (T, k); None if they are not numbers."""
    try:
        values = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return values if values.ndim in (1, 2) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
