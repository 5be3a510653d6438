"""A model run again under the controllers of its drives, which see its own motion; with the slopes of the steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import SolverError
from dynid.kernel import solved
from dynid.kernel.multibody import Control, Held, rollout
from dynid.signals.samples import Samples
from dynid.simulation.loop import FAR, Feedback, Stretches, extra_of, measured_coordinates
from dynid.simulation.mechanism import Mechanism

# Ticks of the controller in a sample at most: a held torque comes half a tick later, which must not exceed the lag.
MOST_TICKS = 8
# Steps of a tick: so many that the fastest decay, of friction near rest, is followed; Runge-Kutta is stable to 2.78.
DECAY_A_STEP, MOST_STEPS = 1.0, 40


@dataclass(frozen=True, eq=False)
class ServoLoop:
    """The drives' linear controllers: u(t) = tau(t) + kp (x_m - x)(t - lag) + kd (v_m - v)(t - lag).

    tau is the torque that the controllers made of commands and measured motion x_m, lag included. What they would have
    made of the simulated motion x instead is exactly this, whatever the commands were, short of their limits.

    feedback: gains at the joints.    lag: s, from a motion to its torque.
    later: s, by which tau is to come later than it stands in the samples, the lag with it.
    on_board: whether the loop is closed in the drives, so that commands alone are late: the feedback then has no lag,
        and tau + kp x_m + kd v_m, which commands made, is what comes later.
    """

    feedback: Feedback
    lag: float
    later: float = 0.0
    on_board: bool = False

    @property
    def feedback_lag(self) -> float:
        """S, from a motion to its torque."""
        return 0.0 if self.on_board else self.lag + self.later

    def ticks(self, rate: float) -> int:
        """Ticks of the controller in a sample."""
        count = 1
        while 0.5 / rate / count > self.feedback_lag and count < MOST_TICKS:
            count *= 2
        return count


@dataclass(frozen=True, eq=False)
class ServoRun:
    """A run of B stretches of K samples: x, v (B, K, s); dx (B, K, s, w) by the wanted parameters, or None."""

    x: Float
    v: Float
    dx: Float | None


def servo_run(
    mechanism: Mechanism,
    samples: Samples,
    loop: ServoLoop,
    stretches: Stretches,
    wanted: Bool | None = None,
    threads: int = 1,
) -> ServoRun:
    """Simulates every stretch from its first measured state by Runge-Kutta steps, with their exact slopes.

    wanted: (p,) parameters whose slopes are asked for.    The same for both kernels, to rounding.
    Raises SolverError where a run goes astray or the mass matrix is not positive definite.
    """
    rate, ticks = samples.rate, loop.ticks(samples.rate)
    h = 1.0 / rate / ticks
    x, v = (part[stretches.index] for part in measured_coordinates(mechanism, samples))
    place = mechanism.driven
    count = _steps(mechanism, x[:, 0], extra_at(mechanism, samples, stretches, np.zeros(1)), h)
    held = Held.of(max(loop.feedback_lag / h - 0.5, 0.0), count)
    K = stretches.index.shape[1]
    rows = held.rows((K - 1) * ticks + 1) / ticks
    at = np.arange((K - 1) * ticks + 1) / ticks
    feedback, tau = loop.feedback, samples.tau[stretches.index]
    if loop.on_board:
        back = feedback.kp * x[..., place] + feedback.kd * v[..., place]
        drive = cubic(tau + back, rows - loop.later * rate) - cubic(back, rows)
    else:
        drive = cubic(tau, rows - loop.later * rate)
    task = _Task(
        np.concatenate([x[:, 0], v[:, 0]], axis=1),
        h,
        replace(held, drive=drive),
        feedback,
        cubic(x[..., place], at),
        cubic(v[..., place], at),
    )
    system = mechanism.multibody
    parameters = () if wanted is None else mechanism.parameters(wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        if system is not None and system.native() is not None and parameters is not None:
            control = Control(mechanism.n, loop.feedback.kp, loop.feedback.kd, q=task.q, v=task.v)
            made = rollout(
                system, task.start, len(at), h, held.count, control, task.held, parameters, threads=threads
            )
            found = ServoRun(made.x, made.v, made.dx)
        else:
            found = _by_numpy(mechanism, task, extra_at(mechanism, samples, stretches, rows), wanted)
    found = ServoRun(
        found.x[:, ::ticks], found.v[:, ::ticks], None if found.dx is None else found.dx[:, ::ticks]
    )
    astray = ~(np.abs(found.x - x) < FAR).all(axis=(0, 2))
    if astray.any():
        first = float(samples.t[stretches.index[:, int(np.argmax(astray))]].min())
        raise SolverError(
            "diverged",
            found=f"a simulated run that leaves the measured one at t = {first:.4g} s",
            expected="a model that the controllers hold",
            do="check kp, kd and the delay under [drive], or use 'wls'",
        )
    return found


def cubic(values: Float, at: Float) -> Float:
    """Values (B, K >= 4, ...) at times (R,) counted in samples, by cubics through four neighbours."""
    K = values.shape[1]
    k = np.clip(np.floor(at).astype(np.int64) - 1, 0, K - 4)
    r = (at - k - 1).reshape(1, -1, *(1,) * (values.ndim - 2))
    weights = (
        -r * (r - 1) * (r - 2) / 6,
        (r + 1) * (r - 1) * (r - 2) / 2,
        -(r + 1) * r * (r - 2) / 2,
        (r + 1) * r * (r - 1) / 6,
    )
    return np.asarray(sum(w * values[:, k + i] for i, w in enumerate(weights)))


def extra_at(mechanism: Mechanism, samples: Samples, stretches: Stretches, at: Float) -> dict[str, Float]:
    """Channels (B, R, ...) that the model's terms read, at times (R,) of each stretch."""
    return {name: cubic(values[stretches.index], at) for name, values in extra_of(mechanism, samples).items()}


