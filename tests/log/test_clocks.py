"""Channels with time stamps of their own are brought to the times of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.base import InputError
from dynid.log import read_log, write_log
from dynid.robot import RobotModel
from tests.log import formats

T = 1000
t = 5.0 + np.arange(T) / 1000.0
w = 2 * np.pi * np.array([1.0, 1.5])


def motion(times: Any) -> Any:
    return np.sin(w * np.asarray(times)[:, None])


MAPPING: dict[str, Any] = {
    "time": {"column": "t", "unit": "s"},
    "position": {"columns": "q[:]", "unit": "rad"},
    "effort": {"columns": "tau[:]", "unit": "N m", "time": {"column": "tau_t", "unit": "ms"}},
}


def test_torque_on_a_slower_clock(robot: RobotModel, tmp_path: Path) -> None:
    slow = 5.0401 + np.arange(220) / 250.0
    arrays = {"t": t, "q": motion(t), "tau": 3.0 * motion(slow), "tau_t": 1e3 * slow}
    log = read_log(formats.npz(tmp_path / "x.npz", arrays), robot, MAPPING)
    chunk = log.read(log.trajectories[0])
    inside = (t >= slow[0]) & (t <= slow[-1])
    np.testing.assert_array_equal(chunk.t, t[inside])
    np.testing.assert_array_equal(chunk.q, motion(t)[inside])
    assert chunk.tau is not None
    # A straight line is off by h^2 / 8 of the second derivative at most.
    bound = 3.0 * w**2 * (1 / 250.0) ** 2 / 8
    assert (np.abs(chunk.tau - 3.0 * motion(t[inside])) <= bound + 1e-9).all()
    remarks = [str(one) for one in log.remarks]
    assert any("a separate clock 'tau_t' (250 Hz; rows: 1000 Hz)" in one for one in remarks)
    assert any(f"{(~inside).sum()} rows before the first or after the last" in one for one in remarks)
    pieces = list(log.chunks(log.trajectories[0], 37))
    np.testing.assert_array_equal(np.concatenate([one.tau for one in pieces]), chunk.tau)
    assert log.read(log.trajectories[0]).first_row == 0


def test_equal_stamps_change_nothing(robot: RobotModel, tmp_path: Path) -> None:
    tau = np.random.default_rng(0).normal(size=(T, 2))
    arrays = {"t": t, "q": motion(t), "tau": tau, "tau_t": 1e3 * t}
    log = read_log(formats.npz(tmp_path / "x.npz", arrays), robot, MAPPING | {
        "effort": {"columns": "tau[:]", "unit": "N m", "time": {"column": "t", "unit": "s"}}})  # fmt: skip
    np.testing.assert_array_equal(log.read(log.trajectories[0]).tau, tau)
    assert [one.identifier for one in log.remarks] == ["joined"]


def test_cells_that_are_empty_in_between(robot: RobotModel, tmp_path: Path) -> None:
    tau = np.where((np.arange(T) % 5 == 0)[:, None], motion(t), np.nan)
    tau[400:600] = np.nan
    columns = {"q_a": motion(t)[:, 0], "q_b": motion(t)[:, 1], "tau_a": tau[:, 0], "tau_b": tau[:, 1]}
    path = write_log(tmp_path / "x.csv", t, columns)
    entry = {"columns": ["tau_a", "tau_b"], "unit": "N m"}
    mapping = MAPPING | {"position": {"columns": ["q_a", "q_b"], "unit": "rad"}}
    log = read_log(path, robot, mapping | {"effort": entry | {"time": MAPPING["time"]}})
    found = log.read(log.trajectories[0]).tau
    assert found is not None
    # There are no rows in a pause of 0.2 s.
    rows = np.r_[0:396, 600:996]
    np.testing.assert_allclose(found, motion(t)[rows], atol=1e-3)
    plain = read_log(path, robot, mapping | {"effort": entry}).read(log.trajectories[0]).tau
    assert plain is not None
    np.testing.assert_array_equal(plain, found)


def test_rows_that_other_clocks_made(robot: RobotModel, tmp_path: Path) -> None:
    # A table of two topics: every row holds the samples of one of them.
    other = 5.0003 + np.arange(996) / 1000.0
    both = np.concatenate([t, other])
    q, tau = (np.full((len(both), 2), np.nan) for _ in range(2))
    q[:T], tau[T:] = motion(t), motion(other)
    order = np.argsort(both)
    columns = {"q_a": q[order, 0], "q_b": q[order, 1], "tau_a": tau[order, 0], "tau_b": tau[order, 1]}
    path = write_log(tmp_path / "x.csv", both[order], columns, ["run"] * len(both))
    log = read_log(
        path,
        robot,
        {
            "time": {"column": "t", "unit": "s"},
            "position": {"columns": ["q_a", "q_b"], "unit": "rad"},
            "effort": {"columns": ["tau_a", "tau_b"], "unit": "N m", "time": {"column": "t", "unit": "s"}},
            "trajectory": "traj",
        },
    )
    (one,) = log.trajectories
    chunk = log.read(one)
    inside = (t >= other[0]) & (t <= other[-1])
    np.testing.assert_array_equal(chunk.q, motion(t)[inside])
    assert chunk.tau is not None
    assert np.isfinite(chunk.tau).all()
    assert "996 rows without a position" in "\n".join(map(str, log.remarks))
    pieces = list(log.chunks(one, 13))
    np.testing.assert_array_equal(np.concatenate([piece.q for piece in pieces]), chunk.q)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a | {"tau_t": a["tau_t"][::-1]}, r"own-clock.*does not ascend.*split the file"),
        (lambda a: a | {"tau_t": a["tau_t"] + 1e6}, r"no-overlap.*check the units"),
        (lambda a: {k: v for k, v in a.items() if k != "tau_t"}, "missing-column.*'tau_t'"),
        (lambda a: a | {"tau": a["tau"][1:]}, r"different-lengths"),
        (lambda a: a | {"tau": np.full_like(a["tau"], np.nan)}, "0 samples of 'tau\\[0\\]'"),
    ],
)
def test_clocks_that_do_not_fit(change: Any, words: str, robot: RobotModel, tmp_path: Path) -> None:
    slow = t[::4]
    arrays = {"t": t, "q": motion(t), "tau": motion(slow), "tau_t": 1e3 * slow}
    path = formats.npz(tmp_path / "x.npz", change(arrays))
    with pytest.raises(InputError, match=words):
        read_log(path, robot, MAPPING)
