"""Kalman filters for state and parameters: exact derivatives, honest covariances, the answer of least squares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import chi2

from dynid.base import SolverError, UnfitDataError, UsageError
from dynid.estimate import FILTERS, WLS, BaseDynamics, JointFilter, KalmanNoise, SimulationProblem
from dynid.estimate.kalman import ExtendedKalman, UnscentedKalman
from dynid.factor import structural_base
from dynid.fleet import KalmanSettings, KalmanWatcher, Watcher, WatchSettings
from dynid.kernel import forward_dynamics
from dynid.papers import EKF
from dynid.papers.kalman import _Passes
from dynid.robot import RobotModel, load_robot
from dynid.rows import ElasticRows, TorqueRows
from dynid.signals import Samples
from dynid.simulation import Mechanism, measured_coordinates
from dynid.terms import (
    ChannelTorque,
    Coulomb,
    JointDamping,
    Offset,
    RigidBody,
    RotorInertia,
    Stiffness,
    Terms,
    Viscous,
)
from dynid.testing import (
    exact_samples,
    measured_regression,
    random_robot,
    smooth_samples,
    true_parameters,
    two_joints,
)
from tests.command_line import Run

TERMS = RigidBody() + Viscous()
STREAM_TERMS = RigidBody() + Viscous() + Coulomb(0.02) + Offset()
RATE, ROWS = 200.0, 160


def modelled(robot: RobotModel, terms: Terms = TERMS) -> tuple[BaseDynamics, np.ndarray]:
    """The model, and its true parameters: the description's bodies, some friction."""
    base = structural_base(robot, terms, TorqueRows())
    friction = [0.5, 0.5, 0.6, 0.4, 0.1, -0.2][: len(terms.columns(robot)) - 20]
    return BaseDynamics(robot, terms, base), np.append(robot.inertia_prior.ravel(), friction)


@pytest.mark.parametrize("elastic", [False, True])
def test_accelerations_and_their_slopes(elastic: bool) -> None:
    robot, terms, second = random_robot(1, 2, 0.0), TERMS, ()
    if elastic:
        robot, second = two_joints(True), (0, 1)
        terms = TERMS + RotorInertia() + Stiffness() + JointDamping()
    base = structural_base(robot, terms, ElasticRows() if elastic else TorqueRows())
    model = BaseDynamics(robot, terms, base, second)
    theta = np.append(
        robot.inertia_prior.ravel(), [0.5, 0.6, 2.0, 1.0, 900.0, 700.0, 2.0, 3.0][: 8 if elastic else 2]
    )
    beta, s = base.reduce(theta), model.size
    rng = np.random.default_rng(0)
    x, v, u = rng.uniform(-2, 2, (3, 5, s))
    each = np.tile(beta, (5, 1))

    def moved(x: np.ndarray, v: np.ndarray, u: np.ndarray, beta: np.ndarray) -> np.ndarray:
        M, h = model.mass(x, v, beta)
        return np.linalg.solve(M, (u - h)[..., None])[..., 0]

    a = moved(x, v, u, each)
    whole = Mechanism(robot, terms, theta, second)
    M, h = whole.equations(x, v, {})
    np.testing.assert_allclose(model.mass(x, v, each)[0], M, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.mass(x, v, each)[1], h, rtol=1e-9, atol=1e-7)
    if not elastic:
        plain = forward_dynamics(robot.tree, theta[:20], x, v, u - np.array([0.5, 0.6]) * v)
        np.testing.assert_allclose(a, plain, rtol=1e-9, atol=1e-9)
    else:
        K, D = model.springs(x, v, each)
        side = np.array([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]])
        np.testing.assert_allclose(K, np.tile(side.T @ np.diag([900.0, 700.0]) @ side, (5, 1, 1)), rtol=1e-6)
        np.testing.assert_allclose(D, np.tile(side.T @ np.diag([2.0, 3.0]) @ side, (5, 1, 1)), rtol=1e-6)
    slopes = model.slopes(x, v, a, beta)

    def change(step: np.ndarray, which: int) -> np.ndarray:
        ends = []
        for sign in (1.0, -1.0):
            at = [x, v, u, each]
            at[which] = at[which] + sign * step
            ends.append(moved(*at))
        return (ends[0] - ends[1]) / 2e-5

    found = (slopes.by_position, slopes.by_velocity, slopes.by_force, slopes.by_parameter)
    for which, by in enumerate(found):
        for i in range(by.shape[2]):
            step = np.zeros(by.shape[2])
            step[i] = 1e-5
            reference = change(step, which)
            np.testing.assert_allclose(
                by[:, :, i], reference, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(reference).max())
            )


