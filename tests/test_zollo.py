"""Zollo et al. 2014: laws, misprints, ranks and numbers of elastic joints, against a Lagrangian by complex steps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pinocchio as pin
import pytest
from scipy.signal import butter, sosfiltfilt

from dynid.factor.base import BaseMap, structural_base
from dynid.rows import ElasticRows
from dynid.signals.samples import Samples
from dynid.spatial.inertia import pseudo_inertia
from dynid.terms import SpinningRotor
from tests.elastic_arms import (
    Arm,
    Motion,
    coulomb,
    cross,
    elastic_samples,
    planar,
    puma,
    random_parameters,
    simulate_planar,
)

ARMS = {"planar": planar, "puma": puma}


def states(arm: Arm, count: int = 8, seed: int = 0) -> Samples:
    """Random states of links and motors."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(-3, 3, (count, arm.n))
    rates, pushes = rng.normal(0, 2, (count, 2 * arm.n)), rng.normal(0, 4, (count, 2 * arm.n))
    return elastic_samples(q, q + rng.normal(0, 0.1, q.shape), rates, pushes)


def matrix(arm: Arm, samples: Samples, coupled: bool = True) -> np.ndarray:
    """Link and motor equations, (T, 2n, p)."""
    terms = arm.terms(coupled)
    p, n = len(terms.columns(arm.robot)), arm.n
    found = ElasticRows(form="link").equations(arm.robot, terms, samples, np.ones(p, dtype=np.bool_))
    W = np.zeros((2 * n, len(samples), p))
    for g, (columns, panel) in enumerate(zip(found.columns, found.panels, strict=True)):
        W[g][:, columns] = panel[:-1].T
    return np.concatenate([W[n:], W[:n]]).transpose(1, 0, 2)


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


def obeying(arm: Arm, samples: Samples) -> Samples:
    """The same states, their springs stretched so that the link equations hold."""
    links = (matrix(arm, replace(samples, theta=samples.q)) @ arm.theta())[:, : arm.n]
    return replace(samples, theta=samples.q + links / arm.K)


TABLE_1 = {  # coefficients on m, c, I (xx, yy, zz, xy, xz, yz), Y, K, fs, fv of each link, in the paper's frames
    "K1": {("K", 0): 1}, "K2": {("K", 1): 1},
    "m1 - 4 Izz1 + 4 Izz2": {("m", 0): 1, ("Izz", 0): -4, ("Izz", 1): 4},
    "m2 - 4 Izz2": {("m", 1): 1, ("Izz", 1): -4},
    "cx1 + 2 Izz1": {("cx", 0): 1, ("Izz", 0): 2}, "cy1": {("cy", 0): 1},
    "cx2 + 2 Izz2": {("cx", 1): 1, ("Izz", 1): 2}, "cy2": {("cy", 1): 1},
    "Y1": {("Y", 0): 1}, "Y2": {("Y", 1): 1},
    "fs1": {("fs", 0): 1}, "fs2": {("fs", 1): 1}, "fv1": {("fv", 0): 1}, "fv2": {("fv", 1): 1},
}  # fmt: skip
REAL = (3000, 1800, -30.8333, 6.5667, 22.6333, 0, -0.7833, 0, 21.18, 12.10, 0.3302, 0.3576, 0.1434, 0.1391)
PRINTED = (
    3000.79, 1799.79, -30.8352, 6.5670, 22.6345, -1.04e-5, -0.7835, 3.18e-6,
    21.1446, 12.1036, 0.1016, 0.1249, 0.1288, 0.1389,
)  # fmt: skip


def paper_units(arm: Arm) -> tuple[list[tuple[str, int]], np.ndarray]:
    """The paper's 28 parameters, and the linear map from them to dynid's."""
    names, columns = [], []
    zero = replace(
        arm, m=np.zeros(2), c=np.zeros((2, 3)), I=np.zeros((2, 6)), Y=np.zeros(2), K=np.zeros(2),
        fs=np.zeros(2), fv=np.zeros(2),
    )  # fmt: skip
    entries = {"m": ("m", None), "Y": ("Y", None), "K": ("K", None), "fs": ("fs", None), "fv": ("fv", None)}
    entries |= {f"c{axis}": ("c", i) for i, axis in enumerate("xyz")}
    entries |= {f"I{axes}": ("I", i) for i, axes in enumerate(("xx", "yy", "zz", "xy", "xz", "yz"))}
    for name, (field, index) in entries.items():
        for link in range(2):
            values = np.array(getattr(zero, field))
            values[link if index is None else (link, index)] = 1.0
            names.append((name, link))
            columns.append(replace(zero, **{field: values}).theta())
    return names, np.array(columns).T


