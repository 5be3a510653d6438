"""Torque of one joint that comes late: reported as such, not as the waves and the friction that it resembles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float
from dynid.diagnosis import ResidualAnalysis, diagnose
from dynid.diagnosis.proof import EffectTest
from dynid.terms import LATE_TORQUE, SmoothCoulomb, Terms
from dynid.testing import TrueMotion, analysis_of, small_arm


def late(seconds: tuple[float, ...], seed: int = 0) -> ResidualAnalysis:
    """The small arm whose joints' torque comes late by so many seconds."""

    def added(motion: TrueMotion, rng: np.random.Generator) -> Float:
        columns = [
            np.interp(motion.t - one, motion.t, tau) - tau
            for one, tau in zip(seconds, motion.tau.T, strict=True)
        ]
        return np.column_stack(columns)

    return analysis_of(small_arm(), added, seed=seed)


@pytest.mark.parametrize("joint", [0, 1, 2])
@pytest.mark.parametrize("seconds", [0.012, -0.015])
def test_the_delay_is_measured_and_nothing_else_is_blamed(joint: int, seconds: float) -> None:
    shift = [0.0, 0.0, 0.0]
    shift[joint] = seconds
    analysis = late(tuple(shift), seed=joint)
    own = EffectTest(LATE_TORQUE).look(analysis)
    assert [one.joint for one in own] == [analysis.robot.joint_names[joint]]
    way, order = ("late", "after") if seconds > 0 else ("early", "before")
    # The column carries no load: of its torque only friction and inertia turn, and those at reversals.
    assert own[0].title.endswith(f"torque is {way}" if joint else f"torque reverses {order} velocity")
    assert ("friction that builds up" in own[0].advice) == (joint == 0)
    assert "torque_delay" in own[0].advice
    reported = float(own[0].text.split(" ")[1])
    assert reported == pytest.approx(1e3 * abs(seconds), rel=0.3)
    assert "gear-ripple" not in {one.identifier for one in diagnose(analysis)}


def test_friction_is_not_advised_where_the_joint_has_a_form_of_it() -> None:
    plain = late((0.012, 0.0, 0.0))
    name = plain.robot.joint_names[0]
    formed = replace(plain, terms=Terms((*plain.terms, SmoothCoulomb(joints=(name,)))))
    (before,), (after,) = (EffectTest(LATE_TORQUE).look(one) for one in (plain, formed))
    assert "try { term" in before.advice
    assert after.advice.startswith("coulomb_tanh does not explain this")
    assert "try { term" not in after.advice
    assert "torque_delay" in after.advice


def test_a_delay_of_all_joints_is_reported_elsewhere() -> None:
    assert EffectTest(LATE_TORQUE).look(late((0.012, 0.012, 0.012))) == []


def test_friction_that_the_model_lacks_is_no_delay() -> None:
    for kind in (0, 1):

        def added(motion: TrueMotion, rng: np.random.Generator, kind: int = kind) -> Float:
            dq = motion.dq[:, 1]
            form = np.tanh(dq / 0.01) * np.exp(-((dq / 0.1) ** 2)) if kind else dq * np.abs(dq) / 3.0
            torque = np.zeros_like(motion.tau)
            torque[:, 1] = 0.12 * motion.size[1] * form
            return torque

        for seed in range(3):
            assert EffectTest(LATE_TORQUE).look(analysis_of(small_arm(), added, seed=seed)) == []


def test_a_wave_stays_a_wave() -> None:
    def added(motion: TrueMotion, rng: np.random.Generator) -> Float:
        torque = np.zeros_like(motion.tau)
        torque[:, 1] = 0.05 * motion.size[1] * np.sin(25 * motion.q[:, 1] + 1.0)
        return torque

    found = diagnose(analysis_of(small_arm(), added, seed=1, speed=0.6))
    assert [(one.identifier, one.joint) for one in found] == [("gear-ripple", "shoulder")]
