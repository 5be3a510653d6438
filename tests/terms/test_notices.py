"""What terms say about their own sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, Level
from dynid.factor import structural_base
from dynid.rows import TorqueRows
from dynid.spatial import rotation_about
from dynid.terms import (
    BodyParameters,
    Declared,
    Drift,
    FittedEffect,
    GainError,
    GravityTilt,
    RigidBody,
    Terms,
    TorqueDelay,
    find_long_lag,
)
from dynid.terms.payload import find_load
from dynid.terms.torque_delay import lag_in_words
from dynid.terms.zero_offset import ZeroOffset
from dynid.testing import random_inertia, random_robot


@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize(("degrees", "half"), [(3.0, 0.2), (-3.0, 0.2), (0.3, 0.1), (3.0, 2.8)])
def test_a_tilt_is_told_beyond_its_interval(axis: str, degrees: float, half: float) -> None:
    robot = random_robot(1, 3)
    sizes = {f"tilt{axis}": (np.radians(degrees), np.radians(half))}
    notices = list(
        GravityTilt.words.notices(GravityTilt(), FittedEffect(robot, sizes, 100.0, 20.0, np.ones(3)))
    )
    assert len(notices) == (abs(degrees) - half > 0.5)
    for notice in notices:
        assert notice.declared is not None
        gravity = notice.declared.gravity
        # As strong as before, turned by the tilt about the axis: x tilts gravity along y, y along x.
        turn = np.cross(robot.gravity, gravity) / 9.81**2
        assert np.linalg.norm(gravity) == pytest.approx(9.81)
        assert turn["xy".index(axis)] == pytest.approx(np.sin(np.radians(degrees)))
        assert f"tilted by {abs(degrees):.2g} +- {half:.1g} degrees" in notice.finding.text


@pytest.mark.parametrize(
    ("value", "half"), [(0.2, 0.01), (-0.2, 0.15), (0.2, 0.19), (-0.02, 0.001), (-1.9, 0.1), (-1.2, 0.3)]
)
def test_a_gain_is_told_beyond_its_interval_and_doubted_over_a_tenth(value: float, half: float) -> None:
    robot = random_robot(1, 3)
    notices = list(
        GainError.words.notices(
            GainError(), FittedEffect(robot, {"dg2": (value, half)}, 100.0, 20.0, np.ones(3))
        )
    )
    assert len(notices) == (abs(value) - half > 0.03)
    for notice in notices:
        turned = (
            value + half < -1.0
        )  # the other sign, interval included; one that may be none is no size to doubt
        assert notice.finding.code == ("torque-sign" if turned else "drive-gain")
        assert (notice.finding.level is Level.DOUBT) == (turned or (value > -1.0 and abs(value) - half > 0.1))


@pytest.mark.parametrize(("late", "found"), [(0.2, 0.2), (-0.13, -0.13), (0.0, 0.0), (0.8, 0.0)])
def test_a_long_lag_is_where_the_plain_model_fits_best(late: float, found: float) -> None:
    """In seconds, to the grid that is looked through; one out of its reach is none."""

    class Shifted:
        enough, rate, joints = True, 240.0, (0, 1)

        def misfit_by_shift(self, shifts: Float) -> Float:
            return np.stack([1.0 - 0.9 * np.exp(-(((shifts - late) / 0.05) ** 2))] * 2, axis=1)

    assert find_long_lag(Shifted()) == pytest.approx(found, abs=1 / 60)  # type: ignore[arg-type]  # what it asks for


@pytest.mark.parametrize(
    ("own", "found"), [((0.312, 0.192), 0.0), ((0.25, 0.25, 0.12), 0.25), ((0.25, 0.2, 0.33), 0.0)]
)
def test_a_clock_makes_most_joints_late_alike(own: tuple[float, ...], found: float) -> None:
    """A leg in ground contact fitted best with torque 0.26 s later: its hip by itself 0.31 s, its knee 0.19 s."""

    class Apart:
        enough, rate, joints = True, 240.0, tuple(range(len(own)))

        def misfit_by_shift(self, shifts: Float) -> Float:
            return np.stack([1.0 - 0.95 * np.exp(-(((shifts - one) / 0.08) ** 2)) for one in own], axis=1)

    assert find_long_lag(Apart()) == pytest.approx(found, abs=0.05)  # type: ignore[arg-type]  # what it asks for


def test_a_load_that_no_log_tells_of_may_be_as_heavy_as_the_robot() -> None:
    """Its mass is none then, and known to the robot's own weight."""
    robot = random_robot(1, 3)
    robot = replace(robot, inertia_prior=random_inertia(2, 3))
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())

    class Vague:
        def __init__(self, noise: float) -> None:
            covariance = noise**2 * np.eye(base.rank)
            self.robot = robot
            self.body_parameters = BodyParameters(base.B, np.ones(base.rank), covariance)

    load = find_load(Vague(1e6))  # type: ignore[arg-type]  # what it asks for
    assert load is not None
    assert load.mass == pytest.approx(0.0, abs=1e-3)
    assert load.std == pytest.approx(robot.inertia_prior[:, 0].sum(), rel=1e-6)
    assert not load.sure


