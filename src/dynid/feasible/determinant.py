"""Cones for the determinant of a 4 x 4 matrix that is linear in the unknowns, and for what it must exceed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.feasible.cones import Answer, Block, Cone, from_triangle, solve_cones, triangle

# Unknowns that `below_determinant`, `fourth_root` and `three_halves` add.
LOWER, ROOT, POWER = 10, 3, 1
_PLACES = [(i, j) for j in range(4) for i in range(j, 4)]
_DIAGONAL = [k for k, (i, j) in enumerate(_PLACES) if i == j]


def solve_program(P: Float, q: Float, blocks: Sequence[Block]) -> Answer:
    """Min x'Px/2 + q'x with every block in its cone, as `solve_cones`; blocks of Cone.DENSITY are written as cones.

    The answer holds x (n,) without the further unknowns and one vector of duals a block, that of a density block being
    the dual of its matrix, with 0 for its constant.
    """
    dense = [k for k, block in enumerate(blocks) if block.cone is Cone.DENSITY]
    if not dense:
        return solve_cones(P, q, blocks)
    n, own = len(q), LOWER + ROOT + POWER
    width = n + own * len(dense)
    wide = [replace(block, matrix=_wider(block.matrix, width)) for block in blocks]
    further: list[Block] = []
    for place, k in enumerate(dense):
        z = n + own * place
        matrix, offset, c = wide[k].matrix[:10], wide[k].offset[:10], float(wide[k].offset[10])
        wide[k] = below_determinant(matrix, offset, z)
        further += fourth_root(z, z + LOWER, width)
        root = np.eye(width)[z + LOWER + 2]
        further += three_halves(root / c, matrix[9], float(offset[9]), z + LOWER + ROOT)
    answer = solve_cones(np.pad(P, (0, width - n)), np.pad(q, (0, width - n)), [*wide, *further])
    duals = list(answer.duals[: len(blocks)])
    for k in dense:
        duals[k] = np.append(triangle(from_triangle(duals[k])[:4, :4]), 0.0)
    return replace(answer, x=answer.x[:n], duals=tuple(duals))


def _wider(matrix: Float, width: int) -> Float:
    # np.pad takes several times as long on the thousands of half-spaces of meshes.
    wide = np.zeros((len(matrix), width))
    wide[:, : matrix.shape[1]] = matrix
    return wide


def below_determinant(matrix: Float, offset: Float, z: int) -> Block:
    """[[M, Z], [Z', diag Z]] >= 0, so that det M >= Z_11 Z_22 Z_33 Z_44, with equality for the best Z.

    matrix: (10, n), offset: (10,), the triangle of M.    z: where the ten unknowns of lower triangular Z stand.
    Source: Ben-Tal and Nemirovski 2001, section 4.2.
    """
    n = matrix.shape[1]
    found = np.zeros((36, n))
    for column in np.flatnonzero(matrix.any(axis=0)):
        found[:, column] = triangle(_corner(from_triangle(matrix[:, column])))
    for k, (row, of) in enumerate(_PLACES):
        unit = np.zeros((8, 8))
        unit[row, 4 + of] = unit[4 + of, row] = 1.0
        if row == of:
            unit[4 + row, 4 + row] = 1.0
        found[:, z + k] = triangle(unit)
    return Block(Cone.SEMIDEFINITE, found, triangle(_corner(from_triangle(offset))))


def diagonal(z: int) -> list[int]:
    """Where Z_11 ... Z_44 of `below_determinant` stand."""
    return [z + k for k in _DIAGONAL]


def fourth_root(z: int, g: int, n: int) -> list[Block]:
    """x[g + 2] <= (Z_11 Z_22 Z_33 Z_44)^(1/4), by way of x[g] and x[g + 1]."""
    first, second, third, fourth = (np.eye(n)[k] for k in diagonal(z))
    half, other, root = np.eye(n)[g : g + ROOT]
    return [mean(half, first, second), mean(other, third, fourth), mean(root, half, other)]


def three_halves(power: Float, mass: Float, offset: float, v: int) -> list[Block]:
    """Rows for power x >= (mass x + offset)^(3/2), by way of x[v] <= (mass x + offset)^(1/2)."""
    n = len(mass)
    root = np.eye(n)[v]
    # power v >= mass^2 and mass >= v^2
    upper = Block(
        Cone.BALL, np.array([power + root, 2.0 * mass, power - root]), np.array([0.0, 2.0 * offset, 0.0])
    )
    lower = Block(Cone.BALL, np.array([mass, 2.0 * root, mass]), np.array([offset + 1.0, 0.0, offset - 1.0]))
    return [upper, lower]


def mean(root: Float, a: Float, b: Float) -> Block:
    """Rows for root x <= sqrt((a x) (b x)), both not negative."""
    return Block(Cone.BALL, np.array([a + b, 2.0 * root, a - b]), np.zeros(3))


def _corner(M: Float) -> Float:
    whole = np.zeros((8, 8))
    whole[:4, :4] = M
    return whole
