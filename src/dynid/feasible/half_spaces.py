"""Linear conditions: bounds of single parameters, and planes that several lie on one side of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.feasible.cones import Cone
from dynid.feasible.constraints import Condition

# In place of a parameter's index, of a row over several.
SEVERAL = -1


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """rows theta >= edge, (k, p) and (k,), each in units of a typical size.

    index: (k,) of the parameter that a bound is of; SEVERAL = a plane.    value: (k,) the bound; nan of a plane.
    equal: (k,) which hold as equations, as both ends of a window without width; the other end is left out.
    """

    rows: Float
    edge: Float
    index: Int
    value: Float
    equal: Bool

    @staticmethod
    def of(lower: Float, upper: Float, spread: Float, conditions: Sequence[Condition] = ()) -> HalfSpaces:
        """Of bounds (p,), tightened by conditions on single parameters, and of planes among the conditions."""
        linear = [one.block for one in conditions if one.block.cone is Cone.POSITIVE]
        rows = np.concatenate([np.zeros((0, len(lower))), *(block.matrix for block in linear)])
        edges = np.concatenate([np.zeros(0), *(-block.offset for block in linear)])
        single = np.count_nonzero(rows, axis=1) == 1
        lower, upper = lower.copy(), upper.copy()
        for row, edge in zip(rows[single], edges[single], strict=True):
            j = int(np.flatnonzero(row)[0])
            bound = edge / row[j]
            if row[j] > 0:
                lower[j] = max(lower[j], bound)
            else:
                upper[j] = min(upper[j], bound)
        known = lower == upper
        low, high = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper) & ~known)
        index = np.concatenate([low, high])
        sign = np.concatenate([np.ones(len(low)), -np.ones(len(high))]) / spread[index]
        value = np.concatenate([lower[low], upper[high]])
        bounds = np.zeros((len(index), len(lower)))
        bounds[np.arange(len(index)), index] = sign
        several = np.count_nonzero(rows, axis=1) > 1
        planes, ends, equal = _without_twins(rows[several], edges[several])
        return HalfSpaces(
            np.concatenate([bounds, planes]),
            np.concatenate([sign * value, ends]),
            np.concatenate([index, np.full(len(ends), SEVERAL)]),
            np.concatenate([value, np.full(len(ends), np.nan)]),
            np.concatenate([known[index], equal]),
        )

    @property
    def count(self) -> int:
        """Number of rows k."""
        return len(self.edge)

    def room(self, theta: Float) -> Float:
        """How far parameters (p,) are inside, (k,); below zero outside."""
        # Exactly zero at a bound, which rounding of the row would miss.
        room = self.rows @ theta - self.edge
        of_one = np.flatnonzero(self.index >= 0)
        own = self.index[of_one]
        room[of_one] = self.rows[of_one, own] * (theta[own] - self.value[of_one])
        return np.asarray(room)

    def beyond(self, theta: Float, barely: float) -> Bool:
        """Which (k,) parameters (p,) are beyond by more than so much; of equations on either side."""
        room = self.room(theta)
        return np.asarray(np.where(self.equal, -np.abs(room), room) < -barely)

    def at(self, theta: Float, held: Bool) -> Float:
        """Parameters (p,) with those whose bound is held, (k,), exactly at it."""
        which = held & (self.index >= 0)
        found = theta.copy()
        found[self.index[which]] = self.value[which]
        return found


def _without_twins(rows: Float, edges: Float) -> tuple[Float, Float, Bool]:
    """Planes (k, p) with edges (k,) less those that another turned round makes equations, and which are such."""
    kept, equal = np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_)
    for k in range(len(rows)):
        if kept[k]:
            twins = kept & (rows == -rows[k]).all(axis=1) & (edges == -edges[k])
            equal[k] = twins.any()
            kept &= ~twins
    return rows[kept], edges[kept], equal[kept]
