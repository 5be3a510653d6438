"""A page of an open-loop run: measured and simulated positions, and their difference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.report import BLUE, INK, VERMILION, Axis, Figure, Panel, column_of, line

if TYPE_CHECKING:
    from dynid.simulation import OpenLoop


def open_loop_figure(run: OpenLoop, joint: int) -> Figure:
    """Measured and simulated positions of a joint, and their difference below."""
    t, measured = run.t, run.q[:, joint] + run.error[:, joint]
    positions = (
        line(t, measured, "measured", INK),
        line(t, run.q[:, joint], "simulated", VERMILION, dash="dash"),
    )
    error = (line(t, 1e3 * run.error[:, joint], "measured - simulated", BLUE),)
    return column_of(
        [
            Panel(positions, Axis(""), Axis("position"), weight=2.0),
            Panel(error, Axis("time, s"), Axis("difference, 10⁻³", most_ticks=4)),
        ],
        300,
        "time",
    )


def write_open_loop(run: OpenLoop, robot: str, path: Path) -> None:
    """Write the page of an open-loop run.

    Parameters
    ----------
    run : OpenLoop
        The run.
    robot : str
        Name of the robot.
    path : Path
        File to write.

    Raises
    ------
    ResourceError
        If it cannot be written.

    """
    from markupsafe import Markup

    from dynid.report import Chapter, Page, page_html, write_text

    page = Page()
    intro = Markup("<p>{}</p>").format("; ".join(run.lines()))
    figures = Markup("").join(
        Markup("<h3>{}</h3>{}").format(
            name, page.figure(open_loop_figure(run, j), f"open-loop run of {name}")
        )
        for j, name in enumerate(run.joint_names)
    )
    legend = Markup(
        '<p class="legend"><span class="line" style="border-color:{}"></span>measured '
        '<span class="line" style="border-color:{}"></span>simulated</p>'
    ).format(INK, VERMILION)
    chapters = [Chapter("run", "Driven by measured torque", intro + legend + figures)]
    write_text(path, page_html(f"{robot}: open loop", "Open-loop run", robot, chapters, page))
