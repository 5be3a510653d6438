"""Real logs of commands: a model of the robot without any torque, and the delay of its drives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.real import COMMANDS_ONLY
from dynid.base import Diagnostics
from dynid.estimate import ServoTiming
from dynid.identification import Experiment, identify, open_log, with_found_servo
from dynid.identification.commands import find_drive_timing
from dynid.lab.replay import replay
from dynid.log import Log
from dynid.run import Identification

pytestmark = pytest.mark.usefixtures("unexamined")


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


def test_loops_that_would_have_friction_drive_the_joints_are_closed_elsewhere(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fifth row of AliEngo's log: with loops on board its commands seemed 96 ms late, its friction negative."""
    folder = data_dir / "aliengo_pace"
    if not folder.is_dir():
        pytest.skip("no aliengo_pace")
    rows = pq.read_table(folder / "data.parquet")
    pq.write_table(rows.take(list(range(0, len(rows), 5))), tmp_path / "slow.parquet")
    (tmp_path / "drive.toml").write_text(COMMANDS_ONLY[folder.name])
    experiment = Experiment.read(tmp_path / "drive.toml")
    robot = experiment.robot(folder / "robot.xml", Diagnostics())
    log = open_log(experiment, [tmp_path / "slow.parquet"], robot, ["*"], Diagnostics())
    assert robot.drive.servo is not None
    monkeypatch.setattr(ServoTiming, "of", staticmethod(lambda _: None))
    found = find_drive_timing(robot, log, robot.drive.servo, 0, 1)
    assert found.exchanged
    assert not found.servo.on_board
    assert found.lag is not None
    assert found.lag.seconds < 0.03
    sink = Diagnostics()
    with_found_servo(robot, log, 0, 1, sink)
    (said,) = (one for one in sink if one.identifier == "command-loop")
    assert "otherwise friction would drive most joints" in said.text
    declared = find_drive_timing(robot, log, replace(robot.drive.servo, loop="drive"), 0, 1)
    assert declared.servo.on_board
    assert declared.lag is not None
    assert declared.lag.driven
