"""Names that users rely on are what they were: Python, command line, files, codes, exit codes, import paths."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests import test_migrate
from tests.baseline import bad_inputs, surface
from tests.baseline.records import differences, expect_none, keys_of, stored


@pytest.mark.parametrize(("name", "part"), surface.PARTS.items(), ids=list(surface.PARTS))
def test_the_surface(name: str, part: Callable[[], Any]) -> None:
    expect_none(differences(part(), stored(name)))


def test_public_names_can_be_loaded() -> None:
    for module, names in stored("public_names").items():
        gone = [name for name in names if not hasattr(import_module(module), name)]
        assert gone == [], module


@pytest.mark.parametrize("page", stored("imports"))
def test_what_the_documentation_imports_can_be_imported(page: str) -> None:
    """docs/design.md above all: plug-ins are written with these imports."""
    gone = []
    for path in stored("imports")[page]:
        try:
            surface.loaded(path)
        except (ImportError, AttributeError) as error:
            gone.append(f"{path}: {error}")
    assert gone == []


def test_wrong_inputs_end_as_they_did() -> None:
    expect_none(differences(bad_inputs.ended(), stored("wrong_inputs")))


def test_files_of_every_format_are_tested_elsewhere() -> None:
    """tests/test_migrate.py opens tests/samples/format1 and later ones with every command; none of them may go."""
    assert test_migrate.FORMATS[:3] == (1, 2, 3)
    for number in test_migrate.FORMATS:
        for name in ("run", "chosen"):
            assert (test_migrate.SAMPLES / f"format{number}" / name / "run.json").is_file()


def test_what_is_compared_sees_a_change() -> None:
    options = ["--x: int = 1", "--y: str = 'b'"]
    before = {"a": options, "b": {"c": 1}}
    assert differences(before, before) == []
    assert differences({"a": options[:1], "b": {"c": 1}}, before) == [".a: gone: --y: str = 'b'"]
    assert differences({"a": options[::-1], "b": {"c": 1}}, before)[0].startswith(".a: another order")
    assert differences({"a": options, "b": {"d": 1}}, before) == [".b.c: gone (was 1)", ".b.d: new (1)"]
    assert differences({"a": options, "b": {"c": True}}, {"a": options, "b": {"c": 2}}) != []


def test_keys_of_json() -> None:
    value = {"a": [{"b": 1}, {"c": {"d": None}}], "parameters": {"m1": {"value": 1.0}}}
    assert keys_of(value) == [
        "a",
        "a[].b",
        "a[].c",
        "a[].c.d",
        "parameters",
        "parameters.*",
        "parameters.*.value",
    ]


def test_stored_files_are_small() -> None:
    from tests.baseline.records import STORED

    files = [path for path in STORED.rglob("*") if path.is_file()]
    assert sum(Path(path).stat().st_size for path in files) < 300_000
