"""Fourier motions: derivatives, rest, limits, reproducibility, JSON."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import InputError, UsageError
from dynid.factor import structural_base
from dynid.robot import Limits, load_example
from dynid.rows import TorqueRows
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.trajectories import FourierTrajectory
from dynid.trajectories.trajectory import fit_to_limits
from dynid.verbs.demo import best_random, information

SPEED_UP_SECONDS = 0.25

ROBOT = load_example("arm7")
TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
SEEDS = (0, 1, 2, 3, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_velocity_and_acceleration_are_the_derivatives(seed: int) -> None:
    trajectory = FourierTrajectory.random(ROBOT, 12.0, 5, seed)
    t, h = np.linspace(0.0, 12.0, 1201), 1e-4
    ahead, behind = trajectory.motion(t + h), trajectory.motion(t - h)
    _, dq, ddq = trajectory.motion(t)
    assert np.abs((ahead[0] - behind[0]) / (2 * h) - dq).max() < 1e-5 * np.abs(dq).max()
    assert np.abs((ahead[1] - behind[1]) / (2 * h) - ddq).max() < 1e-5 * np.abs(ddq).max()


@pytest.mark.parametrize("seed", SEEDS)
def test_starts_and_ends_at_rest_with_three_smooth_derivatives(seed: int) -> None:
    trajectory = FourierTrajectory.random(ROBOT, 10.0, 6, seed)
    h = 1e-3
    for t in ([0.0, 10.0], [-1.0, 11.0]):
        q, dq, ddq = trajectory.motion(np.array(t))
        np.testing.assert_array_equal(q, np.broadcast_to(trajectory.centre, q.shape))
        assert not dq.any()
        assert not ddq.any()
    near = trajectory.motion(np.array([h, 10.0 - h]))[2]
    assert np.abs(near).max() < 1e-3 * np.abs(trajectory.motion(np.linspace(0, 10, 500))[2]).max()


def test_the_series_is_periodic() -> None:
    trajectory = FourierTrajectory.random(ROBOT, 30.0, 6, 1, frequency=0.125)
    t = np.linspace(3.0, 11.0, 100)
    for now, later in zip(trajectory.motion(t), trajectory.motion(t + 8.0), strict=True):
        np.testing.assert_allclose(now, later, atol=1e-11)


@pytest.mark.parametrize("seed", SEEDS)
def test_limits_hold_on_a_dense_grid_and_are_used(seed: int) -> None:
    trajectory = FourierTrajectory.random(ROBOT, 15.0, 6, seed, margin=0.05)
    q, dq, ddq = trajectory.motion(np.linspace(0.0, 15.0, 60_001))
    limits = ROBOT.limits
    assert (q > limits.lower).all()
    assert (q < limits.upper).all()
    speed = np.abs(dq).max(axis=0) / limits.velocity
    push = np.abs(ddq).max(axis=0) / (limits.velocity / SPEED_UP_SECONDS)
    swing = np.ptp(q, axis=0) / (limits.upper - limits.lower)
    used = np.stack([speed, push, swing]).max(axis=0)
    assert (used <= 0.955).all()
    assert (used >= 0.945).all()


def test_a_joint_without_limits_keeps_its_motion() -> None:
    trajectory = FourierTrajectory.random(ROBOT, 10.0, 3, 4)
    same = fit_to_limits(trajectory, Limits.none(7))
    assert same.to_json() == trajectory.to_json()


def test_one_seed_one_motion() -> None:
    one, again, other = (FourierTrajectory.random(ROBOT, 10.0, 5, seed) for seed in (7, 7, 8))
    assert one.to_json() == again.to_json()
    assert one.to_json() != other.to_json()


def test_json_keeps_every_digit() -> None:
    trajectory = FourierTrajectory.random(ROBOT, 10.0, 5, 7)
    t = np.linspace(0, 10, 50)
    for a, b in zip(
        trajectory.motion(t), FourierTrajectory.from_json(trajectory.to_json()).motion(t), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"kind": "spline", "format": 1}', '{"kind": "fourier", "format": 1}']
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="trajectory-json"):
        FourierTrajectory.from_json(text)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="ramp"):
        FourierTrajectory.random(ROBOT, 3.0, 5, 0, ramp=2.0)
    with pytest.raises(UsageError, match="harmonics"):
        FourierTrajectory.random(ROBOT, 10.0, 0, 0)
    with pytest.raises(UsageError, match="numbers"):
        FourierTrajectory(np.zeros(2), np.full((2, 3), np.nan), np.zeros((2, 3)), 0.1, 10.0, 1.0)
    with pytest.raises(UsageError, match="margin"):
        fit_to_limits(FourierTrajectory.random(ROBOT, 10.0, 3, 0), ROBOT.limits, margin=1.0)
    with pytest.raises(UsageError, match="candidates"):
        best_random(ROBOT, TERMS, 10.0, candidates=0)


def test_the_best_candidate_is_the_most_informative_and_reproducible() -> None:
    base = structural_base(ROBOT, TERMS, TorqueRows(), 0)
    seeds = np.random.SeedSequence(3).generate_state(6)
    each = [
        information(ROBOT, TERMS, base, FourierTrajectory.random(ROBOT, 10.0, 6, int(one))) for one in seeds
    ]
    best = best_random(ROBOT, TERMS, 10.0, 6, 3, candidates=6)
    assert np.isfinite(each).all()
    assert information(ROBOT, TERMS, base, best) == max(each)
    assert best.to_json() == best_random(ROBOT, TERMS, 10.0, 6, 3, candidates=6).to_json()


def test_rest_informs_nothing() -> None:
    base = structural_base(ROBOT, TERMS, TorqueRows(), 0)
    still = FourierTrajectory(np.zeros(7), np.zeros((7, 2)), np.zeros((7, 2)), 0.1, 10.0, 1.0)
    assert information(ROBOT, TERMS, base, still) == -np.inf
