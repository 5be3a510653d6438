"""Logs from files as users open them: columns that nobody named are found where nothing is left to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.log import read as files
from dynid.log.log import ChannelMap
from dynid.log.read import Log
from dynid.log.selection import Selection
from dynid.robot.locking import locked
from dynid.robot.model import RobotModel


def read_log(
    paths: str | Path | Sequence[str | Path],
    robot: RobotModel,
    mapping: ChannelMap | Mapping[str, Any] | None = None,
    select: Sequence[Selection | str] = (Selection(),),
    extra: Sequence[str] = (),
    topics: Sequence[str] = (),
    *,
    answers: Mapping[str, str] | None = None,
) -> Log:
    """Opens one or several logs of a robot, files or folders of any format that has a reader.

    mapping: which column measures what, also as the plain data of an experiment's [log] table;
    None = dynid's own column names (t, traj, q_<joint>, dq_<joint>, tau_<joint>), else as `dynid init` finds them by
    their names and the motion, which `log.remarks` say.    answers: to what that leaves open, by key.
    select: trajectories to use, by name or glob, in whole or in part.
    extra: further columns that terms of the model read, for a log with dynid's own column names.
    topics: of bags, where the joint states are; those of the mapping, or else the only fitting one, where not given.

    Raises InputError for files, columns or trajectories that do not exist or cannot be read, and for columns whose
    names leave something open.
    """
    unknown = None
    if not answers:
        try:
            return files.read_log(paths, robot, mapping, select, extra, topics)
        except InputError as error:
            if mapping is not None or error.identifier != "no-mapping":
                raise
            unknown = error
    from dynid.layouts.found import found_tables  # here alone: most logs are read by a mapping

    logs = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    tables, remark = found_tables(
        robot, robot.source or "ROBOT", logs, answers or {}, unknown, with_effort=False
    )
    of_robot = tables.get("robot", {})
    if of_robot.keys() & {"drive_gain", "gear_ratio"} or tables.get("drive"):
        raise InputError(
            "no-mapping",
            found="efforts, commands or angles that take gains of the drives or ratios of gears to be those of joints",
            expected="torque and angles of joints, or a robot that has the constants",
            do=f"write an experiment file by `dynid init {robot.source or 'ROBOT'} {logs[0]}`, and identify with it",
            place=Place(file=str(logs[0])),
        )
    remarks = Diagnostics([remark])
    held = of_robot.get("lock", {})
    opened = locked(robot, held, "as its column says", remarks)
    log = files.read_log(paths, opened, tables["log"], select, extra, topics)
    return replace(log, own_remarks=(*log.own_remarks, *remarks))
