"""Madsen et al. 2020: counts, regrouping with its slips, rotor dynamics compensation on a simulated UR5e-like arm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from dynid_studies.madsen_arm import (
    ENCODER_NOISE,
    FC,
    FL,
    FV,
    SECONDS,
    SIGNS,
    STIFFNESS,
    TORQUE_NOISE,
    WIDTH,
    regrouped,
)
from scipy.linalg import solve_triangular
from scipy.signal import butter, sosfiltfilt

from dynid.base import Diagnostics
from dynid.estimate import OLS, WLS, Estimate
from dynid.factor import stack, structural_base
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import load_robot
from dynid.rows import TorqueRows
from dynid.run import Identification
from dynid.signals import ParallelFilter, Preparation, Samples
from dynid.simulation import Elasticity, Plant, SimulatedMotion, follow
from dynid.spatial import transformed
from dynid.terms import Coulomb, RigidBody, RotorCompensation, RotorInertia, Terms, Viscous
from dynid.testing import smooth_samples
from dynid.trajectories import FourierTrajectory
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.usefixtures("unexamined")

ROBOT = load_robot(ROBOTS / "ur5e.toml")
BODIES = Terms((RigidBody(),))


@pytest.mark.parametrize(
    ("gravity", "appearing", "rank"), [((0, 0, -9.81), 49, 36), ((2.0, 0, -9.6), 52, 38), ((0, 0, 0), 47, 34)]
)
def test_counts(gravity: tuple[float, ...], appearing: int, rank: int) -> None:
    robot = replace(ROBOT, gravity=np.array(gravity, dtype=np.float64))
    base = structural_base(robot, BODIES, TorqueRows())
    assert (int((base.B != 0).any(axis=0).sum()), base.rank) == (appearing, rank)


def test_a_free_rotor_inertia_is_collinear_with_link_1() -> None:
    base = structural_base(ROBOT, BODIES + RotorInertia(), TorqueRows())
    # Upright, the same holds for joint 2: six columns more, four of them new.
    assert base.rank == 36 + 4
    leading = {formula.split()[0]: formula for formula in base.formulas()}
    assert leading["Izz1"].endswith("+ Ia1")
    assert leading["Izz2"].endswith("+ Ia2")


def test_regrouping_is_exact_and_each_slip_is_not() -> None:
    rng = np.random.default_rng(0)
    q = rng.uniform(-np.pi, np.pi, (300, 6))
    samples = Samples.from_motion(q, rng.normal(0, 2, q.shape), rng.normal(0, 5, q.shape))
    pi = ROBOT.inertia_prior

    def miss(other: np.ndarray) -> float:
        return float(np.abs(BODIES.torque(ROBOT, samples, (other - pi).ravel())).max())

    assert miss(regrouped(pi)) < 1e-10
    for slip in ("alpha", "a", "order"):
        assert miss(regrouped(pi, slip)) > 1.0, slip


# A simulated arm: two encoders, stiff elastic joints, friction that depends on load and is known to 7 %.

SIGN_WIDTH = WIDTH
CHAIN = Preparation(cutoff=20.0, state_cutoff=50.0)


@dataclass(frozen=True)
class Arm:
    """The true motion and two logs of it: with both encoders and with the links' alone."""

    motion: SimulatedMotion
    both: Path
    links: Path


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Arm:
    load = transformed(np.array([1.5, 0, 0, 0, 4e-3, 0, 4e-3, 0, 0, 4e-3]), placed(0.04, 0.03, 0.08))
    bodies = np.array(ROBOT.inertia_prior)
    bodies[5] += load
    rng = np.random.default_rng(0)
    centre = np.array([0, -1.2, 1.0, -0.8, 0.7, 0])
    sine, cosine = rng.normal(0, 0.35, (2, 6, 5))
    trajectory = FourierTrajectory(centre, sine, cosine, 0.1, SECONDS, 1.5)
    t = np.arange(0, SECONDS, 1e-3)
    plant = Plant(ROBOT, inertia=bodies, elasticity=Elasticity(STIFFNESS, np.zeros(6)))
    m = follow(plant, trajectory, t)
    friction = FV * m.dtheta + (FC + FL * np.abs(m.load)) * np.tanh(m.dtheta / SIGN_WIDTH)
    current = m.load + friction + ROBOT.drive.reflected_rotor_inertia * m.ddtheta
    tau = current + TORQUE_NOISE * rng.normal(size=current.shape)
    q, theta = (x + ENCODER_NOISE * rng.normal(size=x.shape) for x in (m.q, m.theta))
    folder = tmp_path_factory.mktemp("madsen")
    names = ROBOT.joint_names
    both = write_log(folder / "both.parquet", t, canonical_columns(names, q, tau=tau, theta=theta))
    links = write_log(folder / "links.parquet", t, canonical_columns(names, q, tau=tau))
    return Arm(m, both, links)


def placed(x: float, y: float, z: float) -> np.ndarray:
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def known(loaded_by: Literal["joint", "motor"] = "joint", error: float = 0.07) -> RotorCompensation:
    """The friction model as the identification has it, each coefficient wrong by a share."""
    share = 1 + error * SIGNS
    viscous, coulomb, load = (tuple(share * x) for x in (FV, FC, FL))
    return RotorCompensation(
        viscous=viscous, coulomb=coulomb, load=load, width=SIGN_WIDTH, loaded_by=loaded_by
    )


