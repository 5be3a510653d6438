"""The robot in 3-D, moving as in the log, with links coloured by the source of their mass."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.report.section import Page, worst_held_out
from dynid.report.text import interval, number, percent
from dynid.report.timeline import run_starts
from dynid.run.links import DATAS, PRIORS, Link, links
from dynid.run.result import Identification
from dynid.scene.scene import Colour, LinkColour, scene_of

# bytes: less than half of a separate page, because figures need the rest of a report of 3 MB.
MESH_BYTES = 120_000
# s: longer motion is cut, to keep the report small with smooth motion.
LONGEST = 60.0

KNOWN = Colour("#3a9e7d", f"mass from the data (over {percent(DATAS)})")
PARTLY = Colour("#e0a33a", "mass from data and prior")
DESCRIBED = Colour("#9a7cc8", f"mass from the prior (data under {percent(PRIORS)})")
NONE = Colour("#9aa1a8", "no mass in the model")


class RobotSection:
    """The robot, moving as in the log; links have the colours of the table of links."""

    anchor = "robot"
    title = "Robot in 3-D"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A scene with its legend."""
        robot = identification.robot
        t, q, name = recorded_motion(identification)
        moves = len(t) > 1
        scene = scene_of(
            robot,
            t if moves else None,
            q if moves else None,
            colours=colours(identification),
            most_bytes=MESH_BYTES,
        )
        about = f"{t[-1] - t[0]:.1f} s of {name}. " if moves else ""
        intro = Markup('<p class="note">{}Point at a link for its mass.</p>')
        return intro.format(about) + page.scene(
            scene, f"{robot.name or 'robot'} in 3-D, links coloured by what is known"
        )


def colours(identification: Identification) -> dict[str, LinkColour]:
    """Colour and text of every link and of "base": source of the mass, and the mass."""
    by_link = {link.name: LinkColour(_colour(link), _mass_text(link)) for link in links(identification)[0]}
    still = "does not move, so no log determines its mass"
    rest = {name: LinkColour(NONE) for name in identification.robot.body_names if name not in by_link}
    whole = {"base": LinkColour(NONE, still)} | rest | by_link
    order = (KNOWN, PARTLY, DESCRIBED, NONE)  # order of the legend
    return dict(sorted(whole.items(), key=lambda entry: order.index(entry[1].colour)))


def recorded_motion(identification: Identification) -> tuple[Float, Float, str]:
    """Times and positions of the longest motion without a gap, and the name of its trajectory.

    From the held-out data with the largest error if there are any; empty if no samples were kept.
    """
    worst = worst_held_out(identification)
    tried = [*([worst[1]] if worst else []), identification.training]
    residuals = next(
        (data.residuals for data in tried if data.residuals is not None and len(data.residuals.t)), None
    )
    if residuals is None:
        return np.zeros(0), np.zeros((0, identification.robot.n)), ""
    edges = np.append(run_starts(residuals), len(residuals.t))
    longest = int(np.argmax(np.diff(edges)))
    first, last = int(edges[longest]), int(edges[longest + 1])
    t = residuals.t[first:last]
    kept = np.flatnonzero((np.diff(t, prepend=-np.inf) > 0) & (t - t[0] <= LONGEST))
    name = residuals.trajectories[int(residuals.trajectory[first])]
    return t[kept], residuals.q[first:last][kept], f"'{name}'"


def _colour(link: Link) -> Colour:
    if link.mass.data < PRIORS:
        return DESCRIBED
    return KNOWN if link.mass.data > DATAS else PARTLY


def _mass_text(link: Link) -> str:
    mass = link.mass
    shown, half = interval(mass.value, mass.half) if math.isfinite(mass.half) else (number(mass.value, 4), "")
    described = f", prior {number(mass.described, 4)} kg" if math.isfinite(mass.described) else ""
    return f"{shown}{f' ± {half}' if half else ''} kg{described}; {link.source}"
