"""Schema of robot files in dynid's TOML, and what their readers share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pydantic
from pydantic import Field

from dynid.base.arrays import LARGEST_VALUE, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, InputError, InputErrors, Place
from dynid.base.toml import Key, Lines, Strict, line_of
from dynid.robot.links import AS_PRIOR, NOT_NEGATIVE, inertia_problem, slightly_impossible
from dynid.robot.model import JointType, Limits
from dynid.spatial.algebra import placement, rotation_rpy
from dynid.spatial.inertia import from_com, six, symmetric, to_com, transformed


def _of_size(value: float) -> float:
    if abs(value) > LARGEST_VALUE:
        raise ValueError("a number of plausible size")
    return value


# Strict: text that looks like a number is a mistake in TOML.
Number = Annotated[float, pydantic.Strict(), pydantic.AfterValidator(_of_size)]
# Without the check of size: the largest double is often written for "no limit".
Limit = Annotated[float, pydantic.Strict()]
Vector = tuple[Number, Number, Number]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]


class InertiaEntries(Strict):
    """Entries of a symmetric inertia matrix, kg m^2."""

    xx: Number
    yy: Number
    zz: Number
    xy: Number = 0.0
    xz: Number = 0.0
    yz: Number = 0.0


class Inertial(Strict):
    """Prior of one link: mass (kg), centre of mass (m), inertia about it or about the frame's origin (kg m^2)."""

    mass: Positive
    com: Vector
    inertia: InertiaEntries
    about: Literal["com", "frame"] = "com"


class LinkageEntry(Strict):
    """Four-bar linkage between a drive and its joint: lengths (m), angle of the rocker at q = 0."""

    ground: Positive
    crank: Positive
    coupler: Positive
    rocker: Positive
    zero: Number
    crossed: bool = False


class TableEntry(Strict):
    """Tabulated linkage: actuator coordinates (rad, or m of a cylinder) at joint positions."""

    position: list[Number]
    actuator: list[Number]
    cylinder: bool = False


class DriveEntry(Strict):
    """Drive of one joint.

    Gear ratio; rotor inertia (kg m^2) and torque constant (N m/A) on the motor side; drive gain (N m/A); stiffness
    (N m/rad) and damping (N m s/rad) of the transmission; kp (N m/rad), kd (N m s/rad) and dead band (rad) of the
    position controller.
    """

    gear_ratio: Number | None = None
    rotor_inertia: NotNegative | None = None
    torque_constant: Positive | None = None
    drive_gain: Positive | None = None
    stiffness: Positive | None = None
    damping: NotNegative | None = None
    kp: Positive | None = None
    kd: NotNegative | None = None
    dead_band: NotNegative | None = None
    linkage: LinkageEntry | None = None
    table: TableEntry | None = None


class Friction(Strict):
    """Friction prior of one joint: viscous (N m s/rad) and Coulomb (N m)."""

    viscous: NotNegative | None = None
    coulomb: NotNegative | None = None


class Joint(Strict):
    """One joint and the link that it moves."""

    name: Annotated[str, Field(min_length=1)]
    type: Literal["revolute", "continuous", "prismatic"] | None = None
    body: str | None = None
    parent: str | None = None
    a: Number | None = None
    alpha: Number | None = None
    d: Number | None = None
    theta: Number | None = None
    xyz: Vector | None = None
    rpy: Vector | None = None
    rotation: tuple[Vector, Vector, Vector] | None = None
    axis: Vector | None = None
    follows: dict[str, Number] | None = None
    follows_offset: Number | None = None
    lower: Limit | None = None
    upper: Limit | None = None
    velocity: Annotated[Limit, Field(gt=0)] | None = None
    effort: Annotated[Limit, Field(gt=0)] | None = None
    inertial: Inertial | None = None
    inertia: Literal["none"] | None = None
    drive: DriveEntry | None = None
    friction: Friction | None = None

    @property
    def body_name(self) -> str:
        """Name of the link that the joint moves."""
        return self.body or f"{self.name}_link"


class Fixed(Strict):
    """A part bolted to a link; its inertial is given in its own frame, which is placed in the link's frame."""

    name: str
    on: str
    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)
    inertial: Inertial


