"""Second-order cones as concave functions with slopes: balls, cylinders and cones around centres of mass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.feasible.cones import Cone
from dynid.feasible.constraints import Condition

# In sizes of a cone, by which its tip is rounded off: at the centre of a ball its radius has no slope.
TIP = 1e-9


@dataclass(frozen=True, eq=False)
class Balls:
    """||s_1.. || <= s_0 for the lines s = offset + matrix theta of each of k cones, in units of a typical size.

    matrix: (k, m, p).    offset: (k, m).
    """

    matrix: Float
    offset: Float

    @staticmethod
    def of(conditions: Sequence[Condition], p: int) -> Balls:
        """Those among conditions on p parameters."""
        blocks = [one.block for one in conditions if one.block.cone is Cone.BALL]
        most = max((len(block.offset) for block in blocks), default=1)
        matrix, offset = np.zeros((len(blocks), most, p)), np.zeros((len(blocks), most))
        for k, block in enumerate(blocks):
            matrix[k, : len(block.offset)], offset[k, : len(block.offset)] = block.matrix, block.offset
        return Balls(matrix, offset)

    @property
    def count(self) -> int:
        """Number of cones k."""
        return len(self.matrix)

    def room(self, theta: Float) -> Float:
        """F = s_0 - ||s_1..||, (k,); below zero outside."""
        s = self.matrix @ theta + self.offset
        return np.asarray(s[:, 0] - self._size(s))

    def slopes(self, theta: Float) -> tuple[Float, Float]:
        """Gradients (k, p), and curved (k, m - 1, p) such that the Hessian of f is -curved' curved."""
        s = self.matrix @ theta + self.offset
        size = self._size(s)[:, None]
        way, rest = s[:, 1:] / size, self.matrix[:, 1:]
        along = np.einsum("km,kmp->kp", way, rest)
        # The root of 1 - w w' is 1 - (1 - root(1 - w'w)) w w' / w'w.
        square = (way**2).sum(axis=1)
        share = np.where(square > 0, 1.0 - np.sqrt(np.maximum(1.0 - square, 0.0)), 0.0)
        share = share / np.where(square > 0, square, 1.0)
        curved = (rest - (share[:, None] * way)[:, :, None] * along[:, None, :]) / np.sqrt(size)[:, :, None]
        return self.matrix[:, 0] - along, curved

    @staticmethod
    def _size(s: Float) -> Float:
        return np.asarray(np.sqrt((s[:, 1:] ** 2).sum(axis=1) + TIP**2))
