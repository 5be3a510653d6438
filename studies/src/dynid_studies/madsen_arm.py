"""The arm of Madsen et al. 2020: a UR5e with two encoders a joint and strain-wave gears, its logs and regrouping."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from dynid import Log
from dynid.base import Float
from dynid.robot import RobotModel, load_example
from dynid.signals import Samples
from dynid.simulation import Elasticity, Plant, SimulatedMotion, follow, sample_times
from dynid.spatial import transformed
from dynid.terms import Coulomb, RigidBody, RotorCompensation, Terms, Viscous
from dynid.trajectories import FourierTrajectory

BODIES = Terms((RigidBody(),))
WIDTH, SECONDS, RATE = 0.02, 31.0, 1000.0
# Friction of the gears: Coulomb, N m; viscous, N m s/rad; fraction of the load; change of viscous friction per K.
FC, FV = np.array([8, 8, 6, 2, 2, 2.0]), np.array([12, 12, 10, 3, 3, 3.0])
FL, HEAT, REFERENCE = np.full(6, 0.08), np.full(6, -0.01), 25.0
STIFFNESS = np.array([2e4, 2e4, 1.5e4, 6e3, 6e3, 6e3])
TORQUE_NOISE = np.array([1.5, 1.5, 1, 0.3, 0.3, 0.3])
ENCODER_NOISE = 5e-6
# The estimators are compared under half of the current's noise, and at ten times that.
QUIET = 0.5
# Relative errors of the assumed friction, by joint.
SIGNS = np.array([1.0, -1, 1, -1, 1, -1])
DISCREPANCY = Viscous() + Coulomb(width=WIDTH)


@dataclass(frozen=True, eq=False)
class Run:
    """A true motion, and what was measured of it.    tau: drive torque from current, at the joints, (T, n)."""

    motion: SimulatedMotion
    q: Float
    theta: Float
    tau: Float
    temperature: Float


@cache
def robot() -> RobotModel:
    """Return the arm according to its maker."""
    return load_example("ur5e")


def bodies() -> Float:
    """Return the true links (6, 10): the maker's, with a tool of 1.5 kg that the robot file lacks."""
    T = np.eye(4)
    T[:3, 3] = 0.04, 0.03, 0.08
    inertia = np.array(robot().inertia_prior)
    inertia[5] += transformed(np.array([1.5, 0, 0, 0, 4e-3, 0, 4e-3, 0, 0, 4e-3]), T)
    return inertia


def trajectory(seed: int, seconds: float = SECONDS) -> FourierTrajectory:
    """A random motion of five harmonics of 0.1 Hz about a bent pose."""
    sine, cosine = np.random.default_rng(seed).normal(0, 0.35, (2, 6, 5))
    return FourierTrajectory(np.array([0, -1.2, 1.0, -0.8, 0.7, 0]), sine, cosine, 0.1, seconds, 1.5)


def friction(m: SimulatedMotion, temperature: Float) -> Float:
    """Friction of strain-wave gears in velocity, load and temperature, (T, n)."""
    viscous = FV * (1 + HEAT * (temperature - REFERENCE))
    return np.asarray(viscous * m.dtheta + (FC + FL * np.abs(m.load)) * np.tanh(m.dtheta / WIDTH))


def measured(seed: int = 0, noise: float = 1.0, seconds: float = SECONDS, current: float = 1.0) -> Run:
    """A run of the true arm, its gears warming up.    noise: 1 = the usual.    current: share of it in the current."""
    arm = robot()
    plant = Plant(arm, inertia=bodies(), elasticity=Elasticity(STIFFNESS, np.zeros(6)))
    m = follow(plant, trajectory(seed, seconds), sample_times(seconds - 1 / RATE, RATE))
    warm = REFERENCE + 12 * (1 - np.exp(-m.t / 20.0))[:, None] * np.ones(6)
    torque = m.load + friction(m, warm) + arm.drive.reflected_rotor_inertia * m.ddtheta
    rng = np.random.default_rng(1000 + seed)
    q, theta = (x + noise * ENCODER_NOISE * rng.normal(size=x.shape) for x in (m.q, m.theta))
    return Run(m, q, theta, torque + current * noise * TORQUE_NOISE * rng.normal(size=torque.shape), warm)


