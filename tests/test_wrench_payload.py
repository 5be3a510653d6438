"""Loads of a force/torque sensor: simulated by MuJoCo, drawn with all nuisances, and of a real sensor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynid.base import Diagnostics, Float, UnfitDataError, UsageError
from dynid.log import Log
from dynid.log.mapping import wrench_groups
from dynid.robot import RobotModel, load_robot
from dynid.rows import load_regressor, wrench_regressor
from dynid.spatial import from_com, rotation_about, rotation_rpy
from dynid.verbs import payload_from_wrench, wrench_payload_lines
from dynid.verbs.wrench_payload import WrenchPayload
from tests.command_line import Run

pytestmark = pytest.mark.usefixtures("unexamined")

MASS, CENTRE = 1.35, np.array([0.012, -0.021, 0.065])
INERTIA = np.diag([0.0046, 0.0041, 0.0028]) + 2e-4 * (np.ones((3, 3)) - np.eye(3))
LOAD = from_com(MASS, CENTRE, INERTIA)
TRUTH = np.concatenate([[MASS], CENTRE, INERTIA[np.tril_indices(3)]])
AXES = ("z", "y", "y", "x", "y", "x")
NOISE = np.array([0.35, 0.35, 0.5, 0.012, 0.012, 0.012])  # N and N m at 250 Hz, as of an ATI Axia80
MAPPING: dict[str, Any] = {
    "time": {"column": "t", "unit": "s"},
    "position": {"columns": "q_{joint}", "unit": "rad"},
    "wrench": {"ft": {"link": "ft", "columns": ["f{axis}", "m{axis}"], "unit": "N"}},
}


def arm_xml() -> str:
    """An arm of six joints with a tool on a site, whose sensors MuJoCo reads."""
    links, ends = "", ""
    for k, axis in enumerate(AXES):
        direction = " ".join("1" if axis == letter else "0" for letter in "xyz")
        links += (
            f'<body name="link{k}" pos="{0.02 * k:g} 0 {0.25 - 0.02 * k:g}"><joint name="j{k}" axis="{direction}"/>'
            '<inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.01 0.01"/>'
        )
        ends += "</body>"
    xx, yy, zz, xy, xz, yz = (INERTIA[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
    tool = (
        f'<body name="tool" pos="0 0 0.1" euler="0 40 0"><site name="ft"/><inertial pos="{" ".join(map(str, CENTRE))}" '
        f'mass="{MASS}" fullinertia="{xx} {yy} {zz} {xy} {xz} {yz}"/></body>'
    )
    sensors = '<sensor><force site="ft"/><torque site="ft"/></sensor>'
    return f'<mujoco><compiler angle="degree"/><worldbody>{links}{tool}{ends}</worldbody>{sensors}</mujoco>'


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("robot") / "arm.xml"
    path.write_text(arm_xml())
    return load_robot(path)


def motion(rng: np.random.Generator, t: Float, size: float = 0.22) -> tuple[Float, Float, Float]:
    q, dq, ddq = np.zeros((3, len(t), 6))
    q += [0.0, 0.3, 0.5, 0.0, 0.9, 0.3]
    for k in range(1, 6):
        a, phase, w = size * rng.normal(size=6), rng.uniform(0, 6, 6), 0.2 * np.pi * k
        q += a * np.sin(w * t[:, None] + phase)
        dq += a * w * np.cos(w * t[:, None] + phase)
        ddq -= a * w * w * np.sin(w * t[:, None] + phase)
    return q, dq, ddq


def disturbed(rng: np.random.Generator, t: Float, wrench: Float, drift: float = 0.02) -> Float:
    """The wrench with bias, 2 % of drift (warming up, and a random walk) and noise."""
    reach = np.ptp(wrench, axis=0) / 2
    size = drift * np.repeat([reach[:3].max(), reach[3:].max()], 3)
    warming = np.outer(1.0 - np.exp(-t / 40.0), rng.normal(size=6))
    walk = 0.2 * np.cumsum(rng.normal(size=wrench.shape), axis=0) * np.sqrt(np.diff(t[:2]) / 60.0)
    bias = rng.normal(size=6) * [5, 5, 8, 0.2, 0.2, 0.2]
    return np.asarray(wrench + bias + size * (warming + walk) + NOISE * rng.normal(size=wrench.shape))


def log_of(robot: RobotModel, t: Float, q: Float, wrench: Float, mapping: Mapping[str, Any] = MAPPING) -> Log:
    import pyarrow as pa

    columns = {"t": t} | {f"q_{name}": q[:, i] for i, name in enumerate(robot.joint_names)}
    columns |= {name: wrench[:, k] for k, name in enumerate(("fx", "fy", "fz", "mx", "my", "mz"))}
    return Log.from_frame(pa.table(columns), robot, mapping)


def drawn(robot: RobotModel, seed: int, seconds: float = 60.0, rate: float = 250.0) -> Log:
    """A log with the nuisances of the fit: gains of 1 %, a turn of 1 and a tilt of 0.5 degrees, bias and drift."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / rate)
    q, dq, ddq = motion(rng, t)
    tilt = rotation_rpy(np.radians(0.5) * np.array([*rng.normal(size=2), 0.0]))
    wrench = (
        wrench_regressor(replace(robot, gravity=tilt @ robot.gravity), "ft", q, dq, ddq)[:, :, :10] @ LOAD
    )
    turn = rotation_rpy(np.radians(1.0) * rng.normal(size=3))
    wrench = np.concatenate([wrench[:, :3] @ turn.T, wrench[:, 3:] @ turn.T], axis=1)
    wrench *= 1.0 + 0.01 * rng.normal(size=6)
    return log_of(robot, t, q + 2e-5 * rng.normal(size=q.shape), -disturbed(rng, t, wrench))


