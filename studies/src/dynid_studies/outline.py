"""Draws an arm as lines: its joints and their axes in one pose, seen from the side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base import Float
from dynid.excitation import points
from dynid.report.figures import INK, STEEL, VERMILION, Axis, Panel, Trace, dots, line
from dynid.robot import RobotModel

PLANES = {"xz": (0, 2), "xy": (0, 1), "yz": (1, 2)}
AXIS_LENGTH = 0.09


def outline(
    robot: RobotModel,
    q: Float,
    plane: str = "xz",
    tip: Sequence[float] = (0.0, 0.0, 0.0),
    aspect: float = 1.0,
    title: str = "",
) -> Panel:
    """The base, the joints' origins and the tip as a chain, with each joint's axis; q: (n,), tip: in the last frame, m.

    plane: "xz", "xy" or "yz" of the base.    aspect: width over height of the panel, so that circles stay round.
    """
    bodies = np.repeat(np.arange(robot.n_bodies), 3)
    ends = np.array([[s * AXIS_LENGTH * axis for s in (-1.0, 0.0, 1.0)] for axis in robot.axis])
    where = points(robot, q[None, :], bodies, ends.reshape(-1, 3), jacobian=False)[0][0].reshape(-1, 3, 3)
    last = points(robot, q[None, :], np.array([robot.n_bodies - 1]), np.array([tip]), jacobian=False)[0][0]
    chain = np.concatenate([np.zeros((1, 3)), where[:, 1], last])
    a, b = PLANES[plane]
    # One trace for all axes, separated by gaps.
    gaps = np.full((len(where), 1, 3), np.nan)
    axes = np.concatenate([where[:, ::2], gaps], axis=1).reshape(-1, 3)
    traces: tuple[Trace, ...] = (
        line(chain[:, a], chain[:, b], "links", STEEL, width=5.0),
        line(axes[:, a], axes[:, b], "axes of the joints", VERMILION, width=2.0),
        dots(where[:, 1, a], where[:, 1, b], "origins of the frames", INK, size=7.0, opacity=1.0),
    )
    across, up = _spans(chain[:, [a, b]], aspect)
    return Panel(traces, Axis(f"{plane[0]}, m", span=across), Axis(f"{plane[1]}, m", span=up), title=title)


def _spans(places: Float, aspect: float) -> tuple[tuple[float, float], tuple[float, float]]:
    # Ranges around the arm, with equal scales on both axes.
    low, high = places.min(axis=0) - 0.15, places.max(axis=0) + 0.15
    tall = max(float(high[1] - low[1]), float(high[0] - low[0]) / aspect)
    middle = 0.5 * (low + high)
    wide = 0.5 * aspect * tall
    return (
        (float(middle[0]) - wide, float(middle[0]) + wide),
        (float(middle[1]) - 0.5 * tall, float(middle[1]) + 0.5 * tall),
    )
