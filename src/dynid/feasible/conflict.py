"""Which constraints exclude every solution, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError
from dynid.feasible.cones import Block, Cone, side_of, triangle
from dynid.feasible.constraints import Condition
from dynid.feasible.determinant import solve_program

REGULAR = 1e-6
SHARE = 1e-3
# Relaxation in typical sizes that is none.
NOTHING = 1e-7
# What makes a body possible is not relaxed.
_OF_BODIES = (Cone.SEMIDEFINITE, Cone.DENSITY)


def refuse_conflict(conditions: Sequence[Condition], reference: Float, spread: Float) -> NoReturn:
    """Raises SolverError with the constraints in conflict and the least total relaxation that ends it.

    A conflict that no relaxation is needed for is the solver's mistake and is reported as that.
    Solves min sum t_c with every condition but the physical ones relaxed by t_c of its typical size; those with a price
    (dual) are in conflict.
    """
    p, soft = len(reference), [c for c in conditions if c.block.cone not in _OF_BODIES]
    n = p + len(soft)
    P = np.diag(np.concatenate([np.full(p, REGULAR), np.zeros(len(soft))]))
    q = np.concatenate([np.zeros(p), np.ones(len(soft))])
    blocks = []
    for condition in conditions:
        block = condition.around(reference, spread, n)
        if condition in soft:
            block.matrix[:, p + soft.index(condition)] = _unit(block)
        blocks.append(block)
    positive = np.hstack([np.zeros((len(soft), p)), np.eye(len(soft))])
    blocks.append(Block(Cone.POSITIVE, positive, np.zeros(len(soft))))
    answer = solve_program(P, q, blocks)
    if not soft or float(answer.x[p:].max()) < NOTHING:
        raise SolverError(
            "not-solved",
            found="a solver that takes constraints for infeasible which a point fulfils",
            expected="an answer that passes the checks",
            do="raise the strength of the prior, or the margin",
        )
    price = [float(_unit(c.block) @ z) for c, z in zip(conditions, answer.duals, strict=False)]
    parties = [c.name for c, value in zip(conditions, price, strict=True) if value > SHARE]
    gaps = [
        f"{c.name} by {t * c.size:.4g} {c.unit}"
        for c, t in zip(soft, answer.x[p:], strict=True)
        if t > SHARE * answer.x[p:].max()
    ]
    raise SolverError(
        "constraints-in-conflict",
        found="no parameters that fulfil " + ", ".join(parties),
        expected="constraints that leave a solution; least change that does: " + ", ".join(gaps),
        do="widen or drop one of them",
    )


def _unit(block: Block) -> Float:
    if block.cone is Cone.SEMIDEFINITE:
        return triangle(np.eye(side_of(len(block.offset))))
    if block.cone is Cone.DENSITY:
        return np.append(triangle(np.eye(4)), 0.0)
    unit = np.ones(len(block.offset))
    if block.cone is Cone.BALL:
        unit[1:] = 0.0
    return unit
