"""A load that is held part of the time: as of picking and placing, or of logs with and without a tool put into one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.diagnosis.proof import (
    FOLDS,
    LEAST_GAIN,
    LEAST_TORQUE,
    RIDGE,
    RIVALS,
    HeldOut,
    Proof,
    chance_of_gain,
    decisive,
    gain_by_joint,
    gain_of,
)
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.factor.folds import folds_of_samples
from dynid.kernel import cho_factor, cho_solve, inverse_dynamics, torque_regressor
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Of
from dynid.terms.residual_tests import Rival
from dynid.terms.term import Terms

if TYPE_CHECKING:
    from dynid.log.summary import Switch


# Proof of a load: the description with it predicts held-out blocks better, and no other error of it does.

TEN = 10
# What else could make the described bodies miss, beside another body and one scale of all: see RIVALS.
IMITATIONS = (Rival.ZERO,)


def prove_load(analysis: ResidualAnalysis, body: int) -> Proof | None:
    """Holds bodies at their description, fits drives beside them to folds of whole blocks and scores blocks left out.

    Free bodies take up any load, so that only the described ones can miss it. Declared is a load of ten free parameters
    on a body; its opposite is the load of all blocks taken off; rivals are ten free parameters on any other body, one
    scale of the described torque, and zeros of the joints.
    None without a description of every body, where the model reads more than motion, or where there are too few blocks.
    """
    robot, samples = analysis.robot, analysis.gated
    described = robot.inertia_prior
    if (
        not np.isfinite(described).all()
        or not analysis.enough
        or int(analysis.block.max(initial=-1)) + 1 < FOLDS
    ):
        return None
    terms = analysis.plain_model[0]
    drives = Terms(tuple(t for t in terms if not any(c.of is Of.BODY for c in t.columns(robot))))
    wanted = np.ones(len(drives.columns(robot)), dtype=np.bool_)
    Y, complete = regressor(robot, drives, samples, wanted)
    if not complete:
        return None
    motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    known = inverse_dynamics(robot.tree, described, *motion) @ robot.projection
    left = samples.tau - known
    bodies = body_columns(robot, samples)

    def error(further: Float | None = None, less: Float | None = None) -> Float:
        target = left if less is None else left - less
        return HeldOut.weighted(analysis, Y, target, further).error()

    own = bodies[:, :, TEN * body : TEN * (body + 1)]
    before, after = error(), error(own)
    rivals = {
        f"another weight of body '{robot.body_names[i]}'": error(bodies[:, :, TEN * i : TEN * (i + 1)])
        for i in range(robot.n_bodies)
        if i != body
    }
    rivals["one scale of all torque"] = error(known.T[:, :, None])
    for one in IMITATIONS:
        rivals[str(one)] = error(RIVALS[one](analysis))
    gains = {name: gain_of(before, after_it) for name, after_it in rivals.items()}
    rival = max(gains, key=lambda name: gains[name])
    return Proof(
        gain=gain_of(before, after),
        by_joint=gain_by_joint(before, after),
        p_value=chance_of_gain(before.sum(axis=0), after.sum(axis=0)),
        mirror=gain_of(before, error(less=-_torque(own, Y, left, analysis))),
        rival=rival,
        rival_gain=gains[rival],
    )


def body_columns(robot: RobotModel, samples: Samples) -> Float:
    """Columns (n, N, 10 nb) of all bodies."""
    tree = torque_regressor(robot.tree, *robot.tree_motion(samples.q, samples.dq, samples.ddq))
    dense = np.zeros((len(tree.columns), len(samples), TEN * robot.n_bodies))
    for i, (columns, values) in enumerate(zip(tree.columns, tree.values, strict=True)):
        dense[i][:, columns] += values.T
    return np.asarray(np.einsum("ij,itk->jtk", robot.projection, dense))


def _torque(own: Float, Y: Float, left: Float, analysis: ResidualAnalysis) -> Float:
    """Torque (N, n) of the load that all blocks show, beside the drives."""
    weight = analysis.weights
    both = (np.concatenate([own, Y], axis=2) * weight[:, None, None]).reshape(-1, own.shape[2] + Y.shape[2])
    size = np.sqrt((both**2).sum(axis=0))
    size = np.where(size > 0, size, 1.0)
    found, *_ = np.linalg.lstsq(both / size, (left * weight).T.reshape(-1), rcond=1e-9)
    return np.asarray((own @ (found / size)[: own.shape[2]]).T)


# Cycles of the residuals' bandwidth within which a joint's errors say the same: none of these votes on its own state.
OWN_CYCLES = 0.5
# m and m c: what gravity and slow motion show of a load.
FIRST_MOMENTS = 4
MOST_ROUNDS = 30
# Shares of the log from which on a load is held, where the search starts.
STARTS = (0.25, 0.5, 0.75)
# Samples of one state, as another start has it.
WINDOW = 6
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
    switch: unused column of the log that says so, None = none does.    when: its value with the load, and without it.
    """

    body: int
    mass: float
    std: float
    held: Bool
    gain: float
    by_joint: Float
    switch: Switch | None = None
    when: tuple[float, float] = (1.0, 0.0)


