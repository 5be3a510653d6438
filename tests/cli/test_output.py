"""What commands print: for programs, quietly, with more, and in groups."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import dynid
from dynid.cli.main import GROUPS, app
from dynid.verbs import selftest as doctor
from tests.command_line import Run


def printed(text: str) -> dict[str, Any]:
    """The one JSON object that was printed, and nothing beside it."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    assert set(found) == {"dynid", "command", "exit_code", "results", "lines", "diagnostics", "errors"}
    return found


def test_identify_and_report_print_the_same_results_as_python(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "run"
    done = run("identify", robot_file, train_log, "--no-auto", "--out", out, "--json")
    assert done.code == 0, done.err
    made = printed(done.out)
    result = dynid.load(out)
    results = made["results"]
    assert results["verdict"]["word"] == result.verdict.word
    assert [one["value"] for one in results["base_parameters"]] == result.estimate.value.tolist()
    assert [
        one["half_width95"] for one in results["base_parameters"]
    ] == result.estimate.half_width().tolist()
    scores = result.training.scores
    assert results["scores"][0]["relative"] == scores.relative.tolist()
    assert [link["name"] for link in results["links"]] == list(result.robot.body_names)
    assert [(one["severity"], one["code"]) for one in made["diagnostics"]] == [
        (str(one.severity), one.identifier) for one in result.diagnostics
    ]
    assert Path(results["report"]).is_file()
    again = printed(run("report", out, "--json").out)["results"]
    assert again == results | {"run": str(out)}
    plain = run("report", out)
    assert plain.out.startswith(f"{result.verdict.word}: ")
    assert printed(run("report", out, "--json").out)["lines"] == plain.out.splitlines()


def test_every_command_that_reads_a_run_prints_results(
    run: Run, robot_file: Path, train_log: Path, other_log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    assert run("identify", robot_file, train_log, "--no-auto", "--out", out).code == 0
    calls = {
        ("validate", out, other_log): "scores",
        ("compare", out, out): "runs",
        ("replay", out, other_log): "replay",
        ("export", out, "--to", tmp_path / "model.json"): "files",
        ("inspect", robot_file): "base_parameters",
        ("check", robot_file, train_log): "verdict",
        ("check", train_log): "logs",
        ("init", robot_file, train_log, "--out", tmp_path / "e.toml"): "questions",
        ("simulate", robot_file, "--duration", 2, "--out", tmp_path / "s.csv"): "logs",
        ("watch", robot_file, tmp_path / "s.csv", "--wait", 0): "base_parameters",
        ("migrate", out): "written",
        ("doctor", "--no-trial"): "checks",
    }
    for call, key in calls.items():
        done = run(*call, "--json")
        assert done.code == 0, (call, done.err)
        found = printed(done.out)
        assert found["command"] == call[0]
        assert key in found["results"], call


def test_an_error_is_data_too(run: Run, robot_file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("t,q_shoulder\n0,1\n")
    done = run("identify", robot_file, bad, "--out", tmp_path / "run", "--json")
    found = printed(done.out)
    assert done.code == found["exit_code"] != 0
    assert found["results"] == {}
    assert found["errors"][0]["found"]
    assert f"error[{found['errors'][0]['code']}]" in done.err
    # Nothing of it stays for the next command.
    assert run("inspect", robot_file).out.startswith("robot 'two'")


def test_quiet_and_verbose(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    made = run("identify", robot_file, train_log, "--no-auto", "--out", out, "--verbose")
    assert made.code == 0
    assert re.search(r"^time: [0-9.]+ s \(.+ s, other [0-9.]+ s\)$", made.err, re.MULTILINE)
    usual, quiet, more = (run("validate", out, train_log, *option) for option in ((), ("-q",), ("-v",)))
    assert "warning[training-is-validation]" in usual.err
    assert "note[" not in usual.err
    assert quiet.err == ""
    assert usual.out == quiet.out == more.out
    assert set(usual.err.splitlines()) <= set(more.err.splitlines())
    assert "note[" in made.err


def test_help_names_every_command_once_with_its_whole_sentence(run: Run) -> None:
    text = run("--help").out
    words = " ".join(text.split())
    for group, commands in GROUPS.items():
        assert f"\n{group}:\n" in text
        for name, _ in commands:
            command = import_module(f"dynid.cli.{name}").command
            assert len(re.findall(rf"^  {name} ", text, re.MULTILINE)) == 1
            assert " ".join((command.__doc__ or "").split()) in words
    assert "..." not in text.replace("[ARGS]...", "")


def test_completion_is_offered() -> None:
    group: Any = typer.main.get_command(app)
    assert {"--install-completion", "--show-completion"} <= {o for p in group.params for o in p.opts}


def test_doctor_says_what_is_broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("doctor", "--no-trial")
    assert whole.code == 0
    assert whole.out.endswith("this installation works\n")
    assert f"numpy {np.__version__}" in whole.out
    monkeypatch.setattr(
        doctor, "_required_packages", lambda: {"": ["numpy", "nonesuch"], "bags": ["none-either"]}
    )
    broken = run("doctor", "--no-trial")
    assert broken.code == 6
    assert "x packages: missing: nonesuch; pip install nonesuch" in broken.out
    assert "- bags: not installed: ROS bags and MCAP; pip install 'dynid[bags]'" in broken.out
    assert "error[broken-installation]" in broken.err


def test_the_trial_of_doctor_recovers_its_robot() -> None:
    *_, trial = doctor.examine()
    assert trial.works, trial.text


def test_check_wants_a_log(run: Run, robot_file: Path) -> None:
    done = run("check", robot_file)
    assert done.code == 2
    assert "error[no-log]" in done.err
