"""Models compared on held-out blocks, gain of each option, and further effects estimated from the log."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.choose.selection import Ablation, MeasurementEffect, Model, Selection
from dynid.report.figures import (
    BLUE,
    GREY,
    VERMILION,
    Axis,
    Figure,
    Panel,
    Trace,
    dots,
    labelled,
    level_line,
    row_of,
)
from dynid.report.section import Page, render
from dynid.report.text import interval, number, percent, words
from dynid.run.result import Identification

# Models that are listed; the others have larger errors.
SHOWN = 16
_FACTORS = {"mrad": 1e3, "ms": 1e3, "%": 100.0}
_UNITS = {"rad": "mrad", "s": "ms", "1": "%"}


class SelectionSection:
    """Compared models, their error on held-out data, and the choice."""

    anchor = "selection"
    title = "Choice of the model"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Plot of error over number of parameters, table of models, gain of each option, further effects."""
        selection = identification.selection
        if selection is None:
            return render("selection.html.jinja", {"selection": None})
        return render(
            "selection.html.jinja",
            {
                "selection": selection,
                "plot": page.figure(
                    _figure(selection), "held-out error of every model against its parameters"
                ),
                "rows": [_model_row(m, m is selection.chosen) for m in selection.models[:SHOWN]],
                "hidden": max(selection.compared - SHOWN, 0),
                "friction": [
                    (f.joint, f.form, percent(f.gain, 2), percent(f.gain_std, 2)) for f in selection.friction
                ],
                "by_joint": "by joint" in selection.chosen.options,
                "ablations": [_ablation_row(w) for w in selection.ablations],
                "measurement_effects": [_effect_row(n) for n in selection.measurement_effects],
            },
        )


def _ablation_row(ablation: Ablation) -> tuple[str, ...]:
    clear = abs(ablation.gain) > ablation.gain_std
    word = "no difference" if not clear else "better" if ablation.gain > 0 else "worse"
    return (
        ablation.axis,
        ablation.option,
        ablation.other,
        percent(ablation.gain, 2),
        percent(ablation.gain_std, 2),
        word,
    )


def _model_row(model: Model, chosen: bool) -> dict[str, object]:
    return {
        "options": model.options,
        "parameters": model.parameters,
        "relative": percent(model.relative, 3),
        "behind": percent(model.behind, 2),
        "error": percent(model.behind_std, 2),
        "within": model.within,
        "chosen": chosen,
    }


def _effect_row(effect: MeasurementEffect) -> dict[str, object]:
    unit = _UNITS.get(effect.unit, effect.unit)
    factor = _FACTORS.get(unit, 1.0)
    value, half = effect.value * factor, effect.half_width * factor
    shown, width = interval(value, half) if np.isfinite(half) else (number(value), "")
    return {
        "name": effect.name,
        "meaning": words(effect.name.rstrip("0123456789")),
        "joint": effect.joint,
        "value": shown,
        "half": width,
        "unit": unit,
        "adopted": effect.adopted,
        "significant": effect.significant,
    }


def _about(values: Float) -> tuple[float, float] | None:
    """Limits of an axis for values (k,), which may all be equal; None if they are zero."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    room = max(0.08 * (high - low), 0.02 * high)
    return (low - room, high + room) if room > 0 else None


def _figure(selection: Selection) -> Figure:
    models = selection.models
    size = np.array([float(m.parameters) for m in models])
    error = np.array([100.0 * m.relative for m in models])
    within = np.array([m.within for m in models])
    near = error <= 2.0 * np.nanmin(error)

    def marks(mask: np.ndarray, name: str, color: str, diameter: float) -> Trace:
        labels = [
            f"{', '.join(models[i].options)}: {error[i]:.3g} %, {models[i].parameters} parameters"
            for i in np.flatnonzero(mask)
        ]
        return labelled(dots(size[mask], error[mask], name, color, diameter, 0.85), labels)

    chosen = np.arange(len(models)) == 0
    panel = Panel(
        traces=(
            marks(near & ~within & ~chosen, "other", GREY, 6),
            marks(near & within & ~chosen, "as good as the best", BLUE, 7),
            marks(chosen, "chosen", VERMILION, 11),
        ),
        x=Axis("parameters"),
        y=Axis("held-out error, %", span=_about(error[near])),
        shapes=(level_line(float(np.nanmin(error))),),
    )
    return row_of((panel,), 280)
