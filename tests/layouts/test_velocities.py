"""Velocities beside positions: what they say of the clock, and several of which none says that it was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import found_tables, propose_logs, summary_lines
from dynid.log import write_log
from tests.layouts.plants import RATE, UR_JOINTS, run

UR = run("ur10e", UR_JOINTS)


def written(
    folder: Path, step: float = 1 / RATE, velocities: tuple[str, ...] = ("Velocity",), **more: str
) -> Path:
    """A log whose clock goes on by `step` a row, with velocities under these names and positions under more."""
    t = np.arange(len(UR.t)) * step
    scale = 1000.0 / RATE if step == 1.0 else 1.0  # rows of a millisecond each
    columns = {f"Position{j + 1}": UR.q[:, j] for j in range(6)}
    columns |= {f"{name}{j + 1}": scale * UR.dq[:, j] for name in velocities for j in range(6)}
    columns |= {f"{name}{j + 1}": UR.wanted[:, j] for name in more.values() for j in range(6)}
    columns |= {f"Torque{j + 1}": UR.tau[:, j] for j in range(6)}
    return write_log(folder / "log.csv", t, columns)


def test_a_clock_in_steps_of_one_is_read_by_the_velocity(tmp_path: Path) -> None:
    found = propose_logs(UR.robot, [written(tmp_path, step=1.0)])
    assert found["log.time.unit"].value == "ms"
    assert "derivative of the position" in " ".join(found["log.time.unit"].why)
    without = propose_logs(UR.robot, [written(tmp_path, 1.0, ())])
    assert without["log.time.unit"].question


def test_computed_signals_are_no_measured_ones(tmp_path: Path) -> None:
    path = written(tmp_path, velocities=("Velocity", "VelocityCmptd"), also="PositionCmptd")
    found = propose_logs(UR.robot, [path])
    assert found["log.position.columns"].value == "Position{number}"
    assert found["log.velocity.columns"].value == "Velocity{number}"


@pytest.mark.parametrize("names", [("VelocityA", "VelocityB")])
def test_velocities_of_which_none_is_taken_are_said(names: tuple[str, ...], tmp_path: Path) -> None:
    path = written(tmp_path, velocities=names)
    found = propose_logs(UR.robot, [path])
    assert found["log.velocity.columns"].value is None
    assert found["log.velocity.columns"].grade == "likely"
    lines = "\n".join(summary_lines(found))
    assert "several groups match, so none is used: VelocityA{number}, VelocityB{number}" in lines
    _, note = found_tables(UR.robot, "ur.urdf", [path], {}, None)
    assert "no velocity (several groups match" in note.text