def log_of(run: Run, both: bool = True) -> Log:
    """The run as a log with temperatures; both: with the motors' encoders as well."""
    theta = run.theta if both else None
    return Log.from_arrays(robot(), run.motion.t, run.q, run.tau, theta=theta, temperature=run.temperature)


def known(
    error: float = 0.07, loaded_by: Literal["joint", "motor"] = "joint", signs: Float = SIGNS
) -> RotorCompensation:
    """Return the assumed rotors and friction, with a relative error in each friction coefficient."""
    share = 1 + error * signs
    viscous, coulomb, load = (tuple((share * x).tolist()) for x in (FV, FC, FL))
    return RotorCompensation(
        viscous=viscous,
        coulomb=coulomb,
        load=load,
        heat=tuple(HEAT.tolist()),
        reference=REFERENCE,
        width=WIDTH,
        loaded_by=loaded_by,
    )


def link_error(motion: SimulatedMotion, pi: Float) -> float:
    """Error of the links' torque along a true motion as a share of it, root mean square over the joints; pi: (60,)."""
    share = _squares(motion, pi)[0] / (motion.load[::20] ** 2).mean(axis=0)
    return float(np.sqrt(share.mean()))


def nmse(motion: SimulatedMotion, pi: Float) -> float:
    """Equation 22 as it has to be: sum over joints of mean(e^2) / mean(abs(tau)), N m."""
    squares, size = _squares(motion, pi)
    return float((squares / size).sum())


def _squares(motion: SimulatedMotion, pi: Float) -> tuple[Float, Float]:
    samples = Samples.from_motion(motion.q[::20], motion.dq[::20], motion.ddq[::20])
    error = BODIES.torque(robot(), samples, pi) - motion.load[::20]
    return (error**2).mean(axis=0), np.abs(motion.load[::20]).mean(axis=0)


def regrouped(pi: Float, slip: str = "") -> Float:
    """Equation 9 with Craig's indices, from the tip to the base; `slip` puts one of the print's back in.

    alpha: the angle of the next joint.    a: alpha^2 for a^2.    order: right sides before they are regrouped.
    """
    alpha, a, d = np.array([0, np.pi / 2, 0, 0, np.pi / 2, -np.pi / 2]), np.zeros(6), np.zeros(6)
    a[2:4], d[[0, 3, 4, 5]] = [-0.425, -0.3922], [0.1625, 0.1333, 0.0997, 0.0996]
    m, mx, my, mz, xx, xy, yy, xz, yz, zz = (np.array(column) for column in pi.T)
    for i in range(5, 0, -1):
        j = i - 1
        turn = (alpha[i + 1] if i < 5 else 0.0) if slip == "alpha" else alpha[i]
        s, c, A, D = np.sin(turn), np.cos(turn), a[i], d[i]
        far = turn**2 if slip == "a" else A**2
        YY, MZ, M = (pi[i, 6], pi[i, 3], pi[i, 0]) if slip == "order" else (yy[i], mz[i], m[i])
        moment = YY + 2 * D * MZ + D * D * M
        xx[j] += moment
        xy[j] += A * s * MZ + A * D * s * M
        xz[j] -= A * c * MZ + A * D * c * M
        yy[j] += c * c * moment + far * M
        yz[j] += c * s * moment
        zz[j] += s * s * moment + A * A * M
        mx[j] += A * M
        my[j] -= s * (MZ + D * M)
        mz[j] += c * (MZ + D * M)
        m[j] += M
        xx[i] -= YY
        yy[i] = mz[i] = m[i] = 0.0
    return np.stack([m, mx, my, mz, xx, xy, yy, xz, yz, zz], axis=1)
