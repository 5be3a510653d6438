"""Efforts slower than positions: rows at the efforts' own times, and equations from the measured efforts alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.identification import Settings, identify
from dynid.layouts import experiment_text
from dynid.layouts.propose import propose
from dynid.log import read_log
from dynid.log.clocks import longest_step
from dynid.recording import RawChunk, Trajectory, at_times_of_efforts, joined, pieces_of
from dynid.robot import RobotModel
from dynid.signals.prepare import prepare
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from tests.log.bags import states, write_bag

PERIOD, ROW = 0.05, 0.01
TRAJECTORY = Trajectory("made", Path("made"), 0, 1000, 0.0, 10.0)


def motion(t: Float) -> Float:
    return np.column_stack([np.sin(2.0 * np.pi * 0.7 * t), 3.0 * t])


def torque(t: Float) -> Float:
    return np.column_stack([np.cos(2.0 * np.pi * 0.5 * t), np.sign(np.sin(2.0 * np.pi * 0.3 * t))])


def apart(start: float = 0.0, jitter: float = 0.0, hole: tuple[float, float] = (0.0, 0.0)) -> RawChunk:
    """Positions at 100 Hz and efforts at 20 Hz, each in rows of its own."""
    own: Float = np.arange(start, 9.9, PERIOD)
    own = np.sort(own + jitter * np.random.default_rng(0).normal(size=len(own)))
    own = own[(own < hole[0]) | (own > hole[1])]
    t = np.union1d(np.arange(1000.0) * ROW, own)
    q, tau = motion(t), torque(t)
    q[~np.isin(t, np.arange(1000.0) * ROW)] = np.nan
    tau[~np.isin(t, own)] = np.nan
    return RawChunk(TRAJECTORY, 0, t, np.angle(np.exp(1j * q)), None, tau, None, None, None, {})


def retimed(chunk: RawChunk, rows: int = 100_000) -> RawChunk:
    return joined(list(at_times_of_efforts(pieces_of(chunk, rows), longest_step)))


@pytest.mark.parametrize("rows", [100_000, 128])
@pytest.mark.parametrize(("start", "jitter"), [(0.0, 0.0), (0.013, 0.0), (0.013, 0.002)])
def test_every_measured_effort_has_a_row(rows: int, start: float, jitter: float) -> None:
    chunk = apart(start, jitter)
    result = retimed(chunk, rows)
    own = chunk.t[np.isfinite(np.asarray(chunk.tau)[:, 0])]
    assert result.effort_every == 5
    np.testing.assert_array_equal(result.t[::5], own)
    np.testing.assert_array_equal(np.asarray(result.tau)[::5], torque(own))
    np.testing.assert_allclose(np.exp(1j * result.q), np.exp(1j * motion(result.t)), atol=1e-4)
    assert (np.diff(result.t) > 0).all()


def test_there_are_no_rows_in_a_gap_of_the_efforts() -> None:
    result = retimed(apart(hole=(4.0, 6.0)))
    assert not ((result.t > 4.0 + ROW) & (result.t < 6.0)).any()


@pytest.mark.parametrize("every", [1, 0])
def test_other_logs_are_passed_on(every: int) -> None:
    """Efforts in each row, or missing at random."""
    t: Float = np.arange(1000.0) * ROW
    tau = torque(t)
    if not every:
        tau[np.random.default_rng(1).random(len(t)) < 0.3] = np.nan
    chunk = RawChunk(TRAJECTORY, 0, t, motion(t), None, tau, None, None, None, {})
    (same,) = at_times_of_efforts(iter([chunk]), longest_step)
    assert same is chunk


Written = Callable[[Path, Recorded, Plant], Path]


def as_csv(folder: Path, log: Recorded, arm: Plant) -> Path:
    tau = np.where((np.arange(len(log.t)) % 5 == 0)[:, None], log.tau, np.nan)
    names = arm.described.joint_names
    header = ",".join(["t", *(f"q_{name}" for name in names), *(f"tau_{name}" for name in names)])
    path = folder / "slow.csv"
    np.savetxt(path, np.column_stack([log.t, log.q, tau]), "%.6g", ",", header=header, comments="")
    path.write_text(path.read_text().replace("nan", ""))
    return path


def as_bag(folder: Path, log: Recorded, arm: Plant) -> Path:
    names, slow = arm.described.joint_names, slice(2, None, 5)
    shift = 0.3 * (log.t[1] - log.t[0])
    tau = np.array([np.interp(log.t[slow] + shift, log.t, column) for column in log.tau.T]).T
    none = np.zeros((len(tau), 0))
    return write_bag(
        folder / "slow",
        [
            *states(log.t, names, log.q, log.dq, topic="/joint_states"),
            *states(log.t[slow] + shift, names, none, None, tau, topic="/motor_currents"),
        ],
    )


@pytest.mark.parametrize("write", [as_csv, as_bag])
@pytest.mark.parametrize("name", ["ur5", pytest.param("kinova", marks=pytest.mark.slow)])
def test_a_model_is_as_good_as_its_noise(tmp_path: Path, write: Written, name: str) -> None:
    """Interpolated efforts left errors of 2 %, and late torque and bursts that do not exist."""
    arm = plant(name, np.random.default_rng(1))
    log = record(arm, np.random.default_rng(2), Unmodelled(), 24.0)
    robot, path = arm.described, write(tmp_path, log, arm)
    read = read_log(path, robot, topics=("/joint_states", "/motor_currents") if write is as_bag else ())
    run = identify(robot, read, Settings(), threads=1, diagnostics=Diagnostics())
    assert any(finding.code == "slow-efforts" for finding in run.diagnostics)
    assert run.training.scores.total_relative < 0.01


def test_efforts_on_their_own_topic_are_detected(tmp_path: Path) -> None:
    arm = plant("ur5", np.random.default_rng(1))
    log = record(arm, np.random.default_rng(2), Unmodelled(), 12.0)
    proposal = propose(arm.described, as_bag(tmp_path, log, arm))
    assert proposal.topics == ("/joint_states", "/motor_currents")
    assert list(proposal.groups["effort"].columns) == list(arm.described.joint_names)
    assert 'topic = ["/joint_states", "/motor_currents"]' in experiment_text(proposal, "dynid init")


def test_samples_have_the_measured_efforts(tmp_path: Path) -> None:
    arm = plant("ur5", np.random.default_rng(1))
    log = record(arm, np.random.default_rng(2), Unmodelled(), 12.0)
    robot: RobotModel = arm.described
    prepared = prepare(read_log(as_csv(tmp_path, log, arm), robot))
    for samples in prepared:
        rows = np.rint(samples.t * arm.rate).astype(int)
        np.testing.assert_allclose(samples.t, log.t[rows], atol=1e-6)
        np.testing.assert_allclose(samples.tau, log.tau[rows], rtol=1e-4, atol=1e-6)
