"""Simulation of a model under the controllers of its drives, from their commands, with derivatives of the steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import SolverError, UnfitDataError
from dynid.base.records import dataclass
from dynid.kernel import solved
from dynid.kernel.multibody import Control, Held, rollout
from dynid.recording import Commands
from dynid.robot.drive import Servo
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.loop import FAR, Stretches, extra_of, measured_coordinates
from dynid.simulation.mechanism import Mechanism
from dynid.terms.nominal import Nominal

# Play between drives and the links whose positions the controllers read.
#
# A link pushes its drive to one end of the play. When its torque changes sign, both separate and move freely until
# they meet at the other end, without bouncing. With the positions x and q of drives and links, s = x - q, and their
# inertias D and H(q),
#
#     D x'' + f(x') = u(q) - c,    H q'' + h = c,
#
# impacts do not change the velocity of the point y = q + K s, K = (H + D)^-1 D. It moves like a robot without play
# under the additional torque
#
#     kp K s + kd K s' - fv (1 - K) s' + g(y) - g(q),
#
# since the controllers read q = y - K s, friction acts on the drives, and gravity acts at q.

# s: step of a drive in its play, which takes some hundredths of a second to cross; and duration of log parts that are
# processed in parallel, and of the time before each, within which a drive reaches an end.
STEP, PART, BEFORE = 1e-3, 2.0, 1.0
# Least share of a drive, and of its link, of the inertia that the drive sees; lighter links would be thrown from end to
# end.
LEAST_DRIVE_SHARE, LEAST_LINK_SHARE = 0.02, 1e-4


@dataclass(frozen=True, eq=False)
class AddedTorque:
    """Torque (T, n) in addition to that of the controllers, at times t (T,)."""

    t: Float
    torque: Float

    def at(self, t: Float) -> Float:
        """Torque (..., n) at times (...)."""
        return np.stack([np.interp(t, self.t, column) for column in self.torque.T], axis=-1)


@dataclass(frozen=True, eq=False)
class DrivenLoad:
    """Load of the drives along a motion, from the prior (URDF) links.

    Attributes
    ----------
    robot : RobotModel
        Robot.
    samples : Samples
        Motion.
    torque : ndarray, shape (T, n), N m (N)
        Torque that links take from their drives.
    inertia : ndarray, shape (T, n, n), kg m^2
        Inertia of the links about the joints.

    """

    robot: RobotModel
    samples: Samples
    torque: Float
    inertia: Float

    @staticmethod
    def of(robot: RobotModel, samples: Samples) -> DrivenLoad | None:
        """Load along a motion; None if the inertia of a link is unknown."""
        still = np.zeros_like(samples.q)
        try:
            rest = Nominal().rigid(robot, samples.q, still, still)
        except UnfitDataError:
            return None
        inertia = np.empty((*rest.shape, robot.n))
        for j, unit in enumerate(np.eye(robot.n)):
            inertia[:, :, j] = Nominal().rigid(robot, samples.q, still, still + unit) - rest
        torque = Nominal().rigid(robot, samples.q, samples.dq, samples.ddq)
        return DrivenLoad(robot, samples, torque, inertia)

    def drive_inertia(self, inertia: Float) -> Float:
        """Inertia (n,) of the drives alone, from the total inertia that they see, (n,)."""
        links = np.diagonal(self.inertia, axis1=1, axis2=2).mean(axis=0)
        return np.asarray(np.maximum(inertia - links, LEAST_DRIVE_SHARE * inertia))

    def play_deflection(self, drive_inertia: Float, play: Float) -> AddedTorque:
        """Lead of the drives over their links, in steps of `STEP`.

        Parameters
        ----------
        drive_inertia : ndarray, shape (n,), kg m^2
            Inertia of the drives.
        play : ndarray, shape (n,), rad
            Play from end to end; a negative one reverses the sign.

        Returns
        -------
        AddedTorque
            Lead in place of a torque.

        """
        t = np.arange(self.samples.t[0], self.samples.t[-1] + 0.5 * STEP, STEP)
        # Only this link moves in its play; links before and behind it move with their drives.
        whole = 1.0 / np.diagonal(np.linalg.inv(self.inertia + np.diag(drive_inertia)), axis1=1, axis2=2)
        link = np.maximum(whole - drive_inertia, LEAST_LINK_SHARE * whole)
        push = AddedTorque(self.samples.t, self.torque * (1.0 / link + 1.0 / drive_inertia)).at(t)
        length, before = round(PART / STEP), round(BEFORE / STEP)
        starts = np.arange(0, len(t), length)
        index = starts[:, None] + np.arange(-before, length)
        pushes = push[np.clip(index, 0, len(t) - 1)]
        half = 0.5 * np.abs(play)
        x, v = half * np.sign(pushes[:, 0]), np.zeros_like(pushes[:, 0])
        deflections = np.empty((length, *x.shape))
        for k in range(before + length):
            v = v + STEP * pushes[:, k]
            free = x + STEP * v
            x = np.minimum(np.maximum(free, -half), half)
            v = np.where(free == x, v, 0.0)
            if k >= before:
                deflections[k - before] = x
        joined = deflections.transpose(1, 0, 2).reshape(-1, len(half))[: len(t)]
        return AddedTorque(t, joined * np.sign(play))

    def equivalent_torque(
        self, ahead: AddedTorque, drive_inertia: Float, servo: Servo, viscous: Float
    ) -> tuple[AddedTorque, Float]:
        """Torque that represents the play in a simulation, and the lead of the simulation over the links, (T, n).

        Parameters
        ----------
        ahead : AddedTorque
            Lead of the drives, see `play_deflection`.
        drive_inertia, viscous : ndarray, shape (n,)
            Inertia and viscous friction of the drives.
        servo : Servo
            Controllers of the drives.

        """
        t, samples = ahead.t, self.samples
        # At the mean posture: it hardly changes while a play is crossed.
        K = np.linalg.solve(self.inertia.mean(axis=0) + np.diag(drive_inertia), np.diag(drive_inertia))
        before = ahead.torque @ K.T
        torque = servo.kp * before + servo.kd * np.gradient(before, STEP, axis=0)
        torque -= viscous * np.gradient(ahead.torque - before, STEP, axis=0)
        shift, still = AddedTorque(t, before).at(samples.t), np.zeros_like(samples.q)
        weight = [Nominal().rigid(self.robot, q, still, still) for q in (samples.q + shift, samples.q)]
        return AddedTorque(t, torque + AddedTorque(samples.t, weight[0] - weight[1]).at(t)), shift


# Most controller ticks per sample. Torque is late by half a tick, which must not exceed the lag.
MOST_TICKS = 8
# Steps per sample: the fastest decay (friction near rest) and oscillation must be resolved. Runge-Kutta is stable to
# 2.78.
DECAY_A_STEP, MOST_STEPS = 1.0, 40
TURN = 2.0 * np.pi
STEPS_A_HOLD = 4


# Derivative of a position, SI units, that only a diverging loop reaches; its square does not overflow.
STEEPEST = 1e100


@dataclass(frozen=True, eq=False)
class ServoLoop:
    """Controllers of the drives and their commands: u = sat(kp e(q_des - x) + kd (dq_des - v) + tau_ff).

    The torque of a computer's loop is computed at its ticks from commands and simulated motion, acts `servo.lag` later
    on average, and is constant between ticks. A loop on board acts at once, on commands that are late.

    Attributes
    ----------
    servo : Servo
        Gains, limits, dead bands and lag.
    commands : Commands
        Commands of the whole trajectory.
    later : float, s
        Lag in addition to that of `servo`.
    added : AddedTorque, optional
        Additional torque without lag.

    """

    servo: Servo
    commands: Commands
    later: float = 0.0
    added: AddedTorque | None = None

    @property
    def lag(self) -> float:
        """Time from a command to its torque, s."""
        return max(self.servo.lag + self.later, 0.0)

    @property
    def holds(self) -> bool:
        """Whether a drive's own loop follows commands that jump from one to the next."""
        return self.servo.on_board and self.servo.hold > 0

    def ticks(self, rate: float) -> int:
        """Ticks of a computer's controller per sample; 0 if torque follows the motion at once."""
        if self.servo.on_board:
            return 0
        count = 1
        while 0.5 / rate / count > self.servo.lag and count <= MOST_TICKS:
            count *= 2
        return count if count <= MOST_TICKS else 0

    def commanded(
        self, t: Float, near: Float, turning: Bool, width: float | None = None
    ) -> tuple[Float, Float, Float]:
        """Commanded positions, velocities and feed-forward, linear between the commands.

        Parameters
        ----------
        t : ndarray, s
            Times.
        near : ndarray, shape (..., n), rad (m)
            Positions of the joints: revolute joints are commanded on the same turn.
        turning : ndarray of bool, shape (n,)
            Revolute joints.
        width : float, s, optional
            Commands are constant from one to the next, and means over this time about `t` are computed; None = linear.

        Returns
        -------
        q, v, u : ndarray, shape (..., n)
            Commands.

        """
        c = self.commands
        rows = np.concatenate([c.q_des, c.dq_des, c.tau_ff], axis=1)
        values = (
            _means_of_held(c.t, rows, t, width)
            if width
            else np.stack([np.interp(t, c.t, column) for column in rows.T], axis=-1)
        )
        q, v, u = np.split(values, 3, axis=-1)
        if self.added is not None:
            u = u + self.added.at(t + self.lag - (0.5 * self.servo.hold if self.holds else 0.0))
        return q + TURN * np.round((near - q) / TURN) * turning, v, u


