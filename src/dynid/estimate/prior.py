"""How far a parameter may plausibly lie from its prior: the metric in which null directions are filled."""

from __future__ import annotations

import numpy as np

from dynid.arrays import Float
from dynid.robot.model import RobotModel
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column

_DEGREE = {symbol: (0 if symbol == "m" else 1 if symbol.startswith("mc") else 2) for symbol in INERTIAL_SYMBOLS}


def parameter_spread(robot: RobotModel, columns: tuple[Column, ...]) -> Float:
    """Characteristic size of every parameter, (p,).

    For a body: m0, m0 L, m0 L^2 with its prior mass m0 (the median of the known ones, or 1 kg) and the robot's
    typical link length L. For other parameters the greater of 1 and the prior's size.
    """
    mass = robot.inertia_prior[:, 0]
    known = mass[np.isfinite(mass) & (mass > 0)]
    typical = float(np.median(known)) if len(known) else 1.0
    mass = np.where(np.isfinite(mass) & (mass > 0), mass, typical)
    length = typical_length(robot)
    spread = np.ones(len(columns))
    for j, column in enumerate(columns):
        if column.term == "rigid_body":
            degree = _DEGREE[column.name.rstrip("0123456789")]
            spread[j] = mass[column.owner] * length**degree
        else:
            spread[j] = max(1.0, abs(column.prior)) if np.isfinite(column.prior) else 1.0
    return spread


def typical_length(robot: RobotModel) -> float:
    """Root mean square of the non-zero distances between neighbouring joint frames, m; 0.3 m when all are zero."""
    distance = np.linalg.norm(robot.T_parent_joint[:, :3, 3], axis=1)
    distance = distance[distance > 1e-6]
    return float(np.sqrt(np.mean(distance**2))) if len(distance) else 0.3
