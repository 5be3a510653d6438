"""What an effect leaves where a model lacks it, and what its size means where a model holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.spatial.algebra import rotation_about

# Where the steep part of dry friction ends, as a share of a joint's usual top speed, and the share of speeds below it.
STEEP, USUAL = 0.02, 0.95


@dataclass(frozen=True)
class FeatureGroup:
    """Features that rival one another: of each joint, the one that explains most of its residual is reported.

    identifier: of the findings.    looks_at: what is tested, for the report.
    friction: whether they are forms of friction, of which a joint may have one already.
    """

    identifier: str
    looks_at: str
    friction: bool = False


FRICTION_FORM = FeatureGroup("friction-form", "residual against velocity", True)


@dataclass(frozen=True, eq=False)
class Feature:
    """What the lack of an effect leaves of a joint's residual, and how to say so.

    columns: (N, k) torque of the joint, or (n, N, k) of all joints, up to k factors.
    title: what is wrong with the joint.    text: from the factors (k,); {figures} stands for how much is explained.
    advice: what to do.    x, x_title: what to draw the residual against, (N,).
    along: (N,) sign to draw it with.    beside: name of the explained part in the drawing.
    """

    columns: Float
    title: str
    text: Callable[[Float], str]
    advice: str
    x: Float
    x_title: str
    beside: str
    along: Float | None = None


@dataclass(frozen=True, eq=False)
class Remains:
    """Where features come from: the samples at which residuals are tested.

    motion: `t` counts seconds since the start, trajectories one behind the other.
    steps: whether the model's friction has a step at rest.    bodies: (nb, 10) of the model, None = not known.
    """

    robot: RobotModel
    motion: Samples
    steps: bool = False
    bodies: Float | None = None

    def unit(self, joint: int) -> str:
        """Unit of a joint's effort."""
        return "N" if self.robot.prismatic[joint] else "N m"

    def angle(self, joint: int) -> str:
        """Unit of a joint's position."""
        return "m" if self.robot.prismatic[joint] else "rad"

    def top_speed(self, joint: int) -> float:
        """A joint's usual top speed."""
        return max(float(np.quantile(np.abs(self.motion.dq[:, joint]), USUAL)), 1e-12)

    def step(self, joint: int) -> Float:
        """(N,) a smoothed sign of a joint's velocity."""
        return np.asarray(np.tanh(self.motion.dq[:, joint] / (STEEP * self.top_speed(joint))))

    def friction(self, joint: int, column: Float, seen: Callable[[float], str], advice: str) -> Feature:
        """The feature of a form of friction.    seen: from its factor."""

        def text(factor: Float) -> str:
            size = abs(float(factor[0])) * np.abs(column).max()
            return f"{seen(float(factor[0]))}: {{figures}}; size {size:.3g} {self.unit(joint)}."

        return Feature(
            column[:, None],
            "friction that the model lacks",
            text,
            f'{advice}, or let {{ term = "friction" }} choose by held-out blocks.',
            self.motion.dq[:, joint],
            f"velocity, {self.angle(joint)}/s",
            "this form",
        )


class Level(StrEnum):
    """How much a notice matters: to know, to look after, or to doubt the model over."""

    NOTE = "note"
    WARNING = "warning"
    DOUBT = "doubt"


class Rival(StrEnum):
    """What imitates an effect, in words."""

    POSITION = "a cosine of each joint's own position (a cable, a spring, a counterbalance)"
    FRICTION = "friction of another form"
    ZERO = "a joint's zero that is off"


@dataclass(frozen=True, eq=False)
class Declared:
    """How a log is to be read if an effect is there.

    gravity: (3,) m/s^2, None = as described.    factors: that efforts are too large by, by joint.
    seconds: that efforts are late by.    zeros: rad or m that joints stand further than logged, by joint.
    """

    gravity: Float | None = None
    factors: Mapping[int, float] = field(default_factory=dict)
    seconds: float = 0.0
    zeros: Mapping[int, float] = field(default_factory=dict)

    def mirror(self, robot: RobotModel) -> Declared:
        """The opposite: a lean the other way, efforts as much too small, or as much too early."""
        gravity = None
        if self.gravity is not None:
            level = robot.gravity
            axis = np.cross(self.gravity, level)
            sine, cosine = np.linalg.norm(axis), float(self.gravity @ level)
            angle = float(np.arctan2(sine, cosine))
            gravity = rotation_about(axis / sine, angle) @ level if sine > 0 else level
        factors = {j: 1.0 / factor for j, factor in self.factors.items()}
        return Declared(gravity, factors, -self.seconds, {j: -zero for j, zero in self.zeros.items()})


@dataclass(frozen=True, eq=False)
class Notice:
    """What an effect's size means to whoever recorded the log.

    identifier: its code.    found, expected, do: as of an error; a warning says what was found and what to do.
    joint: its name, "" = the whole robot.
    declared: what has to predict held-out blocks better for the notice to have its level; None = no proof is asked for.
    lesser: its level without proof.    rivals: that may not do as well.    held: put behind the evidence.
    sign: said in its place where the other sign of the efforts does better still.
    """

    identifier: str
    level: Level
    found: str
    expected: str = ""
    do: str = ""
    joint: str = ""
    declared: Declared | None = None
    lesser: Level = Level.NOTE
    rivals: tuple[Rival, ...] = ()
    held: str = ""
    sign: Notice | None = None


@dataclass(frozen=True, eq=False)
class Held:
    """An effect in a fitted model.

    sizes: value and 95 % half width by name, of those parameters that the log determines.
    rate: of the log, Hz.    seconds: its length.    torque: (n,) r.m.s. by joint.
    """

    robot: RobotModel
    sizes: Mapping[str, tuple[float, float]]
    rate: float
    seconds: float
    torque: Float
