"""Least squares between 0 and 1 against SciPy's trust region and the walls' own law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares

from dynid.base import Float, least_squares_in_box

SAMPLES = 200


def difference(residual, u: Float) -> Float:  # type: ignore[no-untyped-def]
    """Central differences, (rows, s)."""
    steps = 1e-6 * np.eye(len(u))
    return np.stack([(residual(u + h) - residual(u - h)) / 2e-6 for h in steps], axis=1)


@pytest.mark.parametrize("seed", range(12))
def test_it_ends_where_scipy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.linspace(0.0, 3.0, SAMPLES)
    truth = rng.uniform(0.1, 0.9, 2)

    def curve(u: Float) -> Float:
        return np.exp(-x / (0.2 + u[0])) + np.sin(1.0 + 2.0 * u[1] * x)

    y = curve(truth) + 0.05 * rng.normal(size=SAMPLES)

    def residual(u: Float) -> Float:
        return curve(u) - y

    start = np.clip(truth + rng.uniform(-0.1, 0.1, 2), 0.0, 1.0)
    found, square = least_squares_in_box(residual, lambda u: difference(residual, u), start)
    oracle = least_squares(residual, np.clip(start, 1e-6, 1 - 1e-6), bounds=(0, 1), xtol=1e-12, ftol=1e-14)
    assert square == pytest.approx(2.0 * oracle.cost, rel=1e-6)
    assert square == pytest.approx(float(residual(found) @ residual(found)), rel=1e-12)
    np.testing.assert_allclose(found, oracle.x, atol=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_a_wall_holds_what_is_pressed_against_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(SAMPLES, 3))
    beyond = np.array([-0.3, 0.5, 1.4])[rng.permutation(3)]
    y = A @ beyond
    found, _ = least_squares_in_box(lambda u: A @ u - y, lambda u: A, rng.uniform(0, 1, 3))
    slope = A.T @ (A @ found - y)
    size = np.linalg.norm(A, axis=0) * np.linalg.norm(y)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    inside = (found > 0.0) & (found < 1.0)
    assert np.abs(slope[inside] / size[inside]).max(initial=0.0) < 1e-5
    assert (slope[found == 0.0] >= 0.0).all()
    assert (slope[found == 1.0] <= 0.0).all()


def test_unknowns_without_effect_stay() -> None:
    start = np.array([0.2, 0.7])
    found, square = least_squares_in_box(lambda u: np.ones(5), lambda u: np.zeros((5, 2)), start)
    assert found.tolist() == start.tolist()
    assert square == 5.0
