"""Logs from files and seeds: sensors, scenarios, Monte-Carlo runs, and the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.base import Float, InputErrors, RefusedError, SolverError, UsageError
from dynid.lab import (
    Campaign,
    PlantFile,
    Rig,
    SensorFile,
    Setup,
    TrajectoryChoice,
    build_plant,
    read_setup,
    record,
    run_campaign,
)
from dynid.log import read_log
from dynid.robot import Drive, Reading, RobotModel, TorqueSide, read_robot
from dynid.simulation import Plant, SimulatedMotion, follow, sample_times
from dynid.trajectories import FourierTrajectory
from tests.command_line import ROBOT as TWO_JOINTS
from tests.command_line import Run
from tests.simulate.robots import geared

ROBOT = geared(3, 3, branching=0.0)
MOTION = FourierTrajectory.random(ROBOT, 3.0, 3, 0, 0.5, ramp=0.7)
SENSORS = """
rate = 200.0
[position]
counts = 100000
[motor_position]
noise = 1e-4
[effort]
snr_db = 40.0
"""


def campaign(robot: RobotModel = ROBOT, text: str = "random:4", **parts: object) -> Campaign:
    rig = Rig(SensorFile.model_validate({"rate": 200.0, "effort": {"noise": 0.1}, **parts}))
    return Campaign(read_setup(robot, "ideal"), TrajectoryChoice.read(text, robot, 2.0), rig, 7)


def measured(
    rig: dict[str, object], motion: SimulatedMotion, robot: RobotModel = ROBOT
) -> dict[str, np.ndarray]:
    _, columns = Rig(SensorFile.model_validate({"rate": 100.0, **rig})).measure(robot, motion, (1, 2))
    return columns


@pytest.fixture(scope="module")
def motion() -> SimulatedMotion:
    return follow(Plant(ROBOT), MOTION, sample_times(3.0, 100.0))


def test_without_sensors_the_log_is_the_truth(motion: SimulatedMotion) -> None:
    columns = measured({}, motion)
    assert set(columns) == {f"{kind}_{j}" for kind in ("q", "tau") for j in ROBOT.joint_names}
    np.testing.assert_array_equal(columns["q_joint2"], motion.q[:, 1])
    np.testing.assert_array_equal(columns["tau_joint3"], motion.tau[:, 2])


def test_each_channel_has_a_stream_of_its_own(motion: SimulatedMotion) -> None:
    alone = measured({"effort": {"noise": 1.0}}, motion)
    beside = measured(
        {"effort": {"noise": 1.0}, "position": {"noise": 0.1}, "velocity": {"noise": 0.1}}, motion
    )
    np.testing.assert_array_equal(alone["tau_joint1"], beside["tau_joint1"])
    noise = beside["q_joint1"] - motion.q[:, 0], beside["dq_joint1"] - motion.dq[:, 0]
    assert np.abs(np.corrcoef(*noise)[0, 1]) < 0.3


def test_effort_is_logged_where_the_robot_says_it_is(motion: SimulatedMotion) -> None:
    drive, n = ROBOT.drive, ROBOT.n
    N = drive.transmission
    motor = replace(ROBOT, drive=replace(drive, torque_side=TorqueSide.MOTOR))
    at_motor = np.stack([measured({}, motion, motor)[f"tau_{j}"] for j in ROBOT.joint_names], axis=1)
    np.testing.assert_allclose(at_motor @ N, motion.tau, rtol=1e-12)
    for gains in ({"torque_constant": np.full(n, 0.1)}, {"drive_gain": np.arange(1.0, 4.0)}):
        fed = replace(ROBOT, drive=replace(drive, **gains))
        columns = measured({"effort": {"quantity": "current"}}, motion, fed)
        current = np.stack([columns[f"i_{j}"] for j in ROBOT.joint_names], axis=1)
        scale = N * 0.1 if "torque_constant" in gains else np.diag(gains["drive_gain"])
        np.testing.assert_allclose(current @ scale, motion.tau, rtol=1e-12)
    behind = measured({"effort": {"source": "joint"}}, motion)
    np.testing.assert_array_equal(behind["tau_joint1"], motion.load[:, 0])
    assert np.abs(motion.load - motion.tau).max() > 0.1


def test_motor_positions_are_the_motors_or_seen_at_the_joint(motion: SimulatedMotion) -> None:
    seen = measured({"motor_position": {"side": "joint"}}, motion)
    own = measured({"motor_position": {}}, motion)
    np.testing.assert_array_equal(seen["theta_joint2"], motion.theta[:, 1])
    np.testing.assert_allclose(own["theta_m_joint2"], motion.theta[:, 1] * ROBOT.drive.gear_ratio[1])


def test_rows_may_be_lost_and_late() -> None:
    t = sample_times(30.0, 100.0)
    run = follow(Plant(ROBOT), FourierTrajectory.random(ROBOT, 30.0, 2, 0, 0.1), t)
    rig = Rig(SensorFile.model_validate({"rate": 100.0, "rows": {"dropped": 0.1, "jitter": 0.001}}))
    stamps, columns = rig.measure(ROBOT, run, (0,))
    assert 0.85 < len(stamps) / len(t) < 0.95
    assert (np.diff(stamps) > 0).all()
    assert all(len(values) == len(stamps) for values in columns.values())


def test_temperature_rises_with_friction() -> None:
    plant = build_plant(ROBOT, PlantFile())
    run = follow(plant, MOTION, sample_times(3.0, 100.0))
    warm = measured({"temperature": {"time_constant": 10.0, "rise": 1.0}}, run)["temperature_joint1"]
    assert warm[0] == 25.0
    assert warm[-1] > warm[150] > 25.0


def test_wrong_sensor_files_are_refused(tmp_path: Path, motion: SimulatedMotion) -> None:
    path = tmp_path / "sensors.toml"
    path.write_text("rate = -1.0\n[position]\nnoize = 1.0\n")
    with pytest.raises(InputErrors) as caught:
        Rig.read(path)
    assert {error.identifier for error in caught.value.errors} == {"wrong-value", "unknown-key"}
    assert "sensors.toml:3" in str(caught.value)
    for bad in (
        {"position": {"noise": [1.0, 2.0]}},
        {"position": {"counts": 100, "resolution": 0.1}},
        {"effort": {"quantity": "current"}},
        {"effort": {"quantity": "current", "source": "joint"}},
    ):
        with pytest.raises(UsageError):
            Rig(SensorFile.model_validate(bad)).check(ROBOT)


def test_one_log_is_written_whole_and_never_over_another(tmp_path: Path) -> None:
    path = record(campaign(), tmp_path / "log.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["log.parquet"]
    log = read_log(path, ROBOT)
    assert log.read(log.trajectories[0]).q.shape == (401, 3)
    about = {key.decode(): value.decode() for key, value in pq.read_schema(path).metadata.items()}
    assert about["origin"] == "simulated"
    FourierTrajectory.from_json(about["trajectory"])
    assert json.loads(about["controller"])["kind"] == "ideal"
    with pytest.raises(RefusedError, match="exists already"):
        record(campaign(), path)
    with pytest.raises(UsageError, match="log-ending"):
        record(campaign(), tmp_path / "log.txt")


@pytest.mark.parametrize("text", ["random", "random:4"])
def test_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path, text: str) -> None:
    reported: list[float] = []
    one = run_campaign(campaign(text=text), tmp_path / "one", 4, 1)
    two = run_campaign(campaign(text=text), tmp_path / "two", 4, 2, lambda stage, done: reported.append(done))
    assert sum(reported) == 4
    assert [path.name for path in one] == [f"run_{k:04d}.parquet" for k in range(1, 5)]
    contents = [path.read_bytes() for path in one]
    assert contents == [path.read_bytes() for path in two]
    assert len(set(contents)) == 4
    positions = {pq.read_table(path)["q_joint1"].to_numpy().tobytes() for path in one}
    assert len(positions) == (4 if text == "random" else 1)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["one", "two"]


def test_a_run_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "plant.toml").write_text("[integrator]\nstep = 0.05\n[friction]\nsmoothing = 1e-4\n")
    setup = read_setup(ROBOT, "pd", tmp_path / "plant.toml")
    stuck = replace(campaign(text="random", rate=20.0), setup=setup)
    with pytest.raises(SolverError, match=r"integration-error|diverged"):
        run_campaign(stuck, tmp_path / "runs", 3, 2)
    assert [one.name for one in tmp_path.iterdir()] == ["plant.toml"]
    (tmp_path / "runs").mkdir()
    with pytest.raises(RefusedError):
        run_campaign(campaign(), tmp_path / "runs", 3, 2)


def test_controllers_and_plants_come_from_files(tmp_path: Path) -> None:
    text = '[elastic]\nstiffness = 500.0\n[payload]\nmass = 1.0\ncom = [0.0, 0.0, 0.1]\n[friction]\nkind = "lugre"\n'
    (tmp_path / "plant.toml").write_text(text + 'static = 3.0\n[integrator]\nmethod = "LSODA"\nrtol = 1e-6\n')
    (tmp_path / "pd.toml").write_text('kind = "pd"\nbandwidth = 5.0\nkd = [1.0, 2.0, 3.0]\n')
    setup = read_setup(ROBOT, str(tmp_path / "pd.toml"), tmp_path / "plant.toml")
    assert setup.plant.elasticity.stiffness.tolist() == [500.0] * 3
    assert setup.plant.friction_states == 3
    assert setup.plant.bodies[-1, 0] == ROBOT.inertia_prior[-1, 0] + 1.0
    assert setup.controller.kd == [1.0, 2.0, 3.0]
    for wrong in ("nonsense", "open-loop:missing.parquet"):
        with pytest.raises(Exception, match=r"error\["):
            read_setup(ROBOT, wrong)
    with pytest.raises(UsageError, match="simulator"):
        read_setup(ROBOT, "pd", simulator="gazebo")
    for text in ("random:x", str(tmp_path / "missing.json")):
        with pytest.raises(Exception, match=r"error\["):
            TrajectoryChoice.read(text, ROBOT)
    (tmp_path / "two.json").write_text(
        FourierTrajectory.random(geared(1, 2), 4.0, 2, 0, 0.25, ramp=1.0).to_json()
    )
    with pytest.raises(UsageError, match="2 joints"):
        TrajectoryChoice.read(str(tmp_path / "two.json"), ROBOT)


@pytest.mark.parametrize("kind", ["ideal", "pd", "computed-torque"])
@pytest.mark.parametrize("simulator", ["dynid", "mujoco"])
def test_every_controller_follows_the_trajectory(kind: str, simulator: str) -> None:
    setup = replace(read_setup(ROBOT, kind, simulator=simulator), plant=Plant(ROBOT))
    slow = FourierTrajectory(np.zeros(3), np.full((3, 1), 0.2), np.zeros((3, 1)), 0.25, 1.5, 0.5)
    run = setup.motion(slow, 100.0)
    assert np.abs(run.q - slow.motion(run.t)[0]).max() < (0.05 if kind == "pd" else 1e-6)


@pytest.mark.parametrize("kind", ["pd", "computed-torque"])
def test_a_step_of_the_controller_looks_its_reference_up(kind: str) -> None:
    """The times that Runge and Kutta's method asks for, four a step, lie in a table computed once."""
    slow = FourierTrajectory(np.zeros(3), np.full((3, 1), 0.2), np.zeros((3, 1)), 0.25, 1.0, 0.25)
    asked: list[int] = []

    class Counted:
        duration = slow.duration

        def motion(self, t: Float) -> tuple[Float, Float, Float]:
            asked.append(len(t))
            return slow.motion(t)

    setup = replace(read_setup(ROBOT, kind), plant=Plant(ROBOT))
    run = setup.motion(Counted(), 100.0)
    assert len(asked) < len(run.t)


