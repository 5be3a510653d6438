"""Position alone: output error under the drives' controllers, on logs of commands from MuJoCo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Float, UsageError, stdtrit
from dynid.estimate import WLS, Estimate, ServoOE, SimulationProblem
from dynid.estimate.servo_error import slowest_loop
from dynid.estimate.source import log_source
from dynid.identification import Settings
from dynid.robot import Servo
from dynid.terms import DEFAULT_TERMS
from dynid.testing import measured_regression
from tests.servo_plant import KD, KP, Recording, recorded, robot_file, true_parameters

PLAIN = Servo(KP, KD, np.full(2, np.inf), np.zeros(2))


@cache
def usual() -> Recording:
    """The log of tests that need nothing special."""
    return recorded(10.0)


def fitted(
    folder: Path, estimator: ServoOE | WLS, servo: Servo = PLAIN, recording: Recording | None = None
) -> Estimate:
    robot = dynid.load_robot(robot_file(folder)).with_servo(servo)
    log = (usual() if recording is None else recording).log(robot)
    # With a log to validate on no blocks are held out, each of which would be five more searches.
    settings = Settings(terms=DEFAULT_TERMS, estimator=estimator)
    return dynid.identify(robot, log, settings, validation=log).estimate


def truth(found: Estimate) -> Float:
    """The arm's base parameters (b,)."""
    return found.base.reduce(true_parameters([column.name for column in found.columns]))


def missed_by(found: Estimate, names: Sequence[str]) -> dict[str, float]:
    own = [found.columns[i].name for i in found.base.independent]
    with np.errstate(divide="ignore"):
        share = found.value / truth(found) - 1.0
    return {name: abs(float(share[own.index(name)])) for name in names}


def test_friction_and_armature_come_out_nearer_than_by_least_squares(tmp_path: Path) -> None:
    """MuJoCo's friction is dry; torque that is differentiated and filtered takes 7 to 12 % off it."""
    names = ("Ia2", "fv1", "fv2", "fc1", "fc2")
    found, plain = fitted(tmp_path, ServoOE()), fitted(tmp_path, WLS())
    assert found.status.ok
    assert "lags its commands by" in found.status.text
    missed, before = missed_by(found, names), missed_by(plain, names)
    assert max(missed.values()) < 0.06
    assert missed["fc1"] < 0.5 * before["fc1"]
    assert missed["fc2"] < 0.5 * before["fc2"]


def test_torque_at_its_limit_and_dead_bands_are_simulated(tmp_path: Path) -> None:
    """The drives are at their limits for more than a tenth of the time, and do not answer errors of two counts."""
    limit, band = np.array([15.0, 4.5]), np.full(2, 0.003)
    recording = recorded(10.0, limit=limit, dead_band=band, dry=True)
    assert (np.abs(recording.tau) > 0.999 * limit).mean(axis=0).min() > 0.1
    names = ("Iyy1", "Ia2", "fv1", "fv2", "fc1", "fc2")
    found = fitted(tmp_path, ServoOE(), replace(PLAIN, effort_limit=limit, dead_band=band), recording)
    assert found.status.ok
    missed = missed_by(found, names)
    assert max(missed.values()) < 0.06, missed


def test_intervals_hold_under_a_torque_that_no_model_knows(tmp_path: Path) -> None:
    """Residuals of positions ring for as long as the loop does: blocks within that time are no independent ones.

    Of 39 intervals of 95 % 33 or fewer hold the truth in 1 of 500 such sets; with every block by itself 88 % held.
    """
    held, count = 0, 0
    for seed in range(3):
        found = fitted(tmp_path, ServoOE(), PLAIN, recorded(10.0, seed=seed, disturbed=1.0, dry=True))
        half = stdtrit(found.degrees_of_freedom, 0.975) * np.sqrt(np.diag(found.covariance))
        inside = np.abs(found.value - truth(found)) < half
        held, count = held + int(inside.sum()), count + len(inside)
    assert count == 39
    assert held > 33


def test_a_delay_that_is_declared_far_off_is_doubted(tmp_path: Path) -> None:
    """The drives' torque is held for 5 ms from 10 ms after its commands on."""
    found = fitted(tmp_path, ServoOE(), replace(PLAIN, delay=0.0, hold=0.005), recorded(5.0))
    assert not found.status.ok
    assert "by 7.5 ms, 5 ms from drive.delay" in found.status.text


def test_a_search_with_sticking_joints_that_ends_where_nothing_can_be_simulated_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches take their last step without a run at its end."""
    alone = recorded(4.0)
    monkeypatch.setattr(ServoOE, "_with_sticking", lambda *_: None)
    found = fitted(tmp_path, ServoOE(), recording=alone)
    monkeypatch.setattr(ServoOE, "_with_sticking", lambda *_: replace(found, value=-found.value))
    np.testing.assert_array_equal(fitted(tmp_path, ServoOE(), recording=alone).value, found.value)


@pytest.mark.parametrize("late", [0.0, 0.01])
@pytest.mark.parametrize("damping", [2.0, 60.0])
def test_the_slowest_loop_decays_as_its_slowest_pole(damping: float, late: float) -> None:
    """Poles of I q'' + (kd + fv - kp lag) q' + kp q = 0, joint by joint, under- and overdamped."""
    case = measured_regression(1)
    simulation = SimulationProblem.of(case.regression, "servo_oe", None)
    friction = [x for c, x in zip(case.regression.columns, case.theta, strict=True) if c.term == "viscous"]
    inertia = simulation.inertia(case.beta)
    kp, kd = np.array([40.0, 60.0]) * inertia, np.array([damping, 1.3 * damping]) * inertia
    servo = replace(Servo(kp, kd, np.full(2, np.inf), np.zeros(2)), delay=0.8 * late, hold=0.4 * late)
    poles = [
        np.roots([own, d + f - k * servo.lag, k]).real.max()
        for own, d, f, k in zip(inertia, kd, friction, kp, strict=True)
    ]
    assert servo.lag == pytest.approx(late)
    assert max(poles) < -0.5
    assert slowest_loop(simulation, servo, case.beta) == pytest.approx(-1.0 / max(poles), rel=1e-6)


def test_controllers_that_are_not_known_are_refused_in_words() -> None:
    regression = measured_regression(0).regression
    source = log_source(regression, "servo_oe")
    assembly = replace(source.assembly, robot=source.robot.with_servo(None))
    with pytest.raises(UsageError, match="controller gains"):
        ServoOE().fit(replace(regression, source=replace(source, assembly=assembly)))
