"""dynid's own robot description: joints with DH parameters or placements, inertial priors, limits, drives, friction."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from dynid.arrays import Float
from dynid.config import Key, Strict, line_of, read_toml, validate
from dynid.diagnostics import Diagnostics
from dynid.errors import DynidError, InputError, InputErrors, Place, RefusedError
from dynid.robot.drive import Drive, TorqueSide
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.spatial.algebra import is_rotation, placement, rotation_about, rotation_rpy
from dynid.spatial.inertia import eigenvalues, from_com, six, symmetric, transformed

Vector = tuple[float, float, float]
Lines = dict[tuple[Key, ...], int]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
_Z = np.array([0.0, 0.0, 1.0])
_X = np.array([1.0, 0.0, 0.0])


class InertiaEntries(Strict):
    """Entries of a symmetric inertia matrix, kg m^2."""

    xx: float
    yy: float
    zz: float
    xy: float = 0.0
    xz: float = 0.0
    yz: float = 0.0


class Inertial(Strict):
    """Prior of one body: mass in kg, centre of mass in m, inertia about the centre of mass or the frame's origin."""

    mass: Positive
    com: Vector
    inertia: InertiaEntries
    about: Literal["com", "frame"] = "com"


class DriveEntry(Strict):
    """Drive of one joint: gear ratio, motor-side rotor inertia (kg m^2) and torque constant (N m/A), joint-side gain."""

    gear_ratio: float | None = None
    rotor_inertia: NotNegative | None = None
    torque_constant: Positive | None = None
    drive_gain: Positive | None = None


class Friction(Strict):
    """Friction prior of one joint, SI."""

    viscous: NotNegative | None = None
    coulomb: NotNegative | None = None


class Joint(Strict):
    """One joint and the body that it moves."""

    name: Annotated[str, Field(min_length=1)]
    type: Literal["revolute", "continuous", "prismatic"] | None = None
    body: str | None = None
    parent: str | None = None
    a: float | None = None
    alpha: float | None = None
    d: float | None = None
    theta: float | None = None
    xyz: Vector | None = None
    rpy: Vector | None = None
    rotation: tuple[Vector, Vector, Vector] | None = None
    axis: Vector | None = None
    lower: float | None = None
    upper: float | None = None
    velocity: Positive | None = None
    effort: Positive | None = None
    inertial: Inertial | None = None
    drive: DriveEntry | None = None
    friction: Friction | None = None


class Fixed(Strict):
    """A part bolted to a body: its inertial is given in its own frame, which is placed in the body's frame."""

    name: str
    on: str
    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)
    inertial: Inertial


class Base(Strict):
    """Where the robot's base stands in the world, whose z axis points up."""

    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)


class WholeDrive(Strict):
    """What the joints' drives share: the side of logged torque and, for coupled joints, the whole matrix N."""

    torque_side: Literal["motor", "link"] = "link"
    transmission: list[list[float]] | None = None


class Description(Strict):
    """The whole file."""

    name: str | None = None
    urdf: str | None = None
    mjcf: str | None = None
    gravity: Vector | None = None
    convention: Literal["standard_dh", "modified_dh", "placements"] | None = None
    angle_unit: Literal["rad", "deg"] = "rad"
    base: Base = Base()
    dh: list[list[float]] | None = None
    joint: list[Joint] = []
    fixed: list[Fixed] = []
    drive: WholeDrive = WholeDrive()


Reader = Callable[[Path, str | None, Diagnostics], RobotModel]


def read_toml_robot(path: Path, root: str | None, diagnostics: Diagnostics, reader: Reader) -> RobotModel:
    """The robot of a TOML description; `reader` loads the URDF or MJCF file that a description may build upon.

    Raises InputErrors with the line of everything that is wrong.
    """
    data, lines = read_toml(path)
    description = validate(Description, data, lines, str(path))
    if description.urdf is not None or description.mjcf is not None:
        return _overridden(description, path, root, diagnostics, lines, reader)
    return _Builder(description, path, lines, diagnostics).robot()


