"""The file that a program reads the progress of a command from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynid.base.progress import progress_file
from tests.command_line import Run


def test_stage_and_share_are_kept(tmp_path: Path) -> None:
    advance = progress_file(tmp_path / "progress.json", 10.0)
    advance("reading", 4.0)
    assert json.loads((tmp_path / "progress.json").read_text()) == {"stage": "reading", "share": 0.4}
    advance("residuals", 20.0)
    assert json.loads((tmp_path / "progress.json").read_text()) == {"stage": "residuals", "share": 1.0}
    progress_file(tmp_path / "other.json", float("nan"))("simulation", 1.0)
    assert json.loads((tmp_path / "other.json").read_text()) == {"stage": "simulation", "share": None}


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    progress_file(tmp_path / "absent" / "progress.json", 1.0)("reading", 1.0)


def test_identify_keeps_its_progress(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNID_PROGRESS", str(tmp_path / "progress.json"))
    assert run("identify", robot_file, train_log, "--no-auto", "--out", tmp_path / "run").code == 0
    assert json.loads((tmp_path / "progress.json").read_text())["stage"] == "residuals"
