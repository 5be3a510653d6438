"""Friction of samples that were thinned out: the sign is averaged over the time that a sample stands for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import load_example
from dynid.signals import Preparation, Samples
from dynid.signals.prepare import prepare
from dynid.terms import (
    AsymmetricCoulomb,
    Coulomb,
    Offset,
    RigidBody,
    Sigmoid,
    Viscous,
    direction,
    smooth_sign,
)
from dynid.testing import random_robot
from dynid.trajectories import FourierTrajectory

pytestmark = pytest.mark.usefixtures("unexamined")

SPAN = 0.02
WIDTHS = (0.0, 1e-4, 0.02, 5.0)


def states(count: int = 400, span: float = SPAN) -> Samples:
    rng = np.random.default_rng(3)
    dq, ddq = 0.05 * rng.normal(size=(2, count, 2)) * [[[1.0]], [[40.0]]]
    ddq[::7] = 0.0
    return replace(Samples.from_motion(np.zeros_like(dq), dq, ddq), span=span)


def averaged(samples: Samples, width: float) -> tuple[Float, Float]:
    """Means of the positive and the negative part, by the midpoint rule."""
    t = (np.arange(20_000) + 0.5) / 20_000 - 0.5
    low, high = np.zeros_like(samples.dq), np.zeros_like(samples.dq)
    for k in range(len(samples)):
        s = smooth_sign(samples.dq[k] + samples.span * t[:, None] * samples.ddq[k], width)
        low[k], high[k] = np.minimum(s, 0.0).mean(axis=0), np.maximum(s, 0.0).mean(axis=0)
    return high, low


@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_the_mean_over_the_span(width: float) -> None:
    samples = states()
    high, low = averaged(samples, width)
    np.testing.assert_allclose(direction(samples, width), high + low, atol=1e-4)
    for joint in range(2):
        sides = AsymmetricCoulomb(width).curve(random_robot(1, 2, 0.0), samples, joint, np.empty(0))
        np.testing.assert_allclose(sides[0], high[:, joint], atol=1e-4)
        np.testing.assert_allclose(sides[1], low[:, joint], atol=1e-4)
        np.testing.assert_array_equal(direction(samples, width, joint), direction(samples, width)[:, joint])


@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_odd_bounded_and_grows_with_velocity(width: float) -> None:
    samples = states()
    s = direction(samples, width)
    mirrored = replace(samples, dq=-samples.dq)
    np.testing.assert_allclose(direction(mirrored, width), -s, atol=1e-12)
    assert (np.abs(s) <= 1.0).all()
    faster = replace(samples, dq=samples.dq + 0.01)
    assert (direction(faster, width) >= s - 1e-12).all()


@pytest.mark.parametrize("width", WIDTHS)
def test_instants_are_left_alone(width: float) -> None:
    samples = states(span=0.0)
    np.testing.assert_array_equal(direction(samples, width), smooth_sign(samples.dq, width))


def test_a_short_span_changes_nothing_at_the_seam() -> None:
    # Formula and plain value meet where the formula would lose digits.
    for span in (1e-9, 1e-6, 1e-4):
        samples = states(span=span)
        change = direction(samples, 0.02) - smooth_sign(samples.dq, 0.02)
        assert np.abs(change).max() <= (0.5 * span * np.abs(samples.ddq).max() / 0.02) ** 2 + 1e-9


def test_a_sigmoid_is_averaged_as_the_two_sides_are() -> None:
    robot, samples = random_robot(1, 2, 0.0), states()
    wanted = np.ones(2, dtype=np.bool_)
    steep = Sigmoid(slope=100.0, shift=0.0).torque_regressor(robot, samples, wanted)
    for joint in range(2):
        np.testing.assert_allclose(steep.values[joint][0], 0.5 * direction(samples, 0.02, joint), atol=1e-12)


def test_a_shifted_sigmoid_is_the_mean_of_its_formula() -> None:
    """The least velocity is where the greatest is without acceleration; the mean is Simpson's between the two."""
    robot, samples = random_robot(1, 2, 0.0), states()
    slope, shift = 4.0, 0.2
    found = Sigmoid(slope, shift).torque_regressor(robot, samples, np.ones(2, dtype=np.bool_))

    def sigmoid(speed: Float) -> Float:
        return 1.0 / (1.0 + np.exp(-slope * (speed + shift))) - 1.0 / (1.0 + np.exp(-slope * shift))

    half = 0.5 * samples.span * samples.ddq
    mean = (sigmoid(samples.dq - half) + 4.0 * sigmoid(samples.dq) + sigmoid(samples.dq + half)) / 6.0
    for joint in range(2):
        # Simpson's error is h^4 / 180 of the fourth derivative, below slope^4 / 8, over the half width h.
        error = slope**4 / 8.0 * np.abs(half).max() ** 4 / 180.0
        np.testing.assert_allclose(found.values[joint][0], mean[:, joint], atol=error + 1e-12)


def test_a_thinned_log_keeps_its_friction(tmp_path: Path) -> None:
    """Sharp friction behind a cut-off of 2.5 Hz, sampled at 40 Hz: the sign at the samples alone misses 1.1 %."""
    robot = load_example("arm7")
    terms = RigidBody() + Viscous() + Coulomb() + Offset()
    t = np.arange(0.0, 16.0, 1e-3)
    q, dq, ddq = FourierTrajectory.random(robot, 16.0, 5, 4, 0.15, 1.5).motion(t)
    theta = np.array([c.prior if np.isfinite(c.prior) else 0.3 for c in terms.columns(robot)])
    tau = terms.torque(robot, Samples.from_motion(q, dq, ddq), theta)
    path = write_log(tmp_path / "log.parquet", t, canonical_columns(robot.joint_names, q, tau=tau))
    log, low = read_log(path, robot), Preparation(cutoff=2.5, state_cutoff=2.5)
    spans = {s.span for s in prepare(log, low, Diagnostics())}
    assert spans == {1.0 / 40.0}
    made = identify(robot, log, Settings(terms=terms, preparation=low))
    found = made.estimate.full_vector
    dry = np.array([c.term == "coulomb" for c in terms.columns(robot)])
    assert np.abs(found[dry] / theta[dry] - 1.0).max() < 0.004
    assert made.training.scores.total_relative < 0.003


def test_two_sides_of_friction_are_one_where_they_are_equal() -> None:
    robot, samples = random_robot(1, 2, 0.0), states()
    wanted = np.ones(4, dtype=np.bool_)
    sides = AsymmetricCoulomb(width=0.02).torque_regressor(robot, samples, wanted)
    for joint in range(2):
        np.testing.assert_allclose(
            sides.values[joint].sum(axis=0), direction(samples, 0.02, joint), atol=1e-12
        )
