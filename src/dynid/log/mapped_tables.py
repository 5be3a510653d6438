"""Open tables made those of one robot: columns by the mapping, rows by trajectories, joints without columns held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from dynid.base.checked_toml import validate
from dynid.base.diagnostics import Diagnostic, Diagnostics
from dynid.base.errors import InputError, InputErrors, Place
from dynid.log.absent import absent_joints, without_joints
from dynid.log.bag import joints_of_columns
from dynid.log.clocks import OnOneClock
from dynid.log.csv import refuse_unlike
from dynid.log.log import ChannelMap, ManyTopics, Table, Trajectory
from dynid.log.mapping import channel_map
from dynid.log.own_columns import canonical_map, completed, names_of
from dynid.log.row_numbers import MOTION, ROW, with_motions, with_row_numbers
from dynid.log.section import LogSection
from dynid.log.selection import Selection, Trajectories, selected, trajectories_in
from dynid.log.text_times import clock_as_written
from dynid.robot.locking import locked, rest_position
from dynid.robot.model import RobotModel

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
) -> tuple[RobotModel, ChannelMap, tuple[Table, ...], tuple[Trajectory, ...], tuple[Diagnostic, ...]]:
    """The robot with joints held of which there are no columns, mapping, tables, trajectories and remarks.

    mapping: None = dynid's own column names.    select: trajectories, by name or pattern.    extra: further columns.
    """
    there, file = tables[0].column_names, str(tables[0].path)
    remarks = Diagnostics()
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
    return robot, chosen, tuple(tables), trajectories, tuple(remarks)


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
