"""Nini et al. 2024, numbers: without noise, errors of the model, five percent of noise at a tenth and in full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from dynid_studies.nini_arm import (
    MODEL,
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
    with_torque,
)
from dynid_studies.nini_checks import stiffer
from dynid_studies.run import run_study
from dynid_studies.study import Dose

from dynid.base import Float
from dynid.estimate import OLS, WLS, Estimate, FeasibleFit, Regression
from dynid.feasible import UNLIMITED
from dynid.robot import RobotModel
from dynid.rows import MotorRows, TorqueRows
from dynid.signals import Samples
from dynid.spatial import pseudo_inertia
from dynid.terms import Coulomb, MotorInertia, RigidBody, Terms, Viscous
from dynid.verbs import StaticEstimate, identify_statics

# Ten times fewer samples of a noise smaller by the root of ten hold the same information as the spec's.
DOSE, NOISE = 7000, 0.05 / np.sqrt(10.0)


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    return arm()


# --- without noise ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact(robot: RobotModel) -> tuple[Regression, StaticEstimate, list[Samples]]:
    theta = truth(robot)
    motions = [motion(robot, 2000, seed)[1] for seed in range(2)]
    motions = [with_torque(robot, MODEL, s, theta) for s in motions]
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
    columns = [column.name for column in MODEL.columns(robot)]
    made_up = stiffer(robot, truth(robot))
    base = static.structural
    np.testing.assert_allclose(base.reduce(made_up), base.reduce(truth(robot)), rtol=1e-6, atol=1e-6)
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


def test_what_model_errors_cost(robot: RobotModel) -> None:
    motions = [motion(robot, 2000, seed)[1] for seed in range(2)]
    theta = truth(robot)
    motions = [with_torque(robot, MODEL, s, theta) for s in motions]
    assert fitted(robot, MODEL, motions).max() < 1e-6
    joint_side = RigidBody() + MotorInertia() + Viscous() + Coulomb() + SPRINGS
    cost = fitted(robot, joint_side, motions)
    assert (cost[1:5] > 1.0).all()
    uncoupled_rotors = fitted(
        arm(coupled=False), RigidBody() + MotorInertia() + SPRINGS, motions_of_rotors(robot)
    )
    assert (uncoupled_rotors[1:5] > 0.1).all()
    bars = arm(bars=True)
    rigid = Terms((RigidBody(),))
    own = [with_torque(bars, rigid, s, bars.inertia_prior.ravel()) for s in motions]
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
    return [with_torque(robot, terms, motion(robot, 2000, 3)[1], theta)]


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
    clean = [with_torque(robot, MODEL, s, theta) for s in clean]
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
    pytest.importorskip("clarabel")
    motor = noisy.regression(MotorRows())
    plain, found = WLS().fit(motor), FeasibleFit(1e-6, prior="euclidean", density=UNLIMITED).fit(motor)
    bodies = found.parameters[:60].reshape(6, 10)
    assert min(np.linalg.eigvalsh(pseudo_inertia(body))[0] for body in bodies) >= 0.0
    scaled = [
        sum(w * f.residual_square(t) for w, f in zip(plain.weights, motor.factors.total, strict=True))
        for t in (lifted(motor, found.parameters), plain.full_vector)
    ]
    assert scaled[0] <= 1.01 * scaled[1]
    error = [MODEL.torque(robot, s, found.parameters) - s.tau for s in noisy.clean]
    assert np.mean([np.mean(e[:, 1] ** 2) for e in error]) <= 2.0


def lifted(one: Regression, theta: Float) -> Float:
    """The parameters' base values on the independent columns."""
    found = np.zeros(len(theta))
    found[one.base.independent] = one.base.reduce(theta)
    return found


@pytest.mark.slow
def test_the_full_dose_meets_the_figures(robot: RobotModel) -> None:
    study = run_study("nini2024", Dose(full=True))
    assert [(result.name, result.ours) for result in study.missed] == []
