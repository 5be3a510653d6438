"""The torque of terms is the sum of what each says."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.kernel import inverse_dynamics
from dynid.robot import load_example
from dynid.simulation import inverse
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing import random_motion

ARM = load_example("arm7")
ROTOR = ARM.drive.reflected_rotor_inertia
TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()


def test_inverse_adds_what_every_term_says() -> None:
    q, dq, ddq = random_motion(0, 9000, 7)
    theta = np.array([c.prior if np.isfinite(c.prior) else 0.5 for c in TERMS.columns(ARM)])
    friction = dq * ARM.friction_prior[:, 0] + np.sign(dq) * ARM.friction_prior[:, 1] + 0.5
    expected = inverse_dynamics(ARM.tree, ARM.inertia_prior, q, dq, ddq) + ddq * ROTOR + friction
    np.testing.assert_allclose(
        inverse(ARM, TERMS, theta, q, dq, ddq), expected, rtol=0, atol=1e-10 * np.abs(expected).max()
    )


def test_unknown_parameters_are_named() -> None:
    zero = np.zeros((1, 7))
    with pytest.raises(UsageError, match="fo1"):
        inverse(ARM, TERMS, np.array([c.prior for c in TERMS.columns(ARM)]), zero, zero, zero)
