"""A measured log: named channels in files that are read chunk by chunk, mapped to joints by name."""

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
    """A column of text.

    Parameters
    ----------
    codes : ndarray of int, shape (n_samples,)
        Index into `names`; -1 means missing.
    names : tuple of str
        Distinct texts of this batch.

    """

    codes: Int
    names: tuple[str, ...]


@dataclass(frozen=True)
class ColumnInfo:
    """Metadata of a column in its file; "", () or None if the file does not state it.

    Parameters
    ----------
    dtype : str
        As stored.
    field : str
        Name of the array that the column is a part of.
    shape : tuple of int
        Shape of that array, rows first.
    unit : str
        As the file writes it.
    row_count : int, optional
    rate : float, Hz, optional

    """

    dtype: str = ""
    field: str = ""
    shape: tuple[int, ...] = ()
    unit: str = ""
    row_count: int | None = None
    rate: float | None = None


class Table(Protocol):
    """An open file of equally long columns, read in batches; the result of a log reader.

    To add a file format, write one class with these members and register its reader in dynid.log.files. Optional
    members: `extent(column)`, the first and last number of a column that is known to ascend, else None;
    `info(column)`, a ColumnInfo; `streams`, a mapping of names to columns that share rows, if not all do; `trajectory`,
    the column that names the motion of each row; `left_out`, descriptions of contents that are no columns; `remarks`,
    diagnostics for the user; and `sha256`, the hash of a recording that is not one file.
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
            Most rows of a batch.
        start, stop : int
            First row, and row after the last; None means the end.

        Yields
        ------
        mapping of str to ndarray or Text
            Numbers as float64 (missing = nan), or text, by column.

        """
        ...


@runtime_checkable
class ManyTopics(Protocol):
    """A table of a file with several streams; the caller chooses which of them form the rows."""

    def of_joints(
        self, joints: Sequence[str], topics: Sequence[str] = (), known: Sequence[str] = ()
    ) -> Table:
        """Table of the streams that contain these joints.

        Parameters
        ----------
        joints : sequence of str
            Names of the joints in the file.
        topics : sequence of str
            Streams to read instead of those that contain the joints.
        known : sequence of str
            Names that the robot knows; joints without a stream may be absent if all other names are known.

        """
        ...

    def of_columns(self, columns: Sequence[str]) -> Table:
        """Table with the rows of these columns."""
        ...


class LogReader(Protocol):
    """Opens one file format, recognised by its first bytes.

    A reader of folders also has `can_read_folder(path)`.
    """

    @property
    def name(self) -> str:
        """Name of the format."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File endings of the format."""
        ...

    def can_read(self, head: bytes) -> bool:
        """Whether a file with these first bytes has this format."""
        ...

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> Table:
        """Open the file.

        Parameters
        ----------
        path : Path
            File, or folder for a reader of folders.
        delimiter, decimal : str, optional
            Of text files; None means detected.

        Raises
        ------
        InputError
            If the file does not have the format that its first bytes promise.

        """
        ...


@dataclass(frozen=True)
class Channel:
    """One column of a log.

    Parameters
    ----------
    column : str
        Name of the column.
    unit : str
        Declared unit.
    factor : float
        Factor to SI.

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
        Of fx, fy, fz, tx, ty, tz.

    """

    sensor: WrenchSensor
    channels: tuple[Channel, ...]


