"""What a choice among models says, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from dynid.base.findings import Finding
from dynid.base.numbers import with_interval
from dynid.choose.selection import MeasurementEffect, Selection
from dynid.terms.catalogue import question_words

_LOUD = {"s": (1e3, "ms"), "1": (1e2, "%"), "rad": (1e3, "mrad")}


def selection_findings(selection: Selection | None) -> list[Finding]:
    """One finding on the chosen model; none without a choice."""
    if selection is None:
        return []
    text = options_in_words(selection.axes, selection.chosen.options) + "."
    if selection.friction and "by joint" in selection.chosen.options:
        text += " Friction by joint: " + ", ".join(f"{f.joint} {f.form}" for f in selection.friction) + "."
    held = [one for one in selection.measurement_effects if one.adopted and one.fault]
    if held:
        text += " It holds what the log adds: " + ", ".join(_in_words(one) for one in held) + "."
    title = f"Model chosen among {selection.compared} on held-out blocks"
    return [Finding("good", title, text, code="model-chosen")]


def effects_left_out(effects: Sequence[MeasurementEffect]) -> str:
    """That effects of the log were taken out of the model again, and why."""
    return (
        f"{', '.join(_in_words(one) for one in effects)}: predicts held-out blocks better, but the interval in the "
        "final fit holds zero; left out of the model"
    )


def _in_words(one: MeasurementEffect) -> str:
    factor, unit = _LOUD.get(one.unit, (1.0, one.unit))
    where = f" of {one.joint}" if one.joint else ""
    return f"{one.kind}{where} {with_interval(factor * one.value, factor * one.half_width)} {unit}"


def options_in_words(axes: Sequence[str], options: Sequence[str]) -> str:
    """What was chosen on every axis of the comparison."""
    return "; ".join(
        f"{question_words(axis)}: {'kept' if option == axis else option}"
        for axis, option in zip(axes, options, strict=True)
    )
