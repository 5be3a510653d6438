"""Friction on motion faster than that of the log: no form of the automatic choice outgrows the speed."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.signals.samples import Samples
from dynid.terms import Coulomb, OnMotor, PolynomialFriction, Terms, Viscous
from dynid.terms.catalogue import proposals
from dynid.terms.choice import JointMotion, LogFacts, Role
from dynid.terms.friction_choice import CANDIDATES
from dynid.testing import random_robot

ROBOT = random_robot(2, 3, 0.0)
PEAK = np.array([0.5, 1.0, 2.0])
LOG = LogFacts(motion=tuple(JointMotion(p, 0.4 * p, 2.0) for p in PEAK))
FORMS = {
    f"{one.label} {k}": Terms((term,))
    for one in proposals(ROBOT, LOG, Role.FRICTION, Role.PLAIN)
    for k, term in enumerate(one.variants)
}
FORMS |= {f"friction {name}": form(()) for name, form in CANDIDATES.items()}


def columns(terms: Terms, factor: float) -> np.ndarray:
    """(n, p): the greatest torque of each column on constant speed, up to a factor of the log's greatest."""
    dq = np.outer(np.concatenate([np.linspace(-factor, factor, 41)]), PEAK)
    q = np.cumsum(dq, axis=0) * 0.01
    samples = Samples.from_motion(q, dq, np.zeros_like(dq), np.zeros_like(dq), 100.0)
    every = np.ones(len(terms.columns(ROBOT)), dtype=np.bool_)
    dense = terms.torque_regressor(ROBOT, samples, every).dense(len(every))
    return np.asarray(np.abs(dense).max(axis=0))


@pytest.mark.parametrize("name", FORMS)
def test_no_form_grows_faster_than_speed_beyond_the_log(name: str) -> None:
    terms = FORMS[name].within(ROBOT, PEAK)
    inside = columns(terms, 1.0)
    for factor in (2.0, 10.0):
        assert (columns(terms, factor) <= factor * inside + 1e-9).all()


def test_a_power_is_itself_on_the_log_and_straight_beyond() -> None:
    cubic = PolynomialFriction((3,))
    bounded = Terms((cubic,)).within(ROBOT, PEAK)
    np.testing.assert_array_equal(columns(Terms((cubic,)), 1.0), columns(bounded, 1.0))
    np.testing.assert_allclose(columns(bounded, 3.0), 3.0 * columns(bounded, 1.0))
    np.testing.assert_allclose(columns(Terms((cubic,)), 3.0), 27.0 * columns(bounded, 1.0))
    # A limit that somebody gave stays.
    (again,) = bounded.within(ROBOT, 9 * PEAK)
    assert again == bounded.terms[0]


def test_motors_are_bounded_at_their_own_speeds_and_other_terms_as_they_are() -> None:
    on_motor = OnMotor(PolynomialFriction((3,)))
    (found,) = Terms((on_motor,)).within(ROBOT, PEAK)
    assert isinstance(found, OnMotor)
    assert isinstance(found.of, PolynomialFriction)
    np.testing.assert_allclose(found.of.limit, np.abs(ROBOT.drive.transmission) @ PEAK)
    plain = Viscous() + Coulomb(0.02)
    assert plain.within(ROBOT, PEAK) == plain
