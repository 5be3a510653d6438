"""A robot as links and joints, whatever file describes them: numbers checked, fixed joints still there."""

from __future__ import annotations

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.robot.xml import Element

MOVING = ("revolute", "continuous", "prismatic")
# Joints with several coordinates: held still at the base, no part of a model elsewhere.
FREE = ("floating", "planar", "ball", "universal")


@dataclass(frozen=True, eq=False)
class LinkInertial:
    """Mass, inertia (3, 3) about the centre of mass, and the ten parameters about the link's frame."""

    mass: float
    inertia: Float
    parameters: Float


@dataclass(frozen=True, eq=False)
class Link:
    """A link; its inertial is None where the file has none, or has one that was filled in."""

    name: str
    element: Element
    inertial: LinkInertial | None
    filled_in: bool = False


@dataclass(frozen=True)
class Mimic:
    """q = multiplier * q of the followed joint + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class LinkJoint:
    """A joint with checked numbers: placement (4, 4) in the parent's frame, unit axis, limits, friction.

    spring: stiffness k, N m/rad (N/m), and position r, rad (m), without torque: k (q - r).
    """

    name: str
    element: Element
    kind: str
    parent: str
    child: str
    placement: Float
    axis: Float
    lower: float
    upper: float
    velocity: float
    effort: float
    damping: float
    friction: float
    mimic: Mimic | None
    spring: tuple[float, float] = (0.0, 0.0)

    @property
    def moves(self) -> bool:
        """Whether the joint has a coordinate."""
        return self.kind in MOVING


@dataclass(frozen=True)
class LinkTree:
    """A checked robot: links and joints below one root, which stands still."""

    name: str
    root: str
    links: dict[str, Link]
    joints: dict[str, LinkJoint]
