"""Friction and drives of every joint."""

from __future__ import annotations

import math

from markupsafe import Markup

from dynid.choose.search import Choice, FormScore
from dynid.report.section import Page, render
from dynid.report.text import interval, letter, number, parts, percent, words
from dynid.run.links import JointValue, joint_values
from dynid.run.result import Identification


class JointsSection:
    """Friction and drive parameters of every joint, with units and intervals."""

    anchor = "joints"
    title = "Friction and drives"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A table, joint by joint."""
        values = joint_values(identification)
        names = list(dict.fromkeys(value.joint for value in values))
        return render(
            "joints.html.jinja",
            {"joints": [(name, [_joint(v) for v in values if v.joint == name]) for name in names]},
        )


def _joint(value: JointValue) -> dict[str, object]:
    name = parts(value.column)[0]
    shown, half = (
        interval(value.value, value.half) if math.isfinite(value.half) else (number(value.value), "")
    )
    return {
        "symbol": letter(name),
        "words": words(name),
        "value": shown,
        "half": half,
        "unit": value.column.unit,
        "known": value.known,
    }


# Comparison of friction forms on held-out blocks, per joint.


class FrictionSection:
    """Compared friction forms, their gain on held-out data, and the choice."""

    anchor = "friction"
    title = "Choice of friction"

    def render(self, identification: Identification, page: Page) -> Markup:
        """One table with a row for every joint and candidate."""
        return render(
            "friction.html.jinja",
            {
                "choices": [_choice(c) for c in identification.choices],
                "automatic": _automatic(identification),
            },
        )


def _automatic(identification: Identification) -> str:
    """Friction option of an automatically chosen model; "" if none."""
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
        "earned": "reference" if first else "yes" if candidate.earned else "no",
        "chosen": "chosen" if candidate.name == choice.chosen else "",
        "gain_number": number(candidate.gain),
    }
