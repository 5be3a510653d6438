"""Equations of motion of any linear model with known parameters: mass matrix and everything else."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from dynid.base.arrays import Float, locked, locked_bool
from dynid.base.errors import SolverError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import equations_of_motion, solved
from dynid.kernel.multibody import Multibody, stick
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.mechanism import Mechanism, tried_positions
from dynid.terms.exports import Kind, MotionBasis, Reads, smooth_sign
from dynid.terms.forms import channels_of, known_torque, seen_by, torque_of
from dynid.terms.term import JointTerm, Term, Terms, joint_indices

_TRIED = 3


class ForwardModel:
    """M(q) and h(q, dq) with tau = M ddq + h, of terms with parameters theta.

    Terms whose part of M is the same everywhere, as that of rotors, are asked for it once.
    """

    def __init__(self, robot: RobotModel, terms: Terms, theta: Float) -> None:
        """theta: (p,) over terms.columns(robot).

        Raises UsageError for parameters of another length, or a term that reads a log channel or the past.
        """
        p = len(terms.columns(robot))
        other = [term.name for term in terms if channels_of(term) or Reads.PAST in term.traits.reads]
        if np.shape(theta) != (p,) or other:
            raise UsageError(
                "forward-model",
                found=f"{np.shape(theta)} parameters" + (f", terms {', '.join(other)}" if other else ""),
                expected=f"({p},) parameters and terms of the present motion alone",
            )
        self.robot, self.n = robot, robot.n
        self._terms, self._theta = terms, np.array(theta)
        self._bodies = np.zeros((robot.n_bodies, 10))
        self._steady: list[tuple[Term, Float]] = []
        self._moving: list[tuple[Term, Float]] = []
        self._mass = np.zeros((robot.n, robot.n))
        self._viscous = np.zeros(robot.n)
        self._coulomb: list[tuple[float, Float]] = []
        first = 0
        for term in terms:
            count = len(term.columns(robot))
            self._sort(term, np.array(theta[first : first + count]))
            first += count

    @cached_property
    def multibody(self) -> Multibody | None:
        """The same for the compiled step; None for what it does not know."""
        return Mechanism(self.robot, self._terms, self._theta).multibody

    def equations(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """M (B, n, n) and h (B, n) in states (B, n); M may be indefinite where theta is no body's."""
        robot = self.robot
        if robot.has_mimic:
            P = robot.projection
            M, h = equations_of_motion(robot.tree, self._bodies, q @ P.T + robot.projection_offset, dq @ P.T)
            M, h = P.T @ M @ P, h @ P
        else:
            M, h = equations_of_motion(robot.tree, self._bodies, q, dq)
        M, h = M + self._mass, h + self._viscous * dq
        for width, part in self._coulomb:
            h += part * smooth_sign(dq, width)
        if self._steady or self._moving:
            samples = Samples.from_motion(q, dq, np.zeros_like(q))
            for term, part in self._steady + self._moving:
                h += _torque(term, robot, samples, part)
        for term, part in self._moving:
            M += self._mass_of(term, part, q)
        return M, h

    def _sort(self, term: Term, part: Float) -> None:
        if term.traits.kind is Kind.BODIES:
            self._bodies = self._bodies + part.reshape(self._bodies.shape)
            return
        # The commonest friction without the detour over samples: an integration asks for it thousands of times.
        if isinstance(term, JointTerm) and term.traits.basis is MotionBasis.SPEED:
            self._viscous[list(joint_indices(self.robot, term.joints))] += part
            return
        if isinstance(term, JointTerm) and term.traits.basis is MotionBasis.SIGN:
            level = np.zeros(self.n)
            level[list(joint_indices(self.robot, term.joints))] = part
            self._coulomb.append((term.width, level))
            return
        q = tried_positions(self.robot, _TRIED)
        mass = self._mass_of(term, part, q)
        if np.allclose(mass, mass[0], rtol=1e-9, atol=0.0):
            self._mass = self._mass + mass[0]
            self._steady.append((term, part))
        else:
            self._moving.append((term, part))

    def _mass_of(self, term: Term, part: Float, q: Float) -> Float:
        B, n = np.shape(q)
        zero = np.zeros((B * (n + 1), n))
        ddq = np.tile(np.vstack([np.zeros((1, n)), np.eye(n)]), (B, 1))
        found = _torque(term, self.robot, Samples.from_motion(np.repeat(q, n + 1, axis=0), zero, ddq), part)
        found = found.reshape(B, n + 1, n)
        return np.asarray((found[:, 1:] - found[:, :1]).transpose(0, 2, 1))