def test_an_open_loop_repeats_a_log(tmp_path: Path) -> None:
    heavy = replace(ROBOT, drive=Drive.direct(3), friction_prior=np.full((3, 2), 5.0))
    first = record(
        Campaign(read_setup(heavy, "pd"), TrajectoryChoice.read("random:1", heavy, 2.0), Rig()),
        tmp_path / "a.pq",
    )
    again = Setup(
        read_setup(heavy, f"open-loop:{first}").plant, read_setup(heavy, f"open-loop:{first}").controller
    )
    with pytest.raises(UsageError, match="open-loop"):
        again.motion(MOTION, 100.0)
    setup = read_setup(heavy, f"open-loop:{first}")
    run = setup.motion(TrajectoryChoice.read("random:1", heavy, 2.0).draw(heavy, 0), 1000.0)
    log = read_log(first, heavy)
    np.testing.assert_allclose(run.q[:300], log.read(log.trajectories[0]).q[:300], atol=1e-4)


def test_the_command_writes_logs_that_are_identified(run: Run, robot_file: Path, tmp_path: Path) -> None:
    sensors = tmp_path / "sensors.toml"
    sensors.write_text(SENSORS.replace("[motor_position]\nnoise = 1e-4\n", ""))
    for name, seed in (("train", 1), ("unseen", 2)):
        done = run("simulate", robot_file, "--trajectory", f"random:{seed}", "--sensors", sensors,
                   "--seed", seed, "--out", tmp_path / f"{name}.parquet")  # fmt: skip
        assert done.code == 0, done.err
        assert str(tmp_path / f"{name}.parquet") in done.out
    found = run("identify", robot_file, tmp_path / "train.parquet", "--validate", tmp_path / "unseen.parquet",
                "--out", tmp_path / "run")  # fmt: skip
    assert found.code == 0, found.err
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert stored["scores"][1]["total_relative"] < 0.02
    refused = run("simulate", robot_file, "--out", tmp_path / "train.parquet")
    assert refused.code == 7
    assert run("simulate", robot_file, "--controller", "x", "--out", tmp_path / "y.parquet").code == 2


