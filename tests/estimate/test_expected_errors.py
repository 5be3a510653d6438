"""Errors to be expected on motion that was not recorded: laws, and errors that were then made."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Float
from dynid.base.diagnostics import ExpectedError
from dynid.estimate import HOLDS, ErrorProfile, Forecast, Residuals, motion_of
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import RobotModel
from dynid.run import Identification, load, validate
from dynid.signals import Preparation, Samples
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.testing import random_inertia, random_robot, smooth_samples
from dynid.verbs import save, score_lines

pytestmark = pytest.mark.usefixtures("unexamined")

TERMS = RigidBody() + Viscous() + Coulomb(0.05)
NOISE = 0.05


def the_robot(seed: int) -> tuple[RobotModel, Float]:
    robot = random_robot(seed, 3, 0.0)
    limits = replace(robot.limits, lower=np.full(3, -2.0), upper=np.full(3, 2.0), velocity=np.full(3, np.inf))
    return replace(robot, limits=limits), np.concatenate([random_inertia(seed, 3).ravel(), np.full(6, 0.5)])


def motion(robot: RobotModel, seed: int) -> Samples:
    return smooth_samples(robot, 4000, seed, 200.0)


def identified(folder: Path, seed: int) -> Identification:
    robot, theta = the_robot(seed)
    samples = motion(robot, seed)
    tau = TERMS.torque(robot, samples, theta)
    size = NOISE * np.sqrt(np.mean(tau**2, axis=0))
    noisy = tau + size * np.random.default_rng(seed).normal(size=tau.shape)
    columns = canonical_columns(robot.joint_names, samples.q, dq=samples.dq, tau=noisy)
    log = read_log(write_log(folder / f"{seed}.parquet", samples.t, columns), robot)
    settings = Settings(terms=TERMS, preparation=Preparation(cutoff=8.0))
    return identify(robot, log, settings, threads=1)


def by_kind(run: Identification) -> dict[str, ExpectedError]:
    return {item.kind: item for item in run.verdict.expected}


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    return identified(tmp_path_factory.mktemp("wide"), 3)


def residuals_of(run: Identification) -> Residuals:
    assert run.training.residuals is not None
    return run.training.residuals


def test_on_the_recorded_motion_the_profile_is_the_held_out_error(wide: Identification) -> None:
    residuals, (held_out,) = residuals_of(wide), wide.validations
    profile = ErrorProfile.of(residuals, wide.training.scores, held_out.scores)
    resting = np.zeros(residuals.dq.shape, dtype=np.bool_)
    squares = profile.of_motion(residuals.dq, resting, np.ones(3))
    growth = np.maximum(held_out.scores.mse / wide.training.scores.mse, 1.0)
    np.testing.assert_allclose(
        squares.mean(axis=0), growth * residuals.mean_square(residuals.error), rtol=1e-10
    )


def test_a_joint_at_rest_has_any_friction_up_to_its_dry_friction(wide: Identification) -> None:
    profile = ErrorProfile.of(residuals_of(wide), wide.training.scores, wide.validations[0].scores)
    dry = np.array([1.0, 2.0, 0.0])
    unknown = profile.of_motion(np.zeros((1, 3)), np.ones((1, 3), dtype=np.bool_), dry)[0]
    share = np.random.default_rng(0).uniform(-1.0, 1.0, 200_000)
    np.testing.assert_allclose(
        unknown - profile.mean_square[:, 0], dry**2 * np.mean((share - 0.5) ** 2), rtol=0.01
    )
    shown = replace(profile, at_rest=np.array([0.5, 0.6, 0.7]))
    known = shown.of_motion(np.zeros((1, 3)), np.ones((1, 3), dtype=np.bool_), dry)
    np.testing.assert_array_equal(known[0], shown.at_rest)


def test_a_complete_model_of_a_rich_motion_serves_all_that_the_log_shows(wide: Identification) -> None:
    expected = by_kind(wide)
    assert set(expected) == {"paths", "slower", "faster", "positions", "dwells"}
    assert expected["paths"].served
    # The log has no rest.
    assert not expected["dwells"].served
    held_out = wide.validations[0].scores.total_relative
    assert 0.7 * held_out < expected["paths"].error < 1.5 * held_out


def test_the_error_that_is_made_is_the_expected_one(wide: Identification) -> None:
    """Prediction against the true torque of a robot, in other positions than the log's."""
    robot, theta = the_robot(3)
    expected, noise = by_kind(wide)["positions"].error, wide.training.scores.rms
    made = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        q, dq, ddq = (
            np.roll(x, 400 * seed, axis=0)
            for x in (getattr(motion(robot, 3), name) for name in ("q", "dq", "ddq"))
        )
        samples = replace(
            motion(robot, 3), q=rng.uniform(-1.0, 1.0, 3) + 0.5 * q, dq=dq[:, [1, 2, 0]], ddq=ddq
        )
        truth = TERMS.torque(robot, samples, theta)
        error = wide.terms.torque(wide.robot, samples, wide.estimate.parameters) - truth
        square = np.sum(np.mean(error**2, axis=0) + noise**2)
        made.append(np.sqrt(square / np.sum(np.mean(truth**2, axis=0))))
    assert np.mean(np.array(made) < 1.5 * expected) >= 0.9
    assert np.median(made) > expected / 2.0


