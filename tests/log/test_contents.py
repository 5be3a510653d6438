"""What a log holds can be asked before anything is known of the robot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import InputError
from dynid.log import contents, write_log
from tests.command_line import Run
from tests.log.bags import states, write_bag

T = 300
t = np.arange(T) / 100.0
q = np.random.default_rng(1).normal(size=(T, 2))


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_columns_of_a_file(name: str, tmp_path: Path) -> None:
    path = write_log(tmp_path / name, t, {"a": q[:, 0], "b": q[:, 1]}, ["x"] * 100 + ["y"] * 200)
    found = contents(path)
    (stream,) = found.streams
    assert [one.name for one in stream.columns] == ["t", "traj", "a", "b"]
    assert stream.row_count in (None, T)
    time, traj, a, _ = stream.columns
    assert time.step == pytest.approx(0.01)
    assert (traj.numeric, traj.first) == (False, ("x", "x", "x"))
    assert (a.numeric, a.first, a.step) == (True, tuple(q[:3, 0]), None)
    whole = found.read(["b", "traj"])
    np.testing.assert_array_equal(whole["b"], q[:, 1])
    assert whole["traj"] == ("x",) * 100 + ("y",) * 200
    assert len(found.read(["a"], 7)["a"]) == 7
    with pytest.raises(InputError, match="no column 'c'"):
        found.read(["c"])


def test_topics_of_a_bag_are_streams(tmp_path: Path) -> None:
    messages = [*states(t, ("a", "b"), q), *states(t[::5], ("c",), q[::5, :1], topic="/hand")]
    found = contents(write_bag(tmp_path / "two_mcap", messages))
    assert {one.name: [column.name for column in one.columns] for one in found.streams} == {
        "/joint_states": ["t", "/joint_states:q_a", "/joint_states:q_b"],
        "/hand": ["t", "/hand:q_c"],
    }
    rates = {one.name: (one.row_count, one.rate) for one in found.streams}
    assert rates["/joint_states"] == (T, pytest.approx(100.0))
    assert rates["/hand"] == (T // 5, pytest.approx(20.0))
    np.testing.assert_array_equal(found.read(["/hand:q_c"])["/hand:q_c"], q[::5, 0])


def test_the_command_lists_columns(run: Run, tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv", t, {"a": q[:, 0]})
    out = run("check", path)
    assert out.code == 0
    assert "t  0, 0.01, 0.02, ...  (number, ascends by 0.01)" in out.out
    assert f"a  {q[0, 0]:.6g}, " in out.out
    assert run("check", path, "--fit").code == 2
