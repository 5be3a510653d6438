"""Forward dynamics of a linear model with known parameters, and simulation with joints that stick."""

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

# Postures in which the mass of a term is compared to decide whether it is constant.
_TRIED = 3


class ForwardModel:
    """Mass matrix M(q) and remaining torque h(q, dq) of a model, tau = M ddq + h.

    Terms whose part of M does not depend on the posture, such as rotors, are evaluated once.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    theta : ndarray, shape (p,)
        Parameters, in the order of `terms.columns(robot)`.

    Raises
    ------
    UsageError
        If theta has another length, or a term reads a log channel or past motion.

    """

    def __init__(self, robot: RobotModel, terms: Terms, theta: Float) -> None:
        """See the class."""
        p = len(terms.columns(robot))
        other = [term.name for term in terms if channels_of(term) or Reads.PAST in term.traits.reads]
        if np.shape(theta) != (p,) or other:
            raise UsageError(
                "forward-model",
                found=f"{np.shape(theta)} parameters" + (f", terms {', '.join(other)}" if other else ""),
                expected=f"({p},) parameters, and terms that depend on the present motion only",
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
            self._classify(term, np.array(theta[first : first + count]))
            first += count

    @cached_property
    def multibody(self) -> Multibody | None:
        """The same model for the compiled integration step; None if it contains terms that step cannot handle."""
        return Mechanism(self.robot, self._terms, self._theta).multibody

    def equations(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """Mass matrix and remaining torque of several states.

        M may be indefinite if theta does not belong to physical links.

        Parameters
        ----------
        q, dq : ndarray, shape (B, n), rad and rad/s (m and m/s)
            States.

        Returns
        -------
        M : ndarray, shape (B, n, n), kg m^2
            Mass matrices.
        h : ndarray, shape (B, n), N m (N)
            Coriolis, gravity and friction torque.

        """
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

    def _classify(self, term: Term, part: Float) -> None:
        if term.traits.kind is Kind.BODIES:
            self._bodies = self._bodies + part.reshape(self._bodies.shape)
            return
        # An integration evaluates the most common friction thousands of times, so it bypasses samples.
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
        torque = _torque(term, self.robot, Samples.from_motion(np.repeat(q, n + 1, axis=0), zero, ddq), part)
        torque = torque.reshape(B, n + 1, n)
        return np.asarray((torque[:, 1:] - torque[:, :1]).transpose(0, 2, 1))


def _torque(term: Term, robot: RobotModel, samples: Samples, part: Float) -> Float:
    known = known_torque(term, robot, seen_by(term, samples))
    if isinstance(term, JointTerm):
        # The basis has one line per joint, so no regressor panels are needed.
        torque = np.zeros_like(samples.q)
        acting = list(joint_indices(robot, term.joints))
        torque[:, acting] = part * term.basis(robot, seen_by(term, samples))[:, acting]
    else:
        torque = torque_of(term, robot, seen_by(term, samples), part)
    return torque if known is None else torque + known


# Motion with dry friction: joints slide, stop and stick, each event at its own time.

Hold = Literal["linear", "zero"]
# rad/s (m/s): small for any smooth friction, yet different from zero in floating point.
NEAR_ZERO = 1e-9
# rad or m: a position beyond this counts as divergence.
FAR = 1e3
# Most stops within one step, each of which restarts the step.
_EVENTS = 8
# Newton-like corrections of the time of a stop.
_REFINEMENTS = 3
# Shortest part of a step, so that a stop at its very beginning does not stall the simulation.
_SHORTEST = 1e-4
# Most integration steps per sample with steep smooth friction; more would be too slow.
_MOST_STEPS = 64
# Most Gauss-Seidel sweeps over resting joints, which influence each other's friction.
_SWEEPS = 60


class Mechanics(Protocol):
    """Interface of a mechanical system that `stick_slip` simulates."""

    def equations(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """Mass matrix (B, n, n), and the torque (B, n) of a motion without acceleration, friction included."""
        ...


@runtime_checkable
class Compiled(Protocol):
    """A mechanical system that the compiled integration step may handle."""

    @property
    def multibody(self) -> Multibody | None:
        """The same system for the native kernel; None if it cannot handle it."""
        ...


@dataclass(frozen=True, eq=False)
class StickSlip:
    """A simulated motion with the stick state of every joint.

    Attributes
    ----------
    q, dq : ndarray, shape (T, n), rad and rad/s (m and m/s)
        Positions and velocities; nan after divergence.
    stuck : ndarray of bool, shape (T, n)
        Whether dry friction holds the joint at rest.
    diverged : int or None
        Sample at which the motion diverged; None if it did not.

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
class _Moment:
    # Position, velocity, and direction of sliding of each joint: 1, -1, or 0 if it sticks.
    q: Float
    v: Float
    direction: Float


def stick_slip(
    mechanics: Mechanics,
    q: Float,
    dq: Float,
    tau: Float,
    rate: float,
    hold: Hold = "linear",
    substeps: int = 1,
) -> StickSlip:
    """Simulate a motion with dry friction, M(q) ddq + h(q, dq) = tau, by fourth-order Runge-Kutta between events.

    h jumps where the velocity of a joint passes zero. There friction takes the value between both sides that keeps
    the joint at rest, if one does. A stop is located within the step, a break-away is tested at every step. Steep
    but smooth friction shortens the steps instead.

    Parameters
    ----------
    mechanics : Mechanics
        System to simulate.
    q, dq : ndarray, shape (n,), rad and rad/s (m and m/s)
        Initial state.
    tau : ndarray, shape (T, n), N m (N)
        Drive torque.
    rate : float, Hz
        Sampling rate of tau.
    hold : {"linear", "zero"}
        Torque between samples: linear, or constant ("zero").
    substeps : int
        Least number of integration steps per sample.

    Returns
    -------
    StickSlip
        The motion. It counts as diverged beyond 1000 rad, or if the mass matrix is no longer positive definite.

    Raises
    ------
    UsageError
        If shapes disagree, or for less than one substep.

    """
    T, n = np.shape(tau)
    if np.shape(q) != (n,) or np.shape(dq) != (n,) or T < 2 or substeps < 1:
        raise UsageError(
            "stick-slip",
            found=f"a state of {np.shape(q)} and {np.shape(dq)}, torque {np.shape(tau)}, {substeps} substeps",
            expected="one value per joint in q and dq, at least two rows of torque and one substep",
        )
    path, speed, stuck = np.full((T, n), np.nan), np.full((T, n), np.nan), np.zeros((T, n), dtype=np.bool_)
    first = _Moment(np.array(q), np.array(dq), np.sign(dq))
    pace = _Pace(mechanics, first, 1.0 / rate, substeps)
    system = mechanics.multibody if isinstance(mechanics, Compiled) else None
    if system is not None and system.native() is not None:
        return _compiled(system, first, tau, rate, hold == "zero", substeps, pace.watched)
    now = _released_or_sticking(mechanics, first, tau[0])
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(T):
            if not (np.isfinite(now.v).all() and (np.abs(now.q) < FAR).all()):
                return StickSlip(path, speed, stuck, k)
            path[k], speed[k], stuck[k] = now.q, now.v, now.direction == 0
            if k + 1 < T:
                last = tau[k] if hold == "zero" else tau[k + 1]
                now = _sample(mechanics, now, tau[k], last, 1.0 / rate, pace.steps(now))
    return StickSlip(path, speed, stuck, None)


def _compiled(
    system: Multibody, now: _Moment, tau: Float, rate: float, constant: bool, substeps: int, watched: bool
) -> StickSlip:
    start = np.concatenate([now.q, now.v])[None]
    steps, rounds = (substeps, max(substeps, _MOST_STEPS)), (_EVENTS, _REFINEMENTS, _SWEEPS)
    bounds = (FAR, NEAR_ZERO, _SHORTEST)
    q, dq, rests, ended = stick(system, start, tau[None], rate, constant, watched, steps, rounds, bounds)
    return StickSlip(q[0], dq[0], rests[0] == 1.0, int(ended[0]) if ended[0] >= 0 else None)


def _sample(
    mechanics: Mechanics, now: _Moment, first: Float, last: Float, length: float, count: int
) -> _Moment:
    h = length / count
    for i in range(count):
        a, b = (first + part * (last - first) for part in (i / count, (i + 1) / count))
        direction = np.where((now.direction != 0) & (now.v != 0), np.sign(now.v), now.direction)
        now = _step(mechanics, replace(now, direction=direction), a, b, h)
        if not np.isfinite(now.v).all():
            break
    return now


class _Pace:
    """Number of integration steps per sample, more where smooth friction is steep at the velocities of a step."""

    def __init__(self, mechanics: Mechanics, now: _Moment, length: float, least: int) -> None:
        self.mechanics, self.length, self.least = mechanics, length, least
        still = replace(now, v=np.zeros_like(now.v), direction=np.zeros_like(now.v))
        self.watched = any(
            self._steps_needed(still, reach) > 0.3 * least for reach in (1e-4, 1e-3, 1e-2, 1e-1)
        )

    def steps(self, now: _Moment) -> int:
        """Number of steps for the sample that begins now."""
        if not self.watched:
            return self.least
        wanted = self._steps_needed(now, 1e-3)
        return max(self.least, int(min(np.ceil(wanted), _MOST_STEPS))) if np.isfinite(wanted) else self.least

    def _steps_needed(self, now: _Moment, least_reach: float) -> float:
        # Slope of the torque over the velocities of a step, without the jump at zero, relative to the inertia.
        reach = least_reach + np.abs(now.v)
        M, h = self.mechanics.equations(np.stack([now.q, now.q]), np.stack([now.v + reach, now.v - reach]))
        low, high = _friction_limits(
            self.mechanics, replace(now, v=np.zeros_like(now.v), direction=np.zeros_like(now.v))
        )
        slope = np.maximum(np.abs(h[0] - h[1]) - (high - low), 0.0) / (2.0 * reach)
        return self.length * float((slope / np.diagonal(M[0])).max())


def _step(mechanics: Mechanics, now: _Moment, first: Float, last: Float, length: float) -> _Moment:
    # From event to event: a joint stops, and then slides on, reverses or sticks.
    done = 0.0
    for _ in range(_EVENTS):
        begin = first + done * (last - first)
        now = _released_or_sticking(mechanics, now, begin)
        rest = 1.0 - done
        ahead = _runge_kutta(mechanics, now, begin, last, rest * length)
        event = _first_stop(now, ahead)
        if event is None:
            return ahead
        joint, at = event
        for i in range(_REFINEMENTS + 1):
            early = _runge_kutta(mechanics, now, begin, begin + at * (last - begin), at * rest * length)
            change = early.v[joint] - now.v[joint]
            if i == _REFINEMENTS or change == 0 or abs(early.v[joint]) < NEAR_ZERO:
                break
            at = float(np.clip(-at * now.v[joint] / change, _SHORTEST, 1.0))
        v, direction = np.array(early.v), np.array(early.direction)
        v[joint] = direction[joint] = 0.0
        now, done = _Moment(early.q, v, direction), done + at * rest
        if done >= 1.0 - _SHORTEST:
            return now
    begin = first + done * (last - first)
    return _runge_kutta(
        mechanics, _released_or_sticking(mechanics, now, begin), begin, last, (1.0 - done) * length
    )


def _first_stop(now: _Moment, ahead: _Moment) -> tuple[int, float] | None:
    # The sliding joint that stops first, and the share of the step at which it does.
    wrong = np.flatnonzero(now.direction * ahead.v < 0)
    if not len(wrong):
        return None
    shares = [now.v[j] / (now.v[j] - ahead.v[j]) for j in wrong]
    first = int(np.argmin(shares))
    return int(wrong[first]), float(np.clip(shares[first], _SHORTEST, 1.0))


def _friction_limits(mechanics: Mechanics, now: _Moment) -> Float:
    # Least and greatest friction (2, n) of a resting joint, from both sides of zero velocity.
    still = np.where(now.direction == 0, 0.0, now.v)
    velocities = np.stack([still, still - NEAR_ZERO, still + NEAR_ZERO])
    at = np.where(now.direction == 0, velocities, still)
    h = mechanics.equations(np.tile(now.q, (3, 1)), at)[1]
    return np.stack([np.minimum(h[1] - h[0], 0.0), np.maximum(h[2] - h[0], 0.0)])


def _released_or_sticking(mechanics: Mechanics, now: _Moment, tau: Float) -> _Moment:
    """Direction of every resting joint after break-away: friction within its limits that keeps most joints at rest."""
    resting = np.flatnonzero(now.direction == 0)
    if not len(resting):
        return now
    low, high = _friction_limits(mechanics, now)
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
    direction = np.array(now.direction)
    for j in resting:
        sticks = low[j] < force[j] < high[j]
        direction[j] = 0.0 if sticks else (1.0 if force[j] >= high[j] > low[j] else -1.0)
        if low[j] == high[j]:
            direction[j] = 1.0 if acceleration[j] >= 0 else -1.0
    return replace(now, direction=direction)


def _runge_kutta(mechanics: Mechanics, now: _Moment, first: Float, last: Float, h: float) -> _Moment:
    middle = 0.5 * (first + last)
    q, v, direction = now.q, now.v, now.direction
    a1 = _acceleration(mechanics, q, v, direction, first)
    v2 = v + 0.5 * h * a1
    a2 = _acceleration(mechanics, q + 0.5 * h * v, v2, direction, middle)
    v3 = v + 0.5 * h * a2
    a3 = _acceleration(mechanics, q + 0.5 * h * v2, v3, direction, middle)
    v4 = v + h * a3
    a4 = _acceleration(mechanics, q + h * v3, v4, direction, last)
    return _Moment(
        q + h / 6.0 * (v + 2.0 * (v2 + v3) + v4), v + h / 6.0 * (a1 + 2.0 * (a2 + a3) + a4), direction
    )


def _acceleration(mechanics: Mechanics, q: Float, v: Float, direction: Float, tau: Float) -> Float:
    # A sliding joint stays on its side of zero within a step; otherwise its friction would jump between stages.
    if not (np.isfinite(q).all() and np.isfinite(v).all()):
        return np.full_like(v, np.nan)
    side = np.where(direction == 0, 0.0, direction * np.maximum(direction * v, NEAR_ZERO))
    M, h = (part[0] for part in mechanics.equations(q[None], side[None]))
    free = direction != 0
    acceleration = np.zeros_like(v)
    if not free.any():
        return acceleration
    inside, force = (M, tau - h) if free.all() else (M[np.ix_(free, free)], (tau - h)[free])
    try:
        acceleration[free] = solved(inside[None], force[None])[0]
    except SolverError:
        return np.full_like(v, np.nan)
    return acceleration
