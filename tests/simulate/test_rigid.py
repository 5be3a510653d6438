"""Simulated rigid robots obey the laws of mechanics."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.arrays import Float
from dynid.errors import SolverError, UsageError
from dynid.kernel import inverse_dynamics, mass_matrix, nonlinear_effects
from dynid.kernel.random import random_inertia, random_motion, random_tree
from dynid.robot import load_example
from dynid.robot.drive import Drive
from dynid.robot.model import JointType, Limits, RobotModel
from dynid.simulate.rigid import energy, equations_of_motion, forward, inverse, simulate
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia

ARM = load_example("arm7")
ROTOR = ARM.drive.reflected_rotor_inertia
TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()


def random_robot(seed: int, n: int) -> RobotModel:
    tree = random_tree(seed, n)
    names = tuple(f"j{i}" for i in range(n))
    T = np.tile(np.eye(4), (n, 1, 1))
    T[:, :3, :3], T[:, :3, 3] = tree.rotation, tree.translation
    return RobotModel(
        name="random", body_names=names, tree_joint_names=names, joint_names=names, parent=tree.parent,
        joint_types=tuple(JointType.PRISMATIC if p else JointType.REVOLUTE for p in tree.prismatic),
        T_parent_joint=T, axis=tree.axis, inertia_prior=random_inertia(seed, n), gravity=tree.gravity,
        limits=Limits.none(n), drive=Drive.direct(n), projection=np.eye(n), projection_offset=np.zeros(n),
        friction_prior=np.full((n, 2), np.nan),
    )  # fmt: skip


def coast(t: float, q: Float, dq: Float) -> Float:
    return np.zeros_like(q)


@pytest.mark.parametrize("seed", range(4))
def test_mass_matrix_and_bias_agree_with_the_recursive_algorithm(seed: int) -> None:
    robot = random_robot(seed, 5)
    rotor = np.random.default_rng(seed).uniform(0, 1, 5)
    q, dq, _ = random_motion(seed, 20, 5)
    M, h = equations_of_motion(robot, robot.inertia_prior, rotor, q, dq)
    np.testing.assert_allclose(
        M, mass_matrix(robot.tree, robot.inertia_prior, q) + np.diag(rotor), rtol=0, atol=1e-10
    )
    expected = nonlinear_effects(robot.tree, robot.inertia_prior, q, dq)
    np.testing.assert_allclose(h, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(4))
def test_inverse_undoes_forward(seed: int) -> None:
    robot = random_robot(seed, 6)
    rotor = np.full(6, 0.3)
    q, dq, tau = random_motion(seed, 50, 6)
    ddq = forward(robot, robot.inertia_prior, rotor, q, dq, 10 * tau)
    terms = RigidBody() + RotorInertia()
    theta = np.concatenate([robot.inertia_prior.ravel(), rotor])
    np.testing.assert_allclose(inverse(robot, terms, theta, q, dq, ddq), 10 * tau, rtol=1e-9, atol=1e-8)
    again = forward(robot, robot.inertia_prior, rotor, q, dq, inverse(robot, terms, theta, q, dq, ddq))
    np.testing.assert_allclose(again, ddq, rtol=1e-9, atol=1e-9 * np.abs(ddq).max())


def test_inverse_adds_what_every_term_says() -> None:
    q, dq, ddq = random_motion(0, 9000, 7)
    theta = np.array([c.prior if np.isfinite(c.prior) else 0.5 for c in TERMS.columns(ARM)])
    friction = dq * ARM.friction_prior[:, 0] + np.sign(dq) * ARM.friction_prior[:, 1] + 0.5
    expected = inverse_dynamics(ARM.tree, ARM.inertia_prior, q, dq, ddq) + ddq * ROTOR + friction
    np.testing.assert_allclose(
        inverse(ARM, TERMS, theta, q, dq, ddq), expected, rtol=0, atol=1e-10 * np.abs(expected).max()
    )


def test_energy_is_conserved_without_friction() -> None:
    q0 = np.array([0.3, 0.8, -0.4, 1.1, 0.2, -0.7, 0.5])
    run = simulate(ARM, ARM.inertia_prior, ROTOR, coast, q0, np.linspace(-1, 1, 7), 3.0, 2e-3)
    E = energy(ARM, ARM.inertia_prior, ROTOR, run.q, run.dq)
    assert np.ptp(run.q, axis=0).max() > 0.5
    assert np.abs(E - E[0]).max() < 1e-8 * np.abs(E[0])


def test_power_of_the_torque_is_the_rate_of_energy() -> None:
    def torque(t: float, q: Float, dq: Float) -> Float:
        return 20.0 * np.sin(3.0 * t + np.arange(7.0)) - 5.0 * dq

    run = simulate(ARM, ARM.inertia_prior, ROTOR, torque, np.full(7, 0.3), np.zeros(7), 1.0, 1e-3)
    E = energy(ARM, ARM.inertia_prior, ROTOR, run.q, run.dq)
    power = (run.tau * run.dq).sum(axis=1)
    h = run.t[1]
    work = h / 3 * (power[0] + power[-1] + 4 * power[1:-1:2].sum() + 2 * power[2:-1:2].sum())
    assert abs(E[-1] - E[0] - work) < 1e-7 * np.abs(E).max()


def test_a_pendulum_swings_with_its_known_period() -> None:
    one = random_robot(0, 1)
    changed = {key: getattr(one, key) for key in RobotModel.__dataclass_fields__}
    pendulum = RobotModel(**changed | {
        "joint_types": (JointType.REVOLUTE,), "T_parent_joint": np.eye(4)[None],
        "axis": np.array([[0.0, 1.0, 0.0]]),
        "gravity": np.array([0.0, 0.0, -9.81]),
        "inertia_prior": np.array([[2.0, 0.0, 0.0, -1.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.01]]),
    })  # fmt: skip
    rotor = np.array([0.25])
    omega = np.sqrt(1.0 * 9.81 / (0.5 + 0.25))
    run = simulate(pendulum, pendulum.inertia_prior, rotor, coast, np.array([1e-4]), np.zeros(1), 4.0, 2e-3)
    np.testing.assert_allclose(run.q[:, 0], 1e-4 * np.cos(omega * run.t), atol=1e-9)


def test_halving_the_step_divides_the_error_by_sixteen() -> None:
    def end(step: float) -> Float:
        return simulate(ARM, ARM.inertia_prior, ROTOR, coast, np.full(7, 0.5), np.zeros(7), 0.64, step).q[-1]

    exact = end(2.5e-3)
    ratio = np.linalg.norm(end(4e-2) - exact) / np.linalg.norm(end(2e-2) - exact)
    assert 11 < ratio < 23


def test_nonsense_is_refused() -> None:
    zero = np.zeros(7)
    with pytest.raises(UsageError, match="step"):
        simulate(ARM, ARM.inertia_prior, ROTOR, coast, zero, zero, 1.0, 0.0)
    with pytest.raises(SolverError, match="singular"):
        forward(ARM, np.zeros((7, 10)), zero, zero[None], zero[None], zero[None])
    with pytest.raises(UsageError, match="fo1"):
        inverse(
            ARM, TERMS, np.array([c.prior for c in TERMS.columns(ARM)]), zero[None], zero[None], zero[None]
        )

    def runaway(t: float, q: Float, dq: Float) -> Float:
        return np.full(7, np.inf if t > 0.01 else 0.0)

    with pytest.raises(SolverError, match="diverged"):
        simulate(ARM, ARM.inertia_prior, ROTOR, runaway, zero, zero, 0.1)
