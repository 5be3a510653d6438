"""Bags for tests, written by rosbags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Float

WALL = 1_700_000_000 * 10**9
NONE: tuple[float, ...] = ()
CONTROLLER = """\
std_msgs/Header header
string[] joint_names
trajectory_msgs/JointTrajectoryPoint {0}
trajectory_msgs/JointTrajectoryPoint {1}
trajectory_msgs/JointTrajectoryPoint error
"""


@dataclass(frozen=True, eq=False)
class State:
    """One message of joint states: times in ns, header stamp and reception (by default 50 us later)."""

    ns: int
    names: Sequence[str]
    position: Float | tuple[float, ...] = NONE
    velocity: Float | tuple[float, ...] = NONE
    effort: Float | tuple[float, ...] = NONE
    topic: str = "/joint_states"
    received: int | None = None
    frame: str = ""
    kind: str = "sensor_msgs/msg/JointState"


def states(t: Float, names: Sequence[str], q: Float, dq: Float | None = None, tau: Float | None = None,
           start: int = WALL, topic: str = "/joint_states", frame: str = "") -> list[State]:  # fmt: skip
    """A message for every row of a motion."""
    return [
        State(
            start + round(t[k] * 1e9),
            names,
            q[k],
            NONE if dq is None else dq[k],
            NONE if tau is None else tau[k],
            topic,
            frame=frame,
        )
        for k in range(len(t))
    ]


def write_bag(path: Path, messages: Iterable[State], compression: str = "", chunk: int | None = None) -> Path:
    """Writes a bag: of ROS 1 if the path ends in .bag, else a folder with MCAP or, if its name says so, SQLite."""
    from rosbags.rosbag1 import Writer as Ros1Writer
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
    from rosbags.rosbag2 import Writer as Ros2Writer

    ros1 = path.suffix == ".bag"
    store = message_store(ros1)
    writer: Any
    if ros1:
        writer = Ros1Writer(path)
        if compression:
            writer.set_compression(Ros1Writer.CompressionFormat[compression])
        if chunk:
            writer.chunk_threshold = chunk
    else:
        plugin = StoragePlugin.SQLITE3 if "db3" in path.name else StoragePlugin.MCAP
        writer = Ros2Writer(path, version=9, storage_plugin=plugin)
        if compression:
            writer.set_compression(CompressionMode[compression], CompressionFormat.ZSTD)
    connections: dict[str, Any] = {}
    with writer:
        for one in sorted(messages, key=lambda m: m.received or m.ns):
            if one.topic not in connections:
                connections[one.topic] = writer.add_connection(one.topic, one.kind, typestore=store)
            writer.write(
                connections[one.topic],
                one.ns + 50_000 if one.received is None else one.received,
                serialized(store, one, ros1),
            )
    return path


def message_store(ros1: bool) -> Any:
    """Message types: those of the distribution, and a state of a trajectory controller as old or new ones have it."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    text = CONTROLLER.format(*(("desired", "actual") if ros1 else ("reference", "feedback")))
    store.register(get_types_from_msg(text, "control_msgs/msg/JointTrajectoryControllerState"))
    return store


def serialized(store: Any, one: State, ros1: bool, little_endian: bool = True) -> bytes:
    """The message as it lies in a bag."""
    time = store.types["builtin_interfaces/msg/Time"](one.ns // 10**9, one.ns % 10**9)
    header = store.types["std_msgs/msg/Header"]
    head = header(one.ns % 1000, time, one.frame) if ros1 else header(time, one.frame)
    kind = store.types[one.kind]
    position, velocity, effort, none = (
        np.array(x, dtype=np.float64) for x in (one.position, one.velocity, one.effort, NONE)
    )
    if one.kind == "sensor_msgs/msg/JointState":
        message = kind(head, list(one.names), position, velocity, effort)
    else:
        point = store.types["trajectory_msgs/msg/JointTrajectoryPoint"]
        pause = store.types["builtin_interfaces/msg/Duration"](1, 2)
        other = point(position + 1.0, velocity, none, none, pause)
        actual = point(position, velocity, none, effort, pause)
        message = kind(head, list(one.names), other, actual, other)
    if ros1:
        return bytes(store.serialize_ros1(message, one.kind))
    return bytes(store.serialize_cdr(message, one.kind, little_endian=little_endian))


def storage(folder: Path) -> Path:
    """The one file with the messages of a rosbag2 folder."""
    return next(one for one in folder.iterdir() if one.suffix in (".mcap", ".db3"))
