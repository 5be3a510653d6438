"""Iterated weights stay bounded where the model is wrong: no joint is given up for another's sake."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from dynid.base import Float
from dynid.estimate import IRLS, WLS, FeasibleFit, LogSource, Regression, regression_of, residual_sigma, solve
from dynid.estimate.least_squares import GROWTH, _iterated, weight_floor
from dynid.factor import Assembly, Blocking, group_scale, structural_base
from dynid.robot import load_example
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples
from dynid.terms import Coulomb, Offset, RigidBody, Viscous

RATE, SECONDS = 100.0, 20.0
TERMS = RigidBody() + Viscous() + Coulomb(width=0.05) + Offset()


@lru_cache
def regression(seed: int, wrong: bool) -> Regression:
    """An arm of six joints on a slow motion of two sines a joint, with what its model lacks if `wrong`.

    Cables that turn with two joints, cogging and friction that falls with speed, 0.3 to 60 % of each joint's torque.
    """
    robot, rng = load_example("ur5e"), np.random.default_rng(seed)
    n, t = robot.n, np.arange(round(SECONDS * RATE)) / RATE
    speed = 2 * np.pi * rng.uniform(0.05, 0.4, (n, 2))
    size, phase = rng.uniform(0.05, 0.7, (n, 2)), rng.uniform(0, 6, (n, 2))
    angle = t[:, None, None] * speed + phase
    q, dq = (size * np.sin(angle)).sum(-1), (size * speed * np.cos(angle)).sum(-1)
    ddq = -(size * speed**2 * np.sin(angle)).sum(-1)
    theta = np.zeros(len(TERMS.columns(robot)))
    theta[: 10 * robot.n_bodies] = robot.inertia_prior.ravel()
    tau = TERMS.torque(robot, Samples.from_motion(q, dq, ddq, rate=RATE), theta)
    torque = np.sqrt((tau**2).mean(axis=0)) + 0.02
    share = np.exp(rng.uniform(np.log(0.003), np.log(0.6), n))
    cogging = np.sin(3 * q + rng.uniform(0, 6, n)) * rng.normal(size=n)
    falling = np.sign(dq) * rng.uniform(0.3, 1, n) * np.exp(-np.abs(dq) / 0.2)
    cable = np.sin(2 * np.roll(q, 1, axis=1) + q) * rng.normal(size=n)
    tau = tau + torque * share * wrong * (cogging + falling + cable)
    tau = tau + 0.001 * torque * rng.normal(size=tau.shape)
    structural = structural_base(robot, TERMS, TorqueRows())
    parallel = ParallelFilter(RATE, 8.0, decimation=2)
    assembly = Assembly(robot, TERMS, TorqueRows(), structural.mask, parallel, Blocking(SECONDS / 20))
    samples = Samples.from_motion(q, dq, ddq, tau, rate=RATE)
    source = LogSource(assembly, [samples])
    return regression_of(robot, TERMS, structural, assembly.factors([samples]), source)


def missed(found: Regression, value: Float) -> Float:
    """Residual over torque, by joint."""
    return residual_sigma(found, value) * np.sqrt(group_scale(found.factors.total))


def by_torque(found: Regression) -> Float:
    """The estimate with weights by torque alone."""
    return solve(found, group_scale(found.factors.total))[0]


@pytest.mark.parametrize(("seed", "joint"), [(8, 2), (14, 2)])
def test_a_joint_that_the_weights_let_go_is_held(seed: int, joint: int) -> None:
    case = regression(seed, True)
    plain = by_torque(case)
    first = residual_sigma(case, plain)
    let_go = _iterated(case, 30, 1e-4, None, first, np.zeros(len(first)))[0]
    assert missed(case, let_go)[joint] > 2.0 * missed(case, plain)[joint]
    # Constrained fits also weigh by effective samples, by which a joint may lose as much again.
    for estimator, growth in ((WLS(), GROWTH), (FeasibleFit(), GROWTH**2), (IRLS(), GROWTH)):
        found = estimator.fit(case)
        assert (missed(case, found.value) <= 1.05 * growth * np.maximum(missed(case, plain), 0.1)).all()
    status = WLS().fit(case).status
    assert status.ok
    assert "bounded by a model error" in status.text
    assert "'j3'" in status.text


@pytest.mark.parametrize("seed", [8, 14])
def test_a_right_model_is_weighted_by_its_noise_alone(seed: int) -> None:
    case = regression(seed, False)
    found = WLS().fit(case)
    assert found.status.text == "weights converged"
    np.testing.assert_allclose(found.weights * found.sigma**2, 1.0, rtol=1e-3)
    assert not weight_floor(found.weights, found.sigma).any()


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_floor_is_what_weights_hold_beside_residuals(unit: float) -> None:
    sigma, floor = unit * np.array([0.1, 1.0, 3.0, 2.0]), unit * np.array([0.5, 0.3, 2.0, 0.0])
    np.testing.assert_allclose(weight_floor(1.0 / (sigma**2 + floor**2), sigma), floor, rtol=1e-6)
