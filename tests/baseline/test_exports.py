"""Exported files are what they were; so are the keys of what commands print for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.baseline import exports, rows
from tests.baseline.records import differences, expect_none, read_text, stored, text_differences


def test_exported_models(baseline_demo: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    texts = exports.model_texts(baseline_demo[1], tmp_path)
    kept = {path.name.removesuffix(".gz") for path in exports.FOLDER.iterdir()}
    assert set(texts) | {exports.ACTUATORS} == kept
    expect_none(exports.export_differences(texts))


def test_exported_samples(baseline_demo: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    expect_none(differences(exports.samples(baseline_demo[1], tmp_path), stored("samples")))


def test_exported_motions(tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="one of the formats is a bag")
    expect_none(exports.motion_differences(exports.motion_texts(tmp_path), stored("motions")))


@pytest.mark.slow
def test_exported_servos(data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("pinocchio", reason="benchmarks/real.py, which names the rows, loads it")
    rows.real_row(exports.ACTUATORS_ROW, data_dir, tmp_path)
    text = exports.actuators(tmp_path / "run", tmp_path)
    # Of a run of this processor: as close as its parameters are.
    expect_none(text_differences(text, read_text(f"exports/{exports.ACTUATORS}"), rows.TOLERANCE, 1e-9))


def test_keys_of_json_output(baseline_demo: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    expect_none(differences(exports.keys_of_commands(baseline_demo[1], tmp_path), stored("keys_of_commands")))


def test_texts_are_compared_by_words_and_numbers() -> None:
    before = '<mass value="4.25"/>\n<inertia ixx="0.001"/>'
    assert text_differences(before.replace("4.25", "4.25000000001"), before, 1e-9, 1e-12) == []
    assert len(text_differences(before.replace("4.25", "4.2500001"), before, 1e-9, 1e-12)) == 1
    assert len(text_differences(before.replace("ixx", "ixy"), before, 1e-9, 1e-12)) == 1
    assert text_differences(before + "\n<!-- -->", before, 1e-9, 1e-12) == ["3 lines, were 2"]
