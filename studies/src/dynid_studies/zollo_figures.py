"""The figures of Zollo et al. 2014 in kind: friction, torque and motion, motors ahead of their links."""

from __future__ import annotations

import numpy as np

from dynid.base import Float
from dynid.report.figures import (
    BLUE,
    CYCLE,
    GREEN,
    VERMILION,
    Axis,
    Figure,
    Panel,
    Trace,
    column_of,
    line,
    row_of,
)
from dynid.report.text import number
from dynid.simulation import SmoothFriction
from dynid_studies.zollo_arms import FRICTION, WIDTH, Stribeck
from dynid_studies.zollo_pipeline import Run

AROUND = 0.3  # s, at most, on either side of the greatest deflection
SHARE = 12.0  # a panel's height is at most so many deflections: nearer, they could not be seen


def friction_figure() -> Figure:
    """Friction (43) of both joints, Coulomb and viscous friction, and the level that a fit sees at 1 rad/s."""
    speed = np.linspace(-1.0, 1.0, 1001)
    v, none = np.stack([speed, speed], axis=1), np.zeros((len(speed), 0))
    whole = Stribeck(FRICTION).torque(v, none)
    plain = SmoothFriction(FRICTION[:, 0], FRICTION[:, 1], WIDTH).torque(v, none)
    seen = Stribeck(FRICTION).level(np.ones((1, 2)))[0]
    apparent = SmoothFriction(FRICTION[:, 0], seen, WIDTH).torque(v, none)
    panels = [
        Panel(
            (
                line(speed, plain[:, j], "Coulomb and viscous, f1 v + f2 sign v", VERMILION, 1.5, "dash"),
                line(speed, whole[:, j], "complete, eq. 43", BLUE, 1.8),
                line(speed, apparent[:, j], "f1 v + level at 1 rad/s", GREEN, 1.5, "dot"),
            ),
            Axis("motor velocity, rad/s"),
            Axis("friction torque, N m", span=(-0.55, 0.55)),
            title=f"joint {j + 1}",
        )
        for j in range(2)
    ]
    return row_of(panels, 300)


def motion_figure(run: Run) -> Figure:
    """Motor torque and link positions over time; a wrist's torque has a panel of its own."""
    m = run.motion
    joints = _joints(m.t, m.tau)
    parts = [joints] if len(joints) <= 3 else [joints[:3], joints[3:]]
    panels = [Panel(part, Axis(), Axis("motor torque, N m")) for part in parts]
    panels.append(Panel(_joints(m.t, m.q), Axis("time, s"), Axis("link position, rad")))
    return column_of(panels, 60 + 200 * len(panels))


def deflection_figure(run: Run) -> Figure:
    """How far the motors of joints 1 and 2 are ahead of their links over time."""
    m = run.motion
    return column_of(
        [Panel(_joints(m.t, np.rad2deg(run.bend[:, :2])), Axis("time, s"), Axis("motor less link, deg"))], 260
    )


def zoom_figure(run: Run) -> Figure:
    """Motor and link positions of joints 1 and 2 about the time of their greatest deflection."""
    m, panels = run.motion, []
    for j in range(2):
        greatest = int(np.abs(run.bend[:, j]).argmax())
        bend, around = float(np.abs(run.bend[greatest, j])), AROUND
        near = np.abs(m.t - m.t[greatest]) <= around
        while np.ptp(m.q[near, j]) > SHARE * bend:
            around *= 0.8
            near = np.abs(m.t - m.t[greatest]) <= around
        panels.append(
            Panel(
                (
                    line(m.t[near], np.rad2deg(m.theta[near, j]), "motor", BLUE, 1.8),
                    line(m.t[near], np.rad2deg(m.q[near, j]), "link", VERMILION, 1.8, "dash"),
                ),
                Axis("time, s"),
                Axis("position, deg"),
                title=f"joint {j + 1}: {number(np.rad2deg(bend), 2)}° apart at {m.t[greatest]:.2f} s",
            )
        )
    return row_of(panels, 300)


def _joints(t: Float, values: Float) -> tuple[Trace, ...]:
    return tuple(line(t, column, f"joint {j + 1}", CYCLE[j]) for j, column in enumerate(values.T))
