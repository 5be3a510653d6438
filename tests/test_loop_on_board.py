"""Drives that close the position loop on board: an arm in MuJoCo whose commands alone are late."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dynid.estimate import WLS, ServoOE
from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.lab.replay import replay
from dynid.robot import RobotModel, Servo, ServoSettings, load_robot, robot_from_dict, robot_to_dict
from dynid.run import Identification
from tests.servo_plant import (
    ARMATURE,
    DAMPING,
    FRICTION,
    KD,
    KP,
    ROW,
    STEP,
    Recording,
    arm_text,
    commanded,
    robot_file,
)

pytestmark = pytest.mark.usefixtures("unexamined")

LATE = 0.020  # s, of a command


@lru_cache
def recorded_on_board(seconds: float, seed: int) -> Recording:
    """The drives compute their torque at every step, of commands that come late and a motion that does not."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(arm_text())
    data, rng = mujoco.MjData(model), np.random.default_rng(seed)
    t, q_des = commanded(seconds, rng)
    T, n = q_des.shape
    rows = np.zeros((4, T, n))
    for k in range(T):
        command = q_des[max(k - round(LATE / ROW), 0)]
        noise = 2e-5 * rng.standard_normal((2, n))
        rows[:, k] = data.qpos + noise[0], data.qvel + 20 * noise[1], q_des[k], np.zeros(n)
        for _ in range(round(ROW / STEP)):
            data.ctrl[:] = KP * (command - data.qpos) - KD * data.qvel
            mujoco.mj_step(model, data)
    return Recording(t, *rows)


def fitted(folder: Path, loop: str, estimator: WLS | ServoOE | None = None) -> Identification:
    robot = load_robot(robot_file(folder)).with_servo(
        ServoSettings(kp=tuple(KP), kd=tuple(KD), loop=loop)  # type: ignore[arg-type]
    )
    settings = (
        Settings(terms=DEFAULT_TERMS)
        if estimator is None
        else Settings(terms=DEFAULT_TERMS, estimator=estimator)
    )
    log = recorded_on_board(12.0, 0).log(robot)
    # With a log to validate on no blocks are held out, each of which would be one of five more searches.
    return identify(robot, log, settings, validation=log)


def viscous(found: Identification) -> list[float]:
    values = dict(zip(found.estimate.names, found.estimate.value, strict=True))
    return [float(values[f"fv{j + 1}"]) for j in range(2)]


def servo_of(robot: RobotModel) -> Servo:
    assert robot.drive.servo is not None
    return robot.drive.servo


def test_delay_and_replay_are_those_of_the_loop(tmp_path: Path) -> None:
    found = fitted(tmp_path, "drive")
    servo = servo_of(found.robot)
    assert servo.loop == "drive"
    assert servo.delay == pytest.approx(LATE, abs=0.002)
    again = servo_of(robot_from_dict(robot_to_dict(found.robot)))
    assert again.loop == "drive"
    unseen = recorded_on_board(6.0, 5).log(found.robot)
    bare = replace(found, robot=replace(found.robot, friction_prior=np.full((2, 2), np.nan)))
    model, description = replay(bare, unseen).total
    assert description is not None
    assert model < 0.2 * description


def test_friction_is_too_large_by_stiffness_times_lag_where_all_torque_is_taken_as_late(
    tmp_path: Path,
) -> None:
    on_board, computer = fitted(tmp_path, "drive"), fitted(tmp_path, "computer")
    lag = servo_of(on_board.robot).lag
    for j in range(2):
        excess = viscous(computer)[j] - viscous(on_board)[j]
        assert excess == pytest.approx(KP[j] * lag, rel=0.3)
        assert viscous(on_board)[j] == pytest.approx(DAMPING[j], abs=0.1 * KP[j] * lag)


def test_positions_alone_under_a_loop_on_board(tmp_path: Path) -> None:
    found = fitted(tmp_path, "drive", ServoOE()).estimate
    assert found.status.ok
    true = {"fv1": DAMPING[0], "fv2": DAMPING[1], "fc1": FRICTION[0], "fc2": FRICTION[1], "Ia2": ARMATURE[1]}
    for name, value in true.items():
        assert found.value[found.names.index(name)] == pytest.approx(value, rel=0.1), name
