"""Interfaces of log readers, and the map from the columns of a log to signals and joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass
from dynid.kernel import line_moments
from dynid.recording import Channels, FloatingBase, RawChunk, WrenchSensor


@dataclass(frozen=True, eq=False)
class Text:
    """Batch of a text column.

    Parameters
    ----------
    codes : ndarray of int, shape (n_samples,)
        Index of each cell's text in `names`; -1 marks a missing cell.
    names : tuple of str
        Distinct texts in this batch.

    """

    codes: Int
    names: tuple[str, ...]


@dataclass(frozen=True)
class ColumnInfo:
    """Metadata of a column in its file; "", () or None if the file does not state it.

    Parameters
    ----------
    dtype : str
        Data type as stored.
    field : str
        Name of the array that contains the column.
    shape : tuple of int
        Shape of this array, rows first.
    unit : str
        Unit as written in the file.
    row_count : int, optional
        Number of rows.
    rate : float, Hz, optional
        Rate of the rows.

    """

    dtype: str = ""
    field: str = ""
    shape: tuple[int, ...] = ()
    unit: str = ""
    row_count: int | None = None
    rate: float | None = None


class Table(Protocol):
    """Open file with columns of equal length that are read in batches; the result of a log reader.

    To add a file format, write a class with these members and register its reader in dynid.log.files. The following
    attributes and methods are optional.

    Attributes
    ----------
    extent : callable
        extent(column) returns the first and last number of a column that is known to ascend, else None.
    info : callable
        info(column) returns a ColumnInfo.
    streams : mapping of str to tuple of str
        Columns with common rows, by the name of the group, if not all columns have common rows.
    trajectory : str
        Column with the motion of each row.
    left_out : tuple of str
        One line of text for each entry of the file that is not a column.
    remarks : tuple of Finding
        Findings for the user.
    sha256 : str
        Hash of a recording that is not a single file.

    """

    path: Path
    column_names: tuple[str, ...]
    row_count: int | None

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield batches of at most `rows` rows.

        Parameters
        ----------
        columns : tuple of str
            Names of the columns.
        rows : int
            Maximum number of rows in a batch.
        start, stop : int
            First row and the row after the last row; None means the end.

        Yields
        ------
        mapping of str to ndarray or Text
            Each column as float64 numbers (nan if missing) or as text.

        """
        ...


@runtime_checkable
class ManyTopics(Protocol):
    """Table of a file with several streams; the caller selects the streams or columns that form the rows."""

    def of_joints(
        self, joints: Sequence[str], topics: Sequence[str] = (), known: Sequence[str] = ()
    ) -> Table:
        """Select the streams that contain the given joints.

        Parameters
        ----------
        joints : sequence of str
            Names of the joints in the file.
        topics : sequence of str
            Streams to read instead of those that contain the joints.
        known : sequence of str
            Further names that the robot knows. Joints may be absent from the file if all names in it are known.

        """
        ...

    def of_columns(self, columns: Sequence[str]) -> Table:
        """Select columns; their streams form the rows."""
        ...


class LogReader(Protocol):
    """Reader of a file format that is recognised by the first bytes of a file.

    A reader of folders also has a method `can_read_folder(path)`.
    """

    @property
    def name(self) -> str:
        """Name of the format."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes of the format."""
        ...

    def can_read(self, head: bytes) -> bool:
        """Whether a file that begins with the bytes `head` has this format."""
        ...

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> Table:
        """Open the file.

        Parameters
        ----------
        path : Path
            File, or folder for a reader of folders.
        delimiter, decimal : str, optional
            Separator and decimal sign of text files; None means that they are detected.

        Raises
        ------
        InputError
            If the file does not have the format that its first bytes indicate.

        """
        ...


@dataclass(frozen=True)
class Channel:
    """Column of a log and its unit.

    Parameters
    ----------
    column : str
        Name of the column.
    unit : str
        Declared unit.
    factor : float
        Factor that converts the unit to SI.

    """

    column: str
    unit: str
    factor: float


@dataclass(frozen=True)
class WrenchChannels:
    """Columns of a force/torque sensor.

    Parameters
    ----------
    sensor : WrenchSensor
    channels : tuple of Channel
        Columns of fx, fy, fz, tx, ty, tz.

    """

    sensor: WrenchSensor
    channels: tuple[Channel, ...]


