"""What efforts at rest say beside those in motion: where motors do not carry their load, and where friction does."""

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

# Below this frequency, Hz, on so many samples a period, gravity and the coupling of joints show.
CUTOFF, OVERSAMPLING = 5.0, 4.0
# s, on either side of where a joint comes to rest or leaves it: filters swing, and drives hand over to brakes.
EDGE = 0.3
# Of a brief stand so much of its length, which is more than filters swing for.
EDGE_SHARE = 0.3
# An effort at rest has to be missed by so many times what the joint's own is missed by in motion, and so many times
# its Coulomb friction, which at rest may take either sign and is up to twice as large.
MISSED, FRICTION = 4.0, 2.0
# At rest so many times what is missed in motion, of all stands of a joint, is more than noise and errors of the model;
# where it is less than such a part of the joint's Coulomb friction, something else is missed (ripple, a cable).
HELD, HELD_PART = 1.5, 0.1
# Less than such a part of it, of every joint that is compared, and these are most: friction holds nothing at rest. It
# misses 0.6 of itself where it settles anywhere up to its limit, and all where it stays as it was in motion.
FREE_PART, MOST = 0.3, 0.5
FASTER = 1.5  # times the speed of a joint's stands, up to which it is at rest
# Times the speed over which friction's sign is smoothed: from here on it is one.
CLEAR = 3.0
# Samples of a stand that are compared, which are as good as all where they are alike; and the least of a joint's motion
# that it is compared with.
COMPARED, LEAST_SAMPLES = 40, 60
RIDGE = 1e-9  # on columns of length one
ROUNDS = 3  # of weights from residuals
# An effort within so many of its standard deviations at rest is still that of the brake, so long before and after (s).
# It does not change if its standard deviation is at most this share of that in motion.
AS_AT_REST, LONGEST_STOP, CONSTANT = 4.0, 1.0, 0.2
# Joints that come to rest within so many seconds of each other were stopped together.
TOGETHER = 0.5
_OWN = 4  # columns of a joint: offset, viscous and Coulomb friction, rotor


@dataclass(frozen=True, eq=False)
class EffortsAtRest:
    """What efforts at rest are.

    not_carried: stands in which the motor's effort is not the torque of what the joint carries, as where a brake is on.
    held_below: (n,) rad/s (m/s) below which friction holds a part of the load of a joint; nan = none is seen to.
    free: whether the efforts at rest are those of the bodies alone, as of torque sensors behind the gears.
    nearly_free: whether they are but for a small part of friction.
    """

    not_carried: tuple[Stand, ...]
    held_below: Float
    free: bool = False
    nearly_free: bool = False


