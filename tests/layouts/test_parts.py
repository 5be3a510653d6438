"""A file for each joint, or for each signal, given one by one: parts of one recording, unlike recordings of a robot."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from importlib.resources import files as files_of
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import read_log
from dynid.base import Float, InputError
from dynid.layouts import experiment_text, propose_logs
from dynid.layouts.names import families
from dynid.log import Series, may_be_parts, recordings
from tests.command_line import Run
from tests.layouts.test_strangers import ARM, DEG, TURN, csv

JOINTS = ARM.robot.joint_names
# Each file begins and ends at another row.
LATE = 3


def by_joint(
    folder: Path,
    called: Callable[[int], str],
    names: tuple[str, str, str, str] = ("time", "pos", "vel", "torque"),
) -> list[Path]:
    """A file for each joint; "#" in a name is the joint's number."""
    files = []
    for k in range(ARM.robot.n):
        own = slice(LATE * k, len(ARM.t) - 2 * LATE * k)
        columns = dict(zip(names, (ARM.t[own], ARM.q[own, k], ARM.dq[own, k], ARM.tau[own, k]), strict=True))
        path = folder / f"{called(k)}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        files.append(csv(path, {name.replace("#", str(k + 1)): one for name, one in columns.items()}))
    return files


def reads_all(paths: list[Path] | Path, **given: object) -> None:
    log = read_log(paths, ARM.robot, **given)  # type: ignore[arg-type]
    (one,) = log.trajectories
    raw = log.read(one)
    last = LATE * (ARM.robot.n - 1)
    own = slice(last, len(ARM.t) - 2 * last)
    for seen, true in ((raw.t, ARM.t), (raw.q, ARM.q), (raw.dq, ARM.dq), (raw.tau, ARM.tau)):
        assert seen is not None
        assert_allclose(seen, true[own], atol=1e-9)


@pytest.mark.parametrize(
    ("called", "names"),
    [
        (lambda k: f"servo_{k + 1}", ("time", "pos", "vel", "torque")),
        (lambda k: JOINTS[k], ("t", "q#", "dq#", "tau#")),
        (lambda k: f"drive{k}/log", ("stamp", "position", "velocity", "effort")),
    ],
    ids=["a number", "names of joints and columns with numbers", "folders"],
)
def test_a_file_for_each_joint(
    called: Callable[[int], str], names: tuple[str, str, str, str], tmp_path: Path
) -> None:
    reads_all(by_joint(tmp_path, called, names))


def test_files_of_joints_without_names_of_columns(tmp_path: Path) -> None:
    files = by_joint(tmp_path, lambda k: f"joint{k + 1}")
    for file in files:
        file.write_text(file.read_text().partition("\n")[2])
    reads_all(files)


def test_a_folder_of_files_of_joints_whose_clocks_differ(tmp_path: Path) -> None:
    by_joint(tmp_path, lambda k: f"joint{k + 1}")
    reads_all(tmp_path)


def test_a_folder_asks_and_names_what_its_files_do(tmp_path: Path) -> None:
    files = by_joint(tmp_path, lambda k: f"joint{k + 1}", ("time", "pos", "x", "y"))
    of_files, of_folder = propose_logs(ARM.robot, files), propose_logs(ARM.robot, [tmp_path])
    assert (
        [(one.key, one.value) for one in of_files.open]
        == [(one.key, one.value) for one in of_folder.open]
        != []
    )
    answers = {"log.effort.columns": ", ".join(f"joint{k + 1}/y" for k in range(ARM.robot.n))}
    for logs in (files, [tmp_path]):
        assert list(propose_logs(ARM.robot, logs, answers).groups["effort"].columns) == list(JOINTS)


def test_dynids_own_names_in_a_file_for_each_joint(tmp_path: Path) -> None:
    files = []
    for k, joint in enumerate(JOINTS):
        names = (f"q_{joint}", f"dq_{joint}", f"tau_{joint}")
        values = (ARM.q[:, k], ARM.dq[:, k], ARM.tau[:, k])
        own = slice(LATE * k, len(ARM.t) - 2 * LATE * k)
        columns = {"t": ARM.t[own]} | {name: one[own] for name, one in zip(names, values, strict=True)}
        files.append(csv(tmp_path / f"{joint}.csv", columns))
    reads_all(files)


def test_an_experiment_of_a_file_for_each_joint_reads_others_of_these_names(tmp_path: Path) -> None:
    found = propose_logs(ARM.robot, by_joint(tmp_path / "a", lambda k: f"joint{k + 1}"))
    table = tomllib.loads(experiment_text(found, "dynid init"))["log"]
    first = by_joint(tmp_path / "b", lambda k: f"joint{k + 1}")
    reads_all(first, mapping=table)
    second = by_joint(tmp_path / "c", lambda k: f"joint{k + 1}")
    assert len(read_log([*first, *second], ARM.robot, table).trajectories) == 2


def test_values_between_stamps_lie_on_straight_lines(tmp_path: Path) -> None:
    files = []
    for k in range(ARM.robot.n):
        t = ARM.t + 2e-3 * k
        moved: list[Float] = [np.interp(t, ARM.t, one[:, k]) for one in (ARM.q, ARM.tau)]
        files.append(csv(tmp_path / f"m{k}.csv", {"t": t, "pos": moved[0], "trq": moved[1]}))
    log = read_log(files, ARM.robot)
    raw = log.read(log.trajectories[0])
    expected = np.stack([np.interp(raw.t[:-1], ARM.t, one) for one in ARM.q.T], axis=1)
    assert_allclose(raw.q[:-1], expected, atol=2e-4)  # of 2 ms, two lines in a row


