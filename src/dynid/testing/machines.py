"""Five simulated robots for logs with a known fault, and robots that differ from their models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.robot import load_example
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.spatial.inertia import from_com, to_com

__all__ = ["MACHINES", "Machine", "imprecise", "loaded", "tilted"]

# Mass in kg and length in m of a cylinder that begins at the joint: links about as heavy as in real arms of this kind.
PANDA_LINKS = ((5.0, 0.3), (2.2, 0.2), (3.2, 0.3), (3.4, 0.2), (2.9, 0.35), (1.6, 0.1), (1.1, 0.15))
POLAR_LINKS = ((22.0, 0.4), (14.0, 0.5), (7.0, 0.6), (3.0, 0.25))
# Mass, first moments and inertia about the joint of each link, from CAD; of link 6 only the mass is known.
KR300_LINKS = (
    (395.4, -1.1862, 1.5816, -198.0954, 115.9858868, -4.3993172, 132.064308, -2.2979502, 0.6629976, 29.809004),
    (339.12, 149.55192, -0.33912, -56.29392,
     16.85294884, 0.57959792, 164.18387844, 20.42901172, 0.11686308, 154.62649684),
    (105.21, 7.99596, 2.41983, 21.77847, 6.50697838, -0.08195708, 15.89963425, -2.26154772, -0.61937881, 10.84948405),
    (35.8, 0.0, -0.0358, -27.3512, 21.3213876, 2.7e-05, 21.3247818, -4e-06, -0.0159982, 0.2180288),
    (31.46, 0.0, -0.28314, 2.5168, 0.48771826, -0.00012, 0.45961, 4e-06, 0.0421722, 0.23211026),
    (169.0, 0.0, 0.0, -57.46, 24.5364, 0.0, 24.5364, 0.0, 0.0, 5.0),
)  # fmt: skip
KR300_FRICTION = (
    (2050.35, 355.495), (2306.7, 242.33), (2024.4, 294.494), (453.66, 50.3865), (1000.0, 46.734), (458.8, 76.129),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Machine:
    """A robot with its true parameters.    payload: kg, near its rated load."""

    name: str
    robot: RobotModel
    payload: float


def imprecise(
    robot: RobotModel, rng: np.random.Generator, error: tuple[float, float] = (0.2, 0.3)
) -> RobotModel:
    """A model of the robot with exact geometry; masses, centres of mass and inertias off by shares within `error`."""

    def factors(size: int) -> Float:
        return np.asarray(1.0 + rng.choice([-1.0, 1.0], size) * rng.uniform(*error, size))

    prior = []
    for link in robot.inertia_prior:
        mass, com, inertia = to_com(link)
        scale = float(factors(1)[0])
        prior.append(from_com(scale * mass, com * factors(3), scale * inertia))
    friction = robot.friction_prior * factors(2 * robot.n).reshape(robot.n, 2)
    return replace(robot, inertia_prior=np.array(prior), friction_prior=friction)


def tilted(robot: RobotModel, angle: float, azimuth: float) -> RobotModel:
    """The robot on a base tilted by an angle towards an azimuth, both in rad."""
    g = robot.gravity
    side = np.cross(g, [1.0, 0.0, 0.0] if abs(g[0]) < 0.9 * np.linalg.norm(g) else [0.0, 1.0, 0.0])
    side *= np.linalg.norm(g) / np.linalg.norm(side)
    other = np.cross(side, g) / np.linalg.norm(g)
    lean = np.cos(azimuth) * side + np.sin(azimuth) * other
    return replace(robot, gravity=np.cos(angle) * g + np.sin(angle) * lean)


def loaded(robot: RobotModel, mass: float, rng: np.random.Generator) -> RobotModel:
    """The robot with a ball of 10 cm on its last link, its centre 5 to 15 cm from the joint."""
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


def _links(shapes: tuple[tuple[float, float], ...]) -> Float:
    return np.array([_cylinder(mass, length, (-1.0) ** i) for i, (mass, length) in enumerate(shapes)])


def _panda() -> RobotModel:
    robot = load_example("panda")
    friction = np.column_stack([np.full(7, 0.6), np.array([1.0, 1.0, 0.8, 0.8, 0.5, 0.4, 0.4])])
    return replace(robot, inertia_prior=_links(PANDA_LINKS), friction_prior=friction)


def _ur5e() -> RobotModel:
    robot = load_example("ur5e")
    friction = np.array([[9.0, 8.0], [9.0, 8.0], [7.0, 6.0], [2.0, 2.0], [2.0, 2.0], [1.5, 1.5]])
    effort = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
    return replace(robot, friction_prior=friction, limits=_limits(2.8, 2.5, effort))


def _kr300() -> RobotModel:
    robot = load_example("kr300_rptu")
    return replace(
        robot,
        drive=replace(robot.drive, torque_side=Drive.direct(1).torque_side),
        limits=_limits(1.3, 1.2, np.full(6, np.inf)),
        inertia_prior=np.array(KR300_LINKS),
        friction_prior=np.array(KR300_FRICTION),
    )


def _polar() -> RobotModel:
    # A turning column, a lifting shoulder, a telescope and a wrist.
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
        inertia_prior=_links(POLAR_LINKS),
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


# The place in this table is part of the seed of a recording.
MACHINES = {
    machine.name: machine
    for machine in (
        Machine("arm7", load_example("arm7"), 3.0),
        Machine("panda", _panda(), 3.0),
        Machine("ur5e", _ur5e(), 4.0),
        Machine("kr300", _kr300(), 250.0),
        Machine("polar", _polar(), 6.0),
    )
}
