"""Regressors stored per joint, without structurally zero columns."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel.tree import Tree


@dataclass(frozen=True, eq=False)
class Panels:
    """Columns of a regressor that are not structurally zero, per joint.

    Parameters
    ----------
    columns : tuple of ndarray of int, shape (w_i,)
        Ascending column indices of each joint.
    values : tuple of ndarray, shape (w_i, T)
        Their values, one contiguous line per column.

    """

    columns: tuple[Int, ...]
    values: tuple[Float, ...]

    def dense(self, width: int) -> Float:
        """Return the full regressor with its zeros, (T, n, width)."""
        T = self.values[0].shape[1]
        Y = np.zeros((T, len(self.columns), width))
        for i, (columns, values) in enumerate(zip(self.columns, self.values, strict=True)):
            Y[:, i, columns] = values.T
        return Y


def joint_columns(tree: Tree, wanted: Bool) -> tuple[Int, ...]:
    """Wanted columns of the bodies that each joint moves.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    wanted : ndarray of bool, shape (10 n,)
        Wanted columns 10 j + k of all bodies j.

    Returns
    -------
    tuple of ndarray of int
        Ascending column indices of each joint.

    """
    return tuple(
        np.array(
            [c for j in tree.subtrees[i] for c in range(10 * j, 10 * j + 10) if wanted[c]], dtype=np.int64
        )
        for i in range(tree.n)
    )