@dataclass(frozen=True)
class ChannelMap:
    """Columns of a log by signal and joint, with declared units.

    Without effort, the torque is computed from the commands by the position controllers of the robot's drives.

    Parameters
    ----------
    time : Channel
    position, velocity, effort, temperature : mapping of str to Channel
        By joint.
    motor_position, motor_velocity : mapping of str to Channel
        By joint; may cover some joints only.
    command_position, command_velocity, command_effort : mapping of str to Channel
        By joint.
    wrench : mapping of str to WrenchChannels
        Force/torque sensors by name.
    extra : mapping of str to Channel
        Further channels by name (a counterbalance torque, a vendor's model), SI factor 1 unless declared.
    clocks : mapping of str to Channel
        Time column of each column with a separate clock.
    trajectory : str, optional
        Column that names the motion of each row.
    effort_quantity : {"torque", "current", "raw"}
        In N m (N), A, or raw units.
    effort_side, position_side, motor_side : {"link", "motor"}
    position_offset, motor_offset : mapping of str to float, rad or m
        By joint; motor offsets equal position offsets if None.
    position_sign, effort_sign, motor_sign : mapping of str to float
        1 or -1 by joint; motor signs equal position signs if None.
    sort : bool
        Whether the rows of each trajectory are sorted by time.
    delimiter, decimal : str, optional
        Of text files; None means detected.
    topics : tuple of str
        Topics of a bag for unqualified columns; () means the only topic that fits.
    definitions : tuple of Path
        Files or folders of message definitions that the bag lacks.
    own_names : bool
        Whether groups without columns take dynid's standard columns, if the file has them.
    made : frozenset of str
        Groups whose columns follow from one template for all joints, some of which a log may lack.
    numbered : bool
        Whether the columns of the positions follow from the number of the joint.
    base : FloatingBase, optional
        Sensors of a floating base, whose columns are in `extra`.

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
        """Further channels of a floating base: its IMU, and contacts."""
        prefixes = ("imu:", "contact:") if self.base is not None else ()
        return {name: channel for name, channel in self.extra.items() if name.startswith(prefixes)}

    @property
    def commanded(self) -> bool:
        """Whether the torque is computed from commands, since no effort was measured."""
        return bool(self.command_position) and not self.effort

    @property
    def gives_torque(self) -> bool:
        """Whether chunks have a torque, measured or commanded."""
        return bool(self.effort) or self.commanded

    @property
    def channels(self) -> Channels:
        """Joints of each recorded signal."""
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
        """Names of all columns to read, each once, the time first."""
        groups = [self.position, self.velocity, self.effort, self.motor_position, self.motor_velocity]
        groups += [self.temperature, self.extra]
        groups += (
            [self.command_position, self.command_velocity, self.command_effort] if self.commanded else []
        )
        names = [self.time.column, *(channel.column for group in groups for channel in group.values())]
        names += [channel.column for sensor in self.wrench.values() for channel in sensor.channels]
        return tuple(dict.fromkeys(names))


# Test whether consecutive rows belong to one motion.

# Mean square step from row to row over twice the variance: 1 for rows in random order, 1 - cos(2 pi / k) for a sine
# with k rows per period. Motion with fewer than six rows per period cannot be differentiated.
UNRELATED = 0.5
# Advice for rows that are unrelated because each is a separate pose.
POSES = "for static poses, one per row, use `dynid statics --table`"


@dataclasses.dataclass
class OrderWatch:
    """Compares steps of the positions from row to row with their variance, chunk by chunk.

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
        # One contiguous line per joint, so that sums run along time.
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
        """End a trajectory: its last row and the next row are no neighbours."""
        self._last = None

    def unrelated(self, moved: Bool | None = None) -> bool:
        """Whether every moving joint jumps from row to row as if the rows were in random order.

        Parameters
        ----------
        moved : ndarray of bool, shape (n_joints,), optional
            None means every joint whose position varies.

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
                found="positions of every joint that jump from row to row as if the rows were in random order",
                expected="rows in the order of recording, many per period of the motion",
                do=f"check for shuffled rows, a sort by another column, or too much downsampling; {POSES}",
            )


# The step of quantised values.

# Shares of the values: quantised values have at most this share of distinct ones, counted first in this share.
MOST_DISTINCT, FIRST = 0.25, 0.3


def lattice_step(values: Float) -> Float:
    """Quantisation step of each column of values (T, n); 0 if the values are not quantised."""
    steps = np.zeros(values.shape[1])
    for j in range(values.shape[1]):
        # Most columns have too many distinct values among the first of them. Three (nan, inf, -inf) do not count.
        if len(np.unique(values[: int(FIRST * len(values)), j])) > MOST_DISTINCT * len(values) + 3:
            continue
        distinct = np.unique(values[np.isfinite(values[:, j]), j])
        if 4 <= len(distinct) < MOST_DISTINCT * len(values):
            gaps = np.diff(distinct)
            step = float(np.median(gaps[gaps <= 1.5 * gaps.min()])) if gaps.min() > 1e-12 else 0.0
            if step > 0 and np.mean(np.abs(gaps / step - np.round(gaps / step)) < 0.1) > 0.9:
                steps[j] = step
    return steps
