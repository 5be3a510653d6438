"""Everything that is needed to repeat the run."""

from __future__ import annotations

import json

from markupsafe import Markup

from dynid.report.plain import tables
from dynid.report.section import Page, render
from dynid.run.result import Identification


class ProvenanceSection:
    """Versions, hashes, seeds, kernel and recipe."""

    anchor = "provenance"
    title = "Provenance"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Provenance as tables, the recipe as tables and as JSON to copy."""
        return render(
            "provenance.html.jinja",
            {
                "provenance": tables(identification.provenance) if identification.provenance else "",
                "recipe": tables(identification.recipe) if identification.recipe else "",
                "json": json.dumps(dict(identification.recipe), indent=2, default=str),
                "robot": identification.robot.name,
                "source": identification.robot.source,
            },
        )
