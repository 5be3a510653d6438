"""The command line, an experiment file and Python have one default, and give one model to the last bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.estimate import MAP
from dynid.identification import DEFAULT_TERMS, Experiment, Settings
from dynid.rows import AutomaticRows
from dynid.signals import Preparation
from dynid.testing import simulated_log
from tests.command_line import ROBOT, Run

pytestmark = pytest.mark.usefixtures("unexamined")

ARM_WITH_SLIDE = """
name = "slide"
convention = "placements"

[[joint]]
name = "turn"
type = "revolute"
inertial = { mass = 3.0, com = [0.1, 0.02, 0.1], inertia = { xx = 0.02, yy = 0.03, zz = 0.03 } }

[[joint]]
name = "reach"
type = "prismatic"
xyz = [0.2, 0.0, 0.1]
rpy = [0.0, 1.5707963267948966, 0.0]
inertial = { mass = 1.0, com = [0.05, 0.02, 0.1], inertia = { xx = 0.004, yy = 0.01, zz = 0.01 } }
"""
# Every default by its own name.
WRITTEN_OUT = """
[prepare]
cutoff = "auto"
order = 4
velocity = "auto"

[model]
rows = "auto"
automatic = true

[estimate]
method = "map"
mass = 0.2
centre = 0.15
inertia = 0.3
guessed_mass = 0.8
guessed_centre = 0.4
guessed_inertia = 0.8
common = 1.0
effect = 1.0
intervals = "jackknife"
folds = 5
seed = 0
"""


def parameters(folder: Path) -> bytes:
    """The parameters of a run as bytes, with their names."""
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    numbers = [entry["value"] for entry in model["parameters"].values()] + model["estimate"]["std"]
    return np.array(numbers).tobytes() + "".join(model["parameters"]).encode()


@pytest.mark.parametrize("description", [ROBOT, ARM_WITH_SLIDE], ids=["two joints", "with a slide"])
def test_the_same_call_gives_the_same_model(description: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_text(description)
    robot = dynid.load_robot(path)
    columns = DEFAULT_TERMS.columns(robot)
    theta = np.array([0.2 if np.isnan(column.prior) else column.prior for column in columns])
    log = simulated_log(tmp_path / "log.parquet", robot, DEFAULT_TERMS, theta, seconds=8.0)
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "names.toml").write_text(WRITTEN_OUT)
    assert run("identify", path, log, "--out", tmp_path / "plain").code == 0
    for name in ("empty", "names"):
        config = tmp_path / f"{name}.toml"
        assert run("identify", path, log, "--config", config, "--out", tmp_path / name).code == 0
    dynid.save(dynid.identify(robot, dynid.read_log(log, robot)), tmp_path / "python")
    found = {name: parameters(tmp_path / name) for name in ("plain", "empty", "names", "python")}
    assert set(found.values()) == {found["plain"]}
    again = dynid.identify(
        robot,
        dynid.read_log(log, robot),
        Experiment.from_dict(dynid.load(tmp_path / "python").experiment).settings(),
    )
    dynid.save(again, tmp_path / "again")
    assert parameters(tmp_path / "again") == found["plain"]


def test_the_default_by_its_own_name_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "names.toml").write_text(WRITTEN_OUT)
    written = Experiment.read(tmp_path / "names.toml").settings()
    assert written.resolved() == Settings().resolved() == Experiment.read(None).settings().resolved()
    named = Settings(DEFAULT_TERMS, AutomaticRows(), MAP(), Preparation(), automatic=True)
    assert named == Settings().resolved()


def test_terms_that_are_given_are_fitted() -> None:
    assert Settings().chooses_model
    assert not Settings(terms=DEFAULT_TERMS).chooses_model
    assert not Settings(automatic=False).chooses_model
    assert Settings(automatic=False).model == DEFAULT_TERMS
    assert Settings(terms=DEFAULT_TERMS, automatic=True).chooses_model
