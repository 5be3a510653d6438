"""report.html of a fleet: overview, alarms and robots over time; and the page of a followed log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from dynid.base import Float, Int, dataclass
from dynid.estimate import ParameterTrajectory
from dynid.factor import BaseMap
from dynid.fleet.drift import (
    CAUSES,
    DAYS_A_YEAR,
    FALSE_ALARM,
    LEAST_DAYS,
    Alarm,
    Course,
    TypeAnalysis,
    projection,
)
from dynid.fleet.store import FleetStore
from dynid.report import (
    CYCLE,
    DASHES,
    GREY,
    INK,
    PALE,
    VERMILION,
    Axis,
    Chapter,
    Figure,
    Page,
    Panel,
    Trace,
    column_of,
    dots,
    formula,
    interval,
    labelled,
    level_line,
    line,
    number,
    packed,
    page_html,
    percent,
    render,
    row_of,
    short,
    symbol,
    time_line,
    write_text,
)
from dynid.robot import RobotModel
from dynid.terms import Column, Of

# Robots with their own figure, and listed alarms; the tables contain all.
_FIGURES, _LISTED = 12, 200
# Probability of an effect below which the second most likely effect is named as well.
SURE = 0.95
# Effects drawn over time, with the factor to the unit on the page (percent or kg).
_DRAWN = {"friction": 100.0, "gain": 100.0, "load": 1.0}
_UNITS = {"friction": "friction", "gain": "gain", "load": "load, kg"}


def write_fleet_page(path: Path, store: FleetStore, analyses: Sequence[TypeAnalysis]) -> None:
    """Write the report of a fleet as one HTML page; raises ResourceError if it cannot be written."""
    page = Page()
    alarms = sorted(
        (a for analysis in analyses for a in analysis.alarms), key=lambda a: (a.found, a.serial), reverse=True
    )
    failures = store.failures()
    chapters = [
        Chapter("fleet", "Fleet overview", _overview(analyses, page, alarms)),
        Chapter("alarms", "Alarms", _alarms(analyses, alarms)),
        Chapter("robots", "Robots over time", _robots(analyses, page)),
        Chapter(
            "logs",
            "Logs that failed",
            render("fleet_failures.html.jinja", {"rows": failures, "total": sum(n for _, n, _ in failures)}),
        ),
    ]
    write_text(path, page_html("Fleet", "Fleet report", store.folder.name, chapters, page))


def alarm_text(alarm: Alarm) -> str:
    """Describe an alarm in one line: robot, effect, size, first day, likely cause."""
    where = f"{alarm.effect} of '{alarm.joint}'" if alarm.joint else alarm.effect
    size, std = size_text(alarm)
    between = f" ({alarm.earliest} to {alarm.latest})" if alarm.earliest != alarm.latest else ""
    doubt = (
        f" ({percent(alarm.probability)} likely; otherwise {alarm.rival})" if alarm.probability < SURE else ""
    )
    return (
        f"{alarm.serial}: {where} {size} +- {std} since {alarm.since}{between}: {CAUSES[alarm.effect]}{doubt}"
    )


def size_text(alarm: Alarm) -> tuple[str, str]:
    """Return size and standard deviation of an alarm with their unit."""
    if alarm.unit == "1":
        return f"{100 * alarm.size:+.2g} %", f"{100 * alarm.std:.1g} %"
    return f"{alarm.size:+.3g}", f"{alarm.std:.1g} {alarm.unit}"


def _overview(analyses: Sequence[TypeAnalysis], page: Page, alarms: Sequence[Alarm]) -> Markup:
    types = [
        {
            "name": analysis.model.name,
            "robots": analysis.robots,
            "logs": analysis.logs,
            "failed": analysis.failed,
            "alarms": len(analysis.alarms),
            "changed": len({alarm.serial for alarm in analysis.alarms}),
            "day": percent(_friction_of_a_day(analysis)),
            "rate": percent(analysis.calibration.rate) if analysis.trusted else "unknown",
            "trusted": analysis.trusted,
            "quiet": analysis.calibration.days,
            "plots": [
                page.figure(_spread(analysis, name), f"{name} of the robots of type {analysis.model.name}")
                for name in ("friction", "gain")
            ],
        }
        for analysis in analyses
    ]
    return render(
        "fleet_overview.html.jinja",
        {
            "types": types,
            "rate": percent(FALSE_ALARM),
            "days": DAYS_A_YEAR,
            "least": LEAST_DAYS,
            "alarms": len(alarms),
        },
    )


def _friction_of_a_day(analysis: TypeAnalysis) -> float:
    """Median over the joints of the relative standard deviation of friction from day to day."""
    project = projection(analysis.hierarchy, analysis.effects)
    shares = [
        float(np.sqrt(project[i] ** 2 @ analysis.hierarchy.day))
        for i, effect in enumerate(analysis.effects)
        if effect.kind == "friction"
    ]
    return float(np.median(shares)) if shares else np.nan


def _spread(analysis: TypeAnalysis, name: str) -> Figure:
    """Draw friction or gain of every robot, by joint, relative to the type's model."""
    project = projection(analysis.hierarchy, analysis.effects)
    drawn = [(i, effect) for i, effect in enumerate(analysis.effects) if effect.kind == name]
    traces: list[Trace] = []
    for place, (i, effect) in enumerate(drawn, start=1):
        values = np.array([100.0 * project[i] @ course.mean for course in analysis.courses])
        changed = np.array(
            [any(a.joint == effect.joint for a in course.alarms) for course in analysis.courses]
        )
        sides = place + (np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else np.zeros(1))
        for mask, color in ((~changed, CYCLE[0]), (changed, VERMILION)):
            labels = [
                f"{course.serial}, {effect.joint}: {value:+.2g} %"
                for course, value, yes in zip(analysis.courses, values, mask, strict=True)
                if yes
            ]
            if labels:
                traces.append(labelled(dots(sides[mask], values[mask], effect.joint, color, 5.0), labels))
    axis = Axis(labels=tuple(effect.joint for _, effect in drawn))
    panel = Panel(tuple(traces), axis, Axis(name, percent=True), shapes=(level_line(0.0),))
    return row_of((panel,), 220)


