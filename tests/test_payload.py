"""Payloads: simulated ones come back within their intervals, the UR10e's within the figures asked for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio as pin
import pyarrow.parquet as pq
import pytest

from dynid.base import Diagnostics, Float, UnfitDataError, UsageError
from dynid.estimate import WLS
from dynid.feasible import THINNEST
from dynid.identification import Experiment, Settings, identify, open_log
from dynid.kernel import inverse_dynamics
from dynid.log import Log, Selection, read_log, write_log
from dynid.robot import RobotModel, load_robot, lock_joints
from dynid.run import Identification
from dynid.spatial import from_com, is_physical, nearest_possible, to_com
from dynid.terms import KnownPayload
from dynid.verbs import payload_data, payload_lines, save, tool_text
from dynid.verbs.payload import Payload, find_payload, payload, scale_rule
from dynid.verbs.payload_fit import LoadEstimate, Nuisances, ScaleRule, View, consistent_load, lowered
from tests.command_line import Run
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.usefixtures("unexamined")

LOAD = from_com(2.0, np.array([0.05, -0.08, 0.15]), np.diag([0.03, 0.04, 0.02]))


def arm() -> RobotModel:
    """An arm of six joints with made-up bodies."""
    robot = load_robot(ROBOTS / "puma560.toml")
    rng = np.random.default_rng(0)
    bodies = [
        from_com(m, rng.uniform(-0.1, 0.1, 3), m * np.diag([0.01, 0.012, 0.015]))
        for m in (8.0, 6.0, 4.0, 2.0, 1.0, 0.5)
    ]
    return replace(robot, inertia_prior=np.array(bodies))


def first_joints(count: int) -> RobotModel:
    """The same with the others held."""
    return lock_joints(arm(), dict.fromkeys(arm().joint_names[count:], 0.0)).robot


def write(
    robot: RobotModel, path: Path, seed: int, load: np.ndarray, noise: float = 0.05, hose: float = 0.0
) -> Log:
    """A log of an arm with a load; hose: N m about every joint of a hose along the arm, which both logs have."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 25.0, 0.01)
    q, dq, ddq = np.zeros((3, len(t), robot.n))
    for f in (0.17, 0.31, 0.53, 0.83):
        a, phase, w = rng.uniform(0.15, 0.4, robot.n), rng.uniform(0, 6, robot.n), 2 * np.pi * f
        q += a * np.sin(w * t[:, None] + phase)
        dq += w * a * np.cos(w * t[:, None] + phase)
        ddq -= w * w * a * np.sin(w * t[:, None] + phase)
    inertia = np.array(robot.inertia_prior)
    inertia[-1] += load
    tau = inverse_dynamics(robot.tree, inertia, q, dq, ddq) + 0.5 * dq + 0.4 * np.tanh(dq / 0.02)
    tau += hose * (np.sqrt(1.0 + (q + 0.5) ** 2) + np.tanh(2.0 * q))
    tau += rng.normal(0, noise, tau.shape)
    columns = {f"q_{j}": q[:, i] for i, j in enumerate(robot.joint_names)}
    columns |= {f"tau_{j}": tau[:, i] for i, j in enumerate(robot.joint_names)}
    return read_log(write_log(path, t, columns), robot)


@pytest.fixture(scope="module")
def unloaded(tmp_path_factory: pytest.TempPathFactory) -> Identification:
    robot = arm()
    log = write(robot, tmp_path_factory.mktemp("logs") / "bare.parquet", 1, np.zeros(10))
    return identify(robot, log, Settings(automatic=False), threads=1)


