"""What an engineer writes in an afternoon: weighted least squares with pinocchio, SciPy and NumPy, and nothing else.

Rigid-body regressor, tanh Coulomb, viscous, offset and rotor inertia a joint (and a motor that turns with two joints),
zero-phase Butterworth over both sides of the equations, base parameters by pivoted QR, weights from the variance of
each joint's residual. It is the least that an identification has to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.signal import butter, sosfiltfilt

Float = NDArray[np.float64]
ORDER = 4  # of the one-way filter
COULOMB_WIDTH = 0.02  # rad/s or m/s, of tanh
DEPENDENT = 1e-6  # a scaled column that adds less than this to the others depends on them
ROWS_PER_PERIOD = 5.0  # rows kept a period of the cut-off
REST = 0.02  # rad/s or m/s; a sample counts as motion where some joint is faster


@dataclass(frozen=True)
class Arm:
    """tau = P' tau_tree, q_tree = P q + offset for joints that mimic others; motors (k, n) turn with two joints."""

    model: pin.Model
    P: Float
    offset: Float
    motors: Float


@dataclass(frozen=True)
class Motion:
    """t (T,) s; q, dq, tau (T, n) at the joints, SI; dq = None: positions are differentiated."""

    t: Float
    q: Float
    dq: Float | None
    tau: Float


def equations(arm: Arm, motion: Motion, cutoff: float) -> tuple[Float, Float, NDArray[np.bool_]]:
    """Y (K, n, p) and tau (K, n) of tau = Y theta, and where the arm moves (K,); the filters' edges are left out."""
    step = float(np.median(np.diff(motion.t)))
    t = np.arange(motion.t[0], motion.t[-1], step)
    sections = butter(ORDER, min(cutoff * step, 0.45), fs=1.0, output="sos")

    def smooth(values: Float) -> Float:
        return np.asarray(sosfiltfilt(sections, values, axis=0))

    def resampled(values: Float) -> Float:
        return smooth(np.column_stack([np.interp(t, motion.t, line) for line in values.T]))

    q, tau = resampled(motion.q), resampled(motion.tau)
    dq = np.gradient(q, step, axis=0) if motion.dq is None else resampled(motion.dq)
    Y = smooth(regressor(arm, q, dq, np.gradient(dq, step, axis=0)))
    edge = int(np.ceil(1.0 / (cutoff * step)))
    kept = slice(edge, len(t) - edge, max(int(1.0 / (ROWS_PER_PERIOD * cutoff * step)), 1))
    return Y[kept], smooth(tau)[kept], (np.abs(dq[kept]) >= REST).any(axis=1)


def regressor(arm: Arm, q: Float, dq: Float, ddq: Float) -> Float:
    """Panels (T, n, p): ten inertial parameters a body, then Coulomb, viscous and rotor, then offsets."""
    data, P, n = arm.model.createData(), arm.P, q.shape[1]
    tree = zip(q @ P.T + arm.offset, dq @ P.T, ddq @ P.T, strict=True)
    rigid = np.array([P.T @ pin.computeJointTorqueRegressor(arm.model, data, *state) for state in tree])
    sides = np.vstack([np.eye(n), arm.motors])  # (s, n), each with friction and a rotor of its own
    speed, rise = dq @ sides.T, ddq @ sides.T
    joint = [np.einsum("ts,sn->tns", f, sides) for f in (np.tanh(speed / COULOMB_WIDTH), speed, rise)]
    return np.concatenate([rigid, *joint, np.broadcast_to(np.eye(n), (len(q), n, n))], axis=2)


def fit(panels: Sequence[Float], torques: Sequence[Float]) -> Float:
    """Parameters (p,) by weighted least squares over equations of several motions; dependent ones are zero."""
    Y, tau = np.concatenate(panels), np.concatenate(torques)
    K, n, p = Y.shape
    scale = np.linalg.norm(Y.reshape(K * n, p), axis=0)
    alive = np.flatnonzero(scale > 0)
    Y = Y[:, :, alive] / scale[alive]
    R, order = qr(Y.reshape(K * n, -1), mode="r", pivoting=True)
    base = order[: int((np.abs(np.diag(R)) > DEPENDENT * abs(R[0, 0])).sum())]
    weight = np.ones(n)
    for _ in range(2):  # the first round, of ordinary least squares, gives the weights
        A = (Y[:, :, base] * weight[:, None]).reshape(K * n, -1)
        x = np.linalg.lstsq(A, (tau * weight).ravel(), rcond=None)[0]
        weight = 1.0 / np.maximum((tau - Y[:, :, base] @ x).std(axis=0), 1e-12)
    theta = np.zeros(p)
    theta[alive[base]] = x / scale[alive[base]]
    return theta
