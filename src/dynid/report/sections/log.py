"""What was found in the log: warnings first, then its summary."""

from __future__ import annotations

from markupsafe import Markup

from dynid.base.diagnostics import Severity
from dynid.report.plain import tables
from dynid.report.section import Page, render
from dynid.run.result import Identification


class LogSection:
    """Warnings and notes of every stage, and the summary of the log."""

    anchor = "log"
    title = "Log diagnostics"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Two tables."""
        found = sorted(identification.diagnostics, key=lambda d: d.severity is not Severity.WARNING)
        return render(
            "log.html.jinja",
            {
                "diagnostics": [(str(d.severity), d.identifier, str(d.place), d.text) for d in found],
                "summary": tables(identification.log_summary) if identification.log_summary else "",
            },
        )
