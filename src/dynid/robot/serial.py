"""Conversion of robots to plain JSON data and back, and to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, cast

import numpy as np

from dynid.base.arrays import Float, finite_or_none
from dynid.robot.drive import Drive, Servo, TorqueSide
from dynid.robot.linkage import FourBar, Linkage, Table, groups_of
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.options import Reading
from dynid.robot.rods import Rods

# Conversion to plain JSON data and back, so that a run folder needs no other file.


def robot_to_dict(robot: RobotModel) -> dict[str, Any]:
    """Convert a robot to plain data; unknown numbers and infinite limits become None.

    Parameters
    ----------
    robot : RobotModel
        The robot.

    Returns
    -------
    dict of str to object
        Data that JSON can hold, for `robot_from_dict`.

    """
    return {
        "name": robot.name,
        "source": robot.source,
        "bodies": list(robot.body_names),
        "tree_joints": list(robot.tree_joint_names),
        "joints": list(robot.joint_names),
        "parent": robot.parent.tolist(),
        "joint_types": [str(kind) for kind in robot.joint_types],
        "T_parent_joint": robot.T_parent_joint.tolist(),
        "axis": robot.axis.tolist(),
        "inertia_prior": _plain(robot.inertia_prior),
        "gravity": robot.gravity.tolist(),
        "merged": [list(names) for names in robot.merged],
        "friction_prior": _plain(robot.friction_prior),
        "spring_prior": _plain(robot.spring_prior),
        "projection": robot.projection.tolist(),
        "projection_offset": robot.projection_offset.tolist(),
        "limits": {
            name: _plain(getattr(robot.limits, name)) for name in ("lower", "upper", "velocity", "effort")
        },
        "locked": dict(robot.locked),
        **({"frames": {name: list(place) for name, place in robot.frames.items()}} if robot.frames else {}),
        **({"base_links": list(robot.base_links)} if robot.base_links else {}),
        **({"base_prior": _plain(robot.base_prior)} if np.isfinite(robot.base_prior).any() else {}),
        "reading": asdict(robot.reading),
        "drive": {
            "transmission": robot.drive.transmission.tolist(),
            "rotor_inertia": _plain(robot.drive.rotor_inertia),
            "torque_constant": _plain(robot.drive.torque_constant),
            "drive_gain": _plain(robot.drive.drive_gain),
            "stiffness": _plain(robot.drive.stiffness),
            "damping": _plain(robot.drive.damping),
            "torque_side": str(robot.drive.torque_side),
            "linkages": _linkages_to_list(robot.drive.linkages),
            "servo": None if robot.drive.servo is None else _servo_to_dict(robot.drive.servo),
        },
    }


def robot_from_dict(data: Mapping[str, Any]) -> RobotModel:
    """Convert plain data of `robot_to_dict` back to a robot.

    Parameters
    ----------
    data : mapping of str to object
        Plain data of a robot.

    Returns
    -------
    RobotModel

    Raises
    ------
    KeyError, TypeError, ValueError
        If an entry is missing or of a wrong type.
    DynidError
        If the entries do not describe a robot.

    """
    limits, drive = data["limits"], data["drive"]
    return RobotModel(
        name=data["name"],
        source=data["source"],
        body_names=tuple(data["bodies"]),
        tree_joint_names=tuple(data["tree_joints"]),
        joint_names=tuple(data["joints"]),
        parent=np.array(data["parent"], dtype=np.int64),
        joint_types=tuple(JointType(kind) for kind in data["joint_types"]),
        T_parent_joint=np.array(data["T_parent_joint"], dtype=np.float64),
        axis=np.array(data["axis"], dtype=np.float64),
        inertia_prior=_array(data["inertia_prior"], np.nan),
        gravity=np.array(data["gravity"], dtype=np.float64),
        merged=tuple(tuple(names) for names in data["merged"]),
        friction_prior=_array(data["friction_prior"], np.nan),
        spring_prior=_array(data.get("spring_prior", []), np.nan),
        projection=np.array(data["projection"], dtype=np.float64),
        projection_offset=np.array(data["projection_offset"], dtype=np.float64),
        limits=Limits(
            lower=_array(limits["lower"], -np.inf),
            upper=_array(limits["upper"], np.inf),
            velocity=_array(limits["velocity"], np.inf),
            effort=_array(limits["effort"], np.inf),
        ),
        locked=dict(data.get("locked", {})),
        frames={name: (body, frame) for name, (body, frame) in data.get("frames", {}).items()},
        base_links=tuple(data.get("base_links", ())),
        base_prior=_array(data.get("base_prior", [None] * 10), np.nan),
        reading=_reading(data.get("reading", {})),
        drive=Drive(
            transmission=np.array(drive["transmission"], dtype=np.float64),
            rotor_inertia=_array(drive["rotor_inertia"], np.nan),
            torque_constant=_array(drive["torque_constant"], np.nan),
            drive_gain=_array(drive["drive_gain"], np.nan),
            torque_side=TorqueSide(drive["torque_side"]),
            stiffness=_array(drive.get("stiffness", []), np.nan),
            damping=_array(drive.get("damping", []), np.nan),
            linkages=_linkages_from_list(drive.get("linkages", [])),
            servo=_servo_from_dict(drive["servo"]) if drive.get("servo") else None,
        ),
    )


def _reading(data: Mapping[str, Any]) -> Reading:
    known = {option.name for option in fields(Reading)}
    return Reading(**{key: value for key, value in data.items() if key in known and value is not None})


# Kinds of linkages by their name in run folders.
KINDS: dict[str, type[Linkage]] = {kind.kind: kind for kind in (FourBar, Rods, Table)}


def _linkages_to_list(linkages: Sequence[Linkage | None]) -> list[dict[str, Any] | None]:
    """Linkages as plain data, each at the first of its joints."""
    entries: list[dict[str, Any] | None] = [None] * len(linkages)
    for joints, linkage in groups_of(linkages):
        numbers: dict[str, Any] = asdict(cast(Any, linkage))
        entries[joints[0]] = {"kind": linkage.kind, "joints": joints, **numbers}
    return entries


def _linkages_from_list(entries: Sequence[Mapping[str, Any] | None]) -> tuple[Linkage | None, ...]:
    """Linkage of each joint; an entry without a kind is a four-bar linkage of an older run folder."""
    linkages: list[Linkage | None] = [None] * len(entries)
    for j, entry in enumerate(entries):
        if entry is not None:
            data = dict(entry)
            kind, joints = data.pop("kind", FourBar.kind), data.pop("joints", [j])
            linkage = KINDS[kind].from_numbers(data)
            for joint in joints:
                linkages[joint] = linkage
    return tuple(linkages)


def _servo_to_dict(servo: Servo) -> dict[str, Any]:
    names = ("kp", "kd", "effort_limit", "dead_band", "back_emf")
    times = {name: finite_or_none(getattr(servo, name)) for name in ("delay", "hold")}
    return {name: _plain(getattr(servo, name)) for name in names} | times | {"loop": servo.loop}


def _servo_from_dict(data: Mapping[str, Any]) -> Servo:
    return Servo(
        kp=_array(data["kp"], np.nan),
        kd=_array(data["kd"], np.nan),
        effort_limit=_array(data["effort_limit"], np.inf),
        dead_band=_array(data["dead_band"], np.nan),
        back_emf=_array(data.get("back_emf", ()), np.nan),
        **{name: np.nan if data[name] is None else float(data[name]) for name in ("delay", "hold")},
        loop=str(data.get("loop", "")),
    )


def _plain(values: Float) -> Any:
    if values.ndim > 1:
        return [_plain(row) for row in values]
    return [finite_or_none(value) for value in values]


def _array(values: list[Any], missing: float) -> Float:
    rows = [
        _array(value, missing) if isinstance(value, list) else missing if value is None else value
        for value in values
    ]
    return np.array(rows, dtype=np.float64)


# A robot as text: tree, joints, limits, drives and prior masses.


def describe(robot: RobotModel) -> list[str]:
    """Describe a robot in lines of text for a terminal.

    Parameters
    ----------
    robot : RobotModel
        The robot.

    Returns
    -------
    list of str
        Control characters in names are escaped.

    """
    known = np.isfinite(robot.inertia_prior[:, 0])
    total = float(robot.inertia_prior[known, 0].sum())
    lines = [
        f"robot '{robot.name}' ({robot.source or 'built in code'})",
        f"  {robot.n} independent joint(s), {robot.n_bodies} moving links",
        f"  gravity {_vector(robot.gravity)} m/s^2",
        f"  prior mass of the moving links: {total:.3g} kg"
        + ("" if known.all() else f" ({int((~known).sum())} unknown)"),
        *(
            [f"  locked: {', '.join(f'{j} at {x:.4g}' for j, x in robot.locked.items())}"]
            if robot.locked
            else []
        ),
        "",
        "tree:",
    ]
    depth: list[int] = []
    for i, body in enumerate(robot.body_names):
        parent = int(robot.parent[i])
        depth.append(0 if parent < 0 else depth[parent] + 1)
        mass = f"{robot.inertia_prior[i, 0]:.4g} kg" if known[i] else "mass unknown"
        parts = f" (with {', '.join(robot.merged[i][1:])})" if len(robot.merged[i]) > 1 else ""
        lines.append(f"  {'  ' * depth[i]}{i + 1} {body}{parts}: {mass}, {_joint(robot, i)}")
    lines += [
        "",
        f"{'joint':<24}"
        + "".join(f"{head:>10}" for head in ("lower", "upper", "velocity", "effort"))
        + f"{'gear':>9}{'rotor kg m2':>13}",
    ]
    for j, name in enumerate(robot.joint_names):
        limits = robot.limits
        numbers = (limits.lower[j], limits.upper[j], limits.velocity[j], limits.effort[j])
        lines.append(
            f"{name:<24}" + "".join(f"{_number(x):>10}" for x in numbers)
            + f"{_number(robot.drive.gear_ratio[j]):>9}{_number(robot.drive.rotor_inertia[j]):>13}"
        )  # fmt: skip
    return [_printable(line) for line in lines]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _joint(robot: RobotModel, i: int) -> str:
    text = f"{robot.joint_types[i]} joint '{robot.tree_joint_names[i]}' about {_vector(robot.axis[i])}"
    if robot.joint_types[i] == "prismatic":
        text = text.replace(" about ", " along ")
    row = robot.projection[i]
    if robot.tree_joint_names[i] not in robot.joint_names:
        leaders = [f"'{robot.joint_names[k]}' times {row[k]:g}" for k in np.flatnonzero(row)]
        text += f" (follows {' plus '.join(leaders) or 'nothing'})"
    return text


def _vector(values: Float) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in values) + ")"


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"
