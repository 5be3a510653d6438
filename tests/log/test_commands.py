"""Logs without torque: what the drives were commanded becomes the torque that they make, when they make it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, InputError
from dynid.log import Log
from dynid.recording import RawChunk, delayed, slopes
from dynid.robot import RobotModel, Servo, ServoSettings
from dynid.testing import two_joints

T, STEP = 400, 0.004


def late(seconds: float) -> Servo:
    return replace(Servo.unknown(2), delay=seconds, hold=0.0)


t = STEP * np.arange(T)


@pytest.fixture
def robot() -> RobotModel:
    return two_joints().with_servo(ServoSettings(kp=(30.0, 20.0), kd=(2.0, 0.0), delay=0.0, hold=0.0))


def waves(*frequency: float) -> Float:
    return np.column_stack([np.sin(2 * np.pi * f * t + f) for f in frequency])


def opened(robot: RobotModel, **more: Float) -> Log:
    return Log.from_arrays(robot, t, waves(0.5, 0.8), dq=waves(0.4, 0.3), **more)


def tau_of(log: Log) -> Float:
    tau = log.read(log.trajectories[0]).tau
    assert tau is not None
    return tau


def test_torque_is_that_of_the_law(robot: RobotModel) -> None:
    q_des, dq_des, tau_ff = waves(0.6, 0.7), waves(1.0, 1.1), waves(0.2, 0.1)
    log = opened(robot, q_des=q_des, dq_des=dq_des, tau_ff=tau_ff)
    expected = [30, 20] * (q_des - waves(0.5, 0.8)) + [2, 0] * (dq_des - waves(0.4, 0.3)) + tau_ff
    assert log.has_effort
    assert log.mapping.commanded
    assert np.allclose(tau_of(log), expected, atol=1e-13)
    assert "commanded position (rad)" in repr(log)


def test_a_measured_effort_comes_first(robot: RobotModel) -> None:
    log = opened(robot, q_des=waves(0.6, 0.7), tau=waves(3.0, 2.0))
    assert not log.mapping.commanded
    assert np.array_equal(tau_of(log), waves(3.0, 2.0))


def test_damping_takes_the_slope_where_no_velocity_was_logged(robot: RobotModel) -> None:
    log = Log.from_arrays(robot, t, waves(0.5, 0.8), q_des=waves(0.5, 0.8))
    exact = -2.0 * 2 * np.pi * 0.5 * np.cos(2 * np.pi * 0.5 * t + 0.5)
    assert np.abs(tau_of(log)[2:-2, 0] - exact[2:-2]).max() < 1e-3


def test_commands_share_the_convention_of_the_positions(robot: RobotModel) -> None:
    q, q_des = waves(0.5, 0.8), waves(0.6, 0.7)
    columns = {f"{name}_{j}": x[:, i] for name, x in (("q", q), ("q_des", q_des))
               for i, j in enumerate(robot.joint_names)}  # fmt: skip
    import pyarrow as pa

    frame = pa.table({"t": t} | {name: np.degrees(x) for name, x in columns.items()})
    mapping = {
        "position": {
            "unit": "deg",
            "sign": {robot.joint_names[0]: -1},
            "offset": {robot.joint_names[1]: 5.0},
        },
        "command_position": {"unit": "deg"},
    }
    tau = tau_of(Log.from_frame(frame, robot.with_servo(ServoSettings(kd=0.0)), mapping))
    assert np.allclose(tau, [-30, 20] * (q_des - q), atol=1e-10)


def test_torque_comes_later_by_delay_and_half_of_the_hold(robot: RobotModel) -> None:
    q_des = waves(0.6, 0.7)
    on_time = tau_of(opened(robot, q_des=q_des))
    late = opened(robot.with_servo(ServoSettings(delay=0.006, hold=0.004)), q_des=q_des)
    chunk = late.read(late.trajectories[0])
    assert chunk.t[0] == t[2]
    assert len(chunk.t) == T - 2
    assert chunk.tau is not None
    assert np.allclose(chunk.tau, on_time[:-2], atol=1e-13)


@pytest.mark.parametrize("lag", [0.0031, 0.0185])
def test_a_lag_between_rows_takes_nothing_off_the_motion(robot: RobotModel, lag: float) -> None:
    def law(at: Float) -> Float:
        return 30.0 * np.sin(2 * np.pi * 6.0 * at)

    tau = np.column_stack([law(t), law(t)])
    (chunk,) = delayed(iter([replace(one_chunk(robot), tau=tau)]), late(lag))
    inner = slice(3, -1)
    assert chunk.tau is not None
    assert np.abs(chunk.tau[inner, 0] - law(chunk.t[inner] - lag)).max() < 2e-3 * 30.0


@pytest.mark.parametrize("rows", [3, 7, 64])
def test_chunks_change_nothing(robot: RobotModel, rows: int) -> None:
    whole = replace(one_chunk(robot), tau=waves(3.0, 2.0))
    (expected,) = delayed(iter([whole]), late(0.013))
    found = list(delayed(cut(whole, rows), late(0.013)))
    assert expected.tau is not None
    assert np.allclose(np.concatenate([c.tau for c in found if c.tau is not None]), expected.tau, atol=1e-12)
    assert next(c.first_row for c in found) == expected.first_row == 4


def test_slopes_of_repeated_stamps_are_finite() -> None:
    stamps = np.array([0.0, 0.1, 0.1, 0.2])
    assert np.allclose(slopes(stamps, 2.0 * stamps[:, None]), 2.0)
    assert np.array_equal(slopes(np.zeros(1), np.ones((1, 2))), np.zeros((1, 2)))


def test_unknown_gains_say_where_to_give_them(robot: RobotModel) -> None:
    log = opened(robot.with_servo(None), q_des=waves(0.6, 0.7))
    with pytest.raises(InputError, match=r"no-gains.*--kp"):
        tau_of(log)


def one_chunk(robot: RobotModel) -> RawChunk:
    log = opened(robot, q_des=waves(0.6, 0.7))
    return log.read(log.trajectories[0])


def cut(chunk: RawChunk, rows: int) -> Iterator[RawChunk]:
    from dynid.recording import taken

    for start in range(0, len(chunk.t), rows):
        yield replace(taken(chunk, slice(start, start + rows)), first_row=start)


def test_a_loop_on_board_is_late_with_its_commands_alone(robot: RobotModel) -> None:
    """Limits and dead bands are those of the error that the drive sees, of whatever chunks the log is read in."""
    servo = robot.drive.servo
    assert servo is not None
    on_board = replace(
        servo, delay=0.012, loop="drive", effort_limit=np.array([20.0, 15.0]), dead_band=np.full(2, 0.05)
    )
    log = opened(robot.with_servo(on_board), q_des=waves(0.6, 0.7))
    index = np.arange(3, T)
    q, dq, q_des = (waves(*f)[index] for f in ((0.5, 0.8), (0.4, 0.3), (0.6, 0.7)))
    expected = on_board.torque(q, dq, waves(0.6, 0.7)[index - 3])
    assert tau_of(log)[-len(index) :] == pytest.approx(expected, abs=1e-6)
    assert not np.allclose(expected, servo.torque(q, dq, q_des))
    parts = [chunk.tau for chunk in log.chunks(log.trajectories[0], 60)]
    assert np.concatenate([part for part in parts if part is not None]) == pytest.approx(
        tau_of(log), abs=1e-6
    )
