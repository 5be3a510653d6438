"""Elastic joints: springs and dampers between motor and link, spinning rotors, friction behind the spring.

q is the link's position, theta the motor's divided by the gear ratio; the spring carries K (theta - q) to the link.
Source: Zollo et al. 2014, eqs 1 to 8, with the missing 1/2 of the elastic energy and the bars of q restored.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.kernel import Panels, reference
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.friction import direction
from dynid.terms.joint_term import JointTerm, joint_indices
from dynid.terms.term import Column, Side, Symbol, Term, empty_panels


@dataclass(frozen=True)
class SpringTerm(Term):
    """A torque between motor and link, one parameter a joint: +basis on the motor, -basis on the link.

    It drops out of the sum of both equations, so that a log with one encoder a joint says nothing about it.

    joints: those that have it; () = all.
    """

    joints: tuple[str, ...] = ()
    name: str = ""
    side = Side.BOTH
    symbol = ""
    unit_revolute = ""
    unit_prismatic = ""

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column a joint that has it."""
        return tuple(
            Column(
                name=f"{self.symbol}{joint + 1}",
                unit=self.unit_prismatic if robot.prismatic[joint] else self.unit_revolute,
                term=self.name,
                owner=joint,
                prior=float(self.prior(robot)[joint]),
                lower=0.0,
            )
            for joint in joint_indices(robot, self.joints)
        )

    @abstractmethod
    def prior(self, robot: RobotModel) -> Float:
        """What the description says of each joint, (n,); nan = unknown."""

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Nothing: what the spring gives to the link it takes from the motor."""
        return empty_panels(robot, samples)

    def motor_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """One line a wanted joint."""
        basis, panels = self.basis(samples), empty_panels(robot, samples)
        columns, values = list(panels.columns), list(panels.values)
        for index, joint in enumerate(joint_indices(robot, self.joints)):
            if wanted[index]:
                columns[joint] = np.array([index], dtype=np.int64)
                values[joint] = np.ascontiguousarray(basis[:, joint])[None, :]
        return Panels(tuple(columns), tuple(values))

    @abstractmethod
    def basis(self, samples: Samples) -> Float:
        """Torque on the motor per unit of the parameter, (T, n)."""


@dataclass(frozen=True)
class Stiffness(SpringTerm):
    """Linear spring of the transmission: K_j (theta_j - q_j) on the motor, its opposite on the link.

    K in N m/rad (N/m when prismatic), from the energy 1/2 K (q - theta)^2.
    Source: Zollo et al. 2014, eqs 1 and 6.
    """

    name: str = "stiffness"
    symbol = "K"
    symbols = (Symbol("K", "K", "", "stiffness between motor and link"),)
    unit_revolute = "N m/rad"
    unit_prismatic = "N/m"

    def prior(self, robot: RobotModel) -> Float:
        """Stiffness of the drive."""
        return robot.drive.stiffness

    def basis(self, samples: Samples) -> Float:
        """Deflection theta - q."""
        motor = samples.motor
        return np.asarray(motor.q - samples.q)


def is_stiffness(column: Column) -> bool:
    """Whether a parameter is the stiffness of a spring between motor and link."""
    return column.term == Stiffness.name


@dataclass(frozen=True)
class JointDamping(SpringTerm):
    """Linear damper beside the spring: D_j (dtheta_j - dq_j) on the motor, its opposite on the link, N m s/rad."""

    name: str = "joint_damping"
    symbol = "D"
    symbols = (Symbol("D", "D", "", "damping between motor and link"),)
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"

    def prior(self, robot: RobotModel) -> Float:
        """Damping of the drive."""
        return robot.drive.damping

    def basis(self, samples: Samples) -> Float:
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
    symbols = (Symbol("fvl", "f", "v,link", "viscous friction behind the spring"),)
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"
    side = Side.LINK

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
    symbols = (Symbol("fcl", "f", "c,link", "Coulomb friction behind the spring"),)
    unit_revolute = "N m"
    unit_prismatic = "N"
    side = Side.LINK

    def __post_init__(self) -> None:
        if not self.width >= 0:
            raise UsageError("coulomb-width", found=f"width = {self.width}", expected="a velocity >= 0")

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Smoothed or plain sign of the link velocity."""
        return direction(samples, self.width)


