"""How far a parameter may plausibly lie from its prior: the metric in which null directions are filled."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column, Of

_DEGREE = {
    symbol: (0 if symbol == "m" else 1 if symbol.startswith("mc") else 2) for symbol in INERTIAL_SYMBOLS
}


def parameter_spread(robot: RobotModel, columns: tuple[Column, ...], influence: Float) -> Float:
    """Characteristic size of every parameter, (p,).

    For a body: m0, m0 L, m0 L^2 with its prior mass m0 and the robot's typical link length L. Where no mass
    is known, m0 is the mass whose parameters, in the middle, make up the whole torque. For other parameters:
    the size of the prior, or, where it is unknown or zero, the value that makes up the whole torque.

    influence: (p,) root mean square of each column relative to that of the torque it acts on; nan = not
        measured.
    """
    mass = robot.inertia_prior[:, 0]
    known = mass[np.isfinite(mass) & (mass > 0)]
    length = typical_length(robot)
    degrees = np.array([length ** _degree(column) for column in columns])
    bodies = np.array([column.of is Of.BODY for column in columns])
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = 1.0 / influence
    reach = whole[bodies & np.isfinite(whole)] / degrees[bodies & np.isfinite(whole)]
    typical = float(np.median(known)) if len(known) else float(np.median(reach)) if len(reach) else 1.0
    mass = np.where(np.isfinite(mass) & (mass > 0), mass, typical)
    spread = np.ones(len(columns))
    for j, column in enumerate(columns):
        if bodies[j]:
            spread[j] = mass[column.owner] * degrees[j]
        elif np.isfinite(column.prior) and column.prior != 0:
            spread[j] = abs(column.prior)
        elif np.isfinite(whole[j]):
            spread[j] = whole[j]
    return spread


def typical_length(robot: RobotModel) -> float:
    """Root mean square of the non-zero distances between neighbouring joint frames; 0.3 m if all are zero."""
    distance = np.linalg.norm(robot.T_parent_joint[:, :3, 3], axis=1)
    distance = distance[distance > 1e-6]
    return float(np.sqrt(np.mean(distance**2))) if len(distance) else 0.3


def _degree(column: Column) -> int:
    return _DEGREE.get(column.name.rstrip("0123456789"), 0)
