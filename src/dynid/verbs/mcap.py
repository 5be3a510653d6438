"""A log as an MCAP file with ROS 2 messages, which Foxglove and PlotJuggler open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import ResourceError
from dynid.base.files import staged_files
from dynid.log.read import Log
from dynid.recording import IMU_CHANNELS, RawChunk

__all__ = ["write_mcap"]

STATES, COMMANDS, MOTORS, MOTION = "/joint_states", "/joint_commands", "/motor_states", "/trajectory"
_JOINTS, _WRENCH, _IMU = (
    "sensor_msgs/msg/JointState",
    "geometry_msgs/msg/WrenchStamped",
    "sensor_msgs/msg/Imu",
)
_TEMPERATURE, _NUMBER, _TEXT = "sensor_msgs/msg/Temperature", "std_msgs/msg/Float64", "std_msgs/msg/String"
BAG_VERSION: Final = 9
# s between trajectories whose clocks start anew, so that they follow each other in one file.
PAUSE = 1.0

# Topic, kind of message, and the message.
Message = tuple[str, str, Any]


def write_mcap(log: Log, path: str | Path) -> Path:
    """Write a log as one MCAP file, in SI units at the joints.

    Joint states, commands and motor motion are `sensor_msgs/JointState`, wrenches `geometry_msgs/WrenchStamped`, the
    IMU `sensor_msgs/Imu`, temperatures `sensor_msgs/Temperature`, further channels `std_msgs/Float64`, and the name
    at the start of each trajectory `std_msgs/String`. Missing values are nan.

    Parameters
    ----------
    log : Log
        Of any robot and format. Memory does not grow with it.
    path : str or Path
        File ending in .mcap, written as a whole or not at all.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ResourceError
        Without the package rosbags, or if the file cannot be written.
    InputError
        For rows that cannot be read.

    """
    try:
        from rosbags.rosbag2 import StoragePlugin, Writer
        from rosbags.typesys import Stores, get_typestore
    except ImportError as error:
        raise ResourceError(
            "missing-package",
            found="no rosbags",
            expected="the package that writes MCAP",
            do="pip install 'dynid[bags]'",
        ) from error
    target = Path(path)
    store = get_typestore(Stores.ROS2_HUMBLE)
    with staged_files(target) as (scratch,), TemporaryDirectory(dir=scratch.parent) as folder:
        connections: dict[str, Any] = {}
        with Writer(Path(folder) / "bag", version=BAG_VERSION, storage_plugin=StoragePlugin.MCAP) as writer:
            for stamp, (topic, kind, message) in _stamped(log, store.types):
                if topic not in connections:
                    connections[topic] = writer.add_connection(topic, kind, typestore=store)
                writer.write(connections[topic], stamp, store.serialize_cdr(message, kind))
        next((Path(folder) / "bag").glob("*.mcap")).replace(scratch)
    return target


def _stamped(log: Log, kinds: Any) -> Iterator[tuple[int, Message]]:
    """Messages with their time, ns; a trajectory whose clock runs back follows the one before it."""
    shift, end = 0.0, -np.inf
    for trajectory in log.trajectories:
        if trajectory.start_time + shift < max(end, 0.0):
            shift = max(end + PAUSE, 0.0) - trajectory.start_time
        end = trajectory.end_time + shift
        first = True
        for chunk in log.recorded(trajectory):
            stamps = np.rint((chunk.t + shift) * 1e9).astype(np.int64)
            if first and len(stamps):
                first = False
                yield int(stamps[0]), (MOTION, _TEXT, kinds[_TEXT](trajectory.name))
            for row, stamp in enumerate(stamps.tolist()):
                for message in _messages(log, chunk, row, stamp, kinds):
                    yield stamp, message


def _messages(log: Log, chunk: RawChunk, row: int, stamp: int, kinds: Any) -> Iterator[Message]:
    header, time = kinds["std_msgs/msg/Header"], kinds["builtin_interfaces/msg/Time"]
    vector, quaternion = kinds["geometry_msgs/msg/Vector3"], kinds["geometry_msgs/msg/Quaternion"]
    names = list(log.robot.joint_names)
    none = np.zeros(0)

    def head(frame: str = "") -> Any:
        return header(time(stamp // 1_000_000_000, stamp % 1_000_000_000), frame)

    def joints(topic: str, *values: Float | None) -> Message:
        rows = [none if signal is None else np.ascontiguousarray(signal[row]) for signal in values]
        return topic, _JOINTS, kinds[_JOINTS](head(), names, *rows)

    recorded = log.channels
    yield joints(STATES, chunk.q, chunk.dq, chunk.tau if recorded.effort else None)
    if chunk.commands is not None:
        yield joints(COMMANDS, *np.split(chunk.commands, 3, axis=1))
    if recorded.motor_position or recorded.motor_velocity:
        yield joints(MOTORS, chunk.theta, chunk.dtheta, None)
    for joint in sorted(recorded.temperature):
        if chunk.temperature is not None:
            value = float(chunk.temperature[row, names.index(joint)])
            yield f"/temperature/{_topic(joint)}", _TEMPERATURE, kinds[_TEMPERATURE](head(joint), value, 0.0)
    for sensor in recorded.wrench:
        force, torque = np.split(chunk.wrench[sensor.name][row], 2)
        wrench = kinds["geometry_msgs/msg/Wrench"](vector(*force.tolist()), vector(*torque.tolist()))
        frame = sensor.link if sensor.frame in (None, "sensor") else str(sensor.frame)
        yield f"/wrench/{_topic(sensor.name)}", _WRENCH, kinds[_WRENCH](head(frame), wrench)
    if recorded.base is not None:
        gyro, force = np.split(np.array([chunk.extra[name][row] for name in IMU_CHANNELS]), 2)
        # A covariance that begins with -1 says that there is no orientation.
        unknown, zero = np.concatenate([[-1.0], np.zeros(8)]), np.zeros(9)
        imu = kinds[_IMU](
            head(recorded.base.imu), quaternion(0.0, 0.0, 0.0, 1.0), unknown,
            vector(*gyro.tolist()), zero, vector(*force.tolist()), zero,
        )  # fmt: skip
        yield "/imu", _IMU, imu
    for name, values in chunk.extra.items():
        if name not in IMU_CHANNELS:
            yield f"/extra/{_topic(name)}", _NUMBER, kinds[_NUMBER](float(values[row]))


def _topic(name: str) -> str:
    # Names of topics have letters, digits and underscores, and begin with no digit.
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{text}" if text[:1].isdigit() else text or "_"
