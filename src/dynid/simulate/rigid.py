"""Rigid robots with rigid drives: exact torque of a motion, acceleration under a torque, motion over time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import SolverError, UsageError
from dynid.kernel import kinetic_energy_regressor, potential_energy_regressor, torque_regressor
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

CHUNK = 8192

TorqueLaw = Callable[[float, Float, Float], Float]


@dataclass(frozen=True, eq=False)
class SimulatedMotion:
    """What a simulated robot did: t (T,) s; q, dq, ddq and the joint torque behind them, each (T, n)."""

    t: Float
    q: Float
    dq: Float
    ddq: Float
    tau: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", locked(self.t, (None,), "t"))
        shape = (len(self.t), np.shape(self.q)[1])
        for name in ("q", "dq", "ddq", "tau"):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))


def inverse(robot: RobotModel, terms: Terms, theta: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Exact joint torque tau = Y(q, dq, ddq) theta of all terms, (T, n), in chunks so that memory stays flat.

    theta: (p,) over terms.columns(robot).    q, dq, ddq: (T, n).
    Raises UnfitDataError for a term that reads an extra log channel, since motion alone has none,
    and UsageError if theta has the wrong length or an unknown (nan) entry.
    """
    columns = terms.columns(robot)
    if np.shape(theta) != (len(columns),) or not np.isfinite(theta).all():
        bad = [c.name for c, value in zip(columns, theta, strict=False) if not np.isfinite(value)]
        raise UsageError(
            "parameters",
            found=f"{len(theta)} parameters" + (f", not finite: {', '.join(bad)}" if bad else ""),
            expected=f"{len(columns)} finite values",
        )
    tau = np.zeros_like(q)
    for first in range(0, len(q), CHUNK):
        part = slice(first, first + CHUNK)
        samples = Samples.from_motion(q[part], dq[part], ddq[part])
        tau[part] = terms.known_torque(robot, samples)
        panels = terms.torque_regressor(robot, samples)
        for joint, (indices, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
            tau[part, joint] += theta[indices] @ values
    return tau


def rigid_torque(robot: RobotModel, inertia: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Joint torque (T, n) of the rigid bodies alone; inertia: (nb, 10), motion (T, n)."""
    pi = np.ravel(inertia)
    panels = torque_regressor(robot.tree, *robot.tree_motion(q, dq, ddq))
    tau = np.stack(
        [pi[columns] @ values for columns, values in zip(panels.columns, panels.values, strict=True)], axis=1
    )
    return tau @ robot.projection if robot.has_mimic else tau


def equations_of_motion(
    robot: RobotModel, inertia: Float, rotor: Float, q: Float, dq: Float
) -> tuple[Float, Float]:
    """Mass matrix M (T, n, n), rotors included, and bias h = C dq + g (T, n), with tau = M ddq + h.

    inertia: (nb, 10).    rotor: (n,) rotor inertia seen at the joints, N^2 I_m, kg m^2 (kg when prismatic).
    One pass of the kernel over n + 2 motions a state: without acceleration, at rest, and at rest with a unit
    acceleration of each joint.
    """
    T, n = q.shape
    rates, pushes = np.zeros((T, n + 2, n)), np.zeros((T, n + 2, n))
    rates[:, 0] = dq
    pushes[:, 2:] = np.eye(n)
    shape = (T * (n + 2), n)
    tau = rigid_torque(
        robot, inertia, np.repeat(q, n + 2, axis=0), rates.reshape(shape), pushes.reshape(shape)
    )
    tau = tau.reshape(T, n + 2, n)
    M = tau[:, 2:] - tau[:, 1:2]
    return 0.5 * (M + M.transpose(0, 2, 1)) + np.diag(rotor), tau[:, 0]


def forward(robot: RobotModel, inertia: Float, rotor: Float, q: Float, dq: Float, tau: Float) -> Float:
    """Joint acceleration ddq = M^-1 (tau - C dq - g), (T, n).

    tau: (T, n) joint torque, friction already taken off.
    Raises SolverError if the mass matrix is singular: bodies or rotors without inertia.
    """
    M, h = equations_of_motion(robot, inertia, rotor, q, dq)
    try:
        return np.asarray(np.linalg.solve(M, (tau - h)[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError as error:
        raise SolverError(
            "singular-mass-matrix",
            found="a singular mass matrix",
            expected="every joint to move some inertia",
        ) from error


def energy(robot: RobotModel, inertia: Float, rotor: Float, q: Float, dq: Float) -> Float:
    """Kinetic energy of bodies and rotors plus potential energy, zero at the base origin, (T,) J."""
    pi = np.ravel(inertia)
    tree_q, tree_dq, _ = robot.tree_motion(q, dq, np.zeros_like(q))
    bodies = pi @ kinetic_energy_regressor(robot.tree, tree_q, tree_dq)
    height = pi @ potential_energy_regressor(robot.tree, tree_q)
    return np.asarray(bodies + height + 0.5 * dq**2 @ rotor)


def simulate(
    robot: RobotModel,
    inertia: Float,
    rotor: Float,
    torque: TorqueLaw,
    q0: Float,
    dq0: Float,
    duration: float,
    step: float = 1e-3,
) -> SimulatedMotion:
    """Motion from a state under a torque law, by the classical fourth-order Runge-Kutta method, fixed step.

    torque: (t, q (n,), dq (n,)) -> joint torque (n,), friction already taken off.    q0, dq0: (n,).
    duration, step: s.
    Raises UsageError for times that are not positive, SolverError if the motion runs off to infinity.
    """
    if not (step > 0 and duration >= step and math.isfinite(duration)):
        raise UsageError(
            "step", found=f"step {step} s, duration {duration} s", expected="0 < step <= duration"
        )
    T, n = round(duration / step) + 1, robot.n

    def acceleration(t: float, q: Float, dq: Float) -> Float:
        row: Float = forward(robot, inertia, rotor, q[None, :], dq[None, :], torque(t, q, dq)[None, :])[0]
        return row

    t: Float = step * np.arange(T, dtype=np.float64)
    q, dq, ddq, tau = np.zeros((4, T, n))
    q[0], dq[0] = q0, dq0
    for i in range(T):
        tau[i] = torque(float(t[i]), q[i], dq[i])
        ddq[i] = acceleration(float(t[i]), q[i], dq[i])
        if not np.isfinite(ddq[i]).all():
            raise SolverError(
                "diverged",
                found=f"no finite acceleration at t = {t[i]:.6g} s",
                expected="a motion that stays finite",
                do="shorten the step or soften the torque law",
            )
        if i + 1 < T:
            q[i + 1], dq[i + 1] = _runge_kutta(acceleration, float(t[i]), q[i], dq[i], ddq[i], step)
    return SimulatedMotion(t, q, dq, ddq, tau)


def _runge_kutta(
    acceleration: TorqueLaw, t: float, q: Float, v: Float, a1: Float, h: float
) -> tuple[Float, Float]:
    v2 = v + 0.5 * h * a1
    a2 = acceleration(t + 0.5 * h, q + 0.5 * h * v, v2)
    v3 = v + 0.5 * h * a2
    a3 = acceleration(t + 0.5 * h, q + 0.5 * h * v2, v3)
    v4 = v + h * a3
    a4 = acceleration(t + h, q + h * v3, v4)
    return q + h / 6.0 * (v + 2.0 * v2 + 2.0 * v3 + v4), v + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
