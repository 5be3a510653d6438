"""Position controllers of drives: their law, where their gains come from, and what is no controller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, InputError, UsageError
from dynid.robot import Servo, ServoSettings, load_robot, robot_from_dict, robot_to_dict
from dynid.testing import random_robot
from tests.servo_plant import robot_file

POSITION = (
    '<position name="a" joint="shoulder" kp="60" kv="1.5" forcerange="-9 9"/>'
    '<general name="b" joint="elbow" gear="2" gainprm="10" biastype="affine" biasprm="0 -10 -0.5"/>'
)


def servo(**more: object) -> Servo:
    fields = {"kp": [10.0, 20.0], "kd": [1.0, 0.0], "effort_limit": [np.inf, 2.0], "dead_band": [0.0, 0.1]}
    return Servo(**{key: np.array(value) for key, value in fields.items()} | more)


def test_torque_follows_the_law() -> None:
    one = servo()
    q, dq = np.zeros((3, 2)), np.full((3, 2), 0.5)
    q_des = np.array([[0.1, 0.05], [0.2, 0.105], [-0.1, -0.5]])
    tau = one.torque(q, dq, q_des, dq_des=np.full((3, 2), 1.0), tau_ff=np.full((3, 2), 0.25))
    # Joint 1: 10 e + 1 (1 - 0.5) + 0.25; joint 2: nothing within the band, 20 e beyond, cut off at 2.
    assert np.allclose(tau, [[1.75, 0.25], [2.75, 2.0], [-0.25, -2.0]])
    assert np.allclose(one.torque(q, dq, q_des)[:, 0], [0.5, 1.5, -1.5])


def test_lag_is_delay_and_half_of_the_hold() -> None:
    assert servo(delay=0.01, hold=0.004).lag == pytest.approx(0.012)
    assert servo(delay=0.01).lag == servo().lag == 0.0


def test_unknown_gains_make_no_torque() -> None:
    with pytest.raises(UsageError, match="no-gains"):
        Servo.unknown(1).torque(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))


@pytest.mark.parametrize(
    "wrong", [{"kp": np.array([-1.0, 1.0])}, {"kd": np.array([np.inf, 0.0])}, {"delay": -0.1},
              {"effort_limit": np.array([0.0, 1.0])}],
)  # fmt: skip
def test_what_is_no_controller_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="servo"):
        servo(**wrong)


def test_settings_go_over_the_description() -> None:
    robot = random_robot(1, 2, 0.0)
    second = robot.joint_names[1]
    known = robot.with_servo(servo())
    over = known.with_servo(
        ServoSettings(kp={second: 5.0}, kd=0.5, effort_limit=(1.0, 2.0), delay=0.02)
    ).drive.servo
    assert over is not None
    assert np.allclose(over.kp, [10.0, 5.0])
    assert np.allclose(over.kd, 0.5)
    assert np.allclose(over.effort_limit, [1.0, 2.0])
    assert over.delay == 0.02
    again = known.with_servo(over).with_servo(ServoSettings(delay="auto")).drive.servo
    assert again is not None
    assert np.isnan(again.delay)
    assert robot.with_servo(ServoSettings()).drive.servo is None


@pytest.mark.parametrize(("kp", "code"), [({"c": 1.0}, "unknown-joint"), ((1.0,), "joint-count")])
def test_settings_of_other_joints_are_refused(kp: object, code: str) -> None:
    with pytest.raises(InputError, match=code):
        random_robot(1, 2, 0.0).with_servo(ServoSettings(kp=kp))  # type: ignore[arg-type]  # wrong on purpose


def test_a_delay_beyond_a_second_is_refused() -> None:
    with pytest.raises(UsageError, match="delay"):
        ServoSettings(delay=3.0)


def test_position_actuators_are_read_as_mujoco_computes_them(tmp_path: Path) -> None:
    import mujoco

    path = robot_file(tmp_path, POSITION)
    robot = load_robot(path)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    read = robot.drive.servo
    assert read is not None
    for _ in range(20):
        data.qpos[:], data.qvel[:], q_des = rng.normal(0, 0.3, (3, 2))
        data.ctrl[:] = q_des * [1.0, 2.0]  # of the actuator's length, which is gear times q
        mujoco.mj_forward(model, data)
        assert np.allclose(
            read.torque(data.qpos[None], data.qvel[None], q_des[None])[0], data.qfrc_actuator, atol=1e-12
        )
    assert np.isnan(read.delay)


def ratio_file(folder: Path, hand: str) -> Path:
    """Position controllers by damping ratio; the hand, which the elbow moves, has this inside."""
    path = folder / "ratio.xml"
    path.write_text(
        f"""<mujoco><asset><mesh name="m" vertex="0 0 0  .1 0 0  0 .1 0  0 0 .1"/></asset><worldbody><body name="a">
        <joint name="shoulder" axis="0 1 0"/><geom size="0.1"/><body pos="0 0 0.4"><joint name="elbow" axis="0 1 0"/>
        <geom size="0.1"/><body pos="0 0 0.3">{hand}</body></body></body><body name="c" pos="0 1 0">
        <joint name="other" axis="0 1 0"/><geom size="0.1" pos="0.2 0 0"/></body></worldbody>
        <actuator><position joint="shoulder" kp="90" dampratio="1"/><position joint="elbow" kp="30" kv="2"/>
        <position joint="other" kp="50" dampratio="0.7"/></actuator></mujoco>"""
    )
    return path


def test_damping_ratios_are_read_where_the_masses_are_known(tmp_path: Path) -> None:
    import mujoco

    path = ratio_file(tmp_path, '<geom size="0.05"/>')
    model = mujoco.MjModel.from_xml_path(str(path))
    said = Diagnostics()
    servo = load_robot(path, diagnostics=said).drive.servo
    assert servo is not None
    assert not list(said)
    assert servo.kd == pytest.approx(-model.actuator_biasprm[:, 2], rel=1e-9)

    meshed = ratio_file(tmp_path, '<geom type="mesh" mesh="m"/>')
    servo = load_robot(meshed, diagnostics=said).drive.servo
    assert servo is not None
    assert np.isnan(servo.kp).tolist() == [True, False, False]  # the mesh is part of what the shoulder moves
    assert servo.kd[1:] == pytest.approx([2.0, -model.actuator_biasprm[2, 2]], rel=1e-9)
    told = [one.text for one in said if one.identifier == "mjcf-left-out"]
    assert len(told) == 1
    assert "shoulder" in told[0]
    assert "dampratio" in told[0]


@pytest.mark.parametrize(
    "actuators",
    ['<motor joint="elbow"/>', '<velocity joint="elbow" kv="3"/>',
     '<position joint="elbow" kp="3"/><position joint="elbow" kp="4"/>',
     '<general joint="elbow" gainprm="3" biastype="affine" biasprm="0 -2 0"/>'],
)  # fmt: skip
def test_other_actuators_are_no_controllers(tmp_path: Path, actuators: str) -> None:
    assert load_robot(robot_file(tmp_path, actuators)).drive.servo is None


def test_a_robot_file_may_hold_gains(tmp_path: Path) -> None:
    path = tmp_path / "arm.toml"
    path.write_text(
        'convention = "placements"\n[drive]\ndelay = 0.004\nloop = "drive"\n'
        '[[joint]]\nname = "a"\n[joint.drive]\nkp = 30.0\nkd = 1.0\ndead_band = 0.01\n'
        '[[joint]]\nname = "b"\nparent = "a"\n'
    )
    read = load_robot(path).drive.servo
    assert read is not None
    assert read.kp[0] == 30.0
    assert np.isnan(read.kp[1])
    assert read.dead_band[0] == 0.01
    assert read.delay == 0.004
    assert read.on_board


def test_joints_that_are_held_leave_the_others_their_controllers(tmp_path: Path) -> None:
    held = load_robot(robot_file(tmp_path, POSITION), lock={"shoulder": 0.3}).drive.servo
    assert held is not None
    assert held.kp.tolist() == [40.0]


def test_controllers_are_kept_in_a_run(tmp_path: Path) -> None:
    robot = load_robot(robot_file(tmp_path, POSITION)).with_servo(ServoSettings(delay=0.01, dead_band=0.02))
    again = robot_from_dict(robot_to_dict(robot)).drive.servo
    assert again is not None
    assert robot.drive.servo is not None
    for name in ("kp", "kd", "effort_limit", "dead_band"):
        assert np.array_equal(getattr(again, name), getattr(robot.drive.servo, name))
    assert again.delay == 0.01
    assert np.isnan(again.hold)
