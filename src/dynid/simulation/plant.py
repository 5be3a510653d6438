"""The simulated plant: links, rotors, elastic joints, loads and friction, and its equations of motion.

Generalised coordinates x are the joint positions q, and with elastic joints also the motor positions on the joint side,
theta, with theta_m = N theta. With full coupling every rotor is a body of the tree, so that its gyroscopic torque on
the link that carries it follows from the same kernel as everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import (
    Tree,
    equations_of_motion,
    inverse_dynamics,
    kinetic_energy_regressor,
    potential_energy_regressor,
    solved,
)
from dynid.kernel.multibody import Multibody
from dynid.robot.model import Mounting, RobotModel
from dynid.spatial.inertia import six

# Loads on the joints, and friction in the drives.

# rad/s (m/s): width of the smoothed sign, small compared with usual speeds.
SMOOTHING = 0.01


class Load(Protocol):
    """Interface of a load on the links, such as a spring, counterbalance or damper; for several states at once."""

    def torque(self, q: Float, dq: Float) -> Float:
        """Joint torque (B, n) that the drives must supply against the load, for states (B, n)."""
        ...

    def energy(self, q: Float) -> Float:
        """Stored energy, (B,) J; zeros if it stores none."""
        ...


class Friction(Protocol):
    """Interface of friction in the drives, per motor, possibly with internal states (LuGre, Dahl).

    Velocity is the motor's divided by its own gear ratio, and torque the motor's times this ratio. So coefficients
    refer to the joint if joints are not coupled. The plant maps them to the joints.
    """

    @property
    def states(self) -> int:
        """Number of internal states of all motors."""
        ...

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n) at velocities (B, n) and internal states (B, states)."""
        ...

    def rate(self, velocity: Float, state: Float) -> Float:
        """Time derivative (B, states) of the internal states."""
        ...


@dataclass(frozen=True)
class FunctionLoad:
    """Load from functions; a spring is FunctionLoad(lambda q, dq: k * q, lambda q: 0.5 * k * (q**2).sum(1)).

    Parameters
    ----------
    law : callable
        q (B, n), dq (B, n) -> torque (B, n) that the drives must supply.
    stored : callable, optional
        q (B, n) -> energy (B,); None = no energy is stored.

    """

    law: Callable[[Float, Float], Float]
    stored: Callable[[Float], Float] | None = None

    def torque(self, q: Float, dq: Float) -> Float:
        """Torque of the law."""
        return self.law(q, dq)

    def energy(self, q: Float) -> Float:
        """Stored energy."""
        return np.zeros(len(q)) if self.stored is None else self.stored(q)


