"""Robot files in dynid's TOML: joints with DH parameters or placements, priors, limits and drives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import DynidError, InputError, InputErrors, UsageError
from dynid.base.records import dataclass
from dynid.base.toml import read_toml, validate
from dynid.robot.drive import Drive, Servo, TorqueSide, singular
from dynid.robot.formats import RobotFile
from dynid.robot.linkage import FourBar, Linkage, Table
from dynid.robot.load import with_followers
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.robot.rods import LINE, RodEntry, rods_of
from dynid.robot.toml_schema import (
    Description,
    DriveEntry,
    Findings,
    Joint,
    WholeDrive,
    angle,
    base_placement,
    bolted,
    friction,
    limits,
    parameters,
)
from dynid.robot.xml import inside
from dynid.spatial.algebra import is_rotation, placement, rotation_about, rotation_rpy
from dynid.spatial.inertia import transformed

# Drives of TOML files: gear ratios, couplings, linkages and motors.


def drive(
    description: Description,
    names: Sequence[str],
    kinds: Sequence[JointType],
    limits: Limits,
    known: Drive,
    findings: Findings,
) -> Drive:
    """Override a known drive with the drive keys of a TOML file.

    Parameters
    ----------
    description : Description
        The TOML file.
    names : sequence of str
        Names of the independent joints.
    kinds : sequence of JointType
        Their types.
    limits : Limits
        Their limits.
    known : Drive
        Drive of the file that it builds on, or the default.
    findings : Findings
        Receives errors.

    Returns
    -------
    Drive

    """
    entries = [DriveEntry() for _ in names]
    for i, joint in enumerate(description.joint):
        if joint.name in names:
            entries[list(names).index(joint.name)] = joint.drive or DriveEntry()
            _check_ratio(joint, i, kinds[list(names).index(joint.name)], description, findings)
        elif joint.drive is not None:
            problem = f"a drive of joint '{joint.name}', which follows other joints"
            findings.fail("driven-follower", problem, "drives of independent joints", "joint", i, "drive")
    linkages = _linkages(description, names, limits, known, findings)
    ratios = [entry.gear_ratio for entry in entries]
    # A ratio in the file replaces the known row of N; coupled motors without a ratio keep theirs.
    N = np.array(known.transmission)
    for j, ratio in enumerate(ratios):
        if ratio is not None:
            N[j] = 0.0
            N[j, j] = ratio
    N = _coupled(N, description, names, findings)
    if description.drive.transmission is not None:
        N = _transmission(description.drive.transmission, len(names), findings)
    findings.stop()
    # Known rotor inertias are known at the joints, so new gear ratios change them on the motor side.
    reflected = (
        known.reflected_rotor_inertia / np.diag(N) ** 2 if np.diag(N).all() else np.full(len(N), np.nan)
    )
    return Drive(
        transmission=N,
        rotor_inertia=_overridden([entry.rotor_inertia for entry in entries], reflected),
        torque_constant=_overridden([entry.torque_constant for entry in entries], known.torque_constant),
        drive_gain=_overridden([entry.drive_gain for entry in entries], known.drive_gain),
        torque_side=TorqueSide(description.drive.torque_side),
        linkages=linkages,
        stiffness=_overridden([entry.stiffness for entry in entries], known.stiffness),
        damping=_overridden([entry.damping for entry in entries], known.damping),
        servo=_servo(entries, description.drive, known.servo),
    )


def _servo(entries: Sequence[DriveEntry], whole: WholeDrive, known: Servo | None) -> Servo | None:
    written = any(value is not None for entry in entries for value in (entry.kp, entry.kd, entry.dead_band))
    if not written and whole.delay is None and whole.loop is None:
        return known
    before = known or Servo.unknown(len(entries))
    return Servo(
        kp=_overridden([entry.kp for entry in entries], before.kp),
        kd=_overridden([entry.kd for entry in entries], before.kd),
        effort_limit=before.effort_limit,
        dead_band=_overridden([entry.dead_band for entry in entries], before.dead_band),
        delay=before.delay if whole.delay is None else whole.delay,
        hold=before.hold,
        back_emf=before.back_emf,
        loop=before.loop if whole.loop is None else whole.loop,
    )


def _check_ratio(joint: Joint, i: int, kind: JointType, description: Description, findings: Findings) -> None:
    ratio = None if joint.drive is None else joint.drive.gear_ratio
    key = ("joint", i, "drive", "gear_ratio")
    if ratio is None:
        return
    if ratio == 0:
        findings.fail("gear-ratio", f"joint '{joint.name}': gear_ratio = 0", "a number other than 0", *key)
    elif abs(ratio) < 0.2 and kind is not JointType.PRISMATIC:
        findings.fail(
            "gear-ratio-side",
            f"joint '{joint.name}': gear_ratio = {ratio:.3g}, so the joint would turn {1 / abs(ratio):.3g} times as "
            "fast as its motor",
            "motor turns per joint turn",
            *key,
            do=f"write {1 / ratio:.6g} if it is joint turns per motor turn",
        )
    if description.drive.transmission is not None:
        findings.fail("two-sources", "a gear_ratio and a transmission", "one of them", *key)


def _coupled(N: Float, description: Description, names: Sequence[str], findings: Findings) -> Float:
    ratios = np.diag(N).copy()
    for k, coupling in enumerate(description.drive.coupling):
        key = ("drive", "coupling", k)
        for role in ("motor", "joint"):
            if getattr(coupling, role) not in names:
                problem = f"a coupling with unknown {role} '{getattr(coupling, role)}'"
                findings.fail("unknown-joint", problem, "one of " + ", ".join(names), *key)
                return N
        if coupling.motor == coupling.joint:
            findings.fail(
                "self-coupling",
                f"motor '{coupling.motor}' coupled with its own joint",
                "two different joints",
                *key,
            )
        if description.drive.transmission is not None:
            findings.fail("two-sources", "a coupling and a transmission", "one of them", *key)
        i, j = list(names).index(coupling.motor), list(names).index(coupling.joint)
        N[i, j] += coupling.factor * ratios[i]
    fault = singular(N)
    if fault and description.drive.coupling:
        expected = "couplings that keep the motors independent"
        findings.fail("singular-transmission", fault, expected, "drive", "coupling", 0)
    return N


def _transmission(rows: list[list[float]], n: int, findings: Findings) -> Float:
    key = ("drive", "transmission")
    if len(rows) != n or any(len(row) != n for row in rows):
        problem = f"a transmission of {len(rows)} rows with {sorted({len(row) for row in rows})} numbers"
        findings.fail("transmission", problem, f"{n} rows of {n} numbers", *key)
        return np.eye(n)
    N = np.array(rows)
    fault = singular(N)
    if fault:
        findings.fail("singular-transmission", fault, "an invertible matrix", *key)
        return np.eye(n)
    return N


def _linkages(
    description: Description, names: Sequence[str], limits: Limits, known: Drive, findings: Findings
) -> tuple[Linkage | None, ...]:
    linkages = list(known.linkages or [None] * len(names))
    for i, joint in enumerate(description.joint):
        entry = joint.drive or DriveEntry()
        if joint.name not in names or (entry.linkage is None and entry.table is None):
            continue
        j = list(names).index(joint.name)
        kind = "table" if entry.linkage is None else "linkage"
        key = ("joint", i, "drive", kind)
        if entry.linkage is not None and entry.table is not None:
            findings.fail("two-sources", f"joint '{joint.name}': linkage and table", "one of them", *key)
            continue
        low, high = float(limits.lower[j]), float(limits.upper[j])
        if entry.table is not None:
            # A joint without limits has those of its table.
            low = max(low, min(entry.table.position, default=0.0) * angle(description))
            high = min(high, max(entry.table.position, default=0.0) * angle(description))
        if not np.isfinite([low, high]).all():
            expected = "lower and upper, since the bars only close over a part of the turn"
            findings.fail(
                "linkage-limits", f"joint '{joint.name}' with a linkage and without limits", expected, *key
            )
            continue
        try:
            linkages[j] = _closing(entry, angle(description), low, high)
        except DynidError as error:
            who = f"joint '{joint.name}': {error.found}"
            findings.fail(error.identifier, who, error.expected, *key, do=error.do)
    return tuple(linkages)


def _closing(entry: DriveEntry, unit: float, low: float, high: float) -> Linkage:
    """Linkage of a joint, which must close between its limits (rad)."""
    between = np.linspace(low, high, LINE)[:, None]
    if entry.table is not None:
        turn = 1.0 if entry.table.cylinder else unit
        position = tuple(unit * value for value in entry.table.position)
        table = Table(position, tuple(turn * value for value in entry.table.actuator), entry.table.cylinder)
        table.evaluate(between)
        return table

    def bars(at: float) -> FourBar:
        numbers = {} if entry.linkage is None else entry.linkage.model_dump()
        linkage = FourBar(**(numbers | {"zero": numbers["zero"] * unit}), at=at)
        linkage.evaluate(between)
        return linkage

    # The crank angle is counted from the joint's zero, or from the middle of its range if the bars do not close at 0.
    try:
        return bars(0.0)
    except DynidError:
        return bars(0.5 * (low + high))


def _with_rods(robot: RobotModel, d: Description, findings: Findings) -> RobotModel:
    """Robot with the rods of the file, which need its kinematics."""
    entries = []
    for k, rod in enumerate(d.drive.rod):
        key = ("drive", "rod", k)
        if (rod.crank is None) == (rod.anchor is None):
            findings.fail(
                "two-sources",
                f"a rod of motor '{rod.motor}' with crank and anchor"
                if rod.crank
                else f"a rod of motor '{rod.motor}' without crank and anchor",
                "one of them: a crank that a motor turns, or the anchor of a cylinder",
                *key,
            )
            continue
        start: Any = rod.crank or rod.anchor
        axis, arm = (rod.crank.axis, rod.crank.arm) if rod.crank else (None, (0.0, 0.0, 0.0))
        entries.append(
            RodEntry(
                rod.motor,
                start.link,
                start.xyz,
                rod.end.link,
                rod.end.xyz,
                axis,
                arm,
                rod.length,
                rod.crossed,
            )
        )
    findings.stop()
    if not entries:
        return robot
    try:
        rods = rods_of(robot, entries)
    except DynidError as error:
        findings.fail(error.identifier, error.found, error.expected, "drive", "rod", 0, do=error.do)
        findings.stop()
    linkages = list(robot.drive.linkages or [None] * robot.n)
    for j, linkage in rods.items():
        if linkages[j] is not None:
            findings.fail(
                "two-sources",
                f"joint '{robot.joint_names[j]}': a linkage and a rod",
                "one of them",
                "drive",
                "rod",
                0,
            )
        linkages[j] = linkage
    findings.stop()
    return replace(robot, drive=replace(robot.drive, linkages=tuple(linkages)))


def _overridden(given: Sequence[float | None], known: Float) -> Float:
    return np.array([old if new is None else new for new, old in zip(given, known, strict=True)])


_Z = np.array([0.0, 0.0, 1.0])
_X = np.array([1.0, 0.0, 0.0])
_GRAVITY = (0.0, 0.0, -9.81)  # m/s^2
_OVERRIDES = {
    "name", "inertia", "drive", "friction", "lower", "upper", "velocity", "effort", "follows", "follows_offset",
}  # fmt: skip

# Keys that name another robot file; its format is recognised by its content.
_NAMED = ("urdf", "mjcf", "sdf", "usd")


@dataclass(frozen=True)
class TomlFormat:
    """dynid's TOML, recognised by the file name ending in .toml."""

    name: str = "dynid TOML"

    def knows(self, file: RobotFile) -> bool:
        """Whether the name ends in .toml."""
        return file.suffix == ".toml"

    def read(self, file: RobotFile) -> RobotModel:
        """Read the robot; raises as `read_toml_robot`."""
        return read_toml_robot(file)