def test_groupings_and_real_values_of_table_1() -> None:
    arm = planar()
    base = structural_base(arm.robot, arm.terms(), ElasticRows())
    names, to_ours = paper_units(arm)
    table = np.zeros((14, len(names)))
    for row, entries in zip(table, TABLE_1.values(), strict=True):
        for key, factor in entries.items():
            row[names.index(key)] = factor
    # A grouping is right if no direction that the equations cannot see changes it.
    null = np.linalg.lstsq(to_ours, base.null_space(), rcond=None)[0]
    np.testing.assert_allclose(to_ours @ null, base.null_space(), atol=1e-12)
    assert np.abs(table @ null).max() < 1e-10
    assert np.linalg.matrix_rank(table) == base.rank == 14
    values = np.linalg.lstsq(to_ours, arm.theta(), rcond=None)[0]
    np.testing.assert_allclose(table @ values, REAL, atol=6e-5)


def test_null_columns_of_the_planar_arm() -> None:
    arm = planar()
    names, to_ours = paper_units(arm)
    W = matrix(arm, states(arm, 40)).reshape(-1, to_ours.shape[0]) @ to_ours
    scale = np.abs(W).max(axis=0)
    assert (scale < 1e-12 * scale.max()).sum() == 12
    assert len(names) == 28


def test_metric_of_the_paper_is_signed() -> None:
    real, printed = np.array(REAL), np.array(PRINTED)
    kept = real != 0
    error = np.zeros(14)
    error[kept] = (printed[kept] - real[kept]) / real[kept]
    dynamic = [i for i, name in enumerate(TABLE_1) if not name.startswith("fs")]
    assert abs(error.mean()) == pytest.approx(0.1034, abs=2e-4)  # printed: 0.103
    assert np.abs(error).mean() == pytest.approx(0.1035, abs=2e-4)
    assert abs(error[dynamic].mean()) == pytest.approx(0.0087, abs=2e-4)  # printed: 0.00862
    assert np.abs(error[dynamic]).mean() == pytest.approx(0.0088, abs=2e-4)


def stribeck(v: np.ndarray, fade: np.ndarray, theta: float = 0.0, form: str = "reciprocal") -> np.ndarray:
    """Friction of joint 1 by eq. 43, in the reading that dissipates and in others."""
    f1, f2, f3, f4, f5, f6 = 0.1434, 0.3302, 0.2499, 0.0537, 0.2991, 16.624
    speed = np.abs(v)
    with np.errstate(divide="ignore"):
        rise = {"reciprocal": np.exp(-1 / (f6 * speed)), "plain": np.exp(-speed / f6)}[form]
    near = np.exp(-(speed if fade is None else fade) / f4)
    return f1 * v + np.sign(v) * (f2 - f3 * near - f5 * rise)


def test_friction_dissipates_in_one_reading_only() -> None:
    v = np.concatenate([-np.geomspace(10, 1e-5, 4000), np.geomspace(1e-5, 10, 4000)])
    right = stribeck(v, None)
    assert (right * v >= 0).all()
    positive = v > 0
    assert right[positive][0] == pytest.approx(0.08, abs=2e-3)
    low = positive & (v < 0.3)
    assert right[low].max() == pytest.approx(0.151, abs=1e-3)
    assert v[low][right[low].argmax()] == pytest.approx(0.033, abs=3e-3)
    assert np.interp(0.5, v[positive], right[positive]) == pytest.approx(0.137, abs=1e-3)
    assert (stribeck(v, None, form="plain") * v).min() < 0  # the other readings drive the motion
    # Its Coulomb level, where the paper looks, is far below f2 = 0.33.
    level = 0.3302 - 0.2991 * np.exp(-1 / (16.624 * np.array([0.5, 2.0])))
    assert ((level > 0.03) & (level < 0.08)).all()


