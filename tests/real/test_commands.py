"""Real logs of commands: a model of the robot without any torque, and the delay of its drives."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.real import COMMANDS_ONLY
from dynid.base.diagnostics import Diagnostics
from dynid.identification.experiment import Experiment, open_log
from dynid.identification.pipeline import identify
from dynid.identification.settings import DEFAULT_TERMS, Settings
from dynid.run.result import Identification


def default_terms(folder: Path, scratch: Path) -> Identification:
    """By the terms that every model begins with; the choice of a model takes a minute on twelve joints."""
    (scratch / "drive.toml").write_text(COMMANDS_ONLY[folder.name])
    experiment = Experiment.read(scratch / "drive.toml")
    robot = experiment.robot(folder / "robot.xml", Diagnostics())
    logs = [
        open_log(experiment, [folder / "data.parquet"], robot, part, Diagnostics())
        for part in (experiment.data.train, experiment.data.validate_on)
    ]
    return identify(robot, logs[0], Settings(terms=DEFAULT_TERMS), validation=logs[1])


# By hand 7.4 % with friction chosen by the log and a delay of 10 ms, and 17.9 %; friction is not chosen here.
@pytest.mark.parametrize(("name", "goal", "delay"), [("aliengo_pace", 0.09, 0.010), ("z1_pace", 0.15, None)])
def test_commands_make_a_model(
    data_dir: Path, tmp_path: Path, name: str, goal: float, delay: float | None
) -> None:
    if not (data_dir / name).is_dir():
        pytest.skip(f"no {name}")
    found = default_terms(data_dir / name, tmp_path)
    assert found.validations[0].scores.total_relative < goal
    servo = found.robot.drive.servo
    assert servo is not None
    if delay is not None:
        assert servo.delay == pytest.approx(delay, abs=0.001)
