"""Forms of a motion, each read back by a parser or program of its own; what they state and refuse."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.base import ResourceError, UsageError
from dynid.excitation import Format
from dynid.excitation.settings import FILES, times, write_motion
from dynid.log import read_log
from dynid.robot import load_robot
from dynid.trajectories import BasisTrajectory, FourierBasis, SmoothMoves

LEAD = 1_000_000_000

NAMES = tuple(f"joint_{i}" for i in range(1, 7))
SEVEN = (*NAMES, "joint_7")
HEADLINE = "NOT CHECKED: surroundings"


def motion_of(joints: int) -> BasisTrajectory:
    return BasisTrajectory(
        FourierBasis(4.0, 2, 0.5, 1.0), np.random.default_rng(0).normal(0, 0.2, (5, joints))
    )


MOTION = motion_of(6)


def written(
    folder: Path, form: Format, names: tuple[str, ...] = NAMES, rate: float = 100.0, **options: Any
) -> Path:
    return write_motion(folder, names, motion_of(len(names)), form, rate, **options)


# ---- URScript: a parser of the part of the language that is written


def urscript_calls(text: str) -> tuple[str, list[tuple[str, list[Any], dict[str, float]]]]:
    """Name of the program and its calls: function, positional arguments, named arguments.

    program := comment* "def" name "():" line* "end";  line := "  " name "(" [argument ("," argument)*] ")"
    argument := [name "="] (number | "[" number ("," number)* "]")
    """
    number = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
    value = rf"(?:{number}|\[{number}(?:, ?{number})*\])"
    argument = rf"(?:[a-z_]\w*=)?{value}"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    head = re.fullmatch(r"def ([a-z_]\w*)\(\):", lines[0])
    assert head, lines[0]
    assert lines[-1] == "end"
    calls = []
    for line in lines[1:-1]:
        found = re.fullmatch(rf"  ([a-z_]\w*)\(((?:{argument}(?:, {argument})*)?)\)", line)
        assert found, line
        plain, named = [], {}
        for one in re.findall(argument, found[2]):
            name, _, text_of = one.rpartition("=")
            if name:
                named[name] = float(text_of)
            else:
                assert not named, line  # positional arguments come first
                plain.append(json.loads(one))
        calls.append((found[1], plain, named))
    return head[1], calls


def test_urscript_is_a_program_of_servoj(tmp_path: Path) -> None:
    name, calls = urscript_calls(written(tmp_path, Format.URSCRIPT, rate=125.0).read_text())
    assert name == "excitation"
    assert [call[0] for call in calls[:2]] == ["movej", "sleep"]
    assert calls[-1] == ("stopj", [2.0], {})
    t = times(4.0, 125.0)
    servo = calls[2:-1]
    assert {call[0] for call in servo} == {"servoj"}
    q = np.array([calls[0][1][0], *(call[1][0] for call in servo)])
    np.testing.assert_allclose(q, MOTION.motion(t)[0], atol=1e-9)
    for _, _, named in servo:
        assert named["t"] == 0.008
        # The ranges of servoj in the manual of URScript.
        assert 0.03 <= named["lookahead_time"] <= 0.2
        assert 100 <= named["gain"] <= 2000


def test_movej_takes_the_time_of_the_motion(tmp_path: Path) -> None:
    poses = np.random.default_rng(1).uniform(-1, 1, (4, 6))
    moves = SmoothMoves(poses, np.array([2.0, 1.5, 3.0]), np.full(3, 0.5), np.array([0.2, 0.0, 1.0]))
    _, calls = urscript_calls(write_motion(tmp_path, NAMES, moves, Format.MOVEJ).read_text())
    made = [call for call in calls if call[0] == "movej"]
    np.testing.assert_allclose([call[1][0] for call in made], poses, atol=1e-9)
    held = [call[1][0] for call in calls[2:] if call[0] == "sleep"]
    assert sum(call[2]["t"] for call in made[1:]) + sum(held) == pytest.approx(moves.duration)
    _, calls = urscript_calls(written(tmp_path, Format.MOVEJ).read_text())
    assert sum(call[2]["t"] for call in calls if call[0] == "movej" and "t" in call[2]) == pytest.approx(4.0)


# ---- ROS 2


def seconds(stamp: dict[str, int]) -> float:
    return stamp["sec"] + 1e-9 * stamp["nanosec"]


def assert_points(message: dict[str, Any], names: tuple[str, ...], t: np.ndarray) -> None:
    assert message["joint_names"] == list(names)
    motion = motion_of(len(names)).motion(t)
    for key, values in zip(("positions", "velocities", "accelerations"), motion, strict=True):
        np.testing.assert_allclose([point[key] for point in message["points"]], values, atol=1e-9)
    np.testing.assert_allclose(
        [seconds(point["time_from_start"]) for point in message["points"]], t, atol=1e-9
    )


def test_yaml_is_a_joint_trajectory_and_a_goal(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    odd = ("a: b", "#c", *NAMES[:5])
    assert_points(
        yaml.safe_load(written(tmp_path, Format.ROS2, odd, 30.0).read_text()), odd, times(4.0, 30.0)
    )
    path = written(tmp_path, Format.ROS2_CONTROL, SEVEN, 50.0)
    goal = yaml.safe_load(path.read_text())
    assert set(goal) == {"trajectory", "goal_time_tolerance"}
    assert_points(goal["trajectory"], SEVEN, times(4.0, 50.0))
    assert seconds(goal["goal_time_tolerance"]) == 1.0
    assert "send_goal /joint_trajectory_controller/follow_joint_trajectory" in path.read_text()


def test_a_goal_has_the_fields_of_its_message(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    goal = yaml.safe_load(written(tmp_path, Format.ROS2_CONTROL).read_text())
    fields = store.fielddefs
    known = {name for name, _ in fields["trajectory_msgs/msg/JointTrajectory"][1]}
    assert set(goal["trajectory"]) <= known
    point = {name for name, _ in fields["trajectory_msgs/msg/JointTrajectoryPoint"][1]}
    assert {name for one in goal["trajectory"]["points"] for name in one} <= point


def test_a_bag_holds_the_trajectory_and_opens_as_a_log(tmp_path: Path) -> None:
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    typesys = pytest.importorskip("rosbags.typesys")
    path = written(tmp_path, Format.ROSBAG2, SEVEN, 50.0, headline=HEADLINE)
    assert {one.name for one in path.iterdir()} == {"metadata.yaml", "motion_bag.mcap", "play.launch.py"}
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    t = times(4.0, 50.0)
    q = motion_of(7).motion(t)[0]
    with rosbag2.Reader(path) as reader:
        read = [
            (c.topic, stamp, store.deserialize_cdr(raw, c.msgtype)) for c, stamp, raw in reader.messages()
        ]
    sent = [
        message for topic, stamp, message in read if topic == "/joint_trajectory_controller/joint_trajectory"
    ]
    assert len(sent) == 1
    assert list(sent[0].joint_names) == list(SEVEN)
    np.testing.assert_array_equal([point.positions for point in sent[0].points], q)
    spans = [point.time_from_start for point in sent[0].points]
    np.testing.assert_allclose([one.sec + 1e-9 * one.nanosec for one in spans], t, atol=1e-9)
    shown = [(stamp, message) for topic, stamp, message in read if topic == "/planned_joint_states"]
    np.testing.assert_allclose([1e-9 * (stamp - LEAD) for stamp, _ in shown], t, atol=1e-9)
    np.testing.assert_array_equal([message.position for _, message in shown], q)
    launch = (path / "play.launch.py").read_text()
    assert launch.startswith(f"# {HEADLINE}\n")
    compile(launch, "play.launch.py", "exec")


# ---- rows and telegrams


def test_rows_come_at_the_rate_of_the_controller(tmp_path: Path) -> None:
    t = np.arange(4001) / 1000.0
    rows = np.loadtxt(written(tmp_path, Format.LIBFRANKA, SEVEN, 7.0), delimiter=",")
    np.testing.assert_allclose(rows[:, 0], t, atol=1e-9)
    np.testing.assert_allclose(rows[:, 1:], np.hstack(motion_of(7).motion(t)), atol=1e-9)
    rows = np.loadtxt(written(tmp_path, Format.KUKA_FRI, SEVEN, 7.0), delimiter=",")
    np.testing.assert_allclose(rows, motion_of(7).motion(t)[0], atol=1e-9)


def test_telegrams_are_corrections_from_the_start(tmp_path: Path) -> None:
    path = written(tmp_path, Format.KUKA_RSI)
    lines = path.read_text().splitlines()
    q = MOTION.motion(np.arange(1001) / 250.0)[0]
    found = []
    for line in lines:
        telegram = ET.fromstring(line)  # noqa: S314  (written above)
        assert telegram.tag == "Sen"
        assert telegram.find("IPOC") is not None
        correction = telegram.find("AK")
        assert correction is not None
        found.append([float(correction.attrib[f"A{j}"]) for j in range(1, 7)])
    start = re.search(r"PTP \{(.*)\}", path.with_suffix(".start.src").read_text())
    assert start is not None
    first = [float(part.split()[1]) for part in start[1].split(", ")]
    np.testing.assert_allclose(np.deg2rad(np.array(first) + found), q, atol=1e-9)


# ---- data sets and simulators


def test_a_data_set_opens_as_a_log_with_the_planned_actions(tmp_path: Path) -> None:
    path = written(tmp_path, Format.LEROBOT, rate=50.0)
    info = json.loads((path / "meta" / "info.json").read_text())
    table = pq.read_table(path / info["data_path"].format(episode_chunk=0, episode_index=0))
    assert set(table.column_names) == set(info["features"])
    assert info["total_frames"] == table.num_rows == 201
    q = MOTION.motion(times(4.0, 50.0))[0]
    actions = np.array(table["action"].to_pylist())
    np.testing.assert_allclose(actions, q, atol=2.0**-24 * max(1.0, np.abs(q).max()))
    description = tmp_path / "arm.toml"
    joints = "".join(f'[[joint]]\nname = "{name}"\ntype = "revolute"\n' for name in NAMES)
    description.write_text(f'name = "arm"\nconvention = "placements"\n{joints}')
    robot = load_robot(description)
    channels = {
        "time": {"column": "timestamp", "unit": "s"},
        "position": {"columns": {n: f"action[{n}]" for n in NAMES}, "unit": "rad"},
    }
    log = read_log(path, robot, channels)
    np.testing.assert_allclose(log.read(log.trajectories[0]).q, q, atol=1e-6)


def test_frames_of_a_data_set_come_at_a_whole_rate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="whole number of frames"):
        written(tmp_path, Format.LEROBOT, rate=33.3)


def test_mujoco_follows_the_commands(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    with np.load(written(tmp_path, Format.MUJOCO, rate=500.0), allow_pickle=False) as file:
        plan = {name: file[name] for name in file.files}
    assert str(plan["kind"]) == "position"
    names = [str(name) for name in plan["joints"]]
    body = actuators = ""
    for name in reversed(names):
        inside = f'<joint name="{name}" axis="0 1 0" armature="0.1" damping="5"/><geom size="0.05" mass="1"/>{body}'
        body = f'<body pos="0.2 0 0">{inside}</body>'
    # Not in the order of the joints: columns go by name.
    for name in reversed(names):
        actuators += f'<position name="{name}" joint="{name}" kp="20000" kv="200"/>'
    xml = (
        '<mujoco><option timestep="0.002" gravity="0 0 0" integrator="implicit"/>'
        f"<worldbody>{body}</worldbody><actuator>{actuators}</actuator></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    column = [model.actuator(name).id for name in names]
    data.qpos[:], data.qvel[:] = plan["qpos"][0], plan["qvel"][0]
    reached = []
    for ctrl in plan["ctrl"]:
        data.ctrl[column] = ctrl
        mujoco.mj_step(model, data)
        reached.append(data.qpos.copy())
    q = MOTION.motion(plan["t"])[0]
    np.testing.assert_array_equal(plan["ctrl"], q)
    # A stiff servo stays behind by (kv + damping) / kp times the speed, half of that more where it pulls masses along.
    assert np.abs(reached - q).max() < 1.5 * 205 / 20000 * np.abs(plan["qvel"]).max()


# ---- all of them


@pytest.mark.parametrize("form", list(Format))
def test_each_form_tells_units_and_what_was_not_checked(tmp_path: Path, form: Format) -> None:
    names = SEVEN if form.writer.joints == (7,) else NAMES
    path = written(tmp_path, form, names, headline=HEADLINE, suffix="-25")
    assert path.name.startswith(Path(FILES[form]).stem + "-25")
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]
    if form is Format.PARQUET:
        metadata = pq.read_schema(path).metadata
        assert metadata[b"not_checked"].decode() == HEADLINE
        assert b"units" in metadata[b"notes"]
        return
    if form is Format.MUJOCO:
        with np.load(path) as file:
            assert str(file["notes"][0]) == HEADLINE
        return
    files = [one for one in tmp_path.rglob("*") if one.is_file() and one.suffix not in (".mcap", ".parquet")]
    texts = [one.read_text() for one in files]
    assert any(HEADLINE in text for text in texts)
    if form is not Format.CSV:
        assert any("units: " in text and "largest position, velocity, acceleration" in text for text in texts)
    first = path.read_text().splitlines()[0] if path.is_file() else ""
    if first.startswith("#"):
        assert first == f"# {HEADLINE}"


@pytest.mark.parametrize("form", [form for form in Format if form.writer.joints])
def test_an_arm_that_does_not_fit_is_refused(tmp_path: Path, form: Format) -> None:
    with pytest.raises(UsageError, match="joints"):
        written(tmp_path, form, ("a", "b"))
    assert list(tmp_path.iterdir()) == []


def test_torque_goes_where_it_can_be_held() -> None:
    for form in Format:
        names = SEVEN if form.writer.joints == (7,) else NAMES
        if form in (Format.CSV, Format.PARQUET, Format.MUJOCO):
            form.check(names, torque=True)
        else:
            with pytest.raises(UsageError, match="stores positions"):
                form.check(names, torque=True)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot-write"):
        written(tmp_path / "file", Format.CSV)


def test_what_was_there_is_replaced(tmp_path: Path) -> None:
    for form in (Format.LEROBOT, Format.CSV):
        first = written(tmp_path, form, rate=10.0)
        again = written(tmp_path, form, rate=20.0)
        assert first == again
    assert json.loads((tmp_path / "lerobot" / "meta" / "info.json").read_text())["total_frames"] == 81