def _alarms(analyses: Sequence[TypeAnalysis], alarms: Sequence[Alarm]) -> Markup:
    kinds = {alarm.serial: analysis.model.name for analysis in analyses for alarm in analysis.alarms}
    rows = [
        {
            "type": kinds[alarm.serial],
            "serial": alarm.serial,
            "joint": alarm.joint,
            "effect": alarm.effect,
            "cause": CAUSES[alarm.effect],
            "since": alarm.since,
            "between": f"{alarm.earliest} to {alarm.latest}" if alarm.earliest != alarm.latest else "",
            "found": alarm.found,
            "size": size_text(alarm),
            "probability": percent(alarm.probability),
            "rival": alarm.rival,
        }
        for alarm in alarms[:_LISTED]
    ]
    return render("fleet_alarms.html.jinja", {"rows": rows, "more": max(len(alarms) - _LISTED, 0)})


def _robots(analyses: Sequence[TypeAnalysis], page: Page) -> Markup:
    every = [(analysis, course) for analysis in analyses for course in analysis.courses]
    every.sort(key=lambda pair: not pair[1].alarms)
    tabs = []
    for analysis, course in every[:_FIGURES]:
        context = {
            "plot": page.figure(
                _course(analysis, course), f"friction, gain and load of {course.serial} over time"
            ),
            "alarms": [alarm_text(alarm).replace(" +- ", " ± ") for alarm in course.alarms],
            "days": len(course.days),
            "first": course.days[0],
            "last": course.days[-1],
            "joints": list(zip(analysis.model.robot.joint_names, CYCLE * 4, strict=False)),
        }
        tabs.append((course.serial, "", render("fleet_robot.html.jinja", context)))
    shown = Markup("<p class='intro'>{} of {} robots are shown, those with alarms first.</p>").format(
        len(tabs), sum(analysis.robots for analysis in analyses)
    )
    return shown + page.tabs(tabs) if tabs else Markup("<p class='intro'>No log has been processed yet.</p>")


def _course(analysis: TypeAnalysis, course: Course) -> Figure:
    """Draw friction, gain and load of a robot by day, relative to the type's model."""
    t = np.array([(day - course.days[0]).days for day in course.days], dtype=np.float64)
    joints = analysis.model.robot.joint_names
    panels = []
    for name, size in _DRAWN.items():
        traces: list[Trace] = []
        for i, effect in enumerate(analysis.effects):
            if effect.kind != name:
                continue
            values = size * course.level[:, i]
            color = CYCLE[joints.index(effect.joint) % len(CYCLE)] if effect.joint else GREY
            where = effect.joint or "load"
            labels = [f"{day}, {where}: {value:+.3g}" for day, value in zip(course.days, values, strict=True)]
            traces += [line(t, values, where, color), labelled(dots(t, values, where, color), labels)]
        if not traces:
            continue
        shapes = [level_line(0.0)]
        for alarm in course.alarms:
            if alarm.effect == name:
                shapes.append(time_line(float((alarm.since - course.days[0]).days), VERMILION))
        y = Axis(_UNITS[name], percent=name != "load")
        panels.append(Panel(tuple(traces), Axis(f"days since {course.days[0]}"), y, shapes=tuple(shapes)))
    return column_of(panels, 60 + 150 * len(panels))


