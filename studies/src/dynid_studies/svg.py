"""Draws plotly figures as SVG files, for papers and pages without scripts."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.base import Float
from dynid.report.figures import GREY, INK, Figure, Trace

_FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
_DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3"}
_LEGEND = 20.0
_MOST_POINTS = 1000


@dataclass(frozen=True)
class _Scale:
    """Maps values of one axis to the page: low and high in the axis' own units (decades if log)."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def own(self, values: Any) -> Float:
        """Return values in units of the axis; nan where the logarithm does not exist."""
        array = np.asarray(values, dtype=np.float64)
        if not self.log:
            return array
        return np.log10(np.where(array > 0, array, np.nan))

    def at(self, values: Any) -> Float:
        """Return the place on the page."""
        return self.start + (self.own(values) - self.low) / (self.high - self.low) * (self.end - self.start)


def figure_svg(figure: Figure, width: float = 720.0) -> str:
    """The figure as one SVG document, with a legend where traces have names; the same figure gives the same bytes.

    width: of the page in points.    Lines, markers, bars, error bars, level lines and bands are drawn.
    """
    legend = legend_of(figure)
    rows = _legend_rows(legend, width)
    head = _LEGEND * len(rows)
    margin, layout = figure.layout["margin"], figure.layout
    box = (margin["l"], margin["t"] + head, width - margin["r"], figure.height + head - margin["b"])
    parts = [*_legend(rows, margin["l"]), *_annotations(layout["annotations"], box)]
    pairs = sorted({(trace.get("xaxis", "x"), trace.get("yaxis", "y")) for trace in figure.data})
    for number, (x, y) in enumerate(pairs):
        parts += _panel(figure, x, y, box, f"panel{number + 1}")
    total = figure.height + head
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(total)}" '
        f'viewBox="0 0 {_n(width)} {_n(total)}" font-family="{_FONT}" font-size="11" fill="{INK}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def legend_of(figure: Figure) -> list[tuple[str, str, str, str]]:
    """(name, colour, dash, kind) of each differently named trace, in order; kind: "lines", "markers" or "bar"."""
    entries: dict[str, tuple[str, str, str, str]] = {}
    for trace in figure.data:
        name = html.unescape(str(trace.get("name", "")))
        if name and name not in entries:
            style: Trace = trace.get("line") or trace.get("marker") or {}
            kind = "bar" if trace["type"] == "bar" else str(trace.get("mode", "lines"))
            entries[name] = (name, str(style.get("color", INK)), str(style.get("dash", "solid")), kind)
    return list(entries.values())


def _panel(figure: Figure, x: str, y: str, box: tuple[float, float, float, float], name: str) -> list[str]:
    layout = figure.layout
    x_axis, y_axis = (layout[f"{axis[0]}axis{axis[1:]}"] for axis in (x, y))
    traces = [t for t in figure.data if (t.get("xaxis", "x"), t.get("yaxis", "y")) == (x, y)]
    left, top, right, bottom = box
    a, b = x_axis.get("domain", (0.0, 1.0))
    c, d = y_axis.get("domain", (0.0, 1.0))
    across = (left + a * (right - left), left + b * (right - left))
    upward = (bottom - c * (bottom - top), bottom - d * (bottom - top))
    sharing = [t for t in figure.data if t.get("xaxis", "x") == x]
    scale_x = _scale(x_axis, [_values(t, "x") for t in sharing], across, False)
    scale_y = _scale(y_axis, [_extent(t) for t in traces], upward, any(t["type"] == "bar" for t in traces))
    w, h = across[1] - across[0], upward[0] - upward[1]
    place = f'x="{_n(across[0])}" y="{_n(upward[1])}" width="{_n(w)}" height="{_n(h)}"'
    clip = f'<clipPath id="{name}"><rect {place}/></clipPath>'
    inside = [_shape(s, scale_x, scale_y) for s in layout["shapes"] if _belongs(s, x, y)]
    for trace in traces:
        inside += (
            _bars(trace, scale_x, scale_y) if trace["type"] == "bar" else _scatter(trace, scale_x, scale_y)
        )
    titled = x_axis.get("anchor", y) == y
    return [
        clip,
        *_grid(x_axis, scale_x, upward, "x", titled),
        *_grid(y_axis, scale_y, across, "y", True),
        f'<g clip-path="url(#{name})">',
        *inside,
        "</g>",
        f'<rect {place} fill="none" stroke="{GREY}" stroke-width="0.8"/>',
    ]