@dataclass(frozen=True, eq=False)
class _Task:
    # start: (B, 2 s).    h: of a tick.    q, v: (B, ticks, n) measured motion of the drives.
    start: Float
    h: float
    held: Held
    feedback: Feedback
    q: Float
    v: Float


def _steps(mechanism: Mechanism, x: Float, extra: dict[str, Float], h: float) -> int:
    still = np.zeros_like(x)
    now = {name: values[:, 0] for name, values in extra.items()}
    M = mechanism.equations(x, still, now)[0]
    try:
        inverse = np.diagonal(np.linalg.inv(M), axis1=1, axis2=2)
    except np.linalg.LinAlgError:
        return 1
    decay = float(np.max(np.abs(inverse) * mechanism.damping(x, still, now)))
    return int(np.clip(np.ceil(h * decay / DECAY_A_STEP), 1, MOST_STEPS)) if np.isfinite(decay) else 1


def _by_numpy(mechanism: Mechanism, task: _Task, extra: dict[str, Float], wanted: Bool | None) -> ServoRun:
    # State after state: y = (x, v), and its slopes z (B, 2 s, w).
    s, place, held, feedback = mechanism.size, mechanism.driven, task.held, task.feedback
    B, K = task.q.shape[:2]
    w = 0 if wanted is None else int(wanted.sum())
    y, z = np.array(task.start), np.zeros((B, 2 * s, w))
    queue = [np.zeros((B, mechanism.n))] * (held.delay + 2)
    slopes = [np.zeros((B, mechanism.n, w))] * (held.delay + 2)
    X, V, Z = np.empty((B, K, s)), np.empty((B, K, s)), np.empty((B, K, s, w))
    drive = held.drive

    def rate(row: int, y: Float, z: Float, u: Float, du: Float) -> tuple[Float, Float]:
        x, v = y[:, :s], y[:, s:]
        now = {name: np.ascontiguousarray(values[:, row]) for name, values in extra.items()}
        M, bias = mechanism.equations(x, v, now)
        torque = u if drive is None else u + drive[:, row]
        a = solved(M, mechanism.on_coordinates(torque) - bias)
        if wanted is None:
            return np.concatenate([v, a], axis=1), z
        f_x, f_v = mechanism.slopes(x, v, a, now)
        force = -(f_x @ z[:, :s] + f_v @ z[:, s:]) - mechanism.regressor(x, v, a, now, wanted)
        force[:, place] += du
        return np.concatenate([v, a], axis=1), np.concatenate([z[:, s:], np.linalg.solve(M, force)], axis=1)

    for k in range(K):
        X[:, k], V[:, k], Z[:, k] = y[:, :s], y[:, s:], z[:, :s]
        if not np.isfinite(y).all():
            return ServoRun(np.full_like(X, np.nan), V, Z)
        u = feedback.kp * (task.q[:, k] - y[:, place]) + feedback.kd * (task.v[:, k] - y[:, s + place])
        du = -feedback.kp[:, None] * z[:, place] - feedback.kd[:, None] * z[:, s + place]
        queue, slopes = [u, *queue[:-1]], [du, *slopes[:-1]]
        if k + 1 == K:
            break
        row = 2 * k * (held.early + held.count)
        parts = ((held.early, held.share, held.delay + 1), (held.count, 1.0 - held.share, held.delay))
        for count, share, age in parts:
            step = task.h * share / max(count, 1)
            for _ in range(count):
                own = queue[age], slopes[age]
                k1, l1 = rate(row, y, z, *own)
                k2, l2 = rate(row + 1, y + 0.5 * step * k1, z + 0.5 * step * l1, *own)
                k3, l3 = rate(row + 1, y + 0.5 * step * k2, z + 0.5 * step * l2, *own)
                k4, l4 = rate(row + 2, y + step * k3, z + step * l3, *own)
                y = y + step / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
                if wanted is not None:
                    z = z + step / 6.0 * (l1 + 2.0 * (l2 + l3) + l4)
                row += 2
    return ServoRun(X, V, None if wanted is None else Z)
