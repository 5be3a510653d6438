"""Cylinders that drive revolute joints: their columns of force and length, and the lever from the lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.layouts.meaning import Meaning, words
from dynid.layouts.names import Family, naming
from dynid.layouts.physics import Motion
from dynid.layouts.presets import UNKNOWN
from dynid.layouts.proposal import Decision, Excerpt, Refusal
from dynid.robot.linkage import Table
from dynid.robot.model import RobotModel

KEY = "robot.table"
_LENGTHS = {"length", "len", "stroke", "extension", "ext"}
_FORCES = {"force", "load"}
_TORQUES = {"torque", "moment"}
_CYLINDERS = {"cylinder", "cyl", "piston", "ram", "jack", "strut"}
_METRES = {"mm": 1e-3, "cm": 1e-2, "m": 1.0}
_NEWTONS = {"n": 1.0, "kn": 1e3}
_NEWTON_METRES = {"nm": 1.0, "m": 1.0, "knm": 1e3}
# Harmonics of the squared length over the joint angle: one for a cylinder between two links, more with a
# linkage.
_HARMONICS = 3
# Maximum ratio to the error with all harmonics for a fit with fewer harmonics to suffice.
_AS_GOOD = 1.05
_RESOLUTION = 1e-5  # m; below the resolution of any length sensor of a cylinder
# Extension of a table with several harmonics beyond the observed range, as a share of it, for rows outside of
# the excerpt.
_BEYOND = 0.05
_NODES = 41
# Lever relative to the largest one at which a table ends.
_LEAST_LEVER = 0.1
# m; maximum rms error of a length that depends on the joint angle alone.
_TOO_FAR = 5e-3


@dataclass(frozen=True, eq=False)
class Cylinders:
    """Columns of cylinders by joint.

    Attributes
    ----------
    force : dict
        Column, and factor of its unit to N.
    length : dict
        Column, and factor of its unit to m, if the length is logged.
    torque : dict
        Column, and factor of its unit to N m, of joints without a cylinder.

    """

    force: Mapping[str, tuple[str, float]]
    length: Mapping[str, tuple[str, float]]
    torque: Mapping[str, tuple[str, float]]

    @property
    def columns(self) -> set[str]:
        """All columns of cylinders."""
        return {column for of in (self.force, self.length, self.torque) for column, _ in of.values()}


def cylinders_of(robot: RobotModel, look: Excerpt) -> Cylinders:
    """Find columns of force and length whose names contain a cylinder and a revolute joint."""
    force: dict[str, tuple[str, float]] = {}
    length: dict[str, tuple[str, float]] = {}
    torque: dict[str, tuple[str, float]] = {}
    for joint, slides in zip(robot.joint_names, robot.prismatic, strict=True):
        for column in () if slides else naming(joint, look.numeric):
            spelt = words(column)
            have, unit = set(spelt), spelt[-1]
            if have & _TORQUES and joint not in torque:
                torque[joint] = (column, _NEWTON_METRES.get(unit, 1.0))
            elif have & _LENGTHS and joint not in length:
                length[joint] = (column, _METRES.get(unit, 1.0))
            elif have & _FORCES and have & _CYLINDERS and joint not in force:
                force[joint] = (column, _NEWTONS.get(unit, 1.0))
    # Without a force, a length may belong to any signal.
    return Cylinders(
        force,
        {joint: of for joint, of in length.items() if joint in force},
        {joint: of for joint, of in torque.items() if joint not in force},
    )


def with_forces(robot: RobotModel, groups: Sequence[Family], cylinders: Cylinders) -> list[Family]:
    """Combine cylinder forces and the torques of the other joints into one effort at the actuators."""
    if not cylinders.force:
        return list(groups)
    taken, rest = cylinders.columns, []
    efforts = {**cylinders.force, **cylinders.torque}
    columns = {joint: column for joint, (column, _) in efforts.items()}
    for family in groups:
        if not family.named:
            rest.append(family)
            continue
        column_of = dict(zip(family.joints, family.columns, strict=True))
        left = {joint: column for joint, column in column_of.items() if column not in taken}
        if left:
            missing = tuple(joint for joint in robot.joint_names if joint not in left)
            rest.append(replace(family, joints=tuple(left), columns=tuple(left.values()), missing=missing))
    ordered = {joint: columns[joint] for joint in robot.joint_names if joint in columns}
    sizes = {size for _, size in efforts.values()}
    unit = "N m" if sizes == {1.0} else "kN m" if sizes == {1e3} else UNKNOWN
    meaning = Meaning("torque", "measured", unit, said_by="name", side="motor")
    missing = tuple(joint for joint in robot.joint_names if joint not in ordered)
    family = Family("{joint} actuator", tuple(ordered.values()), tuple(ordered), True, 0, missing, meaning)
    return [*rest, family]


def tables_of(
    robot: RobotModel, look: Excerpt, cylinders: Cylinders, position: Family, scale: Float
) -> tuple[dict[str, Table], list[Decision]]:
    """Tables of cylinder length over joint angle, and the decision on the levers.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    look : Excerpt
        Names and first rows of the log.
    cylinders : Cylinders
        Columns of cylinders.
    position : Family
        Column group of the positions.
    scale : (n,) array
        Factor of the position unit to rad, in the order of the position's joints.

    """
    tables: dict[str, Table] = {}
    errors: list[str] = []
    lacking: list[str] = []
    for joint, (force, _) in cylinders.force.items():
        known = robot.drive.linkages and robot.drive.linkages[robot.joint_names.index(joint)] is not None
        if known:
            continue
        if joint not in cylinders.length or joint not in position.joints:
            lacking.append(force)
            continue
        k = position.joints.index(joint)
        column, metres = cylinders.length[joint]
        q = scale[k] * look.table([position.columns[k]])[:, 0]
        length = metres * look.table([column])[:, 0]
        j = robot.joint_names.index(joint)
        table, error = _lever(q, length, float(robot.limits.lower[j]), float(robot.limits.upper[j]))
        if table is None:
            lacking.append(force)
            continue
        tables[joint] = table
        errors.append(f"{joint} to {1e3 * error:.2g} mm")
    decisions = []
    if tables:
        why = f"torque is force times d length / d angle, from the logged lengths: {', '.join(errors)}"
        decisions.append(Decision(KEY, "from the log", (why,), likely=True))
    if lacking:
        many = "s" if len(lacking) > 1 else ""
        forces = f"{', '.join(lacking)}: force{many} of cylinders without logged lengths"
        refusal = Refusal(
            forces,
            "the lever of each cylinder",
            "log the lengths of the cylinders, or declare their ends in a TOML robot file: [[drive.rod]] with motor, "
            "anchor = { link, xyz } and end = { link, xyz }",
        )
        decisions.append(
            Decision(KEY, None, (forces,), "which torque do these forces produce?", refusal=refusal)
        )
    return tables, decisions


def at_joints(robot: RobotModel, motion: Motion) -> Motion:
    """Convert the torque of actuators behind linkages to the joints."""
    if motion.tau is None:
        return motion
    return replace(motion, tau=robot.drive.pulled(robot.drive.within_reach(motion.q), motion.tau))


def _lever(q: Float, length: Float, low: float, high: float) -> tuple[Table | None, float]:
    """Table of a cylinder's length over its joint angle, and its rms error in m; None if the fit fails.

    By the law of cosines, the squared distance between points on two links is a constant plus a sine and a
    cosine of the joint angle. A linkage between them adds harmonics.
    """
    good = np.isfinite(q) & np.isfinite(length)
    q, length = q[good], length[good]
    if len(q) < 10 * _HARMONICS or np.ptp(q) < 1e-3:
        return None, np.inf
    fits = []
    for count in range(1, _HARMONICS + 1):
        solution = np.linalg.lstsq(_harmonics(q, count), length**2, rcond=None)[0]
        weights = np.asarray(solution, dtype=np.float64)
        squares = np.maximum(_harmonics(q, count) @ weights, 0.0)
        fits.append((weights, float(np.sqrt(np.mean((np.sqrt(squares) - length) ** 2)))))
    enough = max(_AS_GOOD * fits[-1][1], _RESOLUTION)
    count = next(k for k, (_, error) in enumerate(fits, start=1) if error <= enough)
    weights, error = fits[count - 1]
    more = _BEYOND * float(np.ptp(q))
    start, end = float(q.min()) - more, float(q.max()) + more
    if count == 1:
        start, end = min(start, max(low, start - np.pi)), max(end, min(high, end + np.pi))
    fine = np.linspace(start, end, 20 * _NODES)
    start, end = _with_lever(weights, count, fine, float(np.median(q)))
    nodes = np.linspace(start, end, _NODES)
    squares = _harmonics(nodes, count) @ weights
    if error > _TOO_FAR or start > q.min() or end < q.max() or not (squares > 0).all():
        return None, error
    position = tuple(round(float(value), 6) for value in nodes)
    return Table(position, tuple(round(float(value), 7) for value in np.sqrt(squares)), cylinder=True), error


def _with_lever(weights: Float, count: int, q: Float, middle: float) -> tuple[float, float]:
    """Range of increasing angles around a middle in which the cylinder's lever has the same sign."""
    length = np.sqrt(np.maximum(_harmonics(q, count) @ weights, 1e-12))
    lever = np.gradient(length, q)
    k = int(np.argmin(np.abs(q - middle)))
    out = np.flatnonzero(lever * np.sign(lever[k]) < _LEAST_LEVER * np.abs(lever).max())
    before, after = out[out < k], out[out > k]
    first = int(before[-1]) + 1 if len(before) else 0
    last = int(after[0]) - 1 if len(after) else len(q) - 1
    return float(q[first]), float(q[last])


def _harmonics(q: Float, count: int) -> Float:
    waves = [wave(k * q) for k in range(1, count + 1) for wave in (np.cos, np.sin)]
    return np.column_stack([np.ones_like(q), *waves])
