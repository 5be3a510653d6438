"""Summarize a checked log, find its switches, and list the contents of a log file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Finding
from dynid.base.errors import DynidError, InputError, Place
from dynid.base.records import dataclass, shortened
from dynid.log.files import open_parts_of, open_table
from dynid.log.log import Channel, ColumnInfo, ManyTopics, Table, Text
from dynid.log.read import Log

# Summarize a checked log by trajectory and joint.


@dataclass
class TrajectorySummary:
    """Summary of a trajectory.

    Parameters
    ----------
    name, file : str
    rows : int
        Number of rows that are used.
    start, end : float, s
    dt : ndarray, s
        Shortest and longest time step of each chunk.
    median_dt : float, s
    gaps : int
    largest_gap : float, s
    lost : int
        Number of time steps that exceed 1.5 median steps but are no gaps.
    duplicates : int
        Number of rows that are equal to the previous row.
    missing_rows : int
        Number of rows with missing values.
    empty_rows : int
        Number of ignored rows with a time but no values.
    spread_rows : int
        Number of rows that shared a time stamp and were spaced evenly.
    effortless_rows : int
        Number of ignored rows in which all efforts are 0 between rows with efforts.
    lower, upper : ndarray, shape (n_joints,), rad or m
        Range of the positions.
    speed, effort : ndarray, shape (n_joints,)
        Largest absolute velocity and effort.

    """

    name: str
    file: str
    rows: int = 0
    start: float = np.nan
    end: float = np.nan
    dt: Float = field(default_factory=lambda: np.zeros(0))
    median_dt: float = np.nan
    gaps: int = 0
    largest_gap: float = 0.0
    lost: int = 0
    duplicates: int = 0
    missing_rows: int = 0
    empty_rows: int = 0
    spread_rows: int = 0
    effortless_rows: int = 0
    lower: Float = field(default_factory=lambda: np.zeros(0))
    upper: Float = field(default_factory=lambda: np.zeros(0))
    speed: Float = field(default_factory=lambda: np.zeros(0))
    effort: Float = field(default_factory=lambda: np.zeros(0))

    @property
    def rate(self) -> float:
        """Rows per second, from the median time step."""
        return 1.0 / self.median_dt


@dataclass(frozen=True, eq=False)
class LogSummary:
    """Summary of a checked log.

    Parameters
    ----------
    joint_names : tuple of str
    trajectories : tuple of TrajectorySummary
    moved : ndarray of bool, shape (n_joints,)
    position_step, velocity_step : ndarray, shape (n_joints,)
        Quantisation step of the values, 0 without quantisation.
    saturated : ndarray, shape (n_joints,)
        Share of the effort samples at an end of the range.
    cut_off : ndarray, shape (2, n_joints)
        Effort at the upper and lower end if more than 2 % of the samples are there, else nan.
    wraps : int
        Number of position jumps by 2 pi, which are unwrapped.
    has_velocity, has_effort : bool

    """

    joint_names: tuple[str, ...]
    trajectories: tuple[TrajectorySummary, ...]
    moved: Bool
    position_step: Float
    velocity_step: Float
    saturated: Float
    cut_off: Float
    wraps: int
    has_velocity: bool
    has_effort: bool

    @property
    def at_rest(self) -> tuple[str, ...]:
        """Names of the joints that did not move."""
        return tuple(name for name, moved in zip(self.joint_names, self.moved, strict=True) if not moved)

    def describe(self) -> dict[str, Any]:
        """Summary as plain data, for the run folder and the report."""
        return {
            "trajectories": [
                {
                    "name": t.name, "file": t.file, "rows": t.rows, "start_s": t.start, "end_s": t.end,
                    "rate_hz": t.rate, "dt_min_s": float(t.dt.min(initial=np.inf)),
                    "dt_max_s": float(t.dt.max(initial=0.0)), "long_steps": t.lost, "gaps": t.gaps,
                    "largest_gap_s": t.largest_gap, "duplicate_rows": t.duplicates,
                    "rows_with_missing_values": t.missing_rows,
                }
                for t in self.trajectories
            ],
            "joints": [
                {
                    "name": name,
                    "lower": float(min(t.lower[j] for t in self.trajectories)),
                    "upper": float(max(t.upper[j] for t in self.trajectories)),
                    "peak_velocity": float(max(t.speed[j] for t in self.trajectories)),
                    "peak_effort": float(max(t.effort[j] for t in self.trajectories)),
                    "moved": bool(self.moved[j]),
                    "position_step": float(self.position_step[j]),
                    "velocity_step": float(self.velocity_step[j]),
                    "saturated_share": float(self.saturated[j]),
                }
                for j, name in enumerate(self.joint_names)
            ],
            "turns_unwrapped": self.wraps,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """Format the summary as lines for the terminal."""
        lines = [f"{'trajectory':<40}{'rows':>9}{'seconds':>10}{'Hz':>8}{'gaps':>6}{'missing':>9}"]
        for t in self.trajectories:
            lines.append(
                f"{t.name[:39]:<40}{t.rows:>9}{t.end - t.start:>10.2f}{t.rate:>8.4g}{t.gaps:>6}{t.missing_rows:>9}"
            )
        lines += ["", f"{'joint':<24}{'lower':>10}{'upper':>10}{'velocity':>10}{'effort':>10}  moved"]
        for joint in self.describe()["joints"]:
            lines.append(
                f"{joint['name']:<24}{joint['lower']:>10.4g}{joint['upper']:>10.4g}{joint['peak_velocity']:>10.4g}"
                f"{joint['peak_effort']:>10.4g}  {'yes' if joint['moved'] else 'NO'}"
            )
        return lines


# Find switches: unused columns with exactly two values, such as digital outputs or the state of a gripper or tool.

# Number of first rows that are tested before a column is read completely. They exclude most columns with more values.
FIRST_ROWS = 4096
STATES = 2  # distinct values of a switch


@dataclass(frozen=True, eq=False)
class Switch:
    """Column with two values.

    Parameters
    ----------
    column : str
        Name of the column.
    low, high : float
        Smaller and larger value.
    on : mapping of str to tuple of ndarray
        For each trajectory, the times (k,) in s of the first row, of each change and of the last row, and a mask (k,)
        that is True if the value is `high` from this time on.

    """

    column: str
    low: float
    high: float
    on: Mapping[str, tuple[Float, Bool]]

    def share(self, trajectory: str, t: Float, seconds: float) -> Float:
        """Share of a time window around each time in which the switch is on.

        This is the response of a moving-average filter of the same width.

        Parameters
        ----------
        trajectory : str
            Name of the trajectory.
        t : ndarray, shape (k,), s
            Centres of the windows.
        seconds : float, s
            Width of the window.

        Returns
        -------
        ndarray, shape (k,)

        """
        times, on = self.on[trajectory]
        edges = np.append(times, times[-1] + seconds)
        total = np.concatenate([[0.0], np.cumsum(np.diff(edges) * on)])
        low, high = np.maximum(t - 0.5 * seconds, edges[0]), np.minimum(t + 0.5 * seconds, edges[-1])
        width = np.maximum(high - low, 1e-12)
        return np.asarray((np.interp(high, edges, total) - np.interp(low, edges, total)) / width)


def switches_of(log: Log) -> tuple[Switch, ...]:
    """Find all unused columns with two values; () if the columns cannot be read."""
    known = {log.mapping.time.column, log.mapping.trajectory, *_mapped(log)}
    names = [
        name
        for name in log.tables[0].column_names
        if name not in known and all(name in table.column_names for table in log.tables)
    ]
    for table in log.tables:
        names = _may_switch(table, names)
    if not names:
        return ()
    changes: dict[str, dict[str, tuple[Float, Float]]] = {name: {} for name in names}
    for trajectory in log.trajectories:
        for name, column in _columns(log, names, trajectory.name).items():
            changes[name][trajectory.name] = column
    return tuple(switch for name in names if (switch := _switch(name, changes[name])) is not None)


def _mapped(log: Log) -> set[str]:
    m = log.mapping
    groups = (
        *(m.position, m.velocity, m.effort, m.motor_position, m.motor_velocity, m.temperature, m.extra),
        *(m.command_position, m.command_velocity, m.command_effort, m.clocks),
    )
    return {channel.column for group in groups for channel in group.values()}


def _may_switch(table: Table, names: list[str]) -> list[str]:
    if not names:
        return names
    try:
        batch = next(iter(table.batches(tuple(names), FIRST_ROWS)), None)
    except DynidError:
        return []
    if batch is None:
        return []
    return [
        name
        for name in names
        if not isinstance(column := batch[name], Text) and len(_values(column)) <= STATES
    ]


def _values(column: Float) -> Float:
    return np.unique(column[np.isfinite(column)])


def _columns(log: Log, names: list[str], trajectory: str) -> dict[str, tuple[Float, Float]]:
    source = log.source.with_extra({name: Channel(name, "1", 1.0) for name in names})
    wanted = next(entry for entry in log.trajectories if entry.name == trajectory)
    parts: dict[str, list[tuple[Float, Float]]] = {name: [] for name in names}
    for chunk in source.decode(wanted):
        for name, kept in parts.items():
            kept.append(_changes(chunk.t, chunk.extra[name]))
    return {
        name: _changes(*(np.concatenate(column) for column in zip(*kept, strict=True)))
        for name, kept in parts.items()
    }


def _changes(t: Float, values: Float) -> tuple[Float, Float]:
    # Keep only the changes, because all rows of a long log may not fit in memory.
    kept = np.concatenate([[True], values[1:] != values[:-1]])
    kept[-1] = True
    return t[kept], values[kept]


def _switch(name: str, by_trajectory: Mapping[str, tuple[Float, Float]]) -> Switch | None:
    values = np.unique(np.concatenate([_values(column) for _, column in by_trajectory.values()]))
    if len(values) != STATES or not all(np.isfinite(column).all() for _, column in by_trajectory.values()):
        return None
    on = {key: (t, np.asarray(column == values[1])) for key, (t, column) in by_trajectory.items()}
    return Switch(name, float(values[0]), float(values[1]), on)


# List the contents of a log file without a robot: columns, shapes, types, rates and first rows.

CONTENTS_FIRST_ROWS = 3  # number of rows that are displayed
# Number of first rows that are read: enough to distinguish a clock from a counter.
LOOKED_AT_ROWS = 2000
ROWS = 32768  # rows per batch
NAME_WIDTH, CELL_WIDTH = 60, 14  # maximum number of characters in a terminal line

Values = Float | tuple[str, ...]


@dataclass(frozen=True)
class Column:
    """Column of a log.

    Parameters
    ----------
    name : str
    info : ColumnInfo
        Metadata from the file.
    numeric : bool
        Whether the first rows are numbers.
    first : tuple of float or str
        First values; nan or "" marks a missing value.
    step : float, optional
        Median step of the first rows if they increase strictly, as a clock does; else None.

    """

    name: str
    info: ColumnInfo
    numeric: bool
    first: tuple[float, ...] | tuple[str, ...]
    step: float | None


@dataclass(frozen=True)
class Stream:
    """Group of columns with common rows.

    Parameters
    ----------
    name : str
        Topic or group; "" if all columns of the file have common rows.
    row_count : int, optional
        Number of rows; None if the file does not state it.
    rate : float, Hz, optional
        Rate of the rows; None if the file does not state it.
    columns : tuple of Column

    """

    name: str
    row_count: int | None
    rate: float | None
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Contents:
    """Contents of a log file.

    Parameters
    ----------
    path : Path
    table : Table
    streams : tuple of Stream
    trajectory : str, optional
        Column with the motion of each row, if the file states this column.
    left_out : tuple of str
        One line of text for each entry that is not a column.
    remarks : tuple of Finding
        Findings of the reader.
    constants : mapping of str to float
        Single numbers in the file, by name.

    """

    path: Path
    table: Table
    streams: tuple[Stream, ...]
    trajectory: str | None
    left_out: tuple[str, ...]
    remarks: tuple[Finding, ...]
    constants: Mapping[str, float] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of all streams."""
        return tuple(column for stream in self.streams for column in stream.columns)

    def read(self, names: Sequence[str], rows: int | None = None) -> dict[str, Values]:
        """Read columns with common rows.

        Parameters
        ----------
        names : sequence of str
            Names of the columns.
        rows : int, optional
            Number of first rows to read; None means all rows.

        Returns
        -------
        dict of str to ndarray or tuple of str
            Each column as numbers (n_samples,), nan if missing, or as text.

        Raises
        ------
        InputError
            If the file cannot be read, or if the columns do not have common rows.

        """
        return _read(self.table, tuple(names), rows)

    def lines(self) -> list[str]:
        """Format the contents as lines for the terminal."""
        lines = []
        for stream in self.streams:
            facts = [f"{len(stream.columns)} columns"]
            facts += [f"{stream.row_count} rows"] if stream.row_count is not None else []
            facts += [f"{stream.rate:.4g} Hz"] if stream.rate is not None else []
            lines += ["", f"{stream.name or self.path.name}: {', '.join(facts)}"]
            width = min(max((len(column.name) for column in stream.columns), default=0), NAME_WIDTH)
            lines += [_line(column, width) for column in stream.columns]
        if self.trajectory is not None:
            lines += ["", f"the column '{self.trajectory}' names the motion of each row"]
        if self.left_out:
            lines += ["", "not read as columns: " + "; ".join(self.left_out)]
        return lines[1:]


