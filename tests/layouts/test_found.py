"""Logs whose columns nobody named, opened in Python."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import dynid
from dynid.base import InputError
from dynid.layouts import propose_logs
from dynid.log import write_log
from dynid.robot import RobotModel
from dynid.testing import random_robot
from tests.command_line import ROBOT, make_log


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("robot") / "two.toml"
    path.write_text(ROBOT)
    return dynid.load_robot(path)


def renamed(robot: RobotModel, folder: Path, names: dict[str, str]) -> tuple[dynid.Log, Path]:
    """A log with dynid's own names, and a file of it with others."""
    own = dynid.read_log(make_log(Path(str(robot.source)), folder / "own.parquet", 3), robot)
    raw = own.read(own.trajectories[0])
    columns = {
        f"{said}_{j + 1}": values[:, j]
        for said, values in zip(
            names, (raw.q, raw.q + 0.01 if "joint_target_position" in names else raw.tau), strict=True
        )
        for j in range(2)
    }
    return own, write_log(folder / "foreign.parquet", raw.t, columns)


def test_names_that_say_all_need_no_mapping(robot: RobotModel, tmp_path: Path) -> None:
    own, path = renamed(robot, tmp_path, {"joint_position": "q", "joint_torque": "tau"})
    found = dynid.read_log(path, robot)
    assert [one.identifier for one in found.remarks] == ["columns-found"]
    mine, theirs = own.read(own.trajectories[0]), found.read(found.trajectories[0])
    np.testing.assert_array_equal(theirs.q, mine.q)
    np.testing.assert_array_equal(theirs.tau, mine.tau)


def test_what_names_leave_open_is_answered(robot: RobotModel, tmp_path: Path) -> None:
    own, path = renamed(robot, tmp_path, {"joint_position": "q", "motor_current": "tau"})
    with pytest.raises(
        InputError,
        match=r"column names: log\.effort\.unit.*currents and raw values also need robot\.drive_gain",
    ) as open_:
        dynid.read_log(path, robot)
    # Both are answered at once.
    assert "--answer 'robot.drive_gain=...'" in str(open_.value)
    found = dynid.read_log(path, robot, answers={"log.effort.unit": "N m"})
    raw, wanted = found.read(found.trajectories[0]), own.read(own.trajectories[0])
    np.testing.assert_array_equal(raw.tau, wanted.tau)
    # A mapping is taken as it is.
    mapping = {
        "time": {"column": "stamp", "unit": "s"},
        "position": {"columns": "q{number}", "unit": "rad"},
    }
    with pytest.raises(InputError, match="missing-column"):
        dynid.read_log(path, robot, mapping)


def test_a_table_without_names_is_read_where_its_numbers_say_all(robot: RobotModel, tmp_path: Path) -> None:
    own, _ = renamed(robot, tmp_path, {"joint_position": "q", "joint_torque": "tau"})
    raw = own.read(own.trajectories[0])
    dq = np.gradient(raw.q, raw.t, axis=0)
    np.savetxt(tmp_path / "log.txt", np.column_stack([raw.q, dq, raw.tau]))
    found = dynid.read_log(tmp_path / "log.txt", robot)
    assert "columns-found" in [one.identifier for one in found.remarks]
    theirs = found.read(found.trajectories[0])
    np.testing.assert_allclose(theirs.q, raw.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(theirs.tau, raw.tau, rtol=0, atol=1e-12)
    # Without a velocity nothing says how often rows come.
    np.savetxt(tmp_path / "log.txt", np.column_stack([raw.q, raw.tau]))
    with pytest.raises(InputError, match="not determined by the column names"):
        dynid.read_log(tmp_path / "log.txt", robot)


def test_gains_of_drives_take_an_experiment(robot: RobotModel, tmp_path: Path) -> None:
    _, path = renamed(robot, tmp_path, {"joint_position": "q", "motor_current": "tau"})
    with pytest.raises(InputError, match=r"no-mapping.*drive gains.*dynid init"):
        dynid.read_log(path, robot, answers={"log.effort.unit": "A", "robot.drive_gain": "7, 7"})


def test_gains_that_nobody_knows_are_left_to_the_identification(robot: RobotModel, tmp_path: Path) -> None:
    _, path = renamed(robot, tmp_path, {"joint_position": "q", "joint_target_position": "tau"})
    found = dynid.read_log(path, robot, answers={"log.order": "base-to-tip"})
    assert found.mapping.command_position["elbow"].column == "joint_target_position_2"
    assert "commanded position joint_target_position_1 ..." in found.remarks[0].text


def commanded(robot: RobotModel, folder: Path, name: str, order: tuple[int, int]) -> Path:
    """Measured positions by the joints' names, and what they follow a little late, in columns of some name."""
    own = dynid.read_log(make_log(Path(str(robot.source)), folder / "own.parquet", 3), robot)
    raw = own.read(own.trajectories[0])
    wanted = np.roll(raw.q, -3, axis=0) + 0.01
    columns = {f"{joint}_pos": raw.q[:, j] for j, joint in enumerate(robot.joint_names)}
    columns |= {
        name.format(joint=joint, number=j + 1): wanted[:, order[j]]
        for j, joint in enumerate(robot.joint_names)
    }
    return write_log(folder / "servo.parquet", raw.t, columns)


@pytest.mark.parametrize(
    "name",
    [
        "{joint}_cmd",
        "{joint}_target",
        "{joint}_goal",
        "cmd_{number}",
        "target_pos_{number}",
        "action_{number}",
    ],
)
def test_commands_that_joints_follow_are_commanded_positions(
    robot: RobotModel, tmp_path: Path, name: str
) -> None:
    found = dynid.read_log(commanded(robot, tmp_path, name, (0, 1)), robot)
    assert found.mapping.commanded
    for j, joint in enumerate(robot.joint_names):
        assert found.mapping.command_position[joint].column == name.format(joint=joint, number=j + 1)


def test_commands_that_other_joints_follow_are_asked_for(robot: RobotModel, tmp_path: Path) -> None:
    for name in ("{joint}_cmd", "cmd_{number}"):
        with pytest.raises(InputError, match="which columns are the effort"):
            dynid.read_log(commanded(robot, tmp_path, name, (1, 0)), robot)


def test_a_word_in_a_column_of_numbers_is_named(robot: RobotModel, tmp_path: Path) -> None:
    _, path = renamed(robot, tmp_path, {"joint_position": "q", "joint_torque": "tau"})
    table = pq.read_table(path)
    lines = [",".join(table.column_names), *(",".join(map(str, row.values())) for row in table.to_pylist())]
    cells = lines[58].split(",")
    cells[1] = "abc"
    lines[58] = ",".join(cells)
    text = tmp_path / "foreign.csv"
    text.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=rf"text-cell.*row 57.*'{table.column_names[1]}' = 'abc'"):
        dynid.read_log(text, robot)


