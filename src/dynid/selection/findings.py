"""What a choice among models says, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from dynid.judgement import Finding
from dynid.selection.result import Selection

_NAMES = {"rotors": "rotor inertia", "base": "base", "time": "torque"}


def selection_findings(selection: Selection | None) -> list[Finding]:
    """One finding on the chosen model; none without a choice."""
    if selection is None:
        return []
    text = options_in_words(selection.axes, selection.chosen.options) + "."
    if selection.friction and "by joint" in selection.chosen.options:
        text += " Friction by joint: " + ", ".join(f"{f.joint} {f.form}" for f in selection.friction) + "."
    return [Finding("good", f"Model chosen among {selection.compared} on held-out blocks", text)]


def options_in_words(axes: Sequence[str], options: Sequence[str]) -> str:
    """What was chosen on every axis of the comparison."""
    return "; ".join(
        f"{_NAMES.get(axis, axis)}: {'kept' if option == axis else option}"
        for axis, option in zip(axes, options, strict=True)
    )
