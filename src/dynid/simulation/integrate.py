"""Time integration: fixed explicit steps with an error check, implicit steps of adaptive length, or SciPy's solvers."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import NOWHERE, Place, ResourceError, SolverError, UsageError
from dynid.base.records import dataclass
from dynid.kernel.multibody import AdaptiveRollout, Held, adaptive_rollout, diverged, out_of_steps, rollout
from dynid.kernel.rosenbrock import INPUT_ROWS, advance
from dynid.simulation.control import Controller, Tabular
from dynid.simulation.plant import Plant

# Steps between two checks of the error: a check costs two more steps.
STEPS_PER_CHECK = 32
# Most steps of one motion. Seven joints take a minute with compiled steps (80,000/s) and an hour without (1,500/s).
MOST_STEPS = 5_000_000
# rad and rad/s (m and m/s): step of central differences, which balances truncation and rounding.
DIFFERENCE = 1e-6
# Smaller relative tolerances are below rounding.
_LEAST_RTOL = 100 * np.finfo(np.float64).eps


class System(Protocol):
    """A system to integrate: y' = rate(y, u), u = control(t, y)."""

    def control(self, t: float, y: Float) -> Float:
        """Input (m,) at time t and state y (s,)."""
        ...

    def rate(self, y: Float, u: Float) -> Float:
        """Derivative dy/dt (s,) at state y under input u."""
        ...


@runtime_checkable
class Linearised(Protocol):
    """A system that computes the derivatives of its rate for many states at once, and weighs errors of its states."""

    @property
    def weights(self) -> Float:
        """Tolerance (s,) of each state over that of a position."""
        ...

    def jacobian(self, t: float, y: Float, fixed_input: Float | None) -> Float:
        """Derivative (s, s) of the rate by the state; fixed_input: constant input (m,), None = it follows the state."""
        ...


class Integrator(Protocol):
    """Interface of an integration scheme."""

    def run(self, system: System, start: Float, t: Float) -> tuple[Float, Float | None]:
        """Integrate a system over uniform times.

        Parameters
        ----------
        system : System
            System to integrate.
        start : ndarray, shape (s,)
            Initial state.
        t : ndarray, shape (T,), s
            Uniform times.

        Returns
        -------
        states : ndarray, shape (T, s)
            States at the times t.
        inputs : ndarray, shape (T, m), or None
            Inputs, if they were constant over each sample.

        """
        ...


@dataclass(frozen=True)
class FixedStep:
    """Classical fourth-order Runge-Kutta method, with an error check by step doubling.

    The error of a step is abs(y_step - y_two_halves) / 15, relative to 1 + the greatest abs(y) so far of each
    component. It is checked at the first step and every 32 steps.

    Parameters
    ----------
    step : float, s
        Longest step; samples are met exactly.
    held : bool
        Whether the input is constant over a sample, as from a digital controller, or follows the state.
    tolerance : float
        Greatest relative error of a step.

    Raises
    ------
    UsageError
        If step or tolerance is not positive.
    ResourceError
        If the motion takes more than MOST_STEPS steps.
    SolverError
        If the motion diverges or exceeds the tolerance.

    """

    step: float = 5e-4
    held: bool = False
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        if not (0 < self.step < math.inf and self.tolerance > 0):
            raise UsageError(
                "step",
                found=f"step {self.step} s, tolerance {self.tolerance}",
                expected="a finite step > 0 and a tolerance > 0",
            )

    def run(self, system: System, start: Float, t: Float) -> tuple[Float, Float | None]:
        """States (T, s) at the times t, and the inputs (T, m) if they are constant over samples."""
        check_times(t)
        check_budget(t, self.step)
        count = self.count(t)
        y: Float = np.array(start, dtype=np.float64)
        Y, scale, done = np.empty((len(t), len(y))), 1.0 + np.abs(y), 0
        inputs = []
        # A diverging motion overflows before it is detected.
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(len(t)):
                Y[i] = y
                if not np.isfinite(y).all():
                    raise diverged(float(t[max(i - 1, 0)]))
                if self.held:
                    inputs.append(system.control(float(t[i]), y))
                if i + 1 == len(t):
                    break
                h = float(t[i + 1] - t[i]) / count
                for k in range(count):
                    now = float(t[i]) + k * h
                    u = inputs[-1] if self.held else None
                    after = runge_kutta(system, now, y, u, h)
                    if done % STEPS_PER_CHECK == 0:
                        self._check(system, now, y, u, h, after, scale)
                    y, done = after, done + 1
                    scale = np.maximum(scale, 1.0 + np.abs(y))
        return Y, np.array(inputs) if self.held else None

    def _check(
        self, system: System, t: float, y: Float, u: Float | None, h: float, whole: Float, scale: Float
    ) -> None:
        middle = runge_kutta(system, t, y, u, 0.5 * h)
        halves = runge_kutta(system, t + 0.5 * h, middle, u, 0.5 * h)
        self.check_error(float((np.abs(whole - halves) / scale).max()) / 15.0, t, h)

    def count(self, t: Float) -> int:
        """Number of steps between two of the uniform times (T,)."""
        return steps_between(t, self.step)

    def check_error(self, error: float, t: float, h: float) -> None:
        """Raise SolverError if the error of a step exceeds the tolerance.

        Parameters
        ----------
        error : float
            Relative error.
        t, h : float, s
            Time and length of the step.

        Raises
        ------
        SolverError
            If the error is too large or not finite.

        """
        if not np.isfinite(error):
            raise diverged(t)
        if error > self.tolerance:
            raise SolverError(
                "integration-error",
                found=f"a relative error of {error:.3g} in a step of {h:.3g} s at t = {t:.6g} s",
                expected=f"at most {self.tolerance:.3g}",
                do="use a shorter step, an adaptive integrator, or softer springs and smoother friction",
            )


