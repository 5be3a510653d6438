"""Forward dynamics of a model as a function of motion, torque and base parameters, with derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.factor.base import BaseMap
from dynid.kernel import Panels, equations_of_motion, inverse_dynamics, torque_regressor
from dynid.kernel.adjoint import torque_jacobian
from dynid.kernel.multibody import Multibody, Parameter, Slope, parameter_table
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.mechanism import Mechanism
from dynid.terms.term import Terms

# Forward dynamics of models for the compiled step, as a function of base parameters.

_LINEAR = {Slope.ACCELERATION: "mass", Slope.VELOCITY: "damping", Slope.ONE: "constant"}


@dataclass(frozen=True, eq=False)
class CompiledDynamics:
    """Rigid links with rotors, viscous and smoothed dry friction and offsets, as a linear function of parameters.

    Attributes
    ----------
    known : Multibody
        System with all parameters zero.
    parameters : tuple of Parameter, length b
        Effect of each parameter.

    """

    known: Multibody
    parameters: tuple[Parameter, ...]

    @staticmethod
    def of(known: Multibody | None, parameters: tuple[Parameter, ...] | None) -> CompiledDynamics | None:
        """The compiled form; None for models with springs to motors, plain signs, or unsuitable terms."""
        if known is None or parameters is None or known.size != known.tree.n or not (known.width > 0).all():
            return None
        plain = (Slope.BODY, Slope.SIGN, *_LINEAR)
        return CompiledDynamics(known, parameters) if all(p.kind in plain for p in parameters) else None

    def at(self, beta: Float) -> SystemAt:
        """System with parameters (b,); the last one is kept, since a step needs it repeatedly."""
        return self._cached(beta.tobytes())

    @cached_property
    def _cached(self) -> Callable[[bytes], SystemAt]:
        return lru_cache(maxsize=1)(lambda values: self._system(np.frombuffer(values)))

    def _system(self, beta: Float) -> SystemAt:
        known = self.known
        inertia, level = known.inertia.copy(), known.level.copy()
        linear = {
            "mass": np.diagonal(known.mass).copy(),
            "damping": np.diagonal(known.damping).copy(),
            "constant": known.constant.copy(),
        }
        place, first, second = self._bodies
        inertia[first, second] += beta[place]
        place, sign = self._signs
        level[sign] += beta[place]
        for name, (place, first) in self._lines.items():
            linear[name][first] += beta[place]
        return SystemAt(self, inertia, level, **linear)

    def kalman(
        self,
        mean: Float,
        covariance: Float,
        u: Float,
        means: Float,
        x: Float,
        deviations: Float,
        seconds: float,
        passes: int,
    ) -> Float:
        """Squared innovations of the extended Kalman filter steps computed in the native kernel.

        Computation stops at the first step whose mass matrix is not positive definite; with the NumPy kernel no step
        is computed.

        `mean` (2s + b,): state and parameters; updated in place; `covariance` (2s + b, 2s + b): their covariance;
        updated in place; `u` (K, k, n) in N m (N): torque of each step; `means` (nodes, k): weights of the torque at
        the nodes; `x` (K, s): positions measured at the end of each step; `deviations` (2s + b,): standard deviations
        of force, position and drift of the parameters; `seconds` in s: length of a step; `passes`: Newton iterations
        per step.
        """
        if (native := self.known.native()) is None:
            return np.zeros(0)
        squares, done = native.kalman(
            mean,
            covariance,
            *map(np.ascontiguousarray, (u, means, x, deviations)),
            self._table,
            seconds,
            passes,
        )
        return np.asarray(squares)[:done]

    def regressor(self, x: Float, v: Float, a: Float) -> Float:
        """Derivatives of the force by the parameters, (S, s, b)."""
        known = self.known
        slopes = np.zeros((*x.shape, len(self.parameters)))
        for j, (place, values) in enumerate(
            zip(self._places, torque_regressor(known.tree, x, v, a, self._columns).values, strict=True)
        ):
            slopes[:, j, place] = values.T
        for name, motion in (("mass", a), ("damping", v), ("constant", np.ones_like(v))):
            place, first = self._lines[name]
            slopes[:, first, place] = motion[:, first]
        place, sign = self._signs
        slopes[:, known.at[sign], place] = known.signs(v)[:, sign]
        return slopes

    @cached_property
    def _table(self) -> Float:
        return parameter_table(self.parameters)

    @cached_property
    def _bodies(self) -> tuple[Int, Int, Int]:
        of_bodies = [(k, p.first, p.second) for k, p in enumerate(self.parameters) if p.kind is Slope.BODY]
        indices = np.array(of_bodies, dtype=np.int64).reshape(-1, 3)
        return indices[:, 0], indices[:, 1], indices[:, 2]

    @cached_property
    def _lines(self) -> dict[str, tuple[Int, Int]]:
        lines = {}
        for kind, name in _LINEAR.items():
            of_kind = [(k, p.first) for k, p in enumerate(self.parameters) if p.kind is kind]
            pairs = np.array(of_kind, dtype=np.int64).reshape(-1, 2)
            lines[name] = pairs[:, 0], pairs[:, 1]
        return lines

    @cached_property
    def _signs(self) -> tuple[Int, Int]:
        known, pairs = self.known, []
        for k, p in enumerate(self.parameters):
            if p.kind is Slope.SIGN:
                pairs.append((k, int(np.flatnonzero((known.at == p.first) & (known.width == p.width))[0])))
        indices = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return indices[:, 0], indices[:, 1]

    @cached_property
    def _columns(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        wanted = np.zeros(10 * self.known.tree.n, dtype=np.bool_)
        _, first, second = self._bodies
        wanted[10 * first + second] = True
        return wanted

    @cached_property
    def _places(self) -> tuple[Int, ...]:
        # Parameters with respect to which the rows of each joint's panel are derivatives.
        place, first, second = self._bodies
        number = np.zeros(10 * self.known.tree.n, dtype=np.int64)
        number[10 * first + second] = place
        still = np.zeros((1, self.known.tree.n))
        panels = torque_regressor(self.known.tree, still, still, still, self._columns)
        return tuple(number[columns] for columns in panels.columns)


@dataclass(frozen=True, eq=False)
class SystemAt:
    """System with some parameters; mass, damping and constant (s,) of each coordinate."""

    dynamics: CompiledDynamics
    inertia: Float
    level: Float
    mass: Float
    damping: Float
    constant: Float

    def equations(self, x: Float, v: Float) -> tuple[Float, Float]:
        """M (S, s, s) and h (S, s) of S states."""
        M, h = equations_of_motion(self.dynamics.known.tree, self.inertia, x, v)
        return M + self._mass, h + self._without_bodies(x, v)

    def force(self, x: Float, v: Float, a: Float) -> Float:
        """Force M a + h, (S, s)."""
        bodies = inverse_dynamics(self.dynamics.known.tree, self.inertia, x, v, a)
        return bodies + a @ self._mass.T + self._without_bodies(x, v)

    def slopes(self, x: Float, v: Float, a: Float) -> tuple[Float, Float, Float]:
        """Derivatives of the force by positions, velocities and accelerations, (S, s, s) each."""
        known = self.dynamics.known
        derivatives = torque_jacobian(known.tree, self.inertia, x, v, a).transpose(0, 1, 3, 2)
        steep = ((1.0 - known.signs(v) ** 2) * self.level / known.width) @ _selection(known.at, known.size)
        by_v = derivatives[1] + self._damping
        index = np.arange(known.size)
        by_v[:, index, index] += steep
        return derivatives[0] + known.stiffness, by_v, derivatives[2] + self._mass

    @cached_property
    def _mass(self) -> Float:
        return _with_diagonal(self.dynamics.known.mass, self.mass)

    @cached_property
    def _damping(self) -> Float:
        return _with_diagonal(self.dynamics.known.damping, self.damping)

    @cached_property
    def _sign_matrix(self) -> Float:
        known = self.dynamics.known
        return self.level[:, None] * _selection(known.at, known.size)

    def _without_bodies(self, x: Float, v: Float) -> Float:
        known = self.dynamics.known
        total = x @ known.stiffness.T + v @ self._damping.T + self.constant
        return np.asarray(total + known.signs(v) @ self._sign_matrix)


def _selection(at: Int, size: int) -> Float:
    selection = np.zeros((len(at), size))
    selection[np.arange(len(at)), at] = 1.0
    return selection


def _with_diagonal(matrix: Float, diagonal: Float) -> Float:
    replaced = matrix.copy()
    np.fill_diagonal(replaced, diagonal)
    return replaced


# rad or m (rad/s or m/s): step of central differences.
DIFFERENCE = 1e-5


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the accelerations of S states with the same parameters.

    Attributes
    ----------
    by_position, by_velocity, by_force : ndarray, shape (S, s, s)
        Derivatives; the last is the inverse mass matrix.
    by_parameter : ndarray, shape (S, s, b)
        Derivatives by the parameters.

    """

    by_position: Float
    by_velocity: Float
    by_parameter: Float
    by_force: Float


