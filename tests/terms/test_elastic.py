"""Springs, spinning rotors, friction behind the spring and rotor compensation: the contract and their laws."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dynid.base import Float, UnfitDataError, UsageError
from dynid.dynamics import Dynamics
from dynid.factor import structural_base
from dynid.robot import Drive, FourBar, Mounting, RobotModel
from dynid.rows import TorqueRows
from dynid.signals import Samples
from dynid.simulation import Coupling, Elasticity, Plant, State
from dynid.terms import (
    Coulomb,
    JointDamping,
    LinkCoulomb,
    LinkOffset,
    LinkViscous,
    MotorInertia,
    RigidBody,
    RotorCompensation,
    RotorInertia,
    Side,
    SpinningRotor,
    SpringTerm,
    Stiffness,
    Term,
    Terms,
    Viscous,
    known_torque,
    motor_regressor,
    torque_of,
)
from dynid.terms.forms import energy_form, momentum_form, motor_momentum_form
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
    motor = motor_regressor(term, robot, samples, every).dense(4) @ theta
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
        np.testing.assert_allclose(
            on_motor, wanted if term.traits.side is Side.MOTOR else 0.0 * wanted, rtol=1e-15
        )
    rigid = Terms((RigidBody(),))
    pi = robot.inertia_prior.ravel()
    links = replace(samples, theta=None, dtheta=None, ddtheta=None)
    np.testing.assert_array_equal(torque_of(rigid, robot, samples, pi), torque_of(rigid, robot, links, pi))


def test_motor_position_without_its_derivatives_is_refused() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = smooth_samples(robot, 20)
    assert samples.motor is samples
    with pytest.raises(UsageError, match="theta without dtheta"):
        _ = replace(samples, theta=samples.q).motor


def shared(robot: RobotModel, seed: int) -> RobotModel:
    """The robot with gears of both signs and motors that move up to three joints each."""
    rng = np.random.default_rng(seed)
    N = np.diag(rng.choice([-1.0, 1.0], robot.n) * rng.uniform(2.0, 6.0, robot.n))
    for i, j in rng.integers(0, robot.n, (robot.n, 2)):
        N[i, j] += rng.normal() if i != j else 0.0
    unknown = np.full(robot.n, np.nan)
    return replace(robot, drive=Drive(N, np.full(robot.n, 1e-3), unknown, unknown))


def mounted(robot: RobotModel, seed: int) -> SpinningRotor:
    """Motors on any bodies, along any axes."""
    rng = np.random.default_rng(seed)
    axes = rng.normal(size=(robot.n, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    names = ("base", *robot.body_names)
    return SpinningRotor(
        tuple(map(tuple, axes)), tuple(names[k] for k in rng.integers(0, len(names), robot.n))
    )


class TestSpinningRotorOfSharedMotors(TermContract):
    def term(self) -> Term:
        return SpinningRotor()

    def robots(self) -> tuple[RobotModel, ...]:
        return tuple(shared(robot, 7) for robot in super().robots())


def work_and_energy(
    term: SpinningRotor, robot: RobotModel, samples: Samples
) -> tuple[np.ndarray, np.ndarray]:
    """Power (T,) of both equations, and the rate of the term's energy by differences along time."""
    p, Ia = robot.n, np.linspace(1.0, 2.0, robot.n)
    every = np.ones(p, dtype=np.bool_)
    motor = motor_regressor(term, robot, samples, every).dense(p) @ Ia
    link = term.torque_regressor(robot, samples, every).dense(p) @ Ia - motor
    power = (motor * samples.motor.dq + link * samples.dq).sum(axis=1)
    energy = Ia @ energy_form(term, robot, samples, every)[0]
    slope = (8 * (energy[3:-1] - energy[1:-3]) - (energy[4:] - energy[:-4])) * samples.rate / 12
    return power[2:-2], slope