@pytest.fixture(scope="module")
def loaded(unloaded: Identification, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return write(unloaded.robot, tmp_path_factory.mktemp("logs") / "loaded.parquet", 2, LOAD)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return write(arm(), tmp_path_factory.mktemp("logs") / "alone.parquet", 1, np.zeros(10))


class Logs(NamedTuple):
    """A run without a load, a log with one, and the run's log."""

    unloaded: Identification
    loaded: Log
    bare: Log


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """An arm of four joints, whose load takes half the time."""
    robot, folder = first_joints(4), tmp_path_factory.mktemp("short")
    bare = write(robot, folder / "bare.parquet", 1, np.zeros(10))
    run = identify(robot, bare, Settings(automatic=False), threads=1)
    return Logs(run, write(robot, folder / "loaded.parquet", 2, LOAD), bare)


@pytest.fixture(scope="module")
def found(unloaded: Identification, loaded: Log, bare: Log) -> Payload:
    return find_payload(unloaded, loaded, unloaded=bare, threads=1)


def test_a_simulated_load_is_found(found: Payload) -> None:
    truth = np.concatenate([[2.0, 0.05, -0.08, 0.15], [0.03, 0.0, 0.04, 0.0, 0.0, 0.02]])
    # The description's masses are right, and the interval holds that they might be 5 % off.
    assert found.scale.rule is ScaleRule.DESCRIPTION
    assert abs(found.mass / 2.0 - 1.0) < 0.02
    assert 0.02 < found.half_width()[0] / found.mass < 0.15
    assert found.scale_half_width() < found.half_width()[0]
    np.testing.assert_allclose(found.centre, truth[1:4], atol=0.004)
    low, high = found.interval().T
    assert ((low <= truth) & (truth <= high)).sum() >= 9  # of ten 95 % intervals
    assert is_physical(found.parameters)
    assert found.relative < 0.05 < found.relative_without
    for _, mass, half in found.views:
        assert abs(mass - 2.0) < half


def test_gains_that_are_off_are_no_part_of_the_mass_by_the_description(short: Logs) -> None:
    """Torques logged 30 % too great at all joints: the description's masses see it, declared gains do not."""
    unloaded, loaded, bare = short

    def scaled(log: Log) -> Log:
        table = pq.read_table(log.tables[0].path)
        columns = {name: table[name].to_numpy() for name in table.column_names if name != "t"}
        columns = {
            name: (1.3 if name.startswith("tau") else 1.0) * column for name, column in columns.items()
        }
        path = Path(log.tables[0].path).with_name(f"scaled_{Path(log.tables[0].path).name}")
        return read_log(write_log(path, table["t"].to_numpy(), columns), unloaded.robot)

    free = scaled(bare)
    run = identify(unloaded.robot, free, Settings(automatic=False, estimator=WLS()), threads=1)
    by = {rule: find_payload(run, scaled(loaded), unloaded=free, scale=rule, threads=1) for rule in ScaleRule}
    assert abs(by[ScaleRule.DESCRIPTION].mass / 2.0 - 1.0) < 0.05
    np.testing.assert_allclose(by[ScaleRule.DESCRIPTION].scale.factor[1:3], 1 / 1.3, rtol=0.05)
    assert abs(by[ScaleRule.GAINS].mass / 2.6 - 1.0) < 0.05
    factor, least, most = by[ScaleRule.GAINS].explaining(2.0)
    assert least < factor < most
    assert abs(factor * 1.3 - 1.0) < 0.05


def test_bodies_of_impossible_inertia_fix_the_scale_as_the_nearest_possible_ones(tmp_path: Path) -> None:
    """Ixx + Iyy < Izz by a few per cent, as exporters round and users scale, of all bodies but the last."""
    short = first_joints(3)
    bare, loaded = (
        write(short, tmp_path / f"{seed}.parquet", seed, load)
        for seed, load in ((1, np.zeros(10)), (2, LOAD))
    )
    impossible = np.array(short.inertia_prior)
    for k in range(short.n_bodies - 1):
        mass, centre, inertia = to_com(impossible[k])
        inertia[0, 0] = 0.95 * (inertia[2, 2] - inertia[1, 1])
        impossible[k] = from_com(mass, centre, inertia)
        assert not is_physical(impossible[k])
    possible = np.array([nearest_possible(body, THINNEST) for body in impossible])
    found = []
    for described in (impossible, possible):
        robot = replace(short, inertia_prior=described)
        logs = [read_log(Path(log.tables[0].path), robot) for log in (bare, loaded)]
        # Without consistent bodies, which are looked for longest and are no part of what the load is weighed against.
        run = identify(robot, logs[0], Settings(automatic=False, estimator=WLS()), threads=1)
        found.append(find_payload(run, logs[1], unloaded=logs[0], threads=1))
    assert found[0].mass == pytest.approx(found[1].mass, rel=1e-6)
    assert found[0].half_width()[0] == pytest.approx(found[1].half_width()[0], rel=1e-4)


def test_a_hose_along_the_arm_is_no_part_of_the_load(unloaded: Identification, tmp_path: Path) -> None:
    """Torque by the position of the joints, in both logs and of no form that the model has, bends no centre."""
    robot = unloaded.robot
    free, full = (
        write(robot, tmp_path / f"{seed}.parquet", seed, load, hose=0.3)
        for seed, load in ((1, np.zeros(10)), (2, LOAD))
    )
    run = identify(robot, free, Settings(automatic=False, estimator=WLS()), threads=1)
    found, blind = (
        find_payload(run, full, unloaded=free, nuisances=Nuisances(position=size), threads=1)
        for size in (Nuisances().position, 1e-9)
    )
    centre = np.array([0.05, -0.08, 0.15])
    off, blindly_off = (np.linalg.norm(one.centre - centre) for one in (found, blind))
    assert off < 0.5 * blindly_off
    assert (np.abs(found.centre - centre) <= found.half_width()[1:4]).all()


def test_the_rule_of_the_scale() -> None:
    robot = arm()
    assert scale_rule(robot) is ScaleRule.DESCRIPTION
    declared = replace(robot, drive=replace(robot.drive, drive_gain=np.full(6, 11.0)))
    assert scale_rule(declared) is ScaleRule.GAINS
    unknown = replace(robot, inertia_prior=np.full((6, 10), np.nan))
    assert scale_rule(unknown) is ScaleRule.GAINS


def test_no_load_is_reported_and_never_negative(short: Logs, tmp_path: Path) -> None:
    unloaded, _, bare = short
    log = write(unloaded.robot, tmp_path / "bare.parquet", 3, np.zeros(10))
    diagnostics = Diagnostics()
    nothing = find_payload(unloaded, log, unloaded=bare, threads=1, diagnostics=diagnostics)
    assert 0 < nothing.mass < 0.05
    assert nothing.interval()[0, 0] == 0.0
    assert "no-payload" in {item.identifier for item in diagnostics.warnings}
    assert nothing.explaining(1.0)[2] == np.inf


def test_standstills_count(unloaded: Identification, bare: Log, tmp_path: Path) -> None:
    """Poses held between slow motions, with stiction of either side: the weight shows there as well."""
    robot, rng = unloaded.robot, np.random.default_rng(0)
    inertia = np.array(robot.inertia_prior)
    inertia[-1] += LOAD
    q, side = [np.zeros((1, 6))], []
    for pose in rng.uniform(-1.0, 1.0, (12, 6)):
        way = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 300))[:, None]
        side.append(np.sign(pose - q[-1][-1]))
        q += [q[-1][-1] + way * (pose - q[-1][-1]), np.repeat(pose[None], 200, axis=0)]
    positions = np.concatenate(q)
    dq = np.gradient(positions, 0.005, axis=0)
    ddq = np.gradient(dq, 0.005, axis=0)
    tau = inverse_dynamics(robot.tree, inertia, positions, dq, ddq) + 0.5 * dq + 0.4 * np.tanh(dq / 0.02)
    for k, sign in enumerate(side):
        tau[1 + 500 * k + 300 : 1 + 500 * (k + 1)] += 0.3 * sign
    tau += rng.normal(0, 0.05, tau.shape)
    columns = {f"q_{j}": positions[:, i] for i, j in enumerate(robot.joint_names)}
    columns |= {f"tau_{j}": tau[:, i] for i, j in enumerate(robot.joint_names)}
    path = write_log(tmp_path / "poses.parquet", 0.005 * np.arange(len(positions)), columns)
    found = find_payload(unloaded, read_log(path, robot), unloaded=bare, threads=1)
    assert found.standstills >= 10
    assert abs(found.mass - 2.0) < found.half_width()[0]


