"""report.html of a fleet: the fleet at a glance, its alarms, and robots over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from dynid.fleet.analysis import LEAST_DAYS, TypeAnalysis
from dynid.fleet.drift import CAUSES, DAYS_A_YEAR, FALSE_ALARM, Alarm, Course, projection
from dynid.fleet.store import FleetStore
from dynid.report import (
    CYCLE,
    GREY,
    VERMILION,
    Axis,
    Chapter,
    Figure,
    Page,
    Panel,
    Trace,
    column_of,
    dots,
    labelled,
    level_line,
    line,
    number,
    page_html,
    percent,
    render,
    row_of,
    time_line,
    write_text,
)

# Robots with a figure of their own, and alarms that are listed; the tables hold all.
_FIGURES, _LISTED = 12, 200
# An effect that is less likely than this is named with its rival.
SURE = 0.95
# Effects that are drawn over time, with the size of one of their units on the page.
_DRAWN = {"friction": 100.0, "gain": 100.0, "load": 1.0}
_UNITS = {"friction": "friction", "gain": "gain", "load": "load, kg"}


def write_fleet_page(path: Path, store: FleetStore, found: Sequence[TypeAnalysis]) -> None:
    """Writes one offline page; raises ResourceError if it cannot be written."""
    page = Page()
    alarms = sorted((a for one in found for a in one.alarms), key=lambda a: (a.found, a.serial), reverse=True)
    failures = store.failures()
    chapters = [
        Chapter("fleet", "The fleet at a glance", _overview(found, page, alarms)),
        Chapter("alarms", "Alarms", _alarms(found, alarms)),
        Chapter("robots", "Robots over time", _robots(found, page)),
        Chapter(
            "logs",
            "Logs that failed",
            render("fleet_failures.html.jinja", {"rows": failures, "total": sum(n for _, n, _ in failures)}),
        ),
    ]
    write_text(path, page_html("Fleet", "Fleet report", store.folder.name, chapters, page))


def alarm_text(alarm: Alarm) -> str:
    """Which axis, since when, which effect, how large."""
    where = f"{alarm.effect} of '{alarm.joint}'" if alarm.joint else alarm.effect
    size, std = size_text(alarm)
    between = f" ({alarm.earliest} to {alarm.latest})" if alarm.earliest != alarm.latest else ""
    doubt = f" ({percent(alarm.probability)}; else {alarm.rival})" if alarm.probability < SURE else ""
    return (
        f"{alarm.serial}: {where} {size} +- {std} since {alarm.since}{between}: {CAUSES[alarm.effect]}{doubt}"
    )


def size_text(alarm: Alarm) -> tuple[str, str]:
    """Size and standard deviation with their unit."""
    if alarm.unit == "1":
        return f"{100 * alarm.size:+.2g} %", f"{100 * alarm.std:.1g} %"
    return f"{alarm.size:+.3g}", f"{alarm.std:.1g} {alarm.unit}"


def _overview(found: Sequence[TypeAnalysis], page: Page, alarms: Sequence[Alarm]) -> Markup:
    types = [
        {
            "name": one.model.name,
            "robots": one.robots,
            "logs": one.logs,
            "failed": one.failed,
            "alarms": len(one.alarms),
            "changed": len({alarm.serial for alarm in one.alarms}),
            "day": percent(_friction_of_a_day(one)),
            "inflation": number(float(one.inflation.max())),
            "trusted": one.trusted,
            "sample": one.sampled,
            "plots": [
                page.figure(_spread(one, name), f"{name} of the robots of type {one.model.name}")
                for name in ("friction", "gain")
            ],
        }
        for one in found
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


def _friction_of_a_day(one: TypeAnalysis) -> float:
    """Median over the joints of what friction does from day to day, as a share."""
    project = projection(one.hierarchy, one.effects)
    shares = [
        float(np.sqrt(project[i] ** 2 @ one.hierarchy.day))
        for i, effect in enumerate(one.effects)
        if effect.kind == "friction"
    ]
    return float(np.median(shares)) if shares else np.nan


def _spread(one: TypeAnalysis, name: str) -> Figure:
    """Robots by joint: friction or gain against the type's model, each robot a dot."""
    project = projection(one.hierarchy, one.effects)
    own = [(i, effect) for i, effect in enumerate(one.effects) if effect.kind == name]
    traces: list[Trace] = []
    for place, (i, effect) in enumerate(own, start=1):
        values = np.array([100.0 * project[i] @ course.mean for course in one.courses])
        changed = np.array([any(a.joint == effect.joint for a in course.alarms) for course in one.courses])
        sides = place + (np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else np.zeros(1))
        for mask, color in ((~changed, CYCLE[0]), (changed, VERMILION)):
            labels = [
                f"{course.serial}, {effect.joint}: {value:+.2g} %"
                for course, value, yes in zip(one.courses, values, mask, strict=True)
                if yes
            ]
            if labels:
                traces.append(labelled(dots(sides[mask], values[mask], effect.joint, color, 5.0), labels))
    axis = Axis(labels=tuple(effect.joint for _, effect in own))
    panel = Panel(tuple(traces), axis, Axis(name, percent=True), shapes=(level_line(0.0),))
    return row_of((panel,), 220)


def _alarms(found: Sequence[TypeAnalysis], alarms: Sequence[Alarm]) -> Markup:
    kinds = {alarm.serial: one.model.name for one in found for alarm in one.alarms}
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


def _robots(found: Sequence[TypeAnalysis], page: Page) -> Markup:
    every = [(one, course) for one in found for course in one.courses]
    every.sort(key=lambda pair: not pair[1].alarms)
    tabs = []
    for one, course in every[:_FIGURES]:
        context = {
            "plot": page.figure(
                _course(one, course), f"friction, gain and load of {course.serial} over time"
            ),
            "alarms": [alarm_text(alarm).replace(" +- ", " ± ") for alarm in course.alarms],
            "days": len(course.days),
            "first": course.days[0],
            "last": course.days[-1],
            "joints": list(zip(one.model.robot.joint_names, CYCLE * 4, strict=False)),
        }
        tabs.append((course.serial, "", render("fleet_robot.html.jinja", context)))
    shown = Markup("<p class='intro'>{} of {} robots, those with alarms first.</p>").format(
        len(tabs), sum(one.robots for one in found)
    )
    return shown + page.tabs(tabs) if tabs else Markup("<p class='intro'>No robot has a factor yet.</p>")


def _course(one: TypeAnalysis, course: Course) -> Figure:
    """Each day's friction, gain and load against the type's model."""
    t = np.array([(day - course.days[0]).days for day in course.days], dtype=np.float64)
    joints = one.model.robot.joint_names
    panels = []
    for name, size in _DRAWN.items():
        traces: list[Trace] = []
        for i, effect in enumerate(one.effects):
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
