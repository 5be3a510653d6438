"""Diagnostics of the log, warnings first, and its summary."""

from __future__ import annotations

import json

from markupsafe import Markup

from dynid.base.diagnostics import Level
from dynid.report.section import Page, render
from dynid.report.text import tables
from dynid.run.result import Identification


class LogSection:
    """Warnings and notes of every stage, and the summary of the log."""

    anchor = "log"
    title = "Log diagnostics"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Two tables."""
        diagnostics = sorted(identification.diagnostics, key=lambda d: d.level is not Level.WARNING)
        return render(
            "log.html.jinja",
            {
                "diagnostics": [(str(d.level), d.code, str(d.place), d.text) for d in diagnostics],
                "summary": tables(identification.log_summary) if identification.log_summary else "",
            },
        )


# Everything needed to repeat the run.


class ProvenanceSection:
    """Versions, hashes, seeds, kernel, files and experiment."""

    anchor = "provenance"
    title = "Provenance"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Provenance as tables, the experiment as tables and as JSON to copy."""
        return render(
            "provenance.html.jinja",
            {
                "provenance": tables(identification.provenance) if identification.provenance else "",
                "files": tables(identification.files) if identification.files else "",
                "experiment": tables(identification.experiment) if identification.experiment else "",
                "json": json.dumps(dict(identification.experiment), indent=2, default=str),
                "robot": identification.robot.name,
                "source": identification.robot.source,
            },
        )
