"""Times at which a joint stands still in mid-log, and those among them at which its motor does not carry its load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.kernel import torque_regressor
from dynid.log.absent import STILL
from dynid.robot.locking import own_motors
from dynid.robot.model import RobotModel
from dynid.signals.coherence import SMOOTHED_SIGN
from dynid.signals.differentiate import first_difference, second_difference
from dynid.signals.filter import zero_phase_filter
from dynid.signals.samples import Samples

# s: motion is looked at in bins; a joint stands from so many of them on, which is longer than most reversals take.
BIN, LEAST_BINS = 0.1, 10
# Below this frequency, Hz, on so many samples a period, gravity and the coupling of joints show.
CUTOFF, OVERSAMPLING = 5.0, 4.0
# s, on either side of where a joint comes to rest or leaves it: filters swing, and drives hand over to brakes.
EDGE = 0.3
# An effort at rest has to be missed by so many times what the joint's own is missed by in motion, and so many times
# its Coulomb friction, which at rest may take either sign and is up to twice as large.
MISSED, FRICTION = 4.0, 2.0
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


@dataclass(frozen=True)
class Stand:
    """A joint, by its index, that stands still from start to end, s, in a trajectory."""

    joint: int
    trajectory: str
    start: float
    end: float


def stands(batches: Iterable[Samples]) -> tuple[Stand, ...]:
    """Every time at which a joint stands still for a second or longer, and moves before or after."""
    return tuple(stand for run in _runs_of_bins(batches) for stand in run.stands())


def _runs_of_bins(batches: Iterable[Samples]) -> Iterator[_Bins]:
    run, last = _Bins("", -1), -np.inf
    for samples in batches:
        if run.segment != samples.segment:
            yield run
            run, last = _Bins(samples.trajectory, samples.segment), -np.inf
        new = _own(samples) & (samples.t > last)
        if new.any():
            run.add(samples.t[new], samples.q[new])
            last = float(samples.t[new][-1])
    yield run


class _Bins:
    """The bins of a segment, in which a joint stands or moves: of a day's log no more is kept than that."""

    def __init__(self, trajectory: str, segment: int) -> None:
        self.trajectory, self.segment = trajectory, segment
        self._times: list[Float] = []
        self._still: list[Bool] = []
        # Greatest and negative least positions of the last bins, (2, B, n), and whether joints stood in them so far.
        self._open: Float | None = None
        self._stood: Bool | None = None

    def add(self, t: Float, q: Float) -> None:
        """Samples (T,), (T, n) that follow the last ones."""
        first = np.flatnonzero(np.diff(np.floor(t / BIN), prepend=-np.inf))
        self._times.append(np.stack([t[first], t[np.append(first[1:], len(t)) - 1]], axis=1))
        ends = np.stack([np.maximum.reduceat(one, first, axis=0) for one in (q, -q)])
        stood = np.zeros(ends.shape[1:], dtype=np.bool_)
        if self._open is not None and self._stood is not None:
            ends = np.concatenate([self._open, ends], axis=1)
            stood = np.concatenate([self._stood, stood])
        windows = len(stood) - LEAST_BINS + 1
        if windows > 0:
            travel = (
                np.lib.stride_tricks.sliding_window_view(ends, LEAST_BINS, axis=1).max(axis=3).sum(axis=0)
            )
            for shift in range(LEAST_BINS):
                stood[shift : shift + windows] |= travel <= STILL
        known = max(windows, 0)
        self._still.append(stood[:known])
        self._open, self._stood = ends[:, known:], stood[known:]

    def stands(self) -> Iterator[Stand]:
        """Every time at which a joint stands, of those that move, too."""
        if self._stood is None:
            return
        times, still = np.concatenate(self._times), np.concatenate([*self._still, self._stood])
        for j in np.flatnonzero(still.any(axis=0) & ~still.all(axis=0)).tolist():
            edges = np.flatnonzero(np.diff(still[:, j], prepend=False, append=False))
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                yield Stand(j, self.trajectory, float(times[a, 0]), float(times[b - 1, 1]))


def _own(samples: Samples) -> Bool:
    # Overlap with neighbouring batches left out, rest not.
    return np.asarray(np.any([samples.keep, *samples.left_out.values()], axis=0))


