"""Reports: one offline HTML file for a run, and one for several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.report.compare import comparison_html, write_comparison_page
    from dynid.report.figures import (
        BLUE,
        CYCLE,
        DASHES,
        GREY,
        INK,
        PALE,
        VERMILION,
        Axis,
        Figure,
        Panel,
        Trace,
        band,
        column_of,
        dots,
        labelled,
        level_line,
        line,
        packed,
        row_of,
        time_line,
    )
    from dynid.report.html import Chapter, page_html, report_html, write_text
    from dynid.report.section import Page, Section, render
    from dynid.report.text import formula, interval, number, percent, short, symbol
    from dynid.run.result import Identification

__all__ = [
    "BLUE",
    "CYCLE",
    "DASHES",
    "GREY",
    "INK",
    "PALE",
    "VERMILION",
    "Axis",
    "Chapter",
    "Figure",
    "Page",
    "Panel",
    "Section",
    "Trace",
    "band",
    "column_of",
    "comparison_html",
    "dots",
    "formula",
    "interval",
    "labelled",
    "level_line",
    "line",
    "number",
    "packed",
    "page_html",
    "percent",
    "render",
    "report_html",
    "row_of",
    "short",
    "symbol",
    "time_line",
    "write_comparison_page",
    "write_report",
    "write_text",
]


def write_report(identification: Identification, path: str | Path) -> None:
    """Write the report of an identification as one offline HTML file, as a whole or not at all.

    Parameters
    ----------
    identification : Identification
        The result to report.
    path : str or Path
        The HTML file.

    Raises
    ------
    ResourceError
        If it cannot be written.

    """
    # Jinja2 and the sections are slow to import, so they are loaded only when a report is written.
    from dynid.report.html import report_html, write_text

    write_text(Path(path), report_html(identification))


__getattr__, __dir__ = lazily(
    __name__,
    {
        "compare": "comparison_html write_comparison_page",
        "figures": (
            "Axis BLUE CYCLE DASHES Figure GREY INK PALE Panel Trace VERMILION band column_of dots "
            "labelled level_line line packed row_of time_line"
        ),
        "html": "Chapter page_html report_html write_text",
        "section": "Page Section render",
        "text": "formula interval number percent short symbol",
    },
)
