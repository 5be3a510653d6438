"""Runs a study and writes it as a folder with a page, Markdown, figures and numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from dynid.base import (
    FolderKind,
    RefusedError,
    UsageError,
    finite_or_none,
    listed_files,
    other_files,
    staged_folder,
)
from dynid_studies import STUDIES
from dynid_studies.page import study_html, study_markdown
from dynid_studies.study import Dose, Drawing, Paper, Result, Study, StudyPage, Table
from dynid_studies.svg import figure_svg

FORMAT = 1
KIND = "study"


class StudyModule(Protocol):
    """Interface of the module of a study."""

    PAPER: Paper

    @staticmethod
    def study(dose: Dose, page: StudyPage) -> None:
        """Run the experiment and write it to the page."""
        ...


def study_module(name: str) -> StudyModule:
    """Return the module of a study; raises UsageError for an unknown name."""
    if name not in STUDIES:
        raise UsageError("unknown-study", found=f"study '{name}'", expected="one of " + ", ".join(STUDIES))
    return cast(StudyModule, import_module(STUDIES[name]))


def run_study(name: str, dose: Dose | None = None, progress: Callable[[str], None] | None = None) -> Study:
    """Run a study; the same dose gives the same numbers."""
    module, chosen = study_module(name), dose or Dose()
    page = StudyPage(module.PAPER, chosen.full, progress)
    module.study(chosen, page)
    return page.finish()


def write_study(
    study: Study, folder: str | Path, *, page: bool = True, force: bool = False
) -> tuple[Path, ...]:
    """Write index.html, README.md, results.json and one SVG file per figure.

    Parameters
    ----------
    study : Study
        The study.
    folder : str or Path
        Folder to write.
    page : bool
        Whether to write index.html.
    force : bool
        Whether to replace the files of an existing study; other files stay.

    Returns
    -------
    tuple of Path
        The written files.

    Raises
    ------
    RefusedError
        If the folder exists and must not be replaced.
    ResourceError
        If the folder cannot be written.

    """
    folder = Path(folder)
    check_free(folder, force)
    with staged_folder(folder, STUDY, force) as scratch:
        for section in study.sections:
            for block in section.blocks:
                if isinstance(block, Drawing):
                    _text(scratch / f"{block.name}.svg", figure_svg(block.figure))
        _text(scratch / "results.json", json.dumps(results_dict(study), indent=1, ensure_ascii=False) + "\n")
        _text(scratch / "README.md", study_markdown(study))
        if page:
            _text(scratch / "index.html", study_html(study))
    return tuple(sorted(folder / name for name in listed_files(folder, STUDY) or ()))


def results_dict(study: Study) -> dict[str, Any]:
    """Return the plain data of results.json; a missing bound is null."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "study": study.paper.name,
        "source": study.paper.source,
        "full": study.full,
        "results": {result.name: _plain(result) for result in study.results},
        "tables": {table.name: _plain_table(table) for table in study.tables},
    }


def _plain_table(table: Table) -> dict[str, Any]:
    return {
        "caption": table.caption,
        "head": list(table.head),
        "rows": [
            [finite_or_none(cell) if isinstance(cell, float) else cell for cell in row] for row in table.rows
        ],
    }


def _plain(result: Result) -> dict[str, Any]:
    return {
        "what": result.what,
        "printed": result.printed,
        "ours": finite_or_none(result.ours),
        "least": finite_or_none(result.least),
        "most": finite_or_none(result.most),
        "unit": result.unit,
        "ok": result.ok,
        "explanation": result.explanation,
    }


def check_free(folder: Path, force: bool) -> tuple[str, ...]:
    """Return the files that stay when a study is written to a folder; raises RefusedError if that is not allowed."""
    if not folder.exists():
        return ()
    mine = listed_files(folder, STUDY) is not None
    if not (force and mine):
        raise RefusedError(
            "output-exists",
            found=f"'{folder}' exists already" + ("" if mine else " and is no study"),
            expected="a new folder",
            do="choose another --out" + (", or pass --force" if mine else ""),
        )
    return other_files(folder, STUDY)


def _files_of_unlisted_study(folder: Path) -> list[str] | None:
    try:
        data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        text = (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        return None
    figures = re.findall(r"^!\[.*\]\(([\w-]+\.svg)\)$", text, re.MULTILINE)
    return ["results.json", "README.md", "index.html", *figures]


STUDY = FolderKind(KIND, _files_of_unlisted_study)


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
