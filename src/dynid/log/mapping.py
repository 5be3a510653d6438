"""The [log] table of an experiment: the signal, unit and joint of each column."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from dynid.base.errors import DynidError, InputError, InputErrors, Place
from dynid.base.files import read_bytes
from dynid.base.toml import Key, Strict, key, line_of, validate
from dynid.base.units import factor
from dynid.log.log import Channel, ChannelMap, WrenchChannels
from dynid.recording import IMU_CHANNELS, FloatingBase, Support, WrenchSensor
from dynid.robot.model import RobotModel

# A LeRobot calibration file gives the encoder range of each motor.
#
# LeRobot logs positions in percent of this range, unless its robot is configured to use degrees.
#
# Source: MotorsBus._normalize and MotorCalibration of huggingface/lerobot,
# src/lerobot/motors/motors_bus.py.

# Unit of positions in percent of a motor's calibrated range.
PERCENT = "%"
# Effort units relative to the rated torque. CiA 402 drives report the torque in permille of the motor's rated torque.
RATED = {"% of rated torque": 1e-2, "permille of rated torque": 1e-3}


def is_rated(unit: object) -> bool:
    """Whether a unit is percent or permille of the rated torque."""
    return isinstance(unit, str) and unit in RATED


# Encoder counts per turn of Feetech STS and Dynamixel X servos, which all LeRobot arms have.
COUNTS_PER_TURN = 4096
# Value of `calibration` without a file: 0 to 100 % is the range between the joint's limits in the robot file.
LIMITS = "limits"
# LeRobot logs grippers from 0 (range_min) to 100 and other joints from -100 to 100, with 0 at mid-range.
_GRIPPER = "gripper"
# Bytes. A calibration file has a few hundred bytes per motor; a larger file is rejected as something else.
_MAX_BYTES = 1_000_000


class MotorCalibration(Strict):
    """One motor of a calibration file, in encoder counts."""

    id: int | None = key(None, "id of the motor on its bus")
    drive_mode: Annotated[int, Field(ge=0, le=1)] = key(
        0, "1: the percentage counts in the opposite direction"
    )
    homing_offset: int = key(0, "offset stored in the firmware; ranges include it")
    range_min: int = key(doc="lower end of the range", unit="counts")
    range_max: int = key(doc="upper end of the range", unit="counts")


class _Calibration(Strict):
    motors: dict[str, MotorCalibration]


def read_calibration(path: str | Path) -> dict[str, MotorCalibration]:
    """Read a LeRobot calibration file into a table motor name -> calibration; raise InputError if it is invalid."""
    place = Place(file=str(path))
    try:
        data = json.loads(read_bytes(path, "a LeRobot calibration file", _MAX_BYTES))
    except ValueError as error:
        raise InputError(
            "calibration",
            found=f"invalid JSON ({error})",
            expected="the JSON file written by lerobot-calibrate",
            do="calibrate again, or copy the file again",
            place=place,
        ) from error
    if not isinstance(data, dict) or not data or not all(isinstance(entry, dict) for entry in data.values()):
        raise InputError(
            "calibration",
            found="no table of motors",
            expected='{"shoulder_pan": {"range_min": 750, "range_max": 3400}, ...}, as lerobot-calibrate writes it',
            do="calibrate again with LeRobot of 2025 or later",
            place=place,
        )
    motors = validate(_Calibration, {"motors": data}, {}, str(path)).motors
    check_ranges(motors, place)
    return motors


def check_ranges(motors: Mapping[str, MotorCalibration], place: Place) -> None:
    """Raise InputError if range_min >= range_max for a motor."""
    for name, motor in motors.items():
        if not motor.range_min < motor.range_max:
            raise InputError(
                "calibration",
                found=f"motor '{name}' with a range from {motor.range_min} to {motor.range_max} counts",
                expected="range_min below range_max",
                do="calibrate this motor again",
                place=place,
            )


def motor_of(column: str, joint: str, motors: Iterable[str]) -> str | None:
    """Motor named in the column's name (longest match), else the motor named like the joint, else None."""
    named = [
        motor for motor in motors if re.search(rf"(?<![A-Za-z0-9]){re.escape(motor)}(?![A-Za-z0-9])", column)
    ]
    return max(named, key=len, default=joint if joint in motors else None)


def rad_per_percent(motor: str, calibration: MotorCalibration) -> float:
    """Angle in rad that corresponds to one percent of a motor's range; negative for a reversed motor (drive_mode 1).

    q = (v / 200) (range_max - range_min) 2 pi / 4096, with 100 instead of 200 for a gripper.
    """
    whole = 100.0 if motor.endswith(_GRIPPER) else 200.0
    sign = -1.0 if calibration.drive_mode else 1.0
    return sign * (calibration.range_max - calibration.range_min) * 2.0 * math.pi / COUNTS_PER_TURN / whole


def percent_of_limits(column: str, joint: str, lower: float, upper: float) -> tuple[float, float]:
    """Angle in rad per percent, and position in rad at 0 %, if the motor's range ends at the joint's limits in rad."""
    if any(name.endswith(_GRIPPER) for name in (joint, *re.findall(r"[A-Za-z_]+", column))):
        return (upper - lower) / 100.0, lower
    return (upper - lower) / 200.0, 0.5 * (lower + upper)


