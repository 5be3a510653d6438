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

from dynid_bench.protocol import Answer, Motion, Task, serve

# user's code: begin
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
    panels = (np.atleast_2d(pin.computeJointTorqueRegressor(arm.model, data, *state)) for state in tree)
    rigid = np.array([P.T @ panel for panel in panels])
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


# user's code: end


def run(task: Task) -> Answer:
    """Fit the training motion; payload and intervals come from two more fits."""
    model = pin.buildModelFromUrdf(str(task.robot))
    n = len(task.joints)
    arm = Arm(model, np.eye(n), np.zeros(n), np.asarray(task.motors).reshape(-1, n))
    panels, torques = prepared(arm, task.train, task.cutoff)
    theta = fit(panels, torques)
    torque = {name: regressor(arm, m.q, m.dq, m.ddq) @ theta for name, m in task.held_out.items()}
    names, base = base_columns(arm)
    A, tau = np.concatenate(panels)[:, :, base], np.concatenate(torques)
    weight = 1.0 / (tau - np.concatenate(panels) @ theta).std(axis=0)
    x, deviation = textbook((A * weight[:, None]).reshape(-1, len(base)), (tau * weight).ravel())
    parameters = {name: (v, 1.96 * s) for name, v, s in zip(names, x, deviation, strict=True)}
    payload = payload_mass(arm, task, theta) if task.loaded else None
    return Answer(torque, parameters, payload, packages=("pin", "scipy", "numpy"))


def prepared(arm: Arm, motions: Sequence[Motion], cutoff: float) -> tuple[list[Float], list[Float]]:
    """Equations of several motions."""
    parts = [equations(arm, motion, cutoff) for motion in motions]
    return [Y for Y, _, _ in parts], [tau for _, tau, _ in parts]


def base_columns(arm: Arm) -> tuple[list[str], list[int]]:
    """Columns of base parameters, the same for every log of a robot: by QR of random states."""
    rng, n = np.random.default_rng(0), arm.P.shape[1]
    Y = regressor(arm, *rng.normal(size=(3, 50, n))).reshape(50 * n, -1)
    scale = np.maximum(np.linalg.norm(Y, axis=0), 1e-12)
    R, order = qr(Y / scale, mode="r", pivoting=True)
    base = sorted(order[: int((np.abs(np.diag(R)) > DEPENDENT * abs(R[0, 0])).sum())].tolist())
    return [f"column {i}" for i in base], base


def textbook(A: Float, b: Float) -> tuple[Float, Float]:
    """Least squares with the standard deviations of independent residuals."""
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    variance = float(np.sum((b - A @ x) ** 2)) / (len(A) - A.shape[1])
    return np.asarray(x), np.asarray(np.sqrt(variance * np.diag(np.linalg.pinv(A.T @ A))))


def payload_mass(arm: Arm, task: Task, theta: Float) -> tuple[float, float]:
    """Mass of the load from what the model without it leaves over."""
    last = slice(10 * (arm.model.njoints - 2), 10 * (arm.model.njoints - 1))
    panels, torques = prepared(arm, task.loaded, task.cutoff)
    A = np.concatenate(panels)[:, :, last].reshape(-1, 10)
    x, deviation = textbook(A, (np.concatenate(torques) - np.concatenate(panels) @ theta).ravel())
    return float(x[0]), float(1.96 * deviation[0])


if __name__ == "__main__":
    serve(run)