class _Builder:
    def __init__(self, description: Description, path: Path, lines: Lines, diagnostics: Diagnostics) -> None:
        self.d, self.path, self.lines, self.diagnostics = description, path, lines, diagnostics
        self.errors: list[DynidError] = []
        self.unit = math.pi / 180.0 if description.angle_unit == "deg" else 1.0

    def place(self, *key: Key) -> Place:
        return Place(file=str(self.path), line=line_of(key, self.lines))

    def fail(self, identifier: str, found: str, expected: str, *key: Key, do: str = "") -> None:
        self.errors.append(InputError(identifier, found=found, expected=expected, do=do, place=self.place(*key)))

    def robot(self) -> RobotModel:
        d = self.d
        if d.convention is None:
            self.fail("no-convention", "no 'convention'", "one of standard_dh, modified_dh, placements", "joint")
        if not d.joint:
            self.fail("no-joints", "no [[joint]]", "at least one", "joint")
        names = [joint.name for joint in d.joint]
        for i, name in enumerate(names):
            if name in names[:i]:
                first = self.lines.get(("joint", names.index(name)))
                self.fail("duplicate-joint", f"joint '{name}' twice (first in line {first})", "unique names", "joint", i, "name")
        if d.dh is not None and len(d.dh) != len(d.joint):
            self.fail("dh-rows", f"{len(d.dh)} rows of dh for {len(d.joint)} joints", "one row a joint", "dh")
        if self.errors:
            raise InputErrors(self.errors)
        parents = [self._parent(i) for i in range(len(names))]
        placements, axes, body_frames = self._kinematics(parents)
        inertia = np.array([self._prior(i, body_frames[i]) for i in range(len(names))])
        merged = self._fixed(inertia, body_frames)
        limits, friction, drive = self._limits(), self._friction(), self._drive()
        if self.errors:
            raise InputErrors(self.errors)
        n = len(names)
        return RobotModel(
            name=d.name or self.path.stem,
            source=str(self.path),
            body_names=tuple(joint.body or f"{joint.name}_link" for joint in d.joint),
            tree_joint_names=tuple(names),
            joint_names=tuple(names),
            parent=np.array(parents, dtype=np.int64),
            joint_types=tuple(JointType(joint.type or "revolute") for joint in d.joint),
            T_parent_joint=placements,
            axis=axes,
            inertia_prior=inertia,
            gravity=np.array(d.gravity if d.gravity is not None else (0.0, 0.0, -9.81)),
            limits=limits,
            drive=drive,
            projection=np.eye(n),
            projection_offset=np.zeros(n),
            friction_prior=friction,
            merged=tuple((joint.body or f"{joint.name}_link", *parts) for joint, parts in zip(d.joint, merged, strict=True)),
        )

    def _parent(self, i: int) -> int:
        wanted = self.d.joint[i].parent
        if wanted is None:
            return i - 1
        if wanted == "base":
            return -1
        before = [joint.name for joint in self.d.joint[:i]]
        if wanted not in before:
            self.fail("unknown-parent", f"parent '{wanted}'", "'base' or a joint written above: " + ", ".join(before), "joint", i, "parent")
            return i - 1
        return before.index(wanted)

    def _kinematics(self, parents: list[int]) -> tuple[Float, Float, list[Float]]:
        # Placement and axis of each joint frame, and where the frame that inertial priors refer to is in it.
        n = len(parents)
        world = placement(rotation_rpy(np.array(self.d.base.rpy) * self.unit), np.array(self.d.base.xyz))
        placements, axes = np.tile(np.eye(4), (n, 1, 1)), np.tile(_Z, (n, 1))
        frames: list[Float] = []
        for i, joint in enumerate(self.d.joint):
            before = frames[parents[i]] if parents[i] >= 0 else world
            if self.d.convention == "placements":
                here, axes[i] = self._placed(i, joint)
                placements[i] = before @ here
                frames.append(np.eye(4))
                continue
            a, alpha, d, theta = self._dh(i, joint)
            twist = placement(rotation_about(_X, alpha), np.array([a, 0.0, 0.0]))
            screw = placement(rotation_about(_Z, theta), np.array([0.0, 0.0, d]))
            if self.d.convention == "modified_dh":
                placements[i] = before @ twist @ screw
                frames.append(np.eye(4))
            else:
                placements[i] = before
                frames.append(screw @ twist)
        return placements, axes, frames

    def _dh(self, i: int, joint: Joint) -> tuple[float, float, float, float]:
        if any(value is not None for value in (joint.xyz, joint.rpy, joint.rotation, joint.axis)):
            self.fail("mixed-convention", "xyz, rpy, rotation or axis", "a, alpha, d, theta with a DH convention", "joint", i)
        if self.d.dh is not None:
            row = self.d.dh[i]
            if len(row) != 4 or not all(math.isfinite(x) for x in row):
                self.fail("dh-rows", f"row {i + 1} of dh: {row}", "four numbers a, alpha, d, theta", "dh")
                return 0.0, 0.0, 0.0, 0.0
            a, alpha, d, theta = row
        else:
            missing = [key for key in ("a", "alpha", "d") if getattr(joint, key) is None]
            if missing:
                self.fail("missing-key", f"joint '{joint.name}' without {', '.join(missing)}", "a, alpha, d", "joint", i)
            a, alpha, d, theta = joint.a or 0.0, joint.alpha or 0.0, joint.d or 0.0, joint.theta or 0.0
        return a, alpha * self.unit, d, theta * self.unit

    def _placed(self, i: int, joint: Joint) -> tuple[Float, Float]:
        if any(value is not None for value in (joint.a, joint.alpha, joint.d, joint.theta)):
            self.fail("mixed-convention", "a, alpha, d or theta", "xyz with rpy or rotation", "joint", i)
        if joint.rpy is not None and joint.rotation is not None:
            self.fail("two-rotations", "rpy and rotation", "one of them", "joint", i)
        R = np.eye(3)
        if joint.rotation is not None:
            R = np.array(joint.rotation)
            if not is_rotation(R):
                self.fail("not-a-rotation", f"rotation with R'R = {np.round(R.T @ R, 4).tolist()}", "an orthonormal matrix of determinant 1", "joint", i, "rotation")
        elif joint.rpy is not None:
            R = rotation_rpy(np.array(joint.rpy) * self.unit)
        axis = np.array(joint.axis if joint.axis is not None else _Z)
        length = float(np.linalg.norm(axis))
        if length < 1e-9:
            self.fail("zero-axis", f"joint '{joint.name}': axis of length zero", "a direction", "joint", i, "axis")
            axis, length = _Z, 1.0
        elif abs(length - 1.0) > 1e-6:
            self.diagnostics.warn("axis-length", f"joint '{joint.name}': axis of length {length:.6g} was normalised", self.place("joint", i, "axis"))
        return placement(R, np.array(joint.xyz if joint.xyz is not None else (0.0, 0.0, 0.0))), axis / length

    def _prior(self, i: int, frame: Float) -> Float:
        inertial = self.d.joint[i].inertial
        if inertial is None:
            return np.full(10, np.nan)
        return transformed(self._ten(inertial, f"joint '{self.d.joint[i].name}'", "joint", i, "inertial"), frame)

    def _ten(self, inertial: Inertial, who: str, *key: Key) -> Float:
        e = inertial.inertia
        matrix = symmetric(np.array([e.xx, e.xy, e.yy, e.xz, e.yz, e.zz]))
        principal = np.linalg.eigvalsh(matrix)
        if principal[0] < 0:
            self.fail("inertia-not-psd", f"{who}: inertia with eigenvalues {principal.tolist()} kg m^2", "all >= 0", *key)
        if inertial.about == "com":
            pi = from_com(inertial.mass, np.array(inertial.com), matrix)
        else:
            pi = np.concatenate([[inertial.mass], inertial.mass * np.array(inertial.com), six(matrix)])
        least = eigenvalues(pi)[0]
        if least < -1e-9 * inertial.mass:
            self.diagnostics.warn(
                "triangle-inequality",
                f"{who}: its inertia belongs to no body (pseudo-inertia eigenvalue {least:.3g}); used as a prior only",
                self.place(*key),
            )
        return pi

    def _fixed(self, inertia: Float, frames: list[Float]) -> list[list[str]]:
        names = [joint.name for joint in self.d.joint]
        bodies = [joint.body or f"{joint.name}_link" for joint in self.d.joint]
        merged: list[list[str]] = [[] for _ in names]
        for k, part in enumerate(self.d.fixed):
            if part.on not in names and part.on not in bodies:
                self.fail("unknown-body", f"part '{part.name}' on '{part.on}'", "one of " + ", ".join(names), "fixed", k, "on")
                continue
            i = names.index(part.on) if part.on in names else bodies.index(part.on)
            T = frames[i] @ placement(rotation_rpy(np.array(part.rpy) * self.unit), np.array(part.xyz))
            inertia[i] += transformed(self._ten(part.inertial, f"part '{part.name}'", "fixed", k, "inertial"), T)
            merged[i].append(part.name)
        return merged

    def _limits(self) -> Limits:
        lower, upper = [], []
        for i, joint in enumerate(self.d.joint):
            unit = 1.0 if joint.type == "prismatic" else self.unit
            low = -math.inf if joint.lower is None else joint.lower * unit
            high = math.inf if joint.upper is None else joint.upper * unit
            if low > high:
                self.fail("limits-swapped", f"joint '{joint.name}': lower {joint.lower} > upper {joint.upper}", "lower <= upper", "joint", i, "lower")
            lower.append(low)
            upper.append(high)
        return Limits(
            lower=np.array(lower),
            upper=np.array(upper),
            velocity=np.array([
                math.inf if j.velocity is None else j.velocity * (1.0 if j.type == "prismatic" else self.unit)
                for j in self.d.joint
            ]),
            effort=np.array([math.inf if j.effort is None else j.effort for j in self.d.joint]),
        )  # fmt: skip

    def _friction(self) -> Float:
        return np.array([_pair(joint.friction, "viscous", "coulomb") for joint in self.d.joint])

    def _drive(self) -> Drive:
        return _drive(self.d, [joint.name for joint in self.d.joint], self)


