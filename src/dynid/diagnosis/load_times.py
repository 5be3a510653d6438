"""A load that is held part of the time: as of picking and placing, or of logs with and without a tool put into one."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.diagnosis.load_proof import TEN, body_columns
from dynid.diagnosis.proof import FOLDS, LEAST_GAIN, LEAST_TORQUE, RIDGE, decisive, gain_of, gated
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.factor.folds import folds_of_samples
from dynid.kernel import cho_factor, cho_solve

# Thinned samples, at least, that tell whether a load is held; as many others test it.
HALF_WINDOW = 3
MOST_WINDOWS = 240
# m and m c: what gravity and slow motion show of a load.
FIRST_MOMENTS = 4
MOST_ROUNDS = 30
# Shares of the log from which on a load is held, where the search starts.
STARTS = (0.25, 0.5, 0.75)
# Of the windows' loads, beyond which they say little.
TAILS = (0.05, 0.95)
# With and without the load the log lasts this share of it, at least.
LEAST_PART = 0.05
# Standard deviations of the mass that are chance.
SURE = 3.0
# Constant torques of the joints at such times may gain this share of what the load does, at most.
MOST_RIVAL = 0.9


@dataclass(frozen=True, eq=False)
class LoadTimes:
    """A load that is held part of the time.

    body: that carries it.    mass, std: kg.    held: (N,) whether it is, at the thinned samples.
    gain: share of the held-out mean square error that it takes away, joints weighted alike.    by_joint: (n,).
    """

    body: int
    mass: float
    std: float
    held: Bool
    gain: float
    by_joint: Float


def find_load_times(analysis: ResidualAnalysis) -> LoadTimes | None:
    """The load, held part of the time, that predicts held-out samples decisively better; None without one.

    Windows of time are with or without further mass and first moments of an outermost body; in turns the model is
    fitted to such states, and each window takes the state that misses less. On held-out folds one half of a window
    says the state and the other half is scored. The rival is a constant torque on every joint at times of its own.
    """
    robot, samples = analysis.robot, gated(analysis)
    if not analysis.enough or int(analysis.block.max(initial=-1)) + 1 < FOLDS:
        return None
    if max(analysis.relevance(j, 1.0) for j in analysis.joints) < LEAST_TORQUE:
        return None
    terms, wanted = analysis.plain_model
    Y, complete = regressor(robot, terms, samples, wanted)
    if not complete:
        return None
    n, N = Y.shape[:2]
    bodies = body_columns(robot, samples)
    carried = {}
    for body in sorted(set(range(robot.n_bodies)) - set(robot.parent.tolist())):
        own = _Windows.of(analysis, Y, bodies[:, :, TEN * body : TEN * body + FIRST_MOMENTS])
        if own.felt and own.gain() >= LEAST_GAIN:
            carried[body] = own, own.error()
    if not carried:
        return None
    before = _Windows.of(analysis, Y, np.zeros((n, N, 0))).error()
    body = min(carried, key=lambda one: float(carried[one][1].sum()))
    windows, after = carried[body]
    found = decisive(analysis, before, after, len(carried))
    if found is None:
        return None
    gain, by_joint = found
    constant = np.repeat(np.eye(n)[:, None, :], N, axis=1)
    if gain_of(before, _Windows.of(analysis, Y, constant).error()) > MOST_RIVAL * gain:
        return None
    state = windows.best
    mass, std = windows.mass(state)
    held = state[windows.window] > 0
    if mass < 0:  # what was taken for the load is its absence
        mass, held = -mass, ~held
    if mass < SURE * std or not LEAST_PART <= held.mean() <= 1.0 - LEAST_PART:
        return None
    return LoadTimes(body, mass, std, held, gain, by_joint)


@dataclass(frozen=True, eq=False)
class _Windows:
    """Weighted equations [Y, load, torque] (n, N, c) by window of time, each in two halves.

    window, half: (N,).    fold: (W,) that each window lies in.    load: number of its columns.
    """

    rows: Float
    window: Int
    half: Int
    fold: Int
    block: Int
    load: int

    @staticmethod
    def of(analysis: ResidualAnalysis, Y: Float, load: Float) -> _Windows:
        """Of columns Y (n, N, w) and those of a load (n, N, k), joints weighted by their residuals."""
        block, N = analysis.block, Y.shape[1]
        usable = np.isin(np.arange(len(Y)), analysis.joints)
        weight = np.where(usable, 1.0 / np.where(usable, analysis.rms, 1.0), 0.0)
        tau = analysis.motion.tau.T[:, :, None]
        rows = np.concatenate([Y, load, tau], axis=2) * (~analysis.reverses * weight).T[:, :, None]
        count = int(block.max()) + 1
        # Windows lie within blocks, and so within folds.
        each = max(1, min(N // (2 * HALF_WINDOW), MOST_WINDOWS) // count)
        start = np.searchsorted(block, np.arange(count + 1))
        place = (np.arange(N) - start[block]) * 2 * each // np.diff(start)[block]
        fold = np.zeros(count, dtype=np.int64)
        for k, one in enumerate(folds_of_samples(block, analysis.motion.dq, FOLDS)):
            fold[one.held_out] = k
        return _Windows(
            rows, block * each + place // 2, place % 2, np.repeat(fold, each), block, load.shape[2]
        )

    @cached_property
    def halves(self) -> Float:
        """Products (W, 2, c, c) of the rows of each half."""
        c, rows = self.rows.shape[2], self.rows.transpose(1, 0, 2)
        part = 2 * self.window + self.half
        edges = np.searchsorted(part, np.arange(2 * len(self.fold) + 1))
        found = np.zeros((2 * len(self.fold), c, c))
        for k, (a, b) in enumerate(pairwise(edges)):
            own = rows[a:b].reshape(-1, c)
            found[k] = own.T @ own
        return found.reshape(-1, 2, c, c)

    @cached_property
    def whole(self) -> Float:
        """Products (W, c, c) of the rows of each window."""
        return np.asarray(self.halves.sum(axis=1))

    @property
    def felt(self) -> bool:
        """Whether any joint that counts carries the load: those of another chain, or unmeasured ones, do not."""
        return bool(self.whole[:, self._own, self._own].any())

    @cached_property
    def best(self) -> Float:
        """State (W,) of each window in a fit of them all."""
        return self.states(self.whole)

    def fit(self, products: Float, state: Float) -> Float:
        """Parameters (c - 1,) of windows that hold the load or not, 1 or 0 (W,)."""
        gram, right, length = self._normal(products, state)
        factor = cho_factor(gram + RIDGE * np.eye(len(gram)))
        found = cho_solve(factor, right)
        # One refinement makes up for the ridge.
        return (found + cho_solve(factor, right - gram @ found)) / length

    def missed(self, products: Float, theta: Float) -> Float:
        """Squared errors (2, W) of windows without the load and with it."""
        v = np.zeros((len(theta) + 1, 2))
        v[:, 0] = np.append(-theta, 1.0)
        v[self._own, 1] = v[self._own, 0]
        v[self._own, 0] = 0.0
        turned = products @ v
        without, common, load = (
            turned[:, :, 0] @ v[:, 0],
            turned[:, :, 1] @ v[:, 0],
            turned[:, :, 1] @ v[:, 1],
        )
        return np.array([without, without + 2.0 * common + load])

    def states(self, products: Float, starts: tuple[Float, ...] = ()) -> Float:
        """State (W,) of each window, 0 or 1: the best that taking turns finds from several starts."""
        W = len(products)
        if self.load == 0:
            return np.zeros(W)
        tried = starts or (
            *((np.arange(W) >= cut * W).astype(float) for cut in STARTS),
            self._course(products),
        )
        found = [self._in_turns(products, start) for start in tried]
        return min(found, key=lambda one: one[0])[1]

    def _in_turns(self, products: Float, state: Float) -> tuple[float, Float]:
        """Squared error and states once no window changes its state any more."""
        for _ in range(MOST_ROUNDS):
            without, holding = self.missed(products, self.fit(products, state))
            last, state = state, (holding < without).astype(float)
            if np.array_equal(last, state):
                break
        return float(np.minimum(without, holding).sum()), state

    def gain(self) -> float:
        """Share of the squared error that the load takes away in training."""
        before = self.missed(self.whole, self.fit(self.whole, np.zeros(len(self.fold))))[0]
        return gain_of(before, self.missed(self.whole, self.fit(self.whole, self.best)).min(axis=0))

    def error(self) -> Float:
        """Squared error (n, M) by joint and block: parameters from other folds, states from the window's other half."""
        state, own = self.best, self._own
        left = np.zeros(self.rows.shape[:2])
        for fold in range(int(self.fold.max()) + 1):
            rest = self.fold != fold
            theta = self.fit(self.whole[rest], self.states(self.whole[rest], (state[rest],)))
            bare = theta.copy()
            bare[own] = 0.0
            for half in range(2):
                without, holding = self.missed(self.halves[:, 1 - half], theta)
                mask = (self.fold[self.window] == fold) & (self.half == half)
                rows, loaded = self.rows[:, mask], (holding < without)[self.window[mask]]
                left[:, mask] = rows[:, :, -1] - np.where(
                    loaded, rows[:, :, :-1] @ theta, rows[:, :, :-1] @ bare
                )
        count = int(self.block.max()) + 1
        return np.array([np.bincount(self.block, row**2, minlength=count) for row in left])

    def mass(self, state: Float) -> tuple[float, float]:
        """The load's mass and its standard deviation, kg, from scores summed over blocks of time."""
        theta = self.fit(self.whole, state)
        gram, _, length = self._normal(self.whole, state)
        share = np.ones((len(state), len(length) + 1))
        share[:, self._own] = state[:, None]
        v = share * np.append(-theta, 1.0)
        scores = (share * (self.whole @ v[:, :, None])[:, :, 0])[:, :-1] / length
        each = len(self.fold) // (int(self.block.max()) + 1)
        by_block = scores.reshape(-1, each, len(length)).sum(axis=1)
        row = np.linalg.pinv(gram, rcond=RIDGE)[self._own.start] / length[self._own.start]
        return float(theta[self._own.start]), float(np.linalg.norm(by_block @ row))

    @property
    def _own(self) -> slice:
        c = self.rows.shape[2] - 1
        return slice(c - self.load, c)

    def _normal(self, products: Float, state: Float) -> tuple[Float, Float, Float]:
        """Normal equations with columns of length one: gram (c - 1, c - 1), right (c - 1,) and the lengths."""
        c, own = products.shape[1], self._own
        total, held = (np.stack([np.ones(len(state)), state]) @ products.reshape(-1, c * c)).reshape(2, c, c)
        total[own], total[:, own] = held[own], held[:, own]
        length = np.sqrt(np.diag(total)[:-1])
        length = np.where(length > 0, length, 1.0)
        return total[:-1, :-1] / np.outer(length, length), total[:-1, -1] / length, length

    def _course(self, products: Float) -> Float:
        """A start: which windows hold more than half of the load of which each may hold what it likes."""
        own, v = self._own, np.append(-self.fit(products, np.zeros(len(products))), 1.0)
        v[own] = 0.0
        right, gram = (products @ v)[:, own], products[:, own, own]
        load = np.eye(self.load)[0]
        least = 1e-12 * np.trace(gram.sum(axis=0)) * np.eye(self.load)
        for _ in range(MOST_ROUNDS):
            size = np.maximum(np.einsum("i,wij,j->w", load, gram, load), 1e-300)
            held = np.clip(right @ load / size, *np.quantile(right @ load / size, TAILS))
            load = np.linalg.solve(np.einsum("w,wij->ij", held**2, gram) + least, held @ right)
        return np.where(held > 0.5 * (held.min() + held.max()), 1.0, 0.0)