@dataclass(frozen=True)
class Implicit:
    """Linearly implicit steps of adaptive length: friction, damping, springs and feedback do not shorten them.

    Order 3, with an error estimate of order 2 (`dynid.kernel.rosenbrock`). For stiff robots: dry friction on a light
    wrist decays within microseconds, which limits explicit steps but not these.

    Parameters
    ----------
    tolerance : float
        Greatest estimated error of a step in rad (m), relative to 1 + abs(position); that of velocities is ten times
        as great, per second. The default is the resolution of a good encoder.
    held : bool
        Whether the input is constant over a sample, as from a digital controller, or follows the state.
    longest : float, s
        Longest interval between two inputs of the controller that are four rows of its table apart; no step is longer.

    Raises
    ------
    UsageError
        If tolerance or longest is not positive.
    ResourceError
        If the motion takes more than MOST_STEPS steps.
    SolverError
        If the motion diverges.

    """

    tolerance: float = 1e-5
    held: bool = False
    longest: float = 5e-3

    def __post_init__(self) -> None:
        if not (0 < self.longest < math.inf and 0 < self.tolerance < math.inf):
            raise UsageError(
                "step",
                found=f"longest step {self.longest} s, tolerance {self.tolerance}",
                expected="a finite step > 0 and a tolerance > 0",
            )

    def run(self, system: System, start: Float, t: Float) -> tuple[Float, Float | None]:
        """States (T, s) at the times t, and the inputs (T, m) if they are constant over samples."""
        check_times(t)
        count = steps_between(t, self.longest)
        y: Float = np.array(start, dtype=np.float64)
        Y, inputs, share, tried = np.empty((len(t), len(y))), [], 1.0, 0
        linear = system if isinstance(system, Linearised) else _Differences(system, np.ones(len(y)))
        tolerance = self.tolerance * linear.weights
        with np.errstate(over="ignore", invalid="ignore"):
            for i, now in enumerate(t.tolist()):
                Y[i] = y
                fixed = system.control(now, y) if self.held else None
                if fixed is not None:
                    inputs.append(fixed)
                length = float(t[-1] - t[0]) / (len(t) - 1) / count
                for k in range(count if i + 1 < len(t) else 0):
                    loop = _Interval(system, linear, now + k * length, length, fixed)
                    after = advance(loop.rate, loop.jacobian, y, length, share, tolerance, MOST_STEPS - tried)
                    if after is None:
                        raise diverged(now)
                    y, share, tried = after.y, after.share, tried + after.tried
                    if after.at < 1.0:
                        raise out_of_steps(now, MOST_STEPS)
        return Y, np.array(inputs) if self.held else None


