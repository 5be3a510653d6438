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

import numpy as np
import pytest

from dynid.base import Diagnostics, Finding, Level, ResourceError
from dynid.report import html as html_module
from dynid.report import report_html, write_report
from dynid.report.friction import speed_curves
from dynid.report.html import plotly_javascript, script_json
from dynid.report.sections import SECTIONS
from dynid.report.sections.torque import shown_first
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


def folded(reader: Reader) -> list[str | None]:
    """Anchors of the sections that open on a click."""
    return [a["id"] for tag, a in reader.tags if tag == "section" and a.get("class") == "folded"]


def test_errors_follow_the_verdict_and_details_are_folded(page: str) -> None:
    reader = read(page)
    anchors = [a["id"] for tag, a in reader.tags if tag == "section"]
    assert anchors[:8] == ["verdict", "errors", "robot", "findings", "torque", "joints", "links", "next"]
    assert folded(reader) == anchors[8:]
    # Every section stays in the contents, and every address within the page has its place.
    targets = [a["href"] for tag, a in reader.tags if tag == "a" and str(a.get("href")).startswith("#")]
    assert {f"#{anchor}" for anchor in anchors} <= set(targets)
    assert set(targets) <= {f"#{a['id']}" for _, a in reader.tags if "id" in a}


def test_every_finding_and_table_is_on_the_page(identification: Identification, page: str) -> None:
    reader = read(page)
    for finding in identification.verdict.findings:
        for part in (finding.title, finding.text, finding.advice):
            assert part in reader.text
    # Each section but those of plots and of text has its table, or says why it has none.
    tables = sum(tag == "table" for tag, _ in reader.tags)
    assert tables >= len(SECTIONS)
    for column in identification.estimate.columns:
        assert column.name in page


def test_findings_of_one_kind_are_one_entry(identification: Identification) -> None:
    kinds = [
        Finding(
            Level.PROBLEM,
            "poor-joint",
            f"relative error {error} %",
            title=f"{joint}: poorly predicted",
            advice="Inspect it.",
        )
        for joint, error in (("shoulder", 41), ("elbow", 52), ("wrist", 63))
    ]
    verdict = replace(
        identification.verdict, findings=(*kinds, Finding(Level.NOTE, "", "A note.", title="Else"))
    )
    reader = read(report_html(replace(identification, verdict=verdict)))
    assert "shoulder, elbow, wrist: poorly predicted" in reader.text
    for error in (41, 52, 63):
        assert f"relative error {error} %" in reader.text
    entries = [a for tag, a in reader.tags if tag == "li" and a.get("class") == "problem"]
    assert len(entries) == 1
    # So is what to do about them.
    steps = [step.text for step in next_steps(replace(identification, verdict=verdict))]
    assert "shoulder, elbow, wrist: poorly predicted: Inspect it." in steps
    assert sum("Inspect it." in step for step in steps) == 1


def test_the_first_lines_name_date_robot_and_logs(identification: Identification) -> None:
    known = {
        "finished": "2026-03-04T05:06:07+00:00",
        "logs": {"logs/train.csv": "0"},
        "validation_logs": {"other.csv": "1"},
    }
    text = report_html(replace(identification, provenance=known))
    head = text[text.index("<header") : text.index("</header>")]
    for part in ("2026-03-04 05:06:07 UTC", "train.csv", "other.csv", "arm.toml"):
        assert part in head


def test_the_worst_and_a_typical_joint_are_shown_first() -> None:
    assert shown_first(np.array([0.2, 0.5, 0.1, 0.3, 0.4])) == [1, 3]
    assert shown_first(np.array([0.2, np.nan])) == [0, 1]
    assert shown_first(np.array([0.2])) == [0]
    assert shown_first(np.zeros(0)) == []


def test_every_joint_has_its_friction_over_speed(identification: Identification, page: str) -> None:
    labels = [a.get("aria-label") for _, a in read(page).tags]
    for name in identification.robot.joint_names:
        assert f"friction of joint {name} over speed" in labels
    residuals = identification.training.residuals
    assert residuals is not None
    names = [column.name for column in identification.estimate.columns]
    theta = identification.estimate.parameters
    for j, curve in enumerate(speed_curves(identification, residuals, 200), start=1):
        fv, fc, fo = (theta[names.index(f"{name}{j}")] for name in ("fv", "fc", "fo"))
        np.testing.assert_allclose(curve.torque, fv * curve.speed + fc * np.sign(curve.speed) + fo, atol=1e-9)
        assert len(curve.sample_speed) <= 200
        # Samples lie about the curve as the residuals lie about zero.
        away = curve.sample_torque - fv * curve.sample_speed - fc * np.sign(curve.sample_speed) - fo
        assert np.std(away) < 2.0 * np.std(residuals.error[:, j - 1])
        assert curve.temperature is None


def test_samples_of_friction_are_coloured_by_a_logged_temperature(identification: Identification) -> None:
    residuals = identification.training.residuals
    assert residuals is not None
    warm = np.full(residuals.q.shape, np.nan)
    warm[:, 0] = np.linspace(20.0, 45.0, len(warm))
    logged = replace(residuals, temperature=warm)
    first, second, *_ = speed_curves(identification, logged, 100)
    assert first.temperature is not None
    assert first.temperature[0] == 20.0
    assert second.temperature is None
    run = replace(identification, validations=(), training=replace(identification.training, residuals=logged))
    assert "coloured by temperature of the drive" in read(report_html(run)).text


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
