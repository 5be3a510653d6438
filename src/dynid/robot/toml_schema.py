"""What a dynid robot description may hold."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic
from pydantic import Field

from dynid.base.arrays import LARGEST_VALUE
from dynid.base.checked_toml import Strict


def _of_size(value: float) -> float:
    if abs(value) > LARGEST_VALUE:
        raise ValueError("a number of a robot's size")
    return value


# Text that looks like a number is a slip of the pen in TOML.
Number = Annotated[float, pydantic.Strict(), pydantic.AfterValidator(_of_size)]
# The largest number of a computer is often written for a limit that there is not.
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
    """Prior of one body: mass (kg), centre of mass (m), inertia about that or the frame's origin."""

    mass: Positive
    com: Vector
    inertia: InertiaEntries
    about: Literal["com", "frame"] = "com"


class LinkageEntry(Strict):
    """Bars between a joint's drive and the joint: lengths in m, angle of the rocker at q = 0."""

    ground: Positive
    crank: Positive
    coupler: Positive
    rocker: Positive
    zero: Number
    crossed: bool = False


class DriveEntry(Strict):
    """Drive of one joint: gear ratio, motor-side rotor inertia (kg m^2), torque constant (N m/A), gain, elasticity.

    kp, kd, dead_band: of its position controller, N m/rad, N m s/rad and rad.
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
        """The name of the body that the joint moves."""
        return self.body or f"{self.name}_link"


class Fixed(Strict):
    """A part bolted to a body: its inertial is in its own frame, which is placed in the body's frame."""

    name: str
    on: str
    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)
    inertial: Inertial


class Base(Strict):
    """Where the robot's base stands in the world, whose z axis points up."""

    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)


class Coupling(Strict):
    """A motor that turns with a second joint: its row of N gets factor times its gear ratio in that column."""

    motor: str
    joint: str
    factor: Number = 1.0


class WholeDrive(Strict):
    """What the joints' drives share: side of logged torque, delay of commands (s), loop, couplings or the matrix N."""

    torque_side: Literal["motor", "link"] = "link"
    delay: NotNegative | None = None
    loop: Literal["computer", "drive"] | None = None
    transmission: list[list[Number]] | None = None
    coupling: tuple[Coupling, ...] = ()


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
