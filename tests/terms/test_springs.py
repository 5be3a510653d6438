"""Springs: contracts, torque as the slope of an energy, gas by its law, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import DynidError, Float, InputError, UnfitDataError, UsageError
from dynid.kernel.reference import motion
from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.terms import (
    FunctionTorque,
    GasSpring,
    Lever,
    Points,
    Spring,
    Term,
    Terms,
    TorsionSpring,
    Triangle,
    register_function,
    terms_from_spec,
)
from dynid.testing import TermContract, random_robot, smooth_samples

POINTS = Points(("base", "body2"), ((0.7, -0.3, 0.2), (0.1, 0.2, -0.1)))
BETWEEN = Points(("body1", "body3"), ((0.1, 0.0, 0.2), (0.2, 0.3, 0.0)))
LEVER = Triangle("joint1", 0.8, 0.2, 1.0)
GAS = GasSpring(LEVER, rest_length=0.6, area=1.6e-3, volume=1e-3, pressure=1.6e7, exponent=1.3)


@pytest.fixture(autouse=True)
def own_functions() -> None:
    register_function("stiffening", lambda length: 100.0 * length + 50.0 * length**3)
    register_function("pendulum", lambda q: 3.0 * np.sin(q))


class OfThreeBodies(TermContract):
    def robots(self) -> tuple[RobotModel, ...]:
        return random_robot(1, 3, 0.0), random_robot(2, 5, 0.6), random_robot(3, 4, mimic=True)


class TestSpring(OfThreeBodies):
    def term(self) -> Term:
        return Spring(POINTS)


class TestSpringBetweenMovingBodies(OfThreeBodies):
    def term(self) -> Term:
        return Spring(BETWEEN, free_length=0.3)

    def robots(self) -> tuple[RobotModel, ...]:
        return random_robot(1, 3, 0.0), random_robot(4, 4, 0.0, mimic=True)


class TestSpringOnALever(OfThreeBodies):
    def term(self) -> Term:
        return Spring(LEVER)


class TestTorsionSpring(OfThreeBodies):
    def term(self) -> Term:
        return TorsionSpring(("joint1", "joint3"), weights=(1.0, -0.5))

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        torque = np.zeros_like(samples.q)
        pull = theta[0] * (samples.q[:, 0] - 0.5 * samples.q[:, 2]) + theta[1]
        torque[:, 0], torque[:, 2] = pull, -0.5 * pull
        return torque


class TestGasSpring(OfThreeBodies):
    def term(self) -> Term:
        return GAS


class TestGasSpringOfKnownGain(OfThreeBodies):
    def term(self) -> Term:
        return replace(GAS, free=False, pushes=True)


class TestFunctionOfLength(OfThreeBodies):
    def term(self) -> Term:
        return FunctionTorque("stiffening", POINTS)


class TestFunctionOfPosition(OfThreeBodies):
    def term(self) -> Term:
        return FunctionTorque("pendulum")

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta[0] * 3.0 * np.sin(samples.q)


def body_points(robot: RobotModel, q: Float, body: int, point: Float) -> Float:
    """A body's point in the base frame, (T, 3), by the reference kernel's placements."""
    moved, zero, _ = robot.tree_motion(q, np.zeros_like(q), np.zeros_like(q))
    state = motion(robot.tree, moved, zero, zero)
    at = np.repeat(point[:, None], len(q), axis=1)
    while body >= 0:
        at = state.p[body] + np.einsum("ijt,jt->it", state.E[body], at)
        body = int(robot.tree.parent[body])
    return at.T


@pytest.mark.parametrize("robot", [random_robot(1, 3, 0.0), random_robot(4, 4, 0.0, mimic=True)])
@pytest.mark.parametrize("geometry", [POINTS, BETWEEN, LEVER])
def test_length_and_slopes(robot: RobotModel, geometry: Lever) -> None:
    q = np.random.default_rng(0).uniform(-1, 1, (30, robot.n))
    length, slopes = geometry.length(robot, q)
    if isinstance(geometry, Points):
        names = ("base", *robot.body_names)
        a, b = (
            body_points(robot, q, names.index(name) - 1, np.array(point))
            for name, point in zip(geometry.bodies, geometry.points, strict=True)
        )
        np.testing.assert_allclose(length, np.linalg.norm(b - a, axis=1), rtol=1e-12)
    h = 1e-6
    for j, e in enumerate(np.eye(robot.n)):
        slope = (geometry.length(robot, q + h * e)[0] - geometry.length(robot, q - h * e)[0]) / (2 * h)
        np.testing.assert_allclose(slopes[:, j], slope, rtol=0, atol=1e-8)
    assert set(np.flatnonzero(np.abs(slopes).max(axis=0) > 1e-12)) <= set(geometry.joints(robot).tolist())


def test_a_spring_over_no_joint_is_refused() -> None:
    robot = random_robot(1, 3, 0.0)
    with pytest.raises(UsageError, match="'body9'"):
        Spring(Points(("base", "body9"), POINTS.points)).columns(robot)


def test_the_gas_follows_its_law() -> None:
    # Work of the gas from l0 to l: p0 V0^n (V^(1-n) - V0^(1-n)) / (n - 1).
    V0, p0, n, A = GAS.volume, GAS.pressure, GAS.exponent, GAS.area
    length = np.linspace(0.61, 0.95, 400)
    force = GAS.force(length)
    work = np.concatenate([[0.0], np.cumsum(0.5 * (force[1:] + force[:-1]) * np.diff(length))])
    V = V0 - (length - GAS.rest_length) * A
    exact = p0 * V0**n * (V ** (1 - n) - V[0] ** (1 - n)) / (n - 1)
    np.testing.assert_allclose(work, exact, rtol=1e-4, atol=1e-2)
    assert GAS.force(np.array([GAS.rest_length]))[0] == pytest.approx(p0 * A)
    strut = replace(GAS, pushes=True)
    assert strut.force(np.array([0.5]))[0] < -p0 * A  # shortened, it pushes harder
    assert np.isfinite(GAS.force(np.array([10.0]))).all()


def test_priors_and_labels() -> None:
    robot = random_robot(1, 3, 0.0)
    columns = Spring(LEVER, "balancer", stiffness=1e4, preload=-50.0).columns(robot)
    assert [(c.name, c.unit, c.prior) for c in columns] == [
        ("k_balancer", "N/m", 1e4),
        ("c_balancer", "N", -50.0),
    ]
    assert columns[0].lower == 0.0
    two = Spring(LEVER, "left") + Spring(LEVER, "right")
    assert [c.name for c in two.columns(robot)] == ["k_left", "c_left", "k_right", "c_right"]
    assert two.balances(robot).tolist() == [True, False, False]


def test_an_experiment_says_which_geometry() -> None:
    spec = {"term": "spring", "geometry": {"bodies": ["base", "body2"], "points": [[0, 0, 1], [1, 0, 0]]}}
    (term,) = terms_from_spec([spec])
    assert term == Spring(Points(("base", "body2"), ((0, 0, 1), (1, 0, 0))))
    for wrong in ({"joint": "joint1"}, "joint1", {"bodies": ["base", "body2"], "points": 3}):
        with pytest.raises(DynidError, match=r"geometry|points"):
            terms_from_spec([{"term": "spring", "geometry": wrong}])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Spring(LEVER, stiffness=-5.0), "stiffness of spring 'spring' = -5.0 N/m"),
        (lambda: Spring(LEVER, free_length=-0.1), "free length"),
        (lambda: TorsionSpring(("joint1",), stiffness=-2.0), "N m/rad"),
        (lambda: TorsionSpring(("joint1",), weights=(1.0, 2.0)), "2 weights"),
        (lambda: Spring(LEVER, label="two words"), "label 'two words'"),
        (lambda: Triangle("joint1", -0.8, 0.2, 0.0), "anchor -0.8"),
        (lambda: Points(("base", "base"), POINTS.points), "both ends"),
        (lambda: Points(("base", "body1"), ((0, 0), (1, 1))), "3 numbers"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: replace(GAS, area=0.0), "area = 0.0"),
        (lambda: replace(GAS, pressure=-1.0), "pressure = -1.0"),
    ],
)
def test_nonsense_is_refused(make, text: str) -> None:  # type: ignore[no-untyped-def]  # fixtures
    with pytest.raises(UsageError, match=text):
        make()


def test_functions_are_named_and_checked() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = smooth_samples(robot, 20)
    with pytest.raises(InputError, match=r"function .unheard.*register_function"):
        Terms((FunctionTorque("unheard"),)).torque(robot, samples, np.ones(1))
    register_function("broken", lambda length: length[:3])
    with pytest.raises(UnfitDataError, match="shape"):
        Terms((FunctionTorque("broken", LEVER),)).torque(robot, samples, np.ones(1))
    register_function(
        "infinite", lambda length: length / 0.0 if len(length) == 0 else np.full(len(length), np.inf)
    )
    with pytest.raises(UnfitDataError, match="not finite"):
        Terms((FunctionTorque("infinite", LEVER),)).torque(robot, samples, np.ones(1))
