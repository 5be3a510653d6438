"""No body is denser than its material: the limit, its convexity, and the bodies nearest to data within it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float
from dynid.feasible import (
    ColumnBounds,
    DensityLimit,
    Distance,
    PhysicalBodies,
    Setting,
    body_columns,
    density,
    feasible_parameters,
    plausible,
    problem,
)
from dynid.feasible.bodies import barrier, compactness, no_denser, slack
from dynid.feasible.cones import PRIMAL_TOLERANCE
from dynid.feasible.distance import divergence
from dynid.feasible.interior import Entropic, Whitened
from dynid.feasible.problem import PRIOR_WEIGHT
from dynid.spatial import from_com, to_com, transformed
from dynid.testing import random_inertia
from tests.feasible.test_interior import case

RHO = 2700.0


def rotation(rng: np.random.Generator) -> Float:
    R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return np.asarray(R * np.sign(np.linalg.det(R)))


def solid(half: Float, moment: float, volume: float, rng: np.random.Generator) -> Float:
    """A box (moment 1/3, volume 8) or an ellipsoid (1/5, 4 pi / 3) of density RHO, anywhere and turned anyhow."""
    mass = RHO * volume * float(np.prod(half))
    second = mass * moment * np.diag(half**2)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation(rng), rng.normal(size=3)
    return transformed(from_com(mass, np.zeros(3), np.trace(second) * np.eye(3) - second), T)


@pytest.mark.parametrize("seed", range(5))
def test_solids_of_one_material_are_no_denser_than_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    half = rng.uniform(0.01, 0.3, 3)
    assert density(solid(half, 1 / 5, 4 * np.pi / 3, rng)) == pytest.approx(RHO, rel=1e-9)
    box = solid(half, 1 / 3, 8.0, rng)
    assert density(box) == pytest.approx(RHO * (8 / (4 * np.pi / 3)) * (3 / 5) ** 1.5, rel=1e-9)
    # Parts that do not touch leave room between them.
    assert density(box + solid(half, 1 / 5, 4 * np.pi / 3, rng)) < RHO
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation(rng), rng.normal(size=3)
    assert density(transformed(box, T)) == pytest.approx(density(box), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_limit_is_convex_and_no_rod_or_plate_is_infinitely_thin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = compactness(RHO)
    for _ in range(50):
        one, other = (
            no_denser(body, RHO) for body in random_inertia(int(rng.integers(1e9)), 2) * [[1e3], [1e2]]
        )
        share = rng.uniform()
        ends = min(slack(one, c), slack(other, c))
        assert ends >= -1e-9
        assert slack(share * one + (1 - share) * other, c) >= ends - 1e-9
    assert density(from_com(1.0, np.zeros(3), np.diag([0.0, 1e-3, 1e-3]))) == np.inf
    assert density(from_com(1.0, np.zeros(3), np.diag([1e-9, 1e-3, 1e-3]))) > 1e5


def test_a_body_that_is_too_dense_is_taken_as_a_larger_one() -> None:
    dense = from_com(2.0, np.array([0.1, -0.2, 0.3]), np.diag([1e-6, 2e-6, 2.5e-6]))
    assert density(dense) > RHO
    larger = no_denser(dense, RHO)
    assert density(larger) == pytest.approx(RHO, rel=1e-9)
    (m, c, wide), (_, _, inertia) = to_com(larger), to_com(dense)
    assert m == 2.0
    np.testing.assert_allclose(c, [0.1, -0.2, 0.3])
    np.testing.assert_allclose(
        wide / inertia[0, 0], inertia / inertia[0, 0] * wide[0, 0] / inertia[0, 0], atol=1e-6
    )
    np.testing.assert_array_equal(no_denser(larger, 2 * RHO), larger)


@pytest.mark.parametrize("seed", range(3))
def test_the_barrier_is_a_distance_that_ends_at_the_limit(seed: int) -> None:
    prior, body = random_inertia(seed, 2)
    c = compactness(1.2 * max(density(prior), density(body)))
    assert barrier(body, prior, 0.0) == pytest.approx(divergence(body, prior), rel=1e-9)
    assert barrier(prior, prior, c) == pytest.approx(0.0, abs=1e-12)
    assert barrier(body, prior, c) > 0
    assert barrier(body * 10.0, prior, c) == np.inf  # ten times as dense


@pytest.mark.parametrize("distance", list(Distance))
@pytest.mark.parametrize("strength", [1.0, 1e-3])
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_bodies_keep_within_the_limit_by_both_solvers(
    seed: int, strength: float, distance: Distance, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, y, columns, prior, spread = case(seed, 0.4)
    bodies = body_columns(columns)
    limit = DensityLimit(1.05 * max(density(prior[ten]) for ten in bodies))
    constraints = [PhysicalBodies(1e-9), ColumnBounds(), limit]
    arguments = (A, y, columns, constraints, prior, spread, strength, distance)
    found = feasible_parameters(*arguments)
    monkeypatch.setattr(problem, "_interior", lambda *anything: None)
    cones = feasible_parameters(*arguments)
    np.testing.assert_allclose(found.parameters / spread, cones.parameters / spread, atol=1e-3)
    # Cones are kept to their tolerance; the fourth root of a determinant feels its fourth root where a body is thin.
    tolerance = PRIMAL_TOLERANCE**0.25
    for answer in (found, cones):
        assert max(density(answer.parameters[ten]) for ten in bodies) <= limit.densest * (1 + tolerance)
        assert all(c.violation(answer.parameters) < tolerance for c in limit.conditions(columns, spread))
    # No way towards any other body within the limit leads down.
    rows = np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT / strength)
    centre, weight = plausible(columns, prior, spread, limit.densest), np.full(len(prior), PRIOR_WEIGHT)
    c = compactness(limit.densest)
    task = problem.Task(rows, Setting(columns, (), centre, spread, c), weight, distance, prior)
    rng = np.random.default_rng(seed)
    least = task.value(found.parameters)
    for _ in range(20):
        other = prior.copy()
        for ten, body in zip(bodies, random_inertia(int(rng.integers(1e9)), len(bodies)), strict=True):
            other[ten] = no_denser(body, 0.9 * limit.densest)
        for step in (1e-1, 1e-3):
            there = found.parameters + step * (other - found.parameters)
            assert task.value(there) >= least - 1e-6 * (1 + least)


def test_slopes_with_a_limit_agree_with_differences() -> None:
    A, y, columns, prior, spread = case(2, 0.4)
    bodies = body_columns(columns)
    c = compactness(1.3 * max(density(prior[ten]) for ten in bodies))
    rows = np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT)
    weight = np.full(len(prior), PRIOR_WEIGHT)
    one = Entropic(Whitened.of(rows, prior, prior, spread, weight), bodies, prior, weight, c)
    u = 0.002 * np.random.default_rng(0).normal(size=len(prior))
    gradient, hessian = one.slopes(u)
    h = 1e-6
    for j, unit in enumerate(h * np.eye(len(u))):
        slope = (one.value(u + unit) - one.value(u - unit)) / (2 * h)
        assert gradient[j] == pytest.approx(slope, rel=1e-4, abs=1e-4 * np.abs(gradient).max())
        curve = (one.slopes(u + unit)[0] - one.slopes(u - unit)[0]) / (2 * h)
        np.testing.assert_allclose(hessian[:, j], curve, atol=1e-5 * np.abs(hessian).max())
    assert replace(one, compactness=0.0).value(u) <= one.value(u)
