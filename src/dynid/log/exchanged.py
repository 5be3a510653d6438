"""Columns of two joints that are exchanged, as the description's own bodies show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.kernel import inverse_dynamics
from dynid.robot.model import RobotModel

# By this factor the product over joints of what is left of their torque's variance has to fall below that of every
# other reading.
DECISIVE = 6.0
# Of a joint's variance, below which less says nothing: masses of a description are off by some per cent at least.
LEAST_LEFT = 1e-3
# rad/s or m/s: below it friction changes its sign smoothly.
SIGN_WIDTH = 0.02


@dataclass(frozen=True)
class Exchange:
    """Two joints, by index, and which of their columns are exchanged, in words and by their names under [log]."""

    joints: tuple[int, int]
    what: str
    keys: str


def find_exchange(
    robot: RobotModel, q: Float, dq: Float, ddq: Float, tau: Float, directions: Sequence[Float]
) -> Exchange | None:
    """The exchange with which the described bodies explain the torque decisively better than without; None = none.

    q, dq, ddq, tau: (S, n).    directions: of gravity, (3,) m/s^2 each, that an exchange has to be better than.
    """
    others = [_left(replace(robot, gravity=one), q, dq, ddq, tau) for one in directions]
    found = [(_left(robot, *motion, effort), one) for one, motion, effort in _exchanges(q, dq, ddq, tau)]
    if not found:
        return None
    left, best = min(found, key=lambda pair: pair[0])
    return best if left < min(others) - np.log(DECISIVE) else None


def _exchanges(
    q: Float, dq: Float, ddq: Float, tau: Float
) -> Iterator[tuple[Exchange, tuple[Float, Float, Float], Float]]:
    n = q.shape[1]
    for a, b in combinations(range(n), 2):
        order = np.arange(n)
        order[[a, b]] = b, a
        moved = q[:, order], dq[:, order], ddq[:, order]
        yield Exchange((a, b), "efforts", "effort"), (q, dq, ddq), tau[:, order]
        yield Exchange((a, b), "positions", "position and velocity"), moved, tau
        yield Exchange((a, b), "columns", "position, velocity and effort"), moved, tau[:, order]


def _left(robot: RobotModel, q: Float, dq: Float, ddq: Float, tau: Float) -> float:
    """Sum over joints of the logarithm of the share that bodies and friction leave of the torque's variance."""
    x, v, a = (np.ascontiguousarray(part) for part in robot.tree_motion(q, dq, ddq))
    bodies = inverse_dynamics(robot.tree, robot.inertia_prior, x, v, a) @ robot.projection
    total = 0.0
    for j in range(robot.n):
        friction, _ = np.linalg.qr(
            np.column_stack([dq[:, j], np.tanh(dq[:, j] / SIGN_WIDTH), np.ones(len(dq))])
        )
        b, y = (column - friction @ (friction.T @ column) for column in (bodies[:, j], tau[:, j]))
        along = max(float(b @ y), 0.0) ** 2 / max(float(b @ b), np.finfo(float).tiny)
        whole = max(float(((tau[:, j] - tau[:, j].mean()) ** 2).sum()), np.finfo(float).tiny)
        total += float(np.log(max((float(y @ y) - along) / whole, LEAST_LEFT)))
    return total