def moved(
    motors: Mapping[str, MotorCalibration], angles: Mapping[str, float]
) -> tuple[dict[str, MotorCalibration], tuple[str, ...]]:
    """Shift the encoder reading of each motor by an angle, rounded to whole counts.

    LeRobot measures positions from the middle or from one end of the range, so this shifts the range in the opposite
    direction.

    Parameters
    ----------
    motors : mapping of str to MotorCalibration
        Calibration of each motor.
    angles : mapping of str to float, rad
        Shift of each motor.

    Returns
    -------
    motors : dict of str to MotorCalibration
        Calibration of all motors after the shift.
    unchanged : tuple of str
        Motors that are not shifted because their range would exceed one encoder turn (0 to 4095 counts).

    """
    out, left = dict(motors), []
    for name, angle in angles.items():
        motor = motors[name]
        counts = -round(angle * COUNTS_PER_TURN / (2.0 * math.pi))
        low, high = motor.range_min + counts, motor.range_max + counts
        if counts and (low < 0 or high >= COUNTS_PER_TURN):
            left.append(name)
            continue
        out[name] = motor.model_copy(update={"range_min": low, "range_max": high})
    return out, tuple(left)


def calibration_json(motors: Mapping[str, MotorCalibration]) -> bytes:
    """Content of a calibration file that LeRobot and `read_calibration` can read."""
    data = {
        name: {"id": k + 1 if motor.id is None else motor.id, **motor.model_dump(exclude={"id"})}
        for k, (name, motor) in enumerate(motors.items())
    }
    return json.dumps(data, indent=4).encode() + b"\n"


# Keys of the [log] table of an experiment file, with their types and documentation.

Columns = str | list[str] | dict[str, str]
Unit = str | dict[str, str]
_BY_JOINT = "one unit for all joints, or a table joint -> unit if the robot also has prismatic joints"


class TimeEntry(Strict):
    """The time column."""

    column: str = key(doc='column; `"row"`: the row number, for a log without a time column')
    unit: str = key(doc='`"s"`, `"ms"`, `"us"`, `"ns"`, or for counts `"1/500 s"`', kind="a unit of time")


class JointEntry(Strict):
    """Columns and unit of a signal with one channel per joint; columns = None means the standard names."""

    columns: Columns | None = key(None, "as for positions; without it `dq_{joint}`")
    unit: Unit = key(doc=_BY_JOINT, kind="a unit of velocity")


class TimedEntry(JointEntry):
    """Signal with one channel per joint and optionally a separate time column."""

    time: TimeEntry | None = key(
        None, "time of these columns, if they have [a separate clock](log-files.md#several-clocks)"
    )