@dataclass(frozen=True)
class _Interval:
    # A system over an interval between two inputs, with the time as a share of it.
    system: System
    linear: Linearised
    begin: float
    length: float
    fixed: Float | None

    def rate(self, at: float, y: Float) -> Float:
        now = self.begin + at * self.length
        return self.system.rate(y, self.system.control(now, y) if self.fixed is None else self.fixed)

    def jacobian(self, at: float, y: Float, f: Float) -> Float:
        return self.linear.jacobian(self.begin + at * self.length, y, self.fixed)


@dataclass(frozen=True)
class _Differences:
    # Derivatives of a system that does not compute them; all states count as positions.
    system: System
    weights: Float

    def jacobian(self, t: float, y: Float, fixed_input: Float | None) -> Float:
        def rate(state: Float) -> Float:
            u = self.system.control(t, state) if fixed_input is None else fixed_input
            return self.system.rate(state, u)

        shifts = DIFFERENCE * np.eye(len(y))
        return np.stack([rate(y + shift) - rate(y - shift) for shift in shifts], axis=1) / (2.0 * DIFFERENCE)


@dataclass(frozen=True)
class Adaptive:
    """SciPy's initial value solvers, which keep the estimated error of a step below rtol abs(y) + atol.

    Parameters
    ----------
    rtol, atol : float
        Relative and absolute tolerance.
    method : {"DOP853", "RK45", "LSODA", "Radau", "BDF"}
        Solver; the last three are for stiff springs and friction.
    longest : float, s
        Longest step, so that short pulses of the input are not skipped.

    Raises
    ------
    UsageError
        For another method, or tolerances out of range.
    SolverError
        If the solver gives up.

    """

    rtol: float = 1e-9
    atol: float = 1e-10
    method: str = "DOP853"
    longest: float = 0.05

    def __post_init__(self) -> None:
        known = ("DOP853", "RK45", "LSODA", "Radau", "BDF")
        if self.method not in known or not (
            _LEAST_RTOL <= self.rtol < 1 and self.atol > 0 and self.longest > 0
        ):
            raise UsageError(
                "integrator",
                found=f"method {self.method}, rtol {self.rtol}, atol {self.atol}, longest {self.longest}",
                expected=f"one of {', '.join(known)}, {_LEAST_RTOL:.2g} <= rtol < 1, atol > 0, longest > 0",
            )

    def run(self, system: System, start: Float, t: Float) -> tuple[Float, Float | None]:
        """States (T, s) at the times t, and None: inputs follow the state."""
        from scipy.integrate import solve_ivp

        check_times(t)

        def rate(now: float, y: Float) -> Float:
            dy = system.rate(y, system.control(now, y))
            if not np.isfinite(dy).all():
                raise diverged(now)
            return dy

        with np.errstate(over="ignore", invalid="ignore"):
            solution = solve_ivp(
                rate,
                (float(t[0]), float(t[-1])),
                np.array(start, dtype=np.float64),
                method=self.method,
                t_eval=t,
                rtol=self.rtol,
                atol=self.atol,
                max_step=self.longest,
            )
        if not solution.success or solution.y.shape[1] != len(t):
            raise SolverError(
                "integration-error",
                found=f"the integration stopped: {solution.message}",
                expected="a motion that can be integrated",
                do="loosen rtol, or choose a method for stiff equations: Radau, BDF or LSODA",
            )
        return np.asarray(solution.y.T), None


def runge_kutta(system: System, t: float, y: Float, fixed_input: Float | None, h: float) -> Float:
    """One step of the classical fourth-order Runge-Kutta method.

    Parameters
    ----------
    system : System
        System to integrate.
    t : float, s
        Time.
    y : ndarray, shape (s,)
        State.
    fixed_input : ndarray, shape (m,), or None
        Constant input of the step; None = evaluated at every stage.
    h : float, s
        Step.

    Returns
    -------
    ndarray, shape (s,)
        State after the step.

    """

    def slope(at: float, state: Float) -> Float:
        return system.rate(state, system.control(at, state) if fixed_input is None else fixed_input)

    k1 = slope(t, y)
    k2 = slope(t + 0.5 * h, y + 0.5 * h * k1)
    k3 = slope(t + 0.5 * h, y + 0.5 * h * k2)
    k4 = slope(t + h, y + h * k3)
    return np.asarray(y + h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4))


