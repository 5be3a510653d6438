"""The [log] table of an experiment as it is written: keys, values and what is said of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from dynid.base.checked_toml import Strict, key
from dynid.log.calibration import MotorCalibration

Columns = str | list[str] | dict[str, str]
Unit = str | dict[str, str]
_BY_JOINT = "one for all joints, or a table joint -> unit where a robot has slides too"


class TimeEntry(Strict):
    """The time column."""

    column: str = key(doc='column; `"row"` counts the rows of a log without one')
    unit: str = key(doc='`"s"`, `"ms"`, `"us"`, `"ns"`, or of counts `"1/500 s"`', kind="a unit of time")


class JointEntry(Strict):
    """One channel a joint: a template, a run of an array's columns, a list or a table; None = dynid's own."""

    columns: Columns | None = key(None, "as for positions; without it `dq_{joint}`")
    unit: Unit = key(doc=_BY_JOINT, kind="a unit of velocity")


class TimedEntry(JointEntry):
    """One channel a joint that may have a clock of its own."""

    time: TimeEntry | None = key(
        None, "time of these columns, where they have [one of their own](experiment.md#several-clocks)"
    )


class PositionEntry(JointEntry):
    """Joint positions; offset (in the declared unit) and sign turn the log's convention into the robot's."""

    columns: Columns | None = key(
        None,
        "a template with `{joint}` (name), `{number}` (from 1) or `{index}` (from 0), a run such as `q[0:6]`, a list "
        "in the order of the robot's joints, or a table joint -> column; without it `q_{joint}`",
    )
    unit: Unit = key(
        doc=f"{_BY_JOINT} (`rad` alone: m for these); `%`: of each motor's `calibration`",
        kind="a unit of angle or length",
    )
    calibration: str | dict[str, MotorCalibration] | None = key(
        None,
        "of a LeRobot arm: the [file of its motors' ranges](servos.md#lerobot-arms), beside this file; needed for "
        "positions and commands in `%`",
        kind="text, or tables by motor",
    )
    side: Literal["link", "motor"] = key(
        "link", "motor: positions and velocities are divided by the transmission"
    )
    offset: dict[str, float] = key(
        doc="added to the signed position, in the declared unit",
        kind="numbers by joint",
        default_factory=dict,
    )
    sign: dict[str, Literal[-1, 1]] = key(
        doc="applied to position and velocity", kind="1 or -1 by joint", default_factory=dict
    )

    @field_validator("offset", mode="before")
    @classmethod
    def _still_asked_for(cls, value: object) -> object:
        # `dynid init` marks what it asks for with "?", and what opens a log says where.
        return {} if value == "?" else value


class MotorEntry(TimedEntry):
    """Motor positions, reflected ("link") or as the motors turn ("motor"); offset and sign as for positions."""

    columns: Columns | None = key(None, "as for positions, but a table may name some joints only; needed")
    unit: Unit = key(doc=_BY_JOINT, kind="a unit of angle or length")
    side: Literal["link", "motor"] = key(
        "link", "link: reflected, divided by the gear ratio already; motor: as the motor turns"
    )
    offset: dict[str, float] | None = key(
        None,
        "added to the signed, reflected position; without it those of `[log.position]`",
        kind="numbers by joint",
    )
    sign: dict[str, Literal[-1, 1]] | None = key(
        None,
        "applied to position and velocity; without it those of `[log.position]`",
        kind="1 or -1 by joint",
    )


class EffortEntry(TimedEntry):
    """Joint effort: torque, force, current or raw, on the motor's or the link's side; None = as the robot says."""

    columns: Columns | None = key(None, "as for positions; without it `tau_{joint}`")
    unit: Unit = key(doc=_BY_JOINT, kind="a unit of torque, force, current, raw")
    side: Literal["link", "motor"] | None = key(
        None, "side of a torque; the robot file's `torque_side` without it"
    )
    sign: dict[str, Literal[-1, 1]] = key(
        doc="applied to the logged value", kind="1 or -1 by joint", default_factory=dict
    )


class ExtraEntry(Strict):
    """One further channel."""

    column: str = key(doc="column")
    unit: str = key("1", "converted to SI", kind="any unit")
    time: TimeEntry | None = key(None, "time of this column, where it has one of its own")


class LogSection(Strict):
    """The [log] table; positions without columns of their own are dynid's own, as is then what is left out."""

    topic: str | Annotated[list[str], Field(min_length=1)] | None = key(
        None,
        "bags only: topic of the joint states, where [several fit](experiment.md#ros-bags-and-mcap)",
        kind="text, or several",
    )
    definitions: str | Annotated[list[str], Field(min_length=1)] | None = key(
        None,
        "bags only: files or folders of `.msg` files, beside this file, for message types that the bag does not define",
        kind="text, or several",
    )
    time: TimeEntry | None = key(None, "see `[log.time]`; without it `t` in s")
    position: PositionEntry | None = key(None, "see `[log.position]`; without it `q_<joint>`")
    velocity: TimedEntry | None = key(None, "see `[log.velocity]`; measured joint velocity")
    effort: EffortEntry | None = key(
        None, "see `[log.effort]`; needed by every command, or else commands are"
    )
    command_position: JointEntry | None = key(
        None,
        "keys as `[log.velocity]`, in the convention of `[log.position]`: the drives' commands, from which the "
        "torque is made [where no effort was measured](servos.md); without it `q_des_<joint>`",
    )
    command_velocity: JointEntry | None = key(
        None,
        "keys as `[log.velocity]`: the velocity that they were commanded; without it `dq_des_<joint>`, or zero",
    )
    command_effort: JointEntry | None = key(
        None, "keys as `[log.velocity]`: torque fed forward on top; without it `tau_ff_<joint>`, or zero"
    )
    motor_position: MotorEntry | None = key(
        None, "see `[log.motor_position]`; second encoder of all or some joints"
    )
    motor_velocity: TimedEntry | None = key(
        None,
        "keys as `[log.velocity]`, for all joints of `motor_position` or none; its `side` and `sign` hold",
    )
    temperature: TimedEntry | None = key(
        None,
        "keys as `[log.velocity]`; used by the term `rotor_compensation` (`heat`) and to test friction for drift",
    )
    extra: dict[str, ExtraEntry] = key(doc="see `[log.extra]`", kind="tables by name", default_factory=dict)
    trajectory: str | None = key(
        None,
        'column that names the motion of each row, `"motion"` where time begins anew for each; without it each file is '
        "one trajectory, named after the file",
    )
    sort: bool = key(False, "sort the rows of each trajectory by time; reads a whole trajectory into memory")
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = key(
        None,
        'text files only, without it as found: another one than `decimal`; `" "` is any run of blanks',
        kind="one character, no part of a number",
    )
    decimal: Literal[".", ","] | None = key(
        None, "text files only, without it as found", validate_default=True
    )

    @field_validator("delimiter")
    @classmethod
    def _between_numbers(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if value.isalnum() or value in "+-._\"'\n\r":
            raise ValueError("a character that no number holds, such as ',', ';' or a tab")
        return value

    @field_validator("decimal")
    @classmethod
    def _other_than_delimiter(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and value == info.data.get("delimiter"):
            raise ValueError(f"another character than delimiter = '{value}', which may be ';' or a tab")
        return value
