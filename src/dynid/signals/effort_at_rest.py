"""Efforts at rest against a model fitted in motion: where brakes carry the load, and where static friction does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel import torque_regressor
from dynid.log.joints import hand_joints
from dynid.log.read import Log
from dynid.robot.load import own_motors
from dynid.robot.model import RobotModel, carriers
from dynid.signals.coherence import SMOOTHED_SIGN, Signals
from dynid.signals.filter import first_difference, second_difference, sensible_rate, zero_phase_filter
from dynid.signals.first_look import first_look, signals_for_evidence, windows_of
from dynid.signals.samples import Samples, Stand, own_samples

# Hz, and samples per period: gravity and the coupling of joints lie below this frequency.
CUTOFF, OVERSAMPLING = 5.0, 4.0
# s at both ends of a dwell, where filters ring and drives hand over to brakes.
EDGE = 0.3
# Share of a short dwell left out at both ends in place of EDGE; filters ring for less.
EDGE_SHARE = 0.3
# A brake carries the load if the error at rest exceeds MISSED times the error in motion plus FRICTION times the Coulomb
# friction, which at rest may have either sign and up to twice its size.
MISSED, FRICTION = 4.0, 2.0
# Static friction carries load if a joint's error over all dwells exceeds HELD times its error in motion (above noise
# and model error) and this share of the Coulomb friction (above ripple and cable forces).
HELD, HELD_PART = 1.5, 0.1
# Static friction carries nothing if the error stays below this share of the Coulomb friction on every compared joint,
# and more than a share MOST of all joints is compared. Friction that settles anywhere up to its limit causes an error
# of 0.6 of the limit; friction that stays as in motion causes an error equal to it.
FREE_PART, MOST = 0.3, 0.5
FASTER = 1.5  # times the speed of a joint during its dwells, up to which it counts as at rest
# Multiple of the smoothing speed of friction's sign above which the sign is 1.
CLEAR = 3.0
# Samples of a dwell that are compared, and the fewest of a joint's motion for a comparison.
COMPARED, LEAST_SAMPLES = 40, 60
RIDGE = 1e-9  # on columns of unit length
ROUNDS = 3  # of weights from residuals
# A brake still carries the load while the effort stays within so many of its standard deviations at rest, for at most
# so many s before and after; an effort is constant if its standard deviation is at most this share of that in motion.
AS_AT_REST, LONGEST_STOP, CONSTANT = 4.0, 1.0, 0.2
# s: joints that come to rest within this time of each other were stopped together.
TOGETHER = 0.5
_JOINT_COLUMNS = 4  # offset, viscous friction, Coulomb friction, rotor inertia


@dataclass(frozen=True, eq=False)
class EffortsAtRest:
    """What carries the load of joints at rest.

    Attributes
    ----------
    not_carried : tuple of Stand
        Dwells in which the motor's effort is not the torque of the joint's load, for example because a brake is on.
    held_below : ndarray, shape (n,), rad/s or m/s
        Speed below which static friction carries a part of the load; nan if none was detected.
    free : bool
        Whether efforts at rest are those of the links alone, as from torque sensors behind the gears.
    nearly_free : bool
        Whether they are those of the links and a small part of friction.

    """

    not_carried: tuple[Stand, ...]
    held_below: Float
    free: bool = False
    nearly_free: bool = False


def efforts_at_rest(
    robot: RobotModel, batches: Iterable[Samples], candidates: Sequence[Stand], brief: Sequence[Stand] = ()
) -> EffortsAtRest:
    """Find out what carries the load of joints during their dwells: the motor, a brake or static friction.

    Links, friction, rotors and offsets are fitted to all joints in motion. The prediction error r of a dwell with
    regressor X counts as r' (1 + X inv(G) X')^-1 r with the information matrix G of the fit. This is what the dwell
    would add to the sum of squares of a joint fit, so that directions unknown from motion cost nothing.

    A brake carries the load if the error exceeds the bound of `MISSED` and `FRICTION`. The dwell is then extended by
    the time around it in which the effort stays the same. Joints that stopped at the same time and have constant effort
    at rest also count as braked.

    Over a joint's other dwells, static friction carries a part of the load if the error exceeds `HELD` times the error
    in motion and `HELD_PART` of the Coulomb friction: at rest friction takes any value up to its limit, which no
    equation of motion describes. Joints that move too little for a comparison follow the majority. Static friction
    carries little if its share stays below `FREE_PART` on every compared joint and these are more than `MOST` of all;
    nothing, if it carries nothing on most of them.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    batches : iterable of Samples
        The samples, which are read several times.
    candidates : sequence of Stand
        Dwells that are long enough for a brake.
    brief : sequence of Stand
        Shorter dwells, which show friction alone, since brakes take a while to close and open.

    """
    alone, below = own_motors(robot), np.full(robot.n, np.nan)
    asked = _StandsByTime(tuple(stand for stand in candidates if alone[stand.joint]))
    reference = _Reference.of(robot, batches, asked) if asked.stands or brief else None
    if reference is None:
        return EffortsAtRest((), below)
    # A dwell that is long enough for a brake is compared once, as such.
    rest = _StandsByTime(
        tuple(stand for stand in brief if alone[stand.joint] and not _overlaps(stand, asked))
    )
    compared = _compare(robot, batches, _StandsByTime((*asked.stands, *rest.stands)), reference)
    braked = {
        stand
        for stand in asked.stands
        if stand in compared and compared[stand].missed > reference.bound(stand.joint)
    }
    others = [
        stand
        for stand in asked.stands
        if stand not in braked
        and any(b.trajectory == stand.trajectory and abs(b.start - stand.start) <= TOGETHER for b in braked)
    ]
    not_carried = sorted(
        [*_extended(batches, reference, braked, True), *_extended(batches, reference, others, False)],
        key=lambda stand: (stand.trajectory, stand.start, stand.joint),
    )
    friction_holds: dict[int, bool] = {}
    free = np.zeros(robot.n, dtype=np.bool_)
    slowest = np.full(robot.n, np.nan)
    for j in range(robot.n):
        comparisons = [seen for stand, seen in compared.items() if stand.joint == j and stand not in braked]
        if comparisons:
            slowest[j] = FASTER * np.median([o.speed for o in comparisons])
        if comparisons and np.isfinite(reference.size[j]):
            missed = np.sqrt(
                np.average([o.missed**2 for o in comparisons], weights=[o.count for o in comparisons])
            )
            friction_holds[j] = bool(
                missed > max(HELD * reference.size[j], HELD_PART * reference.friction[j])
            )
            free[j] = missed <= max(HELD * reference.size[j], FREE_PART * reference.friction[j])
    if not braked and free.sum() == len(friction_holds) > MOST * robot.n:
        mostly_nothing = 2 * sum(friction_holds.values()) < len(friction_holds)
        return EffortsAtRest(tuple(not_carried), below, free=mostly_nothing, nearly_free=not mostly_nothing)
    mostly = 2 * sum(friction_holds.values()) > np.isfinite(slowest).sum()
    for j in range(robot.n):
        if friction_holds.get(j, mostly):
            below[j] = slowest[j]
    return EffortsAtRest(tuple(not_carried), below)


class _StandsByTime:
    """Dwells that can be looked up by time, since long logs have thousands."""

    def __init__(self, stands: Sequence[Stand]) -> None:
        self.stands = stands
        self._by_trajectory: dict[str, list[Stand]] = {}
        for stand in stands:
            self._by_trajectory.setdefault(stand.trajectory, []).append(stand)
        self._spans = {
            name: np.array([[stand.start, stand.end] for stand in group])
            for name, group in self._by_trajectory.items()
        }

    def near(self, samples: Samples, seconds: float = 0.0) -> list[Stand]:
        """Dwells that overlap a batch, extended by some seconds on either side."""
        if not len(samples):
            return []
        return self.during(samples.trajectory, float(samples.t[0]) - seconds, float(samples.t[-1]) + seconds)

    def during(self, trajectory: str, start: float, end: float) -> list[Stand]:
        """Dwells that overlap a time span (s) of a trajectory."""
        spans = self._spans.get(trajectory)
        if spans is None:
            return []
        group = self._by_trajectory[trajectory]
        return [group[i] for i in np.flatnonzero((spans[:, 1] >= start) & (spans[:, 0] <= end)).tolist()]


@dataclass(frozen=True, eq=False)
class _Lines:
    """Low-passed equations of a batch.

    `t` (T,) in s: times; `bodies` (n, T, k): columns of the links; `own` (n, T, 4): columns of each joint's friction,
    offset and rotor; `effort` (n, T): measured efforts.
    """

    t: Float
    bodies: Float
    own: Float
    effort: Float

    @staticmethod
    def of(robot: RobotModel, samples: Samples, bend: Float) -> _Lines | None:
        rate = samples.rate
        cutoff = min(CUTOFF, 0.2 * rate)
        if len(samples) < 2 * int(EDGE * rate) + 5:
            return None
        low = zero_phase_filter(cutoff, 4, rate)
        q, tau = low(samples.q.T), low(samples.tau.T)
        cut = np.flatnonzero(own_samples(samples))[:: max(1, int(rate / (OVERSAMPLING * cutoff)))]
        dq, ddq = first_difference(q, rate)[:, cut].T, second_difference(q, rate)[:, cut].T
        Y = torque_regressor(robot.tree, *robot.tree_motion(q[:, cut].T, dq, ddq)).dense(10 * robot.n_bodies)
        joint_columns = np.stack([np.ones_like(dq), dq, np.tanh(dq / bend), ddq])
        bodies = np.einsum("bn,tbk->ntk", robot.projection, Y)
        return _Lines(samples.t[cut], bodies, joint_columns.transpose(2, 1, 0), tau[:, cut])

    def row(self, j: int, which: Bool) -> Float:
        """Columns of the links and of the joint itself, (T, k + 4)."""
        return np.concatenate([self.bodies[j, which], self.own[j, which]], axis=1)


@dataclass(frozen=True, eq=False)
class _Reference:
    """A model fitted to joints in motion.

    `bend` (n,) in rad/s or m/s: speeds over which the sign of friction is smoothed; `columns` (n, k + 4): indices of
    each joint's parameters; `theta` (p,): solution of the weighted normal equations; `root` (p, p): root of their
    inverse, inv(G) = root root'; `size` (n,): r.m.s. error in motion; nan for too few samples; `friction` (n,): Coulomb
    friction; `spread` (n,): standard deviation of the effort in motion.
    """

    bend: Float
    columns: Int
    theta: Float
    root: Float
    size: Float
    friction: Float
    spread: Float

    @staticmethod
    def of(robot: RobotModel, batches: Iterable[Samples], resting: _StandsByTime) -> _Reference | None:
        n, k = robot.n, 10 * robot.n_bodies
        bend = _smoothing_speeds(batches, n)
        gram, right = np.zeros((n, k + _JOINT_COLUMNS, k + _JOINT_COLUMNS)), np.zeros((n, k + _JOINT_COLUMNS))
        square, count = np.zeros(n), np.zeros(n)
        for samples in batches:
            lines = _Lines.of(robot, samples, bend)
            if lines is None:
                continue
            moving = _moving(lines.t, samples, resting)
            for j in range(n):
                # At slower speeds friction is nonlinear, and the error would not be that of motion.
                clear = moving[:, j] & (np.abs(lines.own[j, :, 1]) >= CLEAR * bend[j])
                X, y = lines.row(j, clear), lines.effort[j, clear]
                gram[j] += X.T @ X
                right[j] += X.T @ y
                square[j] += y @ y
                count[j] += len(y)
        enough = count >= LEAST_SAMPLES
        if not enough.any():
            return None
        columns = np.array(
            [[*range(k), *range(k + _JOINT_COLUMNS * j, k + _JOINT_COLUMNS * (j + 1))] for j in range(n)]
        )
        size = np.sqrt(square / np.maximum(count, 1.0))
        for _ in range(ROUNDS):
            theta, root = _solved(gram, right, columns, np.where(enough, size, np.inf))
            squared_errors = [
                square[j] - 2.0 * theta[indices] @ right[j] + theta[indices] @ gram[j] @ theta[indices]
                for j, indices in enumerate(columns)
            ]
            free = np.maximum(count - k / n - _JOINT_COLUMNS, 1.0)
            size = np.sqrt(np.maximum(squared_errors, 1e-12 * square) / free)
        friction = np.abs(theta[columns[:, k + 2]])
        mean = right[:, k] / np.maximum(count, 1.0)
        spread = np.sqrt(np.maximum(square / np.maximum(count, 1.0) - mean**2, 0.0))
        return _Reference(bend, columns, theta, root, np.where(enough, size, np.nan), friction, spread)

    def missed(self, j: int, X: Float, y: Float) -> float:
        """R.m.s. error of a joint's effort (T,) at rest, directions unknown to the fit discounted."""
        indices = self.columns[j]
        error = y - X @ self.theta[indices]
        # r' (1 + Z Z')^-1 r by the singular values of Z, so that no part of the error is lost to rounding.
        vectors, value, _ = np.linalg.svd(X @ self.root[indices] / self.size[j], full_matrices=False)
        along = vectors.T @ error
        square = error @ error - along @ along + along @ (along / (1.0 + value**2))
        return float(np.sqrt(max(square, 0.0) / len(y)))

    def bound(self, j: int) -> float:
        """Error at rest up to which no brake is assumed; nan for a joint with too little motion."""
        return float(MISSED * self.size[j] + FRICTION * self.friction[j])


