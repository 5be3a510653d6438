"""Joints that move one after the other, as people move an arm first; plants by pinocchio, judged on joint motion."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.diagnosis.residual_analysis import MOVED
from dynid.identification import identify
from dynid.log import Log
from dynid.run import Identification, validate
from dynid.testing import Plant, Recorded, Stop, Unmodelled, plant, record

SECONDS = 48.0
SLOWING = 0.4  # s that a joint takes to stop
PLANTS = {
    "ur5": Unmodelled(cable=0.005, torque_step=0.002),
    "ur3": Unmodelled(hysteresis=2e-3, ripple=0.005),
    "so101": Unmodelled(gear_friction=0.06, warming=0.1),
    # The last joint moves a gripper alone, at the end.
    "talos_left_arm": Unmodelled(cable=0.01, gear_friction=0.1, torque_step=0.003),
}


# What the first lacks, the last lacks as well, and the friction of gears of the third.
JUDGED = [pytest.param(name, marks=[pytest.mark.slow] if name in ("ur5", "so101") else []) for name in PLANTS]


def in_turns(joints: int) -> list[Stop]:
    """Each joint stands but in its part of the time."""
    part = SECONDS / joints
    found = []
    for j in range(joints):
        found += [Stop((j,), -1.0, j * part)] if j else []
        found += [Stop((j,), (j + 1) * part - SLOWING, 2.0 * SECONDS, SLOWING)] if j < joints - 1 else []
    return found


@cache
def logs(name: str) -> tuple[Plant, Recorded, Recorded]:
    """A log of joints in turns, and one of the same machine whose joints move together."""
    one = plant(name, np.random.default_rng(5))
    lacks = PLANTS[name]
    first = record(
        one,
        np.random.default_rng(1),
        lacks,
        SECONDS,
        machine=np.random.default_rng(9),
        stops=in_turns(one.described.n),
    )
    return one, first, record(one, np.random.default_rng(2), lacks, machine=np.random.default_rng(9))


def log_of(one: Plant, made: Recorded) -> Log:
    return Log.from_arrays(one.described, made.t, made.q, made.tau, made.dq)


@cache
def identified(name: str) -> tuple[Identification, Diagnostics]:
    one, first, _ = logs(name)
    sink = Diagnostics()
    return identify(one.described, log_of(one, first), threads=1, diagnostics=sink), sink


@pytest.mark.parametrize("name", PLANTS)
def test_one_joint_moves_at_a_time(name: str) -> None:
    one, first, _ = logs(name)
    moves = np.abs(first.dq) > 0.02 * one.speed
    assert (moves.sum(axis=1) <= 1).mean() > 0.95
    assert (np.ptp(first.q, axis=0) > MOVED).all()


@pytest.mark.parametrize("name", JUDGED)
def test_such_a_log_gives_a_usable_model_with_the_joints_friction_and_no_doubt(name: str) -> None:
    found, sink = identified(name)
    assert not sink.doubts
    assert found.verdict.level in ("good", "usable")
    dry = [term for term in found.terms if any(word in term.name for word in ("coulomb", "presliding"))]
    rubbed = {joint for term in dry for joint in term.joints or found.robot.joint_names}
    assert rubbed == set(found.robot.joint_names)


@pytest.mark.parametrize("name", JUDGED)
def test_it_predicts_joints_that_move_together(name: str) -> None:
    """Within the share that is usable."""
    one, _, other = logs(name)
    found, _ = identified(name)
    scores = validate(found, log_of(one, other), Diagnostics()).scores
    assert scores.total_relative < 0.05


def test_another_motion_is_scored_by_the_parameters_that_exports_hold() -> None:
    """Which of them the log can tell apart holds of its own motion alone, and changes nothing elsewhere."""
    one, _, other = logs("talos_left_arm")
    found, _ = identified("talos_left_arm")
    estimate, structural = found.estimate, found.structural
    assert estimate.base.rank < structural.rank
    b = structural.rank
    in_full = replace(
        estimate,
        base=structural,
        value=structural.reduce(estimate.parameters),
        covariance=np.eye(b),
        textbook_covariance=np.eye(b),
        prior_share=np.zeros(b),
    )
    scores, wanted = (
        validate(replace(found, estimate=one_of), log_of(one, other), Diagnostics()).scores.relative
        for one_of in (estimate, in_full)
    )
    np.testing.assert_allclose(scores, wanted, rtol=1e-9)
