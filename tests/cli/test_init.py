"""dynid init as a new user calls it: two commands, no editing, the right mapping, or a clear question."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import dynid
from dynid.base import Float
from dynid.log import write_log
from dynid.robot import load_robot
from tests.command_line import Run, make_log
from tests.export.models import shipped
from tests.log import formats
from tests.log.bags import states, write_bag

UR_TRAIN = "id/ur-20_02_12-40sec_12harm"
Make = Callable[[Path, Path], tuple[Path, Path]]


def rows(data_dir: Path, folder: str, trajectory: str | None) -> pa.Table:
    table = pq.read_table(data_dir / folder / "data.parquet")
    return table if trajectory is None else table.filter(pa.compute.equal(table["traj"], trajectory))


def block(table: pa.Table, name: str, n: int) -> Float:
    return np.stack([table[f"{name}{k + 1}"].to_numpy() for k in range(n)], axis=1)


def rtde(data_dir: Path, folder: Path) -> tuple[Path, Path]:
    """A UR10e as the RTDE recorder writes it: blanks between columns, names from 0, wall clock."""
    table = rows(data_dir, "ur10e_innopolis", UR_TRAIN)
    names = {
        "actual_q": "q",
        "actual_qd": "dq",
        "actual_current": "i",
        "target_current": "i_des",
        "target_moment": "tau_model",
    }
    columns = {"timestamp": table["t"].to_numpy() + 1.5e9}
    for written, name in names.items():
        columns |= {f"{written}_{k}": column for k, column in enumerate(block(table, name, 6).T)}
    file = folder / "robot_data.csv"
    with file.open("w", newline="") as text:
        writer = csv.writer(text, delimiter=" ")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return data_dir / "ur10e_innopolis" / "robot.urdf", file


def airbot(data_dir: Path, folder: Path) -> tuple[Path, Path]:
    """An AIRBOT log as a table, with its URDF as it is published."""
    table = rows(data_dir, "airbot_play", "chirp").drop_columns(["traj"])
    pacsv.write_csv(table, folder / "airbot.csv")
    return data_dir / "airbot_play" / "robot.urdf", folder / "airbot.csv"


def panda_bag(data_dir: Path, folder: Path) -> tuple[Path, Path]:
    """A Panda's joint states in a bag, with the URDF that everyone has: its fingers are not in the log."""
    pytest.importorskip("rosbags")
    table = rows(data_dir, "panda_gaz", None)
    t = table["t"].to_numpy()
    names = [f"panda_joint{k}" for k in range(1, 8)]
    bag = write_bag(
        folder / "panda", states(t, names, *(block(table, name, 7) for name in ("q", "dq", "tau")))
    )
    return shipped("panda_description/urdf/panda.urdf"), bag


def panda_mat(data_dir: Path, folder: Path) -> tuple[Path, Path]:
    """The same motion as a MATLAB file, as programs on libfranka leave it: seven columns for eight joints."""
    table = rows(data_dir, "panda_gaz", None)
    arrays = {"time": table["t"].to_numpy()} | {
        name: block(table, column, 7) for name, column in (("q", "q"), ("dq", "dq"), ("tau_J", "tau"))
    }
    return shipped("panda_description/urdf/panda.urdf"), formats.mat(folder / "panda.mat", arrays)


def lerobot(robot_file: Path, folder: Path, scale: Float | float = 180 / np.pi) -> tuple[Path, Path]:
    """A data set of a two-joint arm, in degrees or other units per rad, with efforts and actions beside its state."""
    table = pq.read_table(make_log(robot_file, folder / "made.parquet", 3))
    q, tau = (
        np.stack([table[f"{x}_{j}"].to_numpy() for j in ("shoulder", "elbow")], axis=1) for x in ("q", "tau")
    )
    arrays = {
        "observation.state": scale * q, "action": scale * np.roll(q, -5, axis=0), "observation.effort": tau,
        "timestamp": table["t"].to_numpy(),
    }  # fmt: skip
    path = formats.lerobot(folder / "set", arrays, ("shoulder.pos", "elbow.pos"), [len(q)], "v3.0")
    about = json.loads((path / "meta" / "info.json").read_text())
    about["features"]["observation.effort"]["names"] = {"motors": ["shoulder.effort", "elbow.effort"]}
    (path / "meta" / "info.json").write_text(json.dumps(about))
    return robot_file, path


