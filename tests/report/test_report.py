"""The report as a file: offline, safe, complete, whole or not at all, the same bytes every time."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dynid.base import Diagnostics, ResourceError
from dynid.report import html as html_module
from dynid.report import report_html, write_report
from dynid.report.html import plotly_javascript, script_json
from dynid.report.sections import SECTIONS
from dynid.run import Identification, next_steps
from tests.report.conftest import build

LARGEST = 3_000_000
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Collects tags, attributes and the text of scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def figure_data(reader: Reader) -> Any:
    """What the figures of a page are drawn from."""
    return next(json.loads(text) for text in reader.scripts if text.startswith('{"figures"'))


@pytest.fixture(scope="module")
def page(identification: Identification) -> str:
    return report_html(identification)


def test_every_section_is_there_in_order(page: str) -> None:
    anchors = [a["id"] for tag, a in read(page).tags if tag == "section"]
    assert anchors == [section.anchor for section in SECTIONS]
    assert anchors[0] == "verdict"


def test_every_figure_has_data_and_every_place_a_figure(page: str) -> None:
    reader = read(page)
    figures = figure_data(reader)["figures"]
    places = [a["id"] for tag, a in reader.tags if a.get("class") == "plot"]
    assert sorted(figures) == sorted(str(place) for place in places)
    assert len(places) >= 12


def test_no_reference_leaves_the_file(page: str) -> None:
    reader = read(page.replace(plotly_javascript(), ""))
    for tag, attributes in reader.tags:
        for name in ("src", "href", "action", "data", "srcset", "poster", "xlink:href"):
            target = attributes.get(name)
            own = target is None or target.startswith(("#", "data:image/png;base64,")) or target == "data:,"
            assert own, (tag, target)
    assert not re.search(r"https?://|url\(|@import", page.replace(plotly_javascript(), ""))


def test_the_policy_allows_nothing_but_the_scripts_of_the_page(page: str) -> None:
    policy = next(
        a["content"] for tag, a in read(page).tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    scripts = [text for text in read(page).scripts if not text.startswith("{")]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert re.findall("'sha256-([^']+)'", policy) == hashes
    assert len(hashes) == 3
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "unsafe-eval" not in policy


def test_hostile_names_stay_text(hostile: Identification, identification: Identification) -> None:
    text = report_html(hostile)
    reader = read(text)
    assert [a["class"] for tag, a in reader.tags if tag in ("img", "iframe", "object")] == ["scene-still"]
    assert len(reader.scripts) == 5
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert "<img src=x onerror=alert(1)>" in reader.text
    assert "{{ 7*7 }}" in reader.text
    figures = json.dumps(figure_data(reader), ensure_ascii=False)
    assert "<img" not in figures
    assert "<script" not in figures


def test_as_little_as_an_identification_may_hold(bare: Identification) -> None:
    reader = read(report_html(bare))
    assert [a["id"] for tag, a in reader.tags if tag == "section"] == [s.anchor for s in SECTIONS]
    assert "nan" not in re.findall(r"[a-z]+", reader.text)
    assert "nothing held out" in reader.text


@pytest.mark.parametrize("count", [1, 2, 12])
def test_a_very_short_log_is_shown(identification: Identification, count: int) -> None:
    whole = identification.training.residuals
    assert whole is not None
    arrays = ("t", "trajectory", "segment", "measured", "predicted", "q", "dq")
    cut = replace(whole, **{name: getattr(whole, name)[:count] for name in arrays})
    short = replace(identification, training=replace(identification.training, residuals=cut))
    assert read(report_html(short)).open == []


def test_held_out_and_training_are_distinguished(page: str) -> None:
    text = read(page).text
    assert "Held-out log" in text
    assert "Held-out blocks" in text
    assert "Training" in text


def test_the_same_input_gives_the_same_bytes(identification: Identification, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(identification, tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert (tmp_path / "a.html").stat().st_size < LARGEST


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    identification: Identification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(html_module.os, "fsync", full)
    with pytest.raises(ResourceError, match="No space left"):
        write_report(identification, path)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_made_where_one_can_be(identification: Identification, tmp_path: Path) -> None:
    write_report(identification, tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").is_file()
    with pytest.raises(ResourceError, match="cannot-write"):
        write_report(identification, tmp_path / "new" / "report.html" / "report.html")


def test_a_dozen_joints_and_a_long_log_stay_below_the_limit() -> None:
    names = tuple(f"joint_{i}" for i in range(12))
    one = build(names, tuple(f"link_{i}" for i in range(12)), seconds=20.0)
    assert len(report_html(one).encode()) < LARGEST


def test_next_steps_are_commands_that_can_be_copied(identification: Identification) -> None:
    files = {"robot": "an arm.urdf", "logs": ["log.csv"], "validate": [], "config": "c.toml"}
    one = replace(identification, files=files)
    one.diagnostics.claim("tilted-base", found="a lean of 4 degrees")
    one = replace(one, diagnostics=Diagnostics(list(one.diagnostics)))
    identification.diagnostics.items.pop()
    # How to mend what is doubted comes first.
    assert next_steps(one)[0].text.startswith("tilted-base: ")
    assert "gravity" in next_steps(one)[0].text
    one.diagnostics.warn("undeclared-coupling", "two motors of a differential; declare it")
    assert [step.text.split(":")[0] for step in next_steps(one)].index("undeclared-coupling") == 2
    commands = [command for step in next_steps(one) for command in step.commands]
    accept = "dynid identify 'an arm.urdf' log.csv --config c.toml --accept tilted-base --out ../again"
    assert accept in commands
    assert "dynid export . --to model.urdf" in commands
    assert "dynid replay . log.csv" in commands
    page = read(report_html(one))
    for command in commands:
        assert command in page.text
    one.diagnostics.claim("drive-gain", found="a gain of 14 %")
    assert all("](" not in step.text and "`" not in step.text for step in next_steps(one))
    assert any(step.text.endswith("(see servos).") for step in next_steps(one))
    # One more stands where nothing was replayed yet.
    assert sum(a.get("class") == "copy" for _, a in page.tags) == len(commands) + 1
    # A run from Python names no files: what cannot be typed is said in words.
    bare = [command for step in next_steps(identification) for command in step.commands]
    assert not any("identify" in command or "excite" in command for command in bare)


def test_the_table_of_links_follows_the_verdict(page: str) -> None:
    anchors = [a["id"] for tag, a in read(page).tags if tag == "section"]
    assert anchors[:3] == ["verdict", "links", "next"]


def test_json_cannot_end_its_script() -> None:
    text = script_json({"a": "</script><!--<script>", "b": "\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>", "b": "\u2028&"}
    with pytest.raises(ValueError, match="JSON compliant"):
        script_json([float("nan")])


def test_importing_the_report_loads_no_template_engine() -> None:
    import subprocess
    import sys

    code = "import sys, dynid.report as report; report.write_report; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
