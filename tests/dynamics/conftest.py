"""Both kernels, robots, and pinocchio as their oracle, which reads the description by itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float
from dynid.dynamics import Dynamics
from dynid.robot import RobotModel, load_robot

ROBOTS = (
    "ur_description/urdf/ur3_robot.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "ur_description/urdf/ur10_robot.urdf",
    "panda_description/urdf/panda.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "kinova_description/robots/kinova.urdf",
    "z1_description/urdf/z1.urdf",
    "so_arm_description/urdf/so101.urdf",
    "baxter_description/urdf/baxter.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
    "talos_data/robots/talos_left_arm.urdf",
    "solo_description/robots/solo12.urdf",
)


@dataclass(frozen=True, eq=False)
class Oracle:
    """A robot in pinocchio with rotors, whose joints that follow others are projected by hand."""

    robot: RobotModel
    rotor: Float
    model: Any
    data: Any

    @staticmethod
    def of(path: Path, robot: RobotModel, rotor: Float) -> Oracle:
        model = pin.buildModelFromUrdf(str(path))
        assert list(model.names)[1:] == list(robot.tree_joint_names)
        return Oracle(robot, rotor, model, model.createData())

    def motion(self, q: Float, *rates: Float) -> tuple[Float, ...]:
        """The motion (n,) of the robot as pinocchio has it, whose turning joints without limits are unit vectors."""
        P = self.robot.projection
        tree = P @ q + self.robot.projection_offset
        full = np.zeros(self.model.nq)
        for joint, x in zip(list(self.model.joints)[1:], tree, strict=True):
            full[joint.idx_q : joint.idx_q + joint.nq] = x if joint.nq == 1 else (np.cos(x), np.sin(x))
        return (full, *(P @ rate for rate in rates))

    def joints(self, tau: Float) -> Float:
        """Torque of the joints from that of the tree."""
        return self.robot.projection.T @ tau

    def between(self, matrix: Float) -> Float:
        return np.asarray(self.robot.projection.T @ matrix @ self.robot.projection)


@lru_cache(maxsize=32)
def example(name: str) -> tuple[Dynamics, Oracle]:
    """A robot of example-robot-data with made-up rotors and friction, and its oracle."""
    try:
        installed = distribution("example-robot-data").files or []
    except PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    found = [Path(str(one.locate())).resolve() for one in installed if str(one).endswith(f"robots/{name}")]
    if not found:
        pytest.skip(f"example-robot-data has no {name}")
    robot = load_robot(found[0], diagnostics=Diagnostics())
    rng = np.random.default_rng(2)
    # Rotors keep joints of bodies without mass, which some descriptions have, from being free of inertia.
    rotor, viscous, coulomb = rng.uniform(0.1, 0.5, (3, robot.n))
    inertia = np.nan_to_num(robot.inertia_prior)
    return (
        Dynamics(robot, inertia, rotor, viscous, coulomb, rng.normal(size=robot.n), np.full(robot.n, 0.05)),
        Oracle.of(found[0], robot, rotor),
    )


def states(robot: RobotModel, count: int = 3, seed: int = 1) -> tuple[Float, Float, Float]:
    """Random motion (count, n)."""
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, count, robot.n))
    return q, dq, ddq


def agree(found: Float, wanted: Float, tolerance: float = 1e-10) -> None:
    """Equal to a share of the greatest number, or of one."""
    assert found.shape == np.shape(wanted)
    assert np.abs(found - wanted).max() <= tolerance * max(1.0, float(np.abs(wanted).max()))
