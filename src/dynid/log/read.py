"""Logs opened for reading: files, their trajectories, and chunks of rows in SI units on the joints' side."""

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
    MOTION,
    ROW,
    ROWS,
    OnOneClock,
    Selection,
    Trajectories,
    column_numbers,
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
from dynid.recording import (
    Channels,
    Commands,
    RawChunk,
    Recording,
    Trajectory,
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

# Open tables made those of one robot: columns by the mapping, rows by trajectories, joints without columns
# held.

# Of the rows that a note lists.
SHOWN_ROWS = 5


def as_channel_map(mapping: ChannelMap | Mapping[str, Any] | None, robot: RobotModel) -> ChannelMap | None:
    """A mapping as it is, or that of the plain data of a [log] table."""
    if mapping is None or isinstance(mapping, ChannelMap):
        return mapping
    return channel_map(validate(LogSection, dict(mapping), {}, "mapping"), robot, "mapping")


def of_joints(
    tables: Sequence[Table], robot: RobotModel, mapping: ChannelMap | None, topics: Sequence[str] = ()
) -> list[Table]:
    """The tables, those of bags with the streams that hold the robot's joints.

    topics: where the joint states are; those of the mapping, or else the only fitting one, where not given.
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
    """The tables as a source, of the robot with joints held of which there are no columns, and remarks.

    mapping: None = dynid's own column names.    select: trajectories, by name or pattern.    extra: further columns.
    """
    there, file = tables[0].column_names, str(tables[0].path)
    remarks = Diagnostics()
    if mapping is None:  # a recording says itself what its columns are
        mapping = as_channel_map(_own_section(tables[0], extra), robot)
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
    own = getattr(tables[0], "trajectory", None)
    if chosen.trajectory is None and own is not None:
        chosen = replace(chosen, trajectory=own)
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
        tables = [OnOneClock(table, chosen.time, positions, clocks) for table in tables]
    found = trajectories_in(tables, chosen)
    if mapping is None and (rows := _begun_anew(found, chosen)):
        chosen = replace(chosen, trajectory=MOTION)
        tables = [with_motions(table, chosen.time.column) for table in tables]
        found = trajectories_in(tables, chosen)
        text = f"time begins anew at row {', '.join(map(str, rows))}: each stretch is a motion"
        remarks.note("motions-found", text, Place(file=file, row=rows[0]))
    wanted = [Selection(one) if isinstance(one, str) else one for one in select]
    trajectories = tuple(selected(found, wanted))
    for one in trajectories:
        _report_order(one, remarks)
    return Source(robot, chosen, tuple(tables), trajectories), tuple(remarks)


def _own_section(table: Table, extra: Sequence[str]) -> dict[str, Any] | None:
    """The [log] table that a recording brings along, with those of its further channels that are asked for."""
    section: Mapping[str, Any] | None = getattr(table, "section", None)
    if section is None:
        return None
    further = section.get("extra", {})
    return {**section, "extra": {name: further[name] for name in extra if name in further}}


def _begun_anew(found: Trajectories, chosen: ChannelMap) -> tuple[int, ...]:
    """Rows at which recordings begin that stand one behind the other without a column that names them; () = none."""
    if chosen.trajectory is not None or chosen.sort:
        return ()
    return tuple(row for order in found.orders.values() for row in order.begins_anew())


def _stated_units(table: Table) -> dict[str, str]:
    info = getattr(table, "info", None)
    return {name: unit for name in table.column_names if info is not None and (unit := info(name).unit)}


def _report_order(one: Trajectory, remarks: Diagnostics) -> None:
    if one.misplaced:
        remarks.warn(
            "rows-misplaced",
            f"trajectory '{one.name}': {one.misplaced} of {one.row_count} rows stand a few rows from their place by "
            "time, and are put there",
            Place(file=str(one.file)),
        )
    if one.left_out:
        shown = ", ".join(map(str, one.left_out[:SHOWN_ROWS])) + (
            " ..." if len(one.left_out) > SHOWN_ROWS else ""
        )
        remarks.note(
            "damaged-stamps",
            f"trajectory '{one.name}': {len(one.left_out)} of {one.row_count} row(s) are left out, as their time "
            f"stamps are missing or contradict those of the rows around them: {shown}",
            Place(file=str(one.file), row=one.left_out[0]),
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


# rad or m from where a model holds a joint: arms change their torque by some hundredths then.
ELSEWHERE = 0.05


def read_log(
    paths: str | Path | Sequence[str | Path],
    robot: RobotModel,
    mapping: ChannelMap | Mapping[str, Any] | None = None,
    select: Sequence[Selection | str] = (Selection(),),
    extra: Sequence[str] = (),
    topics: Sequence[str] = (),
) -> Log:
    """Opens one or several logs of a robot, files or folders of any format that has a reader.

    mapping: which column measures what, also as the plain data of an experiment's [log] table;
    None = dynid's own column names (t, traj, q_<joint>, dq_<joint>, tau_<joint>).
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
    chosen = as_channel_map(mapping, robot)
    delimiter, decimal = (chosen.delimiter, chosen.decimal) if chosen else (None, None)
    definitions = chosen.definitions if chosen else ()
    tables = [open_table(file, delimiter, decimal, definitions) for file in files]
    if chosen is not None and len(files) > 1:
        tables = _with_parts_together(tables, chosen)
    tables = of_joints(tables, robot, chosen, topics)
    return _held(*mapped_tables(tables, robot, chosen, select, extra))


def _with_parts_together(tables: list[Table], mapping: ChannelMap) -> list[Table]:
    """The tables; those of each recording together where the mapping has columns of several of its files."""
    wanted = {channel.column for channel in (*mapping.position.values(), *mapping.effort.values())}
    if any(isinstance(one, ManyTopics) or wanted <= {*one.column_names} for one in tables):
        return tables
    table_of = {table.path: table for table in tables}
    whole = [
        open_parts(parts, table_of.__getitem__) for parts in recordings(list(table_of)) if len(parts) > 1
    ]
    return whole if whole and all(wanted <= {*one.column_names} for one in whole) else tables


def _held(source: Source, remarks: tuple[Finding, ...]) -> Log:
    """The log of a source, in which joints whose effort says nothing are held where they are."""
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
        return log  # what is wrong with the rows is reported by who reads them
    found, unmeasured = watch.held(), watch.unmeasured()
    log = replace(log, resting=watch.resting)
    of_efforts = Diagnostics()
    if unmeasured:
        _report_unmeasured(unmeasured, of_efforts)
        log = log.without_efforts(unmeasured, tuple(of_efforts))
    free = log
    for why, joints in found.items():
        places = {name: at for name, (at, _) in joints.items()}
        log = log.with_held(places, reason_of(why, joints, log.robot))
    return replace(log, free=free) if found else log


def _report_unmeasured(joints: Sequence[str], remarks: Diagnostics) -> None:
    one = len(joints) == 1
    named = ", ".join(f"'{joint}'" for joint in joints)
    remarks.warn(
        "joint-unmeasured",
        f"{'joint' if one else 'joints'} {named} {'moves' if one else 'move'} without an effort in the log (none, or "
        f"one value throughout): the motion is used, the {'equation is' if one else 'equations are'} left out, so that "
        f"{'its' if one else 'their'} friction and rotor inertia are not identified",
    )


@dataclass(frozen=True, eq=False)
class Source:
    """Open tables whose columns are mapped to the joints of a robot.

    Parameters
    ----------
    robot : RobotModel
        With the drives by whose gains, gears and linkages columns become motion and torque of the joints.
    mapping : ChannelMap
    tables : tuple of Table
    trajectories : tuple of Trajectory

    """

    robot: RobotModel
    mapping: ChannelMap
    tables: tuple[Table, ...]
    trajectories: tuple[Trajectory, ...]

    @cached_property
    def recording(self) -> Recording:
        """All rows, decoded once.    Raises InputError for rows that cannot be read."""
        return Recording(self.robot.joint_names, self.trajectories, self.decode)

    @cached_property
    def sha256(self) -> dict[str, str]:
        """SHA-256 of every file, by path; of a log in memory that of its values, by name."""
        return {
            str(table.path): getattr(table, "sha256", None) or file_hash(table.path) for table in self.tables
        }

    def with_extra(self, channels: Mapping[str, Channel]) -> Source:
        """The source with these further channels in place of others."""
        return replace(self, mapping=replace(self.mapping, extra=dict(channels)))

    def decode(self, trajectory: Trajectory) -> Iterator[RawChunk]:
        """Yield chunks of one trajectory from its file; sorted by time if the mapping says so."""
        chunks = self._converted(trajectory)
        if self.mapping.sort:
            chunks = _sorted(chunks)
        elif trajectory.misplaced:
            chunks = in_order(chunks, FEW_ROWS)
        for chunk in spread_stamps(chunks):
            part = within(chunk, trajectory)
            if len(part.t):
                yield part

    def _converted(self, trajectory: Trajectory) -> Iterator[RawChunk]:
        conversion = Conversion(self.robot, self.mapping)
        for row, numbers, empty in self._numbers(trajectory):
            yield replace(conversion.chunk(trajectory, row, numbers), empty=empty)

    def _numbers(self, trajectory: Trajectory) -> Iterator[tuple[int, dict[str, Float], Float]]:
        # First row, columns, and the time (s) of rows that are left out as they hold nothing but a time.
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
    """An open log: trajectories of one robot, read chunk by chunk.

    Joints that the files do not hold, or without effort, are held in its robot, or `unmeasured`.
    resting: joints that stand still throughout, though not held, and where (rad or m).
    free: the same log before joints were held because of their effort; None = none were.
    ignored_efforts: joints whose effort is left out.
    """

    robot: RobotModel
    source: Source
    trajectories: tuple[Trajectory, ...]
    own_remarks: tuple[Finding, ...] = ()
    resting: Mapping[str, float] = field(default_factory=dict)
    free: Log | None = None
    ignored_efforts: frozenset[str] = frozenset()

    def of_robot(self, robot: RobotModel) -> Log:
        """The same log without the joints that are held in a robot; raises UsageError for one of other joints.

        Joints of the robot that the log holds because of their effort are `unmeasured` instead.
        """
        back = set(robot.joint_names) - set(self.robot.joint_names)
        if self.free is not None and back and back <= set(self.free.robot.joint_names):
            held = {j: at for j, at in self.robot.locked.items() if j in self.free.robot.joint_names}
            unheld = self.free.without_efforts([j for j in held if j in back])
            rest = {j: at for j, at in held.items() if j not in back}
            return unheld.with_held(rest, "with an effort that says nothing of the motion").of_robot(robot)
        gone = [joint for joint in self.robot.joint_names if joint not in robot.joint_names]
        if set(robot.joint_names) - set(self.robot.joint_names) or not set(gone) <= set(robot.locked):
            raise UsageError(
                "other-joints",
                found=f"a log of the joints {', '.join(self.robot.joint_names)}",
                expected=", ".join(robot.joint_names),
            )
        values = {joint: robot.locked[joint] for joint in gone}
        return self._holding(values, self._elsewhere(values)) if gone else self

    def _elsewhere(self, values: Mapping[str, float]) -> tuple[Finding, ...]:
        # Joints that a model holds and that stand elsewhere in this log, or move in it.
        remarks = Diagnostics()
        for joint, at in values.items():
            if joint not in self.mapping.effort:
                continue
            here = self.resting.get(joint)
            if here is None or abs(here - at) > ELSEWHERE:
                where = "moves in this log" if here is None else f"stands at {here:.3g} in this log"
                remarks.warn(
                    "held-elsewhere",
                    f"joint '{joint}' is held at {at:.3g} in the model and {where}: the bodies that it carries are "
                    "elsewhere than the model has them",
                )
        return tuple(remarks)

    def _holding(self, values: Mapping[str, float], remarks: Sequence[Finding] = ()) -> Log:
        robot = lock_joints(self.robot, values).robot
        resting = {joint: at for joint, at in self.resting.items() if joint not in values}
        return replace(self, robot=robot, own_remarks=(*self.own_remarks, *remarks), resting=resting)

    def with_held(self, values: Mapping[str, float], reason: str) -> Log:
        """The log with some of its joints held, rad or m, and a remark that says why."""
        remarks = Diagnostics()
        locked(self.robot, values, reason, remarks)
        return self._holding(values, tuple(remarks)) if values else self

    def without_efforts(self, joints: Sequence[str], remarks: Sequence[Finding] = ()) -> Log:
        """The log in which some joints are `unmeasured`: their motion is used, their equations are left out."""
        if not joints:
            return self
        ignored = self.ignored_efforts | frozenset(joints)
        return replace(self, ignored_efforts=ignored, own_remarks=(*self.own_remarks, *remarks))

    def with_extra(self, channels: Mapping[str, Channel]) -> Log:
        """The log with these further channels in place of others."""
        return replace(self, source=self.source.with_extra(channels))

    def with_mapping(self, mapping: ChannelMap) -> Log:
        """The log read by another mapping of its columns."""
        return replace(self, source=replace(self.source, mapping=mapping))

    def held_in(self, robot: RobotModel) -> RobotModel:
        """The robot with those joints held that are held in this log's; raises UsageError for one of other joints."""
        gone = [joint for joint in robot.joint_names if joint not in self.robot.joint_names]
        if not gone:
            return robot
        if not set(gone) <= set(self.robot.locked):
            raise UsageError(
                "other-joints",
                found=f"a log of the joints {', '.join(self.robot.joint_names)}",
                expected=", ".join(robot.joint_names),
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
        """A log of arrays in memory, which are copied.

        t: (T,) s.    q, dq, tau: (T, n) rad, rad/s, N m (m, m/s, N); missing values are nan.
        theta, dtheta: (T, n), reflected motion of motors with encoders of their own.    temperature: (T, n), degC.
        q_des, dq_des, tau_ff: (T, n), what the drives were commanded; in place of tau, by the robot's `servo`.
        extra: further channels that terms read, (T,) each.    trajectory: name of every row (T,), None = one motion.
        joints: names of the arrays' columns in their order; None = robot.joint_names.
        units: of t, q, dq, tau, ... where they are not those above, e.g. {"q": "deg", "tau": "A"}.
        name: what messages and results call the log.

        Raises UsageError for arrays that do not fit together, InputError for units and joints that are not known.
        """
        given = {"q": q, "dq": dq, "tau": tau, "theta": theta, "dtheta": dtheta, "temperature": temperature}
        given |= {"q_des": q_des, "dq_des": dq_des, "tau_ff": tau_ff}
        by_joint = {key: values for key, values in given.items() if values is not None}
        arrays = Arrays(t, by_joint, tuple(joints or robot.joint_names), trajectory, extra or {})
        mapping = as_channel_map(arrays.section(units or {}), robot)
        return _held(*mapped_tables([arrays.table(name)], robot, mapping, (Selection(),), ()))

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
        """A log of a data frame: pandas, polars, Arrow, or anything with Arrow's C stream interface.

        mapping, select, extra: as for `read_log`.    name: what messages and results call the log.
        The frame may be read where it lies: do not change it while the log is in use.

        Raises UsageError for what is no data frame, InputError for columns or trajectories that do not exist.
        """
        tables = [frame_table(frame, name)]
        return _held(*mapped_tables(tables, robot, as_channel_map(mapping, robot), select, extra))

    def overview(self) -> Overview:
        """What is shown of the log: its files, trajectories and channels."""
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
                ("trajectories", listed([one.name for one in self.trajectories])),
                ("channels", listed(channels)),
                ("joints", listed(self.robot.joint_names)),
            ),
            ("trajectory", "rows", "from, s", "to, s"),
            tuple(
                (one.name, str(one.row_count), f"{one.start_time:.6g}", f"{one.end_time:.6g}")
                for one in self.trajectories
            ),
        )

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()

    @property
    def duration(self) -> float:
        """Seconds of all trajectories together."""
        return sum(t.end_time - t.start_time for t in self.trajectories)

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Joints without an effort where others have one: they move, and no equation is theirs; chunks have zero."""
        logged = self.mapping.effort
        return tuple(j for j in self.robot.joint_names if j not in logged) if logged else ()

    @property
    def has_effort(self) -> bool:
        """Whether joint effort was logged, or commands from which it is made."""
        return self.mapping.gives_torque

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """What the readers of the files have to say to the user, and which joints are held as they are not there."""
        of_tables = (one for table in self.tables for one in getattr(table, "remarks", ()))
        return (*self.own_remarks, *of_tables)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The open files, as they are: columns by name, rows in their order."""
        return self.source.tables

    @cached_property
    def mapping(self) -> ChannelMap:
        """Which column measures what, of the joints that are not held."""
        held = [joint for joint in self.source.robot.joint_names if joint not in self.robot.joint_names]
        mapping = without_joints(self.source.mapping, held)
        return without_effort(mapping, self.ignored_efforts) if self.ignored_efforts else mapping

    @cached_property
    def channels(self) -> Channels:
        """Which signals are recorded of which joints."""
        return self.mapping.channels

    @property
    def sha256(self) -> dict[str, str]:
        """SHA-256 of every file, by path; of a log in memory that of its values, by name."""
        return self.source.sha256

    def identity(self) -> list[list[Any]]:
        """What makes the data of each trajectory itself: [hash of the file, first row, start time, end time]."""
        return [[self.sha256[str(t.file)], t.first_row, t.start_time, t.end_time] for t in self.trajectories]

    def chunks(self, trajectory: Trajectory, rows: int = ROWS) -> Iterator[RawChunk]:
        """Yield consecutive chunks of one trajectory, of at most so many rows.

        Torque that is made of commands begins when the first of them acts: rows before that are left out.
        """
        chunks = self.recorded(trajectory, rows)
        servo = self.robot.drive.servo
        if self.channels.commanded:
            if servo is None or not servo.known:
                raise InputError(
                    "no-gains",
                    found="commands in place of a measured torque, and no gains of the position controllers",
                    expected="kp, and kd if there is damping, of every joint",
                    do="give them as kp = ..., kd = ... under [drive] of the experiment, or as --kp and --kd",
                )
            chunks = map(servo_torque(servo), chunks)
            if servo.lag > 0:
                chunks = delayed(chunks, servo)
        yield from chunks

    def recorded(self, trajectory: Trajectory, rows: int = ROWS) -> Iterator[RawChunk]:
        """Yield chunks as recorded: commands in place of a torque that is made of them."""
        known = trajectory in self.source.recording
        recording = (
            self.source.recording if known else replace(self.source, trajectories=(trajectory,)).recording
        )
        unmeasured = [j for j, name in enumerate(self.robot.joint_names) if name in self.unmeasured]
        for chunk in recording.chunks(trajectory, self.robot.joint_names):
            tau = chunk.tau
            if unmeasured and tau is not None:
                tau = tau.copy(order="K")
                tau[:, unmeasured] = 0.0  # nan would make every row one with missing values
            yield from pieces_of(replace(chunk, tau=tau), rows)

    def read(self, trajectory: Trajectory) -> RawChunk:
        """The whole trajectory at once."""
        return joined(list(self.chunks(trajectory)))

    def commands_of(self, name: str) -> Commands:
        """What the drives were told throughout the trajectory of a name."""
        return self.commands(next(one for one in self.trajectories if one.name == name))

    def commands(self, trajectory: Trajectory) -> Commands:
        """The commands throughout a trajectory; raises UsageError for a log without commands."""
        if not self.channels.commanded:
            raise UsageError(
                "no-command", found="a log without commanded positions", expected="q_des of every joint"
            )
        whole = joined(list(self.recorded(trajectory)))
        if whole.commands is None:
            raise UsageError("no-command", found="no commanded positions", expected="one per joint")
        order = np.argsort(whole.t, kind="stable")
        return Commands(whole.t[order], *np.split(whole.commands[order], 3, axis=1))


def as_log(log: Any, robot: RobotModel, extra: Sequence[str] = ()) -> Log:
    """A Log as it is, or that of a data frame with dynid's own column names.

    extra: further columns of the frame that terms of the model read.    Raises as Log.from_frame.
    """
    return log if isinstance(log, Log) else Log.from_frame(log, robot, extra=extra)


def _units(channels: Mapping[str, Channel]) -> str:
    return ", ".join(dict.fromkeys(channel.unit for channel in channels.values()))


def _empty_rows(numbers: Mapping[str, Float], columns: Sequence[str]) -> Bool:
    """Rows without a number in any column but the first, the time: other signals of the file made them."""
    empty = np.ones(len(numbers[columns[0]]), dtype=np.bool_)
    for name in columns[1:]:
        if not empty.any():
            break
        empty &= np.isnan(numbers[name])
    return empty


def _sorted(chunks: Iterator[RawChunk]) -> Iterator[RawChunk]:
    whole = joined(list(chunks))
    yield taken(whole, np.argsort(whole.t, kind="stable"))