def test_the_verb_takes_frames_and_calibrates(
    unloaded: Identification, loaded: Log, bare: Log, found: Payload
) -> None:
    frame = pq.read_table(loaded.tables[0].path)
    again = payload(unloaded, frame, unloaded=bare, threads=1)
    np.testing.assert_allclose(again.parameters, found.parameters)
    assert repr(found) == "\n".join(payload_lines(found))
    assert "Payload at link" in found._repr_html_()
    with pytest.raises(UsageError, match="scale = 'magic'"):
        payload(unloaded, frame, scale="magic")
    with pytest.raises(UsageError, match="one of reference"):
        payload(unloaded, frame, reference=loaded)
    data = payload_data(found, 4.0)
    assert data["expected"]["torque_factor"] == pytest.approx(4.0 / found.mass)
    json.dumps(data)


def test_gains_calibrated_on_a_known_load(found: Payload) -> None:
    half = replace(found, parameters=0.5 * found.parameters)
    right = half.calibrated(half, found.mass)
    np.testing.assert_allclose(right.parameters, found.parameters)
    assert "a known load of" in repr(right)
    with pytest.raises(UsageError, match="mass > 0"):
        found.calibrated(found, -1.0)
    nothing = replace(found, parameters=1e-6 * found.parameters)
    with pytest.raises(UnfitDataError, match="known payload"):
        found.calibrated(nothing, 2.0)


