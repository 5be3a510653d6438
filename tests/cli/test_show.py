"""dynid show: the motion of a log reaches the page, whatever the log holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dynid.log import write_log
from tests.command_line import Run


def test_a_robot_that_stands(run: Run, robot_file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("show", robot_file, "--out", page).code == 0
    assert "<h1>two</h1>" in page.read_text()
    again = run("show", robot_file, "--out", page)
    assert again.code == 7
    assert "output-exists" in again.err
    assert run("show", robot_file, "--out", page, "--force").code == 0


def test_a_recorded_motion_by_its_name(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    table = pq.read_table(train_log)
    columns = {name: table[name].to_numpy() for name in table.column_names if name != "traj"}
    names = np.repeat(["first", "odd [2]"], len(table) // 2)
    pq.write_table(pa.table(columns | {"traj": names}), tmp_path / "two.parquet")
    done = run("show", robot_file, tmp_path / "two.parquet", "--out", tmp_path / "a.html")
    assert done.out == f"wrote {tmp_path / 'a.html'}: two, 10.0 s of first\n"
    second = ("--trajectory", "odd [2]")
    done = run("show", robot_file, tmp_path / "two.parquet", "--out", tmp_path / "b.html", *second)
    assert done.code == 0, done.err
    assert done.out == f"wrote {tmp_path / 'b.html'}: two, 10.0 s of odd [2]\n"
    assert "<h1>two, odd [2]</h1>" in (tmp_path / "b.html").read_text()
    refused = run("show", robot_file, "--out", tmp_path / "c.html", *second)
    assert refused.code == 2


def test_rows_without_positions_are_left_out(run: Run, robot_file: Path, tmp_path: Path) -> None:
    t = np.arange(0.0, 4.0, 0.01)
    q = np.sin(t)
    q[50:60] = np.nan
    columns = {f"{kind}_{joint}": q for kind in ("q", "tau") for joint in ("shoulder", "elbow")}
    log = write_log(tmp_path / "holes.csv", t, columns)
    done = run("show", robot_file, log, "--out", tmp_path / "page.html")
    assert done.code == 0, done.err
    assert "NaN" not in (tmp_path / "page.html").read_text()