def contents(
    path: str | Path | Mapping[str, Path],
    delimiter: str | None = None,
    decimal: str | None = None,
    definitions: Sequence[Path] = (),
) -> Contents:
    """List the contents of a log file or folder from its first rows.

    Parameters
    ----------
    path : str, Path or mapping of str to Path
        Log, or several files that are parts of a recording, by their labels.
    delimiter, decimal : str, optional
        Separator and decimal sign of text files; None means that they are detected.
    definitions : sequence of Path
        .msg files, or folders of them, for bags that do not define their message types.

    Returns
    -------
    Contents

    Raises
    ------
    InputError
        If no reader recognises the file.
    UnfitDataError
        If the file is truncated.

    """
    if isinstance(path, Mapping):
        table = open_parts_of(path, delimiter, decimal)
    else:
        table = open_table(path, delimiter, decimal, definitions)
    streams = tuple(_stream(table, *stream) for stream in _streams(table).items())
    return Contents(
        table.path,
        table,
        streams,
        getattr(table, "trajectory", None),
        tuple(getattr(table, "left_out", ())),
        tuple(getattr(table, "remarks", ())),
        dict(getattr(table, "constants", {})),
    )


def _streams(table: Table) -> Mapping[str, tuple[str, ...]]:
    streams: Mapping[str, tuple[str, ...]] = getattr(table, "streams", {"": table.column_names})
    unlike = getattr(table, "unlike", ())
    return {
        name: tuple(column for column in columns if column not in unlike) for name, columns in streams.items()
    }


