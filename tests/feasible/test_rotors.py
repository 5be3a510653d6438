"""Rotor inertias as bodies of one number: positive whatever the data ask for, by every solver and distance."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Float, Int
from dynid.feasible import ColumnBounds, Distance, PhysicalBodies, Setting, body_columns, problem
from dynid.feasible.distance import (
    divergence,
    geodesic,
    scalar_divergence,
    scalar_geodesic,
    scalar_linearised,
)
from dynid.feasible.interior import Entropic, Whitened
from dynid.feasible.problem import PRIOR_WEIGHT, Task
from dynid.terms import Column, RigidBody, RotorInertia, Viscous
from dynid.testing import random_inertia, random_robot

SEEDS = range(4)


def case(seed: int, rotor: float) -> tuple[Float, Float, tuple[Column, ...], Float, Float, Int]:
    """A, y, columns, prior, spread and rotors; rotor: of the truth, which may be impossible."""
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, 2, 0.0)
    columns = (RigidBody() + RotorInertia() + Viscous()).columns(robot)
    prior = np.array([0.5 if np.isnan(c.prior) else c.prior for c in columns])
    rotors = np.array([i for i, c in enumerate(columns) if c.term == RotorInertia().name])
    prior[rotors] = 0.2
    truth = prior.copy()
    truth[body_columns(columns).ravel()] = random_inertia(seed + 50, robot.n_bodies).ravel()
    truth[rotors] = rotor
    spread = 0.3 * np.abs(prior) + 0.05
    A = rng.normal(size=(18, len(columns))) * 10.0 ** rng.uniform(-2, 2, (18, 1)) / spread
    return A, A @ truth + rng.normal(size=18), columns, prior, spread, rotors


def task_of(seed: int, rotor: float, distance: Distance) -> Task:
    A, y, columns, prior, spread, rotors = case(seed, rotor)
    setting = Setting.of(columns, [PhysicalBodies(1e-9), ColumnBounds()], prior, spread, rotors)
    rows = np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT)
    return Task(rows, setting, np.full(len(prior), PRIOR_WEIGHT), distance)


@pytest.mark.parametrize("distance", [Distance.ENTROPIC, Distance.GEODESIC])
@pytest.mark.parametrize("rotor", [0.1, -2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_way_leads_down_and_rotors_are_positive(seed: int, rotor: float, distance: Distance) -> None:
    A, y, columns, prior, spread, rotors = case(seed, rotor)
    setting = Setting.of(columns, [PhysicalBodies(1e-9), ColumnBounds()], prior, spread, rotors)
    found = problem.nearest(A, y, setting, 1.0, distance).parameters
    assert (found[rotors] > 0).all()
    squared = np.array([c.term == Viscous().name for c in columns])
    of_body, of_rotor = (
        (divergence, scalar_divergence) if distance is Distance.ENTROPIC else (geodesic, scalar_geodesic)
    )

    def cost(theta: Float) -> float:
        far = (
            float(np.sum((((theta - prior) / spread)[squared]) ** 2))
            if (theta[squared] >= 0).all()
            else np.inf
        )
        bodies = sum(of_body(theta[b], prior[b]) for b in body_columns(columns))
        return (
            float(np.sum((A @ theta - y) ** 2))
            + far
            + bodies
            + float(of_rotor(theta[rotors], prior[rotors]).sum())
        )

    least, rng = cost(found), np.random.default_rng(seed)
    # Steps within the bounds of friction; a geodesic answer is as exact as its convex steps.
    loose = 1e-9 if distance is Distance.ENTROPIC else 1e-5
    for size in (1e-2, 1e-4):
        for _ in range(20):
            there = found + size * spread * rng.normal(size=len(found))
            there[squared] = np.maximum(there[squared], 0.0)
            assert cost(there) >= least - loose * (1 + least)


@pytest.mark.parametrize("rotor", [0.1, -2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_solvers_agree(seed: int, rotor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    A, y, columns, prior, spread, rotors = case(seed, rotor)
    setting = Setting.of(columns, [PhysicalBodies(1e-9), ColumnBounds()], prior, spread, rotors)
    newton = problem.nearest(A, y, setting, 1.0, Distance.ENTROPIC)
    assert newton.certificate.gap < 1e-12
    monkeypatch.setattr(problem, "_interior", lambda *anything: None)
    cones = problem.nearest(A, y, setting, 1.0, Distance.ENTROPIC)
    np.testing.assert_allclose(newton.parameters / spread, cones.parameters / spread, atol=2e-3)
    np.testing.assert_allclose(newton.parameters[rotors], cones.parameters[rotors], rtol=0.02)
    assert newton.distance == pytest.approx(cones.distance, rel=1e-3)


def test_without_a_known_rotor_it_may_be_zero() -> None:
    A, y, columns, prior, spread, rotors = case(0, -2.0)
    setting = Setting.of(columns, [PhysicalBodies(1e-9), ColumnBounds()], prior, spread)
    found = problem.nearest(A, y, setting, 1.0, Distance.ENTROPIC)
    assert (found.parameters[rotors] == 0.0).all()


def test_slopes_agree_with_differences() -> None:
    task = task_of(2, 0.1, Distance.ENTROPIC)
    p, setting = len(task.spread), task.setting
    program = Whitened.of(task.rows, setting.centre, setting.centre, setting.spread, task.weight)
    one = Entropic(program, setting.bodies, setting.centre, task.weight, 0.0, setting.rotors)
    u = 0.002 * np.random.default_rng(0).normal(size=p)
    gradient, hessian = one.slopes(u)
    h = 1e-6
    for j in range(p):
        step = h * np.eye(p)[j]
        slope = (one.value(u + step) - one.value(u - step)) / (2 * h)
        assert gradient[j] == pytest.approx(slope, rel=1e-4, abs=1e-4 * np.abs(gradient).max())
        curve = (one.slopes(u + step)[0] - one.slopes(u - step)[0]) / (2 * h)
        np.testing.assert_allclose(hessian[:, j], curve, atol=1e-5 * np.abs(hessian).max())


def test_the_linear_form_of_the_geodesic_distance() -> None:
    value, prior = np.array([0.3, 2.0]), np.array([0.5, 0.7])
    J, r = scalar_linearised(value, prior)
    np.testing.assert_allclose((J * value - r) ** 2, scalar_geodesic(value, prior), rtol=1e-12)
    h = 1e-7
    slope = (scalar_geodesic(value + h, prior) - scalar_geodesic(value - h, prior)) / (2 * h)
    np.testing.assert_allclose(2 * J * (J * value - r), slope, rtol=1e-6)
    assert np.isinf(scalar_geodesic(np.array([0.0]), prior[:1])).all()
    assert np.isinf(scalar_divergence(np.array([-1.0]), prior[:1])).all()


def test_a_body_and_a_rotor_are_measured_alike() -> None:
    """A body s times as heavy in all parts is four times as far as a rotor s times as great."""
    body = random_inertia(3, 1)[0]
    for s in (0.2, 1.0, 3.0):
        one, prior = np.array([0.4 * s]), np.array([0.4])
        assert divergence(s * body, body) == pytest.approx(
            4 * float(scalar_divergence(one, prior)[0]), abs=1e-9
        )
        assert geodesic(s * body, body) == pytest.approx(4 * float(scalar_geodesic(one, prior)[0]), abs=1e-9)
