"""Forms of friction side by side on held-out blocks, joint by joint."""

from __future__ import annotations

from markupsafe import Markup

from dynid.choose.shapes import Choice, FormScore
from dynid.report.section import Page, render
from dynid.report.text import number, percent
from dynid.run.result import Identification


class FrictionSection:
    """Which candidates were compared, what each gained on data it was not fitted on, and which was chosen."""

    anchor = "friction"
    title = "Choice of friction"

    def render(self, identification: Identification, page: Page) -> Markup:
        """One table: a group of rows a joint, a row for every candidate."""
        return render(
            "friction.html.jinja",
            {
                "choices": [_choice(c) for c in identification.choices],
                "automatic": _automatic(identification),
            },
        )


def _automatic(identification: Identification) -> str:
    """The option of friction of a model that was chosen as a whole, "" = none."""
    selection = identification.selection
    if selection is None:
        return ""
    return dict(zip(selection.axes, selection.chosen.options, strict=True)).get("friction", "")


def _choice(choice: Choice) -> dict[str, object]:
    return {
        "joint": choice.joint,
        "subject": choice.subject,
        "rows": [_row(choice, candidate) for candidate in choice.candidates],
    }


def _row(choice: Choice, candidate: FormScore) -> dict[str, str]:
    first = candidate is choice.candidates[0]
    return {
        "name": candidate.name,
        "parameters": str(candidate.parameters),
        "relative": percent(candidate.relative, 3),
        "gain": "" if first else percent(candidate.gain, 3),
        "error": "" if first else percent(candidate.gain_std, 2),
        "earned": "compared with" if first else "yes" if candidate.earned else "no",
        "chosen": "chosen" if candidate.name == choice.chosen else "",
        "gain_number": number(candidate.gain),
    }
