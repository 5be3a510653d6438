"""Play between drives and links: laws of its crossing, and a drive and a link in MuJoCo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.simulation import DrivenLoad
from dynid.simulation.servo_loop import STEP
from tests.play_plant import Arm

RATE = 1000.0
PLAY = np.array([0.008, 0.005])


def arm(folder: Path) -> tuple[Arm, RobotModel]:
    found = next(one for one in map(Arm.random, range(100)) if one.n == 2 and one.upright[0])
    return found, found.robot(folder)


def carried(robot: RobotModel, seed: int, seconds: float = 6.0) -> DrivenLoad:
    rng, t = np.random.default_rng(seed), np.arange(0.0, seconds, 1.0 / RATE)[:, None, None]
    w, phase, size = (
        2 * np.pi * rng.uniform(0.2, 1.5, (5, 2)),
        rng.uniform(0, 6, (5, 2)),
        rng.normal(0, 0.3, (5, 2)),
    )
    motion = (np.sin(w * t + phase), w * np.cos(w * t + phase), -(w**2) * np.sin(w * t + phase))
    found = DrivenLoad.of(
        robot, Samples.from_motion(*((size * one).sum(axis=1) for one in motion), rate=RATE)
    )
    assert found is not None
    return found


def test_a_drive_is_at_most_half_its_play_from_the_middle_and_meets_both_ends(tmp_path: Path) -> None:
    plant, robot = arm(tmp_path)
    for seed in range(3):
        ahead = carried(robot, seed).play_deflection(plant.armature, PLAY).torque
        assert np.abs(ahead).max(axis=0) == pytest.approx(0.5 * PLAY)
        assert ahead.min(axis=0) == pytest.approx(-0.5 * PLAY)
        turned = carried(robot, seed).play_deflection(plant.armature, -PLAY).torque
        np.testing.assert_array_equal(turned, -ahead)


def test_a_push_that_turns_around_is_followed_by_a_free_flight(tmp_path: Path) -> None:
    """Alone, link and drive fall apart by push t^2 / 2, with push = c (1 / H + 1 / D)."""
    plant, robot = arm(tmp_path)
    still = np.zeros((4000, 2))
    ddq = still.copy()
    ddq[:, 0] = np.where(np.arange(4000) < 2000, 3.0, -3.0)
    found = DrivenLoad.of(robot, Samples.from_motion(still, still, ddq, rate=RATE))
    assert found is not None
    ahead = found.play_deflection(plant.armature, PLAY).torque[:, 0]
    # The second drive goes along with the first, and adds nothing about an axis at right angles to its own.
    link = 1.0 / np.linalg.inv(found.inertia[0] + np.diag(plant.armature))[0, 0] - plant.armature[0]
    push = abs(found.torque[-1, 0]) * (1.0 / link + 1.0 / plant.armature[0])
    flight = np.sqrt(2.0 * PLAY[0] / push)
    assert flight > 5 * STEP
    flying = np.abs(ahead) < 0.5 * PLAY[0] * (1.0 - 1e-9)
    assert STEP * flying.sum() == pytest.approx(flight, abs=2.0 * STEP)
    assert ahead[0] == -ahead[-1] == 0.5 * PLAY[0]


def test_without_play_nothing_is_felt(tmp_path: Path) -> None:
    plant, robot = arm(tmp_path)
    servo = robot.drive.servo
    assert servo is not None
    one = carried(robot, 0)
    none = one.play_deflection(plant.armature, np.zeros(2))
    torque, shift = one.equivalent_torque(none, plant.armature, servo, plant.damping)
    assert not torque.torque.any()
    assert not shift.any()


def test_a_link_that_weighs_nothing_is_felt_as_another_command(tmp_path: Path) -> None:
    """Drives then move as if their commands were s further, and links are s behind them."""
    plant, robot = arm(tmp_path)
    servo = robot.drive.servo
    assert servo is not None
    light = replace(robot, inertia_prior=1e-9 * robot.inertia_prior)
    one = carried(light, 1)
    ahead = one.play_deflection(plant.armature, PLAY)
    torque, shift = one.equivalent_torque(ahead, plant.armature, servo, plant.damping)
    s = ahead.torque
    np.testing.assert_allclose(
        torque.torque, servo.kp * s + servo.kd * np.gradient(s, STEP, axis=0), atol=1e-6
    )
    np.testing.assert_allclose(shift, ahead.at(one.samples.t), atol=1e-8)


def test_a_description_without_bodies_carries_nothing(tmp_path: Path) -> None:
    _, robot = arm(tmp_path)
    unknown = replace(robot, inertia_prior=np.full_like(robot.inertia_prior, np.nan))
    zero = np.zeros((10, 2))
    assert DrivenLoad.of(unknown, Samples.from_motion(zero, zero, zero)) is None
