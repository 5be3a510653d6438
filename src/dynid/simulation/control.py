"""Controllers: drive torque from time and state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel.multibody import Control
from dynid.simulation.plant import Plant, State
from dynid.trajectories.trajectory import Trajectory


class Controller(Protocol):
    """The seam for controllers; the torque is the motors', seen at the joints."""

    def torque(self, t: Float, state: State) -> Float:
        """Drive torque (B, n) at times (B,) in states of (B, n) each."""
        ...


@runtime_checkable
class Tabular(Protocol):
    """A controller whose law the compiled step knows: linear feedback of the motors along a table."""

    def table(self, t: Float) -> Control | None:
        """The law with its inputs at times (R,), or None where it is more than that."""
        ...


# Rows of a tabulated trajectory that are kept at a time: much more than a step, much less than a motion.
TABULATED_ROWS = 8192


class Tabulated:
    """A trajectory on a grid, computed in blocks: quick for the many single times that an integration asks for.

    spacing: s; other times than multiples of it are computed when asked for.
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
        """q, dq, ddq, each (T, n)."""
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
    """Torque as a function of time alone: t (B,) -> (B, n)."""

    law: Callable[[Float], Float]

    def torque(self, t: Float, state: State) -> Float:
        """The law's torque."""
        return self.law(t)

    def table(self, t: Float) -> Control | None:
        """Torque at all times."""
        u = self.law(t)
        return Control(u.shape[1], u=u)


@dataclass(frozen=True, eq=False)
class TorqueTable:
    """Torque from a table, straight between its points, the first and last value outside.

    t: (T,) s, rising.    tau: (T, n).    Raises UsageError if times do not rise.
    """

    t: Float
    tau: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", locked(self.t, (None,), "t"))
        object.__setattr__(self, "tau", locked(self.tau, (len(self.t), None), "tau"))
        if len(self.t) < 2 or not (np.diff(self.t) > 0).all() or not np.isfinite(self.tau).all():
            raise UsageError("torque-table", found="times that do not rise, or torque that is not finite",
                             expected="two or more rising times with finite torque")  # fmt: skip

    def torque(self, t: Float, state: State) -> Float:
        """Torque between the points of the table."""
        return np.stack([np.interp(t, self.t, column) for column in self.tau.T], axis=1)

    def table(self, t: Float) -> Control | None:
        """Torque at all times."""
        u = np.stack([np.interp(t, self.t, column) for column in self.tau.T], axis=1)
        return Control(u.shape[1], u=u)


@dataclass(frozen=True, eq=False)
class GravityPD:
    """PD at the motors with on-line gravity compensation, for elastic and rigid joints.

    u = K_P (theta_d - theta) + K_D (dq_d - dtheta) + g(theta - K^-1 g(q_d)), theta_d = q_d + K^-1 g(q_d); with rigid
    joints theta = q and K^-1 = 0. g holds the loads of the model as well.

    model: what the controller believes the robot to be.    kp, kd: (n,).
    Source: De Luca, Siciliano and Zollo 2005.
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
        """The law along the reference; None for a model with loads."""
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

    u = M(theta) (ddq_d + K_D (dq_d - dtheta) + K_P (q_d - theta)) + h(theta, dtheta) + friction(dq_d); the motor
    motion is fed back, which for rigid joints is that of the joints.

    model: what the controller believes the robot to be; its elasticity is not used.
    kp, kd: (n,) 1/s^2 and 1/s.    friction: whether the model's friction is fed forward.
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
    """Gains (n,) of GravityPD: w^2 m and 2 damping w m, w = 2 pi bandwidth, m the greatest inertia seen by a drive.

    bandwidth: Hz.    The inertia is the greatest diagonal entry of M over random postures within the limits.
    """
    low, high = (
        np.where(np.isfinite(x), x, s)
        for x, s in ((model.robot.limits.lower, -np.pi), (model.robot.limits.upper, np.pi))
    )
    q = np.random.default_rng(0).uniform(low, high, (64, model.n))
    M = model.rigid.equations(q, np.zeros_like(q))[0]
    inertia = np.diagonal(M, axis1=1, axis2=2).max(axis=0)
    w = 2.0 * np.pi * bandwidth
    return inertia * w**2, 2.0 * damping * w * inertia


def _lock_gains(controller: GravityPD | ComputedTorque, n: int) -> None:
    for name in ("kp", "kd"):
        gain = locked(np.broadcast_to(getattr(controller, name), (n,)), (n,), name)
        if not (np.isfinite(gain) & (gain >= 0)).all():
            raise UsageError("gains", found=f"{name} = {gain.tolist()}", expected="finite numbers >= 0")
        object.__setattr__(controller, name, gain)