def _smoothing_speeds(batches: Iterable[Samples], n: int) -> Float:
    square, count = np.zeros(n), 0
    for samples in batches:
        square += (samples.dq[samples.keep] ** 2).sum(axis=0)
        count += int(samples.keep.sum())
    return np.maximum(SMOOTHED_SIGN * np.sqrt(square / max(count, 1)), 1e-9)


def _moving(t: Float, samples: Samples, resting: _StandsByTime) -> Bool:
    # Joints (T, n) that are measured, well away from their dwells.
    moving = np.ones((len(t), samples.n), dtype=np.bool_)
    if samples.measured is not None:
        moving &= samples.measured
    for stand in resting.near(samples, EDGE):
        moving[(t >= stand.start - EDGE) & (t <= stand.end + EDGE), stand.joint] = False
    return moving


def _solved(gram: Float, right: Float, columns: Int, size: Float) -> tuple[Float, Float]:
    """Solution (p,) of the weighted normal equations, and a root (p, p) of their inverse.

    Eigenvectors separate directions without information, of size 1 / RIDGE, from the others. A plain inverse would
    spread their rounding errors over every direction, which could change whether a brake is detected.
    """
    p = int(columns.max()) + 1
    G, b = np.zeros((p, p)), np.zeros(p)
    for indices, A, r, s in zip(columns, gram, right, np.maximum(size, np.finfo(float).tiny), strict=True):
        if np.isfinite(s):
            G[np.ix_(indices, indices)] += A / s**2
            b[indices] += r / s**2
    length = np.sqrt(np.diag(G))
    # A column that is mere rounding in motion stays unknown, whatever its size at rest.
    scale = 1.0 / np.maximum(length, max(RIDGE * float(length.max()), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(scale[:, None] * G * scale)
    root = scale[:, None] * vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)
    # Along directions without information rounding of the right-hand side would be multiplied by 1 / RIDGE.
    informed = root[:, values > RIDGE]
    return informed @ (informed.T @ b), root


@dataclass(frozen=True)
class _Compared:
    """R.m.s. error of a dwell's effort (nan = unknown), number of samples and greatest speed."""

    missed: float
    count: int
    speed: float


def _compare(
    robot: RobotModel, batches: Iterable[Samples], asked: _StandsByTime, reference: _Reference
) -> dict[Stand, _Compared]:
    gathered: dict[Stand, list[tuple[Float, Float]]] = {}
    speed: dict[Stand, float] = {}
    for samples in batches:
        near = [
            stand
            for stand in asked.near(samples)
            if samples.measured is None or samples.measured[stand.joint]
        ]
        lines = _Lines.of(robot, samples, reference.bend) if near else None
        if lines is None:
            continue
        for stand in near:
            inside = np.flatnonzero(_inside(stand, lines.t))
            few = inside[:: max(1, -(-len(inside) // COMPARED))]
            if len(few):
                which = np.zeros(len(lines.t), dtype=np.bool_)
                which[few] = True
                gathered.setdefault(stand, []).append(
                    (lines.row(stand.joint, which), lines.effort[stand.joint, which])
                )
                stands = _inside(stand, samples.t)
                fastest = np.abs(samples.dq[stands, stand.joint]).max(initial=0.0)
                speed[stand] = max(speed.get(stand, 0.0), float(fastest))
    comparisons = {}
    for stand, parts in gathered.items():
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        step = -(-len(y) // COMPARED)
        known = np.isfinite(reference.size[stand.joint])
        missed = reference.missed(stand.joint, X[::step], y[::step]) if known else np.nan
        comparisons[stand] = _Compared(missed, len(y), speed[stand])
    return comparisons


def _inside(stand: Stand, t: Float) -> Bool:
    edge = min(EDGE, EDGE_SHARE * (stand.end - stand.start))
    return np.asarray((t >= stand.start + edge) & (t <= stand.end - edge))


def _overlaps(stand: Stand, others: _StandsByTime) -> bool:
    """Whether another dwell of the same joint overlaps in time."""
    return any(b.joint == stand.joint for b in others.during(stand.trajectory, stand.start, stand.end))


def _extended(
    batches: Iterable[Samples], reference: _Reference, selected: Collection[Stand], sure: bool
) -> list[Stand]:
    """Dwells extended by the time around them in which the effort stays the same.

    If the effort changes during a dwell, the dwell is kept unchanged if `sure`, else left out.
    """
    seen: dict[Stand, list[tuple[Float, Float]]] = {stand: [] for stand in selected}
    asked = _StandsByTime(tuple(selected))
    for samples in batches if selected else ():
        unique = own_samples(samples)
        for stand in asked.near(samples, LONGEST_STOP):
            near = (
                unique & (samples.t >= stand.start - LONGEST_STOP) & (samples.t <= stand.end + LONGEST_STOP)
            )
            if near.any():
                seen[stand].append((samples.t[near], samples.tau[near, stand.joint]))
    grown = []
    for stand, parts in seen.items():
        if not parts:
            continue
        t, tau = (np.concatenate(part) for part in zip(*parts, strict=True))
        inside = _inside(stand, t)
        if not inside.any():
            continue
        level, spread = float(np.median(tau[inside])), float(tau[inside].std())
        if spread > CONSTANT * reference.spread[stand.joint]:
            grown += [stand] if sure else []
            continue
        alike = np.abs(tau - level) <= AS_AT_REST * spread + 1e-9 * float(np.abs(tau).max())
        first, last = np.flatnonzero(inside)[[0, -1]]
        before, after = np.flatnonzero(~alike[:first]), np.flatnonzero(~alike[last:])
        a = int(before[-1]) + 1 if len(before) else 0
        b = last + int(after[0]) - 1 if len(after) else len(t) - 1
        grown.append(replace(stand, start=min(stand.start, float(t[a])), end=max(stand.end, float(t[b]))))
    return grown


# Whether efforts of joints at rest, and of joints of a hand, are the torque of their load.

ENDS = 0.5  # s at both ends of a stretch, where the filter rings
BLOCKS = 10  # of time, of which every other one is held out
# Share of the effort's variance that the links must explain for a joint at rest under its servo.
EXPLAINED = 0.9
# The same for a moving joint of a hand: below it no torque model is usable, and few grippers reach it.
GRIPPING = 0.5


def unexplained_at_rest(log: Log) -> tuple[str, ...]:
    """Names of resting joints whose effort is not predicted by the links fitted to the moving joints.

    A servo at rest delivers the torque of its load, which is as informative about the links as that of a moving joint.
    With a brake or static friction the motor's torque is arbitrary.
    """
    resting = np.array([name in log.resting for name in log.robot.joint_names])
    if not resting.any() or resting.all() or not log.channels.effort:
        return ()
    trial = _resting_trial(log)
    if trial is None:
        return ()
    # A joint without a measured effort has zeros there, which no model explains.
    silent = np.array([name in log.unmeasured for name in log.robot.joint_names])
    moving = np.flatnonzero(~resting & ~silent)
    if not len(moving):
        return ()
    return tuple(
        log.robot.joint_names[j]
        for j in np.flatnonzero(resting & ~silent & own_motors(log.robot))
        if trial.explained(moving, int(j)) < EXPLAINED
    )


def unexplained_hands(log: Log) -> tuple[str, ...]:
    """Names of a hand's moving joints whose effort is not the torque of their motion.

    A gripper's effort is its grip force, or the commanded one. Only joints that carry nothing but joints of the hand
    are tested, and only if the arm has efforts.
    """
    robot, silent = log.robot, {*log.unmeasured, *log.resting}
    hands = hand_joints(robot)
    hand = np.array([name in hands for name in robot.joint_names])
    last = hand & own_motors(robot) & ~carriers(robot, ~hand)
    asked = [j for j in np.flatnonzero(last).tolist() if robot.joint_names[j] not in silent]
    if not asked or hand.all() or not log.channels.effort:
        return ()
    trial = _resting_trial(log)
    arm = np.flatnonzero(~hand & [name not in log.unmeasured for name in robot.joint_names])
    if trial is None or not len(arm):
        return ()
    return tuple(robot.joint_names[j] for j in asked if trial.explained(arm, j) < GRIPPING)


def _resting_trial(log: Log) -> _RestingTrial | None:
    steps, bases = zip(*(first_look(log, i) for i in range(len(log.trajectories))), strict=True)
    rate = sensible_rate(float(np.median(steps)))
    return _RestingTrial.of(log.robot, windows_of(signals_for_evidence(log, rate, bases), rate), rate)


def unexplained_joints(robot: RobotModel, batches: Sequence[Samples], moving: Bool, resting: Bool) -> Bool:
    """Resting joints (n,) of one trajectory whose effort the links do not explain, as in `unexplained_at_rest`.

    `moving` and `resting` (n,) select joints that move, or rest, throughout the trajectory.
    """
    unexplained = np.zeros(robot.n, dtype=np.bool_)
    measured = np.ones(robot.n, dtype=np.bool_)
    for samples in batches:
        measured &= True if samples.measured is None else samples.measured
    if not batches or not (moving & measured).any():
        return unexplained
    rate = batches[0].rate
    trial = _RestingTrial.of(robot, windows_of([Signals(s.q.T, None, s.tau.T) for s in batches], rate), rate)
    if trial is not None:
        for j in np.flatnonzero(resting & measured & own_motors(robot)).tolist():
            unexplained[j] = trial.explained(np.flatnonzero(moving & measured), j) < EXPLAINED
    return unexplained


@dataclass(frozen=True, eq=False)
class _RestingTrial:
    """Equations of the log and their cut into two halves for cross-validation.

    `bodies` (n, T, k): columns of the links; `own` (n, T, m): columns of each joint's friction, offset and rotor;
    `effort` (n, T): measured efforts; `second_half` (T,): every other block of time.
    """

    bodies: Float
    own: Float
    effort: Float
    second_half: Bool

    @staticmethod
    def of(robot: RobotModel, parts: Sequence[Signals], rate: float) -> _RestingTrial | None:
        cutoff = min(CUTOFF, 0.2 * rate)
        low, edge = zero_phase_filter(cutoff, 4, rate), int(ENDS * rate)
        cut = slice(edge, -edge, max(1, int(rate / (OVERSAMPLING * cutoff))))
        stretches: list[tuple[Float, ...]] = []
        for part in parts:
            if part.tau is None or part.q.shape[1] <= 2 * edge:
                continue
            q = low(part.q)
            lines = q, first_difference(q, rate), second_difference(q, rate), low(part.tau)
            stretches.append(tuple(values[:, cut].T for values in lines))
        T = sum(len(values[0]) for values in stretches)
        if T < LEAST_SAMPLES:
            return None
        q, dq, ddq, tau = (np.concatenate(lines) for lines in zip(*stretches, strict=True))
        Y = torque_regressor(robot.tree, *robot.tree_motion(q, dq, ddq)).dense(10 * robot.n_bodies)
        bend = np.maximum(SMOOTHED_SIGN * np.sqrt(np.mean(dq**2, axis=0)), 1e-9)
        joint_columns = np.stack([np.ones_like(dq), dq, np.tanh(dq / bend), ddq])
        return _RestingTrial(
            np.einsum("bn,tbk->ntk", robot.projection, Y),
            joint_columns.transpose(2, 1, 0),
            tau.T,
            (np.arange(T) * BLOCKS // T) % 2 == 1,
        )

    def explained(self, moving: Int, j: int) -> float:
        """Share of a joint's effort on held-out blocks that links fitted to it and the moving joints explain."""
        spread = self.effort.std(axis=1)
        if not spread[j] > 0.0:  # an effort that never changes was not measured
            return 0.0
        joints = np.append(moving[spread[moving] > 0.0], j)
        # A fit without error must not get infinite weight.
        size = np.maximum(
            np.sqrt(self._held_out_errors(joints, spread[joints])), np.finfo(float).eps * spread[joints]
        )
        return float(1.0 - self._held_out_errors(joints, size)[-1] / spread[j] ** 2)

    def _held_out_errors(self, joints: Int, size: Float) -> Float:
        # (k,) mean square errors on held-out blocks of one set of links, joints weighted by 1 / size.
        k, count, m = len(joints), self.bodies.shape[2], self.own.shape[2]
        rows = np.zeros((k, len(self.second_half), count + m * k))
        rows[:, :, :count] = self.bodies[joints]
        for i, joint in enumerate(joints):
            rows[i, :, count + m * i : count + m * (i + 1)] = self.own[joint]
        rows /= size[:, None, None]
        y = self.effort[joints] / size[:, None]
        length = np.sqrt((rows**2).sum(axis=(0, 1)))
        rows = rows[:, :, length > 0] / length[length > 0]
        error = np.zeros(k)
        for left_out in (self.second_half, ~self.second_half):
            X = rows[:, ~left_out].reshape(-1, rows.shape[2])
            gram = X.T @ X + RIDGE * np.eye(rows.shape[2])
            theta = np.linalg.solve(gram, X.T @ y[:, ~left_out].ravel())
            error += ((y[:, left_out] - rows[:, left_out] @ theta) ** 2).sum(axis=1)
        return np.asarray(error * size**2 / len(self.second_half))
