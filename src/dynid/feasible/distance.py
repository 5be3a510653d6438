"""Entropic distance of links from their priors."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.numerics import generalised_eigenvalues
from dynid.feasible.bodies import BARRIER, TRIANGLE, slack
from dynid.feasible.cones import (
    LOWER,
    POWER,
    ROOT,
    Block,
    Cone,
    below_determinant,
    diagonal,
    fourth_root,
    from_triangle,
    three_halves,
    triangle,
)
from dynid.spatial.inertia import pseudo_inertia

# Entropic distance and its cones.


def divergence(pi: Float, prior: Float) -> float:
    """tr(P0^-1 P) - log det(P0^-1 P) - 4 of the pseudo-inertias of two links; 0 only if they are equal.

    References
    ----------
    Lee, Wensing and Park 2020, eq. 29.

    """
    values = generalised_eigenvalues(pseudo_inertia(pi), pseudo_inertia(prior))
    return float(np.sum(values - np.log(values) - 1.0)) if values[0] > 0 else np.inf


def quadratic(pi: Float, prior: Float) -> tuple[Float, Float]:
    """J (10, 10) and r (10,) with divergence(pi', prior) = ||J pi' - r||^2 + constant to second order in pi' - pi.

    Gradient tr(P0^-1 E_k) - tr(P^-1 E_k), Hessian tr(P^-1 E_k P^-1 E_l) = 2 J'J, for P = sum pi_k E_k.
    """
    units = [from_triangle(TRIANGLE[:, k]) for k in range(10)]
    inverse = np.linalg.inv(pseudo_inertia(pi))
    parts = np.array([inverse @ unit for unit in units])
    hessian = np.einsum("kab,lba->kl", parts, parts)
    towards = np.linalg.inv(pseudo_inertia(prior)) - inverse
    gradient = np.array([np.trace(towards @ unit) for unit in units])
    J = np.linalg.cholesky(hessian / 2.0).T
    return J, np.asarray(J @ pi - np.linalg.solve(J.T, gradient) / 2.0)


def entropic_program(
    bodies: Int,
    reference: Float,
    prior: Float,
    spread: Float,
    weight: Float,
    first: int,
    compactness: float = 0.0,
) -> tuple[Float, list[Block]]:
    """Linear objective and cones of the entropic distance, for theta = reference + spread d.

    For W = L^-1 P L^-T, P0 = L L': log det W >= sum t_i where exp(t_i) <= Z_ii of `below_determinant`. The barrier of a
    density limit of compactness c > 0 is -4 s where (1 - e) exp(s) <= det(W)^(1/4) - e (m / m0)^(3/2), with
    e = c m^(3/2) / det(P)^(1/4) of the prior.

    Parameters
    ----------
    bodies : ndarray of int, shape (nb, 10)
        Columns of each link.
    reference, prior, spread : ndarray, shape (p,)
        Reference of the unknowns, prior and typical sizes.
    weight : ndarray, shape (p,)
        Weight of each parameter; the weight of a mass counts for its link.
    first : int
        Index of the first auxiliary unknown; d are the first unknowns.
    compactness : float
        Compactness of the density limit; 0 = none.

    Returns
    -------
    q : ndarray
        Linear objective.
    blocks : list of Block
        Cones.

    """
    added = LOWER + 4 + (ROOT + POWER + 2 if compactness else 0)
    n = first + added * len(bodies)
    q = np.zeros(n)
    blocks = []
    limit = BARRIER if compactness else 0.0
    for b, ten in enumerate(bodies):
        whiten = _whitened(prior[ten])
        z = first + added * b
        t, g = z + LOWER, z + LOWER + 4
        matrix = np.zeros((10, n))
        matrix[:, ten] = whiten * spread[ten]
        blocks.append(below_determinant(matrix, whiten @ reference[ten], z))
        trace = triangle(np.eye(4)) @ matrix
        heavy = weight[ten[0]]
        q += heavy * (1.0 - limit) * trace
        q[t : t + 4] = -heavy * (1.0 - limit)
        for row, k in enumerate(diagonal(z)):
            blocks.append(_exponential(np.eye(n)[t + row], np.eye(n)[k]))
        if not limit:
            continue
        inside = slack(prior[ten], compactness)
        root, power, v, s = g + 2, g + ROOT, g + ROOT + 1, g + ROOT + 2
        mass = np.zeros(n)
        mass[ten[0]] = spread[ten[0]] / prior[ten[0]]
        blocks += fourth_root(z, g, n)
        blocks += three_halves(np.eye(n)[power], mass, float(reference[ten[0]] / prior[ten[0]]), v)
        room = (np.eye(n)[root] - (1.0 - inside) * np.eye(n)[power]) / inside
        blocks.append(_exponential(np.eye(n)[s], room))
        q += heavy * limit * (trace - 6.0 * (1.0 - inside) * mass) / inside
        q[s] = -4.0 * heavy * limit
    return q, blocks


def _exponential(log: Float, value: Float, offset: float = 0.0) -> Block:
    # exp(log x) <= value x + offset
    return Block(Cone.EXPONENTIAL, np.array([log, np.zeros(len(log)), value]), np.array([0.0, 1.0, offset]))


def _whitened(prior: Float) -> Float:
    # (10, 10): triangle of L^-1 P L^-T from the ten parameters of P.
    inverse = np.linalg.inv(np.linalg.cholesky(pseudo_inertia(prior)))
    return np.array([triangle(inverse @ from_triangle(TRIANGLE[:, k]) @ inverse.T) for k in range(10)]).T


def relative_covariance(body: Float) -> Float:
    """Covariance (10, 10) of the parameters of a link that is uncertain by its whole size, in any frame and units.

    It is the inverse of tr(P^-1 E_k P^-1 E_l), the Riemannian metric of pseudo-inertias: a mass has a deviation of
    itself, a centre of mass one of 0.7 times the radius of gyration.

    References
    ----------
    Lee, Wensing and Park 2020.

    """
    J, _ = quadratic(body, body)
    root = np.linalg.inv(J)
    return np.asarray(0.5 * root @ root.T)
