"""Exact derivatives of rigid-body torque with respect to motion, by one outward and one inward pass.

All quantities are spatial vectors about the origin of the base frame: motions (angular, linear), wrenches (moment,
force). With s_j the motion axis of joint j, v_i and a_i velocity and acceleration of body i (a_0 = -gravity) and I_ij
the inertia of body i in the torque of joint j, the sum of torques is

    f = sum_ij  s_j . (I_ij a_i + v_i x* I_ij v_i),    j an ancestor of i or i itself.

A change of joint k moves all bodies in its subtree. With p the parent of k, c_k = v_p x s_k, P = I s,
F = I a + v x* I v and Q = -s x* I v - I (v x s) + v x* P, summed over the bodies i in the subtree of k,

    df/dddq_k = s_k . P
    df/ddq_k  = s_k . Q + 2 c_k . P
    df/dq_k   = c_k . Q + (a_p x s_k + v_p x c_k) . P - s_k . (s_j x* F, summed over the joints j before k).

Source: recursive Newton-Euler in spatial vectors, Featherstone 2008, chapter 5, differentiated in reverse mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import _check, _chosen, _contiguous, _whole, reference
from dynid.kernel.tree import Tree

__all__ = ["pairs", "torque_gradient", "torque_jacobian", "torque_lines"]


def pairs(tree: Tree) -> tuple[Int, Int]:
    """Pairs (P,) of bodies i and joints j that move them: body by body, with joints from the root on."""
    body_joint = [(i, j) for i, path in enumerate(tree.paths) for j in path]
    return np.array([i for i, _ in body_joint]), np.array([j for _, j in body_joint])


def torque_lines(tree: Tree, q: Float, dq: Float, ddq: Float, slots: Int, lines: Float) -> None:
    """Write the torque regressor into rows of an array: Y[j, 10 i + k] of pair (i, j) into row slots[pair, k].

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.
    slots : ndarray of int, shape (P, 10)
        Rows in the order of `pairs`; -1 = not wanted.
    lines : ndarray, shape (R, T)
        Output; other rows stay as they are.

    Raises
    ------
    UsageError
        For arrays of other shapes.

    """
    _check(tree, q, dq, ddq)
    wanted = _lines(tree, slots, lines, len(q))
    if (native := _chosen()) is not None:
        native.torque_lines(*_whole(tree), wanted, *map(_contiguous, (q, dq, ddq)), lines)
        return
    body, joint = pairs(tree)
    dense = np.zeros((tree.n, tree.n, 10), dtype=np.int64) - 1
    dense[joint, body] = slots
    some = (dense >= 0).any(axis=0).ravel()
    panels = reference.torque_regressor(tree, q, dq, ddq, some)
    for slot_row, columns, values in zip(
        dense.reshape(tree.n, -1), panels.columns, panels.values, strict=True
    ):
        rows = slot_row[columns]
        lines[rows[rows >= 0]] = values[rows >= 0]


def torque_gradient(tree: Tree, q: Float, dq: Float, ddq: Float, slots: Int, weights: Float) -> Float:
    """Derivatives with respect to q, dq and ddq of a weighted sum of regressor entries.

    f(t) = sum over pairs (i, j) and k of weights[slots[pair, k], t] Y[j, 10 i + k](t).

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.
    slots : ndarray of int, shape (P, 10)
        As for `torque_lines`.
    weights : ndarray, shape (R, T)
        Weights.

    Returns
    -------
    ndarray, shape (3, n, T)

    Raises
    ------
    UsageError
        For arrays of other shapes.

    """
    _check(tree, q, dq, ddq)
    wanted = _lines(tree, slots, weights, len(q))
    if (native := _chosen()) is not None:
        return np.asarray(
            native.torque_contraction(*_whole(tree), wanted, weights, *map(_contiguous, (q, dq, ddq)))
        )
    inertia = np.where((slots >= 0)[:, :, None], weights[slots], 0.0)
    return Sweep.of(tree, q, dq, ddq).contracted(inertia)


def torque_jacobian(tree: Tree, inertia: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """Derivatives of joint torque with respect to q, dq and ddq.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    inertia : ndarray, shape (n, 10)
        Inertial parameters.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.

    Returns
    -------
    ndarray, shape (3, T, n, n)
        Quantity, sample, joint that moves, joint of the torque.

    Raises
    ------
    UsageError
        For arrays of other shapes.

    """
    _check(tree, q, dq, ddq)
    if inertia.shape != (tree.n, 10):
        raise UsageError("array-shape", found=f"inertia of shape {inertia.shape}", expected=f"({tree.n}, 10)")
    if (native := _chosen()) is not None:
        jacobian = native.torque_jacobian(
            *_whole(tree), _contiguous(inertia).ravel(), *map(_contiguous, (q, dq, ddq))
        )
        return np.asarray(jacobian).transpose(0, 3, 1, 2)
    return Sweep.of(tree, q, dq, ddq).jacobian(inertia)


@dataclass(frozen=True, eq=False)
class Sweep:
    """Result of the outward pass over all bodies, with the letters of the module's docstring.

    Parameters
    ----------
    tree : Tree
    rotation : ndarray, shape (nb, 3, 3, T)
    origin : ndarray, shape (nb, 3, T)
    axis, velocity, acceleration : ndarray, shape (nb, 6, T)
        s, v and a.
    turning, falling : ndarray, shape (nb, 6, T)
        c, and a_p x s + v_p x c.

    """

    tree: Tree
    rotation: Float
    origin: Float
    axis: Float
    velocity: Float
    acceleration: Float
    turning: Float
    falling: Float

    @staticmethod
    def of(tree: Tree, q: Float, dq: Float, ddq: Float) -> Sweep:
        """Run the outward pass along a motion of the tree.

        Parameters
        ----------
        tree : Tree
            Kinematic tree.
        q, dq, ddq : ndarray, shape (T, nb)
            Position, velocity and acceleration of the joints.

        Returns
        -------
        Sweep

        """
        nb, T = tree.n, len(q)
        R, p = np.empty((nb, 3, 3, T)), np.empty((nb, 3, T))
        s, v, a, c, b = (np.empty((nb, 6, T)) for _ in range(5))
        rest, fall = np.zeros((6, T)), np.zeros((6, T))
        fall[3:] = -tree.gravity[:, None]
        for i in range(nb):
            k = int(tree.parent[i])
            R[i], p[i] = _joint_placement(tree, i, q[:, i], None if k < 0 else (R[k], p[k]))
            v0, a0 = (rest, fall) if k < 0 else (v[k], a[k])
            direction = np.einsum("abt,b->at", R[i], tree.axis[i])
            if tree.prismatic[i]:
                s[i, :3], s[i, 3:] = 0.0, direction
            else:
                s[i, :3], s[i, 3:] = direction, cross(p[i], direction)
            c[i] = bracket(v0, s[i])
            b[i] = bracket(a0, s[i]) + bracket(v0, c[i])
            v[i] = v0 + s[i] * dq[:, i]
            a[i] = a0 + s[i] * ddq[:, i] + c[i] * dq[:, i]
        return Sweep(tree, R, p, s, v, a, c, b)

    def wrenches(self, i: Int, j: Int, inertia: Float) -> tuple[Float, Float, Float]:
        """P, Q and F of pairs (i, j), each (P, 6, T), in the base frame.

        Parameters
        ----------
        i, j : ndarray of int, shape (P,)
            Bodies and joints.
        inertia : ndarray, shape (P, 10, T or 1)
            Inertial parameters of the pairs.

        Returns
        -------
        tuple of ndarray, shape (P, 6, T)

        """
        R, p = self.rotation[i], self.origin[i]
        s, v, a = (_into_body_frame(R, p, x) for x in (self.axis[j], self.velocity[i], self.acceleration[i]))
        P, H = _momentum(inertia, s), _momentum(inertia, v)
        F = _momentum(inertia, a) + push(v, H)
        Q = push(v, P) - push(s, H) - _momentum(inertia, bracket(v, s))
        return _into_base_frame(R, p, P), _into_base_frame(R, p, Q), _into_base_frame(R, p, F)

    def behind(self, values: Float) -> Float:
        """Sum values (nb, ...) over the subtree of each body."""
        total = np.array(values)
        for i in range(self.tree.n - 1, -1, -1):
            if self.tree.parent[i] >= 0:
                total[self.tree.parent[i]] += total[i]
        return total

    def contracted(self, inertia: Float) -> Float:
        """Derivatives (3, nb, T) of f with respect to q, dq, ddq of the tree; inertia: (P, 10, T) of `pairs`."""
        i, j = pairs(self.tree)
        P, Q, F = self.wrenches(i, j, inertia)
        by_body = np.zeros((3, self.tree.n, 6, P.shape[-1]))
        by_joint = np.zeros(by_body.shape[1:])
        # Bodies occur in several pairs; plain indexed addition would count only one of them.
        for quantity, values in zip(by_body, (P, Q, push(self.axis[j], F)), strict=True):
            np.add.at(quantity, i, values)
        np.add.at(by_joint, j, F)
        by_body[2] -= push(self.axis, by_joint)
        p, q, e = (self.behind(x) for x in by_body)
        s, c, b = self.axis, self.turning, self.falling
        parts = (dot(c, q) + dot(b, p) - dot(s, e), dot(s, q) + 2.0 * dot(c, p), dot(s, p))
        return np.stack(parts)

    def jacobian(self, inertia: Float) -> Float:
        """Derivatives (3, T, nb, nb) of torque: quantity, sample, motion joint, torque joint; inertia: (nb, 10)."""
        i, j = pairs(self.tree)
        T, nb = self.axis.shape[-1], self.tree.n
        sums = []
        for values in self.wrenches(i, j, inertia[i][:, :, None]):
            whole = np.zeros((nb, nb, 6, T))
            whole[i, j] = values
            sums.append(self.behind(whole))
        P, Q, F = sums
        s, c, b = self.axis, self.turning, self.falling
        J = np.zeros((3, T, nb, nb))
        for deep, up in zip(i, j, strict=True):
            for k, joint in {(deep, up), (up, deep)}:
                p, q = P[deep, joint], Q[deep, joint]
                J[0, :, k, joint] = dot(c[k], q) + dot(b[k], p)
                J[1, :, k, joint] = dot(s[k], q) + 2.0 * dot(c[k], p)
                J[2, :, k, joint] = dot(s[k], p)
            J[0, :, deep, up] -= dot(s[deep], push(s[up], F[deep, up])) * (deep != up)
        return J


def _lines(tree: Tree, slots: Int, lines: Float, T: int) -> Any:
    count = sum(map(len, tree.paths))
    fits = slots.shape == (count, 10) and lines.ndim == 2 and lines.shape[1] == T
    if not (fits and slots.min() >= -1 and slots.max() < len(lines)):
        raise UsageError(
            "array-shape",
            found=f"slots of shape {slots.shape}, lines of shape {lines.shape}",
            expected=f"slots of shape ({count}, 10) with existing rows, and lines of shape (any, {T})",
        )
    return np.ascontiguousarray(slots, dtype=np.int32)


def cross(x: Float, y: Float) -> Float:
    """Cross product along the second to last axis, (..., 3, T)."""
    z = np.empty(np.broadcast_shapes(x.shape, y.shape))
    for a, (b, c) in enumerate(((1, 2), (2, 0), (0, 1))):
        z[..., a, :] = x[..., b, :] * y[..., c, :] - x[..., c, :] * y[..., b, :]
    return z


def bracket(v: Float, s: Float) -> Float:
    """Spatial cross product v x s of motions, both (..., 6, T)."""
    w, u = v[..., :3, :], v[..., 3:, :]
    return np.concatenate(
        [cross(w, s[..., :3, :]), cross(w, s[..., 3:, :]) + cross(u, s[..., :3, :])], axis=-2
    )


def push(v: Float, f: Float) -> Float:
    """Dual cross product v x* f of a motion and a wrench, with (v x s) . f = -s . (v x* f)."""
    w, u, moment, force = v[..., :3, :], v[..., 3:, :], f[..., :3, :], f[..., 3:, :]
    return np.concatenate([cross(w, moment) + cross(u, force), cross(w, force)], axis=-2)


def dot(x: Float, y: Float) -> Float:
    """Scalar product of a wrench and a motion along the second to last axis."""
    return np.asarray((x * y).sum(axis=-2))


def _joint_placement(tree: Tree, i: int, q: Float, parent: tuple[Float, Float] | None) -> tuple[Float, Float]:
    axis = tree.axis[i]
    if tree.prismatic[i]:
        R = np.repeat(tree.rotation[i][:, :, None], len(q), axis=2)
        p = tree.translation[i][:, None] + np.outer(tree.rotation[i] @ axis, q)
    else:
        K = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
        parts = np.stack([tree.rotation[i] @ M for M in (np.eye(3), K, K @ K)], axis=-1)
        R = parts @ np.stack([np.ones_like(q), np.sin(q), 1.0 - np.cos(q)])
        p = np.repeat(tree.translation[i][:, None], len(q), axis=1)
    if parent is None:
        return R, p
    R0, p0 = parent
    return np.einsum("abt,bct->act", R0, R), p0 + np.einsum("abt,bt->at", R0, p)


def _into_body_frame(R: Float, p: Float, x: Float) -> Float:
    # Motion (P, 6, T) about the base origin, expressed in the body's frame.
    w, u = x[:, :3], x[:, 3:]
    turned = np.stack([w, u + cross(w, p)], axis=1)
    return np.asarray(np.einsum("pbat,pkbt->pkat", R, turned)).reshape(x.shape)


def _into_base_frame(R: Float, p: Float, f: Float) -> Float:
    turned = np.einsum("pabt,pkbt->pkat", R, f.reshape(len(f), 2, 3, f.shape[-1]))
    moment, force = turned[:, 0], turned[:, 1]
    return np.concatenate([moment + cross(p, force), force], axis=1)


def _momentum(g: Float, x: Float) -> Float:
    # I x for ten parameters (P, 10, T) m, mc, Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
    m, h = g[:, :1], g[:, 1:4]
    xx, xy, yy, xz, yz, zz = (g[:, k] for k in range(4, 10))
    w, u = x[:, :3], x[:, 3:]
    w0, w1, w2 = w[:, 0], w[:, 1], w[:, 2]
    turned = np.stack(
        [xx * w0 + xy * w1 + xz * w2, xy * w0 + yy * w1 + yz * w2, xz * w0 + yz * w1 + zz * w2], axis=1
    )
    return np.concatenate([turned + cross(h, u), m * u - cross(h, w)], axis=1)
