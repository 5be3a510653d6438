"""The entropic distance of bodies from their priors, and its form as cones."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigvalsh

from dynid.base.arrays import Float, Int
from dynid.feasible.bodies import TRIANGLE
from dynid.feasible.cones import Block, Cone, from_triangle, triangle
from dynid.spatial.inertia import pseudo_inertia

_LOWER = [(i, j) for j in range(4) for i in range(j, 4)]


def divergence(pi: Float, prior: Float) -> float:
    """tr(P0^-1 P) - log det(P0^-1 P) - 4 of two bodies' pseudo-inertias; 0 only where they agree.

    Source: Lee, Wensing and Park 2020, eq. 29.
    """
    values = eigvalsh(pseudo_inertia(pi), pseudo_inertia(prior))
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
    bodies: Int, reference: Float, prior: Float, spread: Float, weight: Float, first: int
) -> tuple[Float, list[Block]]:
    """Linear objective and cones for theta = reference + spread d, d being the first unknowns.

    With W = L^-1 P L^-T, P0 = L L', and lower triangular Z: log det W >= sum t_i where [[W, Z], [Z', diag Z]] >= 0
    and exp(t_i) <= Z_ii. Each body adds ten unknowns Z and four t from `first` on. weight: (nb,) of each body.
    Source: Ben-Tal and Nemirovski 2001, section 4.2.
    """
    n = first + 14 * len(bodies)
    q = np.zeros(n)
    blocks = []
    for b, ten in enumerate(bodies):
        whiten = _whitened(prior[ten])
        z = first + 14 * b
        offset = np.zeros((8, 8))
        offset[:4, :4] = from_triangle(whiten @ reference[ten])
        matrix = np.zeros((36, n))
        for k, j in enumerate(ten):
            unit = np.zeros((8, 8))
            unit[:4, :4] = from_triangle(whiten[:, k]) * spread[j]
            matrix[:, j] = triangle(unit)
            q[j] += float(weight[b] * np.trace(unit))
        for k, (row, column) in enumerate(_LOWER):
            unit = np.zeros((8, 8))
            unit[row, 4 + column] = unit[4 + column, row] = 1.0
            if row == column:
                unit[4 + row, 4 + row] = 1.0
                exponential = np.zeros((3, n))
                exponential[0, z + 10 + row] = exponential[2, z + k] = 1.0
                blocks.append(Block(Cone.EXPONENTIAL, exponential, np.array([0.0, 1.0, 0.0])))
            matrix[:, z + k] = triangle(unit)
        q[z + 10 : z + 14] = -weight[b]
        blocks.append(Block(Cone.SEMIDEFINITE, matrix, triangle(offset)))
    return q, blocks


def _whitened(prior: Float) -> Float:
    # (10, 10): triangle of L^-1 P L^-T from the ten parameters of P.
    inverse = np.linalg.inv(np.linalg.cholesky(pseudo_inertia(prior)))
    return np.array([triangle(inverse @ from_triangle(TRIANGLE[:, k]) @ inverse.T) for k in range(10)]).T