def _scale(
    axis: Mapping[str, Any], values: Sequence[Float], ends: tuple[float, float], from_zero: bool
) -> _Scale:
    log = axis["type"] == "log"
    if "range" in axis:
        low, high = (float(v) for v in axis["range"])
        return _Scale(low, high, ends[0], ends[1], log)
    every = np.concatenate([np.zeros(0), *values])
    every = np.log10(every[every > 0]) if log else every[np.isfinite(every)]
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    if from_zero and not log:
        low, high = min(low, 0.0), max(high, 0.0)
    room = 0.05 * (high - low) if high > low else 0.5 * abs(high) or 0.5
    grounded = from_zero and not log and low == 0.0
    return _Scale(low if grounded else low - room, high + room, ends[0], ends[1], log)


def _grid(
    axis: Mapping[str, Any], scale: _Scale, across: tuple[float, float], kind: str, titled: bool
) -> list[str]:
    elements = []
    places, labels = _ticks(axis, scale)
    for place, text in zip(scale.at(places), labels, strict=True):
        ends = sorted(across)
        if kind == "x":
            elements.append(_line(place, ends[0], place, ends[1], str(axis["gridcolor"]), 0.7))
            if titled:
                elements.append(_text(place, ends[1] + 14, text, "middle"))
        else:
            elements.append(_line(ends[0], place, ends[1], place, str(axis["gridcolor"]), 0.7))
            elements.append(_text(ends[0] - 6, place + 3.8, text, "end"))
    title = html.unescape(str(axis["title"]["text"]))
    middle = 0.5 * (scale.start + scale.end)
    if title and kind == "x" and titled:
        elements.append(_text(middle, max(across) + 31, title, "middle", 12))
    if title and kind == "y":
        elements.append(_text(min(across) - 44, middle, title, "middle", 12, turned=True))
    return elements


def _ticks(axis: Mapping[str, Any], scale: _Scale) -> tuple[Float, list[str]]:
    suffix = str(axis.get("ticksuffix", ""))
    if "tickvals" in axis:
        pairs = zip(axis["tickvals"], axis["ticktext"], strict=True)
        kept = [(v, t) for v, t in pairs if scale.low - 1e-9 <= scale.own(v) <= scale.high + 1e-9]
        return np.array([v for v, _ in kept]), [str(t) + suffix for _, t in kept]
    most = max(int(axis.get("nticks", 6)), 2)
    if scale.log:
        stride = max(math.ceil((scale.high - scale.low) / most), 1)
        decades = [e for e in range(math.ceil(scale.low), math.floor(scale.high) + 1) if e % stride == 0]
        plain = all(-3 <= e <= 3 for e in decades)
        return np.array([10.0**e for e in decades]), [_decade(e, plain) + suffix for e in decades]
    raw = (scale.high - scale.low) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * size >= raw * 0.999)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    places = np.asarray(step * np.arange(first, last + 1), dtype=np.float64)
    return places, [_label(v, step) + suffix for v in places]


def _decade(exponent: int, plain: bool) -> str:
    return f"{10.0**exponent:g}" if plain else f"10<sup>{exponent}</sup>".replace("-", "\u2212")


def _label(value: float, step: float) -> str:
    text = f"{0.0 if abs(value) < 1e-9 * step else value:.6g}"
    return text.replace("-", "\u2212")


