"""The most probable links under one prior with units, on arms that are simulated by pinocchio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import MAP, WLS, Estimate, Uncertainty, warn_of_descriptions
from dynid.estimate.physical import without_contradicted
from dynid.estimate.posterior import Prior, _curvature
from dynid.feasible import body_columns, least_eigenvalues
from dynid.identification import DEFAULT_TERMS
from dynid.robot import load_robot
from dynid.run import mass_findings
from dynid.signals import Samples
from dynid.simulation import inverse
from dynid.testing import small_arm
from dynid.testing.lab import fitted
from dynid.trajectories import FourierTrajectory
from tests.estimate.test_partial_prior import UNKNOWN, arm, masses, regression

DESCRIBED = [(1.1, 0.9, 1.0, 1.2), (UNKNOWN,) * 4, (1.1, 0.9, UNKNOWN, UNKNOWN)]
TRUE = np.array([5.0, 3.0, 0.03, 0.01])


def drawn(prior: Prior, seed: int) -> Float:
    return np.clip(np.random.default_rng(seed).normal(0, 1.5, prior.count), *prior.bounds())


def left_out(estimate: Estimate, known: tuple[float, ...]) -> list[bool]:
    return [
        bool(width > 0) and bool(np.isfinite(k))
        for width, k in zip(estimate.link_widths[:, 3], known, strict=True)
    ]


@pytest.mark.parametrize("known", DESCRIBED)
def test_every_coordinate_is_a_link_that_can_exist(tmp_path: Path, known: tuple[float, ...]) -> None:
    given = regression(tmp_path, arm(known))
    prior = Prior.of(MAP(), given)
    for seed in range(5):
        theta, slope = prior.parameters(drawn(prior, seed))
        assert (least_eigenvalues(given.columns, theta) > 0).all()
        lower = np.array([column.lower for column in given.columns])
        others = np.setdiff1d(np.arange(len(theta)), body_columns(given.columns))
        assert (theta[others] >= lower[others]).all()
        # The inverse map, and the derivative by central differences.
        again = prior.parameters(prior.coordinates(theta))[0]
        np.testing.assert_allclose(again, theta, rtol=1e-9, atol=1e-12)
        x, step = drawn(prior, seed), 1e-6
        for k in range(prior.count):
            moved = np.zeros(prior.count)
            moved[k] = step
            change = (prior.parameters(x + moved)[0] - prior.parameters(x - moved)[0]) / (2 * step)
            np.testing.assert_allclose(slope[:, k], change, rtol=1e-6, atol=1e-7 * np.abs(slope).max())


@pytest.mark.parametrize("known", DESCRIBED)
def test_the_curvature_is_the_derivative_of_the_slope(tmp_path: Path, known: tuple[float, ...]) -> None:
    given = regression(tmp_path, arm(known))
    prior = Prior.of(MAP(), given)
    x, force, step = drawn(prior, 0), np.random.default_rng(1).normal(size=prior.size), 1e-5
    curvature = _curvature(prior, x, force)
    for k in range(prior.count):
        moved = np.zeros(prior.count)
        moved[k] = step
        change = force @ (prior.parameters(x + moved)[1] - prior.parameters(x - moved)[1]) / (2 * step)
        np.testing.assert_allclose(curvature[k], change, rtol=1e-6, atol=1e-6 * np.abs(curvature).max())


def test_several_points_at_once_are_those_points(tmp_path: Path) -> None:
    prior = Prior.of(MAP(), regression(tmp_path, arm(DESCRIBED[2])))
    points = np.array([drawn(prior, seed) for seed in range(3)])
    for together, alone in zip(prior.links(points), zip(*map(prior.links, points), strict=True), strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-14)


def test_without_intervals_the_value_is_the_same(tmp_path: Path) -> None:
    given = regression(tmp_path, arm(DESCRIBED[0]))
    np.testing.assert_array_equal(MAP().fit(given).value, MAP().fit(replace(given, value_only=True)).value)


@pytest.mark.parametrize("known", DESCRIBED)
@pytest.mark.parametrize("seed", [0, 1])
def test_links_exist_and_predict_as_well_as_any(tmp_path: Path, known: tuple[float, ...], seed: int) -> None:
    given = regression(tmp_path, arm(known), seed=seed)
    free, estimate = WLS().fit(given), MAP().fit(given)
    assert estimate.status.ok
    assert (least_eigenvalues(given.columns, estimate.parameters) > 0).all()
    # The true links exist, so links that can exist fit their torque as well as any numbers do.
    assert (estimate.sigma <= 1.1 * free.sigma).all()


def test_what_no_equation_contains_stays_at_the_prior(tmp_path: Path) -> None:
    known = (1.1, 0.9, 1.0, 1.2)
    given = regression(tmp_path, arm(known))
    estimate = MAP().fit(given)
    # The mass of a first link that turns about the vertical has no effect of its own. It follows the inertia
    # by a small part of its uncertainty of 20 %.
    assert estimate.parameters[0] == pytest.approx(known[0] * TRUE[0], rel=0.02)


@pytest.mark.parametrize("wrong", [1, 2])
def test_the_one_link_whose_description_is_wrong_is_named_and_no_other(tmp_path: Path, wrong: int) -> None:
    # As a link in grams: every number of its description is a thousand times the true one.
    known = tuple(1000.0 if i == wrong else 1.0 for i in range(4))
    estimate = MAP().fit(regression(tmp_path, arm(known)))
    assert left_out(estimate, known) == [i == wrong for i in range(4)]
    exact = MAP().fit(regression(tmp_path, arm((1.0,) * 4)))
    assert not any(left_out(exact, (1.0,) * 4))
    mass = masses(estimate)[wrong]
    assert mass < 0.1 * 1000.0 * TRUE[wrong]


def test_data_narrow_the_prior_and_intervals_follow_the_noise(tmp_path: Path) -> None:
    given = regression(tmp_path, arm((1.1, 0.9, 1.0, 1.2)))
    estimate = MAP().fit(given)
    uncertainty = Uncertainty.of(estimate, given)
    assert (np.diag(uncertainty.posterior) <= 1.01 * np.diag(uncertainty.prior)).all()
    assert ((estimate.prior_share >= 0) & (estimate.prior_share <= 1)).all()
    # The full parameters imply the base parameters' covariance.
    implied = np.sqrt(np.diag(given.base.B @ uncertainty.posterior @ given.base.B.T))
    assert (implied >= 0.99 * estimate.std).all()


def test_a_prior_that_the_log_contradicts_widens_and_an_exact_one_does_not(tmp_path: Path) -> None:
    sure = MAP(mass=1e-3, centre=1e-3, inertia=1e-3)
    wrong = sure.fit(regression(tmp_path, arm((1.5, 0.7, 1.4, 0.7))))
    exact = sure.fit(regression(tmp_path, arm((1.0,) * 4)))
    # The second link makes most of the torque.
    assert wrong.link_widths[1, 0] > 10 * sure.mass
    assert abs(np.log(masses(wrong)[1] / TRUE[1])) < 0.5 * abs(np.log(0.7))
    np.testing.assert_allclose(masses(exact), TRUE, rtol=0.02)


def test_estimates_without_a_prior_have_the_usual_one(tmp_path: Path) -> None:
    given = regression(tmp_path, arm((1.0,) * 4))
    free = WLS().fit(given)
    columns = body_columns(given.columns)[:, 0]
    variance = np.diag(Uncertainty.of(free, given).prior)[columns]
    heavy = free.parameters[columns] > 0.5
    assert heavy.any()
    np.testing.assert_allclose(
        np.sqrt(variance[heavy]) / free.parameters[columns][heavy], MAP().mass, rtol=1e-6
    )


def test_a_link_whose_values_were_left_out_is_not_reported_twice(tmp_path: Path) -> None:
    given = regression(tmp_path, arm((1.0, 1000.0, 1.0, 1.0)))
    robot = load_robot(tmp_path / "arm.urdf", diagnostics=Diagnostics())
    estimate, sink = MAP().fit(given), Diagnostics()
    warn_of_descriptions(robot, estimate, sink)
    assert [warning.code for warning in sink.warnings] == ["description-contradicted"]
    assert "'l1'" in sink.warnings[0].text
    assert "mass-not-said" not in {finding.code for finding in mass_findings(robot, estimate, given)}
    # Nor is it evidence for a scale of the torque.
    left = np.isfinite(without_contradicted(robot, estimate).inertia_prior).all(axis=1)
    assert left.tolist() == [True, False, True, True]


@pytest.mark.parametrize("twice", [True, False])
def test_rotor_inertias_that_were_reflected_twice_are_named(twice: bool) -> None:
    at_motors, ratios = np.array([1e-4, 1e-4, 5e-5]), np.array([121.0, 100.0, 50.0])
    robot = small_arm()
    drive = robot.drive.with_constants(gear_ratio=dict(enumerate(ratios.tolist())))
    real = replace(robot, drive=replace(drive, rotor_inertia=at_motors))
    described = replace(robot, drive=replace(drive, rotor_inertia=at_motors * (ratios**2 if twice else 1.5)))
    path = FourierTrajectory.random(robot, 20.0, 5, 4, 0.1)
    q, dq, ddq = path.motion(np.arange(0.0, 20.0, 0.01))
    theta = np.array(
        [0.0 if np.isnan(column.prior) else column.prior for column in DEFAULT_TERMS.columns(real)]
    )
    tau = inverse(real, DEFAULT_TERMS, theta, q, dq, ddq)
    tau += 0.01 * np.abs(tau).max(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    analysis = fitted(described, Samples.from_motion(q, dq, ddq, tau, 100.0), DEFAULT_TERMS)
    sink = Diagnostics()
    warn_of_descriptions(described, analysis.estimate, sink)
    texts = [warning.text for warning in sink.warnings if warning.code == "description-contradicted"]
    assert len(texts) == twice
    if twice:
        assert all(f"'{joint}'" in texts[0] for joint in robot.joint_names)
        assert "1.464 / 121^2 = 0.0001" in texts[0]


def test_a_link_of_another_variant_is_named_by_a_note(tmp_path: Path) -> None:
    known = (1.0, 6.0, 1.0, 1.0)
    given = regression(tmp_path, arm(known))
    robot = load_robot(tmp_path / "arm.urdf", diagnostics=Diagnostics())
    sink = Diagnostics()
    warn_of_descriptions(robot, MAP().fit(given), sink)
    assert not sink.warnings
    (note,) = [finding for finding in sink if finding.code == "description-contradicted"]
    assert "disagrees with link 'l1'" in note.text
    exact, quiet = MAP().fit(regression(tmp_path, arm((1.0,) * 4))), Diagnostics()
    warn_of_descriptions(robot, exact, quiet)
    assert not list(quiet)
