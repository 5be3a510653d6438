"""Coupled joints and springs, Nini et al. 2024 as corrected: invariants, ranks, misprints and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dynid.arrays import Float
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.least_squares import OLS, WLS
from dynid.factor.base import structural_base
from dynid.kernel import torque_regressor
from dynid.robot.model import RobotModel
from dynid.rows.motor import MotorRows
from dynid.rows.torque import TorqueRows
from dynid.signals.samples import Samples
from dynid.spatial.algebra import placement, rotation_about, skew
from dynid.spatial.inertia import pseudo_inertia, transformed
from dynid.statics import StaticEstimate, identify_statics, static_base
from dynid.terms import Coulomb, MotorInertia, Points, RigidBody, Spring, Terms, Viscous
from tests.painting_arm import (
    FRICTION,
    GEOMETRY,
    MODEL,
    MOTOR_SIDE,
    PRELOAD,
    SPRINGS,
    STIFFNESS,
    arm,
    at_rest,
    known_poses,
    motion,
    regression,
    static_grid,
    truth,
    with_noise,
)

DH = (
    (0.20, np.pi / 2, 0.75),
    (1.10, 0, 0),
    (0.15, np.pi / 2, 0),
    (0, -np.pi / 2, 1.20),
    (0, np.pi / 2, 0),
    (0, 0, 0.2),
)
# Ten times fewer samples of a noise smaller by the root of ten hold the same information as the spec's.
DOSE, NOISE = 7000, 0.05 / np.sqrt(10.0)


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


def test_of_identical_springs_only_the_sums_can_be_told(robot: RobotModel) -> None:
    second = replace(SPRINGS, label="second")
    assert rank(robot, MODEL + second) == rank(robot, MODEL)
    base = structural_base(robot, MODEL + second, TorqueRows())
    formulas = dict(zip(base.formulas(), base.B, strict=True))
    assert "k_springs + k_second" in formulas
    assert "c_springs + c_second" in formulas


def test_crank_and_coupler_add_three_dynamic_parameters_and_no_static_one(tmp_path: Path) -> None:
    bars, plain = arm(bars=True, folder=tmp_path), arm()
    assert bars.n == 6
    assert bars.n_bodies == 8
    assert rank(bars, RigidBody() + MOTOR_SIDE) == rank(plain, RigidBody() + MOTOR_SIDE) + 3
    assert static_base(bars, Terms((RigidBody(),))).rank == static_base(plain, Terms((RigidBody(),))).rank


# --- without noise ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact(robot: RobotModel) -> tuple[Regression, StaticEstimate, list[Samples]]:
    theta = truth(robot)
    motions = [motion(robot, 2000, seed)[1] for seed in range(2)]
    motions = [replace(s, tau=MODEL.torque(robot, s, theta)) for s in motions]
    q = static_grid(robot, 200)
    poses = known_poses(q, MODEL.torque(robot, at_rest(q), theta))
    return regression(robot, MODEL, TorqueRows(), motions), identify_statics(robot, poses, MODEL), motions


def missed(robot: RobotModel, terms: Terms, theta: Float, motions: list[Samples]) -> Float:
    """Standard deviation of the torque error by joint."""
    error = np.concatenate([terms.torque(robot, s, theta) - s.tau for s in motions])
    return error.std(axis=0)


def test_two_step_and_one_shot_are_exact_without_noise(
    robot: RobotModel, exact: tuple[Regression, StaticEstimate, list[Samples]]
) -> None:
    dynamic, static, motions = exact
    assert static.structural.rank == static.estimate.base.rank == 11
    for estimator in (static.given(), static.joined(), WLS()):
        found = estimator.fit(dynamic)
        error = np.concatenate([MODEL.torque(robot, s, found.full_vector) - s.tau for s in motions])
        assert np.sqrt(np.mean(error**2, axis=0)).max() < 1e-4
        np.testing.assert_allclose(
            found.value, dynamic.base.reduce(truth(robot)), rtol=1e-6, atol=1e-5 * np.abs(found.value).max()
        )


def test_a_wrong_stiffness_is_invisible_at_rest_and_costs_in_motion(
    robot: RobotModel, exact: tuple[Regression, StaticEstimate, list[Samples]]
) -> None:
    _, static, motions = exact
    wrong = truth(robot)
    columns = [column.name for column in MODEL.columns(robot)]
    wrong[columns.index("k_springs")] *= 1.1
    # Gravity parameters that make up for it at rest: the same static base parameters.
    base = static.structural
    made_up = base.lift(
        base.reduce(truth(robot)), prior=wrong, spread=np.where(np.arange(len(wrong)) < 60, 1.0, 1e-9)
    )
    assert made_up[columns.index("k_springs")] == pytest.approx(1.1 * STIFFNESS, rel=1e-9)
    q = static_grid(robot, 100, seed=1)
    before, after = (MODEL.torque(robot, at_rest(q), theta) for theta in (truth(robot), made_up))
    assert np.abs(before - after).max() < 1e-5
    cost = missed(robot, MODEL, made_up, motions)
    assert cost[0] > 0.3
    assert cost[1] > 0.3


def fitted(robot: RobotModel, terms: Terms, motions: list[Samples]) -> Float:
    found = OLS().fit(regression(robot, terms, TorqueRows(), motions))
    return missed(robot, terms, found.full_vector, motions)


def test_what_model_errors_cost(robot: RobotModel, tmp_path: Path) -> None:
    motions = [motion(robot, 2000, seed)[1] for seed in range(2)]
    theta = truth(robot)
    motions = [replace(s, tau=MODEL.torque(robot, s, theta)) for s in motions]
    assert fitted(robot, MODEL, motions).max() < 1e-6
    joint_side = RigidBody() + MotorInertia() + Viscous() + Coulomb() + SPRINGS
    cost = fitted(robot, joint_side, motions)
    assert (cost[1:5] > 1.0).all()
    uncoupled_rotors = fitted(
        arm(coupled=False), RigidBody() + MotorInertia() + SPRINGS, motions_of_rotors(robot)
    )
    assert (uncoupled_rotors[1:5] > 0.1).all()
    bars = arm(bars=True, folder=tmp_path)
    rigid = Terms((RigidBody(),))
    own = [replace(s, tau=rigid.torque(bars, s, bars.inertia_prior.ravel())) for s in motions]
    ignored = fitted(robot, rigid, own)
    assert (ignored[:3] > 0.5).all()
    q = static_grid(robot, 200)
    tau = rigid.torque(bars, at_rest(q), bars.inertia_prior.ravel())
    still = identify_statics(robot, known_poses(q, tau), rigid)
    assert np.abs(rigid.torque(robot, at_rest(q), still.estimate.full_vector) - tau).max() < 1e-6


def motions_of_rotors(robot: RobotModel) -> list[Samples]:
    """Motions with coupled rotors and no friction."""
    terms = RigidBody() + MotorInertia() + SPRINGS
    theta = truth(robot, terms)
    return [replace(s, tau=terms.torque(robot, s, theta)) for s in (motion(robot, 2000, 3)[1],)]


# --- five percent of noise -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noisy:
    regression: Callable[[TorqueRows | MotorRows], Regression]
    static: StaticEstimate
    clean: list[Samples]

    def mse(self, robot: RobotModel, found: Estimate) -> Float:
        """Against the noise-free torque, (n,)."""
        return np.mean([missed_square(robot, found, s) for s in self.clean], axis=0)


def missed_square(robot: RobotModel, found: Estimate, samples: Samples) -> Float:
    error = MODEL.torque(robot, samples, found.full_vector) - samples.tau
    return np.mean(error**2, axis=0)


@pytest.fixture(scope="module")
def noisy(robot: RobotModel) -> Noisy:
    theta = truth(robot)
    clean = [motion(robot, DOSE, seed)[1] for seed in range(7)]
    clean = [replace(s, tau=MODEL.torque(robot, s, theta)) for s in clean]
    measured = [replace(s, tau=with_noise(robot, s.q, s.tau, NOISE, 100 + k)) for k, s in enumerate(clean)]
    q = static_grid(robot, 1600)
    tau = with_noise(robot, q, MODEL.torque(robot, at_rest(q), theta), 0.05, 99)
    static = identify_statics(robot, known_poses(q, tau), MODEL)
    return Noisy(lambda rows: regression(robot, MODEL, rows, measured), static, clean)


def value(found: Estimate, name: str) -> tuple[float, float]:
    """Value and standard deviation of a parameter that stands alone in the base."""
    names = [found.columns[i].name for i in found.base.independent]
    index = names.index(name)
    return float(found.value[index]), float(found.std[index])


def test_whitened_one_shot_meets_its_figures(robot: RobotModel, noisy: Noisy) -> None:
    found = noisy.static.joined().fit(noisy.regression(MotorRows()))
    assert noisy.mse(robot, found)[1] <= 2.0
    theta = dict(zip([column.name for column in MODEL.columns(robot)], truth(robot), strict=True))
    for i in range(1, 7):
        for name in (f"fvm{i}", f"fcm{i}"):
            assert value(found, name)[0] == pytest.approx(theta[name], rel=0.005)
    k, std = value(found, "k_springs")
    assert k == pytest.approx(STIFFNESS, rel=0.01)
    assert abs(k - STIFFNESS) < 4 * std


def test_methods_rank_as_the_spec_says(robot: RobotModel, noisy: Noisy) -> None:
    motor, joint = noisy.regression(MotorRows()), noisy.regression(TorqueRows())
    plain = noisy.mse(robot, OLS().fit(joint))
    one_shot = noisy.mse(robot, noisy.static.joined().fit(motor))
    steps = noisy.mse(robot, noisy.static.given().fit(motor))
    assert (one_shot < plain).all()
    assert one_shot[1] < steps[1]  # the static step pays for its noise on the springs' joint
    assert (one_shot[3:] < 0.1 * plain[3:]).all()  # weights are worth most at the wrist
    by_joint = noisy.mse(robot, WLS().fit(joint))
    by_motor = noisy.mse(robot, WLS().fit(motor))
    assert (by_motor[3:5] < by_joint[3:5]).all()  # the bevel pair's noise belongs to its motors


def test_the_two_step_intervals_hold_the_truth(robot: RobotModel, noisy: Noisy) -> None:
    motor = noisy.regression(MotorRows())
    found = noisy.static.given().fit(motor)
    z = (found.value - motor.base.reduce(truth(robot))) / found.std
    assert np.mean(np.abs(z) < 2) > 0.85
    # The static step's covariance is part of it.
    certain = replace(noisy.static.given(), covariance=0 * noisy.static.given().covariance)
    assert (found.std >= certain.fit(motor).std * (1 - 1e-9)).all()
    assert (found.std > 1.2 * certain.fit(motor).std).any()


def test_feasible_bodies_cost_next_to_nothing(robot: RobotModel, noisy: Noisy) -> None:
    clarabel = pytest.importorskip("clarabel")
    motor = noisy.regression(MotorRows())
    plain = WLS().fit(motor)
    theta = feasible(clarabel, robot, motor, plain)
    least = min(np.linalg.eigvalsh(pseudo_inertia(body))[0] for body in theta[:60].reshape(6, 10))
    assert least >= 0.0
    scaled = [sum(w * f.residual_square(t) for w, f in zip(plain.weights, motor.factors.total, strict=True))
              for t in (lifted(motor, theta), plain.full_vector)]  # fmt: skip
    assert scaled[0] <= 1.01 * scaled[1]
    error = [MODEL.torque(robot, s, theta) - s.tau for s in noisy.clean]
    assert np.mean([np.mean(e[:, 1] ** 2) for e in error]) <= 2.0


def lifted(one: Regression, theta: Float) -> Float:
    """The parameters' base values on the independent columns."""
    found = np.zeros(len(theta))
    found[one.base.independent] = one.base.reduce(theta)
    return found