# Estimates that follow a running log, as a page: parameters and eigenvalues of P over time.

MOST_POINTS = 400
PER_ROW = 3
DEVIATIONS = 1.96
# Fraction of the time, from the start, whose transients may exceed the range of a panel.
BEGINNING = 0.25
_STROKES = {"dash": "6 3", "dot": "2 2", "dashdot": "6 2 2 2"}


@dataclass(frozen=True, eq=False)
class Followed:
    """Content of the page of a followed log.

    Attributes
    ----------
    robot : RobotModel
        The robot.
    columns : tuple of Column
        Parameters of the model.
    base : BaseMap
        Base parameters, in the order of the trajectory.
    trajectory : ParameterTrajectory
        The estimate over time.
    method : str
        Name of the method.
    seconds : float, s
        Motion used.

    """

    robot: RobotModel
    columns: tuple[Column, ...]
    base: BaseMap
    trajectory: ParameterTrajectory
    method: str
    seconds: float


def write_trajectory_page(path: Path, followed: Followed) -> None:
    """Write the page of a followed log, completely or not at all; raises ResourceError if it cannot be written."""
    write_text(path, trajectory_html(followed))


def trajectory_html(followed: Followed) -> str:
    """Return the page as HTML: parameters and eigenvalues of P over time, and the final values.

    Source of the plots: Chavez-Olivares et al. 2012, Figures 2 and 3.
    """
    page = Page()
    track = followed.trajectory
    known = int((track.std[-1] < 0.1 * np.abs(track.value[-1])).sum())
    intro = Markup(
        '<p class="intro">{}; {} s of motion, {} base parameters, {} of them known to 10 %. Bands are 95 % intervals; '
        "transients of the first quarter may exceed the panels.</p>"
    ).format(followed.method, number(followed.seconds), len(track.names), known)
    chapters = [
        Chapter("parameters", "Parameters over time", intro + _parameters(followed, page)),
        Chapter("eigenvalues", "Eigenvalues of P", _eigenvalues(track, page)),
        Chapter("values", "Values at the end", _values(followed)),
    ]
    name = followed.robot.name or "robot"
    return page_html(f"{name}: estimate over time", "Estimate over time", name, chapters, page)


def _parameters(followed: Followed, page: Page) -> Markup:
    html = Markup("")
    for title, groups in _groups(followed):
        html += Markup("<h3>{}</h3>").format(title)
        for first in range(0, len(groups), PER_ROW):
            some = groups[first : first + PER_ROW]
            panels = [_panel(followed, name, members) for name, members in some]
            # Empty panels keep the width of an incomplete last row.
            panels += [_blank()] * (PER_ROW - len(panels) if len(groups) > PER_ROW else 0)
            html += _keys(followed, some)
            html += page.figure(
                row_of(panels, 230), f"{title} over time: {', '.join(name for name, _ in some)}"
            )
    return html


def _keys(followed: Followed, groups: list[tuple[str, list[int]]]) -> Markup:
    """Legend of the lines, panel by panel."""
    html = Markup("")
    for name, members in groups:
        html += Markup('<span class="key"><b>{}</b></span>').format(name.replace("^2", "²"))
        for i, member in enumerate(members):
            color, dash = _look(i)
            column = followed.columns[followed.base.independent[member]]
            line = Markup(' stroke-dasharray="{}"').format(_STROKES[dash]) if dash in _STROKES else ""
            html += Markup(
                '<span class="key"><svg width="16" height="8" aria-hidden="true"><path d="M0 4 H16" stroke="{}" '
                'stroke-width="2"{}/></svg>{}</span>'
            ).format(color, line, symbol(column, followed.robot))
    return Markup('<p class="legend">{}</p>').format(html)


