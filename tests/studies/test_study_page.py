"""The scaffold of studies: results with bounds, pages, Markdown, SVG and the command."""

from __future__ import annotations

import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from dynid_studies import STUDIES
from dynid_studies.index import read_entries, write_index
from dynid_studies.page import study_html, study_markdown
from dynid_studies.run import results_dict, run_study, study_module, write_study
from dynid_studies.study import Dose, Paper, Result, Study, StudyPage, at_most, near, reported
from dynid_studies.svg import figure_svg, legend_of

from dynid.base import RefusedError, UsageError
from dynid.report import BLUE, VERMILION, Axis, Figure, Panel, bars, column_of, dots, level_line, line, row_of
from dynid.report.figures import level_band, with_errors
from tests.command_line import Run

DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
PAPER = Paper("pendulum", "A pendulum & its <period>", "Nobody 2000", "How long a swing takes.")


def pendulum(dose: Dose, page: StudyPage) -> None:
    page.section("Small swings")
    page.text("The period is `2 pi sqrt(l/g)`.\n\nA <script> is text.")
    length = np.linspace(0.1, 2.0, dose.pick(20, 200))
    page.table("Lengths", ("length", "period"), [("a | b", 1.5), ("none", None)], note="In `seconds`.")
    page.table("Digits", ("few", "many"), [(2 / 3, 2 / 3), (math.nan, 1.0)], digits=(2, 5), name="digits")
    panel = Panel((line(length, 2 * np.pi * np.sqrt(length / 9.81), "theory", BLUE),), Axis("m"), Axis("s"))
    page.figure("period", "Period by length", row_of([panel], 240))
    page.section("Numbers")
    page.results(
        "Beside print",
        near("one", "period of 1 m", 2.006, 2.0, 0.01, "s"),
        near("two", "a misprint", 3.0, 4.0, 0.1, right=3.0, explanation="digits exchanged"),
        at_most("three", "error", 0.5, 0.1),
        reported("four", "count", 7.0),
    )


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Study:
    module = ModuleType("pendulum_study")
    module.PAPER, module.study = PAPER, pendulum  # type: ignore[attr-defined]  # a module made here
    monkeypatch.setitem(sys.modules, "pendulum_study", module)
    monkeypatch.setitem(STUDIES, "pendulum", "pendulum_study")
    return run_study("pendulum")


def test_results_keep_their_bounds() -> None:
    assert near("a", "", 1.01, 1.0, 0.02).ok
    assert not near("a", "", 1.03, 1.0, 0.02).ok
    assert near("a", "", 3.0, 4.0, 0.1, right=3.0).deviation == pytest.approx(-0.25)
    assert at_most("a", "", 1.0, 1.0).ok
    assert not Result("a", "", float("nan")).ok
    assert reported("a", "", 1.0).deviation is None
    assert near("a", "", 1.0, 0.0, 2.0).deviation is None


def test_numbers_land_in_json(study: Study, tmp_path: Path) -> None:
    data = json.loads(json.dumps(results_dict(study), allow_nan=False))
    assert list(data["results"]) == ["one", "two", "three", "four"]
    assert data["results"]["two"]["ok"]
    assert data["results"]["two"]["explanation"] == "digits exchanged"
    assert (data["results"]["three"]["ok"], data["results"]["three"]["least"]) == (False, None)
    assert [result.name for result in study.missed] == ["three"]


def test_named_tables_land_in_json_whole(study: Study) -> None:
    tables = json.loads(json.dumps(results_dict(study), allow_nan=False))["tables"]
    assert list(tables) == ["digits"]
    assert tables["digits"] == {
        "caption": "Digits", "head": ["few", "many"], "rows": [[2 / 3, 2 / 3], [None, 1.0]]
    }  # fmt: skip
    assert "| 0.67 | 0.66667 |" in study_markdown(study)


def test_the_page_shows_everything_and_runs_nothing_of_it(study: Study) -> None:
    page = study_html(study)
    assert page == study_html(study)
    for text in (
        "A pendulum &amp; its &lt;period&gt;",
        "A &lt;script&gt; is text.",
        "digits exchanged",
        "2.006",
    ):
        assert text in page
    assert "2 of 3 bounded results lie within their bounds; 1 more is shown without a bound." in page
    assert 'id="figure-1"' in page
    assert "Out of bounds" in page
    assert "http://" not in page.split("<script")[0]


def test_markdown_names_its_figures(study: Study) -> None:
    text = study_markdown(study)
    assert "![Period by length](period.svg)" in text
    assert "| a \\| b | 1.50 |" in text
    assert "- a misprint: digits exchanged" in text
    assert "- error: 0.5000, bound ≤ 0.1" in text


