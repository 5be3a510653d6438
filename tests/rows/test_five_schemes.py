"""Chavez-Olivares et al. 2012, acceptance 1, for any robot: forms of momentum and energy against pinocchio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.robot import JointType, RobotModel, load_example
from dynid.signals import Samples
from dynid.terms import RigidBody, Terms
from dynid.testing import random_inertia, random_robot
from tests.kernel.conftest import Oracle

RIGID = Terms((RigidBody(),))
STEP = 1e-5


def tree_prrp() -> RobotModel:
    """Prismatic, two revolute, prismatic, with a branch."""
    robot = random_robot(7, 4, 0.0)
    p, r = JointType.PRISMATIC, JointType.REVOLUTE
    return replace(robot, joint_types=(p, r, r, p), parent=np.array([-1, 0, 0, 2]))


ROBOTS = {
    "panda": load_example("panda"),
    "ur5e": load_example("ur5e"),
    "ur5e tilted": replace(load_example("ur5e"), gravity=np.array([3.0, 2.0, -9.0])),
    "prrp tree": tree_prrp(),
}


@pytest.fixture(params=ROBOTS)
def robot(request: pytest.FixtureRequest) -> RobotModel:
    return ROBOTS[request.param]


@pytest.fixture
def states(robot: RobotModel) -> Samples:
    rng = np.random.default_rng(0)
    return Samples.from_motion(*(rng.uniform(-2, 2, (40, robot.n)) for _ in range(3)))


def test_momentum_energy_and_force_are_those_of_the_bodies(robot: RobotModel, states: Samples) -> None:
    inertia = random_inertia(1, robot.n_bodies)
    pi, oracle = inertia.ravel(), Oracle.of(robot.tree)
    every = np.ones(len(pi), dtype=np.bool_)
    P, R = (form.dense(len(pi)) @ pi for form in RIGID.momentum_form(robot, states, every))
    M = oracle.mass_matrix(inertia, states.q)
    momentum = np.einsum("tij,tj->ti", M, states.dq)
    kinetic, potential = oracle.energies(states.q, states.dq)
    energy = pi @ (kinetic + potential)
    force = oracle.momentum_rate(inertia, states.q, states.dq)
    stored = pi @ RIGID.energy_form(robot, states, every)[0]
    # The zero of potential energy is free.
    for ours, wanted in ((P, momentum), (R, force), (stored - stored[0], energy - energy[0])):
        assert np.abs(ours - wanted).max() < 1e-12 * max(np.abs(wanted).max(), 1.0)


def test_rates_of_the_forms_are_the_torque(robot: RobotModel, states: Samples) -> None:
    p = 10 * robot.n_bodies
    every = np.ones(p, dtype=np.bool_)
    momentum, stored = [], []
    for d in (-STEP, STEP):
        q = states.q + d * states.dq + 0.5 * d * d * states.ddq
        at = Samples.from_motion(q, states.dq + d * states.ddq, states.ddq)
        momentum.append(RIGID.momentum_form(robot, at, every)[0].dense(p))
        stored.append(RIGID.energy_form(robot, at, every)[0])
    Y = RIGID.torque_regressor(robot, states, every).dense(p)
    R = RIGID.momentum_form(robot, states, every)[1].dense(p)
    assert np.abs((momentum[1] - momentum[0]) / (2 * STEP) + R - Y).max() < 1e-7 * np.abs(Y).max()
    power = np.einsum("tnp,tn->pt", Y, states.dq)
    assert np.abs((stored[1] - stored[0]) / (2 * STEP) - power).max() < 1e-7 * np.abs(power).max()