def _pair(entry: Strict | None, *keys: str) -> list[float]:
    return [math.nan if entry is None or getattr(entry, key) is None else getattr(entry, key) for key in keys]


def _drive(description: Description, names: list[str], builder: _Builder) -> Drive:
    entries: dict[str, DriveEntry] = {}
    for i, joint in enumerate(description.joint):
        entries[joint.name] = joint.drive or DriveEntry()
        ratio = entries[joint.name].gear_ratio
        if ratio is not None and (ratio == 0 or not math.isfinite(ratio)):
            builder.fail("gear-ratio", f"gear_ratio = {ratio}", "a number other than 0", "joint", i, "drive", "gear_ratio")
    per_joint = [entries.get(name, DriveEntry()) for name in names]
    n = len(names)
    N = np.diag([1.0 if entry.gear_ratio is None else entry.gear_ratio for entry in per_joint])
    if description.drive.transmission is not None:
        rows = description.drive.transmission
        if len(rows) != n or any(len(row) != n for row in rows):
            builder.fail("transmission", f"a transmission of {len(rows)} rows", f"{n} rows of {n} numbers", "drive", "transmission")
        else:
            N = np.array(rows)
    if builder.errors:
        raise InputErrors(builder.errors)
    return Drive(
        N,
        np.array([_pair(entry, "rotor_inertia")[0] for entry in per_joint]),
        np.array([_pair(entry, "torque_constant")[0] for entry in per_joint]),
        np.array([_pair(entry, "drive_gain")[0] for entry in per_joint]),
        TorqueSide(description.drive.torque_side),
    )