def efforts_at_rest(
    robot: RobotModel, batches: Iterable[Samples], found: Sequence[Stand], brief: Sequence[Stand] = ()
) -> EffortsAtRest:
    """What the efforts of joints are in the stands that were found.

    brief: stands that may be shorter, which show friction alone: brakes take a while to close and open.
    Bodies, friction, rotors and offsets are fitted to all joints in motion. At rest they miss an effort by less what
    the fit does not know: with their prediction error r of information (X, G), r' (1 + X inv(G) X')^-1 r a sample is
    what the stand would add to the squares of a fit to both.
    A motor does not carry its load where more is missed than `MISSED` and `FRICTION` allow. Such a stand grows by the
    time before and after in which the effort is as during it; joints that were stopped with one that is found, and
    whose effort at rest does not change, are found as well.
    Of the other stands of a joint, together, friction holds a part of the load where more is missed than `HELD` times
    what is in motion and `HELD_PART` of its Coulomb friction: it may take any value up to its limit at rest, which no
    equation of motion has. Stands of all joints at once show it as well: such equations are left out anyway, but not
    those of joints that come to rest before the others, or leave it after them. A joint that moves too little to be
    compared is taken to be held as well where most joints that stand are seen to be. It holds little
    anywhere if it is seen to hold less than `FREE_PART` of itself on every joint that is compared, and these are more
    than `MOST`; nothing, if it holds nothing on most of them.
    """
    alone, below = own_motors(robot), np.full(robot.n, np.nan)
    asked = _Asked(tuple(one for one in found if alone[one.joint]))
    reference = _Reference.of(robot, batches, asked) if asked.stands or brief else None
    if reference is None:
        return EffortsAtRest((), below)
    # What is long enough for a brake is compared as such.
    rest = _Asked(tuple(one for one in brief if alone[one.joint] and not _shares_time(one, asked)))
    compared = _compared(robot, batches, _Asked((*asked.stands, *rest.stands)), reference)
    braked = {
        one for one in asked.stands if one in compared and compared[one].missed > reference.bound(one.joint)
    }
    others = [
        one
        for one in asked.stands
        if one not in braked
        and any(b.trajectory == one.trajectory and abs(b.start - one.start) <= TOGETHER for b in braked)
    ]
    left = sorted(
        [*_grown(batches, reference, braked, True), *_grown(batches, reference, others, False)],
        key=lambda one: (one.trajectory, one.start, one.joint),
    )
    held: dict[int, bool] = {}
    free = np.zeros(robot.n, dtype=np.bool_)
    slowest = np.full(robot.n, np.nan)
    for j in range(robot.n):
        own = [seen for one, seen in compared.items() if one.joint == j and one not in braked]
        if own:
            slowest[j] = FASTER * np.median([o.speed for o in own])
        if own and np.isfinite(reference.size[j]):
            missed = np.sqrt(np.average([o.missed**2 for o in own], weights=[o.count for o in own]))
            held[j] = bool(missed > max(HELD * reference.size[j], HELD_PART * reference.friction[j]))
            free[j] = missed <= max(HELD * reference.size[j], FREE_PART * reference.friction[j])
    if not braked and free.sum() == len(held) > MOST * robot.n:
        mostly_nothing = 2 * sum(held.values()) < len(held)
        return EffortsAtRest(tuple(left), below, free=mostly_nothing, nearly_free=not mostly_nothing)
    mostly = 2 * sum(held.values()) > np.isfinite(slowest).sum()
    for j in range(robot.n):
        if held.get(j, mostly):
            below[j] = slowest[j]
    return EffortsAtRest(tuple(left), below)


class _Asked:
    """Stands, found by time: a day of picking and placing has thousands."""

    def __init__(self, stands: Sequence[Stand]) -> None:
        self.stands = stands
        self._by_trajectory: dict[str, list[Stand]] = {}
        for one in stands:
            self._by_trajectory.setdefault(one.trajectory, []).append(one)
        self._spans = {
            name: np.array([[one.start, one.end] for one in own]) for name, own in self._by_trajectory.items()
        }

    def near(self, samples: Samples, seconds: float = 0.0) -> list[Stand]:
        """Those that a batch shares time with, so many seconds to either side."""
        if not len(samples):
            return []
        return self.during(samples.trajectory, float(samples.t[0]) - seconds, float(samples.t[-1]) + seconds)

    def during(self, trajectory: str, start: float, end: float) -> list[Stand]:
        """Those that share time with a part of a trajectory, s."""
        spans = self._spans.get(trajectory)
        if spans is None:
            return []
        own = self._by_trajectory[trajectory]
        return [own[i] for i in np.flatnonzero((spans[:, 1] >= start) & (spans[:, 0] <= end)).tolist()]


@dataclass(frozen=True, eq=False)
class _Lines:
    """Low-passed samples of a batch: t (T,), bodies' columns (n, T, k), joints' own (n, T, 4), effort (n, T)."""

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
        own = np.stack([np.ones_like(dq), dq, np.tanh(dq / bend), ddq])
        bodies = np.einsum("bn,tbk->ntk", robot.projection, Y)
        return _Lines(samples.t[cut], bodies, own.transpose(2, 1, 0), tau[:, cut])

    def row(self, j: int, which: Bool) -> Float:
        """Columns of a joint's bodies and own, (T, k + 4)."""
        return np.concatenate([self.bodies[j, which], self.own[j, which]], axis=1)


