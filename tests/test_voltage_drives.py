"""Servos that apply a voltage: an arm in MuJoCo with duty cycle, saturation and back-EMF, known from its data sheet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, InputError
from dynid.exporters import export
from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.robot import RobotModel, ServoSettings, load_robot, robot_from_dict, robot_to_dict
from dynid.testing import random_robot
from tests.command_line import Run
from tests.servo_plant import ARMATURE, DAMPING, FRICTION, ROW, STEP, Recording, arm_text, robot_file

pytestmark = pytest.mark.usefixtures("unexamined")

# At the joint: torque constant, N m/A; resistance, ohm; supply, V; duty cycle per error, 1/rad.
KT, R, V, DUTY = np.array([2.0, 1.5]), np.array([1.0, 1.2]), 12.0, np.array([6.0, 8.0])
SHEET = ServoSettings(
    stall_torque=tuple(KT * V / R), no_load_speed=tuple(V / KT), duty_gain=tuple(DUTY), delay=0.0, hold=0.0
)


@pytest.fixture(scope="module")
def recording() -> Recording:
    """Drives close their loops at every step; rows come at 200 Hz, some while the duty cycle is full."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(arm_text())
    model.opt.integrator = (
        mujoco.mjtIntegrator.mjINT_RK4
    )  # an implicit one adds its step times the damping to the armature
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    T, n = 8000, 2
    t = ROW * np.arange(T)
    frequency = rng.uniform(0.2, 2.2, (8, n))
    phase, size = rng.uniform(0, 2 * np.pi, (8, n)), 0.3 / np.sqrt(1.0 + (frequency / 0.8) ** 2)

    def wanted(at: float) -> Float:
        return np.asarray((size * np.sin(2 * np.pi * frequency * at + phase)).sum(axis=0))

    rows, full, steps = np.zeros((4, T, n)), 0, round(ROW / STEP)
    for k in range(T):
        rows[:3, k] = data.qpos + 2e-5 * rng.standard_normal(n), data.qvel, wanted(t[k])
        for i in range(steps):
            duty = np.clip(DUTY * (wanted(t[k] + i * STEP) - data.qpos), -1.0, 1.0)
            full += int((np.abs(duty) == 1.0).any())
            data.ctrl[:] = KT * (duty * V - KT * data.qvel) / R
            mujoco.mj_step(model, data)
    assert 0 < full < 0.1 * T * ROW / STEP
    return Recording(t, *rows)


def test_a_data_sheet_is_a_controller_and_damping(tmp_path: Path) -> None:
    robot = load_robot(robot_file(tmp_path))
    known = robot.with_servo(SHEET)
    servo = known.drive.servo
    assert servo is not None
    np.testing.assert_allclose(servo.kp, KT * V / R * DUTY)
    np.testing.assert_allclose(servo.effort_limit, KT * V / R)
    np.testing.assert_allclose(servo.back_emf, KT**2 / R)
    np.testing.assert_allclose(known.friction_prior[:, 0] - robot.friction_prior[:, 0], KT**2 / R)
    again = robot_from_dict(robot_to_dict(known.with_servo(SHEET)))
    np.testing.assert_allclose(again.friction_prior, known.friction_prior)
    assert again.drive.servo is not None
    np.testing.assert_allclose(again.drive.servo.back_emf, servo.back_emf)
    np.testing.assert_allclose(known.with_servo(None).friction_prior, robot.friction_prior)
    rng = np.random.default_rng(0)
    q, dq, q_des = rng.normal(0, 0.2, (3, 50, 2))
    volts = V * np.clip(DUTY * (q_des - q), -1.0, 1.0)
    np.testing.assert_allclose(servo.torque(q, dq, q_des) - servo.back_emf * dq, KT * (volts - KT * dq) / R)


def test_the_arm_of_hobby_servos_is_found(recording: Recording, tmp_path: Path) -> None:
    robot = load_robot(robot_file(tmp_path)).with_servo(SHEET)
    found = identify(robot, recording.log(robot), Settings(terms=DEFAULT_TERMS))
    names = [found.estimate.columns[k].name for k in found.estimate.base.independent]
    truth = {"fv": np.array(DAMPING) + KT**2 / R, "fc": FRICTION, "Ia": ARMATURE}
    # Filtered dry friction loses up to an eighth of it, docs/servos.md; the rest is within intervals or 3 %.
    lost = {"fc": 0.125}
    for symbol, values in truth.items():
        for j in range(2):
            if f"{symbol}{j + 1}" in names:
                i = names.index(f"{symbol}{j + 1}")
                error = abs(found.estimate.value[i] - values[j])
                room = max(2 * found.estimate.half_width()[i], lost.get(symbol, 0.03) * values[j])
                assert error < room, (symbol, j)
    assert {"fv1", "fv2", "fc1", "fc2"} <= set(names)
    assert found.validations[-1].scores.total_relative < 0.05
    # In a simulator back-EMF is damping, beside an actuator of the same stiffness and limit.
    import mujoco

    export(found, tmp_path / "new.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
    np.testing.assert_allclose(model.dof_damping, truth["fv"], rtol=0.1)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"duty_gain": 5.0}, "without drive.stall_torque"),
        ({"no_load_speed": 5.0}, "without drive.stall_torque"),
        ({"stall_torque": -2.0}, "positive finite"),
        ({"stall_torque": 2.0, "duty_gain": 5.0, "kp": 3.0}, "both set the stiffness"),
    ],
)
def test_half_a_data_sheet_is_refused(said: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        random_robot(1, 2, 0.0).with_servo(ServoSettings(**said))


def test_from_the_command_line(recording: Recording, tmp_path: Path, run: Run) -> None:
    robot: RobotModel = load_robot(robot_file(tmp_path))
    log, out = tmp_path / "log.csv", tmp_path / "run"
    columns = [f"{name}_{joint}" for name in ("q", "dq", "q_des") for joint in robot.joint_names]
    table = np.column_stack([recording.t, recording.q, recording.dq, recording.q_des])[:4000]
    np.savetxt(log, table, delimiter=",", header=",".join(["t", *columns]), comments="", fmt="%.9g")
    sheet = ("--stall-torque", str((KT * V / R).tolist()), "--no-load-speed", str((V / KT).tolist()))
    ended = run(
        "identify", tmp_path / "arm.xml", log, *sheet, "--duty-gain", str(DUTY.tolist()), "--out", out
    )
    assert ended.code == 0, ended.err
    assert (out / "report.html").exists()