def test_positions_in_one_file_and_efforts_in_another(tmp_path: Path) -> None:
    files = [
        csv(tmp_path / f"{name}.csv", {"time": ARM.t} | {f"{name}{k}": one for k, one in enumerate(values.T)})
        for name, values in (("q", ARM.q), ("tau", ARM.tau))
    ]
    log = read_log(files, ARM.robot)
    assert_allclose(log.read(log.trajectories[0]).tau, ARM.tau, atol=1e-9)


def test_a_folder_of_files_of_signals_whose_clocks_differ(tmp_path: Path) -> None:
    for k, (name, values) in enumerate((("q", ARM.q), ("dq", ARM.dq), ("tau", ARM.tau))):
        own = slice(LATE * k, None)
        table = np.column_stack([ARM.t, values])[own]
        np.savetxt(tmp_path / f"{name}.txt", table, fmt="%.12g")
    log = read_log(tmp_path, ARM.robot)
    assert_allclose(log.read(log.trajectories[0]).tau, ARM.tau[2 * LATE :], atol=1e-9)


def test_recordings_of_one_robot_stay_apart(tmp_path: Path, run: Run) -> None:
    files = []
    for k, rows in enumerate((slice(0, 900), slice(900, 2000))):
        columns = {f"q{j}": one[rows] for j, one in enumerate(ARM.q.T)}
        columns |= {f"tau{j}": one[rows] for j, one in enumerate(ARM.tau.T)}
        files.append(csv(tmp_path / f"joint{k}.csv", {"time": ARM.t[rows], **columns}))
    assert len(read_log(files, ARM.robot).trajectories) == 2
    refused = run("init", files_of("dynid.data") / "ur5e.toml", *files, "--out", tmp_path / "experiment.toml")
    assert refused.code == 2
    assert "2 logs" in refused.err


def test_a_joint_without_letters_in_its_name_has_no_columns_by_name() -> None:
    (one,) = families(["q_0", "q_1"], ("_", "-"), ())
    assert (one.named, one.columns) == (False, ("q_0", "q_1"))


def test_files_of_folders_with_one_name_are_all_kept() -> None:
    files = [Path(day, "servo", "log.csv") for day in ("monday", "tuesday")]
    assert recordings(files) == [{"log": file} for file in files]


def test_recordings_of_one_joint_are_no_joints(tmp_path: Path) -> None:
    files = by_joint(tmp_path, lambda k: f"run{k + 1}")
    with pytest.raises(
        InputError,
        match=r"(?s)run1\.csv: found columns time, pos, vel, torque.*name the files accordingly: joint1",
    ):
        read_log(files, ARM.robot)
    assert not may_be_parts([f"2023-05-0{k}" for k in range(1, 7)])
    assert may_be_parts([f"2023-05-01_joint{k}" for k in range(1, 7)])


def test_logs_of_vesc_tool_leave_open_what_an_ampere_is_worth(tmp_path: Path) -> None:
    files = []
    for k in range(ARM.robot.n):
        current = ARM.tau[:, k] / 12
        columns = {
            "ms_today": np.round(1e3 * ARM.t) + 36_000_000, "input_voltage": 48 - 0.02 * np.abs(current),
            "current_motor": current, "current_in": 0.2 * current, "d_axis_current": 0.01 * ARM.dq[:, k],
            "q_axis_current": current, "erpm": 400 * ARM.dq[:, k], "tachometer": np.round(7 * ARM.q[:, k]),
            "tachometer_abs": np.arange(len(ARM.t)), "encoder_position": ARM.q[:, k] * DEG % 360,
            "vesc_id": np.full(len(ARM.t), k), "": [""] * len(ARM.t),
        }  # fmt: skip
        files.append(csv(tmp_path / f"vesc_{k + 1}.csv", columns, ";"))
    found = propose_logs(ARM.robot, files)
    assert [one.key for one in found.open] == ["robot.drive_gain"]
    assert found["log.position.columns"].value == "vesc_{number}/encoder_position"
    assert found["log.effort.columns"].value == "vesc_{number}/q_axis_current"
    assert found["log.position.unit"].value == "deg"


def test_steps_of_a_tachometer_are_no_degrees(tmp_path: Path) -> None:
    files = []
    for k in range(ARM.robot.n):
        columns = {"ms_today": 1e3 * ARM.t, "q_axis_current": ARM.tau[:, k] / 12}
        columns |= {"tachometer": np.round(42 * ARM.q[:, k] * TURN), "encoder_position": np.zeros(len(ARM.t))}
        files.append(csv(tmp_path / f"drive{k}.csv", columns, ";"))
    found = propose_logs(ARM.robot, files)
    assert found["log.position.columns"].value == "drive{index}/tachometer"
    unit = found["log.position.unit"]
    assert unit.value is None
    assert "sixth of an electrical turn" in unit.question
    assert [one.value for one in unit.options][:2] == ["1/4096 turn", "0.01 deg"]


def test_an_angle_that_begins_a_new_turn_is_not_passed_through() -> None:
    turning = Series(np.arange(6.0), np.array([340.0, 350.0, 359.0, 2.0, 12.0, 20.0]))
    assert_allclose(turning.at(np.array([0.5, 2.4, 2.6, 3.5])), [345.0, 359.0, 2.0, 7.0])
