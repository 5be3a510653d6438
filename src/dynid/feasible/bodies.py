"""Links among the parameters: pseudo-inertias as linear maps, and plausible values of unknown links."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.feasible.cones import triangle
from dynid.spatial.inertia import eigenvalues, from_com, nearest_possible, pseudo_inertia, to_com
from dynid.terms.exports import Column, Of
from dynid.terms.rigid_body import INERTIAL_SYMBOLS

# Density limit of links.

# kg/m^3: copper, the densest common material of robots (steel 7850, magnets 7600, aluminium 2700).
DENSEST = 8960.0
# kg/m^3: no material is that dense, so a limit from here on is none.
UNLIMITED = 1e6
# A denser prior is enlarged to this share of the limit, so that it lies inside.
PRIOR_SHARE = 0.9
# Share of the barrier in the distance: small enough to leave links well inside the limit unchanged.
BARRIER = 0.1


def density(pi: Float) -> float:
    """Density of the uniform ellipsoid with the same ten parameters, 3 m^3 / (4 pi 5^(3/2) sqrt(det P)), kg/m^3.

    P is the pseudo-inertia. No body with these parameters has a lower greatest density, since of all bodies with one
    mass and one greatest density the uniform ellipsoid has the smallest determinant of second moments. Infinite for a
    body without volume, 0 without mass.
    """
    if not pi[0] > 0:
        return 0.0
    sign, log_det = np.linalg.slogdet(pseudo_inertia(pi))
    return float(3.0 * pi[0] ** 3 / (4.0 * np.pi * 5.0**1.5) * np.exp(-log_det / 2)) if sign > 0 else np.inf


def compactness(densest: float) -> float:
    """The c with density <= densest where det(P)^(1/4) >= c m^(3/2), in m^(3/2) / kg^(1/2).

    These bodies form a convex set: the left side is concave in the ten parameters, the right side convex.
    """
    return float(np.sqrt(3.0 / (4.0 * np.pi * 5.0**1.5 * densest)))


def no_denser(pi: Float, densest: float) -> Float:
    """Same mass and centre of mass, with second moments scaled up until the density is at most `densest`."""
    excess = density(pi) / densest
    if not np.isfinite(excess) or excess <= 1.0:
        return np.array(pi, dtype=np.float64)
    mass, centre, inertia = to_com(pi)
    return from_com(mass, centre, excess ** (2.0 / 3.0) * inertia)


def slack(pi: Float, c: float) -> float:
    """1 - c m^(3/2) / det(P)^(1/4): positive below the density limit, -inf without volume."""
    sign, log_det = np.linalg.slogdet(pseudo_inertia(pi))
    if not (sign > 0 and pi[0] > 0):
        return -np.inf
    return float(1.0 - c * pi[0] ** 1.5 * np.exp(-log_det / 4))


def barrier(pi: Float, prior: Float, c: float) -> float:
    """Bregman divergence of -4 log(det(P)^(1/4) - c m^(3/2)) from a prior: 0 at the prior, infinite at the limit.

    With c = 0 it is tr(P0^-1 P) - log det(P0^-1 P) - 4.

    Parameters
    ----------
    pi, prior : ndarray, shape (10,)
        Parameters of the link, and of its prior.
    c : float
        Compactness of the density limit, see `compactness`.

    """
    link_slack, prior_slack = slack(pi, c), slack(prior, c)
    if not link_slack > 0:
        return np.inf
    ratio = np.linalg.solve(pseudo_inertia(prior), pseudo_inertia(pi))
    linear = np.trace(ratio) - 4.0 - 6.0 * (1.0 - prior_slack) * (pi[0] / prior[0] - 1.0)
    return float(linear / prior_slack - np.linalg.slogdet(ratio)[1] - 4.0 * np.log(link_slack / prior_slack))


# Radius of gyration of an unknown link over its length.
GYRATION = 0.3
# Least over greatest second moment of a prior: a rod ten times as long as thick has 0.0075, links 0.01 to 1. A thinner
# prior would resist data with a force that grows as the inverse square, beyond what any model file knows.
THINNEST = 0.01
TRIANGLE = np.array([triangle(pseudo_inertia(unit)) for unit in np.eye(10)]).T


def body_columns(columns: tuple[Column, ...]) -> Int:
    """Indices of the ten parameters of every link that has mass, (links, 10)."""
    of_bodies = [
        (i, column) for i, column in enumerate(columns) if column.of is Of.BODY and not column.absent
    ]
    place = {column.name: i for i, column in of_bodies}
    owners = sorted({column.owner for _, column in of_bodies})
    indices = [[place[f"{symbol}{owner + 1}"] for symbol in INERTIAL_SYMBOLS] for owner in owners]
    return np.array(indices, dtype=np.int64).reshape(-1, 10)


def least_eigenvalues(columns: tuple[Column, ...], theta: Float) -> Float:
    """Least eigenvalue (links,) of the pseudo-inertia of every link; mixed units kg m^2 and kg, as in papers."""
    return np.array([eigenvalues(theta[ten])[0] for ten in body_columns(columns)])


def plausible(columns: tuple[Column, ...], prior: Float, spread: Float, densest: float = np.inf) -> Float:
    """Prior with physically consistent links: the nearest one where it is inconsistent, a typical one where unknown.

    The nearest link keeps mass and centre of mass, see `nearest_possible`. An unknown link, or one without mass or
    extent, gets the typical mass and length of `spread`, its centre of mass on the joint and equal radii of gyration.

    Parameters
    ----------
    columns : tuple of Column
        Columns of the model.
    prior : ndarray, shape (p,)
        Prior values; nan = unknown.
    spread : ndarray, shape (p,)
        Typical sizes.
    densest : float, kg/m^3
        Density limit; a denser link is enlarged at the same mass and centre of mass.

    Returns
    -------
    ndarray, shape (p,)
        Prior without unknown values of links.

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
    """Whether ten prior parameters are known and have mass and extent."""
    return bool(np.isfinite(ten).all() and ten[0] > 0) and float(np.trace(to_com(ten)[2])) > 0


def body_scale(ten_spread: Float) -> Float:
    """Scaling D (4,) with which D P D has entries of order one for a link of typical mass and length."""
    mass = float(ten_spread[0])
    length = float(np.sqrt(ten_spread[4] / mass))
    return np.asarray(np.array([1.0 / length, 1.0 / length, 1.0 / length, 1.0]) / np.sqrt(mass))
