"""Efforts that are read at one phase of a held command."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.layouts import experiment_text, propose_logs
from tests.layouts.test_strangers import ARM, csv, numbered

KP, KD = np.array([400.0, 400.0, 200.0, 200.0, 50.0, 50.0]), 2.0
EFFORT = "log.effort.columns"


def log(folder: Path, late: int, noise: float = 0.001) -> Path:
    """A log whose effort is kp (q_des - q) - kd dq, with the command of so many rows before."""
    rng = np.random.default_rng(0)
    wanted = ARM.q + (ARM.tau + KD * ARM.dq) / KP
    q_des = np.concatenate([wanted[late:], np.repeat(wanted[-1:], late, axis=0)])
    tau = ARM.tau + noise * ARM.tau.std(axis=0) * rng.normal(size=ARM.tau.shape)
    columns = {"t": ARM.t} | numbered("q_#", ARM.q) | numbered("dq_#", ARM.dq)
    columns |= numbered("tau_#", tau) | numbered("q_des_#", q_des)
    return csv(folder / "log.csv", {name: values[:-2] for name, values in columns.items()})


def test_commands_stand_in_for_an_effort_that_is_read_at_the_end_of_their_hold(tmp_path: Path) -> None:
    found = propose_logs(ARM.robot, [log(tmp_path, 1)])
    assert not found.open
    assert found[EFFORT].value == "none"
    assert "previous row's command" in found[EFFORT].why[0]
    tables = tomllib.loads(experiment_text(found, "dynid init"))
    assert tables["drive"]["delay"] == 0.0
    assert tables["drive"]["loop"] == "drive"
    np.testing.assert_allclose(list(tables["drive"]["kp"].values()), KP, rtol=0.002)
    assert "effort" not in tables["log"]
    assert tables["log"]["command_position"]["columns"] == "q_des_{number}"


@pytest.mark.parametrize("late", [0, 2])
def test_an_effort_of_another_phase_is_used(late: int, tmp_path: Path) -> None:
    found = propose_logs(ARM.robot, [log(tmp_path, late)])
    assert found[EFFORT].value == "tau_{number}"


def test_the_effort_is_used_where_the_user_says_so(tmp_path: Path) -> None:
    found = propose_logs(ARM.robot, [log(tmp_path, 1)], {EFFORT: "tau_{number}"})
    assert found[EFFORT].value == "tau_{number}"
    assert found["log.effort.unit"].value == "N m"


def test_an_effort_that_a_sensor_measured_is_no_law_of_the_command(tmp_path: Path) -> None:
    found = propose_logs(ARM.robot, [log(tmp_path, 1, noise=0.2)])
    assert found[EFFORT].value == "tau_{number}"
