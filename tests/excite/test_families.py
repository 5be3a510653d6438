"""Splines, moves, sweeps, pose grids and torque sinusoids: exact derivatives, rest, limits."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Float, UsageError
from dynid.robot import load_example
from dynid.trajectories import (
    BasisTrajectory,
    FourierBasis,
    FourierTrajectory,
    SmoothMoves,
    SplineBasis,
    TorqueSinusoids,
    friction_sweep,
    static_poses,
)

ROBOT = load_example("arm7")
BASES = (
    FourierBasis(12.0, 4, 0.2, 1.5),
    SplineBasis(12.0, 14),
    SplineBasis(12.0, 0, (1.0, 2.5, 3.0, 5.0, 6.0, 7.5, 9.0, 10.0)),
)


def moves() -> SmoothMoves:
    rng = np.random.default_rng(3)
    return SmoothMoves(
        rng.normal(size=(4, 7)), np.array([1.0, 0.0, 2.0]), np.array([0.5, 1.0, 0.4]), np.full(3, 0.3)
    )


def motions() -> list[BasisTrajectory | SmoothMoves]:
    rng = np.random.default_rng(1)
    return [*(BasisTrajectory(basis, rng.normal(size=(basis.size, 7))) for basis in BASES), moves()]


@pytest.mark.parametrize("motion", motions(), ids=["fourier", "spline", "free knots", "moves"])
def test_derivatives_are_exact(motion: BasisTrajectory | SmoothMoves) -> None:
    h = 1e-4
    t = np.linspace(0.01, motion.duration - 0.01, 997)
    ahead, behind = ((*motion.motion(s), motion.jerk(s)) for s in (t + h, t - h))
    here = (*motion.motion(t), motion.jerk(t))
    for order in range(3):
        slope = (ahead[order] - behind[order]) / (2 * h)
        wrong = np.abs(slope - here[order + 1]).max(axis=1)
        # The jerk of the blends has kinks, at which a difference across them is off.
        assert np.quantile(wrong, 0.98) < 2e-5 * np.abs(here[order + 1]).max()


@pytest.mark.parametrize("motion", motions(), ids=["fourier", "spline", "free knots", "moves"])
def test_rest_at_both_ends(motion: BasisTrajectory | SmoothMoves) -> None:
    ends = np.array([0.0, motion.duration])
    for values in (*motion.motion(ends)[1:], motion.jerk(ends)):
        assert np.abs(values).max() < 1e-9
    if isinstance(motion, BasisTrajectory):
        np.testing.assert_allclose(motion.motion(ends)[0], np.tile(motion.X[0], (2, 1)), atol=1e-12)


def test_the_fourier_basis_is_the_fourier_trajectory() -> None:
    one = FourierTrajectory.random(ROBOT, 12.0, 4, 2, 0.2, 1.5)
    same = BasisTrajectory(BASES[0], np.concatenate([one.centre[None], one.sine.T, one.cosine.T]))
    t = np.linspace(0.0, 12.0, 500)
    for a, b in zip(one.motion(t), same.motion(t), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_a_sweep_holds_each_speed_both_ways_within_the_limits() -> None:
    sweep = friction_sweep(ROBOT, (0.1, 0.4), ROBOT.joint_names[:2])
    t = np.arange(0.0, sweep.duration, 0.002)
    q, dq, ddq = sweep.motion(t)
    assert (q >= ROBOT.limits.lower).all()
    assert (q <= ROBOT.limits.upper).all()
    assert (np.abs(dq) <= ROBOT.limits.velocity + 1e-9).all()
    assert (np.abs(ddq) <= ROBOT.limits.velocity / 0.25 + 1e-9).all()
    for j in (0, 1):
        for speed in (0.1, 0.4):
            for sign in (1.0, -1.0):
                steady = (np.abs(dq[:, j] - sign * speed) < 1e-9) & (np.abs(ddq[:, j]) < 1e-9)
                assert steady.sum() * 0.002 > 1.0


def test_static_poses_come_from_both_sides() -> None:
    poses = np.array([[0.1] * 7, [-0.3] * 7])
    course = static_poses(ROBOT, poses, approach=0.04, hold=0.7)
    t = np.arange(0.0, course.duration, 0.005)
    q, dq, _ = course.motion(t)
    for pose in poses:
        still = (np.abs(q - pose).max(axis=1) < 1e-9) & (np.abs(dq).max(axis=1) < 1e-9)
        begins = np.flatnonzero(np.diff(still.astype(int)) == 1)
        came_from = np.sign(dq[begins - 3, 0])
        assert sorted(came_from) == [-1.0, 1.0]
        assert still.sum() * 0.005 >= 1.3


def test_bad_courses_are_refused() -> None:
    with pytest.raises(UsageError, match="above 0"):
        friction_sweep(ROBOT, (99.0,))
    with pytest.raises(UsageError, match="unknown-joint"):
        friction_sweep(ROBOT, (0.1,), ("elbow of nobody",))
    with pytest.raises(UsageError, match="pose-limits"):
        static_poses(ROBOT, np.full((1, 7), 9.0))
    with pytest.raises(UsageError, match="spline-knots"):
        SplineBasis(3.0, 4)
    with pytest.raises(UsageError, match="moves"):
        SmoothMoves(np.zeros((2, 1)), np.zeros(1), np.zeros(1), np.zeros(1))


def test_torque_sinusoids() -> None:
    rng = np.random.default_rng(0)
    drawn: list[Float] = [rng.uniform(0.1, 2.0, (3, 4)) for _ in range(3)]
    sines = TorqueSinusoids(np.array([1.0, 0.0, -1.0]), *drawn)
    t, h = np.linspace(0, 5, 200), 1e-5
    _, first, second = sines.derivatives(t)
    np.testing.assert_allclose((sines.torque(t + h) - sines.torque(t - h)) / (2 * h), first, atol=1e-6)
    ahead, behind = sines.derivatives(t + h)[1], sines.derivatives(t - h)[1]
    np.testing.assert_allclose((ahead - behind) / (2 * h), second, rtol=1e-5, atol=1e-4)
    assert (np.abs(sines.torque(np.linspace(0, 100, 5000))) <= sines.greatest).all()
