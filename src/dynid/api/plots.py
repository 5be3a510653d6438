"""Figures of a result: torque, residuals, friction, parameters; by plotly for notebooks, by matplotlib for papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynid.api.publish import rows
from dynid.base.arrays import Float
from dynid.base.errors import ResourceError, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.estimate.scores import Residuals
from dynid.report.figures import (
    BLUE,
    GREY,
    ORANGE,
    STEEL,
    VERMILION,
    Axis,
    Panel,
    band,
    dots,
    grid_of,
    line,
    with_errors,
)
from dynid.report.friction import speed_curves
from dynid.report.section import effort_unit
from dynid.report.text import percent
from dynid.report.timeline import broken, lay_out, thin
from dynid.run.floating import refuse_floating
from dynid.run.result import Identification, Validation

# Most points of a signal, which a screen resolves, and of a cloud of samples.
MOST_POINTS, CLOUD = 4000, 1500
# Height of a panel: pixels of plotly, inches of matplotlib (a column of a paper).
PIXELS, INCHES, PAPER_WIDTH = 190, 1.5, 5.0


@dataclass(frozen=True, eq=False)
class Curve:
    """A line, a cloud of dots, a band or values with intervals.

    Attributes
    ----------
    kind : {"line", "dots", "band", "values"}
    x, y : ndarray, shape (n,)
        Points; of a band its middle.
    name, color : str
    half : ndarray, shape (n,), optional
        Half width of a band or of the intervals of values.

    """

    kind: str
    x: Float
    y: Float
    name: str
    color: str
    half: Float | None = None


@dataclass(frozen=True, eq=False)
class Plot:
    """Axes with curves; labels: names at x = 1, 2, ... in place of numbers."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    labels: tuple[str, ...] = ()


def _judged(run: Identification) -> tuple[Validation, Residuals]:
    """The held-out log if there is one, else the training, with its residuals."""
    for validation in (*run.validations, run.training):
        if validation.residuals is not None and len(validation.residuals.t):
            return validation, validation.residuals
    raise UnfitDataError(
        "no-residuals",
        found=f"scores on {run.training.scores.origin} without residuals",
        expected="training data or a held-out log",
    )


def _over_time(run: Identification, error: bool) -> list[Plot]:
    validation, residuals = _judged(run)
    timeline = lay_out(residuals)
    plots = []
    for j, name in enumerate(residuals.joint_names):
        measured, predicted = residuals.measured[:, j], residuals.predicted[:, j]
        signals = [measured - predicted] if error else [measured, predicted]
        kept = thin(signals, MOST_POINTS)
        x = broken(timeline.x, kept, timeline.starts)
        named = (
            [("measured - predicted", VERMILION)]
            if error
            else [("measured", STEEL), ("predicted", VERMILION)]
        )
        curves = tuple(
            Curve("line", x, broken(signal, kept, timeline.starts), of, color)
            for signal, (of, color) in zip(signals, named, strict=True)
        )
        relative = percent(float(validation.scores.relative[j]))
        title = f"{name}: error {relative} on {validation.scores.origin}"
        plots.append(Plot(title, "time, s", effort_unit(run, j), curves))
    return plots


def _torque(run: Identification) -> list[Plot]:
    return _over_time(run, error=False)


def _residuals(run: Identification) -> list[Plot]:
    return _over_time(run, error=True)


def _friction(run: Identification) -> list[Plot]:
    """Friction over speed: the model's, its interval, and the measured torque less all other predicted torque."""
    refuse_floating(run.robot, "friction over speed")  # projected residuals mix the joints
    _, residuals = _judged(run)
    plots = []
    for j, curve in enumerate(speed_curves(run, residuals, CLOUD)):
        unit = "m/s" if run.robot.prismatic[j] else "rad/s"
        curves = (
            Curve("dots", curve.sample_speed, curve.sample_torque, "measured less other torque", STEEL),
            Curve("band", curve.speed, curve.torque, "95 % interval", BLUE, curve.half),
            Curve("line", curve.speed, curve.torque, "friction", BLUE),
        )
        plots.append(Plot(curve.joint, f"speed, {unit}", effort_unit(run, j), curves))
    return plots


def _parameters(run: Identification) -> list[Plot]:
    """Parameters of links and joints with their intervals, beside the values of the robot file."""
    columns = {column.name: column.prior for column in run.estimate.columns}
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in (*rows(run, "links"), *rows(run, "joints")):
        symbol = row.symbol.rstrip("0123456789")
        if row.table == "joints" or symbol == "m":
            groups.setdefault((symbol, row.unit), []).append(row)
    body = {name: f"m{i}" for i, name in enumerate(run.robot.body_names, 1)}
    plots = []
    for (symbol, unit), members in groups.items():
        x = np.arange(1.0, len(members) + 1.0)
        value = np.array([row.value for row in members])
        half = np.array([row.half_width95 for row in members])
        prior = [columns.get(body[row.link] if symbol == "m" else row.symbol) for row in members]
        described = np.array([np.nan if known is None else known for known in prior], dtype=np.float64)
        curves = (
            Curve("dots", x, described, "robot file", GREY),
            Curve("values", x, np.where(np.isfinite(half), np.nan, value), "not by the data alone", ORANGE),
            Curve("values", x, np.where(np.isfinite(half), value, np.nan), "identified", BLUE, half),
        )
        labels = tuple(row.link or row.joint for row in members)
        plots.append(Plot(f"{symbol}, {unit}", "", unit, curves, labels))
    return plots