def _scatter(trace: Mapping[str, Any], scale_x: _Scale, scale_y: _Scale) -> list[str]:
    x, y = scale_x.at(_values(trace, "x")), scale_y.at(_values(trace, "y"))
    if trace["mode"] == "markers":
        marker = trace["marker"]
        colour, radius, opacity = marker["color"], 0.5 * float(marker["size"]), marker.get("opacity", 1.0)
        bars = _error_bars(trace, x, scale_y)
        sound = np.isfinite(x) & np.isfinite(y)
        return bars + [
            f'<circle cx="{_n(a)}" cy="{_n(b)}" r="{_n(radius)}" fill="{colour}" fill-opacity="{opacity}"/>'
            for a, b in zip(x[sound], y[sound], strict=True)
        ]
    style = trace["line"]
    dash = _DASHES[str(style.get("dash", "solid"))]
    attributes = (
        f'fill="none" stroke="{style["color"]}" stroke-width="{style["width"]}" stroke-linejoin="round"'
    )
    attributes += f' stroke-dasharray="{dash}"' if dash else ""
    path = " ".join(_run(part) for part in _runs(*_thinned(x, y)))
    return [f'<path d="{path}" {attributes}/>'] if path else []


def _error_bars(trace: Mapping[str, Any], x: Float, scale_y: _Scale) -> list[str]:
    if "error_y" not in trace:
        return []
    half, value = _unpacked(trace["error_y"]["array"]), _values(trace, "y")
    low, high = scale_y.at(value - half), scale_y.at(value + half)
    ends = zip(x, low, high, strict=True)
    return [
        _line(a, b, a, c, str(trace["error_y"]["color"]), 1.2) for a, b, c in ends if math.isfinite(a + b + c)
    ]


def _bars(trace: Mapping[str, Any], scale_x: _Scale, scale_y: _Scale) -> list[str]:
    x, y = _values(trace, "x"), _values(trace, "y")
    gaps = np.diff(np.sort(x))
    usual = 0.8 * float(gaps[gaps > 0].min()) if (gaps > 0).any() else 0.8
    width = _unpacked(trace["width"]) if "width" in trace else np.full(len(x), usual)
    floor = max(scale_y.start, scale_y.end) if scale_y.log else float(scale_y.at(0.0))
    left, right, tops = scale_x.at(x - 0.5 * width), scale_x.at(x + 0.5 * width), scale_y.at(y)
    return [
        f'<rect x="{_n(a)}" y="{_n(min(top, floor))}" width="{_n(b - a)}" height="{_n(abs(floor - top))}" '
        f'fill="{trace["marker"]["color"]}"/>'
        for a, b, top in zip(left, right, tops, strict=True)
        if math.isfinite(top)
    ]


