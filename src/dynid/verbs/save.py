"""A run folder written with its report: run.json, model.json, tables, report.html."""

from __future__ import annotations

from pathlib import Path

from dynid.report import write_report
from dynid.run.result import Identification
from dynid.run.store import staged_run, write_tables


def save(identification: Identification, folder: str | Path, force: bool = False) -> Path:
    """Writes a run folder as a whole or not at all; returns the path of its report.

    force: whether the files of a run that is there are replaced; other files in its folder stay.
    Raises RefusedError if the folder exists, ResourceError if writing fails.
    """
    with staged_run(folder, force) as scratch:
        write_run(identification, scratch, Path(folder))
    return Path(folder) / "report.html"


def write_run(identification: Identification, folder: Path, final: Path) -> None:
    """Writes the files of a run and its report into a folder that is there; final: the folder that it becomes."""
    write_tables(identification, folder, final)
    write_report(identification, folder / "report.html")
