"""Where points of the bodies are, and how they move with the joints."""

from __future__ import annotations

import numpy as np

from dynid.arrays import Float, Int
from dynid.robot.model import RobotModel


def placements(robot: RobotModel, q: Float) -> Float:
    """Frames of all bodies in the base frame, (T, nb, 4, 4); q: (T, n)."""
    x = robot.tree_motion(q, q, q)[0]
    T, nb = x.shape
    frames = np.zeros((T, nb, 4, 4))
    for i in range(nb):
        local = np.broadcast_to(np.eye(4), (T, 4, 4)).copy()
        a = robot.axis[i]
        if robot.tree.prismatic[i]:
            local[:, :3, 3] = x[:, i, None] * a
        else:
            K = np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
            s, c = np.sin(x[:, i]), np.cos(x[:, i])
            local[:, :3, :3] += s[:, None, None] * K + (1.0 - c)[:, None, None] * (K @ K)
        placed = robot.T_parent_joint[i] @ local
        p = int(robot.parent[i])
        frames[:, i] = placed if p < 0 else frames[:, p] @ placed
    return frames


def points(
    robot: RobotModel, q: Float, body: Int, local: Float, jacobian: bool = True
) -> tuple[Float, Float]:
    """Positions (T, P, 3) of points and their derivatives (T, P, 3, n).

    body: (P,) index of the body each point sits on, -1 = base.    local: (P, 3) in the body's joint frame.
    jacobian: whether the derivatives are wanted; else they are empty.
    """
    frames = placements(robot, q)
    T, P = len(q), len(body)
    x = np.zeros((T, P, 3))
    for k, i in enumerate(body):
        x[:, k] = local[k] if i < 0 else frames[:, i, :3, :3] @ local[k] + frames[:, i, :3, 3]
    if not jacobian:
        return x, np.zeros((T, P, 3, 0))
    J = np.zeros((T, P, 3, robot.n_bodies))
    axes = np.einsum("tiab,ib->tia", frames[:, :, :3, :3], robot.axis)
    origin = frames[:, :, :3, 3]
    for k, i in enumerate(body):
        for j in robot.tree.paths[i] if i >= 0 else ():
            turn = axes[:, j] if robot.tree.prismatic[j] else np.cross(axes[:, j], x[:, k] - origin[:, j])
            J[:, k, :, j] = turn
    return x, J @ robot.projection if robot.has_mimic else J