@pytest.mark.parametrize("size", [1.0, 30.0, 1e3, 4e3])
def test_a_step_whose_cost_is_no_number_is_halved(size: float) -> None:
    """2 cosh(x) with an infinity taken from an infinity beyond x = 709; its minimum is at zero."""

    def cost(x: Float) -> float:
        return float(np.exp(x[0]) + np.exp(-x[0]) + (np.exp(x[0]) - np.exp(x[0])))

    start = np.array([-0.4])
    found = lowered(cost, start, np.array([size]), cost(start))
    assert found is not None
    assert found[1] < cost(start)
    assert np.isfinite(found[0]).all()
    assert lowered(cost, np.zeros(1), np.array([size]), cost(np.zeros(1))) is None


def head(prismatic: bool, folder: Path) -> RobotModel:
    """A pan-tilt head whose axes meet in the camera's frame; or one that is lifted before, without tilt."""
    kinds = (
        (("prismatic", "0 0 1"), ("revolute", "0 0 1"))
        if prismatic
        else (("revolute", "0 0 1"), ("revolute", "0 1 0"))
    )
    parts, carrier = [], "base"
    for i, (kind, axis) in enumerate(kinds):
        parts.append(
            f'<link name="l{i}"><inertial><origin xyz="0.1 0 0.03"/><mass value="4"/><inertia ixx="0.02" iyy="0.02" '
            f'izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="j{i}" type="{kind}">'
            f'<parent link="{carrier}"/><child link="l{i}"/><origin xyz="0 0 0.05"/><axis xyz="{axis}"/>'
            '<limit lower="-3" upper="3" velocity="9" effort="99"/></joint>'
        )
        carrier = f"l{i}"
    path = folder / "head.urdf"
    path.write_text(f'<robot name="head"><link name="base"/>{"".join(parts)}</robot>')
    return load_robot(path, diagnostics=Diagnostics())


@pytest.mark.parametrize("rule", list(ScaleRule))
@pytest.mark.parametrize("prismatic", [False, True], ids=["pan and tilt", "lift and turn"])
def test_what_two_joints_do_not_feel_is_said(prismatic: bool, rule: ScaleRule, tmp_path: Path) -> None:
    """A parameter that makes no torque in any motion is not determined; what is determined is in its interval."""
    robot = head(prismatic, tmp_path)
    bare = write(robot, tmp_path / "bare.parquet", 1, np.zeros(10), 0.01)
    carrying = write(robot, tmp_path / "carrying.parquet", 2, LOAD, 0.01)
    one = identify(robot, bare, Settings(automatic=False), threads=1, diagnostics=Diagnostics())
    sink = Diagnostics()
    found = find_payload(one, carrying, unloaded=bare, scale=rule, diagnostics=sink)
    felt, moments = found.determined, found.moments_determined
    text, data = "\n".join(payload_lines(found, 2.0)), payload_data(found, 2.0)
    assert text.count("not determined by these motions") == int((~felt).sum()) + (not felt[0])
    for k, value in enumerate(data["found"].values()):
        assert value["determined"] == felt[k] == (value["value"] is not None) == (value["to"] is not None)
    json.dumps(data, allow_nan=False)
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.normal(size=(3, 50, 2))
    for k in range(10):
        bodies = np.zeros((2, 10))
        bodies[1, k] = 1.0
        torque = inverse_dynamics(robot.tree, bodies, q, dq, ddq)
        if np.abs(torque).max() < 1e-12:
            assert not moments[k]
    half = found.moment_half_width()
    assert (np.abs(found.parameters - LOAD) <= half)[moments].all()
    assert ("payload-open" in [warning.identifier for warning in sink.warnings]) != prismatic
    if prismatic:
        assert felt[0]
        assert not felt[3]
        assert abs(found.mass - LOAD[0]) <= found.half_width()[0]
    else:
        assert not felt.any()
        assert moments[[1, 3]].all()
        assert "m cx" in text
        with pytest.raises(UnfitDataError, match="not determined"):
            found.calibrated(found, 2.0)


