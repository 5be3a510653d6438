"""Logs with dynid's own column names: t, q_<joint>, tau_<joint> and the others, in SI units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from dynid.base.errors import InputError, Place
from dynid.base.units import NO_UNITS, is_si, is_unit
from dynid.log.log import Channel, ChannelMap
from dynid.log.mapping import OF_SLIDES, OF_TURNS, columns_of
from dynid.robot.model import RobotModel

# What is said of a log that lacks dynid's own names, of all columns or of efforts.
UNNAMED = ("no-mapping", "no-effort")


_OF_JOINTS = ("q", "dq", "tau", "q_des", "dq_des", "tau_ff", "theta", "dtheta", "theta_m", "dtheta_m")


def names_of(robot: RobotModel) -> set[str]:
    """All names that dynid gives columns of this robot itself."""
    return {"t", "traj", *(f"{signal}_{joint}" for signal in _OF_JOINTS for joint in robot.joint_names)}


def canonical_map(
    columns: tuple[str, ...],
    robot: RobotModel,
    file: str,
    extra: Sequence[str] = (),
    stated: Mapping[str, str] = MappingProxyType({}),
) -> ChannelMap:
    """The mapping of dynid's own column names: t, traj, q_<joint>, dq_<joint>, tau_<joint>, SI units.

    Where there is no tau_<joint>, commands may be there: q_des_<joint>, dq_des_<joint>, tau_ff_<joint>.

    theta_<joint> and dtheta_<joint>, the reflected motion of a motor that has its own encoder, may be there for some,
    or theta_m_<joint> and dtheta_m_<joint>, the motor's own.

    extra: further columns to read as channels of the same name, where the file has them.
    stated: units that the file itself states of its columns.

    Raises InputError with a [log] table to fill in when the columns are named otherwise, or stated in other units.
    """
    names = set(columns)
    needed = {"t"} | {f"q_{j}" for j in robot.joint_names}
    strange = _in_other_units(robot, stated)
    if not needed <= names or strange:
        listed = f"columns {', '.join(columns[:30])}{' ...' if len(columns) > 30 else ''}"
        raise InputError(
            "no-mapping",
            found=f"{listed}, {strange}" if strange else listed,
            expected="dynid's own names (t, q_<joint>, dq_<joint>, tau_<joint>) or a mapping",
            do=f"let `dynid init {robot.source or 'ROBOT'} {file}` write one, or give this table with units filled in, "
            "by --config or as mapping in Python:\n" + suggestion(columns, robot),
            place=Place(file=file),
        )

    def group(prefix: str, unit: str) -> dict[str, Channel]:  # of every joint, or of none
        have = all(f"{prefix}_{j}" in names for j in robot.joint_names)
        return {j: Channel(f"{prefix}_{j}", unit, 1.0) for j in robot.joint_names} if have else {}

    def some(prefix: str, unit: str) -> dict[str, Channel]:
        have = [j for j in robot.joint_names if f"{prefix}_{j}" in names]
        return {j: Channel(f"{prefix}_{j}", unit, 1.0) for j in have}

    effort = group("tau", "N m")
    commanded = {} if effort else group("q_des", "rad")
    effort = effort if commanded else some("tau", "N m")
    reflected = bool(some("theta", "rad"))
    own = "" if reflected else "_m"
    return ChannelMap(
        time=Channel("t", "s", 1.0),
        motor_position=some(f"theta{own}", "rad"),
        motor_velocity=some(f"dtheta{own}", "rad/s"),
        motor_side="link" if reflected else "motor",
        position=group("q", "rad"),
        velocity=group("dq", "rad/s"),
        effort=effort,
        command_position=commanded,
        command_velocity=group("dq_des", "rad/s") if commanded else {},
        command_effort=group("tau_ff", "N m") if commanded else {},
        effort_side=str(robot.drive.torque_side),
        trajectory="traj" if "traj" in names else None,
        extra={name: Channel(name, "1", 1.0) for name in extra if name in names},
    )


def _in_other_units(robot: RobotModel, stated: Mapping[str, str]) -> str:
    """The first column with one of dynid's own names that the file states in another unit than dynid's; "" = none."""
    slides = dict(zip(robot.joint_names, robot.prismatic, strict=True))
    own = {"t": ("time",)}
    for joint, slide in slides.items():
        for name, quantity in zip(("q", "dq", "tau"), OF_SLIDES if slide else OF_TURNS, strict=True):
            own[f"{name}_{joint}"] = (quantity,)
    for column, quantities in own.items():
        unit = stated.get(column, "").strip("[]() ")
        if is_unit(unit) and unit not in NO_UNITS and not is_si(unit, quantities):
            return f"'{column}' in {unit}"
    return ""


def completed(
    mapping: ChannelMap, columns: tuple[str, ...], robot: RobotModel, file: str, extra: Sequence[str] = ()
) -> ChannelMap:
    """The mapping with dynid's own columns, where the file has them, in place of what is left out.

    A mapping that names the columns of its positions is complete.    extra: as for canonical_map.

    Raises InputError if the file's columns are not dynid's own.
    """
    if not mapping.own_names:
        return mapping
    timed = columns if mapping.time.column == "t" else (*columns, "t")
    own = canonical_map(timed, robot, file, extra)
    moved = bool(mapping.motor_position)
    return replace(
        mapping,
        position=mapping.position or own.position,
        velocity=mapping.velocity or own.velocity,
        effort=mapping.effort or own.effort,
        command_position=mapping.command_position or own.command_position,
        command_velocity=mapping.command_velocity or own.command_velocity,
        command_effort=mapping.command_effort or own.command_effort,
        motor_position=mapping.motor_position or own.motor_position,
        motor_velocity=mapping.motor_velocity if moved else own.motor_velocity,
        motor_side=mapping.motor_side if moved else own.motor_side,
        trajectory=mapping.trajectory or own.trajectory,
        extra={**own.extra, **mapping.extra},
    )


def suggestion(columns: tuple[str, ...], robot: RobotModel) -> str:
    """A [log] table guessed from column names; units are left as ?, for they are never guessed."""

    def guess(patterns: tuple[str, ...]) -> str | None:
        for pattern in patterns:
            for template in (
                f"{pattern}{{number}}",
                f"{pattern}_{{number}}",
                f"{pattern}_{{joint}}",
                f"{{joint}}_{pattern}",
                f"{pattern}[{{index}}]",
            ):
                wanted = columns_of(template, robot.joint_names)
                if set(wanted) <= set(columns):
                    return template
        return None

    time = next((c for c in columns if c.lower() in ("t", "time", "timestamp", "stamp", "time_s")), "?")
    lines = ["[log]", f'time = {{ column = "{time}", unit = "?" }}']
    for quantity, patterns in (
        ("position", ("q", "pos", "position", "theta", "qm")),
        ("velocity", ("dq", "qd", "vel", "velocity", "dqm")),
        ("effort", ("tau", "effort", "torque", "i", "current", "tau_m")),
    ):
        template = guess(patterns)
        if template or quantity != "velocity":
            lines.append(f'{quantity} = {{ columns = "{template or "?"}", unit = "?" }}')
    return "\n".join(lines)
