"""Five robots for the campaign of wrong inputs: what is true of them, and what their descriptions say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.robot import load_example, load_robot
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.spatial.inertia import from_com, to_com

# Mass, and length of the cylinder whose end is the joint: bodies made up to be about as heavy as those of such arms.
PANDA_BODIES = ((5.0, 0.3), (2.2, 0.2), (3.2, 0.3), (3.4, 0.2), (2.9, 0.35), (1.6, 0.1), (1.1, 0.15))
POLAR_BODIES = ((22.0, 0.4), (14.0, 0.5), (7.0, 0.6), (3.0, 0.25))


@dataclass(frozen=True, eq=False)
class Machine:
    """A robot as it is.    payload: mass, kg, of a load that counts as heavy for it."""

    name: str
    robot: RobotModel
    payload: float


def machines() -> tuple[Machine, ...]:
    """The demo's arm, a Panda, a UR5e, a KUKA KR300 and a polar arm with a telescope."""
    return (
        Machine("arm7", load_example("arm7"), 3.0),
        Machine("panda", _panda(), 3.0),
        Machine("ur5e", _ur5e(), 4.0),
        Machine("kr300", _kr300(), 250.0),
        Machine("polar", _polar(), 6.0),
    )


def imprecise(
    robot: RobotModel, rng: np.random.Generator, error: tuple[float, float] = (0.2, 0.3)
) -> RobotModel:
    """The robot as it may be described: geometry exact, masses, centres and inertias off by shares within `error`."""

    def off(size: int) -> Float:
        return np.asarray(1.0 + rng.choice([-1.0, 1.0], size) * rng.uniform(*error, size))

    prior = []
    for body in robot.inertia_prior:
        mass, com, inertia = to_com(body)
        scale = float(off(1)[0])
        prior.append(from_com(scale * mass, com * off(3), scale * inertia))
    friction = robot.friction_prior * off(2 * robot.n).reshape(robot.n, 2)
    return replace(robot, inertia_prior=np.array(prior), friction_prior=friction)


def tilted(robot: RobotModel, angle: float, azimuth: float) -> RobotModel:
    """The robot on a base that leans by an angle, rad, towards an azimuth, rad."""
    g = robot.gravity
    side = np.cross(g, [1.0, 0.0, 0.0] if abs(g[0]) < 0.9 * np.linalg.norm(g) else [0.0, 1.0, 0.0])
    side *= np.linalg.norm(g) / np.linalg.norm(side)
    other = np.cross(side, g) / np.linalg.norm(g)
    lean = np.cos(azimuth) * side + np.sin(azimuth) * other
    return replace(robot, gravity=np.cos(angle) * g + np.sin(angle) * lean)


def loaded(robot: RobotModel, mass: float, rng: np.random.Generator) -> RobotModel:
    """The robot with a load on its last body, a ball of 10 cm whose centre is 5 to 15 cm off the joint."""
    com = rng.normal(size=3)
    com *= rng.uniform(0.05, 0.15) / np.linalg.norm(com)
    prior = robot.inertia_prior.copy()
    prior[-1] += from_com(mass, com, 0.4 * mass * 0.05**2 * np.eye(3))
    return replace(robot, inertia_prior=prior)


def _cylinder(mass: float, length: float, lean: float) -> Float:
    across = mass * (3 * 0.05**2 + length**2) / 12
    com = np.array([0.3 * length, lean * 0.1 * length, 0.45 * length])
    return from_com(
        mass, com, np.diag([across, across, 0.5 * mass * 0.05**2]) + 0.05 * across * (1 - np.eye(3))
    )


def _bodies(shapes: tuple[tuple[float, float], ...]) -> Float:
    return np.array([_cylinder(mass, length, (-1.0) ** i) for i, (mass, length) in enumerate(shapes)])


def _panda() -> RobotModel:
    robot = load_example("panda")
    friction = np.column_stack([np.full(7, 0.6), np.array([1.0, 1.0, 0.8, 0.8, 0.5, 0.4, 0.4])])
    return replace(robot, inertia_prior=_bodies(PANDA_BODIES), friction_prior=friction)


def _ur5e() -> RobotModel:
    robot = load_example("ur5e")
    friction = np.array([[9.0, 8.0], [9.0, 8.0], [7.0, 6.0], [2.0, 2.0], [2.0, 2.0], [1.5, 1.5]])
    effort = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
    return replace(robot, friction_prior=friction, limits=_limits(2.8, 2.5, effort))


def _kr300() -> RobotModel:
    robot = load_robot(Path(__file__).resolve().parents[1] / "tests" / "robots" / "kr300_cad.toml")
    drive = replace(robot.drive, torque_side=Drive.direct(1).torque_side)
    return replace(robot, drive=drive, limits=_limits(1.3, 1.2, np.full(6, np.inf)))


def _polar() -> RobotModel:
    # A column that turns, a shoulder that lifts, a telescope, a wrist that nods.
    T = np.tile(np.eye(4), (4, 1, 1))
    T[0, 2, 3], T[1, 2, 3], T[2, 0, 3], T[3, 0, 3] = 0.6, 0.3, 0.2, 0.5
    names = ("column", "shoulder", "telescope", "wrist")
    return RobotModel(
        name="polar",
        body_names=tuple(f"{name}_body" for name in names),
        tree_joint_names=names,
        joint_names=names,
        parent=np.array([-1, 0, 1, 2]),
        joint_types=(JointType.REVOLUTE, JointType.REVOLUTE, JointType.PRISMATIC, JointType.REVOLUTE),
        T_parent_joint=T,
        axis=np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        inertia_prior=_bodies(POLAR_BODIES),
        gravity=np.array([0.0, 0.0, -9.81]),
        limits=Limits(
            np.array([-2.5, -1.2, 0.0, -2.0]),
            np.array([2.5, 1.2, 0.6, 2.0]),
            np.array([1.5, 1.2, 0.5, 2.5]),
            np.array([200.0, 400.0, 400.0, 60.0]),
        ),
        drive=Drive.direct(4),
        projection=np.eye(4),
        projection_offset=np.zeros(4),
        friction_prior=np.array([[6.0, 5.0], [8.0, 7.0], [40.0, 15.0], [1.5, 1.2]]),
    )


def _limits(reach: float, speed: float, effort: Float) -> Limits:
    n = len(effort)
    return Limits(np.full(n, -reach), np.full(n, reach), np.full(n, speed), effort)
