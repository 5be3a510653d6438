"""Names, pipes and closed streams that shells may hand over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import Run


def test_a_name_that_is_not_utf8_is_refused(run: Run, robot_file: Path, tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/log\xff.csv")
    done = run("check", robot_file, name)
    assert (done.code, r"log\xff.csv" in done.err, "not UTF-8" in done.err) == (2, True, True), done.err


def test_a_named_pipe_is_no_log(run: Run, robot_file: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.csv")
    done = run("check", robot_file, tmp_path / "log.csv")
    assert (done.code, "a named pipe" in done.err) == (3, True), done.err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code(closed: str, robot_file: Path) -> None:
    for arguments, code in ((("explain", "small-error"), 0), (("check", str(robot_file), "nothing.csv"), 3)):
        command = " ".join([sys.executable, "-m", "dynid", *arguments, closed])
        done = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr
