"""A base that is not level."""

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
    MISSES_MUCH,
    Declared,
    FitAnalysis,
    Held,
    Hypothesis,
    Rival,
    TermWords,
)
from dynid.terms.term import Column, Of, Proposal, Selection, Symbol, Term, proposal_of_robot

# Degrees that a base may lean: floors and tables are level to half a degree.
WARN, DOUBT = 0.5, 1.0


def _tilt_of_description(fit: FitAnalysis) -> Iterator[Hypothesis]:
    """Over half a degree, 95 % interval included, where accelerations and the bodies of the fit can be trusted."""
    if not fit.accelerations or float(np.median(fit.missed)) > MISSES_MUCH:
        return
    tilt = find_tilt(fit)
    if tilt is not None and tilt.certain and tilt.degrees - 2 * tilt.std >= WARN:
        yield lean_notice(fit.robot, 2 * tilt.std, tilt.gravity, "")


def _tilt_notices(term: GravityTilt, held: Held) -> Iterator[Hypothesis]:
    """Over half a degree, 95 % interval included."""
    turn, half = np.zeros(3), np.zeros(3)
    for k in range(3):
        turn[k], half[k] = held.sizes.get(f"tilt{'xyz'[k]}", (0.0, 0.0))
    degrees, width = (float(np.degrees(np.linalg.norm(x))) for x in (turn, half))
    if degrees - width > WARN:
        yield lean_notice(held.robot, width, turned(held.robot.gravity, turn), ", which the model contains")


def _tilt_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """The base as a whole."""
    term, moments = GravityTilt(log.inertia), ("tmc1", "tms1")
    return (proposal_of_robot(robot, term, "tilt", "tilted", measured=True, auxiliary=moments),)


@dataclass(frozen=True)
class GravityTilt(NominalTerm):
    """A base that is not level: tau + tilt_a dG(a x g) + tilt_b dG(b x g), small rotations about two base axes.

    The axes a, b are those of the base frame that lie most across gravity; tilts in rad. The first moment of the first
    body, which gravity does not show on a level base, adds tmc cos q1 + tms sin q1 where its joint turns.
    inertia: of the nominal model, see Nominal; drives are not read.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    name: str = "gravity_tilt"
    words = TermWords(
        symbols=(
            Symbol("tiltx", "δ", "x", "tilt of the base about x"),
            Symbol("tilty", "δ", "y", "tilt of the base about y"),
            Symbol("tiltz", "δ", "z", "tilt of the base about z"),
            Symbol("tmc", "t", "c", "first moment of the first body times the tilt, with cos q"),
            Symbol("tms", "t", "s", "first moment of the first body times the tilt, with sin q"),
        ),
        against_description=_tilt_of_description,
        notices=_tilt_notices,
        cause="a lean of the base",
    )

    traits = replace(NominalTerm.traits, hides_wiring=True)
    selection = Selection(Role.LOG, Question("base", "level"), _tilt_proposals)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Two tilts and two moments."""
        names = [f"tilt{'xyz'[k]}" for k in self.axes(robot)]
        tilts = tuple(Column(name, "rad", self.name, 0, prior=0.0, of=Of.ROBOT) for name in names)
        root = () if robot.prismatic[0] else ("tmc1", "tms1")
        return tilts + tuple(Column(name, "N m", self.name, 0, prior=0.0) for name in root)

    def axes(self, robot: RobotModel) -> tuple[int, int]:
        """The two axes of the base frame that lie most across gravity, in order."""
        return _axes(robot)

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Static torque under the two changes of gravity, and the first body's pattern."""
        still = np.zeros_like(samples.q)
        found = []
        for k in self.axes(robot):
            found.append(self.nominal.rigid(_leaning(robot, k), samples.q, still, still))
        if not robot.prismatic[0]:
            for pattern in (np.cos, np.sin):
                line = np.zeros_like(samples.q)
                line[:, 0] = pattern(samples.q[:, 0])
                found.append(line)
        return tuple(found)

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """They depend on position alone."""
        still, shape = np.zeros_like(samples.q), (3, *samples.q.shape, robot.n)
        found = [
            self.nominal.rigid_slopes(_leaning(robot, k), samples.q, still, still) for k in self.axes(robot)
        ]
        for one in found:
            one[1:] = 0.0
        if not robot.prismatic[0]:
            q = samples.q[:, 0]
            for slope in (-np.sin(q), np.cos(q)):
                found.append(np.zeros(shape))
                found[-1][0, :, 0, 0] = slope
        return tuple(found)