@dataclass(frozen=True)
class ChannelMap:
    """Column and unit of each signal and joint of a log.

    If a log has commands but no effort, the controller model of the robot's drives computes the torque.

    Parameters
    ----------
    time : Channel
        Time column.
    position, velocity, effort, temperature : mapping of str to Channel
        Column of each joint.
    motor_position, motor_velocity : mapping of str to Channel
        Column of each joint with a motor encoder.
    command_position, command_velocity, command_effort : mapping of str to Channel
        Column of each joint.
    wrench : mapping of str to WrenchChannels
        Force/torque sensors by name.
    extra : mapping of str to Channel
        Additional channels by name (for example, a counterbalance torque); the SI factor is 1 unless declared.
    clocks : mapping of str to Channel
        Time column of each column with a separate clock.
    trajectory : str, optional
        Column with the motion of each row.
    effort_quantity : {"torque", "current", "raw"}
        Quantity of the efforts: torque or force, current, or raw values.
    effort_side, position_side, motor_side : {"link", "motor"}
        Side of the gear at which the signal is measured.
    position_offset, motor_offset : mapping of str to float, rad or m
        Offset of each joint; motor_offset = None means the position offsets.
    position_sign, effort_sign, motor_sign : mapping of str to float
        Sign (1 or -1) of each joint; motor_sign = None means the position signs.
    sort : bool
        Whether the rows of each trajectory are sorted by time.
    delimiter, decimal : str, optional
        Separator and decimal sign of text files; None means that they are detected.
    topics : tuple of str
        Topics of a bag for columns without a topic; () means the only topic with all joints.
    definitions : tuple of Path
        Files or folders with message definitions for a bag that does not define its types.
    own_names : bool
        Whether dynid's standard names apply to signals without declared columns.
    made : frozenset of str
        Signals whose columns are given by a template for all joints. The log may lack columns of some joints.
    numbered : bool
        Whether the position columns are given by the number of the joint.
    base : FloatingBase, optional
        Sensors of a floating base; their columns are in `extra`.

    """

    time: Channel
    position: Mapping[str, Channel]
    velocity: Mapping[str, Channel] = field(default_factory=dict)
    effort: Mapping[str, Channel] = field(default_factory=dict)
    motor_position: Mapping[str, Channel] = field(default_factory=dict)
    motor_velocity: Mapping[str, Channel] = field(default_factory=dict)
    temperature: Mapping[str, Channel] = field(default_factory=dict)
    command_position: Mapping[str, Channel] = field(default_factory=dict)
    command_velocity: Mapping[str, Channel] = field(default_factory=dict)
    command_effort: Mapping[str, Channel] = field(default_factory=dict)
    wrench: Mapping[str, WrenchChannels] = field(default_factory=dict)
    extra: Mapping[str, Channel] = field(default_factory=dict)
    clocks: Mapping[str, Channel] = field(default_factory=dict)
    trajectory: str | None = None
    effort_quantity: str = "torque"
    effort_side: str = "link"
    position_side: str = "link"
    position_offset: Mapping[str, float] = field(default_factory=dict)
    position_sign: Mapping[str, float] = field(default_factory=dict)
    effort_sign: Mapping[str, float] = field(default_factory=dict)
    motor_side: str = "link"
    motor_offset: Mapping[str, float] | None = None
    motor_sign: Mapping[str, float] | None = None
    sort: bool = False
    delimiter: str | None = None
    decimal: str | None = None
    topics: tuple[str, ...] = ()
    definitions: tuple[Path, ...] = ()
    own_names: bool = False
    made: frozenset[str] = frozenset()
    numbered: bool = False
    base: FloatingBase | None = None

    @property
    def of_base(self) -> dict[str, Channel]:
        """Channels of a floating base: IMU and contacts."""
        prefixes = ("imu:", "contact:") if self.base is not None else ()
        return {name: channel for name, channel in self.extra.items() if name.startswith(prefixes)}

    @property
    def commanded(self) -> bool:
        """Whether the torque is computed from commands because no effort was measured."""
        return bool(self.command_position) and not self.effort

    @property
    def gives_torque(self) -> bool:
        """Whether chunks have a torque: measured, computed from commands, or zero beside normal forces alone."""
        return self.channels.gives_torque

    @property
    def channels(self) -> Channels:
        """Recorded signals, with the joints of each."""
        commanded = self.commanded
        return Channels(
            velocity=frozenset(self.velocity),
            effort=frozenset(self.effort),
            motor_position=frozenset(self.motor_position),
            motor_velocity=frozenset(self.motor_velocity),
            temperature=frozenset(self.temperature),
            command_position=frozenset(self.command_position if commanded else ()),
            command_velocity=frozenset(self.command_velocity if commanded else ()),
            command_effort=frozenset(self.command_effort if commanded else ()),
            wrench=tuple(channels.sensor for channels in self.wrench.values()),
            extra=tuple(self.extra),
            base=self.base,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns to read without repetition; the time is first."""
        groups = [self.position, self.velocity, self.effort, self.motor_position, self.motor_velocity]
        groups += [self.temperature, self.extra]
        groups += (
            [self.command_position, self.command_velocity, self.command_effort] if self.commanded else []
        )
        names = [self.time.column, *(channel.column for group in groups for channel in group.values())]
        names += [channel.column for sensor in self.wrench.values() for channel in sensor.channels]
        return tuple(dict.fromkeys(names))


# Test whether consecutive rows belong to the same motion.

# Ratio of the mean square step between rows to twice the variance: 1 for rows in random order, 1 - cos(2 pi / k) for a
# sine with k rows per period. A motion with fewer than six rows per period cannot be differentiated.
UNRELATED = 0.5
# Advice for unrelated rows, each of which may be a separate pose.
POSES = "for static poses, one per row, use `dynid statics --table`"


@dataclasses.dataclass
class OrderWatch:
    """Compares the position steps between rows with the variance of the positions, chunk by chunk.

    Parameters
    ----------
    joints : int
        Number of joints.

    """

    joints: int
    _last: Float | None = None
    _steps: Float = field(init=False)
    _moments: Float = field(init=False)

    def __post_init__(self) -> None:
        self._steps, self._moments = np.zeros((2, self.joints)), np.zeros((3, self.joints))

    def see(self, chunk: RawChunk) -> None:
        """Add the next rows to the sums."""
        # Store each joint contiguously, because the sums run along time.
        positions = np.ascontiguousarray(chunk.q.T)
        with np.errstate(invalid="ignore", over="ignore"):
            total, square, step_square = line_moments(positions).T
            first = positions[:, 0] - (positions[:, 0] if self._last is None else self._last)
            complete = np.isfinite((square + step_square + first * first).sum())
        rows, steps = np.full((2, len(positions)), float(positions.shape[1]))
        if complete:
            steps -= self._last is None
            step_square += first * first
        else:
            step = np.diff(positions if self._last is None else np.column_stack([self._last, positions]))
            fine, known = np.isfinite(positions), np.isfinite(step)
            rows, steps = fine.sum(axis=1), known.sum(axis=1)
            there, step = np.where(fine, positions, 0.0), np.where(known, step, 0.0)
            total, square, step_square = there.sum(axis=1), np.vecdot(there, there), np.vecdot(step, step)
        self._last = positions[:, -1].copy()
        self._steps += [step_square, steps]
        self._moments += [rows, total, square]

    def end(self) -> None:
        """End a trajectory; the step from its last row to the next row does not count."""
        self._last = None

    def unrelated(self, moved: Bool | None = None) -> bool:
        """Whether all moving joints jump between rows as if the rows were in random order.

        Parameters
        ----------
        moved : ndarray of bool, shape (n_joints,), optional
            Mask of the moving joints; None means all joints whose position varies.

        """
        count, total, square = self._moments
        variance = square / np.maximum(count, 1.0) - (total / np.maximum(count, 1.0)) ** 2
        step = self._steps[0] / np.maximum(self._steps[1], 1.0)
        moved = variance > 0 if moved is None else moved
        return bool(moved.any() and (step[moved] > UNRELATED * 2.0 * variance[moved]).all())

    def finish(self, moved: Bool) -> None:
        """Raise UnfitDataError if the rows are unrelated."""
        if self.unrelated(moved):
            raise UnfitDataError(
                "rows-unrelated",
                found="the positions of all joints jump between rows as if the rows were in random order",
                expected="rows in the order of recording, many per period of the motion",
                do=f"check for shuffled rows, a sort by another column, or too much downsampling; {POSES}",
            )


# Find the quantisation step of values.

# Values are quantised only if the number of distinct values is below the fraction MOST_DISTINCT of all values. A quick
# first test counts the distinct values in the fraction FIRST of the rows.
MOST_DISTINCT, FIRST = 0.25, 0.3


def lattice_step(values: Float) -> Float:
    """Quantisation step of each column of values (T, n); 0 if the values are not quantised."""
    steps = np.zeros(values.shape[1])
    for j in range(values.shape[1]):
        # This test excludes most columns. nan, inf and -inf do not count as distinct values, hence the 3.
        if len(np.unique(values[: int(FIRST * len(values)), j])) > MOST_DISTINCT * len(values) + 3:
            continue
        distinct = np.unique(values[np.isfinite(values[:, j]), j])
        if 4 <= len(distinct) < MOST_DISTINCT * len(values):
            gaps = np.diff(distinct)
            step = float(np.median(gaps[gaps <= 1.5 * gaps.min()])) if gaps.min() > 1e-12 else 0.0
            if step > 0 and np.mean(np.abs(gaps / step - np.round(gaps / step)) < 0.1) > 0.9:
                steps[j] = step
    return steps
