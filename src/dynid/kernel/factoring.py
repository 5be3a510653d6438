"""Triangular factors and filter cascades in NumPy and SciPy: reference and replacement of the native kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.kernel import reference
from dynid.kernel.tree import Tree, joint_columns

# Samples per shard: larger shards take more memory, smaller ones more calls.
SHARD = 4096


def factor_torque(
    tree: Tree,
    q: Float,
    dq: Float,
    ddq: Float,
    tau: Float,
    extra: Sequence[Float],
    wanted: Bool,
    method: str,
) -> list[Float]:
    """As dynid.kernel.factor_torque, shard by shard."""
    columns, total = joint_columns(tree, wanted), list[Float]()
    # One buffer for all joints and shards: allocating memory for each takes as long as the computation.
    space = np.empty((max(len(c) + len(e) + 1 for c, e in zip(columns, extra, strict=True)), SHARD))
    for start in range(0, max(len(q), 1), SHARD):
        part = slice(start, start + SHARD)
        state, bodies = reference.torque_columns(tree, q[part], dq[part], ddq[part])
        joints = []
        for j, (regressor_columns, further) in enumerate(zip(columns, extra, strict=True)):
            panel = space[: len(regressor_columns) + len(further) + 1, : len(q[part])]
            reference.write_joint(state, bodies, j, regressor_columns, panel[: len(regressor_columns)])
            panel[len(regressor_columns) : -1], panel[-1] = further[:, part], tau[part, j]
            joints.append(qr_panel(panel) if method == "qr" else panel @ panel.T)
        if not total:
            total = joints
        elif method == "gram":
            total = [a + b for a, b in zip(total, joints, strict=True)]
        else:
            total = [qr_panel(np.concatenate([a, b]).T) for a, b in zip(total, joints, strict=True)]
    return total


def gathered_gram(lines: Float, ends: Int, places: Int, weights: Float, size: int) -> Float:
    """As dynid.kernel.gathered_gram."""
    total = np.zeros((size, size))
    for (first, last), weight in zip(pairwise(ends), weights, strict=True):
        at, group = places[first:last], lines[first:last]
        total[np.ix_(at, at)] += weight * (group @ group.T)
    return total


def qr_panel(panel: Float) -> Float:
    """As dynid.kernel.qr_panel."""
    from scipy.linalg import qr

    m = panel.shape[0]
    R = np.zeros((m, m))
    (triangle,) = qr(np.asarray(panel, dtype=np.float64).T, mode="r", check_finite=False)
    triangle = triangle[:m]
    R[: len(triangle)] = np.triu(triangle)
    return R * np.where(np.signbit(np.diag(R)), -1.0, 1.0)[:, None]


def triangle_solve(a: Float, b: Float, transposed: bool, lower: bool) -> Float:
    """As dynid.kernel.solve_triangular, without checks of finite numbers and a non-zero diagonal."""
    from scipy.linalg.lapack import dtrtrs

    # LAPACK stores matrices by column, so it sees the transpose.
    return np.asarray(dtrtrs(a.T, b, lower=not lower, trans=not transposed)[0])


def zero_phase(lines: Float, sos: Float, settled: Float, pad: int, start: int, step: int) -> Float:
    """As dynid.kernel.zero_phase."""
    from scipy.signal import sosfilt  # imported here, since the import takes a second

    if lines.shape[0] == 0:
        return np.array(lines[:, start::step], dtype=np.float64)
    T = lines.shape[1]
    head = 2.0 * lines[:, :1] - lines[:, pad:0:-1]
    tail = 2.0 * lines[:, -1:] - lines[:, T - 2 : T - pad - 2 if T - pad - 2 >= 0 else None : -1]
    x = np.concatenate([head, lines, tail], axis=1)
    for _ in range(2):
        x, _ = sosfilt(sos, x, axis=1, zi=settled[:, None, :] * x[None, :, :1])
        x = x[:, ::-1]
    return np.ascontiguousarray(x[:, pad : pad + T][:, start::step])


def line_unevenness(lines: Float, share: float) -> Float:
    """As dynid.kernel.line_unevenness, over all samples."""
    three = lines[:, 3:] - lines[:, :-3]
    size = np.abs(three[:, 3:-3] - 0.5 * (three[:, :-6] + three[:, 6:]))
    most = size.max(axis=1)
    return np.stack([most, np.count_nonzero(size < share * most[:, None], axis=1)], axis=1)


def stopped(points: Iterable[float], before: float, state: float) -> tuple[float, float]:
    """Return the last of some points and the state of the stop operator there, from its state at `before`."""
    for x in points:
        state = min(max(state + (x - before), -1.0), 1.0)
        before = x
    return before, state


def stop_operator(path: Float, before: float, state: float) -> Float:
    """States of the stop operator along a path (T,), from its state at position `before`."""
    states = []
    for x in path.tolist():  # not vectorised: each state depends on the previous one
        before, state = x, min(max(state + (x - before), -1.0), 1.0)
        states.append(state)
    return np.array(states)
