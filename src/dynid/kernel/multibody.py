"""Multibody systems with known parameters, and simulations of them in the native kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int, locked, locked_int
from dynid.base.errors import ResourceError, SolverError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import _chosen, _whole, equations_of_motion
from dynid.kernel.handles import keep_handle
from dynid.kernel.rosenbrock import INPUT_ROWS, LEAST_SHARE, SPEED_SHARE, advance, input_weights
from dynid.kernel.tree import Tree

__all__ = [
    "AdaptiveRollout",
    "Control",
    "Held",
    "Multibody",
    "Parameter",
    "Rollout",
    "Slope",
    "adaptive_rollout",
    "diverged",
    "follow",
    "out_of_steps",
    "parameter_table",
    "raise_failure",
    "rollout",
    "stick",
    "variation",
    "variational",
]


class Slope(IntEnum):
    """Quantity that a parameter multiplies in the generalised force; the numbers are those of the native kernel."""

    BODY = 0
    ACCELERATION = 1
    VELOCITY = 2
    SIGN = 3
    ONE = 4
    DEFLECTION = 5
    DEFLECTION_RATE = 6


@dataclass(frozen=True)
class Parameter:
    """A parameter of a system, for sensitivities of its motion.

    Parameters
    ----------
    kind : Slope
        What the parameter multiplies. BODY: column `second` (0 to 9) of body `first`. SIGN: tanh(v / width), or sign(v)
        for a width of 0. DEFLECTION and DEFLECTION_RATE: x_first - x_second, or its rate, which acts on `first` and
        with opposite sign on `second`.
    first, second : int
        Coordinates, or body and column.
    width : float
        Width of a smoothed sign.

    """

    kind: Slope
    first: int
    second: int = 0
    width: float = 0.0


@dataclass(frozen=True, eq=False)
class Multibody:
    """System M(x) a + h(x, v) = force of links on a tree, rotors, springs and friction, with s coordinates x.

    M = P' M_tree P + mass, h = P' h_tree + stiffness x + damping v + constant + sum level tanh(v_at / width).

    Parameters
    ----------
    tree : Tree
        Kinematic tree with nb bodies.
    inertia : ndarray, shape (nb, 10)
        Inertial parameters.
    projection : ndarray, shape (nb, s)
        P; the positions of the tree are P x + shift.
    mass : ndarray, shape (s, s)
    driven : ndarray of int, shape (n,)
        Coordinates on which the drives act.
    shift : ndarray, shape (nb,)
    stiffness, damping : ndarray, shape (s, s)
    constant : ndarray, shape (s,)
        As the other arrays, zero if it is empty.
    at : ndarray of int, shape (f,)
        Coordinates with Coulomb friction.
    level, width : ndarray, shape (f,)
        Size of the friction, and velocity over which its sign is smoothed; 0 = not smoothed.

    Raises
    ------
    UsageError
        If arrays do not fit together.

    """

    tree: Tree
    inertia: Float
    projection: Float
    mass: Float
    driven: Int
    shift: Float = field(default_factory=lambda: np.zeros(0))
    stiffness: Float = field(default_factory=lambda: np.zeros(0))
    damping: Float = field(default_factory=lambda: np.zeros(0))
    constant: Float = field(default_factory=lambda: np.zeros(0))
    at: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    level: Float = field(default_factory=lambda: np.zeros(0))
    width: Float = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        nb, s = self.tree.n, np.shape(self.projection)[1]
        shapes = {
            "inertia": (nb, 10),
            "projection": (nb, s),
            "mass": (s, s),
            "shift": (nb,),
            "stiffness": (s, s),
            "damping": (s, s),
            "constant": (s,),
            "level": (len(self.at),),
            "width": (len(self.at),),
        }
        for name, shape in shapes.items():
            values = getattr(self, name)
            values = values if np.size(values) else np.zeros(shape)
            object.__setattr__(self, name, locked(values, shape, name))
        for name in ("at", "driven"):
            places = locked_int(getattr(self, name), (None,), name)
            if len(places) and not (places.min() >= 0 and places.max() < s):
                raise UsageError("array-shape", found=f"{name} {places.tolist()}", expected=f"0 to {s - 1}")
            object.__setattr__(self, name, places)
        object.__setattr__(self, "_handle", None)

    @property
    def size(self) -> int:
        """Number of coordinates s."""
        return len(self.mass)

    def equations(self, x: Float, v: Float) -> tuple[Float, Float]:
        """Mass matrix M (B, s, s) and bias h (B, s) for B positions x and velocities v (B, s)."""
        P = self.projection
        M, h = equations_of_motion(self.tree, self.inertia, x @ P.T + self.shift, v @ P.T)
        M = P.T @ M @ P + self.mass
        h = h @ P + x @ self.stiffness.T + v @ self.damping.T + self.constant
        return M, h + self.signs(v) @ self._on_coordinates(self.level)

    def gravity(self, x: Float) -> Float:
        """Gravity torque of the links (B, s) at positions x (B, s)."""
        q = x @ self.projection.T + self.shift
        h = equations_of_motion(self.tree, self.inertia, q, np.zeros_like(q))[1]
        return np.asarray(h @ self.projection)

    def signs(self, v: Float) -> Float:
        """Smoothed signs (B, f) of velocities (B, s)."""
        speed = v[:, self.at]
        wide = self.width > 0
        return np.where(wide, np.tanh(speed / np.where(wide, self.width, 1.0)), np.sign(speed))

    def native(self) -> Any:
        """Return the system in the native kernel; None if NumPy is in use."""
        if (kernel := _chosen()) is None:
            return None
        if self._handle is None:  # type: ignore[attr-defined]  # set past the frozen dataclass
            signs = np.column_stack([self.at, self.level, self.width]).astype(np.float64)
            handle = kernel.Multibody(
                *_whole(self.tree),
                self.inertia.ravel(),
                np.ascontiguousarray(self.projection),
                self.shift,
                self.mass,
                self.stiffness,
                self.damping,
                self.constant,
                np.ascontiguousarray(signs),
                np.ascontiguousarray(self.driven, dtype=np.int32),
            )
            keep_handle(self, handle)
        return self._handle  # type: ignore[attr-defined]  # set past the frozen dataclass

    def __reduce__(self) -> tuple[Any, ...]:
        names = (
            "tree",
            "inertia",
            "projection",
            "mass",
            "driven",
            "shift",
            "stiffness",
            "damping",
            "constant",
        )
        return Multibody, tuple(getattr(self, name) for name in (*names, "at", "level", "width"))

    def _on_coordinates(self, values: Float) -> Float:
        placed = np.zeros((len(self.at), self.size))
        placed[np.arange(len(self.at)), self.at] = values
        return placed


@dataclass(frozen=True, eq=False)
class Control:
    """Controllers u = sat(kp e(q_ref - q) + kd (v_ref - v) + u_ref + g(q - bend)) of n drives.

    e(x) = 0 for abs(x) <= dead_band, else x.

    Parameters
    ----------
    n : int
        Number of drives.
    kp, kd, limit, dead_band : ndarray, shape (n,), optional
        Gains, saturation and dead band; None = without it.
    q, v, u, bend : ndarray, shape (R, n) or (B, R, n), optional
        References for all runs or for each; None = zero. Rows are half steps, or samples if the torque is held.
    weight : Multibody, optional
        Rigid system whose gravity torque g is compensated.

    """

    n: int
    kp: Float | None = None
    kd: Float | None = None
    limit: Float | None = None
    dead_band: Float | None = None
    q: Float | None = None
    v: Float | None = None
    u: Float | None = None
    bend: Float | None = None
    weight: Multibody | None = None

    def gains(self) -> Float:
        """Rows kp, kd, limit and dead band, (4, n)."""
        rows = ((self.kp, 0.0), (self.kd, 0.0), (self.limit, np.inf), (self.dead_band, 0.0))
        return np.array(
            [np.full(self.n, least) if x is None else np.broadcast_to(x, (self.n,)) for x, least in rows]
        )

    def tables(self, rows: int) -> Float:
        """References q, v, u and bend, (4, B or 1, rows, n); raises UsageError for another number of rows."""
        given = [None if x is None else np.atleast_3d(np.asarray(x)[None] if np.ndim(x) == 2 else x)
                 for x in (self.q, self.v, self.u, self.bend)]  # fmt: skip
        runs = max((len(x) for x in given if x is not None), default=1)
        if any(x is not None and x.shape[1:] != (rows, self.n) for x in given):
            shapes = [x.shape for x in given if x is not None]
            raise UsageError(
                "array-shape", found=f"tables of shapes {shapes}", expected=f"({rows}, {self.n})"
            )
        stacked = np.zeros((4, runs, rows, self.n))
        for into, values in zip(stacked, given, strict=True):
            if values is not None:
                into[:] = values
        return stacked


@dataclass(frozen=True, eq=False)
class Rollout:
    """Simulated runs of a system.

    Parameters
    ----------
    x, v : ndarray, shape (B, K, s)
        Positions and velocities of B runs at K samples.
    u : ndarray, shape (B, K, n), or None
        Commands, if the torque is held.
    dx, dv : ndarray, shape (B, K, s, w [+ 2 s]), or None
        Sensitivities to w parameters and, if asked for, to the initial state.

    """

    x: Float
    v: Float
    u: Float | None
    dx: Float | None = None
    dv: Float | None = None


@dataclass(frozen=True, eq=False)
class Held:
    """Torque that is held from sample to sample and acts with a delay of `delay` + `share` samples.

    Parameters
    ----------
    count, early : int
        Integration steps per sample after and before the held torque changes. Before it, the torque of delay + 1
        samples ago acts.
    delay : int
        Whole samples of the delay.
    share : float
        Fraction of a sample, 0 to 1.
    history : ndarray, shape (B, delay + 2, n), optional
        Torques before the first sample, the latest first; None = zero.

    """

    count: int
    delay: int = 0
    early: int = 0
    share: float = 0.0
    history: Float | None = None

    def rows(self, samples: int) -> Float:
        """Times (R,), in samples, of the beginning, middle and end of all steps between `samples` samples."""
        first = self.share * np.arange(2 * self.early) / max(2 * self.early, 1)
        rest = self.share + (1.0 - self.share) * np.arange(2 * self.count) / (2 * self.count)
        inside = np.arange(samples - 1)[:, None] + np.concatenate([first, rest])
        return np.append(inside.ravel(), float(samples - 1))

    @staticmethod
    def of(delay: float, count: int, history: Float | None = None) -> Held:
        """Make a delay in samples, with about `count` integration steps per sample."""
        whole, share = int(np.floor(delay + 1e-9)), max(delay - np.floor(delay + 1e-9), 0.0)
        share = float(share) if share > 1e-9 else 0.0
        early = int(np.ceil(count * share - 1e-9))
        late = max(int(np.ceil(count * (1.0 - share) - 1e-9)), 1)
        return Held(late, whole, early, share, history)


def parameter_table(parameters: Sequence[Parameter]) -> Float:
    """Return kind, first, second and width of parameters as a table (w, 4) for the native kernel."""
    rows = [[p.kind, p.first, p.second, p.width] for p in parameters]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def rollout(
    system: Multibody | Sequence[Multibody],
    start: Float,
    samples: int,
    h: float,
    count: int,
    control: Control,
    sample_hold: Held | None = None,
    parameters: Sequence[Parameter] = (),
    first_state: bool = False,
    threads: int = 1,
    begin: float = 0.0,
) -> Rollout:
    """Simulate runs of a system, or of a system each, with classical Runge-Kutta steps.

    Sensitivities are derivatives of the discrete steps, exact unless the torque saturates within a step. The result
    does not depend on the number of threads. A run in a batch equals the same run alone, byte for byte.

    Parameters
    ----------
    system : Multibody, or sequence of B Multibody
        The system of all runs or of each. Those of a batch have the same tree, projection, drives and friction joints.
    start : ndarray, shape (B, 2 s)
        Initial states.
    samples : int
        Number of samples K.
    h : float, s
        Time between samples.
    count : int
        Steps per sample.
    control : Control
        Controllers of the drives.
    sample_hold : Held, optional
        How the torque is held; None = the controllers act at each stage.
    parameters : sequence of Parameter
        Parameters with sensitivities, of runs of one system.
    first_state : bool
        Whether sensitivities to the initial state are wanted, of runs of one system.
    threads : int
        Number of threads.
    begin : float, s
        Time of the first sample, for messages.

    Returns
    -------
    Rollout

    Raises
    ------
    SolverError
        If a motion diverges, or a mass matrix is not positive definite.
    UsageError
        Without the native kernel (`Multibody.native` is None), for systems that do not fit together, or for
        sensitivities of several systems.

    """
    asked = len(parameters) > 0 or first_state
    shared, models = _joined(system, len(start))
    if asked and models.size:
        raise UsageError(
            "array-shape",
            found=f"sensitivities of {len(start)} systems",
            expected="sensitivities of one system",
        )
    native = shared.native()
    if native is None:
        raise UsageError("kernel", found="the NumPy kernel", expected="the native one")
    s = shared.size
    rows = samples if sample_hold is not None else 2 * count * (samples - 1) + 1
    holding = sample_hold if sample_hold is not None else Held(count)
    steps = np.array(
        [h * (1.0 - holding.share) / max(holding.count, 1), h * holding.share / max(holding.early, 1)]
    )
    history = (
        np.zeros(0) if holding.history is None else np.ascontiguousarray(holding.history, dtype=np.float64)
    )
    weight = None if control.weight is None else control.weight.native()
    numbers = [samples, holding.count, holding.early, holding.delay]
    states, u, failures, dx, dv = native.rollout(
        np.ascontiguousarray(start, dtype=np.float64),
        control.gains(),
        np.ascontiguousarray(control.tables(rows)),
        history,
        weight,
        numbers,
        steps,
        sample_hold is not None,
        parameter_table(parameters),
        first_state,
        models,
        threads,
    )
    raise_failure(failures, h, begin)
    return Rollout(
        states[:, :, :s],
        states[:, :, s:],
        u if sample_hold is not None else None,
        dx if asked else None,
        dv if asked else None,
    )


@dataclass(frozen=True, eq=False)
class AdaptiveRollout:
    """Simulated runs with steps of adaptive length.

    Parameters
    ----------
    x, v : ndarray, shape (B, K, s)
        Positions and velocities of B runs at K samples.
    u : ndarray, shape (B, K, n), or None
        Commands, if the torque is held.
    share : ndarray, shape (B,)
        Length of the next step of each run, as a share of an interval.
    tried : ndarray, shape (B,)
        Number of steps that each run has tried.

    """

    x: Float
    v: Float
    u: Float | None
    share: Float
    tried: Float


def adaptive_rollout(
    system: Multibody | Sequence[Multibody],
    start: Float,
    samples: int,
    h: float,
    count: int,
    control: Control,
    tolerance: float,
    constant_input: bool = False,
    most: int = 5_000_000,
    before: AdaptiveRollout | None = None,
    threads: int = 1,
    begin: float = 0.0,
) -> AdaptiveRollout:
    """Simulate runs of a system, or of a system each, with linearly implicit steps of adaptive length.

    The implicit part is smoothed friction, damping, springs and the feedback of the drives, so that a light joint with
    much friction does not shorten the steps. See `dynid.kernel.rosenbrock` for the scheme and its control of the error.
    The result does not depend on the number of threads. A run in a batch equals the same run alone, byte for byte.

    Parameters
    ----------
    system : Multibody, or sequence of B Multibody
        The system of all runs or of each. Those of a batch have the same tree, projection, drives and friction joints.
    start : ndarray, shape (B, 2 s)
        Initial states.
    samples : int
        Number of samples K.
    h : float, s
        Time between samples.
    count : int
        Intervals per sample; no step is longer. The tables of the controller have four rows per interval and one more
        at the end, or one row per sample if the torque is held; between them the inputs are a quartic.
    control : Control
        Controllers of the drives.
    tolerance : float
        Greatest estimated error of a step in rad (m), relative to 1 + abs(position); times SPEED_SHARE in rad/s (m/s).
    constant_input : bool
        Whether the torque is constant over each sample.
    most : int
        Most steps that a run may try.
    before : AdaptiveRollout, optional
        Runs that these continue; None = they begin here.
    threads : int
        Number of threads.
    begin : float, s
        Time of the first sample, for messages.

    Returns
    -------
    AdaptiveRollout

    Raises
    ------
    SolverError
        If a motion diverges, or a mass matrix is not positive definite.
    ResourceError
        If a run tries more steps.
    UsageError
        For systems that do not fit together.

    """
    shared, models = _joined(system, len(start))
    share = np.ones(len(start)) if before is None else np.array(before.share)
    tried = np.zeros(len(start)) if before is None else np.array(before.tried)
    rows = samples if constant_input else INPUT_ROWS * count * (samples - 1) + 1
    tables = np.ascontiguousarray(control.tables(rows))
    start = np.ascontiguousarray(start, dtype=np.float64)
    s, native = shared.size, shared.native()
    if native is None:
        every = [system] * len(start) if isinstance(system, Multibody) else system
        states, u, failures = _adaptive_numpy(
            every, start, (samples, count), h, control, tables, tolerance, constant_input, most, share, tried
        )
    else:
        states, u, failures = native.adaptive(
            start,
            control.gains(),
            tables,
            None if control.weight is None else control.weight.native(),
            [samples, count],
            np.array([h / count, tolerance, tolerance * SPEED_SHARE, LEAST_SHARE, float(most)]),
            constant_input,
            share,
            tried,
            models,
            threads,
        )
    if (failures[:, 0] == _BUDGET).any():
        sample = float(failures[failures[:, 0] == _BUDGET, 1].min())
        raise out_of_steps(begin + sample * h, most)
    raise_failure(failures, h, begin)
    return AdaptiveRollout(states[:, :, :s], states[:, :, s:], u if constant_input else None, share, tried)


# Kind of failure of `adaptive_rollout` beside those of `raise_failure`: too many steps.
_BUDGET = 3


def _joined(system: Multibody | Sequence[Multibody], runs: int) -> tuple[Multibody, Float]:
    # A system with the pattern of all, and their numbers (runs, P) as the native kernel orders them; none for one.
    if isinstance(system, Multibody):
        return system, np.zeros(0)
    if len(system) != runs or not runs:
        raise UsageError(
            "array-shape", found=f"{len(system)} systems for {runs} runs", expected="one system per run"
        )
    first = system[0]
    for other in system[1:]:
        tree, other_tree = first.tree, other.tree
        for name in ("parent", "prismatic", "axis", "rotation", "translation", "gravity"):
            if not np.array_equal(getattr(tree, name), getattr(other_tree, name)):
                raise UsageError(
                    "array-shape", found=f"systems whose trees differ in {name}", expected="one tree"
                )
        for name in ("projection", "shift", "driven", "at"):
            if not np.array_equal(getattr(first, name), getattr(other, name)):
                raise UsageError(
                    "array-shape", found=f"systems that differ in {name}", expected=f"the same {name}"
                )
    if all(other is first for other in system):
        return first, np.zeros(0)
    names = ("inertia", "mass", "stiffness", "damping", "constant", "level", "width")
    models = np.array([np.concatenate([np.ravel(getattr(each, name)) for name in names]) for each in system])
    mass, stiffness, damping = (
        np.sum([np.abs(getattr(each, name)) for each in system], axis=0)
        for name in ("mass", "stiffness", "damping")
    )
    return replace(first, mass=mass, stiffness=stiffness, damping=damping), models


def _adaptive_numpy(
    systems: Sequence[Multibody],
    start: Float,
    numbers: tuple[int, int],
    h: float,
    control: Control,
    tables: Float,
    tolerance: float,
    constant_input: bool,
    most: int,
    share: Float,
    tried: Float,
) -> tuple[Float, Float, Float]:
    # States (B, K, 2 s), inputs (B, K, n) and failures (B, 2), run by run; share and tried (B,) are moved on.
    samples, count = numbers
    B, s = len(start), start.shape[1] // 2
    scale = tolerance * np.repeat([1.0, SPEED_SHARE], s)
    states, inputs, failures = (
        np.zeros((B, samples, 2 * s)),
        np.zeros((B, samples, control.n)),
        np.zeros((B, 2)),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        for run in range(B):
            loop = _Loop(systems[run], control, tables[:, run if tables.shape[1] > 1 else 0])
            y = start[run]
            for k in range(samples):
                states[run, k] = y
                if constant_input:
                    inputs[run, k] = loop.fixed = loop.torque(loop.table[:, k], y)
                for i in range(count if k + 1 < samples else 0):
                    loop.row = INPUT_ROWS * (k * count + i)
                    left = most - int(tried[run])
                    after = advance(loop.rate, loop.jacobian, y, h / count, share[run], scale, left)
                    if after is None or after.at < 1.0:
                        failures[run] = (1.0 if after is None else _BUDGET), k
                        break
                    y, share[run] = after.y, after.share
                    tried[run] += after.tried
                if failures[run, 0]:
                    break
    return states, inputs, failures


class _Loop:
    # A system under its controller, for the steps in NumPy; torque that is held stands in `fixed`.
    def __init__(self, system: Multibody, control: Control, table: Float) -> None:
        self.system, self.control, self.table = system, control, table
        self.gains = control.gains()
        self.row = 0
        self.fixed: Float | None = None

    def torque(self, inputs: Float, y: Float) -> Float:
        return self._feedback(inputs, y)[0]

    def _feedback(self, inputs: Float, y: Float) -> tuple[Float, Float, Float]:
        # Torque (n,) and its slopes by position and velocity of the drives.
        system, (kp, kd, limit, dead_band) = self.system, self.gains
        q, v, u, bend = inputs
        x, speed = y[: system.size][system.driven], y[system.size :][system.driven]
        acts = (
            np.abs(q - x) > dead_band
            if self.control.dead_band is not None
            else np.ones(len(x), dtype=np.bool_)
        )
        total = u + kp * (q - x) * acts + kd * (v - speed)
        free = np.abs(total) <= limit
        total = np.clip(total, -limit, limit)
        if self.control.weight is not None:
            total = total + self.control.weight.gravity((x - bend)[None])[0]
        return total, -kp * acts * free, -kd * free

    def _inputs(self, at: float) -> Float:
        rows = self.table[:, self.row : self.row + INPUT_ROWS + 1]
        return np.asarray(np.einsum("r,tri->ti", input_weights(at), rows))

    def rate(self, at: float, y: Float) -> Float:
        s = self.system.size
        u = self.torque(self._inputs(at), y) if self.fixed is None else self.fixed
        M, h = self.system.equations(y[None, :s], y[None, s:])
        force = -h[0]
        force[self.system.driven] += u
        return np.concatenate([y[s:], np.linalg.solve(M[0], force)])

    def jacobian(self, at: float, y: Float, f: Float) -> Float:
        system, s = self.system, self.system.size
        slope_x, slope_v = np.zeros((2, s))
        if self.fixed is None:
            _, by_q, by_v = self._feedback(self._inputs(at), y)
            slope_x[system.driven] += np.maximum(-by_q, 0.0)
            slope_v[system.driven] += np.maximum(-by_v, 0.0)
        wide = system.width > 0
        sign = system.signs(y[None, s:])[0]
        steep = (1.0 - sign * sign) * np.where(wide, system.level / np.where(wide, system.width, 1.0), 0.0)
        np.add.at(slope_v, system.at, np.maximum(steep, 0.0))
        K = 0.5 * (system.stiffness + system.stiffness.T) + np.diag(slope_x)
        D = 0.5 * (system.damping + system.damping.T) + np.diag(slope_v)
        J = np.zeros((2 * s, 2 * s))
        J[:s, s:] = np.eye(s)
        M = system.equations(y[None, :s], y[None, s:])[0][0]
        J[s:] = -np.linalg.solve(M, np.hstack([K, D]))
        return J


def raise_failure(failures: Float, h: float, begin: float = 0.0) -> None:
    """Raise SolverError for the first failed run.

    Parameters
    ----------
    failures : ndarray, shape (groups, 2)
        Kind of failure (0 = none, 1 = not finite, 2 = mass matrix not positive definite) and sample.
    h : float, s
        Time between samples.
    begin : float, s
        Time of the first sample.

    """
    for kind, sample in np.asarray(failures):
        if kind == 2:
            raise SolverError(
                "singular-mass-matrix",
                found="a mass matrix that is not positive definite",
                expected="inertia that moves with each joint",
            )
        if kind:
            raise diverged(begin + sample * h)


def diverged(t: float) -> SolverError:
    """Return the error for a motion that diverges at time t, s."""
    return SolverError(
        "diverged",
        found=f"no finite acceleration at t = {t:.6g} s",
        expected="a motion that stays finite",
        do="shorten the step or soften the torque law",
    )


def follow(
    system: Multibody,
    start: Float,
    rate: float,
    count: int,
    gains: Float,
    tables: Float,
    measured: Float,
    stiffness: Float,
    damping: Float,
    options: tuple[float, float, float],
    threads: int = 1,
) -> tuple[Float, Float, int | None]:
    """Simulate runs that controllers keep close to a measured motion, with steps of the ROS2 scheme.

    The system must have a native kernel.

    Parameters
    ----------
    system : Multibody
        The system.
    start : ndarray, shape (B, 2 s)
        Initial states.
    rate : float, Hz
        Rate of the samples.
    count : int
        Steps per sample.
    gains : ndarray, shape (2, n)
        kp and kd.
    tables : ndarray, shape (3, B, R, n)
        Torque, positions and velocities of the drives, two rows per step.
    measured : ndarray, shape (B, K, s)
        The measured motion.
    stiffness, damping : ndarray, shape (s, s)
        Matrices of the implicit part of the steps.
    options : tuple of float
        Gamma of the scheme, least velocity of a secant slope, and greatest distance from the measured motion.
    threads : int
        Number of threads.

    Returns
    -------
    x, v : ndarray, shape (B, K, s)
    stray : int or None
        First sample where a run is too far from the measured motion.

    Raises
    ------
    SolverError
        If a mass matrix is not positive definite.

    """
    off = np.array(damping)
    np.fill_diagonal(off, 0.0)
    states, failures = system.native().follow(
        np.ascontiguousarray(start),
        np.ascontiguousarray(gains),
        np.ascontiguousarray(tables),
        np.ascontiguousarray(measured),
        np.ascontiguousarray(stiffness),
        off,
        [measured.shape[1], count],
        np.array([1.0 / rate / count, *options]),
        threads,
    )
    if (failures[:, 0] == 2).any():
        raise_failure(failures[failures[:, 0] == 2], 1.0 / rate)
    strays = failures[failures[:, 0] == 1, 1]
    s = system.size
    return states[:, :, :s], states[:, :, s:], int(strays.min()) if len(strays) else None


def variation(
    system: Multibody,
    motion: tuple[Float, Float, Float],
    gains: Float,
    outputs: Float,
    parameters: Sequence[Parameter],
    h: float,
    first_state: bool,
    threads: int = 1,
) -> Float:
    """Sensitivities of outputs along given runs, by `variational` with the exact derivatives of the system.

    The system must have a native kernel and smoothed signs.

    Parameters
    ----------
    system : Multibody
        The system.
    motion : tuple of ndarray, shape (B, K, s)
        Positions, velocities and accelerations of the runs.
    gains : ndarray, shape (2, n)
        kp and kd of the drives.
    outputs : ndarray, shape (3, r)
        Coordinate, weight of its position and weight of its velocity.
    parameters : sequence of Parameter
        Parameters with sensitivities.
    h : float, s
        Time between samples.
    first_state : bool
        Whether sensitivities to the initial state are wanted.
    threads : int
        Number of threads.

    Returns
    -------
    ndarray, shape (B, K, r, w [+ 2 s])

    """
    return np.asarray(
        system.native().variation(
            *map(np.ascontiguousarray, (*motion, gains, outputs)),
            parameter_table(parameters),
            h,
            first_state,
            threads,
        )
    )


def variational(
    J: Float, G: Float, h: float, first_state: bool, threads: int = 1
) -> tuple[Float, Float] | None:
    """Integrate d(x, v)/dt = (v, J (x, v) + G) with Lobatto IIIC, see simulation/loop.py.

    Parameters
    ----------
    J : ndarray, shape (B, K, s, 2 s)
        Derivatives of the acceleration by the state.
    G : ndarray, shape (B, K, s, w)
        Derivatives of the acceleration by the parameters.
    h : float, s
        Time between samples.
    first_state : bool
        Whether sensitivities to the initial state are wanted, as 2 s more columns.
    threads : int
        Number of threads.

    Returns
    -------
    tuple of ndarray, shape (B, K, s, w [+ 2 s]), or None
        Sensitivities of x and v; None without the native kernel.

    """
    kernel = _chosen()
    if kernel is None:
        return None
    x, v = kernel.variational(np.ascontiguousarray(J), np.ascontiguousarray(G), h, first_state, threads)
    return np.asarray(x), np.asarray(v)


def stick(
    system: Multibody,
    start: Float,
    u: Float,
    rate: float,
    constant: bool,
    watched: bool,
    steps: tuple[int, int],
    rounds: tuple[int, int, int],
    bounds: tuple[float, float, float],
    threads: int = 1,
) -> tuple[Float, Float, Float, Int]:
    """Simulate runs with sticking joints, see simulation/forward.py.

    Parameters
    ----------
    system : Multibody
        The system.
    start : ndarray, shape (B, 2 s)
        Initial states.
    u : ndarray, shape (B, K, n)
        Torque.
    rate : float, Hz
        Rate of the samples.
    constant : bool
        Whether the torque is constant between samples, not linear.
    watched : bool
        Whether smoothed friction is so steep that steps must be shortened.
    steps : tuple of int
        Least and greatest number of steps per sample.
    rounds : tuple of int
        Greatest number of events per step, of refinements per event, and of sweeps over the joints at rest.
    bounds : tuple of float
        Greatest position, velocity that counts as zero, and least share of a step.
    threads : int
        Number of threads.

    Returns
    -------
    x, v : ndarray, shape (B, K, s)
    sticks : ndarray, shape (B, K, s)
        Whether each coordinate sticks.
    ended : ndarray of int, shape (B,)
        Sample at which a run stops early; -1 for a complete run.

    """
    states, ended = system.native().stick(
        np.ascontiguousarray(start, dtype=np.float64),
        np.ascontiguousarray(u, dtype=np.float64),
        [*steps, *rounds],
        np.array([1.0 / rate, *bounds]),
        constant,
        watched,
        threads,
    )
    s = system.size
    return states[..., :s], states[..., s : 2 * s], states[..., 2 * s :], np.asarray(ended).astype(np.int64)


def out_of_steps(t: float, most: int) -> ResourceError:
    """Return the error for a motion that takes more than `most` steps to go beyond time t, s."""
    return ResourceError(
        "simulation-steps",
        found=f"a simulation that reached t = {t:.4g} s after {most / 1e6:.3g} million steps",
        expected="a motion that the integrator resolves in fewer steps",
        do="smooth friction over a wider velocity, soften springs or gains, or shorten the motion",
    )
