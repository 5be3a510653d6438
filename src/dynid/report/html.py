"""One offline HTML page with sections, figures, style, script and plotly."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dynid.base.files import staged_files
from dynid.base.pages import ends_element, own_text, page_policy, script_json
from dynid.base.records import dataclass
from dynid.report.figures import DARK
from dynid.report.section import TEMPLATES, Page, render
from dynid.report.sections import FOLDED, SHOWN
from dynid.run.result import Identification

__all__ = ["Chapter", "page_html", "report_html", "write_text"]

PLOTLY = Path(__file__).parent / "assets" / "plotly-basic.min.js"


@dataclass(frozen=True)
class Chapter:
    """A rendered section.

    Attributes
    ----------
    anchor, title : str
        Address within the page; heading.
    html : Markup
        Content.
    place : str
        Class of the section, by which the style places it; "" = full width.
    about : str
        What the section shows, in one line; such a section is folded. "" = always open.

    """

    anchor: str
    title: str
    html: Markup
    place: str = ""
    about: str = ""


def report_html(identification: Identification) -> str:
    """HTML of the report; the same identification gives the same bytes."""
    page = Page()
    chapters = [
        Chapter(s.anchor, s.title, s.render(identification, page), place, about)
        for s, place, about in (
            *((section, place, "") for section, place in SHOWN),
            *((section, "", about) for section, about in FOLDED),
        )
    ]
    name = identification.robot.name or "robot"
    return page_html(
        f"{name}: identified dynamics", "Identification report", name, chapters, page, _facts(identification)
    )


def _facts(identification: Identification) -> list[tuple[str, str]]:
    """Date, robot file and logs of a run, as label and value."""
    provenance: Mapping[str, Any] = identification.provenance
    finished = str(provenance.get("finished", "")).replace("T", " ").replace("+00:00", " UTC")
    names = [
        ", ".join(Path(str(path)).name for path in provenance.get(key, ()))
        for key in ("logs", "validation_logs")
    ]
    known = (
        ("date", finished),
        ("robot", Path(identification.robot.source).name if identification.robot.source else ""),
        ("log", names[0]),
        ("held-out log", names[1]),
        ("dynid", str(provenance.get("dynid", ""))),
    )
    return [(label, value) for label, value in known if value]


def page_html(
    title: str,
    kind: str,
    subject: str,
    chapters: Sequence[Chapter],
    page: Page,
    facts: Sequence[tuple[str, str]] = (),
) -> str:
    """HTML of a whole page.

    The content policy allows scripts only by their hash, so names in the data cannot inject a script.

    Parameters
    ----------
    title : str
        Title of the browser tab.
    kind : str
        Kind of page, above the heading.
    subject : str
        Heading.
    chapters : sequence of Chapter
        Rendered sections.
    page : Page
        Collects the figures of the chapters.
    facts : sequence of (str, str)
        Labels and values below the heading.

    Returns
    -------
    str

    """
    plotly, script = plotly_javascript(), _asset("script.js")
    scripts = [plotly, script, *([page.scene_script] if page.scene_script else [])]
    context = {
        "title": title,
        "kind": kind,
        "subject": subject,
        "facts": facts,
        "chapters": chapters,
        "policy": page_policy(scripts),
        "style": _trusted(_asset("style.css") + page.scene_style),
        "scripts": [_trusted(script_text) for script_text in scripts],
        "figures": _trusted(script_json({"figures": page.figures, "dark": DARK})),
    }
    return str(render("page.html.jinja", context))


def plotly_javascript() -> str:
    """Source of plotly.js with basic traces only (lines, markers, bars), a quarter of the full size."""
    return own_text(PLOTLY)


def write_text(path: Path, text: str) -> None:
    """Write a text file as a whole or not at all; raises ResourceError if that fails."""
    with staged_files(path) as (scratch,), scratch.open("wb") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _asset(name: str) -> str:
    return own_text(TEMPLATES / name)


def _trusted(text: str) -> Markup:
    if ends_element(text):
        raise ValueError("an embedded text would end its own element")
    return Markup(text)  # noqa: S704  (the package's own files, or JSON without any markup character)
