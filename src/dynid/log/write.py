"""Logs written in dynid's own column names, so that they open without a mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.arrow import arrow_array
from dynid.base.atomic_write import staged_files
from dynid.base.errors import UsageError

_PARQUET, _CSV = (".parquet", ".pq"), (".csv",)
_ROW_GROUP = 65536


def canonical_columns(
    joint_names: Sequence[str],
    q: Float,
    dq: Float | None = None,
    tau: Float | None = None,
    theta: Float | None = None,
    dtheta: Float | None = None,
) -> dict[str, Float]:
    """Columns q_<joint>, dq_<joint>, tau_<joint> of motion and joint effort, each (T, n), SI.

    theta, dtheta: reflected motion of the motors of elastic joints, columns theta_<joint> and dtheta_<joint>.
    """
    columns: dict[str, Float] = {}
    for prefix, values in (("q", q), ("dq", dq), ("tau", tau), ("theta", theta), ("dtheta", dtheta)):
        if values is not None:
            if np.ndim(values) != 2 or np.shape(values)[1] != len(joint_names):
                raise UsageError(
                    "array-shape",
                    found=f"{prefix} of shape {np.shape(values)}",
                    expected=f"(T, {len(joint_names)})",
                )
            columns |= {f"{prefix}_{joint}": values[:, j] for j, joint in enumerate(joint_names)}
    return columns


def write_log(
    path: str | Path,
    t: Float,
    columns: Mapping[str, Float],
    trajectory: str | Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Writes a log as Parquet (zstd) or CSV, by the ending, as a whole or not at all; returns its path.

    t: (T,) s.    columns: name -> (T,), in SI; dynid's own names are those of canonical_columns.
    trajectory: its name, or one name a row; becomes the column `traj`; rows of one name must be together.
    metadata: text by name, kept in the Parquet schema; a CSV file has no place for it.

    An existing file is replaced.
    Raises UsageError for another ending, columns of unequal length, reserved names or metadata for CSV,
    ResourceError if the file cannot be written.
    """
    target = Path(path)
    _check(target, t, columns, trajectory, metadata)
    with staged_files(target) as (scratch,):
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(_table(t, columns, trajectory, metadata), scratch, target.suffix.lower() in _CSV)
    return target


def _check(
    target: Path,
    t: Float,
    columns: Mapping[str, Float],
    trajectory: str | Sequence[str] | None,
    metadata: Mapping[str, str] | None,
) -> None:
    ending = target.suffix.lower()
    if ending not in _PARQUET + _CSV:
        raise UsageError(
            "log-ending", found=f"log '{target.name}'", expected="a name that ends in .parquet, .pq or .csv"
        )
    if metadata and ending in _CSV:
        raise UsageError(
            "csv-metadata", found="metadata for a CSV file", expected="none", do="write Parquet to keep it"
        )
    reserved = sorted({"t", "traj"} & set(columns))
    if reserved:
        raise UsageError(
            "reserved-column",
            found=f"column '{reserved[0]}'",
            expected="t and traj as arguments of their own",
        )
    T = np.shape(t)
    if len(T) != 1:
        raise UsageError("array-shape", found=f"t of shape {T}", expected="(T,)")
    for name, values in columns.items():
        if np.shape(values) != T:
            raise UsageError(
                "array-shape", found=f"column '{name}' of shape {np.shape(values)}", expected=f"{T}"
            )
    if trajectory is not None and not isinstance(trajectory, str) and len(trajectory) != T[0]:
        raise UsageError(
            "array-shape", found=f"{len(trajectory)} trajectory names", expected=f"one name, or {T[0]}"
        )


def _table(
    t: Float,
    columns: Mapping[str, Float],
    trajectory: str | Sequence[str] | None,
    metadata: Mapping[str, str] | None,
) -> Any:
    import pyarrow as pa

    data: dict[str, Any] = {"t": arrow_array(np.asarray(t, dtype=np.float64))}
    if trajectory is not None:
        names = [trajectory] * len(t) if isinstance(trajectory, str) else list(trajectory)
        data["traj"] = pa.array(names, pa.string()).dictionary_encode()
    data |= {name: arrow_array(np.asarray(values, dtype=np.float64)) for name, values in columns.items()}
    return pa.table(data).replace_schema_metadata(dict(metadata) if metadata else None)


def _write(table: Any, scratch: Path, as_csv: bool) -> None:
    if as_csv:
        from pyarrow import csv

        plain = (
            table.set_column(1, "traj", table["traj"].cast("string"))
            if "traj" in table.column_names
            else table
        )
        csv.write_csv(plain, scratch, csv.WriteOptions(quoting_style="needed"))
    else:
        import pyarrow.parquet as pq

        pq.write_table(
            table, scratch, compression="zstd", row_group_size=_ROW_GROUP, write_page_checksum=True
        )
