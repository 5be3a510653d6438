"""The commands as a user runs them."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.log import read_log
from dynid.robot import load_robot
from tests.command_line import RUN_FILES, Run


@pytest.fixture
def finished(run: Run, robot_file: Path, train_log: Path, other_log: Path, tmp_path: Path) -> Path:
    """A run folder made by the command line."""
    outcome = run("identify", robot_file, train_log, "--validate", other_log, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    assert "held-out log" in outcome.out
    assert str(tmp_path / "run" / "report.html") in outcome.out
    return tmp_path / "run"


def test_force_names_what_it_leaves_alone(
    run: Run, finished: Path, robot_file: Path, train_log: Path
) -> None:
    (finished / "thesis.txt").write_text("years of work")
    call = ("identify", robot_file, train_log, "--no-auto", "--out", finished)
    assert run(*call).code == 7
    done = run(*call, "--force")
    assert done.code == 0, done.err
    assert f"note: files in '{finished}' that dynid did not write are kept: thesis.txt" in done.err
    assert (finished / "thesis.txt").read_text() == "years of work"
    assert json.loads((finished / "run.json").read_text())["files"]["validate"] == []


def test_identify_writes_a_whole_run(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == RUN_FILES
    assert [path.name for path in finished.parent.iterdir()] == ["run"]
    stored = json.loads((finished / "run.json").read_text())
    assert [score["origin"] for score in stored["scores"]] == ["training", "held-out log"]
    assert stored["scores"][1]["total_relative"] < 0.02
    assert len(next(iter(stored["provenance"]["logs"].values()))) == 64
    table = pq.read_table(finished / "parameters.parquet")
    assert {"name", "formula", "unit", "value", "std", "lower95", "upper95", "verdict"} <= set(
        table.column_names
    )


def test_validate_report_compare(
    run: Run, finished: Path, other_log: Path, train_log: Path, tmp_path: Path
) -> None:
    scored = run("validate", finished, other_log, "--out", tmp_path / "scores.json")
    assert scored.code == 0
    assert "held-out log" in scored.out
    assert json.loads((tmp_path / "scores.json").read_text())["origin"] == "held-out log"
    own = run("validate", finished, train_log)
    assert own.code == 0
    assert "training-is-validation" in own.err
    assert own.out.startswith("training")
    (finished / "report.html").unlink()
    shown = run("report", finished)
    assert shown.code == 0
    assert "GOOD" in shown.out
    assert (finished / "report.html").stat().st_size > 100_000
    compared = run("compare", finished, finished, "--out", tmp_path / "both.html")
    assert compared.code == 0
    assert "fitted to the same data" in compared.out
    assert "differ beyond their 95 % intervals: 0" in compared.out
    assert (tmp_path / "both.html").is_file()


def test_inspect_and_check(run: Run, robot_file: Path, train_log: Path) -> None:
    shown = run("inspect", robot_file)
    assert shown.code == 0
    for text in ("shoulder", "elbow", "base parameters:", "not identifiable", "prior mass"):
        assert text in shown.out
    checked = run("check", robot_file, train_log)
    assert checked.code == 0
    assert "fit for identification" in checked.out


def test_show_draws_the_robot_and_its_recorded_motion(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    page = tmp_path / "new" / "robot.html"
    shown = run("show", robot_file, "--out", page)
    assert shown.code == 0, shown.err
    assert f"wrote {page}" in shown.out
    assert "Shown: capsules between the joints" in page.read_text()
    assert '"motion":null' in page.read_text()
    assert run("show", robot_file, train_log, "--out", page, "--force").code == 0
    data = json.loads(page.read_text().split('class="scene-data">')[1].split("</script>")[0])
    robot = load_robot(robot_file)
    log = read_log(train_log, robot)
    first = log.trajectories[0]
    frames = np.frombuffer(base64.b64decode(data["motion"]["q"]), "<f4").reshape(-1, robot.n)
    length = first.end_time - first.start_time
    assert (len(frames) - 1) * data["motion"]["step"] == pytest.approx(length, abs=0.05)
    whole = log.read(first)
    np.testing.assert_allclose(frames[0], whole.q[0], atol=1e-6)
    middle = len(frames) // 2
    at = int(np.argmin(np.abs(whole.t - whole.t[0] - middle * data["motion"]["step"])))
    speed = np.abs(np.gradient(whole.q, whole.t, axis=0)).max()
    np.testing.assert_allclose(frames[middle], whole.q[at], atol=0.02 * speed)
    # The signals of the log are below the robot.
    (signals,) = json.loads(page.read_text().split('class="series-data">')[1].split("</script>")[0])
    assert signals["name"] == first.name
    assert {(entry["chart"], entry["unit"]) for entry in signals["signals"]} >= {
        ("position", "rad"),
        ("torque", "N m"),
    }


def test_show_finds_columns_as_identify_does(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    table = pq.read_table(train_log)
    names = [name.replace("tau_", "effort_").replace("q_", "position_") for name in table.column_names]
    renamed = tmp_path / "renamed.parquet"
    pq.write_table(table.rename_columns(names), renamed)
    shown = run("show", robot_file, renamed, "--out", tmp_path / "robot.html")
    assert shown.code == 0, shown.err
    assert '"chart":"torque"' in (tmp_path / "robot.html").read_text()
    again = run("show", robot_file, renamed, "--out", tmp_path / "one.html", "--trajectory", "unknown")
    assert "unknown-trajectory" in again.err


def test_an_export_is_named_by_out_or_to(run: Run, finished: Path, tmp_path: Path) -> None:
    for option in ("--out", "--to"):
        done = run("export", finished, option, tmp_path / f"model{option}.json")
        assert done.code == 0, done.err
    first, second = sorted(tmp_path.glob("model*.json"))
    assert first.read_bytes() == second.read_bytes()


def test_check_writes_a_page_of_the_signals_also_of_a_log_that_it_refuses(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    page = tmp_path / "check.html"
    checked = run("check", robot_file, train_log, "--no-fit", "--out", page)
    assert checked.code == 0, checked.err
    assert f"wrote {page}" in checked.out
    assert "fit for" not in page.read_text()
    assert '"chart":"torque"' in page.read_text()
    again = run("check", robot_file, train_log, "--no-fit", "--out", page)
    assert again.code == 7
    assert "--force" in again.err
    # A log that is too short to fit has a page, too, which says why.
    short = tmp_path / "short.parquet"
    pq.write_table(pq.read_table(train_log).slice(0, 40), short)
    refused = run("check", robot_file, short, "--out", page, "--force")
    assert refused.code == 4
    assert f"wrote {page}" in refused.out
    text = page.read_text()
    assert "<b>error</b>" in text
    assert '"chart":"position"' in text


def test_experiment_file(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(
        '[prepare]\ncutoff = 4.0\n[model]\nterms = ["rigid_body", "viscous", "coulomb"]\n[estimate]\nmethod = "ols"\n'
    )
    outcome = run("identify", robot_file, train_log, "--config", config, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert stored["preparation"]["settings"]["cutoff"] == 4.0
    assert stored["experiment"]["estimate"]["method"] == "ols"
    assert json.loads((tmp_path / "run" / "model.json").read_text())["estimate"]["method"] == "ols"


def test_hostile_names_are_escaped_on_the_terminal(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_text(
        'name = "x\\u001b[31m"\nconvention = "placements"\n[[joint]]\nname = "a\\u009bb"\ntype = "revolute"\n'
    )
    shown = run("inspect", path)
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert "\x9b" not in shown.out


def test_help_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'scipy', 'pyarrow', 'pydantic', 'plotly', 'mujoco'}"
    code = f"import sys, dynid.cli.main; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version_names_the_kernel(run: Run) -> None:
    outcome = run("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("dynid 0.")
    assert "kernel:" in outcome.out