def test_the_nearest_consistent_load_is_nearest(found: Payload) -> None:
    """Of an estimate with a negative moment of inertia; bodies on the way to the true one are farther off."""
    away = np.array([0, 0, 0, 0, 0.2, 0, 0, 0, 0, 0.0])
    estimate = LoadEstimate(
        View.JOINT,
        found.parameters - away,
        found.covariance,
        found.noise,
        found.by_scale,
        np.zeros(6),
        np.eye(6),
        np.nan,
        0.0,
        1.0,
    )
    assert not is_physical(estimate.parameters)
    load = consistent_load(estimate)
    assert is_physical(load)

    def distance(pi: np.ndarray) -> float:
        d = pi - estimate.parameters
        return float(d @ np.linalg.solve(estimate.covariance, d))

    for share in (0.1, 0.5, 1.0):
        # The small body that fills what is not known weighs as much as a few standard deviations.
        assert distance(load) <= distance(load + share * (found.parameters - load)) + 10.0


@pytest.mark.parametrize("form", ["ur", "franka", "abb", "kuka"])
def test_controllers_forms(found: Payload, form: str) -> None:
    """The numbers of every form, read back, are the load's in the flange's frame."""
    flange = (0.01, -0.02, 0.1, 0.3, -0.2, 0.5)
    roll, pitch, yaw = (pin.utils.rotate(axis, angle) for axis, angle in zip("xyz", flange[3:], strict=True))
    R = yaw @ pitch @ roll
    centre, inertia = R.T @ (found.centre - np.array(flange[:3])), R.T @ found.inertia @ R
    text = tool_text(found, form, flange)
    numbers = [float(one) for one in re.findall(r"-?\d+\.\d+", text)]
    assert abs(numbers[0] - found.mass) < 1e-3
    scale = 1e3 if form in ("abb", "kuka") else 1.0
    np.testing.assert_allclose(np.array(numbers[1:4]) / scale, centre, atol=2e-5)
    if form == "ur":
        xx, yy, zz, xy, xz, yz = numbers[4:]
        got = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    elif form == "franka":
        got = np.reshape(numbers[4:], (3, 3))
    else:
        if form == "abb":
            w, x, y, z = numbers[4:8]
            axes = pin.Quaternion(w, x, y, z).matrix()
            moments = numbers[8:]
        else:
            a, b, c = np.radians(numbers[4:7])
            axes = pin.utils.rotate("z", a) @ pin.utils.rotate("y", b) @ pin.utils.rotate("x", c)
            moments = numbers[7:]
        got = axes @ np.diag(moments) @ axes.T
    np.testing.assert_allclose(got, inertia, atol=1e-5)
    with pytest.raises(UsageError, match="one of ur"):
        tool_text(found, "magic")
    with pytest.raises(UsageError, match="six numbers"):
        tool_text(found, form, (0.0, np.nan))