def feasible(clarabel: object, robot: RobotModel, one: Regression, plain: Estimate) -> Float:
    """Min ||W(y - X B theta)||^2 with every body's pseudo-inertia at least 1e-6: a second-order cone and LMIs."""
    from scipy import sparse

    from dynid.factor.factor import stack

    R = stack(one.factors.total, one.base.independent, plain.weights)
    A, y = R[:-1, :-1] @ one.base.B, R[:-1, -1]
    size = np.maximum(np.linalg.norm(A, axis=0), 1e-6 * np.linalg.norm(A, axis=0).max())
    A = A / size
    # A small pull keeps the directions without effect bounded.
    P = sparse.csc_matrix(np.triu(A.T @ A + 1e-9 * np.eye(len(size))))
    rows, right, cones = [], [], []
    upper = [(i, j) for j in range(4) for i in range(j + 1)]
    margin = 1e-6 * np.eye(4)
    for body in range(6):
        matrices = [pseudo_inertia(e) for e in np.eye(10)]
        block = np.zeros((10, len(size)))
        for line, (i, j) in enumerate(upper):
            factor = 1.0 if i == j else np.sqrt(2.0)
            block[line, 10 * body : 10 * body + 10] = [-factor * m[i, j] for m in matrices]
        rows.append(block / size)
        right.append(np.array([-margin[i, j] for i, j in upper]))
        cones.append(clarabel.PSDTriangleConeT(4))  # type: ignore[attr-defined]
    settings = clarabel.DefaultSettings()  # type: ignore[attr-defined]
    settings.verbose = False
    solver = clarabel.DefaultSolver(  # type: ignore[attr-defined]
        P, -A.T @ y, sparse.csc_matrix(np.vstack(rows)), np.concatenate(right), cones, settings
    )
    return np.array(solver.solve().x) / size