def _means_of_held(t: Float, values: Float, at: Float, width: float) -> Float:
    """Means (..., n) over `width` s about times `at` (...) of values (T, n) that are constant between times t (T,)."""
    # Only the requested part of a long log.
    first, last = np.searchsorted(t, [at.min() - 0.5 * width, at.max() + 0.5 * width], side="right")
    near = slice(max(int(first) - 1, 0), int(last) + 1)
    t, values = t[near], values[near]
    area = np.concatenate(
        [np.zeros((1, values.shape[1])), np.cumsum(np.diff(t)[:, None] * values[:-1], axis=0)]
    )

    def integral(at: Float) -> Float:
        k = np.maximum(np.searchsorted(t, at, side="right") - 1, 0)
        return np.asarray(area[k] + (at - t[k])[..., None] * values[k])

    return (integral(at + 0.5 * width) - integral(at - 0.5 * width)) / width


@dataclass(frozen=True, eq=False)
class ServoRun:
    """Simulation of B segments of K samples: x, v (B, K, s); dx (B, K, s, w) by the wanted parameters, or None."""

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
    """Simulate every segment from its first measured state by Runge-Kutta steps, with their exact derivatives.

    Both kernels give the same result up to rounding.

    Parameters
    ----------
    mechanism : Mechanism
        Model.
    samples : Samples
        Measured motion.
    loop : ServoLoop
        Controllers and commands.
    stretches : Stretches
        Segments.
    wanted : ndarray of bool, shape (p,), optional
        Parameters to differentiate by; None = no derivatives.
    threads : int
        Threads of the native kernel.

    Returns
    -------
    ServoRun
        Simulated motion.

    Raises
    ------
    SolverError
        If the simulation diverges or the mass matrix is not positive definite.

    """
    task = _Task.of(mechanism, samples, loop, stretches)
    system = mechanism.multibody
    parameters = () if wanted is None else mechanism.parameters(wanted)
    with np.errstate(over="ignore", invalid="ignore"):
        if system is not None and system.native() is not None and parameters is not None:
            result = rollout(
                system,
                task.start,
                task.samples,
                task.h,
                task.count,
                Control(mechanism.n, *task.gains, *task.tables),
                task.hold,
                parameters,
                threads=threads,
            )
            simulated = ServoRun(result.x, result.v, result.dx)
        else:
            extra = extra_at(mechanism, samples, stretches, task.rows)
            simulated = _simulate_numpy(mechanism, task, extra, wanted)
    every = task.every
    simulated = ServoRun(
        simulated.x[:, ::every],
        simulated.v[:, ::every],
        None if simulated.dx is None else simulated.dx[:, ::every],
    )
    x = measured_coordinates(mechanism, samples)[0][stretches.index]
    astray = np.asarray(~(np.abs(simulated.x - x) < FAR).all(axis=(0, 2)))
    if simulated.dx is not None and not _greatest_size(simulated.dx) < STEEPEST:
        # Saturated drives keep an unstable loop near the measurement while its derivatives grow.
        astray |= np.array([not _greatest_size(simulated.dx[:, k]) < STEEPEST for k in range(x.shape[1])])
    if astray.any():
        first = float(samples.t[stretches.index[:, int(np.argmax(astray))]].min())
        raise SolverError(
            "diverged",
            found=f"a simulation that diverges from the measured motion at t = {first:.4g} s",
            expected="a model that the controllers stabilise",
            do="check kp, kd and the delay under [drive], or use 'wls'",
        )
    return simulated


