"""What models make of torque that is a function of time: many candidates at once, with friction as stiff as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.simulation.forward import ForwardModel
from dynid.trajectories.torque_sines import TorqueSinusoids

GAMMA = 1.0 - 0.5 * np.sqrt(2.0)
NUDGE, RUNAWAY = 1e-4, 1e4


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
            off = ~(np.isfinite(ddq).all(axis=1) & (np.abs(dq).max(axis=1) < RUNAWAY))
            if off.any():
                fine &= ~off
                q[off], dq[off], ddq[off] = start, 0.0, 0.0
            found[:, :, i] = q, dq, ddq
            if i + 1 < len(t):
                for k in range(i * substeps, (i + 1) * substeps):
                    q, dq = _step(model, q, dq, torque[k], torque[k + 1], h)
    return Swings(found[0], found[1], found[2], fine)


def _step(model: ForwardModel, q: Float, dq: Float, now: Float, then: Float, h: float) -> tuple[Float, Float]:
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
    k2 = _solved(A, (M @ (a1 - 2.0 * k1)[..., None])[..., 0])
    p2 = dq + h * k1 - 2.0 * p1 + GAMMA * h * k2
    return q + h * (1.5 * p1 + 0.5 * p2), dq + h * (1.5 * k1 + 0.5 * k2)


def _solved(A: Float, b: Float) -> Float:
    try:
        return np.asarray(np.linalg.solve(A, b[..., None])[..., 0])
    except np.linalg.LinAlgError:
        # One singular matrix must not end the others' motions.
        singular = np.abs(np.linalg.det(A)) == 0.0
        A = np.where(singular[:, None, None], np.nan, A)
        return np.asarray(np.linalg.solve(A, b[..., None])[..., 0])


def _table(candidates: Sequence[TorqueSinusoids], t: Float, substeps: int) -> Float:
    times = np.linspace(t[0], t[-1], (len(t) - 1) * substeps + 1)
    return np.stack([one.torque(times) for one in candidates], axis=1)