def read_toml_robot(file: RobotFile) -> RobotModel:
    """Read the robot of a TOML file, which may build on another robot file.

    Raises InputErrors with the lines of all errors, RefusedError if the other file is outside the folder.
    """
    data, lines = read_toml(file.path)
    description = validate(Description, data, lines, str(file.path))
    findings = Findings(file.path, lines, file.diagnostics)
    _check_duplicates(description, findings)
    if any(getattr(description, key) is not None for key in _NAMED):
        return _extended(description, file, findings)
    if file.reading.root is not None:
        raise UsageError(
            "root",
            found=f"--root {file.reading.root}",
            expected="no root, since a TOML file has one tree",
            place=findings.place(),
        )
    return _Builder(description, findings).robot()


def _check_duplicates(description: Description, findings: Findings) -> None:
    for kind in ("name", "body_name"):
        names = [getattr(joint, kind) for joint in description.joint]
        for i, name in enumerate(names):
            if name in names[:i]:
                first = findings.place("joint", names.index(name)).line
                noun = "joint" if kind == "name" else "body"
                problem = f"{noun} '{name}' twice (first in line {first})"
                findings.fail("duplicate-joint", problem, "unique names", "joint", i, "name")


class _Builder:
    def __init__(self, description: Description, findings: Findings) -> None:
        self.d, self.findings = description, findings
        self.unit = angle(description)
        self.names = [joint.name for joint in description.joint]
        self.bodies = [joint.body_name for joint in description.joint]

    def robot(self) -> RobotModel:
        d, n = self.d, len(self.d.joint)
        self._check()
        parents = [self._parent(i) for i in range(n)]
        placements, axes, frames = self._kinematics(parents)
        added, parts, placed = bolted(d, self.names, self.bodies, frames, self.findings)
        inertia = np.array([self._prior(i, frames[i]) for i in range(n)]).reshape(n, 10) + added
        kinds = tuple(JointType(joint.type or "revolute") for joint in d.joint)
        independent = [i for i, joint in enumerate(d.joint) if joint.follows is None]
        projection, offset = self._projection(independent, kinds)
        self.findings.stop()
        free, free_kinds = [self.names[i] for i in independent], [kinds[i] for i in independent]
        limited = limits(d, free, free_kinds, Limits.none(len(independent)), self.findings)
        driven = drive(d, free, free_kinds, limited, Drive.direct(len(independent)), self.findings)
        self.findings.stop()
        robot = RobotModel(
            name=d.name or self.findings.path.stem,
            source=str(self.findings.path),
            body_names=tuple(self.bodies),
            tree_joint_names=tuple(self.names),
            joint_names=tuple(free),
            parent=np.array(parents, dtype=np.int64),
            joint_types=kinds,
            T_parent_joint=placements,
            axis=axes,
            inertia_prior=inertia,
            gravity=np.array(d.gravity if d.gravity is not None else _GRAVITY),
            limits=limited,
            drive=driven,
            projection=projection,
            projection_offset=offset,
            friction_prior=friction(d, free, np.full((len(independent), 2), np.nan)),
            merged=tuple((body, *some) for body, some in zip(self.bodies, parts, strict=True)),
            frames={body: (i, frames[i]) for i, body in enumerate(self.bodies)} | placed,
        )
        return _with_rods(robot, d, self.findings)

    def _check(self) -> None:
        d, fail = self.d, self.findings.fail
        if d.convention is None:
            fail("no-convention", "no key 'convention'", "standard_dh, modified_dh or placements", "joint")
        if not d.joint:
            fail("no-joints", "no [[joint]]", "at least one", "joint")
        if d.dh is not None:
            if d.convention == "placements":
                fail("mixed-convention", "a table dh", "standard_dh or modified_dh with it", "dh")
            if len(d.dh) != len(d.joint):
                fail(
                    "dh-rows", f"{len(d.dh)} rows of dh for {len(d.joint)} joints", "one row per joint", "dh"
                )
            for i, row in enumerate(d.dh):
                if len(row) != 4:
                    fail("dh-rows", f"row {i + 1} of dh: {row}", "four numbers a, alpha, d, theta", "dh", i)
        for i, joint in enumerate(d.joint):
            self._check_joint_keys(i, joint)
        self.findings.stop()

    def _check_joint_keys(self, i: int, joint: Joint) -> None:
        dh = [key for key in ("a", "alpha", "d", "theta") if getattr(joint, key) is not None]
        placed = [key for key in ("xyz", "rpy", "rotation", "axis") if getattr(joint, key) is not None]
        who, fail = f"joint '{joint.name}'", self.findings.fail
        if self.d.convention == "placements":
            if dh:
                fail(
                    "mixed-convention",
                    f"{who} with {', '.join(dh)} and convention 'placements'",
                    "xyz with rpy or rotation",
                    "joint",
                    i,
                    dh[0],
                )
            return
        if placed:
            expected = "a, alpha, d, theta with a DH convention"
            fail("mixed-convention", f"{who} with {', '.join(placed)}", expected, "joint", i, placed[0])
        if self.d.dh is not None and dh:
            fail("two-sources", f"{who}: {', '.join(dh)} and the table dh", "one of them", "joint", i, dh[0])
        missing = [key for key in ("a", "alpha", "d") if key not in dh]
        if self.d.dh is None and missing:
            fail("missing-key", f"{who} without {', '.join(missing)}", "a, alpha, d", "joint", i)

    def _parent(self, i: int) -> int:
        wanted = self.d.joint[i].parent
        if wanted is None:
            return i - 1
        if wanted == "base":
            return -1
        before = self.names[:i]
        if wanted not in before:
            expected = "'base' or a joint written above: " + ", ".join(before)
            self.findings.fail(
                "unknown-parent",
                f"joint '{self.names[i]}' with unknown parent '{wanted}'",
                expected,
                "joint",
                i,
                "parent",
            )
            return i - 1
        return before.index(wanted)

    def _projection(self, independent: list[int], kinds: tuple[JointType, ...]) -> tuple[Float, Float]:
        # q_tree = projection q + offset, for joints that follow others, such as the bars of a linkage.
        n, fail = len(self.names), self.findings.fail
        projection, offset = np.zeros((n, len(independent))), np.zeros(n)
        if not independent:
            fail("no-joints", "only joints that follow others", "at least one independent joint", "joint", 0)
        for column, i in enumerate(independent):
            projection[i, column] = 1.0
        for i, joint in enumerate(self.d.joint):
            if joint.follows is None:
                continue
            unit = 1.0 if kinds[i] is JointType.PRISMATIC else self.unit
            offset[i] = (joint.follows_offset or 0.0) * unit
            if not joint.follows:
                fail(
                    "follows",
                    f"joint '{joint.name}' follows nothing",
                    "joint = factor",
                    "joint",
                    i,
                    "follows",
                )
            for name, factor in joint.follows.items():
                if name not in self.names or self.names.index(name) not in independent:
                    free = ", ".join(self.names[k] for k in independent)
                    fail(
                        "follows",
                        f"joint '{joint.name}' follows '{name}'",
                        f"one of {free}",
                        "joint",
                        i,
                        "follows",
                    )
                else:
                    projection[i, independent.index(self.names.index(name))] = factor
            for key in ("lower", "upper", "velocity", "effort", "friction"):
                if getattr(joint, key) is not None:
                    problem = f"{key} of joint '{joint.name}', which follows other joints"
                    fail("not-here", problem, "limits and friction of independent joints", "joint", i, key)
        return projection, offset

    def _kinematics(self, parents: list[int]) -> tuple[Float, Float, list[Float]]:
        # Placement and axis of each joint frame, and in it the frame of the inertial priors.
        n = len(parents)
        world = base_placement(self.d)
        placements, axes = np.tile(np.eye(4), (n, 1, 1)), np.tile(_Z, (n, 1))
        frames: list[Float] = []
        for i, joint in enumerate(self.d.joint):
            before = frames[parents[i]] if parents[i] >= 0 else world
            after = np.eye(4)
            if self.d.convention == "placements":
                here, axes[i] = self._placement_and_axis(i, joint)
            else:
                a, alpha, d, theta = self._dh(i, joint)
                twist = placement(rotation_about(_X, alpha * self.unit), np.array([a, 0.0, 0.0]))
                screw = placement(rotation_about(_Z, theta * self.unit), np.array([0.0, 0.0, d]))
                modified = self.d.convention == "modified_dh"
                here, after = (twist @ screw, after) if modified else (after, screw @ twist)
            placements[i] = before @ here
            frames.append(after)
        return placements, axes, frames

    def _dh(self, i: int, joint: Joint) -> tuple[float, ...]:
        if self.d.dh is not None:
            return tuple(self.d.dh[i])
        return joint.a or 0.0, joint.alpha or 0.0, joint.d or 0.0, joint.theta or 0.0

    def _placement_and_axis(self, i: int, joint: Joint) -> tuple[Float, Float]:
        fail, who = self.findings.fail, f"joint '{joint.name}'"
        R = np.eye(3)
        if joint.rpy is not None and joint.rotation is not None:
            fail("two-rotations", f"{who} with both rpy and rotation", "one of them", "joint", i, "rotation")
        elif joint.rotation is not None:
            R = np.array(joint.rotation)
            if not is_rotation(R):
                problem = f"{who}: rotation with R'R = {np.round(R.T @ R, 4).tolist()}"
                expected = "an orthonormal matrix of determinant 1"
                fail("not-a-rotation", problem, expected, "joint", i, "rotation")
        elif joint.rpy is not None:
            R = rotation_rpy(np.array(joint.rpy) * self.unit)
        axis = np.array(joint.axis if joint.axis is not None else _Z)
        length = float(np.linalg.norm(axis))
        if length < 1e-9:
            fail("zero-axis", f"{who} with an axis of length zero", "a direction", "joint", i, "axis")
            axis, length = _Z, 1.0
        elif abs(length - 1.0) > 1e-6:
            text = f"{who} has an axis of length {length:.6g}, which is normalised"
            self.findings.warn("axis-length", text, "joint", i, "axis")
        return placement(R, np.array(joint.xyz if joint.xyz is not None else (0.0, 0.0, 0.0))), axis / length

    def _prior(self, i: int, frame: Float) -> Float:
        joint = self.d.joint[i]
        if joint.inertia is not None:
            if joint.inertial is not None:
                problem = f"joint '{joint.name}' with both inertial and inertia = 'none'"
                self.findings.fail("two-sources", problem, "one of them", "joint", i, "inertia")
            return np.zeros(10)
        if joint.inertial is None:
            return np.full(10, np.nan)
        inertial_parameters = parameters(
            joint.inertial, f"joint '{joint.name}'", self.findings, "joint", i, "inertial"
        )
        return transformed(inertial_parameters, frame)


