"""Bags that are cut off, damaged or hostile end in one message with the right exit code."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from dynid.base import DynidError, InputError, RefusedError, ResourceError, UnfitDataError
from dynid.log import Channel, ChannelMap, open_table, read_log
from dynid.log.readers import bag_files
from dynid.robot import RobotModel
from tests.command_line import Run
from tests.log.bags import WALL, State, message_store, serialized, states, storage, write_bag

T = 400
t = np.arange(T) / 200.0
rng = np.random.default_rng(8)
q, tau = rng.normal(size=(2, T, 2))
NAMES = ("shoulder", "elbow")
STATES = states(t, NAMES, q, tau=tau)


def file_of(name: str, folder: Path) -> Path:
    path = write_bag(folder / name, STATES, chunk=10_000)
    return storage(path) if path.is_dir() else path


@pytest.mark.parametrize("name", ["run.bag", "run_mcap", "run_db3"])
def test_damaged_bytes_never_end_in_a_traceback(name: str, robot: RobotModel, tmp_path: Path) -> None:
    source = file_of(name, tmp_path)
    whole = source.read_bytes()
    damaged = tmp_path / f"damaged{source.suffix}"

    def outcome() -> DynidError | None:
        try:
            log = read_log(damaged, robot)
            log.read(log.trajectories[0])
        except DynidError as error:
            return error
        return None

    seen: set[str] = set()
    for seed in range(40):
        random = np.random.default_rng(seed)
        data = bytearray(whole)
        # Half of them hit the first and last bytes, where indexes, lengths and definitions are.
        ends = np.concatenate([np.arange(3000), len(data) - 1 - np.arange(3000)])
        for place in random.choice(ends if seed % 2 else len(data), int(random.integers(1, 30))):
            data[place] = int(random.integers(0, 256))
        damaged.write_bytes(data)
        error = outcome()
        assert error is None or error.exit_code in (3, 4, 7)
        assert error is None or str(damaged) in str(error)
        seen.add("read" if error is None else error.identifier)
    assert len(seen) > 2


@pytest.mark.parametrize(
    ("name", "share", "left"),
    [
        ("run.bag", 0.5, r"[1-9] chunk\(s\) and 1\d\d indexed messages over [01](\.\d+)? s"),
        ("run_mcap", 0.5, "0 chunk"),
        ("run_db3", 0.5, r"\d+ of \d+ pages"),
        ("run.bag", 0.01, "0 chunk"),
    ],
)
def test_a_bag_that_was_cut_off(name: str, share: float, left: str, tmp_path: Path) -> None:
    path = file_of(name, tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(UnfitDataError, match=rf"truncated.*{left}.*copy it again"):
        open_table(path)


def test_a_recording_that_was_never_closed(tmp_path: Path) -> None:
    path = file_of("run.bag", tmp_path)
    data = bytearray(path.read_bytes())
    at = data.index(b"index_pos=") + 10
    data[at : at + 8] = bytes(8)
    path.write_bytes(data)
    with pytest.raises(UnfitDataError, match=r"truncated.*not indexed.*400 indexed messages over 2 s"):
        open_table(path)


def test_checksums(robot: RobotModel, tmp_path: Path) -> None:
    path = storage(write_bag(tmp_path / "run_mcap", STATES))
    data = bytearray(path.read_bytes())
    # A chunk: kind, length, first and last time, size, checksum (0 = none), name of the compression, length, messages.
    chunk = data.index(b"\x06")
    while data[chunk + 9 : chunk + 17] != int(WALL + 50_000).to_bytes(8, "little"):
        chunk = data.index(b"\x06", chunk + 1)
    size = int.from_bytes(data[chunk + 25 : chunk + 33], "little")
    right = crc32(data[chunk + 49 : chunk + 49 + size])
    for value in (0, right, right ^ 1):
        data[chunk + 33 : chunk + 37] = value.to_bytes(4, "little")
        path.write_bytes(data)
        if value != right ^ 1:
            reported = {one.identifier for one in read_log(path, robot).remarks}
            assert ("no-checksums" in reported) == (value == 0)
    with pytest.raises(UnfitDataError, match=r"error\[checksum\].*checksum mismatch.*copy it again"):
        open_table(path)


def test_what_is_no_bag(tmp_path: Path) -> None:
    source = storage(write_bag(tmp_path / "run_mcap", STATES))
    renamed = tmp_path / "run.db3"
    shutil.copy(source, renamed)
    with pytest.raises(InputError, match=r"magic.*content is MCAP; expected rosbag2 database"):
        open_table(renamed)
    old = tmp_path / "old.bag"
    old.write_bytes(b"#ROSBAG V1.2\n" + bytes(100))
    with pytest.raises(InputError, match=r"error\[bag\].*version 102 is not supported"):
        open_table(old)


def test_folders(tmp_path: Path) -> None:
    whole = write_bag(tmp_path / "run_mcap", STATES)

    def changed(name: str, old: str = "", new: str = "") -> Path:
        folder = shutil.copytree(whole, tmp_path / name)
        text = (folder / "metadata.yaml").read_text()
        (folder / "metadata.yaml").write_text(text.replace(old, new) if old else text)
        return folder

    without = changed("without")
    (without / "metadata.yaml").unlink()
    with pytest.raises(InputError, match=r"file-missing.*pass run_mcap.mcap in it, or restore metadata.yaml"):
        open_table(without)
    lost = changed("lost")
    storage(lost).unlink()
    with pytest.raises(InputError, match=r"error\[bag\].*files are missing"):
        open_table(lost)
    with pytest.raises(InputError, match="Could not load YAML"):
        open_table(changed("torn", "rosbag2_bagfile_information:", "[rosbag2"))
    for name, outside in (("up", "../../etc/passwd"), ("root", "/etc/passwd")):
        with pytest.raises(RefusedError, match="bag-path"):
            open_table(changed(name, "- run_mcap.mcap", f"- {outside}"))
    linked = changed("linked")
    storage(linked).unlink()
    (linked / "run_mcap.mcap").symlink_to(storage(whole))
    with pytest.raises(RefusedError, match=r"bag-path.*run_mcap.mcap"):
        open_table(linked)
    with pytest.raises(RefusedError, match="many aliases"):
        open_table(changed("bomb", "rosbag2_bagfile_information:", "a: &a [x]\n" + "b: *a\n" * 200))


def test_huge_chunks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_files, "MAX_CHUNK_BYTES", 10_000)
    with pytest.raises(RefusedError, match="decompression"):
        open_table(file_of("run_mcap", tmp_path))


def test_messages_that_cannot_be_read_are_named(robot: RobotModel, tmp_path: Path) -> None:
    wrong = list(STATES)
    wrong[17] = State(wrong[17].ns, NAMES, np.ones(3))
    with pytest.raises(
        InputError,
        match=r"row 17 \(t = 0.085 s\): found message 17 of topic /joint_states with 2 names but 3 values of position",
    ):
        read_log(write_bag(tmp_path / "run_mcap", wrong), robot)


def test_bags_without_joint_states(robot: RobotModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no-joint-states.*a bag without topics"):
        open_table(write_bag(tmp_path / "none_mcap", []))
    from rosbags.rosbag1 import Writer

    store = message_store(True)
    for name, messages in (
        ("a", [("/tf", "std_msgs/msg/Header")]),
        ("b", [("/j", "sensor_msgs/msg/JointState")]),
    ):
        path = tmp_path / f"{name}.bag"
        with Writer(path) as writer:
            for topic, kind in messages:
                writer.add_connection(topic, kind, typestore=store)
        with pytest.raises(InputError, match=r"no-joint-states|no-rows"):
            open_table(path)


def test_a_definition_that_is_missing_or_torn(robot: RobotModel, tmp_path: Path) -> None:
    def database(name: str, statement: str) -> Path:
        messages = [replace(one, kind="control_msgs/msg/JointTrajectoryControllerState") for one in STATES]
        path = storage(write_bag(tmp_path / f"{name}_db3", messages if name != "known" else STATES))
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()
        return path

    forget = "DELETE FROM message_definitions"
    log = read_log(database("known", forget), robot)
    np.testing.assert_array_equal(log.read(log.trajectories[0]).q, q)
    with pytest.raises(InputError, match=r"unknown-schema.*no message definition of control_msgs/msg/Joint"):
        open_table(database("unknown", forget))
    with pytest.raises(InputError, match=r"unknown-schema.*unreadable definition"):
        open_table(
            database("torn", "UPDATE message_definitions SET encoded_message_definition = 'float64[ x'")
        )


IDL = """\
IDL: sensor_msgs/msg/JointState
module sensor_msgs { module msg { struct JointState {
  std_msgs::msg::Header header;
  sequence<string> name;
  sequence<double> position;
  sequence<double> velocity;
  sequence<double> effort;
}; }; };
"""
IDL_HEADER = """\
IDL: std_msgs/msg/Header
module std_msgs { module msg { struct Header {
  builtin_interfaces::msg::Time stamp;
  string frame_id;
}; }; };
"""


def test_text_where_a_message_has_bytes_is_damage(robot: RobotModel, tmp_path: Path) -> None:
    path = storage(write_bag(tmp_path / "run_db3", STATES))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE messages SET data = 'text' WHERE id = 7")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="str instead of bytes"):
        read_log(path, robot)


def test_definitions_in_idl(robot: RobotModel, tmp_path: Path) -> None:
    path = storage(write_bag(tmp_path / "run_db3", STATES))
    connection = sqlite3.connect(path)
    text = ("=" * 80 + "\n").join(["", IDL, IDL_HEADER])
    connection.execute(
        "UPDATE message_definitions SET encoding = 'ros2idl', encoded_message_definition = ?", (text,)
    )
    connection.commit()
    connection.close()
    log = read_log(path, robot)
    np.testing.assert_array_equal(log.read(log.trajectories[0]).q, q)


def test_big_endian_messages_are_read_one_by_one(robot: RobotModel, tmp_path: Path) -> None:
    from rosbags.rosbag2 import Writer

    store = message_store(False)
    path = tmp_path / "run"
    with Writer(path, version=9) as writer:
        connection = writer.add_connection("/joint_states", "sensor_msgs/msg/JointState", typestore=store)
        for one in STATES:
            writer.write(connection, one.ns, serialized(store, one, False, little_endian=one.ns % 2 == 1))
    log = read_log(path, robot)
    np.testing.assert_array_equal(log.read(log.trajectories[0]).q, q)


def test_sources_that_share_no_time(robot: RobotModel, tmp_path: Path) -> None:
    late = [replace(one, ns=one.ns + 10**10, topic="/late") for one in STATES]
    mapping = ChannelMap(
        time=Channel("t", "s", 1.0),
        position={name: Channel(f"q_{name}", "rad", 1.0) for name in NAMES},
        effort={name: Channel(f"/late:tau_{name}", "N m", 1.0) for name in NAMES},
        topics=("/joint_states",),
    )
    path = write_bag(tmp_path / "run_mcap", [*STATES, *late])
    with pytest.raises(InputError, match=r"no-overlap.*/joint_states and /late"):
        read_log(path, robot, mapping)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of("run.bag", tmp_path)
    monkeypatch.setitem(sys.modules, "rosbags.rosbag1", None)
    with pytest.raises(ResourceError, match=r"no-rosbags.*pip install 'dynid\[bags\]'"):
        open_table(path)


def test_exit_codes(run: Run, robot_file: Path, tmp_path: Path) -> None:
    def check(path: Path, *options: str) -> tuple[int, str]:
        done = run("check", robot_file, path, *options)
        assert done.err.count("error[") == 1
        return done.code, done.err

    cut = file_of("run.bag", tmp_path)
    cut.write_bytes(cut.read_bytes()[:30_000])
    assert check(cut)[0] == 4
    without = write_bag(tmp_path / "no_effort_mcap", states(t, NAMES, q))
    code, text = check(without)
    assert code == 3
    assert "no-effort" in text
    assert "/joint_states" in text
    two = write_bag(tmp_path / "two_mcap", [*STATES, *(replace(one, topic="/other") for one in STATES)])
    code, text = check(two)
    assert (code, "several-topics" in text) == (3, True)
    assert check(two, "--topic", "/nowhere")[0] == 3
    degrees = write_bag(
        tmp_path / "degrees_mcap",
        states(t, NAMES, 60.0 * np.sin(t[:, None] + [0.0, 1.0]), np.cos(t[:, None] + [0.0, 1.0]), tau, WALL),
    )
    done = run("check", robot_file, degrees, "--no-fit")
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("in doubt: unit-suspicion")
