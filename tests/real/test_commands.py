"""Real logs of commands: a model of the robot without any torque, and the delay of its drives."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.real import COMMANDS_ONLY
from dynid.base.diagnostics import Diagnostics
from dynid.exporters.replay import replay
from dynid.identification.experiment import Experiment, open_log
from dynid.identification.pipeline import identify
from dynid.log.read import Log
from dynid.run.result import Identification


def by_default(folder: Path, scratch: Path) -> tuple[Identification, Log]:
    """By the default command."""
    (scratch / "drive.toml").write_text(COMMANDS_ONLY[folder.name])
    experiment = Experiment.read(scratch / "drive.toml")
    robot = experiment.robot(folder / "robot.xml", Diagnostics())
    logs = [
        open_log(experiment, [folder / "data.parquet"], robot, part, Diagnostics())
        for part in (experiment.data.train, experiment.data.validate_on)
    ]
    return identify(robot, logs[0], validation=logs[1]), logs[1]


# By hand 7.4 % with a delay of 10 ms, and 17.9 %.
@pytest.mark.parametrize(("name", "goal", "delay"), [("aliengo_pace", 0.074, 0.010), ("z1_pace", 0.15, None)])
def test_commands_make_a_model(
    data_dir: Path, tmp_path: Path, name: str, goal: float, delay: float | None
) -> None:
    if not (data_dir / name).is_dir():
        pytest.skip(f"no {name}")
    found, unseen = by_default(data_dir / name, tmp_path)
    assert found.validations[0].scores.total_relative < goal
    servo = found.robot.drive.servo
    assert servo is not None
    model, description = replay(found, unseen).total
    assert description is not None
    assert model < 0.7 * description
    if delay is not None:
        assert servo.delay == pytest.approx(delay, abs=0.001)
