"""The geodesic distance of bodies from their priors, and its linear form around a body."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.eigenvalues import generalised_eigenvalues
from dynid.feasible.bodies import TRIANGLE
from dynid.feasible.cones import from_triangle, triangle
from dynid.spatial.inertia import pseudo_inertia


def geodesic(pi: Float, prior: Float) -> float:
    """Half the squared length of the shortest way between two bodies, 1/2 sum log(eig(P0^-1 P))^2.

    It is the same in all frames and units, the same there and back, and 1/2 ||P0^-1/2 (P - P0) P0^-1/2||^2 up close.
    Source: Lee and Park 2018, eq. 18.
    """
    values = generalised_eigenvalues(pseudo_inertia(pi), pseudo_inertia(prior))
    return float(np.sum(np.log(values) ** 2)) / 2 if values[0] > 0 else np.inf


def linearised(pi: Float, prior: Float) -> tuple[Float, Float]:
    """J (10, 10) and r (10,) with geodesic(pi', prior) = ||J pi' - r||^2 to first order in pi' - pi.

    log W has the derivative V (F o V' dW V) V' for W = V diag(w) V', F_ij = (log w_i - log w_j) / (w_i - w_j).
    Source: Daleckii and Krein 1965.
    """
    inverse = np.linalg.inv(np.linalg.cholesky(pseudo_inertia(prior)))
    w, V = np.linalg.eigh(inverse @ pseudo_inertia(pi) @ inverse.T)
    F = _quotients(w)
    J = np.empty((10, 10))
    for k in range(10):
        turned = V.T @ inverse @ from_triangle(TRIANGLE[:, k]) @ inverse.T @ V
        J[:, k] = triangle(V @ (F * turned) @ V.T)
    J /= np.sqrt(2.0)
    here = triangle(V @ np.diag(np.log(w)) @ V.T) / np.sqrt(2.0)
    return J, np.asarray(J @ pi - here)


def scalar_geodesic(value: Float, prior: Float) -> Float:
    """`geodesic` of bodies of one number: log(x)^2 / 2, x = value / prior, both (n,); infinite for x <= 0."""
    ratio = value / prior
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(ratio > 0, np.log(ratio) ** 2 / 2, np.inf))


def scalar_linearised(value: Float, prior: Float) -> tuple[Float, Float]:
    """J and r, (n,) each, with scalar_geodesic(value', prior) = (J value' - r)^2 to first order in value' - value."""
    return 1.0 / (np.sqrt(2.0) * value), (1.0 - np.log(value / prior)) / np.sqrt(2.0)


def _quotients(w: Float) -> Float:
    # log1p keeps the quotient of two close eigenvalues exact.
    low, high = np.minimum.outer(w, w), np.maximum.outer(w, w)
    gap = (high - low) / low
    same = gap < 1e-12
    return np.asarray(np.where(same, 1.0, np.log1p(gap) / np.where(same, 1.0, gap)) / low)
