"""Dynamics of a robot with known parameters, tau = M(q) ddq + C(q, dq) dq + g(q) + friction(dq)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float, locked
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import Overview, counted, dataclass, listed
from dynid.base.registry import meant
from dynid.dynamics.observer import CUTOFF, MomentumObserver, external_torque
from dynid.kernel.bodies import Bodies
from dynid.robot.model import RobotModel
from dynid.terms.curve import FrictionCurve
from dynid.terms.exports import (
    JointSpring,
    Mixed,
    MotionBasis,
    mixed_torque,
    spring_slopes,
    spring_text,
    spring_torque,
)
from dynid.terms.gravity_tilt import Lean
from dynid.terms.spring import described_springs

# Derivatives of friction, and of functions without a formula.

# Step of central differences: the cube root of rounding balances truncation and rounding for values of size one.
STEP = float(np.cbrt(np.finfo(np.float64).eps))


def central_slopes(function: Callable[[Float], Float], x: Float) -> Float:
    """Derivatives (T, n, m) of a function (T, m) -> (T, n) by central differences, [t, i, j] = d f_i / d x_j."""
    columns = []
    for j in range(x.shape[1]):
        step = np.zeros(x.shape[1])
        step[j] = STEP
        columns.append((function(x + step) - function(x - step)) / (2.0 * STEP))
    return np.stack(columns, axis=-1)


def smooth_friction_slopes(viscous: Float, coulomb: Float, width: Float, dq: Float) -> Float:
    """Derivatives of viscous dq + coulomb tanh(dq / width) by dq; that of a sign without width is zero.

    Parameters
    ----------
    viscous, coulomb, width : ndarray, shape (n,)
        Coefficients, and width of the sign (0 = plain sign).
    dq : ndarray, shape (T, n), rad/s (m/s)
        Velocities.

    Returns
    -------
    ndarray, shape (T, n)
        Derivatives.

    """
    smooth = width > 0
    s = np.tanh(dq / np.where(smooth, width, 1.0))
    return np.asarray(viscous + np.where(smooth, coulomb * (1.0 - s * s) / np.where(smooth, width, 1.0), 0.0))


def curve_slopes(robot: RobotModel, curve: FrictionCurve, dq: Float) -> Float:
    """Derivative (T,) of a joint's friction curve by the velocity of that joint, by central differences."""
    step = np.zeros(robot.n)
    step[curve.joint] = STEP
    return np.asarray((curve.torque(robot, dq + step) - curve.torque(robot, dq - step)) / (2.0 * STEP))