@dataclass(frozen=True, eq=False)
class _Reference:
    """A fit to joints in motion.

    bend: (n,) speeds at which friction's sign is smoothed.    columns: (n, k + 4) indices of each joint's parameters.
    theta, root: (p,), (p, p) of the normal equations, weighted, whose inverse is root root'.
    size: (n,) what it misses in motion, nan = too few samples.    friction: (n,) Coulomb.
    spread: (n,) standard deviation of the effort in motion.
    """

    bend: Float
    columns: Int
    theta: Float
    root: Float
    size: Float
    friction: Float
    spread: Float

    @staticmethod
    def of(robot: RobotModel, batches: Iterable[Samples], resting: _Asked) -> _Reference | None:
        n, k = robot.n, 10 * robot.n_bodies
        bend = _bends(batches, n)
        gram, right = np.zeros((n, k + _OWN, k + _OWN)), np.zeros((n, k + _OWN))
        square, count = np.zeros(n), np.zeros(n)
        for samples in batches:
            lines = _Lines.of(robot, samples, bend)
            if lines is None:
                continue
            moving = _moving(lines.t, samples, resting)
            for j in range(n):
                # Slower, friction is no straight line, and what a fit misses is not what motion misses.
                clear = moving[:, j] & (np.abs(lines.own[j, :, 1]) >= CLEAR * bend[j])
                X, y = lines.row(j, clear), lines.effort[j, clear]
                gram[j] += X.T @ X
                right[j] += X.T @ y
                square[j] += y @ y
                count[j] += len(y)
        enough = count >= LEAST_SAMPLES
        if not enough.any():
            return None
        columns = np.array([[*range(k), *range(k + _OWN * j, k + _OWN * (j + 1))] for j in range(n)])
        size = np.sqrt(square / np.maximum(count, 1.0))
        for _ in range(ROUNDS):
            theta, root = _solved(gram, right, columns, np.where(enough, size, np.inf))
            left = [
                square[j] - 2.0 * theta[own] @ right[j] + theta[own] @ gram[j] @ theta[own]
                for j, own in enumerate(columns)
            ]
            free = np.maximum(count - k / n - _OWN, 1.0)
            size = np.sqrt(np.maximum(left, 1e-12 * square) / free)
        friction = np.abs(theta[columns[:, k + 2]])
        mean = right[:, k] / np.maximum(count, 1.0)
        spread = np.sqrt(np.maximum(square / np.maximum(count, 1.0) - mean**2, 0.0))
        return _Reference(bend, columns, theta, root, np.where(enough, size, np.nan), friction, spread)

    def missed(self, j: int, X: Float, y: Float) -> float:
        """Root mean square error of a joint's effort (T,) at rest, less what the fit does not know."""
        own = self.columns[j]
        error = y - X @ self.theta[own]
        # r' (1 + Z Z')^-1 r by the singular values of Z: no share of the error is lost to rounding.
        left, value, _ = np.linalg.svd(X @ self.root[own] / self.size[j], full_matrices=False)
        along = left.T @ error
        square = error @ error - along @ along + along @ (along / (1.0 + value**2))
        return float(np.sqrt(max(square, 0.0) / len(y)))

    def bound(self, j: int) -> float:
        """What an effort at rest may be missed by; nan where nothing is known of the joint."""
        return float(MISSED * self.size[j] + FRICTION * self.friction[j])


def _bends(batches: Iterable[Samples], n: int) -> Float:
    square, count = np.zeros(n), 0
    for samples in batches:
        square += (samples.dq[samples.keep] ** 2).sum(axis=0)
        count += int(samples.keep.sum())
    return np.maximum(SMOOTHED_SIGN * np.sqrt(square / max(count, 1)), 1e-9)


def _moving(t: Float, samples: Samples, resting: _Asked) -> Bool:
    # Joints (T, n) that move and are measured, well away from where they stand.
    moving = np.ones((len(t), samples.n), dtype=np.bool_)
    if samples.measured is not None:
        moving &= samples.measured
    for one in resting.near(samples, EDGE):
        moving[(t >= one.start - EDGE) & (t <= one.end + EDGE), one.joint] = False
    return moving


