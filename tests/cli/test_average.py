"""dynid average as a user runs it: what it writes, and what it must not overwrite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.log import canonical_columns, write_log
from dynid.robot import load_robot
from tests.command_line import Run

PERIOD, RATE = 2.0, 100.0


@pytest.fixture
def repeated(robot_file: Path, tmp_path: Path) -> Path:
    """Four periods of a motion of both joints."""
    t = np.arange(int(4 * PERIOD * RATE) + 1) / RATE
    phase = 2 * np.pi * t / PERIOD
    q = np.stack([0.6 * np.sin(phase), 0.4 * np.cos(phase)], axis=1)
    names = load_robot(robot_file).joint_names
    return write_log(tmp_path / "repeated.csv", t, canonical_columns(names, q, tau=10 * q))


def test_average_writes_one_period(run: Run, robot_file: Path, repeated: Path, tmp_path: Path) -> None:
    out = tmp_path / "mean.csv"
    made = run("average", robot_file, repeated, "--period", PERIOD, "--out", out, "--margin", 0)
    assert made.code == 0, made.err
    assert "3 periods of 2 s, 200 samples each" in made.out
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1 + 200


def test_average_replaces_a_file_on_demand_alone(
    run: Run, robot_file: Path, repeated: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mean.csv"
    out.write_text("precious", encoding="utf-8")
    call = ("average", robot_file, repeated, "--period", PERIOD, "--out")
    refused = run(*call, out)
    assert (refused.code, out.read_text(encoding="utf-8")) == (7, "precious")
    assert "output-exists" in refused.err
    assert run(*call, out, "--force").code == 0
    assert out.read_text(encoding="utf-8") != "precious"
    assert run(*call, tmp_path, "--force").code == 7


@pytest.mark.parametrize("name", ["log", "robot"])
def test_average_never_replaces_what_it_reads(
    run: Run, robot_file: Path, repeated: Path, tmp_path: Path, name: str
) -> None:
    out = {"log": tmp_path / "." / "repeated.csv", "robot": robot_file}[name]
    before = out.read_bytes()
    refused = run("average", robot_file, repeated, "--period", PERIOD, "--out", out, "--force")
    assert refused.code == 7
    assert "output-is-input" in refused.err
    assert out.read_bytes() == before
