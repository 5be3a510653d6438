"""Open logs: files, trajectories, and chunks of rows in SI units at the joints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics, Finding
from dynid.base.errors import DynidError, InputError, InputErrors, Place, UsageError
from dynid.base.records import Overview, dataclass, listed
from dynid.base.toml import validate
from dynid.log.clocks import (
    FEW_ROWS,
    MIN_ROWS,
    MOTION,
    ROW,
    ROWS,
    OnOneClock,
    Selection,
    Trajectories,
    column_numbers,
    longest_step,
    selected,
    spread_stamps,
    trajectories_in,
    with_motions,
    with_row_numbers,
)
from dynid.log.conversion import Conversion
from dynid.log.files import file_hash, open_table
from dynid.log.joints import EffortWatch, absent_joints, reason_of, without_effort, without_joints
from dynid.log.log import (
    Channel,
    ChannelMap,
    ManyTopics,
    Table,
)
from dynid.log.mapping import LogSection, channel_map
from dynid.log.own_columns import canonical_map, completed, names_of
from dynid.log.readers.bag import joints_of_columns
from dynid.log.readers.csv import refuse_unlike
from dynid.log.readers.memory import Arrays, frame_table
from dynid.log.readers.parts import open_parts, recordings
from dynid.log.readers.stamps import clock_as_written
from dynid.log.recording_faults import without_absent_efforts
from dynid.recording import (
    Channels,
    Commands,
    RawChunk,
    Recording,
    Trajectory,
    at_times_of_efforts,
    bridged,
    delayed,
    in_order,
    joined,
    pieces_of,
    servo_torque,
    taken,
    within,
)
from dynid.robot.load import lock_joints, locked, rest_position
from dynid.robot.model import RobotModel

# Map open tables to a robot: select columns and trajectories, and lock joints without columns.

SHOWN_ROWS = 5  # rows listed in a note


def as_channel_map(mapping: ChannelMap | Mapping[str, Any] | None, robot: RobotModel) -> ChannelMap | None:
    """Build a channel map from the plain data of a [log] table; return a ChannelMap or None unchanged."""
    if mapping is None or isinstance(mapping, ChannelMap):
        return mapping
    return channel_map(validate(LogSection, dict(mapping), {}, "mapping"), robot, "mapping")


def of_joints(
    tables: Sequence[Table], robot: RobotModel, mapping: ChannelMap | None, topics: Sequence[str] = ()
) -> list[Table]:
    """Select the topics with the robot's joints in tables of bags; return other tables unchanged.

    Parameters
    ----------
    tables : sequence of Table
        Open tables.
    robot : RobotModel
        Robot of the log.
    mapping : ChannelMap, optional
        Mapping of the log.
    topics : sequence of str
        Topics of the joint states; default: the topics of the mapping, else the only topic with all joints.

    """
    joints, named = _joints_and_topics(robot, mapping)
    known = (*robot.tree_joint_names, *robot.locked)
    return [
        table.of_joints(joints, topics or named, known) if isinstance(table, ManyTopics) else table
        for table in tables
    ]


def mapped_tables(
    tables: Sequence[Table],
    robot: RobotModel,
    mapping: ChannelMap | None,
    select: Sequence[Selection | str],
    extra: Sequence[str],
) -> tuple[Source, tuple[Finding, ...]]:
    """Map tables to a robot and lock the joints that have no columns.

    Parameters
    ----------
    tables : sequence of Table
        Open tables.
    robot : RobotModel
        Robot of the log.
    mapping : ChannelMap, optional
        None means dynid's standard column names.
    select : sequence of Selection or str
        Trajectories to read, by name or pattern.
    extra : sequence of str
        Additional columns to read.

    Returns
    -------
    source : Source
        The mapped tables.
    remarks : tuple of Finding
        Notes and warnings.

    """
    there, file = tables[0].column_names, str(tables[0].path)
    remarks = Diagnostics()
    if mapping is None:  # a recording of `dynid convert` contains its mapping
        mapping = as_channel_map(_recorded_section(tables[0], extra), robot)
    absent = absent_joints(mapping, [name for table in tables for name in table.column_names], robot)
    if absent:
        places = {joint: rest_position(robot, joint) for joint in absent}
        robot = locked(robot, places, "not in the log", remarks)
        mapping = mapping and without_joints(mapping, absent)
    if mapping is None:
        stated = {} if isinstance(tables[0], ManyTopics) else _stated_units(tables[0])
        chosen = canonical_map(there, robot, file, extra, stated)
        refuse_unlike(tables[0], names_of(robot))
    else:
        chosen = completed(mapping, there, robot, file, extra)
    time, tables = clock_as_written(tables, chosen.time, remarks)
    chosen = replace(chosen, time=time)
    table_trajectory = getattr(tables[0], "trajectory", None)
    if chosen.trajectory is None and table_trajectory is not None:
        chosen = replace(chosen, trajectory=table_trajectory)
    if chosen.time.column == ROW:
        tables = [with_row_numbers(table) for table in tables]
    if chosen.trajectory == MOTION:
        tables = [with_motions(table, chosen.time.column) for table in tables]
    for table in tables:
        _require_columns(table, chosen)
    columns = chosen.columns
    tables = [table.of_columns(columns) if isinstance(table, ManyTopics) else table for table in tables]
    clocks = {name: clock for name, clock in chosen.clocks.items() if name in columns}
    if clocks:
        positions = [channel.column for channel in chosen.position.values()]
        efforts = {channel.column for channel in chosen.effort.values()}
        tables = [OnOneClock(table, chosen.time, positions, clocks, efforts) for table in tables]
    available = trajectories_in(tables, chosen)
    if mapping is None and (rows := _restart_rows(available, chosen)):
        chosen = replace(chosen, trajectory=MOTION)
        tables = [with_motions(table, chosen.time.column) for table in tables]
        available = trajectories_in(tables, chosen)
        text = f"time restarts at row {', '.join(map(str, rows))}: each section is read as a separate motion"
        remarks.note("motions-found", text, Place(file=file, row=rows[0]))
    wanted = [Selection(selection) if isinstance(selection, str) else selection for selection in select]
    trajectories = tuple(selected(available, wanted))
    for trajectory in trajectories:
        _report_order(trajectory, remarks)
    return Source(robot, chosen, tuple(tables), trajectories), tuple(remarks)


def _recorded_section(table: Table, extra: Sequence[str]) -> dict[str, Any] | None:
    """[log] table of a recording by `dynid convert`, limited to the requested extra channels; None for other tables."""
    section: Mapping[str, Any] | None = getattr(table, "section", None)
    if section is None:
        return None
    further = section.get("extra", {})
    return {**section, "extra": {name: further[name] for name in extra if name in further}}


def _restart_rows(trajectories: Trajectories, chosen: ChannelMap) -> tuple[int, ...]:
    """Rows at which time restarts in a file without a trajectory column; () if the rows are to be sorted by time."""
    if chosen.trajectory is not None or chosen.sort:
        return ()
    return tuple(row for order in trajectories.orders.values() for row in order.begins_anew())


def _stated_units(table: Table) -> dict[str, str]:
    info = getattr(table, "info", None)
    return {name: unit for name in table.column_names if info is not None and (unit := info(name).unit)}


def _report_order(trajectory: Trajectory, remarks: Diagnostics) -> None:
    if trajectory.misplaced:
        remarks.warn(
            "rows-misplaced",
            f"trajectory '{trajectory.name}': {trajectory.misplaced} of {trajectory.row_count} rows are a few rows "
            "out of order; dynid sorts them by time",
            Place(file=str(trajectory.file)),
        )
    if trajectory.left_out:
        shown = ", ".join(map(str, trajectory.left_out[:SHOWN_ROWS])) + (
            " ..." if len(trajectory.left_out) > SHOWN_ROWS else ""
        )
        remarks.note(
            "damaged-stamps",
            f"trajectory '{trajectory.name}': {len(trajectory.left_out)} of {trajectory.row_count} row(s) are "
            f"ignored because their time stamps are missing or contradict their neighbours: {shown}",
            Place(file=str(trajectory.file), row=trajectory.left_out[0]),
        )


def _joints_and_topics(
    robot: RobotModel, mapping: ChannelMap | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if mapping is None or not mapping.position:
        return robot.joint_names, mapping.topics if mapping else ()
    joints, topics = joints_of_columns([channel.column for channel in mapping.position.values()])
    return joints, mapping.topics or topics


def _require_columns(table: Table, m: ChannelMap) -> None:
    clocks = [clock.column for clock in m.clocks.values()]
    wanted = [*m.columns, *dict.fromkeys(clocks), *([m.trajectory] if m.trajectory else [])]
    refuse_unlike(table, wanted)
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


# rad or m. If a joint is this far from its locked position, the torque of an arm changes by a few percent.
ELSEWHERE = 0.05


def read_log(
    paths: str | Path | Sequence[str | Path],
    robot: RobotModel,
    mapping: ChannelMap | Mapping[str, Any] | None = None,
    select: Sequence[Selection | str] = (Selection(),),
    extra: Sequence[str] = (),
    topics: Sequence[str] = (),
) -> Log:
    """Open one or several log files of a robot, in any supported format.

    Parameters
    ----------
    paths : str, Path or sequence of these
        Files or folders.
    robot : RobotModel
        Robot of the log.
    mapping : ChannelMap or mapping, optional
        Signal, joint and unit of each column, as a ChannelMap or as the plain data of an experiment's [log] table.
        None means dynid's standard column names (t, traj, q_<joint>, dq_<joint>, tau_<joint>).
    select : sequence of Selection or str
        Trajectories to use: names or patterns, or selections that also limit the time.
    extra : sequence of str
        Additional columns that terms of the model read, for a log with standard column names.
    topics : sequence of str
        Topics of the joint states in bags; default: the topics of the mapping, else the only topic with all joints.

    Returns
    -------
    Log

    Raises
    ------
    InputError
        If a file, column or trajectory does not exist or cannot be read.

    """
    files = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if not files:
        raise UsageError("no-log", found="no log file", expected="at least one")
    if len({file.resolve() for file in files}) < len(files):
        raise UsageError("log-twice", found="the same log file twice", expected="each file once")
    chosen = as_channel_map(mapping, robot)
    delimiter, decimal = (chosen.delimiter, chosen.decimal) if chosen else (None, None)
    definitions = chosen.definitions if chosen else ()
    tables = [open_table(file, delimiter, decimal, definitions) for file in files]
    if chosen is not None and len(files) > 1:
        tables = _with_parts_together(tables, chosen)
    tables = of_joints(tables, robot, chosen, topics)
    return _with_joints_locked(*mapped_tables(tables, robot, chosen, select, extra))


def _with_parts_together(tables: list[Table], mapping: ChannelMap) -> list[Table]:
    """Join the files of each recording into a single table if the mapping needs columns from several files."""
    wanted = {channel.column for channel in (*mapping.position.values(), *mapping.effort.values())}
    if any(isinstance(table, ManyTopics) or wanted <= {*table.column_names} for table in tables):
        return tables
    table_of = {table.path: table for table in tables}
    whole = [
        open_parts(parts, table_of.__getitem__) for parts in recordings(list(table_of)) if len(parts) > 1
    ]
    return whole if whole and all(wanted <= {*table.column_names} for table in whole) else tables


def _with_joints_locked(source: Source, remarks: tuple[Finding, ...]) -> Log:
    """Make a log from a source and lock resting joints without a useful effort at their positions.

    Moving joints without a useful effort are marked as `unmeasured`, with a warning.
    """
    log = Log(source.robot, source, source.trajectories, remarks)
    if not log.mapping.effort:
        return log
    watch = EffortWatch(log.robot, log.mapping)
    try:
        for chunk in (chunk for trajectory in log.trajectories for chunk in log.chunks(trajectory)):
            watch.see(chunk)
            if watch.idle and len(log.mapping.effort) == log.robot.n:
                return log
    except DynidError:
        return log  # errors in the rows are reported when the log is read
    to_hold, unmeasured = watch.joints_to_lock(), watch.unmeasured()
    log = replace(log, resting=watch.resting)
    of_efforts = Diagnostics()
    if unmeasured:
        _report_unmeasured(unmeasured, of_efforts)
        log = log.without_efforts(unmeasured, tuple(of_efforts))
    free = log
    for why, joints in to_hold.items():
        places = {name: at for name, (at, _) in joints.items()}
        log = log.with_held(places, reason_of(why, joints, log.robot))
    return replace(log, free=free) if to_hold else log


def _report_unmeasured(joints: Sequence[str], remarks: Diagnostics) -> None:
    single = len(joints) == 1
    named = ", ".join(f"'{joint}'" for joint in joints)
    remarks.warn(
        "joint-unmeasured",
        f"{'joint' if single else 'joints'} {named} {'moves' if single else 'move'} without an effort (missing or "
        f"constant in the log): {'its' if single else 'their'} motion is used, but {'its' if single else 'their'} "
        "friction and rotor inertia are not identified",
    )


@dataclass(frozen=True, eq=False)
class Source:
    """Open tables whose columns are mapped to the joints of a robot.

    Parameters
    ----------
    robot : RobotModel
        Robot; the gains, gears and linkages of its drives convert the columns to joint motion and torque.
    mapping : ChannelMap
        Signal, joint and unit of each column.
    tables : tuple of Table
        Open files.
    trajectories : tuple of Trajectory
        Selected trajectories.

    """

    robot: RobotModel
    mapping: ChannelMap
    tables: tuple[Table, ...]
    trajectories: tuple[Trajectory, ...]

    @cached_property
    def recording(self) -> Recording:
        """All rows, decoded only once; raises InputError for rows that cannot be read."""
        return Recording(self.robot.joint_names, self.trajectories, self.decode)

    @cached_property
    def sha256(self) -> dict[str, str]:
        """SHA-256 of every file by path, or of the values of a log in memory by name."""
        return {
            str(table.path): getattr(table, "sha256", None) or file_hash(table.path) for table in self.tables
        }

    def with_extra(self, channels: Mapping[str, Channel]) -> Source:
        """Replace the extra channels."""
        return replace(self, mapping=replace(self.mapping, extra=dict(channels)))

    def decode(self, trajectory: Trajectory) -> Iterator[RawChunk]:
        """Read a trajectory from its file and yield it in chunks, sorted by time if the mapping requires this."""
        chunks = self._converted(trajectory)
        if self.mapping.sort:
            chunks = _sorted(chunks)
        elif trajectory.misplaced:
            chunks = in_order(chunks, FEW_ROWS)
        chunks = at_times_of_efforts(spread_stamps(without_absent_efforts(chunks)), longest_step)
        for chunk in bridged(chunks, longest_step):
            part = within(chunk, trajectory)
            if len(part.t):
                yield part

    def _converted(self, trajectory: Trajectory) -> Iterator[RawChunk]:
        conversion = Conversion(self.robot, self.mapping)
        for row, numbers, empty in self._numbers(trajectory):
            yield replace(conversion.chunk(trajectory, row, numbers), empty=empty)

    def _numbers(self, trajectory: Trajectory) -> Iterator[tuple[int, dict[str, Float], Float]]:
        # Yields the first row, the columns, and the times (s) of rows that are omitted since they contain only a time.
        table = next(table for table in self.tables if table.path == trajectory.file)
        columns = self.mapping.columns
        row = trajectory.first_row
        for batch in table.batches(columns, ROWS, row, row + trajectory.row_count):
            numbers = {name: column_numbers(values, name, table, row) for name, values in batch.items()}
            count = len(numbers[columns[0]])
            a, b = np.searchsorted(trajectory.left_out, (row, row + count)) if trajectory.left_out else (0, 0)
            if b > a:
                out = np.array(trajectory.left_out[a:b]) - row
                numbers = {name: np.delete(values, out) for name, values in numbers.items()}
            empty, t = _empty_rows(numbers, columns), numbers[columns[0]]
            if empty.any():
                numbers = {name: values[~empty] for name, values in numbers.items()}
            if b - a < count:
                yield row, numbers, t[empty] * self.mapping.time.factor
            row += count


@dataclass(frozen=True, eq=False)
class Log:
    """Open log: trajectories of a robot, read chunk by chunk.

    A joint without columns or without a useful effort is locked in `robot`, or is listed in `unmeasured`.

    Parameters
    ----------
    robot : RobotModel
        Robot in which joints without data are locked.
    source : Source
        Files, mapping and robot from which the log reads.
    trajectories : tuple of Trajectory
    own_remarks : tuple of Finding
        Findings about this log, in addition to the findings of its tables.
    resting : mapping of str to float, rad or m
        Position of each joint that is at rest in the whole log but not locked.
    free : Log, optional
        The same log before joints were locked for lack of a useful effort; None if no joint was locked.
    ignored_efforts : frozenset of str
        Joints whose effort is not used.

    """

    robot: RobotModel
    source: Source
    trajectories: tuple[Trajectory, ...]
    own_remarks: tuple[Finding, ...] = ()
    resting: Mapping[str, float] = field(default_factory=dict)
    free: Log | None = None
    ignored_efforts: frozenset[str] = frozenset()

    def of_robot(self, robot: RobotModel) -> Log:
        """Log with the joints of `robot`: joints that are locked in `robot` are locked in the log, too.

        A joint that the log locked for lack of a useful effort, but that is free in `robot`, becomes `unmeasured`.

        Raises
        ------
        UsageError
            If the log and the robot have different joints.

        """
        back = set(robot.joint_names) - set(self.robot.joint_names)
        if self.free is not None and back and back <= set(self.free.robot.joint_names):
            positions = {j: at for j, at in self.robot.locked.items() if j in self.free.robot.joint_names}
            unlocked = self.free.without_efforts([j for j in positions if j in back])
            rest = {j: at for j, at in positions.items() if j not in back}
            return unlocked.with_held(rest, "without a useful effort").of_robot(robot)
        gone = [joint for joint in self.robot.joint_names if joint not in robot.joint_names]
        if set(robot.joint_names) - set(self.robot.joint_names) or not set(gone) <= set(robot.locked):
            raise UsageError(
                "other-joints",
                found=f"a log of the joints {', '.join(self.robot.joint_names)}",
                expected=f"the joints of the model: {', '.join(robot.joint_names)}",
            )
        values = {joint: robot.locked[joint] for joint in gone}
        return self._with_locked(values, self._moved_locked_joints(values)) if gone else self

    def _moved_locked_joints(self, values: Mapping[str, float]) -> tuple[Finding, ...]:
        # Warn of joints that are locked in the model but move in this log or rest at another position.
        remarks = Diagnostics()
        for joint, at in values.items():
            if joint not in self.mapping.effort:
                continue
            here = self.resting.get(joint)
            if here is None or abs(here - at) > ELSEWHERE:
                where = "moves in this log" if here is None else f"is at {here:.3g} in this log"
                remarks.warn(
                    "held-elsewhere",
                    f"joint '{joint}' is locked at {at:.3g} in the model but {where}: the model assumes wrong "
                    "positions of the links that it carries",
                )
        return tuple(remarks)

    def _with_locked(self, values: Mapping[str, float], remarks: Sequence[Finding] = ()) -> Log:
        robot = lock_joints(self.robot, values).robot
        resting = {joint: at for joint, at in self.resting.items() if joint not in values}
        return replace(self, robot=robot, own_remarks=(*self.own_remarks, *remarks), resting=resting)

    def with_held(self, values: Mapping[str, float], reason: str) -> Log:
        """Lock joints at the given positions (rad or m) and add a finding that states the reason."""
        remarks = Diagnostics()
        locked(self.robot, values, reason, remarks)
        return self._with_locked(values, tuple(remarks)) if values else self

    def without_efforts(self, joints: Sequence[str], remarks: Sequence[Finding] = ()) -> Log:
        """Ignore the effort of some joints: their motion is used, but their torque equations are not."""
        if not joints:
            return self
        ignored = self.ignored_efforts | frozenset(joints)
        return replace(self, ignored_efforts=ignored, own_remarks=(*self.own_remarks, *remarks))

    def without_short(self, seconds: float) -> Log:
        """Remove trajectories with fewer than 50 rows or shorter than `seconds`, with a warning for each.

        If all trajectories are short, none is removed.
        """
        short = [
            trajectory
            for trajectory in self.trajectories
            if trajectory.row_count < MIN_ROWS or trajectory.end_time - trajectory.start_time < seconds
        ]
        if not short or len(short) == len(self.trajectories):
            return self
        remarks = Diagnostics()
        for trajectory in short:
            remarks.warn(
                "too-few-rows",
                f"trajectory '{trajectory.name}' is too short and is ignored: {trajectory.row_count} rows in "
                f"{trajectory.end_time - trajectory.start_time:.3g} s; at least {MIN_ROWS} rows and {seconds:g} s are "
                "required",
                Place(file=str(trajectory.file)),
            )
        kept = tuple(trajectory for trajectory in self.trajectories if trajectory not in short)
        return replace(self, trajectories=kept, own_remarks=(*self.own_remarks, *remarks))

    def with_extra(self, channels: Mapping[str, Channel]) -> Log:
        """Replace the extra channels."""
        return replace(self, source=self.source.with_extra(channels))

    def with_mapping(self, mapping: ChannelMap) -> Log:
        """Replace the mapping of the columns."""
        return replace(self, source=replace(self.source, mapping=mapping))

    def held_in(self, robot: RobotModel) -> RobotModel:
        """Lock in `robot` the joints that are locked in this log; raise UsageError if other joints are missing."""
        gone = [joint for joint in robot.joint_names if joint not in self.robot.joint_names]
        if not gone:
            return robot
        if not set(gone) <= set(self.robot.locked):
            raise UsageError(
                "other-joints",
                found=f"a log of the joints {', '.join(self.robot.joint_names)}",
                expected=f"the joints of the model: {', '.join(robot.joint_names)}",
            )
        return lock_joints(robot, {joint: self.robot.locked[joint] for joint in gone}).robot

    @staticmethod
    def from_arrays(
        robot: RobotModel,
        t: npt.ArrayLike,
        q: npt.ArrayLike,
        tau: npt.ArrayLike | None = None,
        dq: npt.ArrayLike | None = None,
        *,
        theta: npt.ArrayLike | None = None,
        dtheta: npt.ArrayLike | None = None,
        temperature: npt.ArrayLike | None = None,
        q_des: npt.ArrayLike | None = None,
        dq_des: npt.ArrayLike | None = None,
        tau_ff: npt.ArrayLike | None = None,
        extra: Mapping[str, npt.ArrayLike] | None = None,
        trajectory: npt.ArrayLike | None = None,
        joints: Sequence[str] | None = None,
        units: Mapping[str, str] | None = None,
        name: str = "arrays",
    ) -> Log:
        """Make a log from arrays in memory; the arrays are copied.

        Parameters
        ----------
        robot : RobotModel
            Robot of the log.
        t : array_like, shape (n_samples,), s
            Time.
        q, tau, dq : array_like, shape (n_samples, n_joints), rad, N m, rad/s (m, N, m/s)
            Positions, torques and velocities; nan marks a missing value.
        theta, dtheta : array_like, shape (n_samples, n_joints), rad, rad/s
            Motor position and velocity divided by the gear ratio, for motors with encoders.
        temperature : array_like, shape (n_samples, n_joints), degC
            Temperatures.
        q_des, dq_des, tau_ff : array_like, shape (n_samples, n_joints)
            Commands to the drives, if `tau` was not measured; the robot's `servo` computes the torque from them.
        extra : mapping of str to array_like, shape (n_samples,)
            Additional channels that terms of the model read.
        trajectory : array_like of str, shape (n_samples,)
            Name of the motion of each row; None means a single motion.
        joints : sequence of str
            Joint of each array column; None means robot.joint_names.
        units : mapping of str to str
            Units of t, q, dq, tau, ... that differ from those above, e.g. {"q": "deg", "tau": "A"}.
        name : str
            Name of the log in messages and results.

        Raises
        ------
        UsageError
            If the shapes of the arrays are inconsistent.
        InputError
            If a unit or joint is unknown.

        """
        given = {"q": q, "dq": dq, "tau": tau, "theta": theta, "dtheta": dtheta, "temperature": temperature}
        given |= {"q_des": q_des, "dq_des": dq_des, "tau_ff": tau_ff}
        by_joint = {key: values for key, values in given.items() if values is not None}
        arrays = Arrays(t, by_joint, tuple(joints or robot.joint_names), trajectory, extra or {})
        mapping = as_channel_map(arrays.section(units or {}), robot)
        return _with_joints_locked(*mapped_tables([arrays.table(name)], robot, mapping, (Selection(),), ()))

    @staticmethod
    def from_frame(
        frame: Any,
        robot: RobotModel,
        mapping: ChannelMap | Mapping[str, Any] | None = None,
        *,
        select: Sequence[Selection | str] = (Selection(),),
        extra: Sequence[str] = (),
        name: str = "frame",
    ) -> Log:
        """Make a log from a data frame.

        dynid may read the frame without a copy: do not change it while the log is in use.

        Parameters
        ----------
        frame : object
            A pandas, polars or Arrow frame, or any object with Arrow's C stream interface.
        robot : RobotModel
            Robot of the log.
        mapping : ChannelMap or mapping, optional
            As for `read_log`.
        select : sequence of Selection or str
            As for `read_log`.
        extra : sequence of str
            As for `read_log`.
        name : str
            Name of the log in messages and results.

        Raises
        ------
        UsageError
            If the object is not a data frame.
        InputError
            If a column or trajectory does not exist.

        """
        tables = [frame_table(frame, name)]
        return _with_joints_locked(
            *mapped_tables(tables, robot, as_channel_map(mapping, robot), select, extra)
        )

    def overview(self) -> Overview:
        """Summarize the files, trajectories and channels of the log."""
        m = self.mapping
        groups = {
            "position": m.position,
            "velocity": m.velocity,
            m.effort_quantity: m.effort,
            "motor position": m.motor_position,
            "motor velocity": m.motor_velocity,
            "temperature": m.temperature,
            "commanded position": m.command_position if m.commanded else {},
            "commanded velocity": m.command_velocity if m.commanded else {},
            "commanded effort": m.command_effort if m.commanded else {},
        }
        channels = [f"{name} ({_units(group)})" for name, group in groups.items() if group] + list(m.extra)
        return Overview(
            f"Log of '{self.robot.name}': {len(self.trajectories)} "
            f"{'trajectory' if len(self.trajectories) == 1 else 'trajectories'}, {self.duration:.4g} s",
            (
                ("from", listed([table.path.name for table in self.tables])),
                ("trajectories", listed([trajectory.name for trajectory in self.trajectories])),
                ("channels", listed(channels)),
                ("joints", listed(self.robot.joint_names)),
            ),
            ("trajectory", "rows", "from, s", "to, s"),
            tuple(
                (
                    trajectory.name,
                    str(trajectory.row_count),
                    f"{trajectory.start_time:.6g}",
                    f"{trajectory.end_time:.6g}",
                )
                for trajectory in self.trajectories
            ),
        )

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()

    @cached_property
    def duration(self) -> float:
        """Total recorded time of all trajectories without gaps, s."""
        try:
            return sum(map(self._recorded_seconds, self.trajectories))
        except DynidError:  # errors in the rows are reported when the log is read
            return sum(t.end_time - t.start_time for t in self.trajectories)

    def _recorded_seconds(self, trajectory: Trajectory) -> float:
        steps = np.diff(np.concatenate([np.zeros(0), *(chunk.t for chunk in self.recorded(trajectory))]))
        usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
        return float(steps[(steps > 0) & (steps <= longest_step(usual))].sum())

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Moving joints without a measured effort, in a log with efforts of other joints or forces of the feet.

        Their effort is 0 in all chunks, and their torque equations are not used.
        """
        logged = self.mapping.effort
        known = logged or self.channels.weighed
        return tuple(j for j in self.robot.joint_names if j not in logged) if known else ()

    @property
    def has_effort(self) -> bool:
        """Whether the log has joint efforts, commands from which dynid computes them, or forces of a floating base."""
        return self.mapping.gives_torque and not (
            self.channels.weighed and self.robot.reading.base == "fixed"
        )

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """Notes and warnings of the readers, and findings about locked joints."""
        of_tables = (remark for table in self.tables for remark in getattr(table, "remarks", ()))
        return (*self.own_remarks, *of_tables)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Open files with their columns as logged."""
        return self.source.tables

    @cached_property
    def mapping(self) -> ChannelMap:
        """Column of each signal and joint, without locked joints and ignored efforts."""
        locked_joints = [
            joint for joint in self.source.robot.joint_names if joint not in self.robot.joint_names
        ]
        mapping = without_joints(self.source.mapping, locked_joints)
        return without_effort(mapping, self.ignored_efforts) if self.ignored_efforts else mapping

    @cached_property
    def channels(self) -> Channels:
        """Recorded signals, with the joints of each."""
        return self.mapping.channels

    @property
    def sha256(self) -> dict[str, str]:
        """SHA-256 of every file by path, or of the values of a log in memory by name."""
        return self.source.sha256

    def identity(self) -> list[list[Any]]:
        """[hash of the file, first row, start time, end time] of each trajectory, which identify its data."""
        return [[self.sha256[str(t.file)], t.first_row, t.start_time, t.end_time] for t in self.trajectories]

    def chunks(self, trajectory: Trajectory, rows: int = ROWS) -> Iterator[RawChunk]:
        """Yield consecutive chunks of a trajectory with at most `rows` rows.

        If the torque is computed from commands, rows before the first command takes effect are omitted.

        Parameters
        ----------
        trajectory : Trajectory
            Trajectory of the log.
        rows : int
            Maximum number of rows in a chunk.

        Raises
        ------
        InputError
            If a log with commands has no gains of the position controllers, or if rows cannot be read.

        """
        chunks = self.recorded(trajectory, rows)
        servo = self.robot.drive.servo
        if self.channels.commanded:
            if servo is None or not servo.known:
                raise InputError(
                    "no-gains",
                    found="commands instead of a measured torque, but no gains of the position controllers",
                    expected="kp (and kd, if there is damping) of every joint",
                    do="set kp = ... and kd = ... under [drive] in the experiment file, or pass --kp and --kd",
                )
            chunks = map(servo_torque(servo), chunks)
            if servo.lag > 0:
                chunks = delayed(chunks, servo)
        yield from chunks

    def recorded(self, trajectory: Trajectory, rows: int = ROWS) -> Iterator[RawChunk]:
        """Yield chunks as recorded: commands remain commands, without the torque that `chunks` computes from them."""
        known = trajectory in self.source.recording
        recording = (
            self.source.recording if known else replace(self.source, trajectories=(trajectory,)).recording
        )
        unmeasured = [j for j, name in enumerate(self.robot.joint_names) if name in self.unmeasured]
        for chunk in recording.chunks(trajectory, self.robot.joint_names):
            tau = chunk.tau
            if unmeasured and tau is not None:
                tau = tau.copy(order="K")
                tau[:, unmeasured] = 0.0  # nan would mark every row as incomplete
            yield from pieces_of(replace(chunk, tau=tau), rows)

    def read(self, trajectory: Trajectory) -> RawChunk:
        """Read a whole trajectory as one chunk."""
        return joined(list(self.chunks(trajectory)))

    def commands_of(self, name: str) -> Commands:
        """Commands of the trajectory with the given name; raises UsageError for a log without commands."""
        return self.commands(next(trajectory for trajectory in self.trajectories if trajectory.name == name))

    def commands(self, trajectory: Trajectory) -> Commands:
        """Commands of a whole trajectory, in order of time; raises UsageError for a log without commands."""
        if not self.channels.commanded:
            raise UsageError(
                "no-command", found="a log without commanded positions", expected="q_des of each joint"
            )
        whole = joined(list(self.recorded(trajectory)))
        if whole.commands is None:
            raise UsageError("no-command", found="no commanded positions", expected="one per joint")
        order = np.argsort(whole.t, kind="stable")
        return Commands(whole.t[order], *np.split(whole.commands[order], 3, axis=1))


def as_log(log: Any, robot: RobotModel, extra: Sequence[str] = ()) -> Log:
    """Return a Log unchanged, or make a Log from a data frame with standard column names.

    Parameters
    ----------
    log : Log or data frame
        The log.
    robot : RobotModel
        Robot of the log.
    extra : sequence of str
        Additional columns of the frame that terms of the model read.

    """
    return log if isinstance(log, Log) else Log.from_frame(log, robot, extra=extra)


def _units(channels: Mapping[str, Channel]) -> str:
    return ", ".join(dict.fromkeys(channel.unit for channel in channels.values()))


def _empty_rows(numbers: Mapping[str, Float], columns: Sequence[str]) -> Bool:
    """Mask of rows with a time (first column) but no other number; they belong to other signals of the file."""
    empty = np.ones(len(numbers[columns[0]]), dtype=np.bool_)
    for name in columns[1:]:
        if not empty.any():
            break
        empty &= np.isnan(numbers[name])
    return empty


def _sorted(chunks: Iterator[RawChunk]) -> Iterator[RawChunk]:
    whole = joined(list(chunks))
    yield taken(whole, np.argsort(whole.t, kind="stable"))