@dataclass(frozen=True, eq=False)
class BaseDynamics:
    """Equations of motion M(x; beta) a = u - h(x, v; beta), with the base parameters beta (b,) of a robot's terms.

    Coordinates x (s,) are the joints, then the motors of the joints in `second`, which are behind a spring.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    base : BaseMap
        Base parameters.
    second : tuple of int
        Joints with a coordinate for their motor.

    Raises
    ------
    UsageError
        For terms that read channels or depend on past motion.

    """

    robot: RobotModel
    terms: Terms
    base: BaseMap
    second: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.terms.channels() or self.terms.remembers:
            raise UsageError(
                "base-dynamics",
                found="terms that read " + (", ".join(self.terms.channels()) or "the motion before"),
                expected="torque as a function of position, velocity and acceleration",
            )

    @property
    def count(self) -> int:
        """Number of base parameters."""
        return len(self.base.independent)

    @property
    def size(self) -> int:
        """Number of coordinates s."""
        return self.frame.size

    @cached_property
    def frame(self) -> Mechanism:
        """Coordinates, and the known torque of the terms."""
        return Mechanism(self.robot, self.terms, np.zeros(len(self.base.names)), self.second)

    def force(self, x: Float, v: Float, a: Float, beta: Float) -> Float:
        """Generalised force M a + h of S states.

        Parameters
        ----------
        x, v, a : ndarray, shape (S, s)
            Motion.
        beta : ndarray, shape (S, b) or (1, b)
            Parameters of each state, or of all.

        Returns
        -------
        ndarray, shape (S, s)
            Force.

        """
        if (system := self._compiled_at(beta)) is not None:
            return system.force(x, v, a)
        beta = np.broadcast_to(beta, (len(x), self.count))
        samples = self.frame.samples(x, v, a, {})
        total = self._contract(self._panels(samples), beta) + self.terms.known_torque(self.robot, samples)
        return self.frame.split(total, self._motor(samples, beta)) if self.second else total

    def mass(self, x: Float, v: Float, beta: Float) -> tuple[Float, Float]:
        """Mass matrices and remaining forces of S states.

        Parameters
        ----------
        x, v : ndarray, shape (S, s)
            Positions and velocities.
        beta : ndarray, shape (S, b) or (1, b)
            Parameters of each state, or of all.

        Returns
        -------
        M : ndarray, shape (S, s, s)
            Mass matrices.
        h : ndarray, shape (S, s)
            Remaining forces.

        """
        if (system := self._compiled_at(beta)) is not None:
            return system.equations(x, v)
        S, s = x.shape
        beta = np.broadcast_to(beta, (S, self.count))
        a = np.tile(np.vstack([np.zeros(s), np.eye(s)]), (S, 1))
        x, v, beta = (np.repeat(values, s + 1, axis=0) for values in (x, v, beta))
        force = self.force(x, v, a, beta).reshape(S, s + 1, s)
        M = force[:, 1:] - force[:, :1]
        return 0.5 * (M + M.transpose(0, 2, 1)), force[:, 0]

    def springs(self, x: Float, v: Float, beta: Float) -> tuple[Float, Float]:
        """Stiffness and damping between joints and motors, h = K x + D v + ...

        Parameters
        ----------
        x, v : ndarray, shape (S, s)
            Positions and velocities.
        beta : ndarray, shape (S, b)
            Parameters.

        Returns
        -------
        K, D : ndarray, shape (S, s, s)
            Stiffness and damping.

        """
        S, s = x.shape
        # Only the links move, since motor friction is no part of the springs.
        move = DIFFERENCE * (np.arange(s) < self.robot.n)
        rest = np.zeros_like(move)
        near, fast = ((y + np.stack(shift)[:, None]).reshape(-1, s) for y, shift in (
            (x, (move, -move, rest, rest)), (v, (rest, rest, move, -move)),
        ))  # fmt: skip
        at = self.frame.samples(near, fast, np.zeros_like(near), {})
        motor = self._motor(at, np.tile(beta, (4, 1)))[:, list(self.second)].reshape(2, 2, S, -1)
        between = np.maximum((motor[:, 1] - motor[:, 0]) / (2.0 * DIFFERENCE), 0.0)
        matrices = np.zeros((2, S, s, s))
        for i, joint in enumerate(self.second):
            ends = [joint, self.robot.n + i]
            matrices[:, :, ends, ends] = between[:, :, [i]]
            matrices[:, :, ends, ends[::-1]] = -between[:, :, [i]]
        return matrices[0], matrices[1]

    def slopes(self, x: Float, v: Float, a: Float, beta: Float) -> Slopes:
        """Derivatives of the accelerations at S states.

        By implicit differentiation of u = Y(x, v, a) beta. Those by parameters are exact. Those by position and
        velocity are exact for models of the compiled step, and central differences of the inverse dynamics otherwise.

        Parameters
        ----------
        x, v, a : ndarray, shape (S, s)
            Motion.
        beta : ndarray, shape (b,)
            Parameters.

        Returns
        -------
        Slopes
            Derivatives.

        """
        S, s = x.shape
        if (system := self._compiled_at(beta[None])) is not None and self.compiled is not None:
            by_x, by_v, M = system.slopes(x, v, a)
            inverse = np.asarray(np.linalg.inv(M), dtype=np.float64)
            Y = self.compiled.regressor(x, v, a)
            return Slopes(-inverse @ by_x, -inverse @ by_v, -inverse @ Y, inverse)
        shift = np.zeros((1 + 4 * s, 2 * s))
        for i in range(2 * s):
            shift[1 + 2 * i, i], shift[2 + 2 * i, i] = DIFFERENCE, -DIFFERENCE
        near, fast = ((y[:, None] + dy).reshape(-1, s) for y, dy in ((x, shift[:, :s]), (v, shift[:, s:])))
        many = np.broadcast_to(beta, (len(near), len(beta)))
        force = self.force(near, fast, np.repeat(a, len(shift), axis=0), many).reshape(S, len(shift), s)
        change = ((force[:, 1::2] - force[:, 2::2]) / (2.0 * DIFFERENCE)).transpose(0, 2, 1)
        Y = self.frame.regressor(x, v, a, {}, self.base.mask)
        inverse = np.asarray(np.linalg.inv(self.mass(x, v, many[:S])[0]), dtype=np.float64)
        return Slopes(-inverse @ change[:, :, :s], -inverse @ change[:, :, s:], -inverse @ Y, inverse)

    @cached_property
    def _place(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        place = np.zeros(len(self.base.names), dtype=np.int64)
        place[self.base.independent] = np.arange(self.count)
        return place

    @cached_property
    def compiled(self) -> CompiledDynamics | None:
        """The model for the compiled step; None if it cannot handle it."""
        return CompiledDynamics.of(self.frame.multibody, self.frame.parameters(self.base.mask))

    def _compiled_at(self, beta: Float) -> SystemAt | None:
        # Compiled system if all states have the same parameters (1, b).
        return self.compiled.at(beta[0]) if len(beta) == 1 and self.compiled is not None else None

    def _panels(self, samples: Samples) -> Panels:
        return self.terms.torque_regressor(self.robot, samples, self.base.mask)

    def _motor(self, samples: Samples, beta: Float) -> Float:
        panels = self.terms.motor_regressor(self.robot, samples, self.base.mask)
        return self._contract(panels, beta) + self.terms.known_motor_torque(self.robot, samples)

    def _contract(self, panels: Panels, beta: Float) -> Float:
        lines = np.ascontiguousarray(beta.T)
        torque = [
            np.einsum("ct,ct->t", values, lines[self._place[columns]])
            for columns, values in zip(panels.columns, panels.values, strict=True)
        ]
        return np.stack(torque, axis=1)