def _torque(term: Term, robot: RobotModel, samples: Samples, part: Float) -> Float:
    known = known_torque(term, robot, seen_by(term, samples))
    if isinstance(term, JointTerm):
        # One line a joint: the basis itself, without the panels of a regressor.
        found = np.zeros_like(samples.q)
        acting = list(joint_indices(robot, term.joints))
        found[:, acting] = part * term.basis(robot, seen_by(term, samples))[:, acting]
    else:
        found = torque_of(term, robot, seen_by(term, samples), part)
    return found if known is None else found + known


# Motion under dry friction: joints that slide, come to rest and stick, each event at its own time.

Hold = Literal["linear", "zero"]
# Beside zero velocity: near enough for any smooth friction, far enough to differ from zero.
BESIDE = 1e-9
FAR = 1e3
_EVENTS = 8
_REFINEMENTS = 3
_SHORTEST = 1e-4
_MOST_STEPS = 64
_SWEEPS = 60


class Mechanics(Protocol):
    """The seam for what moves."""

    def equations(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """Mass matrix (B, n, n), and the torque (B, n) that a motion without acceleration needs, friction included."""
        ...


@runtime_checkable
class Compiled(Protocol):
    """Mechanics that the compiled step may know."""

    @property
    def multibody(self) -> Multibody | None:
        """The same for the native kernel; None for what it does not know."""
        ...


@dataclass(frozen=True, eq=False)
class StickSlip:
    """A motion with the joints' states of sticking.

    q, dq: (T, n), nan once the motion has run off.    stuck: (T, n) whether a joint is held by friction.
    diverged: index of the sample at which it has run off, None = it came to its end.
    """

    q: Float
    dq: Float
    stuck: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    diverged: int | None

    def __post_init__(self) -> None:
        T, n = np.shape(self.q)
        object.__setattr__(self, "q", locked(self.q, (T, n), "q"))
        object.__setattr__(self, "dq", locked(self.dq, (T, n), "dq"))
        object.__setattr__(self, "stuck", locked_bool(self.stuck, (T, n), "stuck"))


@dataclass(frozen=True, eq=False)
class _Now:
    # Position, velocity, and the direction in which each joint slides: 1, -1, 0 = it sticks.
    q: Float
    v: Float
    way: Float


def stick_slip(
    mechanics: Mechanics,
    q: Float,
    dq: Float,
    tau: Float,
    rate: float,
    hold: Hold = "linear",
    substeps: int = 1,
) -> StickSlip:
    """Motion from a state (n,) under torque tau (T, n), by Runge-Kutta of fourth order between events.

    M(q) ddq + h(q, dq) = tau, where h jumps as a joint's velocity passes zero: there the friction takes whatever value
    between both sides holds the joint, if one does. A joint's stop is found within the step; its break-away is looked
    for at every step. Friction that is steep but smooth shortens the steps instead.

    rate: Hz, of tau.    hold: "zero" where torque is constant between samples, else "linear".    substeps: a sample.
    A motion beyond 1000 rad, or with a mass matrix that has lost its sign, is given back as diverged.
    Raises UsageError for shapes that disagree or no substep.
    """
    T, n = np.shape(tau)
    if np.shape(q) != (n,) or np.shape(dq) != (n,) or T < 2 or substeps < 1:
        raise UsageError(
            "stick-slip",
            found=f"a state of {np.shape(q)} and {np.shape(dq)}, torque {np.shape(tau)}, {substeps} substeps",
            expected="a state of one value a joint, two rows of torque, one substep or more",
        )
    path, speed, stuck = np.full((T, n), np.nan), np.full((T, n), np.nan), np.zeros((T, n), dtype=np.bool_)
    first = _Now(np.array(q), np.array(dq), np.sign(dq))
    pace = _Pace(mechanics, first, 1.0 / rate, substeps)
    system = mechanics.multibody if isinstance(mechanics, Compiled) else None
    if system is not None and system.native() is not None:
        return _compiled(system, first, tau, rate, hold == "zero", substeps, pace.watched)
    now = _decided(mechanics, first, tau[0])
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(T):
            if not (np.isfinite(now.v).all() and (np.abs(now.q) < FAR).all()):
                return StickSlip(path, speed, stuck, k)
            path[k], speed[k], stuck[k] = now.q, now.v, now.way == 0
            if k + 1 < T:
                last = tau[k] if hold == "zero" else tau[k + 1]
                now = _sample(mechanics, now, tau[k], last, 1.0 / rate, pace.steps(now))
    return StickSlip(path, speed, stuck, None)


def _compiled(
    system: Multibody, now: _Now, tau: Float, rate: float, constant: bool, substeps: int, watched: bool
) -> StickSlip:
    start = np.concatenate([now.q, now.v])[None]
    steps, rounds = (substeps, max(substeps, _MOST_STEPS)), (_EVENTS, _REFINEMENTS, _SWEEPS)
    bounds = (FAR, BESIDE, _SHORTEST)
    q, dq, rests, ended = stick(system, start, tau[None], rate, constant, watched, steps, rounds, bounds)
    return StickSlip(q[0], dq[0], rests[0] == 1.0, int(ended[0]) if ended[0] >= 0 else None)


def _sample(mechanics: Mechanics, now: _Now, first: Float, last: Float, length: float, count: int) -> _Now:
    h = length / count
    for i in range(count):
        a, b = (first + part * (last - first) for part in (i / count, (i + 1) / count))
        way = np.where((now.way != 0) & (now.v != 0), np.sign(now.v), now.way)
        now = _step(mechanics, replace(now, way=way), a, b, h)
        if not np.isfinite(now.v).all():
            break
    return now


class _Pace:
    """How many steps a sample needs: more where smooth friction is steep over the velocities that a step may see."""

    def __init__(self, mechanics: Mechanics, now: _Now, length: float, least: int) -> None:
        self.mechanics, self.length, self.least = mechanics, length, least
        still = replace(now, v=np.zeros_like(now.v), way=np.zeros_like(now.v))
        self.watched = any(self._wanted(still, reach) > 0.3 * least for reach in (1e-4, 1e-3, 1e-2, 1e-1))

    def steps(self, now: _Now) -> int:
        """Number of steps for the sample that begins now."""
        if not self.watched:
            return self.least
        wanted = self._wanted(now, 1e-3)
        return max(self.least, int(min(np.ceil(wanted), _MOST_STEPS))) if np.isfinite(wanted) else self.least

    def _wanted(self, now: _Now, least_reach: float) -> float:
        # The slope of the torque across reachable velocities, jumps at zero left out, against the joint's inertia.
        reach = least_reach + np.abs(now.v)
        M, h = self.mechanics.equations(np.stack([now.q, now.q]), np.stack([now.v + reach, now.v - reach]))
        low, high = _limits(self.mechanics, replace(now, v=np.zeros_like(now.v), way=np.zeros_like(now.v)))
        slope = np.maximum(np.abs(h[0] - h[1]) - (high - low), 0.0) / (2.0 * reach)
        return self.length * float((slope / np.diagonal(M[0])).max())


def _step(mechanics: Mechanics, now: _Now, first: Float, last: Float, length: float) -> _Now:
    # From event to event: at each, a joint has stopped and is set to slide on, turn round or stick.
    done = 0.0
    for _ in range(_EVENTS):
        begin = first + done * (last - first)
        now = _decided(mechanics, now, begin)
        rest = 1.0 - done
        ahead = _runge_kutta(mechanics, now, begin, last, rest * length)
        event = _stop(now, ahead)
        if event is None:
            return ahead
        joint, at = event
        for i in range(_REFINEMENTS + 1):
            early = _runge_kutta(mechanics, now, begin, begin + at * (last - begin), at * rest * length)
            change = early.v[joint] - now.v[joint]
            if i == _REFINEMENTS or change == 0 or abs(early.v[joint]) < BESIDE:
                break
            at = float(np.clip(-at * now.v[joint] / change, _SHORTEST, 1.0))
        v, way = np.array(early.v), np.array(early.way)
        v[joint] = way[joint] = 0.0
        now, done = _Now(early.q, v, way), done + at * rest
        if done >= 1.0 - _SHORTEST:
            return now
    begin = first + done * (last - first)
    return _runge_kutta(mechanics, _decided(mechanics, now, begin), begin, last, (1.0 - done) * length)


def _stop(now: _Now, ahead: _Now) -> tuple[int, float] | None:
    # The sliding joint that stops first, and after what share of the step.
    wrong = np.flatnonzero(now.way * ahead.v < 0)
    if not len(wrong):
        return None
    shares = [now.v[j] / (now.v[j] - ahead.v[j]) for j in wrong]
    first = int(np.argmin(shares))
    return int(wrong[first]), float(np.clip(shares[first], _SHORTEST, 1.0))


def _limits(mechanics: Mechanics, now: _Now) -> Float:
    # Least and greatest friction (2, n) that a joint at rest can take, from both sides of zero velocity.
    still = np.where(now.way == 0, 0.0, now.v)
    velocities = np.stack([still, still - BESIDE, still + BESIDE])
    at = np.where(now.way == 0, velocities, still)
    h = mechanics.equations(np.tile(now.q, (3, 1)), at)[1]
    return np.stack([np.minimum(h[1] - h[0], 0.0), np.maximum(h[2] - h[0], 0.0)])


def _decided(mechanics: Mechanics, now: _Now, tau: Float) -> _Now:
    """Which resting joints break away, and where to: the friction between its limits that keeps the most at rest."""
    resting = np.flatnonzero(now.way == 0)
    if not len(resting):
        return now
    low, high = _limits(mechanics, now)
    M, h = (part[0] for part in mechanics.equations(now.q[None], now.v[None]))
    try:
        inverse = np.linalg.inv(M)
    except np.linalg.LinAlgError:
        return replace(now, v=np.full_like(now.v, np.nan))
    force = np.zeros_like(tau)
    acceleration = inverse @ (tau - h)
    for _ in range(_SWEEPS if len(resting) > 1 else 1):
        before = np.array(force)
        for j in resting:
            wanted = force[j] + acceleration[j] / inverse[j, j]
            change = min(max(wanted, low[j]), high[j]) - force[j]
            force[j] += change
            acceleration = acceleration - inverse[:, j] * change
        if np.abs(force - before).max() <= 1e-12 * max(np.abs(force).max(), 1.0):
            break
    way = np.array(now.way)
    for j in resting:
        held = low[j] < force[j] < high[j]
        way[j] = 0.0 if held else (1.0 if force[j] >= high[j] > low[j] else -1.0)
        if low[j] == high[j]:
            way[j] = 1.0 if acceleration[j] >= 0 else -1.0
    return replace(now, way=way)


def _runge_kutta(mechanics: Mechanics, now: _Now, first: Float, last: Float, h: float) -> _Now:
    middle = 0.5 * (first + last)
    q, v, way = now.q, now.v, now.way
    a1 = _acceleration(mechanics, q, v, way, first)
    v2 = v + 0.5 * h * a1
    a2 = _acceleration(mechanics, q + 0.5 * h * v, v2, way, middle)
    v3 = v + 0.5 * h * a2
    a3 = _acceleration(mechanics, q + 0.5 * h * v2, v3, way, middle)
    v4 = v + h * a3
    a4 = _acceleration(mechanics, q + h * v3, v4, way, last)
    return _Now(q + h / 6.0 * (v + 2.0 * (v2 + v3) + v4), v + h / 6.0 * (a1 + 2.0 * (a2 + a3) + a4), way)


def _acceleration(mechanics: Mechanics, q: Float, v: Float, way: Float, tau: Float) -> Float:
    # A sliding joint keeps its side of zero within a step, so that its friction does not jump between stages.
    if not (np.isfinite(q).all() and np.isfinite(v).all()):
        return np.full_like(v, np.nan)
    side = np.where(way == 0, 0.0, way * np.maximum(way * v, BESIDE))
    M, h = (part[0] for part in mechanics.equations(q[None], side[None]))
    free = way != 0
    found = np.zeros_like(v)
    if not free.any():
        return found
    inside, force = (M, tau - h) if free.all() else (M[np.ix_(free, free)], (tau - h)[free])
    try:
        found[free] = solved(inside[None], force[None])[0]
    except SolverError:
        return np.full_like(v, np.nan)
    return found
