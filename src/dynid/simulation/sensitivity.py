"""How a simulated run changes with its parameters and its first state: the variational equation along the run."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel.multibody import variation, variational
from dynid.simulation.loop import Feedback, Run
from dynid.simulation.mechanism import Extra, Mechanism

CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Output:
    """What slopes are wanted of: y = by_x x + by_v v of the coordinates `at`, (r,) each."""

    at: Int
    by_x: Float
    by_v: Float

    @staticmethod
    def positions(size: int) -> Output:
        """All positions."""
        return Output(np.arange(size), np.ones(size), np.zeros(size))


def sensitivity(
    mechanism: Mechanism,
    run: Run,
    extra: Extra,
    feedback: Feedback,
    rate: float,
    wanted: Bool,
    first_state: bool,
    output: Output,
) -> Float:
    """Slopes of an output along a run, (B, K, r, w + 2 s): by the w wanted parameters, then the first x and first v.

    Solves M da = -f_x dx - f_v dv - Y dtheta + du, du = -kp dx - kd dv, over the samples by Lobatto's rule IIIC.
    It is of second order and damps what is stiffer than a step is short, as the steps of the run do; the trapezoidal
    rule would let that ring. Source: Hairer and Wanner 1996, table IV.5.9.

    f_x, f_v: slopes of the inverse dynamics at the run's own accelerations, so that the mass matrix's are in them.
    extra: channels (B, K, ...).    rate: of the samples, Hz.    first_state: whether the 2 s last columns are wanted.
    """
    system, parameters = mechanism.multibody, mechanism.parameters(wanted)
    if (
        system is not None
        and parameters is not None
        and (system.width > 0).all()
        and system.native() is not None
    ):
        gains = np.stack([np.broadcast_to(gain, (mechanism.n,)) for gain in (feedback.kp, feedback.kd)])
        outputs = np.stack([output.at, output.by_x, output.by_v]).astype(np.float64)
        return variation(system, (run.x, run.v, run.a), gains, outputs, parameters, 1.0 / rate, first_state)
    J, G = _linear(mechanism, run, extra, feedback, wanted)
    x, v = variational(J[:, :, J.shape[2] // 2 :], G, 1.0 / rate, first_state) or _integrated(
        J, G, rate, first_state
    )
    return np.asarray(output.by_x[:, None] * x[:, :, output.at] + output.by_v[:, None] * v[:, :, output.at])


def _integrated(J: Float, G: Float, rate: float, first_state: bool) -> tuple[Float, Float]:
    B, K, s, w = G.shape
    tail = 2 * s if first_state else 0
    z = np.zeros((B, 2 * s, w + tail))
    if first_state:
        z[:, :, w:] = np.eye(2 * s)
    X, V = np.zeros((B, K, s, w + tail)), np.zeros((B, K, s, w + tail))
    h = 1.0 / rate
    unit = np.eye(2 * s)
    for k in range(K):
        X[:, k], V[:, k] = z[:, :s], z[:, s:]
        if k + 1 < K:
            here, there = J[:, k], J[:, k + 1]
            right = np.array(z)
            right[:, s:, :w] += 0.5 * h * (G[:, k] + G[:, k + 1])
            right[:, :, :w] -= 0.5 * h**2 * (here[:, :, s:] @ G[:, k + 1])
            z = np.linalg.solve(unit - 0.5 * h * (here + there) + 0.5 * h**2 * (here @ there), right)
    return X, V


def _linear(
    mechanism: Mechanism, run: Run, extra: Extra, feedback: Feedback, wanted: Bool
) -> tuple[Float, Float]:
    # d(x, v)/dt = J (x, v) + (0, G theta): (B, K, 2 s, 2 s) and (B, K, s, w), chunk by chunk.
    B, K, s = run.x.shape
    x, v, a = (np.reshape(part, (B * K, s)) for part in (run.x, run.v, run.a))
    flat = {name: values.reshape(B * K, *values.shape[2:]) for name, values in extra.items()}
    J = np.zeros((B * K, 2 * s, 2 * s))
    J[:, :s, s:] = np.eye(s)
    G = np.zeros((B * K, s, int(wanted.sum())))
    place = mechanism.driven
    for first in range(0, B * K, CHUNK):
        part = slice(first, first + CHUNK)
        own = {name: values[part] for name, values in flat.items()}
        f_x, f_v = mechanism.slopes(x[part], v[part], a[part], own)
        f_x[:, place, place] += feedback.kp
        f_v[:, place, place] += feedback.kd
        Y = mechanism.regressor(x[part], v[part], a[part], own, wanted)
        M = mechanism.equations(x[part], v[part], own)[0]
        found = -np.linalg.solve(M, np.concatenate([f_x, f_v, Y], axis=2))
        J[part, s:] = found[:, :, : 2 * s]
        G[part] = found[:, :, 2 * s :]
    return J.reshape(B, K, 2 * s, 2 * s), G.reshape(B, K, s, -1)