def errors(result: WrenchPayload) -> tuple[float, float, float]:
    """Errors of mass (%), centre (mm) and inertia about it (%)."""
    shape = float(np.linalg.norm(result.inertia - INERTIA) / np.linalg.norm(INERTIA))
    return 100 * abs(result.mass / MASS - 1), 1e3 * float(np.abs(result.centre - CENTRE).max()), 100 * shape


def test_load_simulated_by_mujoco_with_drift_and_noise(robot: RobotModel) -> None:
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(arm_xml())
    data, found = mujoco.MjData(model), []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        t = np.arange(0.0, 60.0, 0.004)
        q, dq, ddq = motion(rng, t)
        wrench = np.empty((len(t), 6))
        for k in range(len(t)):
            data.qpos[:], data.qvel[:], data.qacc[:] = q[k], dq[k], ddq[k]
            mujoco.mj_inverse(model, data)
            wrench[k] = data.sensordata
        log = log_of(robot, t, q + 2e-5 * rng.normal(size=q.shape), disturbed(rng, t, wrench))
        found.append(errors(payload_from_wrench(log)))
    mass, centre, inertia = np.median(found, axis=0)
    assert mass < 0.5
    assert centre < 1.0
    assert inertia < 5.0


def inside(robot: RobotModel, seeds: range) -> Float:
    intervals = [payload_from_wrench(drawn(robot, seed), frame="sensor").interval() for seed in seeds]
    return np.array([(each[:, 0] <= TRUTH) & (each[:, 1] >= TRUTH) for each in intervals])


def test_intervals_contain_the_load(robot: RobotModel) -> None:
    assert inside(robot, range(6)).mean() >= 0.85


@pytest.mark.slow
def test_intervals_contain_the_load_as_often_as_they_say(robot: RobotModel) -> None:
    assert 0.92 <= inside(robot, range(100, 140)).mean() <= 0.98


def exact(robot: RobotModel, seconds: float = 20.0) -> tuple[Float, Float, Float]:
    rng = np.random.default_rng(0)
    t = np.arange(0.0, seconds, 0.02)
    q, dq, ddq = motion(rng, t)
    wrench = wrench_regressor(robot, "ft", q, dq, ddq)[:, :, :10] @ LOAD
    return t, q, wrench + 0.05 * NOISE * rng.normal(size=wrench.shape)


def codes(log: Log, **options: Any) -> tuple[WrenchPayload, set[str]]:
    diagnostics = Diagnostics()
    result = payload_from_wrench(log, diagnostics=diagnostics, **options)
    return result, {finding.code for finding in diagnostics}


