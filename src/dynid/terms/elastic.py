"""Elastic joints: springs and dampers between motor and link, friction on the link side, compliance.

q is the position of the link, theta that of the motor divided by the gear ratio; the torque of the spring on the link
is K (theta - q). Source: Zollo et al. 2014, eqs 1 to 8, with the missing 1/2 of the elastic energy and the bars of q
restored.
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
    """A torque between motor and link, one parameter per joint: +basis on the motor, -basis on the link.

    It cancels in the sum of both equations, so it is not identifiable with one encoder per joint.

    Attributes
    ----------
    joints : tuple of str
        Joints that have it; () = all.

    """

    joints: tuple[str, ...] = ()
    name: str = ""
    traits = Traits(side=Side.BOTH)
    lower = 0.0
    needs_motion = False

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """No columns, since the torques on link and motor cancel."""
        return empty_panels(robot, samples)


@motor_regressor.register(SpringTerm)
def _(term: SpringTerm, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """One line per wanted joint."""
    return term.panels(robot, samples, term.basis(robot, samples), wanted)


@dataclass(frozen=True)
class Stiffness(SpringTerm):
    """Linear spring of the transmission: K_j (theta_j - q_j) on the motor, its opposite on the link.

    K in N m/rad (N/m for prismatic joints), from the energy 1/2 K (q - theta)^2.

    References
    ----------
    Zollo et al. 2014, eqs 1 and 6.

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
    """Energy h = (theta - q)^2 / 2; no other torque does work."""
    acting = list(joint_indices(robot, term.joints))
    h = 0.5 * term.basis(robot, samples).T[acting] ** 2
    return np.ascontiguousarray(h[wanted]), empty_panels(robot, samples)


@motor_work.register(Stiffness)
def _(term: Stiffness, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """No columns, since the spring stores the energy."""
    return empty_panels(robot, samples)


def is_stiffness(column: Column) -> bool:
    """Whether a parameter is a `Stiffness` between motor and link."""
    return column.term == Stiffness.name


@dataclass(frozen=True)
class JointDamping(SpringTerm):
    """Linear damper parallel to the spring: D_j (dtheta_j - dq_j) on the motor, its opposite on the link, N m s/rad."""

    name: str = "joint_damping"
    symbol = "D"
    words = TermWords(symbols=(Symbol("D", "D", "", "damping between motor and link"),))
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"

    def prior(self, robot: RobotModel) -> Float:
        """Damping of the drive."""
        return robot.drive.damping

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Rate of the deflection, dtheta - dq."""
        motor = samples.motor
        return np.asarray(motor.dq - samples.dq)


@dataclass(frozen=True)
class LinkViscous(JointTerm):
    """Viscous friction on the link side of the spring: fvl_j dq_j.

    A link encoder with a lag of d seconds adds K d dq to the apparent torque of the spring, so the coefficient may have
    either sign.
    """

    name: str = "link_viscous"
    symbol = "fvl"
    words = TermWords(symbols=(Symbol("fvl", "f", "v,link", "viscous friction on the link side"),))
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"
    traits = Traits()

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Link velocity."""
        return samples.dq


@dataclass(frozen=True)
class LinkCoulomb(JointTerm):
    """Dry friction on the link side of the spring: fcl_j s(dq_j), s = sign or tanh(dq / width).

    It also covers hysteresis of the transmission, whose coefficient is half the width of the loop.

    Attributes
    ----------
    width : float, rad/s (m/s)
        Width of the smoothed sign s; 0 = no smoothing.

    """

    width: float = 0.0
    name: str = "link_coulomb"
    symbol = "fcl"
    words = TermWords(symbols=(Symbol("fcl", "f", "c,link", "Coulomb friction on the link side"),))
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
    """Constant torque on the link side of the spring: fol_j = -K_j times the encoders' difference at zero torque."""

    name: str = "link_offset"
    symbol = "fol"
    words = TermWords(symbols=(Symbol("fol", "f", "o,link", "constant torque on the link side"),))
    unit_revolute = "N m"
    unit_prismatic = "N"
    traits = Traits()

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """One."""
        return np.ones_like(samples.dq)


def on_joints(term: Term, names: tuple[str, ...]) -> Term | None:
    """Restrict a `SpringTerm` to some joints, None if none of them has it; return other terms unchanged."""
    if not isinstance(term, SpringTerm):
        return term
    kept = tuple(name for name in names if not term.joints or name in term.joints)
    return replace(term, joints=kept) if kept else None


# Elastic joints with one encoder: the link deflects from the motor in proportion to its torque.

# rad or m: deflection by which the nominal torque is differentiated.
STEP = 1e-3


@dataclass(frozen=True)
class Compliance(NominalTerm):
    """Compliance of joints with encoders at the motors: link positions q - c_j tau_j e_j in place of q, to first order.

    tau_j is the torque of the links of a nominal model. The column of c_j is minus the derivative of this torque along
    (tau_j, dtau_j/dt, d2tau_j/dt2) on joint j. c_j is in rad/(N m) (m/N); 1 / c_j is the stiffness of the joint.

    Attributes
    ----------
    inertia : tuple of float
        Links of the nominal model, see `Nominal`.
    drives : tuple of float
        Not used.
    joints : tuple of str
        Elastic joints; () = all.

    References
    ----------
    Spong 1987, expanded for stiff joints.

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
        """One compliance per joint."""
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
        """Minus the directional derivatives, by central differences, which are exact in velocity and acceleration."""
        motion = (samples.q, samples.dq, samples.ddq)
        torque = self.nominal.rigid(robot, *motion)
        first = slope(torque, samples.rate)
        along = (torque, first, slope(first, samples.rate))
        lines = []
        for j in joint_indices(robot, self.joints):
            step = STEP / max(float(np.abs(torque[:, j]).max(initial=0.0)), 1e-12)
            only = np.eye(robot.n)[j]
            ends = [
                self.nominal.rigid(
                    robot, *(x + sign * step * d * only for x, d in zip(motion, along, strict=True))
                )
                for sign in (1.0, -1.0)
            ]
            lines.append((ends[1] - ends[0]) / (2.0 * step))
        return tuple(lines)
