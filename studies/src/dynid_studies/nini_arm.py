"""The painting arm of Nini et al. 2024: its variants, motions, noise and true parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dynid.base import Float
from dynid.estimate import Regression
from dynid.factor import Block, Factor, Factors, structural_base
from dynid.robot import Drive, RobotModel, load_example
from dynid.rows import Rows
from dynid.signals import Samples
from dynid.terms import Coulomb, MotorInertia, OnMotor, RigidBody, Spring, Terms, Triangle, Viscous
from dynid.verbs.statics import BalancedPoses
from dynid_studies.robots import study_robot

STIFFNESS, PRELOAD = 10.4e3, -2760.0
# The crank is a tail of link 2 behind its joint, the fixed end below: the springs take weight from the motor.
GEOMETRY = Triangle("j2", anchor=0.9, crank=0.45, angle=-1.5)
SPRINGS = Spring(GEOMETRY, label="springs")
FRICTION = Viscous() + Coulomb()
MOTOR_SIDE = Terms((MotorInertia(), OnMotor(Viscous()), OnMotor(Coulomb())))
MODEL = RigidBody() + MOTOR_SIDE + SPRINGS


def arm(*, coupled: bool = True, bars: bool = False) -> RobotModel:
    """The arm; coupled: with parallelogram and bevel; bars: with crank and coupler as bodies."""
    robot = study_robot("painting_arm_with_bars") if bars else load_example("painting_arm")
    if coupled:
        return robot
    drive = robot.drive
    plain = Drive(
        np.diag(drive.gear_ratio),
        drive.rotor_inertia,
        drive.torque_constant,
        drive.drive_gain,
        drive.torque_side,
    )
    return replace(robot, drive=plain)


def truth(robot: RobotModel, terms: Terms = MODEL) -> Float:
    """True parameters: the description's, friction at the motors, and the springs."""
    N = robot.drive.gear_ratio
    values = {"k_springs": STIFFNESS, "c_springs": PRELOAD}
    for i in range(robot.n):
        viscous, coulomb = robot.friction_prior[i]
        values |= {f"fv{i + 1}": viscous, f"fc{i + 1}": coulomb}
        values |= {f"fvm{i + 1}": viscous / N[i] ** 2, f"fcm{i + 1}": coulomb / N[i]}
    return np.array([values.get(column.name, column.prior) for column in terms.columns(robot)])


def motion(robot: RobotModel, count: int, seed: int = 0, seconds: float = 60.0) -> tuple[Float, Samples]:
    """Times and samples of a motion of five sines a joint that covers the workspace; torque zero."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, seconds, count)
    w = (
        2
        * np.pi
        * np.array([0.1, 0.21, 0.37, 0.53, 0.71])[:, None, None]
        * rng.uniform(0.9, 1.1, (5, 1, robot.n))
    )
    reach = np.array([2.5, 1.5, 1.5, 2.0, 1.6, 2.5])
    size = reach * np.array([0.5, 0.25, 0.12, 0.08, 0.05])[:, None, None]
    phase = w * t[None, :, None] + rng.uniform(0, 6.28, (5, 1, robot.n))
    middle = np.array([0.0, 1.4, -0.2, 0.0, 0.0, 0.0])
    q = middle + (size * np.sin(phase)).sum(axis=0)
    dq = (size * w * np.cos(phase)).sum(axis=0)
    ddq = (-size * w**2 * np.sin(phase)).sum(axis=0)
    return t, Samples.from_motion(q, dq, ddq, rate=(count - 1) / seconds)


def static_grid(robot: RobotModel, count: int, seed: int = 0) -> Float:
    """Poses (count, 6) spread over the workspace."""
    rng = np.random.default_rng(seed)
    reach = np.array([2.5, 0.9, 0.9, 2.5, 1.8, 2.5])
    return np.array([0.0, 1.4, -0.2, 0.0, 0.0, 0.0]) + reach * rng.uniform(-1, 1, (count, robot.n))


def with_noise(robot: RobotModel, q: Float, tau: Float, share: float, seed: int) -> Float:
    """Joint torque with white noise at the motors, of a share of each motor's torque range."""
    motors = robot.drive.motor_torque(q, tau)
    noise = share * np.ptp(motors, axis=0) * np.random.default_rng(seed).normal(size=motors.shape)
    return robot.drive.joint_torque(q, motors + noise)


def at_rest(q: Float, tau: Float | None = None) -> Samples:
    """Samples of poses."""
    return Samples.from_motion(q, np.zeros_like(q), np.zeros_like(q), tau)


def with_torque(robot: RobotModel, terms: Terms, samples: Samples, theta: Float) -> Samples:
    """The samples with the torque of parameters theta (p,)."""
    return replace(samples, tau=terms.torque(robot, samples, theta))


def known_poses(q: Float, tau: Float) -> BalancedPoses:
    """Poses whose friction has been averaged out already."""
    every = np.ones(q.shape, dtype=np.bool_)
    return BalancedPoses(q, tau, every, np.zeros_like(q), every[0])


def regression(
    robot: RobotModel, terms: Terms, rows: Rows, motions: Iterable[Samples], blocks: int = 8
) -> Regression:
    """Unfiltered equations of some motions, each cut into blocks; only their triangles are kept."""
    base = structural_base(robot, terms, rows)
    made = []
    for k, samples in enumerate(motions):
        for first, last in pairwise(np.linspace(0, len(samples), blocks + 1, dtype=int).tolist()):
            part = samples_from(samples, first, last)
            equations = rows.equations(robot, terms, part, base.mask)
            groups = tuple(
                Factor.from_panel(columns, panel)
                for columns, panel in zip(equations.columns, equations.panels, strict=True)
            )
            made.append(Block(f"motion {k}", k, float(first), float(last), groups))
    columns = terms.columns(robot)
    factors = Factors(rows.groups(robot), len(columns), tuple(made))
    return Regression(columns, base, factors, np.ones(len(columns)))


def samples_from(samples: Samples, first: int, last: int) -> Samples:
    """A stretch of samples."""
    part = slice(first, last)
    plain = Samples.from_motion(samples.q[part], samples.dq[part], samples.ddq[part], samples.tau[part])
    return replace(plain, t=samples.t[part], rate=samples.rate)
