"""motion.toml: one schema makes its checks, its template and what editors read; what is written is read back."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from dynid.base import DynidError
from dynid.excitation import MotionSettings, MotionTable, json_schema, read_plan_file, template_text
from dynid.excitation.settings import plan_text, settings_of
from tests.command_line import Run


def test_the_template_is_the_defaults_with_every_key(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "motion.toml"
    done = run("schema", "motion", "--template", path)
    assert done.code == 0, done.err
    assert path.read_text() == template_text("motion.schema.json")
    assert read_plan_file(path) == MotionSettings()
    known = {f"#{name} = " for name in MotionTable.__dataclass_fields__}
    assert all(any(line.startswith(start) for line in path.read_text().splitlines()) for start in known)
    schema = json.loads((tmp_path / "motion.schema.json").read_text())
    assert schema == json_schema()
    assert set(schema["properties"]) == set(MotionSettings.__dataclass_fields__)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    data = {
        "motion": {"seconds": 5.0, "start": [0.0, 1.0], "focus": ["torque"]},
        "limits": {"velocity": [1.0, 2.0], "torque": 3.0},
        "surroundings": {
            "floor": 0.0,
            "planes": [[1.0, 0.0, 0.0, 2.0]],
            "obstacles": [{"size": [1.0, 2.0, 3.0], "label": "table"}],
        },
        "tool": {"solids": [{"cylinder": [0.1, 0.2], "xyz": [0.0, 0.0, 0.1]}]},
    }
    settings = settings_of(data)
    assert tomllib.loads(plan_text(settings)) == data
    path = tmp_path / "motion.toml"
    path.write_text(plan_text(settings))
    assert read_plan_file(path) == settings
    assert plan_text(MotionSettings()) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[motion]\nfamily = 'zigzag'", "2: .*'fourier', 'spline'"),
        ("[motion]\n\nsecond = 3.0", "3: .*did you mean 'seconds'"),
        ("[output]\nstages = [2.0]", "2: .*at most 1"),
        ("[limits]\nvelocity = 'fast'", "2: .*a list of numbers"),
        ("[[surroundings.obstacles]]\nsize = [1.0]", "2: .*3 numbers"),
        ("[search]\nseed = -1", "2: .*at least 0"),
    ],
)
def test_wrong_keys_are_named_with_their_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "motion.toml"
    path.write_text(text)
    with pytest.raises(DynidError, match=rf"motion\.toml:{words}"):
        read_plan_file(path)
