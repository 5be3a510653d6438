"""Wrong inputs of a floating base, each of which makes others look wrong: the cause is named, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.diagnosis.floating_checks import check_floating, turned_samples
from dynid.robot import RobotModel, load_robot, with_floating_base
from dynid.rows import Contact, contact_jacobian, floating_samples
from dynid.rows.floating import CONTACT, UP
from dynid.signals import Samples
from dynid.spatial import rotation_about
from dynid.terms import RigidBody, Terms
from tests.robot.shipped import shipped

FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
RATE, SECONDS, PLACE = 100.0, 24.0, np.array([-0.03, 0.0, 0.04])
# s: each leg in turn is lifted within this time, for its middle part.
STEP = 2.0


def _sway(t: np.ndarray, seed: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums of sines along three axes (T, 3), and their derivatives."""
    rng = np.random.default_rng(seed)
    w, phase = 2 * np.pi * rng.uniform(0.3, 1.3, (3, 3)), rng.uniform(0, 6.28, (3, 3))
    angle = t[:, None, None] * w + phase
    return size * np.sin(angle).sum(2), size * (w * np.cos(angle)).sum(2)


def _walk() -> tuple[RobotModel, tuple[Contact, ...], Samples]:
    """A quadruped that steps with one leg after the other; feet on the ground do not move, and carry its weight."""
    robot = with_floating_base(load_robot(shipped("go2_description/urdf/go2.urdf")))
    feet = tuple(
        Contact(name, body, tuple(frame[:3, 3].tolist()))
        for name in FEET
        for body, frame in [robot.link_frame(name)]
    )
    t = np.arange(0.0, SECONDS, 1.0 / RATE)
    omega, alpha = _sway(t, 1, 0.1)
    linear, acceleration = _sway(t, 2, 0.02)
    lifted, phase = (t / STEP).astype(int) % 4, (t / STEP) % 1.0
    # How far a leg leaves the motion that keeps its foot in place; 0 while it stands.
    free = np.zeros((len(t), 4))
    free[np.arange(len(t)), lifted] = np.clip((phase - 0.25) / 0.15, 0, 1) * np.clip(
        (0.8 - phase) / 0.15, 0, 1
    )
    wave = np.cos(2 * np.pi * 1.7 * t)[:, None] * [0.8, 1.2, -1.5] * np.ones((4, 1, 1))
    wave = wave.transpose(1, 0, 2)
    up, R = np.zeros((len(t), 3)), np.eye(3)
    q = np.tile([0.0, 0.8, -1.5], (len(t), 4))
    dq = np.zeros_like(q)
    for k in range(len(t)):
        up[k] = R.T @ [0.0, 0.0, 1.0]
        # Linear velocities in the axes of the base, as the Jacobian has them, at positions zero of the base.
        J = contact_jacobian(robot, feet, np.append(np.zeros(6), q[k])[None], up[k : k + 1])[0]
        twist = np.append(linear[k], omega[k, ::-1])
        standing = np.linalg.solve(J[:, 6:], -J[:, :6] @ twist).reshape(4, 3)
        dq[k] = (standing * (1 - free[k, :, None]) + wave[k] * free[k, :, None]).ravel()
        if k + 1 < len(t):
            q[k + 1] = q[k] + dq[k] / RATE
        angle = float(np.linalg.norm(omega[k])) / RATE
        R = R @ rotation_about(omega[k] / (angle * RATE), angle)
    contact = free == 0.0
    # The joint angles drift away from those of the start only slowly.
    specific = acceleration + np.cross(omega, linear) + 9.81 * up
    joints = Samples.from_motion(q, dq, np.gradient(dq, 1.0 / RATE, axis=0))
    joints = replace(joints, rate=RATE, t=t, trajectory="walk")
    samples = floating_samples(robot, joints, omega, alpha, specific, up, contact)
    torque = Terms((RigidBody(),)).torque(robot, samples, robot.inertia_prior.ravel())
    J = contact_jacobian(robot, feet, samples.q, up) * np.repeat(contact, 3, axis=1)[:, :, None]
    force = np.einsum("tcb,tb->tc", np.linalg.pinv(J[:, :, :6].transpose(0, 2, 1)), torque[:, :6])
    tau = torque - np.einsum("tcn,tc->tn", J, force)
    tau[:, :6] = 0.0
    return robot, feet, replace(samples, tau=tau)


@pytest.fixture(scope="module")
def walk() -> tuple[RobotModel, tuple[Contact, ...], Samples]:
    """A quadruped, its feet, and samples without any wrong input."""
    return _walk()


