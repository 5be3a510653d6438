"""Terms of the log, of soft joints and of coupled ones: the contract of every term, and first-order truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, UnfitDataError, UsageError
from dynid.factor import structural_base
from dynid.robot import RobotModel
from dynid.rows import TorqueRows
from dynid.signals import Samples
from dynid.terms import (
    Compliance,
    Drift,
    GainError,
    GravityTilt,
    JointCoupling,
    Nominal,
    Offset,
    RigidBody,
    Term,
    Terms,
    TorqueDelay,
    torque_of,
)
from dynid.testing import TermContract, random_inertia, random_robot, smooth_samples

ROBOT = random_robot(2, 3, 0.0)
BODIES = tuple(random_inertia(9, 3).ravel().tolist())
DRIVES = tuple(np.random.default_rng(1).uniform(0.2, 1.0, 12).tolist())


def bodies_torque(robot: RobotModel, samples: Samples) -> Float:
    return torque_of(RigidBody(), robot, samples, np.array(BODIES))


class OfThreeBodies(TermContract):
    def robots(self) -> tuple[RobotModel, ...]:
        return ROBOT, random_robot(5, 3, 0.5)


class AlongTime(OfThreeBodies):
    """Terms that differentiate along time: a batch cut elsewhere differs at its ends alone, which filters leave out."""

    def test_samples_do_not_know_each_other(self) -> None:
        robot = self.robots()[0]
        samples = self.samples(robot)
        p = len(self.term().columns(robot))
        every = np.ones(p, dtype=np.bool_)
        whole = self.term().torque_regressor(robot, samples, every).dense(p)
        half = smooth_samples(robot, 75, seed=4)
        alone = self.term().torque_regressor(robot, half, every).dense(p)
        np.testing.assert_allclose(alone[:-3], whole[:72], rtol=1e-6, atol=1e-6 * np.abs(whole).max())


class TestTorqueDelay(AlongTime):
    def term(self) -> Term:
        return TorqueDelay(BODIES, DRIVES)


class TestTorqueDelayOfEachJoint(AlongTime):
    def term(self) -> Term:
        return TorqueDelay(BODIES, DRIVES, each=True)


class TestTorqueDelayOfSomeJoints(AlongTime):
    def term(self) -> Term:
        return TorqueDelay(BODIES, DRIVES, joints=("joint1", "joint3"))


class TestTorqueDelayAboutAnother(AlongTime):
    def term(self) -> Term:
        return TorqueDelay(BODIES, DRIVES, each=True, joints=("joint1", "joint2"), about=(0.01, 0.02))


class TestTorqueDelayOfOneJoint(AlongTime):
    def term(self) -> Term:
        return TorqueDelay(BODIES, DRIVES, each=True, joints=("joint2",))


class TestGravityTilt(OfThreeBodies):
    def term(self) -> Term:
        return GravityTilt(BODIES)


class TestGainError(OfThreeBodies):
    def term(self) -> Term:
        return GainError(BODIES, DRIVES)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return Nominal(BODIES, DRIVES).torque(robot, samples) * np.append(0.0, theta)


class TestCompliance(AlongTime):
    def term(self) -> Term:
        return Compliance(BODIES)


class TestDrift(TermContract):
    def term(self) -> Term:
        return Drift(origin=-10.0)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * (samples.t + 10.0)[:, None] / 3600.0


class TestJointCoupling(TermContract):
    def term(self) -> Term:
        return JointCoupling(width=0.05)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        total, i = np.zeros_like(samples.tau), 0
        for j in range(robot.n):
            for k in (j - 1, j + 1):
                if 0 <= k < robot.n:
                    v = samples.dq[:, k]
                    total[:, j] += theta[i] * v + theta[i + 1] * np.tanh(v / 0.05)
                    total[:, j] += theta[i + 2] * samples.ddq[:, k]
                    i += 3
        return total


# Powers of kg, m and s.
DIMENSIONS = {"N": (1, 1, -2), "kg": (1, 0, 0), "m": (0, 1, 0), "s": (0, 0, 1), "rad": (0, 0, 0)}


def dimensions(unit: str) -> Float:
    above, _, below = unit.partition("/")
    powers: Float = np.zeros(3)
    for sign, factors in ((1, above), (-1, below)):
        for factor in factors.split():
            name, _, power = factor.partition("^")
            powers += sign * int(power or 1) * np.array(DIMENSIONS[name])
    return powers


def test_a_coefficient_of_coupling_times_the_motion_is_an_effort() -> None:
    """Whether each of the two joints turns or slides."""
    seen = set()
    for seed in range(20):
        robot = random_robot(seed, 3, 0.0)
        term = JointCoupling()
        columns = iter(term.columns(robot))
        for j, k in term.pairs(robot):
            effort = dimensions("N") if robot.prismatic[j] else dimensions("N m")
            way = np.array([0, 1, 0]) if robot.prismatic[k] else np.zeros(3)
            for motion in (way - [0, 0, 1], np.zeros(3), way - [0, 0, 2]):
                np.testing.assert_array_equal(dimensions(next(columns).unit) + motion, effort)
            seen.add((bool(robot.prismatic[j]), bool(robot.prismatic[k])))
    assert len(seen) == 4


def test_a_delay_is_the_first_order_of_a_shift() -> None:
    samples = smooth_samples(ROBOT, 400, rate=400.0)
    torque = Nominal(BODIES, DRIVES).rigid(ROBOT, samples.q, samples.dq, samples.ddq)
    late = np.array([np.interp(samples.t - 1e-3, samples.t, x) for x in torque.T]).T
    term = TorqueDelay(BODIES)
    change = torque_of(term, ROBOT, samples, np.array([1e-3]))
    inside = slice(5, -5)
    size = np.abs(torque - late)[inside].max()
    assert np.abs(torque + change - late)[inside].max() < 0.06 * size


def test_a_delay_about_itself_is_a_shift_of_each_late_joint() -> None:
    samples = smooth_samples(ROBOT, 400, rate=400.0)
    torque = Nominal(BODIES, DRIVES).torque(ROBOT, samples)
    term = TorqueDelay(BODIES, DRIVES, each=True, joints=("joint1", "joint3"))
    near = term.near(ROBOT, {"delay1": 4 / 400.0, "delay3": -2 / 400.0})
    late = torque + torque_of(near, ROBOT, samples, np.array(near.about))
    np.testing.assert_allclose(late[4:, 0], torque[:-4, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(late[:, 1], torque[:, 1])
    np.testing.assert_allclose(late[:-2, 2], torque[2:, 2], rtol=1e-9, atol=1e-9)


def test_delays_to_be_about_are_one_a_parameter() -> None:
    with pytest.raises(UsageError, match="2 delays in about"):
        torque_of(TorqueDelay(BODIES, about=(0.01, 0.02)), ROBOT, smooth_samples(ROBOT, 20), np.ones(1))
    with pytest.raises(UsageError, match="delay-about"):
        TorqueDelay(BODIES, about=(np.nan,))


def test_a_tilt_is_the_first_order_of_another_gravity() -> None:
    samples = smooth_samples(ROBOT, 100)
    turn = np.array([2e-3, -1e-3, 0.0])
    leaning = replace(ROBOT, gravity=ROBOT.gravity + np.cross(turn, ROBOT.gravity))
    change = bodies_torque(leaning, samples) - bodies_torque(ROBOT, samples)
    found = torque_of(GravityTilt(BODIES), ROBOT, samples, np.array([*turn[:2], 0.0, 0.0]))
    np.testing.assert_allclose(found, change, atol=1e-9 * np.abs(change).max() + 1e-12)


@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (9.81, 0.0, 0.0), (0.0, -6.0, 1.0)])
def test_tilts_are_about_the_axes_across_gravity(gravity: tuple[float, float, float]) -> None:
    robot = replace(ROBOT, gravity=np.array(gravity))
    along = int(np.argmax(np.abs(robot.gravity)))
    assert along not in GravityTilt(BODIES).axes(robot)


def test_compliance_is_the_first_order_of_a_wound_up_joint() -> None:
    samples = smooth_samples(ROBOT, 2000, rate=4000.0)
    torque = bodies_torque(ROBOT, samples)
    softness = 1e-6
    first = np.gradient(torque, axis=0) * samples.rate
    second = np.gradient(first, axis=0) * samples.rate
    only = np.array([0.0, 1.0, 0.0])
    link = Samples.from_motion(
        samples.q - softness * torque * only,
        samples.dq - softness * first * only,
        samples.ddq - softness * second * only,
        rate=samples.rate,
    )
    change = bodies_torque(ROBOT, link) - torque
    found = torque_of(Compliance(BODIES, joints=("joint2",)), ROBOT, samples, np.array([softness]))
    inside = slice(10, -10)
    assert np.abs(found - change)[inside].max() < 1e-3 * np.abs(change[inside]).max()


def test_drift_is_distinguished_from_an_offset_on_any_clock() -> None:
    for origin in (0.0, 1.7e9):
        base = structural_base(ROBOT, Terms((Offset(), Drift(origin))), TorqueRows())
        assert base.rank == 6


def test_wrong_terms_are_refused() -> None:
    with pytest.raises(UsageError, match="nominal"):
        TorqueDelay(inertia=(1.0, 2.0))
    with pytest.raises(UsageError, match="joint-coupling"):
        JointCoupling(("joint1",), ("joint1",))
    with pytest.raises(UsageError, match="unknown-joint"):
        JointCoupling(("joint1",), ("elbow",)).columns(ROBOT)
    bare = replace(ROBOT, inertia_prior=np.full((3, 10), np.nan))
    with pytest.raises(UnfitDataError, match="nominal-unknown"):
        torque_of(TorqueDelay(), bare, smooth_samples(bare, 20), np.ones(1))
