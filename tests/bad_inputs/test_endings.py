"""How commands end: within two seconds of SIGTERM, quietly on a closed pipe, with one message for a bug of ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import Run, make_log

# Compiled code that holds the main thread: Python's handlers of signals do not run before it returns.
BUSY = """
import sys
from pathlib import Path
import numpy as np
from dynid.base import staged_files, staged_folder
from dynid.cli import main
def app(**_):
    base = Path(sys.argv[1])
    with staged_folder(base / "out") as folder, staged_files(base / "a.txt") as (file,):
        (folder / "x").write_text("x")
        file.write_text("a")
        print("writing", flush=True)
        while True:
            np.linalg.svd(np.random.default_rng(0).normal(size=(3000, 3000)))
main.application = lambda names: app
main.main()
"""

BUG = """
from dynid.cli import main
def app(**_):
    raise KeyError("nobody thought of this")
main.application = lambda names: app
main.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM there")
def test_71_sigterm_does_not_wait_for_compiled_code(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert err.startswith("interrupted: nothing was written")
    assert list(tmp_path.iterdir()) == []


def test_a_bug_of_ours_is_one_message_and_a_file(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BUG, "identify", "arm.urdf"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1
    (file,) = tmp_path.glob("dynid-error-*.txt")
    assert "error[internal]: found KeyError: 'nobody thought of this'" in ended.stderr.replace("] ", "]: ")
    assert str(file) in ended.stderr
    text = file.read_text(encoding="utf-8")
    assert "command: identify arm.urdf" in text
    assert "Traceback" in text


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_closed_pipe_ends_nothing(robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "dynid",
            "identify",
            str(robot_file),
            str(train_log),
            "--out",
            str(tmp_path / "run"),
        ],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert ended.returncode == 0, ended.stderr
    assert "Broken" not in ended.stderr
    assert (tmp_path / "run" / "report.html").is_file()


def test_73_a_second_run_is_refused_before_it_computes(robot_file: Path, run: Run, tmp_path: Path) -> None:
    log = make_log(robot_file, tmp_path / "long.parquet", 1, seconds=1500.0)
    out = tmp_path / "run"
    command = [sys.executable, "-m", "dynid", "identify", str(robot_file), str(log), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
        while not (tmp_path / ".run.lock").exists():
            time.sleep(0.01)
        time.sleep(0.05)
        second = run("identify", robot_file, log, "--out", out)
        first.kill()
        first.communicate()
    assert second.code == 7
    assert "output-busy" in second.err
    assert str(first.pid) in second.err
    # What the dead left is no obstacle.
    third = run("identify", robot_file, tmp_path / "absent.parquet", "--out", out)
    assert third.code == 3
    assert sorted(one.name for one in tmp_path.iterdir()) == ["long.parquet"]


def test_70_a_run_that_may_only_be_read_is_reported(
    robot_file: Path, train_log: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("identify", robot_file, train_log, "--out", tmp_path / "run").code == 0

    def read_only(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", read_only)
    outcome = run("report", tmp_path / "run")
    assert outcome.code == 0
    assert "not updated" in outcome.err
    assert outcome.out.splitlines()[0]


def test_long_names_are_refused_in_one_line(run: Run, robot_file: Path, tmp_path: Path) -> None:
    outcome = run("identify", robot_file, "n" * 300 + ".csv", "--out", tmp_path / "run")
    assert outcome.code in (2, 3)
    assert "Traceback" not in outcome.err
    outcome = run("identify", robot_file, robot_file, "--out", tmp_path / ("n" * 300))
    assert outcome.code in (2, 6)
    assert "Traceback" not in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_edited_run_is_told_and_never_a_bug_of_ours(
    robot_file: Path, train_log: Path, run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    assert run("identify", robot_file, train_log, "--out", folder).code == 0
    assert "edited-run" not in run("report", folder).out
    assert "edited-run" not in run("report", folder).out
    stored = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(stored | {"provenance": {**stored["provenance"], "seed": 9}}))
    done = run("report", folder)
    assert done.code == 0
    assert "edited-run" in done.out + done.err
    for key in ("experiment", "files"):
        (folder / "run.json").write_text(json.dumps(stored | {key: 3}))
        broken = run("report", folder)
        assert broken.code == 3
        assert "damaged-run" in broken.err


@pytest.mark.parametrize(
    ("key", "number", "says"),
    [
        ("mass = 2.0", "mass = 1e308", "a number of plausible size"),
        ("mass = 2.0", "mass = 1e20", "link 'shoulder_link' with 1e+20 kg"),
        ("com = [0.2,", "com = [1e20,", "link 'shoulder_link' with 1e+20 m from its joint"),
        ("com = [0.2,", "com = [-1e308,", "a number of plausible size"),
        ("xx = 0.01, yy = 0.03, zz = 0.03", "xx = 1e25, yy = 1e25, zz = 1e25", "1e+25 kg m^2"),
    ],
)
def test_numbers_of_no_size_are_refused(
    key: str, number: str, says: str, run: Run, robot_file: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.toml"
    odd.write_text(robot_file.read_text().replace(key, number, 1))
    outcome = run("inspect", odd)
    assert outcome.code == 3
    assert "shoulder" in outcome.err or str(odd) in outcome.err
    assert says in outcome.err
    assert outcome.err.count("\n") == 1
