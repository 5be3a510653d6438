"""Measured and predicted torque as a plotly figure, for notebooks and scripts."""

from __future__ import annotations

from typing import Any

from dynid.base.arrays import Float
from dynid.base.errors import ResourceError, UnfitDataError
from dynid.report.figures import GREY, STEEL, VERMILION, Axis, Panel, grid_of, line, time_line
from dynid.report.section import effort_unit
from dynid.report.text import percent
from dynid.report.timeline import broken, lay_out, thin
from dynid.run.result import Identification, Validation

MOST_POINTS = 4000
PANEL_HEIGHT = 190


def torque_plot(identification: Identification, validation: Validation) -> Any:
    """One panel a joint, the trajectories behind one another, long signals thinned so that their peaks stay.

    Raises UnfitDataError for scores without residuals, as of held-out blocks; ResourceError without plotly.
    """
    try:
        from plotly.graph_objects import Figure
    except ImportError as error:
        raise ResourceError(
            "missing-package", found="no package 'plotly'", expected="it", do="pip install 'dynid[plot]'"
        ) from error
    residuals = validation.residuals
    if residuals is None or not len(residuals.t):
        raise UnfitDataError(
            "no-residuals",
            found=f"scores on {validation.scores.origin} without residuals",
            expected="training data or a held-out log",
        )
    timeline = lay_out(residuals)
    panels: list[Panel] = []
    plain: list[dict[str, Float]] = []
    for j, name in enumerate(residuals.joint_names):
        measured, predicted = residuals.measured[:, j], residuals.predicted[:, j]
        kept = thin([measured, predicted], MOST_POINTS)
        x = broken(timeline.x, kept, timeline.starts)
        y = [broken(values, kept, timeline.starts) for values in (measured, predicted)]
        # Arrays in place of the page's text, for whoever works on with the figure.
        plain += [{"x": x, "y": values} for values in y]
        panels.append(
            Panel(
                traces=(
                    line(x, y[0], "measured", STEEL, 2.6),
                    line(x, y[1], "predicted", VERMILION, 1.2),
                ),
                x=Axis("time, s" if j == residuals.measured.shape[1] - 1 else ""),
                y=Axis(effort_unit(identification, j)),
                shapes=tuple(time_line(span.start, GREY) for span in timeline.spans[1:]),
                title=f"{name}: error {percent(float(validation.scores.relative[j]))} on {validation.scores.origin}",
            )
        )
    drawn = grid_of(panels, 1, PANEL_HEIGHT * len(panels))
    return Figure(
        data=[trace | values for trace, values in zip(drawn.data, plain, strict=True)], layout=drawn.layout
    )
