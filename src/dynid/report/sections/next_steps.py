"""What to do next, with commands to copy."""

from __future__ import annotations

from markupsafe import Markup

from dynid.report.section import Page, render
from dynid.run.next_steps import next_steps
from dynid.run.result import Identification


class NextStepsSection:
    """What the findings ask for, and what the model can be used for."""

    anchor = "next"
    title = "What to do next"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A list of steps with their commands."""
        return render("next_steps.html.jinja", {"steps": next_steps(identification)})