def _stream(table: Table, name: str, columns: tuple[str, ...]) -> Stream:
    infos = {column: _info(table, column) for column in columns}
    values = _read(table, columns, LOOKED_AT_ROWS) if columns else {}
    counts = [info.row_count for info in infos.values() if info.row_count is not None]
    rates = [info.rate for info in infos.values() if info.rate is not None]
    return Stream(
        name,
        counts[0] if counts else table.row_count,
        rates[0] if rates else None,
        tuple(_column(column, infos[column], values.get(column, ())) for column in columns),
    )


def _info(table: Table, column: str) -> ColumnInfo:
    known = getattr(table, "info", None)
    info: ColumnInfo = known(column) if known is not None else ColumnInfo()
    return info


def _column(name: str, info: ColumnInfo, values: Values) -> Column:
    if isinstance(values, tuple):
        return Column(name, info, False, values[:CONTENTS_FIRST_ROWS], None)
    with np.errstate(
        invalid="ignore", over="ignore"
    ):  # infinite values are reported by the checks of the log
        steps = np.diff(values)
    ascends = len(steps) > 0 and bool((steps > 0).all())
    first = tuple(float(value) for value in values[:CONTENTS_FIRST_ROWS])
    return Column(name, info, True, first, float(np.median(steps)) if ascends else None)


