"""Fewest numbers with the same torque: base parameters in place of all ten of every body."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.model import ExportModel
from dynid.factor.base import random_states, structural_base
from dynid.kernel import inverse_dynamics
from dynid.rows.torque import TorqueRows
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia

# Relative error of the torque above which the full parameters are kept.
_EXACT = 1e-12


def reduced(model: ExportModel) -> tuple[Float, Float]:
    """Inertia (nb, 10) and rotors (n,) with the same torque for every motion, most of them zero.

    They belong to no physically consistent bodies; where regrouping would cost digits the model's own come back.
    """
    robot = model.robot
    base = structural_base(robot, RigidBody() + RotorInertia(), TorqueRows())
    theta = np.concatenate([model.inertia.ravel(), model.rotor])
    few = np.zeros(len(theta))
    few[base.independent] = base.reduce(theta)
    split = 10 * robot.n_bodies
    samples = random_states(robot, 64, 1)
    motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    wanted, found = (
        inverse_dynamics(robot.tree, one[:split], *motion) @ robot.projection + one[split:] * samples.ddq
        for one in (theta, few)
    )
    if np.abs(found - wanted).max() > _EXACT * np.abs(wanted).max():
        return model.inertia, model.rotor
    return few[:split].reshape(-1, 10), few[split:]