# Number of widths at which a smoothed sign is 0.99, and a width for plain signs, rad/s or m/s.
_NEARLY, _WIDTH = 2.5, 0.02
_FRICTION = (MotionBasis.SPEED, MotionBasis.SIGN, MotionBasis.ONE)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Dynamics of a robot with known parameters, tau = M(q) ddq + C(q, dq) dq + g(q) + friction(dq).

    Methods take one state, (n,), or many, (T, n), in SI units and in the order of `robot.joint_names`, and return
    arrays of the same leading shape. The exported C code has functions of the same names. Friction is viscous dq +
    coulomb s(dq) + curves(dq) + offset + coupled drives, with s = tanh(dq / width) or the sign. g contains the weight
    of the links and the torque of springs.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    inertia : ndarray, shape (nb, 10)
        m, mcx, ..., Izz of each link, about its joint frame.
    rotor, viscous, coulomb, offset : ndarray, shape (n,)
        Rotor inertia and friction, on the joint side.
    width : ndarray, shape (n,), rad/s or m/s
        Width of the smoothed sign; 0 = plain sign.
    left_out : tuple of str
        Terms of the identified model that are not included.
    curves : tuple of FrictionCurve
        Further friction that depends on the speed of a joint.
    distance : ndarray, shape (n,), rad or m
        Distance over which presliding friction builds up; 0 = none. `friction` assumes that it has built up.
    mixed : tuple of Mixed
        Torque from the motion of several joints.
    tilt : Lean, optional
        Tilt of the base; None = level.
    springs : tuple of JointSpring
        Springs of joints, and of sums of joints.

    Raises
    ------
    UsageError
        If a number is unknown or infinite.

    """

    robot: RobotModel
    inertia: Float
    rotor: Float
    viscous: Float
    coulomb: Float
    offset: Float
    width: Float
    left_out: tuple[str, ...] = ()
    curves: tuple[FrictionCurve, ...] = ()
    distance: Float = field(default_factory=lambda: np.zeros(0))
    mixed: tuple[Mixed, ...] = ()
    tilt: Lean | None = None
    springs: tuple[JointSpring, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "inertia", locked(self.inertia, (self.robot.n_bodies, 10), "inertia"))
        if not len(self.distance):
            object.__setattr__(self, "distance", np.zeros(self.robot.n))
        for name in ("rotor", "viscous", "coulomb", "offset", "width", "distance"):
            object.__setattr__(self, name, locked(getattr(self, name), (self.robot.n,), name))
        for name in ("inertia", "rotor", "viscous", "coulomb", "offset", "width"):
            if not np.isfinite(getattr(self, name)).all():
                raise UsageError(
                    "export-finite",
                    found=f"{name} with unknown or infinite numbers",
                    expected="finite numbers",
                )

    @classmethod
    def of_description(cls, robot: RobotModel) -> Self:
        """Dynamics of the prior (URDF): inertias, and rotors, friction and springs if it has them.

        Raises UsageError if the inertia of a link is unknown.
        """
        unknown = [
            name
            for name, pi in zip(robot.body_names, robot.inertia_prior, strict=True)
            if not np.isfinite(pi).all()
        ]
        if unknown:
            raise UsageError(
                "no-inertia",
                found=f"no inertia of {listed(unknown)} in robot '{robot.name}'",
                expected="ten inertial parameters of every link",
            )
        viscous, coulomb = np.nan_to_num(robot.friction_prior.T)
        nothing = np.zeros(robot.n)
        rotor = np.nan_to_num(robot.drive.reflected_rotor_inertia)
        springs = described_springs(robot)
        return cls(robot, robot.inertia_prior, rotor, viscous, coulomb, nothing, nothing, springs=springs)

    # ---- torque

    def inverse_dynamics(self, q: npt.ArrayLike, dq: npt.ArrayLike, ddq: npt.ArrayLike) -> Float:
        """Torque M(q) ddq + C(q, dq) dq + g(q), with rotors and springs, without friction.

        Parameters
        ----------
        q, dq, ddq : array_like, shape (n,) or (T, n), SI units
            Motion.

        Returns
        -------
        ndarray, shape of q, N m (N)
            Torque.

        Raises
        ------
        UsageError
            For arrays of another shape.

        References
        ----------
        Recursive Newton-Euler, Luh, Walker and Paul 1980.

        """
        # A call from a control loop takes one or two microseconds; Python's own checks would double it.
        if self._bodies_are_complete and (fast := self._bodies.native()) is not None:
            try:
                torque: Float = fast.inverse_dynamics(q, dq, ddq, 1)
                return torque + self._spring_torque(np.asarray(q)) if self.springs else torque
            except (TypeError, ValueError):
                pass  # lists, or wrong shapes, which the check below reports
        (x, v, a), shape = self._states(q, dq, ddq)
        return self.rigid_torque(x, v, a).reshape(shape)

    def torque(self, q: npt.ArrayLike, dq: npt.ArrayLike, ddq: npt.ArrayLike) -> Float:
        """Torque of inverse dynamics and friction.

        Parameters
        ----------
        q, dq, ddq : array_like, shape (n,) or (T, n), SI units
            Motion.

        Returns
        -------
        ndarray, shape of q, N m (N)
            Torque.

        """
        (x, v, a), shape = self._states(q, dq, ddq)
        return (self.rigid_torque(x, v, a) + self._friction(v)).reshape(shape)

    def gravity(self, q: npt.ArrayLike) -> Float:
        """Gravity torque g(q), springs included, N m (N); of the shape of q."""
        (x,), shape = self._states(q)
        still = np.zeros_like(x)
        return self.rigid_torque(x, still, still).reshape(shape)

    def coriolis(self, q: npt.ArrayLike, dq: npt.ArrayLike) -> Float:
        """Coriolis and centrifugal torque C(q, dq) dq, N m (N); of the shape of q."""
        (x, v), shape = self._states(q, dq)
        return self._to_joints(
            self._weightless.inverse_dynamics(*self._on_tree(x, v, np.zeros_like(x)))
        ).reshape(shape)

    def coriolis_matrix(self, q: npt.ArrayLike, dq: npt.ArrayLike) -> Float:
        """Coriolis matrix C(q, dq), with which C dq is the Coriolis and centrifugal torque and dM/dt = C + C'.

        C_ij = sum_k c_ijk dq_k with Christoffel symbols, which is half the derivative of C dq by dq.

        Parameters
        ----------
        q, dq : array_like, shape (n,) or (T, n), SI units
            Motion.

        Returns
        -------
        ndarray, shape (..., n, n), N m s/rad
            Matrix.

        References
        ----------
        Siciliano et al. 2009, equation 7.45.

        """
        (x, v), shape = self._states(q, dq)
        by_dq = self._weightless.derivatives(*self._on_tree(x, v, np.zeros_like(x)))[1]
        return 0.5 * self._joint_matrix(by_dq).reshape(*shape, self.robot.n)

    def friction(self, dq: npt.ArrayLike) -> Float:
        """Friction torque viscous dq + coulomb s(dq) + curves + offset + coupled drives, N m (N); shape of dq."""
        (v,), shape = self._states(dq)
        return self._friction(v).reshape(shape)

    def mass_matrix(self, q: npt.ArrayLike) -> Float:
        """Mass matrix M(q) with rotors.

        Parameters
        ----------
        q : array_like, shape (n,) or (T, n), rad (m)
            Positions.

        Returns
        -------
        ndarray, shape (..., n, n), kg m^2
            Mass matrix.

        References
        ----------
        Composite bodies, Walker and Orin 1982.

        """
        (x,), shape = self._states(q)
        tree = self._on_tree(x, np.zeros_like(x))
        return self._with_drives(self._joint_matrix(self._bodies.equations(*tree)[0])).reshape(
            *shape, self.robot.n
        )

    # ---- motion

    def forward_dynamics(
        self, q: npt.ArrayLike, dq: npt.ArrayLike, tau: npt.ArrayLike, *, friction: bool = True
    ) -> Float:
        """Acceleration M^-1 (tau - C dq - g - friction).

        Friction is a function of the speed. At rest, with a plain sign, it holds nothing; `dynid validate --open-loop`
        simulates joints that stick.

        Parameters
        ----------
        q, dq : array_like, shape (n,) or (T, n), SI units
            State.
        tau : array_like, shape of q, N m (N)
            Drive torque.
        friction : bool
            False = the rigid robot only.

        Returns
        -------
        ndarray, shape of q, rad/s^2 (m/s^2)
            Acceleration.

        Raises
        ------
        SolverError
            If a mass matrix is not positive definite, as with links that are not physical.

        References
        ----------
        Featherstone 2008, chapter 6.

        """
        if self._bodies_are_complete and (fast := self._bodies.native()) is not None:
            try:
                force = np.asarray(tau) - self.friction(dq) if friction else tau
                if self.springs:
                    force = np.asarray(force) - self._spring_torque(np.asarray(q))
                acceleration: Float
                acceleration, positive = fast.forward_dynamics(q, dq, force, 1)
                if positive:
                    return acceleration
            except (TypeError, ValueError):
                pass  # lists, or wrong shapes, which the check below reports
        (x, v, u), shape = self._states(q, dq, tau)
        if friction:
            u = u - self._friction(v)
        if self._bodies_are_complete:
            return self._bodies.forward_dynamics(x, v, u - self._spring_torque(x)).reshape(shape)
        still = np.zeros_like(x)
        force = u - self.rigid_torque(x, v, still)
        return self._solved_acceleration(self.mass_matrix(x), force).reshape(shape)

    def forward_kinematics(self, q: npt.ArrayLike) -> Float:
        """Poses of the links' joint frames in the base frame, x_base = T x_link, in the order of `robot.body_names`.

        Parameters
        ----------
        q : array_like, shape (n,) or (T, n), rad (m)
            Positions.

        Returns
        -------
        ndarray, shape (..., nb, 4, 4), m
            Poses T.

        """
        (x,), shape = self._states(q)
        R, p = self._placements(x)
        T = np.zeros((*R.shape[:2], 4, 4))
        T[..., :3, :3], T[..., :3, 3], T[..., 3, 3] = R, p, 1.0
        return T.reshape(*shape[:-1], *T.shape[1:])

    def jacobian(
        self, q: npt.ArrayLike, body: str | int = -1, point: npt.ArrayLike = (0.0, 0.0, 0.0)
    ) -> Float:
        """Jacobian J with (v; w) = J dq: velocity of a point of a link, then the angular velocity of the link.

        Both are along the axes of the base frame, m/s and rad/s. J' (f; m) is the torque that balances a force f at the
        point and a moment m.

        Parameters
        ----------
        q : array_like, shape (n,) or (T, n), rad (m)
            Positions.
        body : str or int
            Link, by name or index.
        point : array_like, shape (3,), m
            Point in the joint frame of the link.

        Returns
        -------
        ndarray, shape (..., 6, n)
            Jacobian.

        Raises
        ------
        UsageError
            For an unknown link.

        """
        (x,), shape = self._states(q)
        index, (R, p) = self._body(body), self._placements(x)
        tree = self.robot.tree
        at = p[:, index] + R[:, index] @ np.asarray(point, dtype=np.float64)
        J = np.zeros((len(x), 6, tree.n))
        for i in tree.paths[index]:
            axis = R[:, i] @ tree.axis[i]
            J[:, :3, i] = axis if tree.prismatic[i] else np.cross(axis, at - p[:, i])
            J[:, 3:, i] = 0.0 if tree.prismatic[i] else axis
        if self.robot.has_mimic:
            J = J @ self.robot.projection
        return J.reshape(*shape[:-1], 6, self.robot.n)

    # ---- energy and momentum

    def kinetic_energy(self, q: npt.ArrayLike, dq: npt.ArrayLike) -> Float:
        """Kinetic energy dq' M(q) dq / 2 with rotors, J; (T,), or a number for one state."""
        (x, v), shape = self._states(q, dq)
        return np.asarray(0.5 * (v * self._momentum(x, v)[0]).sum(axis=1).reshape(shape[:-1]))

    def potential_energy(self, q: npt.ArrayLike) -> Float:
        """Potential energy -sum m g . c + energy of springs, J; (T,), or a number for one state; without base tilt.

        It is zero with the weight at the origin of the base, and springs at the positions 0.
        """
        (x,), shape = self._states(q)
        R, p = self._placements(x)
        g, pi = self.robot.gravity, self.inertia
        energy = -(p @ g) @ pi[:, 0] - np.einsum("k,tikj,ij->t", g, R, pi[:, 1:4])
        energy = energy + sum(spring.energy(x) for spring in self.springs)
        return np.asarray(energy.reshape(shape[:-1]))

    def momentum(self, q: npt.ArrayLike, dq: npt.ArrayLike) -> Float:
        """Generalised momentum M(q) dq, kg m^2/s; of the shape of q."""
        (x, v), shape = self._states(q, dq)
        return self._momentum(x, v)[0].reshape(shape)

    def momentum_rate(self, q: npt.ArrayLike, dq: npt.ArrayLike, tau: npt.ArrayLike) -> Float:
        """Rate of momentum d(M dq)/dt = tau + C'(q, dq) dq - g(q) - friction(dq) under drive torque tau.

        C' dq = d(dq' M dq / 2)/dq.

        Parameters
        ----------
        q, dq : array_like, shape (n,) or (T, n), SI units
            State.
        tau : array_like, shape of q, N m (N)
            Drive torque.

        Returns
        -------
        ndarray, shape of q, N m (N)
            Rate.

        References
        ----------
        De Luca et al. 2006, equation 9.

        """
        (x, v, u), shape = self._states(q, dq, tau)
        return (u - self._momentum(x, v)[1] - self._friction(v)).reshape(shape)

    def external_torque(
        self,
        t: npt.ArrayLike,
        q: npt.ArrayLike,
        dq: npt.ArrayLike,
        tau: npt.ArrayLike,
        *,
        cutoff: float = CUTOFF,
    ) -> Float:
        """External torque on the joints along a record, low-passed, from the generalised momentum without acceleration.

        After a gap it restarts at zero. `observer` does the same sample by sample.

        Parameters
        ----------
        t : array_like, shape (T,), s
            Increasing times.
        q, dq, tau : array_like, shape (T, n), SI units
            Motion, and drive torque on the joint side.
        cutoff : float, Hz
            Cutoff frequency of the observer.

        Returns
        -------
        ndarray, shape (T, n), N m (N)
            External torque.

        Raises
        ------
        UsageError
            For arrays of other shapes, or times that do not increase.

        References
        ----------
        De Luca, Albu-Schaeffer, Haddadin and Hirzinger 2006.

        """
        time, x, v, u = (np.asarray(array, dtype=np.float64) for array in (t, q, dq, tau))
        return external_torque(self, time, x, v, u, cutoff)

    def observer(self, cutoff: float = CUTOFF) -> MomentumObserver:
        """Observer behind `external_torque`: call `update(dt, q, dq, tau)` for each sample; cutoff in Hz."""
        return MomentumObserver(self, cutoff)

    def friction_at_rest(self) -> tuple[Float, Float]:
        """Greatest dry friction of a joint at rest, and the speed below which it may be at rest.

        It is half the change of friction from that speed to its opposite, at which the smoothed sign is nearly one.

        Returns
        -------
        friction : ndarray, shape (n,), N m (N)
            Dry friction.
        speed : ndarray, shape (n,), rad/s (m/s)
            Speed.

        """
        slow = _NEARLY * np.where(self.width > 0, self.width, _WIDTH)
        return np.abs(self.friction(slow) - self.friction(-slow)) / 2.0, slow

    # ---- derivatives

    def torque_derivatives(
        self, q: npt.ArrayLike, dq: npt.ArrayLike, ddq: npt.ArrayLike, *, friction: bool = True
    ) -> tuple[Float, Float, Float]:
        """Derivatives of torque by q, dq and ddq, [i, j] = d tau_i / d x_j; the last one is M.

        For rigid links, viscous and Coulomb friction they are exact; for friction curves, coupled drives and a tilted
        base they are central differences.

        Parameters
        ----------
        q, dq, ddq : array_like, shape (n,) or (T, n), SI units
            Motion.
        friction : bool
            False = of inverse dynamics only.

        Returns
        -------
        by_q, by_dq, by_ddq : ndarray, shape (..., n, n)
            Derivatives.

        """
        (x, v, a), shape = self._states(q, dq, ddq)
        by_q, by_dq, M = (
            self._joint_matrix(matrix) for matrix in self._bodies.derivatives(*self._on_tree(x, v, a))
        )
        if self.tilt is not None:
            by_q = by_q + central_slopes(self._tilt_torque, x)
        if self.springs:
            by_q = by_q + self._spring_line[0]
        if friction:
            by_dq = by_dq + self._friction_slopes(v)
        return tuple(matrix.reshape(*shape, self.robot.n) for matrix in (by_q, by_dq, self._with_drives(M)))  # type: ignore[return-value]  # three arrays

    def acceleration_derivatives(
        self, q: npt.ArrayLike, dq: npt.ArrayLike, tau: npt.ArrayLike, *, friction: bool = True
    ) -> tuple[Float, Float, Float]:
        """Derivatives of forward dynamics by q, dq and tau, [i, j] = d ddq_i / d x_j.

        -M^-1 d tau/dq, -M^-1 d tau/d dq and M^-1, at the acceleration that tau causes.

        Parameters
        ----------
        q, dq : array_like, shape (n,) or (T, n), SI units
            State.
        tau : array_like, shape of q, N m (N)
            Drive torque.
        friction : bool
            False = the rigid robot only.

        Returns
        -------
        by_q, by_dq, by_tau : ndarray, shape (..., n, n)
            Derivatives.

        References
        ----------
        Carpentier and Mansard 2018.

        """
        ddq = self.forward_dynamics(q, dq, tau, friction=friction)
        by_q, by_dq, M = self.torque_derivatives(q, dq, ddq, friction=friction)
        inverse = np.asarray(np.linalg.inv(M), dtype=np.float64)
        return -inverse @ by_q, -inverse @ by_dq, inverse

    # ---- arrays (T, n), for exporters and observers

    def rigid_torque(self, q: Float, dq: Float, ddq: Float) -> Float:
        """Torque M ddq + C dq + g, with rotors and springs, (T, n)."""
        total = self._to_joints(self._bodies.inverse_dynamics(*self._on_tree(q, dq, ddq)))
        if self.robot.has_mimic:
            total = total + self.rotor * ddq
        if self.mixed:
            total = total + mixed_torque(self.mixed, (MotionBasis.ACCELERATION,), dq, ddq)
        return self._with_springs_and_tilt(total, q)

    def _friction(self, dq: Float) -> Float:
        friction = self._own_friction(dq)
        return (
            friction + mixed_torque(self.mixed, _FRICTION, dq, np.zeros_like(dq)) if self.mixed else friction
        )

    def _own_friction(self, dq: Float) -> Float:
        total = self.viscous * dq + self.coulomb * self._signs(dq) + self.offset
        for curve in self.curves:
            total[:, curve.joint] += curve.torque(self.robot, dq)
        return total

    def _signs(self, dq: Float) -> Float:
        smooth = self.width > 0
        if smooth.all():
            return np.tanh(dq / self.width)
        return np.where(smooth, np.tanh(dq / np.where(smooth, self.width, 1.0)), np.sign(dq))

    def _friction_slopes(self, dq: Float) -> Float:
        diagonal = smooth_friction_slopes(self.viscous, self.coulomb, self.width, dq)
        for curve in self.curves:
            diagonal[:, curve.joint] += curve_slopes(self.robot, curve, dq)
        slopes = diagonal[:, :, None] * np.eye(self.robot.n)
        parts = tuple(part for part in self.mixed if part.basis in _FRICTION)
        if not parts:
            return slopes
        still = np.zeros_like(dq)
        return slopes + central_slopes(lambda x: mixed_torque(parts, _FRICTION, x, still), dq)

    def _momentum(self, q: Float, dq: Float) -> tuple[Float, Float]:
        # Momentum M dq, and -C' dq + g.
        p, rest = (self._to_joints(values) for values in self._bodies.momentum(*self._on_tree(q, dq)))
        if self.robot.has_mimic:
            p = p + self.rotor * dq
        if self.mixed:
            p = p + mixed_torque(self.mixed, (MotionBasis.ACCELERATION,), dq, dq)
        return p, self._with_springs_and_tilt(rest, q)

    def _with_springs_and_tilt(self, torque: Float, q: Float) -> Float:
        # Adds torque that depends on positions only: springs and base tilt.
        if self.springs:
            torque = torque + self._spring_torque(q)
        return torque if self.tilt is None else torque + self._tilt_torque(q)

    def _spring_torque(self, q: Float) -> Float:
        slopes, preload = self._spring_line
        return q @ slopes + preload

    @cached_property
    def _spring_line(self) -> tuple[Float, Float]:
        # All springs together: slopes (n, n), and torque (n,) at positions 0.
        zero = np.zeros((1, self.robot.n))
        return spring_slopes(self.springs, self.robot.n), spring_torque(self.springs, zero)[0]

    def _tilt_torque(self, q: Float) -> Float:
        return np.zeros_like(q) if self.tilt is None else self.tilt.torque(self.robot, q)

    # ---- joints and bodies

    @cached_property
    def _bodies(self) -> Bodies:
        # Rotors belong to joints: with mimic joints they are added after the projection.
        rotor = None if self.robot.has_mimic else self.rotor
        return Bodies(self.robot.tree, self.inertia, rotor)

    @cached_property
    def _weightless(self) -> Bodies:
        return Bodies(replace(self.robot.tree, gravity=np.zeros(3)), self.inertia)

    @cached_property
    def _coupled_mass(self) -> Float:
        parts = [part for part in self.mixed if part.basis is MotionBasis.ACCELERATION]
        return sum(
            (part.value * np.outer(part.out, part.weights) for part in parts), np.zeros((self.robot.n,) * 2)
        )

    @cached_property
    def _bodies_are_complete(self) -> bool:
        # Whether the links contain all rigid-body torque except springs.
        return not self.robot.has_mimic and not self._coupled_mass.any() and self.tilt is None

    def _with_drives(self, M: Float) -> Float:
        total = M + np.diag(self.rotor) if self.robot.has_mimic else M
        return total + self._coupled_mass if self.mixed else total

    def _solved_acceleration(self, M: Float, force: Float) -> Float:
        try:
            np.linalg.cholesky(0.5 * (M + np.swapaxes(M, -1, -2)))
        except np.linalg.LinAlgError:
            raise SolverError(
                "singular-mass-matrix",
                found="a mass matrix that is not positive definite",
                expected="inertia behind every joint",
                do="identify with physically consistent links",
            ) from None
        return np.asarray(np.linalg.solve(M, force[..., None])[..., 0])

    def _on_tree(self, q: Float, *rates: Float) -> tuple[Float, ...]:
        if not self.robot.has_mimic:
            return (q, *rates)
        P = self.robot.projection.T
        return (q @ P + self.robot.projection_offset, *(rate @ P for rate in rates))

    def _to_joints(self, tau: Float) -> Float:
        return tau @ self.robot.projection if self.robot.has_mimic else tau

    def _joint_matrix(self, matrix: Float) -> Float:
        P = self.robot.projection
        return np.asarray(P.T @ matrix @ P) if self.robot.has_mimic else matrix

    def _placements(self, q: Float) -> tuple[Float, Float]:
        return self._bodies.placements(self._on_tree(q)[0])

    def _body(self, body: str | int) -> int:
        names = self.robot.body_names
        if isinstance(body, str):
            if body not in names:
                raise UsageError(
                    "unknown-body",
                    found=f"body '{body}'",
                    expected=listed(list(names)),
                    do=meant(body, names),
                )
            return names.index(body)
        if not -len(names) <= body < len(names):
            raise UsageError("unknown-body", found=f"body {body}", expected=f"0 to {len(names) - 1}")
        return body % len(names)

    def _states(self, *arrays: npt.ArrayLike) -> tuple[list[Float], tuple[int, ...]]:
        """States as (T, n), and the shape in which they were given."""
        given = [np.asarray(array, dtype=np.float64) for array in arrays]
        shape = given[0].shape
        if len(shape) not in (1, 2) or shape[-1] != self.robot.n or any(x.shape != shape for x in given):
            raise UsageError(
                "array-shape",
                found=f"arrays of shapes {', '.join(str(x.shape) for x in given)}",
                expected=f"(T, {self.robot.n}) or ({self.robot.n},), all the same: joints of '{self.robot.name}'",
            )
        return (given if len(shape) == 2 else [x[None] for x in given]), shape

    def overview(self) -> Overview:
        """Summary of the model for display."""
        robot = self.robot
        return Overview(
            f"Dynamics of '{robot.name}': {counted(robot.n, 'joint')}, {robot.n_bodies} moving links",
            (
                ("mass", f"{self.inertia[:, 0].sum():.4g} kg"),
                (
                    "gravity",
                    f"{robot.gravity.tolist()} m/s^2" + ("" if self.tilt is None else ", base tilted"),
                ),
                ("left out", listed(list(self.left_out)) or "nothing"),
                *(("springs", spring_text(robot, spring)) for spring in self.springs),
            ),
            ("joint", "rotor", "viscous", "Coulomb", "offset"),
            tuple(
                (name, *(f"{float(v[j]):.4g}" for v in (self.rotor, self.viscous, self.coulomb, self.offset)))
                for j, name in enumerate(robot.joint_names)
            ),
        )

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()