def _greatest_size(slopes: Float) -> float:
    """Greatest absolute derivative; nan if one is nan."""
    return float(np.maximum(slopes.max(), -slopes.min())) if slopes.size else 0.0


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
    """Channels (B, R, ...) that the terms of the model read, at times (R,) of each segment."""
    return {name: cubic(values[stretches.index], at) for name, values in extra_of(mechanism, samples).items()}


@dataclass(frozen=True, eq=False)
class _Task:
    """Simulations of B segments: the tables of the controller, and the steps.

    start: (B, 2 s).    samples, h: number of ticks and seconds between them; without ticks, of samples. every: ticks
    per sample.    gains: (4, n) kp, kd, limit, dead band.    tables: (3, B, R, n) commanded position, velocity and
    feed-forward, at ticks or half steps.    rows: in samples, beginning, middle and end of all steps.
    """

    start: Float
    samples: int
    h: float
    every: int
    count: int
    gains: Float
    tables: Float
    hold: Held | None
    rows: Float

    @staticmethod
    def of(mechanism: Mechanism, samples: Samples, loop: ServoLoop, stretches: Stretches) -> _Task:
        servo, ticks, place = loop.servo, loop.ticks(samples.rate), mechanism.driven
        motion = measured_coordinates(mechanism, samples)
        x, v = (part[stretches.index] for part in motion)
        K, t0 = stretches.index.shape[1], samples.t[stretches.index[:, 0]]
        every = max(ticks, 1)
        h, N, width = 1.0 / samples.rate / every, (K - 1) * every + 1, None
        first = extra_at(mechanism, samples, stretches, np.zeros(1))
        count = _steps(mechanism, x[:, 0], first, h, None if ticks else servo)
        if loop.holds:
            count = max(count, int(np.ceil(STEPS_A_HOLD * h / servo.hold)))
        turning = ~np.asarray(mechanism.robot.prismatic, dtype=np.bool_)
        if not ticks:
            rows = np.arange(2 * count * (K - 1) + 1) / (2 * count)
            at, hold = rows, None
            times = t0[:, None] + rows / samples.rate - loop.lag
            if loop.holds:
                # Torque of a held command acts half the hold time before the lag, which is an average.
                times, width = times + 0.5 * servo.hold, h / count
        else:
            hold = Held.of(max(loop.lag / h - 0.5, 0.0), count)
            hold = replace(hold, history=_history(mechanism, samples, loop, t0, h, hold.delay + 2))
            rows, at = hold.rows(N) / every, np.arange(N) / every
            times = t0[:, None] + at / samples.rate
        near = cubic(x[..., place], at)
        gains = np.array([servo.kp, servo.kd, servo.effort_limit, servo.dead_band])
        tables = np.array(loop.commanded(times, near, turning, width))
        start = np.concatenate([x[:, 0], v[:, 0]], axis=1)
        return _Task(start, N, h, every, count, gains, tables, hold, rows)


