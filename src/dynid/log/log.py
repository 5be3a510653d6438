"""A measured log: named channels in files that are read chunk by chunk, mapped to joints by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass


@dataclass(frozen=True, eq=False)
class Text:
    """A column of text: codes (T,) into the distinct names of this batch."""

    codes: Int
    names: tuple[str, ...]


@dataclass(frozen=True)
class ColumnInfo:
    """What a file itself says of a column; "", () or None where it says nothing.

    dtype: as stored.    field, shape: name and shape of the array that the column is a part of, rows first.    unit: in
    the file's words.    row_count, rate (Hz): of its rows.
    """

    dtype: str = ""
    field: str = ""
    shape: tuple[int, ...] = ()
    unit: str = ""
    row_count: int | None = None
    rate: float | None = None


class Table(Protocol):
    """An open file of equally long columns, read in batches; what a log reader hands out.

    To add a file format write one class with these members and register its reader in dynid.log.files. It may also have
    `extent(column)`, the first and last number of a column that is known to ascend, else None; `info(column)`, a
    ColumnInfo; `streams`, a mapping of names to columns that share rows, where not all do; `trajectory`, the column
    that names the motion of each row; `left_out`, what the file holds besides columns, in words; `remarks`, diagnostics
    for the user; and `sha256`, the hash of what is no single file.
    """

    path: Path
    column_names: tuple[str, ...]
    row_count: int | None

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of at most `rows` rows of the named columns: numbers as float64 (missing = nan), or text."""
        ...


@runtime_checkable
class ManyTopics(Protocol):
    """A table of a file that holds several streams: which of them make the rows depends on who asks."""

    def of_joints(
        self, joints: Sequence[str], topics: Sequence[str] = (), known: Sequence[str] = ()
    ) -> Table:
        """The table of the streams that hold these joints, or of the named ones.

        known: names that the robot knows; joints that no stream holds may be absent where all others are known.
        """
        ...

    def of_columns(self, columns: Sequence[str]) -> Table:
        """The same with the rows that these columns make."""
        ...


class LogReader(Protocol):
    """Opens one file format, known by its first bytes.

    A format of folders has `can_read_folder(path)` besides.
    """

    @property
    def name(self) -> str:
        """Of the format."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings that promise it."""
        ...

    def can_read(self, head: bytes) -> bool:
        """Whether a file with these first bytes is of this format."""
        ...

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> Table:
        """Opens the file; raises InputError if it is not what it claims to be.

        delimiter, decimal: of text files, None = as found.
        """
        ...


@dataclass(frozen=True)
class Channel:
    """One column of a log: what it measures, for which joint, and its factor to SI."""

    column: str
    unit: str
    factor: float


@dataclass(frozen=True)
class ChannelMap:
    """Which column measures what; joints by name, units declared, never guessed.

    Each per-joint mapping holds one Channel for every joint it covers. `extra` holds further channels by name
    (a counterbalance torque, a temperature, a vendor's own model), SI factor 1 unless declared.
    effort_quantity: "torque" (N m or N), "current" (A) or "raw"; effort_side: "motor" or "link".
    Motor positions may cover some joints only; offset and sign of theirs are those of the position where not given.
    delimiter, decimal: of text files, None = as found.
    clocks: of columns with time stamps of their own, the time column of each.
    Commands, where there is no effort, make the torque by the position controllers of the robot's drives.
    topics: of bags, where unqualified columns are; none = the only topic that fits.
    definitions: of bags, files or folders of message definitions that the bag lacks.
    own_names: groups that are left out take dynid's own columns where the file has them.
    made: groups whose columns were made from one template for all joints, some of which a log may lack.
    numbered: whether positions were made by number or place.
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

    @property
    def commanded(self) -> bool:
        """Whether commands stand in for an effort that was not measured."""
        return bool(self.command_position) and not self.effort

    @property
    def gives_torque(self) -> bool:
        """Whether chunks have a torque, measured or commanded."""
        return bool(self.effort) or self.commanded

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns that are read, each once, the time first."""
        groups = [self.position, self.velocity, self.effort, self.motor_position, self.motor_velocity]
        groups += [self.temperature, self.extra]
        groups += (
            [self.command_position, self.command_velocity, self.command_effort] if self.commanded else []
        )
        names = [self.time.column, *(channel.column for group in groups for channel in group.values())]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Trajectory:
    """A contiguous run of rows of one file: what one motion of the robot left in the log.

    left_out: rows of the file that are not read, as their time stamps are damaged.
    misplaced: rows that stand a few rows from their place by time, and are put there.
    """

    name: str
    file: Path
    first_row: int
    row_count: int
    start_time: float
    end_time: float
    left_out: tuple[int, ...] = ()
    misplaced: int = 0


@dataclass(frozen=True)
class RawChunk:
    """Consecutive rows of one trajectory in SI units, still on the log's own time stamps.

    t (T,), every other array (T, n) in the order of the robot's joints, None where not logged; nan = missing.
    first_row: row number within the file, counted from 0 at the first data row; rows that are left out further down do
    not count.
    effort is joint-side torque or force (drive gain, gear ratio and sign applied).
    theta, dtheta: motor motion brought to the joint; that of the link for joints without a second encoder.
    commands: (T, 3 n), positions, velocities and feed-forward, of drives that close their loop on board.
    empty: times of rows among these that were left out, as they hold nothing but a time.
    spread: those of t that differ from the stamps, as several rows shared one.
    """

    trajectory: Trajectory
    first_row: int
    t: Float
    q: Float
    dq: Float | None
    tau: Float | None
    theta: Float | None
    dtheta: Float | None
    temperature: Float | None
    extra: Mapping[str, Float]
    commands: Float | None = None
    empty: Float = field(default_factory=lambda: np.zeros(0))
    spread: Float = field(default_factory=lambda: np.zeros(0))
