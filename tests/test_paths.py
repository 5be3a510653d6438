"""Paths may be text wherever a verb names a file or a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, InputError, RefusedError
from dynid.exporters import export, read_model_json
from dynid.identification import Experiment, Settings, open_log
from dynid.lab import Rig, read_setup
from dynid.papers import read_coefficients
from dynid.report import write_report
from dynid.robot import load_robot
from dynid.run import Identification
from dynid.trajectories import read_motion
from dynid.verbs import run_demo, write_scores


@pytest.fixture(scope="module")
def result(robot_file: Path, train_log: Path) -> Identification:
    robot = load_robot(str(robot_file))
    return dynid.identify(robot, dynid.read_log([str(train_log)], robot), Settings())


def test_inputs_may_be_named_by_text(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    robot = dynid.load_robot(str(robot_file))
    (tmp_path / "experiment.toml").write_text("[estimate]\nseed = 3\n")
    (tmp_path / "sensors.toml").write_text("rate = 100.0\n")
    (tmp_path / "plant.toml").write_text("[friction]\nviscous = 0.1\n")
    (tmp_path / "base.csv").write_text("formula,value\nm2,1.0\n")
    experiment = Experiment.read(str(tmp_path / "experiment.toml"))
    assert experiment.settings().seed == 3
    log = open_log(experiment, [str(train_log)], robot, ["*"], Diagnostics())
    assert log.duration == dynid.read_log(str(train_log), robot).duration
    assert Rig.read(str(tmp_path / "sensors.toml")).rate == 100.0
    assert read_setup(robot, "pd", str(tmp_path / "plant.toml")).plant.robot.joint_names == robot.joint_names
    assert read_coefficients(str(tmp_path / "base.csv"), robot).value == np.array([1.0])


def test_outputs_may_be_named_by_text(result: Identification, tmp_path: Path) -> None:
    report = dynid.save(result, str(tmp_path / "run"))
    assert report == tmp_path / "run" / "report.html"
    assert dynid.save(result, str(tmp_path / "run"), force=True) == report
    assert dynid.load(str(tmp_path / "run")).verdict == result.verdict
    (model,) = export(result, str(tmp_path / "model.json")).files
    assert read_model_json(str(model))[0].joint_names == result.robot.joint_names
    write_report(result, str(tmp_path / "page.html"))
    write_scores(str(tmp_path / "scores.json"), result.training.scores)
    assert {one.name for one in tmp_path.iterdir()} == {"run", "model.json", "page.html", "scores.json"}


def test_refusals_are_the_same(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_motion(str(tmp_path / "nothing.json"))
    with pytest.raises(RefusedError, match="exists already"):
        run_demo(str(tmp_path), fast=True)
