"""What terms say about their own sizes."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.terms.gain_error import GainError
from dynid.terms.gravity_tilt import GravityTilt
from dynid.terms.residual_tests import Held, Level
from dynid.terms.torque_delay import find_long_lag
from dynid.testing import random_robot


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize(("degrees", "half"), [(3.0, 0.2), (-3.0, 0.2), (0.3, 0.1), (3.0, 2.8)])
def test_a_tilt_is_told_beyond_its_interval(axis: str, degrees: float, half: float) -> None:
    robot = random_robot(1, 3)
    sizes = {f"tilt{axis}": (np.radians(degrees), np.radians(half))}
    notices = list(GravityTilt().notices(Held(robot, sizes, 100.0, 20.0, np.ones(3))))
    assert len(notices) == (abs(degrees) - half > 0.5)
    for notice in notices:
        assert notice.declared is not None
        gravity = notice.declared.gravity
        # As strong as before, turned by the tilt about the axis: x tilts gravity along y, y along x.
        turn = np.cross(robot.gravity, gravity) / 9.81**2
        assert np.linalg.norm(gravity) == pytest.approx(9.81)
        assert turn["xy".index(axis)] == pytest.approx(np.sin(np.radians(degrees)))
        assert f"leans by {abs(degrees):.2g} +- {half:.1g} degrees" in notice.found


@pytest.mark.parametrize(
    ("value", "half"), [(0.2, 0.01), (-0.2, 0.15), (0.2, 0.19), (-0.02, 0.001), (-1.9, 0.1)]
)
def test_a_gain_is_told_beyond_its_interval_and_doubted_over_a_tenth(value: float, half: float) -> None:
    robot = random_robot(1, 3)
    notices = list(GainError().notices(Held(robot, {"dg2": (value, half)}, 100.0, 20.0, np.ones(3))))
    assert len(notices) == (abs(value) - half > 0.03)
    for notice in notices:
        assert (notice.level is Level.DOUBT) == (abs(value) - half > 0.1)
        assert notice.identifier == ("torque-sign" if value < -1 else "drive-gain")


@pytest.mark.parametrize(("late", "found"), [(0.2, 0.2), (-0.13, -0.13), (0.0, 0.0), (0.8, 0.0)])
def test_a_long_lag_is_where_the_plain_model_fits_best(late: float, found: float) -> None:
    """In seconds, to the grid that is looked through; one out of its reach is none."""

    class Shifted:
        enough, rate = True, 240.0

        def misfit_by_shift(self, shifts: Float) -> Float:
            return 1.0 - 0.9 * np.exp(-(((shifts - late) / 0.05) ** 2))

    assert find_long_lag(Shifted()) == pytest.approx(found, abs=1 / 60)  # type: ignore[arg-type]  # what it asks for
