"""Bodies among the parameters: their pseudo-inertias as linear maps, and what is plausible of an unknown one."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.feasible.cones import triangle
from dynid.spatial.inertia import eigenvalues, from_com, is_physical, pseudo_inertia
from dynid.terms.rigid_body import INERTIAL_SYMBOLS
from dynid.terms.term import Column, Of

# Radius of gyration of an unknown body over its length scale, and the least share of a prior that fills in.
GYRATION = 0.3
TRIANGLE = np.array([triangle(pseudo_inertia(unit)) for unit in np.eye(10)]).T


def body_columns(columns: tuple[Column, ...]) -> Int:
    """Indices of the ten parameters of every body, (bodies, 10)."""
    place = {column.name: i for i, column in enumerate(columns) if column.of is Of.BODY}
    owners = sorted({column.owner for column in columns if column.of is Of.BODY})
    found = [[place[f"{symbol}{owner + 1}"] for symbol in INERTIAL_SYMBOLS] for owner in owners]
    return np.array(found, dtype=np.int64).reshape(-1, 10)


def least_eigenvalues(columns: tuple[Column, ...], theta: Float) -> Float:
    """Least eigenvalue of every body's pseudo-inertia, (bodies,); kg m^2 and kg mixed, as in the literature."""
    return np.array([eigenvalues(theta[ten])[0] for ten in body_columns(columns)])


def plausible(columns: tuple[Column, ...], prior: Float, spread: Float) -> Float:
    """The prior (p,) with a plausible body in place of each one that is unknown or impossible.

    Such a body has typical mass and length of `spread`, its centre of mass on the joint, equal radii of gyration.
    """
    filled = np.where(np.isnan(prior), 0.0, prior)
    for ten in body_columns(columns):
        if not is_physical(filled[ten]) or eigenvalues(filled[ten])[0] <= 0:
            mass = float(spread[ten[0]])
            square = float(spread[ten[4]]) / mass * GYRATION**2
            filled[ten] = from_com(mass, np.zeros(3), mass * square * np.eye(3))
    return filled


def body_scale(ten_spread: Float) -> Float:
    """(4,) D so that D P D has entries of order one for a body of typical mass and length."""
    mass = float(ten_spread[0])
    length = float(np.sqrt(ten_spread[4] / mass))
    return np.asarray(np.array([1.0 / length, 1.0 / length, 1.0 / length, 1.0]) / np.sqrt(mass))
