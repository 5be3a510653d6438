"""Friction on motion faster than that of the log: no form of the automatic choice outgrows the speed."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.signals import Samples
from dynid.terms import (
    Coulomb,
    Extent,
    JointMotion,
    LeftOut,
    LogFacts,
    MotionBasis,
    OnJoint,
    OnMotor,
    PolynomialFriction,
    PositionFriction,
    Role,
    Terms,
    Viscous,
    exported_parts,
    proposals,
    torque_of,
)
from dynid.terms.curve import CANDIDATES
from dynid.testing import random_robot

FAR = 1e4

ROBOT = random_robot(2, 3, 0.0)
PEAK = np.array([0.5, 1.0, 2.0])
LOG = LogFacts(motion=tuple(JointMotion(p, 0.4 * p, 2.0, waves=(7.0,)) for p in PEAK))
LOW, HIGH = np.array([-1.0, 0.0, 0.5]), np.array([1.0, 0.5, 2.0])
EXTENT = Extent(PEAK, LOW, HIGH)
FORMS = {
    f"{one.label} {k}": Terms((term,))
    for one in proposals(ROBOT, LOG, Role.FRICTION, Role.PLAIN)
    for k, term in enumerate(one.variants)
}
FORMS |= {f"friction {name}": form(()) for name, form in CANDIDATES.items()}


def columns(terms: Terms, factor: float) -> np.ndarray:
    """(n, p): the greatest torque of each column on constant speed, up to a factor of the log's greatest."""
    dq = np.outer(np.concatenate([np.linspace(-factor, factor, 41)]), PEAK)
    # Faster along the same way: friction of position and of memory is that of the way.
    q = np.cumsum(dq, axis=0) * 0.01 / factor
    samples = Samples.from_motion(q, dq, np.zeros_like(dq), np.zeros_like(dq), 100.0)
    every = np.ones(len(terms.columns(ROBOT)), dtype=np.bool_)
    dense = terms.torque_regressor(ROBOT, samples, every).dense(len(every))
    return np.asarray(np.abs(dense).max(axis=0))


@pytest.mark.parametrize("name", FORMS)
def test_no_form_grows_faster_than_speed_beyond_the_log(name: str) -> None:
    terms = FORMS[name].within(ROBOT, EXTENT)
    inside = columns(terms, 1.0)
    for factor in (2.0, 10.0):
        assert (columns(terms, factor) <= factor * inside + 1e-9).all()


def test_a_power_is_itself_on_the_log_and_straight_beyond() -> None:
    cubic = PolynomialFriction((3,))
    bounded = Terms((cubic,)).within(ROBOT, EXTENT)
    np.testing.assert_array_equal(columns(Terms((cubic,)), 1.0), columns(bounded, 1.0))
    np.testing.assert_allclose(columns(bounded, 3.0), 3.0 * columns(bounded, 1.0))
    np.testing.assert_allclose(columns(Terms((cubic,)), 3.0), 27.0 * columns(bounded, 1.0))
    # A limit that somebody gave stays.
    (again,) = bounded.within(ROBOT, Extent(9 * PEAK, LOW, HIGH))
    assert again == bounded.terms[0]


def test_motors_are_bounded_at_their_own_speeds_and_other_terms_as_they_are() -> None:
    on_motor = OnMotor(PolynomialFriction((3,)))
    (found,) = Terms((on_motor,)).within(ROBOT, EXTENT)
    assert isinstance(found, OnMotor)
    assert isinstance(found.of, PolynomialFriction)
    np.testing.assert_allclose(found.of.limit, np.abs(ROBOT.drive.transmission) @ PEAK)
    plain = Viscous() + Coulomb(0.02)
    assert plain.within(ROBOT, EXTENT) == plain


