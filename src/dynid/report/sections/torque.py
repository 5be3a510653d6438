"""Measured and predicted torque over time, per joint."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.estimate.scores import Residuals
from dynid.report.figures import (
    BLUE,
    GREY,
    ORANGE,
    STEEL,
    VERMILION,
    Axis,
    Figure,
    Panel,
    Trace,
    column_of,
    level_line,
    shared_band,
    shared_line,
    time_line,
)
from dynid.report.section import Page, data_sets, effort_unit, render
from dynid.report.text import number, percent, r_squared
from dynid.report.timeline import Timeline, broken, lay_out, thin
from dynid.run.result import Identification, Validation

# Points of a signal, most and fewest, and of all signals together: they keep a report below 3 MB.
MOST_POINTS = 4000
LEAST_POINTS = 300
TOTAL_POINTS = 28_000
# Standard deviations that contain 95 % of a normal distribution.
NORMAL = 1.96
BANDS = ("95 % of the model", "95 % of measurements")
OPACITY = (0.45, 0.13)


class TorqueSection:
    """Measured and predicted torque and the residual, zoomable."""

    anchor = "torque"
    title = "Torque: measured and predicted"

    def render(self, identification: Identification, page: Page) -> Markup:
        """One tab per data set with residuals; the worst and a typical joint, the others folded."""
        sets = [(label, kind, v) for label, kind, v in data_sets(identification) if v.residuals is not None]
        sets = [entry for entry in sets if entry[2].residuals is not None and len(entry[2].residuals.t)]
        count = sum(len(v.scores.joint_names) for _, _, v in sets)
        points = max(min(MOST_POINTS, TOTAL_POINTS // max(count, 1)), LEAST_POINTS)
        tabs = [
            (label, kind, _panels(identification, v, v.residuals, f"torque-{i}", points, page))
            for i, (label, kind, v) in enumerate(sets)
            if v.residuals is not None
        ]
        without = [label for label, _, v in data_sets(identification) if v.residuals is None]
        return render("torque.html.jinja", {"tabs": page.tabs(tabs) if tabs else "", "without": without})


def _panels(
    identification: Identification,
    validation: Validation,
    residuals: Residuals,
    sync: str,
    points: int,
    page: Page,
) -> Markup:
    timeline = lay_out(residuals)
    scores = validation.scores
    joints = []
    for j, name in enumerate(residuals.joint_names):
        halves = _half_widths(identification, residuals, j)
        figure = _figure(residuals, timeline, j, effort_unit(identification, j), sync, points, halves)
        joints.append(
            {
                "name": name,
                "relative": percent(float(scores.relative[j])),
                "rms": f"{number(float(scores.rms[j]))} {effort_unit(identification, j)}",
                "r2": r_squared(float(scores.r2[j])),
                "inside": "" if halves is None else percent(_inside(residuals, j, halves[1]), 3),
                "plot": page.figure(figure, f"measured and predicted torque of joint {name}"),
            }
        )
    first = shown_first(scores.relative)
    return render(
        "torque_panels.html.jinja",
        {
            "first": [joints[j] for j in first],
            "rest": [joint for j, joint in enumerate(joints) if j not in first],
            "spans": timeline.spans,
            "samples": len(residuals.t),
            "rate": residuals.rate,
            "thinned": len(residuals.t) > points,
            "points": points,
        },
    )


def shown_first(relative: Float) -> list[int]:
    """Joint with the largest error, and one with the median error; relative: errors, shape (n_joints,)."""
    order = np.argsort(-np.nan_to_num(relative), kind="stable")
    return list(dict.fromkeys((int(order[0]), int(order[len(order) // 2])))) if len(order) else []


def _inside(residuals: Residuals, joint: int, half: Float) -> float:
    return float(np.mean(np.abs(residuals.measured[:, joint] - residuals.predicted[:, joint]) <= half))


def _half_widths(
    identification: Identification, residuals: Residuals, joint: int
) -> tuple[Float, Float] | None:
    """Half widths (n_samples,) of the 95 % bands of the predicted torque and of measurements; None if unknown."""
    if residuals.std is None or not np.isfinite(residuals.std[:, joint]).all():
        return None
    left = identification.training.scores.sde[joint]
    model = identification.estimate.quantile() * residuals.std[:, joint]
    return model, np.hypot(model, NORMAL * left)


def _figure(
    residuals: Residuals,
    timeline: Timeline,
    joint: int,
    unit: str,
    sync: str,
    points: int,
    halves: tuple[Float, Float] | None,
) -> Figure:
    measured, predicted = residuals.measured[:, joint], residuals.predicted[:, joint]
    error = measured - predicted
    kept = thin([measured, error], points)
    drawn = {"t": timeline.x, "measured": measured, "predicted": predicted}
    drawn |= {} if halves is None else dict(zip(BANDS, halves, strict=True))
    arrays = {name: broken(values, kept, timeline.starts) for name, values in drawn.items()}
    borders = tuple(time_line(span.start, GREY) for span in timeline.spans[1:])
    bands: tuple[Trace, ...] = ()
    around_zero: tuple[Trace, ...] = ()
    if halves is not None:
        for name, opacity in zip(BANDS, OPACITY, strict=True):
            bands += (shared_band("t", name, name, ORANGE, opacity, "predicted"),)
            around_zero += (shared_band("t", name, name, ORANGE, opacity),)
    torque = Panel(
        traces=(
            *bands,
            shared_line("t", "measured", "measured", STEEL, 2.6),
            shared_line("t", "predicted", "predicted", VERMILION, 1.2),
        ),
        x=Axis("time, s"),
        y=Axis(unit),
        shapes=borders,
        weight=2.4,
    )
    residual = Panel(
        traces=(*around_zero, shared_line("t", "measured", "residual", BLUE, 0.9, less="predicted")),
        x=Axis("time, s"),
        y=Axis("residual", most_ticks=4),
        shapes=(*borders, level_line(0.0)),
    )
    return column_of((torque, residual), 210, sync, arrays)
