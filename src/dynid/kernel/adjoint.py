"""Derivatives of rigid-body torque with respect to motion by one outward and one inward pass, exact.

Everything is a spatial vector about the origin of the base frame: motions (angular, linear), wrenches (moment, force).
With s_j the motion axis of joint j, v_i and a_i velocity and acceleration of body i (a_0 = -gravity) and I_ij the
inertia that joint j sees of body i, the torques' sum is

    f = sum_ij  s_j . (I_ij a_i + v_i x* I_ij v_i),    j an ancestor of i or i itself.

A step of joint k moves what lies before it against the bodies behind it, so that with p the parent of k,
c_k = v_p x s_k, P = I s, F = I a + v x* I v and Q = -s x* I v - I (v x s) + v x* P, summed over the bodies i behind k,

    df/dddq_k = s_k . P
    df/ddq_k  = s_k . Q + 2 c_k . P
    df/dq_k   = c_k . Q + (a_p x s_k + v_p x c_k) . P - s_k . (s_j x* F, summed over the joints j before k).

Source: recursive Newton-Euler in spatial vectors, Featherstone 2008, chapter 5; its reverse sweep is written out here.
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
    """Bodies i and joints j that move them, (P,) each: body by body, the joints from the root on."""
    body_joint = [(i, j) for i, path in enumerate(tree.paths) for j in path]
    return np.array([i for i, _ in body_joint]), np.array([j for _, j in body_joint])


def torque_lines(tree: Tree, q: Float, dq: Float, ddq: Float, slots: Int, lines: Float) -> None:
    """Writes the torque regressor into rows of `lines` (R, T): Y[j, 10 i + k] of pair (i, j) into row slots[pair, k].

    slots: (P, 10) in the order of `pairs`, -1 = not wanted.    Other rows are left as they are.
    Raises UsageError for shapes that do not fit.
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
    """Derivatives (3, n, T) with respect to q, dq, ddq of the weighted sum of the regressor's entries.

    f(t) = sum over pairs (i, j) and k of weights[slots[pair, k], t] Y[j, 10 i + k](t), slots (P, 10) as in
    `torque_lines`.    weights: (R, T).    Raises UsageError for shapes that do not fit.
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
    """Derivatives (3, T, n, n) of torque: by q, dq, ddq; sample; joint that moves; joint whose torque it is.

    inertia: (n, 10) parameters of the bodies.    Raises UsageError for shapes that do not fit.
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
    """Outward pass: placements, axes, velocities and accelerations of all bodies, by body, component and sample.

    rotation: (nb, 3, 3, T), origin: (nb, 3, T).    axis, velocity, acceleration: (nb, 6, T) s, v, a.
    turning: c.    falling: a_p x s + v_p x c.
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
        """The pass along a motion of the tree, (T, nb) each."""
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
        """P, Q and F of pairs (i, j), each (P, 6, T), in the base frame; inertia: (P, 10, T or 1)."""
        R, p = self.rotation[i], self.origin[i]
        s, v, a = (_into_body_frame(R, p, x) for x in (self.axis[j], self.velocity[i], self.acceleration[i]))
        P, H = _momentum(inertia, s), _momentum(inertia, v)
        F = _momentum(inertia, a) + push(v, H)
        Q = push(v, P) - push(s, H) - _momentum(inertia, bracket(v, s))
        return _into_base_frame(R, p, P), _into_base_frame(R, p, Q), _into_base_frame(R, p, F)

    def behind(self, values: Float) -> Float:
        """Sums over the subtree of every body; values: (nb, ...)."""
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
        # Pairs are few and bodies repeat among them, which plain indexing would count once.
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
            expected=f"slots of shape ({count}, 10), rows among them, and lines of shape (any, {T})",
        )
    return np.ascontiguousarray(slots, dtype=np.int32)


def cross(x: Float, y: Float) -> Float:
    """Vector product over the last axis but one, (..., 3, T)."""
    z = np.empty(np.broadcast_shapes(x.shape, y.shape))
    for a, (b, c) in enumerate(((1, 2), (2, 0), (0, 1))):
        z[..., a, :] = x[..., b, :] * y[..., c, :] - x[..., c, :] * y[..., b, :]
    return z


def bracket(v: Float, s: Float) -> Float:
    """Motion s seen from a frame that moves with v, both (..., 6, T)."""
    w, u = v[..., :3, :], v[..., 3:, :]
    return np.concatenate(
        [cross(w, s[..., :3, :]), cross(w, s[..., 3:, :]) + cross(u, s[..., :3, :])], axis=-2
    )


def push(v: Float, f: Float) -> Float:
    """Dual of `bracket`, v x* f with (v x s) . f = -s . (v x* f)."""
    w, u, moment, force = v[..., :3, :], v[..., 3:, :], f[..., :3, :], f[..., 3:, :]
    return np.concatenate([cross(w, moment) + cross(u, force), cross(w, force)], axis=-2)


def dot(x: Float, y: Float) -> Float:
    """Power of a wrench along a motion, over the last axis but one."""
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
    # A motion about the base's origin, (P, 6, T), as seen in the body's own frame.
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
