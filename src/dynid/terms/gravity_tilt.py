"""Tilt of the base: gravity in another direction than declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.diagnostics import Finding, Level
from dynid.base.records import dataclass
from dynid.kernel import gravity_torque
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.spatial.algebra import rotation_about
from dynid.terms.exports import LogFacts, Part, Question, Role
from dynid.terms.forms import exported_parts, torque_of
from dynid.terms.nominal import NominalTerm
from dynid.terms.residual_tests import (
    ALARM,
    LARGE_ERROR,
    Declared,
    FitAnalysis,
    FittedEffect,
    Hypothesis,
    Rival,
    TermWords,
)
from dynid.terms.term import Column, Of, Proposal, Selection, Symbol, Term, proposal_of_robot

# Degrees of tilt that are reported, and above which the model is doubted: floors and tables are level to half a degree.
WARN, DOUBT = 0.5, 1.0


def _tilt_against_file(fit: FitAnalysis) -> Iterator[Hypothesis]:
    """Notice about a tilt above half a degree, 95 % interval included, if accelerations and fit are reliable."""
    if not fit.accelerations or float(np.median(fit.missed)) > LARGE_ERROR:
        return
    tilt = find_tilt(fit)
    if tilt is not None and tilt.certain and tilt.degrees - 2 * tilt.std >= WARN:
        yield _tilt_notice(fit.robot, 2 * tilt.std, tilt.gravity, "")


def _tilt_notices(term: GravityTilt, effect: FittedEffect) -> Iterator[Hypothesis]:
    """Notice about a tilt above half a degree, 95 % interval included."""
    rotation, half = np.zeros(3), np.zeros(3)
    for k in range(3):
        rotation[k], half[k] = effect.sizes.get(f"tilt{'xyz'[k]}", (0.0, 0.0))
    degrees, width = (float(np.degrees(np.linalg.norm(x))) for x in (rotation, half))
    if degrees - width > WARN:
        gravity = rotated(effect.robot.gravity, rotation)
        yield _tilt_notice(effect.robot, width, gravity, ", which the model contains")


def _tilt_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """A tilt of the whole robot."""
    term, moments = GravityTilt(log.inertia), ("tmc1", "tms1")
    return (proposal_of_robot(robot, term, "tilt", "tilted", measured=True, auxiliary=moments),)


@dataclass(frozen=True)
class GravityTilt(NominalTerm):
    """Tilt of the base: tau + tilt_a dG(a x g) + tilt_b dG(b x g), small rotations about two axes of the base frame.

    The axes a and b are those most perpendicular to gravity; tilts are in rad. The first moment of the first link,
    which has no gravity torque on a level base, adds tmc cos q1 + tms sin q1 if its joint is revolute.

    Attributes
    ----------
    inertia : tuple of float
        Links of the nominal model, see `Nominal`.
    drives : tuple of float
        Not used.

    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    name: str = "gravity_tilt"
    words = TermWords(
        symbols=(
            Symbol("tiltx", "δ", "x", "tilt of the base about x"),
            Symbol("tilty", "δ", "y", "tilt of the base about y"),
            Symbol("tiltz", "δ", "z", "tilt of the base about z"),
            Symbol("tmc", "t", "c", "first moment of the first link times the tilt, with cos q"),
            Symbol("tms", "t", "s", "first moment of the first link times the tilt, with sin q"),
        ),
        against_description=_tilt_against_file,
        notices=_tilt_notices,
    )

    traits = replace(NominalTerm.traits, hides_wiring=True)
    selection = Selection(Role.LOG, Question("base", "level"), _tilt_proposals)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Two tilts, and two moments if the first joint is revolute."""
        names = [f"tilt{'xyz'[k]}" for k in self.axes(robot)]
        tilts = tuple(Column(name, "rad", self.name, 0, prior=0.0, of=Of.ROBOT) for name in names)
        root = () if robot.prismatic[0] else ("tmc1", "tms1")
        return tilts + tuple(Column(name, "N m", self.name, 0, prior=0.0) for name in root)

    def axes(self, robot: RobotModel) -> tuple[int, int]:
        """Indices of the two axes of the base frame most perpendicular to gravity, in ascending order."""
        return _axes(robot)

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Static torque under the two changes of gravity, and the columns of the first link."""
        still = np.zeros_like(samples.q)
        lines = []
        for k in self.axes(robot):
            lines.append(self.nominal.rigid(_tilted(robot, k), samples.q, still, still))
        if not robot.prismatic[0]:
            for pattern in (np.cos, np.sin):
                line = np.zeros_like(samples.q)
                line[:, 0] = pattern(samples.q[:, 0])
                lines.append(line)
        return tuple(lines)

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Derivatives with respect to position; those with respect to velocity and acceleration are zero."""
        still, shape = np.zeros_like(samples.q), (3, *samples.q.shape, robot.n)
        slopes = [
            self.nominal.rigid_slopes(_tilted(robot, k), samples.q, still, still) for k in self.axes(robot)
        ]
        for slope in slopes:
            slope[1:] = 0.0
        if not robot.prismatic[0]:
            q = samples.q[:, 0]
            for by_position in (-np.sin(q), np.cos(q)):
                slopes.append(np.zeros(shape))
                slopes[-1][0, :, 0, 0] = by_position
        return tuple(slopes)


@exported_parts.register(GravityTilt)
def _(term: GravityTilt, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """The tilt of the base."""
    return (Lean(term, theta),)


@lru_cache(maxsize=32)
def _axes(robot: RobotModel) -> tuple[int, int]:
    change = np.linalg.norm(np.cross(np.eye(3), robot.gravity), axis=1)
    a, b = sorted(np.argsort(-change, kind="stable")[:2].tolist())
    return a, b


@lru_cache(maxsize=32)
def _tilted(robot: RobotModel, axis: int) -> RobotModel:
    # With the change of gravity per unit of tilt in place of gravity.
    return replace(robot, gravity=np.cross(np.eye(3)[axis], robot.gravity))


@dataclass(frozen=True, eq=False)
class Lean(Part):
    """The tilt of the base in an exported model.

    Attributes
    ----------
    term : GravityTilt
        The term.
    values : ndarray, shape (2,) or (4,)
        Values of its parameters.

    """

    term: GravityTilt
    values: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", locked(self.values, (None,), "tilts"))

    def torque(self, robot: RobotModel, q: Float) -> Float:
        """Torque (T, n) at positions q (T, n)."""
        still = np.zeros_like(q)
        return torque_of(self.term, robot, Samples.from_motion(q, still, still), self.values)

    def gravity(self, robot: RobotModel) -> Float:
        """Change of gravity (2, 3), m/s^2, per unit of each tilt."""
        return np.array([np.cross(np.eye(3)[k], robot.gravity) for k in self.term.axes(robot)])

    def bodies(self, robot: RobotModel) -> Float:
        """Inertial parameters (nb, 10) of the nominal model."""
        return self.term.nominal.bodies(robot)


def rotated(vector: Float, rotation: Float) -> Float:
    """Rotate a vector (3,) by a rotation vector (3,), rad."""
    angle = float(np.linalg.norm(rotation))
    return rotation_about(rotation / angle, angle) @ vector if angle > 0 else vector


def _tilt_notice(robot: RobotModel, half: float, gravity: Float, suffix: str) -> Hypothesis:
    """Notice about a tilted base; above one degree, 95 % interval included, it is a doubt.

    `robot`: the robot with its declared gravity; `half` in degrees: half width of the 95 % interval; `gravity` (3,) in
    m/s^2: estimated gravity, as large as the declared one; `suffix`: text after the size.
    """
    level = robot.gravity
    sine = np.linalg.norm(np.cross(level, gravity) / float(level @ level))
    degrees = float(np.degrees(np.arctan2(sine, gravity @ level / float(level @ level))))
    direction = [f"{g:.4g}" for g in gravity]
    return Hypothesis(
        Finding(
            Level.DOUBT if degrees - half > DOUBT else Level.WARNING,
            "tilted-base",
            f"a base tilted by {degrees:.2g} +- {half:.1g} degrees{suffix}",
            advice="level the base, or declare gravity in the base frame: gravity = [{}] under [robot] in the "
            "experiment file, or --gravity={}".format(", ".join(direction), ",".join(direction)),
        ),
        "gravity in the declared direction",
        declared=Declared(gravity=gravity),
        rivals=(Rival.POSITION, Rival.ZERO),
    )


@dataclass(frozen=True, eq=False)
class Tilt:
    """Estimated tilt of the base.

    Attributes
    ----------
    degrees, std : float, degrees
        Size, and its standard deviation.
    gravity : ndarray, shape (3,), m/s^2
        Estimated gravity.
    share : ndarray, shape (n,)
        Share of each joint's mean square residual that it explains.
    p_value : float
        Test of no tilt.

    """

    degrees: float
    std: float
    gravity: Float
    share: Float
    p_value: float

    @property
    def certain(self) -> bool:
        """Whether the tilt is significant."""
        return self.p_value < ALARM


def find_tilt(fit: FitAnalysis) -> Tilt | None:
    """Estimate the tilt of the base from the residuals, to first order.

    Gravity g + |g| (a u + b v), with u and v perpendicular to g, adds a g_u(q) + b g_v(q) to the torque of the
    identified links; a and b are fitted to the residuals. None if no torque depends on the tilt.
    """
    robot, bodies, motion = fit.robot, fit.remains.bodies, fit.remains.motion
    size = float(np.linalg.norm(robot.gravity))
    if bodies is None or size == 0 or not fit.enough:
        return None
    u, v = perpendicular(robot.gravity)
    q = robot.tree_motion(motion.q, motion.dq, motion.ddq)[0]
    torque = [
        gravity_torque(replace(robot.tree, gravity=size * direction), bodies, q) @ robot.projection
        for direction in (u, v)
    ]
    effect = fit.test_features(np.stack([lines.T for lines in torque], axis=2))
    if effect is None:
        return None
    tangent = float(np.linalg.norm(effect.coefficient))
    along = effect.coefficient / max(tangent, 1e-300)
    std = float(np.sqrt(np.sum((along * effect.std) ** 2)))
    gravity = robot.gravity + size * (effect.coefficient[0] * u + effect.coefficient[1] * v)
    gravity = gravity * (size / np.linalg.norm(gravity))
    return Tilt(
        float(np.degrees(np.arctan(tangent))), float(np.degrees(std)), gravity, effect.share, effect.p_value
    )


def perpendicular(direction: Float) -> tuple[Float, Float]:
    """Two unit vectors (3,) perpendicular to a direction (3,) and to each other."""
    unit = direction / np.linalg.norm(direction)
    other = np.eye(3)[int(np.argmin(np.abs(unit)))]
    u = np.cross(unit, other)
    u = u / np.linalg.norm(u)
    return u, np.cross(unit, u)
