"""A page to look at before a motion is run: the moving robot, least distances, torque against limits, all margins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dynid.base import Float
from dynid.excitation.constraints import Margin
from dynid.excitation.folder import checks_of
from dynid.excitation.gradient import Whole, samples_at
from dynid.excitation.plan import Sheet

if TYPE_CHECKING:
    from markupsafe import Markup

    from dynid.report import Figure, Page, Trace
    from dynid.scene import Scene, Surface


POINTS, ALL_TOLD = 1500, 1e6
# Curves of distances that are shown: those that come nearest.
MOST_PAIRS = 6
_FLOOR, _ROOM = "floor", "arm - "
# Half of the part of the room that is drawn, in radii of a ball round the moving robot.
ROOM = 1.6
# Squares along a side of an obstacle, which may reach behind the eye.
OBSTACLE_PARTS = 10


def plan_html(plan: Sheet) -> str:
    """The page as text; it needs no network, and the same plan gives the same bytes."""
    from markupsafe import Markup

    from dynid.report import Chapter, Page, page_html

    page = Page()
    robot = plan.information.robot
    t = np.linspace(0.0, plan.trajectory.duration, POINTS)
    q = plan.trajectory.motion(t)[0]
    about = f"{robot.name or 'robot'} along the planned motion"
    moving = page.scene(_scene(plan, t, q), about, follows="time")
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
    summary = Markup("<p><strong>{}</strong></p><p>{:.4g} s{}.{}</p>").format(
        checks_of(plan).in_full,
        plan.trajectory.duration, quality if plan.figures.condition < ALL_TOLD else "",
        " Stopped before the search had ended." if plan.stopped else "",
    )  # fmt: skip
    chapters = [
        Chapter("robot", "Look before you run", summary + moving),
        Chapter("distances", "Least distances", _distances_shown(plan, t, q, page)),
        Chapter("motion", "Motion against its limits", figures),
        Chapter(
            "margins",
            "Margins",
            Markup('<div class="scroll"><table class="data">{}{}</table></div>').format(head, rows),
        ),
    ]
    name = robot.name or "robot"
    return page_html(f"{name}: planned motion", "Planned motion", name, chapters, page)


def _scene(plan: Sheet, t: Float, q: Float) -> Scene:
    from dynid.scene import outlines, scene_of

    robot, space = plan.information.robot, plan.bounds.workspace
    scene = scene_of(robot, t, q, geometry="collision", surfaces=_checked(plan))
    if space is None or not len(space.names):
        return scene
    centre, radius = scene.extent
    lines = outlines(space.normal, space.offset, centre, ROOM * radius)
    floor = -space.offset[space.names.index(_FLOOR)] if _FLOOR in space.names else 0.0
    return replace(scene, lines=lines, floor=float(floor))


def _checked(plan: Sheet) -> list[Surface] | None:
    # The very shapes that were kept apart, and obstacles; None where there were none.
    collision = plan.bounds.collision
    if collision is None or collision.shapes is None:
        return None
    from dynid.scene import surface_of

    made_up = collision.shapes.derived
    return [
        *(surface_of(shape, "capsule" if shape.link in made_up else "") for shape in collision.shapes.shapes),
        *(surface_of(shape, "obstacle", OBSTACLE_PARTS) for shape in collision.obstacles),
    ]


def _distances_shown(plan: Sheet, t: Float, q: Float, page: Page) -> Markup:
    from markupsafe import Markup

    from dynid.report import CYCLE, VERMILION, Axis, Panel, column_of, level_line, line

    found = sorted(_distances(plan, q), key=lambda one: float(one[1].min()))
    if not found:
        return Markup("<p>No distances were kept: neither surroundings nor shapes of the arm were given.</p>")
    # The nearest bound of the room is shown, even where many pairs of links come nearer.
    room = next((k for k, one in enumerate(found) if one[0].startswith(_ROOM)), None)
    chosen = set(range(MOST_PAIRS)) if room is None or room < MOST_PAIRS else {*range(MOST_PAIRS - 1), room}
    shown = [one for k, one in enumerate(found) if k in chosen]
    rest = [one for k, one in enumerate(found) if k not in chosen]
    curves = tuple(line(t, 1e3 * values, name, CYCLE[k]) for k, (name, values, _) in enumerate(shown))
    asked = sorted({1e3 * bound for _, _, bound in shown})
    panel = Panel(
        curves, Axis("time, s"), Axis("distance, mm"), tuple(level_line(x, VERMILION) for x in asked)
    )
    figure = page.figure(column_of((panel,), 320, "time"), "least distances over time")
    entry = Markup('<li><i style="background:{}"></i>{}: {:.1f} mm at least</li>')
    legend = [entry.format(CYCLE[k], name, 1e3 * values.min()) for k, (name, values, _) in enumerate(shown)]
    more = "What is far apart may be farther apart than is shown: hulls are compared where parts come near."
    if rest:
        more += f" {len(rest)} further pairs stay at least {1e3 * rest[0][1].min():.0f} mm apart."
    return Markup('<ul class="scene-legend">{}</ul>{}<p class="note">{}</p>').format(
        Markup("").join(legend), figure, more
    )


def _distances(plan: Sheet, q: Float) -> list[tuple[str, Float, float]]:
    # Names, distances (T,), m, and what was asked for: of links from each other and from what bounds the room.
    from dynid.excitation.collision import placements

    robot, bounds = plan.information.robot, plan.bounds
    placed = placements(robot, q)
    found: list[tuple[str, Float, float]] = []
    if (collision := bounds.collision) is not None and collision.links:
        free = collision.nearest(placed).distance
        found += [(name, free[:, k], float(collision.clearance[k])) for k, name in enumerate(collision.names)]
    if (space := bounds.workspace) is not None and len(space.names):
        room = (space.offset - space.reach(placed)[0]).min(axis=1)
        found += [(f"{_ROOM}{name}", room[:, h], bounds.clearance) for h, name in enumerate(space.names)]
    return found


def _room(margin: Margin) -> str:
    if margin.what in ("workspace", "self-collision"):
        return f"{1000 * margin.margin:.1f} mm"
    return f"{100 * margin.margin:.1f} %"


def _joint_figure(plan: Sheet, joint: int) -> Figure:
    from dynid.report import BLUE, VERMILION, Axis, Panel, band, column_of, level_line, line

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
    if (
        predicted := bounds.torque(robot, Whole(information.terms).model, samples_at(t, q, dq, ddq))
    ) is not None:
        tau, kept = predicted
        own, kept = tau[:, joint], kept[:, joint]
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