def _history(
    mechanism: Mechanism, samples: Samples, loop: ServoLoop, t0: Float, h: float, count: int
) -> Float:
    """Torques (B, count, n) of the controllers from the measured motion before each segment, newest first."""
    place = mechanism.driven
    times = t0[:, None] - h * np.arange(1, count + 1)
    x, v = (
        np.stack([np.interp(times, samples.t, column) for column in part[:, place].T], axis=-1)
        for part in measured_coordinates(mechanism, samples)
    )
    turning = ~np.asarray(mechanism.robot.prismatic, dtype=np.bool_)
    q, speed, u = loop.commanded(times, x, turning)
    return loop.servo.torque(x, v, q, speed, u)


def _steps(mechanism: Mechanism, x: Float, extra: dict[str, Float], h: float, servo: Servo | None) -> int:
    # servo: drives whose torque follows the motion at once, which their gains make fast.
    still = np.zeros_like(x)
    now = {name: values[:, 0] for name, values in extra.items()}
    M = mechanism.equations(x, still, now)[0]
    try:
        inverse = np.abs(np.diagonal(np.linalg.inv(M), axis1=1, axis2=2))
    except np.linalg.LinAlgError:
        return 1
    damping = mechanism.damping(x, still, now)
    decay = float(np.max(inverse * damping))
    if servo is not None:
        place = mechanism.driven
        driven_inverse, lost = inverse[:, place], np.broadcast_to(damping, inverse.shape)[:, place]
        decay = max(
            decay,
            float(np.max(driven_inverse * (lost + servo.kd))),
            float(np.sqrt(np.max(driven_inverse * servo.kp))),
        )
    return int(np.clip(np.ceil(h * decay / DECAY_A_STEP), 1, MOST_STEPS)) if np.isfinite(decay) else 1


