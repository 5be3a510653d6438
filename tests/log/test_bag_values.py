"""Numbers of messages of any type are channels: motor states, dynamic joint states, temperatures, currents."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import DynidError, InputError, RefusedError
from dynid.identification import Experiment
from dynid.log import contents, open_table, read_log
from dynid.robot import RobotModel
from tests.log.bags import WALL, storage

T = 200
t = np.arange(T) / 100.0
q, dq, tau = np.random.default_rng(3).normal(size=(3, T, 3))
MOTOR = "uint8 mode\nfloat32 q\nfloat32 dq\nfloat32 tau_est\nint8 temperature\nuint32[2] reserve\n"
LOW = "uint8[2] head\nunitree_go/MotorState[3] motor_state\nstring version\nuint32 tick\nuint8[] image\n"
INTERFACES = "string[] interface_names\nfloat64[] values\n"
DYNAMIC = "std_msgs/Header header\nstring[] joint_names\ncontrol_msgs/InterfaceValue[] interface_values\n"
MAPPING: dict[str, Any] = {
    "time": {"column": "t", "unit": "s"},
    "position": {"columns": "/lowstate:motor_state[{index}].q", "unit": "rad"},
    "velocity": {"columns": "/lowstate:motor_state[{index}].dq", "unit": "rad/s"},
    "effort": {"columns": "/lowstate:motor_state[{index}].tau_est", "unit": "N m"},
}


def store(ros1: bool = False) -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    found = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    for text, name in (
        (MOTOR, "unitree_go/msg/MotorState"),
        (LOW, "unitree_go/msg/LowState"),
        (INTERFACES, "control_msgs/msg/InterfaceValue"),
        (DYNAMIC, "control_msgs/msg/DynamicJointState"),
        ("std_msgs/Header header\nfloat32[] current\n", "arm_msgs/msg/Currents"),
    ):
        found.register(get_types_from_msg(text, name))
    return found


def header(types: Mapping[str, Any], ns: int, ros1: bool = False) -> Any:
    stamp = types["builtin_interfaces/msg/Time"](ns // 10**9, ns % 10**9)
    kind = types["std_msgs/msg/Header"]
    return kind(0, stamp, "base") if ros1 else kind(stamp, "base")


def low_state(types: Mapping[str, Any], k: int) -> Any:
    motors = [
        types["unitree_go/msg/MotorState"](1, q[k, j], dq[k, j], tau[k, j], 30 + j, np.zeros(2, np.uint32))
        for j in range(3)
    ]
    version = "1.0" if k % 2 else "1.0-beta"  # messages of two lengths
    return types["unitree_go/msg/LowState"](
        np.zeros(2, np.uint8), motors, version, k, np.zeros(2000, np.uint8)
    )


def write(path: Path, topics: Mapping[str, tuple[str, Any]]) -> Path:
    """topics: name -> (type, function of types and row, which gives the message or None)."""
    from rosbags.rosbag1 import Writer as Ros1Writer
    from rosbags.rosbag2 import StoragePlugin
    from rosbags.rosbag2 import Writer as Ros2Writer

    ros1 = path.suffix == ".bag"
    plugin = StoragePlugin.SQLITE3 if "db3" in path.name else StoragePlugin.MCAP
    writer: Any = Ros1Writer(path) if ros1 else Ros2Writer(path, version=9, storage_plugin=plugin)
    types = store(ros1)
    with writer:
        connections = {
            name: writer.add_connection(name, kind, typestore=types) for name, (kind, _) in topics.items()
        }
        for k in range(T):
            for name, (kind, make) in topics.items():
                message = make(types.types, k)
                if message is not None:
                    raw = (types.serialize_ros1 if ros1 else types.serialize_cdr)(message, kind)
                    writer.write(connections[name], WALL + round(t[k] * 1e9), raw)
    return path


LOW_TOPIC = {"/lowstate": ("unitree_go/msg/LowState", low_state)}


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    from dynid.robot import load_robot
    from tests.log.conftest import TEXT

    path = tmp_path_factory.mktemp("robot") / "three.toml"
    path.write_text(TEXT + '\n[[joint]]\nname = "wrist"\nxyz = [0.3, 0.0, 0.0]\naxis = [1.0, 0.0, 0.0]\n')
    return load_robot(path)


@pytest.mark.parametrize("name", ["low.bag", "low_mcap", "low_db3"])
def test_motor_states_are_channels(name: str, robot: RobotModel, tmp_path: Path) -> None:
    path = write(tmp_path / name, LOW_TOPIC)
    log = read_log(path, robot, MAPPING | {"temperature": {
        "columns": "/lowstate:motor_state[{index}].temperature", "unit": "degC"}})  # fmt: skip
    chunk = log.read(log.trajectories[0])
    np.testing.assert_allclose(chunk.t, t, atol=1e-9)
    for found, wanted in ((chunk.q, q), (chunk.dq, dq), (chunk.tau, tau)):
        assert found is not None
        np.testing.assert_array_equal(found, wanted.astype(np.float32))
    assert chunk.temperature is not None
    np.testing.assert_array_equal(chunk.temperature[0], [30.0, 31.0, 32.0])
    (stream,) = contents(path).streams
    names = [one.name for one in stream.columns]
    assert (stream.name, stream.row_count) == ("/lowstate", T)
    assert {"/lowstate:tick", "/lowstate:head[1]", "/lowstate:motor_state[2].reserve[1]"} <= set(names)
    assert not any("image" in one for one in names)


def test_definitions_come_from_files(robot: RobotModel, tmp_path: Path) -> None:
    path = storage(write(tmp_path / "low_db3", LOW_TOPIC))
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM message_definitions")
    connection.commit()
    connection.close()
    found = read_log_error(path, robot, MAPPING)
    assert "no-joint-states" in found
    assert "/lowstate (unitree_go/msg/LowState)" in found
    assert 'definitions = "FOLDER" under [log]' in found
    folder = tmp_path / "unitree_go" / "msg"
    folder.mkdir(parents=True)
    (folder / "MotorState.msg").write_text(MOTOR)
    (folder / "LowState.msg").write_text(LOW)
    log = read_log(path, robot, MAPPING | {"definitions": str(tmp_path / "unitree_go")})
    np.testing.assert_array_equal(log.read(log.trajectories[0]).q, q.astype(np.float32))
    (folder / "LowState.msg").write_text("float64[ x")
    assert "LowState.msg: found an unreadable definition" in read_log_error(
        path, robot, MAPPING | {"definitions": [str(folder)]}
    )
    # An experiment file's folders lie beside it, wherever its run folder is read from.
    (tmp_path / "x.toml").write_text('[log]\ndefinitions = "unitree_go"\n')
    read = Experiment.read(tmp_path / "x.toml").content.log
    assert read is not None
    assert read.definitions == [str(tmp_path / "unitree_go")]
    assert "definitions" in read_log_error(path, robot, MAPPING | {"definitions": str(tmp_path / "none")})


def read_log_error(path: Path, robot: RobotModel, mapping: Mapping[str, Any]) -> str:
    with pytest.raises(DynidError) as found:
        read_log(path, robot, mapping)
    assert found.value.exit_code in (3, 7)
    return str(found.value)


def dynamic(types: Mapping[str, Any], k: int) -> Any:
    value = types["control_msgs/msg/InterfaceValue"]
    names = ["position", "velocity", "effort", "temperature"]
    values = [
        value(names[: 3 + (j > 0)], np.array([q[k, j], dq[k, j], tau[k, j], 40.0 + j][: 3 + (j > 0)]))
        for j in range(3)
    ]
    kind = types["control_msgs/msg/DynamicJointState"]
    order = [2, 0, 1] if k % 3 else [0, 1, 2]  # joints may come in any order
    joints = ["shoulder", "elbow", "wrist"]
    return kind(
        header(types, WALL + round(t[k] * 1e9)), [joints[j] for j in order], [values[j] for j in order]
    )


def currents(types: Mapping[str, Any], k: int) -> Any:
    if k % 4:
        return None
    kind = types["arm_msgs/msg/Currents"]
    return kind(header(types, WALL + round(t[k] * 1e9)), tau[k].astype(np.float32))


def test_dynamic_joint_states_and_slower_currents(robot: RobotModel, tmp_path: Path) -> None:
    path = write(
        tmp_path / "dynamic_mcap",
        {
            "/dynamic": ("control_msgs/msg/DynamicJointState", dynamic),
            "/currents": ("arm_msgs/msg/Currents", currents),
        },
    )
    mapping = {
        "time": {"column": "t", "unit": "s"},
        "position": {"columns": "/dynamic:{joint}.position", "unit": "rad"},
        "effort": {"columns": "/dynamic:{joint}.effort", "unit": "N m"},
        "extra": {
            "current": {"column": "/currents:current[1]", "unit": "A"},
            "heat": {"column": "/dynamic:wrist.temperature", "unit": "degC"},
        },
    }
    log = read_log(path, robot, mapping)
    chunk = log.read(log.trajectories[0])
    inside = t <= t[::4][-1]
    np.testing.assert_array_equal(chunk.q, q[inside])
    assert chunk.tau is not None
    np.testing.assert_array_equal(chunk.tau, tau[inside])
    np.testing.assert_array_equal(chunk.extra["heat"], 42.0)
    wanted = np.interp(t[inside], t[::4], tau[::4, 1].astype(np.float32))
    np.testing.assert_allclose(chunk.extra["current"], wanted, atol=1e-6)
    remarks = "\n".join(one.text for one in log.remarks)
    assert (
        "/currents:current[1] of /currents (25 Hz) are interpolated to the times of the rows (100 Hz)"
        in remarks
    )


def test_messages_that_are_cut_off(robot: RobotModel, tmp_path: Path) -> None:
    path = storage(write(tmp_path / "low_db3", LOW_TOPIC))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE messages SET data = substr(data, 1, 40) WHERE id = 100")
    connection.commit()
    connection.close()
    with pytest.raises(
        InputError, match=r"message 99 of topic /lowstate that cannot be read \(a message that is cut off"
    ):
        read_log(path, robot, MAPPING)
    connection = sqlite3.connect(path)
    rng = np.random.default_rng(0)
    for i, (data,) in enumerate(connection.execute("SELECT data FROM messages LIMIT 60").fetchall()):
        changed = bytearray(data)
        for at in rng.integers(4, min(len(changed), 120), 4):
            changed[at] = int(rng.choice([0, 255, 127]))
        connection.execute("UPDATE messages SET data = ? WHERE id = ?", (bytes(changed), i + 1))
        connection.commit()
        try:
            open_table(path)
            read_log(path, robot, MAPPING)
        except DynidError as error:
            assert isinstance(error, InputError | RefusedError)  # noqa: PT017  # either ending is right
    connection.close()
