"""Terms at the motors: contracts, oracles by finite differences, and joints that are alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, UsageError
from dynid.kernel import stop_operator
from dynid.robot import Drive, FourBar, Limits, RobotModel
from dynid.rows import MotorRows, Rows, TorqueRows
from dynid.signals import Samples, WithPast
from dynid.terms import (
    Coulomb,
    FrictionCurve,
    LeftOut,
    MotionBasis,
    MotorInertia,
    Offset,
    OnJoint,
    OnMotor,
    Presliding,
    RigidBody,
    RotorInertia,
    SmoothCoulomb,
    Stribeck,
    Term,
    Terms,
    Viscous,
    alive_columns,
    followed,
    forms,
    placed_at,
    smooth_sign,
)
from dynid.testing import RowsContract, TermContract, random_robot, smooth_samples

BARS = FourBar(1.1, 0.25, 1.08, 0.3, 1.5)


def coupled(seed: int, n: int, linkage: bool = False, mimic: bool = False) -> RobotModel:
    """A random robot with a full, invertible transmission; linkage: the second joint is moved through bars."""
    robot = random_robot(seed, n, 0.3, mimic)
    m = robot.n
    N = np.diag(np.linspace(3.0, 5.0, m)) + np.triu(np.random.default_rng(seed).normal(0, 1, (m, m)), 1)
    unknown = np.full(m, np.nan)
    bars = tuple(BARS if linkage and j == 1 else None for j in range(m))
    limits = Limits(np.full(m, -0.6), np.full(m, 0.6), np.full(m, 9.0), np.full(m, 1e4))
    return replace(
        robot, drive=Drive(N, np.linspace(0.1, 0.2, m), unknown, unknown, linkages=bars), limits=limits
    )


class Coupled(TermContract):
    def robots(self) -> tuple[RobotModel, ...]:
        return coupled(1, 3), coupled(3, 4, mimic=True), coupled(5, 3, linkage=True)

    def samples(self, robot: RobotModel) -> Samples:
        found = super().samples(robot)
        return replace(found, q=0.4 * found.q, dq=0.4 * found.dq, ddq=0.4 * found.ddq)


def motors(robot: RobotModel, samples: Samples) -> tuple[Float, Float]:
    """Velocity of the motors (T, m) and their Jacobian (T, m, n), by central differences of the positions."""
    h = 1e-6
    J = np.stack(
        [
            (robot.drive.motor_position(samples.q + h * e) - robot.drive.motor_position(samples.q - h * e))
            / (2 * h)
            for e in np.eye(robot.n)
        ],
        axis=2,
    )
    return np.einsum("tmn,tn->tm", J, samples.dq), J


class TestMotorInertia(Coupled):
    def term(self) -> Term:
        return MotorInertia()


class TestViscousAtMotors(Coupled):
    def term(self) -> Term:
        return OnMotor(Viscous())


class TestCoulombAtMotors(Coupled):
    def term(self) -> Term:
        return OnMotor(Coulomb(width=0.4))


class TestMotorRows(RowsContract):
    tolerance = 1e-8

    def rows(self) -> Rows:
        return MotorRows()

    def robots(self) -> tuple[RobotModel, ...]:
        return coupled(1, 3), coupled(3, 4, mimic=True), random_robot(2, 5, 0.6)


@pytest.mark.parametrize("linkage", [False, True])
def test_friction_and_rotors_are_virtual_work_at_the_motors(linkage: bool) -> None:
    robot = coupled(5, 3, linkage)
    samples = smooth_samples(robot, 100, seed=4)
    samples = replace(samples, q=0.4 * samples.q, dq=0.4 * samples.dq, ddq=0.4 * samples.ddq)
    velocity, J = motors(robot, samples)
    values = np.array([0.3, 0.2, 0.5])
    viscous = Terms((OnMotor(Viscous()),)).torque(robot, samples, values)
    np.testing.assert_allclose(viscous, np.einsum("tmn,tm->tn", J, values * velocity), rtol=1e-6, atol=1e-6)
    coulomb = Terms((OnMotor(Coulomb()),)).torque(robot, samples, values)
    np.testing.assert_allclose(
        coulomb, np.einsum("tmn,tm->tn", J, values * np.sign(velocity)), rtol=1e-6, atol=1e-6
    )
    # Rotors: power of the torque is the rate of their kinetic energy.
    rotors = Terms((MotorInertia(),)).torque(robot, samples, values)
    energy = 0.5 * (values * velocity**2).sum(axis=1)
    rate = np.gradient(energy, 1 / samples.rate)
    power = (rotors * samples.dq).sum(axis=1)
    # The scaled motion is a motion still: scaling is the same for all derivatives.
    np.testing.assert_allclose(power[2:-2], rate[2:-2], rtol=0, atol=2e-3 * np.abs(rate).max())


def test_alone_a_motor_is_its_joint() -> None:
    robot = random_robot(1, 3, 0.0)
    unknown = np.full(3, np.nan)
    N = np.array([50.0, -80.0, 2.0])
    robot = replace(robot, drive=Drive(np.diag(N), np.full(3, 1e-3), unknown, unknown))
    samples = smooth_samples(robot, 50)
    Im, fv, fc = np.array([1e-3, 2e-3, 3e-3]), np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0])
    for motor, joint, values, seen in (
        (MotorInertia(), RotorInertia(), Im, N**2 * Im),
        (OnMotor(Viscous()), Viscous(), fv, N**2 * fv),
        (OnMotor(Coulomb()), Coulomb(), fc, np.abs(N) * fc),
    ):
        at_motor = Terms((motor,)).torque(robot, samples, values)
        np.testing.assert_allclose(at_motor, Terms((joint,)).torque(robot, samples, seen), rtol=1e-12)


@pytest.mark.parametrize("ratio", [0.5, 40.0])
def test_friction_that_moves_from_side_to_side_keeps_its_torque(ratio: float) -> None:
    """Width is a velocity: it turns with the ratio, there and back."""
    robot = random_robot(1, 3, 0.0)
    unknown = np.full(3, np.nan)
    robot = replace(robot, drive=Drive(np.eye(3) * ratio, np.full(3, 1e-3), unknown, unknown))
    samples = smooth_samples(robot, 50)
    joint = Coulomb(width=0.3)
    motor = placed_at(joint, True, ratio)
    values = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        Terms((motor,)).torque(robot, samples, values / ratio),
        Terms((joint,)).torque(robot, samples, values),
        rtol=1e-12,
    )
    back = placed_at(motor, False, ratio)
    assert isinstance(back, Coulomb)
    assert back.width == pytest.approx(joint.width)
    assert placed_at(joint, False, ratio) is joint
    # Viscous friction has no width; motor velocity and torque make it N^2 at the joint.
    slow = placed_at(Viscous(), True, ratio)
    np.testing.assert_allclose(
        Terms((slow,)).torque(robot, samples, values / ratio**2),
        Terms((Viscous(),)).torque(robot, samples, values),
        rtol=1e-12,
    )
    assert placed_at(slow, False, ratio) == Viscous()


def test_a_motor_that_moves_with_several_joints_is_scaled_by_its_largest_ratio() -> None:
    """Bounded by that unit, a motor turns by no more than the joints do together."""
    robot = coupled(1, 3)
    N = np.array([[3.0, 20.0, 0.0], [0.0, 4.0, 0.5], [0.1, 0.0, -5.0]])
    robot = replace(robot, drive=replace(robot.drive, transmission=N))
    samples = smooth_samples(robot, 50)
    seen, units = followed(OnMotor(Viscous()), robot, samples)
    np.testing.assert_allclose(seen.dq, samples.dq @ N.T, rtol=1e-12)
    for motor, unit in enumerate(units):
        alone = [
            np.abs(seen.dq[:, motor]).max()
            for joint in range(3)
            for seen in (followed(OnMotor(Viscous()), robot, only(samples, joint))[0],)
        ]
        speeds = np.abs(samples.dq).max(axis=0)
        assert unit == pytest.approx(max(a / s for a, s in zip(alone, speeds, strict=True)))


def only(samples: Samples, joint: int) -> Samples:
    """The motion of one joint, the others at rest."""
    mask = np.arange(samples.q.shape[1]) == joint
    return replace(samples, q=samples.q * mask, dq=samples.dq * mask, ddq=samples.ddq * mask)


def test_names_units_priors_and_what_is_alive() -> None:
    robot = coupled(1, 3)
    terms = MotorInertia() + OnMotor(Viscous()) + OnMotor(Coulomb())
    columns = terms.columns(robot)
    names = ["Im1", "Im2", "Im3", "fvm1", "fvm2", "fvm3", "fcm1", "fcm2", "fcm3"]
    assert [c.name for c in columns] == names
    assert [c.unit for c in columns] == ["kg m^2"] * 3 + ["N m s/rad"] * 3 + ["N m"] * 3
    assert [c.prior for c in columns[:3]] == robot.drive.rotor_inertia.tolist()
    assert np.isnan([c.prior for c in columns[3:]]).all()
    # N is upper triangular: motor 1 turns with every joint, motor 3 with its own alone.
    moved = np.array([False, True, False])
    assert alive_columns(MotorInertia(), robot, moved).tolist() == [True, True, False]
    assert alive_columns(OnMotor(Viscous()), robot, moved).tolist() == [True, True, False]
    with pytest.raises(UsageError, match="on_motor of"):
        OnMotor(OnMotor(Viscous()))


def test_motor_rows_are_what_the_motors_measure() -> None:
    robot = coupled(1, 3)
    samples = smooth_samples(robot, 60)
    motor = robot.drive.motor_torque(samples.q, samples.tau)
    every = np.ones(30, dtype=np.bool_)
    panels = MotorRows().equations(robot, Terms((RigidBody(),)), samples, every).panels
    for i in range(3):
        np.testing.assert_allclose(panels[i][-1], motor[:, i], rtol=1e-12, atol=1e-12)
    alone = random_robot(2, 3, 0.0)
    a, b = (
        rows.equations(alone, Terms((RigidBody(),)), samples, every) for rows in (MotorRows(), TorqueRows())
    )
    for x, y in zip(a.panels, b.panels, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("linkage", [False, True])
def test_friction_with_a_memory_knows_where_its_motor_turned(shared: bool, linkage: bool) -> None:
    robot = coupled(5, 3, linkage)
    if not shared:
        N = np.diag([3.0, -4.0, 5.0])
        robot = replace(robot, drive=replace(robot.drive, transmission=N))
    samples = smooth_samples(robot, 400, seed=4)
    samples = replace(samples, q=0.4 * samples.q, dq=0.4 * samples.dq, ddq=0.4 * samples.ddq)
    terms = Terms((OnMotor(Presliding(0.1)),))
    assert terms.remembers
    assert not Terms((OnMotor(Coulomb()),)).remembers
    first, rest = (
        replace(
            samples,
            **{k: getattr(samples, k)[part] for k in ("t", "q", "dq", "ddq", "tau", "keep")},
            first=at,
        )
        for part, at in ((slice(0, 200), 0), (slice(200, 400), 200))
    )
    drive = robot.drive
    whole = terms.torque(robot, next(iter(WithPast([samples], drive))), np.ones(3))
    states = [stop_operator([], path / 0.1) for path in drive.motor_position(samples.q).T]
    np.testing.assert_allclose(whole, drive.joint_torque(samples.q, np.stack(states, axis=1)), atol=1e-9)
    parts = np.concatenate([terms.torque(robot, part, np.ones(3)) for part in WithPast([first, rest], drive)])
    np.testing.assert_allclose(parts, whole, rtol=1e-9, atol=1e-9)
    assert np.abs(terms.torque(robot, rest, np.ones(3)) - whole[200:]).max() > 0.1  # without its past


@pytest.mark.parametrize("term", [Viscous(), Coulomb(0.1), Offset(), SmoothCoulomb(0.2), Stribeck(0.3)])
def test_exports_have_friction_behind_a_linkage_as_where_it_closes(term: Term) -> None:
    robot = coupled(5, 3, linkage=True)
    robot = replace(robot, drive=replace(robot.drive, transmission=np.diag([3.0, -4.0, 5.0])))
    at_motor = OnMotor(term)
    samples = smooth_samples(robot, 40, seed=4)
    samples = replace(samples, q=np.zeros_like(samples.q))
    theta = np.linspace(0.5, 1.0, len(at_motor.columns(robot)))
    torque = np.zeros_like(samples.q)
    parts = forms.exported_parts(at_motor, robot, theta)
    assert parts is not None
    for part in parts:
        if isinstance(part, FrictionCurve):
            torque[:, part.joint] += part.torque(robot, samples.dq)
        elif isinstance(part, OnJoint):
            dq = samples.dq[:, part.joint]
            basis = {
                MotionBasis.SPEED: dq,
                MotionBasis.SIGN: smooth_sign(dq, part.width),
                MotionBasis.ONE: 1.0,
            }
            torque[:, part.joint] += part.value * basis[part.basis]
    np.testing.assert_allclose(torque, Terms((at_motor,)).torque(robot, samples, theta), atol=1e-12)
    assert any("linkage of 'joint" in part.what for part in parts if isinstance(part, LeftOut))
