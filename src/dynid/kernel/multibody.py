"""A multibody system with known parameters, and runs of it: one compiled step, or the same in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int, locked, locked_int
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import _chosen, _whole, equations_of_motion
from dynid.kernel.handles import keep_handle
from dynid.kernel.tree import Tree

__all__ = [
    "Control",
    "Held",
    "Multibody",
    "Parameter",
    "Rollout",
    "Slope",
    "diverged",
    "follow",
    "parameter_table",
    "raise_failure",
    "rollout",
    "stick",
    "variation",
    "variational",
]


class Slope(IntEnum):
    """What a parameter multiplies in the generalised force of its coordinates; the native kernel numbers them alike."""

    BODY = 0
    ACCELERATION = 1
    VELOCITY = 2
    SIGN = 3
    ONE = 4
    DEFLECTION = 5
    DEFLECTION_RATE = 6


@dataclass(frozen=True)
class Parameter:
    """A parameter of a system, whose slope is one motion of coordinate `first`.

    BODY: of column `second` (0 to 9) of body `first`.    SIGN: of tanh(v / width), or sign(v) for a width of 0.
    DEFLECTION and its rate: of x_first - x_second on `first`, and its opposite on `second`.
    """

    kind: Slope
    first: int
    second: int = 0
    width: float = 0.0


@dataclass(frozen=True, eq=False)
class Multibody:
    """M(x) a + h(x, v) = force, of bodies on a tree, rotors, springs and friction, over s coordinates x.

    M = P' M_tree P + mass, h = P' h_tree + stiffness x + damping v + constant + sum level tanh(v_at / width).

    inertia: (nb, 10).    projection, shift: P (nb, s) and (nb,), the tree's positions are P x + shift.
    mass, stiffness, damping: (s, s).    constant: (s,).    Empty arrays are zero.
    at, level, width: (f,) friction with the sign of a velocity; width 0 = the sign itself.
    driven: (n,) coordinates on which the drives act.
    Raises UsageError for arrays that do not belong together.
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
        """M (B, s, s) and h (B, s) in states (B, s) each."""
        P = self.projection
        M, h = equations_of_motion(self.tree, self.inertia, x @ P.T + self.shift, v @ P.T)
        M = P.T @ M @ P + self.mass
        h = h @ P + x @ self.stiffness.T + v @ self.damping.T + self.constant
        return M, h + self.signs(v) @ self._on_coordinates(self.level)

    def signs(self, v: Float) -> Float:
        """Smoothed signs (B, f) of velocities (B, s)."""
        speed = v[:, self.at]
        wide = self.width > 0
        return np.where(wide, np.tanh(speed / np.where(wide, self.width, 1.0)), np.sign(speed))

    def native(self) -> Any:
        """The same in the native kernel; None where NumPy is in use."""
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
    """u = sat(kp e(q_ref - q) + kd (v_ref - v) + u_ref + g(q - bend)) of n drives, e(x) = 0 for abs(x) <= dead_band.

    kp, kd, limit, dead_band: (n,); None = no such part.
    q, v, u, bend: (R, n) for all runs or (B, R, n), None = zero; rows are half steps, or samples where u is held.
    weight: the rigid system whose weight g is held.
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
        """(4, n) kp, kd, limit, dead band."""
        rows = ((self.kp, 0.0), (self.kd, 0.0), (self.limit, np.inf), (self.dead_band, 0.0))
        return np.array(
            [np.full(self.n, least) if x is None else np.broadcast_to(x, (self.n,)) for x, least in rows]
        )

    def tables(self, rows: int) -> Float:
        """(4, B or 1, rows, n) q, v, u, bend; raises UsageError for tables of other lengths."""
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
    """Runs of a system: x, v (B, K, s), and where torque is held the commands u (B, K, n), else None.

    dx, dv: (B, K, s, w [+ 2 s]) slopes by parameters and first state, None = not asked for.
    """

    x: Float
    v: Float
    u: Float | None
    dx: Float | None = None
    dv: Float | None = None


@dataclass(frozen=True, eq=False)
class Held:
    """Torque that is held from sample to sample, and acts `delay` samples and a part of one later.

    early, count: steps of a sample's first part, in which the torque of delay + 1 samples ago acts, and of the rest.
    share: of a sample that the first part takes, 0 to 1.
    history: (B, delay + 2, n) torques before the first sample, the latest first; None = zero.
    """

    count: int
    delay: int = 0
    early: int = 0
    share: float = 0.0
    history: Float | None = None

    def rows(self, samples: int) -> Float:
        """Times (R,) at the beginning, middle and end of all steps between so many samples, in samples."""
        first = self.share * np.arange(2 * self.early) / max(2 * self.early, 1)
        rest = self.share + (1.0 - self.share) * np.arange(2 * self.count) / (2 * self.count)
        inside = np.arange(samples - 1)[:, None] + np.concatenate([first, rest])
        return np.append(inside.ravel(), float(samples - 1))

    @staticmethod
    def of(delay: float, count: int, history: Float | None = None) -> Held:
        """A delay in samples, with about `count` steps a sample."""
        whole, share = int(np.floor(delay + 1e-9)), max(delay - np.floor(delay + 1e-9), 0.0)
        share = float(share) if share > 1e-9 else 0.0
        early = int(np.ceil(count * share - 1e-9))
        late = max(int(np.ceil(count * (1.0 - share) - 1e-9)), 1)
        return Held(late, whole, early, share, history)


def parameter_table(parameters: Sequence[Parameter]) -> Float:
    """Kind, first, second and width of parameters (w, 4), as the native kernel wants them."""
    rows = [[p.kind, p.first, p.second, p.width] for p in parameters]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def rollout(
    system: Multibody,
    start: Float,
    samples: int,
    h: float,
    count: int,
    control: Control,
    held: Held | None = None,
    parameters: Sequence[Parameter] = (),
    first_state: bool = False,
    threads: int = 1,
    begin: float = 0.0,
) -> Rollout:
    """Runs from states (B, 2 s) over K samples, h seconds apart, in `count` classical Runge-Kutta steps a sample.

    The controller is asked at every stage, or held. Slopes are those of the steps themselves, exact but where the
    torque reaches its limit within a step. The same bytes for any number of threads.
    begin: time of the first sample, s, for messages.

    Raises SolverError for a motion that runs off, or a mass matrix that is not positive definite; UsageError without
    the native kernel (`Multibody.native` is None).
    """
    native = system.native()
    if native is None:
        raise UsageError("kernel", found="the NumPy kernel", expected="the native one")
    s = system.size
    rows = samples if held is not None else 2 * count * (samples - 1) + 1
    holding = held if held is not None else Held(count)
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
        held is not None,
        parameter_table(parameters),
        first_state,
        threads,
    )
    raise_failure(failures, h, begin)
    asked = len(parameters) > 0 or first_state
    return Rollout(
        states[:, :, :s],
        states[:, :, s:],
        u if held is not None else None,
        dx if asked else None,
        dv if asked else None,
    )


def raise_failure(failures: Float, h: float, begin: float = 0.0) -> None:
    """Raises SolverError for the first run that has failed: kind 1 = not finite, 2 = mass matrix; (groups, 2)."""
    for kind, sample in np.asarray(failures):
        if kind == 2:
            raise SolverError(
                "singular-mass-matrix",
                found="a mass matrix that is not positive definite",
                expected="every joint to move some inertia",
            )
        if kind:
            raise diverged(begin + sample * h)


def diverged(t: float) -> SolverError:
    """The error of a motion that runs off to infinity."""
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
    """Runs held to a measured motion by ROS2 steps, `count` a sample: x, v (B, K, s), and the sample where one strays.

    start: (B, 2 s).    gains: (2, n) kp, kd.    tables: (3, B, R, n) torque, positions and velocities of the drives,
    two rows a step.    measured: (B, K, s), which no run may leave.    stiffness, damping: (s, s) of the steps' matrix.
    options: gamma of the scheme, slowest velocity of a secant slope, greatest distance from the measured motion.
    Raises SolverError for a mass matrix that is not positive definite; the system must have a native kernel.
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
    """`variational` along runs x, v, a (B, K, s) of a system, with its exact slopes; its signs must be smoothed.

    gains: (2, n) kp, kd of the drives.    outputs: (3, r) coordinate, weight of its position and of its velocity.
    Returns the outputs' slopes (B, K, r, w [+ 2 s]); the system must have a native kernel.
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
    """Lobatto IIIC for d(x, v)/dt = (v, J (x, v) + G), see simulation/loop.py; None without the native kernel.

    J: (B, K, s, 2 s).    G: (B, K, s, w).    Returns x and v (B, K, s, w), and 2 s more columns for the first state.
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
    """Runs with sticking joints, see simulation/forward.py: x, v, whether it sticks (B, K, s), and where it ends (B,).

    start: (B, 2 s).    u: (B, K, n) torque, constant between samples or straight.    watched: whether smooth friction
    is steep, so that steps are shortened.    steps: a sample, at least and at most.    rounds: events a step,
    refinements of an event, sweeps over the joints at rest.    bounds: greatest position, velocity beside zero, and
    shortest share of a step. The end is -1 for a run that came to its own.
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
