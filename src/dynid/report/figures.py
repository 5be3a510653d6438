"""Figures as plain plotly data: dictionaries with arrays packed as base64, drawn by the script of the page."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.report.text import MINUS, short

__all__ = [
    "BLUE",
    "CYCLE",
    "DARK",
    "DASHES",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PURPLE",
    "SKY",
    "STEEL",
    "VERMILION",
    "Axis",
    "Figure",
    "Panel",
    "Trace",
    "bars",
    "column_of",
    "dots",
    "grid_of",
    "level_line",
    "line",
    "row_of",
    "shared_band",
    "shared_line",
]

Trace = dict[str, Any]
Shape = dict[str, Any]

# Palette of Okabe and Ito, which colour-blind readers and grey prints distinguish.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
INK, GREY, STEEL, PALE, GRID = "#1f2933", "#6b7785", "#8fa3b5", "#b8c2cc", "#e7ebef"
# Colours on a dark background, which the script of the page uses instead.
DARK = {
    INK: "#e6ebf0", GREY: "#98a5b3", STEEL: "#7f93a7", PALE: "#4b5763", GRID: "#262e37",
    BLUE: "#4da3dc", VERMILION: "#f0803c", GREEN: "#2fbf95", PURPLE: "#d995b9",
    "rgba(255,255,255,0.85)": "rgba(18,22,27,0.85)", "rgba(230,159,0,0.45)": "rgba(230,159,0,0.24)",
}  # fmt: skip
CYCLE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, INK, GREY)
DASHES = ("solid", "dash", "dot", "dashdot")

_FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 12, 42
# Space between panels, as a share of the width; the wide one has room for the title of an axis.
_SPACE, _WIDE_SPACE = 0.075, 0.105


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    Attributes
    ----------
    title : str
    log : bool
        Whether the scale is logarithmic.
    span : tuple of float or None
        Range; None = from the data.
    percent : bool
        Whether ticks get a percent sign.
    most_ticks : int
    labels : tuple of str
        Labels at 1, 2, ... instead of numbers.

    """

    title: str = ""
    log: bool = False
    span: tuple[float, float] | None = None
    percent: bool = False
    most_ticks: int = 6
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Panel:
    """A pair of axes with its traces and shapes; weight: share of the height of a column."""

    traces: tuple[Trace, ...]
    x: Axis
    y: Axis
    shapes: tuple[Shape, ...] = ()
    title: str = ""
    weight: float = 1.0


