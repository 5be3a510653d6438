"""The posterior over consistent bodies: its pieces against differences, its limits, and draws that are all real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.estimate import Posterior, parameter_spread
from dynid.estimate.physical import Problem, _whitening, posterior, volume_slope
from dynid.factor import influence
from dynid.feasible import Chart, least_eigenvalues
from dynid.identification import Settings, identify
from dynid.log import read_log
from dynid.robot import RobotModel
from dynid.run import Identification
from dynid.signals import Preparation
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.testing import random_inertia, random_robot, simulated_log

BODIES = random_inertia(3, 2)
ROBOT: RobotModel = replace(
    random_robot(2, 2, 0.0), inertia_prior=BODIES * np.array([1.2] + [1.1] * 3 + [1.3] * 6)
)
TERMS = RigidBody() + Viscous() + Coulomb(0.05)
THETA = np.concatenate([BODIES.ravel(), np.full(4, 0.5)])
COLUMNS = TERMS.columns(ROBOT)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    path = tmp_path_factory.mktemp("laplace") / "log.parquet"
    log = read_log(simulated_log(path, ROBOT, TERMS, THETA, seconds=40.0, noise=0.02), ROBOT)
    return identify(ROBOT, log, Settings(terms=TERMS, preparation=Preparation(cutoff=8.0)), threads=1)


@pytest.fixture(scope="module")
def spread(found: Identification) -> np.ndarray:
    return parameter_spread(ROBOT, found.estimate.columns, influence(found.factors))


@pytest.fixture(scope="module")
def result(found: Identification, spread: np.ndarray) -> Posterior:
    return posterior(found.estimate, spread)


def some_problem(seed: int = 0) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(seed)
    spread = np.full(len(COLUMNS), 0.5)
    A = rng.normal(size=(9, len(COLUMNS)))
    problem = Problem(COLUMNS, spread, A, A @ THETA + rng.normal(size=9), THETA, 1.0)
    return problem, problem.chart.coordinates(THETA) + 0.1 * rng.normal(size=len(COLUMNS))


def test_the_volume_of_the_coordinates_is_linear_in_them() -> None:
    chart = Chart.of(COLUMNS, np.full(len(COLUMNS), 0.5))
    slope = volume_slope(chart, COLUMNS)
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, len(COLUMNS)))
    change = np.linalg.slogdet(chart.jacobian(a))[1] - np.linalg.slogdet(chart.jacobian(b))[1]
    np.testing.assert_allclose(slope @ (a - b), change, rtol=1e-8)


@pytest.mark.parametrize("seed", range(2))
def test_gradient_and_curvature_are_those_of_the_density(seed: int) -> None:
    problem, x = some_problem(seed)
    steps = 1e-5 * np.eye(len(x))
    gradient = [(problem.value(x + s) - problem.value(x - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(problem.gradient(x), gradient, rtol=1e-5, atol=1e-5)
    curvature = [(problem.gradient(x + s) - problem.gradient(x - s)) / 2e-5 for s in steps]
    size = np.abs(curvature).max()
    np.testing.assert_allclose(problem.hessian(x), curvature, rtol=1e-4, atol=1e-6 * size)


def test_the_mode_is_one(result: Posterior) -> None:
    gradient = result.problem.gradient(result.x)
    step = np.linalg.solve(result.curvature, gradient)
    assert gradient @ step < 1e-5
    assert np.linalg.eigvalsh(result.curvature).min() > 0
    assert least_eigenvalues(result.columns, result.parameters).min() > 0


def test_where_data_speak_it_is_the_estimate_and_its_covariance(
    found: Identification, result: Posterior
) -> None:
    estimate = found.estimate
    B = estimate.base.B
    moved = np.abs(B @ result.parameters - estimate.value) / estimate.std
    assert np.median(moved) < 0.5
    std = np.sqrt(np.diag(B @ result.covariance @ B.T))
    assert (std < 1.01 * estimate.std).all()
    assert np.median(std / estimate.std) > 0.8


def test_correlations_are_those_of_blocks_and_textbook_by_how_many_there_are(found: Identification) -> None:
    """One vote a block for what the blocks show, one a parameter for the textbook; deviations are the blocks' alone."""
    estimate, W = found.estimate, _whitening(found.estimate)
    precision = W.T @ W * np.outer(estimate.std, estimate.std)

    def correlation(covariance: np.ndarray) -> np.ndarray:
        size = np.sqrt(np.diag(covariance))
        return np.asarray(covariance / np.outer(size, size))

    blocks, textbook = correlation(estimate.covariance), correlation(estimate.textbook_covariance)
    M, b = len(found.factors.blocks), len(estimate.value)
    whole = (M + b) * np.linalg.inv(precision)
    np.testing.assert_allclose(whole, M * blocks + b * textbook, rtol=0, atol=1e-6 * (M + b))


def test_what_the_data_do_not_determine_is_labelled_by_the_prior(
    found: Identification, result: Posterior
) -> None:
    categories = np.array([str(c) for c in found.estimate.base.categories()])
    hidden = result.prior_share[categories == "not identifiable"]
    known = result.prior_share[categories == "identifiable"]
    assert known.max() < 0.1
    assert np.median(hidden) > 0.2
    names = [column.name for column in result.columns]
    assert result.prior_share[names.index("m1")] > 0.2  # held down by its inertia alone


def test_draws_are_real_bodies_and_seeded(found: Identification, result: Posterior) -> None:
    drawn = result.sample(12, seed=5)
    np.testing.assert_array_equal(drawn, result.sample(12, seed=5))
    assert (drawn != result.sample(12, seed=6)).any()
    assert min(least_eigenvalues(result.columns, theta).min() for theta in drawn) > 0
    spread = ((drawn - drawn.mean(axis=0)) @ found.estimate.base.B.T).std(axis=0) / found.estimate.std
    assert (spread < 2.0).all()
    assert np.median(spread) > 0.5
    with pytest.raises(UsageError, match="posterior-count"):
        result.sample(0)


def test_an_estimate_of_no_real_body_still_has_a_posterior(found: Identification, spread: np.ndarray) -> None:
    """The data's best guess is a body with negative inertia, badly known; the posterior keeps to the real side."""
    impossible = THETA.copy()
    impossible[[14, 16, 19]] *= -0.2
    assert least_eigenvalues(found.estimate.columns, impossible).min() < 0
    B = found.estimate.base.B
    badly_known = replace(
        found.estimate,
        value=B @ impossible,
        covariance=found.estimate.covariance * 1e4,
        textbook_covariance=found.estimate.textbook_covariance * 1e4,
    )
    result = posterior(badly_known, spread)
    assert least_eigenvalues(result.columns, result.parameters).min() > 0
    misfit = [np.linalg.norm(result.problem.A @ x - result.problem.y) for x in (result.parameters, THETA)]
    assert misfit[0] < misfit[1]


def test_stored_runs_give_the_same(found: Identification, result: Posterior, tmp_path: Path) -> None:
    from dynid.run import load
    from dynid.verbs import save

    save(found, tmp_path / "run")
    again = load(tmp_path / "run")
    spread = parameter_spread(again.robot, again.estimate.columns, influence(again.factors))
    np.testing.assert_allclose(posterior(again.estimate, spread).parameters, result.parameters, rtol=1e-6)