def _pressed(robot: RobotModel, feet: tuple[Contact, ...]) -> Callable[[Samples], np.ndarray]:
    """Feet that carry more than a twentieth of the weight, by the torques of the robot file."""
    weight = 9.81 * robot.inertia_prior[:, 0].sum()

    def pressed(samples: Samples) -> np.ndarray:
        torque = Terms((RigidBody(),)).torque(robot, samples, robot.inertia_prior.ravel())
        up = samples.extra[UP]
        J = contact_jacobian(robot, feet, samples.q, up)
        force = np.einsum("tcn,tn->tc", np.linalg.pinv(J.transpose(0, 2, 1)), torque - samples.tau)
        return np.asarray(np.einsum("tki,ti->tk", force.reshape(len(up), -1, 3), up) > 0.05 * weight)

    return pressed


def _codes(walk: tuple[RobotModel, tuple[Contact, ...], Samples], samples: Samples) -> list[str]:
    robot, feet, _ = walk
    diagnostics = Diagnostics()
    check_floating(robot, feet, [samples], PLACE, _pressed(robot, feet), diagnostics)
    return [finding.code for finding in diagnostics]


def _late(samples: Samples, count: int) -> Samples:
    """All signals of the IMU `count` samples late."""
    columns = np.arange(6)
    dq, ddq = samples.dq.copy(), samples.ddq.copy()
    dq[:, columns], ddq[:, columns] = np.roll(dq[:, columns], count, 0), np.roll(ddq[:, columns], count, 0)
    up = np.roll(samples.extra[UP], count, 0)
    keep = samples.keep & (np.arange(len(up)) >= count)
    return replace(samples, dq=dq, ddq=ddq, keep=keep, extra={**samples.extra, UP: up})


def _flagged(samples: Samples, flags: np.ndarray) -> Samples:
    return replace(samples, extra={**samples.extra, CONTACT: flags})


def test_right_inputs_give_no_warning(walk: tuple[RobotModel, tuple[Contact, ...], Samples]) -> None:
    """The simulated feet do not move, and carry the load that their flags say."""
    assert _codes(walk, walk[2]) == []


@pytest.mark.parametrize("axis", np.eye(3).tolist())
def test_a_turned_imu_is_the_only_finding(
    walk: tuple[RobotModel, tuple[Contact, ...], Samples], axis: list[float]
) -> None:
    """Its gravity points elsewhere, so that forces and flags of contact disagree, too."""
    turn = rotation_about(np.array(axis), np.pi / 2)
    assert _codes(walk, turned_samples(walk[0], walk[2], turn, PLACE)) == ["imu-turned"]


def test_turning_samples_back_restores_them(walk: tuple[RobotModel, tuple[Contact, ...], Samples]) -> None:
    """Also their accelerations, which depend on the place of the IMU."""
    robot, _, samples = walk
    turn = rotation_about(np.array([0.6, 0.0, 0.8]), 1.1)
    again = turned_samples(robot, turned_samples(robot, samples, turn, PLACE), turn.T, PLACE)
    assert np.allclose(again.ddq, samples.ddq)
    assert np.allclose(again.dq, samples.dq)


def test_a_late_imu_is_the_only_finding(walk: tuple[RobotModel, tuple[Contact, ...], Samples]) -> None:
    """By 20 ms; a turned one that is late has two causes."""
    assert _codes(walk, _late(walk[2], 2)) == ["imu-late"]
    turn = rotation_about(np.array([1.0, 0.0, 0.0]), np.pi / 2)
    both = turned_samples(walk[0], _late(walk[2], 2), turn, PLACE)
    assert sorted(_codes(walk, both)) == ["imu-late", "imu-turned"]


def test_wrong_flags_are_the_only_finding(walk: tuple[RobotModel, tuple[Contact, ...], Samples]) -> None:
    """Legs that move in the air and count as standing look like a late IMU."""
    samples = walk[2]
    flags = np.asarray(samples.extra[CONTACT])
    assert _codes(walk, _flagged(samples, flags[:, [1, 0, 2, 3]])) == ["feet-swapped"]
    assert _codes(walk, _flagged(samples, flags[:, [2, 3, 0, 1]])) == ["feet-swapped"]
    assert _codes(walk, _flagged(samples, flags * [1.0, 1.0, 0.0, 1.0])) == ["contact-missed"]


def test_feet_that_slip_a_little_are_no_late_imu(
    walk: tuple[RobotModel, tuple[Contact, ...], Samples],
) -> None:
    """Slip shifts the best agreement by 3 ms, which explains little of the disagreement."""
    samples = walk[2]
    slip = np.hstack([_sway(samples.t, seed, 0.03)[0] for seed in range(10, 14)])
    dq = samples.dq + np.hstack([np.zeros((len(slip), 6)), slip])
    assert _codes(walk, replace(samples, dq=dq)) == []