def test_a_sensor_without_faults_has_no_findings(robot: RobotModel) -> None:
    result, found = codes(log_of(robot, *exact(robot)))
    assert not found
    assert result.determined.all()
    assert result.missing() == []


def test_a_turned_sensor_is_found_with_its_angle(robot: RobotModel) -> None:
    t, q, wrench = exact(robot)
    R = rotation_about(np.array([0.0, 0.0, 1.0]), np.radians(45.0))
    turned = np.concatenate([wrench[:, :3] @ R.T, wrench[:, 3:] @ R.T], axis=1)
    result, found = codes(log_of(robot, t, q, turned))
    assert found == {"wrench-turned"}
    assert errors(result)[0] < 1.5
    assert errors(result)[1] < 1.0


def test_a_wrench_in_the_axes_of_the_base_is_found_and_doubted_where_declared_otherwise(
    robot: RobotModel,
) -> None:
    from dynid.rows import WrenchTree
    from dynid.verbs.wrench_payload import _rotation, _turned

    t, q, wrench = exact(robot)
    based = _turned(_rotation(WrenchTree.of(robot, "ft"), q), wrench)
    result, found = codes(log_of(robot, t, q, based))
    assert not found
    assert result.frame == "base"
    assert errors(result)[0] < 1.5
    assert "wrench-frame" in codes(log_of(robot, t, q, based), frame="sensor")[1]


def test_a_sensor_that_is_not_calibrated_is_found_and_its_interval_is_wider(robot: RobotModel) -> None:
    t, q, wrench = exact(robot)
    wrench[:, 1] *= 1.2
    result, found = codes(log_of(robot, t, q, wrench))
    assert "wrench-scales" in found
    assert result.half_width()[0] > 0.05 * MASS
    assert result.interval()[0, 0] <= MASS <= result.interval()[0, 1]


def test_cross_talk_is_found(robot: RobotModel) -> None:
    t, q, wrench = exact(robot)
    wrench[:, 0] += 0.06 * wrench[:, 2]
    assert "wrench-cross-talk" in codes(log_of(robot, t, q, wrench))[1]


def test_exchanged_forces_and_torques_are_found(robot: RobotModel) -> None:
    t, q, wrench = exact(robot)
    assert "wrench-exchanged" in codes(log_of(robot, t, q, wrench[:, [3, 4, 5, 0, 1, 2]]))[1]


def test_samples_at_the_limit_of_the_sensor_are_left_out(robot: RobotModel) -> None:
    t, q, wrench = exact(robot)
    limit = np.quantile(wrench[:, 2], 0.93)
    result, found = codes(log_of(robot, t, q, np.minimum(wrench, np.where(np.arange(6) == 2, limit, np.inf))))
    assert found == {"wrench-saturated"}
    assert errors(result)[0] < 1.5


def test_one_pose_determines_nothing_and_says_what_is_missing(robot: RobotModel) -> None:
    t, q, wrench = exact(robot)
    rng = np.random.default_rng(1)
    still = wrench[:1] + 0.05 * NOISE * rng.normal(size=wrench.shape)
    result, found = codes(log_of(robot, t, np.repeat(q[:1], len(t), axis=0), still))
    assert "wrench-poses" in found
    assert not result.determined.any()
    assert "rotate the sensor" in "\n".join(wrench_payload_lines(result, 1.0))


def test_a_sensor_that_carries_joints_is_refused(robot: RobotModel) -> None:
    mapping = MAPPING | {"wrench": {"ft": MAPPING["wrench"]["ft"] | {"link": "link2"}}}
    with pytest.raises(UsageError, match="carries 3 moving links"):
        payload_from_wrench(log_of(robot, *exact(robot), mapping=mapping))


# The case and the real sensor.


CONFIG = """
[log]
time = { column = "time", unit = "s" }
position = { columns = "position_{joint}", unit = "rad" }
[log.wrench.ft]
link = "ft_sensor"
columns = ["wrench.force.{axis}", "wrench.torque.{axis}"]
unit = "N"
"""


