"""Payloads: simulated ones come back within their intervals, the UR10e's within the figures asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.identification.experiment import Experiment, open_log
from dynid.identification.pipeline import identify
from dynid.identification.schema import SelectionEntry
from dynid.identification.settings import Settings
from dynid.kernel import inverse_dynamics
from dynid.log.read import Log, read_log
from dynid.log.write import write_log
from dynid.robot import load_robot
from dynid.robot.model import RobotModel
from dynid.run.result import Identification
from dynid.spatial.inertia import from_com
from dynid.terms import KnownPayload
from dynid.verbs.payload import Payload, find_payload, payload, payload_data, payload_lines
from dynid.verbs.save import save
from tests.command_line import Run
from tests.robot_files import ROBOTS

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


def write(robot: RobotModel, path: Path, seed: int, load: np.ndarray, noise: float = 0.05) -> Log:
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 25.0, 0.005)
    q, dq, ddq = np.zeros((3, len(t), robot.n))
    for f in (0.17, 0.31, 0.53, 0.83):
        a, phase, w = rng.uniform(0.15, 0.4, robot.n), rng.uniform(0, 6, robot.n), 2 * np.pi * f
        q += a * np.sin(w * t[:, None] + phase)
        dq += w * a * np.cos(w * t[:, None] + phase)
        ddq -= w * w * a * np.sin(w * t[:, None] + phase)
    inertia = np.array(robot.inertia_prior)
    inertia[-1] += load
    tau = inverse_dynamics(robot.tree, inertia, q, dq, ddq) + 0.5 * dq + 0.4 * np.tanh(dq / 0.02)
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


@pytest.mark.parametrize("method", ["difference", "joint"])
@pytest.mark.parametrize("friction", ["fixed", "free"])
def test_a_simulated_load_is_found(unloaded: Identification, loaded: Log, method: str, friction: str) -> None:
    found = find_payload(unloaded, loaded, method, friction=friction, threads=1)  # type: ignore[arg-type] # plain text
    truth = np.concatenate([[2.0, 0.05, -0.08, 0.15], [0.03, 0.0, 0.04, 0.0, 0.0, 0.02]])
    assert abs(found.mass / 2.0 - 1.0) < 0.01
    np.testing.assert_allclose(found.centre, truth[1:4], atol=0.003)
    np.testing.assert_allclose(found.properties[4:], truth[4:], atol=0.006)
    # 95 % intervals of ten numbers: none is missed by three of them.
    assert (np.abs(found.properties - truth) < 3 * found.half_width()).all()
    assert found.relative < 0.05 < found.relative_without
    assert len(payload_lines(found)) == 12


def test_the_verb_takes_frames_and_calibrates(unloaded: Identification, loaded: Log) -> None:
    frame = pq.read_table(loaded.tables[0].path)
    diagnostics = Diagnostics()
    found = payload(unloaded, frame, free_friction=True, threads=1, diagnostics=diagnostics)
    direct = find_payload(unloaded, loaded, friction="free", threads=1)
    np.testing.assert_array_equal(found.parameters, direct.parameters)
    assert repr(found) == "\n".join(payload_lines(direct))
    assert "payload-gains" not in {item.identifier for item in diagnostics}
    twice = payload(
        unloaded, frame, free_friction=True, reference=loaded, reference_mass=2.0 * direct.mass, threads=1
    )
    np.testing.assert_allclose(twice.parameters, 2.0 * direct.parameters)


def test_no_load_is_reported(unloaded: Identification, tmp_path: Path) -> None:
    log = write(unloaded.robot, tmp_path / "bare.parquet", 3, np.zeros(10))
    diagnostics = Diagnostics()
    find_payload(unloaded, log, threads=1, diagnostics=diagnostics)
    assert {item.identifier for item in diagnostics.warnings} & {"no-payload", "payload-unphysical"}


def test_a_load_that_cannot_exist_is_replaced_by_the_closest_one_that_can(
    unloaded: Identification, loaded: Log
) -> None:
    found = find_payload(unloaded, loaded, threads=1)
    assert found.physical
    assert found.real() is found
    strange = replace(found, parameters=found.parameters - np.array([0, 0, 0, 0, 0.15, 0, 0, 0, 0, 0]))
    real = strange.real()
    assert not strange.physical
    assert real.physical

    def away(pi: np.ndarray) -> float:
        d = pi - strange.parameters
        return float(d @ np.linalg.solve(strange.covariance, d))

    # No other physically consistent body is closer: neither the true one nor any on the way to it.
    for share in (0.001, 0.01, 0.1, 1.0):
        other = real.parameters + share * (found.parameters - real.parameters)
        assert away(real.parameters) <= away(other) * (1 + 1e-6)
    data = payload_data(strange)
    assert not data["physical"]
    assert data["real_body"]["ten_parameters"] == real.parameters.tolist()
    assert any("closest physically consistent body" in line for line in payload_lines(strange))


def test_gains_calibrated_on_a_known_load(unloaded: Identification, loaded: Log) -> None:
    found = find_payload(unloaded, loaded, threads=1)
    half = replace(found, parameters=0.9 * found.parameters)
    right = half.calibrated(half, found.mass)
    np.testing.assert_allclose(right.parameters, found.parameters)
    assert right.half_width()[0] > found.half_width()[0]
    with pytest.raises(UsageError, match="mass > 0"):
        found.calibrated(found, -1.0)
    nothing = replace(found, parameters=1e-6 * found.parameters)
    with pytest.raises(UnfitDataError, match="known payload"):
        found.calibrated(nothing, 2.0)


def test_a_log_of_another_arm_is_doubted_and_of_other_joints_refused(
    unloaded: Identification, tmp_path: Path
) -> None:
    robot = unloaded.robot
    other = replace(
        robot, T_parent_joint=robot.T_parent_joint[[3, 0, 5, 1, 2, 4]], axis=robot.axis[[1, 0, 2, 3, 4, 5]]
    )
    strange = write(other, tmp_path / "other.parquet", 5, LOAD)
    sink = Diagnostics()
    find_payload(unloaded, read_log(strange.trajectories[0].file, robot), diagnostics=sink, threads=1)
    assert "other-arm" in {one.identifier for one in sink.doubts}
    renamed = replace(
        robot, joint_names=tuple(f"x{j}" for j in range(6)), tree_joint_names=tuple(f"x{j}" for j in range(6))
    )
    log = write(renamed, tmp_path / "renamed.parquet", 5, LOAD)
    with pytest.raises(UsageError, match="joints"):
        find_payload(unloaded, log, threads=1)


def test_the_command(run: Run, unloaded: Identification, loaded: Log, tmp_path: Path) -> None:
    save(unloaded, tmp_path / "run")
    log = loaded.trajectories[0].file
    done = run("payload", tmp_path / "run", log)
    assert done.code == 0
    assert "mass" in done.out
    calibrated = run("payload", tmp_path / "run", log, "--reference", log, "--reference-mass", "4.0")
    assert "mass               4 " in calibrated.out
    assert run("payload", tmp_path / "run", log, "--out", tmp_path / "p.json").code == 0
    data = json.loads((tmp_path / "p.json").read_text())
    assert data["found"]["mass"]["unit"] == "kg"
    assert KnownPayload(inertia=tuple(data["real_body"]["ten_parameters"]))
    assert run("payload", tmp_path / "run", log, "--out", tmp_path / "p.json").code == 7
    assert run("payload", tmp_path / "run", log, "--out", log).code == 7
    assert run("payload", tmp_path / "run", log, "--out", tmp_path / "no" / "p.json").code == 6
    assert run("payload", tmp_path / "run", log, "--reference", log).code == 2
    assert run("payload", tmp_path / "run", log, "--method", "magic").code == 2
    assert run("payload", tmp_path / "run", tmp_path / "missing.parquet").code == 3
    (tmp_path / "other.csv").write_text("t,q_a,tau_a\n0,0,0\n0.1,0,0\n")
    assert run("payload", tmp_path / "run", tmp_path / "other.csv").code == 3


def test_gains_that_nobody_checked_are_reported(
    run: Run, unloaded: Identification, loaded: Log, tmp_path: Path
) -> None:
    drive = replace(unloaded.robot.drive, drive_gain=np.full(6, 11.0))
    save(replace(unloaded, robot=replace(unloaded.robot, drive=drive)), tmp_path / "run")
    log = loaded.trajectories[0].file
    assert "drive gains" in run("payload", tmp_path / "run", log).err
    calibrated = run("payload", tmp_path / "run", log, "--reference", log, "--reference-mass", "2.0")
    assert "drive gains" not in calibrated.err


def ur10e(data_dir: Path, *selection: SelectionEntry) -> tuple[Experiment, RobotModel, Log]:
    robot = load_robot(ROBOTS / "ur10e_innopolis.toml")
    experiment = Experiment.read(ROBOTS / "ur10e_innopolis.experiment.toml")
    file = data_dir / "ur10e_innopolis" / "data.parquet"
    return experiment, robot, open_log(experiment, [file], robot, selection, Diagnostics())


def test_ur10e(data_dir: Path) -> None:
    bare = SelectionEntry(trajectory="id/ur-20_02_19_14harm50sec", window=(2.0, 54.0))
    experiment, robot, log = ur10e(data_dir, bare)
    run = identify(robot, log, experiment.settings(), threads=1)

    def found(trajectory: str, window: tuple[float, float]) -> Payload:
        entry = SelectionEntry(trajectory=trajectory, window=window)
        return find_payload(run, ur10e(data_dir, entry)[2], threads=1)

    load = found("id/ur-20_02_19_14harm50secLoad", (3.2, 53.4))
    assert abs(load.mass / 2.805 - 1.0) < 0.10
    # Another motion with the same load; the first rows of that log are damaged.
    known = found("id/ur-20_02_19_15harm50secLoad", (4.0, 60.0))
    assert abs(load.calibrated(known, 2.805).mass / 2.805 - 1.0) < 0.05
