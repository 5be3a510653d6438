"""Friction that is linear in its coefficients: tau = ... + fv dq + fc sign(dq) + fo."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import (
    FRICTION,
    Dry,
    Kind,
    MotionBasis,
    Question,
    Reads,
    Role,
    Side,
    Symbol,
    Traits,
    smooth_sign,
)
from dynid.terms.forms import seen_by, torque_of
from dynid.terms.residual_tests import FRICTION_FORM, Feature, Remains, TermWords
from dynid.terms.term import JointTerm, Selection, Term, Terms, by_joint

# Of the smoothed sign in models that are chosen automatically, rad/s or m/s.
WIDTH = 0.02
STEEP = 1e-3
OFFSETS = Question("offsets")


def direction(samples: Samples, width: float, joint: int | None = None) -> Float:
    """Smoothed sign of the velocity, averaged over the time that each sample stands for; (T, n), or (T,) of one joint.

    s = mean of tanh((dq + ddq t) / width) over |t| <= span / 2. Samples that were thinned out are too far apart to say
    when a joint turned round; the torque, low-passed before it was thinned, knows, and so does the mean.
    """
    return mean_sign(*passed_speeds(samples, joint), width)


def check_width(width: float) -> None:
    """Raises UsageError for a width of the smoothed sign, rad/s (m/s), below zero; 0 = the sign itself."""
    if not width >= 0:
        raise UsageError("coulomb-width", found=f"width = {width}", expected="a velocity >= 0")


def direction_sides(samples: Samples, width: float, joint: int) -> tuple[Float, Float]:
    """Positive and negative part of the smoothed sign of a joint's velocity, each averaged as `direction` is; (T,)."""
    low, high = passed_speeds(samples, joint)
    both = mean_sign(low, high, width)
    size = np.abs(both)
    turns = (low < 0) & (high > 0)
    a, b = low[turns], high[turns]
    size[turns] = (_from_rest(a, width) + _from_rest(b, width)) / (b - a)
    return 0.5 * (size + both), 0.5 * (both - size)


def passed_speeds(samples: Samples, joint: int | None = None) -> tuple[Float, Float]:
    """Least and greatest velocity within the time that each sample stands for; (T, n), or (T,) of one joint."""
    own = slice(None) if joint is None else joint
    speed = samples.dq[:, own]
    if samples.span == 0:
        return speed, speed
    half = 0.5 * samples.span * np.abs(samples.ddq[:, own])
    return speed - half, speed + half


def mean_sign(low: Float, high: Float, width: float) -> Float:
    """Mean of the smoothed sign over the velocities from low to high, which may be equal."""
    if low is high:
        return smooth_sign(low, width)
    across = high - low
    below, above = np.abs(low), np.abs(high)
    gained = above - below
    if width > 0:
        # How ln cosh differs from its asymptote; one logarithm of a ratio is half the work of two.
        rate = -2.0 / width
        gained += width * np.log((1.0 + np.exp(rate * above)) / (1.0 + np.exp(rate * below)))
    narrow = across <= STEEP * width
    across[narrow] = 1.0
    gained /= across
    gained[narrow] = smooth_sign(0.5 * (low[narrow] + high[narrow]), width)
    return gained


def _from_rest(speed: Float, width: float) -> Float:
    """Integral of the size of the smoothed sign from 0: width ln cosh(speed / width), |speed| for a width of 0."""
    size = np.abs(speed)
    return size + width * (np.log1p(np.exp(-2.0 / width * size)) - np.log(2.0)) if width > 0 else size