def _thinned(x: Float, y: Float) -> tuple[Float, Float]:
    # Keep the least and greatest value of each short stretch of a dense line.
    if len(x) <= _MOST_POINTS or not np.isfinite(y).all() or not (np.diff(x) >= 0).all():
        return x, y
    parts = np.array_split(np.arange(len(x)), _MOST_POINTS // 2)
    kept = [sorted({int(part[y[part].argmin()]), int(part[y[part].argmax()])}) for part in parts]
    index = np.unique(np.concatenate([[0], *kept, [len(x) - 1]]).astype(np.int64))
    return x[index], y[index]


def _runs(x: Float, y: Float) -> list[Float]:
    points = np.stack([x, y], axis=1)
    sound = np.isfinite(points).all(axis=1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], sound.astype(np.int8), [0]])))
    return [points[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a > 1]


def _run(points: Float) -> str:
    return "M" + "L".join(f"{_n(a)} {_n(b)}" for a, b in points)


def _belongs(shape: Mapping[str, Any], x: str, y: str) -> bool:
    return str(shape["xref"]).split()[0] == x and str(shape["yref"]).split()[0] == y


def _shape(shape: Mapping[str, Any], scale_x: _Scale, scale_y: _Scale) -> str:
    def places(axis: str, scale: _Scale) -> tuple[float, float]:
        ends = (float(shape[f"{axis}0"]), float(shape[f"{axis}1"]))
        if str(shape[f"{axis}ref"]).endswith("domain"):
            first, second = (scale.start + v * (scale.end - scale.start) for v in ends)
            return first, second
        first, second = (float(v) for v in scale.at(ends))
        return first, second

    (a, b), (c, d) = places("x", scale_x), places("y", scale_y)
    if shape["type"] == "line":
        line = shape["line"]
        return _line(a, c, b, d, str(line["color"]), float(line["width"]), _DASHES[str(line["dash"])])
    return (
        f'<rect x="{_n(min(a, b))}" y="{_n(min(c, d))}" width="{_n(abs(b - a))}" height="{_n(abs(d - c))}" '
        f'fill="{shape["fillcolor"]}" fill-opacity="{shape["opacity"]}"/>'
    )


def _annotations(notes: Sequence[Mapping[str, Any]], box: tuple[float, float, float, float]) -> list[str]:
    left, top, right, bottom = box
    return [
        _text(
            left + float(note["x"]) * (right - left),
            bottom - float(note["y"]) * (bottom - top) - 5,
            html.unescape(str(note["text"])),
            "middle",
            12,
        )
        for note in notes
    ]


def _legend_rows(
    legend: list[tuple[str, str, str, str]], width: float
) -> list[list[tuple[str, str, str, str]]]:
    rows: list[list[tuple[str, str, str, str]]] = []
    room = 0.0
    for entry in legend:
        need = 44 + 6.2 * len(entry[0])
        if not rows or room < need:
            rows.append([])
            room = width - 60
        rows[-1].append(entry)
        room -= need
    return rows


def _legend(rows: list[list[tuple[str, str, str, str]]], left: float) -> list[str]:
    elements = []
    for i, row in enumerate(rows):
        x, y = left, 14 + _LEGEND * i
        for name, colour, dash, kind in row:
            if kind == "markers":
                elements.append(f'<circle cx="{_n(x + 11)}" cy="{_n(y - 4)}" r="3.5" fill="{colour}"/>')
            else:
                wide = 8.0 if kind == "bar" else 2.0
                elements.append(_line(x, y - 4, x + 22, y - 4, colour, wide, _DASHES[dash]))
            elements.append(_text(x + 28, y, name, "start"))
            x += 44 + 6.2 * len(name)
    return elements


def _line(x0: float, y0: float, x1: float, y1: float, colour: str, width: float, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{_n(x0)}" y1="{_n(y0)}" x2="{_n(x1)}" y2="{_n(y1)}" stroke="{colour}" '
        f'stroke-width="{width}"{dashed}/>'
    )


def _text(x: float, y: float, text: str, anchor: str, size: float = 11, turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {_n(x)} {_n(y)})"' if turned else ""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" font-size="{size}"{turn}>{_spans(text)}</text>'
    )


def _spans(text: str) -> str:
    # plotly's <sup> and <sub> become shifted spans; everything else is text.
    spans = []
    for part in re.split(r"(<su[pb]>.*?</su[pb]>)", text):
        match = re.fullmatch(r"<su([pb])>(.*?)</su[pb]>", part)
        if match:
            up = -4 if match[1] == "p" else 3
            spans.append(
                f'<tspan dy="{up}" font-size="8">{html.escape(match[2])}</tspan><tspan dy="{-up}">\u200b</tspan>'
            )
        else:
            spans.append(html.escape(html.unescape(part)))
    return "".join(spans)


def _extent(trace: Mapping[str, Any]) -> Float:
    values = _values(trace, "y")
    if "error_y" not in trace:
        return values
    half = _unpacked(trace["error_y"]["array"])
    return np.concatenate([values - half, values + half])


def _values(trace: Mapping[str, Any], key: str) -> Float:
    return _unpacked(trace[key])


def _unpacked(data: Mapping[str, str]) -> Float:
    return np.frombuffer(base64.b64decode(data["bdata"]), dtype="<f4").astype(np.float64)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