def test_what_the_log_leaves_open_counts(wide: Identification) -> None:
    """The square of an error grows by the variance of the prediction, so it is linear in the covariance."""
    scores, (held_out,) = wide.training.scores, wide.validations
    squares = []
    for factor in (1.0, 1e4, 2e4):
        estimate = replace(wide.estimate, covariance=factor * wide.estimate.covariance)
        forecast = Forecast.of(wide.robot, wide.terms, estimate, residuals_of(wide), scores, held_out.scores)
        assert forecast is not None
        paths = {item.kind: item for item in forecast.others()}["paths"]
        squares.append(paths.error**2)
    assert not paths.served
    assert squares[2] - squares[1] == pytest.approx(1e4 / (1e4 - 1) * (squares[1] - squares[0]), rel=0.05)


def test_the_headline_names_what_the_log_does_not_show(wide: Identification) -> None:
    shown, others = wide.verdict.headline.split("not supported")
    for item in wide.verdict.expected:
        assert item.motion in (shown if item.served else others)


def test_nothing_is_expected_without_a_covariance(wide: Identification) -> None:
    unknown = replace(wide.estimate, covariance=np.full_like(wide.estimate.covariance, np.nan))
    scores = wide.training.scores
    assert Forecast.of(wide.robot, wide.terms, unknown, residuals_of(wide), scores, scores) is None


def test_expected_errors_are_stored(wide: Identification, tmp_path: Path) -> None:
    save(wide, tmp_path / "run")
    assert load(tmp_path / "run").verdict.expected == wide.verdict.expected


def test_a_prediction_outside_the_recorded_motion_says_so(wide: Identification) -> None:
    result = dynid.Result.of(wide)
    recorded = motion_of(residuals_of(wide))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.predict(recorded.q, recorded.dq, recorded.ddq)
        result.predict(recorded.q[7], recorded.dq[7], recorded.ddq[7])
    with pytest.warns(UserWarning, match=r"velocity of .* outside the recorded range; expected torque error"):
        result.predict(recorded.q, 2.0 * recorded.dq, 4.0 * recorded.ddq)
    with pytest.warns(UserWarning, match="position of"):
        result.predict(recorded.q[7] + 2.0, recorded.dq[7], recorded.ddq[7])


def test_a_validation_says_what_was_expected(wide: Identification, tmp_path: Path) -> None:
    """A load on the last link is no part of the model, and the expected error does not explain it."""
    robot, theta = the_robot(3)
    other = motion(robot, 4)
    loaded = theta.copy()
    loaded[20] += 3.0  # the mass of the last of three links
    for name, values in (("alike", theta), ("loaded", loaded)):
        tau = TERMS.torque(robot, other, values)
        tau += wide.training.scores.rms * np.random.default_rng(5).normal(size=tau.shape)
        columns = canonical_columns(robot.joint_names, other.q, dq=other.dq, tau=tau)
        log = read_log(write_log(tmp_path / f"{name}.parquet", other.t, columns), robot)
        scored = validate(wide, log)
        assert scored.expected is not None
        assert (scored.scores.total_relative > HOLDS * scored.expected) == (name == "loaded")
        text = score_lines(scored.scores, scored.expected)[1]
        assert ("the model lacks an effect" in text) == (name == "loaded")
