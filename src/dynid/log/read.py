"""Logs opened for reading: files, their trajectories, and chunks of rows in SI units on the joints' side."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic
from dynid.base.errors import InputError, InputErrors, Place, ResourceError, UsageError
from dynid.base.registry import Registry
from dynid.log.bag import BAG_READERS, is_bag_folder, joints_of_columns, open_bag_folder
from dynid.log.bag_files import bag_files
from dynid.log.csv import CsvReader
from dynid.log.log import Channel, ChannelMap, LogReader, ManyTopics, RawChunk, Table, Trajectory
from dynid.log.mapping import canonical_map, completed
from dynid.log.parquet import ParquetReader
from dynid.log.selection import ROWS, Selection, column_numbers, selected, trajectories_in
from dynid.robot.model import RobotModel

# Asked in this order, registered ones first; the last one takes any text. A plug-in names its reader after the suffix
# of the files, without the dot.
READERS: Registry[LogReader] = Registry(
    "reader", "dynid.readers", {one.name: one for one in (ParquetReader(), *BAG_READERS, CsvReader())}
)


def read_log(
    paths: str | Path | Sequence[str | Path],
    robot: RobotModel,
    mapping: ChannelMap | None = None,
    select: Sequence[Selection | str] = (Selection(),),
    extra: Sequence[str] = (),
    topics: Sequence[str] = (),
) -> Log:
    """Opens one or several logs of a robot: CSV, Parquet, ROS bags, MCAP files, folders of rosbag2.

    mapping: which column measures what; None = dynid's own column names (t, traj, q_<joint>, dq_<joint>, tau_<joint>).
    select: trajectories to use, by name or glob, in whole or in part.
    extra: further columns that terms of the model read, for a log with dynid's own column names.
    topics: of bags, where the joint states are; those of the mapping, or else the only fitting one, where not given.

    Raises InputError for files, columns or trajectories that do not exist or cannot be read.
    """
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if not files:
        raise UsageError("no-log", found="no log file", expected="at least one")
    if len({file.resolve() for file in files}) < len(files):
        raise UsageError("log-twice", found="the same log file twice", expected="each file once")
    delimiter, decimal = (mapping.delimiter, mapping.decimal) if mapping else (",", ".")
    tables = [open_table(file, delimiter, decimal) for file in files]
    joints, named = _joints_and_topics(robot, mapping)
    tables = [_of_joints(table, joints, topics or named) for table in tables]
    columns = tables[0].column_names
    if mapping is None:
        chosen = canonical_map(columns, robot, str(files[0]), extra)
    else:
        chosen = completed(mapping, columns, robot, str(files[0]), extra)
    for table in tables:
        _require_columns(table, chosen)
    tables = [_of_columns(table, _columns(chosen)) for table in tables]
    found = trajectories_in(tables, chosen)
    wanted = [Selection(one) if isinstance(one, str) else one for one in select]
    return Log(robot, chosen, tuple(tables), tuple(selected(found, wanted)))


def open_table(path: Path, delimiter: str = ",", decimal: str = ".") -> Table:
    """Opens a file with the reader that knows its first bytes; raises InputError if there is none."""
    place = Place(file=str(path))
    if not path.exists():
        raise InputError("file-missing", found="no such file", expected="a log file", place=place)
    if path.is_dir():
        if is_bag_folder(path):
            return open_bag_folder(path)
        parts = [one for one in bag_files(path) if one.suffix in (".mcap", ".db3")]
        raise InputError(
            "file-missing",
            found="a folder",
            expected="a log file, or a folder of rosbag2 with its metadata.yaml",
            do=f"give {parts[0].name} in it, or restore metadata.yaml with `ros2 bag reindex`"
            if parts
            else "",
            place=place,
        )
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        found = error.strerror or str(error)
        raise ResourceError(
            "file-unreadable", found=f"'{found}'", expected="a log file", place=place
        ) from error
    if not head.strip():
        raise InputError("file-empty", found="an empty file", expected="a log", place=place)
    readers = _readers(path.suffix.lower())
    for reader in readers:
        if reader.can_read(head):
            named = [one for one in readers if path.suffix.lower() in one.suffixes]
            if named and named[0] is not reader:
                raise InputError(
                    "magic",
                    found=f"a file that ends in '{path.suffix}' and starts like {reader.name}",
                    expected=f"{named[0].name}, as its name says",
                    do="rename it to what it is",
                    place=place,
                )
            return reader.open(path, delimiter, decimal)
    known = ", ".join(reader.name for reader in readers)
    raise InputError("log-format", found=f"a file that starts with {head[:8]!r}", expected=known, place=place)


def _readers(suffix: str) -> list[LogReader]:
    own = list(READERS.builtin.values())
    if suffix and not any(suffix in one.suffixes for one in own):
        READERS.get(suffix[1:])  # an installed reader of such files is loaded now
    added: list[Any] = list(READERS.added.values())
    return [*(one() if isinstance(one, type) else one for one in added), *own]


@dataclass(frozen=True, eq=False)
class Log:
    """An open log: trajectories of one robot, read chunk by chunk."""

    robot: RobotModel
    mapping: ChannelMap
    tables: tuple[Table, ...]
    trajectories: tuple[Trajectory, ...]

    @property
    def duration(self) -> float:
        """Seconds of all trajectories together."""
        return sum(t.end_time - t.start_time for t in self.trajectories)

    @property
    def has_effort(self) -> bool:
        """Whether joint effort was logged."""
        return bool(self.mapping.effort)

    @property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """What the readers of the files have to tell the user."""
        return tuple(one for table in self.tables for one in getattr(table, "remarks", ()))

    @cached_property
    def sha256(self) -> dict[str, str]:
        """SHA-256 of every file, by path."""
        return {str(table.path): file_hash(table.path) for table in self.tables}

    def identity(self) -> list[list[Any]]:
        """What makes the data of each trajectory itself: [hash of the file, first row, start time, end time]."""
        return [[self.sha256[str(t.file)], t.first_row, t.start_time, t.end_time] for t in self.trajectories]

    def chunks(self, trajectory: Trajectory, rows: int = ROWS) -> Iterator[RawChunk]:
        """Yields consecutive chunks of one trajectory; sorted by time if the mapping says so."""
        if self.mapping.sort:
            yield _sorted(self, trajectory)
            return
        for chunk in self._chunks(trajectory, rows):
            part = _within(chunk, trajectory)
            if len(part.t):
                yield part

    def read(self, trajectory: Trajectory) -> RawChunk:
        """The whole trajectory at once."""
        return _joined(list(self.chunks(trajectory)))

    def _chunks(self, trajectory: Trajectory, rows: int) -> Iterator[RawChunk]:
        table = next(table for table in self.tables if table.path == trajectory.file)
        columns = tuple(_columns(self.mapping))
        row = trajectory.first_row
        for batch in table.batches(columns, rows, row, row + trajectory.row_count):
            numbers = {name: column_numbers(values, name, table.path, row) for name, values in batch.items()}
            yield self._chunk(trajectory, row, numbers)
            row += len(numbers[columns[0]])

    def _chunk(self, trajectory: Trajectory, row: int, data: Mapping[str, Float]) -> RawChunk:
        m, drive = self.mapping, self.robot.drive
        t = data[m.time.column] * m.time.factor
        q, dq, effort = self._stacks(data, (m.position, m.velocity, m.effort))
        if q is None:
            raise UsageError("no-position", found="a mapping without positions", expected="one a joint")
        q, dq = self._at_joints(q, dq, m.position_side, m.position_sign, m.position_offset)
        theta, dtheta = self._motors(data, q, dq)
        tau = _mapped(effort, self._effort_matrix) if effort is not None else None
        if tau is not None and drive.linkages and self._effort_at_motors:
            tau = tau * drive.linkage_slopes(q)
        return RawChunk(
            trajectory=trajectory,
            first_row=row,
            t=t,
            q=q,
            dq=dq,
            tau=tau,
            theta=theta,
            dtheta=dtheta,
            temperature=self._stack(data, m.temperature),
            extra={name: data[c.column] * c.factor for name, c in m.extra.items()},
        )

    def _motors(
        self, data: Mapping[str, Float], q: Float, dq: Float | None
    ) -> tuple[Float | None, Float | None]:
        # Where there is no second encoder the motor is taken to move with the link.
        m = self.mapping
        theta, dtheta = self._stack(data, m.motor_position), self._stack(data, m.motor_velocity)
        if theta is None:
            return None, None
        sign = m.position_sign if m.motor_sign is None else m.motor_sign
        offset = m.position_offset if m.motor_offset is None else m.motor_offset
        complete = dq is not None and set(m.motor_velocity) >= set(m.motor_position)
        theta, dtheta = self._at_joints(theta, dtheta if complete else None, m.motor_side, sign, offset)
        alone = np.array([name not in m.motor_position for name in self.robot.joint_names])
        theta = np.where(alone, q, theta)
        return theta, np.where(alone, dq, dtheta) if dq is not None and dtheta is not None else None

    def _at_joints(
        self,
        q: Float,
        dq: Float | None,
        side: str,
        signs: Mapping[str, float],
        offsets: Mapping[str, float],
    ) -> tuple[Float, Float | None]:
        drive, names = self.robot.drive, self.robot.joint_names
        if side == "motor":
            back = np.linalg.inv(drive.transmission).T
            q = _mapped(q, back)
            dq = _mapped(dq, back) if dq is not None else None
        if signs or offsets:
            sign = np.array([signs.get(j, 1.0) for j in names])
            q = q * sign + np.array([offsets.get(j, 0.0) for j in names])
            dq = dq * sign if dq is not None else None
        if side == "motor" and drive.linkages:
            q = drive.through_linkages(q)
            dq = dq / drive.linkage_slopes(q) if dq is not None else None
        return q, dq

    def _stack(self, data: Mapping[str, Float], channels: Mapping[str, Channel]) -> Float | None:
        if not channels:
            return None
        T = len(data[self.mapping.time.column])
        return self._filled(np.empty((self.robot.n, T)), data, channels)

    def _stacks(
        self, data: Mapping[str, Float], groups: Sequence[Mapping[str, Channel]]
    ) -> list[Float | None]:
        # One block for all of them, so that what follows finds them under one another and need not copy them there.
        n = self.robot.n
        block = iter(np.empty((sum(map(bool, groups)), n, len(data[self.mapping.time.column]))))
        return [self._filled(next(block), data, channels) if channels else None for channels in groups]

    def _filled(self, lines: Float, data: Mapping[str, Float], channels: Mapping[str, Channel]) -> Float:
        # Joint by joint in memory, seen from outside as (T, n): what follows works along time.
        for j, name in enumerate(self.robot.joint_names):
            if name in channels:
                np.multiply(data[channels[name].column], channels[name].factor, out=lines[j])
            else:
                lines[j] = np.nan
        return lines.T

    @property
    def _effort_at_motors(self) -> bool:
        if self.mapping.effort_quantity == "torque":
            return self.mapping.effort_side == "motor"
        return not np.isfinite(self.robot.drive.drive_gain).all()

    @cached_property
    def _effort_matrix(self) -> Float:
        # tau_joint = effort @ matrix
        m, drive, names = self.mapping, self.robot.drive, self.robot.joint_names
        sign = np.diag([m.effort_sign.get(j, 1.0) for j in names])
        if m.effort_quantity == "torque":
            return sign if m.effort_side == "link" else sign @ drive.transmission
        gain, constant = drive.drive_gain, drive.torque_constant
        if np.isfinite(gain).all():
            return sign @ np.diag(gain)
        if m.effort_quantity == "current" and np.isfinite(constant).all():
            return sign @ np.diag(constant) @ drive.transmission
        missing = [name for name, value in zip(names, gain, strict=True) if not np.isfinite(value)]
        raise InputError(
            "drive-gain",
            found=f"effort in {m.effort_quantity} and no drive_gain for {', '.join(missing)}",
            expected="joint torque per ampere (or per raw unit) of every joint",
            do="give drive.drive_gain (or drive.gear_ratio and drive.torque_constant) in the robot file",
        )


def _mapped(values: Float, matrix: npt.NDArray[np.floating[Any]]) -> Float:
    """Values (T, n) @ matrix, where a missing value spoils only what depends on it: 0 times nan is 0 here."""
    if np.array_equal(matrix, np.eye(len(matrix))):
        return values
    with np.errstate(invalid="ignore"):
        mapped = np.asarray((matrix.T @ values.T).T, dtype=np.float64)
        complete = np.isfinite(mapped.sum())
    if not complete:
        missing = ~np.isfinite(values)
        mapped = np.asarray((matrix.T @ np.where(missing, 0.0, values).T).T, dtype=np.float64)
        mapped[missing.astype(np.float64) @ (matrix != 0) > 0] = np.nan
    return mapped


def _joints_and_topics(
    robot: RobotModel, mapping: ChannelMap | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if mapping is None or not mapping.position:
        return robot.joint_names, mapping.topics if mapping else ()
    joints, topics = joints_of_columns([channel.column for channel in mapping.position.values()])
    return joints, mapping.topics or topics


def _of_joints(table: Table, joints: Sequence[str], topics: Sequence[str]) -> Table:
    chosen: Table = table.of_joints(joints, topics) if isinstance(table, ManyTopics) else table
    return chosen


def _of_columns(table: Table, columns: Sequence[str]) -> Table:
    chosen: Table = table.of_columns(columns) if isinstance(table, ManyTopics) else table
    return chosen


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces; of a folder of rosbag2 that of its files' names and hashes."""
    if path.is_dir():
        listed = "".join(f"{file_hash(one)} {one.name}\n" for one in bag_files(path))
        return hashlib.sha256(listed.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _columns(m: ChannelMap) -> list[str]:
    groups = (m.position, m.velocity, m.effort, m.motor_position, m.motor_velocity, m.temperature, m.extra)
    names = [m.time.column, *(channel.column for group in groups for channel in group.values())]
    return list(dict.fromkeys(names))


def _require_columns(table: Table, m: ChannelMap) -> None:
    wanted = _columns(m) + ([m.trajectory] if m.trajectory else [])
    errors = []
    for name in wanted:
        if name not in table.column_names:
            near = get_close_matches(name, table.column_names, n=1, cutoff=0.5)
            errors.append(
                InputError(
                    "missing-column",
                    found=f"no column '{name}'",
                    expected="one of " + ", ".join(table.column_names[:40]),
                    do=f"did you mean '{near[0]}'?" if near else "",
                    place=Place(file=str(table.path)),
                )
            )
    if errors:
        raise InputErrors(list(errors))


def _sorted(log: Log, trajectory: Trajectory) -> RawChunk:
    whole = _joined(list(log._chunks(trajectory, ROWS)))
    return _within(_taken(whole, np.argsort(whole.t, kind="stable")), trajectory)


def _within(chunk: RawChunk, trajectory: Trajectory) -> RawChunk:
    outside = (chunk.t < trajectory.start_time) | (chunk.t > trajectory.end_time)
    if not outside.any():
        return chunk
    index = np.flatnonzero(~outside)
    first = chunk.first_row + (int(index[0]) if len(index) else 0)
    return replace(_taken(chunk, index), first_row=first)


def _taken(chunk: RawChunk, index: Any) -> RawChunk:
    def take(values: Float | None) -> Float | None:
        return None if values is None else values[index]

    return replace(
        chunk,
        t=chunk.t[index],
        q=chunk.q[index],
        dq=take(chunk.dq),
        tau=take(chunk.tau),
        theta=take(chunk.theta),
        dtheta=take(chunk.dtheta),
        temperature=take(chunk.temperature),
        extra={name: values[index] for name, values in chunk.extra.items()},
    )


def _joined(chunks: list[RawChunk]) -> RawChunk:
    if len(chunks) == 1:
        return chunks[0]
    first = chunks[0]

    def join(parts: list[Float | None]) -> Float | None:
        present = [part for part in parts if part is not None]
        return np.concatenate(present) if present else None

    return replace(
        first,
        t=np.concatenate([chunk.t for chunk in chunks]),
        q=np.concatenate([chunk.q for chunk in chunks]),
        dq=join([chunk.dq for chunk in chunks]),
        tau=join([chunk.tau for chunk in chunks]),
        theta=join([chunk.theta for chunk in chunks]),
        dtheta=join([chunk.dtheta for chunk in chunks]),
        temperature=join([chunk.temperature for chunk in chunks]),
        extra={name: np.concatenate([chunk.extra[name] for chunk in chunks]) for name in first.extra},
    )
