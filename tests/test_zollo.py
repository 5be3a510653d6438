"""Zollo et al. 2014: laws, misprints and ranks of elastic joints, against a Lagrangian by complex steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from dynid.factor import structural_base
from dynid.rows import ElasticRows
from dynid.signals import Samples
from dynid.terms import SpinningRotor
from tests.elastic_arms import (
    Arm,
    cross,
    elastic_samples,
    matrix,
    obeying,
    planar,
    puma,
    random_parameters,
    states,
)

ARMS = {"planar": planar, "puma": puma}


def conservative(arm: Arm) -> np.ndarray:
    """The arm's parameters without friction."""
    theta = arm.theta()
    theta[11 * arm.n : 13 * arm.n] = 0.0
    return theta


def velocities(samples: Samples) -> np.ndarray:
    return np.hstack([samples.dq, samples.dtheta])


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("seed", range(3))
def test_equations_are_those_of_the_lagrangian(name: str, seed: int) -> None:
    arm = random_parameters(ARMS[name](), seed)
    samples = states(arm, seed=seed)
    pushes = np.hstack([samples.ddq, samples.ddtheta])
    wanted = [
        arm.lagrangian_torque(q, theta, v, a)
        for q, theta, v, a in zip(samples.q, samples.theta, velocities(samples), pushes, strict=True)
    ]
    assert relative(matrix(arm, samples) @ conservative(arm), np.array(wanted)) < 1e-12


@pytest.mark.parametrize("name", ARMS)
def test_without_rotors_and_deflection_the_links_are_pinocchio_s(name: str) -> None:
    arm = random_parameters(ARMS[name](), 5)
    arm = replace(arm, Y=np.zeros(arm.n))
    samples = states(arm)
    stiff = replace(samples, theta=samples.q)
    model = pin.Model()
    robot = arm.robot
    for i in range(robot.n_bodies):
        place = pin.SE3(robot.T_parent_joint[i, :3, :3], robot.T_parent_joint[i, :3, 3])
        joint = model.addJoint(i, pin.JointModelRevoluteUnaligned(robot.axis[i]), place, f"j{i}")
        # Numbers that are no body's: pinocchio's regressor takes them, its inertias would not.
        assert joint == i + 1
    model.gravity.linear = robot.gravity
    data = model.createData()
    pi = arm.bodies().ravel()
    wanted = [
        pin.computeJointTorqueRegressor(model, data, q, dq, ddq) @ pi
        for q, dq, ddq in zip(samples.q, samples.dq, samples.ddq, strict=True)
    ]
    assert relative((matrix(arm, stiff) @ conservative(arm))[:, : arm.n], np.array(wanted)) < 1e-12


def mass_matrices(arm: Arm, q: np.ndarray) -> np.ndarray:
    """B(q) by the equations of unit accelerations, (T, 2n, 2n)."""
    n, zero = arm.n, np.zeros((len(q), 2 * arm.n))
    weightless = replace(arm, robot=replace(arm.robot, gravity=np.zeros(3)))
    columns = []
    for unit in np.eye(2 * n):
        samples = elastic_samples(q, q, zero, zero + unit)
        columns.append(matrix(weightless, samples) @ conservative(arm))
    return np.stack(columns, axis=2)


@pytest.mark.parametrize("name", ARMS)
def test_mass_matrix_is_symmetric_and_positive_with_the_rotors_in_the_links(name: str) -> None:
    arm = ARMS[name]()
    rng = np.random.default_rng(1)
    q = rng.uniform(-3, 3, (6, arm.n))
    B = mass_matrices(arm, q)
    v = rng.normal(size=2 * arm.n)
    for one, matrix_of_one in zip(q, B, strict=True):
        assert 0.5 * v @ matrix_of_one @ v == pytest.approx(arm.kinetic(one, v), rel=1e-12)
    assert relative(B, B.transpose(0, 2, 1)) < 1e-12
    assert relative(B, np.array([arm.mass_matrix(one) for one in q])) < 1e-12
    if name == "planar":
        assert np.linalg.eigvalsh(B).min() > 0


