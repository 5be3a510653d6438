"""Rows in which every effort is 0 between rows with efforts: left out and named, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Bool, Diagnostics, Float
from dynid.identification import Settings, identify
from dynid.log import Log, check_log, read_log
from dynid.log.recording_faults import LONGEST_ABSENCE
from dynid.robot import RobotModel, load_robot
from dynid.run import Identification
from dynid.testing import Recorded, Unmodelled, plant, record
from tests.log.bags import states, write_bag

CODE = "rows-without-effort"


def warnings(log: Log) -> list[str]:
    sink = Diagnostics()
    check_log(log, sink)
    return [finding.text for finding in sink if finding.code == CODE]


def arm(name: str = "ur5", seed: int = 1, seconds: float = 12.0) -> tuple[RobotModel, Recorded, Float]:
    """A robot, a log of its motion, and its viscous friction."""
    rng = np.random.default_rng(seed)
    machine = plant(name, rng)
    return machine.described, record(machine, rng, Unmodelled(), seconds), machine.viscous


def rows_of(log: Log) -> int:
    (trajectory,) = log.trajectories
    return len(log.read(trajectory).t)


def with_zeros(log: Recorded, absent: Bool) -> Float:
    return np.where(absent[:, None], 0.0, log.tau)


@pytest.mark.parametrize("name", ["ur5", "kinova", "finger"])
def test_single_rows_and_spells_are_left_out_and_named(name: str) -> None:
    robot, log, _ = arm(name)
    absent = np.random.default_rng(0).random(len(log.t)) < 0.06
    absent |= (log.t > 5.0) & (log.t < 5.0 + 0.7 * LONGEST_ABSENCE)
    absent[[0, -1]] = False
    read = Log.from_arrays(robot, log.t, log.q, with_zeros(log, absent))
    # Where all efforts of the arm are near 0, a row without effort changes nothing and may stay.
    assert rows_of(read) - np.count_nonzero(~absent) <= 0.02 * absent.sum()
    (text,) = warnings(read)
    assert f"{len(log.t) - rows_of(read)} rows have an effort of exactly 0" in text


def test_a_spell_across_the_chunks_of_a_long_log_is_left_out() -> None:
    robot, log, _ = arm("finger", seconds=40.0)
    absent = np.zeros(len(log.t), dtype=np.bool_)
    absent[32700:32900] = True
    read = Log.from_arrays(robot, log.t, log.q, with_zeros(log, absent))
    (trajectory,) = read.trajectories
    np.testing.assert_array_equal(read.read(trajectory).t, log.t[~absent])


@pytest.mark.parametrize("name", ["ur5", "kinova"])
def test_efforts_of_a_joint_that_drop_to_zero_are_interpolated(name: str) -> None:
    robot, log, _ = arm(name)
    absent = np.random.default_rng(0).random(len(log.t)) < 0.06
    absent[[0, 1, -1, -2]] = False
    tau = log.tau.copy()
    tau[absent, 1] = 0.0
    read = Log.from_arrays(robot, log.t, log.q, tau)
    (trajectory,) = read.trajectories
    chunk = read.read(trajectory)
    error = np.abs(np.asarray(chunk.tau)[:, 1] - log.tau[:, 1])
    assert np.quantile(error, 0.995) < 0.3 * log.tau[:, 1].std()
    assert np.count_nonzero(np.asarray(chunk.tau)[:, 1] == 0.0) <= 0.1 * absent.sum()
    sink = Diagnostics()
    check_log(read, sink)
    assert any(finding.code == "missing-values" for finding in sink)


def test_efforts_of_a_clean_log_stay() -> None:
    """Also efforts that rest at 0, that move in steps through 0, and drives that were switched off for long."""
    robot, log, _ = arm()
    stepping = np.round(np.sin(2.0 * np.pi * 0.5 * log.t)[:, None] * np.ones(robot.n))
    released = with_zeros(log, (log.t > 4.0) & (log.t < 4.0 + 1.5 * LONGEST_ABSENCE))
    coarse = np.round(log.tau / (0.2 * np.abs(log.tau).max(axis=0)))
    for tau in (log.tau, stepping, released, coarse):
        read = Log.from_arrays(robot, log.t, log.q, tau)
        assert rows_of(read) == len(log.t)
        assert warnings(read) == []
        np.testing.assert_array_equal(np.asarray(read.read(read.trajectories[0]).tau), tau)


def test_a_dwell_without_torque_stays() -> None:
    robot, log, _ = arm()
    dwell = (log.t > 4.0) & (log.t < 5.0)
    q = log.q.copy()
    q[dwell] = q[np.flatnonzero(dwell)[0]]
    assert rows_of(Log.from_arrays(robot, log.t, q, with_zeros(log, dwell))) == len(log.t)


@pytest.mark.parametrize("frames", [("arm", ""), ("", "")])
def test_a_second_publisher_of_zero_efforts_costs_a_model_nothing(
    tmp_path: Path, frames: tuple[str, str]
) -> None:
    """Its messages repeat earlier positions between those of the driver, which took a third of every effort."""
    robot, log, viscous = arm("ur5", seconds=24.0)
    late = np.arange(0, len(log.t) - 1, 2)
    driver = states(log.t, robot.joint_names, log.q, log.dq, log.tau, frame=frames[0])
    second = states(
        log.t[late] + 0.4 * (log.t[1] - log.t[0]),
        robot.joint_names,
        log.q[np.maximum(late - 1, 0)],
        log.dq[np.maximum(late - 1, 0)],
        np.zeros((len(late), robot.n)),
        frame=frames[1],
    )
    read = read_log(write_bag(tmp_path / "two", [*driver, *second]), robot)
    run = identify(robot, read, Settings(), threads=1, diagnostics=Diagnostics())
    assert any(finding.code == CODE for finding in run.diagnostics)
    np.testing.assert_allclose(viscous_of(run), viscous, rtol=0.1)


def viscous_of(run: Identification) -> Float:
    names = [column.name for column in run.estimate.columns]
    return np.asarray(run.estimate.full_vector[[names.index(f"fv{j + 1}") for j in range(run.robot.n)]])


@pytest.mark.parametrize(("case", "name"), [("zero_efforts", "log.csv"), ("two_publishers", "bag")])
def test_real_cases_are_named(case: str, name: str) -> None:
    folder = Path(__file__).resolve().parents[3] / "shared" / "cases" / case
    if not folder.is_dir():
        pytest.skip(f"no case at {folder}")
    robot = load_robot(folder / "arm.urdf")
    run = identify(robot, read_log(folder / name, robot), Settings(), threads=1)
    assert any(finding.code == CODE for finding in run.diagnostics)
    np.testing.assert_allclose(viscous_of(run), [9.0, 10.0, 6.0, 1.4, 1.1, 0.7], rtol=0.05)