def test_waves_stay_beyond_the_positions_of_the_log_as_they_are_at_their_border() -> None:
    waves = PositionFriction((5.0, 7.0, 9.0))
    (held,) = Terms((waves,)).within(ROBOT, EXTENT)
    assert isinstance(held, PositionFriction)
    assert held.positions == ((-1.0, 1.0), (0.0, 0.5), (0.5, 2.0))
    # Three waves within the log are known well enough to go on.
    (more,) = Terms((PositionFriction((10.0, 7.0, 13.0)),)).within(ROBOT, EXTENT)
    assert isinstance(more, PositionFriction)
    assert more.positions == ((-1.0 - FAR, 1.0 + FAR), (0.0, 0.5), (0.5 - FAR, 2.0 + FAR))
    q = LOW + np.linspace(-0.5, 1.5, 41)[:, None] * (HIGH - LOW)
    theta = np.arange(1.0, 7.0)
    torque, border = (
        torque_of(held, ROBOT, Samples.from_motion(at, np.ones_like(q), 0 * q, 0 * q), theta)
        for at in (q, np.clip(q, LOW, HIGH))
    )
    free = torque_of(waves, ROBOT, Samples.from_motion(q, np.ones_like(q), 0 * q, 0 * q), theta)
    inside = (q >= LOW) & (q <= HIGH)
    np.testing.assert_array_equal(torque, border)
    np.testing.assert_array_equal(torque[inside], free[inside])
    assert np.abs(torque - free)[~inside].max() > 1.0
    # Positions that somebody gave stay.
    (again,) = Terms((held,)).within(ROBOT, Extent(PEAK, LOW - 1, HIGH + 1))
    assert again == held


def test_waves_are_exported_as_their_mean_over_the_positions_of_the_log() -> None:
    (held,) = Terms((PositionFriction((5.0, 7.0, 9.0), 0.01),)).within(ROBOT, EXTENT)
    assert held.positions == ((-1.0, 1.0), (0.0, 0.5), (0.5, 2.0))
    theta = np.arange(1.0, 7.0)
    parts = exported_parts(held, ROBOT, theta)
    assert parts is not None
    *on, left = parts
    q = LOW + (np.arange(20000)[:, None] + 0.5) / 20000 * (HIGH - LOW)
    mean = torque_of(held, ROBOT, Samples.from_motion(q, np.ones_like(q), 0 * q, 0 * q), theta).mean(axis=0)
    assert [(one.joint, one.basis, one.width) for one in on] == [
        (j, MotionBasis.SIGN, 0.01) for j in range(3)
    ]
    np.testing.assert_allclose([one.value for one in on], mean, rtol=1e-6)
    assert left == LeftOut("position_friction except its mean over the positions of the log")
    assert exported_parts(PositionFriction(3.0), ROBOT, theta) is None
    # What goes on beyond the log has no mean worth the name.
    (on,) = Terms((PositionFriction((10.0, 7.0, 13.0)),)).within(ROBOT, EXTENT)
    (mean, left) = exported_parts(on, ROBOT, theta) or ()
    assert isinstance(mean, OnJoint)
    assert (mean.joint, left) == (
        1,
        LeftOut("position_friction except its mean over the positions of the log"),
    )
    (everywhere,) = Terms((PositionFriction(50.0),)).within(ROBOT, EXTENT)
    assert exported_parts(everywhere, ROBOT, theta) == (LeftOut("position_friction"),)


def test_waves_far_from_zero_go_on_as_well() -> None:
    far = Extent(PEAK, LOW + 2.0 * FAR, HIGH + 2.0 * FAR)
    (found,) = Terms((PositionFriction(50.0),)).within(ROBOT, far)
    q = LOW + 2.0 * FAR + np.linspace(-5.0, 5.0, 41)[:, None]
    theta = np.arange(1.0, 7.0)
    torque, free = (
        torque_of(one, ROBOT, Samples.from_motion(q, np.ones_like(q), 0 * q, 0 * q), theta)
        for one in (found, PositionFriction(50.0))
    )
    np.testing.assert_array_equal(torque, free)


def test_a_pair_of_positions_for_each_joint_of_the_robot() -> None:
    short = PositionFriction(3.0, positions=((-1.0, 1.0),))
    samples = Samples.from_motion(*(np.zeros((3, 3)) for _ in range(4)))
    with pytest.raises(UsageError, match="positions"):
        torque_of(short, ROBOT, samples, np.ones(6))
    with pytest.raises(UsageError, match="positions"):
        exported_parts(short, ROBOT, np.ones(6))


def test_positions_from_the_greatest_to_the_least_are_refused() -> None:
    with pytest.raises(UsageError, match="positions"):
        PositionFriction(3.0, positions=((1.0, 0.0), (0.0, 1.0), (0.0, 1.0)))
    with pytest.raises(UsageError, match="harmonic"):
        PositionFriction(np.inf)
