"""Everything that is needed to repeat the run."""

from __future__ import annotations

import json

from markupsafe import Markup

from dynid.report.plain import tables
from dynid.report.section import Page, render
from dynid.run.result import Identification


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
