"""Logs with dynid's own column names, read without a mapping and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import InputError, Place, UsageError
from dynid.base.files import staged_files
from dynid.base.tables import arrow_array
from dynid.base.units import NO_UNITS, is_si, is_unit
from dynid.log.log import Channel, ChannelMap
from dynid.log.mapping import OF_SLIDES, OF_TURNS, columns_of
from dynid.robot.model import RobotModel

# Logs with dynid's own column names: t, q_<joint>, tau_<joint> and the others, in SI units.

# What is said of a log that lacks dynid's own names, of all columns or of efforts.
UNNAMED = ("no-mapping", "no-effort")


_OF_JOINTS = ("q", "dq", "tau", "q_des", "dq_des", "tau_ff", "theta", "dtheta", "theta_m", "dtheta_m")


def names_of(robot: RobotModel) -> set[str]:
    """All names that dynid gives columns of this robot itself."""
    return {"t", "traj", *(f"{signal}_{joint}" for signal in _OF_JOINTS for joint in robot.joint_names)}


def canonical_map(
    columns: tuple[str, ...],
    robot: RobotModel,
    file: str,
    extra: Sequence[str] = (),
    stated: Mapping[str, str] = MappingProxyType({}),
) -> ChannelMap:
    """The mapping of dynid's own column names: t, traj, q_<joint>, dq_<joint>, tau_<joint>, SI units.

    Where there is no tau_<joint>, commands may be there: q_des_<joint>, dq_des_<joint>, tau_ff_<joint>.

    theta_<joint> and dtheta_<joint>, the reflected motion of a motor that has its own encoder, may be there for some,
    or theta_m_<joint> and dtheta_m_<joint>, the motor's own.

    extra: further columns to read as channels of the same name, where the file has them.
    stated: units that the file itself states of its columns.

    Raises InputError with a [log] table to fill in when the columns are named otherwise, or stated in other units.
    """
    names = set(columns)
    needed = {"t"} | {f"q_{j}" for j in robot.joint_names}
    strange = _in_other_units(robot, stated)
    if not needed <= names or strange:
        listed = f"columns {', '.join(columns[:30])}{' ...' if len(columns) > 30 else ''}"
        raise InputError(
            "no-mapping",
            found=f"{listed}, {strange}" if strange else listed,
            expected="dynid's own names (t, q_<joint>, dq_<joint>, tau_<joint>) or a mapping",
            do=f"let `dynid init {robot.source or 'ROBOT'} {file}` write one, or give this table with units filled in, "
            "by --config or as mapping in Python:\n" + suggestion(columns, robot),
            place=Place(file=file),
        )

    def group(prefix: str, unit: str) -> dict[str, Channel]:  # of every joint, or of none
        have = all(f"{prefix}_{j}" in names for j in robot.joint_names)
        return {j: Channel(f"{prefix}_{j}", unit, 1.0) for j in robot.joint_names} if have else {}

    def some(prefix: str, unit: str) -> dict[str, Channel]:
        have = [j for j in robot.joint_names if f"{prefix}_{j}" in names]
        return {j: Channel(f"{prefix}_{j}", unit, 1.0) for j in have}

    effort = group("tau", "N m")
    commanded = {} if effort else group("q_des", "rad")
    effort = effort if commanded else some("tau", "N m")
    reflected = bool(some("theta", "rad"))
    own = "" if reflected else "_m"
    return ChannelMap(
        time=Channel("t", "s", 1.0),
        motor_position=some(f"theta{own}", "rad"),
        motor_velocity=some(f"dtheta{own}", "rad/s"),
        motor_side="link" if reflected else "motor",
        position=group("q", "rad"),
        velocity=group("dq", "rad/s"),
        effort=effort,
        command_position=commanded,
        command_velocity=group("dq_des", "rad/s") if commanded else {},
        command_effort=group("tau_ff", "N m") if commanded else {},
        effort_side=str(robot.drive.torque_side),
        trajectory="traj" if "traj" in names else None,
        extra={name: Channel(name, "1", 1.0) for name in extra if name in names},
    )


def _in_other_units(robot: RobotModel, stated: Mapping[str, str]) -> str:
    """The first column with one of dynid's own names that the file states in another unit than dynid's; "" = none."""
    slides = dict(zip(robot.joint_names, robot.prismatic, strict=True))
    own = {"t": ("time",)}
    for joint, slide in slides.items():
        for name, quantity in zip(("q", "dq", "tau"), OF_SLIDES if slide else OF_TURNS, strict=True):
            own[f"{name}_{joint}"] = (quantity,)
    for column, quantities in own.items():
        unit = stated.get(column, "").strip("[]() ")
        if is_unit(unit) and unit not in NO_UNITS and not is_si(unit, quantities):
            return f"'{column}' in {unit}"
    return ""


def completed(
    mapping: ChannelMap, columns: tuple[str, ...], robot: RobotModel, file: str, extra: Sequence[str] = ()
) -> ChannelMap:
    """The mapping with dynid's own columns, where the file has them, in place of what is left out.

    A mapping that names the columns of its positions is complete.    extra: as for canonical_map.

    Raises InputError if the file's columns are not dynid's own.
    """
    if not mapping.own_names:
        return mapping
    timed = columns if mapping.time.column == "t" else (*columns, "t")
    own = canonical_map(timed, robot, file, extra)
    moved = bool(mapping.motor_position)
    return replace(
        mapping,
        position=mapping.position or own.position,
        velocity=mapping.velocity or own.velocity,
        effort=mapping.effort or own.effort,
        command_position=mapping.command_position or own.command_position,
        command_velocity=mapping.command_velocity or own.command_velocity,
        command_effort=mapping.command_effort or own.command_effort,
        motor_position=mapping.motor_position or own.motor_position,
        motor_velocity=mapping.motor_velocity if moved else own.motor_velocity,
        motor_side=mapping.motor_side if moved else own.motor_side,
        trajectory=mapping.trajectory or own.trajectory,
        extra={**own.extra, **mapping.extra},
    )


def suggestion(columns: tuple[str, ...], robot: RobotModel) -> str:
    """A [log] table guessed from column names; units are left as ?, for they are never guessed."""

    def guess(patterns: tuple[str, ...]) -> str | None:
        for pattern in patterns:
            for template in (
                f"{pattern}{{number}}",
                f"{pattern}_{{number}}",
                f"{pattern}_{{joint}}",
                f"{{joint}}_{pattern}",
                f"{pattern}[{{index}}]",
            ):
                wanted = columns_of(template, robot.joint_names)
                if set(wanted) <= set(columns):
                    return template
        return None

    time = next((c for c in columns if c.lower() in ("t", "time", "timestamp", "stamp", "time_s")), "?")
    lines = ["[log]", f'time = {{ column = "{time}", unit = "?" }}']
    for quantity, patterns in (
        ("position", ("q", "pos", "position", "theta", "qm")),
        ("velocity", ("dq", "qd", "vel", "velocity", "dqm")),
        ("effort", ("tau", "effort", "torque", "i", "current", "tau_m")),
    ):
        template = guess(patterns)
        if template or quantity != "velocity":
            lines.append(f'{quantity} = {{ columns = "{template or "?"}", unit = "?" }}')
    return "\n".join(lines)


# Logs written in dynid's own column names, so that they open without a mapping.

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
