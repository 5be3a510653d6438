"""Estimators through the whole way: from a log, an experiment file or the command line to a run folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, InputError, UsageError
from dynid.estimate import CLOE, DIDIM, IRLS, OE, Estimator, simulated
from dynid.estimate.simulated import smoothed, thinned
from dynid.identification import Experiment, Settings
from dynid.rows import TorqueRows
from dynid.signals import Preparation
from dynid.terms import Coulomb, Offset, RigidBody, Viscous
from dynid.testing import exact_samples, measured_regression, simulated_log, true_parameters, two_joints
from tests.command_line import Run

pytestmark = pytest.mark.usefixtures("unexamined")

ROBOT = two_joints()
TERMS = RigidBody() + Viscous() + Coulomb(width=0.1) + Offset()
THETA = true_parameters(ROBOT, TERMS)
CHAIN = Preparation(cutoff=10.0)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("estimators")
    return simulated_log(folder / "log.parquet", ROBOT, TERMS, THETA, seconds=15.0, noise=0.005, seed=2)


@pytest.mark.parametrize("estimator", [IRLS("tukey"), DIDIM(), OE()])
def test_identify_judges_them_on_held_out_blocks(log: Path, estimator: Estimator) -> None:
    settings = Settings(terms=TERMS, estimator=estimator, preparation=CHAIN, folds=2, rows=TorqueRows())
    found = dynid.identify(ROBOT, dynid.read_log(log, ROBOT), settings, diagnostics=Diagnostics())
    assert found.estimate.method == estimator.name
    assert found.estimate.status.ok
    scores = found.validations[0].scores
    assert scores.total_relative < 0.02
    inside = np.abs(found.estimate.value - found.estimate.base.reduce(THETA)) <= found.estimate.half_width()
    assert inside.mean() > 0.7


def test_options_come_from_the_experiment_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('[estimate]\nmethod = "didim"\nkp = [800.0, 300.0]\nkd = 60.0\nrounds = 3\nfolds = 4\n')
    experiment = Experiment.read(path)
    assert experiment.settings().estimator == DIDIM(kp=[800.0, 300.0], kd=60.0, rounds=3)
    other = experiment.with_method("irls")
    assert other.settings().estimator == IRLS(rounds=3)
    assert other.settings().folds == 4
    for wrong, near in (
        ("didm", "did you mean 'didim'"),
        ("WLS", "did you mean 'wls'"),
        ("", "expected one of ols"),
    ):
        with pytest.raises(UsageError, match=near):
            experiment.with_method(wrong)
    path.write_text('[estimate]\nmethod = "wls"\nhorizon = 1.0\n')
    with pytest.raises(InputError, match=r"experiment.toml:3.*estimate.horizon"):
        Experiment.read(path).settings()


def test_command_line(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    done = run("identify", robot_file, train_log, "--estimator", "irls", "--out", tmp_path / "run", "-v")
    assert done.code == 0, done.err
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["experiment"]["estimate"]["method"] == "irls"
    assert "model-not-chosen" in done.err
    again = dynid.load(tmp_path / "run")
    assert again.estimate.method == "irls"
    assert "huber weights" in again.estimate.status.text


def test_the_report_says_how_intervals_were_found(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    config = tmp_path / "hac.experiment.toml"
    config.write_text(
        '[model]\nautomatic = false\n[estimate]\nmethod = "irls"\nfeasible = true\nintervals = "hac"\nstrength = 1e7\n'
    )
    done = run("identify", robot_file, train_log, "--config", config, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    page = (tmp_path / "run" / "report.html").read_text()
    assert "neighbouring blocks (HAC)" in page
    assert "irls, huber weights" in page
    assert "physically consistent" in page
    assert '<span class="chip prior">from the prior</span>' in page
    found = dynid.load(tmp_path / "run")
    assert found.estimate.method == "feasible"
    assert found.estimate.prior_share.max() > 0.5


def test_a_method_that_does_not_exist(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    done = run("identify", robot_file, train_log, "--estimator", "iris", "--out", tmp_path / "run")
    assert done.code == 2
    assert "did you mean 'irls'?" in done.err
    assert not (tmp_path / "run").exists()


def test_runs_are_made_on_no_more_samples_than_they_need() -> None:
    samples = replace(exact_samples(ROBOT, TERMS, THETA, 5.0, 1), first=7)
    samples = replace(samples, extra={"load": samples.q[:, 0]})
    coarse = thinned(samples, 3)
    np.testing.assert_allclose(np.diff(coarse.t), 3.0 / samples.rate)
    assert coarse.first == 3
    np.testing.assert_array_equal(coarse.t, samples.t[2::3])
    np.testing.assert_allclose(coarse.q[20:-20], samples.q[2::3][20:-20], atol=1e-5)
    np.testing.assert_allclose(coarse.extra["load"], coarse.q[:, 0], rtol=1e-12)


def test_motors_are_smoothed_as_their_joints_are() -> None:
    samples = exact_samples(ROBOT, TERMS, THETA, 5.0, 1)
    both = smoothed(replace(samples, theta=samples.q, dtheta=samples.dq, ddtheta=samples.ddq), 2.0)
    assert np.abs(both.q - samples.q).max() > 1e-6
    for motor, joint in ((both.theta, both.q), (both.dtheta, both.dq), (both.ddtheta, both.ddq)):
        np.testing.assert_array_equal(motor, joint)


@pytest.mark.parametrize("estimator", [DIDIM(), CLOE(), OE(horizon=0.4)])
def test_coarse_runs_find_the_same(estimator: Estimator, monkeypatch: pytest.MonkeyPatch) -> None:
    case = measured_regression(1, seconds=6.0)
    every = estimator.fit(case.regression)
    monkeypatch.setattr(simulated, "COARSE_RATE", 90.0)
    second = estimator.fit(case.regression)
    assert every.status.ok
    assert second.status.ok
    np.testing.assert_array_less(np.abs(every.value - second.value), 1.5 * every.half_width())
    assert np.abs(every.value - second.value).max() > 0
