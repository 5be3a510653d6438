"""The entropic optimum by Newton's method against the cone program, and against its own definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, Int, SolverError
from dynid.feasible import (
    DENSEST,
    Block,
    BodyMass,
    CentreCone,
    CentreHalfSpaces,
    ColumnBounds,
    Condition,
    Cone,
    Convex,
    Distance,
    InsideEllipsoid,
    InsideHull,
    PhysicalBodies,
    Setting,
    TotalMass,
    all_conditions,
    body_columns,
    feasible_parameters,
    least_eigenvalues,
    nearest,
    problem,
)
from dynid.feasible.bodies import compactness
from dynid.feasible.distance import divergence
from dynid.feasible.interior import Entropic, Whitened, entropic_optimum
from dynid.feasible.problem import PRIOR_WEIGHT
from dynid.feasible.region import Balls, HalfSpaces, Region
from dynid.terms import Column, Coulomb, RigidBody, Viscous
from dynid.testing import random_inertia, random_robot

SEEDS = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 4, 5))]


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


def within(bodies: Int, lower: Float, upper: Float, spread: Float) -> Region:
    """Bounds of single parameters, and bodies that exist."""
    sides = HalfSpaces.of(lower, upper, spread)
    return Region(sides, Balls.of((), len(lower)), bodies, np.zeros(len(bodies)))


def ball(body: int, centre: tuple[float, float, float], reach: float) -> CentreCone:
    """Around a point that the centre of mass lies in."""
    x, y, z = (-value for value in centre)
    return CentreCone(body, ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), (x, y, z), reach=reach)


CUBE = tuple((float(x), float(y), float(z)) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1))
LIMITS: dict[str, Callable[[Float], list[Convex]]] = {
    "a mass from above": lambda masses: [BodyMass(1, 0.0, 0.6 * masses[0])],
    "both masses": lambda masses: [
        BodyMass(1, 1.3 * masses[0], 2.0 * masses[0]),
        BodyMass(2, 0.0, 0.5 * masses[1]),
    ],
    "total mass": lambda masses: [TotalMass(0.0, 0.5 * masses.sum())],
    "total mass from below": lambda masses: [TotalMass(1.5 * masses.sum()), BodyMass(2, 0.0, masses[1])],
    "a box": lambda _: [CentreHalfSpaces.box(1, (-0.05, -0.02, 0.01), (0.02, 0.03, 0.08))],
    "an ellipsoid": lambda _: [InsideEllipsoid(2, (0.0, 0.0, 0.0), (0.15, 0.1, 0.1))],
    "a ball": lambda _: [ball(1, (0.02, 0.01, 0.0), 0.03)],
    "two balls and a mass": lambda masses: [
        ball(1, (0.0, 0.0, 0.0), 0.04),
        ball(2, (0.0, 0.1, 0.0), 0.02),
        BodyMass(1, 1.5 * masses[0]),
    ],
    "a known mass": lambda masses: [BodyMass(1, 1.2 * masses[0], 1.2 * masses[0])],
    "a known total": lambda masses: [TotalMass(1.3 * masses.sum(), 1.3 * masses.sum())],
    "a known centre": lambda _: [CentreHalfSpaces.box(1, (0.01, 0.02, 0.03), (0.01, 0.02, 0.03))],
    "a mass known to a millionth": lambda masses: [
        BodyMass(1, 1.2 * masses[0], 1.2 * (1 + 1e-6) * masses[0])
    ],
    "a known mass and a ball": lambda masses: [
        BodyMass(1, 1.2 * masses[0], 1.2 * masses[0]),
        ball(1, (0.02, 0.01, 0.0), 0.03),
    ],
    "a greatest mass and a ball": lambda masses: [
        BodyMass(1, 0.0, 0.6 * masses[0]),
        ball(1, (0.02, 0.01, 0.0), 0.03),
    ],
    "one plane twice": lambda masses: [
        TotalMass(0.0, 0.5 * masses.sum()),
        TotalMass(0.0, 0.5 * masses.sum()),
    ],
    "a hull": lambda _: [InsideHull(1, CUBE), BodyMass(2, 0.1, 10.0)],
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("seed", SEEDS)
def test_masses_and_places_of_bodies_need_no_cone_program(
    seed: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, y, columns, prior, spread = case(seed, 0.4 if seed % 2 else -3.0)
    free = feasible_parameters(
        A, y, columns, [ColumnBounds()], prior, spread, 1.0, Distance.ENTROPIC
    ).parameters
    masses = free[[i for i, c in enumerate(columns) if c.name in ("m1", "m2")]]
    constraints = [PhysicalBodies(1e-9), ColumnBounds(), *LIMITS[name](masses)]
    arguments = (A, y, columns, constraints, prior, spread, 1.0, Distance.ENTROPIC)
    assert (
        any(c.violation(free) > 0 for c in all_conditions(constraints, columns, spread))
        or "hull" in name
        or "margin" in name
    )
    with monkeypatch.context() as patch:
        patch.setattr(problem, "_interior", lambda *anything: None)
        cones = feasible_parameters(*arguments)
    monkeypatch.setattr(problem, "solve_program", None)
    mine = feasible_parameters(*arguments)
    # The path's end, where a curved limit holds.
    assert mine.certificate.gap < (1e-8 if "ball" in name else 1e-12)
    assert mine.certificate.ok
    assert all(
        c.violation(mine.parameters) <= 1e-9 * c.size for c in all_conditions(constraints, columns, spread)
    )
    best = cost(cones.parameters, A, y, columns, prior, spread)
    # The cone program stops at its tolerance, a little above the minimum, or outside of what it is held by.
    assert cost(mine.parameters, A, y, columns, prior, spread) <= best * (1 + 1e-6) + 1e-6
    np.testing.assert_allclose(mine.parameters / spread, cones.parameters / spread, atol=2e-3)


@pytest.mark.parametrize("more", [[], [ball(1, (0.02, 0.01, 0.0), 0.03)]])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_body_is_held(seed: int, more: list[Convex], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a margin that the free answer is below, of a prior that is above it or below it as well."""
    A, y, columns, prior, spread = case(seed, 0.4)
    constraints = [PhysicalBodies(1e-9), ColumnBounds(), *more]
    free = feasible_parameters(A, y, columns, constraints, prior, spread, 1.0, Distance.ENTROPIC)
    for margin in (1.3 * free.least_eigenvalue.min(), 1.3 * least_eigenvalues(columns, prior).max()):
        arguments = (
            A,
            y,
            columns,
            [PhysicalBodies(margin), *constraints],
            prior,
            spread,
            1.0,
            Distance.ENTROPIC,
        )
        with monkeypatch.context() as patch:
            patch.setattr(problem, "_interior", lambda *anything: None)
            cones = feasible_parameters(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(problem, "solve_program", None)
            mine = feasible_parameters(*arguments)
        assert mine.least_eigenvalue.min() == pytest.approx(margin, rel=1e-4)
        assert mine.least_eigenvalue.min() >= margin * (1 - 1e-9)
        assert mine.certificate.ok
        assert mine.task.value(mine.parameters) <= mine.task.value(cones.parameters) * (1 + 1e-6) + 1e-6
        np.testing.assert_allclose(mine.parameters / spread, cones.parameters / spread, atol=2e-3)


def test_a_near_answer_changes_nothing_but_the_steps() -> None:
    A, y, columns, prior, spread = case(4, -3.0)
    setting = Setting.of(
        columns, [PhysicalBodies(1e-9), ColumnBounds(), BodyMass(1, 0.0, 0.5)], prior, spread
    )
    near = nearest(A, 1.01 * y, setting, 1.0, Distance.ENTROPIC)
    found, again = (nearest(A, y, setting, 1.0, Distance.ENTROPIC, near=at) for at in (None, near.parameters))
    np.testing.assert_allclose(again.parameters / spread, found.parameters / spread, atol=1e-8)


def test_slopes_of_cones_agree_with_differences() -> None:
    rng = np.random.default_rng(2)
    blocks = [Block(Cone.BALL, rng.normal(size=(m, 5)), rng.normal(size=m)) for m in (3, 4, 2)]
    balls = Balls.of([Condition("", one) for one in blocks], 5)
    theta, h = rng.normal(size=5), 1e-5
    slope, curved = balls.slopes(theta)
    for k in range(5):
        step = h * np.eye(5)[k]
        ahead, behind = balls.room(theta + step), balls.room(theta - step)
        np.testing.assert_allclose(slope[:, k], (ahead - behind) / (2 * h), atol=1e-8)
        change = (balls.slopes(theta + step)[0] - balls.slopes(theta - step)[0]) / (2 * h)
        np.testing.assert_allclose(-np.einsum("km,kmp->kp", curved[:, :, k], curved), change, atol=1e-6)
    for one, room in zip(blocks, balls.room(theta), strict=True):
        s = one.matrix @ theta + one.offset
        assert room == pytest.approx(s[0] - np.linalg.norm(s[1:]))


def test_half_spaces_that_exclude_each_other_are_named() -> None:
    A, y, columns, prior, spread = case(1, 0.4)
    limits = [BodyMass(1, 2.0, 3.0), BodyMass(2, 2.0, 3.0), TotalMass(0.0, 3.5)]
    with pytest.raises(SolverError, match="total mass") as refused:
        feasible_parameters(A, y, columns, [PhysicalBodies(), *limits], prior, spread, 1.0, Distance.ENTROPIC)
    assert refused.value.identifier == "constraints-in-conflict"


def test_the_room_within_half_spaces_is_zero_at_them() -> None:
    lower, upper = np.array([-np.inf, 0.3, 0.1]), np.array([0.7, np.inf, 0.2])
    tighter = [
        Condition("", Block(Cone.POSITIVE, np.array([[0.0, 2.0, 0.0]]), np.array([-1.4]))),
        Condition("", Block(Cone.POSITIVE, np.array([[1.0, -1.0, 0.0]]), np.array([0.5]))),
    ]
    sides = HalfSpaces.of(lower, upper, np.array([0.5, 2.0, 0.1]), tighter)
    assert sides.count == 5
    inside = np.array([0.65, 0.8, 0.17])
    assert (sides.room(inside) > 0).all()
    held = np.ones(5, dtype=bool)
    held[[1, 4]] = False  # the lower bound of the third, and the plane
    at = sides.at(inside, held)
    np.testing.assert_array_equal(at, [0.7, 0.7, 0.2])
    np.testing.assert_array_equal(sides.room(at)[held], 0.0)
    np.testing.assert_allclose(sides.room(at)[~held], [(0.2 - 0.1) / 0.1, 0.7 - 0.7 + 0.5])


def test_a_point_where_nothing_exists_is_no_answer() -> None:
    A, y, columns, prior, spread = case(1, 0.4)
    rows = np.column_stack([A * spread, y]) * np.sqrt(PRIOR_WEIGHT)
    program = Whitened.of(rows, prior, prior, spread, np.full(len(prior), PRIOR_WEIGHT))
    one = Entropic(program, body_columns(columns), prior, np.full(len(prior), PRIOR_WEIGHT))
    far = program.unknowns(-prior)
    assert one.value(far) == np.inf
    assert one.value(program.unknowns(prior)) < np.inf
    bounds = np.full(len(prior), np.inf)
    found = entropic_optimum(one, within(body_columns(columns), -bounds, bounds, spread))
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
    found = entropic_optimum(one, within(bodies, lower, np.full(len(prior), np.inf), spread))
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
