"""Make tables from arrays and data frames in memory, which are read like files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.base.tables import arrow_array
from dynid.log.log import ColumnInfo, Text
from dynid.log.readers.parquet import ArrowColumns, list_width

# Number of rows that are hashed together. It is fixed, so that the hash depends only on the values.
HASHED_ROWS = 65536
# Key in the [log] table and default unit of each kind of array.
KINDS = {
    "q": ("position", "rad"),
    "dq": ("velocity", "rad/s"),
    "tau": ("effort", "N m"),
    "theta": ("motor_position", "rad"),
    "dtheta": ("motor_velocity", "rad/s"),
    "temperature": ("temperature", "degC"),
    "q_des": ("command_position", "rad"),
    "dq_des": ("command_velocity", "rad/s"),
    "tau_ff": ("command_effort", "N m"),
}


class ArrowTable:
    """Log from an Arrow table, whose columns are converted like the columns of a Parquet file.

    Parameters
    ----------
    table : pyarrow.Table
        Table with the rows of the log.
    name : str
        Name of the log in messages and results.

    """

    remarks = ()

    def __init__(self, table: Any, name: str) -> None:
        self.path = Path(name)
        self._table = table
        self._columns = ArrowColumns(table.schema, self._list_width, self.path)
        self.column_names, self.left_out = self._columns.names, self._columns.left_out
        self.row_count: int | None = table.num_rows

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows."""
        end = self._table.num_rows if stop is None else min(stop, self._table.num_rows)
        sources = self._columns.sources(columns)
        for first in range(start, end, rows):
            part = self._table.slice(first, min(rows, end - first))
            yield self._columns.values(
                {name: _one_chunk(part.column(name)) for name in sources}, columns, first
            )

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Numeric columns and text columns."""
        return {"": self._columns.usable}

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column from the schema."""
        return self._columns.info(column, self.row_count)

    def _list_width(self, column: str) -> int | None:
        values = self._table.column(column)
        return int(values.type.list_size) if hasattr(values.type, "list_size") else list_width(values)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 over the names and values of all columns; numbers are hashed as float64."""
        total = hashlib.sha256()
        for name in self.column_names:
            total.update(f"{len(name)} {name} {self._table.num_rows}\n".encode())
            try:
                for batch in self.batches((name,), HASHED_ROWS):
                    _hash(total, batch[name])
            except InputError:  # hash the type of a column whose values cannot be read
                kind = self._table.schema.field(name).type
                total.update(str(kind).encode())
        return total.hexdigest()


def _one_chunk(column: Any) -> Any:
    # Combine the chunks of a column.
    import pyarrow as pa

    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _hash(total: Any, values: Float | Text) -> None:
    if isinstance(values, Text):
        for code in values.codes:
            cell = values.names[code] if code >= 0 else ""
            total.update(f"{len(cell)} {cell}\n".encode())
    else:
        total.update(np.ascontiguousarray(values).tobytes())


def frame_table(frame: Any, name: str) -> ArrowTable:
    """Make a table from a pandas, polars or Arrow frame, or from any object with Arrow's C stream interface.

    Raises UsageError for other objects.
    """
    import pyarrow as pa
    import pyarrow.types as kinds

    collect = getattr(frame, "collect", None)  # a lazy frame of polars
    eager = collect() if collect is not None and not hasattr(frame, "__arrow_c_stream__") else frame
    try:
        table = pa.Table.from_batches([eager]) if isinstance(eager, pa.RecordBatch) else pa.table(eager)
    except MemoryError:
        raise
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise UsageError(
            "not-a-frame",
            found=f"{type(frame).__name__} instead of a log",
            expected="a Log, or a data frame (pandas, polars or Arrow)",
            do="open a file with dynid.read_log(path, robot), or use dynid.Log.from_arrays for arrays",
        ) from error
    for place, field in enumerate(table.schema):
        kind = field.type
        if kinds.is_string_view(kind) or (
            kinds.is_dictionary(kind) and kinds.is_string_view(kind.value_type)
        ):
            table = table.set_column(place, field.name, _plain_text(table.column(place)))
    return ArrowTable(table, name)


def _plain_text(column: Any) -> Any:
    # Convert the string views of polars to a text type that all Arrow functions support.
    import pyarrow as pa

    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.large_string()))
            if isinstance(chunk, pa.DictionaryArray)
            else chunk.cast(pa.large_string())
            for chunk in column.chunks
        ]
    )


@dataclass(frozen=True, eq=False)
class Arrays:
    """Measured arrays of a robot, from which Log.from_arrays makes a log.

    Parameters
    ----------
    t : array_like, shape (n_samples,)
        Time.
    by_joint : mapping of str to array_like, shape (n_samples, n_joints)
        Arrays by name: q, dq, tau, theta, dtheta, temperature, q_des, dq_des or tau_ff. The shape may be (n_samples,)
        for a single joint.
    joint_names : sequence of str
        Joint of each column.
    trajectory : array_like of str, shape (n_samples,), optional
        Name of the motion of each row.
    extra : mapping of str to array_like, shape (n_samples,)
        Additional channels by name.

    """

    t: npt.ArrayLike
    by_joint: Mapping[str, npt.ArrayLike]
    joint_names: Sequence[str]
    trajectory: npt.ArrayLike | None
    extra: Mapping[str, npt.ArrayLike]

    def table(self, name: str) -> ArrowTable:
        """Copy the arrays to a table; raise UsageError if their shapes are inconsistent."""
        import pyarrow as pa

        T = len(_array(self.t, "t", 1))
        if reserved := sorted({"t", "traj"} & set(self.extra)):
            raise UsageError(
                "reserved-column",
                found=f"extra channel '{reserved[0]}'",
                expected="another name: t and trajectory are separate arguments",
            )
        data: dict[str, Any] = {"t": arrow_array(np.array(self.t, dtype=np.float64))}
        if self.trajectory is not None:
            labels = [str(label) for label in np.asarray(self.trajectory).tolist()]
            _check_rows("trajectory", (len(labels),), (T,))
            data["traj"] = pa.array(labels, pa.string()).dictionary_encode()
        for key, values in self.by_joint.items():
            array = _array(values, key, 2)
            _check_rows(key, array.shape, (T, len(self.joint_names)))
            for j, joint in enumerate(self.joint_names):
                data[f"{key}_{joint}"] = arrow_array(np.array(array[:, j]))
        for key, values in self.extra.items():
            array = _array(values, key, 1)
            _check_rows(key, array.shape, (T,))
            data[key] = arrow_array(np.array(array))
        return ArrowTable(pa.table(data), name)

    def section(self, units: Mapping[str, str]) -> dict[str, Any]:
        """Make the [log] table for the arrays, in SI units unless `units` states another unit.

        Raises UsageError if `units` contains an array that does not exist.
        """
        known = ("t", *self.by_joint, *self.extra)
        for key in units:
            if key not in known:
                raise UsageError(
                    "unknown-unit", found=f"a unit for '{key}'", expected="one of " + ", ".join(known)
                )
        section: dict[str, Any] = {"time": {"column": "t", "unit": units.get("t", "s")}}
        for key in self.by_joint:
            group, si = KINDS[key]
            section[group] = {"columns": f"{key}_{{joint}}", "unit": units.get(key, si)}
        section["extra"] = {key: {"column": key, "unit": units.get(key, "1")} for key in self.extra}
        return section | ({} if self.trajectory is None else {"trajectory": "traj"})


def _array(values: npt.ArrayLike, name: str, dimensions: int) -> Float:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "array-type",
            found=f"{name} with values that are not numbers ({error})",
            expected="an array of numbers",
        ) from error
    array = array[:, None] if array.ndim == 1 and dimensions == 2 else array
    if array.ndim != dimensions:
        expected = "(T,)" if dimensions == 1 else "(T, n)"
        raise UsageError("array-shape", found=f"{name} of shape {array.shape}", expected=expected)
    return array


def _check_rows(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise UsageError(
            "array-shape", found=f"{name} of shape {shape}", expected=f"{expected} to match t and the joints"
        )
