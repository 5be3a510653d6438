"""One offline HTML page: sections, figures, style, script and plotly in a single file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from dynid.base.atomic_write import staged_files
from dynid.report.figures import DARK
from dynid.report.section import TEMPLATES, Page, render
from dynid.report.sections import SECTIONS
from dynid.run.result import Identification

__all__ = ["Chapter", "page_html", "report_html", "write_text"]

PLOTLY = Path(__file__).parent / "assets" / "plotly-basic.min.js"
_ESCAPED_IN_JSON = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True)
class Chapter:
    """A rendered section."""

    anchor: str
    title: str
    html: Markup


def report_html(identification: Identification) -> str:
    """The report as text; the same identification gives the same bytes."""
    page = Page()
    chapters = [Chapter(s.anchor, s.title, s.render(identification, page)) for s in SECTIONS]
    name = identification.robot.name or "robot"
    return page_html(f"{name}: identified dynamics", "Identification report", name, chapters, page)


def page_html(title: str, kind: str, subject: str, chapters: Sequence[Chapter], page: Page) -> str:
    """A whole page from its chapters.

    Scripts run by their hash alone, so nothing that comes with the data can run, whatever a joint is called.
    """
    plotly, script = plotly_javascript(), _asset("script.js")
    policy = (
        f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    context = {
        "title": title,
        "kind": kind,
        "subject": subject,
        "chapters": chapters,
        "policy": policy,
        "style": _trusted(_asset("style.css")),
        "plotly": _trusted(plotly),
        "script": _trusted(script),
        "figures": _trusted(script_json({"figures": page.figures, "dark": DARK})),
    }
    return str(render("page.html.jinja", context))


def script_json(data: object) -> str:
    """JSON that may stand inside a script element: no character in it can end the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escape in _ESCAPED_IN_JSON.items():
        text = text.replace(character, escape)
    return text


def plotly_javascript() -> str:
    """The text of plotly.js with its basic traces (lines, markers, bars), a quarter of the whole, that dynid brings."""
    return _normal(PLOTLY.read_text(encoding="utf-8"))


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all; raises ResourceError if that fails."""
    with staged_files(path) as (scratch,), scratch.open("wb") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _asset(name: str) -> str:
    return _normal((TEMPLATES / name).read_text(encoding="utf-8"))


def _normal(text: str) -> str:
    # A browser turns CR LF into LF before it hashes a script.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode('utf-8')).digest()).decode('ascii')}'"


def _trusted(text: str) -> Markup:
    if "</script" in text.lower() or "</style" in text.lower():
        raise ValueError("an embedded text would end its own element")
    return Markup(text)  # noqa: S704  (the package's own files, or JSON without any markup character)
