"""Reports: one offline HTML file for a run, and one for several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.report.compare import comparison_html as comparison_html
    from dynid.report.compare import write_comparison_page as write_comparison_page
    from dynid.report.figures import BLUE as BLUE
    from dynid.report.figures import CYCLE as CYCLE
    from dynid.report.figures import DASHES as DASHES
    from dynid.report.figures import GREY as GREY
    from dynid.report.figures import INK as INK
    from dynid.report.figures import PALE as PALE
    from dynid.report.figures import VERMILION as VERMILION
    from dynid.report.figures import Axis as Axis
    from dynid.report.figures import Figure as Figure
    from dynid.report.figures import Panel as Panel
    from dynid.report.figures import Trace as Trace
    from dynid.report.figures import band as band
    from dynid.report.figures import bars as bars
    from dynid.report.figures import column_of as column_of
    from dynid.report.figures import dots as dots
    from dynid.report.figures import labelled as labelled
    from dynid.report.figures import level_line as level_line
    from dynid.report.figures import line as line
    from dynid.report.figures import packed as packed
    from dynid.report.figures import row_of as row_of
    from dynid.report.figures import time_line as time_line
    from dynid.report.html import Chapter as Chapter
    from dynid.report.html import page_html as page_html
    from dynid.report.html import report_html as report_html
    from dynid.report.html import write_text as write_text
    from dynid.report.section import Page as Page
    from dynid.report.section import Section as Section
    from dynid.report.section import render as render
    from dynid.report.text import formula as formula
    from dynid.report.text import interval as interval
    from dynid.report.text import number as number
    from dynid.report.text import percent as percent
    from dynid.report.text import plain_number as plain_number
    from dynid.report.text import short as short
    from dynid.report.text import symbol as symbol
    from dynid.run.result import Identification


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


__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "compare": "comparison_html write_comparison_page",
        "figures": (
            "Axis BLUE CYCLE DASHES Figure GREY INK PALE Panel Trace VERMILION band bars column_of dots "
            "labelled level_line line packed row_of time_line"
        ),
        "html": "Chapter page_html report_html write_text",
        "section": "Page Section render",
        "text": "formula interval number percent plain_number short symbol",
    },
)
__all__ += ["write_report"]
