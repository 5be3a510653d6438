"""Which joints of a tree carry which: paths to the base, and joints on one branch."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool
from dynid.robot.model import RobotModel


def path_to_base(robot: RobotModel, body: int) -> list[int]:
    """The bodies from one to the base, itself first; [] for the base, -1."""
    path = []
    while body >= 0:
        path.append(body)
        body = int(robot.parent[body])
    return path


def carriers(robot: RobotModel, joints: Bool) -> Bool:
    """Joints (n,) that move a body further towards the base than one that `joints` (n,) move."""
    moves = robot.projection != 0
    found = np.zeros(robot.n, dtype=np.bool_)
    for i in np.flatnonzero(moves[:, joints].any(axis=1)).tolist():
        found |= moves[path_to_base(robot, i)[1:]].any(axis=0)
    return found


def on_branches_of(robot: RobotModel, joints: Bool) -> Bool:
    """Joints (n,) that carry one of `joints` (n,) or that one of these carries, these among them."""
    moves = robot.projection != 0
    moved = moves[:, joints].any(axis=1)
    found = np.zeros(robot.n, dtype=np.bool_)
    for i in range(robot.n_bodies):
        path = path_to_base(robot, i)
        if moved[path].any():
            found |= moves[path].any(axis=0)
    return found
