"""Logs of a robot that stands still, or hardly moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import UnfitDataError
from dynid.layouts import propose_logs
from dynid.log import write_log
from tests.layouts.plants import UR_JOINTS, run

UR = run("ur10e", UR_JOINTS)


def log_at_rest(folder: Path, size: float, sway: float = 0.0) -> Path:
    """Positions about one pose, in units of `size` rad, and torques with noise."""
    rng = np.random.default_rng(1)
    q = UR.q[0] + sway * np.sin(UR.t)[:, None]
    columns = {f"pos_{j + 1}": q[:, j] / size for j in range(6)}
    columns |= {f"torque_{j + 1}": UR.tau[0, j] + rng.normal(0, 0.05, len(UR.t)) for j in range(6)}
    return write_log(folder / "log.csv", UR.t, columns)


@pytest.mark.parametrize("size", [1.0, np.pi / 180])
def test_nothing_is_asked_of_a_log_at_rest(size: float, tmp_path: Path) -> None:
    path = log_at_rest(tmp_path, size)
    with pytest.raises(UnfitDataError, match=r"standstill.*no joint moves in this log \('pos_") as stop:
        dynid.read_log(path, UR.robot)
    assert "leave open" not in str(stop.value)


def test_what_hardly_moves_is_no_count_of_an_encoder(tmp_path: Path) -> None:
    found = propose_logs(UR.robot, [log_at_rest(tmp_path, 1.0, sway=0.01)])
    assert found.refusal is None
    asked = found["log.position.unit"]
    assert "the largest joint motion is 0.02" in asked.question.lower()
    assert "count" not in asked.question
