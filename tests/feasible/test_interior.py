"""The entropic optimum by Newton's method against the cone program, and against its own definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.feasible import problem
from dynid.feasible.bodies import body_columns, least_eigenvalues
from dynid.feasible.constraints import ColumnBounds, PhysicalBodies, TotalMass, all_conditions
from dynid.feasible.density import DENSEST, compactness
from dynid.feasible.entropic import divergence
from dynid.feasible.entropic_problem import Entropic
from dynid.feasible.interior import entropic_optimum
from dynid.feasible.problem import PRIOR_WEIGHT, Distance, feasible_parameters
from dynid.feasible.whitened import Whitened
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.terms.term import Column
from dynid.testing import random_inertia, random_robot

SEEDS = range(6)


def case(seed: int, friction: float) -> tuple[Float, Float, tuple[Column, ...], Float, Float]:
    """A, y, columns, prior and spread; friction: of the truth, which may be impossible."""
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, 2, 0.0)
    columns = (RigidBody() + Viscous() + Coulomb()).columns(robot)
    prior = np.array([0.5 if np.isnan(c.prior) else c.prior for c in columns])
    truth = prior.copy()
    truth[body_columns(columns).ravel()] = random_inertia(seed + 50, robot.n_bodies).ravel()
    truth[[c.term != "rigid_body" for c in columns]] = friction
    spread = 0.3 * np.abs(prior) + 0.05
    A = rng.normal(size=(18, len(columns))) * 10.0 ** rng.uniform(-2, 2, (18, 1)) / spread
    return A, A @ truth + rng.normal(size=18), columns, prior, spread


def cost(theta: Float, A: Float, y: Float, columns: tuple[Column, ...], prior: Float, spread: Float) -> float:
    bodies = body_columns(columns)
    others = np.array([c.term != "rigid_body" for c in columns])
    far = float(np.sum((((theta - prior) / spread)[others]) ** 2))
    return float(np.sum((A @ theta - y) ** 2)) + far + sum(divergence(theta[b], prior[b]) for b in bodies)


@pytest.mark.parametrize("friction", [0.4, -3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_the_answer_of_the_cone_program(
    seed: int, friction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, y, columns, prior, spread = case(seed, friction)
    constraints = [PhysicalBodies(1e-9), ColumnBounds()]
    arguments = (A, y, columns, constraints, prior, spread, 1.0, Distance.ENTROPIC)
    newton = feasible_parameters(*arguments)
    assert newton.certificate.gap < 1e-12  # what cones do not reach
    monkeypatch.setattr(problem, "_interior", lambda *anything: None)
    cones = feasible_parameters(*arguments)
    best = cost(cones.parameters, A, y, columns, prior, spread)
    mine = cost(newton.parameters, A, y, columns, prior, spread)
    # The cone program stops at its tolerance, a little above the minimum.
    assert mine <= best * (1 + 1e-9) + 1e-9
    np.testing.assert_allclose(newton.parameters / spread, cones.parameters / spread, atol=2e-3)
    lower = np.array([c.lower for c in columns])
    assert (newton.parameters >= lower - 1e-12).all()
    assert (least_eigenvalues(columns, newton.parameters) > 0).all()


def test_friction_that_would_be_negative_is_held_at_zero_and_pushed() -> None:
    A, y, columns, prior, spread = case(5, -3.0)
    constraints = [PhysicalBodies(1e-9), ColumnBounds()]
    found = feasible_parameters(A, y, columns, constraints, prior, spread, 1.0, Distance.ENTROPIC)
    held = np.flatnonzero(found.parameters == 0.0)
    assert [columns[i].name for i in held] == ["fv1", "fv2", "fc1", "fc2"]
    least = cost(found.parameters, A, y, columns, prior, spread)
    for i in held:
        way = 1e-6 * spread[i] * np.eye(len(columns))[i]
        assert cost(found.parameters + way, A, y, columns, prior, spread) > least
        assert cost(found.parameters - way, A, y, columns, prior, spread) < least


@pytest.mark.parametrize("seed", SEEDS)
def test_no_way_leads_down_from_it(seed: int) -> None:
    A, y, columns, prior, spread = case(seed, 0.4)
    columns = tuple(replace(c, lower=-np.inf) for c in columns)
    theta = feasible_parameters(A, y, columns, [], prior, spread, 1.0, Distance.ENTROPIC).parameters
    least = cost(theta, A, y, columns, prior, spread)
    rng = np.random.default_rng(seed)
    for size in (1e-2, 1e-4):
        for _ in range(20):
            way = size * spread * rng.normal(size=len(theta))
            assert cost(theta + way, A, y, columns, prior, spread) >= least - 1e-9 * (1 + least)


def test_slopes_agree_with_differences() -> None:
    A, y, columns, prior, spread = case(2, 0.4)
    rows = np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT)
    program = Whitened.of(rows, prior, prior, spread, np.full(len(prior), PRIOR_WEIGHT))
    one = Entropic(program, body_columns(columns), prior, np.full(len(prior), PRIOR_WEIGHT))
    u = 0.002 * np.random.default_rng(0).normal(size=len(prior))
    gradient, hessian = one.slopes(u)
    h = 1e-6
    for j in range(len(u)):
        step = h * np.eye(len(u))[j]
        slope = (one.value(u + step) - one.value(u - step)) / (2 * h)
        assert gradient[j] == pytest.approx(slope, rel=1e-4, abs=1e-4 * np.abs(gradient).max())
        curve = (one.slopes(u + step)[0] - one.slopes(u - step)[0]) / (2 * h)
        np.testing.assert_allclose(hessian[:, j], curve, atol=1e-5 * np.abs(hessian).max())
    np.testing.assert_allclose(program.unknowns(program.theta(u)), u, atol=1e-9 * np.abs(u).max())


def test_other_constraints_go_to_the_cone_program() -> None:
    A, y, columns, prior, spread = case(1, 0.4)
    free = feasible_parameters(A, y, columns, [], prior, spread, 1.0, Distance.ENTROPIC).parameters
    masses = [i for i, c in enumerate(columns) if c.name in ("m1", "m2")]
    limit = TotalMass(0.0, 0.5 * float(free[masses].sum()))
    found = feasible_parameters(
        A, y, columns, [PhysicalBodies(1e-9), limit], prior, spread, 1.0, Distance.ENTROPIC
    )
    assert found.parameters[masses].sum() == pytest.approx(limit.upper, rel=1e-5)
    assert all(c.violation(found.parameters) <= 1e-6 for c in all_conditions([limit], columns, spread))


def test_a_point_where_nothing_exists_is_no_answer() -> None:
    A, y, columns, prior, spread = case(1, 0.4)
    rows = np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT)
    program = Whitened.of(rows, prior, prior, spread, np.full(len(prior), PRIOR_WEIGHT))
    one = Entropic(program, body_columns(columns), prior, np.full(len(prior), PRIOR_WEIGHT))
    far = program.unknowns(-prior)
    assert one.value(far) == np.inf
    assert one.value(program.unknowns(prior)) < np.inf
    bounds = np.full(len(prior), np.inf)
    found = entropic_optimum(one, -bounds, bounds)
    assert found is not None
    assert one.value(program.unknowns(found[0])) <= one.value(program.unknowns(prior))


@pytest.mark.parametrize("seed", SEEDS)
def test_data_that_want_bodies_that_cannot_be_are_answered_in_few_steps(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, _, columns, prior, spread = case(seed, -3.0)
    truth = prior + 3.0 * spread * np.random.default_rng(seed).normal(size=len(prior))
    rows = np.column_stack([A * spread, A @ truth]) * 10.0
    weight = np.full(len(prior), PRIOR_WEIGHT)
    program = Whitened.of(rows, prior, prior, spread, weight)
    bodies = body_columns(columns)
    one = Entropic(program, bodies, prior, weight, compactness(DENSEST))
    lower = np.array([-np.inf if k in bodies else c.lower for k, c in enumerate(columns)])
    steps, smooth = [0], Entropic.smooth

    def counted(problem: Entropic, u: Float, ease: float = 1.0) -> tuple[Float, Float]:
        steps[0] += 1
        return smooth(problem, u, ease)

    monkeypatch.setattr(Entropic, "smooth", counted)
    found = entropic_optimum(one, lower, np.full(len(prior), np.inf))
    assert found is not None
    assert steps[0] < 150  # Newton's method on the value alone: up to 254, and no answer for one seed
    theta = found[0]
    assert (theta >= lower).all()
    least = one.value(program.unknowns(theta))
    rng = np.random.default_rng(seed)
    for size in (1e-2, 1e-4, 1e-6):
        for _ in range(20):
            there = np.maximum(theta + size * spread * rng.normal(size=len(theta)), lower)
            assert one.value(program.unknowns(there)) >= least * (1.0 - 1e-12)