def test_without_the_rotor_in_link_1_the_mass_matrix_is_indefinite() -> None:
    arm = planar()
    assert arm.I[0, 2] == pytest.approx(13.8167, abs=1e-4)
    I = np.array(arm.I)
    I[0, 2] -= arm.Y[1]
    assert I[0, 2] == pytest.approx(1.7167, abs=1e-4)
    left_out = replace(arm, I=I)
    q = np.random.default_rng(1).uniform(-3, 3, (40, 2))
    assert np.linalg.eigvalsh(mass_matrices(left_out, q)).min() < -0.3


@pytest.mark.parametrize("name", ARMS)
def test_coriolis_matrix_with_its_missing_half(name: str) -> None:
    arm = random_parameters(ARMS[name](), 3)
    samples = states(arm, 5)
    still = elastic_samples(samples.q, samples.q, velocities(samples), np.zeros((5, 2 * arm.n)))
    weightless = replace(arm, robot=replace(arm.robot, gravity=np.zeros(3)))
    ours = matrix(weightless, still) @ conservative(arm)
    printed_errors = []
    for q, v, wanted in zip(samples.q, velocities(samples), ours, strict=True):
        H = arm.mass_slopes(q)
        C, rate = arm.coriolis(H, v), sum(v[k] * h for k, h in enumerate(H))
        N = rate - 2 * C
        assert np.abs(N + N.T).max() < 1e-12 * np.abs(N).max()
        assert relative(C @ v, wanted) < 1e-12
        printed = arm.coriolis(H, v, half=1.0)
        skew = rate - 2 * printed
        assert np.abs(skew + skew.T).max() > 0.1 * np.abs(skew).max()
        printed_errors.append(np.linalg.norm(printed @ v - wanted) / np.linalg.norm(wanted))
    assert np.median(printed_errors) > 0.3


def test_stiffness_needs_the_half_of_the_elastic_energy() -> None:
    # Printed as sum K (q - theta)^2 the energy's slope is 2 K (q - theta): the K of eq. 6 would come out halved.
    arm = replace(planar(), m=np.zeros(2), c=np.zeros((2, 3)))
    q, theta = np.array([0.3, -0.2]), np.array([0.1, 0.1])
    step = 1e-30j * np.eye(2)
    slope = np.array([arm.potential(q + e, theta).imag for e in step]) / 1e-30
    np.testing.assert_allclose(slope, arm.K * (q - theta), rtol=1e-12)


