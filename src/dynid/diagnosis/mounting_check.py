"""Another mount as a reading of the log: on a wall, hanging or inclined, without the masses of the description."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dynid.base.arrays import Float
from dynid.log.mounting import TURNED, square
from dynid.robot.model import RobotModel
from dynid.spatial.algebra import rotation_about

# Degrees by which the best of the base's axes is turned first, and how often that step is halved: to two degrees.
STEP, HALVED = 30.0, 4


def mountings(robot: RobotModel) -> Iterator[Float]:
    """Gravity (3,) along each axis of the base that is not the declared one, m/s^2."""
    size = float(np.linalg.norm(robot.gravity))
    if size == 0:
        return
    for axis in (*np.eye(3), *-np.eye(3)):
        if degrees_between(axis, robot.gravity) > TURNED:
            yield size * axis


def best_mounting(robot: RobotModel, gain: Callable[[Float], float]) -> Float | None:
    """Gravity (3,) that gains most, more than TURNED degrees off the declared one; None where none of the axes gains.

    gain: of a direction of gravity (3,) over the declared one, more is better.
    """
    gravity, found = None, 0.0
    for one in mountings(robot):
        value = gain(one)
        if value > found:
            gravity, found = one, value
    if gravity is None:
        return None
    step = STEP
    for _ in range(HALVED):
        turned = [rotation_about(axis, np.deg2rad(a)) @ gravity for axis in np.eye(3) for a in (step, -step)]
        values = [gain(one) for one in turned]
        best = int(np.argmax(values))
        if values[best] > found:
            gravity, found = turned[best], values[best]
        step *= 0.5
    if degrees_between(gravity, robot.gravity) < TURNED:
        return None
    size = float(np.linalg.norm(gravity))
    return square(gravity / size) * size


def degrees_between(a: Float, b: Float) -> float:
    """The angle of two vectors (3,)."""
    cosine = float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
