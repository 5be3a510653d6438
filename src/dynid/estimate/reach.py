"""How far a body's centre of mass may lie from where the description puts it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.estimate.prior import inertia_known
from dynid.feasible.bodies import body_columns
from dynid.feasible.constraints import CentreCone
from dynid.terms.term import Column

# In typical lengths of a link, how far a centre of mass may lie from that of the description, and from a guess.
REACH_DESCRIBED, REACH_GUESSED = 1.0, 2.0
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
_INSIDE = 1e-6


def centre_limits(
    columns: tuple[Column, ...], theta: Float, prior: Float, spread: Float, scale: float = 1.0
) -> Sequence[CentreCone]:
    """||c - c0|| <= reach for every body of theta (p,) whose centre of mass c lies farther from the prior's c0.

    reach: scale times REACH_DESCRIBED or REACH_GUESSED times the typical length L of `parameter_spread`, m.
    prior: (p,), every body with mass.    spread: (p,).
    """
    known, found = inertia_known(columns), []
    for ten in body_columns(columns):
        length = float(np.sqrt(spread[ten[4]] / spread[ten[0]]))
        reach = scale * length * (REACH_DESCRIBED if known[ten[0]] else REACH_GUESSED)
        centre = prior[ten[1:4]] / prior[ten[0]]
        if np.linalg.norm(theta[ten[1:4]] - theta[ten[0]] * centre) > theta[ten[0]] * reach * (1 + _INSIDE):
            x, y, z = (-float(value) for value in centre)
            found.append(CentreCone(columns[ten[0]].owner + 1, _AXES, (x, y, z), reach=reach))
    return found
