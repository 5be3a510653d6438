"""Index of all studies of a folder, with the number of results within their bounds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dynid.base import RefusedError
from dynid.report.html import write_text
from dynid_studies import STUDIES
from dynid_studies.run import KIND, study_module

MARK = "dynid-study-index"
TITLE = "Studies: papers, and what comes out here"
INTRO = """\
Each study runs the experiment of a paper from the paper's own numbers through the public interface, and shows
every printed figure with the recomputed one. Where a print is wrong the page says so, with the evidence. A page counts
the results that have a bound; a result without a bound is shown and promises nothing.

`dynid study` lists the studies (package `dynid-studies`); `dynid study NAME` runs one in minutes, `--full` in full."""
HEAD = ("study", "paper", "run", "within bounds", "not in bounds", "explained differences")
_PAGE = Markup(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1f2933; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse }}
td, th {{ border-bottom: 1px solid #d5dbe1; padding: .4rem .6rem; text-align: left; vertical-align: top }}
a {{ color: #0072b2 }}
</style></head>
<body id="{mark}"><h1>{title}</h1>
<table><thead>{head}</thead>
<tbody>{rows}</tbody></table></body></html>
"""
)
_LINK = Markup('<a href="{}/index.html">{}</a>')
_CELLS = {"td": Markup("<td>{}</td>"), "th": Markup("<th>{}</th>")}
_ROW = Markup("<tr>{}</tr>\n")


@dataclass(frozen=True)
class Entry:
    """A study of the folder.    missed: results out of bounds.    explained: number of explained differences."""

    name: str
    title: str
    source: str
    full: bool
    kept: int
    bounded: int
    missed: tuple[str, ...]
    explained: int

    @staticmethod
    def of(name: str, data: dict[str, Any]) -> Entry:
        """Make an entry from the data of results.json."""
        paper, results = study_module(name).PAPER, list(data["results"].values())
        bounded = [r for r in results if r["least"] is not None or r["most"] is not None]
        return Entry(
            name=name,
            title=paper.title,
            source=paper.source,
            full=bool(data["full"]),
            kept=sum(r["ok"] for r in bounded),
            bounded=len(bounded),
            missed=tuple(r["what"] for r in results if not r["ok"]),
            explained=sum(bool(r["explanation"]) for r in results),
        )

    def cells(self) -> tuple[str, ...]:
        """Return the cells after the name."""
        return (
            self.source.rstrip("."),
            "in full" if self.full else "quick",
            f"{self.kept} of {self.bounded}",
            "; ".join(self.missed) or "–",
            str(self.explained),
        )


def read_entries(folder: Path) -> tuple[Entry, ...]:
    """Return the studies in a folder, in the order of the catalogue."""
    entries = []
    for name in STUDIES:
        file = folder / name / "results.json"
        if file.is_file():
            data = json.loads(file.read_text(encoding="utf-8"))
            if data.get("kind") == KIND:
                entries.append(Entry.of(name, data))
    return tuple(entries)


def check_index(folder: Path, markdown: bool) -> None:
    """Raise RefusedError if another file has the name of the index."""
    path = _path(folder, markdown)
    if path.exists() and not (path.is_file() and MARK in path.read_text(encoding="utf-8", errors="replace")):
        raise RefusedError(
            "output-exists",
            found=f"file '{path}', which is not an index of studies",
            expected="a folder without this file",
            do="choose another folder with --out",
        )


def write_index(folder: Path, markdown: bool = False) -> Path:
    """Write index.html or README.md with all studies in the folder; return its path.

    An existing index is replaced. Raises RefusedError if another file has that name.
    """
    check_index(folder, markdown)
    path, entries = _path(folder, markdown), read_entries(folder)
    write_text(path, _markdown(entries) if markdown else _html(entries))
    return path


def _path(folder: Path, markdown: bool) -> Path:
    return folder / ("README.md" if markdown else "index.html")


def _markdown(entries: tuple[Entry, ...]) -> str:
    lines = [
        f"# {TITLE}",
        f"<!-- {MARK} -->",
        INTRO,
        "| " + " | ".join(HEAD) + " |",
        "|" + " --- |" * len(HEAD),
    ]
    for entry in entries:
        cells = (f"[{entry.name}]({entry.name}/README.md)", *entry.cells())
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n\n".join(lines[:3]) + "\n\n" + "\n".join(lines[3:]) + "\n"


def _html(entries: tuple[Entry, ...]) -> str:
    def row(tag: str, cells: tuple[str, ...]) -> Markup:
        return _ROW.format(Markup("").join(_CELLS[tag].format(cell) for cell in cells))

    rows = Markup("").join(row("td", (_LINK.format(e.name, e.name), *e.cells())) for e in entries)
    return str(_PAGE.format(title=TITLE, mark=MARK, head=row("th", HEAD), rows=rows))