def _solved(gram: Float, right: Float, columns: Int, size: Float) -> tuple[Float, Float]:
    """Solution (p,) and a root (p, p) of the inverse of the weighted normal equations.

    Eigenvectors keep directions without information, of 1 / RIDGE, apart from all others. An inverse of their sum has
    rounding errors of a hundred in every direction, by which a stand was a brake's or not.
    """
    p = int(columns.max()) + 1
    G, b = np.zeros((p, p)), np.zeros(p)
    for own, A, r, s in zip(columns, gram, right, np.maximum(size, np.finfo(float).tiny), strict=True):
        if np.isfinite(s):
            G[np.ix_(own, own)] += A / s**2
            b[own] += r / s**2
    length = np.sqrt(np.diag(G))
    # A column that is only rounding in motion is unknown, however long it is at rest.
    scale = 1.0 / np.maximum(length, max(RIDGE * float(length.max()), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(scale[:, None] * G * scale)
    root = scale[:, None] * vectors / np.sqrt(np.maximum(values, 0.0) + RIDGE)
    # What rounding leaves of the right-hand side along directions without information would be multiplied by 1 / RIDGE.
    informed = root[:, values > RIDGE]
    return informed @ (informed.T @ b), root


@dataclass(frozen=True)
class _Compared:
    """A stand: r.m.s. effort that is missed in it, nan = not known, of so many samples, and its greatest speed."""

    missed: float
    count: int
    speed: float


def _compared(
    robot: RobotModel, batches: Iterable[Samples], asked: _Asked, reference: _Reference
) -> dict[Stand, _Compared]:
    gathered: dict[Stand, list[tuple[Float, Float]]] = {}
    speed: dict[Stand, float] = {}
    for samples in batches:
        near = [one for one in asked.near(samples) if samples.measured is None or samples.measured[one.joint]]
        lines = _Lines.of(robot, samples, reference.bend) if near else None
        if lines is None:
            continue
        for one in near:
            inside = np.flatnonzero(_inside(one, lines.t))
            few = inside[:: max(1, -(-len(inside) // COMPARED))]
            if len(few):
                which = np.zeros(len(lines.t), dtype=np.bool_)
                which[few] = True
                gathered.setdefault(one, []).append(
                    (lines.row(one.joint, which), lines.effort[one.joint, which])
                )
                stands = _inside(one, samples.t)
                own = np.abs(samples.dq[stands, one.joint]).max(initial=0.0)
                speed[one] = max(speed.get(one, 0.0), float(own))
    found = {}
    for one, parts in gathered.items():
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        step = -(-len(y) // COMPARED)
        known = np.isfinite(reference.size[one.joint])
        missed = reference.missed(one.joint, X[::step], y[::step]) if known else np.nan
        found[one] = _Compared(missed, len(y), speed[one])
    return found


def _inside(one: Stand, t: Float) -> Bool:
    edge = min(EDGE, EDGE_SHARE * (one.end - one.start))
    return np.asarray((t >= one.start + edge) & (t <= one.end - edge))


def _shares_time(one: Stand, others: _Asked) -> bool:
    """Whether its joint stands at the same time among others."""
    return any(b.joint == one.joint for b in others.during(one.trajectory, one.start, one.end))


def _grown(
    batches: Iterable[Samples], reference: _Reference, found: Collection[Stand], sure: bool
) -> list[Stand]:
    """Stands with the time around them in which the effort is as during them.

    sure: whether a stand whose effort changes is kept as it is, or left out.
    """
    seen: dict[Stand, list[tuple[Float, Float]]] = {one: [] for one in found}
    asked = _Asked(tuple(found))
    for samples in batches if found else ():
        own = own_samples(samples)
        for one in asked.near(samples, LONGEST_STOP):
            near = own & (samples.t >= one.start - LONGEST_STOP) & (samples.t <= one.end + LONGEST_STOP)
            if near.any():
                seen[one].append((samples.t[near], samples.tau[near, one.joint]))
    grown = []
    for one, parts in seen.items():
        if not parts:
            continue
        t, tau = (np.concatenate(part) for part in zip(*parts, strict=True))
        inside = _inside(one, t)
        if not inside.any():
            continue
        level, spread = float(np.median(tau[inside])), float(tau[inside].std())
        if spread > CONSTANT * reference.spread[one.joint]:
            grown += [one] if sure else []
            continue
        alike = np.abs(tau - level) <= AS_AT_REST * spread + 1e-9 * float(np.abs(tau).max())
        first, last = np.flatnonzero(inside)[[0, -1]]
        before, after = np.flatnonzero(~alike[:first]), np.flatnonzero(~alike[last:])
        a = int(before[-1]) + 1 if len(before) else 0
        b = last + int(after[0]) - 1 if len(after) else len(t) - 1
        grown.append(replace(one, start=min(one.start, float(t[a])), end=max(one.end, float(t[b]))))
    return grown


# Whether efforts are the torque of what joints carry: of those that stood still, and of hands.

# Below this frequency, Hz, on so many samples a period, gravity and the coupling of joints show.
RESTING_JOINTS_CUTOFF, RESTING_JOINTS_OVERSAMPLING = 5.0, 4.0
ENDS = 0.5  # s at both ends of a stretch, where the filter swings
BLOCKS = 10  # of time, of which every other one is held out
RESTING_JOINTS_LEAST_SAMPLES = 60
RESTING_JOINTS_RIDGE = 1e-9  # on columns of length one
# Share of its effort's variance that the bodies have to explain of a joint that a servo holds.
EXPLAINED = 0.9
# The same of a hand's joint that moves: below it no model of its torque is usable, and few grippers' efforts are one.
GRIPPING = 0.5


def unexplained_at_rest(log: Log) -> tuple[str, ...]:
    """Joints at rest whose effort the bodies do not explain that explain the moving joints' efforts.

    A servo that holds a joint delivers the torque of what it carries, which says as much of the bodies as that of a
    joint in motion. With a brake, or friction at rest, the motor's torque is any other, or none.
    """
    resting = np.array([name in log.resting for name in log.robot.joint_names])
    if not resting.any() or resting.all() or not log.channels.effort:
        return ()
    trial = _trial_of(log)
    if trial is None:
        return ()
    # A joint without effort has zeros in place of one, which no model explains.
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
    """Joints of a hand that move under an effort that is not the torque of their motion.

    A gripper's force is what it grips with, or was told to. The hand's joints carry no others then, and an arm's
    have an effort.
    """
    robot, silent = log.robot, {*log.unmeasured, *log.resting}
    hands = hand_joints(robot)
    hand = np.array([name in hands for name in robot.joint_names])
    last = hand & own_motors(robot) & ~carriers(robot, ~hand)
    asked = [j for j in np.flatnonzero(last).tolist() if robot.joint_names[j] not in silent]
    if not asked or hand.all() or not log.channels.effort:
        return ()
    trial = _trial_of(log)
    arm = np.flatnonzero(~hand & [name not in log.unmeasured for name in robot.joint_names])
    if trial is None or not len(arm):
        return ()
    return tuple(robot.joint_names[j] for j in asked if trial.explained(arm, j) < GRIPPING)


def _trial_of(log: Log) -> _Trial | None:
    steps, bases = zip(*(first_look(log, i) for i in range(len(log.trajectories))), strict=True)
    rate = sensible_rate(float(np.median(steps)))
    return _Trial.of(log.robot, windows_of(signals_for_evidence(log, rate, bases), rate), rate)


def unexplained_joints(robot: RobotModel, batches: Sequence[Samples], moving: Bool, resting: Bool) -> Bool:
    """The same of one trajectory's samples, (n,).    moving, resting: (n,) joints that do so in all of it."""
    found = np.zeros(robot.n, dtype=np.bool_)
    measured = np.ones(robot.n, dtype=np.bool_)
    for samples in batches:
        measured &= True if samples.measured is None else samples.measured
    if not batches or not (moving & measured).any():
        return found
    rate = batches[0].rate
    trial = _Trial.of(robot, windows_of([Signals(s.q.T, None, s.tau.T) for s in batches], rate), rate)
    if trial is not None:
        for j in np.flatnonzero(resting & measured & own_motors(robot)).tolist():
            found[j] = trial.explained(np.flatnonzero(moving & measured), j) < EXPLAINED
    return found


@dataclass(frozen=True, eq=False)
class _Trial:
    """Columns of the bodies (n, T, k) and of each joint's own friction, rotor and offset (n, T, m), effort (n, T).

    held: (T,) half of the blocks of time.
    """

    bodies: Float
    own: Float
    effort: Float
    held: Bool

    @staticmethod
    def of(robot: RobotModel, parts: Sequence[Signals], rate: float) -> _Trial | None:
        cutoff = min(RESTING_JOINTS_CUTOFF, 0.2 * rate)
        low, edge = zero_phase_filter(cutoff, 4, rate), int(ENDS * rate)
        cut = slice(edge, -edge, max(1, int(rate / (RESTING_JOINTS_OVERSAMPLING * cutoff))))
        found: list[tuple[Float, ...]] = []
        for part in parts:
            if part.tau is None or part.q.shape[1] <= 2 * edge:
                continue
            q = low(part.q)
            lines = q, first_difference(q, rate), second_difference(q, rate), low(part.tau)
            found.append(tuple(one[:, cut].T for one in lines))
        T = sum(len(one[0]) for one in found)
        if T < RESTING_JOINTS_LEAST_SAMPLES:
            return None
        q, dq, ddq, tau = (np.concatenate(lines) for lines in zip(*found, strict=True))
        Y = torque_regressor(robot.tree, *robot.tree_motion(q, dq, ddq)).dense(10 * robot.n_bodies)
        bend = np.maximum(SMOOTHED_SIGN * np.sqrt(np.mean(dq**2, axis=0)), 1e-9)
        own = np.stack([np.ones_like(dq), dq, np.tanh(dq / bend), ddq])
        return _Trial(
            np.einsum("bn,tbk->ntk", robot.projection, Y),
            own.transpose(2, 1, 0),
            tau.T,
            (np.arange(T) * BLOCKS // T) % 2 == 1,
        )

    def explained(self, moving: Int, j: int) -> float:
        """Share of a joint's effort on held-out blocks that bodies explain which are fitted to it and those moving."""
        spread = self.effort.std(axis=1)
        if not spread[j] > 0.0:  # an effort that never changes is no measurement
            return 0.0
        joints = np.append(moving[spread[moving] > 0.0], j)
        # A fit without error must not weigh its joint infinitely.
        size = np.maximum(np.sqrt(self._missed(joints, spread[joints])), np.finfo(float).eps * spread[joints])
        return float(1.0 - self._missed(joints, size)[-1] / spread[j] ** 2)

    def _missed(self, joints: Int, size: Float) -> Float:
        # Mean square errors on held-out blocks, (k,), of one set of bodies for joints of weights 1 / size.
        k, count, m = len(joints), self.bodies.shape[2], self.own.shape[2]
        rows = np.zeros((k, len(self.held), count + m * k))
        rows[:, :, :count] = self.bodies[joints]
        for i, joint in enumerate(joints):
            rows[i, :, count + m * i : count + m * (i + 1)] = self.own[joint]
        rows /= size[:, None, None]
        y = self.effort[joints] / size[:, None]
        length = np.sqrt((rows**2).sum(axis=(0, 1)))
        rows = rows[:, :, length > 0] / length[length > 0]
        error = np.zeros(k)
        for held in (self.held, ~self.held):
            X = rows[:, ~held].reshape(-1, rows.shape[2])
            gram = X.T @ X + RESTING_JOINTS_RIDGE * np.eye(rows.shape[2])
            theta = np.linalg.solve(gram, X.T @ y[:, ~held].ravel())
            error += ((y[:, held] - rows[:, held] @ theta) ** 2).sum(axis=1)
        return np.asarray(error * size**2 / len(self.held))
