"""Regressor values joint by joint, structurally zero columns left out."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel.tree import Tree


@dataclass(frozen=True, eq=False)
class Panels:
    """Per joint the columns that occur and their values.

    columns: per joint (w_i,) ascending column indices.
    values: per joint (w_i, T), a contiguous line a column.
    """

    columns: tuple[Int, ...]
    values: tuple[Float, ...]

    def dense(self, width: int) -> Float:
        """The regressor with its zeros, (T, n, width)."""
        T = self.values[0].shape[1]
        Y = np.zeros((T, len(self.columns), width))
        for i, (columns, values) in enumerate(zip(self.columns, self.values, strict=True)):
            Y[:, i, columns] = values.T
        return Y


def joint_columns(tree: Tree, wanted: Bool) -> tuple[Int, ...]:
    """Wanted columns 10 j + k of the bodies that each joint moves, ascending, per joint."""
    return tuple(
        np.array(
            [c for j in tree.subtrees[i] for c in range(10 * j, 10 * j + 10) if wanted[c]], dtype=np.int64
        )
        for i in range(tree.n)
    )
