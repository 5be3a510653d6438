"""What scores leave out is reported: rest, masked times, and motion outside the training's range."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Interval
from dynid.diagnosis import left_out
from dynid.diagnosis.masking import Within
from dynid.estimate import WLS, LeftOut, MotionRange, Origin, Scores, Sums
from dynid.identification import Settings, identify
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.report import Page
from dynid.run import Identification, judge, scores_from_dict, scores_to_dict, validate
from dynid.signals import Preparation, Samples
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.testing import random_robot
from dynid.verbs import score_lines
from tests.report.sections import section

pytestmark = pytest.mark.usefixtures("unexamined")

ROBOT = random_robot(21, 3, 0.0)
TERMS = RigidBody() + Viscous() + Coulomb()
SETTINGS = Settings(terms=TERMS, preparation=Preparation(cutoff=8.0), estimator=WLS())
RATE, REST_FROM, REST_TO, SECONDS = 200.0, 12.0, 20.0, 24.0


def recorded(path: Path, seed: int, speed: float = 1.0, sticks: float = 0.0) -> Log:
    """A motion that comes to rest for eight of 24 seconds, where dry friction holds with a share of its size, `sticks`.

    That torque no term has: at rest the sign of the velocity is zero.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    w = 2 * np.pi * speed * np.array([0.5, 0.9, 1.3])
    phase, size = rng.uniform(0, 6, (3, 3)), rng.uniform(0.2, 0.4, (3, 3))
    # The clock of the motion stands still: its rate falls and rises as a cosine within one second.
    middle, half = (REST_FROM + REST_TO) / 2, (REST_TO - REST_FROM) / 2
    pace = 0.5 - 0.5 * np.cos(np.pi * np.clip(np.abs(t - middle) - half, 0.0, 1.0))
    clock = np.concatenate([[0.0], np.cumsum(0.5 * (pace[1:] + pace[:-1])) / RATE])
    q = np.stack([(size[j] * np.sin(np.outer(clock, w) + phase[j])).sum(axis=1) for j in range(3)], axis=1)
    dq = np.gradient(q, 1.0 / RATE, axis=0)
    samples = Samples.from_motion(q, dq, np.gradient(dq, 1.0 / RATE, axis=0), rate=RATE)
    columns = TERMS.columns(ROBOT)
    theta = np.array([{"viscous": 0.8, "coulomb": 0.0}.get(c.term, c.prior) for c in columns])
    dry = 0.4 * np.sqrt(np.mean(TERMS.torque(ROBOT, samples, theta) ** 2, axis=0))
    theta[[c.term == "coulomb" for c in columns]] = dry
    tau = TERMS.torque(ROBOT, samples, theta)
    tau += sticks * dry * (pace < 0.01)[:, None]
    tau += 0.01 * np.sqrt(np.mean(tau**2, axis=0)) * rng.normal(0, 1, tau.shape)
    write_log(path, t, canonical_columns(ROBOT.joint_names, q, tau=tau))
    return read_log(path, ROBOT)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Log]:
    folder = tmp_path_factory.mktemp("rest")
    return {
        "training": recorded(folder / "training.parquet", 1),
        "sticking": recorded(folder / "sticking.parquet", 1, sticks=0.9),
        "fast": recorded(folder / "fast.parquet", 1, speed=2.0),
    }


@pytest.fixture(scope="module")
def result(logs: dict[str, Log]) -> Identification:
    return identify(ROBOT, logs["training"], SETTINGS, validation=logs["sticking"], threads=1)


