"""dynid identify chooses the model by itself unless one is named."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tests.command_line import Run


def assert_every_combination(selection: dict[str, Any]) -> None:
    """Friction, rotors and offsets are always on trial: three forms, with and without the others."""
    assert selection["axes"][:3] == ["friction", "rotors", "offsets"]
    chosen = [set(options) for options in zip(*(m["options"] for m in selection["models"]), strict=True)]
    assert {"none", "viscous", "viscous + coulomb"} <= chosen[0]
    assert selection["compared"] == math.prod(len(options) for options in chosen) >= 12


def test_no_terms_means_that_the_log_chooses(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    found = run("identify", robot_file, train_log, "--out", tmp_path / "run", "-v")
    assert found.code == 0
    selection = json.loads((tmp_path / "run" / "run.json").read_text())["selection"]
    assert_every_combination(selection)
    assert len(selection["models"][0]["options"]) == len(selection["axes"])
    assert "Model chosen among" in found.out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Further effects estimated from the log" in page


def test_given_terms_are_taken_and_auto_chooses_around_them(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text('[model]\nterms = ["rigid_body", "viscous"]\n')
    plain, around = tmp_path / "plain", tmp_path / "around"
    assert run("identify", robot_file, train_log, "--config", config, "--out", plain).code == 0
    model = json.loads((plain / "model.json").read_text())
    assert [term["term"] for term in model["terms"]] == ["rigid_body", "viscous"]
    assert json.loads((plain / "run.json").read_text())["selection"] is None
    assert run("identify", robot_file, train_log, "--config", config, "--auto", "--out", around).code == 0
    written = json.loads((around / "run.json").read_text())
    assert written["experiment"]["model"]["automatic"] is True
    assert_every_combination(written["selection"])


def test_no_auto_keeps_the_default_model(run: Run, robot_file: Path, train_log: Path, tmp_path: Path) -> None:
    assert run("identify", robot_file, train_log, "--no-auto", "--out", tmp_path / "run").code == 0
    model = json.loads((tmp_path / "run" / "model.json").read_text())
    names = [term["term"] for term in model["terms"]]
    assert names == ["rigid_body", "rotor_inertia", "viscous", "coulomb", "offset"]