def test_the_case_comes_back_from_the_command_line(run: Run, tmp_path: Path) -> None:
    folder = Path(__file__).resolve().parents[2] / "shared" / "cases" / "ft_wrist"
    if not folder.is_dir():
        pytest.skip("the cases are not here")
    (tmp_path / "ft.toml").write_text(CONFIG)
    inputs = (str(folder / "arm.urdf"), str(folder / "wrench.csv"))
    options = ("--config", str(tmp_path / "ft.toml"), "--tool", "ur", "--out", str(tmp_path / "load.json"))
    outcome = run("payload", *inputs, "--wrench", "ft", *options)
    assert outcome.code == 0, outcome.err
    assert "set_target_payload(1.24" in (outcome.out + outcome.err)
    truth, data = (json.loads(path.read_text()) for path in (folder / "truth.json", tmp_path / "load.json"))
    assert data["found"]["mass"]["value"] == pytest.approx(truth["mass"], rel=0.005)
    assert np.abs(np.array(data["centre"]) - truth["com"]).max() < 1e-3
    difference = np.array(data["inertia_about_centre"]) - truth["inertia"]
    assert np.linalg.norm(difference) < 0.05 * np.linalg.norm(truth["inertia"])
    np.testing.assert_allclose(list(data["sensor"]["bias"].values()), truth["bias"], rtol=0.01)
    for changed, code in (
        (("ft_sensor", "sensor"), "unknown-link"),
        (('"N"', '"kg"'), "unit"),
        ((', "wrench.torque.{axis}"', ""), "template"),
        (("wrench.torque", "wrench.moment"), "missing-column"),
    ):
        (tmp_path / "ft.toml").write_text(CONFIG.replace(*changed))
        refused = run("payload", *inputs, "--wrench", "ft", "--config", str(tmp_path / "ft.toml"))
        assert refused.code != 0
        assert f"error[{code}]" in refused.err
    missing = run("payload", *inputs, "--wrench", "other", "--config", str(tmp_path / "ft.toml"))
    assert "error[no-wrench]" in missing.err


def test_poses_of_a_real_sensor_are_predicted_and_their_axes_are_found(
    data_dir: Path, tmp_path: Path
) -> None:
    path = data_dir / "ati_wrist" / "poses.csv"
    if not path.is_file():
        pytest.skip("no ati_wrist")
    result = payload_from_wrench(path)
    assert result.frame == "base"
    assert result.force_error() <= 0.29
    assert result.torque_error() <= 1.4e-3
    assert result.determined[:4].all()
    assert not result.determined[4:].any()
    header, *rows = path.read_text().splitlines()
    low, high = result.interval()[0]
    table = tmp_path / "nine_tenths.csv"
    for fold in range(10):
        kept = [row for k, row in enumerate(rows) if k % 10 != fold]
        table.write_text("\n".join([header, *kept]) + "\n")
        assert low <= payload_from_wrench(table).mass <= high


def test_moves_of_a_real_sensor_agree_with_its_poses(data_dir: Path) -> None:
    folder = data_dir / "ati_wrist"
    if not folder.is_dir():
        pytest.skip("no ati_wrist")
    poses, moves = (payload_from_wrench(folder / name) for name in ("poses.csv", "moves.csv"))
    assert moves.force_error() <= 0.17
    assert abs(poses.mass - moves.mass) < poses.half_width()[0] + moves.half_width()[0]


def test_six_poses_determine_the_mass_with_any_noise(robot: RobotModel, tmp_path: Path) -> None:
    """Also where they fit one axis nearly exactly, as with the first four seeds."""
    table, inside = tmp_path / "poses.csv", []
    still = np.zeros((6, 6))
    for seed in (6, 16, 26, 54, 0, 1, 2, 3):
        rng = np.random.default_rng(seed)
        rotation = np.array([rotation_rpy(rng.uniform(-np.pi, np.pi, 3)) for _ in range(6)])
        gravity = -(robot.gravity @ rotation)
        wrench = load_regressor(still[:, :3], still[:, :3], gravity) @ LOAD + NOISE * rng.normal(size=(6, 6))
        poses = Rotation.from_matrix(rotation).as_quat()
        header = "qx,qy,qz,qw,fx,fy,fz,tx,ty,tz"
        np.savetxt(table, np.hstack([poses, wrench]), delimiter=",", header=header, comments="")
        low, high = payload_from_wrench(table, frame="sensor").interval()[0]
        inside.append(low <= MASS <= high)
    assert np.mean(inside) >= 0.8


