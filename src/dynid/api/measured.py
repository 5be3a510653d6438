"""Logs as users hand them over: logs with effort, or data frames of them."""

from __future__ import annotations

from typing import Any

from dynid.base.errors import UsageError
from dynid.log.read import Log, as_log
from dynid.robot.model import RobotModel


def measured(log: Any, robot: RobotModel, channels: tuple[str, ...]) -> Log:
    """A log or data frame as a log; raises UsageError for something else than a robot, or a log without effort."""
    if not isinstance(robot, RobotModel):
        raise UsageError(
            "not-a-robot",
            found=f"{type(robot).__name__} in place of a robot",
            expected="a robot model",
            do="open a description with dynid.load_robot(path)",
        )
    opened = as_log(log, robot, channels)
    if not opened.has_effort:
        raise UsageError(
            "no-effort",
            found=f"the log {opened.tables[0].path} without effort",
            expected="torque or current of every joint",
            do="give columns tau_<joint>, a mapping with effort, or tau to Log.from_arrays",
        )
    return opened