@pytest.mark.parametrize("slides", [False, True])
@pytest.mark.parametrize(
    ("value", "half"), [(3.0, 0.2), (-3.0, 2.8), (0.4, 0.1), (-13.0, 1.0), (10.5, 1.0), (30.0, 1.0)]
)
def test_a_zero_is_told_beyond_its_interval_in_units_of_its_joint(
    slides: bool, value: float, half: float
) -> None:
    """Told from half a degree or one millimetre on; from ten or twenty on, something else is looked for."""
    robot = random_robot(1, 3)
    joint = [bool(one) for one in robot.prismatic].index(slides)
    unit = 1e-3 if slides else np.pi / 180.0
    sizes = {f"zq{joint + 1}": (value * unit, half * unit)}
    notices = list(
        ZeroOffset.words.notices(ZeroOffset(), FittedEffect(robot, sizes, 100.0, 20.0, np.ones(3)))
    )
    sure = abs(value) - half
    assert len(notices) == (sure > (1.0 if slides else 0.5))
    for notice in notices:
        assert f"{value:.2g} +- {half:.1g} {'mm' if slides else 'degrees'}" in notice.finding.text
        assert ("too large for an encoder" in notice.finding.advice) == (sure > (20.0 if slides else 10.0))


@pytest.mark.parametrize(("rate", "half", "seconds"), [(0.4, 0.01, 1800.0), (-0.4, 0.3, 7200.0)])
def test_a_drift_is_told_by_its_share_of_the_torque_over_the_log(
    rate: float, half: float, seconds: float
) -> None:
    robot = random_robot(1, 3, 0.0)
    torque = np.array([1.0, 8.0, 1.0])
    held = FittedEffect(robot, {"fd2": (rate, half)}, 100.0, seconds, torque)
    change = rate * seconds / 3600.0
    (notice,) = Drift.words.notices(Drift(), held)
    assert f"{change:.3g} +- {half * seconds / 3600.0:.1g} N m" in notice.text
    assert f"({100 * abs(change) / 8.0:.2g} % of its torque)" in notice.text
    assert not list(Drift.words.notices(Drift(), replace(held, seconds=0.1 * seconds * 0.08 / abs(change))))


@pytest.mark.parametrize("seconds", [0.004, -0.004])
def test_torque_that_comes_after_the_motion_lags(seconds: float) -> None:
    text = lag_in_words(seconds, 0.0003, 500.0)
    assert ("lags behind" in text) == (seconds > 0)
    assert ("runs ahead" in text) == (seconds < 0)
    assert "4 +- 0.3 ms (2 samples)" in text


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(
    ("samples", "half"), [(0.9, 0.1), (3.0, 0.5), (-3.0, 2.5), (7.0, 0.5), (-7.0, 0.5), (7.0, 2.5)]
)
def test_a_lag_is_told_beyond_a_sample_and_doubted_beyond_five(
    samples: float, half: float, each: bool
) -> None:
    """Of all joints together; of one alone it is no doubt. Intervals are counted in."""
    robot, rate = random_robot(1, 3), 250.0
    term = TorqueDelay(each=each)
    (name, *_) = [column.name for column in term.columns(robot)]
    held = FittedEffect(robot, {name: (samples / rate, half / rate)}, rate, 20.0, np.ones(3))
    notices = list(term.words.notices(term, held))
    assert len(notices) == (abs(samples) - half > 1.0)
    for notice in notices:
        doubted = not each and abs(samples) - half > 5.0
        finding = notice if each else notice.finding
        assert (finding.level is Level.DOUBT) == doubted
        declared = None if each else notice.declared
        assert (declared is not None and declared.seconds == samples / rate) == doubted
        assert ("lags behind" in finding.text) == (samples > 0)
        assert "; the model contains it" in finding.text
        assert (f"on '{robot.joint_names[0]}'" in finding.text) == each


def test_the_opposite_of_a_reading_is_as_far_on_the_other_side() -> None:
    robot = random_robot(1, 3)
    gravity = rotation_about(np.array([0.6, 0.8, 0.0]), 0.05) @ robot.gravity
    read = Declared(gravity, {1: 1.25}, 0.02, {0: 0.1})
    other = read.mirror(robot)
    assert (other.factors, other.seconds, other.zeros) == ({1: 0.8}, -0.02, {0: -0.1})
    assert other.gravity is not None
    assert np.linalg.norm(other.gravity) == pytest.approx(np.linalg.norm(gravity))
    middle = other.gravity + gravity
    np.testing.assert_allclose(middle / np.linalg.norm(middle), robot.gravity / np.linalg.norm(robot.gravity))
    again = other.mirror(robot).gravity
    assert again is not None
    np.testing.assert_allclose(again, gravity, atol=1e-12)
    assert Declared(gravity=robot.gravity).mirror(robot).gravity is robot.gravity
    assert Declared(seconds=0.1).mirror(robot).gravity is None