class PositionEntry(JointEntry):
    """Joint positions; `offset` and `sign` convert the log's convention to that of the robot."""

    columns: Columns | None = key(
        None,
        "a template with `{joint}` (name), `{number}` (from 1) or `{index}` (from 0), a range such as `q[0:6]`, a list "
        "in the order of the robot's joints, or a table joint -> column; without it `q_{joint}`",
    )
    unit: Unit = key(
        doc=f"{_BY_JOINT} (`rad` alone means m for these); `%`: of each motor's `calibration` range",
        kind="a unit of angle or length",
    )
    calibration: str | dict[str, MotorCalibration] | None = key(
        None,
        "LeRobot arms only, for positions and commands in `%`: the [file of the motors' ranges]"
        "(servos.md#lerobot-arms), relative to this file, or `limits`: the joints' limits in the robot file",
        kind="text, or tables by motor",
    )
    side: Literal["link", "motor"] = key(
        "link", "motor: positions and velocities are converted with the transmission"
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
        # `dynid init` writes "?" for a value that the user must supply. Opening the log reports the "?" and its line.
        return {} if value == "?" else value


class MotorEntry(TimedEntry):
    """Motor positions, before (side "motor") or after (side "link") division by the gear ratio."""

    columns: Columns | None = key(None, "as for positions, but a table may name some joints only; required")
    unit: Unit = key(doc=_BY_JOINT, kind="a unit of angle or length")
    side: Literal["link", "motor"] = key(
        "link", "link: reflected, already divided by the gear ratio; motor: as the motor turns"
    )
    offset: dict[str, float] | None = key(
        None,
        "added to the signed, reflected position; without it as in `[log.position]`",
        kind="numbers by joint",
    )
    sign: dict[str, Literal[-1, 1]] | None = key(
        None,
        "applied to position and velocity; without it as in `[log.position]`",
        kind="1 or -1 by joint",
    )


class EffortEntry(TimedEntry):
    """Joint effort as torque, force, current or raw value; side = None means the side set in the robot file."""

    columns: Columns | None = key(None, "as for positions; without it `tau_{joint}`")
    unit: Unit = key(
        doc=f"{_BY_JOINT}; `% of rated torque` and `permille of rated torque` need `rated_torque`",
        kind="a unit of torque, force, current, raw",
    )
    rated_torque: dict[str, Annotated[float, Field(gt=0)]] = key(
        doc='torque at 100 %, of the motor or, with `side = "link"`, of the joint',
        unit="N m",
        kind="numbers by joint, > 0",
        default_factory=dict,
    )
    side: Literal["link", "motor"] | None = key(
        None,
        "side at which the torque acts; default: motor for units of rated torque, else `torque_side` of the robot file",
    )
    sign: dict[str, Literal[-1, 1]] = key(
        doc="applied to the logged value", kind="1 or -1 by joint", default_factory=dict
    )


class ExtraEntry(Strict):
    """Additional channel."""

    column: str = key(doc="column")
    unit: str = key("1", "converted to SI", kind="any unit")
    time: TimeEntry | None = key(None, "time of this column, if it has a separate clock")


class WrenchEntry(Strict):
    """Force/torque sensor."""

    link: str = key(doc="link in whose frame the sensor measures; torques are about its origin")
    columns: str | list[str] = key(
        doc="fx, fy, fz, tx, ty, tz: a list of six, two templates with `{axis}` (x, y, z) for force and torque, or a "
        "range such as `ft[0:6]`"
    )
    unit: str | dict[Literal["force", "torque"], str] = key(
        doc='of the forces, with torques in N m; or `{ force = "N", torque = "mN m" }`',
        kind="a unit of force, or a table",
    )
    frame: str | None = key(
        None,
        'frame of the components: `"sensor"` (the frame of `link`), `"base"` or a link; without it, dynid chooses '
        "between sensor and base from the data",
    )
    time: TimeEntry | None = key(
        None, "time of these columns, if they have [a separate clock](log-files.md#several-clocks)"
    )


class ImuEntry(Strict):
    """IMU of a floating base."""

    link: str = key(doc="link in whose frame the IMU measures, fixed to the base link")
    gyro: str | list[str] = key(
        doc="angular velocity about x, y, z: a list of three, a template with `{axis}`, or a range such as `imu[0:3]`"
    )
    acceleration: str | list[str] = key(
        doc="acceleration as an accelerometer measures it (9.81 m/s^2 upwards at rest); columns as for `gyro`"
    )
    unit: dict[Literal["gyro", "acceleration"], str] = key(
        doc='`{ gyro = "rad/s", acceleration = "m/s^2" }`', kind="a table of both units"
    )
    time: TimeEntry | None = key(
        None, "time of these columns, if they have [a separate clock](log-files.md#several-clocks)"
    )


class SupportEntry(Strict):
    """Hook or clamp that supports the robot."""

    link: str = key(doc="link to which the hook or clamp is attached")
    point: tuple[float, float, float] = key(
        (0.0, 0.0, 0.0), "point of attachment in the frame of this link", unit="m"
    )
    moment: bool = key(False, "true: a clamp, which also transfers moments; false: a rope")
    trajectories: list[str] = key(
        doc="names or patterns of the trajectories in which it is attached; default: all",
        kind="a list of names",
        default_factory=list,
    )


class ContactEntry(Strict):
    """Contacts of a robot with a floating base: feet, hooks and clamps."""

    feet: list[str] = key(
        doc="links that touch the ground; without it the last links of the legs",
        kind="a list of links",
        default_factory=list,
    )
    columns: str | list[str] = key(
        "found",
        "contact of each foot: a template with `{foot}`, or a list in the order of `feet`; `found`: from forces and "
        "motion",
    )
    unit: str = key("1", "`1` for flags, or the unit of normal forces", kind="1, or a unit of force")
    moment: bool | None = key(
        None, "whether feet transfer moments; default: flat feet do, spherical feet do not"
    )
    hold: dict[str, SupportEntry] = key(
        doc="hooks and clamps, see `[log.contact.hold.NAME]`", kind="tables by name", default_factory=dict
    )


class LogSection(Strict):
    """The [log] table; if it maps no position columns, dynid's standard names apply to all missing entries."""

    topic: str | Annotated[list[str], Field(min_length=1)] | None = key(
        None,
        "bags only: topic of the joint states, if [several fit](log-files.md#ros-bags-and-mcap)",
        kind="text, or several",
    )
    definitions: str | Annotated[list[str], Field(min_length=1)] | None = key(
        None,
        "bags only: files or folders of `.msg` files, relative to this file, for message types that the bag does not "
        "define",
        kind="text, or several",
    )
    time: TimeEntry | None = key(None, "see `[log.time]`; without it `t` in s")
    position: PositionEntry | None = key(None, "see `[log.position]`; without it `q_<joint>`")
    velocity: TimedEntry | None = key(None, "see `[log.velocity]`; measured joint velocity")
    effort: EffortEntry | None = key(None, "see `[log.effort]`; required, unless commands are mapped")
    command_position: JointEntry | None = key(
        None,
        "keys as `[log.velocity]`, in the convention of `[log.position]`: the drives' position commands, from which "
        "the torque is computed [if no effort was measured](servos.md); without it `q_des_<joint>`",
    )
    command_velocity: JointEntry | None = key(
        None,
        "keys as `[log.velocity]`: commanded velocity; without it `dq_des_<joint>`, or zero",
    )
    command_effort: JointEntry | None = key(
        None, "keys as `[log.velocity]`: feed-forward torque; without it `tau_ff_<joint>`, or zero"
    )
    motor_position: MotorEntry | None = key(
        None, "see `[log.motor_position]`; second encoder of all or some joints"
    )
    motor_velocity: TimedEntry | None = key(
        None,
        "keys as `[log.velocity]`, for all joints of `motor_position` or none; `side` and `sign` as there",
    )
    temperature: TimedEntry | None = key(
        None,
        "keys as `[log.velocity]`; used by the terms `rotor_compensation` (`heat`) and `temperature_viscous`, which "
        "the automatic choice tries where a drive warms up by over 1 K, and to test friction for drift",
    )
    wrench: dict[str, WrenchEntry] = key(
        doc="see `[log.wrench.NAME]`; force/torque sensors", kind="tables by name", default_factory=dict
    )
    imu: ImuEntry | None = key(None, "see `[log.imu]`; an IMU makes the base floating")
    contact: ContactEntry | None = key(None, "see `[log.contact]`; contacts of a floating base")
    extra: dict[str, ExtraEntry] = key(doc="see `[log.extra]`", kind="tables by name", default_factory=dict)
    trajectory: str | None = key(
        None,
        'column that names the motion of each row, or `"motion"` if time restarts for each motion; without it each '
        "file is one trajectory, named after the file",
    )
    sort: bool = key(False, "sort the rows of each trajectory by time; reads a whole trajectory into memory")
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = key(
        None,
        'text files only; default: detected. A character other than `decimal`; `" "` means any run of blanks',
        kind="one character, no part of a number",
    )
    decimal: Literal[".", ","] | None = key(None, "text files only; default: detected", validate_default=True)

    @field_validator("delimiter")
    @classmethod
    def _between_numbers(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if value.isalnum() or value in "+-._\"'\n\r":
            raise ValueError("a character that no number contains, such as ',', ';' or a tab")
        return value

    @field_validator("decimal")
    @classmethod
    def _other_than_delimiter(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and value == info.data.get("delimiter"):
            raise ValueError(
                f"a decimal sign other than delimiter = '{value}'; delimiter may be ';' or a tab"
            )
        return value


# Resolve the [log] table for a robot: column and unit of each joint's channels.

# A range of array columns in NumPy notation: q[0:6] means q[0] to q[5].
_RUN = re.compile(r"(.*)\[(\d*):(\d*)\]")
STANDARD_COLUMNS = {
    "position": "q_{joint}",
    "velocity": "dq_{joint}",
    "effort": "tau_{joint}",
    "command_position": "q_des_{joint}",
    "command_velocity": "dq_des_{joint}",
    "command_effort": "tau_ff_{joint}",
}
Lines = dict[tuple[Key, ...], int]

_ANY = (
    "angle",
    "angular velocity",
    "length",
    "velocity",
    "torque",
    "force",
    "current",
    "temperature",
    "raw",
    "none",
)

_QUANTITIES: tuple[Literal["force", "torque"], ...] = ("force", "torque")
OF_TURNS, OF_SLIDES = ("angle", "angular velocity", "torque"), ("length", "velocity", "force")


def channel_map(
    section: LogSection, robot: RobotModel, file: str = "", lines: Lines | None = None
) -> ChannelMap:
    """Resolve the [log] table for a robot.

    Parameters
    ----------
    section : LogSection
        The [log] table.
    robot : RobotModel
        Robot of the log.
    file : str
        Experiment file; messages name it, and relative paths start at its folder.
    lines : dict, optional
        Line number of each key, which messages state.

    Returns
    -------
    ChannelMap

    Raises
    ------
    InputErrors
        If a joint or unit is unknown, or if a joint has no column.

    """
    return _Resolver(section, robot, file, lines or {}).resolve()


def columns_of(template: str, names: Sequence[str]) -> list[str]:
    """Expand a template or range to column names for the joints; a range may give more or fewer columns than joints."""
    run = _RUN.fullmatch(template)
    if run is not None:
        first = int(run[2] or 0)
        last = int(run[3]) if run[3] else first + len(names)
        # The caller rejects a range of the wrong length; the limit here keeps a huge range from filling the memory.
        return [f"{run[1]}[{i}]" for i in range(first, min(last, first + 2 * len(names)))]
    if not re.search(r"\{(joint|number|index)\}", template):
        return [template] if template else []
    return [
        template.replace("{joint}", joint).replace("{number}", str(i + 1)).replace("{index}", str(i))
        for i, joint in enumerate(names)
    ]


def _several(given: str | list[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _shown(columns: str | list[str]) -> str:
    return f'"{columns}"' if isinstance(columns, str) else f"[{', '.join(columns[:6])}]"


class _Resolver:
    def __init__(self, section: LogSection, robot: RobotModel, file: str, lines: Lines) -> None:
        self.section, self.robot, self.file, self.lines = section, robot, file, lines
        self.errors: list[DynidError] = []

    def place(self, *key: Key) -> Place:
        return Place(file=self.file or None, line=line_of(("log", *key), self.lines))

    def resolve(self) -> ChannelMap:
        s = self.section
        position = self.joints("position", s.position, ("angle", "length"))
        convention = s.position or PositionEntry(unit="rad")
        own_names = convention.columns is None
        if s.time is None and not own_names:
            self.errors.append(
                InputError(
                    "missing-key",
                    found="log.position.columns without log.time",
                    expected="the time column and its unit",
                    do='add time = { column = "...", unit = "s" }',
                    place=self.place("position"),
                )
            )
        time = s.time or TimeEntry(column="t", unit="s")
        offset = self.zeros_of_limits(position)
        for joint, value in convention.offset.items():
            if self.known(joint, "position", "offset"):
                offset[joint] = value * (position[joint].factor if joint in position else 1.0)
        for joint in convention.sign:
            self.known(joint, "position", "sign")
        for joint in s.effort.sign if s.effort else ():
            self.known(joint, "effort", "sign")
        motor = self.joints("motor_position", s.motor_position, ("angle", "length"))
        motor_offset, motor_sign = self.motor_convention(s.motor_position, motor)
        effort = self.joints("effort", s.effort, ("torque", "force", "current", "raw"))
        velocity = self.joints("velocity", s.velocity, ("angular velocity", "velocity"))
        temperature = self.joints("temperature", s.temperature, ("temperature",))
        commands = {
            "command_position": self.joints("command_position", s.command_position, ("angle", "length")),
            "command_velocity": self.joints(
                "command_velocity", s.command_velocity, ("angular velocity", "velocity")
            ),
            "command_effort": self.joints("command_effort", s.command_effort, ("torque", "force")),
        }
        further = {"effort": effort, "velocity": velocity, "temperature": temperature, **commands}
        self.require_positions(position, further)
        quantity = self.effort_quantity(s.effort)
        resolved = ChannelMap(
            time=Channel(time.column, time.unit, self.factor(time.unit, ("time",), "time")),
            position=position,
            velocity=velocity,
            effort=effort,
            motor_position=motor,
            motor_velocity=self.joints("motor_velocity", s.motor_velocity, ("angular velocity", "velocity")),
            temperature=temperature,
            **commands,
            wrench=self.wrenches(),
            extra={
                name: Channel(entry.column, entry.unit, self.factor(entry.unit, _ANY, "extra", name))
                for name, entry in s.extra.items()
            }
            | self.base_channels(),
            base=self.base(),
            trajectory=s.trajectory,
            effort_quantity=quantity,
            effort_side=self.effort_side(s.effort),
            position_side=convention.side,
            position_offset=offset,
            position_sign={k: float(v) for k, v in convention.sign.items()},
            effort_sign={k: float(v) for k, v in s.effort.sign.items()} if s.effort else {},
            motor_side=s.motor_position.side if s.motor_position else "link",
            motor_offset=motor_offset,
            motor_sign=motor_sign,
            sort=s.sort,
            delimiter=s.delimiter,
            decimal=s.decimal,
            topics=_several(s.topic),
            definitions=tuple(Path(self.file).parent / definition for definition in _several(s.definitions)),
            own_names=own_names,
            made=frozenset(
                name
                for name, entry in (("position", s.position), ("velocity", s.velocity), ("effort", s.effort))
                if entry is not None and isinstance(entry.columns, str)
            ),
            numbered=isinstance(convention.columns, str) and "{joint}" not in convention.columns,
        )
        resolved = replace(resolved, clocks=self.clocks(resolved))
        if self.errors:
            raise InputErrors(self.errors)
        return resolved

    def clocks(self, resolved: ChannelMap) -> dict[str, Channel]:
        """Time channel of each column that has a separate clock, by column name."""
        s = self.section
        clocks: dict[str, Channel] = {}
        groups = (
            ("velocity", s.velocity, resolved.velocity),
            ("effort", s.effort, resolved.effort),
            ("motor_position", s.motor_position, resolved.motor_position),
            ("motor_velocity", s.motor_velocity, resolved.motor_velocity),
            ("temperature", s.temperature, resolved.temperature),
        )
        for group, entry, channels in groups:
            if entry is not None and entry.time is not None:
                clock = self.clock(entry.time, group)
                clocks |= {channel.column: clock for channel in channels.values()}
        for name, wrench in s.wrench.items():
            if wrench.time is not None:
                clock = self.clock(wrench.time, "wrench", name)
                clocks |= {channel.column: clock for channel in resolved.wrench[name].channels}
        if s.imu is not None and s.imu.time is not None:
            clock = self.clock(s.imu.time, "imu")
            clocks |= {resolved.extra[name].column: clock for name in IMU_CHANNELS}
        for name, extra in s.extra.items():
            if extra.time is not None:
                clocks[extra.column] = self.clock(extra.time, "extra", name)
        return clocks

    def base(self) -> FloatingBase | None:
        """Sensors and contacts of a floating base; None without an IMU. Unknown links are added to the errors."""
        s, contact = self.section, self.section.contact or ContactEntry()
        if s.imu is None:
            if s.contact is not None:
                self.errors.append(
                    InputError(
                        "no-imu",
                        found="[log.contact] without [log.imu]",
                        expected="the motion of the base: angular velocity and acceleration",
                        do="log the IMU and map its columns under [log.imu]",
                        place=self.place("contact"),
                    )
                )
            return None
        links = [("imu", "link", s.imu.link), *(("contact", "feet", foot) for foot in contact.feet)]
        links += [("contact", "hold", support.link) for support in contact.hold.values()]
        for table, name, link in links:
            try:
                self.robot.link_frame(link)
            except InputError as error:
                self.errors.append(
                    InputError(
                        "unknown-link",
                        found=error.found,
                        expected=error.expected,
                        do=error.do,
                        place=self.place(table, name),
                    )
                )
        supports = [
            Support(entry.link, entry.point, entry.moment, tuple(entry.trajectories))
            for entry in contact.hold.values()
        ]
        return FloatingBase(
            s.imu.link,
            tuple(contact.feet),
            contact.columns != "found",
            contact.unit != "1",
            contact.moment,
            tuple(supports),
        )

    def base_channels(self) -> dict[str, Channel]:
        """Channels of the IMU and of the foot contacts, by signal name."""
        s, channels = self.section, dict[str, Channel]()
        if s.imu is None:
            return channels
        imu: dict[str, tuple[str | list[str], tuple[str, ...]]] = {
            "gyro": (s.imu.gyro, ("angular velocity",)),
            "acceleration": (s.imu.acceleration, ("acceleration",)),
        }
        for k, (kind, (template, quantities)) in enumerate(imu.items()):
            unit = {str(name): text for name, text in s.imu.unit.items()}.get(kind, "")
            scale = self.factor(unit, quantities, "imu", "unit")
            columns = self.template(template, "{axis}", tuple("xyz"), "imu", kind)
            for name, column in zip(IMU_CHANNELS[3 * k :], columns, strict=False):
                channels[name] = Channel(column, unit, scale)
        contact = s.contact
        if contact is not None and contact.columns != "found":
            scale = 1.0 if contact.unit == "1" else self.factor(contact.unit, ("force",), "contact", "unit")
            columns = self.template(contact.columns, "{foot}", tuple(contact.feet), "contact", "columns")
            for foot, column in zip(contact.feet, columns, strict=False):
                channels[f"contact:{foot}"] = Channel(column, contact.unit, scale)
        return channels

    def template(self, template: str | list[str], word: str, values: tuple[str, ...], *key: Key) -> list[str]:
        """Expand a template, range or list to one column per value; another number of columns adds an error."""
        if isinstance(template, list):
            columns = template
        elif _RUN.fullmatch(template):
            columns = columns_of(template, values)
        else:
            columns = [template.replace(word, value) for value in values]
        if len(set(columns)) != len(values) or not values:
            self.errors.append(
                InputError(
                    "template",
                    found=f"{key[-1]} = {_shown(template)}, which names {len(set(columns))} column(s)",
                    expected=f"{len(values) or 'one per foot: list the'} {'columns' if values else 'feet'}: a list, or "
                    f"a template with {word}",
                    place=self.place(*key),
                )
            )
        return columns

    def wrenches(self) -> dict[str, WrenchChannels]:
        """Channels of each force/torque sensor by its name; an unknown link adds an error."""
        return {name: self.wrench(name, entry) for name, entry in self.section.wrench.items()}

    def wrench(self, name: str, entry: WrenchEntry) -> WrenchChannels:
        frames = [entry.link] + ([] if entry.frame in (None, "sensor", "base") else [str(entry.frame)])
        for k, link in enumerate(frames):
            try:
                self.robot.link_frame(link)
            except InputError as error:
                place = self.place("wrench", name, ("link", "frame")[k])
                self.errors.append(
                    InputError(
                        "unknown-link", found=error.found, expected=error.expected, do=error.do, place=place
                    )
                )
        templates = [entry.columns] if isinstance(entry.columns, str) else entry.columns
        columns = [
            column.replace("{axis}", axis)
            for template in templates
            for column in (columns_of(template, "x" * 6) if _RUN.fullmatch(template) else [template])
            for axis in ("xyz" if "{axis}" in column else "x")
        ]
        if len(set(columns)) != 6:
            self.errors.append(
                InputError(
                    "template",
                    found=f"columns = {_shown(entry.columns)}, which names {len(set(columns))} column(s)",
                    expected='six, fx to tz: a list, ["force_{axis}", "torque_{axis}"], or a range such as ft[0:6]',
                    place=self.place("wrench", name, "columns"),
                )
            )
            columns = [*columns, *[""] * 6][:6]
        units = (
            [entry.unit, "N m"]
            if isinstance(entry.unit, str)
            else [entry.unit.get(q, "") for q in _QUANTITIES]
        )
        channels = []
        for k, (quantity, unit) in enumerate(zip(_QUANTITIES, units, strict=True)):
            scale = self.factor(unit, (quantity,), "wrench", name, "unit")
            channels += [Channel(column, unit, scale) for column in columns[3 * k : 3 * k + 3]]
        return WrenchChannels(WrenchSensor(name, entry.link, entry.frame), tuple(channels))

    def clock(self, entry: TimeEntry, *key: Key) -> Channel:
        return Channel(entry.column, entry.unit, self.factor(entry.unit, ("time",), *key, "time"))

    def factor(self, unit: str, quantities: tuple[str, ...], *key: Key) -> float:
        try:
            return factor(unit, quantities, self.place(*key))[1]
        except InputError as error:
            self.errors.append(error)
            return 1.0

    def require_positions(
        self, position: Mapping[str, Channel], others: Mapping[str, Mapping[str, Channel]]
    ) -> None:
        # A joint may lack all columns, and a joint at rest may lack its effort; other gaps are errors.
        logged = position or dict.fromkeys(self.robot.joint_names)
        for quantity, group in others.items():
            lost = [j for j in self.robot.joint_names if j in group and j not in logged]
            missing = [j for j in logged if j not in group] if group and quantity != "effort" else []
            for missing_quantity, joints, expected in (
                ("position", lost, f"a column for every joint with {quantity}"),
                (quantity, missing, "a column for every joint with a position"),
            ):
                if joints:
                    finding = f"{missing_quantity} without {', '.join(joints)}"
                    self.errors.append(
                        InputError(
                            "missing-joint",
                            found=finding,
                            expected=expected,
                            do="map the columns, or lock the joint at its position: lock under [robot], or --lock",
                            place=self.place(missing_quantity),
                        )
                    )

    def known(self, joint: str, *key: Key) -> bool:
        if joint in self.robot.joint_names:
            return True
        near = get_close_matches(joint, self.robot.joint_names, n=1, cutoff=0.4)
        self.errors.append(
            InputError(
                "unknown-joint",
                found=f"unknown joint '{joint}'",
                expected="one of " + ", ".join(self.robot.joint_names),
                do=f"did you mean '{near[0]}'?" if near else "",
                place=self.place(*key),
            )
        )
        return False

    def motor_convention(
        self, entry: MotorEntry | None, channels: dict[str, Channel]
    ) -> tuple[dict[str, float] | None, dict[str, float] | None]:
        if entry is None:
            return None, None
        for name, table in (("offset", entry.offset), ("sign", entry.sign)):
            for joint in table or ():
                self.known(joint, "motor_position", name)
        offset = None
        if entry.offset is not None:
            offset = {j: v * (channels[j].factor if j in channels else 1.0) for j, v in entry.offset.items()}
        return offset, {j: float(v) for j, v in entry.sign.items()} if entry.sign is not None else None

    def joints(self, key: str, entry: JointEntry | None, quantities: tuple[str, ...]) -> dict[str, Channel]:
        if entry is None:
            return {}
        names = self.robot.joint_names
        if not isinstance(entry.columns, dict):
            template = STANDARD_COLUMNS.get(key, "") if entry.columns is None else entry.columns
            expanded = template if isinstance(template, list) else columns_of(template, names)
            if len(expanded) != len(names):
                listed_columns = f"columns = {_shown(template)}, which names {len(expanded)} column(s)"
                expected = "a template with {joint}, {number} or {index}, a range such as "
                self.errors.append(
                    InputError(
                        "template",
                        found=listed_columns if template else f"{key} without columns",
                        expected=f"{len(names)} columns: {expected}{key}[0:{len(names)}], a list, or a table",
                        place=self.place(key),
                    )
                )
                return {}
            columns = dict(zip(names, expanded, strict=True))
        else:
            columns = {
                joint: column for joint, column in entry.columns.items() if self.known(joint, key, "columns")
            }
        columns = {joint: columns[joint] for joint in names if joint in columns}
        if isinstance(entry, EffortEntry) and is_rated(entry.unit):
            rated = self.rated(entry, columns)
            return {joint: Channel(columns[joint], str(entry.unit), scale) for joint, scale in rated.items()}
        # LeRobot logs grippers in percent even if the other joints are in degrees.
        units = entry.unit if isinstance(entry.unit, dict) else dict.fromkeys(columns, entry.unit)
        of_motors = key in ("position", "command_position")
        shares = {j: column for j, column in columns.items() if of_motors and units.get(j) == PERCENT}
        channels = {
            j: Channel(columns[j], PERCENT, scale) for j, scale in self.calibrated(key, shares).items()
        }
        rest = [joint for joint in columns if joint not in shares]
        if rest or not shares:
            channels |= {
                joint: Channel(columns[joint], *unit_and_factor)
                for joint, unit_and_factor in self.units(key, entry.unit, quantities, rest).items()
            }
        return {joint: channels[joint] for joint in columns if joint in channels}

    def units(
        self, key: str, unit: Unit, quantities: tuple[str, ...], joints: Iterable[str]
    ) -> dict[str, tuple[str, float]]:
        """Unit of each joint and its factor to SI; a unit of length for a revolute joint, for example, is an error."""
        if isinstance(unit, str):
            scale, joints = self.factor(unit, quantities, key), list(joints)
            slides = [] if self.turns(key) else [j for j in joints if self.slides(j)]
            if scale != 1.0 and 0 < len(slides) < len(joints) and key not in ("effort", "temperature"):
                self.errors.append(
                    InputError(
                        "unit",
                        found=f"'{unit}' for all joints, but '{slides[0]}' is prismatic and others are revolute",
                        expected="a unit for each joint",
                        do=f"write unit = {{ JOINT = UNIT, ... }} with a unit of length for '{slides[0]}'",
                        place=self.place(key, "unit"),
                    )
                )
            return dict.fromkeys(joints, (unit, scale))
        for joint in unit:
            self.known(joint, key, "unit")
        resolved = {}
        for joint in joints:
            if joint not in unit:
                self.errors.append(
                    InputError(
                        "unit",
                        found=f"no unit for '{joint}'",
                        expected="a unit for every joint, or one unit for all",
                        do=f'add {joint} = "..." to unit',
                        place=self.place(key, "unit"),
                    )
                )
                continue
            others = OF_SLIDES if self.turns(key) or not self.slides(joint) else OF_TURNS
            allowed = tuple(quantity for quantity in quantities if quantity not in others)
            resolved[joint] = (unit[joint], self.factor(unit[joint], allowed, key, "unit", joint))
        return resolved

    def slides(self, joint: str) -> bool:
        """Whether a joint is prismatic."""
        return self.robot.prismatic[self.robot.joint_names.index(joint)]

    def turns(self, key: str) -> bool:
        """Whether a channel is measured at the motors, which rotate even if they drive a prismatic joint."""
        s = self.section
        if key == "effort":
            return self.effort_side(s.effort) == "motor"
        if key in ("motor_position", "motor_velocity"):
            return s.motor_position is not None and s.motor_position.side == "motor"
        return s.position is not None and s.position.side == "motor"

    def effort_side(self, entry: EffortEntry | None) -> str:
        """Side of the effort: as declared, else "motor" for units of rated torque, else `torque_side` of the robot."""
        if entry is not None and entry.side is not None:
            return entry.side
        return "motor" if entry is not None and is_rated(entry.unit) else str(self.robot.drive.torque_side)

    def rated(self, entry: EffortEntry, columns: Mapping[str, str]) -> dict[str, float]:
        """Torque in N m of one unit (percent or permille of the rated torque) for each joint."""
        for joint in entry.rated_torque:
            self.known(joint, "effort", "rated_torque")
        lacking = [joint for joint in columns if joint not in entry.rated_torque]
        if lacking:
            self.errors.append(
                InputError(
                    "missing-key",
                    found=f"effort in {entry.unit} without rated_torque of {', '.join(lacking)}",
                    expected="the torque that is 100 % of every joint, N m",
                    do="add rated_torque = { JOINT = N m, ... } to effort under [log], from the motor's data sheet or "
                    "object 0x6076 of the drive",
                    place=self.place("effort"),
                )
            )
        return {joint: RATED[str(entry.unit)] * entry.rated_torque.get(joint, 1.0) for joint in columns}

    def effort_quantity(self, entry: EffortEntry | None) -> str:
        """Quantity of the effort, the same for all joints: torque (or force), current or raw."""
        if entry is None or is_rated(entry.unit):
            return "torque"
        quantities = []
        for unit in [entry.unit] if isinstance(entry.unit, str) else dict.fromkeys(entry.unit.values()):
            with suppress(InputError):  # `joints` has already reported this error
                quantities.append(
                    factor(unit, ("torque", "force", "current", "raw"), self.place("effort"))[0]
                )
        kinds = {"torque" if quantity == "force" else quantity for quantity in quantities}
        if len(kinds) > 1:
            self.errors.append(
                InputError(
                    "unit",
                    found=f"efforts in different quantities: {' and '.join(sorted(kinds))}",
                    expected="torque or force, current, or raw values for all joints",
                    do="set drive_gain of each joint under [robot] and declare all efforts as raw",
                    place=self.place("effort", "unit"),
                )
            )
        return next(iter(sorted(kinds)), "torque")

    def of_limits(self, joint: str, column: str) -> tuple[float, float]:
        """Angle in rad per percent, and position in rad at 0 %, of a joint with its limits as range."""
        j = self.robot.joint_names.index(joint)
        return percent_of_limits(
            column, joint, float(self.robot.limits.lower[j]), float(self.robot.limits.upper[j])
        )

    def zeros_of_limits(self, position: Mapping[str, Channel]) -> dict[str, float]:
        """Position in rad at 0 %, for each joint logged in percent of the range between its limits."""
        if self.section.position is None or self.section.position.calibration != LIMITS:
            return {}
        return {
            joint: self.of_limits(joint, channel.column)[1]
            for joint, channel in position.items()
            if channel.unit == PERCENT
        }

    def calibrated(self, key: str, columns: Mapping[str, str]) -> dict[str, float]:
        """Angle in rad of one percent of the motor's range, for each joint."""
        given = self.section.position.calibration if self.section.position else None
        scales = dict.fromkeys(columns, 1.0)
        if not columns:
            return scales
        place = self.place("position")
        if given == LIMITS:
            scales = {joint: self.of_limits(joint, column)[0] for joint, column in columns.items()}
            unlimited = [joint for joint, scale in scales.items() if not math.isfinite(scale)]
            if unlimited:
                self.errors.append(
                    InputError(
                        "calibration",
                        found=f"calibration = '{LIMITS}', but no limits of {', '.join(unlimited)}",
                        expected="limits of every joint in % in the robot file",
                        do='add the limits there, or set calibration = "FILE.json"',
                        place=place,
                    )
                )
            return scales
        if given is None:
            self.errors.append(
                InputError(
                    "calibration",
                    found=f"{key} in % without a calibration of the motors",
                    expected="the file that lerobot-calibrate wrote for this arm",
                    do='add calibration = "FILE.json" to position, or declare another unit',
                    place=self.place(key),
                )
            )
            return scales
        try:
            motors = read_calibration(Path(self.file).parent / given) if isinstance(given, str) else given
            check_ranges(motors, place)
        except DynidError as error:
            self.errors.append(error)
            return scales
        for joint, column in columns.items():
            motor = motor_of(column, joint, motors)
            if motor is None:
                self.errors.append(
                    InputError(
                        "calibration",
                        found=f"column '{column}' of joint '{joint}', which names no motor of the calibration",
                        expected="a column or joint named after one of " + ", ".join(motors),
                        do="use the calibration of this arm, or name the joint after its motor",
                        place=self.place(key),
                    )
                )
                continue
            scales[joint] = rad_per_percent(motor, motors[motor])
        return scales


# Detect the columns of a wrench by their names.

_WRENCH = re.compile(
    r"(?P<stem>.*?)(?P<kind>force|torque|moment|(?<![A-Za-z])[ftm])[ ._/\[-]?(?P<axis>[xyz])\]?",
    re.IGNORECASE,
)
# The components may also be numbered; Universal Robots, for example, logs actual_TCP_force_0 to actual_TCP_force_5.
_NUMBERED_WRENCH = re.compile(
    r"(?P<stem>.*?(tcp[_ ]?force|wrench|(?<![A-Za-z])ft))[ ._/\[-]?(?P<number>[0-5])\]?", re.I
)


def wrench_groups(columns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Find groups of six columns that form a wrench.

    A force column ends in force or f and the axis, a torque column in torque, moment, t or m and the axis
    (wrench.force.x, ft_fx, Fx, force_x). Instead, the six columns may end in a number from 0 to 5.

    Returns
    -------
    dict of str to tuple of str
        Columns fx, fy, fz, tx, ty, tz of each wrench, by the common prefix of their names ("wrench" if it is empty).

    """
    places = [(kind, axis) for kind in "ft" for axis in "xyz"]
    by_stem: dict[str, dict[tuple[str, str], str]] = {}
    for column in columns:
        match = _WRENCH.fullmatch(column)
        if match is not None:
            kind = "f" if match["kind"].lower().startswith("f") else "t"
            by_stem.setdefault(match["stem"], {}).setdefault((kind, match["axis"].lower()), column)
        numbered = _NUMBERED_WRENCH.fullmatch(column)
        if numbered is not None:
            place = places[int(numbered["number"])]
            by_stem.setdefault(numbered["stem"], {}).setdefault(place, column)
    return {
        re.sub(r"\W+", "_", stem).strip("_") or "wrench": tuple(group[place] for place in places)
        for stem, group in by_stem.items()
        if all(place in group for place in places)
    }


_IMU = re.compile(
    r"(?P<stem>.*?)((?P<gyro>gyro(scope)?|angular[ _]?velocity|ang[ _]?vel|(?<![A-Za-z])[gw])"
    r"|(linear[ _]?|lin[ _]?)?acc(el|eleration|elerometer)?|(?<![A-Za-z])a)[ ._/\[-]?(?P<axis>[xyz])\]?",
    re.IGNORECASE,
)


def imu_columns(columns: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Find the columns of an IMU.

    The six columns share a prefix and end in gyro, angular_velocity, acc, linear_acceleration or a similar word, and
    the axis. If several groups match, the group with "imu" in its prefix is used.

    Returns
    -------
    tuple of (tuple of str, tuple of str) or None
        Columns of the angular velocity along x, y, z and of the acceleration along x, y, z; None without a unique IMU.

    """
    by_stem: dict[str, dict[tuple[bool, str], str]] = {}
    for column in columns:
        match = _IMU.fullmatch(column)
        if match is not None:
            place = (match["gyro"] is not None, match["axis"].lower())
            by_stem.setdefault(match["stem"], {}).setdefault(place, column)
    whole = {stem: group for stem, group in by_stem.items() if len(group) == 6}
    named = {stem: group for stem, group in whole.items() if "imu" in stem.lower()} or whole
    if len(named) != 1:
        return None
    group = next(iter(named.values()))
    return tuple(group[True, axis] for axis in "xyz"), tuple(group[False, axis] for axis in "xyz")
