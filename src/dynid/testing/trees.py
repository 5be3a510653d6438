"""Random trees for tests: branches, revolute and prismatic joints in any orientation."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.kernel.tree import Tree


def random_tree(seed: int, n: int, branching: float = 0.3) -> Tree:
    """A tree of n bodies, each on the one before it, or with probability `branching` on any earlier one."""
    rng = np.random.default_rng(seed)
    parent = np.array(
        [-1] + [int(rng.integers(-1, j)) if rng.random() < branching else j - 1 for j in range(1, n)]
    )
    axis = rng.normal(size=(n, 3))
    rotation, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    rotation[np.linalg.det(rotation) < 0, :, 0] *= -1.0
    return Tree(
        parent=parent,
        prismatic=rng.random(n) < 0.3,
        axis=axis / np.linalg.norm(axis, axis=1, keepdims=True),
        rotation=rotation,
        translation=rng.normal(0.0, 0.4, (n, 3)),
        gravity=rng.normal(0.0, 6.0, 3),
    )


def random_inertia(seed: int, n: int) -> Float:
    """Physically consistent inertial parameters, (n, 10): bodies of random point masses."""
    rng = np.random.default_rng(seed)
    inertia = np.zeros((n, 10))
    for j in range(n):
        masses, points = rng.uniform(0.2, 2.0, 8), rng.normal(0.0, 0.3, (8, 3))
        second = (masses[:, None] * points).T @ points
        J = np.trace(second) * np.eye(3) - second
        inertia[j] = [
            masses.sum(), *(masses @ points), J[0, 0], J[0, 1], J[1, 1], J[0, 2], J[1, 2], J[2, 2]
        ]  # fmt: skip
    return inertia


def random_motion(seed: int, T: int, n: int) -> tuple[Float, Float, Float]:
    """Random q, dq, ddq, each (T, n)."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-3, 3, (T, n)), rng.normal(0, 2, (T, n)), rng.normal(0, 4, (T, n))