@pytest.mark.parametrize("seed", range(4))
def test_compiled_equations_and_slopes_are_those_of_the_terms(seed: int) -> None:
    """Force, mass and slopes of random robots with rotors, friction and offsets; the terms' slopes are differences."""
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, 2 + seed, 0.3)
    terms = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.05) + Offset()
    model = BaseDynamics(robot, terms, structural_base(robot, terms, TorqueRows()))
    # Each state with parameters of its own, which the terms answer.
    x, v, a = rng.normal(size=(3, 5, robot.n))
    beta = model.base.reduce(
        np.array([c.prior if np.isfinite(c.prior) else rng.uniform(0.1, 1.0) for c in terms.columns(robot)])
    )
    each = np.tile(beta, (5, 1))
    assert model.compiled is not None
    assert model.force(x, v, a, beta[None]) == pytest.approx(model.force(x, v, a, each), rel=1e-12, abs=1e-12)
    for one, other in zip(model.mass(x, v, beta[None]), model.mass(x, v, each), strict=True):
        assert one == pytest.approx(other, rel=1e-11, abs=1e-11)
    exact, general = model.slopes(x, v, a, beta), replaced(model).slopes(x, v, a, beta)
    for name in ("by_position", "by_velocity", "by_parameter", "by_force"):
        wanted = getattr(general, name)
        size = float(np.abs(wanted).max())
        assert getattr(exact, name) == pytest.approx(wanted, rel=1e-6, abs=1e-7 * size), name


def replaced(model: BaseDynamics) -> BaseDynamics:
    """The same without the compiled equations."""
    plain = BaseDynamics(model.robot, model.terms, model.base, model.second)
    plain.__dict__["compiled"] = None
    return plain


