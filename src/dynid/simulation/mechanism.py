"""Equations of motion of a model with known parameters, for many states at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeGuard

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import equations_of_motion, solved
from dynid.kernel.adjoint import torque_jacobian
from dynid.kernel.multibody import Multibody, Parameter, Slope
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind, smooth_sign
from dynid.terms.forms import known_torque, motor_regressor, seen_by, torque_of
from dynid.terms.term import JointTerm, Side, Term, Terms, joint_indices, joints_of

Extra = Mapping[str, Float]
# rad or m (rad/s or m/s): step of central differences, which balances truncation and rounding.
_STEP = 1e-6
# rad/s or m/s: below this velocity the slope of friction is a secant.
SLOW = 1e-3
# Random motions with which the form of a term is determined.
_TRIED = 3
# Relative deviation from a line that counts as rounding.
_LINEAR = 1e-12


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Generalised force of a model, f(x, v, a) = M(x) a + h(x, v).

    Coordinates x (s,) are the joints, then the motors of the joints in `second`, which have two encoders. Drive torque
    u (n,) acts on the motor coordinate of a joint if there is one, and on the joint itself otherwise.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    theta : ndarray, shape (p,)
        Parameters, in the order of `terms.columns(robot)`.
    second : tuple of int
        Joints with two encoders.

    Raises
    ------
    UsageError
        If theta has another length, or a term depends on past motion.

    """

    robot: RobotModel
    terms: Terms
    theta: Float
    second: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        p = len(self.terms.columns(self.robot))
        if np.shape(self.theta) != (p,) or not np.isfinite(self.theta).all():
            raise UsageError(
                "parameters", found=f"{np.shape(self.theta)} parameters", expected=f"({p},) finite parameters"
            )
        if self.terms.remembers:
            raise UsageError(
                "simulate-memory",
                found="a term that depends on past motion",
                expected="terms that depend on the present state only",
                do="replace it by 'coulomb' or 'stribeck'",
            )

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.robot.n

    @property
    def size(self) -> int:
        """Number of coordinates s."""
        return self.robot.n + len(self.second)

    @cached_property
    def driven(self) -> Int:
        """Index (n,) of the coordinate on which each drive acts."""
        place = np.arange(self.n)
        place[list(self.second)] = self.n + np.arange(len(self.second))
        return place

    def samples(self, x: Float, v: Float, a: Float, extra: Extra) -> Samples:
        """Samples of a motion in these coordinates.

        Parameters
        ----------
        x, v, a : ndarray, shape (B, s)
            Positions, velocities and accelerations.
        extra : mapping of str to ndarray, shape (B, ...)
            Channels.

        Returns
        -------
        Samples
            B samples.

        """
        n, B = self.n, len(x)
        motors: list[Float | None] = [None, None, None]
        if self.second:
            for i, values in enumerate((x, v, a)):
                whole = np.array(values[:, :n])
                whole[:, list(self.second)] = values[:, n:]
                motors[i] = whole
        return Samples(
            t=np.zeros(B),
            q=x[:, :n],
            dq=v[:, :n],
            ddq=a[:, :n],
            tau=np.zeros((B, n)),
            keep=np.ones(B, dtype=np.bool_),
            rate=1.0,
            segment=0,
            trajectory="",
            theta=motors[0],
            dtheta=motors[1],
            ddtheta=motors[2],
            temperature=extra.get("temperature"),
            extra={name: extra[name] for name in extra if name != "temperature"},
        )

    def force(self, x: Float, v: Float, a: Float, extra: Extra) -> Float:
        """Generalised force that the drives must supply; zero on coordinates without a drive.

        Parameters
        ----------
        x, v, a : ndarray, shape (B, s)
            Positions, velocities and accelerations.
        extra : mapping of str to ndarray, shape (B, ...)
            Channels.

        Returns
        -------
        ndarray, shape (B, s)
            Force f.

        """
        return self._force(self.terms, self.theta, self.samples(x, v, a, extra))

    def equations(self, x: Float, v: Float, extra: Extra) -> tuple[Float, Float]:
        """Mass matrices and remaining forces, f = M a + h.

        Parameters
        ----------
        x, v : ndarray, shape (B, s)
            Positions and velocities.
        extra : mapping of str to ndarray, shape (B, ...)
            Channels.

        Returns
        -------
        M : ndarray, shape (B, s, s)
            Mass matrices.
        h : ndarray, shape (B, s)
            Remaining forces.

        """
        B, s = x.shape
        if self._bodies is not None and self._uses_kernel:
            n = self.n
            body, bias = equations_of_motion(
                self.robot.tree, self._bodies, np.ascontiguousarray(x[:, :n]), np.ascontiguousarray(v[:, :n])
            )
            M = np.zeros((B, s, s)) if s > n else body
            h = self._force_without_bodies(x, v, np.zeros_like(x), extra)
            if s > n:
                M[:, :n, :n] = body
            h[:, :n] += bias
            return M + self._other_mass, h
        states = np.tile(x, (s + 1, 1)), np.tile(v, (s + 1, 1))
        unit = np.concatenate([np.zeros((1, s)), np.eye(s)]).repeat(B, axis=0)
        many = {name: np.tile(value, (s + 1,) + (1,) * (value.ndim - 1)) for name, value in extra.items()}
        f = self.force(*states, unit, many).reshape(s + 1, B, s)
        M = np.moveaxis(f[1:] - f[0], 0, 2)
        return 0.5 * (M + np.swapaxes(M, 1, 2)), f[0]

    def acceleration(self, x: Float, v: Float, u: Float, extra: Extra) -> Float:
        """Acceleration under drive torque.

        Parameters
        ----------
        x, v : ndarray, shape (B, s)
            Positions and velocities.
        u : ndarray, shape (B, n)
            Drive torque.
        extra : mapping of str to ndarray, shape (B, ...)
            Channels.

        Returns
        -------
        ndarray, shape (B, s)
            Acceleration.

        Raises
        ------
        SolverError
            If a mass matrix is not positive definite.

        """
        M, h = self.equations(x, v, extra)
        return solved(M, self.on_coordinates(u) - h)

    def on_coordinates(self, u: Float) -> Float:
        """Generalised force (B, s) of drive torque (B, n)."""
        force = np.zeros((len(u), self.size))
        force[:, self.driven] = u
        return force

    def split(self, total: Float, motor: Float) -> Float:
        """Generalised force (B, s, ...) from total joint torque and motor torque, (B, n, ...) each."""
        joints, n = list(self.second), self.n
        f = np.concatenate([total, motor[:, joints]], axis=1)
        f[:, joints] -= f[:, n:]
        return f

    def damping(self, x: Float, v: Float, extra: Extra) -> Float:
        """Secant slopes (B, s) of f over velocity, which keep a step through dry friction stable."""
        speed = np.where(np.abs(v) < SLOW, SLOW, v)
        zero = np.zeros_like(x)
        change = self._force_without_bodies(x, speed, zero, extra) - self._force_without_bodies(
            x, -speed, zero, extra
        )
        return np.maximum(change / (2.0 * speed), 0.0)

    def springs(self, x: Float, extra: Extra) -> tuple[Float, Float]:
        """Stiffness and damping (s, s) between each joint and its motor, at the first of the states (B, s)."""
        s, n = self.size, self.n
        K, D = np.zeros((s, s)), np.zeros((s, s))
        if not self.second:
            return K, D
        at = x[:1]
        first = {name: value[:1] for name, value in extra.items()}
        zero, fast = np.zeros_like(at), np.full_like(at, 1.0)
        links = np.arange(s) < n
        for matrix, move in ((K, "x"), (D, "v")):
            for group in (links, ~links):
                shift = np.where(group, _STEP, 0.0)[None]
                if move == "x":
                    pair = [self._force_without_bodies(at + k * shift, zero, zero, first) for k in (1, -1)]
                else:
                    pair = [self._force_without_bodies(at, fast + k * shift, zero, first) for k in (1, -1)]
                slope = (pair[0] - pair[1])[0] / (2.0 * _STEP)
                for i, joint in enumerate(self.second):
                    column = joint if group[0] else n + i
                    for row in (joint, n + i):
                        matrix[row, column] = slope[row]
        return 0.5 * (K + K.T), 0.5 * (D + D.T)

    @cached_property
    def multibody(self) -> Multibody | None:
        """The model for the compiled step; None if a term is neither linear in the motion nor a smoothed sign.

        The form of a term is determined by evaluating it.
        """
        if self._bodies is None or self.terms.channels() or not self._uses_kernel:
            return None
        s, n = self.size, self.n
        stiffness, damping = np.zeros((2, s, s))
        constant: Float = np.zeros(s)
        at: list[int] = []
        signs: list[tuple[float, float]] = []
        for term, values in self._terms_without_bodies:
            width = self._sign_width(term)
            if width is not None:
                place = np.arange(n) if term.traits.side is Side.LINK else self.driven
                joints = joint_indices(self.robot, joints_of(term))
                at += [int(place[j]) for j in joints]
                signs += [(float(x), width) for x in values]
                continue
            line = self._linear_form(term, values)
            if line is None:
                return None
            stiffness, damping, constant = stiffness + line[0], damping + line[1], constant + line[2]
        levels = np.array(signs).reshape(-1, 2)
        return Multibody(
            self.robot.tree,
            self._bodies,
            np.eye(n, s),
            self._other_mass,
            self.driven,
            stiffness=stiffness,
            damping=damping,
            constant=constant,
            at=np.array(at, dtype=np.int64),
            level=levels[:, 0],
            width=levels[:, 1],
        )

    def _sign_width(self, term: Term) -> float | None:
        # Width of a term that is a smoothed sign of a velocity; None for all others.
        if not self._is_single(term) or not hasattr(term, "width"):
            return None
        speed = np.random.default_rng(0).normal(0.0, 1.0, (_TRIED, self.size)) * np.array(
            [[1.0], [0.1], [0.01]]
        )
        still = np.zeros_like(speed)
        samples = self.samples(still, speed, still, {})
        velocities = speed[:, : self.n] if term.traits.side is Side.LINK else speed[:, self.driven]
        width = float(term.width)
        same = np.array_equal(term.basis(self.robot, seen_by(term, samples)), smooth_sign(velocities, width))
        return width if same else None

    def _linear_form(self, term: Term, values: Float) -> tuple[Float, Float, Float] | None:
        # Slopes by position and velocity, (s, s), and constant (s,) of a linear term; otherwise None.
        s, alone = self.size, Terms((term,))
        rng = np.random.default_rng(0)
        tried = rng.normal(0.0, 1.0, (2, _TRIED, s))
        x, v = (np.concatenate([np.zeros((1 + 2 * s, s)), part]) for part in tried)
        x[1 : 1 + s], v[1 + s : 1 + 2 * s] = np.eye(s), np.eye(s)
        f = self._force(alone, values, self.samples(x, v, np.zeros_like(x), {}))
        constant, K, D = f[0], (f[1 : 1 + s] - f[0]).T, (f[1 + s : 1 + 2 * s] - f[0]).T
        expected = tried[0] @ K.T + tried[1] @ D.T + constant
        scale = max(float(np.abs(f).max()), 1e-300)
        return (K, D, constant) if np.abs(expected - f[1 + 2 * s :]).max() <= _LINEAR * scale else None

    def parameters(self, wanted: Bool) -> tuple[Parameter, ...] | None:
        """The wanted parameters (w,) as the compiled step stores them; None if it cannot handle all of them."""
        every_parameter: list[Parameter | None] = []
        for term in self.terms:
            every_parameter += self._parameters_of(term)
        selected = [parameter for parameter, want in zip(every_parameter, wanted, strict=True) if want]
        return (
            None
            if self.multibody is None or None in selected
            else tuple(parameter for parameter in selected if parameter is not None)
        )

    def _parameters_of(self, term: Term) -> list[Parameter | None]:
        columns = term.columns(self.robot)
        if term.traits.kind is Kind.BODIES and len(columns) == 10 * self.robot.n_bodies:
            return [Parameter(Slope.BODY, i // 10, i % 10) for i in range(len(columns))]
        nothing: list[Parameter | None] = [None] * len(columns)
        if not self._is_single(term):
            return nothing
        place = np.arange(self.n) if term.traits.side is Side.LINK else self.driven
        joints = [int(place[j]) for j in joint_indices(self.robot, joints_of(term))]
        width = self._sign_width(term)
        if width is not None:
            return [Parameter(Slope.SIGN, j, 0, width) for j in joints]
        kind = self._plain_slope(term)
        return nothing if kind is None else [Parameter(kind, j) for j in joints]

    def _plain_slope(self, term: JointTerm) -> Slope | None:
        # Kind of the basis: acceleration, velocity or one; otherwise None.
        x, v, a = np.random.default_rng(0).normal(0.0, 1.0, (3, _TRIED, self.size))
        basis = term.basis(self.robot, seen_by(term, self.samples(x, v, a, {})))
        coordinates = np.arange(self.n) if term.traits.side is Side.LINK else self.driven
        kinds = ((Slope.ACCELERATION, a), (Slope.VELOCITY, v), (Slope.ONE, np.ones_like(v)))
        return next((kind for kind, values in kinds if np.array_equal(basis, values[:, coordinates])), None)

    def regressor(self, x: Float, v: Float, a: Float, extra: Extra, wanted: Bool) -> Float:
        """Derivatives df / dtheta for the wanted columns.

        Parameters
        ----------
        x, v, a : ndarray, shape (B, s)
            Positions, velocities and accelerations.
        extra : mapping of str to ndarray, shape (B, ...)
            Channels.
        wanted : ndarray of bool, shape (p,)
            Columns, w of them.

        Returns
        -------
        ndarray, shape (B, s, w)
            Derivatives.

        """
        samples, p = self.samples(x, v, a, extra), len(self.theta)
        total = self.terms.torque_regressor(self.robot, samples, wanted).dense(p)[:, :, wanted]
        if not self.second:
            return np.asarray(total)
        return self.split(
            total, self.terms.motor_regressor(self.robot, samples, wanted).dense(p)[:, :, wanted]
        )

    def slopes(self, x: Float, v: Float, a: Float, extra: Extra) -> tuple[Float, Float]:
        """Derivatives df/dx and df/dv at given accelerations.

        They are exact for models of the compiled step, and central differences otherwise.

        Parameters
        ----------
        x, v, a : ndarray, shape (B, s)
            Positions, velocities and accelerations.
        extra : mapping of str to ndarray, shape (B, ...)
            Channels.

        Returns
        -------
        by_x, by_v : ndarray, shape (B, s, s)
            Derivatives.

        """
        B, s = x.shape
        if (system := self.multibody) is not None and (system.width > 0).all():
            return self._exact_slopes(system, x, v, a)
        shift = _STEP * np.concatenate([np.eye(s), -np.eye(s)]).repeat(B, axis=0)
        many = {name: np.tile(value, (2 * s,) + (1,) * (value.ndim - 1)) for name, value in extra.items()}
        X, V, A = (np.tile(values, (2 * s, 1)) for values in (x, v, a))
        derivatives = []
        for moved in (self.force(X + shift, V, A, many), self.force(X, V + shift, A, many)):
            f = moved.reshape(2, s, B, s)
            derivatives.append(np.moveaxis((f[0] - f[1]) / (2.0 * _STEP), 0, 2))
        return derivatives[0], derivatives[1]

    def _exact_slopes(self, system: Multibody, x: Float, v: Float, a: Float) -> tuple[Float, Float]:
        n = self.n
        motion = (np.ascontiguousarray(part[:, :n]) for part in (x, v, a))
        bodies = np.swapaxes(torque_jacobian(self.robot.tree, system.inertia, *motion), -1, -2)
        by_x, by_v = (np.tile(part, (len(x), 1, 1)) for part in (system.stiffness, system.damping))
        by_x[:, :n, :n] += bodies[0]
        by_v[:, :n, :n] += bodies[1]
        for at, steep in zip(
            system.at, ((1.0 - system.signs(v) ** 2) * system.level / system.width).T, strict=True
        ):
            by_v[:, at, at] += steep
        return by_x, by_v

    def _force(self, terms: Terms, theta: Float, samples: Samples) -> Float:
        total = terms.torque(self.robot, samples, theta)
        if not self.second:
            return total
        panels = terms.motor_regressor(self.robot, samples, theta != 0)
        motor = terms.known_motor_torque(self.robot, samples)
        for joint in self.second:
            motor[:, joint] += theta[panels.columns[joint]] @ panels.values[joint]
        return self.split(total, motor)

    def _force_without_bodies(self, x: Float, v: Float, a: Float, extra: Extra) -> Float:
        # Everything but the links. Single-joint terms are summed without panels, since this is the inner loop.
        samples = self.samples(x, v, a, extra)
        rest, theta = self._remaining_terms
        f = self._force(rest, theta, samples) if rest.terms else np.zeros((len(x), self.size))
        for term, values in self._single_joint_terms:
            torque = values * term.basis(self.robot, seen_by(term, samples))
            if not self.second or term.traits.side is Side.LINK:
                f[:, : self.n] += torque
            else:
                f[:, self.driven] += torque
        return f

    @cached_property
    def _single_joint_terms(self) -> list[tuple[JointTerm, Float]]:
        terms = []
        for term, values in self._terms_without_bodies:
            if self._is_single(term):
                whole = np.zeros(self.n)
                whole[list(joint_indices(self.robot, joints_of(term)))] = values
                terms.append((term, whole))
        return terms

    @cached_property
    def _remaining_terms(self) -> tuple[Terms, Float]:
        kept = [(term, values) for term, values in self._terms_without_bodies if not self._is_single(term)]
        return Terms(tuple(t for t, _ in kept)), np.concatenate([np.zeros(0), *(v for _, v in kept)])

    @staticmethod
    def _is_single(term: Term) -> TypeGuard[JointTerm]:
        term_class = type(term)
        plain = term_class.torque_regressor is JointTerm.torque_regressor
        asked = (torque_of, motor_regressor, known_torque)
        return (
            isinstance(term, JointTerm)
            and plain
            and all(form.dispatch(term_class) is form.dispatch(object) for form in asked)
        )

    @cached_property
    def _terms_without_bodies(self) -> list[tuple[Term, Float]]:
        terms, first = [], 0
        for term in self.terms:
            count = len(term.columns(self.robot))
            if term.traits.kind is not Kind.BODIES:
                terms.append((term, self.theta[first : first + count]))
            first += count
        return terms

    @cached_property
    def _bodies(self) -> Float | None:
        # Parameters (n, 10) of the term of links whose mass matrix the kernel computes; None without it.
        first = 0
        for term in self.terms:
            if term.traits.kind is Kind.BODIES and not self.robot.has_mimic:
                return np.ascontiguousarray(
                    self.theta[first : first + 10 * self.robot.n_bodies].reshape(-1, 10)
                )
            first += len(term.columns(self.robot))
        return None

    @cached_property
    def _other_mass(self) -> Float:
        return np.asarray(self._other_masses[0])

    @cached_property
    def _other_masses(self) -> Float:
        # Masses (3, s, s) of everything but the links, in three random states.
        s = self.size
        rng = np.random.default_rng(0)
        q, v = tried_positions(self.robot, 3), rng.normal(0, 0.5, (3, s))
        x = np.concatenate([q, q[:, list(self.second)]], axis=1)
        unit = np.concatenate([np.zeros((1, s)), np.eye(s)]).repeat(3, axis=0)
        extra = {name: np.zeros(3 * (s + 1)) for name in self.terms.channels()}
        f = self._force_without_bodies(np.tile(x, (s + 1, 1)), np.tile(v, (s + 1, 1)), unit, extra).reshape(
            s + 1, 3, s
        )
        M = np.moveaxis(f[1:] - f[0], 0, 2)
        return np.asarray(0.5 * (M + np.swapaxes(M, 1, 2)))

    @cached_property
    def _uses_kernel(self) -> bool:
        if self._bodies is None:
            return False
        M = self._other_masses
        return bool(np.abs(M - M[0]).max() <= 1e-9 * max(float(np.abs(M).max()), 1e-300))


def tried_positions(robot: RobotModel, count: int) -> Float:
    """Random positions (count, n) within the limits, where linkages can close; +-1 without limits."""
    low, high = (
        np.where(np.isfinite(limit), limit, fallback)
        for limit, fallback in ((robot.limits.lower, -1.0), (robot.limits.upper, 1.0))
    )
    return robot.drive.within_reach(np.random.default_rng(0).uniform(low, high, (count, robot.n)))
