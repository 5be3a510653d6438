"""The fit of the prior torque: bounded least squares, compared with SciPy's solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from dynid.log.prior_check import ANY, LEAST_LEFT, MASSES, SIGN_WIDTH, PriorTorque
from dynid.simulation import rigid_torque
from dynid.testing.machines import MACHINES

ROBOT = MACHINES["arm7"].robot


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("factors", [MASSES, ANY], ids=["masses", "any"])
def test_a_fit_of_the_prior_torque_is_bounded_least_squares(seed: int, factors: tuple[float, float]) -> None:
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.normal(size=(3, 200, ROBOT.n)) * np.array([2.0, 1.0, 3.0])[:, None, None]
    gravity = rng.normal(size=3)
    # Columns that no bounded model fits: a scaled torque, negative friction, and noise.
    torque = rigid_torque(ROBOT, ROBOT.inertia_prior, q, dq, ddq)
    tau = np.column_stack([0.2 * torque[:, 0], 3.0 * torque[:, -1] - 4.0 * dq[:, -1], rng.normal(size=200)])
    prior = PriorTorque.of(ROBOT, q, dq, ddq)
    unexplained, factor = prior.fit(gravity, tau, factors)
    for j in range(ROBOT.n):
        A = np.column_stack(
            [prior.inertial[j] + prior.gravity[j] @ gravity, dq[:, j], np.tanh(dq[:, j] / SIGN_WIDTH)]
        )
        A = A - A.mean(axis=0)
        size = np.linalg.norm(A, axis=0)
        for i, column in enumerate(tau.T):
            target = column - column.mean()
            bounds = (
                np.array([factors[0], 0.0, 0.0]) * size,
                np.array([factors[1] * size[0], np.inf, np.inf]),
            )
            oracle = lsq_linear(A / size, target, bounds, tol=1e-14)
            share = max(2.0 * oracle.cost / float(target @ target), LEAST_LEFT)
            assert unexplained[j, i] == pytest.approx(share, rel=1e-6)
            assert factor[j, i] == pytest.approx(oracle.x[0] / size[0], rel=1e-4, abs=1e-6)


def test_the_prior_torque_is_the_rigid_torque() -> None:
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 50, ROBOT.n))
    prior = PriorTorque.of(ROBOT, q, dq, ddq)
    predicted = (prior.inertial + prior.gravity @ ROBOT.gravity).T
    np.testing.assert_allclose(
        predicted, rigid_torque(ROBOT, ROBOT.inertia_prior, q, dq, ddq), rtol=1e-10, atol=1e-10
    )


def test_a_constant_column_is_not_explained() -> None:
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, 50, ROBOT.n))
    shares, _ = PriorTorque.of(ROBOT, q, dq, ddq).fit(ROBOT.gravity, np.full((50, 1), 3.0))
    assert (shares == 1.0).all()
