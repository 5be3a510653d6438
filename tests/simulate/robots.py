"""Robots for the laboratory's tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.robot import Drive, RobotModel
from dynid.testing import random_robot


def geared(
    seed: int, n: int = 3, coupled: bool = False, mimic: bool = False, branching: float = 0.3
) -> RobotModel:
    """A random robot with rotors whose reflected inertia is that of its bodies, its joints perhaps coupled."""
    robot = random_robot(seed, n, branching, mimic)
    rng = np.random.default_rng(seed)
    ratio = rng.uniform(20, 60, robot.n)
    N = np.diag(ratio)
    if coupled:
        N = N + np.tril(rng.uniform(-20, 20, N.shape), -1)
    unknown = np.full(robot.n, np.nan)
    drive = Drive(N, rng.uniform(0.5, 2.0, robot.n) / ratio**2, unknown, unknown)
    friction = rng.uniform(0.2, 1.0, (robot.n, 2))
    return replace(robot, drive=drive, friction_prior=friction)
