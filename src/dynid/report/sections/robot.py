"""The robot in 3-D, as it moved in the log, with links coloured by what is known of them."""

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

# Less than half of what a page of its own has: figures need the rest of a report's 3 MB.
MESH_BYTES = 120_000
# s: longer runs are cut, so that a report keeps smooth motion in few bytes.
LONGEST = 60.0

KNOWN = Colour("#3a9e7d", f"mass from the data (over {percent(DATAS)})")
PARTLY = Colour("#e0a33a", "from data and description")
DESCRIBED = Colour("#9a7cc8", f"the description's (data under {percent(PRIORS)})")
NONE = Colour("#9aa1a8", "no mass in the model")


class RobotSection:
    """The robot as the log moved it; its links in the colours of the table above."""

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
        about = f"Its motion is that of {name}, {t[-1] - t[0]:.1f} s of it. " if moves else ""
        intro = Markup(
            '<p class="intro">{}A link has the colour of what decides its mass; point at it to read more.</p>'
        )
        return intro.format(about) + page.scene(
            scene, f"{robot.name or 'robot'} in 3-D, links coloured by what is known"
        )


def colours(identification: Identification) -> dict[str, LinkColour]:
    """By body, and "base": who decides its mass, and the mass in words."""
    found = {link.name: LinkColour(_colour(link), _said(link)) for link in links(identification)[0]}
    still = "does not move, so that no log says anything of its mass"
    rest = {name: LinkColour(NONE) for name in identification.robot.body_names if name not in found}
    whole = {"base": LinkColour(NONE, still)} | rest | found
    order = (KNOWN, PARTLY, DESCRIBED, NONE)  # of the legend
    return dict(sorted(whole.items(), key=lambda one: order.index(one[1].colour)))


def recorded_motion(identification: Identification) -> tuple[Float, Float, str]:
    """Times (T,) and positions (T, n) of the longest run without a gap, and where it was recorded.

    Of the held-out data that are predicted worst, where there are any; T = 0 where no samples were kept.
    """
    worst = worst_held_out(identification)
    tried = [*([worst[1]] if worst else []), identification.training]
    residuals = next(
        (one.residuals for one in tried if one.residuals is not None and len(one.residuals.t)), None
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


def _said(link: Link) -> str:
    mass = link.mass
    shown, half = interval(mass.value, mass.half) if math.isfinite(mass.half) else (number(mass.value, 4), "")
    described = f", {number(mass.described, 4)} kg described" if math.isfinite(mass.described) else ""
    return f"{shown}{f' ± {half}' if half else ''} kg{described}; {link.said}"
