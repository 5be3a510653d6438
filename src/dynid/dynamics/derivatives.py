"""Derivatives of what has no place in the recursions over bodies: friction, and functions without a formula."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.terms.curve import FrictionCurve

# Of central differences where a derivative has no formula: the cube root of the rounding, at which truncation and
# rounding are about the same for quantities of size one.
STEP = float(np.cbrt(np.finfo(np.float64).eps))


def central_slopes(function: Callable[[Float], Float], x: Float) -> Float:
    """Derivatives (T, n, m) of a function (T, m) -> (T, n) by central differences: [t, i, j] = d f_i / d x_j."""
    columns = []
    for j in range(x.shape[1]):
        step = np.zeros(x.shape[1])
        step[j] = STEP
        columns.append((function(x + step) - function(x - step)) / (2.0 * STEP))
    return np.stack(columns, axis=-1)


def smooth_friction_slopes(viscous: Float, coulomb: Float, width: Float, dq: Float) -> Float:
    """(T, n) derivatives of viscous dq + coulomb tanh(dq / width) by dq; those of a sign are zero."""
    smooth = width > 0
    s = np.tanh(dq / np.where(smooth, width, 1.0))
    return np.asarray(viscous + np.where(smooth, coulomb * (1.0 - s * s) / np.where(smooth, width, 1.0), 0.0))


def curve_slopes(robot: RobotModel, curve: FrictionCurve, dq: Float) -> Float:
    """(T,) derivative of a joint's curve by that joint's velocity, by central differences."""
    step = np.zeros(robot.n)
    step[curve.joint] = STEP
    return np.asarray((curve.torque(robot, dq + step) - curve.torque(robot, dq - step)) / (2.0 * STEP))