@dataclass(frozen=True)
class LinkOffset(JointTerm):
    """Constant torque behind the spring: fol_j on the link; -K_j times the encoders' difference at no torque."""

    name: str = "link_offset"
    symbol = "fol"
    symbols = (Symbol("fol", "f", "o,link", "constant torque behind the spring"),)
    unit_revolute = "N m"
    unit_prismatic = "N"
    side = Side.LINK

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """One."""
        return np.ones_like(samples.dq)


@dataclass(frozen=True)
class SpinningRotor(JointTerm):
    """Rotors that are carried by the link before their joint, with the gyroscopic coupling to that link.

    With N_j the gear ratio, Ia_j = N_j^2 I_m, z_j the motor's axis, w and dw the carrying link's angular velocity and
    acceleration: Ia_j (ddtheta_j + z_j . dw / N_j) on the motor, and on the carrying link the moment
    Ia_j / N_j (ddtheta_j z_j + dtheta_j w x z_j). Take it in place of `rotor_inertia`, which leaves the coupling out
    (Spong's simplification). The link's own inertia includes the whole rotor.

    axes: by joint, in the joint frame of the carrying body; () = along the joint's own axis.
    Source: Zollo et al. 2014, eqs 8 and A.8 to A.12.

    Raises UsageError for axes that are not one unit vector a joint, and for coupled transmissions.
    """

    axes: tuple[tuple[float, float, float], ...] = ()
    name: str = "spinning_rotor"
    symbol = "Ia"
    covers = ("rotor",)
    of_rotors = True
    unit_revolute = "kg m^2"
    unit_prismatic = "kg"
    lower = 0.0
    side = Side.BOTH

    def __post_init__(self) -> None:
        axes = np.array(self.axes, dtype=np.float64).reshape(-1, 3)
        if len(axes) and not np.allclose(np.linalg.norm(axes, axis=1), 1.0, atol=1e-9):
            raise UsageError("rotor-axes", found=f"axes {axes.tolist()}", expected="unit vectors")
        object.__setattr__(self, "axes", tuple((float(x), float(y), float(z)) for x, y, z in axes))

    def prior(self, robot: RobotModel) -> Float:
        """Reflected rotor inertia of the drive."""
        return robot.drive.reflected_rotor_inertia

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """On the motors: own acceleration and that of the carrying links about the motors' axes."""
        state = _links(robot, samples)
        basis = np.array(samples.motor.ddq)
        for joint, carrier, axis in self._mounts(robot):
            if carrier >= 0:
                basis[:, joint] += (axis @ state.al[carrier]) / robot.drive.gear_ratio[joint]
        return basis

    def motor_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """One line a wanted joint."""
        return super().torque_regressor(robot, samples, wanted)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The motors' lines and, on the joints that move a carrying link, what the rotor does to that link."""
        motor = samples.motor
        state = _links(robot, samples)
        lines = np.zeros((robot.n, robot.n, len(samples)))
        lines[np.arange(robot.n), np.arange(robot.n)] = self.basis(robot, samples).T
        for joint, carrier, axis in self._mounts(robot):
            if carrier < 0:
                continue
            spin = np.cross(state.w[carrier].T, axis) * motor.dq[:, [joint]]
            moment = (motor.ddq[:, [joint]] * axis + spin).T / robot.drive.gear_ratio[joint]
            for ancestor, (turning, _) in state.axes[carrier].items():
                share = (turning * moment).sum(axis=0)
                lines[:, joint] += robot.projection[ancestor][:, None] * share
        return _panels(lines, self._present(robot), wanted)

    def momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """P = dT/d(dq, dtheta) of T = Ia (dtheta^2 / 2 + dtheta z . w / N), both sides; R = -dT/dq."""
        motor, state = samples.motor, _links(robot, samples)
        P, R = (np.zeros((robot.n, robot.n, len(samples))) for _ in range(2))
        P[np.arange(robot.n), np.arange(robot.n)] = self._spin(robot, samples, state).T
        for joint, carrier, axis in self._mounts(robot):
            if carrier < 0:
                continue
            rate = motor.dq[:, joint] / robot.drive.gear_ratio[joint]
            turned = np.zeros((3, len(samples)))
            for ancestor in sorted(state.axes[carrier]):
                own = state.axes[carrier][ancestor][0]
                turned = turned + own * _speed(robot, samples, ancestor)
                turn = np.cross(turned.T, own.T) @ axis
                P[:, joint] += robot.projection[ancestor][:, None] * (rate * (axis @ own))
                R[:, joint] -= robot.projection[ancestor][:, None] * (rate * turn)
        present = self._present(robot)
        return _panels(P, present, wanted), _panels(R, present, wanted)

    def motor_momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """P = dtheta + z . w / N on the motors, and no R: no position occurs in it."""
        spin = self._spin(robot, samples, _links(robot, samples))
        return self.panels(robot, spin, wanted), empty_panels(robot, samples)

    def _spin(self, robot: RobotModel, samples: Samples, state: reference.Motion) -> Float:
        # Angular velocity of each rotor about its axis, over N, (T, n).
        spin = np.array(samples.motor.dq)
        for joint, carrier, axis in self._mounts(robot):
            if carrier >= 0:
                spin[:, joint] += (axis @ state.w[carrier]) / robot.drive.gear_ratio[joint]
        return spin

    def _mounts(self, robot: RobotModel) -> list[tuple[int, int, Float]]:
        # (joint, carrying body, axis of the motor in that body's joint frame)
        if robot.drive.coupled:
            raise UsageError(
                "rotor-coupled",
                found="spinning rotors behind a coupled transmission",
                expected="one motor a joint",
                do="use rotor_inertia",
            )
        if self.axes and len(self.axes) != robot.n:
            raise UsageError("rotor-axes", found=f"{len(self.axes)} axes", expected=f"{robot.n}, one a joint")
        mounts = []
        for joint, body in enumerate(robot.independent_bodies.tolist()):
            own = robot.T_parent_joint[body, :3, :3] @ robot.axis[body]
            axis = np.array(self.axes[joint]) if self.axes else own
            mounts.append((joint, int(robot.parent[body]), axis))
        return mounts

    def _present(self, robot: RobotModel) -> Bool:
        # (n, n): whether the rotor of a joint (second) acts on a joint (first).
        present = np.eye(robot.n, dtype=np.bool_)
        for joint, carrier, _ in self._mounts(robot):
            for ancestor in robot.tree.paths[carrier] if carrier >= 0 else ():
                present[:, joint] |= robot.projection[ancestor] != 0
        return present


def on_joints(term: Term, names: tuple[str, ...]) -> Term | None:
    """The term with its spring on these joints only; None if none of them has it."""
    if not isinstance(term, SpringTerm):
        return term
    kept = tuple(name for name in names if not term.joints or name in term.joints)
    return replace(term, joints=kept) if kept else None


def _speed(robot: RobotModel, samples: Samples, body: int) -> Float:
    # Velocity (T,) of the tree joint before a body.
    return np.asarray(samples.dq @ robot.projection[body])


def _links(robot: RobotModel, samples: Samples) -> reference.Motion:
    return reference.motion(robot.tree, *robot.tree_motion(samples.q, samples.dq, samples.ddq))


def _panels(lines: Float, present: Bool, wanted: Bool) -> Panels:
    columns = tuple(np.flatnonzero(row & wanted) for row in present)
    return Panels(columns, tuple(np.ascontiguousarray(lines[j][c]) for j, c in enumerate(columns)))