def test_too_few_poses_and_missing_columns_are_refused(tmp_path: Path, run: Run) -> None:
    table = tmp_path / "poses.csv"
    table.write_text("qx,qy,qz,qw,fx,fy,fz,tx,ty,tz\n0,0,0,1,0,0,-12,0,0,0\n")
    with pytest.raises(UnfitDataError, match="1 pose"):
        payload_from_wrench(table)
    table.write_text("qx,qy,qz,qw,fx,fy,fz\n0,0,0,1,0,0,-12\n")
    outcome = run("payload", "--poses", str(table))
    assert "error[missing-column]" in (outcome.out + outcome.err)
    assert "error[payload-inputs]" in run("payload").err


# Columns that are named like a wrench.


@pytest.mark.parametrize(
    ("names", "sensor"),
    [
        (("wrench.force.{}", "wrench.torque.{}"), "wrench"),
        (("ft_f{}", "ft_t{}"), "ft"),
        (("F{}", "M{}"), "wrench"),
        (("/hand/ft:wrench.force.{}", "/hand/ft:wrench.torque.{}"), "hand_ft_wrench"),
        (("wrist force_{}", "wrist moment_{}"), "wrist"),
    ],
)
def test_columns_named_like_a_wrench_are_one(names: tuple[str, str], sensor: str) -> None:
    columns = tuple(name.format(axis) for name in names for axis in "xyz")
    numbered = tuple(f"actual_TCP_force_{k}" for k in range(6))
    assert wrench_groups(("t", *reversed(columns), *numbered)) == {
        sensor: columns,
        "actual_TCP_force": numbered,
    }
    assert not wrench_groups(columns[:5])
    assert not wrench_groups(("shift_x", "shift_y", "drift_z", "position_x"))


def test_init_writes_the_sensor_of_a_bag_that_payload_reads(
    robot: RobotModel, run: Run, tmp_path: Path
) -> None:
    rosbag2, typesys = pytest.importorskip("rosbags.rosbag2"), pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    make = store.types
    t, q, wrench = exact(robot)
    names = list(robot.joint_names)
    with rosbag2.Writer(tmp_path / "bag", version=9) as writer:
        topics = {
            kind: writer.add_connection(topic, kind, typestore=store)
            for topic, kind in (
                ("/joint_states", "sensor_msgs/msg/JointState"),
                ("/wrist", "geometry_msgs/msg/WrenchStamped"),
            )
        }
        for time, position, reading in zip(t, q, wrench, strict=True):
            ns = round((time + 100.0) * 1e9)
            stamp = make["builtin_interfaces/msg/Time"](sec=ns // 10**9, nanosec=ns % 10**9)
            header = make["std_msgs/msg/Header"](stamp=stamp, frame_id="")
            state = make["sensor_msgs/msg/JointState"](header, names, position, np.zeros(0), np.zeros(0))
            vectors = [
                make["geometry_msgs/msg/Vector3"](*reading[axes]) for axes in (slice(0, 3), slice(3, 6))
            ]
            sensed = make["geometry_msgs/msg/WrenchStamped"](
                header, make["geometry_msgs/msg/Wrench"](*vectors)
            )
            for kind, message in zip(topics, (state, sensed), strict=True):
                writer.write(topics[kind], ns, store.serialize_cdr(message, kind))
    config = tmp_path / "experiment.toml"
    assert run("init", robot.source, tmp_path / "bag", "--out", config).code == 0
    assert "[log.wrench.wrist_wrench]" in config.read_text()
    config.write_text(config.read_text().replace('link = "link5"', 'link = "ft"'))
    outcome = run("payload", robot.source, tmp_path / "bag", "--wrench", "wrist_wrench", "--config", config)
    assert outcome.code == 0, outcome.err
    assert "mass            1.3" in outcome.out
