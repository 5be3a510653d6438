"""Moves from pose to pose, as most industrial arms make; plants by pinocchio, judged on motion of another kind."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.identification import identify
from dynid.log import Log
from dynid.robot import RobotModel
from dynid.run import Identification
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.testing.machines import imprecise

pytestmark = pytest.mark.usefixtures("unexamined")

SECONDS = 20.0
PLANTS = {
    "ur5 at 500 Hz": Unmodelled(cable=0.0135, stale=0.045),
    "kinova": Unmodelled(hysteresis=2.6e-3),
    "slow xarm7": Unmodelled(flexibility=1e-3, ripple=0.01),
}


@cache
def logs(name: str) -> tuple[Plant, RobotModel, Recorded, Recorded]:
    """A plant, its description with bodies off by 5 to 30 %, moves, and a Fourier motion of the same machine."""
    one, lacks = plant(name, np.random.default_rng(5)), PLANTS[name]
    described = imprecise(one.described, np.random.default_rng(6), (0.05, 0.3))
    first, second = (
        record(
            one, np.random.default_rng(seed), lacks, SECONDS, machine=np.random.default_rng(9), moves=moves
        )
        for seed, moves in ((1, True), (2, False))
    )
    return one, described, first, second


def log_of(robot: RobotModel, made: Recorded) -> Log:
    return Log.from_arrays(robot, made.t, made.q, made.tau, made.dq)


@cache
def identified(name: str) -> Identification:
    _, described, first, other = logs(name)
    unseen = log_of(described, other)
    return identify(
        described, log_of(described, first), validation=unseen, threads=1, diagnostics=Diagnostics()
    )


@pytest.mark.parametrize("name", PLANTS)
def test_poses_are_few_and_joints_pause(name: str) -> None:
    one, _, first, _ = logs(name)
    still = (np.abs(first.dq) < 0.01 * one.speed).all(axis=1)
    assert 0.03 < still.mean() < 0.6


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "500" in name else []) for name in PLANTS]
)
def test_moves_lead_to_a_model_that_predicts_other_motion(name: str) -> None:
    """Within the share that is usable, friction at the reversals included."""
    scores = identified(name).validations[0].scores
    assert scores.total_relative < 0.05