def test_a_log_of_another_arm_is_doubted_and_of_other_joints_refused(
    unloaded: Identification, bare: Log, tmp_path: Path
) -> None:
    robot = unloaded.robot
    other = replace(
        robot, T_parent_joint=robot.T_parent_joint[[3, 0, 5, 1, 2, 4]], axis=robot.axis[[1, 0, 2, 3, 4, 5]]
    )
    strange = write(other, tmp_path / "other.parquet", 5, LOAD)
    sink = Diagnostics()
    log = read_log(strange.trajectories[0].file, robot)
    find_payload(unloaded, log, unloaded=bare, diagnostics=sink, threads=1)
    assert "other-arm" in {one.identifier for one in sink.doubts}
    renamed = replace(
        robot, joint_names=tuple(f"x{j}" for j in range(6)), tree_joint_names=tuple(f"x{j}" for j in range(6))
    )
    log = write(renamed, tmp_path / "renamed.parquet", 5, LOAD)
    with pytest.raises(UsageError, match="joints"):
        find_payload(unloaded, log, unloaded=bare, threads=1)


def test_the_command(run: Run, short: Logs, tmp_path: Path) -> None:
    unloaded, loaded, bare = short
    save(unloaded, tmp_path / "run")
    log, alone = loaded.trajectories[0].file, bare.trajectories[0].file
    out = ("--out", tmp_path / "p.json")
    # The run's log is not named in the run, so it is given, or done without.
    done = run(
        "payload", tmp_path / "run", log, "--without", alone, "--expected", "2.4", "--tool", "ur", *out
    )
    assert done.code == 0, done.err
    for words in ("the masses of the robot file", "statics", "would need torques", "set_target_payload("):
        assert words in done.out
    data = json.loads((tmp_path / "p.json").read_text())
    assert data["found"]["mass"]["unit"] == "kg"
    assert KnownPayload(inertia=tuple(data["ten_parameters"]))
    calibrated = run("payload", tmp_path / "run", log, "--reference", log, "--reference-mass", "4.0")
    assert "mass               4 " in calibrated.out
    assert "unloaded-log-gone" in calibrated.err
    assert run("payload", tmp_path / "run", log, *out).code == 7
    assert run("payload", tmp_path / "run", log, "--out", log).code == 7
    assert run("payload", tmp_path / "run", log, "--reference", log).code == 2
    assert run("payload", tmp_path / "run", log, "--scale", "magic").code == 2
    assert run("payload", tmp_path / "run", log, "--tool", "magic").code == 2
    assert run("payload", tmp_path / "run", log, "--flange", "1,2").code == 2
    assert run("payload", tmp_path / "run", log, "--expected", "-1").code == 2
    assert run("payload", tmp_path / "run", tmp_path / "missing.parquet").code == 3


def ur10e(data_dir: Path, *selection: Selection) -> tuple[Experiment, RobotModel, Log]:
    robot = load_robot(ROBOTS / "ur10e_innopolis.toml")
    experiment = Experiment.read(ROBOTS / "ur10e_innopolis.experiment.toml")
    file = data_dir / "ur10e_innopolis" / "data.parquet"
    return experiment, robot, open_log(experiment, [file], robot, selection, Diagnostics())


def test_ur10e(data_dir: Path) -> None:
    free = Selection("id/ur-20_02_19_14harm50sec", window=(2.0, 54.0))
    experiment, robot, alone = ur10e(data_dir, free)
    described = load_robot(data_dir / "ur10e_innopolis" / "robot.urdf")
    robot = replace(
        described, drive=described.drive.with_constants(drive_gain=dict(enumerate(robot.drive.drive_gain)))
    )
    alone = open_log(
        experiment, [data_dir / "ur10e_innopolis" / "data.parquet"], robot, [free], Diagnostics()
    )
    run = identify(robot, alone, experiment.settings(), threads=1)
    entry = Selection("id/ur-20_02_19_14harm50secLoad", window=(3.2, 53.4))
    log = open_log(experiment, [data_dir / "ur10e_innopolis" / "data.parquet"], robot, [entry], Diagnostics())
    found = find_payload(run, log, unloaded=alone, scale=ScaleRule.DESCRIPTION, threads=1)
    low, high = found.interval()[0]
    assert low < 2.805 < high
    assert abs(found.mass / 2.805 - 1.0) < 0.10
    assert scale_rule(robot) is ScaleRule.GAINS
