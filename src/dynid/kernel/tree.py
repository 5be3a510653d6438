"""The kinematic tree as arrays for the kernel."""

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
