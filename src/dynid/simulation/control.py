"""Controllers: drive torque as a function of time and state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel.multibody import Control
from dynid.simulation.plant import Dahl, LuGre, Plant, State
from dynid.trajectories.trajectory import Trajectory


class Controller(Protocol):
    """Interface of a controller; torque is that of the motors on the joint side."""

    def torque(self, t: Float, state: State) -> Float:
        """Drive torque (B, n) at times (B,) in states of (B, n) each."""
        ...


@runtime_checkable
class Tabular(Protocol):
    """A controller for the compiled integration step: linear feedback of the motors along a table."""

    def table(self, t: Float) -> Control | None:
        """Control law with its inputs at times (R,); None if it is not of that form."""
        ...


# rad/s (m/s): a slow motion of a robot, in which a drive still has to overcome dry friction.
SLOW_MOTION = 0.1
# Rows of a tabulated trajectory computed at once: many steps, but only a small part of a motion.
TABULATED_ROWS = 8192


class Tabulated:
    """A trajectory on a grid, computed in blocks, which is fast for the many single times of an integration.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory.
    spacing : float, s
        Spacing of the grid; other times are computed when requested.

    """

    def __init__(self, trajectory: Trajectory, spacing: float) -> None:
        self.trajectory, self.spacing = trajectory, spacing
        self._last = math.ceil(trajectory.duration / spacing) + 1
        self._first = 0
        self._block: tuple[Float, Float, Float] | None = None

    @property
    def duration(self) -> float:
        """Length of the motion, s."""
        return self.trajectory.duration

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Positions, velocities and accelerations, (T, n) each."""
        if len(t) == 1:
            at = t[0] / self.spacing
            row = round(at)
            if abs(at - row) < 1e-6 and 0 <= row <= self._last:
                return self._row(row)
        return self.trajectory.motion(t)

    def _row(self, row: int) -> tuple[Float, Float, Float]:
        place = row % TABULATED_ROWS
        if self._block is None or row - place != self._first:
            self._first = row - place
            rows = np.arange(self._first, min(self._first + TABULATED_ROWS, self._last + 1), dtype=np.float64)
            self._block = self.trajectory.motion(self.spacing * rows)
        q, dq, ddq = self._block
        return q[place : place + 1], dq[place : place + 1], ddq[place : place + 1]


@dataclass(frozen=True)
class OpenLoop:
    """Torque as a function of time only: law(t) with t (B,) returns (B, n)."""

    law: Callable[[Float], Float]

    def torque(self, t: Float, state: State) -> Float:
        """Torque of the law."""
        return self.law(t)

    def table(self, t: Float) -> Control | None:
        """Torque at all times."""
        u = self.law(t)
        return Control(u.shape[1], u=u)


@dataclass(frozen=True, eq=False)
class TorqueTable:
    """Torque from a table, linear between its points and constant outside.

    Parameters
    ----------
    t : ndarray, shape (T,), s
        Increasing times.
    tau : ndarray, shape (T, n), N m (N)
        Torque.

    Raises
    ------
    UsageError
        If times do not increase, or torque is not finite.

    """

    t: Float
    tau: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", locked(self.t, (None,), "t"))
        object.__setattr__(self, "tau", locked(self.tau, (len(self.t), None), "tau"))
        if len(self.t) < 2 or not (np.diff(self.t) > 0).all() or not np.isfinite(self.tau).all():
            raise UsageError("torque-table", found="times that do not increase, or torque that is not finite",
                             expected="at least two increasing times and finite torque")  # fmt: skip

    def torque(self, t: Float, state: State) -> Float:
        """Torque interpolated in the table."""
        return np.stack([np.interp(t, self.t, column) for column in self.tau.T], axis=1)

    def table(self, t: Float) -> Control | None:
        """Torque at all times."""
        u = np.stack([np.interp(t, self.t, column) for column in self.tau.T], axis=1)
        return Control(u.shape[1], u=u)


@dataclass(frozen=True, eq=False)
class GravityPD:
    """PD control of the motors with on-line gravity compensation, for elastic and rigid joints.

    u = K_P (theta_d - theta) + K_D (dq_d - dtheta) + g(theta - K^-1 g(q_d)), theta_d = q_d + K^-1 g(q_d). With rigid
    joints theta = q and K^-1 = 0. g includes the loads of the model.

    Parameters
    ----------
    model : Plant
        Model that the controller uses.
    reference : Trajectory
        Reference motion.
    kp, kd : ndarray, shape (n,), N m/rad and N m s/rad (N/m and N s/m)
        Gains.

    References
    ----------
    De Luca, Siciliano and Zollo 2005.

    """

    model: Plant
    reference: Trajectory
    kp: Float
    kd: Float

    def __post_init__(self) -> None:
        _lock_gains(self, self.model.n)

    def torque(self, t: Float, state: State) -> Float:
        """Drive torque."""
        q, dq, _ = self.reference.motion(t)
        bend = np.zeros_like(q)
        if self.model.elasticity is not None:
            bend = self.model.holding_torque(q) / self.model.elasticity.stiffness
        gravity = self.model.holding_torque(state.theta - bend)
        return np.asarray(self.kp * (q + bend - state.theta) + self.kd * (dq - state.dtheta) + gravity)

    def table(self, t: Float) -> Control | None:
        """Control law along the reference; None for a model with loads."""
        weight = self.model.rigid.multibody
        if self.model.loads or weight is None:
            return None
        q, dq, _ = self.reference.motion(t)
        bend = np.zeros_like(q)
        if self.model.elasticity is not None:
            bend = self.model.holding_torque(q) / self.model.elasticity.stiffness
        return Control(self.model.n, kp=self.kp, kd=self.kd, q=q + bend, v=dq, bend=bend, weight=weight)