@exported_parts.register(GravityTilt)
def _(term: GravityTilt, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """The lean of the base."""
    return (Lean(term, theta),)


@lru_cache(maxsize=32)
def _axes(robot: RobotModel) -> tuple[int, int]:
    across = np.linalg.norm(np.cross(np.eye(3), robot.gravity), axis=1)
    a, b = sorted(np.argsort(-across, kind="stable")[:2].tolist())
    return a, b


@lru_cache(maxsize=32)
def _leaning(robot: RobotModel, axis: int) -> RobotModel:
    # With the change of gravity by a unit of lean in place of gravity.
    return replace(robot, gravity=np.cross(np.eye(3)[axis], robot.gravity))


@dataclass(frozen=True, eq=False)
class Lean(Part):
    """A term of a base that is not level, with its parameters (2 or 4)."""

    term: GravityTilt
    values: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", locked(self.values, (None,), "tilts"))

    def torque(self, robot: RobotModel, q: Float) -> Float:
        """(T, n) at positions q (T, n)."""
        still = np.zeros_like(q)
        return torque_of(self.term, robot, Samples.from_motion(q, still, still), self.values)

    def gravity(self, robot: RobotModel) -> Float:
        """(2, 3) m/s^2: what a unit of each tilt adds to gravity."""
        return np.array([np.cross(np.eye(3)[k], robot.gravity) for k in self.term.axes(robot)])

    def bodies(self, robot: RobotModel) -> Float:
        """(nb, 10): the bodies that it weighs on."""
        return self.term.nominal.bodies(robot)


def turned(vector: Float, turn: Float) -> Float:
    """A vector (3,) turned about an axis by an angle, (3,) rad: its length is kept."""
    angle = float(np.linalg.norm(turn))
    return rotation_about(turn / angle, angle) @ vector if angle > 0 else vector


def lean_notice(robot: RobotModel, half: float, gravity: Float, why: str) -> Hypothesis:
    """A base that leans, with the 95 % half width in degrees; over one degree, interval included, it is doubted.

    gravity: (3,) m/s^2 as it was found, as great as the declared one.    why: put behind the size.
    """
    level = robot.gravity
    turn = np.cross(level, gravity) / float(level @ level)
    degrees = float(np.degrees(np.arctan2(np.linalg.norm(turn), gravity @ level / float(level @ level))))
    direction = [f"{g:.4g}" for g in gravity]
    return Hypothesis(
        Finding(
            Level.DOUBT if degrees - half > DOUBT else Level.WARNING,
            "tilted-base",
            f"a base that leans by {degrees:.2g} +- {half:.1g} degrees{why}",
            advice="level the base, or declare how it stands, in the base frame: gravity = [{}] under [robot] in the "
            "experiment file, or --gravity={}".format(", ".join(direction), ",".join(direction)),
        ),
        "gravity along the declared direction",
        declared=Declared(gravity=gravity),
        rivals=(Rival.POSITION, Rival.ZERO),
    )


@dataclass(frozen=True, eq=False)
class Tilt:
    """Lean of the base.    degrees: its size.    std: of that.    gravity: (3,) direction found, m/s^2.

    share: (n,) of each joint's residual that it explains.    p_value: of no lean at all.
    """

    degrees: float
    std: float
    gravity: Float
    share: Float
    p_value: float

    @property
    def certain(self) -> bool:
        """Whether the base leans beyond chance."""
        return self.p_value < ALARM


def find_tilt(fit: FitAnalysis) -> Tilt | None:
    """The lean of the base that explains most of the residuals, to first order; None where no torque shows it.

    Gravity g + |g| (a u + b v), u and v across g, adds a g_u(q) + b g_v(q) to the torque of the identified bodies;
    a and b are tested on what the model leaves.
    """
    robot, bodies, motion = fit.robot, fit.remains.bodies, fit.remains.motion
    size = float(np.linalg.norm(robot.gravity))
    if bodies is None or size == 0 or not fit.enough:
        return None
    u, v = across(robot.gravity)
    q = robot.tree_motion(motion.q, motion.dq, motion.ddq)[0]
    torque = [
        gravity_torque(replace(robot.tree, gravity=size * one), bodies, q) @ robot.projection
        for one in (u, v)
    ]
    effect = fit.test_features(np.stack([one.T for one in torque], axis=2))
    if effect is None:
        return None
    lean = float(np.linalg.norm(effect.coefficient))
    along = effect.coefficient / max(lean, 1e-300)
    std = float(np.sqrt(np.sum((along * effect.std) ** 2)))
    gravity = robot.gravity + size * (effect.coefficient[0] * u + effect.coefficient[1] * v)
    gravity = gravity * (size / np.linalg.norm(gravity))
    return Tilt(
        float(np.degrees(np.arctan(lean))), float(np.degrees(std)), gravity, effect.share, effect.p_value
    )


def across(direction: Float) -> tuple[Float, Float]:
    """Two unit vectors (3,) at right angles to a direction (3,) and to each other."""
    unit = direction / np.linalg.norm(direction)
    other = np.eye(3)[int(np.argmin(np.abs(unit)))]
    u = np.cross(unit, other)
    u = u / np.linalg.norm(u)
    return u, np.cross(unit, u)
