"""Map logs with dynid's standard column names, and write logs with these names."""

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

# Map a log whose columns have dynid's standard names (t, q_<joint>, tau_<joint>, ...) and SI units.

# Error codes of a log without standard names, or without standard names of efforts.
UNNAMED = ("no-mapping", "no-effort")


_OF_JOINTS = ("q", "dq", "tau", "q_des", "dq_des", "tau_ff", "theta", "dtheta", "theta_m", "dtheta_m")


def names_of(robot: RobotModel) -> set[str]:
    """All standard column names for a robot."""
    return {"t", "traj", *(f"{signal}_{joint}" for signal in _OF_JOINTS for joint in robot.joint_names)}


def canonical_map(
    columns: tuple[str, ...],
    robot: RobotModel,
    file: str,
    extra: Sequence[str] = (),
    stated: Mapping[str, str] = MappingProxyType({}),
) -> ChannelMap:
    """Make the mapping of dynid's standard column names: t, traj, q_<joint>, dq_<joint>, tau_<joint>, in SI units.

    Instead of tau_<joint>, the log may contain commands: q_des_<joint>, dq_des_<joint>, tau_ff_<joint>. If motors have
    encoders, the log may contain theta_<joint> and dtheta_<joint> (motor motion divided by the gear ratio), or
    theta_m_<joint> and dtheta_m_<joint> (motor motion).

    Parameters
    ----------
    columns : tuple of str
        Columns of the log.
    robot : RobotModel
        Robot of the log.
    file : str
        Name of the log, for messages.
    extra : sequence of str
        Additional columns to read as channels of the same name, if the file has them.
    stated : mapping of str to str
        Units that the file states for its columns.

    Returns
    -------
    ChannelMap

    Raises
    ------
    InputError
        If the columns have other names or units; the message contains a [log] table for the user to complete.

    """
    names = set(columns)
    needed = {"t"} | {f"q_{j}" for j in robot.joint_names}
    strange = _in_other_units(robot, stated)
    if not needed <= names or strange:
        listed = f"columns {', '.join(columns[:30])}{' ...' if len(columns) > 30 else ''}"
        raise InputError(
            "no-mapping",
            found=f"{listed}, {strange}" if strange else listed,
            expected="dynid's standard names (t, q_<joint>, dq_<joint>, tau_<joint>) or a mapping",
            do=f"write a mapping with `dynid init {robot.source or 'ROBOT'} {file}`, or fill in the units of this "
            "table and pass it with --config or as mapping in Python:\n" + suggestion(columns, robot),
            place=Place(file=file),
        )

    def group(prefix: str, unit: str) -> dict[str, Channel]:  # for all joints; empty if a joint has no column
        have = all(f"{prefix}_{j}" in names for j in robot.joint_names)
        return {j: Channel(f"{prefix}_{j}", unit, 1.0) for j in robot.joint_names} if have else {}

    def some(prefix: str, unit: str) -> dict[str, Channel]:
        have = [j for j in robot.joint_names if f"{prefix}_{j}" in names]
        return {j: Channel(f"{prefix}_{j}", unit, 1.0) for j in have}

    effort = group("tau", "N m")
    commanded = {} if effort else group("q_des", "rad")
    effort = effort if commanded else some("tau", "N m")
    reflected = bool(some("theta", "rad"))
    suffix = "" if reflected else "_m"
    return ChannelMap(
        time=Channel("t", "s", 1.0),
        motor_position=some(f"theta{suffix}", "rad"),
        motor_velocity=some(f"dtheta{suffix}", "rad/s"),
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
    """Text that names the first standard column with a unit other than SI in the file; "" if there is none."""
    slides = dict(zip(robot.joint_names, robot.prismatic, strict=True))
    quantities_of = {"t": ("time",)}
    for joint, slide in slides.items():
        for name, quantity in zip(("q", "dq", "tau"), OF_SLIDES if slide else OF_TURNS, strict=True):
            quantities_of[f"{name}_{joint}"] = (quantity,)
    for column, quantities in quantities_of.items():
        unit = stated.get(column, "").strip("[]() ")
        if is_unit(unit) and unit not in NO_UNITS and not is_si(unit, quantities):
            return f"'{column}' in {unit}"
    return ""


def completed(
    mapping: ChannelMap, columns: tuple[str, ...], robot: RobotModel, file: str, extra: Sequence[str] = ()
) -> ChannelMap:
    """Complete a mapping with dynid's standard columns, if the file has them.

    A mapping that names the columns of its positions is complete.

    Parameters
    ----------
    mapping : ChannelMap
        Mapping to complete.
    columns : tuple of str
        Columns of the log.
    robot : RobotModel
        Robot of the log.
    file : str
        Name of the log, for messages.
    extra : sequence of str
        As for canonical_map.

    Raises
    ------
    InputError
        If the file does not have the standard columns.

    """
    if not mapping.own_names:
        return mapping
    timed = columns if mapping.time.column == "t" else (*columns, "t")
    canonical = canonical_map(timed, robot, file, extra)
    moved = bool(mapping.motor_position)
    return replace(
        mapping,
        position=mapping.position or canonical.position,
        velocity=mapping.velocity or canonical.velocity,
        effort=mapping.effort or canonical.effort,
        command_position=mapping.command_position or canonical.command_position,
        command_velocity=mapping.command_velocity or canonical.command_velocity,
        command_effort=mapping.command_effort or canonical.command_effort,
        motor_position=mapping.motor_position or canonical.motor_position,
        motor_velocity=mapping.motor_velocity if moved else canonical.motor_velocity,
        motor_side=mapping.motor_side if moved else canonical.motor_side,
        trajectory=mapping.trajectory or canonical.trajectory,
        extra={**canonical.extra, **mapping.extra},
    )


def suggestion(columns: tuple[str, ...], robot: RobotModel) -> str:
    """Draft of a [log] table with columns guessed from their names; all units are "?", because dynid guesses none."""

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


# Write logs with dynid's standard column names, which need no mapping.

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
    """Name the columns of joint motion and effort q_<joint>, dq_<joint>, tau_<joint>.

    Parameters
    ----------
    joint_names : sequence of str
        Names of the joints.
    q, dq, tau : ndarray, shape (n_samples, n_joints), rad, rad/s, N m (m, m/s, N)
        Positions, and optionally velocities and torques.
    theta, dtheta : ndarray, shape (n_samples, n_joints), rad, rad/s, optional
        Motor motion of elastic joints divided by the gear ratio, for columns theta_<joint> and dtheta_<joint>.

    Returns
    -------
    dict of str to ndarray, shape (n_samples,)

    Raises
    ------
    UsageError
        If an array has another shape.

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
    """Write a log as Parquet (zstd) or CSV, depending on the suffix; an existing file is replaced atomically.

    Parameters
    ----------
    path : str or Path
        File ending in .parquet, .pq or .csv.
    t : ndarray, shape (n_samples,), s
        Time.
    columns : mapping of str to ndarray, shape (n_samples,)
        Values of each column in SI units; `canonical_columns` gives the standard names.
    trajectory : str or sequence of str, optional
        Name of the trajectory, or of the trajectory of each row, for the column `traj`. Rows with the same name must be
        contiguous.
    metadata : mapping of str to str, optional
        Metadata for the Parquet schema; not possible for CSV.

    Returns
    -------
    Path
        Path of the log.

    Raises
    ------
    UsageError
        If the suffix is unknown, the lengths of the columns differ, a name is reserved, or CSV has metadata.
    ResourceError
        If the file cannot be written.

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
            "log-ending", found=f"log '{target.name}'", expected="a name ending in .parquet, .pq or .csv"
        )
    if metadata and ending in _CSV:
        raise UsageError(
            "csv-metadata",
            found="metadata for a CSV file",
            expected="no metadata, since CSV cannot store it",
            do="write Parquet",
        )
    reserved = sorted({"t", "traj"} & set(columns))
    if reserved:
        raise UsageError(
            "reserved-column",
            found=f"column '{reserved[0]}'",
            expected="other names: t and traj are separate arguments",
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
