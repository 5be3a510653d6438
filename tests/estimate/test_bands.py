"""Bands of predicted torque: the covariance through the regressor, and the share of measurements that they hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from dynid.estimate import Bands, Estimate
from dynid.estimate.prediction import POINTS
from dynid.identification import Settings, identify
from dynid.log import read_log
from dynid.robot import RobotModel
from dynid.run import Identification, load
from dynid.signals import Preparation
from dynid.terms import Coulomb, Presliding, RigidBody, Terms, Viscous
from dynid.testing import random_inertia, random_robot, simulated_log, smooth_samples
from dynid.verbs import save

pytestmark = pytest.mark.usefixtures("unexamined")

ROBOT: RobotModel = random_robot(2, 3, 0.0)
TERMS = RigidBody() + Viscous() + Coulomb(0.05)
THETA = np.concatenate([random_inertia(3, 3).ravel(), np.full(6, 0.5)])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    folder = tmp_path_factory.mktemp("bands")
    paths = [
        simulated_log(folder / f"{seed}.parquet", ROBOT, TERMS, THETA, seconds=20.0, noise=0.05, seed=seed)
        for seed in (1, 2)
    ]
    train, unseen = (read_log(path, ROBOT) for path in paths)
    settings = Settings(terms=TERMS, preparation=Preparation(cutoff=8.0))
    return identify(ROBOT, train, settings, validation=unseen, threads=1)


def test_std_is_the_covariance_seen_through_the_regressor(found: Identification) -> None:
    samples = smooth_samples(ROBOT, 50, seed=9)
    estimate = found.estimate
    p = len(estimate.columns)
    Y = found.terms.torque_regressor(ROBOT, samples, np.ones(p, dtype=np.bool_)).dense(p)
    W = Y[:, :, estimate.base.independent]
    wanted = np.sqrt(np.einsum("tjb,bc,tjc->tj", W, estimate.covariance, W))
    got = Bands(ROBOT, found.terms, estimate).std(samples, np.arange(50))
    np.testing.assert_allclose(got, wanted, rtol=1e-7)


def test_between_points_it_is_interpolated(found: Identification) -> None:
    samples = smooth_samples(ROBOT, 5 * POINTS, seed=9, rate=500.0)
    bands = Bands(ROBOT, found.terms, found.estimate)
    many = bands.std(samples, np.arange(5 * POINTS))
    exact = np.concatenate(
        [bands.std(samples, np.arange(a, a + POINTS)) for a in range(0, 5 * POINTS, POINTS)]
    )
    assert many.shape == exact.shape
    assert np.median(np.abs(many / exact - 1.0)) < 0.01
    assert np.quantile(np.abs(many / exact - 1.0), 0.99) < 0.2


def test_terms_with_a_memory_see_the_whole_batch() -> None:
    samples = smooth_samples(ROBOT, 200, seed=9)
    terms = Terms((*TERMS.terms[:2], Presliding(distance=0.05)))
    columns = terms.columns(ROBOT)
    p = len(columns)
    Y = terms.torque_regressor(ROBOT, samples, np.ones(p, dtype=np.bool_)).dense(p)
    covariance = np.zeros((p, p))
    covariance[-3:, -3:] = np.eye(3)  # of the friction alone
    base = SimpleNamespace(independent=np.arange(p))
    estimate = cast("Estimate", SimpleNamespace(covariance=covariance, columns=columns, base=base))
    index = np.arange(100, 200, 7)
    got = Bands(ROBOT, terms, estimate).std(samples, index)
    np.testing.assert_allclose(got, np.abs(np.array([Y[index, j, p - 3 + j] for j in range(3)]).T), atol=1e-9)


def test_unseen_torque_lies_within_its_bands(found: Identification) -> None:
    (validation,) = found.validations
    residuals = validation.residuals
    assert residuals is not None
    assert residuals.std is not None
    half = np.hypot(found.estimate.quantile() * residuals.std, 1.96 * found.training.scores.sde)
    assert (np.mean(np.abs(residuals.error) <= half, axis=0) > 0.92).all()
    assert np.mean(np.abs(residuals.error) <= 0.3 * half) < 0.8
    # The model's own band is far narrower than the noise, and not nothing.
    share = residuals.std.mean(axis=0) / found.training.scores.sde
    assert ((share > 0.01) & (share < 0.5)).all()


def test_bands_are_stored(found: Identification, tmp_path: Path) -> None:
    save(found, tmp_path / "run")
    again = load(tmp_path / "run").training.residuals
    assert again is not None
    assert again.std is not None
    assert found.training.residuals is not None
    np.testing.assert_array_equal(again.std, found.training.residuals.std)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "in the 95 % band" in page


def test_an_unknown_covariance_gives_no_band(found: Identification) -> None:
    unknown = replace(found.estimate, covariance=np.full_like(found.estimate.covariance, np.nan))
    samples = smooth_samples(ROBOT, 10)
    assert np.isnan(Bands(ROBOT, found.terms, unknown).std(samples, np.arange(10))).all()
