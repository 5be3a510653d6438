"""Energy and power of elastic joints: work of the motors is energy of links, rotors and springs, and what is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.factor import structural_base
from dynid.rows import EnergyRows, FilteredPowerRows, PowerRows, Rows
from dynid.terms import (
    Coulomb,
    JointDamping,
    LinkViscous,
    RigidBody,
    RotorInertia,
    Stiffness,
    Viscous,
)
from dynid.testing import random_robot, smooth_samples
from tests.terms.test_elastic import mounted, shared

NAMES = ("joint1", "joint2", "joint3")
SCHEMES = (EnergyRows(joints=NAMES), PowerRows(NAMES), FilteredPowerRows(joints=NAMES))


def unbalanced(rows: Rows, gyroscopic: bool, rate: float) -> float:
    """What is left of the balance of half a second, of its greatest part."""
    robot = shared(random_robot(2, 3, 0.3), 2)
    rotors = mounted(robot, 2) if gyroscopic else RotorInertia()
    terms = RigidBody() + rotors + Viscous() + Coulomb(0.3) + Stiffness() + JointDamping() + LinkViscous()
    links, apart = (smooth_samples(robot, round(0.5 * rate), seed, rate) for seed in (4, 5))
    q, dq, ddq = (getattr(links, name) + 0.05 * getattr(apart, name) for name in ("q", "dq", "ddq"))
    samples = replace(links, theta=q, dtheta=dq, ddtheta=ddq)
    p = len(terms.columns(robot))
    theta, every = np.random.default_rng(0).uniform(0.5, 2.0, p), np.ones(p, dtype=np.bool_)
    # The motors' torque is what their equations ask for; what the links' ask for does work on them from outside.
    motor = terms.motor_regressor(robot, samples, every).dense(p) @ theta
    link = terms.torque(robot, samples, theta) - motor
    (panel,) = rows.equations(robot, terms, replace(samples, tau=motor), every).panels
    (outside,) = rows.equations(robot, terms, replace(links, tau=link), every).panels
    return float(np.abs(theta @ panel[:-1] - panel[-1] - outside[-1]).max() / np.abs(panel[-1]).max())


@pytest.mark.parametrize("rows", SCHEMES)
@pytest.mark.parametrize("gyroscopic", [False, True])
def test_work_of_the_motors_is_stored_or_lost(rows: Rows, gyroscopic: bool) -> None:
    coarse, fine = (unbalanced(rows, gyroscopic, rate) for rate in (1000.0, 4000.0))
    if isinstance(rows, PowerRows):
        assert fine < 1e-12
    else:
        # Integrals by the trapezoidal rule: errors fall with the square of the step, and with nothing else.
        assert fine < 1e-3
        assert fine < coarse / 12.0


def test_stiffness_is_identifiable_in_the_energy() -> None:
    robot = random_robot(1, 3, 0.0)
    terms = RigidBody() + RotorInertia() + Stiffness() + JointDamping()
    base = structural_base(robot, terms, EnergyRows(joints=NAMES))
    names = [c.name for c in terms.columns(robot)]
    assert {"K1", "K2", "K3", "D1", "D2", "D3"} <= {names[i] for i in base.independent}
