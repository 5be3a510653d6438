"""The command `dynid study`, which repeats the experiments of papers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ForceOption, note_kept, say


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of studies, or all.", metavar="[NAME...|all]")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Run everything, not the quick form.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder that gets a folder for each study.")] = Path(
        "dynid-studies"
    ),
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Markdown only, without the HTML page.")
    ] = False,
    force: ForceOption = False,
) -> None:
    """Repeat the experiment of a paper and write a page with printed and computed results."""
    from dynid_studies import STUDIES
    from dynid_studies.index import check_index, write_index
    from dynid_studies.run import check_free, run_study, study_module, write_study
    from dynid_studies.study import Dose

    if not names:
        for name in STUDIES:
            paper = study_module(name).PAPER
            say(f"{name}: {paper.title}\n    {paper.source}")
        return
    chosen = list(STUDIES) if "all" in names else list(dict.fromkeys(names))
    for name in chosen:
        study_module(name)
        note_kept(out / name, check_free(out / name, force))
    check_index(out, markdown)
    dose = Dose(full=full, data=_data_folder())
    missed = 0
    for name in chosen:
        study = run_study(name, dose, partial(_announce, name))
        write_study(study, out / name, page=not markdown, force=force)
        say(f"{name}: {study.count}")
        for result in study.missed:
            say(f"  {result.what}: {result.ours:.4g}, bounds {result.least:.4g} to {result.most:.4g}")
        say(f"  written: {out / name / ('README.md' if markdown else 'index.html')}")
        missed += len(study.missed)
    say(f"all studies here: {write_index(out, markdown)}")
    _report(missed)


def _report(missed: int) -> None:
    from dynid.base import SolverError

    if missed:
        raise SolverError(
            "study-differs",
            found=f"{missed} results out of bounds",
            expected="all results within their bounds",
        )


def _data_folder() -> Path | None:
    import os

    folder = os.environ.get("DYNID_DATA", "")
    return Path(folder) if folder and Path(folder).is_dir() else None


def _announce(name: str, title: str) -> None:
    say(f"{name}: {title}", err=True)