def not_carried(robot: RobotModel, batches: Iterable[Samples], found: Sequence[Stand]) -> tuple[Stand, ...]:
    """Stands in which the motor's effort is not the torque of what the joint carries, as where a brake is on.

    Bodies, friction, rotors and offsets are fitted to all joints in motion. At rest they have to miss an effort by more
    than `MISSED` and `FRICTION` allow, less what the fit does not know: with their prediction error r of information
    (X, G), r' (1 + X inv(G) X')^-1 r a sample is what the stand would add to the squares of a fit to both.
    A stand grows by the time before and after in which the effort is as during it; joints that were stopped with one
    that is found, and whose effort at rest does not change, are found as well.
    """
    alone = own_motors(robot)
    asked = [one for one in found if alone[one.joint]]
    if not asked:
        return ()
    reference = _Reference.of(robot, batches, asked)
    if reference is None:
        return ()
    braked = list(_compared(robot, batches, asked, reference))
    if not braked:
        return ()
    others = [
        one
        for one in asked
        if one not in braked
        and any(b.trajectory == one.trajectory and abs(b.start - one.start) <= TOGETHER for b in braked)
    ]
    return tuple(
        sorted(
            [*_grown(batches, reference, braked, True), *_grown(batches, reference, others, False)],
            key=lambda one: (one.trajectory, one.start, one.joint),
        )
    )


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
        cut = np.flatnonzero(_own(samples))[:: max(1, int(rate / (OVERSAMPLING * cutoff)))]
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
    theta, inverse: (p,), (p, p) of the normal equations, weighted.    size: (n,) what it misses in motion, nan = too
    few samples.    friction: (n,) Coulomb.    spread: (n,) standard deviation of the effort in motion.
    """

    bend: Float
    columns: Int
    theta: Float
    inverse: Float
    size: Float
    friction: Float
    spread: Float

    @staticmethod
    def of(robot: RobotModel, batches: Iterable[Samples], resting: Sequence[Stand]) -> _Reference | None:
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
                X, y = lines.row(j, moving[:, j]), lines.effort[j, moving[:, j]]
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
            theta, inverse = _solved(gram, right, columns, np.where(enough, size, np.inf))
            left = [
                square[j] - 2.0 * theta[own] @ right[j] + theta[own] @ gram[j] @ theta[own]
                for j, own in enumerate(columns)
            ]
            free = np.maximum(count - k / n - _OWN, 1.0)
            size = np.sqrt(np.maximum(left, 1e-12 * square) / free)
        friction = np.abs(theta[columns[:, k + 2]])
        mean = right[:, k] / np.maximum(count, 1.0)
        spread = np.sqrt(np.maximum(square / np.maximum(count, 1.0) - mean**2, 0.0))
        return _Reference(bend, columns, theta, inverse, np.where(enough, size, np.nan), friction, spread)

    def missed(self, j: int, X: Float, y: Float) -> float:
        """Root mean square error of a joint's effort (T,) at rest, less what the fit does not know."""
        own = self.columns[j]
        error = y - X @ self.theta[own]
        unknown = X @ self.inverse[np.ix_(own, own)] @ X.T / self.size[j] ** 2
        return float(np.sqrt(max(error @ np.linalg.solve(np.eye(len(y)) + unknown, error), 0.0) / len(y)))

    def bound(self, j: int) -> float:
        """What an effort at rest may be missed by; nan where nothing is known of the joint."""
        return float(MISSED * self.size[j] + FRICTION * self.friction[j])


def _bends(batches: Iterable[Samples], n: int) -> Float:
    square, count = np.zeros(n), 0
    for samples in batches:
        square += (samples.dq[samples.keep] ** 2).sum(axis=0)
        count += int(samples.keep.sum())
    return np.maximum(SMOOTHED_SIGN * np.sqrt(square / max(count, 1)), 1e-9)


def _moving(t: Float, samples: Samples, resting: Sequence[Stand]) -> Bool:
    # Joints (T, n) that move and are measured, well away from where they stand.
    moving = np.ones((len(t), samples.n), dtype=np.bool_)
    if samples.measured is not None:
        moving &= samples.measured
    for one in resting:
        if one.trajectory == samples.trajectory:
            moving[(t >= one.start - EDGE) & (t <= one.end + EDGE), one.joint] = False
    return moving


def _solved(gram: Float, right: Float, columns: Int, size: Float) -> tuple[Float, Float]:
    p = int(columns.max()) + 1
    G, b = np.zeros((p, p)), np.zeros(p)
    for own, A, r, s in zip(columns, gram, right, np.maximum(size, np.finfo(float).tiny), strict=True):
        if np.isfinite(s):
            G[np.ix_(own, own)] += A / s**2
            b[own] += r / s**2
    length = np.sqrt(np.diag(G))
    scale = np.where(length > 0, 1.0 / np.where(length > 0, length, 1.0), 0.0)
    inverse = np.linalg.inv(scale[:, None] * G * scale + RIDGE * np.eye(p))
    inverse = scale[:, None] * inverse * scale
    return inverse @ b, inverse


def _compared(
    robot: RobotModel, batches: Iterable[Samples], asked: Sequence[Stand], reference: _Reference
) -> Iterator[Stand]:
    gathered: dict[Stand, list[tuple[Float, Float]]] = {}
    for samples in batches:
        near = [
            one
            for one in asked
            if one.trajectory == samples.trajectory
            and one.end >= samples.t[0]
            and one.start <= samples.t[-1]
            and (samples.measured is None or samples.measured[one.joint])
        ]
        lines = _Lines.of(robot, samples, reference.bend) if near else None
        if lines is None:
            continue
        for one in near:
            inside = np.flatnonzero((lines.t >= one.start + EDGE) & (lines.t <= one.end - EDGE))
            few = inside[:: max(1, -(-len(inside) // COMPARED))]
            if len(few):
                which = np.zeros(len(lines.t), dtype=np.bool_)
                which[few] = True
                gathered.setdefault(one, []).append(
                    (lines.row(one.joint, which), lines.effort[one.joint, which])
                )
    for one, parts in gathered.items():
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        step = -(-len(y) // COMPARED)
        if reference.missed(one.joint, X[::step], y[::step]) > reference.bound(one.joint):
            yield one


def _grown(
    batches: Iterable[Samples], reference: _Reference, found: Sequence[Stand], sure: bool
) -> list[Stand]:
    """Stands with the time around them in which the effort is as during them.

    sure: whether a stand whose effort changes is kept as it is, or left out.
    """
    seen: dict[Stand, list[tuple[Float, Float]]] = {one: [] for one in found}
    for samples in batches if found else ():
        own = _own(samples)
        for one, parts in seen.items():
            if one.trajectory == samples.trajectory:
                near = own & (samples.t >= one.start - LONGEST_STOP) & (samples.t <= one.end + LONGEST_STOP)
                if near.any():
                    parts.append((samples.t[near], samples.tau[near, one.joint]))
    grown = []
    for one, parts in seen.items():
        if not parts:
            continue
        t, tau = (np.concatenate(part) for part in zip(*parts, strict=True))
        inside = (t >= one.start + EDGE) & (t <= one.end - EDGE)
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
