"""Lines of motion that programs without dynid hold."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.terms import MotionBasis

WIDTH = 0.3


def line(basis: MotionBasis, motion: np.ndarray) -> np.ndarray:
    """What the basis is of one joint's position, velocity and acceleration (3, T)."""
    _, dq, ddq = motion
    return {
        MotionBasis.SPEED: dq,
        MotionBasis.SIGN: np.tanh(dq / WIDTH),
        MotionBasis.ACCELERATION: ddq,
        MotionBasis.ONE: np.ones_like(dq),
    }[basis]


@pytest.mark.parametrize("basis", MotionBasis)
def test_slopes_of_lines_are_those_of_differences(basis: MotionBasis) -> None:
    motion, h = np.random.default_rng(0).normal(size=(3, 20)), 1e-6
    found = basis.slope(line(basis, motion), WIDTH)
    for place in range(3):
        step = h * (np.arange(3) == place)[:, None]
        wanted = (line(basis, motion + step) - line(basis, motion - step)) / (2 * h)
        own = found[1] if found is not None and found[0] == place else 0.0
        np.testing.assert_allclose(np.broadcast_to(own, wanted.shape), wanted, atol=1e-8)


def test_a_sign_without_width_has_no_slope() -> None:
    assert MotionBasis.SIGN.slope(np.ones(3), 0.0) is None