def test_first_moment_block_of_eq_25() -> None:
    arm = puma()
    rng = np.random.default_rng(4)
    errors = []
    for _ in range(12):
        q, v, k = rng.uniform(-3, 3, 6), rng.normal(0, 2, 6), int(rng.integers(0, 6))
        JP, JO, R = arm.jacobians(q)
        AP, AO = ([x.imag / 1e-30 for x in J] for J in arm.jacobians(q + 1e-30j * np.eye(6)[k])[:2])
        c = rng.normal(size=3)

        def block(at: np.ndarray, v: np.ndarray = v, c: np.ndarray = c) -> np.ndarray:
            P, O, turn = (x[6] for x in arm.jacobians(at))
            return (P.T @ cross(O @ v) - O.T @ cross(P @ v)) @ turn @ c

        wanted = block(q + 1e-30j * np.eye(6)[k]).imag / 1e-30
        P, O, A, D, z = JP[6], JO[6], AP[6], AO[6], JO[6][:, k]
        same = A.T @ cross(O @ v) + P.T @ cross(D @ v) + P.T @ cross(O @ v) @ cross(z) - D.T @ cross(P @ v)
        right = same - O.T @ cross(A @ v) - O.T @ cross(P @ v) @ cross(z)
        np.testing.assert_allclose(right @ R[6] @ c, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
        printed = A.T @ cross(O @ v) + P.T @ cross(D @ v) + P.T @ cross(O @ v) - D.T @ cross(P @ v)
        printed = printed - O.T @ cross(D @ v) - O.T @ cross(P @ v) @ cross(z)
        errors.append(np.linalg.norm(printed @ R[6] @ c - wanted) / np.linalg.norm(wanted))
    assert np.median(errors) > 0.3


@pytest.mark.parametrize("name", ARMS)
def test_power_balance_with_friction(name: str) -> None:
    arm = ARMS[name]()
    samples = states(arm, 6)
    torque = matrix(arm, samples) @ arm.theta()
    pushes = np.hstack([samples.ddq, samples.ddtheta])
    for q, theta, v, a, tau in zip(
        samples.q, samples.theta, velocities(samples), pushes, torque, strict=True
    ):
        h, n = 1e-30, arm.n
        moved = arm.kinetic(q + 1j * h * v[:n], v + 1j * h * a)
        moved += arm.potential(q + 1j * h * v[:n], theta + 1j * h * v[n:])
        lost = arm.fv @ v[n:] ** 2 + arm.fs @ np.abs(v[n:])
        assert abs(v @ tau - moved.imag / h - lost) < 1e-12 * np.abs(v * tau).sum()


def test_equations_are_linear_in_the_parameters() -> None:
    arm = puma()
    samples = states(arm)
    W = matrix(arm, samples)
    a, b = (random_parameters(arm, seed) for seed in (1, 2))
    same = replace(b, z_m=a.z_m)
    mixed = replace(
        same, m=2 * a.m - 3 * same.m, c=2 * a.c - 3 * same.c, I=2 * a.I - 3 * same.I, Y=2 * a.Y - 3 * same.Y,
        K=2 * a.K - 3 * same.K,
    )  # fmt: skip
    W = matrix(a, samples)
    found, wanted = W @ conservative(mixed), 2 * W @ conservative(a) - 3 * W @ conservative(same)
    assert relative(found, wanted) < 1e-13


def test_any_axis_of_a_motor_on_the_base_is_the_same() -> None:
    arm = planar()
    axes = arm.carriers()
    other = SpinningRotor(((1.0, 0.0, 0.0), axes[1]))
    samples, every = states(arm), np.ones(2, dtype=np.bool_)
    a, b = (
        term.torque_regressor(arm.robot, samples, every).dense(2) for term in (SpinningRotor(axes), other)
    )
    np.testing.assert_array_equal(a, b)


# Ranks.


@pytest.mark.parametrize("form", ["total", "link"])
@pytest.mark.parametrize("coupled", [True, False])
def test_rank_of_the_planar_arm(coupled: bool, form: str) -> None:
    arm = planar()
    base = structural_base(arm.robot, arm.terms(coupled), ElasticRows(form=form))
    assert base.rank == 14


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize(
    ("gravity", "rank"), [((0, 0, -9.81), 60), ((0, -9.81, 0), 62), ((3.0, 0, -9.0), 62), ((0, 0, 0), 58)]
)
def test_ranks_of_the_puma(gravity: tuple[float, ...], rank: int, coupled: bool) -> None:
    arm = puma()
    robot = replace(arm.robot, gravity=np.array(gravity, dtype=np.float64))
    assert structural_base(robot, arm.terms(coupled), ElasticRows()).rank == rank


@pytest.mark.parametrize("seed", range(2))
def test_rank_of_the_puma_for_any_motor_axis_and_ratio(seed: int) -> None:
    arm = puma(seed + 1)
    ratio = np.diag(np.random.default_rng(seed).uniform(-150, 150, 6))
    robot = replace(arm.robot, drive=replace(arm.robot.drive, transmission=ratio))
    assert structural_base(robot, arm.terms(), ElasticRows()).rank == 60


def test_link_equations_alone_lose_one_more_rank() -> None:
    arm = planar()
    base = structural_base(arm.robot, arm.terms(), ElasticRows())
    samples = states(arm, 80)
    W = matrix(arm, samples)
    of_links = W[:, :2].reshape(-1, W.shape[2])[:, base.independent]
    # Friction acts on the motors: four columns less, and Y_1 turns no link.
    seen = np.abs(of_links).max(axis=0) > 0
    size = np.linalg.norm(of_links[:, seen], axis=0)
    both = W.reshape(-1, W.shape[2])[:, base.independent][:, seen]
    assert np.linalg.matrix_rank(both / np.linalg.norm(both, axis=0), 1e-9) == seen.sum()
    # With motion that obeys them the parameters themselves are the null vector.
    exact = obeying(arm, samples)
    links = matrix(arm, exact)[:, :2].reshape(-1, W.shape[2])
    theta = arm.theta()
    assert np.abs(links @ theta).max() < 1e-9 * np.abs(links * theta).max()
    reduced = links[:, base.independent][:, seen]
    assert np.linalg.matrix_rank(reduced / size, 1e-9) == seen.sum() - 1
