"""What is recovered of a run's own model at its own motion, with its own noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.estimate import Residuals
from dynid.identification import Settings, identify
from dynid.log import Log, read_log
from dynid.robot import load_robot
from dynid.run import Identification
from dynid.verbs.selftest import _drawn_noise, selftest
from tests.command_line import Run

pytestmark = pytest.mark.usefixtures("unexamined")


@pytest.fixture(scope="module")
def log(robot_file: Path, train_log: Path) -> Log:
    return read_log(train_log, load_robot(robot_file))


@pytest.fixture(scope="module")
def identified(log: Log) -> Identification:
    return identify(log.robot, log, Settings(automatic=False), threads=1)


def test_what_is_true_is_recovered(identified: Identification, log: Log) -> None:
    """Of 95 % intervals most hold the truth, and the error of the torque is far below that of single samples."""
    found = selftest(identified, log, seed=3, threads=1)
    assert found.refit.estimate.base.rank == identified.estimate.base.rank
    assert found.missing == ()
    assert found.share >= 0.8
    assert sum(one.count for one in found.groups) == len(found.truth)
    groups = [one.group for one in found.groups]
    assert groups[0] == "link " + log.robot.body_names[0]
    assert groups[-1] == "friction and drive of elbow"
    mine, theirs = (run.validations[0].scores.total_relative for run in (found.refit, identified))
    assert 0.5 < mine / theirs < 2.0
    assert (found.torque_error < found.refit.validations[0].scores.relative).all()
    # The seed makes the noise, and threads change nothing.
    again = selftest(identified, log, seed=3, threads=2)
    np.testing.assert_array_equal(again.refit.estimate.value, found.refit.estimate.value)
    other = selftest(identified, log, seed=4, threads=1)
    assert (other.refit.estimate.value != found.refit.estimate.value).any()


def test_noise_is_that_of_the_residuals() -> None:
    """Size, colour and what joints have in common stay; what the fit had taken out comes back."""
    rng = np.random.default_rng(0)
    rate, t = 50.0, np.arange(4000) / 50.0
    common = np.convolve(rng.normal(size=len(t) + 9), np.ones(10) / np.sqrt(10), "valid")
    error = np.stack([common, 0.5 * common + 0.5 * rng.normal(size=len(t))], axis=1)
    wave = np.sin(2 * np.pi * 0.1 * t)
    error -= np.outer(wave, wave @ error) / (wave @ wave)
    residuals = Residuals(
        ("a",),
        ("x", "y"),
        t,
        np.zeros(len(t), int),
        np.zeros(len(t), int),
        error,
        0 * error,
        error,
        error,
        rate,
    )
    drawn = np.stack([_drawn_noise(residuals, 4.0, t, np.random.default_rng(k)) for k in range(40)])
    np.testing.assert_allclose(drawn.std(axis=(0, 1)), error.std(axis=0), rtol=0.05)
    apart = [np.corrcoef(one[:, 0], one[:, 1])[0, 1] for one in drawn]
    assert np.mean(apart) == pytest.approx(np.corrcoef(error.T)[0, 1], abs=0.05)
    after = [np.corrcoef(one[5:, 0], one[:-5, 0])[0, 1] for one in drawn]
    assert np.mean(after) == pytest.approx(np.corrcoef(error[5:, 0], error[:-5, 0])[0, 1], abs=0.05)
    # The share of white noise of the same spectrum along the wave: near that of neighbouring frequencies, not zero.
    assert np.std(wave @ drawn[:, :, 0].T) > 0.5 * np.std(np.sin(2 * np.pi * 0.16 * t) @ drawn[:, :, 0].T)


def test_the_command(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run("identify", robot_file, train_log, "--no-auto", "--out", out).code == 0
    done = run("selftest", out, "--json")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    results = printed["results"]
    inside = [abs(one["value"] - one["true"]) <= one["half_width95"] for one in results["parameters"]]
    assert results["inside"] == pytest.approx(np.mean(inside))
    assert sum(one["inside"] for one in results["groups"]) == sum(inside)
    assert printed["lines"] == run("selftest", out, train_log).out.splitlines()
    assert f"all: {sum(inside)} of {len(inside)} true values" in done.out


def test_a_run_without_its_log_asks_for_it(identified: Identification) -> None:
    with pytest.raises(UsageError, match="name a log after the run"):
        selftest(identified)