DISCREPANCY = Viscous() + Coulomb(width=SIGN_WIDTH)


def identified(log: Path, terms: Terms, estimator: OLS | WLS | None = None) -> Identification:
    settings = Settings(terms=terms, estimator=estimator or WLS(), preparation=CHAIN)
    return identify(ROBOT, read_log(log, ROBOT), settings, diagnostics=Diagnostics())


@pytest.fixture(scope="module")
def compensated(arm: Arm) -> Identification:
    return identified(arm.both, RigidBody() + known() + DISCREPANCY)


def link_error(arm: Arm, theta: np.ndarray) -> float:
    """Error of the links' torque on the true motion, a share of it, root mean square over the joints."""
    m = arm.motion
    samples = Samples.from_motion(m.q[::20], m.dq[::20], m.ddq[::20])
    error = BODIES.torque(ROBOT, samples, theta[:60]) - m.load[::20]
    share = (error**2).sum(axis=0) / (m.load[::20] ** 2).sum(axis=0)
    return float(np.sqrt(share.mean()))


def weighted(run: Identification, weights: np.ndarray) -> np.ndarray:
    """Parameters (p,) by the same factors with given weights of the joints."""
    estimate: Estimate = run.estimate
    factors = run.factors.select(estimate.base.mask)
    R = stack(factors.total, estimate.base.independent, weights)
    b = estimate.base.rank
    theta = np.zeros(len(estimate.columns))
    theta[estimate.base.independent] = solve_triangular(R[:b, :b], R[:b, b])
    return theta


def by_weights(arm: Arm, run: Identification) -> list[float]:
    """Link errors with weights 1/sigma^2, 1/sigma (as printed) and 1."""
    sigma = run.estimate.sigma
    return [link_error(arm, weighted(run, w)) for w in (1 / sigma**2, 1 / sigma, np.ones(6))]


def test_weights_are_one_over_the_variance(arm: Arm, compensated: Identification) -> None:
    exact = identified(arm.both, RigidBody() + known(error=0.0) + DISCREPANCY)
    variance, printed, ols = by_weights(arm, exact)
    assert variance <= printed <= ols
    # Where friction is 7 % wrong residuals are not noise alone, and the two kinds of weights lie close together.
    variance, printed, ols = by_weights(arm, compensated)
    assert max(variance, printed) < ols
    assert variance == pytest.approx(link_error(arm, compensated.estimate.full_vector), rel=0.02)
    assert variance < 0.015


def test_rotor_compensation_against_the_rigid_model(arm: Arm, compensated: Identification) -> None:
    rigid = identified(arm.links, RigidBody() + RotorInertia() + DISCREPANCY)
    assert compensated.training.scores.total_nmse <= 0.1 * rigid.training.scores.total_nmse
    assert link_error(arm, compensated.estimate.full_vector) < 0.3 * link_error(
        arm, rigid.estimate.full_vector
    )


def test_friction_is_loaded_with_what_arrives_at_the_joint(arm: Arm, compensated: Identification) -> None:
    raw = identified(arm.both, RigidBody() + known(loaded_by="motor") + DISCREPANCY)
    implicit = link_error(arm, compensated.estimate.full_vector)
    assert link_error(arm, raw.estimate.full_vector) > 2 * implicit


def test_the_discrepancy_of_friction_is_found(compensated: Identification) -> None:
    value = dict(
        zip((c.name for c in compensated.estimate.columns), compensated.estimate.full_vector, strict=True)
    )
    found = np.array([[value[f"fv{j}"], value[f"fc{j}"]] for j in range(1, 7)])
    np.testing.assert_allclose(found[:, 0], -0.07 * SIGNS * FV, atol=0.012 * FV.max())
    assert (np.sign(found[:, 1]) == -SIGNS).all()


def test_textbook_intervals_are_too_narrow(compensated: Identification) -> None:
    estimate = compensated.estimate
    assert np.median(estimate.std / estimate.textbook_std) > 1.5
    residual = compensated.training.residuals
    assert residual is not None
    e = residual.error - residual.error.mean(axis=0)
    lag = (e[1:] * e[:-1]).sum(axis=0) / (e**2).sum(axis=0)
    assert np.median(lag) > 0.3


def test_parallel_filter_and_decimation_as_printed() -> None:
    samples = smooth_samples(ROBOT, 4000, rate=1000.0)
    parallel = ParallelFilter(1000.0, 20.0, order=4, decimation=20)
    rng = np.random.default_rng(0)
    panel = rng.normal(size=(3, 4000))
    kept, times = parallel.apply(panel, samples)
    assert kept.shape == (3, 200)
    np.testing.assert_allclose(np.diff(times), 0.02)
    plain = sosfiltfilt(butter(4, 20.0, fs=1000.0, output="sos"), panel, axis=1)[:, ::20]
    np.testing.assert_allclose(kept[:, 20:-20], plain[:, 20:-20], atol=1e-9)
    spectrum = np.abs(parallel._filter.gain(np.array([0.0, 20.0])))
    np.testing.assert_allclose(spectrum, [1.0, 0.5], atol=1e-12)