@pytest.mark.parametrize("stiffness", [2e3, 2e6])
def test_a_step_behind_springs_ends_where_a_fine_integration_does(stiffness: float) -> None:
    """Springs of 0.07 and of 2 periods a step; the deflection is what the motion needs, as in a log."""
    robot, terms = two_joints(True), TERMS + RotorInertia() + Stiffness() + JointDamping()
    base = structural_base(robot, terms, ElasticRows())
    model = BaseDynamics(robot, terms, base, (0, 1))
    theta = np.append(
        robot.inertia_prior.ravel(), [1.5, 1.5, 2.0, 0.8, *2 * [stiffness], *2 * [5e-5 * stiffness]]
    )
    beta, h = base.reduce(theta), 1 / 160
    x, v, tau = np.array([0.5, -0.3, 0.5, -0.3]), np.array([1.0, -1.5, 1.0, -1.5]), np.array([3.0, -2.0])
    u = np.concatenate([np.zeros(2), tau])

    def equations(x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        M, bias = model.mass(x[None], v[None], beta[None])
        return M[0], u - bias[0]

    M, f = equations(x, v)
    rigid = np.vstack([np.eye(2), np.eye(2)])
    a = rigid @ np.linalg.solve(rigid.T @ M @ rigid, rigid.T @ f)
    x[2:] += (M @ a - f)[:2] / stiffness
    start, spread = np.concatenate([x, v, beta]), np.append(np.full(8, 1e-4), np.full(len(beta), 1e-9))
    noise = KalmanNoise(np.full(4, 1e-6), np.ones(4))
    found = ExtendedKalman(model, start, np.diag(spread**2), noise)
    found.predict(np.stack([tau, tau]), h)

    def slope(t: float, y: np.ndarray) -> np.ndarray:
        M, f = equations(y[:4], y[4:])
        return np.concatenate([y[4:], np.linalg.solve(M, f)])

    def fine(y: np.ndarray) -> np.ndarray:
        return solve_ivp(slope, (0.0, h), y, method="DOP853", rtol=1e-8, atol=1e-10).y[:, -1]

    end = fine(start[:8])
    assert np.abs(end[:4] - x).max() > 5e-3
    np.testing.assert_allclose(found.mean[:4], end[:4], rtol=0, atol=2e-7)
    np.testing.assert_allclose(found.mean[4:8], end[4:], rtol=0, atol=5e-6)
    change = np.stack([(fine(start[:8] + step) - end) / 1e-4 for step in 1e-4 * np.eye(8)], axis=1)
    expected = 1e-8 * change @ change.T
    size = np.sqrt(np.diag(expected))
    assert (np.abs(found.covariance[:8, :8] - expected) < 0.02 * np.outer(size, size)).all()


def filtered_run(kind: str, seed: int, elastic: bool = False) -> tuple[JointFilter, list[float], np.ndarray]:
    """A filter that has followed a noisy run from a wrong start; its errors squared over time; the truth."""
    if elastic:
        robot, terms = two_joints(True), RigidBody() + Viscous() + Offset() + RotorInertia() + Stiffness()
        theta = true_parameters(robot, terms)
        model = BaseDynamics(robot, terms, structural_base(robot, terms, ElasticRows()), (0, 1))
        motion = exact_samples(robot, terms, theta, ROWS / RATE, seed)
        tau = motion.tau
    else:
        robot = random_robot(1, 2, 0.0)
        model, theta = modelled(robot)
        motion = smooth_samples(robot, ROWS, seed=seed, rate=RATE)
        tau = TERMS.torque(robot, motion, theta)
    beta, s = model.base.reduce(theta), model.size
    rng = np.random.default_rng(seed)
    # Nothing but the measured torque of the drives is uncertain: the links' own equations are exact.
    force = np.full(s, 1e-6)
    force[model.frame.driven] = 0.03 * tau.std(axis=0)
    noise = KalmanNoise(force, np.full(s, 1e-4 if elastic else 1e-3))
    spread = np.concatenate([noise.position, np.full(s, 0.05), 0.05 * np.abs(beta) + 0.02])
    x, v = measured_coordinates(model.frame, motion)
    truth = np.concatenate([x, v, np.tile(beta, (ROWS, 1))], axis=1)
    tau = tau + force[model.frame.driven] * rng.normal(size=tau.shape)
    x = x + noise.position * rng.normal(size=x.shape)
    found = FILTERS[kind](model, truth[0] + spread * rng.normal(size=len(spread)), np.diag(spread**2), noise)
    squares = []
    for k in range(1, ROWS):
        found.predict(tau[k - 1 : k + 1], 1 / RATE)
        found.correct(x[k])
        if k % 40 == 39:
            error = found.mean - truth[k]
            squares.append(float(error @ np.linalg.solve(found.covariance, error)))
    return found, squares, truth[-1]


@pytest.mark.parametrize(
    ("kind", "elastic"), [("ekf", False), ("ukf", False), pytest.param("ekf", True, marks=pytest.mark.slow)]
)
def test_errors_are_as_large_as_the_covariance_says(kind: str, elastic: bool) -> None:
    runs = [filtered_run(kind, seed, elastic) for seed in range(4)]
    size, measured = len(runs[0][2]), runs[0][0].model.size
    low, high = chi2.ppf([0.005, 0.995], size * len(runs)) / len(runs)
    for mean in np.mean([squares for _, squares, _ in runs], axis=0):
        assert low < mean < high
    # Innovations are independent from row to row: their mean is known much better.
    surprise = np.concatenate([found.innovation for found, _, _ in runs])
    assert abs(surprise.mean() - measured) < 4 * np.sqrt(2.0 * measured / len(surprise))
    # And something was learnt.
    spread = np.sqrt(np.diag(runs[0][0].parameter_covariance))
    first = 0.05 * np.abs(runs[0][2][2 * measured :]) + 0.02
    assert np.median(first / spread) > 1.5
    assert (first / spread > 5).sum() >= 2


def test_both_filters_agree_where_the_model_is_nearly_linear() -> None:
    extended, unscented = filtered_run("ekf", 0)[0], filtered_run("ukf", 0)[0]
    spread = np.sqrt(np.diag(extended.covariance))
    assert (np.abs(extended.mean - unscented.mean) < 0.3 * spread).all()
    np.testing.assert_allclose(np.sqrt(np.diag(unscented.covariance)), spread, rtol=0.05)


@pytest.mark.parametrize(("kind", "bend"), [("ekf", 0.01), ("cdkf", 1e-3)])
def test_a_step_is_that_of_the_unscented_filter_where_the_model_is_nearly_linear(
    kind: str, bend: float
) -> None:
    """Up to the model's bend over a standard deviation, whose first order the extended filter leaves out."""
    robot = random_robot(1, 2, 0.0)
    model, theta = modelled(robot)
    motion = smooth_samples(robot, 3, seed=1, rate=RATE)
    tau = TERMS.torque(robot, motion, theta)
    mean = np.concatenate([motion.q[0], motion.dq[0], model.base.reduce(theta)])
    spread = np.concatenate([np.full(4, 1e-3), 0.003 * np.abs(mean[4:]) + 1e-3])
    noise = KalmanNoise(0.01 * np.abs(tau).max(axis=0), np.full(2, 1e-3))
    found = {name: FILTERS[name](model, mean, np.diag(spread**2), noise) for name in ("ukf", kind)}
    for one in found.values():
        one.predict(tau[:2], 1 / RATE)
        one.correct(motion.q[1])
    one, other = found["ukf"], found[kind]
    size = np.maximum(spread, np.sqrt(np.diag(one.covariance)))
    assert (np.abs(one.mean - other.mean) < bend * size).all()
    assert (np.abs(one.covariance - other.covariance) < bend * np.outer(size, size)).all()


@pytest.mark.parametrize("elastic", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_filter_over_a_whole_log_finds_what_least_squares_find(elastic: bool) -> None:
    case = measured_regression(1, elastic=elastic, seconds=2.0)
    plain, found = WLS().fit(case.regression), EKF(rounds=3).fit(case.regression)
    assert found.status.ok, found.status.text
    assert "raise rounds" not in found.status.text
    away = np.abs(found.value - plain.value) / np.hypot(found.std, plain.std)
    assert away.max() < 2.5
    np.testing.assert_allclose(found.block_leverage.sum(), 1.0)
    assert 0.3 < np.median(found.std / plain.std) < 3.0


def test_a_filter_that_still_moves_says_by_how_much_and_what_to_do() -> None:
    case = measured_regression(1, seconds=1.0)
    status = EKF(rounds=1, tolerance=1e-9).fit(case.regression).status
    assert not status.ok
    assert "1 passes" in status.text
    assert "standard deviations per pass: raise rounds" in status.text


@pytest.mark.parametrize("with_velocity", [False, True])
def test_a_correction_adds_information(with_velocity: bool) -> None:
    model, theta = modelled(random_robot(1, 2, 0.0))
    rng = np.random.default_rng(0)
    mean = np.concatenate([rng.normal(size=4), model.base.reduce(theta)])
    root = rng.normal(size=(len(mean), len(mean)))
    P = root @ root.T
    speed = np.array([0.3, 0.4]) if with_velocity else None
    found = ExtendedKalman(model, mean, P, KalmanNoise(np.ones(2), np.array([0.1, 0.2]), speed))
    measured = rng.normal(size=4)
    found.correct(measured[:2], measured[2:])
    spread = np.array([0.1, 0.2, 0.3, 0.4])[: 4 if with_velocity else 2]
    count = len(spread)
    information = np.linalg.inv(P)
    right = information @ mean
    information[:count, :count] += np.diag(spread**-2)
    right[:count] += measured[:count] / spread**2
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.mean, np.linalg.solve(information, right), rtol=1e-6, atol=1e-6)


def streamed(seconds: float) -> tuple[RobotModel, Samples, np.ndarray]:
    robot = random_robot(1, 2, 0.0)
    _, theta = modelled(robot, STREAM_TERMS)
    motion = smooth_samples(robot, round(1000 * seconds), seed=1)
    rng = np.random.default_rng(0)
    tau = STREAM_TERMS.torque(robot, motion, theta)
    tau = tau + 0.02 * tau.std(axis=0) * rng.normal(size=tau.shape)
    q = motion.q + 2e-5 * rng.normal(size=tau.shape)
    return robot, Samples.from_motion(q, motion.dq, motion.ddq, tau), theta


@pytest.fixture(scope="module")
def stream() -> tuple[RobotModel, Samples, np.ndarray]:
    return streamed(9.0)


def followed(watcher: Watcher, rows: Samples) -> Watcher:
    for first in range(0, len(rows), 500):
        part = slice(first, first + 500)
        watcher.feed(rows.t[part], rows.q[part], rows.tau[part])
    watcher.finish()
    return watcher


@pytest.mark.parametrize("kind", ["ekf", "ukf"])
def test_a_stream_ends_where_least_squares_do(
    kind: str, stream: tuple[RobotModel, Samples, np.ndarray]
) -> None:
    robot, rows, theta = stream
    settings = WatchSettings(STREAM_TERMS)
    plain = followed(Watcher(robot, settings), rows)
    watcher = KalmanWatcher(robot, KalmanSettings(kind, 4.0, 100.0, watch=settings))
    followed(watcher, rows)
    beta = plain.base.reduce(theta)
    ends = [watcher.trajectory, plain.trajectory]
    for one in ends:
        assert (np.abs(one.value[-1] - beta) < 3.5 * one.std[-1]).all()
    joint = np.hypot(ends[0].std[-1], ends[1].std[-1])
    assert (np.abs(ends[0].value[-1] - ends[1].value[-1]) < 3 * joint).all()
    assert 0.8 < watcher.consistency < 1.25
    assert watcher.time == pytest.approx(rows.t[-1], abs=0.02)
    # The eigenvalues fall from where the filter began.
    later = ends[0].eigenvalues[ends[0].t > 5.0]
    assert (np.diff(later, axis=0) <= 1e-6 * later[:-1]).all()


def test_a_gap_restarts_the_state_and_keeps_the_parameters(
    stream: tuple[RobotModel, Samples, np.ndarray],
) -> None:
    robot, rows, theta = stream
    settings = WatchSettings(STREAM_TERMS)
    watcher = KalmanWatcher(robot, KalmanSettings(settle=3.0, rate=100.0, watch=settings))
    for part in (rows.t < 4.5, rows.t > 6.5):
        watcher.feed(rows.t[part], rows.q[part], rows.tau[part])
    watcher.finish()
    assert watcher.filter is not None
    assert watcher.consistency < 1.3
    beta = watcher.base.reduce(theta)
    assert (np.abs(watcher.trajectory.value[-1] - beta) < 3.5 * watcher.trajectory.std[-1]).all()


def test_drift_keeps_the_filter_awake(stream: tuple[RobotModel, Samples, np.ndarray]) -> None:
    robot, rows, _ = stream
    head = Samples.from_motion(rows.q[:5000], rows.dq[:5000], rows.ddq[:5000], rows.tau[:5000])
    spreads = []
    for drift in (0.0, 1.0):
        settings = KalmanSettings(settle=4.0, rate=100.0, drift=drift, watch=WatchSettings(STREAM_TERMS))
        spreads.append(followed(KalmanWatcher(robot, settings), head).trajectory.std[-1])
    assert (spreads[1] > spreads[0]).all()


@pytest.mark.parametrize("joints", [1, 2])
@pytest.mark.parametrize("kind", [ExtendedKalman, UnscentedKalman])
def test_a_model_that_is_no_longer_physical_is_refused(kind: type[JointFilter], joints: int) -> None:
    """One joint whose inertia is negative is enough."""
    model, theta = modelled(random_robot(1, 2, 0.0), RigidBody() + RotorInertia())
    theta[20 : 20 + joints] = -50.0  # kg m^2 of rotors
    mean = np.concatenate([np.zeros(4), model.base.reduce(theta)])
    M, _ = model.mass(np.zeros((1, 2)), np.zeros((1, 2)), mean[None, 4:])
    assert (np.linalg.eigvalsh(M[0]) < 0).sum() == joints
    noise = KalmanNoise(np.ones(2), np.ones(2))
    with pytest.raises(SolverError, match=r"filter-diverged.*mass matrix"):
        kind(model, mean, 1e-6 * np.eye(len(mean)), noise).predict(np.zeros((2, 2)), 0.005)


def test_bad_settings() -> None:
    robot = random_robot(1, 2, 0.0)
    model, _ = modelled(robot)
    noise = KalmanNoise(np.ones(2), np.ones(2))
    for wrong in (
        lambda: KalmanNoise(np.zeros(2), np.ones(2)),
        lambda: KalmanNoise(np.ones(2), np.ones(2), drift=-1.0),
        lambda: ExtendedKalman(model, np.zeros(3), np.eye(3), noise),
        lambda: KalmanSettings("pf"),
        lambda: KalmanSettings(settle=0.0),
        lambda: BaseDynamics(robot, TERMS + ChannelTorque("cable", "joint1"), model.base),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_filters_on_the_command_line(
    run: Run, robot_file: Path, tmp_path: Path, stream: tuple[RobotModel, Samples, np.ndarray]
) -> None:
    _, rows, _ = stream
    robot = load_robot(robot_file)
    names = ["t", *(f"{kind}_{joint}" for kind in ("q", "tau") for joint in robot.joint_names)]
    log = tmp_path / "stream.csv"
    terms = STREAM_TERMS
    theta = np.append(robot.inertia_prior.ravel(), [0.5, 0.5, 0.6, 0.4, 0.1, -0.2])
    tau = terms.torque(robot, Samples.from_motion(rows.q, rows.dq, rows.ddq), theta)
    tau += 0.01 * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    table = np.column_stack([rows.t, rows.q, tau])[:5000]
    np.savetxt(log, table, delimiter=",", header=",".join(names), comments="", fmt="%.12g")
    config = tmp_path / "watch.toml"
    config.write_text(
        '[model]\nterms = ["rigid_body", "viscous", { term = "coulomb", width = 0.02 }, "offset"]\n'
    )
    options = ("--config", config, "--wait", 0, "--filter")
    found = run("watch", robot_file, log, *options, "ekf", "--settle", 3.5, "--out", tmp_path / "track.csv")
    assert found.code == 0, found.err
    assert "settling" in found.out
    assert "normalised innovation" in found.out
    assert "Extended Kalman filter" in (tmp_path / "track.html").read_text(encoding="utf-8")
    table[4500, 0] = table[4499, 0]
    np.savetxt(log, table, delimiter=",", header=",".join(names), comments="", fmt="%.12g")
    wrong = run("watch", robot_file, log, *options, "ukf", "--settle", 4)
    assert wrong.code == 4
    assert "row 4500" in wrong.err
    watcher = KalmanWatcher(robot)
    with pytest.raises(UnfitDataError, match="row 1"):
        watcher.feed(np.zeros(2), rows.q[:2], rows.tau[:2])


@pytest.mark.parametrize("seed", range(3))
def test_white_noise_of_the_torque_is_measured_as_strong_as_it_is(seed: int) -> None:
    """Though the filters of the equations let a fifth of its band through."""
    noisy, quiet = (
        SimulationProblem.of(
            measured_regression(seed, position_noise=0.0, torque_noise=size).regression, "ukf", 20.0
        )
        for size in (0.05, 0.0)
    )
    wanted = np.std([a.tau - b.tau for a, b in zip(noisy.measured, quiet.measured, strict=True)], axis=(0, 1))
    found = _Passes(noisy, None, noisy.start()).noise.force
    np.testing.assert_allclose(found, wanted, rtol=0.15)