def by_joint(robot: RobotModel) -> dict[str, list[str]]:
    """Cells by column of a log whose columns name the joints."""
    t = 0.01 * np.arange(2000.0)
    columns = {"time [s]": t}
    for k, said in enumerate(("angle [rad]", "torque [Nm]")):
        columns |= {f"{n} {said}": np.sin((1.0 + j + k) * t) for j, n in enumerate(robot.joint_names)}
    return {name: [repr(float(x)) for x in values] for name, values in columns.items()}


def written(columns: dict[str, list[str]], path: Path) -> Path:
    rows = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("joints", [2, 3])
@pytest.mark.parametrize("signal", ["angle [rad]", "torque [Nm]"])
@pytest.mark.parametrize("row", [3, 1500])
def test_a_word_in_one_column_of_a_group_leaves_no_joint_without_its_signal(
    tmp_path: Path, joints: int, signal: str, row: int
) -> None:
    """Columns that name the joints are a group without it, and the joint would be held."""
    robot = random_robot(21, joints, 0.0)
    columns = by_joint(robot)
    column = f"{robot.joint_names[1]} {signal}"
    columns[column][row] = "n.a."
    text = written(columns, tmp_path / "foreign.csv")
    expected = rf"text-cell.*row {row}.*'{re.escape(column)}' = 'n\.a\.'"
    for call in (lambda: dynid.read_log(text, robot), lambda: propose_logs(robot, [text])):
        with pytest.raises(InputError, match=expected):
            call()


def test_a_word_in_a_column_that_is_no_signal_is_no_fault(tmp_path: Path) -> None:
    robot = random_robot(21, 3, 0.0)
    columns = by_joint(robot)
    plain = propose_logs(robot, [written(columns, tmp_path / "plain.csv")]).groups
    columns |= {f"{joint} error code": ["0"] * len(columns["time [s]"]) for joint in robot.joint_names}
    columns[f"{robot.joint_names[1]} error code"][40] = "E12"
    found = propose_logs(robot, [written(columns, tmp_path / "foreign.csv")]).groups
    assert {kind: one.columns for kind, one in found.items()} == {k: one.columns for k, one in plain.items()}


def test_the_questions_that_are_left_are_named_beside_those_answered(
    robot: RobotModel, tmp_path: Path
) -> None:
    _, path = renamed(robot, tmp_path, {"alpha": "q", "beta": "tau"})
    with pytest.raises(InputError) as caught:
        dynid.read_log(path, robot, answers={"log.effort.columns": "none"})
    error = caught.value
    assert error.found.startswith("answers to log.effort.columns; ")
    assert error.expected == "also answers to log.position.columns"
    assert "(--answer 'log.position.columns=alpha_{number}|" in error.found
