"""Typical sizes of parameters, guessed links, and regressions with both."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.estimate.estimator import Regression, Source
from dynid.factor.base import BaseMap, data_base, influence
from dynid.factor.factor import Factors
from dynid.feasible.bodies import GYRATION, body_columns
from dynid.robot.model import RobotModel
from dynid.spatial.inertia import from_com
from dynid.terms.exports import Column, MotionBasis, Of
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import CATALOGUE, Term, Terms

_DEGREE = {
    symbol: (0 if symbol == "m" else 1 if symbol.startswith("mc") else 2) for symbol in INERTIAL_SYMBOLS
}


def parameter_spread(robot: RobotModel, columns: tuple[Column, ...], influence: Float) -> Float:
    """Characteristic size of every parameter.

    For a link: m0, m0 L, m0 L^2 with its prior mass m0 and the typical link length L of the robot. Without any prior
    mass, m0 sqrt(links) is the mass that makes up the whole torque at the distance L, for the link that needs most:
    torques of n links add like independent ones. For a rotor: the size of its prior. For other parameters, and where
    that is unknown or zero: the value that makes up the whole torque, and no less than the size of the prior.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    columns : tuple of Column
        Columns of the model.
    influence : ndarray, shape (p,)
        Root mean square of each column relative to that of the torque it acts on; nan = not measured.

    Returns
    -------
    ndarray, shape (p,)
        Sizes.

    """
    mass = robot.inertia_prior[:, 0]
    known = mass[np.isfinite(mass) & (mass > 0)]
    length = typical_length(robot)
    degrees = np.array([length ** _degree(column) for column in columns])
    bodies = np.array([column.of is Of.BODY for column in columns])
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = 1.0 / influence
    needed = _mass_for_whole_torque(columns, whole / degrees)
    share = needed / np.sqrt(robot.n_bodies) if needed > 0 else 1.0
    typical = float(median(known)) if len(known) else share
    mass = np.where(np.isfinite(mass) & (mass > 0), mass, typical)
    spread = np.ones(len(columns))
    for j, column in enumerate(columns):
        if bodies[j]:
            spread[j] = mass[column.owner] * degrees[j]
        elif np.isfinite(column.prior) and column.prior != 0:
            trust_prior = _is_inertial(column) or not np.isfinite(whole[j])
            spread[j] = abs(column.prior) if trust_prior else max(abs(column.prior), whole[j])
        elif np.isfinite(whole[j]):
            spread[j] = whole[j]
    return spread


def inertia_known(columns: tuple[Column, ...]) -> Bool:
    """Parameters (p,) of a link or rotor whose inertia the prior (URDF) gives."""
    unknown = {column.owner for column in columns if column.of is Of.BODY and np.isnan(column.prior)}
    return np.array(
        [
            column.owner not in unknown and not column.absent
            if column.of is Of.BODY
            else _is_inertial(column) and np.isfinite(column.prior) and column.prior != 0
            for column in columns
        ]
    )


def link_priors(robot: RobotModel, columns: tuple[Column, ...], spread: Float) -> dict[str, Any]:
    """Fields of a Regression on links beside the columns: `guessed` and `extent`."""
    return {"guessed": guessed_links(robot, columns, spread), "extent": link_extent(robot)}


def guessed_links(robot: RobotModel, columns: tuple[Column, ...], spread: Float) -> Float:
    """Likely values of links, without the robot file's.

    A link has the typical mass of `spread`, its centre halfway to the joints that it carries, and the second moments of
    a rod up to there plus a ball with GYRATION of the typical length.

    `columns`: columns of the model; `spread` (p,): sizes, see `parameter_spread`. Result: values of links; the priors
    of other columns, (p,).
    """
    guessed = np.array([column.prior for column in columns])
    for ten in body_columns(columns):
        children = robot.T_parent_joint[np.array(robot.parent) == columns[ten[0]].owner, :3, 3]
        end = children.mean(axis=0) if len(children) else np.zeros(3)
        mass = float(spread[ten[0]])
        ball = 0.5 * GYRATION**2 * float(spread[ten[4]]) / mass
        second = mass * (np.outer(end, end) / 12 + ball * np.eye(3))
        guessed[ten] = from_com(mass, end / 2, np.trace(second) * np.eye(3) - second)
    return guessed


def _mass_for_whole_torque(columns: tuple[Column, ...], whole: Float) -> float:
    # whole: (p,) kg that make up the whole torque at the typical length. First moments give it, by gravity; inertias
    # would need ten times as much in slow motion, and count only if there are no first moments.
    first = [column.of is Of.BODY and _degree(column) == 1 and np.isfinite(value)
             for column, value in zip(columns, whole, strict=True)]  # fmt: skip
    least: dict[int, float] = {}
    for column, value in zip(columns, whole, strict=True):
        counts = column.of is Of.BODY and np.isfinite(value) and (_degree(column) == 1 or not any(first))
        if counts:
            least[column.owner] = min(float(value), least.get(column.owner, np.inf))
    return max(least.values(), default=0.0)


def typical_length(robot: RobotModel) -> float:
    """Root mean square of the non-zero distances between neighbouring joint frames; 0.3 m if all are zero."""
    distance = np.linalg.norm(robot.T_parent_joint[:, :3, 3], axis=1)
    distance = distance[distance > 1e-6]
    return float(np.sqrt(np.mean(distance**2))) if len(distance) else 0.3


# Least extent of a link, in typical link lengths.
LEAST_EXTENT = 0.4


def link_extent(robot: RobotModel) -> Float:
    """Extent (n_bodies,) of every link, m: the distance to the farthest joint on it, at least LEAST_EXTENT."""
    extent = np.full(robot.n_bodies, LEAST_EXTENT * typical_length(robot))
    for child, parent in enumerate(robot.parent):
        if parent >= 0:
            extent[parent] = max(extent[parent], float(np.linalg.norm(robot.T_parent_joint[child, :3, 3])))
    return extent


def _degree(column: Column) -> int:
    return _DEGREE.get(column.name.rstrip("0123456789"), 0)


def _is_inertial(column: Column) -> bool:
    """Whether a parameter belongs to a link or rotor."""
    if column.of is Of.BODY:
        return True
    return CATALOGUE.get(column.term, Term).traits.basis is MotionBasis.ACCELERATION


# Regression from the factors of a robot's equations.


def regression_of(
    robot: RobotModel, terms: Terms, structural: BaseMap, factors: Factors, source: Source | None = None
) -> Regression:
    """Regression of the factors of a robot's equations.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    structural : BaseMap
        Base parameters of the equations.
    factors : Factors
        Factors over their columns.
    source : Source, optional
        Single equations.

    Returns
    -------
    Regression
        Base parameters that the data determine, their factors, and the spread of the priors.

    """
    base = data_base(structural, factors)
    columns = terms.columns(robot)
    kept = factors if base.rank == structural.rank else factors.select(base.mask)
    spread = parameter_spread(robot, columns, influence(kept, base))
    return Regression(columns, base, kept, spread, source, **link_priors(robot, columns, spread))
