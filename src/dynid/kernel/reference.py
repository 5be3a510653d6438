"""The kernel's algorithms in NumPy, batched over samples: reference and replacement of the native kernel.

All vectors are (3, T); quantities of a body are expressed in its joint frame. Letters: w, al angular velocity and
acceleration; v linear velocity of the frame's origin, d its acceleration minus gravity; a, l motion axis of an
ancestor joint at the body (angular, linear). The inertial parameters enter linearly:
force = m d + B h, moment = h x d + K(al) J + w x K(w) J with B = [al]x + [w]x[w]x, h = m c.
Source: Newton-Euler recursion; the linear form is Atkeson, An and Hollerbach 1986, eqs 6 to 10.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel.tree import Panels, Tree, joint_columns


@dataclass(frozen=True, eq=False)
class Motion:
    """Motion of all bodies in their joint frames: lists over bodies, with the letters of the module's docstring.

    Parameters
    ----------
    E : list of ndarray, shape (3, 3, T)
        Rotations from child to parent.
    p, w, v, al, d : list of ndarray, shape (3, T)
    axes : list of dict
        Motion axis (angular, linear) of each ancestor joint; that of the body's joint is constant, (3, 1).

    """

    E: list[Float]
    p: list[Float]
    w: list[Float]
    v: list[Float]
    al: list[Float]
    d: list[Float]
    axes: list[dict[int, tuple[Float, Float]]]


def motion(tree: Tree, q: Float, dq: Float, ddq: Float, linear: bool = True) -> Motion:
    """Outward pass: velocities, accelerations minus gravity, and motion axes of all bodies.

    Parameters
    ----------
    tree : Tree
        Kinematic tree.
    q, dq, ddq : ndarray, shape (T, n)
        Position, velocity and acceleration of the joints.
    linear : bool
        Compute velocities of the frames' origins, which torque does not need.

    Returns
    -------
    Motion

    """
    T = len(q)
    q, dq, ddq = (np.ascontiguousarray(x.T) for x in (q, dq, ddq))
    state = Motion([], [], [], [], [], [], [])
    base = np.zeros((3, T))
    fall = np.repeat(-tree.gravity[:, None], T, axis=1)
    for j in range(tree.n):
        parent = int(tree.parent[j])
        axis = tree.axis[j][:, None]
        p = tree.translation[j][:, None]
        if tree.prismatic[j]:
            E = np.repeat(tree.rotation[j][:, :, None], T, axis=2)
            p = p + (tree.rotation[j] @ axis) * q[j]
        else:
            E = _rotated(tree.rotation[j], tree.axis[j], q[j])
        w0, v0, al0, d0 = (
            (state.w[parent], state.v[parent], state.al[parent], state.d[parent])
            if parent >= 0
            else (base, base, base, fall)
        )
        w, al = _into_child(E, w0), _into_child(E, al0)
        around = _cross(w0, p)
        v = _into_child(E, v0 + around) if linear else base
        d = _into_child(E, d0 + _cross(al0, p) + _cross(w0, around))
        axes: dict[int, tuple[Float, Float]] = {}
        if parent >= 0:
            for i, (a, l) in state.axes[parent].items():
                axes[i] = (_into_child(E, a), _into_child(E, l + _cross(a, p)))
        rate, push = axis * dq[j], axis * ddq[j]
        still = np.zeros((3, 1))
        if tree.prismatic[j]:
            d = d + push + 2.0 * _cross(w, rate)
            v = v + rate if linear else base
            axes[j] = (still, axis)
        else:
            al = al + _cross(w, rate) + push
            w = w + rate
            axes[j] = (axis, still)
        for known, value in zip(
            (state.E, state.p, state.w, state.v, state.al, state.d),
            (E, np.broadcast_to(p, (3, T)), w, v, al, d),
            strict=True,
        ):
            known.append(value)
        state.axes.append(axes)
    return state


def torque_regressor(tree: Tree, q: Float, dq: Float, ddq: Float, wanted: Bool) -> Panels:
    """As dynid.kernel.torque_regressor."""
    return _panels(tree, *torque_columns(tree, q, dq, ddq), wanted)


def torque_columns(tree: Tree, q: Float, dq: Float, ddq: Float) -> tuple[Motion, list[Columns]]:
    """Return the motion of all bodies, and for each body the wrenches that its ten parameters multiply."""
    state = motion(tree, q, dq, ddq, linear=False)
    return state, [_force_columns(state, j) for j in range(tree.n)]


def momentum_regressor(tree: Tree, q: Float, dq: Float, wanted: Bool) -> Panels:
    """As dynid.kernel.momentum_regressor."""
    state = motion(tree, q, dq, np.zeros_like(q))
    return _panels(tree, state, [momentum_columns(state.v[j], state.w[j]) for j in range(tree.n)], wanted)


def momentum_rate_regressor(tree: Tree, q: Float, dq: Float, wanted: Bool) -> Panels:
    """As dynid.kernel.momentum_rate_regressor.

    For a joint with axis (a, l) and a body with momentum (f, m), both in the body's frame, the joint's part of C' dq is
    f . (w x l + v x a) + m . (w x a), with the velocities of the joint's own body (Chavez-Olivares et al. 2012,
    generalised).
    """
    state = motion(tree, q, dq, np.zeros_like(q))
    fall = motion(tree, q, np.zeros_like(q), np.zeros_like(q)).d
    weight = []
    momenta = []
    for j in range(tree.n):
        zero = np.zeros_like(state.w[j])
        weight.append(momentum_columns(fall[j], zero))
        momenta.append(momentum_columns(state.v[j], state.w[j]))
    carried = _carried_velocities(tree, state)
    columns = joint_columns(tree, wanted)
    values = []
    for i in range(tree.n):
        lines = []
        for j in tree.subtrees[i]:
            a, l = state.axes[j][i]
            w, v = carried[j][i]
            da, dl = _cross(w, a), _cross(w, l) + _cross(v, a)
            for k in range(10):
                if wanted[10 * j + k]:
                    lines.append(
                        _dot(l, weight[j][0][k])
                        + _dot(a, weight[j][1][k])
                        - _dot(dl, momenta[j][0][k])
                        - _dot(da, momenta[j][1][k])
                    )
        values.append(_stacked(lines, len(q)))
    return Panels(columns, tuple(values))


def kinetic_energy_regressor(tree: Tree, q: Float, dq: Float, wanted: Bool) -> Float:
    """As dynid.kernel.kinetic_energy_regressor: 1/2 V' A(V) for each body."""
    state = motion(tree, q, dq, np.zeros_like(q))
    lines = []
    for j in range(tree.n):
        linear, angular = momentum_columns(state.v[j], state.w[j])
        for k in range(10):
            if wanted[10 * j + k]:
                lines.append(0.5 * (_dot(state.v[j], linear[k]) + _dot(state.w[j], angular[k])))
    return _stacked(lines, len(q))


