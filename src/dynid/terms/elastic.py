"""Elastic joints: springs and dampers between motor and link, spinning rotors, friction behind the spring.

q is the link's position, theta the motor's divided by the gear ratio; the spring carries K (theta - q) to the link.
Source: Zollo et al. 2014, eqs 1 to 8, with the missing 1/2 of the elastic energy and the bars of q restored.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Column, Question, Reads, Role, Side, Symbol, Traits
from dynid.terms.forms import energy_form, motor_regressor, motor_work
from dynid.terms.friction import check_width, direction
from dynid.terms.nominal import NominalTerm, slope
from dynid.terms.residual_tests import TermWords
from dynid.terms.term import JointTerm, Selection, Term, by_joint, empty_panels, joint_indices


@dataclass(frozen=True)
class SpringTerm(JointTerm):
    """A torque between motor and link, one parameter a joint: +basis on the motor, -basis on the link.

    It drops out of the sum of both equations, so that a log with one encoder a joint says nothing about it.

    joints: those that have it; () = all.
    """

    joints: tuple[str, ...] = ()
    name: str = ""
    traits = Traits(side=Side.BOTH)
    lower = 0.0
    needs_motion = False

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Nothing: what the spring gives to the link it takes from the motor."""
        return empty_panels(robot, samples)


