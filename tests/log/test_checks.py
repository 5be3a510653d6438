"""What a check of a log reports, and that it does not depend on how the log is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynid.base import Diagnostics
from dynid.identification import Experiment, open_log
from dynid.log import Log, LogSummary, LogWatch, canonical_columns, check_log, read_log, write_log
from dynid.log.log import lattice_step
from dynid.log.prior_check import States, check_against_prior
from dynid.robot import RobotModel, load_example, load_robot
from dynid.simulation import rigid_torque
from tests.robot_files import ROBOTS

T = 3000
NAMES = ("shoulder", "elbow")


def make(folder: Path, robot: RobotModel, t: np.ndarray, **changes: np.ndarray) -> Log:
    q = np.column_stack([0.8 * np.sin(1.3 * t), 0.5 * np.cos(2.1 * t)])
    dq = np.column_stack([1.04 * np.cos(1.3 * t), -1.05 * np.sin(2.1 * t)])
    tau = 20 * np.cos(q) + dq
    arrays = {"q": q, "dq": dq, "tau": tau} | changes
    return read_log(write_log(folder / "log.parquet", t, canonical_columns(NAMES, **arrays)), robot)


def checked(log: Log) -> tuple[LogSummary, Diagnostics]:
    sink = Diagnostics()
    return check_log(log, sink), sink


def test_figures_of_a_log(robot: RobotModel, tmp_path: Path) -> None:
    t = np.arange(T) / 500.0
    t[1000:] += 0.3
    t[2000:] += 0.5
    summary, sink = checked(make(tmp_path, robot, t))
    one = summary.trajectories[0]
    assert (one.rows, one.gaps, one.duplicates, one.missing_rows) == (T, 2, 0, 0)
    assert one.largest_gap == pytest.approx(0.502)
    assert (one.start, one.end) == (t[0], t[-1])
    assert one.rate == pytest.approx(500.0)
    np.testing.assert_allclose(one.speed, [1.04, 1.05], rtol=1e-3)
    np.testing.assert_allclose([one.lower, one.upper], [[-0.8, -0.5], [0.8, 0.5]], rtol=1e-3)
    assert summary.position_step.tolist() == [0.0, 0.0]
    assert (summary.has_velocity, summary.has_effort) == (True, True)
    assert [item.identifier for item in sink] == ["gap"]
    table = summary.describe()
    assert table["trajectories"][0]["gaps"] == 2
    assert [joint["name"] for joint in table["joints"]] == list(NAMES)
    assert len(summary.lines()) == 1 + 1 + 2 + 2


@pytest.mark.parametrize("rows", [1, 100, *(pytest.param(one, marks=pytest.mark.slow) for one in (2, 999))])
def test_findings_do_not_depend_on_the_chunk(rows: int, robot: RobotModel, tmp_path: Path) -> None:
    t = np.arange(T) / 500.0
    t[700:] += 0.1
    t[1500] = t[1499]
    t[1501:] -= 0.002
    log = make(tmp_path, robot, t)
    columns = {
        name: np.array(log.read(log.trajectories[0]).__getattribute__(name)) for name in ("q", "dq", "tau")
    }
    for values in columns.values():
        values[1500] = values[1499]
    columns["tau"][5] = np.nan
    log = make(tmp_path, robot, t, **columns)
    whole, said = checked(log)
    sink = Diagnostics()
    watch = LogWatch(log, sink)
    for one in log.trajectories:
        for _ in watch.observed(one, log.chunks(one, rows)):
            pass
    streamed = watch.finish()
    if rows >= 100:
        assert plain(whole) == plain(streamed)
    one, other = whole.trajectories[0], streamed.trajectories[0]
    for key in ("rows", "gaps", "duplicates", "missing_rows", "start", "end", "largest_gap"):
        assert getattr(one, key) == getattr(other, key)
    for key in ("lower", "upper", "speed", "effort"):
        np.testing.assert_array_equal(getattr(one, key), getattr(other, key))
    assert {item.identifier for item in said} == {item.identifier for item in sink}


@pytest.mark.parametrize("size", [1e308, -1e40, np.inf])
@pytest.mark.parametrize("signal", ["q", "dq", "tau"])
def test_a_number_of_no_size_is_a_missing_one(
    signal: str, size: float, robot: RobotModel, tmp_path: Path
) -> None:
    t = np.arange(T) / 500.0
    log = make(tmp_path, robot, t)
    chunk = log.read(log.trajectories[0])
    arrays = {name: np.array(getattr(chunk, name)) for name in ("q", "dq", "tau")}
    hole = slice(1200, 1230)  # a gap, so that the rows are left out
    arrays[signal][hole, 1] = size
    odd, _ = checked(make(tmp_path, robot, t, **arrays))
    arrays[signal][hole, 1] = np.nan
    missing, _ = checked(make(tmp_path, robot, t, **arrays))
    assert plain(odd) == plain(missing)
    assert odd.trajectories[0].missing_rows == 30


def plain(summary: LogSummary) -> dict[str, Any]:
    # Quantisation is looked for in the first chunk only.
    table = summary.describe()
    for joint in table["joints"]:
        del joint["position_step"], joint["velocity_step"]
    return table


def test_turns_are_counted(robot: RobotModel, tmp_path: Path) -> None:
    t = np.arange(T) / 500.0
    turning = np.column_stack([2.0 * t, 0.5 * np.cos(2.1 * t)])
    wrapped = (turning + np.pi) % (2 * np.pi) - np.pi
    log = make(tmp_path, robot, t, q=wrapped, dq=np.gradient(turning, t, axis=0))
    summary, sink = checked(log)
    assert summary.wraps == 2
    assert [item.identifier for item in sink] == ["unwrapped"]


@given(
    step=st.floats(1e-5, 1.0),
    count=st.integers(30, 300),
    offset=st.floats(-10, 10),
    seed=st.integers(0, 1000),
)
@settings(max_examples=50, deadline=None)
def test_lattice_step_is_found(step: float, count: int, offset: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    smooth = np.cumsum(rng.normal(size=4000))
    smooth *= count / np.ptp(smooth)
    values = np.column_stack([offset + step * np.round(smooth), smooth])
    found = lattice_step(values)
    assert found[0] == pytest.approx(step, rel=1e-6)
    assert found[1] == 0.0


def test_priors_far_from_the_truth_do_not_stop(tmp_path: Path) -> None:
    # Masses off by half, unknown loads, strong friction: no reason to doubt signs, units or order.
    robot = load_example("arm7")
    for seed in range(12):
        rng = np.random.default_rng(seed)
        t = np.arange(2000) / 50.0
        q, dq, ddq = np.zeros((3, len(t), robot.n))
        for j in range(robot.n):
            for w in 2 * np.pi * rng.uniform(0.05, 0.6, size=3):
                a, p = rng.uniform(0.1, 0.6), rng.uniform(0, 6)
                q[:, j] += a * np.sin(w * t + p)
                dq[:, j] += a * w * np.cos(w * t + p)
                ddq[:, j] -= a * w * w * np.sin(w * t + p)
        friction = rng.uniform(0, 8, robot.n) * np.tanh(dq / 0.01) + rng.uniform(0, 8, robot.n) * dq
        tau = rigid_torque(robot, robot.inertia_prior, q, dq, ddq) + friction + rng.normal(size=q.shape)
        guess = replace(
            robot, inertia_prior=robot.inertia_prior * rng.uniform(0.5, 1.5, size=(robot.n_bodies, 1))
        )
        check_against_prior(guess, States(q, dq, ddq, tau), Diagnostics())


@pytest.mark.parametrize("name", ["panda_gaz", "ur10e_innopolis", "kr300_rptu"])
def test_real_logs_are_not_stopped(name: str, data_dir: Path, tmp_path: Path) -> None:
    robot = load_robot(ROBOTS / f"{name}.toml")
    text = (ROBOTS / f"{name}.experiment.toml").read_text()
    # The spring of axis 2 is no column of the raw file.
    (tmp_path / "x.toml").write_text(text)
    experiment = Experiment.read(tmp_path / "x.toml")
    sink = Diagnostics()
    log = open_log(experiment, [data_dir / name / "data.parquet"], robot, experiment.data.train, sink)
    summary = check_log(log, sink)
    assert summary.moved.all()
    assert {item.identifier for item in sink.warnings} <= {"gap"}