@dataclass(frozen=True)
class Viscous(JointTerm):
    """Viscous friction: tau_j = fv_j dq_j, fv in N m s/rad (N s/m when prismatic).

    joints: names of the joints it acts on; empty = all.
    """

    joints: tuple[str, ...] = ()
    name: str = "viscous"
    symbol = "fv"
    words = TermWords(symbols=(Symbol("fv", "f", "v", "viscous friction"),))
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"
    lower = 0.0
    traits = Traits(Kind.FRICTION, Side.MOTOR, basis=MotionBasis.SPEED, either_side=True)
    selection = Selection(Role.PLAIN, FRICTION, by_joint("viscous"))

    def prior(self, robot: RobotModel) -> Float:
        """Damping of the description."""
        return robot.friction_prior[:, 0]

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Joint velocity."""
        return samples.dq


def _step_at_rest(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """A step where the velocity changes its sign."""
    advice = "Change the width of coulomb" if remains.steps else "Add the term coulomb"
    seen = "A step where the velocity changes its sign"
    return (remains.friction(joint, remains.step(joint), lambda _: seen, advice),)


@dataclass(frozen=True)
class Coulomb(JointTerm):
    """Coulomb friction: tau_j = fc_j s(dq_j), s = sign, or tanh(dq / width) when a width is given.

    width: velocity in rad/s (m/s) over which the sign is smoothed; 0 keeps the sign, with sign(0) = 0.
    joints: names of the joints it acts on; empty = all.

    Raises UsageError if the width is negative.
    """

    width: float = 0.0
    joints: tuple[str, ...] = ()
    name: str = "coulomb"
    symbol = "fc"
    words = TermWords(
        symbols=(Symbol("fc", "f", "c", "Coulomb friction"),), group=FRICTION_FORM, features=_step_at_rest
    )
    unit_revolute = "N m"
    unit_prismatic = "N"
    lower = 0.0
    traits = Traits(Kind.FRICTION, Side.MOTOR, dry=Dry.STEP, basis=MotionBasis.SIGN, either_side=True)
    selection = Selection(
        Role.PLAIN, FRICTION, by_joint("coulomb", make=lambda log: Coulomb(WIDTH * log.slowness))
    )

    def __post_init__(self) -> None:
        check_width(self.width)

    def prior(self, robot: RobotModel) -> Float:
        """Dry friction of the description."""
        return robot.friction_prior[:, 1]

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Smoothed or plain sign of the joint velocity."""
        return direction(samples, self.width)


@dataclass(frozen=True)
class Offset(JointTerm):
    """Constant torque: tau_j = fo_j; asymmetric Coulomb friction and sensor offset in one.

    joints: names of the joints it acts on; empty = all.
    """

    joints: tuple[str, ...] = ()
    name: str = "offset"
    symbol = "fo"
    words = TermWords(symbols=(Symbol("fo", "f", "o", "torque offset"),))
    unit_revolute = "N m"
    unit_prismatic = "N"
    needs_motion = False
    traits = Traits(side=Side.MOTOR, basis=MotionBasis.ONE)
    selection = Selection(Role.PLAIN, OFFSETS, by_joint("offset", "offsets", measured=True, both_ways=True))

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """One."""
        return np.ones_like(samples.dq)


# Dry friction of joints that stand still: any value up to its limit, as the terms have it for the last
# motion.

# Of the dry friction that a joint stopped with, what it keeps where no stop says more. A drive that lets go of the
# joint leaves none of it, one that holds on all of it. The middle has the least mean square error where both are as
# likely, and the least greatest one whatever is.
HALF = 0.5
# Widths of a smoothed sign, on which it is one.
CREEP = 3.0


def dry_friction(
    robot: RobotModel, terms: Terms, samples: Samples, theta: Float, direction: Float
) -> tuple[Float, Float]:
    """Dry friction of joints that have just stopped, and what the model has in its place, both (T, n).

    The first is that of a creeping motion in `direction`, the second that of the samples' velocities.
    direction: (T, n) signs of the joints' last motion, 0 = not known.    theta: (p,) of all terms.
    Friction with a memory says itself what is kept, and is in neither.
    """
    widths = [w for term in terms if isinstance(w := getattr(term, "width", None), float) and w > 0]
    way = CREEP * min([WIDTH, *widths]) * direction
    creeping = replace(samples, dq=way, dtheta=None if samples.dtheta is None else way)
    stopped, smooth = np.zeros_like(way), np.zeros_like(way)
    for term, own in terms.with_values(robot, theta):
        if own.any() and _is_dry(term):
            stopped += torque_of(term, robot, seen_by(term, creeping), own)
            smooth += torque_of(term, robot, seen_by(term, samples), own)
    return stopped, smooth


def _is_dry(term: Term) -> bool:
    return term.traits.dry is not Dry.NO and Reads.PAST not in term.traits.reads
