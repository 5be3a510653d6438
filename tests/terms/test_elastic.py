"""Springs, spinning rotors, friction behind the spring and rotor compensation: the contract and their laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.factor.base import structural_base
from dynid.kernel import reference
from dynid.robot.drive import Drive
from dynid.robot.model import RobotModel
from dynid.rows import TorqueRows
from dynid.signals.samples import Samples
from dynid.terms import (
    Coulomb,
    JointDamping,
    LinkCoulomb,
    LinkOffset,
    LinkViscous,
    RigidBody,
    RotorCompensation,
    RotorInertia,
    SpinningRotor,
    Stiffness,
    Term,
    Viscous,
)
from dynid.terms.elastic import SpringTerm
from dynid.terms.term import Side, Terms
from dynid.testing import TermContract, random_robot, smooth_samples


def driven(robot: RobotModel, ratio: float = 50.0) -> RobotModel:
    unknown = np.full(robot.n, np.nan)
    ratios = ratio * np.linspace(1.0, 2.0, robot.n) * np.where(np.arange(robot.n) % 2, -1, 1)
    return replace(robot, drive=Drive(np.diag(ratios), np.full(robot.n, 1e-4), unknown, unknown))


def two_encoders(robot: RobotModel, count: int = 60) -> Samples:
    """A smooth motion of the links and another one, a little apart, of the motors."""
    links, apart = smooth_samples(robot, count, seed=4), smooth_samples(robot, count, seed=5)
    return replace(
        links,
        theta=links.q + 0.05 * apart.q,
        dtheta=links.dq + 0.05 * apart.dq,
        ddtheta=links.ddq + 0.05 * apart.ddq,
    )


class TestStiffness(TermContract):
    def term(self) -> Term:
        return Stiffness()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return np.zeros_like(samples.q)  # with one encoder, or in the sum of both equations


class TestStiffnessOfSomeJoints(TermContract):
    def term(self) -> Term:
        return Stiffness(joints=("joint1",))


class TestJointDamping(TermContract):
    def term(self) -> Term:
        return JointDamping()


class TestLinkViscous(TermContract):
    def term(self) -> Term:
        return LinkViscous()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * samples.dq


class TestLinkCoulomb(TermContract):
    def term(self) -> Term:
        return LinkCoulomb(width=0.1)

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return theta * np.tanh(samples.dq / 0.1)


class TestLinkOffset(TermContract):
    def term(self) -> Term:
        return LinkOffset()

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        return np.tile(theta, (len(samples), 1))


class TestSpinningRotor(TermContract):
    def term(self) -> Term:
        return SpinningRotor()

    def robots(self) -> tuple[RobotModel, ...]:
        return tuple(driven(robot) for robot in super().robots())


class TestRotorCompensation(TermContract):
    def term(self) -> Term:
        return RotorCompensation(
            inertia=(1.0, 2.0, 3.0), viscous=(3.0, 1.0, 2.0), load=(0.1, 0.2, 0.05), width=0.1
        )

    def robots(self) -> tuple[RobotModel, ...]:
        return random_robot(1, 3, 0.0), random_robot(3, 4, mimic=True)


@pytest.mark.parametrize("term", [Stiffness(), JointDamping()])
def test_springs_push_the_motor_as_much_as_they_pull_the_link(term: SpringTerm) -> None:
    robot = random_robot(2, 4, 0.5)
    samples = two_encoders(robot)
    theta = np.array([3.0, 5.0, 7.0, 11.0])
    every = np.ones(4, dtype=np.bool_)
    assert not Terms((term,)).torque(robot, samples, theta).any()
    apart = samples.theta - samples.q if isinstance(term, Stiffness) else samples.dtheta - samples.dq
    motor = term.motor_regressor(robot, samples, every).dense(4) @ theta
    np.testing.assert_allclose(motor, theta * apart, rtol=1e-15)


def test_units_of_the_new_parameters() -> None:
    robot = random_robot(2, 5, 0.6)
    terms = Stiffness() + JointDamping() + LinkViscous() + LinkCoulomb() + LinkOffset()
    units = {column.name: column.unit for column in terms.columns(robot)}
    for joint, slides in enumerate(robot.prismatic, start=1):
        assert units[f"K{joint}"] == ("N/m" if slides else "N m/rad")
        assert units[f"D{joint}"] == units[f"fvl{joint}"] == ("N s/m" if slides else "N m s/rad")
        assert units[f"fcl{joint}"] == units[f"fol{joint}"] == ("N" if slides else "N m")


def test_terms_on_the_motor_s_side_see_the_motor() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = two_encoders(robot)
    for term, wanted in (
        (Viscous(), samples.dtheta),
        (RotorInertia(), samples.ddtheta),
        (Coulomb(width=0.1), np.tanh(samples.dtheta / 0.1)),
        (LinkViscous(), samples.dq),
    ):
        found = Terms((term,)).torque(robot, samples, np.ones(3))
        np.testing.assert_allclose(found, wanted, rtol=1e-15)
        on_motor = Terms((term,)).motor_regressor(robot, samples).dense(3).sum(axis=2)
        np.testing.assert_allclose(on_motor, wanted if term.side is Side.MOTOR else 0.0 * wanted, rtol=1e-15)
    rigid = Terms((RigidBody(),))
    pi = robot.inertia_prior.ravel()
    links = replace(samples, theta=None, dtheta=None, ddtheta=None)
    np.testing.assert_array_equal(rigid.torque(robot, samples, pi), rigid.torque(robot, links, pi))


def test_motor_position_without_its_derivatives_is_refused() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = smooth_samples(robot, 20)
    assert samples.motor is samples
    with pytest.raises(UsageError, match="theta without dtheta"):
        _ = replace(samples, theta=samples.q).motor


@pytest.mark.parametrize("seed", range(4))
def test_spinning_rotors_keep_the_power_balance(seed: int) -> None:
    # d/dt of sum Ia (dtheta^2 / 2 + dtheta z.w / N) is the power of both equations.
    robot = driven(random_robot(seed, 5, 0.5), 3.0)
    samples = two_encoders(robot, 400)
    n, p = robot.n, robot.n
    Ia = np.linspace(1.0, 2.0, n)
    term = SpinningRotor()
    every = np.ones(p, dtype=np.bool_)
    motor = term.motor_regressor(robot, samples, every).dense(p) @ Ia
    link = term.torque_regressor(robot, samples, every).dense(p) @ Ia - motor
    power = (motor * samples.dtheta + link * samples.dq).sum(axis=1)
    state = reference.motion(robot.tree, samples.q, samples.dq, samples.ddq)
    energy = 0.5 * samples.dtheta**2 @ Ia
    for joint, (_, carrier, axis) in enumerate(term._mounts(robot)):
        if carrier >= 0:
            spin = axis @ state.w[carrier] / robot.drive.gear_ratio[joint]
            energy = energy + Ia[joint] * samples.dtheta[:, joint] * spin
    h = 1 / samples.rate
    slope = (8 * (energy[3:-1] - energy[1:-3]) - (energy[4:] - energy[:-4])) / (12 * h)
    np.testing.assert_allclose(power[2:-2], slope, rtol=0, atol=1e-6 * np.abs(slope).max())


def test_rotors_on_the_base_are_plain_rotors() -> None:
    robot = driven(random_robot(0, 1, 0.0))
    samples, every = two_encoders(robot), np.ones(1, dtype=np.bool_)
    found = SpinningRotor().torque_regressor(robot, samples, every).dense(1)[:, 0, 0]
    np.testing.assert_allclose(found, samples.ddtheta[:, 0], rtol=1e-14)


def test_spinning_rotors_that_cannot_be() -> None:
    robot = random_robot(0, 3, 0.0)
    samples, every = smooth_samples(robot, 5), np.ones(3, dtype=np.bool_)
    with pytest.raises(UsageError, match="unit vectors"):
        SpinningRotor(((1.0, 1.0, 0.0),))
    with pytest.raises(UsageError, match="3, one a joint"):
        SpinningRotor(((1.0, 0.0, 0.0),)).torque_regressor(robot, samples, every)
    unknown = np.full(3, np.nan)
    coupled = Drive(np.array([[50.0, 0, 0], [0, 60, 0], [0, -60, 60]]), unknown, unknown, unknown)
    with pytest.raises(UsageError, match="coupled transmission"):
        SpinningRotor().torque_regressor(replace(robot, drive=coupled), samples, every)


def test_compensation_solves_for_the_load_that_it_is_loaded_with() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = two_encoders(robot)
    load = 20 * samples.tau
    B, fv, fc, fl = np.ones(3), np.array([3.0, 2.0, 1.0]), np.array([1.0, 0.5, 0.2]), np.full(3, 0.1)
    sign = np.tanh(samples.dtheta / 0.05)
    drive = B * samples.ddtheta + fv * samples.dtheta + (fc + fl * np.abs(load)) * sign
    measured = replace(samples, tau=load + drive)
    options = {
        "inertia": tuple(B),
        "viscous": tuple(fv),
        "coulomb": tuple(fc),
        "load": tuple(fl),
        "width": 0.05,
    }
    error = []
    for passes in (1, 6):
        known = (RotorCompensation(passes=passes, **options) + LinkOffset()).known_torque(robot, measured)
        error.append(np.abs(known - drive).max())
    assert error[1] < 1e-4 * np.abs(drive).max()  # each pass gains a factor of the load coefficient
    assert error[0] > 100 * error[1]


def test_compensation_with_temperature() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = two_encoders(robot)
    term = RotorCompensation(inertia=(0.0,) * 3, viscous=(2.0,) * 3, heat=(-0.01,) * 3, reference=25.0)
    with pytest.raises(UnfitDataError, match="no temperature"):
        Terms((term,)).known_torque(robot, samples)
    warm = replace(samples, temperature=np.full_like(samples.q, 45.0))
    np.testing.assert_allclose(
        Terms((term,)).known_torque(robot, warm), 1.6 * samples.dtheta, rtol=1e-12, atol=1e-12
    )


def test_compensation_with_temperature_has_base_parameters() -> None:
    # They are found from random states, which have to be as warm as a log may be.
    robot = random_robot(1, 3, 0.0)
    term = RotorCompensation(inertia=(1.0,) * 3, viscous=(2.0,) * 3, heat=(-0.01,) * 3)
    plain = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    assert structural_base(robot, RigidBody() + term, TorqueRows()).rank == plain.rank


def test_compensation_needs_a_rotor_and_values_for_every_joint() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = two_encoders(robot)
    with pytest.raises(UsageError, match="no rotor inertia of joint1"):
        RotorCompensation().known_torque(robot, samples)
    with pytest.raises(UsageError, match="2 values of viscous"):
        RotorCompensation(inertia=(1.0,) * 3, viscous=(1.0, 1.0)).known_torque(robot, samples)
    with pytest.raises(UsageError, match="passes = 0"):
        RotorCompensation(passes=0)
