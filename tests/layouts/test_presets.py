"""Presets: every entry has a source that exists, files of one's own are read, mistakes have their line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynid.base import DynidError, InputErrors
from dynid.layouts.presets import PRESETS, UNITS, Preset, matches_word, presets, read_preset, register_preset

GOOD = """
name = "mine"
title = "my recorder"
[[source]]
id = "manual"
where = "manual of my recorder"
version = "1.0"
says = "ang0 to ang5 are joint angles in degrees"
[[channel]]
columns = "ang{index}"
quantity = "position"
unit = "deg"
source = "manual"
"""


@pytest.mark.parametrize("preset", presets(), ids=lambda one: one.name)
def test_every_entry_has_its_source(preset: Preset) -> None:
    known = {one.id for one in preset.source}
    assert len(known) == len(preset.source)
    used = set()
    for entry in (*preset.channel, *preset.constants, *preset.servos):
        ids = {entry.source} if isinstance(entry.source, str) else set(entry.source)
        assert ids
        assert ids <= known
        used |= ids
    used |= {preset.order_source} if preset.order else set()
    assert used == known, "sources that nothing cites"
    for source in preset.source:
        # A document with its version, or a file in a repository with its commit.
        assert re.search(r"github\.com/\S+, |\.(com|org|co)(\.[a-z]{2})?/|docs\.|\.com,", source.where), (
            source.where
        )
        assert re.search(r"commit [0-9a-f]{40}|\d", source.version), source.version
        assert len(source.says) > 20


@pytest.mark.parametrize("preset", presets(), ids=lambda one: one.name)
def test_entries_are_whole(preset: Preset) -> None:
    assert preset.channel or preset.servos
    marks = ("{joint}", "{number}", "{index}")
    of_drive = not any(mark in entry.columns for entry in preset.channel for mark in marks)
    for entry in preset.channel:
        assert entry.unit == "unknown" or entry.quantity in UNITS or entry.unit == "none"
        joint = any(mark in entry.columns for mark in marks)
        assert joint == (entry.quantity not in ("time", "trajectory")) or of_drive
    for constants in preset.constants:
        assert constants.drive_gain or (constants.torque_constant and constants.gear_ratio)


def test_names_are_those_of_the_files() -> None:
    assert len({one.name for one in presets()}) == len(presets()) >= 15


def test_every_preset_is_in_the_documentation() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "first-log.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", page, flags=re.MULTILINE))
    assert listed == {one.name: one.title for one in presets()}


def test_a_file_of_ones_own_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    assert presets([file])[0].name == "mine"
    assert read_preset(file).cited("manual") == "manual of my recorder (1.0)"
    try:
        assert register_preset(file).name == "mine"
        assert "mine" in {one.name for one in presets()}
    finally:
        del PRESETS["mine"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('source = "manual"', 'source = "nothing"', r"mine\.toml:13.*'nothing'.*manual"),
        ('source = "manual"', "", r"source"),
        ('unit = "deg"', 'unit = "degrees"', r"mine\.toml:12.*'degrees'.*rad, deg"),
        ('quantity = "position"', 'quantity = "place"', r"mine\.toml:11"),
        ('version = "1.0"', "", r"version"),
        ('version = "1.0"', 'version = ""', r"version"),
    ],
)
def test_mistakes_have_their_line(old: str, new: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(DynidError, match=says) as found:
        read_preset(file)
    assert isinstance(found.value, InputErrors)


@pytest.mark.parametrize(
    ("word", "name", "hit"),
    [
        ("ur10", "ur10e_robot", True),
        ("ur10e", "UR10e", True),
        ("ur3", "ur30", False),
        ("fer", "transfer", False),
        ("panda", "panda_joint1", True),
        ("kr300", "kuka-kr300", True),
    ],
)
def test_words_are_found_in_names(word: str, name: str, hit: bool) -> None:
    assert matches_word(word, name) is hit
