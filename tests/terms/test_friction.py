"""Friction beyond viscous and Coulomb: contracts, formulas written a second time, laws and published numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dynid.base import DynidError, Float, UnfitDataError, UsageError
from dynid.choose.search import merged
from dynid.kernel import stop_operator
from dynid.kernel.reference import inverse_dynamics
from dynid.robot import RobotModel
from dynid.signals import Samples, WithPast
from dynid.signals.samples import turning_points
from dynid.terms import (
    AsymmetricCoulomb,
    Coefficient,
    Coulomb,
    CurveTerm,
    FrictionChoice,
    JointMotion,
    LoadFriction,
    Offset,
    PolynomialFriction,
    PositionFriction,
    Presliding,
    Shape,
    Sigmoid,
    SmoothCoulomb,
    Stribeck,
    TemperatureViscous,
    Term,
    Viscous,
    ZolloFriction,
    alive_columns,
    load_slope,
    range_of,
    shape_table,
    starts,
    torque_of,
)
from dynid.terms.curve import CANDIDATES
from dynid.testing import TermContract, piece_of, random_inertia, random_robot, smooth_samples

BODY = random_inertia(5, 1)[0]
# Zollo et al. 2015, eq. 44.
ZOLLO = {"f1": [0.1434, 0.1391], "f2": [0.3302, 0.3576], "f3": [0.2499, 0.2451]}
ZOLLO |= {"f4": [0.0537, 0.1073], "f5": [0.2991, 0.3389], "f6": [16.624, 10.097]}


def by_joint(theta: Float, n: int) -> Float:
    return theta.reshape(n, -1)


class TestAsymmetricCoulomb(TermContract):
    def term(self) -> Term:
        return AsymmetricCoulomb(width=0.0)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        ahead, back = by_joint(theta, robot.n).T
        return ahead * (samples.dq > 0) - back * (samples.dq < 0)


class TestPolynomial(TermContract):
    def term(self) -> Term:
        return PolynomialFriction((2, 3))

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        square, cube = by_joint(theta, robot.n).T
        return square * np.sign(samples.dq) * samples.dq**2 + cube * samples.dq**3


class TestPosition(TermContract):
    def term(self) -> Term:
        return PositionFriction(harmonic=3.0, width=0.1)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        a, b = by_joint(theta, robot.n).T
        return np.tanh(samples.dq / 0.1) * (a * np.cos(3 * samples.q) + b * np.sin(3 * samples.q))


class TestTemperature(TermContract):
    def term(self) -> Term:
        return TemperatureViscous(("warmth",), reference=20.0)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * samples.dq * (samples.extra["warmth"][:, None] - 20.0)


class TestLoad(TermContract):
    def term(self) -> Term:
        return LoadFriction(width=0.0)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        q, dq, ddq = robot.tree_motion(samples.q, samples.dq, samples.ddq)
        load = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq) @ robot.projection
        return theta * np.abs(load) * np.sign(samples.dq)


class TestSmoothCoulomb(TermContract):
    def term(self) -> Term:
        return SmoothCoulomb(width=0.2)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * np.tanh(samples.dq / 0.2)


class TestStribeck(TermContract):
    def term(self) -> Term:
        return Stribeck(velocity=0.3, exponent=1.0, width=0.0)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * np.sign(samples.dq) * np.exp(-np.abs(samples.dq) / 0.3)


class TestSigmoid(TermContract):
    def term(self) -> Term:
        return Sigmoid(slope=5.0, shift=0.04)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta / (1 + np.exp(-5.0 * (samples.dq + 0.04))) - theta / (1 + np.exp(-5.0 * 0.04))


class TestZollo(TermContract):
    def term(self) -> Term:
        return ZolloFriction(fade=0.05, rise=15.0)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        a, b = by_joint(theta, robot.n).T
        v, s = np.abs(samples.dq), np.sign(samples.dq)
        return -a * s * np.exp(-v / 0.05) - b * s * np.exp(-1 / (15.0 * v))


class TestFrictionChoice(TermContract):
    def term(self) -> Term:
        return FrictionChoice()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        viscous, coulomb, offset = theta.reshape(3, robot.n)
        return viscous * samples.dq + coulomb * np.tanh(samples.dq / 0.02) + offset


class TestPresliding(TermContract):
    def term(self) -> Term:
        return Presliding(distance=0.05)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        z = np.zeros_like(samples.q)
        for k in range(1, len(samples)):
            z[k] = np.clip(z[k - 1] + (samples.q[k] - samples.q[k - 1]) / 0.05, -1, 1)
        return theta * z

    def test_samples_do_not_know_each_other(self) -> None:
        """What came before a piece reaches it through its past alone."""
        term = self.term()
        for robot in self.robots():
            samples = self.samples(robot)
            every = np.ones(robot.n, dtype=np.bool_)
            whole = term.torque_regressor(robot, samples, every).dense(robot.n)
            pieces = [piece_of(samples, slice(a, a + 60)) for a in (0, 40, 90)]
            for piece, first in zip(WithPast(pieces), (0, 40, 90), strict=True):
                alone = term.torque_regressor(robot, piece, every).dense(robot.n)
                np.testing.assert_allclose(alone, whole[first : first + len(piece)], rtol=1e-12, atol=1e-12)


def curve_torque(term: Term, theta: Float, speed: Float) -> Float:
    robot = random_robot(1, 2, 0.0)
    dq = np.column_stack([speed] * robot.n)
    samples = Samples.from_motion(np.zeros_like(dq), dq, np.zeros_like(dq))
    return torque_of(term, robot, samples, theta)


def zollo_friction(speed: Float) -> Float:
    f = {name: np.array(values) for name, values in ZOLLO.items()}
    low = ZolloFriction(fade=tuple(f["f4"]), rise=tuple(f["f6"]))
    total = curve_torque(Viscous(), f["f1"], speed) + curve_torque(Coulomb(), f["f2"], speed)
    return total + curve_torque(low, np.column_stack([f["f3"], f["f5"]]).ravel(), speed)


def test_zollo_friction_has_the_published_bump() -> None:
    F = zollo_friction(np.array([1e-9, 0.033, 0.5]))[:, 0]
    np.testing.assert_allclose(F, [0.0803, 0.151, 0.137], atol=6e-4)
    speed = np.linspace(1e-3, 0.2, 2000)
    assert speed[np.argmax(zollo_friction(speed)[:, 0])] == pytest.approx(0.033, abs=0.002)


def test_zollo_friction_takes_power_at_every_speed() -> None:
    speed = np.concatenate([-np.geomspace(1e-9, 20, 3000), [0.0], np.geomspace(1e-9, 20, 3000)])
    assert (zollo_friction(speed) * speed[:, None] >= 0).all()


def test_a_sigmoid_without_shift_is_a_smooth_coulomb() -> None:
    speed = np.linspace(-1, 1, 101)
    sigmoid = curve_torque(Sigmoid(slope=8.0, shift=0.0), np.ones(2), speed)
    np.testing.assert_allclose(sigmoid, 0.5 * np.tanh(4.0 * speed)[:, None] * np.ones(2), atol=1e-15)
    assert not curve_torque(Sigmoid(slope=8.0, shift=0.3), np.ones(2), np.zeros(1)).any()


def test_a_sigmoid_of_any_steepness_stays_finite() -> None:
    values = curve_torque(Sigmoid(slope=1e9, shift=-0.5), np.ones(2), np.array([-5.0, 0.0, 5.0]))
    np.testing.assert_allclose(values[:, 0], [0.0, 0.0, 1.0], atol=1e-12)


def test_presliding_remembers_and_never_exceeds_its_level() -> None:
    path = np.concatenate(
        [np.linspace(0, 1, 50), np.full(30, 1.0), np.linspace(1, 0.9, 10), np.full(20, 0.9)]
    )
    z = stop_operator([], path / 0.2)
    assert np.abs(z).max() <= 1.0
    assert (z[50:80] == 1.0).all()  # at rest it keeps the friction it stopped with
    np.testing.assert_allclose(z[90:], 0.5, atol=1e-12)  # half way back after half of twice the distance
    work = np.sum(0.5 * (z[1:] + z[:-1]) * np.diff(path))
    assert work > 0


def test_only_extremes_of_the_past_matter() -> None:
    rng = np.random.default_rng(3)
    path = np.cumsum(rng.normal(0, 0.02, 4000))
    points = turning_points(path.tolist())
    assert len(points) < len(path)
    for distance in (1e-3, 0.01, 0.1, 0.2):
        whole = stop_operator([], path / distance)[-1]
        short = stop_operator([p / distance for p in points[:-1]], np.array(points[-1:]) / distance)[-1]
        assert short == pytest.approx(whole, abs=1e-9)


def test_terms_can_be_kept_to_some_joints() -> None:
    robot = random_robot(2, 4, 0.0)
    samples = smooth_samples(robot, 30)
    for term in (
        Viscous(joints=("joint3",)),
        Coulomb(0.1, ("joint3",)),
        Offset(("joint3",)),
        Stribeck(9.0, joints=("joint3",)),
    ):
        (column,) = term.columns(robot)
        assert column.owner == 2
        assert column.name.endswith("3")
        tau = torque_of(term, robot, samples, np.ones(1))
        assert not np.delete(tau, 2, axis=1).any()
        assert tau[:, 2].any()
        np.testing.assert_array_equal(
            alive_columns(term, robot, np.array([1, 1, 0, 1], dtype=bool)), [isinstance(term, Offset)]
        )
    with pytest.raises(UsageError, match="joint 'x'"):
        Viscous(joints=("x",)).columns(robot)


@dataclass(frozen=True)
class Arctangent(CurveTerm):
    """A curve as a plug-in writes it, without checks."""

    bend: float | tuple[float, ...] | None = None
    name: str = "arctangent"
    coefficients = (Coefficient("fa", "N m", "N"),)
    shapes = (Shape("bend", "rad/s", "m/s", 0.1),)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        return np.asarray(np.arctan(samples.dq[:, joint] / shape[0]))[None, :]


@pytest.mark.parametrize("bend", [-1.0, (0.1, 0.0), float("nan"), [0.1, -2.0]])
def test_shapes_of_a_plug_in_are_checked(bend: Any) -> None:
    with pytest.raises(UsageError, match=r"shape-values.*bend = .* of term 'arctangent'.* > 0"):
        Arctangent(bend)
    assert Arctangent((0.1, 0.2)).bend == (0.1, 0.2)


def test_one_form_on_several_joints_becomes_one_term() -> None:
    robot = random_robot(2, 3, 0.0)
    parts = [CANDIDATES["coulomb"](("joint1",)), CANDIDATES["coulomb"](("joint3",))]
    parts.append(Viscous(joints=("joint2",)) + Stribeck((0.3,), joints=("joint2",)))
    terms = merged(parts, robot)
    assert Viscous() in terms
    assert Coulomb(0.02, ("joint1", "joint3")) in terms
    assert Stribeck((0.3,), joints=("joint2",)) in terms


def test_friction_with_the_load_is_coulombs_times_the_load() -> None:
    """At any speed, slow ones within the width too."""
    robot = random_robot(1, 2, 0.0)
    samples = smooth_samples(robot, 200, 3)
    width = float(np.median(np.abs(samples.dq)))
    inertia = robot.inertia_prior.ravel()
    load = np.abs(inverse_dynamics(robot.tree, robot.inertia_prior, samples.q, samples.dq, samples.ddq))
    found = torque_of(LoadFriction(inertia=tuple(inertia.tolist()), width=width), robot, samples, np.ones(2))
    np.testing.assert_allclose(found, load * torque_of(Coulomb(width), robot, samples, np.ones(2)), atol=1e-9)


def test_friction_changes_with_the_load_by_its_slope() -> None:
    """By differences of loads that grow with the bodies; joints without the term do not."""
    robot = random_robot(1, 3, 0.0)
    samples, h = smooth_samples(robot, 40, 3), 1e-6
    acting, share = ("joint1", "joint3"), np.array([0.3, -0.2])
    column = np.flatnonzero([name in acting for name in robot.joint_names])

    def friction(size: float) -> np.ndarray:
        term = LoadFriction(inertia=tuple((size * robot.inertia_prior).ravel().tolist()), joints=acting)
        return torque_of(term, robot, samples, share)

    load = inverse_dynamics(robot.tree, robot.inertia_prior, samples.q, samples.dq, samples.ddq)
    slope = load_slope(LoadFriction(joints=acting), robot, samples, share)
    np.testing.assert_allclose(slope * load, (friction(1 + h) - friction(1 - h)) / (2 * h), atol=1e-6)
    assert not np.delete(slope, column, axis=1).any()
    # Without a load it may grow either way: none.
    weightless = replace(robot, gravity=np.zeros(3))
    still = replace(samples, dq=np.zeros_like(samples.dq), ddq=np.zeros_like(samples.ddq))
    assert not load_slope(LoadFriction(joints=acting), weightless, still, share).any()


def test_a_load_needs_inertias() -> None:
    robot = random_robot(1, 2, 0.0)
    unknown = replace(robot, inertia_prior=np.full((2, 10), np.nan))
    samples = smooth_samples(robot, 10)
    with pytest.raises(UnfitDataError, match="load = 'estimate'"):
        torque_of(LoadFriction(), unknown, samples, np.ones(2))
    given = LoadFriction(inertia=tuple(np.tile(BODY, 2).tolist()))
    assert np.isfinite(torque_of(given, unknown, samples, np.ones(2))).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sigmoid(slope=-1.0),
        lambda: Stribeck(exponent=0.0),
        lambda: SmoothCoulomb(width=(0.1, np.inf)),
        lambda: Presliding(distance=0.0),
        lambda: ZolloFriction(width=-1.0),
        lambda: AsymmetricCoulomb(width=-0.1),
        lambda: PolynomialFriction((1,)),
        lambda: PolynomialFriction(()),
        lambda: PositionFriction(harmonic=0.0),
        lambda: LoadFriction("measured"),  # type: ignore[arg-type]  # wrong on purpose
        lambda: LoadFriction(inertia=(1.0, 2.0)),
        lambda: FrictionChoice("viscous"),
        lambda: (
            Stribeck(velocity=(0.1, 0.2)).columns(random_robot(1, 3))
            and shape_table(Stribeck((0.1, 0.2)), random_robot(1, 3))
        ),
    ],
)
def test_nonsense_is_refused(make: object) -> None:
    with pytest.raises(DynidError):
        make()  # type: ignore[operator]  # a function or a class


def test_ranges_hold_their_starts() -> None:
    motion = JointMotion(peak=1.5, median=0.4, span=3.0)
    for term in (SmoothCoulomb(), Stribeck(), Sigmoid(), ZolloFriction(), Presliding()):
        low, high = range_of(term, motion).T
        assert (low < high).all()
        first = starts(term, motion)
        assert first.shape[1] == len(term.shapes)
        assert ((first >= low) & (first <= high)).all()


@pytest.mark.parametrize("peak", [0.2, 0.7, 3.0])
def test_stribeck_friction_rises_before_it_fades(peak: float) -> None:
    """A third of its coefficient, at least, is a torque that is seen: one that is never reached could be anything."""
    robot, motion = random_robot(1, 1), JointMotion(peak=peak, median=0.3, span=2.0)
    for width in (0.0, 1e-3, 0.02):
        term = Stribeck(width=width)
        (velocity,), _ = range_of(term, motion).T
        dq = np.linspace(0.0, peak, 2000)[:, None]
        curve = term.curve(robot, Samples.from_motion(0 * dq, dq, 0 * dq, 0 * dq), 0, np.array([velocity]))
        assert curve.max() > 1.0 / 3.0


@pytest.mark.parametrize(
    ("term", "shares"),
    [
        (SmoothCoulomb(), [(1e-4, 1.0)]),
        (Stribeck(width=0.0), [(1e-3, 1.0)]),
        (Sigmoid(), [(2.0, 2e4), (-0.5, 0.5)]),
        (ZolloFriction(), [(1e-3, 1.0), (1.0, 1e3)]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_ranges_are_shares_of_the_peak_velocity(term: CurveTerm, shares: list[tuple[float, float]]) -> None:
    """Speeds in proportion to the peak velocity, slopes (s/rad) to its inverse."""
    for peak in (0.7, 3.0):
        found = range_of(term, JointMotion(peak=peak, median=0.3, span=2.0))
        unit = [1.0 / peak if shape.unit_revolute.startswith("s/") else peak for shape in term.shapes]
        np.testing.assert_allclose(found, np.array(shares) * np.array(unit)[:, None])