def test_the_command_writes_runs_by_mujoco(run: Run, robot_file: Path, tmp_path: Path) -> None:
    done = run("simulate", robot_file, "--runs", 2, "--workers", 1, "--simulator", "mujoco", "--duration", 2,
               "--out", tmp_path / "runs")  # fmt: skip
    assert done.code == 0, done.err
    assert len(list((tmp_path / "runs").iterdir())) == 2


def interrupted(folder: Path, number: int, ready: Callable[[], bool], *arguments: str) -> int:
    """Exit code of the command when it gets a signal as soon as something is there."""
    code = "from dynid.cli.main import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, start_new_session=True)
    deadline = time.monotonic() + 60
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, number)
    return process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_campaign_leaves_nothing(robot_file: Path, tmp_path: Path, number: int) -> None:
    def under_way() -> bool:
        return any(any(one.glob("run_*")) for one in tmp_path.glob(".runs*"))

    code = interrupted(
        tmp_path,
        number,
        under_way,
        "simulate",
        str(robot_file),
        "--runs",
        "5000",
        "--workers",
        "2",
        "--out",
        "runs",
    )
    assert code == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_stiffness_of_the_robot_file_makes_joints_elastic() -> None:
    robot = ROBOT
    stiff = replace(robot.drive, stiffness=np.full(3, 800.0), damping=np.array([1.0, np.nan, 2.0]))
    setup = read_setup(replace(robot, drive=stiff), "pd")
    assert setup.plant.elasticity is not None
    assert setup.plant.elasticity.stiffness.tolist() == [800.0] * 3
    assert setup.plant.elasticity.damping.tolist() == [1.0, 0.0, 2.0]
    assert read_setup(robot, "pd").plant.elasticity is None


