"""Coupled joints and springs, Nini et al. 2024 as corrected: invariants, ranks, misprints and figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dynid_studies.nini_arm import (
    FRICTION,
    GEOMETRY,
    MODEL,
    MOTOR_SIDE,
    PRELOAD,
    SPRINGS,
    STIFFNESS,
    arm,
    at_rest,
    motion,
    static_grid,
    truth,
    with_noise,
)
from dynid_studies.nini_rotors import CARRIERS

from dynid.base import Float
from dynid.estimate import WLS
from dynid.factor import structural_base
from dynid.identification import Settings, identify
from dynid.kernel import torque_regressor
from dynid.log import Log
from dynid.robot import Mounting, RobotModel
from dynid.rows import MotorRows, TorqueRows
from dynid.signals import Preparation, Samples
from dynid.simulation import Coupling, Plant, State
from dynid.spatial import placement, rotation_about, skew, transformed
from dynid.terms import MotorInertia, OnMotor, Points, RigidBody, SpinningRotor, Spring, Terms, Viscous
from dynid.verbs import static_base

pytestmark = pytest.mark.usefixtures("unexamined")

OUTER = Terms((OnMotor(Viscous()), SPRINGS))
DH = (
    (0.20, np.pi / 2, 0.75),
    (1.10, 0, 0),
    (0.15, np.pi / 2, 0),
    (0, -np.pi / 2, 1.20),
    (0, np.pi / 2, 0),
    (0, 0, 0.2),
)


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    return arm()


# --- the model -------------------------------------------------------------------------------------------------------


def inertia_map(v: Float) -> Float:
    """L(v) with I v = L(v) (xx, xy, yy, xz, yz, zz)."""
    x, y, z = v
    return np.array([[x, y, 0, z, 0, 0], [0, x, y, 0, z, 0], [0, 0, 0, x, y, z]])


def block_regressor(q: Float, dq: Float, ddq: Float, gravity: Float) -> Float:
    """The paper's Y = Tr_tot K_tot (n, 10 n), eqs 5 to 14 as corrected, in standard DH frames."""
    n = len(q)
    w, dw, a = np.zeros(3), np.zeros(3), -gravity
    rotations, arms, blocks, rows = [], [], [], []
    z = np.array([0.0, 0.0, 1.0])
    for i, (length, alpha, offset) in enumerate(DH):
        R = rotation_about(z, q[i]) @ rotation_about(np.array([1.0, 0, 0]), alpha)
        r = np.array([length, offset * np.sin(alpha), offset * np.cos(alpha)])
        dw = R.T @ (dw + ddq[i] * z + np.cross(w, dq[i] * z))
        w = R.T @ (w + dq[i] * z)
        a = R.T @ a + np.cross(dw, r) + np.cross(w, np.cross(w, r))
        turning = skew(dw) + skew(w) @ skew(w)
        K = np.zeros((6, 10))
        K[:3, 0], K[:3, 1:4] = a, turning
        K[3:, 0] = skew(r) @ a
        K[3:, 1:4] = skew(r) @ turning - skew(a)
        K[3:, 4:] = inertia_map(dw) + skew(w) @ inertia_map(w)
        rotations.append(R)
        arms.append(r)
        blocks.append(K)
        rows.append(np.concatenate([np.zeros(3), R.T @ z]))
    Y = np.zeros((n, 10 * n))
    for j in range(n):
        carried = blocks[j]
        for i in range(j, -1, -1):
            Y[i, 10 * j : 10 * j + 10] = rows[i] @ carried
            # D_i, eq. 5, brings force and moment of link i to link i - 1.
            D = np.zeros((6, 6))
            D[:3, :3] = D[3:, 3:] = rotations[i]
            if i > 0:
                D[3:, :3] = skew(arms[i - 1]) @ rotations[i]
                carried = D @ carried
    return Y


