"""Friction and drives of every joint."""

from __future__ import annotations

import math

from markupsafe import Markup

from dynid.report.section import Page, render
from dynid.report.symbols import letter, parts, words
from dynid.report.text import interval, number
from dynid.run.links import JointValue, joint_values
from dynid.run.result import Identification


class JointsSection:
    """What the model has of every joint, in words, with units and intervals."""

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