@motor_regressor.register(SpringTerm)
def _(term: SpringTerm, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """One line a wanted joint."""
    return term.panels(robot, samples, term.basis(robot, samples), wanted)


@dataclass(frozen=True)
class Stiffness(SpringTerm):
    """Linear spring of the transmission: K_j (theta_j - q_j) on the motor, its opposite on the link.

    K in N m/rad (N/m when prismatic), from the energy 1/2 K (q - theta)^2.
    Source: Zollo et al. 2014, eqs 1 and 6.
    """

    name: str = "stiffness"
    symbol = "K"
    words = TermWords(symbols=(Symbol("K", "K", "", "stiffness between motor and link"),))
    unit_revolute = "N m/rad"
    unit_prismatic = "N/m"

    def prior(self, robot: RobotModel) -> Float:
        """Stiffness of the drive."""
        return robot.drive.stiffness

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Deflection theta - q."""
        motor = samples.motor
        return np.asarray(motor.q - samples.q)


@energy_form.register(Stiffness)
def _(term: Stiffness, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Energy h = (theta - q)^2 / 2 of the spring; nothing is lost."""
    acting = list(joint_indices(robot, term.joints))
    h = 0.5 * term.basis(robot, samples).T[acting] ** 2
    return np.ascontiguousarray(h[wanted]), empty_panels(robot, samples)


@motor_work.register(Stiffness)
def _(term: Stiffness, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """Nothing: what the motor gives to the spring is stored."""
    return empty_panels(robot, samples)


def is_stiffness(column: Column) -> bool:
    """Whether a parameter is the stiffness of a spring between motor and link."""
    return column.term == Stiffness.name


@dataclass(frozen=True)
class JointDamping(SpringTerm):
    """Linear damper beside the spring: D_j (dtheta_j - dq_j) on the motor, its opposite on the link, N m s/rad."""

    name: str = "joint_damping"
    symbol = "D"
    words = TermWords(symbols=(Symbol("D", "D", "", "damping between motor and link"),))
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"

    def prior(self, robot: RobotModel) -> Float:
        """Damping of the drive."""
        return robot.drive.damping

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Rate of the deflection."""
        motor = samples.motor
        return np.asarray(motor.dq - samples.dq)


@dataclass(frozen=True)
class LinkViscous(JointTerm):
    """Viscous friction behind the spring: fvl_j dq_j on the link.

    A link encoder that lags by d seconds shows up here as well: it adds K d dq to the spring's apparent torque, so the
    coefficient takes either sign.
    """

    name: str = "link_viscous"
    symbol = "fvl"
    words = TermWords(symbols=(Symbol("fvl", "f", "v,link", "viscous friction behind the spring"),))
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"
    traits = Traits()

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Link velocity."""
        return samples.dq


@dataclass(frozen=True)
class LinkCoulomb(JointTerm):
    """Dry friction behind the spring: fcl_j s(dq_j) on the link, s = sign or tanh(dq / width).

    Hysteresis of the transmission shows up here: the deflection lags behind the torque by half its loop's width.
    """

    width: float = 0.0
    name: str = "link_coulomb"
    symbol = "fcl"
    words = TermWords(symbols=(Symbol("fcl", "f", "c,link", "Coulomb friction behind the spring"),))
    unit_revolute = "N m"
    unit_prismatic = "N"
    traits = Traits()

    def __post_init__(self) -> None:
        check_width(self.width)

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Smoothed or plain sign of the link velocity."""
        return direction(samples, self.width)


@dataclass(frozen=True)
class LinkOffset(JointTerm):
    """Constant torque behind the spring: fol_j on the link; -K_j times the encoders' difference at no torque."""

    name: str = "link_offset"
    symbol = "fol"
    words = TermWords(symbols=(Symbol("fol", "f", "o,link", "constant torque behind the spring"),))
    unit_revolute = "N m"
    unit_prismatic = "N"
    traits = Traits()

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """One."""
        return np.ones_like(samples.dq)


def on_joints(term: Term, names: tuple[str, ...]) -> Term | None:
    """The term with its spring on these joints only; None if none of them has it."""
    if not isinstance(term, SpringTerm):
        return term
    kept = tuple(name for name in names if not term.joints or name in term.joints)
    return replace(term, joints=kept) if kept else None


# Elastic joints seen by one encoder: the link lags behind the motor by what its torque winds up.

STEP = 1e-3


@dataclass(frozen=True)
class Compliance(NominalTerm):
    """Link positions q - c_j tau_j e_j in place of q, to first order in the compliances c_j (rad/(N m), m/N).

    tau_j is the torque that bodies of a nominal model ask for; the term is minus the derivative of that torque along
    (tau_j, dtau_j/dt, d2tau_j/dt2) on joint j. The encoder sits at the motor; 1 / c_j is the joint's stiffness.
    inertia: of the nominal model; drives are not read.    joints: names of the elastic joints; empty = all.
    Source: Spong 1987, expanded for stiff joints.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    joints: tuple[str, ...] = ()
    name: str = "compliance"
    traits = replace(NominalTerm.traits, reads=Reads.RATE)
    words = TermWords(symbols=(Symbol("cq", "c", "", "compliance of the joint"),))

    selection = Selection(
        Role.ROBOT,
        Question("elasticity"),
        by_joint(
            "compliance",
            "{count} elastic joint{s}",
            lambda log: None if log.both_sides else Compliance(log.inertia),
            positive=True,
        ),
    )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One compliance a joint."""
        return tuple(
            Column(
                f"cq{j + 1}",
                "m/N" if robot.prismatic[j] else "rad/(N m)",
                self.name,
                j,
                lower=0.0,
                moved_by=(j,),
            )
            for j in joint_indices(robot, self.joints)
        )

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Minus the directional derivatives, by central differences: exact in velocity and acceleration."""
        motion = (samples.q, samples.dq, samples.ddq)
        torque = self.nominal.rigid(robot, *motion)
        first = slope(torque, samples.rate)
        along = (torque, first, slope(first, samples.rate))
        found = []
        for j in joint_indices(robot, self.joints):
            step = STEP / max(float(np.abs(torque[:, j]).max(initial=0.0)), 1e-12)
            only = np.eye(robot.n)[j]
            ends = [
                self.nominal.rigid(
                    robot, *(x + sign * step * d * only for x, d in zip(motion, along, strict=True))
                )
                for sign in (1.0, -1.0)
            ]
            found.append((ends[1] - ends[0]) / (2.0 * step))
        return tuple(found)
