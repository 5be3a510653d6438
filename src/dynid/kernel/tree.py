"""The kinematic tree as arrays for the kernel, and regressors of it per joint, without structurally zero columns."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked, locked_bool, locked_int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass


@dataclass(frozen=True, eq=False)
class Tree:
    """A fixed-base tree of n bodies, each moved by one revolute or prismatic joint.

    Parameters
    ----------
    parent : ndarray of int, shape (n,)
        Parent bodies; -1 = base, parent[j] < j.
    prismatic : ndarray of bool, shape (n,)
    axis : ndarray, shape (n, 3)
        Unit vectors in the joint frames.
    rotation, translation : ndarray, shape (n, 3, 3) and (n, 3)
        Placement of each joint frame at q = 0 in the joint frame of the parent.
    gravity : ndarray, shape (3,), m/s^2
        In the base frame.

    Raises
    ------
    UsageError
        If a parent comes after its child, or an axis is not a unit vector.

    """

    parent: Int
    prismatic: Bool
    axis: Float
    rotation: Float
    translation: Float
    gravity: Float

    def __post_init__(self) -> None:
        n = len(self.parent)
        object.__setattr__(self, "parent", locked_int(self.parent, (n,), "parent"))
        object.__setattr__(self, "prismatic", locked_bool(self.prismatic, (n,), "prismatic"))
        for name, shape in (
            ("axis", (n, 3)),
            ("rotation", (n, 3, 3)),
            ("translation", (n, 3)),
            ("gravity", (3,)),
        ):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))
        for j, parent in enumerate(self.parent):
            if not -1 <= parent < j:
                raise UsageError(
                    "tree-order", found=f"body {j} with parent {parent}", expected="parents before children"
                )
        if not np.allclose(np.linalg.norm(self.axis, axis=1), 1.0, atol=1e-9):
            raise UsageError(
                "tree-axis", found=f"axes of length {np.linalg.norm(self.axis, axis=1)}", expected="1"
            )

    @property
    def n(self) -> int:
        """Number of bodies."""
        return len(self.parent)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Ancestors of each body and the body itself, root first."""
        paths: list[tuple[int, ...]] = []
        for j, parent in enumerate(self.parent):
            paths.append((*(paths[parent] if parent >= 0 else ()), j))
        return tuple(paths)

    @cached_property
    def subtrees(self) -> tuple[tuple[int, ...], ...]:
        """Each body and its descendants, ascending."""
        return tuple(tuple(j for j in range(self.n) if i in self.paths[j]) for i in range(self.n))


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
