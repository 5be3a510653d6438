"""Torque limits allow for what is not known: by the covariance of a run, by a share where nothing else is known."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, UnfitDataError, UsageError
from dynid.excitation import (
    Bounds,
    MotionLimits,
    Plan,
    Task,
    TorqueSpread,
    design_motion,
    information_of,
    prior_theta,
    reserve_of,
)
from dynid.excitation.constraints import margins
from dynid.excitation.design import Problem
from dynid.identification import Settings, identify
from dynid.log import read_log
from dynid.robot import load_example, load_robot
from dynid.signals import Samples
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.trajectories import FourierBasis
from dynid.verbs import save
from tests.command_line import SHORT_SEARCH, Run, planned

pytestmark = pytest.mark.usefixtures("unexamined")

ARM = files("dynid") / "data" / "arm7.toml"
ROBOT = load_example("arm7")
INFORMATION = information_of(ROBOT, RigidBody() + Viscous() + Coulomb())
THETA = prior_theta(ROBOT, INFORMATION.terms)
TORQUE = 0.6 * ROBOT.limits.effort
LIMITS = MotionLimits.of(ROBOT, torque=TORQUE)
BASIS = FourierBasis(8.0, 3, 0.25, 1.5)


def covariance(size: float) -> Float:
    b, p = INFORMATION.base.rank, len(INFORMATION.base.names)
    scale = 1.0 / INFORMATION.base.scale[INFORMATION.base.independent]
    half = np.random.default_rng(2).normal(size=(b, b)) / np.sqrt(b) * (size * scale[:, None])
    whole = np.zeros((p, p))
    whole[np.ix_(INFORMATION.base.independent, INFORMATION.base.independent)] = half @ half.T
    return whole


def spread(size: float, residual: float = 0.2, sigmas: float = 3.0) -> TorqueSpread:
    return TorqueSpread(covariance(size), np.full(7, residual), sigmas)


def designed(known: TorqueSpread | None) -> Plan:
    share = 0.1 if known is None else 0.0
    return design_motion(
        Task(BASIS, INFORMATION, Bounds(LIMITS, THETA, share, spread=known)), 1, 8, candidates=12
    )


def motion_and_torque(seed: int = 0) -> tuple[tuple[Float, Float, Float], Float]:
    rng = np.random.default_rng(seed)
    motion = tuple(rng.normal(0.0, 0.6, (3, 40, 7)))
    assert THETA is not None
    return motion, INFORMATION.terms.torque(ROBOT, Samples.from_motion(*motion), THETA)


def test_the_deviation_is_that_of_drawn_models() -> None:
    motion, _ = motion_and_torque()
    known = spread(3.0, residual=0.0)
    sigma = known.about(ROBOT, INFORMATION.terms, THETA, Samples.from_motion(*motion))[1]
    draws = known.root @ np.random.default_rng(1).standard_normal((known.root.shape[1], 4000))
    samples = Samples.from_motion(*motion)
    torque = np.stack([INFORMATION.terms.torque(ROBOT, samples, one) for one in draws.T[:1500]])
    np.testing.assert_allclose(torque.std(axis=0), sigma, rtol=0.12)


def test_drawn_torque_stays_within_what_is_kept_at_the_stated_rate() -> None:
    motion, tau = motion_and_torque(3)
    known = spread(3.0, residual=0.0, sigmas=1.5)
    bounds = Bounds(LIMITS, THETA, 0.0, spread=known)
    predicted = bounds.torque(ROBOT, INFORMATION.terms, Samples.from_motion(*motion))
    assert predicted is not None
    same, reserve = predicted
    np.testing.assert_allclose(same, tau, atol=1e-9 * np.abs(tau).max())
    top = np.abs(tau) + reserve
    rng = np.random.default_rng(5)
    samples, kept = Samples.from_motion(*motion), []
    assert THETA is not None
    for _ in range(1000):
        theta = THETA + known.root @ rng.standard_normal(known.root.shape[1])
        kept.append(np.abs(INFORMATION.terms.torque(ROBOT, samples, theta)) <= top)
    # Signs of torque that change count the other side too, so that a little more than the rate stays within.
    assert known.rate == pytest.approx(0.9332, abs=1e-4)
    assert known.rate - 0.01 < np.mean(kept) < known.rate + 0.03


def test_bounds_with_a_covariance_have_exact_derivatives() -> None:
    problem = Problem(Task(BASIS, INFORMATION, Bounds(LIMITS, THETA, 0.05, spread=spread(3.0))))
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.3, 0.3, int(problem.free.sum()))
    _, slopes = problem.constraints(x)
    for k in rng.choice(len(x), 6, replace=False):
        step = np.zeros(len(x))
        step[k] = 1e-6
        difference = (problem.constraints(x + step)[0] - problem.constraints(x - step)[0]) / 2e-6
        np.testing.assert_allclose(slopes[:, k], difference, atol=2e-7 * np.abs(slopes).max())


def test_a_larger_covariance_makes_the_motion_gentler() -> None:
    assert THETA is not None
    peaks = []
    for size in (0.2, 1.5):
        plan = designed(spread(size))
        assert plan.tightest.margin >= 0
        t = np.linspace(0.0, plan.trajectory.duration, 4000)
        tau = INFORMATION.terms.torque(ROBOT, Samples.from_motion(*plan.trajectory.motion(t)), THETA)
        peaks.append((np.abs(tau) / LIMITS.torque).max())
        reported = reserve_of(ROBOT, INFORMATION.terms, plan.bounds, plan.trajectory)
        assert reported is not None
        assert (reported.kind, reported.drawn) == ("covariance", 200)
        assert reported.within >= 195
    assert peaks[1] < 0.9 * peaks[0]
    with pytest.raises(UnfitDataError, match="torque of joint"):
        designed(spread(1e4))


def test_the_dense_grid_counts_the_reserve() -> None:
    motion, tau = motion_and_torque(7)
    known = spread(4.0)
    sigma = known.about(ROBOT, INFORMATION.terms, THETA, Samples.from_motion(*motion))[1]
    t = np.arange(40.0)
    found = margins(ROBOT, INFORMATION.terms, Bounds(LIMITS, THETA, 0.0, spread=known), t, *motion)
    worst = np.array([abs(m.worst) for m in found if m.what == "torque"])
    np.testing.assert_allclose(worst, (np.abs(tau) + 3.0 * sigma).max(axis=0), rtol=1e-12)


def test_a_constant_share_is_named_as_such() -> None:
    plan = designed(None)
    stored = plan.describe()["torque_reserve"]
    assert (stored["kind"], stored["share"], "drawn" in stored) == ("share", 0.1, False)
    for one in stored["joints"]:
        assert one["largest"] == pytest.approx(0.1 * one["peak"])


def test_numbers_out_of_range_are_refused() -> None:
    for change in ({"sigmas": -1.0}, {"sigmas": np.nan}, {"residual": np.full(7, -1.0)}):
        with pytest.raises(UsageError, match="torque-spread"):
            replace(spread(1.0), **change)


@pytest.fixture(scope="module")
def known_run(tmp_path_factory: pytest.TempPathFactory, robot_file: Path, train_log: Path) -> Path:
    robot = load_robot(robot_file)
    found = identify(robot, read_log([train_log], robot), Settings(terms=RigidBody() + Viscous()))
    folder = tmp_path_factory.mktemp("known") / "run"
    save(found, folder)
    return folder


WITHIN = {"limits.lower": -2.0, "limits.upper": 2.0, "limits.velocity": 2.0, "limits.torque": 60.0}
SHORT = SHORT_SEARCH | {"search.iterations": 2}


def test_the_command_takes_the_model_of_a_run(
    tmp_path: Path, run: Run, robot_file: Path, known_run: Path
) -> None:
    command = ("excite", robot_file, *planned(tmp_path, WITHIN | SHORT))
    done = run(*command, "--run", known_run, "--out", tmp_path / "one")
    assert done.code == 0, done.err
    assert "3 standard deviations from the run's covariance" in done.out
    stored = json.loads((tmp_path / "one" / "plan.json").read_text())["torque_reserve"]
    assert stored["kind"] == "covariance"
    assert stored["rate"] == pytest.approx(0.99865, abs=1e-5)
    assert all(0 < one["share_of_limit"] < 1 for one in stored["joints"])
    careful = planned(tmp_path, WITHIN | SHORT | {"limits.sigmas": 6.0, "limits.uncertainty": 0.2})
    done = run("excite", robot_file, *careful, "--run", known_run, "--out", tmp_path / "two")
    wider = json.loads((tmp_path / "two" / "plan.json").read_text())["torque_reserve"]
    assert (done.code, wider["kind"], wider["sigmas"]) == (0, "covariance and share", 6.0)
    done = run(*command, "--out", tmp_path / "three")
    assert (
        done.code,
        "a constant reserve of 10 % of the torque, because no covariance is known" in done.out,
    ) == (
        0,
        True,
    )
    for keys, more, code, words in (
        ({}, ["--run", known_run, "--after", known_run], 2, "one of them"),
        ({"limits.noise": 1.0}, ["--after", known_run], 2, "limits.noise with --after"),
        ({}, ["--run", tmp_path / "nothing"], 3, "run folder"),
        ({"limits.noise": [1.0, 2.0, 3.0]}, [], 2, "3 numbers in limits.noise"),
        ({"limits.sigmas": 1e6}, ["--run", known_run], 4, "relax the limit of torque"),
    ):
        plan = planned(tmp_path, WITHIN | SHORT | keys)
        done = run("excite", robot_file, *plan, *more, "--out", tmp_path / "none")
        assert (done.code, words in done.err) == (code, True), done.err
        assert not (tmp_path / "none").exists()
    done = run("excite", ARM, *planned(tmp_path, SHORT), "--run", known_run, "--out", tmp_path / "none")
    assert (done.code, "run of the robot 'two'" in done.err) == (2, True), done.err
