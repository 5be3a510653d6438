"""Simulation of a model along a measured motion: many segments at once, in open loop or under a feedback."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import solved
from dynid.kernel.multibody import Multibody, follow, variation, variational
from dynid.signals.samples import Samples
from dynid.simulation.mechanism import SLOW, Extra, Mechanism

# Coefficient of ROS2 that makes it L-stable.
GAMMA = 1.0 - 1.0 / np.sqrt(2.0)
# s: longest integration step.
LONGEST_STEP = 6.5e-3
# rad or m: distance from the measured motion that counts as divergence.
FAR = 20.0
# One-sided derivative stencils at the first and second of five samples, in units of rate / 12.
ONE_SIDED = np.array([[-25.0, 48.0, -36.0, 16.0, -3.0], [-3.0, -10.0, 18.0, -6.0, 1.0]])


@dataclass(frozen=True, eq=False)
class Feedback:
    """Input of the simulated robot: u = tau + kp (x_measured - x) + kd (v_measured - v) at the driven coordinates.

    tau is the measured torque. With the gains of the robot's own linear position controller, u is exactly what that
    controller would command in the simulated state, whatever its reference and feed-forward. With zero gains it is
    an open loop. Other gains keep the simulation close to the measured motion, like an observer.

    Parameters
    ----------
    kp, kd : ndarray, shape (n,), N m/rad and N m s/rad (N/m and N s/m)
        Gains.

    Raises
    ------
    UsageError
        Unless the gains are finite and not negative.

    """

    kp: Float
    kd: Float

    def __post_init__(self) -> None:
        for name in ("kp", "kd"):
            gain = np.asarray(getattr(self, name), dtype=np.float64)
            if not (np.isfinite(gain) & (gain >= 0)).all():
                raise UsageError("gains", found=f"{name} = {gain.tolist()}", expected="finite numbers >= 0")

    @staticmethod
    def none(n: int) -> Feedback:
        """Open loop: zero gains of n joints."""
        return Feedback(np.zeros(n), np.zeros(n))


@dataclass(frozen=True, eq=False)
class Stretches:
    """Segments of a batch that are simulated in parallel: B segments of K samples each.

    Attributes
    ----------
    index : ndarray of int, shape (B, K)
        Sample numbers; the last one is repeated beyond the end.
    owner : ndarray of int, shape (B,)
        Position of the first sample that is kept of each segment; before it the loop settles.
    length : int
        Number of samples kept per segment.
    count : int
        Number of samples in the batch.

    """

    index: Int
    owner: Int
    length: int
    count: int

    @staticmethod
    def of(count: int, length: int, settling: int, after: int = 0) -> Stretches:
        """Cut `count` samples into segments of `length`, each starting `settling` samples earlier.

        Parameters
        ----------
        count : int
            Number of samples.
        length : int
            Samples kept per segment.
        settling : int
            Samples simulated before these.
        after : int
            Samples simulated after these, as derivatives need; the last segments then end where the samples do.

        """
        first_samples = np.arange(0, count, length)
        whole = length + settling + after
        start = np.maximum(first_samples - settling, 0)
        if after:
            start = np.maximum(np.minimum(start, count - whole), 0)
        index = start[:, None] + np.arange(whole)
        return Stretches(np.minimum(index, count - 1), first_samples - start, length, count)

    def gathered(self, values: Float) -> Float:
        """Samples to keep, (count, ...), of values that were computed for all segments, (B, K, ...)."""
        place = np.minimum(self.owner[:, None] + np.arange(self.length), self.index.shape[1] - 1)
        selected = np.take_along_axis(values, place.reshape(*place.shape, *(1,) * (values.ndim - 2)), axis=1)
        return selected.reshape(-1, *values.shape[2:])[: self.count]


@dataclass(frozen=True, eq=False)
class Run:
    """Simulated motion of B segments of K samples: x, v, a (B, K, s) and drive torque u (B, K, n)."""

    x: Float
    v: Float
    a: Float
    u: Float


def measured_motion(mechanism: Mechanism, samples: Samples) -> tuple[Float, Float, Float]:
    """Measured positions, velocities and accelerations, (T, s) each, in the coordinates of a mechanism."""
    if not mechanism.second:
        return samples.q, samples.dq, samples.ddq
    motor, joints = samples.motor, list(mechanism.second)
    return (
        np.concatenate([samples.q, motor.q[:, joints]], axis=1),
        np.concatenate([samples.dq, motor.dq[:, joints]], axis=1),
        np.concatenate([samples.ddq, motor.ddq[:, joints]], axis=1),
    )


def measured_coordinates(mechanism: Mechanism, samples: Samples) -> tuple[Float, Float]:
    """Measured positions and velocities, (T, s) each, in the coordinates of a mechanism."""
    x, v, _ = measured_motion(mechanism, samples)
    return x, v


def extra_of(mechanism: Mechanism, samples: Samples) -> dict[str, Float]:
    """Channels (T, ...) that the terms of the model read, and the temperature if it was measured."""
    channels = {name: samples.extra[name] for name in mechanism.terms.channels() if name in samples.extra}
    return channels if samples.temperature is None else channels | {"temperature": samples.temperature}


def run(
    mechanism: Mechanism,
    samples: Samples,
    feedback: Feedback,
    stretches: Stretches,
    start: tuple[Float, Float] | None = None,
) -> Run:
    """Simulate every segment.

    The method is the second-order Rosenbrock scheme ROS2 with approximate Jacobians, which is stable for stiff springs
    and dry friction. Each step is taken once and as two halves, and extrapolated. Inputs are interpolated by cubics.

    Parameters
    ----------
    mechanism : Mechanism
        Model.
    samples : Samples
        Measured motion and torque.
    feedback : Feedback
        Feedback on the measured motion.
    stretches : Stretches
        Segments.
    start : tuple of two ndarray, shape (B, s), optional
        Initial positions and velocities; None = the measured ones.

    Returns
    -------
    Run
        Simulated motion.

    Raises
    ------
    SolverError
        If the simulation diverges or the mass matrix is not positive definite.

    References
    ----------
    Verwer, Spee, Blom and Hundsdorfer 1999; Hairer and Wanner 1996, sec. IV.9 (extrapolation).

    """
    substeps = max(1, int(np.ceil(1.0 / samples.rate / LONGEST_STEP)))
    x_measured, v_measured = (z[stretches.index] for z in measured_coordinates(mechanism, samples))
    extra = {name: values[stretches.index] for name, values in extra_of(mechanism, samples).items()}
    place = mechanism.driven
    fine = 2 * substeps
    inputs = _Inputs(
        refined(samples.tau[stretches.index], fine),
        refined(x_measured[..., place], fine),
        refined(v_measured[..., place], fine),
        {name: refined(values, fine) for name, values in extra.items()},
    )
    x, v = start if start is not None else (x_measured[:, 0], v_measured[:, 0])
    stepper = _Stepper(mechanism, feedback, inputs, 1.0 / samples.rate / substeps, x)
    system = mechanism.multibody
    if system is not None and system.native() is not None:
        X, V, strayed = _simulate_compiled(
            system, stepper, np.concatenate([x, v], axis=1), x_measured, samples.rate, substeps
        )
    else:
        X, V, strayed = _simulate_numpy(stepper, x, v, x_measured, substeps)
    if strayed is not None:
        first = float(samples.t[stretches.index[:, strayed]].min())
        raise SolverError(
            "diverged",
            found=f"a simulation that diverges from the measured motion at t = {first:.4g} s",
            expected="a model that can be simulated",
            do="add missing masses and inertias to the robot file, filter more, or use 'wls'",
        )
    u = inputs.tau[:, ::fine] + feedback.kp * (x_measured - X)[..., place]
    u = u + feedback.kd * (v_measured - V)[..., place]
    return Run(X, V, differentiated(V, samples.rate), u)


def _simulate_numpy(
    stepper: _Stepper, x: Float, v: Float, measured: Float, substeps: int
) -> tuple[Float, Float, int | None]:
    B, K, s = measured.shape
    X, V = np.empty((B, K, s)), np.empty((B, K, s))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(K):
            X[:, k], V[:, k] = x, v
            if not np.abs(x - measured[:, k]).max() < FAR:
                return X, V, k
            for i in range(substeps if k + 1 < K else 0):
                x, v = stepper.step(x, v, 2 * (k * substeps + i))
    return X, V, None


def _simulate_compiled(
    system: Multibody, stepper: _Stepper, start: Float, measured: Float, rate: float, substeps: int
) -> tuple[Float, Float, int | None]:
    inputs, feedback = stepper.inputs, stepper.feedback
    return follow(
        system,
        start,
        rate,
        substeps,
        np.array([feedback.kp, feedback.kd]),
        np.array([inputs.tau, inputs.x, inputs.v]),
        measured,
        stepper.K,
        stepper.D,
        (GAMMA, SLOW, FAR),
    )


def differentiated(v: Float, rate: float) -> Float:
    """Fourth-order derivative of velocities (B, K, s), K >= 5, one-sided at both ends.

    Computing M^-1 (u - h) at the samples instead would amplify small velocity errors beyond bounds where springs, gains
    or dry friction are stiff compared with the step.
    """
    a = np.empty_like(v)
    a[:, 2:-2] = 8.0 * (v[:, 3:-1] - v[:, 1:-3]) - (v[:, 4:] - v[:, :-4])
    for k, stencil in enumerate(ONE_SIDED):
        a[:, k] = np.einsum("i,bi...->b...", stencil, v[:, :5])
        a[:, -1 - k] = -np.einsum("i,bi...->b...", stencil, v[:, :-6:-1])
    return a * (rate / 12.0)


def _first_four(values: Float) -> list[Float]:
    return [values[:, k] for k in range(4)]


def refined(values: Float, factor: int) -> Float:
    """Interpolate values (B, K >= 4, ...) to `factor` times the rate by cubics through four neighbours.

    Returns
    -------
    ndarray, shape (B, (K - 1) factor + 1, ...)
        Values at the higher rate.

    """
    B, K = values.shape[:2]
    before, behind = (
        4 * v[0] - 6 * v[1] + 4 * v[2] - v[3] for v in (_first_four(values), _first_four(values[:, ::-1]))
    )
    padded = np.concatenate([before[:, None], values, behind[:, None]], axis=1)
    resampled = np.empty((B, (K - 1) * factor + 1, *values.shape[2:]))
    resampled[:, ::factor] = values
    for j in range(1, factor):
        r = j / factor
        weights = (
            -r * (r - 1) * (r - 2) / 6,
            (r + 1) * (r - 1) * (r - 2) / 2,
            -(r + 1) * r * (r - 2) / 2,
            (r + 1) * r * (r - 1) / 6,
        )
        resampled[:, j::factor] = sum(w * padded[:, i : i + K - 1] for i, w in enumerate(weights))
    return resampled


@dataclass(frozen=True, eq=False)
class _Inputs:
    # Inputs at twice the rate of the steps; measured motion at the driven coordinates.
    tau: Float
    x: Float
    v: Float
    extra: Mapping[str, Float]

    def at(self, k: int) -> dict[str, Float]:
        return {name: np.ascontiguousarray(values[:, k]) for name, values in self.extra.items()}


class _Stepper:
    """ROS2 steps of all segments, once and as two halves, combined as (4 y_half - y_whole) / 3."""

    def __init__(self, mechanism: Mechanism, feedback: Feedback, inputs: _Inputs, h: float, x: Float) -> None:
        self.mechanism, self.feedback, self.inputs, self.h = mechanism, feedback, inputs, h
        self.K, self.D = mechanism.springs(x, inputs.at(0))
        place = mechanism.driven
        self.K[place, place] += feedback.kp
        self.gain = np.zeros(mechanism.size)
        self.gain[place] = feedback.kd
        np.fill_diagonal(self.D, 0.0)

    def step(self, x: Float, v: Float, k: int) -> tuple[Float, Float]:
        """Advance from sample k of the inputs to k + 2."""
        M, f = self._force(x, v, k)
        slope = self.mechanism.damping(x, v, self.inputs.at(k)) + self.gain
        x1, v1 = self._half(x, v, M, f, slope, self.h, k + 2)
        xm, vm = self._half(x, v, M, f, slope, 0.5 * self.h, k + 1)
        M, f = self._force(xm, vm, k + 1)
        slope = self.mechanism.damping(xm, vm, self.inputs.at(k + 1)) + self.gain
        x2, v2 = self._half(xm, vm, M, f, slope, 0.5 * self.h, k + 2)
        return (4.0 * x2 - x1) / 3.0, (4.0 * v2 - v1) / 3.0

    def _half(
        self, x: Float, v: Float, M: Float, f: Float, slope: Float, h: float, later: int
    ) -> tuple[Float, Float]:
        # (1 - g h A) k1 = F(y), (1 - g h A) k2 = F(y + h k1) - 2 k1, y + h (3 k1 + k2) / 2.
        gh, s = GAMMA * h, self.mechanism.size
        W = M + gh * self.D + gh**2 * self.K
        W[:, range(s), range(s)] += gh * slope
        k1_v = solved(W, f - gh * (v @ self.K))
        k1_x = v + gh * k1_v
        M2, f2 = self._force(x + h * k1_x, v + h * k1_v, later)
        r_x = v + h * k1_v - 2.0 * k1_x
        r_v = solved(M2, f2) - 2.0 * k1_v
        k2_v = solved(W, np.einsum("bij,bj->bi", M, r_v) - gh * (r_x @ self.K))
        k2_x = r_x + gh * k2_v
        return x + h * (1.5 * k1_x + 0.5 * k2_x), v + h * (1.5 * k1_v + 0.5 * k2_v)

    def _force(self, x: Float, v: Float, k: int) -> tuple[Float, Float]:
        m, inputs, feedback = self.mechanism, self.inputs, self.feedback
        M, h = m.equations(x, v, inputs.at(k))
        u = inputs.tau[:, k] + feedback.kp * (inputs.x[:, k] - x[:, m.driven])
        u += feedback.kd * (inputs.v[:, k] - v[:, m.driven])
        return M, m.on_coordinates(u) - h


# Sensitivity of a simulation by parameters and initial state: the variational equation along it.

# States that are linearised at once, to bound memory.
CHUNK = 4096


@dataclass(frozen=True, eq=False)
class Output:
    """Output whose sensitivity is computed: y = by_x x + by_v v of the coordinates `at`, each of shape (r,)."""

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
    """Sensitivity of an output along a simulated motion, by parameters and by the initial state.

    Solves M da = -f_x dx - f_v dv - Y dtheta + du, du = -kp dx - kd dv, over the samples with the Lobatto IIIC method.
    It is of second order and damps modes that are stiffer than the step, as the simulation does; the trapezoidal rule
    would let them ring. f_x and f_v are derivatives of the inverse dynamics at the accelerations of the simulation,
    so that they include the derivative of the mass matrix.

    Parameters
    ----------
    mechanism : Mechanism
        Model.
    run : Run
        Simulated motion.
    extra : mapping of str to ndarray, shape (B, K, ...)
        Channels that the terms read.
    feedback : Feedback
        Feedback of the simulation.
    rate : float, Hz
        Sampling rate.
    wanted : ndarray of bool, shape (p,)
        Parameters to differentiate by, w of them.
    first_state : bool
        Whether the last 2 s columns, by initial x and v, are computed.
    output : Output
        Output.

    Returns
    -------
    ndarray, shape (B, K, r, w) or (B, K, r, w + 2 s)
        Sensitivities.

    References
    ----------
    Hairer and Wanner 1996, table IV.5.9.

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
    J, G = _linearise(mechanism, run, extra, feedback, wanted)
    x, v = variational(J[:, :, J.shape[2] // 2 :], G, 1.0 / rate, first_state) or _integrate_sensitivity(
        J, G, rate, first_state
    )
    return np.asarray(output.by_x[:, None] * x[:, :, output.at] + output.by_v[:, None] * v[:, :, output.at])


def _integrate_sensitivity(J: Float, G: Float, rate: float, first_state: bool) -> tuple[Float, Float]:
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
            jacobian, next_jacobian = J[:, k], J[:, k + 1]
            right = np.array(z)
            right[:, s:, :w] += 0.5 * h * (G[:, k] + G[:, k + 1])
            right[:, :, :w] -= 0.5 * h**2 * (jacobian[:, :, s:] @ G[:, k + 1])
            z = np.linalg.solve(
                unit - 0.5 * h * (jacobian + next_jacobian) + 0.5 * h**2 * (jacobian @ next_jacobian), right
            )
    return X, V


def _linearise(
    mechanism: Mechanism, run: Run, extra: Extra, feedback: Feedback, wanted: Bool
) -> tuple[Float, Float]:
    # d(x, v)/dt = J (x, v) + (0, G theta), in chunks: (B, K, 2 s, 2 s) and (B, K, s, w).
    B, K, s = run.x.shape
    x, v, a = (np.reshape(part, (B * K, s)) for part in (run.x, run.v, run.a))
    flat = {name: values.reshape(B * K, *values.shape[2:]) for name, values in extra.items()}
    J = np.zeros((B * K, 2 * s, 2 * s))
    J[:, :s, s:] = np.eye(s)
    G = np.zeros((B * K, s, int(wanted.sum())))
    place = mechanism.driven
    for first in range(0, B * K, CHUNK):
        part = slice(first, first + CHUNK)
        channels = {name: values[part] for name, values in flat.items()}
        f_x, f_v = mechanism.slopes(x[part], v[part], a[part], channels)
        f_x[:, place, place] += feedback.kp
        f_v[:, place, place] += feedback.kd
        Y = mechanism.regressor(x[part], v[part], a[part], channels, wanted)
        M = mechanism.equations(x[part], v[part], channels)[0]
        derivatives = -np.linalg.solve(M, np.concatenate([f_x, f_v, Y], axis=2))
        J[part, s:] = derivatives[:, :, : 2 * s]
        G[part] = derivatives[:, :, 2 * s :]
    return J.reshape(B, K, 2 * s, 2 * s), G.reshape(B, K, s, -1)
