"""Rigid robots with rigid drives: the exact torque of a motion."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.kernel import torque_regressor
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

CHUNK = 8192


def inverse(robot: RobotModel, terms: Terms, theta: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Exact joint torque tau = Y(q, dq, ddq) theta of all terms, (T, n), in chunks so that memory stays flat.

    theta: (p,) over terms.columns(robot).    q, dq, ddq: (T, n).
    Raises UnfitDataError for a term that reads an extra log channel, since motion alone has none,
    and UsageError if theta has the wrong length or an unknown (nan) entry.
    """
    columns = terms.columns(robot)
    if np.shape(theta) != (len(columns),) or not np.isfinite(theta).all():
        bad = [c.name for c, value in zip(columns, theta, strict=False) if not np.isfinite(value)]
        raise UsageError(
            "parameters",
            found=f"{len(theta)} parameters" + (f", not finite: {', '.join(bad)}" if bad else ""),
            expected=f"{len(columns)} finite values",
        )
    tau = np.zeros_like(q)
    for first in range(0, len(q), CHUNK):
        part = slice(first, first + CHUNK)
        tau[part] = torque(robot, terms, theta, Samples.from_motion(q[part], dq[part], ddq[part]))
    return tau


def torque(robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> Float:
    """Torque tau = Y theta + known of all terms on samples, with what they hold beside the motion, (T, n)."""
    tau = np.array(terms.known_torque(robot, samples))
    panels = terms.torque_regressor(robot, samples)
    for joint, (indices, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
        tau[:, joint] += theta[indices] @ values
    return tau


def rigid_torque(robot: RobotModel, inertia: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Joint torque (T, n) of the rigid bodies alone; inertia: (nb, 10), motion (T, n)."""
    pi = np.ravel(inertia)
    panels = torque_regressor(robot.tree, *robot.tree_motion(q, dq, ddq))
    tau = np.stack(
        [pi[columns] @ values for columns, values in zip(panels.columns, panels.values, strict=True)], axis=1
    )
    return tau @ robot.projection if robot.has_mimic else tau