def test_samples_at_rest_are_scored_beside_the_others(
    logs: dict[str, Log], result: Identification, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By what the terms say of a velocity of zero.
    monkeypatch.setattr("dynid.run.validation.travel_at_rest", lambda *_: None)
    found = validate(result, logs["sticking"], threads=1).scores
    assert list(found.left_out) == ["rest"]
    assert found.left_out["rest"] == pytest.approx((REST_TO - REST_FROM) / SECONDS, abs=0.05)
    # Every sample counts where nothing is called rest: the same figures by another way.
    settings = {**result.preparation["settings"], "rest": 0.0}
    restless = replace(result, preparation={**result.preparation, "settings": settings})
    wanted = validate(restless, logs["sticking"], threads=1).scores
    assert not wanted.left_out
    assert wanted.all_samples is None
    assert found.all_samples is not None
    for name in ("rms", "relative", "r2", "nmse", "mse", "sde", "torque_rms", "count"):
        np.testing.assert_allclose(
            getattr(found.all_samples, name), getattr(wanted, name), rtol=1e-8, err_msg=name
        )
    assert found.all_samples.total_relative == pytest.approx(wanted.total_relative)
    assert wanted.total_relative > 3.0 * found.total_relative > 0.0


def test_residuals_hold_the_samples_that_count(result: Identification) -> None:
    residuals, scores = result.validations[0].residuals, result.validations[0].scores
    assert residuals is not None
    assert (scores.count == len(residuals.t)).all()
    assert not ((residuals.t > REST_FROM + 0.5) & (residuals.t < REST_TO - 0.5)).any()


def test_held_out_blocks_leave_out_what_their_log_does(logs: dict[str, Log]) -> None:
    found = identify(ROBOT, logs["sticking"], SETTINGS, threads=1)
    scores, training = found.validations[0].scores, found.training.scores
    assert scores.origin is Origin.HELD_OUT_BLOCKS
    assert scores.left_out == training.left_out
    assert scores.all_samples is not None
    assert training.all_samples is not None
    np.testing.assert_allclose(scores.all_samples.count, training.all_samples.count)
    # What is left out was in no fit, so that its error is that of the model of all blocks.
    for name in ("mse",):
        more = getattr(scores.all_samples, name) * scores.all_samples.count - scores.mse * scores.count
        wanted = training.all_samples.mse * training.all_samples.count - training.mse * training.count
        np.testing.assert_allclose(more, wanted, rtol=1e-8)


def test_terminal_run_and_report_show_both_figures(result: Identification) -> None:
    scores = result.validations[0].scores
    assert scores.all_samples is not None
    kept, whole = (f"{100 * one.total_relative:.3g} %" for one in (scores, scores.all_samples))
    head, second, third, *_ = score_lines(scores)
    assert f"torque error {kept}, {whole} on all samples" in head
    assert second == f"  samples left out: {100 * scores.left_out['rest']:.3g} % (rest)"
    assert scores.at_rest_text
    assert third == f"  all samples: {scores.at_rest_text}"
    assert f"{100 * scores.all_samples.total_relative:.2g} % including samples left out (rest" in (
        result.verdict.headline
    )
    page = str(section("scores").render(result, Page()))
    assert "all samples" in page
    assert "% (rest) of the samples are left out; the error including them is" in page
    assert scores.at_rest_text in page
    plain = json.loads(json.dumps(scores_to_dict(scores), allow_nan=False))
    assert plain["left_out"] == scores.left_out
    assert plain["all_samples"]["total_relative"] == scores.all_samples.total_relative
    again = scores_from_dict(plain)
    assert again.all_samples is not None
    np.testing.assert_array_equal(again.all_samples.rms, scores.all_samples.rms)
    assert again.motion is not None
    assert scores.motion is not None
    np.testing.assert_array_equal(again.motion.velocity, scores.motion.velocity)


def test_masked_times_are_left_out_under_their_reason() -> None:
    t = np.arange(0.0, 10.0, 0.01)
    line = np.stack([np.sin(t), np.cos(t)], axis=1)
    samples = replace(Samples.from_motion(line, line, line, line, 100.0), t=t, trajectory="a")
    resting = np.arange(len(t)) < 100
    samples = replace(samples, keep=~resting, left_out={"rest": resting})
    masked = left_out([samples], Within((Interval("a", 0.5, 3.0),), 0.0), "contact", Diagnostics())
    assert isinstance(masked, list)
    assert list(masked[0].left_out) == ["rest", "contact"]
    parts = [masked[0].keep, *masked[0].left_out.values()]
    assert (np.sum(parts, axis=0) == 1).all()  # every sample counts, or is left out for one reason
    np.testing.assert_array_equal(masked[0].left_out["contact"], (t >= 0.5) & (t <= 3.0))
    assert masked[0].with_left_out.keep.all()
    whole = masked[0].part(50, 150)
    np.testing.assert_array_equal(whole.left_out["contact"], t[50:150] <= 3.0)


def test_motion_beyond_the_training_is_reported_with_its_share(
    logs: dict[str, Log], result: Identification
) -> None:
    assert not validate(result, logs["sticking"], threads=1).scores.beyond_text
    found = validate(result, logs["fast"], threads=1)
    assert found.residuals is not None
    trained = result.training.scores.motion
    assert trained is not None
    low, high = trained.velocity
    room = 0.05 * (high - low)
    speed = found.residuals.dq
    share = ((speed < low - room) | (speed > high + room)).mean(axis=0)
    # The residuals' velocities have been filtered once more than those that are compared.
    np.testing.assert_allclose(found.scores.beyond["velocity"], share, atol=0.02)
    assert (share > 0.1).all()
    assert not found.scores.beyond["position"].any()
    assert "velocity of" in found.scores.beyond_text
    assert score_lines(found.scores)[-1].startswith("  outside the training range: velocity of ")
    verdict = judge(result.estimate, result.structural, result.training, (found,), Diagnostics())
    (reported,) = (one for one in verdict.findings if "outside the training range" in one.title)
    assert reported.level == "warning"


def test_a_range_is_widened_and_compared_as_it_says() -> None:
    rng = np.random.default_rng(0)
    one, other = (tuple(rng.normal(0, 1, (3, 50, 2))) for _ in range(2))
    both = MotionRange.of(*one) | MotionRange.of(*other)
    whole = MotionRange.of(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))
    for a, b in zip(both.values, whole.values, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not both.beyond(*one).any()
    far = [3.0 * x for x in one]
    for k in range(3):
        low, high = both.values[k]
        room = 0.05 * (high - low)
        np.testing.assert_array_equal(
            both.beyond(*far)[k], ((far[k] < low - room) | (far[k] > high + room)).sum(axis=0)
        )


def scores(error: np.ndarray) -> Scores:
    """Scores of two joints whose torque swings about 1 by 0.5."""
    measured = 1.0 + 0.5 * np.sin(np.linspace(0, 20, 400))[:, None] * np.ones(2)
    blocks = [Sums.of_arrays(measured[i : i + 40], (measured - error)[i : i + 40]) for i in range(0, 400, 40)]
    whole = Sums.of_arrays(measured, measured - error)
    return whole.scores(Origin.HELD_OUT_LOG, ("good", "bad"), ("t",), parts=blocks)


@pytest.mark.parametrize("size", [0.8, 3.0])
def test_a_joint_that_is_worse_than_a_constant_is_named(size: float, result: Identification) -> None:
    noise = np.random.default_rng(0).normal(0, 1, (400, 2))
    found = scores(noise * [0.01, size])
    assert found.useless == ("bad",)
    good, bad = score_lines(found)[-2:]
    assert "worse" not in good
    assert bad.endswith("worse than a constant torque")
    only = replace(result.validations[0], scores=found, residuals=None)
    verdict = judge(result.estimate, result.structural, result.training, (only,), Diagnostics())
    assert verdict.level == "poor"
    assert [one.title for one in verdict.findings if "bad:" in one.title] == [
        "bad: worse than a constant torque"
    ]


def test_figures_of_left_out_samples_may_be_unknown() -> None:
    sums = Sums.of_arrays(np.ones((4, 1)), np.zeros((4, 1)))
    known = sums.scores(Origin.TRAINING, ("a",), ("t",), LeftOut(None, {"rest": 0.25}))
    assert known.left_out == {"rest": 0.25}
    assert known.all_samples is None
    assert not known.at_rest_text
    head, second, *_ = score_lines(known)
    assert "all samples" not in head
    assert "25 % (rest)" in second
