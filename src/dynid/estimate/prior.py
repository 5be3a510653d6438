"""How far a parameter may plausibly lie from its prior, and how much its prior counts."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.robot.model import RobotModel
from dynid.terms.catalogue import CATALOGUE
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column, Of, Term

# Terms of which a description knows the inertia; its friction is a guess, if not a placeholder.
# What has no prior of its own is drawn to a plausible value only so far that directions which the data leave free have
# one answer: a deviation by one spread, which is of the size of the whole torque, costs the variance of one equation of
# thousands. A hundredth of it leaves links of hundreds of kilograms in directions that the data hardly know; a hundred
# times as much is felt on short logs.
FAINT = 1.0

_DEGREE = {
    symbol: (0 if symbol == "m" else 1 if symbol.startswith("mc") else 2) for symbol in INERTIAL_SYMBOLS
}


def parameter_spread(robot: RobotModel, columns: tuple[Column, ...], influence: Float) -> Float:
    """Characteristic size of every parameter, (p,).

    For a body: m0, m0 L, m0 L^2 with its prior mass m0 and the robot's typical link length L. Where no mass
    is known, m0 is the mass whose parameters, in the middle, make up the whole torque over sqrt(bodies). For a rotor:
    the size of its prior. For other parameters, and where that is unknown or zero: the value that makes up the whole
    torque, and no less than the size of the prior.

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
    # Torques of n bodies add like independent ones: each makes up the whole over sqrt(n).
    share = float(np.median(reach)) / np.sqrt(robot.n_bodies) if len(reach) else 1.0
    typical = float(np.median(known)) if len(known) else share
    mass = np.where(np.isfinite(mass) & (mass > 0), mass, typical)
    spread = np.ones(len(columns))
    for j, column in enumerate(columns):
        if bodies[j]:
            spread[j] = mass[column.owner] * degrees[j]
        elif np.isfinite(column.prior) and column.prior != 0:
            own = _is_inertial(column) or not np.isfinite(whole[j])
            spread[j] = abs(column.prior) if own else max(abs(column.prior), whole[j])
        elif np.isfinite(whole[j]):
            spread[j] = whole[j]
    return spread


def inertia_known(columns: tuple[Column, ...]) -> Bool:
    """(p,) which parameters are of a body or rotor whose inertia the description gives."""
    unknown = {column.owner for column in columns if column.of is Of.BODY and np.isnan(column.prior)}
    return np.array(
        [
            column.owner not in unknown and not column.absent
            if column.of is Of.BODY
            else _is_inertial(column) and np.isfinite(column.prior) and column.prior != 0
            for column in columns
        ]
    )


def prior_pull(columns: tuple[Column, ...], strength: float) -> Float:
    """(p,) by how much the prior of each parameter counts, where those of known inertias count `strength`.

    All that the description does not know stays free: its weight is at most FAINT.
    """
    return np.where(inertia_known(columns), strength, min(strength, FAINT))


def typical_length(robot: RobotModel) -> float:
    """Root mean square of the non-zero distances between neighbouring joint frames; 0.3 m if all are zero."""
    distance = np.linalg.norm(robot.T_parent_joint[:, :3, 3], axis=1)
    distance = distance[distance > 1e-6]
    return float(np.sqrt(np.mean(distance**2))) if len(distance) else 0.3


def _degree(column: Column) -> int:
    return _DEGREE.get(column.name.rstrip("0123456789"), 0)


def _is_inertial(column: Column) -> bool:
    """Whether a parameter is of a body or of a rotor."""
    kind = CATALOGUE.get(column.term, Term)
    rotor = issubclass(kind, JointTerm) and kind.exports_as is MotionBasis.ACCELERATION
    return column.of is Of.BODY or rotor