def steps_between(t: Float, step: float) -> int:
    """Number of steps of at most `step` seconds between two of the uniform times (T,)."""
    return max(1, math.ceil(float(t[-1] - t[0]) / (len(t) - 1) / step * (1 - 1e-9)))


def check_budget(t: Float, step: float, joint: str | None = None) -> None:
    """Raise ResourceError for a motion of more than MOST_STEPS fixed steps.

    Parameters
    ----------
    t : ndarray, shape (T,), s
        Uniform times of the samples.
    step : float, s
        Longest step.
    joint : str, optional
        Joint whose motion needs so short a step.

    Raises
    ------
    ResourceError
        If the motion takes more steps.

    """
    count, seconds = steps_between(t, step) * (len(t) - 1), float(t[-1] - t[0])
    if count > MOST_STEPS:
        raise ResourceError(
            "simulation-steps",
            found=f"a simulation of {seconds:.3g} s that needs {count / 1e6:.3g} million steps of {step:.2g} s",
            expected=f"at most {MOST_STEPS / 1e6:g} million steps, about an hour",
            do='use method = "implicit" of dynid ([integrator] in --plant FILE), or give the rotor inertia',
            place=NOWHERE if joint is None else Place(joint=joint),
        )


def check_times(t: Float) -> None:
    """Raise UsageError unless t contains at least two finite, evenly spaced, increasing times."""
    steps = np.diff(t) if np.ndim(t) == 1 and len(t) > 1 else np.zeros(1)
    if not (np.isfinite(steps).all() and steps.min() > 0 and np.ptp(steps) < 1e-6 * steps.max()):
        raise UsageError(
            "times",
            found=f"times of shape {np.shape(t)}",
            expected="at least two evenly spaced, increasing times",
        )


# Fixed steps in the native kernel.

# Rows of the controller's tables computed at once: a few MB of memory.
TABLE_ROWS = 20_000


