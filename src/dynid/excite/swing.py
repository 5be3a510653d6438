"""What models make of torque that is a function of time: many candidates at once, with friction as stiff as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.arrays import Bool, Float
from dynid.excite.torque_sines import TorqueSinusoids
from dynid.simulate.forward import ForwardModel

GAMMA = 1.0 - 0.5 * np.sqrt(2.0)
NUDGE = 1e-4


@dataclass(frozen=True, eq=False)
class Swings:
    """Motions of B candidates at T times.    q, dq, ddq: (B, T, n).    fine: (B,) which stayed finite."""

    q: Float
    dq: Float
    ddq: Float
    fine: Bool


def swing(
    model: ForwardModel,
    candidates: Sequence[TorqueSinusoids],
    start: Float,
    t: Float,
    substeps: int = 1,
    stop: Callable[[], bool] | None = None,
) -> Swings:
    """The motions from rest at a pose (n,) under torque, at uniform times t (T,).

    y' = F(t, y) by the W-method of order 2 with the damping D of each joint as its Jacobian:
        (M + gamma h D) k1 = tau - c,    (M + gamma h D) k2 = M (F(y + h k1) - 2 k1),    y+ = y + h (3 k1 + k2) / 2.
    Friction that turns over within a hundredth of the velocity asks for no shorter step than the bodies do.
    substeps: steps from one time to the next.    A motion that runs off is kept at zero and not fine.
    stop: asked at every time; once it says True the rest of the motion is left at zero and nothing is fine.
    Source: Verwer, Spee, Blom and Hundsdorfer 1999 (ROS2, of order 2 with any Jacobian).
    """
    torque = _table(candidates, t, substeps)
    B, n = len(candidates), len(start)
    h = float(t[1] - t[0]) / substeps
    q, dq = np.tile(start, (B, 1)), np.zeros((B, n))
    found = np.zeros((3, B, len(t), n))
    fine = np.ones(B, dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(t)):
            if stop is not None and stop():
                fine[:] = False
                break
            M, c = model.equations(q, dq)
            ddq = _solved(M, torque[i * substeps] - c)
            off = ~(np.isfinite(ddq).all(axis=1) & np.isfinite(q).all(axis=1) & (np.abs(dq).max(axis=1) < 1e4))
            if off.any():
                fine &= ~off
                q[off], dq[off], ddq[off] = start, 0.0, 0.0
            found[:, :, i] = q, dq, ddq
            if i + 1 < len(t):
                for k in range(i * substeps, (i + 1) * substeps):
                    q, dq = _step(model, q, dq, torque[k], torque[k + 1], h)
    return Swings(found[0], found[1], found[2], fine)


def _step(
    model: ForwardModel, q: Float, dq: Float, now: Float, then: Float, h: float
) -> tuple[Float, Float]:
    M, c = model.equations(q, dq)
    _, nudged = model.equations(q, dq + NUDGE)
    damping = np.maximum((nudged - c) / NUDGE, 0.0)
    A = M.copy()
    diagonal = np.arange(q.shape[1])
    A[:, diagonal, diagonal] += GAMMA * h * damping
    k1 = _solved(A, now - c)
    p1 = dq + GAMMA * h * k1
    M1, c1 = model.equations(q + h * p1, dq + h * k1)
    a1 = _solved(M1, then - c1)
    k2 = _solved(A, np.einsum("bij,bj->bi", M, a1 - 2.0 * k1))
    p2 = dq + h * k1 - 2.0 * p1 + GAMMA * h * k2
    return q + h * (1.5 * p1 + 0.5 * p2), dq + h * (1.5 * k1 + 0.5 * k2)


def _solved(A: Float, b: Float) -> Float:
    good = np.isfinite(A).all(axis=(1, 2)) & np.isfinite(b).all(axis=1)
    safe = np.where(good[:, None, None], A, np.eye(A.shape[1]))
    return np.where(good[:, None], np.linalg.solve(safe, np.where(good[:, None], b, 0.0)[..., None])[..., 0], np.nan)


def _table(candidates: Sequence[TorqueSinusoids], t: Float, substeps: int) -> Float:
    times = np.linspace(t[0], t[-1], (len(t) - 1) * substeps + 1)
    return np.stack([one.torque(times) for one in candidates], axis=1)