_OVERRIDES = {"name", "drive", "friction", "lower", "upper", "velocity", "effort"}


def _overridden(
    d: Description, path: Path, root: str | None, diagnostics: Diagnostics, lines: Lines, reader: Reader
) -> RobotModel:
    builder = _Builder(d, path, lines, diagnostics)
    if d.urdf is not None and d.mjcf is not None:
        builder.fail("two-sources", "urdf and mjcf", "one of them", "mjcf")
        raise InputErrors(builder.errors)
    named = str(d.urdf or d.mjcf)
    source = (path.parent / named).resolve()
    if not source.is_relative_to(path.parent.resolve()):
        raise RefusedError(
            "outside-root", found=f"'{named}'", expected=f"a file inside '{path.parent}'", place=builder.place("urdf")
        )
    robot = reader(source, root, diagnostics)
    for i, joint in enumerate(d.joint):
        given = {key for key, value in joint.model_dump().items() if value is not None}
        if given - _OVERRIDES:
            builder.fail("not-here", f"{', '.join(sorted(given - _OVERRIDES))} of joint '{joint.name}'", "kinematics and inertia in the named file", "joint", i)
        if joint.name not in robot.joint_names:
            builder.fail("unknown-joint", f"joint '{joint.name}'", "one of " + ", ".join(robot.joint_names), "joint", i, "name")
    if builder.errors:
        raise InputErrors(builder.errors)
    return _with_overrides(robot, d, builder)


def _with_overrides(robot: RobotModel, d: Description, builder: _Builder) -> RobotModel:
    limits = {key: np.array(getattr(robot.limits, key)) for key in ("lower", "upper", "velocity", "effort")}
    friction = np.array(robot.friction_prior)
    for joint in d.joint:
        j = robot.joint_names.index(joint.name)
        for key, values in limits.items():
            if getattr(joint, key) is not None:
                values[j] = getattr(joint, key)
        if joint.friction is not None:
            friction[j] = _pair(joint.friction, "viscous", "coulomb")
    drive = _drive(d, list(robot.joint_names), builder)
    rotor = np.where(np.isnan(drive.rotor_inertia), robot.drive.rotor_inertia, drive.rotor_inertia)
    changed: dict[str, Any] = {key: getattr(robot, key) for key in RobotModel.__dataclass_fields__}
    changed |= {
        "name": d.name or robot.name,
        "gravity": np.array(d.gravity) if d.gravity is not None else robot.gravity,
        "limits": Limits(**limits),
        "friction_prior": friction,
        "drive": Drive(drive.transmission, rotor, drive.torque_constant, drive.drive_gain, drive.torque_side),
    }
    return RobotModel(**changed)