def find_load_times(analysis: ResidualAnalysis) -> LoadTimes | None:
    """The load, held part of the time, that predicts held-out samples decisively better; None without one.

    Samples are with or without further mass and first moments of an outermost body; in turns the model is fitted to
    such states, and the course of states is taken that misses least, a change of state having its price. On held-out
    folds the samples before and after one, but not those whose errors are its own, say its state; where they
    contradict each other it is half. The rival is a constant torque on every joint at times of its own.
    """
    robot, samples = analysis.robot, analysis.gated
    if not analysis.enough or int(analysis.block.max(initial=-1)) + 1 < FOLDS:
        return None
    if max(analysis.relevance(j, 1.0) for j in analysis.joints) < LEAST_TORQUE:
        return None
    Y, complete = analysis.plain_columns
    if not complete:
        return None
    n, N = Y.shape[:2]
    bodies = body_columns(robot, samples)
    ends = sorted(set(range(robot.n_bodies)) - set(robot.parent.tolist()))
    loads = {b: _Course.of(analysis, Y, bodies[:, :, TEN * b : TEN * b + FIRST_MOMENTS]) for b in ends}
    loads = {body: course for body, course in loads.items() if course.felt}
    if not loads:
        return None
    before = _Course.of(analysis, Y, np.zeros((n, N, 0))).error()
    constant = _Course.of(analysis, Y, np.repeat(np.eye(n)[:, None, :], N, axis=1))
    return _as_logged(analysis, loads, before, constant) or _as_found(analysis, loads, before, constant)


def _as_logged(
    analysis: ResidualAnalysis, loads: dict[int, _Course], before: Float, constant: _Course
) -> LoadTimes | None:
    """The load that is held while an unused column of two values has one of them."""
    switches = [(one, share) for one in analysis.switches() if (share := _share(analysis, one)) is not None]
    tried = [
        (course.error(share), body, switch, share)
        for body, course in loads.items()
        for switch, share in switches
    ]
    if not tried:
        return None
    after, body, switch, share = min(tried, key=lambda one: float(one[0].sum()))
    found = decisive(analysis, before, after, len(tried))
    if found is None or gain_of(before, constant.error(share)) > MOST_RIVAL * found[0]:
        return None
    mass, std = loads[body].mass(share)
    held, when = share > 0.5, (switch.high, switch.low)
    if mass < 0:
        mass, held, when = -mass, ~held, (switch.low, switch.high)
    return LoadTimes(body, mass, std, held, *found, switch, when) if mass > SURE * std else None


def _share(analysis: ResidualAnalysis, switch: Switch) -> Float | None:
    """Share (N,) of the higher value at the thinned samples, as the filters see it; None where one hardly occurs."""
    r, index = analysis.residuals, analysis.index
    share = np.zeros(len(index))
    for k, name in enumerate(r.trajectories):
        own = r.trajectory[index] == k
        if own.any():
            share[own] = switch.share(name, r.t[index][own], OWN_CYCLES / analysis.bandwidth)
    return share if LEAST_PART <= share.mean() <= 1.0 - LEAST_PART else None


