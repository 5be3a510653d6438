"""Figures 2 and 3 of Nini et al. 2024 as drawn from the model: the arm with its parallelogram, and its springs."""

from __future__ import annotations

import numpy as np

from dynid.base import Float
from dynid.report.figures import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    STEEL,
    VERMILION,
    Axis,
    Figure,
    Panel,
    dots,
    line,
    row_of,
)
from dynid.robot import RobotModel
from dynid.terms import RigidBody, Terms
from dynid.terms.forms import torque_of
from dynid_studies.nini_arm import GEOMETRY, PRELOAD, SPRINGS, STIFFNESS, at_rest
from dynid_studies.outline import outline

CRANK, RISE = 0.25, 1.2
POSE = np.array([0.0, 1.4, -0.2, 0.0, 0.0, 0.0])


def arm_figure(robot: RobotModel) -> Figure:
    """Figure 2: the chain of joints from the side, and the parallelogram that carries motor 3 to joint 3."""
    panels = []
    for pose, name in (
        (POSE, "middle of the workspace"),
        (np.array([0, 0.9, 0.5, 0, 0.6, 0]), "leaning forward"),
    ):
        panel = outline(robot, pose, aspect=0.98, tip=(0.0, 0.0, 0.0), title=name)
        shoulder, upper = np.array([0.20, 0.75]), 1.10
        tip = shoulder + along(pose[1] + pose[2] + RISE, CRANK)
        elbow = shoulder + along(pose[1], upper)
        corners = np.stack([shoulder, tip, tip + elbow - shoulder, elbow])
        bars = line(corners[:, 0], corners[:, 1], "crank, coupler and their joint on link 3", BLUE, 2.0)
        panels.append(Panel((*panel.traces, bars), panel.x, panel.y, title=panel.title))
    return row_of(panels, 400)


def spring_figure(robot: RobotModel) -> Figure:
    """Figure 3: where the springs sit, for three angles of joint 2, and what they take from the arm's weight."""
    d, r = GEOMETRY.anchor, GEOMETRY.crank
    traces = []
    for angle, colour in ((0.5, GREEN), (1.4, BLUE), (2.3, PURPLE)):
        phi = angle + GEOMETRY.angle
        crank = r * np.array([np.sin(phi), -np.cos(phi)])
        x, y = np.array([0.0, crank[0]]), np.array([0.0, crank[1]])
        traces.append(line(x, y, f"tail of link 2, q2 = {angle:g} rad", colour, 3.0))
        traces.append(line(-1.2 * x, -1.2 * y, "", colour, 1.0))
        x, y = np.array([0.0, crank[0]]), np.array([-d, crank[1]])
        traces.append(line(x, y, "springs", VERMILION, 1.4, "dash"))
    ends = dots(np.zeros(2), np.array([0.0, -d]), "axis of joint 2, fixed end", INK, 8.0, 1.0)
    where = Panel(
        (*traces, ends),
        Axis("m", span=(-0.85, 0.85)),
        Axis("m", span=(-1.05, 0.65)),
        title="where they sit",
    )
    q2 = np.linspace(0.3, 2.5, 111)
    q = np.tile(POSE, (len(q2), 1))
    q[:, 1] = q2
    carried = Terms((SPRINGS,)).torque(robot, at_rest(q), np.array([STIFFNESS, PRELOAD]))[:, 1]
    weight = torque_of(RigidBody(), robot, at_rest(q), robot.inertia_prior.ravel())[:, 1]
    balance = Panel(
        (
            line(q2, weight, "weight", STEEL, 2.0),
            line(q2, carried, "springs alone", VERMILION, 2.0, "dash"),
            line(q2, weight + carried, "left for motor 2", INK, 1.6),
        ),
        Axis("q2, rad"),
        Axis("torque of joint 2, N m"),
        title="what they carry",
    )
    return row_of([where, balance], 400)


def along(angle: float, length: float) -> Float:
    """A vector of a length in the plane, at an angle."""
    return length * np.array([np.cos(angle), np.sin(angle)])