PLOTS: dict[str, Callable[[Identification], list[Plot]]] = {
    "torque": _torque,
    "residuals": _residuals,
    "friction": _friction,
    "parameters": _parameters,
}


def plot(run: Identification, kind: str = "torque", library: str = "plotly") -> Any:
    """A figure of one of PLOTS by plotly or matplotlib.

    Raises
    ------
    UsageError
        For another kind or library.
    UnfitDataError
        For a run without residuals.
    ResourceError
        Without the library.

    """
    if kind not in PLOTS:
        raise UsageError("plot-kind", found=f"plot '{kind}'", expected=", ".join(PLOTS))
    draw = {"plotly": _by_plotly, "matplotlib": _by_matplotlib}.get(library)
    if draw is None:
        raise UsageError("plot-library", found=f"library '{library}'", expected="plotly or matplotlib")
    return draw(PLOTS[kind](run))


def _no_package(name: str) -> ResourceError:
    return ResourceError(
        "missing-package",
        found=f"no package '{name}'",
        expected=f"an installed {name}",
        do="pip install 'dynid[plot]'",
    )


def _by_plotly(plots: Sequence[Plot]) -> Any:
    try:
        from plotly.graph_objects import Figure
    except ImportError as error:
        raise _no_package("plotly") from error
    panels, plain = [], []
    for number, axes in enumerate(plots):
        traces = []
        for curve in axes.curves:
            trace = _plotly_trace(curve)
            traces.append(trace)
            # Users of the figure need arrays, not the packed text of the page.
            plain.append({} if curve.kind == "band" else {"x": curve.x, "y": curve.y})
        last = number == len(plots) - 1 or bool(axes.labels)
        panels.append(
            Panel(
                tuple(traces),
                Axis(axes.x if last else "", labels=axes.labels),
                Axis(axes.y),
                title=axes.title,
            )
        )
    drawn = grid_of(panels, 1, PIXELS * len(panels))
    return Figure(
        data=[trace | arrays for trace, arrays in zip(drawn.data, plain, strict=True)], layout=drawn.layout
    )


def _plotly_trace(curve: Curve) -> dict[str, Any]:
    if curve.kind == "line":
        return line(curve.x, curve.y, curve.name, curve.color, 2.6 if curve.color == STEEL else 1.2)
    if curve.kind == "band" and curve.half is not None:
        return band(curve.x, curve.y - curve.half, curve.y + curve.half, curve.name, curve.color, 0.2)
    trace = dots(curve.x, curve.y, curve.name, curve.color, 7.0 if curve.kind == "values" else 4.0)
    return trace if curve.half is None else with_errors(trace, curve.half, curve.color)


def _by_matplotlib(plots: Sequence[Plot]) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise _no_package("matplotlib") from error
    figure = Figure(figsize=(PAPER_WIDTH, INCHES * len(plots)), layout="constrained")
    for axes, of in zip(figure.subplots(len(plots), 1, squeeze=False)[:, 0], plots, strict=True):
        for curve in of.curves:
            if curve.kind == "line":
                axes.plot(curve.x, curve.y, color=curve.color, linewidth=0.8, label=curve.name)
            elif curve.kind == "dots":
                axes.plot(curve.x, curve.y, ".", color=curve.color, markersize=2, alpha=0.5, label=curve.name)
            elif curve.kind == "band" and curve.half is not None:
                low, high = curve.y - curve.half, curve.y + curve.half
                axes.fill_between(
                    curve.x, low, high, color=curve.color, alpha=0.2, linewidth=0, label=curve.name
                )
            else:
                axes.errorbar(
                    curve.x,
                    curve.y,
                    curve.half,
                    fmt="_" if curve.half is None else "o",
                    color=curve.color,
                    markersize=8 if curve.half is None else 3,
                    capsize=2,
                    label=curve.name,
                )
        axes.set_title(of.title, fontsize="small")
        axes.set_ylabel(of.y)
        if of.labels:
            axes.set_xticks(
                np.arange(1, len(of.labels) + 1), of.labels, rotation=30, ha="right", fontsize="x-small"
            )
    figure.axes[-1].set_xlabel(plots[-1].x)
    figure.axes[0].legend(fontsize="x-small", loc="best")
    return figure