def _extended(d: Description, file: RobotFile, findings: Findings) -> RobotModel:
    key = next(candidate for candidate in _NAMED if getattr(d, candidate) is not None)
    for given in ("convention", "dh", *_NAMED):
        if getattr(d, given) is not None and given != key:
            findings.fail("two-sources", f"{key} and {given}", "one of them", given)
    findings.stop()
    place = findings.place(key)
    named = inside(file.path.parent, str(getattr(d, key)), place, file.reading.packages)
    if named.suffix.lower() == file.suffix:
        raise InputError(
            "robot-format",
            found=f"{key} = '{getattr(d, key)}', which is also TOML",
            expected="a robot file in another format to build on",
            place=place,
        )
    robot = file.other(named)
    for i, joint in enumerate(d.joint):
        present = {name for name, value in joint.model_dump().items() if value is not None}
        for name in sorted(present - _OVERRIDES):
            problem = f"{name} of joint '{joint.name}'"
            expected = f"kinematics and inertia in the file of '{key}'"
            findings.fail("not-here", problem, expected, "joint", i, name)
        if joint.name not in robot.joint_names:
            expected = "one of " + ", ".join(robot.joint_names)
            findings.fail("unknown-joint", f"unknown joint '{joint.name}'", expected, "joint", i, "name")
        if joint.follows is not None:
            for name in sorted(present & {"drive", "friction", "lower", "upper", "velocity", "effort"}):
                problem = f"{name} of joint '{joint.name}', which follows other joints"
                findings.fail(
                    "not-here", problem, "limits and drives of independent joints", "joint", i, name
                )
    findings.stop()
    return _with_overrides(_following(robot, d, findings), d, findings)


