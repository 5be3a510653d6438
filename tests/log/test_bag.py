"""A bag is the same log as a table of the same numbers, however its messages are cut, ordered, named and stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, InputError, UnfitDataError
from dynid.log import (
    Channel,
    ChannelMap,
    Log,
    LogWatch,
    canonical_columns,
    check_log,
    file_hash,
    read_log,
    write_log,
)
from dynid.log.readers.bag import survey
from dynid.log.readers.bag_messages import Decoder
from dynid.recording import RawChunk
from dynid.robot import RobotModel
from dynid.signals import Preparation
from dynid.signals.prepare import prepare
from tests.log.bags import NONE, WALL, State, states, storage, write_bag

T = 500
t = np.arange(T) / 200.0
rng = np.random.default_rng(5)
q, dq, tau = rng.normal(size=(3, T, 2))
NAMES = ("shoulder", "elbow")
# As drivers do it: another order, and joints that the model does not have.
ORDER = ("finger", "elbow", "spare", "shoulder")
KINDS = ("run.bag", "run_mcap", "run_db3")


def shuffled(values: Float) -> Float:
    other = rng.normal(size=(2, len(values)))
    return np.stack([other[0], values[:, 1], other[1], values[:, 0]], axis=1)


def whole(log: Log) -> RawChunk:
    (trajectory,) = log.trajectories
    return log.read(trajectory)


def assert_same(chunk: RawChunk, rows: slice = slice(None)) -> None:
    np.testing.assert_allclose(chunk.t, t[rows] - t[rows][0], rtol=0, atol=1e-15)
    for found, wanted in ((chunk.q, q), (chunk.dq, dq), (chunk.tau, tau)):
        assert found is not None
        np.testing.assert_array_equal(found, wanted[rows])


def reported(log: Log) -> set[str]:
    return {one.identifier for one in log.remarks}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("bare", [False, True])
def test_a_bag_is_the_log_of_its_numbers(name: str, bare: bool, robot: RobotModel, tmp_path: Path) -> None:
    path = write_bag(tmp_path / name, states(t, ORDER, shuffled(q), shuffled(dq), shuffled(tau)))
    if bare and path.is_dir():
        path = storage(path)
    log = read_log(path, robot)
    assert_same(whole(log))
    assert log.trajectories[0].name == (path.name if path.is_dir() else path.stem)
    assert log.duration == pytest.approx(t[-1])
    assert reported(log) == {"topic", "other-joints", "clock", "no-checksums"}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("run.bag", "LZ4"),
        ("run.bag", "BZ2"),
        ("run_db3", "FILE"),
        ("run_mcap", "MESSAGE"),
        ("run_mcap", "STORAGE"),
    ],
)
def test_compressed_bags(name: str, way: str, robot: RobotModel, tmp_path: Path) -> None:
    path = write_bag(tmp_path / name, states(t, NAMES, q, dq, tau), way, 20_000)
    assert_same(whole(read_log(path, robot)))


def test_the_samples_are_those_of_a_table(robot: RobotModel, tmp_path: Path) -> None:
    # A clock that does not count from 1970 is kept as it is.
    long = np.arange(2 * T) / 100.0
    smooth = 0.4 * np.sin(2.0 * long[:, None] + [0.0, 1.0])
    torque = np.cos(3.0 * long[:, None] + [0.0, 1.0])
    columns = canonical_columns(NAMES, smooth, tau=torque)
    logs = [
        read_log(write_log(tmp_path / "log.parquet", long, columns), robot),
        read_log(write_log(tmp_path / "log.csv", long, columns), robot),
        *(
            read_log(write_bag(tmp_path / name, states(long, NAMES, smooth, None, torque, 0)), robot)
            for name in KINDS
        ),
    ]
    made = [list(prepare(log, Preparation(cutoff=4.0, rest=0.0), Diagnostics())) for log in logs]
    assert made[0]
    for other in made[1:]:
        for one, two in zip(made[0], other, strict=True):
            for part in ("t", "q", "dq", "ddq", "tau"):
                np.testing.assert_allclose(getattr(two, part), getattr(one, part), rtol=0, atol=1e-12)


def test_stamps_give_the_time_not_the_reception(robot: RobotModel, tmp_path: Path) -> None:
    late = rng.integers(0, 4_000_000, T)
    messages = [
        replace(one, received=one.ns + int(wait))
        for one, wait in zip(states(t, NAMES, q, dq, tau), late, strict=True)
    ]
    assert_same(whole(read_log(write_bag(tmp_path / "run_mcap", messages), robot)))


@pytest.mark.parametrize("stamp", [0, WALL])
def test_stamps_that_never_change_are_not_used(stamp: int, robot: RobotModel, tmp_path: Path) -> None:
    messages = [replace(one, ns=stamp, received=one.ns) for one in states(t, NAMES, q, dq, tau)]
    log = read_log(write_bag(tmp_path / "run.bag", messages), robot)
    assert_same(whole(log))
    sink = Diagnostics()
    LogWatch(log, sink)
    assert [one.identifier for one in sink.warnings] == ["no-stamps"]
    assert "/joint_states" in str(sink.warnings[0])


def test_first_messages_without_a_stamp_are_left_out(robot: RobotModel, tmp_path: Path) -> None:
    messages = states(t, NAMES, q, dq, tau)
    messages[:3] = [replace(one, ns=0, received=one.ns) for one in messages[:3]]
    log = read_log(write_bag(tmp_path / "run_mcap", messages), robot)
    assert_same(whole(log), slice(3, None))
    assert "no-stamps" in reported(log)


def test_a_gripper_on_the_same_topic(robot: RobotModel, tmp_path: Path) -> None:
    messages: list[State] = []
    for k, one in enumerate(states(t, NAMES, q, dq, tau)):
        messages.append(one)
        if k % 3 == 0:
            messages.append(State(one.ns + 1_000_000, ("finger",), np.ones(1), np.ones(1)))
    log = read_log(write_bag(tmp_path / "run.bag", messages), robot)
    assert_same(whole(log))
    assert "other-messages" in reported(log)


def test_arms_that_publish_in_parts_are_joined_by_stamp(robot: RobotModel, tmp_path: Path) -> None:
    parts = [
        one
        for j, name in enumerate(NAMES)
        for one in states(t, (name,), q[:, j : j + 1], dq[:, j : j + 1], tau[:, j : j + 1])
    ]
    log = read_log(write_bag(tmp_path / "run_db3", parts), robot)
    assert_same(whole(log))
    assert "joined" in reported(log)
    assert not Diagnostics(list(log.remarks)).warnings


def test_parts_at_other_times_are_brought_to_one(robot: RobotModel, tmp_path: Path) -> None:
    # What is straight between two messages comes out exactly, whatever their rates.
    later = t[::2] + 0.0013
    parts = states(t, NAMES[:1], 0.3 * t[:, None] - 1.0) + states(
        later, NAMES[1:], 0.7 * later[:, None] + 2.0
    )
    log = read_log(write_bag(tmp_path / "run_mcap", parts), robot)
    chunk = whole(log)
    assert "mixed-rates" in reported(log)
    np.testing.assert_allclose(chunk.q[:, 1], 2.0 + 0.7 * (chunk.q[:, 0] + 1.0) / 0.3, atol=1e-12)
    assert len(chunk.t) == np.count_nonzero((t >= later[0]) & (t <= later[-1]))


def test_a_turn_that_wraps_between_two_messages(robot: RobotModel, tmp_path: Path) -> None:
    later = t[::2] + 0.0013
    angle = np.angle(np.exp(1j * (3.0 * later)))
    parts = states(t, NAMES[:1], q[:, :1]) + states(later, NAMES[1:], angle[:, None])
    chunk = whole(read_log(write_bag(tmp_path / "run_mcap", parts), robot))
    # t counts from where both began.
    error = np.angle(np.exp(1j * (chunk.q[:, 1] - 3.0 * (chunk.t + later[0]))))
    np.testing.assert_allclose(error, 0.0, atol=1e-12)


def test_nothing_is_invented_where_a_part_pauses(robot: RobotModel, tmp_path: Path) -> None:
    second = np.concatenate([t[:200], t[260:]])
    rows = np.concatenate([q[:200, 1:], q[260:, 1:]])
    parts = states(t, NAMES[:1], q[:, :1]) + states(second, NAMES[1:], rows)
    chunk = whole(read_log(write_bag(tmp_path / "run_mcap", parts), robot))
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(chunk.q[:, 1])), np.arange(200, 260))
    np.testing.assert_array_equal(chunk.q[:200], q[:200])


def test_messages_that_lack_a_joint_are_left_out_and_reported(robot: RobotModel, tmp_path: Path) -> None:
    messages = states(t, NAMES, q, dq, tau)
    for k in (7, 99):
        messages[k] = State(messages[k].ns, NAMES[:1], q[k, :1])
    log = read_log(write_bag(tmp_path / "run_mcap", messages), robot)
    np.testing.assert_array_equal(whole(log).q, np.delete(q, [7, 99], axis=0))
    partial = next(one.text for one in log.remarks if one.identifier == "partial-messages")
    assert partial.startswith("2 messages")


@pytest.mark.parametrize("absent", [NONE, np.full(2, np.nan)])
def test_what_is_empty_or_nan_was_not_measured(absent: Float, robot: RobotModel, tmp_path: Path) -> None:
    messages = [replace(one, velocity=absent) for one in states(t, NAMES, q, dq, tau)]
    log = read_log(write_bag(tmp_path / "run.bag", messages), robot)
    chunk = whole(log)
    assert chunk.dq is None
    assert chunk.tau is not None
    messages = [replace(one, effort=absent) for one in messages]
    log = read_log(write_bag(tmp_path / "other.bag", messages), robot)
    assert not log.has_effort
    assert "effort of shoulder, elbow is empty or not finite" in "".join(map(str, log.remarks))


def test_velocities_that_come_now_and_then_are_not_used(robot: RobotModel, tmp_path: Path) -> None:
    messages = states(t, NAMES, q, dq, tau)
    few = [replace(one, velocity=NONE) if k < 4 else one for k, one in enumerate(messages)]
    chunk = whole(read_log(write_bag(tmp_path / "few_mcap", few), robot))
    assert chunk.dq is not None
    assert np.isnan(chunk.dq[:4]).all()
    np.testing.assert_array_equal(chunk.dq[4:], dq[4:])
    many = [replace(one, velocity=NONE) if k % 20 == 0 else one for k, one in enumerate(messages)]
    log = read_log(write_bag(tmp_path / "many_mcap", many), robot)
    assert whole(log).dq is None
    assert "not-measured" in {one.identifier for one in Diagnostics(list(log.remarks)).warnings}


def test_a_wide_bag_is_read_in_blocks(
    robot: RobotModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynid.log.readers.bag.BLOCK", 64)
    monkeypatch.setattr("dynid.log.readers.bag.MAX_KEPT_BYTES", 0)
    path = write_bag(tmp_path / "run_mcap", states(t, NAMES, q, dq, tau))
    log = read_log(path, robot)
    for _ in range(2):
        assert_same(whole(log))
    chunks = list(log.chunks(log.trajectories[0], 50))
    assert {len(chunk.t) for chunk in chunks} == {50}
    assert [chunk.first_row for chunk in chunks] == np.cumsum([0, *(len(c.t) for c in chunks[:-1])]).tolist()


@pytest.mark.parametrize("kind", ["run.bag", "run_mcap"])
def test_states_of_a_trajectory_controller(kind: str, robot: RobotModel, tmp_path: Path) -> None:
    messages = [
        replace(one, kind="control_msgs/msg/JointTrajectoryControllerState", topic="/arm/state")
        for one in states(t, NAMES, q, dq, tau)
    ]
    assert_same(whole(read_log(write_bag(tmp_path / kind, messages), robot)))


def test_topics_are_found_or_asked_for(robot: RobotModel, tmp_path: Path) -> None:
    right = states(t, NAMES, q, dq, tau, topic="/arm/joint_states")
    other = states(t, ("wheel",), q[:, :1], topic="/base/joint_states")
    assert_same(whole(read_log(write_bag(tmp_path / "one_mcap", [*right, *other]), robot)))
    command = states(t, NAMES, q + 1.0, topic="/joint_command")
    path = write_bag(tmp_path / "two_mcap", [*right, *other, *command])
    with pytest.raises(InputError, match=r"several-topics.*/arm/joint_states \(JointState, 500 messages, 200 Hz: "
                       r"position, velocity, effort\), /joint_command .*--topic"):  # fmt: skip
        read_log(path, robot)
    for name in ("/arm/joint_states", "arm/joint_states"):
        assert_same(whole(read_log(path, robot, topics=[name])))
    np.testing.assert_array_equal(whole(read_log(path, robot, topics=["/joint_command"])).q, q + 1.0)
    with pytest.raises(InputError, match=r"unknown-topic.*did you mean '/arm/joint_states'\?"):
        read_log(path, robot, topics=["/arm/joint_state"])


def test_joints_on_two_topics(robot: RobotModel, tmp_path: Path) -> None:
    parts = [
        *states(t, NAMES[:1], q[:, :1], dq[:, :1], tau[:, :1], topic="/a"),
        *states(t, NAMES[1:], q[:, 1:], dq[:, 1:], tau[:, 1:], topic="/b"),
    ]
    path = write_bag(tmp_path / "run_mcap", parts)
    with pytest.raises(InputError, match=r"missing-joint.*several topics: --topic /[ab] --topic /[ab]"):
        read_log(path, robot)
    assert_same(whole(read_log(path, robot, topics=["/a", "/b"])))


def test_columns_of_another_topic(robot: RobotModel, tmp_path: Path) -> None:
    # The motors' own encoders and currents, on a topic of their own.
    path = write_bag(
        tmp_path / "run_mcap",
        [
            *states(t, NAMES, q, dq, topic="/link"),
            *states(t, NAMES, 3.0 * q, topic="/motor", tau=tau),
        ],
    )
    motor = {name: Channel(f"/motor:q_{name}", "rad", 1.0) for name in NAMES}
    mapping = ChannelMap(
        time=Channel("t", "s", 1.0),
        position={name: Channel(f"q_{name}", "rad", 1.0) for name in NAMES},
        velocity={name: Channel(f"/link:dq_{name}", "rad/s", 1.0) for name in NAMES},
        effort={name: Channel(f"/motor:tau_{name}", "N m", 1.0) for name in NAMES},
        motor_position=motor,
        topics=("/link",),
    )
    chunk = whole(read_log(path, robot, mapping))
    assert_same(chunk)
    np.testing.assert_array_equal(chunk.theta, 3.0 * q)


def test_topics_with_clocks_of_their_own(robot: RobotModel, tmp_path: Path) -> None:
    groups = {
        "position": {name: Channel(f"q_{name}", "rad", 1.0) for name in NAMES},
        "effort": {name: Channel(f"/motor:tau_{name}", "N m", 1.0) for name in NAMES},
    }
    mapping = ChannelMap(time=Channel("t", "s", 1.0), topics=("/link",), **groups)
    found = []
    for ms in (0, 8, 40):
        # The motors' clock is late: their stamps are too small for what is received at the same time.
        motor = [
            replace(one, ns=one.ns - ms * 10**6, received=one.ns + 50_000)
            for one in states(t, NAMES, q, topic="/motor", tau=tau)
        ]
        path = write_bag(tmp_path / f"late{ms}_mcap", [*states(t, NAMES, q, topic="/link"), *motor])
        log = read_log(path, robot, mapping)
        found += [one.text for one in log.remarks if one.identifier == "two-clocks"]
    assert len(found) == 1
    assert "+0.04 s between /motor and /link" in found[0]


def test_names_that_differ_from_the_models_are_mapped(robot: RobotModel, tmp_path: Path) -> None:
    path = write_bag(tmp_path / "run_mcap", states(t, ("left/shoulder", "left/elbow"), q, dq, tau))
    with pytest.raises(InputError, match=r"missing-joint.*'left/shoulder' for 'shoulder'"):
        read_log(path, robot)
    groups = {
        key: {name: Channel(f"{prefix}_left/{name}", unit, 1.0) for name in NAMES}
        for key, prefix, unit in (
            ("position", "q", "rad"),
            ("velocity", "dq", "rad/s"),
            ("effort", "tau", "N m"),
        )
    }
    assert_same(whole(read_log(path, robot, ChannelMap(time=Channel("t", "s", 1.0), **groups))))


def test_several_bags_are_several_trajectories(robot: RobotModel, tmp_path: Path) -> None:
    last = canonical_columns(NAMES, q[300:], dq[300:], tau[300:])
    paths = [
        write_bag(tmp_path / "a.bag", states(t[:200], NAMES, q[:200], dq[:200], tau[:200])),
        write_bag(tmp_path / "b_mcap", states(t[200:300], NAMES, q[200:300], dq[200:300], tau[200:300])),
        write_log(tmp_path / "c.parquet", t[300:], last),
    ]
    log = read_log(paths, robot)
    assert [one.name for one in log.trajectories] == ["a", "b_mcap", "c"]
    np.testing.assert_array_equal(np.concatenate([log.read(one).q for one in log.trajectories]), q)
    assert len(set(log.sha256.values())) == 3


def test_a_recording_in_several_files(robot: RobotModel, tmp_path: Path) -> None:
    path = write_bag(tmp_path / "one_mcap", states(t[:200], NAMES, q[:200], dq[:200], tau[:200]))
    rest = write_bag(tmp_path / "two_mcap", states(t[200:], NAMES, q[200:], dq[200:], tau[200:]))
    storage(rest).rename(path / "two_mcap.mcap")
    metadata = path / "metadata.yaml"
    text = metadata.read_text().replace("  - one_mcap.mcap\n", "  - one_mcap.mcap\n  - two_mcap.mcap\n")
    metadata.write_text(text)
    log = read_log(path, robot)
    assert_same(whole(log))
    reported_of = next(one.text for one in log.remarks if one.identifier == "message-count")
    assert "lists 200 messages of /joint_states, but it contains 500" in reported_of
    metadata.write_text(text.replace("message_count: 200", "message_count: 500"))
    assert "message-count" not in reported(read_log(path, robot))


def test_a_folder_has_a_hash_of_its_own(robot: RobotModel, tmp_path: Path) -> None:
    path = write_bag(tmp_path / "run_mcap", states(t, NAMES, q, dq, tau))
    (hash_before,) = read_log(path, robot).sha256.values()
    moved = path.rename(tmp_path / "moved")
    assert list(read_log(moved, robot).sha256.values()) == [hash_before]
    with storage(moved).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x00")
    assert file_hash(moved) != hash_before


def test_disordered_and_repeated_messages_meet_the_checks(robot: RobotModel, tmp_path: Path) -> None:
    messages = states(t, NAMES, q, dq, tau)
    swapped = [replace(one, received=WALL + k * 1000) for k, one in enumerate(messages)]
    for k in range(10, T - 1, 20):
        swapped[k], swapped[k + 1] = (
            replace(swapped[k], ns=swapped[k + 1].ns),
            replace(swapped[k + 1], ns=swapped[k].ns),
        )
    log = read_log(write_bag(tmp_path / "swapped_mcap", swapped), robot)
    with pytest.raises(UnfitDataError, match=r"time-backwards.*row 11"):
        check_log(log, Diagnostics())


def test_padding_holds_anything(tmp_path: Path) -> None:
    # Fields of CDR are aligned; what lies between them is whatever was in memory, and so may be some bytes at the end.
    path = write_bag(tmp_path / "run_mcap", states(t, ("a", "bcd"), q, dq, frame="odd"))
    found = survey(path)
    ((topic, decoder),) = found.decoders.items()
    raws = [bytearray(raw) for _, _, raw in found.bag.messages([topic])]
    # After the head of 4 bytes: stamp 8; length 4, "odd" and its end 4; number 4; length 4, "a" and its end 2.
    padding = 4 + 8 + 4 + 4 + 4 + 4 + 2
    assert raws[0][padding - 2 : padding + 2] == b"a\0\0\0"
    for raw in raws:
        raw[padding : padding + 2] = rng.bytes(2)
        raw.extend(rng.bytes(2))
    fresh = Decoder(decoder.codec, topic, path)
    (group,) = fresh.decode([bytes(raw) for raw in raws])
    assert fresh.tries == 1
    assert group.names == ("a", "bcd")
    np.testing.assert_array_equal(group.fields["position"], q)
    np.testing.assert_array_equal(group.fields["velocity"], dq)
    renamed = [bytes(raw).replace(b"bcd", b"xyz") for raw in raws]
    assert [one.names for one in fresh.decode([bytes(raws[0]), *renamed])] == [("a", "bcd"), ("a", "xyz")]


@pytest.mark.parametrize("name", KINDS)
def test_blocks_are_read_as_messages_are_one_by_one(name: str, tmp_path: Path) -> None:
    # Frames, joints and sizes that change from message to message; every number by either way, bit for bit.
    messages = []
    for k in range(60):
        count = 1 + k % 4
        values = rng.normal(size=(3, count))
        values[0, 0] = [np.nan, -0.0, 5e-324, np.inf][k % 4]
        names = tuple("abcd"[:count]) if k % 5 else tuple("dcba"[:count])
        messages.append(
            State(WALL + k * 10**6, names, *values, frame="base" if k % 7 else f"frame {k}", topic="/x")
        )
    found = survey(write_bag(tmp_path / name, messages))
    ((topic, decoder),) = found.decoders.items()
    raws = [raw for _, _, raw in found.bag.messages([topic])]
    fresh = Decoder(decoder.codec, topic, found.path)
    seen = 0
    for group in fresh.decode(raws):
        for i, row in enumerate(group.rows.tolist()):
            one = fresh.content(raws[row], row)
            assert (one.names, one.stamp) == (group.names, group.stamp[i])
            assert set(one.fields) == set(group.fields)
            for kind, values in one.fields.items():
                assert values.tobytes() == group.fields[kind][i].tobytes()
            seen += 1
    assert seen == len(messages)
    assert 4 < sum(map(len, fresh.layouts.values())) < seen