def potential_energy_regressor(tree: Tree, q: Float, wanted: Bool) -> Float:
    """As dynid.kernel.potential_energy_regressor: -g.p in the column of the mass, -(R'g) in those of m c."""
    T = len(q)
    lines: list[Float] = []
    R: list[Float] = []
    position: list[Float] = []
    state = motion(tree, q, np.zeros_like(q), np.zeros_like(q))
    for j in range(tree.n):
        parent = int(tree.parent[j])
        if parent < 0:
            R.append(state.E[j])
            position.append(state.p[j])
        else:
            R.append(np.einsum("ikt,kjt->ijt", R[parent], state.E[j]))
            position.append(position[parent] + np.einsum("ijt,jt->it", R[parent], state.p[j]))
        height = [-(tree.gravity @ position[j]), *(-np.einsum("i,ijt->jt", tree.gravity, R[j]))]
        for k in range(10):
            if wanted[10 * j + k]:
                lines.append(height[k] if k < 4 else np.zeros(T))
    return _stacked(lines, T)


def inverse_dynamics(tree: Tree, inertia: Float, q: Float, dq: Float, ddq: Float) -> Float:
    """As dynid.kernel.inverse_dynamics, by the recursive Newton-Euler algorithm."""
    state = motion(tree, q, dq, ddq, linear=False)
    force = [np.zeros((3, len(q))) for _ in range(tree.n)]
    moment = [np.zeros((3, len(q))) for _ in range(tree.n)]
    tau = np.zeros_like(q)
    for j in reversed(range(tree.n)):
        w, al, d = state.w[j], state.al[j], state.d[j]
        m, h = inertia[j, 0], inertia[j, 1:4][:, None]
        Jw, Ja = _inertia_times(inertia[j], w), _inertia_times(inertia[j], al)
        force[j] = force[j] + m * d + _cross(al, h) + _cross(w, _cross(w, h))
        moment[j] = moment[j] + _cross(h, d) + Ja + _cross(w, Jw)
        tau[:, j] = tree.axis[j] @ (force[j] if tree.prismatic[j] else moment[j])
        parent = int(tree.parent[j])
        if parent >= 0:
            f = _into_parent(state.E[j], force[j])
            force[parent] = force[parent] + f
            moment[parent] = moment[parent] + _into_parent(state.E[j], moment[j]) + _cross(state.p[j], f)
    return tau