def _as_found(
    analysis: ResidualAnalysis, loads: dict[int, _Course], before: Float, constant: _Course
) -> LoadTimes | None:
    """The load that is held at times that the residuals tell."""
    carried = {body: course.error() for body, course in loads.items() if course.gain() >= LEAST_GAIN}
    if not carried:
        return None
    body = min(carried, key=lambda one: float(carried[one].sum()))
    found = decisive(analysis, before, carried[body], len(carried))
    if found is None or gain_of(before, constant.error()) > MOST_RIVAL * found[0]:
        return None
    course = loads[body]
    mass, std = course.mass(course.best)
    held = course.at_any_time(course.best) > 0
    if mass < 0:  # what was taken for the load is its absence
        mass, held = -mass, ~held
    if mass < SURE * std or not LEAST_PART <= held.mean() <= 1.0 - LEAST_PART:
        return None
    return LoadTimes(body, mass, std, held, *found)


@dataclass(frozen=True, eq=False)
class _Course:
    """Weighted equations [Y, load, torque] (N, n, c) of samples that are with the load or without it.

    begins: (N,) whether time breaks before a sample.    fold, block: (N,) that each lies in.
    own: samples on either side whose errors are a sample's own.    alike: samples that weigh as one independent.
    load: number of its columns.
    """

    rows: Float
    begins: Bool
    fold: Int
    block: Int
    own: int
    alike: float
    load: int

    @staticmethod
    def of(analysis: ResidualAnalysis, Y: Float, load: Float) -> _Course:
        """Of columns Y (n, N, w) and those of a load (n, N, k), joints weighted by their residuals."""
        block, r, index = analysis.block, analysis.residuals, analysis.index
        usable = np.isin(np.arange(len(Y)), analysis.joints)
        weight = np.where(usable, 1.0 / np.where(usable, analysis.rms, 1.0), 0.0)
        tau = analysis.motion.tau.T[:, :, None]
        rows = np.concatenate([Y, load, tau], axis=2) * (~analysis.reverses * weight).T[:, :, None]
        fold = np.zeros(int(block.max()) + 1, dtype=np.int64)
        for k, one in enumerate(folds_of_samples(block, analysis.motion.dq, FOLDS)):
            fold[one.held_out] = k
        begins = np.ones(len(block), dtype=np.bool_)
        begins[1:] = (np.diff(r.trajectory[index]) != 0) | (np.diff(r.segment[index]) != 0)
        step = float(np.median(np.diff(index))) / analysis.rate
        cycle = OWN_CYCLES / analysis.bandwidth / step
        return _Course(
            np.ascontiguousarray(rows.transpose(1, 0, 2)),
            begins,
            fold[block],
            block,
            max(1, int(np.ceil(cycle))),
            max(1.0, cycle),
            load.shape[2],
        )

    @property
    def felt(self) -> bool:
        """Whether any joint that counts carries the load: those of another chain, or unmeasured ones, do not."""
        return bool(self.rows[:, :, self._own].any())

    @cached_property
    def best(self) -> Float:
        """State (N,) of each sample in a fit of them all."""
        return self.states(None)

    def fit(self, fold: int | None, state: Float) -> Float:
        """Parameters (c - 1,) of samples, without those of a fold, that hold a share of the load (N,), 0 to 1."""
        gram, right, length = self._normal(fold, state)
        factor = cho_factor(gram + RIDGE * np.eye(len(gram)))
        found = cho_solve(factor, right)
        # One refinement makes up for the ridge.
        return (found + cho_solve(factor, right - gram @ found)) / length

    def missed(self, theta: Float) -> Float:
        """Errors (2, N, n) of the samples without the load and with it."""
        own = self._own
        without = self.rows[:, :, -1] - self.rows[:, :, : own.start] @ theta[: own.start]
        return np.array([without, without - self.rows[:, :, own] @ theta[own]])

    def states(self, fold: int | None, starts: tuple[Float, ...] = ()) -> Float:
        """State (N,) of each sample, 0 or 1: the best that taking turns finds from several starts.

        fold: that is left out of the fits; None = none.
        """
        N = len(self.rows)
        if self.load == 0:
            return np.zeros(N)
        tried = starts or (
            *((np.arange(N) >= cut * N).astype(float) for cut in STARTS),
            self._of_windows(),
        )
        found = [self._in_turns(fold, start) for start in tried]
        return min(found, key=lambda one: one[0])[1]

    def _in_turns(self, fold: int | None, state: Float) -> tuple[float, Float]:
        """Squared error and states once no sample changes its state any more."""
        for _ in range(MOST_ROUNDS):
            squared = (self.missed(self.fit(fold, state)) ** 2).sum(axis=2)
            evidence, price = squared[0] - squared[1], self._price(squared, state)
            both = self._heard(evidence, price) + self._heard(evidence, price, back=True)
            last, state = state, (both > evidence).astype(float)
            if np.array_equal(last, state):
                break
        return float(np.where(state > 0, squared[1], squared[0]).sum()), state

    def _price(self, squared: Float, state: Float) -> float:
        """Squared error that a change of state has to save: 2 ln N of independent errors, as BIC has it."""
        left = np.where(state > 0, squared[1], squared[0])
        counted = max(int(np.count_nonzero(self.rows[:, :, -1])), 1)
        return 2.0 * float(np.log(len(left))) * self.alike * float(left.sum()) / counted

    def _heard(self, evidence: Float, price: float, back: bool = False) -> Float:
        """What each sample (N,) and all before it, or after it, say for the load, a change of state having its price.

        V_i = e_i + clip(V_{i-1}, -p, p) is the difference of the two states' least squared errors (Viterbi 1967).
        """
        order = slice(None, None, -1) if back else slice(None)
        breaks = np.append(self.begins[1:], True) if back else self.begins
        found, last = [], 0.0
        for one, breaks_off in zip(evidence[order].tolist(), breaks[order].tolist(), strict=True):
            last = one + (0.0 if breaks_off else min(max(last, -price), price))
            found.append(last)
        return np.array(found)[order]

    def _said_by_others(self, theta: Float, state: Float) -> Float:
        """Share of the load (N, n) by sample and joint as others say: other joints, and the joint at other times."""
        errors = self.missed(theta) ** 2
        evidence, price = errors[0] - errors[1], self._price(errors.sum(axis=2), state)
        whole, (N, n) = evidence.sum(axis=1), evidence.shape
        others = whole[:, None] - evidence
        run = np.cumsum(self.begins)

        def side(back: bool) -> Float:
            # From where errors are no longer its own to the sample, which itself is left to the caller.
            heard, toward = self._heard(whole, price, back), 1 if back else -1
            value = np.zeros((N, n))
            for k in range(self.own, 0, -1):
                at = np.arange(N) + toward * k
                there = np.clip(at, 0, N - 1)
                same = ((at == there) & (run[there] == run))[:, None]
                known = heard[there, None] if k == self.own else others[there] + value
                value = np.where(same, np.clip(known, -price, price), 0.0)
            return value

        total = side(back=False) + others + side(back=True)
        return np.asarray(0.5 + 0.5 * np.clip(total / max(price, 1e-300), -1.0, 1.0))

    def at_any_time(self, state: Float) -> Float:
        """The state (N,), at samples without equations, as near reversals, that of the nearest which has some."""
        counted = np.flatnonzero(self.rows[:, :, -1].any(axis=1))
        every = np.arange(len(state))
        right = np.clip(np.searchsorted(counted, every), 1, len(counted) - 1)
        nearer = every - counted[right - 1] < counted[right] - every
        return np.asarray(state[counted[np.where(nearer, right - 1, right)]])

    def gain(self) -> float:
        """Share of the squared error that the load takes away in training."""
        none = np.zeros(len(self.rows))
        before = self.missed(self.fit(None, none))[0]
        after = self.missed(self.fit(None, self.best))
        return gain_of(before**2, np.where(self.best[:, None] > 0, after[1], after[0]) ** 2)

    def error(self, known: Float | None = None) -> Float:
        """Squared error (n, M) by joint and block: parameters from other folds, states from other samples.

        known: states (N,), 0 to 1, that are known instead.
        """
        left = np.zeros(self.rows.shape[:2])
        for fold in range(int(self.fold.max()) + 1):
            state = self.states(fold, (self.best,)) if known is None else known
            theta = self.fit(fold, state)
            without, holding = self.missed(theta)
            share = self._said_by_others(theta, state) if known is None and self.load else state[:, None]
            mask = self.fold == fold
            left[mask] = (without + share * (holding - without))[mask]
        count = int(self.block.max()) + 1
        return np.array([np.bincount(self.block, row**2, minlength=count) for row in left.T])

    def mass(self, state: Float) -> tuple[float, float]:
        """The load's mass and its standard deviation, kg, from scores summed over blocks of time."""
        theta, own = self.fit(None, state), self._own
        gram, _, length = self._normal(None, state)
        without, holding = self.missed(theta)
        left = without + state[:, None] * (holding - without)
        scores = np.einsum("tjc,tj->tc", self.rows[:, :, :-1], left) / length
        scores[:, own] *= state[:, None]
        by_block = np.stack([np.bincount(self.block, column) for column in scores.T], axis=1)
        row = np.linalg.pinv(gram, rcond=RIDGE)[own.start] / length[own.start]
        return float(theta[own.start]), float(np.linalg.norm(by_block @ row))

    @property
    def _own(self) -> slice:
        c = self.rows.shape[2] - 1
        return slice(c - self.load, c)

    @cached_property
    def _products(self) -> Float:
        """Products (folds, c, c) of the rows of each fold."""
        parts = [
            self.rows[self.fold == k].reshape(-1, self.rows.shape[2]) for k in range(int(self.fold.max()) + 1)
        ]
        return np.array([part.T @ part for part in parts])

    def _normal(self, fold: int | None, state: Float) -> tuple[Float, Float, Float]:
        """Normal equations with columns of length one: gram (c - 1, c - 1), right (c - 1,) and the lengths."""
        own, products = self._own, self._products
        total = products.sum(axis=0) if fold is None else np.delete(products, fold, axis=0).sum(axis=0)
        at = (state > 0) if fold is None else (state > 0) & (self.fold != fold)
        rows, share = self.rows[at], state[at][:, None, None]
        load = (rows[:, :, own] * share).reshape(rows.shape[0] * rows.shape[1], self.load)
        held = load.T @ rows.reshape(-1, self.rows.shape[2])
        held[:, own] = load.T @ load
        total[own], total[:, own] = held, held.T
        length = np.sqrt(np.diag(total)[:-1])
        length = np.where(length > 0, length, 1.0)
        return total[:-1, :-1] / np.outer(length, length), total[:-1, -1] / length, length

    def _of_windows(self) -> Float:
        """A start: which windows of samples hold more than half of the load of which each may hold what it likes."""
        own = self._own
        left = self.missed(self.fit(None, np.zeros(len(self.rows))))[0]
        edges = np.arange(0, len(left), WINDOW)
        right = np.add.reduceat(np.einsum("tjk,tj->tk", self.rows[:, :, own], left), edges)
        gram = np.add.reduceat(np.einsum("tjk,tjl->tkl", self.rows[:, :, own], self.rows[:, :, own]), edges)
        load = np.eye(self.load)[0]
        least = 1e-12 * np.trace(gram.sum(axis=0)) * np.eye(self.load)
        for _ in range(MOST_ROUNDS):
            size = np.maximum(np.einsum("i,wij,j->w", load, gram, load), 1e-300)
            held = np.clip(right @ load / size, *np.quantile(right @ load / size, TAILS))
            load = np.linalg.solve(np.einsum("w,wij->ij", held**2, gram) + least, held @ right)
        middle = 0.5 * (held.min() + held.max())
        return np.where(held > middle, 1.0, 0.0)[np.arange(len(left)) // WINDOW]