def test_the_block_regressor_is_the_jacobian_regressor(robot: RobotModel) -> None:
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(0, 1.5, (3, 20, 6))
    ours = torque_regressor(robot.tree, q, dq, ddq).dense(60)
    bodies = rng.normal(0, 1, (6, 10))
    frames = [
        placement(rotation_about(np.array([1.0, 0, 0]), alpha), np.array([a, 0.0, d])) for a, alpha, d in DH
    ]
    about_joints = np.concatenate([transformed(body, T) for body, T in zip(bodies, frames, strict=True)])
    for k in range(20):
        printed = block_regressor(q[k], dq[k], ddq[k], robot.gravity) @ bodies.ravel()
        expected = ours[k] @ about_joints
        np.testing.assert_allclose(printed, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_power_is_the_same_on_both_sides(robot: RobotModel) -> None:
    rng = np.random.default_rng(1)
    q, dq, tau = rng.normal(0, 1, (3, 50, 6))
    joint = (dq * robot.drive.joint_torque(q, tau)).sum(axis=1)
    motor = (robot.drive.motor_motion(q, dq, dq)[1] * tau).sum(axis=1)
    np.testing.assert_allclose(joint, motor, rtol=0, atol=1e-12 * np.abs(joint).max())


def test_transmission_of_joint_torque_is_the_transpose_and_rotors_couple_joints(robot: RobotModel) -> None:
    N, inertia = robot.drive.transmission, robot.drive.rotor_inertia
    assert N[2, 1] == N[2, 2] == 150.0
    assert N[4, 3] == N[4, 4] == 80.0
    M = N.T @ np.diag(inertia) @ N
    assert np.abs(M - M.T).max() < 1e-12
    assert np.linalg.eigvalsh(M)[0] > 0
    term = MotorInertia()
    ddq = np.random.default_rng(2).normal(0, 1, (10, 6))
    tau = Terms((term,)).torque(robot, Samples.from_motion(ddq, ddq, ddq), inertia)
    np.testing.assert_allclose(tau, ddq @ M, rtol=1e-12)
    # K_r^2 I_m as printed is not even symmetric, and holds for a diagonal N alone.
    printed = N.T @ N.T @ np.diag(inertia)
    assert np.abs(printed - printed.T).max() > 1.0
    plain = np.diag(np.diag(N))
    np.testing.assert_allclose(plain.T @ plain.T @ np.diag(inertia), plain.T @ np.diag(inertia) @ plain)


def test_spring_columns_are_the_slope_of_the_energy(robot: RobotModel) -> None:
    q, h = static_grid(robot, 40), 1e-5
    for spring in (SPRINGS, Spring(Points(("j1_link", "j3_link"), ((0.1, 0.4, 0.1), (0.2, 0.1, 0.1))))):
        torque = Terms((spring,)).torque(robot, at_rest(q), np.array([STIFFNESS, PRELOAD]))
        for j in range(6):
            step = h * np.eye(6)[j]
            slope = (energy(spring, robot, q + step) - energy(spring, robot, q - step)) / (2 * h)
            np.testing.assert_allclose(torque[:, j], slope, rtol=0, atol=1e-7 * STIFFNESS)


def energy(spring: Spring, robot: RobotModel, q: Float) -> Float:
    length, _ = spring.geometry.length(robot, q)
    return 0.5 * STIFFNESS * length**2 + PRELOAD * length


def test_the_printed_lever_arms_of_the_spring(robot: RobotModel) -> None:
    q = static_grid(robot, 20)
    d, rho, phi = GEOMETRY.anchor, GEOMETRY.crank, q[:, 1] + GEOMETRY.angle
    length = np.sqrt(d**2 + rho**2 - 2 * d * rho * np.cos(phi))
    Y = SPRINGS.torque_regressor(robot, at_rest(q), np.ones(2, dtype=np.bool_)).dense(2)
    np.testing.assert_allclose(Y[:, 1, 0], d * rho * np.sin(phi), rtol=1e-12)
    np.testing.assert_allclose(Y[:, 1, 1], d * rho * np.sin(phi) / length, rtol=1e-12)


# --- ranks -----------------------------------------------------------------------------------------------------------


def rank(robot: RobotModel, terms: Terms) -> int:
    found = structural_base(robot, terms, TorqueRows())
    assert found.gap > 1e6
    return found.rank


def test_static_ranks() -> None:
    robot = arm(coupled=False)
    assert static_base(robot, Terms((RigidBody(),))).rank == 10
    assert static_base(robot, RigidBody() + Spring(GEOMETRY, free_length=0.0)).rank == 10  # k alone: l dl/dq
    assert static_base(robot, RigidBody() + SPRINGS).rank == 11
    assert without_stiffness(robot) == 11  # c alone
    over_two = Spring(Points(("j1_link", "j3_link"), ((0.1, 0.4, 0.1), (0.2, 0.1, 0.1))))
    assert static_base(robot, RigidBody() + over_two).rank == 12


def without_stiffness(robot: RobotModel) -> int:
    poses = at_rest(static_grid(robot, 200))
    Y = (RigidBody() + SPRINGS).torque_regressor(robot, poses).dense(62)
    W = Y.reshape(-1, 62)[:, [*range(60), 61]]
    return numeric_rank(W)


def numeric_rank(W: Float) -> int:
    size = np.linalg.norm(W, axis=0)
    seen = size > 1e-10 * size.max()
    s = np.linalg.svd(W[:, seen] / size[seen], compute_uv=False)
    return int((s > 1e-9 * s[0]).sum())


def test_dynamic_ranks(robot: RobotModel) -> None:
    diagonal = arm(coupled=False)
    assert rank(diagonal, Terms((RigidBody(),))) == 36
    assert rank(diagonal, RigidBody() + MOTOR_SIDE) == 52
    assert rank(robot, RigidBody() + MOTOR_SIDE) == 51
    assert rank(robot, MODEL) == 53
    assert rank(robot, RigidBody() + MOTOR_SIDE + FRICTION) == 51 + 4


def test_rank_of_the_dynamic_step_given_the_static_one(robot: RobotModel) -> None:
    for one, wanted in ((arm(coupled=False), 42), (robot, 41)):
        terms = RigidBody() + MOTOR_SIDE
        _, samples = motion(one, 400)
        Y = terms.torque_regressor(one, samples).dense(78)
        inertia = [10 * body + k for body in range(6) for k in range(4, 10)]
        left = Y.reshape(-1, 78)[:, [*inertia, *range(60, 78)]]
        assert left.shape[1] == 54
        assert numeric_rank(left) == wanted
        assert numeric_rank(Y.reshape(-1, 78)[:, inertia]) == 26


def test_stiffness_is_separable_only_with_an_offset_shoulder(robot: RobotModel) -> None:
    T = np.array(robot.T_parent_joint)
    T[1, :3, 3] = [0.0, 0.0, 0.75]
    assert rank(replace(robot, T_parent_joint=T), MODEL) < rank(robot, MODEL)


def test_of_identical_springs_only_the_sums_can_be_determined(robot: RobotModel) -> None:
    second = replace(SPRINGS, label="second")
    assert rank(robot, MODEL + second) == rank(robot, MODEL)
    base = structural_base(robot, MODEL + second, TorqueRows())
    formulas = dict(zip(base.formulas(), base.B, strict=True))
    assert "k_springs + k_second" in formulas
    assert "c_springs + c_second" in formulas


def test_crank_and_coupler_add_three_dynamic_parameters_and_no_static_one() -> None:
    bars, plain = arm(bars=True), arm()
    assert bars.n == 6
    assert bars.n_bodies == 8
    assert rank(bars, RigidBody() + MOTOR_SIDE) == rank(plain, RigidBody() + MOTOR_SIDE) + 3
    assert static_base(bars, Terms((RigidBody(),))).rank == static_base(plain, Terms((RigidBody(),))).rank


# --- rotors that links carry, equation (33) --------------------------------------------------------------------------


def simulated(robot: RobotModel, noise: float, seed: int) -> dict[str, Float]:
    """Arrays of a log: rotors are bodies of the simulated tree, which knows no gyroscopic term."""
    plant = Plant(robot, coupling=Coupling.FULL, mounting=Mounting.of(robot, CARRIERS))
    t, clean = motion(robot, 30_000, seed, seconds=30.0)
    tau = plant.drive_torque(State(clean.q, clean.dq, clean.q, clean.dq), clean.ddq)
    tau += OUTER.torque(robot, clean, truth(robot, OUTER))
    noisy = with_noise(robot, clean.q, tau, noise, seed)
    return {"t": t, "q": clean.q, "dq": clean.dq, "tau": robot.drive.motor_torque(clean.q, noisy)}


def test_rotors_that_links_carry_are_identified_from_a_log(robot: RobotModel) -> None:
    terms = RigidBody() + SpinningRotor(carriers=CARRIERS) + OUTER
    model = Settings(terms=terms, rows=MotorRows(), estimator=WLS(), preparation=Preparation(cutoff=20.0))
    for noise in (0.0, 0.02):
        found = identify(robot, Log.from_arrays(robot, **simulated(robot, noise, 3), name="motion"), model)
        estimate = found.estimate
        true = estimate.base.reduce(truth(robot, terms))
        if noise == 0.0:
            assert np.linalg.norm(estimate.value - true) < 1e-6 * np.linalg.norm(true)
            rotors = [i for i, name in enumerate(estimate.names) if name.startswith("Ia")]
            assert np.abs(estimate.value / true - 1.0)[rotors].max() < 1e-6
        else:
            assert (np.abs(estimate.value - true) <= estimate.half_width()).mean() > 0.9
