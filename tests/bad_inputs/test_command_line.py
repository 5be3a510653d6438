"""Bad-input catalogue, command line and run time: exit code, message, and nothing left behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command_line import Run, make_log


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_65_unknown_flag(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    outcome = run("identify", robot_file, train_log, "--out", tmp_path / "run", "--fast")
    assert outcome.code == 2
    assert "--fast" in outcome.err
    assert contents(tmp_path) == []


def test_66_output_holds_an_input(run: Run, robot_file: Path, tmp_path: Path) -> None:
    log = (
        make_log(robot_file, tmp_path / "run" / "train.parquet", 1)
        if (tmp_path / "run").mkdir() is None
        else None
    )
    outcome = run("identify", robot_file, log, "--out", tmp_path / "run", "--force")
    assert outcome.code == 7
    assert "output-is-input" in outcome.err
    assert contents(tmp_path / "run") == ["train.parquet"]


def test_67_output_exists(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    (target / "precious.txt").write_text("mine")
    refused = run("identify", robot_file, train_log, "--out", target)
    assert refused.code == 7
    assert "--force" in refused.err
    forced = run("identify", robot_file, train_log, "--out", target, "--force")
    assert forced.code == 7
    assert "not a run folder" in forced.err
    assert (target / "precious.txt").read_text() == "mine"


def test_milliseconds_read_as_seconds(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    """One message that names the unit, and where it is explained."""
    table = pq.read_table(train_log)
    slow = table.set_column(table.column_names.index("t"), "t", [1000.0 * table["t"].to_numpy()])
    pq.write_table(slow, tmp_path / "ms.parquet")
    refused = run("identify", robot_file, tmp_path / "ms.parquet", "--out", tmp_path / "run")
    assert refused.code == 4
    assert 'time = { column = "t", unit = "ms" }' in refused.err
    first, *more = refused.err.strip().splitlines()
    assert first.startswith("error[rows-too-slow]")
    assert [line.split()[0] for line in more] == ["see:"]
    assert contents(tmp_path) == ["ms.parquet"]


def test_67_force_replaces_a_run(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    assert run("identify", robot_file, train_log, "--out", tmp_path / "run").code == 0
    assert run("identify", robot_file, train_log, "--out", tmp_path / "run").code == 7
    assert run("identify", robot_file, train_log, "--out", tmp_path / "run", "--force").code == 0
    assert contents(tmp_path) == ["run"]


def test_68_training_log_as_validation(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    outcome = run("identify", robot_file, train_log, "--validate", train_log, "--out", tmp_path / "run")
    assert outcome.code == 0
    assert "dynid explain training-is-validation" in outcome.out
    assert "held-out log (" not in outcome.out


def test_69_disk_full_at_any_write(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes
    for name in ("run.json", "model.json"):

        def full(self: Path, *arguments: object, name: str = name, **options: object) -> int:
            if self.name == name:
                raise OSError(errno.ENOSPC, "No space left on device", str(self))
            return real(self, *arguments, **options)  # type: ignore[arg-type]  # those of write_bytes

        monkeypatch.setattr(Path, "write_bytes", full)
        outcome = run("identify", robot_file, train_log, "--out", tmp_path / "run")
        assert outcome.code == 6
        assert "No space left" in outcome.err
        assert contents(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_70_read_only_folder(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    outcome = run("identify", robot_file, train_log, "--out", locked / "run")
    assert outcome.code == 6
    assert "permission" in outcome.err


def test_70_output_below_a_file(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = run("identify", robot_file, train_log, "--out", tmp_path / "file" / "run")
    assert outcome.code == 6
    assert contents(tmp_path) == ["file"]


def listens(pid: int) -> bool:
    """Whether a process has handlers of its own for signals; elsewhere than on Linux it is taken to."""
    status = Path(f"/proc/{pid}/status")
    if not status.parent.parent.is_dir():
        return True
    caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
    python = Path(f"/proc/{pid}/cmdline").read_bytes().startswith(os.fsencode(sys.executable))
    # Python itself catches SIGINT from its start; SIGTERM is caught by the command alone.
    return python and bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_71_interrupted(robot_file: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    log = make_log(robot_file, tmp_path / "long.parquet", 1, seconds=1500.0)
    command = [
        sys.executable,
        "-m",
        "dynid",
        "identify",
        str(robot_file),
        str(log),
        "--out",
        str(tmp_path / "run"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not listens(process.pid):
            time.sleep(0.05)
        time.sleep(0.5)  # well within the command
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    if process.returncode == 0:
        pytest.skip("the machine was done before it could be interrupted")
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert contents(tmp_path) == ["long.parquet"]


# A compiled module that is interrupted while it starts may turn the interruption into an error of its own.
SWALLOWED = """
import os, signal
from dynid.cli import main
def app(**_):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:
        raise AttributeError("half imported") from None
main.application = lambda names: app
main.main()
"""


def test_71_interrupted_inside_a_library() -> None:
    ended = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False)
    assert ended.returncode == 143
    assert ended.stderr.startswith("interrupted: ")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["inspect", "check", "identify", "validate", "report", "compare"])
def test_missing_arguments_are_usage_errors(run: Run, command: str) -> None:
    outcome = run(command)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_not_a_run(run: Run, tmp_path: Path) -> None:
    for arguments in (
        ("report", tmp_path),
        ("compare", tmp_path, tmp_path),
        ("validate", tmp_path, tmp_path / "x.csv"),
    ):
        outcome = run(*arguments)
        assert outcome.code == 3
        assert "run.json" in outcome.err


def test_one_run_cannot_be_compared(run: Run, tmp_path: Path) -> None:
    assert run("compare", tmp_path).code == 2


def test_unknown_trajectory_names_the_nearest(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text('[data]\ntrain = ["trian"]\n')
    outcome = run("identify", robot_file, train_log, "--config", config, "--out", tmp_path / "run")
    assert outcome.code == 3
    assert "did you mean 'train'?" in outcome.err
    assert contents(tmp_path) == ["experiment.toml"]