def equations_of_motion(tree: Tree, inertia: Float, q: Float, dq: Float) -> tuple[Float, Float]:
    """As dynid.kernel.equations_of_motion, with composite bodies accumulated from the tips to the base."""
    T, n = q.shape
    state = motion(tree, q, dq, np.zeros_like(q))
    M, h = np.zeros((T, n, n)), inverse_dynamics(tree, inertia, q, dq, np.zeros_like(q))
    mass = inertia[:, 0].copy()
    first = [np.repeat(pi[1:4, None], T, axis=1) for pi in inertia]
    second = [np.repeat(_matrix(pi)[:, :, None], T, axis=2) for pi in inertia]
    for j in reversed(range(n)):
        a, l = state.axes[j][j]
        push = mass[j] * l + _cross(a, first[j])
        turn = np.einsum("ijt,jt->it", second[j], a) + _cross(first[j], l)
        for i, (above_a, above_l) in state.axes[j].items():
            M[:, i, j] = M[:, j, i] = _dot(above_a, turn) + _dot(above_l, push)
        parent = int(tree.parent[j])
        if parent >= 0:
            E, p, g = state.E[j], state.p[j], _into_parent(state.E[j], first[j])
            moved = g + mass[j] * p
            mixed = np.einsum("it,jt->ijt", moved, p) + np.einsum("it,jt->ijt", p, g)
            turned = np.einsum("ijt,jkt,lkt->ilt", E, second[j], E)
            round_part = (_dot(p, g) + _dot(p, moved)) * np.eye(3)[:, :, None]
            mass[parent] += mass[j]
            first[parent] = first[parent] + moved
            second[parent] = second[parent] + turned + round_part - mixed
    return M, h


def momentum_columns(v: Float, w: Float) -> tuple[list[Float], list[Float]]:
    """Columns of A(V), with (linear; angular) momentum = A(V) pi: ten arrays (3, T) each."""
    zero = np.zeros_like(v[0])
    linear = [v, *_cross_columns(w), *([np.zeros_like(v)] * 6)]
    x, y, z = w
    angular = [
        np.zeros_like(v),
        *_crossed_columns(v),
        _column(x, zero, zero),
        _column(y, x, zero),
        _column(zero, y, zero),
        _column(z, zero, x),
        _column(zero, z, y),
        _column(zero, zero, z),
    ]
    return linear, angular


# Rows of a column (3, T); None = zero.
Rows = tuple[Float | None, Float | None, Float | None]
# Columns (linear, angular) of a body's ten parameters.
Columns = tuple[Sequence[Float | Rows], Sequence[Float | Rows]]


def _force_columns(state: Motion, j: int) -> tuple[list[Rows], list[Rows]]:
    # B = [al]x + [w]x[w]x and K(al) + [w]x K(w) written out, so that products of components of w are shared.
    w, al, d = state.w[j], state.al[j], state.d[j]
    (x, y, z), (ax, ay, az), (dx, dy, dz) = w, al, d
    xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
    nothing: Rows = (None, None, None)
    linear: list[Rows] = [
        (dx, dy, dz),
        (-yy - zz, az + xy, xz - ay),
        (xy - az, -xx - zz, ax + yz),
        (ay + xz, yz - ax, -xx - yy),
    ]
    angular: list[Rows] = [
        nothing,
        (None, -dz, dy),
        (dz, None, -dx),
        (-dy, dx, None),
        (ax, xz, -xy),
        (ay - xz, ax + yz, xx - yy),
        (-yz, ay, xy),
        (az + xy, zz - xx, ax - yz),
        (yy - zz, az - xy, ay + xz),
        (yz, -xz, az),
    ]
    return linear, angular


def _panels(tree: Tree, state: Motion, bodies: Sequence[Columns], wanted: Bool) -> Panels:
    columns, T = joint_columns(tree, wanted), state.w[0].shape[1]
    values = tuple(np.empty((len(regressor_columns), T)) for regressor_columns in columns)
    for i, (regressor_columns, lines) in enumerate(zip(columns, values, strict=True)):
        write_joint(state, bodies, i, regressor_columns, lines)
    return Panels(columns, values)


