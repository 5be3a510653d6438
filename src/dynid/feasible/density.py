"""How dense a body may be: no denser than the material it can be made of."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.spatial.inertia import from_com, pseudo_inertia, to_com

# kg/m^3: copper, the densest material that robots hold much of (steel 7850, magnets 7600, aluminium 2700).
DENSEST = 8960.0
# No matter is that dense: a limit from here on is none.
UNLIMITED = 1e6
# A prior that is denser than the limit is taken as the body of this share of it, so that it lies inside.
PRIOR_SHARE = 0.9
# Of the barrier beside the entropic distance: small enough that bodies well inside the limit keep their distance.
BARRIER = 0.1


def density(pi: Float) -> float:
    """Density of the uniform ellipsoid with the same ten parameters, 3 m^3 / (4 pi 5^(3/2) sqrt(det P)), kg/m^3.

    P: pseudo-inertia. No body with these parameters has a lower greatest density, since among all bodies of one mass
    and one greatest density the uniform ellipsoid has the least determinant of second moments. Infinite for a body
    without volume, 0 without mass.
    """
    if not pi[0] > 0:
        return 0.0
    sign, log_det = np.linalg.slogdet(pseudo_inertia(pi))
    return float(3.0 * pi[0] ** 3 / (4.0 * np.pi * 5.0**1.5) * np.exp(-log_det / 2)) if sign > 0 else np.inf


def compactness(densest: float) -> float:
    """The c for which density <= densest where det(P)^(1/4) >= c m^(3/2), in m^(3/2) / kg^(1/2).

    Such bodies are a convex set: the left side is concave in the ten parameters, the right side convex.
    """
    return float(np.sqrt(3.0 / (4.0 * np.pi * 5.0**1.5 * densest)))


def no_denser(pi: Float, densest: float) -> Float:
    """The body of the same mass and centre of mass, its second moments scaled up until it is no denser than that."""
    excess = density(pi) / densest
    if not np.isfinite(excess) or excess <= 1.0:
        return np.array(pi, dtype=np.float64)
    mass, centre, inertia = to_com(pi)
    return from_com(mass, centre, excess ** (2.0 / 3.0) * inertia)


def slack(pi: Float, c: float) -> float:
    """1 - c m^(3/2) / det(P)^(1/4): above zero where a body is less dense than the limit, -inf without volume."""
    sign, log_det = np.linalg.slogdet(pseudo_inertia(pi))
    if not (sign > 0 and pi[0] > 0):
        return -np.inf
    return float(1.0 - c * pi[0] ** 1.5 * np.exp(-log_det / 4))


def barrier(pi: Float, prior: Float, c: float) -> float:
    """The Bregman divergence of -4 log(det(P)^(1/4) - c m^(3/2)) from a prior: 0 only there, infinite at the limit.

    With c = 0 it is tr(P0^-1 P) - log det(P0^-1 P) - 4.
    """
    here, there = slack(pi, c), slack(prior, c)
    if not here > 0:
        return np.inf
    ratio = np.linalg.solve(pseudo_inertia(prior), pseudo_inertia(pi))
    away = np.trace(ratio) - 4.0 - 6.0 * (1.0 - there) * (pi[0] / prior[0] - 1.0)
    return float(away / there - np.linalg.slogdet(ratio)[1] - 4.0 * np.log(here / there))
