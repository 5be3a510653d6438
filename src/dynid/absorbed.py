"""What a model absorbs has to be told all the same: a delay or a tilted base that a term of the model explains."""

from __future__ import annotations

import numpy as np

from dynid.diagnosis.traps import TILT_WARN, tell_lean
from dynid.diagnostics import Diagnostics
from dynid.estimate.estimator import Estimate
from dynid.lag import WARN_SAMPLES, tell_lag
from dynid.robot.model import RobotModel


def tell_absorbed(
    robot: RobotModel, estimate: Estimate, source_rate: float, diagnostics: Diagnostics
) -> None:
    """Warns of a torque delay over one sample of the log and of a tilt over half a degree, 95 % interval included.

    source_rate: of the log, Hz.    Raises UnfitDataError over five samples, and over one degree.
    """
    _delay(estimate, source_rate, diagnostics)
    _tilt(robot, estimate, diagnostics)


def _values(estimate: Estimate, term: str, prefix: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, values and 95 % half widths of a term's base parameters."""
    half = estimate.half_width()
    own = [
        (estimate.columns[i].name, k)
        for k, i in enumerate(estimate.base.independent)
        if estimate.columns[i].term == term and estimate.columns[i].name.startswith(prefix)
    ]
    index = [k for _, k in own]
    return [name for name, _ in own], estimate.value[index], half[index]


def _delay(estimate: Estimate, rate: float, diagnostics: Diagnostics) -> None:
    _, values, halves = _values(estimate, "torque_delay", "delay")
    for value, half in zip(values, halves, strict=True):
        if (abs(value) - half) * rate > WARN_SAMPLES:
            tell_lag(float(value), float(half), rate, "; the model contains it", diagnostics)


def _tilt(robot: RobotModel, estimate: Estimate, diagnostics: Diagnostics) -> None:
    names, values, halves = _values(estimate, "gravity_tilt", "tilt")
    if not names:
        return
    degrees = float(np.degrees(np.linalg.norm(values)))
    half = float(np.degrees(np.linalg.norm(halves)))
    if degrees - half <= TILT_WARN:
        return
    turn = np.zeros(3)
    for name, value in zip(names, values, strict=True):
        turn["xyz".index(name[-1])] = value
    leaning = robot.gravity + np.cross(turn, robot.gravity)
    tell_lean(degrees, half, leaning, ", which the model contains", diagnostics)
