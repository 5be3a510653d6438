"""Which column of a log measures what, from the [log] table of an experiment. Joints by name, units declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from dynid.base.errors import DynidError, InputError, InputErrors, Place
from dynid.base.toml_file import Key, line_of
from dynid.base.units import factor
from dynid.log.calibration import PERCENT, check_ranges, motor_of, rad_per_percent, read_calibration
from dynid.log.log import Channel, ChannelMap
from dynid.log.section import EffortEntry, JointEntry, LogSection, MotorEntry, PositionEntry, TimeEntry, Unit
from dynid.robot.model import RobotModel

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
