"""Torque measured and predicted, joint by joint, along time."""

from __future__ import annotations

from markupsafe import Markup

from dynid.identification import Identification, Residuals, Validation
from dynid.report.figures import (
    BLUE,
    GREY,
    STEEL,
    VERMILION,
    Axis,
    Figure,
    Panel,
    column_of,
    level_line,
    line,
    time_line,
)
from dynid.report.section import Page, data_sets, effort_unit, render
from dynid.report.text import number, percent, r_squared
from dynid.report.timeline import Timeline, broken, lay_out, thin

MOST_POINTS = 4000
LEAST_POINTS = 300
TOTAL_POINTS = 120_000


class TorqueSection:
    """Measured against predicted torque and what is left over, zoomable."""

    anchor = "torque"
    title = "Torque: measured and predicted"

    def render(self, identification: Identification, page: Page) -> Markup:
        """One tab for every set of data that has residuals, one panel a joint."""
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
        figure = _figure(residuals, timeline, j, effort_unit(identification, j), sync, points)
        joints.append(
            {
                "name": name,
                "relative": percent(float(scores.relative[j])),
                "rms": f"{number(float(scores.rms[j]))} {effort_unit(identification, j)}",
                "r2": r_squared(float(scores.r2[j])),
                "plot": page.figure(figure, f"measured and predicted torque of joint {name}"),
            }
        )
    return render(
        "torque_panels.html.jinja",
        {
            "joints": joints,
            "spans": timeline.spans,
            "samples": len(residuals.t),
            "rate": residuals.rate,
            "thinned": len(residuals.t) > points,
            "points": points,
        },
    )


def _figure(
    residuals: Residuals, timeline: Timeline, joint: int, unit: str, sync: str, points: int
) -> Figure:
    measured, predicted = residuals.measured[:, joint], residuals.predicted[:, joint]
    error = measured - predicted
    kept = thin([measured, error], points)
    x = broken(timeline.x, kept, timeline.starts)
    borders = tuple(time_line(span.start, GREY) for span in timeline.spans[1:])
    torque = Panel(
        traces=(
            line(x, broken(measured, kept, timeline.starts), "measured", STEEL, 2.6),
            line(x, broken(predicted, kept, timeline.starts), "predicted", VERMILION, 1.2),
        ),
        x=Axis("time, s"),
        y=Axis(unit),
        shapes=borders,
        weight=2.4,
    )
    residual = Panel(
        traces=(line(x, broken(error, kept, timeline.starts), "residual", BLUE, 0.9),),
        x=Axis("time, s"),
        y=Axis("residual", most_ticks=4),
        shapes=(*borders, level_line(0.0)),
    )
    return column_of((torque, residual), 250, sync)