def _following(robot: RobotModel, d: Description, findings: Findings) -> RobotModel:
    """Robot whose joints with `follows` have no motor of their own."""
    followers = {}
    for i, joint in enumerate(d.joint):
        if joint.follows is not None:
            body = robot.independent_bodies[robot.joint_names.index(joint.name)]
            turn = 1.0 if robot.joint_types[body] is JointType.PRISMATIC else angle(d)
            followers[joint.name] = (joint.follows, (joint.follows_offset or 0.0) * turn)
        elif joint.follows_offset is not None:
            findings.fail(
                "follows", f"joint '{joint.name}' with follows_offset", "follows with it", "joint", i
            )
    findings.stop()
    if not followers:
        return robot
    try:
        return with_followers(robot, followers)
    except InputError as error:
        i = next(k for k, joint in enumerate(d.joint) if joint.name in followers)
        findings.fail(error.identifier, error.found, error.expected, "joint", i, "follows", do=error.do)
        raise InputErrors(findings.errors) from error


def _with_overrides(robot: RobotModel, d: Description, findings: Findings) -> RobotModel:
    names = robot.joint_names
    kinds = [robot.joint_types[i] for i in robot.independent_bodies]
    frames = [np.eye(4)] * robot.n_bodies
    added, parts, placed = bolted(d, robot.tree_joint_names, robot.body_names, frames, findings)
    limited = limits(d, names, kinds, robot.limits, findings)
    driven = drive(d, names, kinds, limited, robot.drive, findings)
    findings.stop()
    described = np.array(robot.inertia_prior)
    for joint in d.joint:
        if joint.inertia is not None:
            described[robot.tree_joint_names.index(joint.name)] = 0.0
    placements = np.array(robot.T_parent_joint)
    placements[robot.parent < 0] = base_placement(d) @ placements[robot.parent < 0]
    robot = replace(
        robot,
        name=d.name or robot.name,
        T_parent_joint=placements,
        inertia_prior=described + added,
        gravity=np.array(d.gravity) if d.gravity is not None else robot.gravity,
        limits=limited,
        friction_prior=friction(d, names, robot.friction_prior),
        drive=driven,
        merged=tuple((*links, *some) for links, some in zip(robot.merged, parts, strict=True)),
        frames={
            name: (body, base_placement(d) @ frame if body < 0 else frame)
            for name, (body, frame) in {**robot.frames, **placed}.items()
        },
    )
    return _with_rods(robot, d, findings)
