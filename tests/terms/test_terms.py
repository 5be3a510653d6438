"""Columns and priors of the built-in terms, sums of terms, and their names in experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import InputError, UnfitDataError, UsageError
from dynid.robot import Drive
from dynid.terms import (
    CATALOGUE,
    AsymmetricCoulomb,
    ChannelTorque,
    Compliance,
    Coulomb,
    Drift,
    DriveGain,
    FrictionChoice,
    FunctionTorque,
    GainError,
    GasSpring,
    GravityTilt,
    HeldLoad,
    JointCoupling,
    JointDamping,
    KnownPayload,
    LinkCoulomb,
    LinkOffset,
    LinkViscous,
    LoadFriction,
    MotorInertia,
    Offset,
    OnMotor,
    Points,
    PolynomialFriction,
    PositionFriction,
    PositionWaves,
    Presliding,
    RigidBody,
    RotorCompensation,
    RotorInertia,
    Sigmoid,
    SmoothCoulomb,
    SpinningRotor,
    Spring,
    Stiffness,
    Stribeck,
    TemperatureViscous,
    Term,
    Terms,
    TorqueDelay,
    TorsionSpring,
    Triangle,
    Viscous,
    ZolloFriction,
    known_torque,
    terms_from_spec,
    terms_to_spec,
)
from dynid.terms.friction_curves import SaturatingViscous
from dynid.terms.zero_offset import ZeroOffset
from dynid.testing import random_inertia, random_robot, smooth_samples

LOAD = tuple(float(x) for x in random_inertia(7, 1)[0])
EXAMPLES: dict[str, Term] = {
    "rigid_body": RigidBody(),
    "rotor_inertia": RotorInertia(),
    "viscous": Viscous(),
    "coulomb": Coulomb(width=0.1),
    "offset": Offset(),
    "coulomb_sides": AsymmetricCoulomb(0.1, ("joint2",)),
    "coulomb_tanh": SmoothCoulomb((0.1,), ("joint1",)),
    "presliding": Presliding(0.01),
    "saturating_viscous": SaturatingViscous((0.5,), ("joint1",)),
    "stribeck": Stribeck(exponent=1.0),
    "sigmoid": Sigmoid(slope=12.0),
    "zollo": ZolloFriction(rise=(10.0, 12.0), joints=("joint1", "joint2")),
    "polynomial": PolynomialFriction((2, 3), limit=(1.0, 2.0, 0.5)),
    "position_friction": PositionFriction(2.0),
    "load_friction": LoadFriction("estimate"),
    "temperature_viscous": TemperatureViscous(("warmth",), 30.0),
    "friction": FrictionChoice(("sigmoid",)),
    "drive_gain": DriveGain(),
    "known_payload": KnownPayload(LOAD, "body1", "load*"),
    "held_load": HeldLoad("grip", "body2", held=0.0, empty=10.0),
    "channel": ChannelTorque("spring", "joint1", free=False),
    "motor_inertia": MotorInertia(),
    "on_motor": OnMotor(Coulomb(width=0.1)),
    "spring": Spring(Points(("base", "body2"), ((0.1, 0.0, 0.2), (0.0, 0.1, 0.3))), "two", stiffness=10.0),
    "torsion_spring": TorsionSpring(("joint1", "joint2"), weights=(1.0, -1.0)),
    "gas_spring": GasSpring(
        Triangle("joint1", 0.8, 0.2, 1.0), 0.6, 1e-3, 1e-3, 1e7, exponent=1.2, free=False
    ),
    "function": FunctionTorque("own", Triangle("joint1", 0.8, 0.2, 1.0)),
    "stiffness": Stiffness(joints=("joint2",)),
    "joint_damping": JointDamping(),
    "spinning_rotor": SpinningRotor(((0.0, 0.6, 0.8), (1.0, 0.0, 0.0))),
    "link_viscous": LinkViscous(),
    "link_coulomb": LinkCoulomb(width=0.1),
    "link_offset": LinkOffset(),
    "rotor_compensation": RotorCompensation(inertia=(1.0, 2.0), load=(0.1, 0.0), loaded_by="motor"),
    "torque_delay": TorqueDelay(each=True),
    "gravity_tilt": GravityTilt(),
    "gain_error": GainError(joints=("joint2",)),
    "drift": Drift(origin=12.0, end=40.0),
    "position_waves": PositionWaves(3),
    "zero_offset": ZeroOffset(joints=("joint2",), about=(0.01,)),
    "compliance": Compliance(joints=("joint1", "joint2")),
    "joint_coupling": JointCoupling(("joint1",), ("joint2",), 0.1),
}
ROBOT = random_robot(2, 5, 0.6)


def test_every_registered_term_survives_plain_data() -> None:
    assert set(EXAMPLES) == set(CATALOGUE)
    for name, term in EXAMPLES.items():
        assert term.name == name
        assert type(term) is CATALOGUE[name]
        assert terms_from_spec(terms_to_spec(Terms((term,)))) == Terms((term,))


def test_a_name_alone_means_the_defaults() -> None:
    assert terms_from_spec(["rigid_body", {"term": "coulomb"}]) == RigidBody() + Coulomb()


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("viscos", "did you mean 'viscous'"),
        ({"term": "coulomb", "widht": 1.0}, "option 'widht' of term 'coulomb'"),
        ({"term": "channel", "joint": "joint1"}, "without channel_name"),
        ({"width": 0.1}, "term ''"),
    ],
)
def test_wrong_entries_are_refused(entry: str | dict[str, object], text: str) -> None:
    with pytest.raises(InputError, match=text):
        terms_from_spec([entry])


def test_columns_of_bodies() -> None:
    columns = RigidBody().columns(ROBOT)
    assert [c.name for c in columns[:11]] == [
        "m1", "mcx1", "mcy1", "mcz1", "Ixx1", "Ixy1", "Iyy1", "Ixz1", "Iyz1", "Izz1", "m2"
    ]  # fmt: skip
    assert [c.unit for c in columns[10:20]] == ["kg", *["kg m"] * 3, *["kg m^2"] * 6]
    np.testing.assert_array_equal([c.prior for c in columns], ROBOT.inertia_prior.ravel())
    assert {c.name[:-1] for c in columns if c.lower == 0} == {"m", "Ixx", "Iyy", "Izz"}


def test_a_body_that_is_declared_to_be_nothing_has_nothing_to_be_found_and_no_other() -> None:
    robot = random_robot(0, 3)
    inertia = random_inertia(0, 3)
    inertia[:, [1, 5]] = 0.0  # in every body, as where frames lie along the links
    inertia[2] = 0.0
    found = RigidBody().columns(replace(robot, inertia_prior=inertia))
    assert [column.absent for column in found] == [False] * 20 + [True] * 10
    assert {(column.lower, column.upper) for column in found[20:]} == {(0.0, 0.0)}
    assert {column.upper for column in found[:20]} == {np.inf}


def test_units_follow_the_joint() -> None:
    kinds = ROBOT.prismatic
    assert any(kinds)
    assert not all(kinds)
    for term, revolute, prismatic in (
        (Viscous(), "N m s/rad", "N s/m"),
        (Coulomb(), "N m", "N"),
        (Offset(), "N m", "N"),
        (RotorInertia(), "kg m^2", "kg"),
        (DriveGain(), "1", "1"),
    ):
        wanted = [prismatic if slides else revolute for slides in kinds]
        assert [c.unit for c in term.columns(ROBOT)] == wanted


def test_priors_come_from_the_description() -> None:
    n = ROBOT.n
    friction = np.arange(2.0 * n).reshape(n, 2)
    friction[1, 0] = np.nan
    drive = Drive(np.diag(np.arange(1.0, n + 1)), np.full(n, 2e-4), np.full(n, np.nan), np.full(n, np.nan))
    robot = replace(ROBOT, friction_prior=friction, drive=drive)
    np.testing.assert_array_equal([c.prior for c in Viscous().columns(robot)], friction[:, 0])
    np.testing.assert_array_equal([c.prior for c in Coulomb().columns(robot)], friction[:, 1])
    np.testing.assert_allclose(
        [c.prior for c in RotorInertia().columns(robot)], 2e-4 * np.arange(1.0, n + 1) ** 2
    )
    assert np.isnan([c.prior for c in Offset().columns(robot)]).all()
    assert [c.prior for c in DriveGain().columns(robot)] == [0.0] * n
    assert [c.prior for c in ChannelTorque("u", "joint1").columns(robot)] == [1.0]


def test_sums_put_columns_side_by_side() -> None:
    terms = RigidBody() + Viscous() + (Offset() + KnownPayload(LOAD))
    assert [term.name for term in terms] == ["rigid_body", "viscous", "offset", "known_payload"]
    samples = smooth_samples(ROBOT, 60)
    p = len(terms.columns(ROBOT))
    assert p == 10 * ROBOT.n_bodies + 2 * ROBOT.n
    theta = np.random.default_rng(0).normal(0, 1, p)
    parts = np.split(theta, [50, 55, 60])
    wanted = sum(Terms((term,)).torque(ROBOT, samples, part) for term, part in zip(terms, parts, strict=True))
    np.testing.assert_allclose(terms.torque(ROBOT, samples, theta), wanted, rtol=1e-12, atol=1e-11)
    Y = terms.torque_regressor(ROBOT, samples)
    np.testing.assert_allclose(
        Y.dense(p) @ theta + terms.known_torque(ROBOT, samples), wanted, rtol=1e-10, atol=1e-10
    )
    assert all((np.diff(columns) > 0).all() for columns in Y.columns)


def test_a_target_becomes_the_last_line() -> None:
    terms, samples = RigidBody() + Viscous(), smooth_samples(ROBOT, 60)
    wanted = np.zeros(len(terms.columns(ROBOT)), dtype=np.bool_)
    wanted[[3, 51]] = True
    plain = terms.torque_regressor(ROBOT, samples, wanted)
    longer = terms.torque_regressor(ROBOT, samples, wanted, samples.tau)
    for j in range(ROBOT.n):
        np.testing.assert_array_equal(longer.columns[j], plain.columns[j])
        np.testing.assert_array_equal(longer.values[j], np.vstack([plain.values[j], samples.tau[:, j]]))


def test_the_same_parameter_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="fv1, fv2"):
        (Viscous() + RigidBody() + Viscous()).columns(ROBOT)


def test_channels_are_listed_once() -> None:
    terms = (
        ChannelTorque("u", "joint1") + Viscous() + ChannelTorque("u", "joint2") + ChannelTorque("v", "joint1")
    )
    assert terms.channels() == ("u", "v")


def test_a_missing_channel_says_how_to_map_it() -> None:
    samples = smooth_samples(ROBOT, 10, channels=["v"])
    with pytest.raises(
        UnfitDataError, match=r"no extra channel 'u' \(extra channels: v\).*\[log.extra\] as u"
    ):
        known_torque(ChannelTorque("u", "joint1", free=False), ROBOT, samples)


def test_names_of_joints_and_bodies_are_checked() -> None:
    with pytest.raises(UsageError, match="joint 'elbow'"):
        ChannelTorque("u", "elbow").columns(ROBOT)
    with pytest.raises(UsageError, match="'hand'"):
        known_torque(KnownPayload(LOAD, body="hand"), ROBOT, smooth_samples(ROBOT, 10))
    for inertia in (LOAD[:9], (np.nan, *LOAD[1:])):
        with pytest.raises(UsageError, match="ten finite numbers"):
            KnownPayload(inertia)
    with pytest.raises(UsageError, match="width = -1"):
        Coulomb(width=-1.0)


def test_a_load_counts_during_its_trajectories_only() -> None:
    samples = smooth_samples(ROBOT, 10)
    load = KnownPayload(LOAD, trajectories="load*")
    assert known_torque(load, ROBOT, replace(samples, trajectory="empty 1")) is None
    with_load = known_torque(load, ROBOT, replace(samples, trajectory="load 1"))
    assert with_load is not None
    assert np.abs(with_load).max() > 0.1
    # The last body by default.
    named = known_torque(KnownPayload(LOAD, body=ROBOT.body_names[-1]), ROBOT, samples)
    np.testing.assert_array_equal(with_load, named)


def test_a_held_load_takes_two_values_and_a_known_body() -> None:
    with pytest.raises(UsageError, match=r"held-load.*two different values"):
        HeldLoad("grip", held=1.0, empty=1.0)
    with pytest.raises(UsageError, match=r"unknown-body.*hand.*body1"):
        HeldLoad("grip", "hand").columns(ROBOT)
