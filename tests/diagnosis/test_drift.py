"""Drift with time and with temperature, distinguished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import dynid
from dynid.base import Diagnostics
from dynid.diagnosis import ResidualAnalysis, diagnose
from dynid.diagnosis.proof import EffectTest
from dynid.identification import DEFAULT_TERMS, Experiment, identify, open_log
from dynid.log import canonical_columns, write_log
from dynid.simulation import inverse
from dynid.terms import Drift, FeatureGroup, Term, Terms
from dynid.terms.drift import causes
from dynid.testing import TrueMotion, analysis_of, small_arm
from dynid.trajectories import FourierTrajectory


def group_of(kind: type[Term]) -> FeatureGroup:
    """Of the features of a kind of term."""
    group = kind.words.group
    assert group is not None
    return group


def warmth(t: np.ndarray) -> np.ndarray:
    """Warm, cool and warm again: no function of time that a slope would fit."""
    return 30.0 + 10.0 * np.cos(2 * np.pi * t / 30.0)


def softer_when_warm(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
    torque = np.zeros_like(motion.tau)
    torque[:, 0] = -0.01 * motion.size[0] * (warmth(motion.t) - 30.0) * motion.dq[:, 0]
    return torque


def test_temperature_is_the_cause_where_it_explains_more() -> None:
    analysis = analysis_of(small_arm(), softer_when_warm, seed=0)
    r = analysis.residuals
    logged = np.column_stack([warmth(r.t), np.full(len(r.t), 30.0), np.full(len(r.t), np.nan)])
    warm = replace(analysis, residuals=replace(r, temperature=logged))
    assert [cause.name for cause in causes(warm.remains.motion, 0)] == ["time", "temperature"]
    for joint in (1, 2):
        assert [cause.name for cause in causes(warm.remains.motion, joint)] == ["time"]
    (found,) = diagnose(warm, (EffectTest(group_of(Drift)),))
    assert found.joint == "column"
    assert "friction changes with temperature" in found.title
    assert "within 20 to 39.9 °C" in found.text
    assert "temperature_viscous" in found.advice
    # 0.01 of the joint's torque a kelvin and rad/s, at the usual top speed, over 20 K.
    top = np.quantile(np.abs(analysis.motion.dq[:, 0]), 0.95)
    change = float(found.text.split()[1])
    assert abs(-change / (0.2 * top * analysis.torque_rms[0]) - 1.0) < 0.25


def test_clocks_that_restart_are_put_end_to_end() -> None:
    analysis = analysis_of(small_arm(), seed=0)
    r = analysis.residuals
    half = len(r.t) // 2
    segment = (np.arange(len(r.t)) >= half).astype(np.int64)
    again = replace(r, t=np.where(segment == 1, r.t - r.t[half], r.t), segment=segment)
    t = replace(analysis, residuals=again).elapsed
    assert (np.diff(t) >= 0).all()
    assert abs(np.ptp(t) - np.ptp(r.t)) < 0.1 * np.ptp(r.t)


def test_a_logged_temperature_reaches_the_diagnosis(tmp_path: Path) -> None:
    robot = small_arm()
    t = np.arange(0.0, 40.0, 0.01)
    q, dq, ddq = FourierTrajectory.random(robot, 40.0, 5, 2, 0.1).motion(t)
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(robot)])
    tau = inverse(robot, DEFAULT_TERMS, theta, q, dq, ddq)
    size = np.sqrt(np.mean(tau**2, axis=0))
    tau += softer_when_warm(TrueMotion(t, q, dq, tau), np.random.default_rng(0))
    tau += 0.01 * size * np.random.default_rng(1).normal(size=tau.shape)
    columns = canonical_columns(robot.joint_names, q, tau=tau)
    columns |= {f"temperature_{name}": warmth(t) for name in robot.joint_names}
    path = write_log(tmp_path / "log.parquet", t, columns)
    (tmp_path / "x.toml").write_text(
        """
[log]
time = { column = "t", unit = "s" }
position = { columns = "q_{joint}", unit = "rad" }
effort = { columns = "tau_{joint}", unit = "N m" }
temperature = { columns = "temperature_{joint}", unit = "degC" }

[model]
terms = ["rigid_body", "rotor_inertia", "viscous", "coulomb", "offset"]
"""
    )
    experiment = Experiment.read(tmp_path / "x.toml")
    log = open_log(experiment, [path], robot, ["*"], Diagnostics())
    found = identify(robot, log, experiment.settings(), threads=1)
    residuals = found.training.residuals
    assert residuals is not None
    assert residuals.temperature is not None
    np.testing.assert_allclose(residuals.temperature[:, 0], warmth(residuals.t), atol=0.2)
    reported = [one for one in found.residual_findings if one.identifier == "drift"]
    assert [one.joint for one in reported] == ["column"]
    assert "temperature" in reported[0].title
    assert any(finding.title == reported[0].title for finding in found.verdict.findings)


def test_evidence_without_temperature_knows_time_alone() -> None:
    analysis: ResidualAnalysis = analysis_of(small_arm(), seed=1)
    assert analysis.residuals.temperature is None
    assert [cause.name for cause in causes(analysis.remains.motion, 0)] == ["time"]


def test_an_offset_that_drifts_is_that_of_the_training_an_hour_later_on_a_clock_since_1970() -> None:
    """It was extrapolated to the later log's clock, and the diagnosis saw a time that begins at zero: another robot."""
    robot, epoch = small_arm(), 1.7e9
    terms = Terms(tuple(DEFAULT_TERMS))
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in terms.columns(robot)])

    def log(seed: int, start: float, share: np.ndarray) -> dynid.Log:
        t = np.arange(0.0, 50.0, 0.01)
        q, dq, ddq = FourierTrajectory.random(robot, 50.0, 5, seed, 0.1).motion(t)
        tau = inverse(robot, terms, theta, q, dq, ddq)
        size = np.sqrt(np.mean(tau**2, axis=0))
        tau[:, 0] += 0.2 * size[0] * share
        tau += 2e-3 * size * np.random.default_rng(seed).normal(size=tau.shape)
        return dynid.Log.from_arrays(robot, epoch + start + t, q, tau=tau)

    ramp = np.linspace(0.0, 1.0, 5000)
    found = dynid.identify(robot, log(2, 0.0, ramp))
    assert "drift of column" in str(found.verdict)
    assert not [one for one in found.diagnostics if one.identifier == "changed-within-log"]
    later = dynid.validate(found, log(3, 3600.0, np.ones(5000)))
    assert later.scores.total_relative < 0.01
