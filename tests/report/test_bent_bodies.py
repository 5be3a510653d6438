"""What hangs on bodies that a fit has bent is no better known than they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynid
from dynid.run import joint_values
from dynid.simulation import rigid_torque
from dynid.terms import Coulomb, RigidBody, RotorInertia, Viscous
from dynid.testing import small_arm
from dynid.trajectories import FourierTrajectory

ROTORS = np.array([0.6, 0.5, 0.2])


@pytest.mark.parametrize("balanced", [0.0, 0.7])
def test_a_rotor_is_in_its_interval_where_a_counterbalance_bends_the_links(balanced: float) -> None:
    """A rotor of the first joint is what the links leave of the inertia about it.

    A spring that the model lacks shows as links of other masses: their description says nothing of that inertia then.
    """
    arm = small_arm()
    t = np.arange(0.0, 40.0, 0.01)
    q, dq, ddq = FourierTrajectory.random(arm, 40.0, 5, 3, 0.1).motion(t)
    rest = np.zeros_like(q)
    weight = rigid_torque(arm, arm.inertia_prior, q, rest, rest)
    tau = rigid_torque(arm, arm.inertia_prior, q, dq, ddq) + ROTORS * ddq + dq + np.tanh(dq / 0.02)
    tau[:, 1] -= balanced * np.abs(weight[:, 1]).max() * np.cos(q[:, 1])
    tau += 0.01 * tau.std(axis=0) * np.random.default_rng(5).normal(size=tau.shape)
    settings = dynid.Settings(terms=RigidBody() + RotorInertia() + Viscous() + Coulomb())
    result = dynid.identify(replace(arm, source="arm"), dynid.Log.from_arrays(arm, t, q, tau), settings)
    rotors = [value for value in joint_values(result) if value.column.name.startswith("Ia")]
    inside = [not abs(value.value - true) > value.half for value, true in zip(rotors, ROTORS, strict=True)]
    assert all(inside) or "mass-not-said" in {finding.code for finding in result.verdict.findings}
    assert all(inside) or balanced
