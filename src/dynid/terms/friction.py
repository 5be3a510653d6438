"""Plain friction: tau = fv dq + fc sign(dq) + fo; smoothed signs of velocity, and dry friction at rest."""

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

# rad/s (m/s): width of the smoothed sign in models that are chosen automatically. Noise reverses slower velocities.
WIDTH = 0.02
# Range of velocities, in widths, below which their mean sign is that of the middle: the difference would be rounding.
STEEP = 1e-3
OFFSETS = Question("offsets")


def direction(samples: Samples, width: float, joint: int | None = None) -> Float:
    """Smoothed sign of velocity, averaged over the time that each sample represents.

    s = mean of tanh((dq + ddq t) / width) over |t| <= span / 2. After decimation a sample alone does not show when a
    joint reverses, but the torque does, since it was low-passed before decimation. The mean is consistent with it.

    Parameters
    ----------
    samples : Samples
        Motion.
    width : float, rad/s (m/s)
        Width; 0 = the sign.
    joint : int, optional
        Index of a joint; None = all joints.

    Returns
    -------
    ndarray, shape (T, n), or (T,) for one joint

    """
    return mean_sign(*passed_speeds(samples, joint), width)


def check_width(width: float) -> None:
    """Raise UsageError for a negative width of the smoothed sign."""
    if not width >= 0:
        raise UsageError("coulomb-width", found=f"width = {width}", expected="a velocity >= 0 in rad/s (m/s)")


def direction_sides(samples: Samples, width: float, joint: int) -> tuple[Float, Float]:
    """Positive and negative part (T,) of the smoothed sign of a joint's velocity.

    `samples`: motion; `width` in rad/s (m/s): width; 0 = the sign; `joint`: index of the joint. Result: each is
    averaged over the time that a sample represents, as in `direction`, (T,).
    """
    low, high = passed_speeds(samples, joint)
    both = mean_sign(low, high, width)
    size = np.abs(both)
    reverses = (low < 0) & (high > 0)
    a, b = low[reverses], high[reverses]
    size[reverses] = (_integrated_sign(a, width) + _integrated_sign(b, width)) / (b - a)
    return 0.5 * (size + both), 0.5 * (both - size)


def passed_speeds(samples: Samples, joint: int | None = None) -> tuple[Float, Float]:
    """Least and greatest velocity within the time that each sample represents; (T, n), or (T,) for one joint."""
    columns = slice(None) if joint is None else joint
    speed = samples.dq[:, columns]
    if samples.span == 0:
        return speed, speed
    half = 0.5 * samples.span * np.abs(samples.ddq[:, columns])
    return speed - half, speed + half


def mean_sign(low: Float, high: Float, width: float) -> Float:
    """Mean of the smoothed sign over velocities from `low` to `high`.

    `low`, `high` in rad/s (m/s): limits of the velocities; they may be equal; `width` in rad/s (m/s): width; 0 = the
    sign.
    """
    if low is high:
        return smooth_sign(low, width)
    across = high - low
    below, above = np.abs(low), np.abs(high)
    integral = above - below
    if width > 0:
        # Difference between width ln cosh and its asymptote; the logarithm of a ratio is faster than two logarithms.
        rate = -2.0 / width
        integral += width * np.log((1.0 + np.exp(rate * above)) / (1.0 + np.exp(rate * below)))
    narrow = across <= STEEP * width
    across[narrow] = 1.0
    integral /= across
    integral[narrow] = smooth_sign(0.5 * (low[narrow] + high[narrow]), width)
    return integral


def _integrated_sign(speed: Float, width: float) -> Float:
    """Integral of abs(smoothed sign) from 0: width ln cosh(speed / width), or abs(speed) for a width of 0."""
    size = np.abs(speed)
    return size + width * (np.log1p(np.exp(-2.0 / width * size)) - np.log(2.0)) if width > 0 else size


@dataclass(frozen=True)
class Viscous(JointTerm):
    """Viscous friction: tau_j = fv_j dq_j, fv in N m s/rad (N s/m for prismatic joints).

    Attributes
    ----------
    joints : tuple of str
        Joints on which it acts; () = all.

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
        """Damping in the robot file."""
        return robot.friction_prior[:, 0]

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Joint velocity."""
        return samples.dq


def _step_at_rest(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """A step of friction where the velocity changes its sign."""
    advice = "Change the width of coulomb" if remains.steps else "Add the term coulomb"
    title = "A step where the velocity changes its sign"
    return (remains.friction(joint, remains.step(joint), lambda _: title, advice),)


@dataclass(frozen=True)
class Coulomb(JointTerm):
    """Coulomb friction: tau_j = fc_j s(dq_j), s = sign, or tanh(dq / width) if a width is given.

    Attributes
    ----------
    width : float, rad/s (m/s)
        Width of the smoothed sign; 0 = no smoothing, with sign(0) = 0.
    joints : tuple of str
        Joints on which it acts; () = all.

    Raises
    ------
    UsageError
        If the width is negative.

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
        """Dry friction in the robot file."""
        return robot.friction_prior[:, 1]

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Smoothed sign of the joint velocity."""
        return direction(samples, self.width)


@dataclass(frozen=True)
class Offset(JointTerm):
    """Constant torque: tau_j = fo_j; asymmetry of Coulomb friction and offset of the sensor together.

    Attributes
    ----------
    joints : tuple of str
        Joints on which it acts; () = all.

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


# Dry friction of joints at rest, which may have any value up to that in motion.

# Share of the dry friction of the last motion that a joint at rest keeps if the training has no stops to estimate it
# from: 0 if the drive releases the joint, 1 if it keeps pushing. The middle minimises the mean square error if both are
# equally likely, and the maximum error in any case.
HALF = 0.5
# Velocity in widths at which a smoothed sign is about 1.
CREEP = 3.0


def dry_friction(
    robot: RobotModel, terms: Terms, samples: Samples, theta: Float, direction: Float
) -> tuple[Float, Float]:
    """Dry friction of joints that have just stopped.

    Friction with memory is left out, since it determines itself how much of it remains.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        Model.
    samples : Samples
        Motion.
    theta : ndarray, shape (p,)
        Values of all parameters.
    direction : ndarray, shape (T, n)
        Signs of the joints' last motion; 0 = unknown.

    Returns
    -------
    stopped : ndarray, shape (T, n)
        Dry friction of a slow motion in `direction`.
    smooth : ndarray, shape (T, n)
        Dry friction of the model at the velocities of the samples.

    """
    widths = [w for term in terms if isinstance(w := getattr(term, "width", None), float) and w > 0]
    speed = CREEP * min([WIDTH, *widths]) * direction
    creeping = replace(samples, dq=speed, dtheta=None if samples.dtheta is None else speed)
    stopped, smooth = np.zeros_like(speed), np.zeros_like(speed)
    for term, values in terms.with_values(robot, theta):
        if values.any() and _is_dry(term):
            stopped += torque_of(term, robot, seen_by(term, creeping), values)
            smooth += torque_of(term, robot, seen_by(term, samples), values)
    return stopped, smooth


def _is_dry(term: Term) -> bool:
    return term.traits.dry is not Dry.NO and Reads.PAST not in term.traits.reads
