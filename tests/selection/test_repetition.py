"""Motion that repeats: what was held out was seen a repetition before, and the run says so."""

from __future__ import annotations

import numpy as np

import dynid
from dynid.estimate import WLS
from dynid.robot import load_example
from dynid.simulation.rigid import inverse
from dynid.terms.default import DEFAULT_TERMS

ROBOT = load_example("ur5e")
RATE = 200.0


def log(seed: int, seconds: float, period: float, in_step: bool = False) -> dynid.Log:
    """Of a robot with a hose on every joint, which the model lacks."""
    rng = np.random.default_rng(seed)
    t, number = np.arange(0.0, seconds, 1.0 / RATE), np.arange(1, 5)
    w, size = 2 * np.pi / period * number, 0.5 * rng.normal(size=(ROBOT.n, 4)) / number
    angle = t[:, None, None] * w + rng.uniform(0, 6, (1 if in_step else ROBOT.n, 4))
    size = size[:1] * np.linspace(0.5, 1.0, ROBOT.n)[:, None] if in_step else size
    forms = np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)
    q, dq, ddq = ((size * form).sum(axis=2) for form in forms)
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(ROBOT)])
    tau = inverse(ROBOT, DEFAULT_TERMS, theta, q, dq, ddq)
    usual = np.sqrt(np.mean(tau**2, axis=0))
    tau += usual * (0.2 * np.sin(2.0 * q) + 0.1 * q**3 + 0.02 * np.sign(dq))
    tau += 0.01 * usual * rng.normal(size=q.shape)
    return dynid.Log.from_arrays(ROBOT, t, q, tau=tau)


def test_held_out_blocks_of_a_motion_that_repeats_are_not_unseen_motion() -> None:
    # By a fit without constraints: for bodies beside torque that no model has the search is long, and ends in none.
    training, settings = log(1, 40.0, 8.0), dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    found = dynid.identify(ROBOT, training, settings)
    (said,) = (one for one in found.verdict.findings if one.code == "motion-repeats")
    assert "repeats after 8 s" in said.text
    assert "On blocks held out of a motion that repeats the model misses" in found.verdict.headline
    other = log(2, 24.0, 24.0)
    unseen = dynid.validate(found, other).scores.total_relative
    assert found.validations[0].scores.total_relative < 0.7 * unseen
    for one, validation in ((training, other), (log(1, 40.0, 40.0), None)):
        found = dynid.identify(ROBOT, one, settings, validation=validation)
        assert not [one for one in found.verdict.findings if one.code == "motion-repeats"]
        assert "On data it has not seen the model misses" in found.verdict.headline


def test_held_out_blocks_of_joints_that_move_in_step_are_no_proof() -> None:
    settings = dynid.Settings(terms=DEFAULT_TERMS, estimator=WLS())
    found = dynid.identify(ROBOT, log(1, 24.0, 24.0, in_step=True), settings)
    (said,) = (one for one in found.verdict.findings if one.code == "moves-in-step")
    assert "6 joints move in step, along 1 of 6 directions" in said.text
    assert found.verdict.level != "good"
    assert "On blocks held out of joints that move in step the model misses" in found.verdict.headline
    assert not any("every direction" in one.text for one in found.verdict.findings)
    unseen = dynid.validate(found, log(2, 24.0, 24.0)).scores.total_relative
    assert found.validations[0].scores.total_relative < 0.7 * unseen
