"""Gravity that torque lacks: a spring takes it from its own joint, compensation from all, and joints say which."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.kernel import gravity_torque
from dynid.log.prior_check import check_against_prior, states_of
from tests.log.test_mounting import recorded

pytest.importorskip("pinocchio")


# Seed 1 of the UR3 with springs is left out: both joints without gravity are explained only four times better each,
# because their gravity torque varies little in that motion.
@pytest.mark.parametrize(
    ("name", "seed", "springs"),
    [
        *(
            (name, seed, False)
            for name, seed in (("ur3", 0), ("ur3", 1), ("ur3", 2), ("z1", 0), ("kinova", 1))
        ),
        *((name, seed, True) for name, seed in (("ur3", 0), ("ur3", 2), ("z1", 0), ("kinova", 1))),
    ],
)
def test_a_spring_is_no_compensated_log(name: str, seed: int, springs: bool) -> None:
    one, log = recorded(name, seed, None)
    robot, sink, every = one.described, Diagnostics(), max(1, round(0.02 * one.rate))
    q, _, _ = robot.tree_motion(log.q, log.q, log.q)
    gravity = gravity_torque(robot.tree, robot.inertia_prior, q) @ robot.projection
    # Springs lift the two joints that carry most; the wrists beyond them carry what they did.
    carried = np.isin(np.arange(robot.n), gravity.std(axis=0).argsort()[-2:]) if springs else 1.0
    tau = log.tau - carried * gravity
    check_against_prior(robot, states_of(log.t[::every], log.q[::every], tau[::every]), sink)
    (found,) = list(sink)
    assert found.identifier == "gravity-compensated"
    assert (found in sink.warnings) == springs, found.text
    assert ("spring" in found.text) == springs