def _look(i: int) -> tuple[str, str]:
    return CYCLE[i % len(CYCLE)], DASHES[(i // len(CYCLE)) % len(DASHES)]


def _groups(followed: Followed) -> list[tuple[str, list[tuple[str, list[int]]]]]:
    """Group panels under headings: links by link and unit, other terms by term and unit over all joints."""
    robot = followed.robot
    bodies: dict[tuple[int, str], list[int]] = {}
    others: dict[tuple[str, str], list[int]] = {}
    for i, k in enumerate(followed.base.independent):
        column = followed.columns[k]
        if column.of is Of.BODY:
            bodies.setdefault((column.owner, column.unit), []).append(i)
        else:
            others.setdefault((column.term, column.unit), []).append(i)
    sections = [
        (
            "Links",
            [(f"{robot.body_names[owner]}, {unit}", members) for (owner, unit), members in bodies.items()],
        ),
        (
            "Joints",
            [(f"{term.replace('_', ' ')}, {unit}", members) for (term, unit), members in others.items()],
        ),
    ]
    return [(title, groups) for title, groups in sections if groups]


def _panel(followed: Followed, name: str, members: list[int]) -> Panel:
    track = followed.trajectory
    index = _thinned(len(track.t))
    t = track.t[index]
    bands: list[Trace] = []
    lines: list[Trace] = []
    for i, member in enumerate(members):
        lead = followed.columns[followed.base.independent[member]].name
        color, dash = _look(i)
        value, half = track.value[index, member], DEVIATIONS * track.std[index, member]
        bands += _band(t, value - half, value + half, color)
        texts = [f"{lead} {v:.4g} ± {h:.2g} at {s:.4g} s" for v, h, s in zip(value, half, t, strict=True)]
        lines.append(labelled(line(t, value, lead, color, 1.4, dash), texts))
    return Panel(
        traces=tuple(bands + lines),
        x=Axis("time, s"),
        y=Axis("", span=_span(track, members)),
        title=short(name.rsplit(", ", 1)[0], 16),
    )


def _blank() -> Panel:
    return Panel(traces=(), x=Axis("", most_ticks=1), y=Axis("", most_ticks=1))


def _span(track: ParameterTrajectory, members: list[int]) -> tuple[float, float]:
    late = track.t >= track.t[0] + BEGINNING * (track.t[-1] - track.t[0])
    value = track.value[late][:, members]
    half = DEVIATIONS * track.std[-1, members]
    low, high = float((value - half).min()), float((value + half).max())
    margin = 0.08 * max(high - low, 1e-9)
    return low - margin, high + margin


def _band(t: Float, low: Float, high: Float, color: str) -> list[Trace]:
    edge = {"type": "scatter", "mode": "lines", "x": packed(t), "line": {"width": 0}, "hoverinfo": "skip"}
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    filled = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.13)"}
    return [edge | {"y": packed(low)}, edge | {"y": packed(high)} | filled]


def _eigenvalues(track: ParameterTrajectory, page: Page) -> Markup:
    index = _thinned(len(track.t))
    t, values = track.t[index], np.maximum(track.eigenvalues[index], np.finfo(np.float32).tiny)
    inner = [line(t, row, "", PALE, 0.8) | {"hoverinfo": "skip"} for row in values.T[1:-1]]
    ends = [(values[:, 0], "greatest", INK), (values[:, -1], "least", GREY)]
    outer = [
        labelled(
            line(t, row, name, color, 2.0),
            [f"{name}: {v:.3g} at {s:.4g} s" for v, s in zip(row, t, strict=True)],
        )
        for row, name, color in ends
    ]
    low, high = float(values.min()), float(values.max())
    panel = Panel(
        traces=(*inner, *outer),
        x=Axis("time, s"),
        y=Axis("eigenvalue", log=True, span=(0.5 * low, 2.0 * high), most_ticks=9),
    )
    text = Markup(
        '<p class="legend"><span class="line normal"></span>greatest '
        '<span class="line residual" style="border-color:{}"></span>least '
        '<span class="line pale"></span>those between</p><p class="intro">The greatest belongs to the combination of '
        "parameters that is known least. It falls while the motion excites it and grows where old rows are forgotten "
        "without new information.</p>"
    ).format(GREY)
    return text + page.figure(row_of([panel], 340), "eigenvalues of the covariance over time")


def _values(followed: Followed) -> Markup:
    track, base = followed.trajectory, followed.base
    rows = []
    for i, (row, lead) in enumerate(zip(base.B, base.independent, strict=True)):
        value, half = interval(float(track.value[-1, i]), DEVIATIONS * float(track.std[-1, i]))
        known = _known_since(track, i)
        rows.append(
            {
                "formula": formula(row, int(lead), followed.columns, followed.robot),
                "unit": followed.columns[lead].unit,
                "value": value,
                "half": half,
                "since": f"{number(known)} s" if np.isfinite(known) else "",
            }
        )
    return render("trajectories.html.jinja", {"rows": rows})


def _known_since(track: ParameterTrajectory, member: int) -> float:
    """Time from which on a parameter has been known to 10 %; nan if it is not."""
    good = track.std[:, member] < 0.1 * np.abs(track.value[:, member])
    if not good[-1]:
        return float("nan")
    bad = np.flatnonzero(~good)
    return float(track.t[bad[-1] + 1 if len(bad) else 0])


def _thinned(count: int) -> Int:
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(np.int64))
