"""Bodies among the parameters: their pseudo-inertias as linear maps, and what is plausible of an unknown one."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.feasible.cones import triangle
from dynid.feasible.density import PRIOR_SHARE, no_denser
from dynid.spatial.inertia import eigenvalues, from_com, nearest_possible, pseudo_inertia, to_com
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column, Of

# Radius of gyration of an unknown body over its length scale.
GYRATION = 0.3
# Least second moment of a prior over its greatest: a rod ten times as long as thick has 0.0075, links 0.01 to 1. No
# description knows a principal moment to better than this share of the greatest one, and a thinner prior would hold on
# to it with a force that grows as the square of the inverse.
THINNEST = 0.01
# Where no rotor inertia is known.
NO_ROTORS: Int = np.zeros(0, dtype=np.int64)
TRIANGLE = np.array([triangle(pseudo_inertia(unit)) for unit in np.eye(10)]).T


def body_columns(columns: tuple[Column, ...]) -> Int:
    """Indices of the ten parameters of every body that has mass, (bodies, 10)."""
    own = [(i, column) for i, column in enumerate(columns) if column.of is Of.BODY and not column.absent]
    place = {column.name: i for i, column in own}
    owners = sorted({column.owner for _, column in own})
    found = [[place[f"{symbol}{owner + 1}"] for symbol in INERTIAL_SYMBOLS] for owner in owners]
    return np.array(found, dtype=np.int64).reshape(-1, 10)


def least_eigenvalues(columns: tuple[Column, ...], theta: Float) -> Float:
    """Least eigenvalue of every body's pseudo-inertia, (bodies,); kg m^2 and kg mixed, as in the literature."""
    return np.array([eigenvalues(theta[ten])[0] for ten in body_columns(columns)])


def thinness(columns: tuple[Column, ...], theta: Float) -> Float:
    """Least over greatest second moment of every body about its centre of mass, (bodies,); 0 where it has none."""
    found = []
    for ten in body_columns(columns):
        if not theta[ten[0]] > 0:
            found.append(0.0)
            continue
        inertia = to_com(theta[ten])[2]
        values = np.linalg.eigvalsh(0.5 * np.trace(inertia) * np.eye(3) - inertia)
        found.append(float(values[0] / values[-1]) if values[-1] > 0 else 0.0)
    return np.array(found)


def plausible(columns: tuple[Column, ...], prior: Float, spread: Float, densest: float = np.inf) -> Float:
    """The prior (p,) with the nearest possible body in place of an impossible one, and a plausible one where unknown.

    The nearest keeps mass and centre of mass, see `nearest_possible`. An unknown body, or one without mass or extent,
    has typical mass and length of `spread`, its centre of mass on the joint, equal radii of gyration.
    densest: kg/m^3; what is denser than most of it is taken as a larger body of the same mass and centre of mass.
    """
    filled = np.where(np.isnan(prior), 0.0, prior)
    for ten in body_columns(columns):
        if is_described(prior[ten]):
            filled[ten] = nearest_possible(filled[ten], THINNEST)
        else:
            mass = float(spread[ten[0]])
            square = float(spread[ten[4]]) / mass * GYRATION**2
            filled[ten] = from_com(mass, np.zeros(3), mass * square * np.eye(3))
        filled[ten] = no_denser(filled[ten], PRIOR_SHARE * densest)
    return filled


def is_described(ten: Float) -> bool:
    """Whether ten prior parameters are known and those of a body with mass and extent."""
    return bool(np.isfinite(ten).all() and ten[0] > 0) and float(np.trace(to_com(ten)[2])) > 0


def body_scale(ten_spread: Float) -> Float:
    """(4,) D so that D P D has entries of order one for a body of typical mass and length."""
    mass = float(ten_spread[0])
    length = float(np.sqrt(ten_spread[4] / mass))
    return np.asarray(np.array([1.0 / length, 1.0 / length, 1.0 / length, 1.0]) / np.sqrt(mass))
