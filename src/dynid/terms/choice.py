"""What an effect is to the automatic choice, and what a log says before effects are tried on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.signals.turning_points import REACH

# rad or m: a joint that goes less far stands, and friction or a brake may hold any part of its load.
STANDS = 2e-3
# The place of an effect of the whole robot; others have the index of a joint, or of a pair of joints.
EVERYWHERE = -1


class Role(StrEnum):
    """What an effect is to the automatic choice.

    PLAIN: on trial in every comparison.    ROBOT: some robots have it.    FRICTION: a form of a joint's friction.
    LOG: of the measurement rather than the robot.    SHIELD: never chosen, but nothing else may stand for it.
    """

    PLAIN = "plain"
    ROBOT = "robot"
    FRICTION = "friction"
    LOG = "log"
    SHIELD = "shield"


@dataclass(frozen=True)
class Question:
    """A question of the automatic choice.    without: its answer where no effect is chosen.    words: for messages.

    certain: whether every robot has the effect, so that it stays where the motion cannot tell models with and without.
    """

    name: str
    without: str = "none"
    words: str = ""
    certain: bool = False


FRICTION = Question("friction")


@dataclass(frozen=True)
class FrictionForm:
    """A form of friction among those that are compared joint by joint.

    label: its name there.    replaces: labels of the plain effects in whose place it stands.
    tried: shares of its shapes' range, on the shapes' own scale, at which the automatic choice tries it first;
    () = it tries a form without shapes as it is, and none with shapes.
    options: of the term.    both_ways: as of proposals.
    """

    label: str
    replaces: tuple[str, ...] = ()
    tried: tuple[float, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    both_ways: bool = False


@dataclass(frozen=True)
class JointMotion:
    """How a joint moved in a log: where bounds and starts of shapes come from.

    peak, median: of |dq|, rad/s (m/s).    span: greatest minus least position, rad (m).
    reach: distance over which samples know where it turned round, rad (m).    both_ways: whether it moved either way.
    waves: in which its dry friction seems to vary with its position, rad of a wave a rad (m); None = not looked for.
    """

    peak: float
    median: float
    span: float
    reach: float = REACH
    both_ways: bool = True
    waves: tuple[float, ...] | None = None

    @property
    def stands(self) -> bool:
        """Whether the joint never moved."""
        return self.span < STANDS


@dataclass(frozen=True, eq=False)
class Extent:
    """How fast and how far joints went in a log: |dq| at most, (n,) rad/s (m/s), and positions from and to, rad (m)."""

    peak: Float
    low: Float
    high: Float


@dataclass(frozen=True, eq=False)
class LogFacts:
    """What a log says before effects are tried on it.

    inertia, drives: of the model that small effects are linearised about, see Nominal.
    found: values of such effects found so far, by name.    motion: of every joint.    origin, end: its beginning
    and end on its clock, s.
    both_sides: whether the equations hold the motion of motors and links apart.
    slowness: share of the usual widths of friction's sign that it has where all joints are slow.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    found: Mapping[str, float] = field(default_factory=dict)
    motion: tuple[JointMotion, ...] = ()
    origin: float = 0.0
    end: float | None = None
    both_sides: bool = False
    slowness: float = 1.0
