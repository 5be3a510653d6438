"""Steps of the extended Kalman filter in the native kernel: those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Float, SolverError
from dynid.estimate import BaseDynamics, JointFilter, KalmanNoise
from dynid.estimate.kalman import ExtendedKalman
from dynid.factor import structural_base
from dynid.kernel import using
from dynid.rows import TorqueRows
from dynid.signals import Samples
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing import random_robot, smooth_samples
from tests.kernels import native_is_built

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native kernel was not built")
RATE, ROWS = 200.0, 60
KERNELS = ("native", "numpy")


class Counted(ExtendedKalman):
    """Counts the steps that the native kernel took."""

    compiled = 0

    def _compiled_steps(self, tau: Float, x: Float, seconds: float) -> int:
        done = super()._compiled_steps(tau, x, seconds)
        self.compiled += done
        return done


class Case:
    """A noisy log of a random robot with friction that is steep near rest, and a filter's wrong start."""

    def __init__(self, seed: int, width: float, drift: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.robot = random_robot(seed, 2 + seed, 0.3)
        self.terms = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=width) + Offset()
        columns = self.terms.columns(self.robot)
        theta = np.array([c.prior if np.isfinite(c.prior) else rng.uniform(0.1, 1.0) for c in columns])
        motion = smooth_samples(self.robot, ROWS, seed=seed, rate=RATE)
        tau = self.terms.torque(self.robot, motion, theta)
        self.size = tau.std(axis=0) + 1e-3
        self.tau = tau + 0.03 * self.size * rng.normal(size=tau.shape)
        self.x = motion.q + 1e-4 * rng.normal(size=tau.shape)
        self.motion, self.drift = motion, drift
        self.base = structural_base(self.robot, self.terms, TorqueRows())
        self.beta = self.base.reduce(theta)
        self.wrong = rng.normal(size=len(self.beta))

    def filter(self) -> Counted:
        n, motion = self.robot.n, self.motion
        model = BaseDynamics(self.robot, self.terms, self.base)
        size = 0.01 * np.abs(self.beta) + 1e-3
        spread = np.concatenate([np.full(n, 1e-4), np.full(n, 0.02), size])
        noise = KalmanNoise(0.03 * self.size, np.full(n, 1e-4), drift=self.drift * size)
        mean = np.concatenate([self.x[0], motion.dq[0], self.beta + size * self.wrong])
        return Counted(model, mean, np.diag(spread**2), noise)

    def windows(self, rows: int) -> Float:
        """Torque (K, rows, n), linear between rows, of each step between two samples."""
        share = np.linspace(0.0, 1.0, rows)[:, None]
        return (1.0 - share) * self.tau[:-1, None] + share * self.tau[1:, None]


def assert_same(one: JointFilter, other: JointFilter, within: float) -> None:
    """Means and covariances, in standard deviations."""
    size = np.sqrt(np.diag(other.covariance))
    assert np.abs((one.mean - other.mean) / size).max() < within
    assert np.abs((one.covariance - other.covariance) / np.outer(size, size)).max() < within
    assert one.innovation == pytest.approx(other.innovation, rel=within)


@pytest.mark.parametrize("seed", [0, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 3, 4))])
@pytest.mark.parametrize(("width", "drift", "rows"), [(0.05, 0.0, 2), (1e-3, 0.3, 5)])
def test_a_log_is_followed_as_by_numpy(seed: int, width: float, drift: float, rows: int) -> None:
    case, found = Case(seed, width, drift), {}
    for kernel in KERNELS:
        with using(kernel):
            found[kernel] = case.filter()
            found[kernel].follow(case.windows(rows), case.x[1:], 1.0 / RATE)
    assert [found[kernel].compiled for kernel in KERNELS] == [ROWS - 1, 0]
    assert_same(found["native"], found["numpy"], 1e-9)


def test_a_covariance_stays_symmetric_and_positive() -> None:
    case = Case(3, 0.02)
    with using("native"):
        joint = case.filter()
        joint.follow(case.windows(2), case.x[1:], 1.0 / RATE)
    P = joint.covariance
    size = np.sqrt(np.diag(P))
    assert np.array_equal(P, P.T)
    assert np.linalg.eigvalsh(P / np.outer(size, size))[0] > 0


def test_a_run_may_be_cut_and_its_steps_shared_between_the_kernels() -> None:
    case = Case(2, 0.05)
    whole, apart = case.filter(), case.filter()
    tau, x = case.windows(2), case.x[1:]
    with using("native"):
        whole.follow(tau, x, 1.0 / RATE)
        for part in (slice(0, 2), slice(2, None)):
            apart.follow(tau[part], x[part], 1.0 / RATE)
        assert np.array_equal(whole.mean, apart.mean)
        assert np.array_equal(whole.covariance, apart.covariance)
        before = case.filter()
        before.predict(tau[0], 1.0 / RATE)
        before.correct(x[0])
        before.follow(tau[1:], x[1:], 1.0 / RATE)
    assert_same(before, whole, 1e-9)


@pytest.mark.parametrize("spoiled", ["mass", "nan"])
def test_a_model_that_cannot_move_ends_with_numpys_error(spoiled: str) -> None:
    robot = random_robot(1, 2, 0.0)
    terms = RigidBody() + RotorInertia()
    model = BaseDynamics(robot, terms, structural_base(robot, terms, TorqueRows()))
    theta = np.append(robot.inertia_prior.ravel(), [0.1, -50.0 if spoiled == "mass" else 0.1])
    mean = np.concatenate([np.zeros(4), model.base.reduce(theta)])
    if spoiled == "nan":
        mean[-1] = np.nan
    joint = ExtendedKalman(model, mean, 1e-6 * np.eye(len(mean)), KalmanNoise(np.ones(2), np.ones(2)))
    with using("native"), pytest.raises(SolverError, match=r"filter-diverged"):
        joint.follow(np.zeros((3, 2, 2)), np.zeros((3, 2)), 0.005)
    assert joint.innovation == []


def test_terms_that_the_native_kernel_does_not_know_keep_to_numpy() -> None:
    robot = random_robot(1, 2, 0.0)
    terms = RigidBody() + Coulomb(width=0.0)
    samples: Samples = smooth_samples(robot, 4, seed=1, rate=RATE)
    model = BaseDynamics(robot, terms, structural_base(robot, terms, TorqueRows()))
    beta = model.base.reduce(np.append(robot.inertia_prior.ravel(), [0.1, 0.1]))
    mean = np.concatenate([samples.q[0], samples.dq[0], beta])
    noise = KalmanNoise(np.ones(2), np.full(2, 1e-3))
    joint = Counted(model, mean, 1e-6 * np.eye(len(mean)), noise)
    with using("native"):
        joint.follow(np.zeros((3, 2, 2)), samples.q[1:], 1.0 / RATE)
    assert joint.compiled == 0
    assert len(joint.innovation) == 3
