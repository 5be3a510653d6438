"""The [log] table of an experiment: which column measures what, in which unit, for which joint."""

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
from dynid.log.log import Channel, ChannelMap
from dynid.robot.model import RobotModel

# LeRobot's calibration files: which share of its turn each motor's encoder may cover, and where its middle
# is.
#
# Positions of LeRobot are shares of that range, in percent, unless its robot was told to use degrees.
#
# Source: MotorsBus._normalize and MotorCalibration of huggingface/lerobot,
# src/lerobot/motors/motors_bus.py.

# The unit of positions that are shares of a motor's calibrated range.
PERCENT = "%"
# One turn of the encoders of Feetech's STS and Dynamixel's X servos, which every arm of LeRobot has.
COUNTS_PER_TURN = 4096
# Grippers are logged from 0 (range_min) to 100, other joints from -100 to 100 about the middle of their range.
_GRIPPER = "gripper"
# A calibration of an arm has some hundred bytes a motor.
_MAX_BYTES = 1_000_000


class MotorCalibration(Strict):
    """One motor of a calibration file, in counts of its encoder."""

    id: int | None = key(None, "of the motor on its bus")
    drive_mode: Annotated[int, Field(ge=0, le=1)] = key(0, "1: shares count the other way")
    homing_offset: int = key(0, "as its firmware holds it; ranges count with it")
    range_min: int = key(doc="lower end", unit="counts")
    range_max: int = key(doc="upper end", unit="counts")


class _Calibration(Strict):
    motors: dict[str, MotorCalibration]


def read_calibration(path: str | Path) -> dict[str, MotorCalibration]:
    """The motors of a calibration file by name.    Raises InputError for what is none."""
    place = Place(file=str(path))
    try:
        data = json.loads(read_bytes(path, "a calibration file of LeRobot", _MAX_BYTES))
    except ValueError as error:
        raise InputError(
            "calibration",
            found=f"no JSON: {error}",
            expected="the JSON file that lerobot-calibrate wrote",
            place=place,
        ) from error
    if not isinstance(data, dict) or not data or not all(isinstance(one, dict) for one in data.values()):
        raise InputError(
            "calibration",
            found="no table of motors",
            expected='{"shoulder_pan": {"range_min": 750, "range_max": 3400}, ...}, as lerobot-calibrate writes it',
            do="calibrate again with a LeRobot of 2025 or later, if the file is older",
            place=place,
        )
    motors = validate(_Calibration, {"motors": data}, {}, str(path)).motors
    check_ranges(motors, place)
    return motors


def check_ranges(motors: Mapping[str, MotorCalibration], place: Place) -> None:
    """Raises InputError for a motor without a range."""
    for name, one in motors.items():
        if not one.range_min < one.range_max:
            raise InputError(
                "calibration",
                found=f"motor '{name}' from {one.range_min} to {one.range_max} counts",
                expected="range_min below range_max",
                place=place,
            )


def motor_of(column: str, joint: str, motors: Iterable[str]) -> str | None:
    """The motor that a column names, else the one of the joint's name; None where neither is there."""
    named = [one for one in motors if re.search(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])", column)]
    return max(named, key=len, default=joint if joint in motors else None)


def rad_per_percent(motor: str, one: MotorCalibration) -> float:
    """Angle of one percent of a motor's range, rad; negative where shares count against its encoder.

    q = (v / 200) (range_max - range_min) 2 pi / 4096, over 100 for a gripper.
    """
    whole = 100.0 if motor.endswith(_GRIPPER) else 200.0
    sign = -1.0 if one.drive_mode else 1.0
    return sign * (one.range_max - one.range_min) * 2.0 * math.pi / COUNTS_PER_TURN / whole


def moved(
    motors: Mapping[str, MotorCalibration], angles: Mapping[str, float]
) -> tuple[dict[str, MotorCalibration], tuple[str, ...]]:
    """A calibration with which each motor's encoder reads further by an angle, rad, in whole counts; some cannot.

    Positions count from the middle of the range or from its end: the whole range moves the other way. Returns the
    motors and the names of those whose range would leave the turn of the encoder, which stay.
    """
    out, left = dict(motors), []
    for name, angle in angles.items():
        one = motors[name]
        counts = -round(angle * COUNTS_PER_TURN / (2.0 * math.pi))
        low, high = one.range_min + counts, one.range_max + counts
        if counts and (low < 0 or high >= COUNTS_PER_TURN):
            left.append(name)
            continue
        out[name] = one.model_copy(update={"range_min": low, "range_max": high})
    return out, tuple(left)


