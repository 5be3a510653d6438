"""The file that a program reads the progress of a command from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynid.base import Progress, progress_file
from tests.command_line import SHORT_SEARCH, Run


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


def test_a_check_and_a_design_keep_theirs(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, float]] = []

    def followed(path: Path, total: float) -> Progress:
        return lambda stage, done: seen.append((stage, done / total))

    monkeypatch.setattr("dynid.cli.common.progress_file", followed)
    monkeypatch.setenv("DYNID_PROGRESS", str(tmp_path / "progress.json"))
    assert run("check", robot_file, train_log, "--no-fit").code == 0
    assert {stage for stage, _ in seen} == {"checking the log"}
    assert sum(share for _, share in seen) == pytest.approx(1.0, rel=1e-2)
    seen.clear()
    plan = tmp_path / "plan.toml"
    limits = {"limits.lower": -1.0, "limits.upper": 1.0, "limits.velocity": 2.0}
    settings = {**SHORT_SEARCH, **limits, "search.iterations": 3}
    plan.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    assert run("excite", robot_file, "--plan", plan, "--out", tmp_path / "plan").code == 0
    stages = dict.fromkeys(stage for stage, _ in seen)
    assert list(stages) == ["searching for motions within all bounds", "iterations", "writing"]
    assert sum(share for stage, share in seen if stage == "iterations") == pytest.approx(1.0)
