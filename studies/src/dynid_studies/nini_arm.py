"""The painting arm of Nini et al. 2024: its variants, motions, noise and true parameters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.estimator import Regression
from dynid.factor.base import structural_base
from dynid.factor.factor import Block, Factor, Factors
from dynid.robot import load_example, load_robot
from dynid.robot.drive import Drive
from dynid.robot.model import RobotModel
from dynid.rows.rows import Rows
from dynid.signals.samples import Samples
from dynid.terms import Coulomb, MotorInertia, OnMotor, RigidBody, Spring, Terms, Triangle, Viscous
from dynid.verbs.statics import BalancedPoses

STIFFNESS, PRELOAD = 10.4e3, -2760.0
# The crank is a tail of link 2 behind its joint, the fixed end below: the springs take weight from the motor.
GEOMETRY = Triangle("j2", anchor=0.9, crank=0.45, angle=-1.5)
SPRINGS = Spring(GEOMETRY, label="springs")
FRICTION = Viscous() + Coulomb()
MOTOR_SIDE = Terms((MotorInertia(), OnMotor(Viscous()), OnMotor(Coulomb())))
MODEL = RigidBody() + MOTOR_SIDE + SPRINGS

BARS = """
[[joint]]
name = "crank"
parent = "j1"
a = 0.25
alpha = 0.0
d = 0.0
follows = { j2 = 1.0, j3 = 1.0 }
follows_offset = 1.2
inertial = { mass = 14.0, com = [-0.12, 0.0, 0.0], inertia = { xx = 0.02, yy = 0.1, zz = 0.1 } }

[[joint]]
name = "coupler"
parent = "crank"
a = 1.10
alpha = 0.0
d = 0.0
follows = { j3 = -1.0 }
follows_offset = -1.2
inertial = { mass = 16.0, com = [-0.55, 0.0, 0.0], inertia = { xx = 0.02, yy = 1.6, zz = 1.6 } }
"""


def arm(*, coupled: bool = True, bars: bool = False) -> RobotModel:
    """The arm; coupled: with parallelogram and bevel; bars: with crank and coupler as bodies."""
    robot = with_bars() if bars else load_example("painting_arm")
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


def with_bars() -> RobotModel:
    """The arm with the bars of its parallelogram, joints that follow others, added to its description."""
    text = files("dynid.data").joinpath("painting_arm.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bars.toml"
        path.write_text(text + BARS, encoding="utf-8")
        return load_robot(path)


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