def write_joint(state: Motion, bodies: Sequence[Columns], joint: int, columns: Int, lines: Float) -> None:
    """Write columns of a joint's regressor into lines of an array.

    Parameters
    ----------
    state : Motion
        Motion of all bodies.
    bodies : sequence of Columns
        Columns of each body.
    joint : int
        The joint.
    columns : ndarray of int, shape (w,)
        Wanted columns.
    lines : ndarray, shape (w, T)
        Output.

    """
    # A mass has no moment about the frame's origin, and second moments have no force.
    product = np.empty(lines.shape[1])
    for line, column in zip(lines, columns.tolist(), strict=True):
        j, k = divmod(column, 10)
        a, l = state.axes[j][joint]
        linear, angular = bodies[j]
        empty = True
        if k < 4:
            empty = _add_dot(l, linear[k], line, product, empty)
        if k > 0:
            empty = _add_dot(a, angular[k], line, product, empty)
        if empty:
            line[:] = 0.0


def _carried_velocities(tree: Tree, state: Motion) -> list[dict[int, tuple[Float, Float]]]:
    # Velocity (w, v) of body i, extended rigidly to the origin of its descendant j and expressed in its frame.
    carried: list[dict[int, tuple[Float, Float]]] = []
    for j in range(tree.n):
        parent = int(tree.parent[j])
        here = {j: (state.w[j], state.v[j])}
        if parent >= 0:
            for i, (w, v) in carried[parent].items():
                here[i] = (_into_child(state.E[j], w), _into_child(state.E[j], v + _cross(w, state.p[j])))
        carried.append(here)
    return carried


def _inertia_times(pi: Float, x: Float) -> Float:
    return np.asarray(_matrix(pi) @ x)


def _matrix(pi: Float) -> Float:
    xx, xy, yy, xz, yz, zz = pi[4:]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _rotated(R: Float, axis: Float, angle: Float) -> Float:
    # R (1 + K sin + K^2 (1 - cos)), (3, 3, T), by Rodrigues.
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    parts = np.stack([R, R @ K, R @ K @ K], axis=-1).reshape(9, 3)
    powers = np.stack([np.ones_like(angle), np.sin(angle), 1.0 - np.cos(angle)])
    return np.asarray((parts @ powers).reshape(3, 3, -1))


def _into_child(E: Float, x: Float) -> Float:
    if x.shape[1] == 1:  # constant
        return np.asarray((x.T @ E.reshape(3, -1)).reshape(3, -1))
    return np.asarray(np.einsum("ijt,it->jt", E, x))


def _into_parent(E: Float, x: Float) -> Float:
    return np.asarray(np.einsum("ijt,jt->it", E, x))


def _column(x: Float, y: Float, z: Float) -> Float:
    column = np.empty((3, len(x)))
    column[0], column[1], column[2] = x, y, z
    return column


def _cross(a: Float, b: Float) -> Float:
    result = np.empty((3, a.shape[1] if b.shape[1] == 1 else b.shape[1]))
    product = np.empty(result.shape[1])
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        np.multiply(a[j], b[k], result[i])
        np.multiply(a[k], b[j], product)
        np.subtract(result[i], product, result[i])
    return result


def _cross_columns(a: Float) -> list[Float]:
    zero = np.zeros_like(a[0])
    return [_column(zero, a[2], -a[1]), _column(-a[2], zero, a[0]), _column(a[1], -a[0], zero)]


def _crossed_columns(a: Float) -> list[Float]:
    # Cross products of unit vectors with a: columns of -[a]x.
    zero = np.zeros_like(a[0])
    return [_column(zero, -a[2], a[1]), _column(a[2], zero, -a[0]), _column(-a[1], a[0], zero)]


def _add_dot(a: Float, b: Float | Rows, line: Float, product: Float, empty: bool) -> bool:
    # If `empty`, line (T,) = a . b, else line += a . b; returns whether line is still empty. product (T,) is scratch.
    for row, other in zip(a, b, strict=True):
        if other is None or (len(row) == 1 and row[0] == 0.0):
            continue
        if empty:
            np.multiply(row, other, line)
            empty = False
        else:
            np.multiply(row, other, product)
            np.add(line, product, line)
    return empty


def _dot(a: Float, b: Float) -> Float:
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def _stacked(lines: list[Float], T: int) -> Float:
    return np.stack(lines) if lines else np.zeros((0, T))
