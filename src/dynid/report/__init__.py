"""Reports: one offline HTML file for a run, and one for several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynid.run.result import Identification

__all__ = ["write_report"]


def write_report(identification: Identification, path: str | Path) -> None:
    """Writes the report of an identification as one HTML file that needs no other file and no network.

    The file appears whole or not at all.

    Raises ResourceError if it cannot be written.
    """
    # Jinja2 and the sections are loaded only when a report is written, so that importing dynid stays quick.
    from dynid.report.html import report_html, write_text

    write_text(Path(path), report_html(identification))