@dataclass(frozen=True, eq=False)
class ComputedTorque:
    """Inverse dynamics of a rigid model about the measured motion, with linear feedback of acceleration.

    u = M(theta) (ddq_d + K_D (dq_d - dtheta) + K_P (q_d - theta)) + h(theta, dtheta) + friction(dq_d). The motion of
    the motors is fed back, which is that of the joints if these are rigid.

    Parameters
    ----------
    model : Plant
        Model that the controller uses; its elasticity is ignored.
    reference : Trajectory
        Reference motion.
    kp, kd : ndarray, shape (n,), 1/s^2 and 1/s
        Gains.
    friction : bool
        Whether the friction of the model is fed forward.

    """

    model: Plant
    reference: Trajectory
    kp: Float
    kd: Float
    friction: bool = True

    def __post_init__(self) -> None:
        _lock_gains(self, self.model.n)

    def torque(self, t: Float, state: State) -> Float:
        """Drive torque."""
        model = self.model.rigid
        q, dq, ddq = self.reference.motion(t)
        M, h = model.equations(state.theta, state.dtheta)
        wanted = ddq + self.kd * (dq - state.dtheta) + self.kp * (q - state.theta)
        u = np.einsum("bij,bj->bi", M, wanted) + h + model.load_torque(state.theta, state.dtheta)
        if self.friction and model.friction is not None and model.friction.states == 0:
            u = u + model.friction_torque(model.vector(State(q, dq, q, dq)))
        return np.asarray(u)


def pd_gains(model: Plant, bandwidth: float, damping: float = 1.0) -> tuple[Float, Float]:
    """Gains of GravityPD: w^2 m and 2 damping w m, with w = 2 pi bandwidth and m the inertia that a drive moves.

    m is the greatest diagonal entry of M over random postures within the limits, or d / w if that is greater, with d
    the friction torque over the velocity at SLOW_MOTION: where friction exceeds the inertial torque, gains from the
    inertia alone would leave the joint at rest.

    Parameters
    ----------
    model : Plant
        Robot.
    bandwidth : float, Hz
        Bandwidth of the loop.
    damping : float
        Damping ratio.

    Returns
    -------
    kp, kd : ndarray, shape (n,)
        Gains.

    """
    low, high = (
        np.where(np.isfinite(x), x, s)
        for x, s in ((model.robot.limits.lower, -np.pi), (model.robot.limits.upper, np.pi))
    )
    q = np.random.default_rng(0).uniform(low, high, (64, model.n))
    M = model.rigid.equations(q, np.zeros_like(q))[0]
    inertia = np.diagonal(M, axis1=1, axis2=2).max(axis=0)
    w = 2.0 * np.pi * bandwidth
    inertia = np.maximum(inertia, _drag(model) / w)
    return inertia * w**2, 2.0 * damping * w * inertia


def _drag(model: Plant) -> Float:
    # Friction torque (n,) over velocity in slow, steady motion, N m s/rad (N s/m).
    friction, speed = model.friction, np.full((1, model.n), SLOW_MOTION)
    zero = np.zeros_like(speed)
    inner = np.zeros((1, model.friction_states))
    if isinstance(friction, Dahl | LuGre):
        level = friction.coulomb if isinstance(friction, Dahl) else friction.level(speed)
        inner = np.broadcast_to(level / friction.stiffness, inner.shape)
    y = model.vector(State(zero, speed, zero, speed), inner)
    return np.asarray(np.abs(model.friction_torque(y)[0]) / SLOW_MOTION)


def _lock_gains(controller: GravityPD | ComputedTorque, n: int) -> None:
    for name in ("kp", "kd"):
        gain = locked(np.broadcast_to(getattr(controller, name), (n,)), (n,), name)
        if not (np.isfinite(gain) & (gain >= 0)).all():
            raise UsageError("gains", found=f"{name} = {gain.tolist()}", expected="finite numbers >= 0")
        object.__setattr__(controller, name, gain)