def test_a_folder_appears_whole_and_is_replaced_only_by_force(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "pendulum"
    files = write_study(study, folder)
    assert [file.name for file in files] == [
        "README.md", "index.html", "manifest.json", "period.svg", "results.json",
    ]  # fmt: skip
    with pytest.raises(RefusedError, match="exists already"):
        write_study(study, folder)
    assert [file.name for file in write_study(study, folder, page=False, force=True)] == [
        "README.md", "manifest.json", "period.svg", "results.json",
    ]  # fmt: skip
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(RefusedError, match="is no study"):
        write_study(study, other, force=True)


def test_misuse_is_refused() -> None:
    page = StudyPage(PAPER, full=False)
    with pytest.raises(UsageError, match="before any section"):
        page.text("lost")
    page.section("one")
    with pytest.raises(UsageError, match="a row of 1 cells"):
        page.table("t", ("a", "b"), [(1.0,)])
    page.results("r", reported("x", "", 1.0))
    with pytest.raises(UsageError, match="twice"):
        page.results("r", reported("x", "", 1.0))
    with pytest.raises(UsageError, match="a row of 1 cells"):
        page.table("t", ("a", "b"), [(1.0, 2.0)], digits=(3,))
    page.table("t", ("a",), [(1.0,)], name="x")
    with pytest.raises(UsageError, match="twice"):
        page.table("t", ("a",), [(1.0,)], name="x")
    with pytest.raises(UsageError, match="unknown-study"):
        study_module("nobody1900")


def test_the_command_lists_runs_and_reports(study: Study, run: Run, tmp_path: Path) -> None:
    assert "pendulum: A pendulum" in run("study").out
    done = run("study", "pendulum", "--out", tmp_path)
    assert done.code == 5
    assert "2 of 3 bounded results lie within their bounds; 1 more is shown without a bound" in done.out
    assert (tmp_path / "pendulum" / "index.html").is_file()
    assert run("study", "pendulum", "--out", tmp_path).code == 7
    assert run("study", "nobody1900", "--out", tmp_path).code == 2


def test_a_folder_of_studies_gets_one_index(study: Study, run: Run, tmp_path: Path) -> None:
    assert run("study", "pendulum", "--out", tmp_path).code == 5
    (entry,) = read_entries(tmp_path)
    assert (entry.kept, entry.bounded, entry.explained) == (2, 3, 1)
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'href="pendulum/index.html"' in index
    assert "A pendulum" not in index or "<period>" not in index
    assert run("study", "pendulum", "--out", tmp_path, "--force").code == 5  # an index of ours is replaced
    assert "[pendulum](pendulum/README.md)" in write_index(tmp_path, markdown=True).read_text(
        encoding="utf-8"
    )
    (tmp_path / "index.html").write_text("somebody else's")
    assert run("study", "pendulum", "--out", tmp_path, "--force").code == 7
    assert (tmp_path / "index.html").read_text() == "somebody else's"


def test_every_listed_study_has_a_paper_of_its_name() -> None:
    for name in STUDIES:
        assert study_module(name).PAPER.name == name


def drawn() -> Figure:
    x = np.linspace(0, 10, 5000)
    wave = np.sin(x)
    gap = np.where((x > 3) & (x < 4), np.nan, wave)
    upper = Panel(
        (line(x, wave, "wave", BLUE), line(x, gap, "gap", VERMILION, dash="dash")),
        Axis(""), Axis("y & z"), (level_line(0.5), level_band(-0.1, 0.1)),
    )  # fmt: skip
    return column_of([upper, Panel((line(x, x, "ramp", BLUE),), Axis("time, s"), Axis("x"))], 300)


def test_svg_is_well_formed_and_draws_every_trace() -> None:
    text = figure_svg(drawn())
    root = ET.fromstring(text)  # noqa: S314  (our own text)
    assert text == figure_svg(drawn())
    paths = root.findall(f".//{SVG}path")
    assert [p.get("stroke") for p in paths] == [BLUE, VERMILION, BLUE]
    assert paths[1].get("d", "").count("M") == 2  # nan breaks a line
    assert len(paths[0].get("d", "").split("L")) < 2000  # a dense line is thinned
    words = {element.text for element in root.iter(f"{SVG}text")}
    assert {"wave", "gap", "ramp", "time, s", "y & z"} <= words


def test_svg_puts_values_where_they_belong() -> None:
    points = dots(np.array([0.0, 10.0]), np.array([1.0, 100.0]), "p", BLUE, size=6)
    axis = Axis("x", span=(0.0, 10.0)), Axis("y", log=True, span=(1.0, 10000.0))
    figure = row_of([Panel((points,), *axis)], 300)
    root = ET.fromstring(figure_svg(figure, 600))  # noqa: S314  # text of our own
    a, b = ((float(c.get("cx")), float(c.get("cy"))) for c in root.findall(f".//{SVG}g/{SVG}circle"))
    margin = figure.layout["margin"]
    top, bottom = margin["t"] + 20, 300 + 20 - margin["b"]
    assert a == pytest.approx((margin["l"], bottom), abs=0.01)
    assert b == pytest.approx((600 - margin["r"], 0.5 * (top + bottom)), abs=0.01)


def test_svg_draws_bars_and_errors() -> None:
    bar = bars(np.array([1.0, 2.0]), np.array([3.0, -1.0]), None, "b", BLUE)
    point = with_errors(dots(np.array([1.0]), np.array([2.0]), "e", VERMILION), np.array([0.5]), VERMILION)
    labels = Axis("", labels=("first", "second"))
    figure = row_of([Panel((bar,), labels, Axis("y")), Panel((point,), Axis(), Axis())], 300)
    root = ET.fromstring(figure_svg(figure))  # noqa: S314  # text of our own
    heights = [float(r.get("height")) for r in root.findall(f".//{SVG}g/{SVG}rect")]
    assert heights[0] == pytest.approx(3 * heights[1], rel=1e-3)
    assert {"first", "second"} <= {element.text for element in root.iter(f"{SVG}text")}
    assert [entry[0] for entry in legend_of(figure)] == ["b", "e"]


def test_pages_in_the_documentation_are_whole_and_listed() -> None:
    index = (DOCS / "studies" / "README.md").read_text(encoding="utf-8")
    folders = sorted(folder for folder in (DOCS / "studies").iterdir() if folder.is_dir())
    assert folders
    for folder in folders:
        assert folder.name in STUDIES
        assert f"]({folder.name}/README.md)" in index
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        assert (data["kind"], data["study"], data["full"]) == ("study", folder.name, True)
        assert [name for name, result in data["results"].items() if not result["ok"]] == []
        figures = set(re.findall(r"\]\((\w+\.svg)\)", (folder / "README.md").read_text(encoding="utf-8")))
        assert figures == {file.name for file in folder.glob("*.svg")}