def calibration_json(motors: Mapping[str, MotorCalibration]) -> bytes:
    """The file that `read_calibration` reads and LeRobot loads."""
    data = {
        name: {"id": k + 1 if one.id is None else one.id, **one.model_dump(exclude={"id"})}
        for k, (name, one) in enumerate(motors.items())
    }
    return json.dumps(data, indent=4).encode() + b"\n"


# The [log] table of an experiment as it is written: keys, values and what is said of them.

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
        None, "time of these columns, where they have [one of their own](log-files.md#several-clocks)"
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
        "bags only: topic of the joint states, where [several fit](log-files.md#ros-bags-and-mcap)",
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


# Which column of a log measures what, from the [log] table of an experiment. Joints by name, units
# declared.

# A run of the columns of an array, as NumPy writes it: q[0:6], counted from 0, the end not included.
_RUN = re.compile(r"(.*)\[(\d*):(\d*)\]")
OWN_COLUMNS = {
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

OF_TURNS, OF_SLIDES = ("angle", "angular velocity", "torque"), ("length", "velocity", "force")


def channel_map(
    section: LogSection, robot: RobotModel, file: str = "", lines: Lines | None = None
) -> ChannelMap:
    """Resolves the [log] table for a robot.

    Raises InputErrors naming unknown joints (with the nearest name), joints without a column, and unknown units.
    """
    return _Resolver(section, robot, file, lines or {}).resolve()


def columns_of(template: str, names: Sequence[str]) -> list[str]:
    """The columns that a template names, one a joint; or what else it names, fewer or more than there are joints."""
    run = _RUN.fullmatch(template)
    if run is not None:
        first = int(run[2] or 0)
        last = int(run[3]) if run[3] else first + len(names)
        # A run of another length is wrong whatever its length is.
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
                    expected="a column and its unit",
                    do='add time = { column = "...", unit = "s" }',
                    place=self.place("position"),
                )
            )
        time = s.time or TimeEntry(column="t", unit="s")
        offset = {}
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
            extra={
                name: Channel(entry.column, entry.unit, self.factor(entry.unit, _ANY, "extra", name))
                for name, entry in s.extra.items()
            },
            trajectory=s.trajectory,
            effort_quantity=quantity,
            effort_side=(s.effort.side if s.effort and s.effort.side else str(self.robot.drive.torque_side)),
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
            definitions=tuple(Path(self.file).parent / one for one in _several(s.definitions)),
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

    def clocks(self, found: ChannelMap) -> dict[str, Channel]:
        """The time column of every column that has its own."""
        s = self.section
        clocks: dict[str, Channel] = {}
        groups = (
            ("velocity", s.velocity, found.velocity),
            ("effort", s.effort, found.effort),
            ("motor_position", s.motor_position, found.motor_position),
            ("motor_velocity", s.motor_velocity, found.motor_velocity),
            ("temperature", s.temperature, found.temperature),
        )
        for group, entry, channels in groups:
            if entry is not None and entry.time is not None:
                clock = self.clock(entry.time, group)
                clocks |= {channel.column: clock for channel in channels.values()}
        for name, extra in s.extra.items():
            if extra.time is not None:
                clocks[extra.column] = self.clock(extra.time, "extra", name)
        return clocks

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
        # A joint may be absent as a whole; effort may be left out of joints that stand still.
        logged = position or dict.fromkeys(self.robot.joint_names)
        for quantity, group in others.items():
            lost = [j for j in self.robot.joint_names if j in group and j not in logged]
            missing = [j for j in logged if j not in group] if group and quantity != "effort" else []
            for what, joints, expected in (
                ("position", lost, f"a column for every joint with {quantity}"),
                (quantity, missing, "a column for every joint with a position"),
            ):
                if joints:
                    found = f"{what} without {', '.join(joints)}"
                    self.errors.append(
                        InputError(
                            "missing-joint",
                            found=found,
                            expected=expected,
                            do="name the columns, or hold the joint where it stands: lock under [robot], or --lock",
                            place=self.place(what),
                        )
                    )

    def known(self, joint: str, *key: Key) -> bool:
        if joint in self.robot.joint_names:
            return True
        near = get_close_matches(joint, self.robot.joint_names, n=1, cutoff=0.4)
        self.errors.append(
            InputError(
                "unknown-joint",
                found=f"joint '{joint}'",
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
        share = entry.unit == PERCENT and key in ("position", "command_position")
        names = self.robot.joint_names
        if not isinstance(entry.columns, dict):
            template = OWN_COLUMNS.get(key, "") if entry.columns is None else entry.columns
            found = template if isinstance(template, list) else columns_of(template, names)
            if len(found) != len(names):
                listed_columns = f"columns = {_shown(template)}, {len(found)} of them"
                expected = "a template with {joint}, {number} or {index}, a run such as "
                self.errors.append(
                    InputError(
                        "template",
                        found=listed_columns if template else f"{key} without columns",
                        expected=f"{len(names)} columns: {expected}{key}[0:{len(names)}], a list, or a table",
                        place=self.place(key),
                    )
                )
                return {}
            columns = dict(zip(names, found, strict=True))
        else:
            columns = {
                joint: column for joint, column in entry.columns.items() if self.known(joint, key, "columns")
            }
        columns = {joint: columns[joint] for joint in names if joint in columns}
        if share:
            return {j: Channel(columns[j], PERCENT, one) for j, one in self.calibrated(key, columns).items()}
        return {
            j: Channel(columns[j], *one)
            for j, one in self.units(key, entry.unit, quantities, columns).items()
        }

    def units(
        self, key: str, unit: Unit, quantities: tuple[str, ...], joints: Iterable[str]
    ) -> dict[str, tuple[str, float]]:
        """Unit and factor to SI by joint; of a table each has to be one of its joint, which turns or slides."""
        if isinstance(unit, str):
            scale, joints = self.factor(unit, quantities, key), list(joints)
            slides = [j for j in joints if self.robot.prismatic[self.robot.joint_names.index(j)]]
            if scale != 1.0 and 0 < len(slides) < len(joints) and key not in ("effort", "temperature"):
                self.errors.append(
                    InputError(
                        "unit",
                        found=f"'{unit}' for all joints, of which '{slides[0]}' slides and others turn",
                        expected="a unit of its own for each",
                        do=f"write unit = {{ JOINT = UNIT, ... }} with one of length for '{slides[0]}'",
                        place=self.place(key, "unit"),
                    )
                )
            return dict.fromkeys(joints, (unit, scale))
        for joint in unit:
            self.known(joint, key, "unit")
        found = {}
        for joint in joints:
            if joint not in unit:
                self.errors.append(
                    InputError(
                        "unit",
                        found=f"no unit of '{joint}'",
                        expected="one for every joint, or one for all",
                        do=f'add {joint} = "..." to unit',
                        place=self.place(key, "unit"),
                    )
                )
                continue
            others = OF_TURNS if self.robot.prismatic[self.robot.joint_names.index(joint)] else OF_SLIDES
            own = tuple(one for one in quantities if one not in others)
            found[joint] = (unit[joint], self.factor(unit[joint], own, key, "unit", joint))
        return found

    def effort_quantity(self, entry: EffortEntry | None) -> str:
        """Torque (or force), current or raw: one for all joints."""
        if entry is None:
            return "torque"
        found = []
        for unit in [entry.unit] if isinstance(entry.unit, str) else dict.fromkeys(entry.unit.values()):
            with suppress(InputError):  # it is in the list already
                found.append(factor(unit, ("torque", "force", "current", "raw"), self.place("effort"))[0])
        kinds = {"torque" if one == "force" else one for one in found}
        if len(kinds) > 1:
            self.errors.append(
                InputError(
                    "unit",
                    found=f"efforts that are {' and '.join(sorted(kinds))}",
                    expected="torques and forces, or currents, or raw values of all joints",
                    do="give each joint's drive_gain under [robot] and declare all as raw",
                    place=self.place("effort", "unit"),
                )
            )
        return next(iter(sorted(kinds)), "torque")

    def calibrated(self, key: str, columns: Mapping[str, str]) -> dict[str, float]:
        """Rad in one percent of the range of every joint's motor."""
        given = self.section.position.calibration if self.section.position else None
        scales = dict.fromkeys(columns, 1.0)
        place = self.place("position")
        if given is None:
            self.errors.append(
                InputError(
                    "calibration",
                    found=f"{key} in % and no calibration of the motors",
                    expected="the file that lerobot-calibrate wrote for this arm",
                    do='add calibration = "FILE.json" to position, or declare the unit that the columns have',
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
                        place=self.place(key),
                    )
                )
                continue
            scales[joint] = rad_per_percent(motor, motors[motor])
        return scales
