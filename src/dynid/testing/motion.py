"""Regressions from simulated motion, with their samples and encoder noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.prior import regression_of
from dynid.estimate.source import LogSource
from dynid.factor.assemble import Assembly
from dynid.factor.base import influence, structural_base
from dynid.factor.blocking import Blocking
from dynid.recording import Commands
from dynid.robot.drive import Drive, Servo
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.signals.noise import MotionNoise
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.terms.elastic import Stiffness, is_stiffness
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Terms
from dynid.testing.builders import Synthetic, random_robot

# Hz: sampling rate, and cutoff frequency of the equations.
RATE, CUTOFF = 200.0, 20.0
# Without and with elastic joints: relative torque noise, and position noise in rad.
NOISE = {False: (0.02, 1e-4), True: (0.005, 2e-5)}
# Noise almost without effect: relative for torque, and in rad.
QUIET = 1e-9


def measured_regression(
    seed: int = 0,
    *,
    quiet: bool = False,
    elastic: bool = False,
    seconds: float = 10.0,
    position_noise: float | None = None,
    torque_noise: float | None = None,
    spoiled_from: float = 1.0,
    friction: bool = False,
    rows: Rows | None = None,
    motion: int | None = None,
) -> Synthetic:
    """Robot with two joints on a motion of sines, with white noise on positions (rad, filtered) and torque.

    Parameters
    ----------
    seed : int
        Seed.
    quiet : bool
        Noise of 1e-9 only.
    elastic : bool
        Springs between motors and links, both measured.
    seconds : float, s
        Duration.
    position_noise : float, rad, optional
        Standard deviation; None = 1e-4, or 2e-5 with elastic joints.
    torque_noise : float, optional
        Share of each joint's root mean square; None = 2 %, or 0.5 % with elastic joints.
    spoiled_from : float
        Share of the time after which torque is random; 1 = never.
    friction : bool
        Whether there is dry friction.
    rows : Rows, optional
        Row scheme; None = torque or elastic rows.
    motion : int, optional
        Seed of the motion; None = that of the noise.

    Returns
    -------
    Synthetic
        Regression and truth.

    """
    robot = two_joints(elastic)
    terms = RigidBody() + Viscous() + Offset()
    if friction:
        terms = terms + Coulomb(width=0.1)
    if elastic:
        terms = terms + RotorInertia() + Stiffness()
    scheme: Rows = (ElasticRows() if elastic else TorqueRows()) if rows is None else rows
    theta = true_parameters(robot, terms)
    exact = exact_samples(robot, terms, theta, seconds, seed if motion is None else motion)
    rng = np.random.default_rng(seed + 1000)
    usual = (QUIET, QUIET) if quiet else NOISE[elastic]
    noise = encoder_noise(robot.n, usual[1] if position_noise is None else position_noise)
    size = (usual[0] if torque_noise is None else torque_noise) * np.sqrt(np.mean(exact.tau**2, axis=0))
    tau = exact.tau + size * rng.normal(0, 1, exact.tau.shape)
    late = exact.t > spoiled_from * seconds
    tau[late] = np.random.default_rng(seed).normal(0, 10, (int(late.sum()), robot.n))
    measured = noise.added(replace(exact, tau=tau), rng)
    structural = structural_base(robot, terms, scheme)
    parallel = ParallelFilter(RATE, CUTOFF, decimation=2)
    assembly = Assembly(robot, terms, scheme, structural.mask, parallel, Blocking(seconds / 16))
    factors = assembly.factors([measured])
    source = LogSource(
        assembly,
        [measured],
        noise_of=lambda given: noise if given is None else encoder_noise(robot.n, given),
        commands=lambda trajectory: commands_of(robot, replace(exact, tau=tau)),
    )
    regression = regression_of(robot, terms, structural, factors, source)
    base = regression.base
    effect = influence(regression.factors)[base.independent]
    return Synthetic(regression, theta, base.reduce(theta), (), (), 1.0 / effect, seconds)


def two_joints(elastic: bool = False) -> RobotModel:
    """Random robot with two revolute joints under position control; elastic: with rotors behind gears."""
    servo = Servo(
        np.full(2, 300.0), np.full(2, 60.0), np.full(2, np.inf), np.zeros(2), delay=0.0075, hold=0.005
    )
    robot = random_robot(3, 2, 0.0).with_servo(servo)
    if not elastic:
        return robot
    unknown = np.full(2, np.nan)
    drive = Drive(np.diag([50.0, 40.0]), np.array([2.0, 0.8]) / np.array([50.0, 40.0]) ** 2, unknown, unknown)
    return replace(robot, drive=replace(drive, servo=servo))


def commands_of(robot: RobotModel, exact: Samples) -> Commands:
    """Commands of the drives for this motion: positions, and the torque one lag ahead as feed-forward."""
    servo = robot.drive.servo
    ahead = 0 if servo is None else round(servo.lag * RATE)
    last = np.repeat(exact.tau[-1:], ahead, axis=0)
    return Commands(exact.t, exact.q, exact.dq, np.concatenate([exact.tau[ahead:], last]))


def true_parameters(robot: RobotModel, terms: Terms) -> Float:
    """Prior values, and numbers of order one where there are none; springs of 2000 N m/rad."""
    chosen = {"viscous": 1.5, "coulomb": 2.0, "offset": 0.7, "stiffness": 2000.0}
    return np.array([c.prior if np.isfinite(c.prior) else chosen[c.term] for c in terms.columns(robot)])


def exact_samples(robot: RobotModel, terms: Terms, theta: Float, seconds: float, seed: int) -> Samples:
    """Samples of a motion of sines with the exact torque of the model; motors lead elastic joints.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    theta : ndarray, shape (p,)
        Parameters.
    seconds : float, s
        Duration.
    seed : int
        Seed.

    Returns
    -------
    Samples
        Samples.

    """
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    w = 2 * np.pi * rng.uniform(0.2, 1.2, (robot.n, 3, 1))
    phase, size = rng.uniform(0, 6, (robot.n, 3, 1)), rng.uniform(0.3, 0.7, (robot.n, 3, 1))
    # Position, velocity and acceleration as exact derivatives of the sines.
    q, dq, ddq = ((size * w**k * np.sin(w * t + phase + k * np.pi / 2)).sum(axis=1).T for k in range(3))
    still = np.abs(dq).max(axis=1) >= 0.02
    plain = replace(Samples.from_motion(q, dq, ddq, rate=RATE), keep=still)
    stiffness = [i for i, c in enumerate(terms.columns(robot)) if is_stiffness(c)]
    if not stiffness:
        return replace(plain, tau=terms.torque(robot, plain, theta))
    return _behind_springs(robot, theta, theta[stiffness], t, (w, phase, size), plain)


def _behind_springs(
    robot: RobotModel,
    theta: Float,
    stiffness: Float,
    t: Float,
    sines: tuple[Float, Float, Float],
    plain: Samples,
) -> Samples:
    # The link torque is that of rigid links; the motor leads by the deflection of the spring.
    w, phase, size = sines
    bodies = Terms((RigidBody(),))
    h = 1e-3

    def lead(shift: float) -> Float:
        q, dq, ddq = (
            (size * w**k * np.sin(w * (t + shift) + phase + k * np.pi / 2)).sum(axis=1).T for k in range(3)
        )
        moved = Samples.from_motion(q, dq, ddq, rate=RATE)
        return np.asarray(q + bodies.torque(robot, moved, theta[: 10 * robot.n_bodies]) / stiffness)

    far2, far, now, near, near2 = (lead(k * h) for k in (-2, -1, 0, 1, 2))
    dtheta = (8.0 * (near - far) - (near2 - far2)) / (12.0 * h)
    ddtheta = (16.0 * (near + far) - (near2 + far2) - 30.0 * now) / (12.0 * h**2)
    n = robot.n
    start = 10 * robot.n_bodies
    viscous, offset, rotor = theta[start : start + n], theta[start + n : start + 2 * n], theta[-2 * n : -n]
    tau = stiffness * (now - plain.q) + viscous * dtheta + offset + rotor * ddtheta
    return replace(plain, tau=tau, theta=now, dtheta=dtheta, ddtheta=ddtheta)


def encoder_noise(n: int, position: float | Sequence[float]) -> MotionNoise:
    """White noise of positions, filtered at the cutoff frequency and differentiated."""
    level = np.broadcast_to(np.asarray(position, dtype=np.float64), (n,))
    return MotionNoise(level, np.zeros(n), level, np.zeros(n), False, RATE, 1, (CUTOFF,) * n, 4)