# Numbers.


def weighed(W: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Least squares on columns of unit length."""
    size = np.linalg.norm(W, axis=0)
    return np.linalg.lstsq(W / size, y, rcond=None)[0] / size


def errors(base: BaseMap, arm: Arm, found: np.ndarray) -> np.ndarray:
    """Relative errors of the base parameters that are not zero."""
    truth = base.reduce(arm.theta())
    kept = np.abs(truth) > 1e-9 * np.abs(truth).max()
    return np.abs((found - truth)[kept] / truth[kept])


@pytest.fixture(scope="module")
def motion() -> Motion:
    arm = planar()
    return simulate_planar(arm, coulomb(arm))


def equations(arm: Arm, base: BaseMap, samples: Samples, u: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Base parameters from both equations of the kept samples."""
    W = matrix(arm, samples)[:, :, base.independent]
    y = np.concatenate([np.zeros_like(u), u], axis=1)
    return weighed(W[keep].reshape(-1, base.rank), y[keep].reshape(-1))


def fast(rates: np.ndarray) -> np.ndarray:
    return (np.abs(rates) > 0.5).all(axis=1)


def test_simulated_motion_obeys_the_link_equations(motion: Motion) -> None:
    arm = planar()
    samples = elastic_samples(motion.q, motion.theta, motion.rates, motion.pushes)
    W, theta = matrix(arm, samples), arm.theta()
    # Near reversals friction is smooth in the simulation and a sign in the model.
    torque = (W @ theta)[fast(motion.rates[:, 2:])]
    largest = np.abs(W * theta).max()
    assert np.abs(torque[:, :2]).max() < 1e-9 * largest
    assert np.abs(torque[:, 2:] - motion.u[fast(motion.rates[:, 2:])]).max() < 1e-9 * largest


def test_planar_parameters_from_exact_states(motion: Motion) -> None:
    arm = planar()
    base = structural_base(arm.robot, arm.terms(), ElasticRows())
    samples = elastic_samples(motion.q, motion.theta, motion.rates, motion.pushes)
    found = equations(arm, base, samples, motion.u, fast(motion.rates[:, 2:]))
    assert errors(base, arm, found).max() < 1e-10


def test_puma_parameters_from_exact_states() -> None:
    arm = puma()
    base = structural_base(arm.robot, arm.terms(), ElasticRows())
    samples = obeying(arm, states(arm, 400))
    u = (matrix(arm, samples) @ arm.theta())[:, arm.n :]
    found = equations(arm, base, samples, u, np.ones(400, dtype=np.bool_))
    assert errors(base, arm, found).max() < 1e-8


def from_encoders(arm: Arm, base: BaseMap, motion: Motion, forward: bool = False) -> np.ndarray:
    """The paper's pipeline: 1.25 million counts a turn, Butterworth of order 5 and 20 Hz, differences, a gate."""
    count, h = 2 * np.pi / 1250000, 1e-3
    smooth = partial(sosfiltfilt, butter(5, 20.0, fs=1000.0, output="sos"), axis=0)
    both = smooth(np.round(np.hstack([motion.q, motion.theta]) / count) * count)

    def slope(x: np.ndarray) -> np.ndarray:
        return np.diff(x, axis=0, append=x[-1:]) / h if forward else np.gradient(x, h, axis=0)

    rates = slope(both)
    samples = elastic_samples(both[:, :2], both[:, 2:], rates, slope(rates))
    keep = fast(rates[:, 2:])
    keep[:100] = keep[-100:] = False
    return errors(base, arm, equations(arm, base, samples, motion.u, keep))


def test_encoder_pipeline_needs_central_differences(motion: Motion) -> None:
    arm = planar()
    base = structural_base(arm.robot, arm.terms(), ElasticRows())
    central, forward = (from_encoders(arm, base, motion, way).mean() for way in (False, True))
    assert central < 3e-4
    assert forward > 5e-3


def test_the_body_data_of_the_planar_arm_belong_to_no_body() -> None:
    # A ground truth for physically feasible fits they are not.
    arm = planar()
    least = [np.linalg.eigvalsh(pseudo_inertia(arm.own(i))).min() for i in range(2)]
    assert min(least) == pytest.approx(-6.28, abs=0.01)