class Base(Strict):
    """Placement of the robot's base in the world, whose z axis points up."""

    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)


class Coupling(Strict):
    """A motor that also turns with a second joint: that column of its row of N gets factor times its gear ratio."""

    motor: str
    joint: str
    factor: Number = 1.0


class Crank(Strict):
    """Crank of a motor: its link, a point of its axis, the axis, and its arm (m) at crank angle 0."""

    link: str
    xyz: Vector
    axis: Vector
    arm: Vector


class PointOn(Strict):
    """A point (m) of a link, in the link's frame."""

    link: str
    xyz: Vector


class RodEntries(Strict):
    """A rod from a motor's crank, or a cylinder from an anchor, to a point of another link."""

    motor: str
    crank: Crank | None = None
    anchor: PointOn | None = None
    end: PointOn
    length: Positive | None = None
    crossed: bool = False


class WholeDrive(Strict):
    """What all drives share: side of logged torque, delay of commands (s), position loop, rods, couplings or N."""

    torque_side: Literal["motor", "link"] = "link"
    delay: NotNegative | None = None
    loop: Literal["computer", "drive"] | None = None
    transmission: list[list[Number]] | None = None
    coupling: tuple[Coupling, ...] = ()
    rod: tuple[RodEntries, ...] = ()


class Description(Strict):
    """The whole file."""

    name: str | None = None
    urdf: str | None = None
    mjcf: str | None = None
    sdf: str | None = None
    usd: str | None = None
    gravity: Vector | None = None
    convention: Literal["standard_dh", "modified_dh", "placements"] | None = None
    angle_unit: Literal["rad", "deg"] = "rad"
    base: Base = Base()
    dh: list[list[Number]] | None = None
    joint: tuple[Joint, ...] = ()
    fixed: tuple[Fixed, ...] = ()
    drive: WholeDrive = WholeDrive()


# What all readers of TOML files share: errors with their lines, inertias, limits, friction.


class Findings:
    """Errors and warnings of one TOML file, each with the line of its key."""

    def __init__(self, path: Path, lines: Lines, diagnostics: Diagnostics) -> None:
        self.path, self.lines, self.diagnostics = path, lines, diagnostics
        self.errors: list[DynidError] = []

    def place(self, *key: Key) -> Place:
        """File and line of a key, or of the innermost table around it."""
        return Place(file=str(self.path), line=line_of(key, self.lines) or 1)

    def fail(self, identifier: str, problem: str, expected: str, *key: Key, do: str = "") -> None:
        """Record an error at the line of a key.

        Parameters
        ----------
        identifier, problem, expected, do : str
            Code, what was found, what was expected and what to do.
        *key : str or int
            Path of the key.

        """
        self.errors.append(
            InputError(identifier, found=problem, expected=expected, do=do, place=self.place(*key))
        )

    def warn(self, identifier: str, text: str, *key: Key) -> None:
        """Emit a warning at the line of a key."""
        self.diagnostics.warn(identifier, text, self.place(*key))

    def stop(self) -> None:
        """Raise InputErrors if errors were recorded."""
        if self.errors:
            raise InputErrors(self.errors)


def angle(description: Description) -> float:
    """Radians per unit of the file's angles."""
    return math.pi / 180.0 if description.angle_unit == "deg" else 1.0


def base_placement(description: Description) -> Float:
    """Placement (4, 4) of the robot's base in the world."""
    base = description.base
    return placement(rotation_rpy(np.array(base.rpy) * angle(description)), np.array(base.xyz))


