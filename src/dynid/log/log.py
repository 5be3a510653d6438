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
from dynid.recording import Channels, RawChunk


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
        """Whether the torque is made of commands, as no effort was measured."""
        return bool(self.command_position) and not self.effort

    @property
    def gives_torque(self) -> bool:
        """Whether chunks have a torque, measured or commanded."""
        return bool(self.effort) or self.commanded

    @property
    def channels(self) -> Channels:
        """Which signals are recorded of which joints."""
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
            extra=tuple(self.extra),
        )

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


# Whether neighbouring rows follow one another.

# Mean square step from row to row over twice the variance: 1 of rows in random order, 1 - cos(2 pi / k) of a sine
# with k rows a period. Motion with fewer than six rows a period is not to be differentiated.
UNRELATED = 0.5
# Whose rows are unrelated, too.
POSES = "poses at rest, one a row, are for `dynid statics --table`"


@dataclasses.dataclass
class OrderWatch:
    """Steps of the positions from row to row beside their spread, while a log passes by.    joints: their number."""

    joints: int
    _last: Float | None = None
    _steps: Float = field(init=False)
    _moments: Float = field(init=False)

    def __post_init__(self) -> None:
        self._steps, self._moments = np.zeros((2, self.joints)), np.zeros((3, self.joints))

    def see(self, chunk: RawChunk) -> None:
        """Looks at the next rows."""
        # Joint by joint in memory, so that sums work along time.
        own = np.ascontiguousarray(chunk.q.T)
        with np.errstate(invalid="ignore", over="ignore"):
            total, square, step_square = line_moments(own).T
            first = own[:, 0] - (own[:, 0] if self._last is None else self._last)
            complete = np.isfinite((square + step_square + first * first).sum())
        rows, steps = np.full((2, len(own)), float(own.shape[1]))
        if complete:
            steps -= self._last is None
            step_square += first * first
        else:
            step = np.diff(own if self._last is None else np.column_stack([self._last, own]))
            fine, known = np.isfinite(own), np.isfinite(step)
            rows, steps = fine.sum(axis=1), known.sum(axis=1)
            there, step = np.where(fine, own, 0.0), np.where(known, step, 0.0)
            total, square, step_square = there.sum(axis=1), np.vecdot(there, there), np.vecdot(step, step)
        self._last = own[:, -1].copy()
        self._steps += [step_square, steps]
        self._moments += [rows, total, square]

    def end(self) -> None:
        """Ends a trajectory: the next row is not its neighbour."""
        self._last = None

    def unrelated(self, moved: Bool | None = None) -> bool:
        """Whether every joint that moved, None = any, jumps from row to row as if rows were picked at random."""
        count, total, square = self._moments
        variance = square / np.maximum(count, 1.0) - (total / np.maximum(count, 1.0)) ** 2
        step = self._steps[0] / np.maximum(self._steps[1], 1.0)
        moved = variance > 0 if moved is None else moved
        return bool(moved.any() and (step[moved] > UNRELATED * 2.0 * variance[moved]).all())

    def finish(self, moved: Bool) -> None:
        """Raises UnfitDataError where rows are unrelated."""
        if self.unrelated(moved):
            raise UnfitDataError(
                "rows-unrelated",
                found="positions of every joint that jump between rows as far as if these were picked at random",
                expected="rows in the order in which they were recorded, many a period of the motion",
                do=f"look for rows that were shuffled or sorted by another column, or a log thinned too far; {POSES}",
            )


# The lattice of quantised values.

# Of the values, that those of a lattice are at most, and that a first look takes.
MOST_DISTINCT, FIRST = 0.25, 0.3


def lattice_step(values: Float) -> Float:
    """Step of quantised values (T, n) by column: the difference of distinct ones if few cover the range, else 0."""
    steps = np.zeros(values.shape[1])
    for j in range(values.shape[1]):
        # Most columns have too many distinct values among the first of them already, of which three may not be finite.
        if len(np.unique(values[: int(FIRST * len(values)), j])) > MOST_DISTINCT * len(values) + 3:
            continue
        distinct = np.unique(values[np.isfinite(values[:, j]), j])
        if 4 <= len(distinct) < MOST_DISTINCT * len(values):
            gaps = np.diff(distinct)
            step = float(np.median(gaps[gaps <= 1.5 * gaps.min()])) if gaps.min() > 1e-12 else 0.0
            if step > 0 and np.mean(np.abs(gaps / step - np.round(gaps / step)) < 0.1) > 0.9:
                steps[j] = step
    return steps
