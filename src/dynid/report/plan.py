"""A page that shows a planned motion: positions, velocities and torque against their limits, and all margins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Float
from dynid.excitation.constraints import Margin
from dynid.excitation.plan import Sheet
from dynid.signals.samples import Samples

if TYPE_CHECKING:
    from dynid.report.figures import Figure, Trace

POINTS, ALL_TOLD = 1500, 1e6


def plan_html(plan: Sheet) -> str:
    """The page as text; it needs no network, and the same plan gives the same bytes."""
    from markupsafe import Markup

    from dynid.report.html import Chapter, page_html
    from dynid.report.section import Page

    page = Page()
    robot = plan.information.robot
    drawn = [
        page.figure(_joint_figure(plan, j), f"planned motion of joint {name}")
        for j, name in enumerate(robot.joint_names)
    ]
    figures = Markup("").join(
        Markup("<h3>{}</h3>{}").format(name, figure)
        for name, figure in zip(robot.joint_names, drawn, strict=True)
    )
    rows = Markup("").join(
        Markup(
            "<tr><td>{}</td><td>{}</td><td>{:.4g}</td><td>{:.4g}</td><td>{}</td><td>{:.2f} s</td></tr>"
        ).format(m.what, m.where, m.worst, m.bound, _room(m), m.time)
        for m in plan.margins
    )
    head = Markup("<tr><th>bound</th><th>of</th><th>nearest</th><th>limit</th><th>left</th><th>at</th></tr>")
    quality = f", condition number {plan.figures.condition:.3g}, log determinant {plan.figures.logdet:.4g}"
    summary = Markup("<p>{:.4g} s{}.{}</p>").format(
        plan.trajectory.duration, quality if plan.figures.condition < ALL_TOLD else "",
        " Stopped before the search had ended." if plan.stopped else "",
    )  # fmt: skip
    chapters = [
        Chapter("motion", "Motion against its limits", summary + figures),
        Chapter("margins", "Margins", Markup("<table>{}{}</table>").format(head, rows)),
    ]
    name = robot.name or "robot"
    return page_html(f"{name}: planned motion", "Planned motion", name, chapters, page)


def _room(margin: Margin) -> str:
    if margin.what in ("workspace", "self-collision"):
        return f"{1000 * margin.margin:.1f} mm"
    return f"{100 * margin.margin:.1f} %"


def _joint_figure(plan: Sheet, joint: int) -> Figure:
    from dynid.report.figures import BLUE, VERMILION, Axis, Panel, band, column_of, level_line, line

    bounds, information = plan.bounds, plan.information
    limits, robot = bounds.limits, information.robot
    t = np.linspace(0.0, plan.trajectory.duration, POINTS)
    q, dq, ddq = plan.trajectory.motion(t)
    length = "m" if robot.prismatic[joint] else "rad"
    effort = "N" if robot.prismatic[joint] else "N m"
    curves: list[tuple[str, Float, tuple[float, ...]]] = [
        (f"position, {length}", q, (limits.lower[joint], limits.upper[joint])),
        (f"velocity, {length}/s", dq, (-limits.velocity[joint], limits.velocity[joint])),
    ]
    reserve: tuple[Trace, ...] = ()
    if bounds.theta is not None:
        tau = information.terms.torque(robot, Samples.from_motion(q, dq, ddq), bounds.theta)
        kept = bounds.reserve(robot, information.terms, q, dq, ddq, tau)[:, joint]
        own = tau[:, joint]
        reserve = (band(t, own - kept, own + kept, "torque with what is kept in reserve", BLUE, 0.25),)
        room = limits.torque[joint]
        curves.append((f"torque, {effort}", tau, (-room, room) if np.isfinite(room) else ()))
    panels = tuple(
        Panel(
            (*(reserve if i == 2 else ()), line(t, values[:, joint], title, BLUE)),
            Axis("time, s" if i == len(curves) - 1 else ""),
            Axis(title),
            tuple(level_line(float(level), VERMILION) for level in levels),
        )
        for i, (title, values, levels) in enumerate(curves)
    )
    return column_of(panels, 360, "time")