def compiled(
    plant: Plant, controller: Controller, start: Float, t: Float, scheme: FixedStep
) -> tuple[Float, Float | None] | None:
    """Fixed-step integration by the native kernel, for plants and controllers that it can handle.

    The error is checked as often as in `FixedStep.run`, but at the beginning of samples, and for all of them at once.

    Parameters
    ----------
    plant : Plant
        Robot.
    controller : Controller
        Controller.
    start : ndarray, shape (states,)
        Initial state.
    t : ndarray, shape (T,), s
        Uniform times.
    scheme : FixedStep
        Step, tolerance and whether inputs are constant over samples.

    Returns
    -------
    tuple or None
        States (T, states) and inputs as of `FixedStep.run`; None if the kernel cannot handle the system.

    Raises
    ------
    UsageError, ResourceError, SolverError
        As `FixedStep.run`.

    """
    system = plant.multibody
    if system is None or not isinstance(controller, Tabular) or system.native() is None:
        return None
    check_times(t)
    check_budget(t, scheme.step)
    count = scheme.count(t)
    h = float(t[-1] - t[0]) / (len(t) - 1)
    input_hold = Held(count) if scheme.held else None
    Y, inputs = np.empty((len(t), len(start))), []
    Y[0] = start
    samples = max(1, TABLE_ROWS // (2 * count))
    for first in range(0, len(t) - 1, samples):
        part = t[first : first + samples + 1]
        control = controller.table(part if scheme.held else _between(part, 2 * count))
        if control is None:
            return None
        run = rollout(system, Y[None, first], len(part), h, count, control, input_hold, begin=float(part[0]))
        Y[first : first + len(part)] = np.concatenate([run.x[0], run.v[0]], axis=1)
        if run.u is not None:
            inputs.append(run.u[0] if first + samples + 1 >= len(t) else run.u[0, :-1])
    _check(plant, controller, Y, t, scheme, h / count)
    return Y, np.concatenate(inputs) if scheme.held else None


def compiled_implicit(
    plant: Plant, controller: Controller, start: Float, t: Float, scheme: Implicit
) -> tuple[Float, Float | None] | None:
    """Implicit steps by the kernel, for plants and controllers that it can handle.

    The controller is tabulated in parts, so that memory does not grow with the motion; the parts do not change it.

    Parameters
    ----------
    plant : Plant
        Robot.
    controller : Controller
        Controller.
    start : ndarray, shape (states,)
        Initial state.
    t : ndarray, shape (T,), s
        Uniform times.
    scheme : Implicit
        Tolerance, longest step and whether inputs are constant over samples.

    Returns
    -------
    tuple or None
        States (T, states) and inputs as of `Implicit.run`; None if the kernel cannot handle the system.

    Raises
    ------
    UsageError, ResourceError, SolverError
        As `Implicit.run`.

    """
    system = plant.multibody
    if system is None or not isinstance(controller, Tabular):
        return None
    check_times(t)
    count = steps_between(t, scheme.longest)
    h = float(t[-1] - t[0]) / (len(t) - 1)
    Y, inputs = np.empty((len(t), len(start))), []
    Y[0] = start
    samples = max(1, TABLE_ROWS // (INPUT_ROWS * count))
    run: AdaptiveRollout | None = None
    for first in range(0, len(t) - 1, samples):
        part = t[first : first + samples + 1]
        control = controller.table(part if scheme.held else _between(part, INPUT_ROWS * count))
        if control is None:
            return None
        run = adaptive_rollout(
            system,
            Y[None, first],
            len(part),
            h,
            count,
            control,
            scheme.tolerance,
            scheme.held,
            MOST_STEPS,
            run,
            begin=float(part[0]),
        )
        Y[first : first + len(part)] = np.concatenate([run.x[0], run.v[0]], axis=1)
        if run.u is not None:
            inputs.append(run.u[0] if first + samples + 1 >= len(t) else run.u[0, :-1])
    return Y, np.concatenate(inputs) if scheme.held else None


def _between(t: Float, count: int) -> Float:
    # The times, and count - 1 evenly spaced ones between each two.
    between = np.arange(count) / count
    inside = t[:-1, None] + between * np.diff(t)[:, None]
    return np.append(inside.ravel(), t[-1])


def _check(plant: Plant, controller: Controller, Y: Float, t: Float, scheme: FixedStep, h: float) -> None:
    every = max(1, STEPS_PER_CHECK // scheme.count(t))
    at = np.arange(0, max(len(t) - 1, 1), every)
    y, now = Y[at], t[at]
    with np.errstate(over="ignore", invalid="ignore"):
        loop = _ManyStates(plant, controller, controller.torque(now, plant.state(y)) if scheme.held else None)
        whole = _step(loop, now, y, h)
        halves = _step(loop, now + 0.5 * h, _step(loop, now, y, 0.5 * h), 0.5 * h)
        scale = 1.0 + np.maximum.accumulate(np.abs(Y), axis=0)[at]
        error = (np.abs(whole - halves) / scale).max(axis=1) / 15.0
    wrong = np.flatnonzero(~(error <= scheme.tolerance))
    if len(wrong):
        scheme.check_error(float(error[wrong[0]]), float(now[wrong[0]]), h)


class _ManyStates:
    # States at many times together.
    def __init__(self, plant: Plant, controller: Controller, fixed_input: Float | None) -> None:
        self.plant, self.controller, self.held = plant, controller, fixed_input

    def slope(self, t: Float, y: Float) -> Float:
        u = self.held if self.held is not None else self.controller.torque(t, self.plant.state(y))
        return self.plant.rate(y, u)


def _step(loop: _ManyStates, t: Float, y: Float, h: float) -> Float:
    k1 = loop.slope(t, y)
    k2 = loop.slope(t + 0.5 * h, y + 0.5 * h * k1)
    k3 = loop.slope(t + 0.5 * h, y + 0.5 * h * k2)
    k4 = loop.slope(t + h, y + h * k3)
    return np.asarray(y + h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4))