def _read(table: Table, columns: tuple[str, ...], rows: int | None) -> dict[str, Values]:
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise InputError(
            "missing-column",
            found=f"no column '{missing[0]}'",
            expected="one of " + ", ".join(table.column_names[:40]),
            place=Place(file=str(table.path)),
        )
    source = table.of_columns(columns) if isinstance(table, ManyTopics) else table
    parts: dict[str, list[Float | Text]] = {name: [] for name in columns}
    for batch in source.batches(columns, ROWS if rows is None else max(rows, 1), 0, rows):
        for name in columns:
            parts[name].append(batch[name])
    return {name: _concatenated(values) for name, values in parts.items()}


def _concatenated(parts: Sequence[Float | Text]) -> Values:
    if not any(isinstance(part, Text) for part in parts):
        numbers = [part for part in parts if not isinstance(part, Text)]
        return np.concatenate(numbers) if numbers else np.zeros(0)
    cells: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            cells += [part.names[code] if code >= 0 else "" for code in part.codes]
        else:
            cells += ["" if np.isnan(value) else repr(float(value)) for value in part]
    return tuple(cells)


def _line(column: Column, width: int) -> str:
    first = ", ".join(
        f"{value:.6g}" if isinstance(value, float) else f"'{shortened(value, CELL_WIDTH)}'"
        for value in column.first
    )
    facts = [column.info.dtype or ("number" if column.numeric else "text")]
    facts += [f"of {column.info.field} {column.info.shape}"] if len(column.info.shape) > 1 else []
    facts += [f"[{column.info.unit}]"] if column.info.unit else []
    facts += [f"ascends by {column.step:.4g}"] if column.step is not None else []
    return f"  {shortened(column.name, NAME_WIDTH):<{width}}  {first}, ...  ({', '.join(facts)})"