def written(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("make", "time", "position", "velocity", "effort", "gains"),
    [
        (
            rtde,
            ("timestamp", "s"),
            ("actual_q_0", "rad"),
            ("actual_qd_0", "rad/s"),
            ("actual_current_0", "A"),
            True,
        ),
        (airbot, ("t", "s"), ("q{number}", "rad"), None, ("tau{number}", "N m"), False),
    ],
)
def test_two_commands_and_no_editing(
    make: Make, time: tuple[str, str], position: tuple[str, str], velocity: tuple[str, str] | None,
    effort: tuple[str, str], gains: bool, data_dir: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    robot, log = make(data_dir, tmp_path)
    monkeypatch.chdir(tmp_path)
    done = run("init", robot, log, "--no-ask")
    assert done.code == 0, done.err
    assert "question" not in done.out
    said = written(tmp_path / "experiment.toml")
    assert said["log"]["time"] == {"column": time[0], "unit": time[1]}
    for name, wanted in (("position", position), ("velocity", velocity), ("effort", effort)):
        entry = said["log"].get(name)
        if wanted is None:
            assert entry is None
            continue
        columns = entry["columns"]
        assert (
            columns if isinstance(columns, str) else next(iter(columns.values())),
            entry["unit"],
        ) == wanted
    assert ("robot" in said) == gains
    # The file is one that the other commands take as it is.
    done = run("check", robot, log, "-c", "experiment.toml", "--no-fit")
    assert done.code == 0, done.err
    # Without the file they take the same, and say so.
    alone = run("check", robot, log, "--no-fit")
    assert (alone.code, alone.out) == (0, done.out), alone.err
    assert "columns detected from their names and the motion: time" in alone.err


def test_a_source_is_named_once(robot_file: Path, tmp_path: Path, run: Run) -> None:
    log = make_log(robot_file, tmp_path / "log.csv", 1, seconds=4.0)
    header, *rows = log.read_text().splitlines()
    names = ("timestamp", "actual_q_0", "actual_q_1", "actual_current_0", "actual_current_1")
    assert len(header.split(",")) == len(names)
    log.write_text("\n".join([",".join(names), *rows]))
    done = run("init", robot_file, log, "--no-ask", "--out", tmp_path / "e.toml")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    # Positions and currents are of the same pages, the current of one more.
    assert said.count("rtde/csv_writer.py") == 2
    assert said.count("dataset_ur10e") == 1
    assert "numbered from 0; Universal Robots, RTDE recording, as above" in said


@pytest.mark.slow
@pytest.mark.parametrize("make", [rtde, airbot, panda_bag, panda_mat])
def test_the_second_command_identifies(
    make: Make, data_dir: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, log = make(data_dir, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("init", robot, log, "--no-ask").code == 0
    done = run("identify", robot, log, "--config", "experiment.toml", "--out", "run")
    assert done.code == 0, done.err
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_bag_of_a_panda_is_read_as_its_driver_writes_it(data_dir: Path, tmp_path: Path, run: Run) -> None:
    robot, log = panda_bag(data_dir, tmp_path)
    done = run("init", robot, log, "--out", tmp_path / "panda.toml", "--no-ask")
    assert done.code == 0, done.err
    said = written(tmp_path / "panda.toml")["log"]
    assert said["position"]["unit"] == "rad"
    assert said["effort"]["unit"] == "N m"
    assert said["effort"]["side"] == "link"
    assert (
        "tau_J" in (tmp_path / "panda.toml").read_text() or "franka" in (tmp_path / "panda.toml").read_text()
    )
    assert "panda_finger_joint1 0" in done.out
    assert written(tmp_path / "panda.toml")["robot"]["lock"] == {"panda_finger_joint1": 0.0}
    done = run("check", robot, log, "-c", tmp_path / "panda.toml", "--no-fit")
    assert done.code == 0, done.err


def test_a_matlab_file_of_a_panda(data_dir: Path, tmp_path: Path, run: Run) -> None:
    robot, log = panda_mat(data_dir, tmp_path)
    done = run("init", robot, log, "--out", tmp_path / "panda.toml", "--no-ask")
    assert done.code == 0, done.err
    assert "question" not in done.out
    said = written(tmp_path / "panda.toml")
    assert said["log"]["time"] == {"column": "time", "unit": "s"}
    for name, column, unit in (
        ("position", "q", "rad"),
        ("velocity", "dq", "rad/s"),
        ("effort", "tau_J", "N m"),
    ):
        assert said["log"][name]["columns"] == {f"panda_joint{k + 1}": f"{column}[{k}]" for k in range(7)}
        assert said["log"][name]["unit"] == unit
    assert said["robot"]["lock"] == {"panda_finger_joint1": 0.0}
    done = run("check", robot, log, "-c", tmp_path / "panda.toml", "--no-fit")
    assert done.code == 0, done.err


def test_a_data_set_of_lerobot_in_degrees(robot_file: Path, tmp_path: Path, run: Run) -> None:
    robot, log = lerobot(robot_file, tmp_path)
    # Nothing in the log tells degrees from percent of the motors' ranges: they are asked for.
    done = run("init", robot, log, "--out", tmp_path / "e.toml", "--no-ask")
    assert done.code == 0, done.err
    assert "2 open questions" in done.out
    assert "deg or % of each motor's range" in done.out
    answer = ("--answer", "log.position.unit=deg", "--force")
    done = run("init", robot, log, "--out", tmp_path / "e.toml", "--no-ask", *answer)
    assert done.code == 0, done.err
    assert "question" not in done.out
    said = written(tmp_path / "e.toml")["log"]
    assert said["time"] == {"column": "timestamp", "unit": "s"}
    assert said["trajectory"] == "episode_index"
    assert said["position"] == {"columns": "observation.state[{joint}.pos]", "unit": "deg"}
    assert said["effort"] == {"columns": "observation.effort[{joint}.effort]", "unit": "N m"}
    done = run("identify", robot, log, "-c", tmp_path / "e.toml", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert dynid.load(tmp_path / "run").training.scores.total_relative < 0.05


def test_a_data_set_of_lerobot_in_percent(robot_file: Path, tmp_path: Path, run: Run) -> None:
    motors = {
        "shoulder": {"id": 1, "drive_mode": 0, "homing_offset": 7, "range_min": 600, "range_max": 3600},
        "elbow": {"id": 2, "drive_mode": 1, "homing_offset": 0, "range_min": 900, "range_max": 3100},
    }
    file = tmp_path / "follower.json"
    file.write_text(json.dumps(motors))
    # Percent per rad of each joint: half the range is 100.
    scale = np.array([1, -1]) * 200 * 4096 / (2 * np.pi * np.array([3000, 2200]))
    robot, log = lerobot(robot_file, tmp_path, scale)
    call = ("init", robot, log, "--out", tmp_path / "e.toml", "--no-ask", "--answer", "log.position.unit=%")
    done = run(*call)
    assert done.code == 0, done.err
    assert "lerobot-calibrate" in done.out
    done = run("identify", robot, log, "-c", tmp_path / "e.toml", "--out", tmp_path / "run")
    assert done.code == 3
    assert "LeRobot calibration file" in done.err
    done = run(*call, "--force", "--answer", f"log.position.calibration={file}")
    assert done.code == 0, done.err
    assert "question" not in done.out
    done = run("identify", robot, log, "-c", tmp_path / "e.toml", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert dynid.load(tmp_path / "run").training.scores.total_relative < 0.05
    # What the run was made with stays with it.
    file.unlink()
    done = run("export", tmp_path / "run", "--to", tmp_path / "again.json", "--format", "lerobot")
    assert done.code == 0, done.err
    assert "calibration-same" in done.err
    assert json.loads((tmp_path / "again.json").read_text()) == motors


def test_a_question_is_written_and_answered(robot_file: Path, tmp_path: Path, run: Run) -> None:
    log = small_log(robot_file, tmp_path, gain=7.0)
    file = tmp_path / "experiment.toml"
    done = run("init", robot_file, log, "--out", file, "--no-ask")
    assert done.code == 0
    assert "1 open question" in done.out
    assert "--answer 'log.effort.unit=" in done.out
    # The question that a current leads to is named at once.
    assert "--answer 'robot.drive_gain=" in done.out
    text = file.read_text()
    assert "# QUESTION: which unit does the effort have?" in text
    assert '\n# effort = { columns = "effort_{joint}", unit = "unknown" }' in text
    # Left as it is, identify asks for what is missing.
    done = run("identify", robot_file, log, "--config", file, "--out", tmp_path / "run")
    assert done.code == 3
    assert "which unit does the effort have?" in done.err
    assert file.name in done.err
    # Answered, the next thing is asked: what a current is worth.
    again = ("init", robot_file, log, "--out", file, "--no-ask", "--force", "--answer", "log.effort.unit=A")
    done = run(*again)
    assert "robot.drive_gain" in done.out
    assert "drive_gain = { shoulder = 7" not in file.read_text()
    done = run(*again, "--answer", "robot.drive_gain=7, 7")
    assert "open question" not in done.out
    assert written(file)["robot"]["drive_gain"] == {"shoulder": 7.0, "elbow": 7.0}
    assert run("check", robot_file, log, "-c", file, "--no-fit").code == 0


def test_a_question_that_is_left_open_is_asked_again_where_it_stands(
    robot_file: Path, tmp_path: Path, run: Run
) -> None:
    table = pq.read_table(make_log(robot_file, tmp_path / "made.parquet", 3))
    names = {"q_shoulder": "pos_0", "q_elbow": "pos_1", "tau_shoulder": "x_0", "tau_elbow": "x_1"}
    columns = {new: table[old].to_numpy() for old, new in names.items()}
    log = write_log(tmp_path / "log.parquet", table["t"].to_numpy(), columns)
    file = tmp_path / "experiment.toml"
    first = ("init", robot_file, log, "--out", file, "--no-ask")
    (offered,) = (line.strip() for line in run(*first).out.splitlines() if "--answer 'log.order=" in line)

    def identify() -> str:
        done = run("identify", robot_file, log, "-c", file, "--out", tmp_path / "run")
        assert done.code == 3
        assert done.err.count("error[open-question]") == done.err.count("error[")
        for line in done.err.splitlines():
            if line.startswith("error["):
                number = int(line.split(f"{file.name}:")[1].split(":")[0])
                shown = file.read_text().splitlines()[number - 1]
                assert shown.startswith(line.split(" in ")[1].split(",")[0])
                assert '"?"' in shown or '"unknown"' in shown
        return done.err

    said = identify()
    assert "which number is which joint?" in said
    assert f"--force {offered}" in said
    assert 'columns = { shoulder = "COLUMN", elbow = "COLUMN" }' in said
    # With the signs of comments taken away, every entry asks its own question.
    file.write_text(file.read_text().replace("# effort =", "effort ="))
    said = identify()
    assert "which columns are the effort?" in said
    assert "unit = N m" in said
    # Answered where the message says, the file is read.
    text = file.read_text().splitlines()
    for name, start, unit in (("position", "pos", "rad"), ("effort", "x", "N m")):
        (at,) = (k for k, line in enumerate(text) if line.startswith(f"{name} ="))
        table_ = f'columns = {{ shoulder = "{start}_0", elbow = "{start}_1" }}'
        text[at] = f'{name} = {{ {table_}, unit = "{unit}" }}'
    file.write_text("\n".join(text) + "\n")
    assert run("check", robot_file, log, "-c", file, "--no-fit").code == 0


def small_log(robot_file: Path, folder: Path, gain: float) -> Path:
    """A log whose efforts are torques over a gain, which no name says."""
    table = pq.read_table(make_log(robot_file, folder / "made.parquet", 3))
    columns = {
        name.replace("tau_", "effort_"): table[name].to_numpy() for name in table.column_names if name != "t"
    }
    columns = {name: value / gain if "effort" in name else value for name, value in columns.items()}
    return write_log(folder / "log.parquet", table["t"].to_numpy(), columns)


def test_answers_are_typed_on_a_terminal(
    robot_file: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small_log(robot_file, tmp_path, gain=7.0)
    typed = iter(["volt", "a", "1 2 3", "7 7"])
    monkeypatch.setattr("builtins.input", lambda _prompt: next(typed))
    done = run("init", robot_file, log, "--out", tmp_path / "e.toml", "--ask")
    assert done.code == 0
    assert "one of 'N m', 'mN m', 'N cm', 'kN m', 'A'" in done.out
    assert "this answer does not apply" in done.out
    said = written(tmp_path / "e.toml")
    assert said["log"]["effort"]["unit"] == "A"
    assert said["robot"]["drive_gain"] == {"shoulder": 7.0, "elbow": 7.0}


def test_a_question_may_be_left_open(
    robot_file: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small_log(robot_file, tmp_path, gain=7.0)
    monkeypatch.setattr("builtins.input", lambda _prompt: "")
    done = run("init", robot_file, log, "--out", tmp_path / "e.toml", "--ask")
    assert "1 open question" in done.out


def test_torques_in_si_need_no_question(robot_file: Path, train_log: Path, tmp_path: Path, run: Run) -> None:
    done = run("init", robot_file, train_log, "--out", tmp_path / "e.toml")
    assert done.code == 0
    said = written(tmp_path / "e.toml")["log"]
    assert said["position"] == {"columns": "q_{joint}", "unit": "rad"}
    assert said["effort"] == {"columns": "tau_{joint}", "unit": "N m"}


def test_a_preset_of_ones_own(robot_file: Path, train_log: Path, tmp_path: Path, run: Run) -> None:
    table = pq.read_table(train_log)
    robot = load_robot(robot_file)
    columns = {f"enc{k}": table[f"q_{j}"].to_numpy() for k, j in enumerate(robot.joint_names)}
    columns |= {f"trq{k}": table[f"tau_{j}"].to_numpy() for k, j in enumerate(robot.joint_names)}
    log = write_log(tmp_path / "own.parquet", table["t"].to_numpy(), columns)
    preset = tmp_path / "mine.toml"
    preset.write_text(
        'name = "mine"\ntitle = "my recorder"\norder = "base-to-tip"\norder_source = "m"\n'
        '[[source]]\nid = "m"\nwhere = "its manual"\nversion = "1.0"\nsays = "enc: angles in rad"\n'
        '[[channel]]\ncolumns = "enc{index}"\nquantity = "position"\nunit = "rad"\nsource = "m"\n'
    )
    done = run("init", robot_file, log, "--out", tmp_path / "e.toml", "--preset", preset)
    assert done.code == 0
    assert "its manual (1.0)" in done.out
    said = written(tmp_path / "e.toml")["log"]
    assert said["position"]["columns"] == {"shoulder": "enc0", "elbow": "enc1"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--answer", "log.effort.unit"), "KEY=VALUE"),
        (("--answer", "log.effort.unit=volt", "--force"), "one of 'N m'"),
        (("--answer", "log.efort.unit=A"), "expected 'log.effort.unit'"),
        (("--answer", "colour=red"), "'colour', which is not a question"),
    ],
)
def test_wrong_answers_are_told(
    more: tuple[str, ...], says: str, robot_file: Path, tmp_path: Path, run: Run
) -> None:
    log = small_log(robot_file, tmp_path, gain=7.0)
    done = run("init", robot_file, log, "--out", tmp_path / "e.toml", "--no-ask", *more)
    assert done.code == 2
    assert says in done.err
    assert not (tmp_path / "e.toml").exists()


def test_nothing_is_overwritten(robot_file: Path, train_log: Path, tmp_path: Path, run: Run) -> None:
    file = tmp_path / "e.toml"
    file.write_text("mine")
    assert run("init", robot_file, train_log, "--out", file).code == 7
    assert file.read_text() == "mine"
    assert run("init", robot_file, train_log, "--out", file, "--force").code == 0


def test_one_part_of_a_recording_leads_to_the_others(robot_file: Path, tmp_path: Path, run: Run) -> None:
    robot = load_robot(robot_file)
    rng, (folder, n) = np.random.default_rng(5), (tmp_path / "parts", robot.n)
    folder.mkdir()
    for name in ("position", "effort"):
        with (folder / f"arm_{name}.csv").open("w", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(["t", *(f"- {joint}_{name}" for joint in robot.joint_names)])
            writer.writerows([k / 100, *rng.normal(size=n)] for k in range(300))
    position, out = folder / "arm_position.csv", tmp_path / "e.toml"
    one = run("init", robot_file, position, "--out", out)
    assert one.code == 0
    assert "same folder, same number of rows: arm_effort.csv" in one.out
    several = run("init", robot_file, position, folder / "arm_effort.csv", "--out", out, "--force")
    assert several.code == 0
    assert "arm_effort/- " in several.out
    together = run("init", robot_file, folder, "--out", out, "--force")
    assert together.code == 0
    assert "arm_effort/- " in together.out
    assert "beside it" not in together.out


def test_without_a_mapping_the_command_that_makes_one_is_named(
    robot_file: Path, tmp_path: Path, run: Run
) -> None:
    t = np.arange(100.0) / 100
    log = write_log(tmp_path / "log.parquet", t, {f"{x}{k}": np.sin(k * t) for x in "ab" for k in (1, 2)})
    for command in (
        ("identify", robot_file, log, "--out", tmp_path / "run"),
        ("check", robot_file, log),
    ):
        done = run(*command)
        assert done.code == 3
        assert "dynid init" in done.err
        assert str(log) in done.err


def test_one_command_where_nothing_is_left_to_ask(robot_file: Path, tmp_path: Path, run: Run) -> None:
    table = pq.read_table(make_log(robot_file, tmp_path / "made.parquet", 3))
    names = {
        f"{x}_{j}": f"{j}_{said}"
        for j in ("shoulder", "elbow")
        for x, said in (("q", "pos"), ("tau", "torque"))
    }
    columns = {new: table[old].to_numpy() for old, new in names.items()}
    log = write_log(tmp_path / "log.parquet", table["t"].to_numpy(), columns)
    file, with_file, without = tmp_path / "e.toml", tmp_path / "with", tmp_path / "without"
    assert run("init", robot_file, log, "--out", file, "--no-ask").code == 0
    assert run("identify", robot_file, log, "--config", file, "--out", with_file).code == 0
    done = run("identify", robot_file, log, "--out", without)
    assert done.code == 0, done.err
    assert "shoulder_torque" in done.err
    found, wanted = (pq.read_table(one / "parameters.parquet") for one in (without, with_file))
    assert str(found.to_pydict()) == str(wanted.to_pydict())
    # The run knows its columns: other logs of the recorder are read without a word.
    assert run("validate", without, log).code == 0


def test_what_is_left_to_ask_is_said_and_nothing_is_left_behind(
    robot_file: Path, tmp_path: Path, run: Run
) -> None:
    log = small_log(robot_file, tmp_path, gain=7.0)
    done = run("identify", robot_file, log, "--out", tmp_path / "run")
    assert done.code == 3
    assert "no-effort" in done.err
    assert f"dynid init {robot_file} {log}" in done.err
    assert "log.effort.unit: which unit" in done.err
    assert not (tmp_path / "run").exists()
    # The answers that the message names end it.
    file, answer = tmp_path / "e.toml", ("--answer", "log.effort.unit=raw")
    done = run("identify", robot_file, log, "--out", tmp_path / "run", *answer)
    assert done.code == 3
    assert "robot.drive_gain" in done.err
    answers = (*answer, "--answer", "robot.drive_gain=7, 7")
    done = run("check", robot_file, log, "--no-fit", *answers)
    assert done.code == 0, done.err
    assert run("init", robot_file, log, "--out", file, "--no-ask", *answers).code == 0
    assert run("check", robot_file, log, "--no-fit", "--config", file).out == done.out
    done = run("check", robot_file, log, "--no-fit", "--config", file, *answer)
    assert done.code == 2
    assert "one of the two" in done.err


def test_commands_stand_in_for_a_torque_that_nobody_measured(
    data_dir: Path, tmp_path: Path, run: Run
) -> None:
    """The gains of aliengo_pace are asked for; z1_pace holds the commanded torque, which has them."""
    folder, file = data_dir / "aliengo_pace", tmp_path / "aliengo.toml"
    done = run("init", folder / "robot.xml", folder / "data.parquet", "--out", file, "--no-ask")
    assert done.code == 0
    assert "2 open questions" in done.out
    gains = ("--answer", "drive.kp=25", "--answer", "drive.kd=0.5")
    done = run(
        "init", folder / "robot.xml", folder / "data.parquet", "--out", file, "--no-ask", "--force", *gains
    )
    assert "question" not in done.out
    said = written(file)
    assert said["log"]["command_position"] == {"columns": "q_des_{joint}", "unit": "rad"}
    assert "effort" not in said["log"]
    assert said["drive"] == {"kp": 25.0, "kd": 0.5}
    assert run("check", folder / "robot.xml", folder / "data.parquet", "-c", file, "--no-fit").code == 0

    folder, file = data_dir / "z1_pace", tmp_path / "z1.toml"
    done = run("init", folder / "robot.xml", folder / "data.parquet", "--out", file, "--no-ask")
    assert "question" not in done.out
    drive = written(file)["drive"]
    # Six digits are written: an error of kd is one of viscous friction.
    kp = [80.0, 120.0, 120.0, 80.0, 80.0, 80.0, 80.0]
    assert list(drive["kp"].values()) == pytest.approx(kp, rel=1e-4)
    assert list(drive["kd"].values()) == pytest.approx(
        [2.5] * 7, rel=1e-4
    )  # of the gripper no velocity was logged


@pytest.mark.parametrize("unit", ["rad", "deg"])
@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_gains_are_read_from_a_commanded_torque_that_is_their_law(
    tmp_path: Path, run: Run, robot_file: Path, unit: str, shift: float
) -> None:
    """shift: of the torque, times that of the law; a torque that is no such law leaves the question open."""
    rng = np.random.default_rng(4)
    t = np.arange(0.0, 10.0, 0.005)
    size, rate, phase = (
        rng.uniform(0.2, 0.5, (6, 2)),
        rng.uniform(0.5, 6.0, (6, 2)),
        rng.uniform(0, 6, (6, 2)),
    )
    q_des = (size * np.sin(rate * t[:, None, None] + phase)).sum(axis=1)
    speed = (size * rate * np.cos(rate * t[:, None, None] + phase)).sum(axis=1)
    q, dq = q_des - 0.03 * speed, speed - 0.03 * np.gradient(speed, t, axis=0)
    kp, kd = np.array([60.0, 35.0]), np.array([1.5, 0.5])
    torque = kp * (q_des - q) - kd * dq + (shift - 1.0) * np.array([2.0, 1.0])
    per = {"rad": 1.0, "deg": 180.0 / np.pi}[unit]
    names, columns = ("shoulder", "elbow"), {}
    for word, x in (
        (f"position_{unit}", per * q),
        (f"velocity_{unit}_s", per * dq),
        (f"position_des_{unit}", per * q_des),
        ("torque_des", torque),
    ):
        columns |= {f"{joint}_{word}": x[:, j] for j, joint in enumerate(names)}
    log = write_log(tmp_path / "log.parquet", t, columns)
    done = run("init", robot_file, log, "--out", tmp_path / "e.toml", "--no-ask")
    assert done.code == 0, done.err
    if shift != 1.0:
        assert "2 open questions" in done.out
        return
    drive = written(tmp_path / "e.toml")["drive"]
    assert list(drive["kp"].values()) == pytest.approx(kp, rel=0.01)
    assert list(drive["kd"].values()) == pytest.approx(kd, rel=0.01)


def demo_files(folder: Path, robot_file: Path) -> tuple[Path, Path]:
    return robot_file, make_log(robot_file, folder / "log.parquet", 3)


def test_json_says_all_that_a_user_may_correct(run: Run, robot_file: Path, tmp_path: Path) -> None:
    robot, log = demo_files(tmp_path, robot_file)
    done = run("init", robot, log, "--out", tmp_path / "e.toml", "--json")
    found = json.loads(done.out)["results"]
    assert found["joints"] == ["shoulder", "elbow"]
    assert found["columns"]["position"] == {"shoulder": "q_shoulder", "elbow": "q_elbow"}
    grades = {one["key"]: one["grade"] for one in found["decisions"]}
    assert grades["log.effort.columns"] == "likely"
    assert {option["value"] for one in found["decisions"] if one["key"] == "log.position.unit"
            for option in one["options"]} == {"rad", "deg", "mrad", "turn", "arcmin", "arcsec"}  # fmt: skip
    assert found["motions"] == []


def test_a_joint_gets_the_column_that_the_user_names(run: Run, robot_file: Path, tmp_path: Path) -> None:
    robot, log = demo_files(tmp_path, robot_file)
    swapped = ("log.effort.columns.shoulder=tau_elbow", "log.effort.columns.elbow=tau_shoulder")
    answers = [word for one in swapped for word in ("--answer", one)]
    done = run("init", robot, log, "--out", tmp_path / "e.toml", "--json", *answers)
    assert done.code == 0, done.err
    columns = json.loads(done.out)["results"]["columns"]["effort"]
    assert columns == {"shoulder": "tau_elbow", "elbow": "tau_shoulder"}
    assert '{ shoulder = "tau_elbow", elbow = "tau_shoulder" }' in (tmp_path / "e.toml").read_text()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("log.effort.columns.shoulder=absent", "'absent'"),
        ("log.effort.columns.shoulder=tau_elbow", "of two joints"),
        ("log.effort.columns.wrist=tau_elbow", "log.effort.columns.wrist"),
    ],
)
def test_a_column_that_cannot_be_is_refused(
    run: Run, robot_file: Path, tmp_path: Path, answer: str, said: str
) -> None:
    robot, log = demo_files(tmp_path, robot_file)
    done = run("init", robot, log, "--out", tmp_path / "e.toml", "--answer", answer)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "e.toml").exists()


def test_motions_are_chosen_by_name(run: Run, robot_file: Path, tmp_path: Path) -> None:
    robot = load_robot(robot_file)
    log = read_columns(make_log(robot_file, tmp_path / "plain.parquet", 3))
    names = np.repeat(["slow", "fast [2]"], len(log["t"]) // 2)
    pq.write_table(pa.table(log | {"traj": names}), tmp_path / "log.parquet")
    chosen = ("--train", "slow", "--hold-out", "fast [2]")
    done = run("init", robot_file, tmp_path / "log.parquet", "--out", tmp_path / "e.toml", "--json", *chosen)
    motions = json.loads(done.out)["results"]["motions"]
    assert [(one["name"], one["runs_back"]) for one in motions] == [("slow", False), ("fast [2]", False)]
    assert motions[0]["seconds"] == pytest.approx(10.0, abs=0.01)
    data = tomllib.loads((tmp_path / "e.toml").read_text())["data"]
    assert data == {"train": ["slow"], "validate": ["fast [[]2]"]}
    checked = run("check", robot_file, tmp_path / "log.parquet", "--config", tmp_path / "e.toml", "--no-fit")
    assert checked.code == 0, checked.err
    assert robot.n == 2


def read_columns(path: Path) -> dict[str, Any]:
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names if name != "traj"}