def _controller_torque(
    mechanism: Mechanism, task: _Task, row: int, y: Float, z: Float
) -> tuple[Float, Float]:
    """Torque (B, n) of the controllers in states y (B, 2 s), and its derivatives (B, n, w) for those z (B, 2 s, w)."""
    s, place = mechanism.size, mechanism.driven
    (kp, kd, limit, band), (q, v, u) = task.gains, task.tables[:, :, row]
    e = q - y[:, place]
    acts = np.abs(e) > band
    whole = kp * np.where(acts, e, 0.0) + kd * (v - y[:, s + place]) + u
    free = np.abs(whole) <= limit
    du = -(kp * acts * free)[..., None] * z[:, place] - (kd * free)[..., None] * z[:, s + place]
    return np.clip(whole, -limit, limit), du


def _simulate_numpy(
    mechanism: Mechanism, task: _Task, extra: dict[str, Float], wanted: Bool | None
) -> ServoRun:
    # Step by step: y = (x, v), and its derivatives z (B, 2 s, w).
    s, place, hold = mechanism.size, mechanism.driven, task.hold
    B, K = len(task.start), task.samples
    w = 0 if wanted is None else int(wanted.sum())
    y, z = np.array(task.start), np.zeros((B, 2 * s, w))
    X, V, Z = np.empty((B, K, s)), np.empty((B, K, s)), np.empty((B, K, s, w))
    queue, slopes = list[Float](), list[Float]()
    parts = [(task.count, 1.0, 0)]
    if hold is not None and hold.history is not None:
        queue = list(np.moveaxis(hold.history, 1, 0))
        slopes = [np.zeros((B, mechanism.n, w))] * len(queue)
        parts = [(hold.early, hold.share, hold.delay + 1), (hold.count, 1.0 - hold.share, hold.delay)]

    def rate(row: int, y: Float, z: Float, held_torque: tuple[Float, Float] | None) -> tuple[Float, Float]:
        u, du = _controller_torque(mechanism, task, row, y, z) if held_torque is None else held_torque
        x, v = y[:, :s], y[:, s:]
        now = {name: np.ascontiguousarray(values[:, row]) for name, values in extra.items()}
        M, bias = mechanism.equations(x, v, now)
        a = solved(M, mechanism.on_coordinates(u) - bias)
        if wanted is None:
            return np.concatenate([v, a], axis=1), z
        f_x, f_v = mechanism.slopes(x, v, a, now)
        force = -(f_x @ z[:, :s] + f_v @ z[:, s:]) - mechanism.regressor(x, v, a, now, wanted)
        force[:, place] += du
        return np.concatenate([v, a], axis=1), np.concatenate([z[:, s:], np.linalg.solve(M, force)], axis=1)

    row = 0
    for k in range(K):
        X[:, k], V[:, k], Z[:, k] = y[:, :s], y[:, s:], z[:, :s]
        if not np.isfinite(y).all():
            return ServoRun(np.full_like(X, np.nan), V, Z)
        if hold is not None:
            u, du = _controller_torque(mechanism, task, k, y, z)
            queue, slopes = [u, *queue[:-1]], [du, *slopes[:-1]]
        if k + 1 == K:
            break
        for count, share, age in parts:
            step = task.h * share / max(count, 1)
            held_torque = None if hold is None else (queue[age], slopes[age])
            for _ in range(count):
                k1, l1 = rate(row, y, z, held_torque)
                k2, l2 = rate(row + 1, y + 0.5 * step * k1, z + 0.5 * step * l1, held_torque)
                k3, l3 = rate(row + 1, y + 0.5 * step * k2, z + 0.5 * step * l2, held_torque)
                k4, l4 = rate(row + 2, y + step * k3, z + step * l3, held_torque)
                y = y + step / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
                if wanted is not None:
                    z = z + step / 6.0 * (l1 + 2.0 * (l2 + l3) + l4)
                row += 2
    return ServoRun(X, V, None if wanted is None else Z)