@dataclass(frozen=True)
class Figure:
    """A figure as plotly reads it.

    sync: figures with the same non-empty name zoom together in time.
    arrays: by name, arrays for `shared_line` and `shared_band`, which the script of the page inserts.
    """

    data: tuple[Trace, ...]
    layout: dict[str, Any]
    height: int
    sync: str = ""
    arrays: Mapping[str, Float] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Plain data that is embedded in the page."""
        arrays = {name: packed(values) for name, values in self.arrays.items()}
        return {"data": list(self.data), "layout": self.layout, "sync": self.sync, "arrays": arrays}


def packed(values: npt.ArrayLike) -> dict[str, str]:
    """A one-dimensional array for plotly: float32, little endian, base64.

    nan leaves a gap, and so do values beyond the range of float32.
    """
    wide = np.asarray(values, dtype=np.float64)
    array = np.where(np.abs(wide) <= np.finfo(np.float32).max, wide, np.nan).astype("<f4")
    return {"dtype": "f4", "bdata": base64.b64encode(array.tobytes()).decode("ascii")}


def plot_text(text: str) -> str:
    """Text escaped for plotly, which reads some HTML in every label."""
    return html.escape(text, quote=False)


def line(x: Float, y: Float, name: str, color: str, width: float = 1.2, dash: str = "solid") -> Trace:
    """A line; nan breaks it.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        Coordinates.
    name : str
        Name shown on hover.
    color : str
        Colour, #rrggbb.
    width : float
        Line width in pixels.
    dash : str
        Style, one of DASHES.

    Returns
    -------
    dict

    """
    return {
        "type": "scatter", "mode": "lines", "name": plot_text(name), "x": packed(x), "y": packed(y),
        "line": {"color": color, "width": width, "dash": dash, "simplify": False},
    }  # fmt: skip


def band(x: Float, low: Float, high: Float, name: str, color: str, opacity: float) -> Trace:
    """The area between two lines, with a closed outline for each contiguous part; nan breaks it.

    Parameters
    ----------
    x, low, high : ndarray, shape (n,)
        Coordinates.
    name : str
        Name of the area.
    color : str
        Colour, #rrggbb.
    opacity : float
        0 to 1.

    Returns
    -------
    dict

    """
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    drawn = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], drawn, [False]])))
    # plotly's fill to the previous trace would pair the parts wrongly if there are several.
    across, along = [], []
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        run = slice(start, stop)
        across += [x[run], x[run][::-1], [np.nan]]
        along += [high[run], low[run][::-1], [np.nan]]
    return {
        "type": "scatter", "mode": "lines", "name": plot_text(name), "hoverinfo": "skip", "line": {"width": 0},
        "x": packed(np.concatenate([*across, []])), "y": packed(np.concatenate([*along, []])),
        "fill": "toself", "fillcolor": f"rgba({red},{green},{blue},{opacity:g})",
    }  # fmt: skip


def shared_line(x: str, y: str, name: str, color: str, width: float = 1.2, less: str = "") -> Trace:
    """A line y - less of named arrays of the figure; nan breaks it.

    Parameters
    ----------
    x, y : str
        Names of arrays of the figure.
    name : str
        Name shown on hover.
    color : str
        Colour, #rrggbb.
    width : float
        Line width in pixels.
    less : str
        Name of the array to subtract; "" = none.

    Returns
    -------
    dict

    """
    return {
        "type": "scatter", "mode": "lines", "name": plot_text(name), "shared": {"x": x, "y": y, "less": less},
        "line": {"color": color, "width": width, "simplify": False},
    }  # fmt: skip


def shared_band(x: str, half: str, name: str, color: str, opacity: float, around: str = "") -> Trace:
    """The area around +- half of named arrays of the figure.

    Parameters
    ----------
    x, half : str
        Names of arrays of the figure.
    name : str
        Name of the area.
    color : str
        Colour, #rrggbb.
    opacity : float
        0 to 1.
    around : str
        Name of the central array; "" = zero.

    Returns
    -------
    dict

    """
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return {
        "type": "scatter", "mode": "lines", "name": plot_text(name), "hoverinfo": "skip", "line": {"width": 0},
        "shared": {"x": x, "half": half, "around": around},
        "fill": "toself", "fillcolor": f"rgba({red},{green},{blue},{opacity:g})",
    }  # fmt: skip


def dots(x: Float, y: Float, name: str, color: str, size: float = 4.0, opacity: float = 0.55) -> Trace:
    """Markers.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        Coordinates.
    name : str
        Name shown on hover.
    color : str
        Colour, #rrggbb.
    size : float
        Diameter in pixels.
    opacity : float
        0 to 1.

    Returns
    -------
    dict

    """
    return {
        "type": "scatter", "mode": "markers", "name": plot_text(name), "x": packed(x), "y": packed(y),
        "marker": {"color": color, "size": size, "opacity": opacity, "line": {"width": 0}},
    }  # fmt: skip


def coloured(values: Float) -> dict[str, Any]:
    """Colours of markers by a quantity, from light blue (least) to vermilion (largest)."""
    return {"color": packed(values), "colorscale": [[0.0, SKY], [1.0, VERMILION]]}


def bars(x: Float, y: Float, width: Float | None, name: str, color: str) -> Trace:
    """Vertical bars centred on x.

    Parameters
    ----------
    x, y : ndarray, shape (n,)
        Coordinates.
    width : ndarray, shape (n,), optional
        Widths in units of x; None = adjacent bars.
    name : str
        Name shown on hover.
    color : str
        Colour, #rrggbb.

    Returns
    -------
    dict

    """
    trace: Trace = {
        "type": "bar", "name": plot_text(name), "x": packed(x), "y": packed(y), "marker": {"color": color},
        "textposition": "none",
    }  # fmt: skip
    return trace | {"width": packed(width)} if width is not None else trace


def labelled(trace: Trace, labels: Sequence[str]) -> Trace:
    """Add a text to every point of a trace, shown on hover."""
    return trace | {"text": [plot_text(label) for label in labels], "hovertemplate": "%{text}<extra></extra>"}


def with_errors(trace: Trace, half_width: Float, color: str) -> Trace:
    """Add vertical error bars to a trace."""
    bar = {"type": "data", "array": packed(half_width), "color": color, "thickness": 1.2, "width": 2}
    return trace | {"error_y": bar}


def level_line(y: float, color: str = GREY) -> Shape:
    """A horizontal line across the panel."""
    return _shape("line", {"x0": 0, "x1": 1, "y0": y, "y1": y}, "domain", "", color, "dot")


def time_line(x: float, color: str = GREY, dash: str = "dot") -> Shape:
    """A vertical line across the panel."""
    return _shape("line", {"x0": x, "x1": x, "y0": 0, "y1": 1}, "", "domain", color, dash)


def level_band(low: float, high: float) -> Shape:
    """A shaded horizontal band across the panel."""
    shape = _shape("rect", {"x0": 0, "x1": 1, "y0": low, "y1": high}, "domain", "", GREY, "solid")
    return shape | {"fillcolor": GREY, "opacity": 0.14, "line": {"width": 0}}


def row_of(panels: Sequence[Panel], height: int) -> Figure:
    """Panels in one row, each with its own axes; height in pixels."""
    return grid_of(panels, len(panels), height)


def grid_of(panels: Sequence[Panel], columns: int, height: int) -> Figure:
    """Panels in a grid, each with its own axes.

    Parameters
    ----------
    panels : sequence of Panel
        The panels, row by row.
    columns : int
        Number of columns.
    height : int
        Height in pixels.

    Returns
    -------
    Figure

    """
    rows = -(-len(panels) // columns)
    titled = any(panel.title for panel in panels)
    named = any(panel.y.title for i, panel in enumerate(panels) if i % columns)
    layout = _layout(height, titled)
    gap = _WIDE_SPACE if named else _SPACE
    width = (1.0 - gap * (columns - 1)) / columns
    between = (_BOTTOM + _TOP + (14 if titled else 0)) / (height - _TOP - _BOTTOM)
    tall = (1.0 - between * (rows - 1)) / rows
    data: list[Trace] = []
    for i, panel in enumerate(panels):
        left, bottom = (i % columns) * (width + gap), (rows - 1 - i // columns) * (tall + between)
        x, y = _axis_names(i)
        suffix = str(i + 1) if i else ""
        layout[f"xaxis{suffix}"] = _axis(panel.x) | {"domain": [left, left + width], "anchor": y}
        layout[f"yaxis{suffix}"] = _axis(panel.y) | {"domain": [bottom, bottom + tall], "anchor": x}
        data += [trace | {"xaxis": x, "yaxis": y} for trace in panel.traces]
        layout["shapes"] += [_placed(shape, x, y) for shape in panel.shapes]
        if panel.title:
            layout["annotations"].append(_title(panel.title, left + width / 2, bottom + tall))
    return Figure(tuple(data), layout, height)


def column_of(
    panels: Sequence[Panel], height: int, sync: str = "", arrays: Mapping[str, Float] | None = None
) -> Figure:
    """Panels in one column with a common time axis, that of the last panel.

    Parameters
    ----------
    panels : sequence of Panel
        The panels, from top to bottom.
    height : int
        Height in pixels.
    sync : str
        Name of the synchronised time axis: figures with the same name zoom together.
    arrays : mapping of str to ndarray, optional
        Arrays of `shared_line` and `shared_band`, by name.

    Returns
    -------
    Figure

    """
    layout = _layout(height, False)
    total = sum(panel.weight for panel in panels)
    share = (1.0 - 0.06 * (len(panels) - 1)) / total
    top = 1.0
    data: list[Trace] = []
    for i, panel in enumerate(panels):
        _, y = _axis_names(i)
        bottom = max(top - share * panel.weight, 0.0)
        layout[f"yaxis{i + 1 if i else ''}"] = _axis(panel.y) | {"domain": [bottom, top], "anchor": "x"}
        data += [trace | {"xaxis": "x", "yaxis": y} for trace in panel.traces]
        layout["shapes"] += [_placed(shape, "x", y) for shape in panel.shapes]
        top = bottom - 0.06
    layout["xaxis"] = _axis(panels[-1].x) | {"anchor": _axis_names(len(panels) - 1)[1]}
    layout["hovermode"] = "x"
    return Figure(tuple(data), layout, height, sync, arrays or {})


def _layout(height: int, titled: bool) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": _LEFT, "r": _RIGHT, "t": _TOP + (14 if titled else 0), "b": _BOTTOM},
        "font": {"family": _FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "zoom",
        "modebar": {"bgcolor": "rgba(255,255,255,0.85)", "color": GREY, "activecolor": INK},
        "bargap": 0.1,
        "shapes": [],
        "annotations": [],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "title": {"text": plot_text(axis.title), "standoff": 6, "font": {"size": 12, "color": GREY}},
        "type": "log" if axis.log else "linear",
        "gridcolor": GRID,
        "zerolinecolor": PALE,
        "linecolor": PALE,
        "showline": True,
        "ticks": "outside",
        "ticklen": 3,
        "tickcolor": PALE,
        "tickfont": {"size": 11, "color": GREY},
        "automargin": False,
        "nticks": axis.most_ticks,
        "tickangle": 0,
        "exponentformat": "power",
    }
    span = axis.span if axis.span is not None and np.isfinite(axis.span).all() else None
    if span is not None:
        settings["range"] = [float(np.log10(v)) for v in span] if axis.log else list(span)
    if axis.percent:
        settings["ticksuffix"] = " %"
    places = _log_ticks(*span, axis.most_ticks) if axis.log and span is not None else []
    places += [(float(i), plot_text(short(label, 24))) for i, label in enumerate(axis.labels, start=1)]
    if places:
        settings |= {"tickvals": [place for place, _ in places], "ticktext": [text for _, text in places]}
    return settings


def _log_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round numbers between two values: 1, 2, 5 or 1, 3 per decade if they fit, else powers of ten."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    for mantissas in ((1, 2, 5), (1, 3)):
        ticks = [(m, e) for e in range(first, last + 1) for m in mantissas if low <= m * 10.0**e <= high]
        if len(ticks) <= most:
            return [(m * 10.0**e, _tick_text(m, e)) for m, e in ticks]
    stride = max(-(-(last - first) // 5), 1)
    decades = [(1, e) for e in range(first, last + 1) if e % stride == 0 and low <= 10.0**e <= high]
    return [(m * 10.0**e, _tick_text(m, e)) for m, e in decades]


def _tick_text(mantissa: int, exponent: int) -> str:
    if -3 <= exponent <= 3:
        return f"{mantissa * 10.0**exponent:g}"
    head = f"{mantissa}·" if mantissa > 1 else ""
    return f"{head}10<sup>{str(exponent).replace('-', MINUS)}</sup>"


def _axis_names(index: int) -> tuple[str, str]:
    suffix = str(index + 1) if index else ""
    return f"x{suffix}", f"y{suffix}"


def _shape(kind: str, place: dict[str, Any], x: str, y: str, color: str, dash: str) -> Shape:
    outline = {"color": color, "width": 1, "dash": dash}
    return place | {"type": kind, "xref": x, "yref": y, "line": outline, "layer": "below"}


def _placed(shape: Shape, x: str, y: str) -> Shape:
    x_domain, y_domain = shape["xref"] == "domain", shape["yref"] == "domain"
    return shape | {"xref": f"{x} domain" if x_domain else x, "yref": f"{y} domain" if y_domain else y}


def _title(text: str, x: float, y: float) -> dict[str, Any]:
    return {
        "text": plot_text(text), "x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "center",
        "yanchor": "bottom", "showarrow": False, "font": {"size": 12, "color": INK},
    }  # fmt: skip