@pytest.mark.parametrize("seed", range(4))
def test_spinning_rotors_keep_the_power_balance(seed: int) -> None:
    # d/dt of sum Ia (s^2 / 2 + s z.w / r) is the power of both equations.
    robot = shared(random_robot(seed, 5, 0.5), seed)
    power, slope = work_and_energy(mounted(robot, seed), robot, two_encoders(robot, 400))
    np.testing.assert_allclose(power, slope, rtol=0, atol=1e-6 * np.abs(slope).max())


def test_spinning_rotors_keep_the_power_balance_through_linkages() -> None:
    robot = random_robot(1, 3, 0.0)
    bars = FourBar(1.1, 0.25, 1.08, 0.3, 1.5)
    drive = Drive(
        np.array([[40.0, 0, 0], [5, -30, 0], [0, 9, 20]]), np.full(3, 1e-3), *(np.full(3, np.nan),) * 2,
        linkages=(None, bars, None),
    )  # fmt: skip
    robot, full = replace(robot, drive=drive), smooth_samples(robot, 400, seed=4)
    samples = replace(full, q=0.1 * full.q, dq=0.1 * full.dq, ddq=0.1 * full.ddq)
    power, slope = work_and_energy(mounted(robot, 1), robot, samples)
    np.testing.assert_allclose(power, slope, rtol=0, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize("seed", range(4))
def test_spinning_rotors_are_bodies_that_the_links_carry(seed: int) -> None:
    # The oracle knows no gyroscopic term: every rotor is a body of its tree, and all torque is the kernel's.
    robot = shared(random_robot(seed, 6, 0.5), seed)
    term, rotors = mounted(robot, seed), np.linspace(0.5, 1.5, robot.n) * 1e-3
    heavy = robot.inertia_prior + np.concatenate([np.zeros(4), [0.1, 0, 0.1, 0, 0, 0.1]])
    plant = Plant(
        robot, heavy, rotors, coupling=Coupling.FULL, mounting=Mounting.of(robot, term.carriers, term.axes)
    )
    samples = smooth_samples(robot, 40, seed=seed)
    state = State(samples.q, samples.dq, samples.q, samples.dq)
    wanted = plant.drive_torque(state, samples.ddq)
    theta = np.concatenate([heavy.ravel(), robot.drive.own_ratio**2 * rotors])
    terms = RigidBody() + term
    found = terms.torque(robot, samples, theta)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    plain = (RigidBody() + MotorInertia()).torque(robot, samples, np.concatenate([heavy.ravel(), rotors]))
    assert np.abs(plain - wanted).max() > 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize("seed", range(4))
def test_spinning_rotors_of_shared_motors_behind_springs(seed: int) -> None:
    # Links' and motors' equations are those of the tree in which every rotor is a body.
    robot = shared(random_robot(seed, 4, 0.3), seed)
    term, rotors, n = mounted(robot, seed), np.linspace(0.5, 1.5, 4) * 2e-2, robot.n
    heavy = robot.inertia_prior + np.concatenate([np.zeros(4), [0.5, 0, 0.5, 0, 0, 0.5]])
    springs, mounting = (
        Elasticity(np.full(n, 500.0), np.zeros(n)),
        Mounting.of(robot, term.carriers, term.axes),
    )
    plant = Plant(robot, heavy, rotors, springs, Coupling.FULL, mounting)
    samples = two_encoders(robot)
    x, v, a = (
        np.hstack([getattr(samples, link), getattr(samples, motor)])
        for link, motor in (("q", "theta"), ("dq", "dtheta"), ("ddq", "ddtheta"))
    )
    M, h = plant.equations(x, v)
    wanted = np.einsum("bij,bj->bi", M, a) + h
    theta, terms = np.concatenate([heavy.ravel(), robot.drive.own_ratio**2 * rotors]), RigidBody() + term
    motor = terms.motor_regressor(robot, samples).dense(len(theta)) @ theta
    total = terms.torque(robot, samples, theta)
    np.testing.assert_allclose(np.hstack([total - motor, motor]), wanted, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(4))
def test_momentum_of_spinning_rotors_changes_by_their_torque(seed: int) -> None:
    robot = shared(random_robot(seed, 4, 0.3), seed)
    term, samples, every = mounted(robot, seed), two_encoders(robot, 400), np.ones(4, dtype=np.bool_)
    for form, torque in (
        (partial(momentum_form, term), term.torque_regressor),
        (partial(motor_momentum_form, term), partial(motor_regressor, term)),
    ):
        P, R = (panels.dense(4) for panels in form(robot, samples, every))
        rate = (8 * (P[3:-1] - P[1:-3]) - (P[4:] - P[:-4])) * samples.rate / 12
        wanted = torque(robot, samples, every).dense(4)[2:-2]
        np.testing.assert_allclose(rate + R[2:-2], wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


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
    with pytest.raises(UsageError, match="3, one per joint"):
        SpinningRotor(((1.0, 0.0, 0.0),)).torque_regressor(robot, samples, every)
    for carriers, message in (
        (("base",), "3, one per motor"),
        (("base", "base", "linc1"), "'linc1' as carrier"),
    ):
        with pytest.raises(UsageError, match=message):
            SpinningRotor(carriers=carriers).torque_regressor(robot, samples, every)


def test_axes_of_motors_are_those_of_their_joints_at_zero() -> None:
    robot = random_robot(4, 4, 0.5)
    at_zero = Dynamics.of_description(robot).forward_kinematics(np.zeros(4))[:, :3, :3]
    for carrier, name in enumerate(robot.body_names):
        axes = Mounting.of(robot, (name,) * 4).axis @ at_zero[carrier].T
        np.testing.assert_allclose(axes, np.einsum("jab,jb->ja", at_zero, robot.axis), atol=1e-14)


@pytest.mark.parametrize("coefficient", [0.1, 0.3, 0.8, 0.999])
def test_compensation_solves_for_the_load_that_it_is_loaded_with(coefficient: float) -> None:
    robot = random_robot(1, 3, 0.0)
    samples = two_encoders(robot)
    load = 20 * samples.tau
    B, fv, fc, fl = np.ones(3), np.array([3.0, 2.0, 1.0]), np.array([1.0, 0.5, 0.2]), np.full(3, coefficient)
    sign = np.tanh(samples.dtheta / 0.05)
    drive = B * samples.ddtheta + fv * samples.dtheta + (fc + fl * np.abs(load)) * sign
    measured = replace(samples, tau=load + drive)
    term = RotorCompensation(tuple(B), tuple(fv), tuple(fc), tuple(fl), width=0.05)
    assert (
        np.abs((term + LinkOffset()).known_torque(robot, measured) - drive).max() < 1e-9 * np.abs(drive).max()
    )
    paper = (replace(term, loaded_by="motor") + LinkOffset()).known_torque(robot, measured)
    assert np.abs(paper - drive).max() > 0.1 * coefficient**2 * np.abs(load).max()
    # The paper's load is all that the motor gives but for what turns the rotor.
    seen = load + drive - B * samples.ddtheta
    np.testing.assert_allclose(
        paper, B * samples.ddtheta + fv * samples.dtheta + (fc + fl * np.abs(seen)) * sign, rtol=1e-12
    )


def test_compensation_refuses_friction_that_locks_a_drive() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = two_encoders(robot)
    term = RotorCompensation((1.0,) * 3, load=(0.2, 1.0, 0.3))
    with pytest.raises(UsageError, match=r"load = 1 at joint2; expected below 1"):
        (term + LinkOffset()).known_torque(robot, samples)


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
        known_torque(RotorCompensation(), robot, samples)
    with pytest.raises(UsageError, match="2 values of viscous"):
        known_torque(RotorCompensation(inertia=(1.0,) * 3, viscous=(1.0, 1.0)), robot, samples)
    with pytest.raises(UsageError, match="loaded_by = 'both'"):
        RotorCompensation(loaded_by="both")  # type: ignore[arg-type]  # wrong on purpose
