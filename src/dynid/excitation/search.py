"""The most informative of several random motions."""

from __future__ import annotations

import math

import numpy as np

from dynid.base.errors import UsageError
from dynid.excitation.left_out import samples_at
from dynid.factor.base import BaseMap, structural_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.terms.term import Terms
from dynid.trajectories.trajectory import FourierTrajectory, Trajectory

GRID = 240


def information(robot: RobotModel, terms: Terms, base: BaseMap, trajectory: Trajectory) -> float:
    """D-optimality: ln det(W'W / T) over the base columns; the greater, the smaller the estimates' ellipsoid.

    Rows count relative to their joint's effort limit, as sensor noise does; joints without one count by 1.
    Columns are scaled by the base map's own scale, which shifts every motion's figure alike.
    -inf: some direction is not excited at all.
    """
    t = np.linspace(0.0, trajectory.duration, GRID)
    samples = samples_at(t, *trajectory.motion(t))
    panels = terms.torque_regressor(robot, samples, base.mask)
    weight = np.where(np.isfinite(robot.limits.effort), 1.0 / robot.limits.effort, 1.0)
    width = len(base.names)
    W = (panels.dense(width) * weight[None, :, None]).reshape(-1, width)[:, base.independent]
    scale = base.scale[base.independent]
    R = np.linalg.qr(W / np.where(scale > 0, scale, 1.0) / math.sqrt(GRID), mode="r")
    diagonal = np.abs(np.diag(R))
    return float(2.0 * np.log(diagonal).sum()) if diagonal.min() > 0 else -math.inf


def best_random(
    robot: RobotModel,
    terms: Terms,
    duration: float,
    harmonics: int = 6,
    seed: int = 0,
    candidates: int = 40,
    frequency: float = 0.1,
    ramp: float = 2.0,
) -> FourierTrajectory:
    """The most informative of `candidates` random motions within the robot's limits.

    The same seed gives the same motion.
    Raises UsageError if there is no candidate.
    """
    if candidates < 1:
        raise UsageError("candidates", found=f"{candidates} candidates", expected="at least 1")
    base = structural_base(robot, terms, TorqueRows(), 0)
    seeds = np.random.SeedSequence(seed).generate_state(candidates)
    drawn = [FourierTrajectory.random(robot, duration, harmonics, int(one), frequency, ramp) for one in seeds]
    return max(drawn, key=lambda one: information(robot, terms, base, one))