def parameters(inertial: Inertial, who: str, findings: Findings, *key: Key) -> Float:
    """Return the ten inertial parameters of an inertial about its frame, and check them.

    Parameters
    ----------
    inertial : Inertial
        Entry of the file.
    who : str
        Link or part, for messages.
    findings : Findings
        Receives errors and warnings.
    *key : str or int
        Path of the inertial in the file.

    Returns
    -------
    ndarray, shape (10,)

    """
    e = inertial.inertia
    matrix = symmetric(np.array([e.xx, e.xy, e.yy, e.xz, e.yz, e.zz]))
    if inertial.about == "com":
        pi = from_com(inertial.mass, np.array(inertial.com), matrix)
    else:
        pi = np.concatenate([[inertial.mass], inertial.mass * np.array(inertial.com), six(matrix)])
        matrix = to_com(pi)[2]
    problem = inertia_problem(matrix)
    if problem is not None and problem[0] == "inertia-not-psd" and not slightly_impossible(pi):
        findings.fail(problem[0], f"{who}: {problem[1]} about the centre of mass", NOT_NEGATIVE, *key)
    elif problem is not None:
        findings.warn(problem[0], f"{who}: {problem[1]}; {AS_PRIOR}", *key)
    return pi


def bolted(
    description: Description,
    names: Sequence[str],
    bodies: Sequence[str],
    frames: Sequence[Float],
    findings: Findings,
) -> tuple[Float, list[list[str]], dict[str, tuple[int, Float]]]:
    """Add up the [[fixed]] parts of each body.

    Parameters
    ----------
    description : Description
        The TOML file.
    names, bodies : sequence of str
        Names of the tree joints and of the bodies that they move.
    frames : sequence of ndarray, shape (4, 4)
        The frame that parts refer to, in each joint frame.
    findings : Findings
        Receives errors.

    Returns
    -------
    added : ndarray, shape (nb, 10)
        Inertial parameters about the joint frame of each body.
    parts : list of list of str
        Names of the parts of each body.
    placed : dict of str to (int, ndarray of shape (4, 4))
        Body of each part, and the part's frame in the joint frame of that body.

    """
    added, placed = np.zeros((len(names), 10)), dict[str, tuple[int, Float]]()
    parts: list[list[str]] = [[] for _ in names]
    for k, part in enumerate(description.fixed):
        if part.on not in names and part.on not in bodies:
            problem = f"part '{part.name}' on unknown link '{part.on}'"
            findings.fail("unknown-body", problem, "one of " + ", ".join(names), "fixed", k, "on")
            continue
        i = list(names).index(part.on) if part.on in names else list(bodies).index(part.on)
        part_parameters = parameters(part.inertial, f"part '{part.name}'", findings, "fixed", k, "inertial")
        rotation = rotation_rpy(np.array(part.rpy) * angle(description))
        placed[part.name] = (i, frames[i] @ placement(rotation, np.array(part.xyz)))
        added[i] += transformed(part_parameters, placed[part.name][1])
        parts[i].append(part.name)
    return added, parts, placed


def limits(
    description: Description,
    names: Sequence[str],
    kinds: Sequence[JointType],
    known: Limits,
    findings: Findings,
) -> Limits:
    """Override known limits with those of a TOML file.

    Parameters
    ----------
    description : Description
        The TOML file.
    names : sequence of str
        Names of the independent joints.
    kinds : sequence of JointType
        Their types.
    known : Limits
        Limits of the file that it builds on, or none.
    findings : Findings
        Receives errors.

    Returns
    -------
    Limits

    """
    values = {key: np.array(getattr(known, key)) for key in ("lower", "upper", "velocity", "effort")}
    for i, joint in enumerate(description.joint):
        if joint.name not in names:
            continue
        j = list(names).index(joint.name)
        unit = 1.0 if kinds[j] is JointType.PRISMATIC else angle(description)
        for key, column in values.items():
            given = getattr(joint, key)
            if given is not None:
                column[j] = given * (1.0 if key == "effort" else unit)
        low, high = values["lower"][j], values["upper"][j]
        if low > high:
            problem = f"joint '{joint.name}' with lower limit {low / unit:g} > upper limit {high / unit:g}"
            findings.fail("limits-swapped", problem, "lower <= upper", "joint", i, "lower")
    return Limits(**values)


def friction(description: Description, names: Sequence[str], known: Float) -> Float:
    """Override known viscous and Coulomb friction (n, 2) with those of a TOML file."""
    values = np.array(known)
    for joint in description.joint:
        if joint.friction is None or joint.name not in names:
            continue
        for column, given in enumerate((joint.friction.viscous, joint.friction.coulomb)):
            if given is not None:
                values[list(names).index(joint.name), column] = given
    return values
