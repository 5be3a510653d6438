"""Where points of the bodies are, and how they move with the joints."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.robot.model import RobotModel


def placements(robot: RobotModel, q: Float) -> tuple[Float, Float]:
    """Rotations (T, nb, 3, 3) and origins (T, nb, 3) of all bodies in the base frame; q: (T, n)."""
    x = robot.tree_motion(q, q, q)[0]
    T, nb = x.shape
    R, p = np.empty((T, nb, 3, 3)), np.empty((T, nb, 3))
    for i in range(nb):
        a, parent = robot.axis[i], int(robot.parent[i])
        P, d = robot.T_parent_joint[i, :3, :3], robot.T_parent_joint[i, :3, 3]
        if robot.tree.prismatic[i]:
            local, place = P, d + np.outer(x[:, i], P @ a)
        else:
            K = np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
            # Rodrigues: 1 + sin K + (1 - cos) K K, the three constant parts side by side for one product.
            local, place = np.hstack([P @ (np.eye(3) + K @ K), P @ K, -P @ K @ K]), d[None]
        if parent >= 0:
            before = R[:, parent]
            turned = (before.reshape(-1, 3) @ local).reshape(T, 3, -1)
            p[:, i] = p[:, parent] + np.einsum("tab,tb->ta", before, np.broadcast_to(place, (T, 3)))
        else:
            turned = np.broadcast_to(local, (T, *local.shape))
            p[:, i] = place
        if robot.tree.prismatic[i]:
            R[:, i] = turned
        else:
            s, c = np.sin(x[:, i])[:, None, None], np.cos(x[:, i])[:, None, None]
            R[:, i] = turned[..., :3] + s * turned[..., 3:6] + c * turned[..., 6:]
    return R, p


def points(
    robot: RobotModel, q: Float, body: Int, local: Float, jacobian: bool = True
) -> tuple[Float, Float]:
    """Positions (T, P, 3) of points and their derivatives (T, P, 3, n).

    body: (P,) index of the body each point sits on, -1 = base.    local: (P, 3) in the body's joint frame.
    jacobian: whether the derivatives are wanted; else they are empty.
    """
    R, p = placements(robot, q)
    T, fixed = len(q), np.flatnonzero(body < 0)
    x = np.einsum("tpab,pb->tpa", R[:, body], local) + p[:, body]
    x[:, fixed] = local[fixed]
    if not jacobian:
        return x, np.zeros((T, len(body), 3, 0))
    return x, moved(robot, (R, p), body, x)


def moved(robot: RobotModel, placed: tuple[Float, Float], body: Int, x: Float) -> Float:
    """Derivatives (T, P, 3, n) of points x (T, P, 3) in the base frame that ride on bodies (P,), -1 = base.

    placed: rotations and origins of all bodies, see `placements`.
    """
    R, p = placed
    axes = np.einsum("tiab,ib->tia", R, robot.axis)
    J = _turning(axes, x, p)
    slides = np.flatnonzero(robot.tree.prismatic)
    J[:, :, :, slides] = axes[:, slides].transpose(0, 2, 1)[:, None]
    J *= _carries(robot, body)[None, :, None, :]
    return J @ robot.projection if robot.has_mimic else J


def _turning(axes: Float, x: Float, origin: Float) -> Float:
    # axis x (point - origin of the axis), (T, P, 3, nb).
    a = axes.transpose(0, 2, 1)[:, None]
    r = x[..., None] - origin.transpose(0, 2, 1)[:, None]
    J = np.empty((*x.shape, axes.shape[1]))
    for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))):
        J[:, :, i] = a[:, :, j] * r[:, :, k] - a[:, :, k] * r[:, :, j]
    return J


def _carries(robot: RobotModel, body: Int) -> Bool:
    # Whether a joint moves a point, (P, nb).
    moves = np.zeros((len(body), robot.n_bodies), dtype=np.bool_)
    for k, i in enumerate(body):
        if i >= 0:
            moves[k, list(robot.tree.paths[i])] = True
    return moves


def point_speed(
    robot: RobotModel, q: Float, dq: Float, body: int, local: Float
) -> tuple[Float, Float, Float]:
    """Speed (T,) of a point, and its derivatives with respect to q and dq, (T, n) each.

    With the columns J_k of the point's Jacobian and the axes w_k (0 of sliding joints) along the way to the body:
        v = sum J_k dq_k,    dv/dq_k = w_k x sum_{j >= k} J_j dq_j + (sum_{j < k} w_j dq_j) x J_k.
    """
    R, p = placements(robot, q)
    rates = robot.tree_motion(q, dq, dq)[1]
    path = list(robot.tree.paths[body])
    x = R[:, body] @ local + p[:, body]
    axes = np.einsum("tiab,ib->tia", R[:, path], robot.axis[path])
    slides = robot.tree.prismatic[path][None, :, None]
    J = np.where(slides, axes, np.cross(axes, x[:, None] - p[:, path]))
    parts = J * rates[:, path, None]
    v = parts.sum(axis=1)
    speed = np.linalg.norm(v, axis=1)
    way = v / np.maximum(speed, 1e-12)[:, None]
    turning = np.where(slides, 0.0, axes)
    after = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
    spun = turning * rates[:, path, None]
    before = np.cumsum(spun, axis=1) - spun
    slope = np.cross(turning, after) + np.cross(before, J)
    found = np.zeros((2, len(q), robot.n_bodies))
    found[0][:, path] = np.einsum("tx,tkx->tk", way, slope)
    found[1][:, path] = np.einsum("tx,tkx->tk", way, J)
    return speed, found[0] @ robot.projection, found[1] @ robot.projection