@dataclass(frozen=True, eq=False)
class SmoothFriction:
    """Viscous and Coulomb friction without states, tau = viscous v + coulomb tanh(v / width).

    Parameters
    ----------
    viscous, coulomb : ndarray, shape (n,), N m s/rad and N m (N s/m and N)
        Coefficients.
    width : float, rad/s (m/s)
        Width of the smoothed sign.

    Raises
    ------
    UsageError
        If a coefficient is negative or not finite, or the width is not positive.

    """

    viscous: Float
    coulomb: Float
    width: float = SMOOTHING

    def __post_init__(self) -> None:
        n = len(self.viscous)
        for name in ("viscous", "coulomb"):
            values = locked(getattr(self, name), (n,), name)
            if not (np.isfinite(values) & (values >= 0)).all():
                raise UsageError(
                    "friction", found=f"{name} = {values.tolist()}", expected="finite numbers >= 0"
                )
            object.__setattr__(self, name, values)
        if not self.width > 0:
            raise UsageError("friction", found=f"width = {self.width}", expected="a velocity > 0")

    @staticmethod
    def of(robot: RobotModel, width: float = SMOOTHING) -> SmoothFriction:
        """Friction of the robot's prior (URDF); unknown values are zero."""
        viscous, coulomb = np.nan_to_num(robot.friction_prior, nan=0.0).T
        return SmoothFriction(viscous, coulomb, width)

    @property
    def states(self) -> int:
        """0: there are no internal states."""
        return 0

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque."""
        return np.asarray(self.viscous * velocity + self.coulomb * np.tanh(velocity / self.width))

    def rate(self, velocity: Float, state: Float) -> Float:
        """Empty array."""
        return np.zeros_like(state)


# Between motors and links: elastic joints and coupling of rotors.


class Coupling(StrEnum):
    """Motion of rotors: with the links that carry them, or as inertias that only spin (Spong 1987)."""

    FULL = "full"
    SIMPLIFIED = "simplified"


@dataclass(frozen=True, eq=False)
class Elasticity:
    """Springs between motors and joints, tau = K (theta - q) + D (theta' - q').

    Parameters
    ----------
    stiffness : ndarray, shape (n,), N m/rad
        K.
    damping : ndarray, shape (n,), N m s/rad
        D.

    Raises
    ------
    UsageError
        Unless stiffness is positive and finite, and damping neither negative nor infinite.

    """

    stiffness: Float
    damping: Float

    def __post_init__(self) -> None:
        n = len(self.stiffness)
        for name in ("stiffness", "damping"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))
        K, D = self.stiffness, self.damping
        if not (np.isfinite(K) & (K > 0)).all() or not (np.isfinite(D) & (D >= 0)).all():
            raise UsageError(
                "elasticity",
                found=f"stiffness {K.tolist()}, damping {D.tolist()}",
                expected="finite numbers, stiffness > 0, damping >= 0",
            )


# Random postures in which the mass matrix must be positive definite.
_STATES_TRIED = 16


@dataclass(frozen=True, eq=False)
class State:
    """Joint motion q, dq and motor motion theta, dtheta on the joint side, (B, n) each; the same for rigid joints."""

    q: Float
    dq: Float
    theta: Float
    dtheta: Float


@dataclass(frozen=True, eq=False)
class Plant:
    """An exactly known robot.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    inertia : ndarray, shape (nb, 10), optional
        Inertial parameters of the links; None = the prior's (URDF).
    rotor_inertia : ndarray, shape (n,), kg m^2, optional
        Rotor inertia I_m at the motors; None = the prior's (URDF).
    elasticity : Elasticity, optional
        Elastic joints; None = rigid joints.
    coupling : Coupling
        Full: rotors are bodies that the links carry. The inertia of a link then includes that of the rotors on it, as
        if they were locked, so that a rotor counts once (Zollo et al. 2014).
    mounting : Mounting, optional
        Place of the motors; None = on the link before the joint, along its axis.
    payload : ndarray, shape (nb, 10), optional
        Inertial parameters added to the links.
    loads : tuple of Load
        Torque on the links.
    friction : Friction, optional
        Friction in the drives.

    Raises
    ------
    InputError
        For unknown (nan) inertia.
    UsageError
        For a mass matrix that is not positive definite.

    """

    robot: RobotModel
    inertia: Float | None = None
    rotor_inertia: Float | None = None
    elasticity: Elasticity | None = None
    coupling: Coupling = Coupling.SIMPLIFIED
    mounting: Mounting | None = None
    payload: Float | None = None
    loads: tuple[Load, ...] = ()
    friction: Friction | None = None
    bodies: Float = field(init=False, repr=False)
    rotors: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        robot = self.robot
        bodies = robot.inertia_prior if self.inertia is None else np.asarray(self.inertia)
        total = bodies if self.payload is None else bodies + np.asarray(self.payload)
        object.__setattr__(self, "bodies", locked(total, (robot.n_bodies, 10), "inertia"))
        given = self.rotor_inertia
        # An unknown rotor inertia is zero in a rigid joint; an elastic joint cannot move without one.
        rotors = np.nan_to_num(robot.drive.rotor_inertia, nan=0.0) if given is None else given
        object.__setattr__(self, "rotors", locked(rotors, (robot.n,), "rotor_inertia"))
        self._check()

    def _check(self) -> None:
        unknown = [self.robot.body_names[i] for i in np.flatnonzero(~np.isfinite(self.bodies).all(axis=1))]
        if unknown:
            raise InputError(
                "unknown-inertia",
                found=f"no inertia of {', '.join(unknown)}",
                expected="ten inertial parameters of every link",
                do="add the inertials of these links to the robot file",
            )
        if not (np.isfinite(self.rotors) & (self.rotors >= 0)).all():
            raise UsageError(
                "rotor-inertia", found=f"{self.rotors.tolist()} kg m^2", expected="finite numbers >= 0"
            )
        if self.elasticity is not None and len(self.elasticity.stiffness) != self.robot.n:
            raise UsageError(
                "array-shape",
                found=f"{len(self.elasticity.stiffness)} stiffnesses",
                expected=f"{self.robot.n}, one per joint",
            )
        if self.elasticity is not None and not (self.rotors > 0).all():
            bad = [self.robot.joint_names[i] for i in np.flatnonzero(self.rotors == 0)]
            raise UsageError(
                "rotor-inertia",
                found=f"elastic joints without rotor inertia: {', '.join(bad)}",
                expected="a rotor inertia > 0 at every elastic joint",
                do="set drive.rotor_inertia of these joints",
            )
        if self.robot.drive.linkages and self.coupling is Coupling.FULL:
            raise UsageError(
                "coupling",
                found="full rotor coupling with a linkage of bars",
                expected="simplified coupling where a transmission depends on the position",
            )
        x = self._postures()
        least = np.linalg.eigvalsh(self.equations(x, np.zeros_like(x))[0]).min()
        if not least > 0:
            raise UsageError(
                "not-physical",
                found=f"a mass matrix with eigenvalue {least:.4g}",
                expected="a positive definite mass matrix in every posture",
                do="with full coupling the links must include the rotors they carry"
                if self.coupling is Coupling.FULL
                else "check inertias and rotors",
            )

    def _postures(self) -> Float:
        # Random postures; with linkages near the reference posture, where they close.
        x = np.random.default_rng(0).uniform(-np.pi, np.pi, (_STATES_TRIED, self.size))
        if not self.robot.drive.linkages:
            return x
        return np.resize(self.robot.drive.reference, self.size) + 1e-2 * x

    @cached_property
    def n(self) -> int:
        """Number of joints."""
        return self.robot.n

    @cached_property
    def size(self) -> int:
        """Number of generalised coordinates: n, or 2 n with elastic joints."""
        return self.n if self.elasticity is None else 2 * self.n

    @property
    def states(self) -> int:
        """Length of a state vector (x, x', internal states of the friction)."""
        return 2 * self.size + self.friction_states

    @cached_property
    def friction_states(self) -> int:
        """Number of internal states of the friction."""
        return 0 if self.friction is None else self.friction.states

    @property
    def rigid(self) -> Plant:
        """The same robot with rigid joints."""
        # Not cached if it is this plant: a reference to itself would delay garbage collection.
        return self if self.elasticity is None else self._without_elasticity

    @cached_property
    def _without_elasticity(self) -> Plant:
        return replace(self, elasticity=None)

    @cached_property
    def tree(self) -> Tree:
        """Links, and with full coupling the rotors after them."""
        tree = self.robot.tree
        if self.coupling is Coupling.SIMPLIFIED:
            return tree
        n, mounting = self.n, self.carriers
        return Tree(
            parent=np.concatenate([tree.parent, mounting.carrier]),
            prismatic=np.concatenate([tree.prismatic, np.zeros(n, dtype=np.bool_)]),
            axis=np.concatenate([tree.axis, mounting.axis]),
            rotation=np.concatenate([tree.rotation, np.tile(np.eye(3), (n, 1, 1))]),
            translation=np.concatenate([tree.translation, np.zeros((n, 3))]),
            gravity=tree.gravity,
        )

    @cached_property
    def tree_inertia(self) -> Float:
        """Ten parameters of every body of the tree; a rotor is inertia about its axis, taken off its carrier."""
        if self.coupling is Coupling.SIMPLIFIED:
            return self.bodies
        mounting = self.carriers
        spinning = np.zeros((self.n, 10))
        carrying = np.array(self.bodies)
        for i, (carrier, z) in enumerate(zip(mounting.carrier, mounting.axis, strict=True)):
            spinning[i, 4:] = self.rotors[i] * six(np.outer(z, z))
            if carrier >= 0:
                carrying[carrier] -= spinning[i]
        return np.concatenate([carrying, spinning])

    @cached_property
    def projection(self) -> Float:
        """P with tree coordinates = P x + offset."""
        P, N = self.robot.projection, self.robot.drive.transmission
        links = P if self.elasticity is None else np.hstack([P, np.zeros_like(P)])
        if self.coupling is Coupling.SIMPLIFIED:
            return links
        return np.vstack([links, N if self.elasticity is None else np.hstack([np.zeros_like(N), N])])

    @cached_property
    def reflected(self) -> Float:
        """Inertia of the rotors at the joints, N' I_m N, (n, n)."""
        N = self.robot.drive.transmission
        return np.asarray(N.T @ (self.rotors[:, None] * N))

    @cached_property
    def carriers(self) -> Mounting:
        """Place of the motors."""
        return Mounting.of(self.robot) if self.mounting is None else self.mounting

    @cached_property
    def _offset(self) -> Float:
        extra = 0 if self.coupling is Coupling.SIMPLIFIED else self.n
        return np.concatenate([self.robot.projection_offset, np.zeros(extra)])

    @cached_property
    def _direct(self) -> bool:
        # Whether tree coordinates equal the joint coordinates.
        return np.array_equal(self.projection, np.eye(len(self.projection))) and not self._offset.any()

    @cached_property
    def _motors(self) -> Float | None:
        # N over each motor's ratio, by which its friction is given; None = identity.
        drive = self.robot.drive
        return drive.transmission / drive.own_ratio[:, None] if drive.coupled else None

    def _rotor_equations(self, theta: Float, dtheta: Float) -> tuple[Float, Float | None]:
        # Mass (B or 1, n, n) and bias (B, n) of rotors without coupling to links.
        drive = self.robot.drive
        if not drive.linkages:
            return self.reflected[None], None
        J = drive.jacobian(theta)
        drift = drive.motor_motion(theta, dtheta, np.zeros_like(theta))[2]
        return (
            np.einsum("bmi,m,bmj->bij", J, self.rotors, J),
            np.einsum("bmi,bm->bi", J, self.rotors * drift),
        )

    @cached_property
    def multibody(self) -> Multibody | None:
        """The plant for the compiled step; None with loads, linkages, or friction that is not smooth."""
        friction, n, s = self.friction, self.n, self.size
        smooth = friction is None or (isinstance(friction, SmoothFriction) and self._motors is None)
        if self.loads or self.robot.drive.linkages or not smooth:
            return None
        mass, stiffness, damping = np.zeros((3, s, s))
        if self.coupling is Coupling.SIMPLIFIED:
            mass[-n:, -n:] = self.reflected
        if self.elasticity is not None:
            between: Float = np.kron(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.eye(n))
            stiffness = np.asarray(between * np.tile(self.elasticity.stiffness, 2))
            damping = np.asarray(between * np.tile(self.elasticity.damping, 2))
        motors = np.arange(s - n, s)
        plain = Multibody(
            self.tree, self.tree_inertia, self.projection, mass, motors, self._offset, stiffness, damping
        )
        if not isinstance(friction, SmoothFriction):
            return plain
        damping[motors, motors] += friction.viscous
        width = np.full(n, friction.width)
        return replace(plain, damping=damping, at=motors, level=friction.coulomb, width=width)

    def equations(self, x: Float, v: Float) -> tuple[Float, Float]:
        """Mass matrix (B, size, size) and bias (B, size), M x'' + h = generalised force, without loads."""
        n = self.n
        if self._direct:
            M, h = equations_of_motion(self.tree, self.tree_inertia, x, v)
        else:
            P = self.projection
            M, h = equations_of_motion(self.tree, self.tree_inertia, x @ P.T + self._offset, v @ P.T)
            M, h = P.T @ M @ P, h @ P
        if self.coupling is Coupling.SIMPLIFIED:
            mass, bias = self._rotor_equations(x[:, -n:], v[:, -n:])
            M[:, -n:, -n:] += mass
            if bias is not None:
                h[:, -n:] += bias
        return M, h

    def state(self, y: Float) -> State:
        """Motion of joints and motors in state vectors (B, states)."""
        n, s = self.n, self.size
        return State(y[:, :n], y[:, s : s + n], y[:, s - n : s], y[:, 2 * s - n : 2 * s])

    def vector(self, state: State, friction: Float | None = None) -> Float:
        """State vectors (B, states) of a motion; friction: internal states (B, friction_states), None = zero."""
        parts = [state.q, state.dq]
        if self.elasticity is not None:
            parts = [state.q, state.theta, state.dq, state.dtheta]
        inner = np.zeros((len(state.q), self.friction_states)) if friction is None else friction
        return np.concatenate([*parts, inner], axis=1)

    def at_rest(self, q: Float) -> Float:
        """State vectors (B, states) of the robot at rest at joint positions (B, n)."""
        zero = np.zeros_like(q)
        theta = q if self.elasticity is None else q + self.holding_torque(q) / self.elasticity.stiffness
        return self.vector(State(q, zero, theta, zero))

    def holding_torque(self, q: Float) -> Float:
        """Joint torque (B, n) that keeps the links at rest: gravity and loads."""
        zero = np.zeros_like(q)
        return self.rigid.equations(q, zero)[1] + self.load_torque(q, zero)

    def load_torque(self, q: Float, dq: Float) -> Float:
        """Torque of all loads, (B, n)."""
        total = np.zeros_like(q)
        for load in self.loads:
            total = total + load.torque(q, dq)
        return total

    def friction_torque(self, y: Float) -> Float:
        """Friction torque in the drives, (B, n), on the joint side."""
        state = self.state(y)
        if self.friction is None:
            return np.zeros_like(state.dtheta)
        inner = y[:, 2 * self.size :]
        if self._motors is None:
            return self.friction.torque(state.dtheta, inner)
        torque = self.friction.torque(self._motor_speed(state), inner)
        return self.robot.drive.pulled(state.theta, torque @ self._motors)

    def _friction_rate(self, y: Float, friction: Friction) -> Float:
        state = self.state(y)
        return friction.rate(self._motor_speed(state), y[:, 2 * self.size :])

    def _motor_speed(self, state: State) -> Float:
        # Of the motors over their ratios, (B, n).
        if self._motors is None:
            return state.dtheta
        drive = self.robot.drive
        return drive.motor_motion(state.theta, state.dtheta, state.dtheta)[1] / drive.own_ratio

    def spring_torque(self, state: State) -> Float:
        """Spring torque K (theta - q) + D (theta' - q'), (B, n); raises UsageError for rigid joints."""
        if self.elasticity is None:
            raise UsageError("rigid", found="a robot with rigid joints", expected="elastic joints")
        twist, rate = state.theta - state.q, state.dtheta - state.dq
        return np.asarray(self.elasticity.stiffness * twist + self.elasticity.damping * rate)

    def acceleration(self, y: Float, u: Float) -> Float:
        """Acceleration x'' (B, size) under drive torque u (B, n), which is motor torque on the joint side, N' tau_m."""
        n, s = self.n, self.size
        M, h = self.equations(y[:, :s], y[:, s : 2 * s])
        force = -h
        state = self.state(y)
        force[:, -n:] += u
        if self.friction is not None:
            force[:, -n:] -= self.friction_torque(y)
        if self.loads:
            force[:, :n] -= self.load_torque(state.q, state.dq)
        if self.elasticity is not None:
            spring = self.spring_torque(state)
            force[:, :n] += spring
            force[:, n:] -= spring
        return solved(M, force)

    def rate(self, y: Float, u: Float) -> Float:
        """Derivative dy/dt (B, states) under drive torque u (B, n)."""
        s = self.size
        parts = [y[:, s : 2 * s], self.acceleration(y, u)]
        if self.friction is not None and self.friction_states:
            parts.append(self._friction_rate(y, self.friction))
        return np.concatenate(parts, axis=1)

    def transmitted_torque(self, state: State, acceleration: Float) -> Float:
        """Torque (B, n) that reaches the links, as a sensor behind the gear sees it; acceleration: x'' (B, size)."""
        if self.elasticity is not None:
            return self.spring_torque(state)
        P, nb = self.projection, self.robot.n_bodies
        motion = (state.q @ P.T + self._offset, state.dq @ P.T, acceleration @ P.T)
        bodies = inverse_dynamics(self.tree, self.tree_inertia, *motion)[:, :nb]
        return np.asarray(bodies @ self.robot.projection + self.load_torque(state.q, state.dq))

    def drive_torque(self, state: State, acceleration: Float, friction: Float | None = None) -> Float:
        """Drive torque of a motion (inverse dynamics).

        Parameters
        ----------
        state : State
            Positions and velocities.
        acceleration : ndarray, shape (B, size)
            Accelerations x''.
        friction : ndarray, shape (B, friction_states), optional
            Internal states of the friction; None = zero.

        Returns
        -------
        ndarray, shape (B, n), N m (N)
            Drive torque u.

        """
        y = self.vector(state, friction)
        s = self.size
        M, h = self.equations(y[:, :s], y[:, s : 2 * s])
        force = (np.einsum("bij,bj->bi", M, acceleration) + h)[:, -self.n :]
        if self.elasticity is None:
            force = force + self.load_torque(state.q, state.dq)
        else:
            force = force + self.spring_torque(state)
        return np.asarray(force + self.friction_torque(y))

    def energy(self, y: Float) -> Float:
        """Kinetic and potential energy of links, rotors, elastic joints and loads, (B,) J."""
        s, P = self.size, self.projection
        x, v = y[:, :s], y[:, s : 2 * s]
        pi, q = np.ravel(self.tree_inertia), x @ P.T + self._offset
        total = pi @ kinetic_energy_regressor(self.tree, q, v @ P.T)
        total = total + pi @ potential_energy_regressor(self.tree, q)
        if self.coupling is Coupling.SIMPLIFIED:
            dtheta = v[:, -self.n :]
            mass = self._rotor_equations(x[:, -self.n :], dtheta)[0]
            total = total + 0.5 * np.einsum(
                "bi,bij,bj->b", dtheta, np.broadcast_to(mass, (len(v), *mass.shape[1:])), dtheta
            )
        state = self.state(y)
        if self.elasticity is not None:
            total = total + 0.5 * (state.theta - state.q) ** 2 @ self.elasticity.stiffness
        for load in self.loads:
            total = total + load.energy(state.q)
        return np.asarray(total)


# Friction with internal states.


@dataclass(frozen=True, eq=False)
class Dahl:
    """Dahl friction: dz/dt = v - stiffness |v| z / coulomb, tau = stiffness z.

    Parameters
    ----------
    coulomb : ndarray, shape (n,), N m (N)
        Coulomb friction, > 0.
    stiffness : ndarray, shape (n,), N m/rad (N/m)
        Stiffness of the contact before it slides, > 0.

    Raises
    ------
    UsageError
        For a value that is not positive.

    References
    ----------
    Dahl 1968, exponent 1.

    """

    coulomb: Float
    stiffness: Float

    def __post_init__(self) -> None:
        _lock(self, ("coulomb", "stiffness"), least_open=True)

    @property
    def states(self) -> int:
        """One deflection per motor."""
        return len(self.coulomb)

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n)."""
        return np.asarray(self.stiffness * state)

    def rate(self, velocity: Float, state: Float) -> Float:
        """Rate of the deflections (B, n)."""
        return np.asarray(velocity - self.stiffness * np.abs(velocity) * state / self.coulomb)


@dataclass(frozen=True, eq=False)
class LuGre:
    """LuGre friction: dz/dt = v - stiffness |v| z / g(v), tau = stiffness z + damping dz/dt + viscous v.

    g(v) = coulomb + (static - coulomb) exp(-(v / velocity)^2). damping decreases as exp(-(v / velocity)^2), which keeps
    the model passive.

    Parameters
    ----------
    coulomb, static : ndarray, shape (n,), N m
        Coulomb and static friction.
    velocity : ndarray, shape (n,), rad/s
        Stribeck velocity.
    stiffness : ndarray, shape (n,), N m/rad
        Stiffness of the contact.
    damping, viscous : ndarray, shape (n,), N m s/rad
        Damping of the contact, and viscous friction.

    Raises
    ------
    UsageError
        For a negative value, a zero divisor, or static below coulomb.

    References
    ----------
    Canudas de Wit, Olsson, Astrom and Lischinsky 1995.

    """

    coulomb: Float
    static: Float
    velocity: Float
    stiffness: Float
    damping: Float
    viscous: Float

    def __post_init__(self) -> None:
        _lock(self, ("coulomb", "static", "velocity", "stiffness"), least_open=True)
        _lock(self, ("damping", "viscous"), least_open=False)
        if (self.static < self.coulomb).any():
            raise UsageError(
                "friction",
                found=f"static = {self.static.tolist()} below coulomb",
                expected="static >= coulomb",
            )

    @property
    def states(self) -> int:
        """One deflection per motor."""
        return len(self.coulomb)

    def level(self, velocity: Float) -> Float:
        """Steady friction g(v), (B, n)."""
        return np.asarray(self.coulomb + (self.static - self.coulomb) * self._slow(velocity))

    def _slow(self, velocity: Float) -> Float:
        return np.asarray(np.exp(-((velocity / self.velocity) ** 2)))

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n)."""
        damping = self.damping * self._slow(velocity)
        return np.asarray(
            self.stiffness * state + damping * self.rate(velocity, state) + self.viscous * velocity
        )

    def rate(self, velocity: Float, state: Float) -> Float:
        """Rate of the deflections (B, n)."""
        return np.asarray(velocity - self.stiffness * np.abs(velocity) * state / self.level(velocity))


def _lock(model: object, names: tuple[str, ...], least_open: bool) -> None:
    for name in names:
        values = locked(np.atleast_1d(getattr(model, name)), (None,), name)
        good = np.isfinite(values) & ((values > 0) if least_open else (values >= 0))
        if not good.all():
            expected = "finite numbers > 0" if least_open else "finite numbers >= 0"
            raise UsageError("friction", found=f"{name} = {values.tolist()}", expected=expected)
        object.__setattr__(model, name, values)