@pytest.mark.parametrize("controller", ["pd", "computed-torque"])
def test_a_simulated_log_leaves_nothing_on_standard_error(controller: str, tmp_path: Path) -> None:
    robot = tmp_path / "two.toml"
    robot.write_text(TWO_JOINTS)
    call = [sys.executable, "-m", "dynid", "simulate", str(robot), "--out", str(tmp_path / "log.csv")]
    call += ["--controller", controller, "--duration", "1"]
    ended = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_plant_goes_with_its_last_reference() -> None:
    plant = Plant(ROBOT)
    assert plant.rigid is plant
    gone = weakref.ref(plant)
    del plant
    assert gone() is None


LIGHT_WRIST = """
[[joint]]
name = "wrist"
type = "revolute"
xyz = [0.3, 0.0, 0.0]
inertial = { mass = 0.01, com = [0.0, 0.0, 0.0], inertia = { xx = 1e-6, yy = 1e-6, zz = 1e-6 } }
friction = { viscous = 2.0 }
"""


def light_wrist(folder: Path) -> Path:
    path = folder / "light.toml"
    path.write_text(TWO_JOINTS + LIGHT_WRIST)
    return path


@pytest.mark.parametrize("controller", ["pd", "computed-torque"])
@pytest.mark.parametrize("simulator", ["dynid", "mujoco"])
def test_a_motion_of_too_many_steps_is_refused_by_the_joint_that_needs_them(
    controller: str, simulator: str, tmp_path: Path, run: Run
) -> None:
    robot, plant, out = light_wrist(tmp_path), tmp_path / "plant.toml", tmp_path / "log.csv"
    plant.write_text('[integrator]\nmethod = "rk4"\n')
    call = ["simulate", str(robot), "--controller", controller, "--simulator", simulator, "--out", str(out)]
    outcome = run(*call, "--plant", str(plant))
    assert outcome.code == 6
    assert "error[simulation-steps] joint 'wrist'" in outcome.err
    assert "million steps" in outcome.err
    assert "implicit" in outcome.err
    assert not out.exists()


def test_a_light_wrist_is_simulated_implicitly(tmp_path: Path, run: Run) -> None:
    """Without any option, and it follows its reference."""
    robot, out = light_wrist(tmp_path), tmp_path / "log.parquet"
    call = ["simulate", str(robot), "--controller", "pd", "--trajectory", "random:1", "--out", str(out)]
    assert run(*call, "--duration", "2").code == 0
    log = pq.read_table(out)
    model = read_robot(str(robot), Reading())
    reference = FourierTrajectory.random(model, 2.0, 6, 1, 0.1, 0.5).motion(log["t"].to_numpy())[0]
    assert np.ptp(log["q_wrist"].to_numpy()) == pytest.approx(np.ptp(reference[:, -1]), rel=0.25)
