"""A log as MCAP: every signal is there, in time, and dynid reads the file back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dynid.log import Log, read_log
from dynid.robot import load_robot
from dynid.testing import random_robot
from dynid.verbs import write_mcap
from tests.command_line import Run

ROWS, JOINTS, RATE = 300, 3, 200.0
AXES = ("fx", "fy", "fz", "tx", "ty", "tz")


def made_log(seed: int, motions: int = 1, offset: float = 0.0) -> tuple[Log, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, JOINTS)
    t = offset + np.concatenate([np.arange(ROWS // motions) / RATE for _ in range(motions)])
    data = {"t": t, "temperature": rng.normal(size=(len(t), JOINTS)), "wrench": rng.normal(size=(len(t), 6))}
    data |= {kind: rng.normal(size=(len(t), JOINTS)) for kind in ("position", "velocity", "effort")}
    columns = {
        f"{kind}_{name}": data[kind][:, j]
        for kind in ("position", "velocity", "effort", "temperature")
        for j, name in enumerate(robot.joint_names)
    }
    columns |= {axis: data["wrench"][:, k] for k, axis in enumerate(AXES)}
    names = np.repeat([f"motion {k}" for k in range(motions)], ROWS // motions)
    units = {"position": "rad", "velocity": "rad/s", "effort": "N m", "temperature": "degC"}
    mapping: dict[str, Any] = {
        "time": {"column": "t", "unit": "s"},
        "trajectory": "motion",
        "wrench": {"wrist": {"link": robot.body_names[-1], "columns": list(AXES), "unit": "N"}},
    } | {kind: {"columns": f"{kind}_{{joint}}", "unit": unit} for kind, unit in units.items()}
    mapping["effort"]["side"] = "link"
    return Log.from_frame(pa.table({"t": t, "motion": names, **columns}), robot, mapping), data


def messages(path: Path) -> dict[str, list[tuple[int, Any]]]:
    """Messages of an MCAP file by topic, by another reader than dynid's."""
    from rosbags.rosbag2 import Reader
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    by_topic: dict[str, list[tuple[int, Any]]] = {}
    with Reader(path) as reader:
        for connection, stamp, raw in reader.messages():
            message = store.deserialize_cdr(raw, connection.msgtype)
            by_topic.setdefault(connection.topic, []).append((stamp, message))
    return by_topic


@pytest.mark.parametrize(("seed", "offset"), [(1, 0.0), (2, 1.7e9)])
def test_every_signal_is_in_the_file(seed: int, offset: float, tmp_path: Path) -> None:
    log, data = made_log(seed, offset=offset)
    path = write_mcap(log, tmp_path / "log.mcap")
    assert [item.name for item in tmp_path.iterdir()] == ["log.mcap"]
    by_topic = messages(path)
    states = by_topic["/joint_states"]
    np.testing.assert_array_equal([message.position for _, message in states], data["position"])
    np.testing.assert_array_equal([message.velocity for _, message in states], data["velocity"])
    np.testing.assert_array_equal([message.effort for _, message in states], data["effort"])
    np.testing.assert_allclose([stamp / 1e9 for stamp, _ in states], data["t"], atol=1e-6)
    assert list(states[0][1].name) == list(log.robot.joint_names)
    wrench = [message.wrench for _, message in by_topic["/wrench/wrist"]]
    np.testing.assert_array_equal(
        [[w.force.x, w.force.z, w.torque.y] for w in wrench], data["wrench"][:, [0, 2, 4]]
    )
    assert by_topic["/wrench/wrist"][0][1].header.frame_id == log.robot.body_names[-1]
    first = by_topic[f"/temperature/{log.robot.joint_names[0]}"]
    np.testing.assert_array_equal([message.temperature for _, message in first], data["temperature"][:, 0])
    assert [message.data for _, message in by_topic["/trajectory"]] == ["motion 0"]


def test_trajectories_whose_clocks_start_anew_follow_each_other(tmp_path: Path) -> None:
    log, _ = made_log(3, motions=3)
    by_topic = messages(write_mcap(log, tmp_path / "log.mcap"))
    stamps = [stamp for stamp, _ in by_topic["/joint_states"]]
    assert stamps == sorted(stamps)
    assert [message.data for _, message in by_topic["/trajectory"]] == ["motion 0", "motion 1", "motion 2"]


def test_dynid_reads_the_file_of_its_command(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "for_foxglove.mcap"
    done = run("convert", robot_file, train_log, "--out", out)
    assert done.code == 0, done.err
    assert f"written: {out}" in done.out
    robot = load_robot(robot_file)
    log, again = read_log(train_log, robot), read_log(out, robot)
    before, after = (source.read(source.trajectories[0]) for source in (log, again))
    np.testing.assert_allclose(after.q, before.q)
    assert before.tau is not None
    assert after.tau is not None
    np.testing.assert_allclose(after.tau, before.tau)
    assert run("convert", robot_file, train_log, "--out", out).code == 7
    assert run("convert", robot_file, train_log, "--to", out, "--force").code == 0
