"""The geodesic distance of bodies: its laws, its linear form, and fits that use it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dynid.base import SolverError
from dynid.feasible import (
    BodyMass,
    Chart,
    ColumnBounds,
    Distance,
    PhysicalBodies,
    TotalMass,
    feasible_parameters,
)
from dynid.feasible.distance import divergence, geodesic, linearised
from dynid.robot import load_robot
from dynid.spatial import from_com, placement, rotation_rpy, transformed
from dynid.terms import RigidBody
from tests.feasible.panda import ROBOT, Panda
from tests.feasible.test_interior import case

ONE = from_com(2.0, np.array([0.03, 0.02, 0.05]), np.diag([0.02, 0.03, 0.025]))
OTHER = from_com(3.0, np.array([0.0, 0.02, 0.15]), np.diag([0.03, 0.02, 0.03]))


def test_it_is_a_distance_free_of_frames_and_units() -> None:
    assert geodesic(ONE, ONE) == pytest.approx(0.0, abs=1e-20)
    assert geodesic(ONE, OTHER) == pytest.approx(geodesic(OTHER, ONE), rel=1e-12)
    T = placement(rotation_rpy(np.array([0.3, -1.0, 2.0])), np.array([0.4, -0.1, 0.7]))
    assert geodesic(transformed(ONE, T), transformed(OTHER, T)) == pytest.approx(geodesic(ONE, OTHER))
    # Twice as heavy is as far as half as heavy; the entropic distance takes sides.
    assert geodesic(2 * ONE, ONE) == pytest.approx(2 * np.log(2.0) ** 2)
    assert geodesic(ONE / 2, ONE) == pytest.approx(2 * np.log(2.0) ** 2)
    assert divergence(2 * ONE, ONE) != pytest.approx(divergence(ONE / 2, ONE), rel=0.1)
    assert np.isinf(geodesic(-ONE, OTHER))


def test_close_up_all_distances_agree() -> None:
    near = ONE * (1 + 1e-5 * np.random.default_rng(0).normal(size=10))
    assert geodesic(near, ONE) == pytest.approx(divergence(near, ONE), rel=1e-3)


def test_linear_form_has_the_value_and_the_slope() -> None:
    for prior in (OTHER, ONE * 1.0000001, np.array(ONE)):
        J, r = linearised(ONE, prior)
        assert np.sum((J @ ONE - r) ** 2) == pytest.approx(geodesic(ONE, prior), rel=1e-6, abs=1e-25)
        for k in range(10):
            step = 1e-6 * np.eye(10)[k]
            slope = (geodesic(ONE + step, prior) - geodesic(ONE - step, prior)) / 2e-6
            assert 2 * (J @ ONE - r) @ J[:, k] == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_a_fit_is_the_optimum_that_a_search_without_constraints_finds() -> None:
    columns = RigidBody().columns(load_robot(ROBOT))[:20]
    spread = np.tile([2.5, *(0.75,) * 3, *(0.225,) * 6], 2)
    rng = np.random.default_rng(2)
    A = rng.normal(size=(8, 20)) / spread
    prior = np.concatenate([ONE, OTHER])
    y = A @ (prior * rng.uniform(0.5, 1.5, 20)) + 0.1
    found = feasible_parameters(A, y, columns, [PhysicalBodies(1e-9)], prior, spread, 0.05, Distance.GEODESIC)
    chart = Chart.of(columns, spread)

    def whole(x: np.ndarray) -> float:
        theta = chart.parameters(x)
        away = geodesic(theta[:10], ONE) + geodesic(theta[10:], OTHER)
        return float(np.sum((A @ theta - y) ** 2) + 0.05 * away)

    start = chart.coordinates(prior)
    best = min(minimize(whole, start, method="BFGS", options={"gtol": 1e-9}).fun, whole(start))
    ours = found.cost + 0.05 * found.distance
    assert ours <= best * (1 + 1e-4)
    assert ours < whole(start)


def test_a_fit_without_constraints_finds_the_same_as_one_whose_constraints_do_not_hold_it() -> None:
    A, y, columns, prior, spread = case(1, 0.4)
    free, wide = (
        feasible_parameters(A, y, columns, constraints, prior, spread, 1.0, Distance.GEODESIC)
        for constraints in ([], [TotalMass(0.0, 1e3)])
    )
    assert free.active == wide.active == ()
    np.testing.assert_allclose(free.parameters / spread, wide.parameters / spread, atol=1e-4)


def test_a_start_on_the_border_is_an_error_in_words() -> None:
    # Friction that would be -3 is held at zero, and the bodies pay for it with all they have.
    A, y, columns, prior, spread = case(5, -3.0)
    constraints = [PhysicalBodies(1e-9), ColumnBounds()]
    with pytest.raises(SolverError, match=r"not-solved.*checks: primal"):
        feasible_parameters(A, y, columns, constraints, prior, spread, 1e-4, Distance.GEODESIC)


def test_panda_retrieval_with_the_geodesic_prior(panda: Panda) -> None:
    constraints = [PhysicalBodies(1e-6), TotalMass(16, 20)]
    found = feasible_parameters(
        panda.C, panda.y, panda.columns, constraints, panda.unknown, panda.spread, 1e-7, Distance.GEODESIC
    )
    assert found.cost <= 3.78e-4
    # Bodies keep farther from the border than with the entropic distance, 3.4e-6.
    assert found.least_eigenvalue.min() > 1e-5
    assert 16 - 1e-6 <= found.parameters[::10].sum() <= 20 + 1e-6
    assert found.certificate.ok


def test_conflicts_are_named_as_with_other_distances() -> None:
    columns = RigidBody().columns(load_robot(ROBOT))
    spread = np.tile([2.5, *(0.75,) * 3, *(0.225,) * 6], 7)
    constraints = [PhysicalBodies(), TotalMass(30, 40), *(BodyMass(b, 0, 3) for b in range(1, 8))]
    with pytest.raises(SolverError, match="total mass >= 30"):
        feasible_parameters(
            np.zeros((1, 70)), np.zeros(1), columns, constraints, np.full(70, np.nan), spread, 1.0,
            Distance.GEODESIC,
        )  # fmt: skip
