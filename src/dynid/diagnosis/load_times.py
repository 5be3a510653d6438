"""A load that is present part of the time, as in pick and place, or in joined logs with and without a tool."""

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


# Proof of a load: the prior model plus the load predicts held-out blocks better, and no other error of the prior does.

# Inertial parameters of a link.
TEN = 10
# Other causes of errors of the prior model, in addition to other links and a common scale; see RIVALS.
IMITATIONS = (Rival.ZERO,)


def prove_load(analysis: ResidualAnalysis, body: int) -> Proof | None:
    """Test a load on a link by cross-validation, with all links fixed at their prior and only the drives estimated.

    Free link parameters would absorb any load. The claim is a load with ten free parameters on the link. The opposite
    is the load estimated from all blocks with the opposite sign. Rivals are ten free parameters on any other link, a
    common scale of the prior torque, and zero offsets of the joints.

    Returns
    -------
    Proof or None
        None if a link has no prior, if the model needs other inputs than motion, or if there are too few blocks.

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

    load = bodies[:, :, TEN * body : TEN * (body + 1)]
    before, after = error(), error(load)
    rivals = {
        f"another weight of link '{robot.body_names[i]}'": error(bodies[:, :, TEN * i : TEN * (i + 1)])
        for i in range(robot.n_bodies)
        if i != body
    }
    rivals["a common scale of all torques"] = error(known.T[:, :, None])
    for imitation in IMITATIONS:
        rivals[str(imitation)] = error(RIVALS[imitation](analysis))
    gains = {name: gain_of(before, after_it) for name, after_it in rivals.items()}
    rival = max(gains, key=lambda name: gains[name])
    return Proof(
        gain=gain_of(before, after),
        by_joint=gain_by_joint(before, after),
        p_value=chance_of_gain(before.sum(axis=0), after.sum(axis=0)),
        mirror=gain_of(before, error(less=-_torque(load, Y, left, analysis))),
        rival=rival,
        rival_gain=gains[rival],
    )


def body_columns(robot: RobotModel, samples: Samples) -> Float:
    """Regressor (n, N, 10 nb) of the inertial parameters of all links."""
    tree = torque_regressor(robot.tree, *robot.tree_motion(samples.q, samples.dq, samples.ddq))
    dense = np.zeros((len(tree.columns), len(samples), TEN * robot.n_bodies))
    for i, (columns, values) in enumerate(zip(tree.columns, tree.values, strict=True)):
        dense[i][:, columns] += values.T
    return np.asarray(np.einsum("ij,itk->jtk", robot.projection, dense))


def _torque(load: Float, Y: Float, left: Float, analysis: ResidualAnalysis) -> Float:
    """Torque (N, n) of the load, estimated together with the drives from all blocks."""
    weight = analysis.weights
    both = (np.concatenate([load, Y], axis=2) * weight[:, None, None]).reshape(-1, load.shape[2] + Y.shape[2])
    size = np.sqrt((both**2).sum(axis=0))
    size = np.where(size > 0, size, 1.0)
    theta, *_ = np.linalg.lstsq(both / size, (left * weight).T.reshape(-1), rcond=1e-9)
    return np.asarray((load @ (theta / size)[: load.shape[2]]).T)


# Correlation time of the residuals, in periods of the bandwidth. Errors within this time of a held-out sample are not
# used to estimate its state.
OWN_CYCLES = 0.5
# Number of load parameters (m and m c) that gravity and slow motion identify.
FIRST_MOMENTS = 4
# Most iterations of an alternating fit.
MOST_ROUNDS = 30
# Starts of the search: the load is present from this share of the log on.
STARTS = (0.25, 0.5, 0.75)
# Another start assumes a constant state in windows of this many samples.
WINDOW = 6
# Quantiles at which the loads of the windows are clipped as outliers.
TAILS = (0.05, 0.95)
# Least share of the log with the load, and without it.
LEAST_PART = 0.05
# Least mass, in standard deviations.
SURE = 3.0
# The rival, constant torques at the same times, may achieve at most this share of the gain.
MOST_RIVAL = 0.9


@dataclass(frozen=True, eq=False)
class LoadTimes:
    """A load that is present part of the time.

    Attributes
    ----------
    body : int
        Index of the link with the load.
    mass, std : float
        Mass and its standard deviation, kg.
    held : ndarray of bool, shape (N,)
        Whether the load is present at the thinned samples.
    gain : float
        Relative reduction of the held-out mean square error, with equal joint weights.
    by_joint : ndarray, shape (n,)
        Relative reduction per joint.
    switch : Switch or None
        Unused column of the log that shows the load; None if there is none.
    when : tuple of float
        Values of this column with the load and without it.

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
    """Find a load that is present part of the time and predicts held-out samples decisively better; None otherwise.

    Each sample has one of two states, with or without additional mass and first moments on an outermost link. The fit
    alternates between the parameters and a two-state segmentation with a switching penalty. In held-out folds, the
    samples before and after a sample determine its state, except samples with correlated errors; if they disagree, the
    state is one half. The rival is a constant torque on every joint, with its best times.
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
    """Find a load that is present while an unused two-valued column of the log has one of its values."""
    switches = [
        (candidate, share)
        for candidate in analysis.switches()
        if (share := _share(analysis, candidate)) is not None
    ]
    tried = [
        (course.error(share), body, switch, share)
        for body, course in loads.items()
        for switch, share in switches
    ]
    if not tried:
        return None
    after, body, switch, share = min(tried, key=lambda candidate: float(candidate[0].sum()))
    gains = decisive(analysis, before, after, len(tried))
    if gains is None or gain_of(before, constant.error(share)) > MOST_RIVAL * gains[0]:
        return None
    mass, std = loads[body].mass(share)
    with_load, when = share > 0.5, (switch.high, switch.low)
    if mass < 0:
        mass, with_load, when = -mass, ~with_load, (switch.low, switch.high)
    return LoadTimes(body, mass, std, with_load, *gains, switch, when) if mass > SURE * std else None


def _share(analysis: ResidualAnalysis, switch: Switch) -> Float | None:
    """Share (N,) of the higher value within the filter window of each thinned sample; None if a value is too rare."""
    r, index = analysis.residuals, analysis.index
    share = np.zeros(len(index))
    for k, name in enumerate(r.trajectories):
        in_trajectory = r.trajectory[index] == k
        if in_trajectory.any():
            share[in_trajectory] = switch.share(
                name, r.t[index][in_trajectory], OWN_CYCLES / analysis.bandwidth
            )
    return share if LEAST_PART <= share.mean() <= 1.0 - LEAST_PART else None


def _as_found(
    analysis: ResidualAnalysis, loads: dict[int, _Course], before: Float, constant: _Course
) -> LoadTimes | None:
    """Find a load whose times are estimated from the residuals."""
    carried = {body: course.error() for body, course in loads.items() if course.gain() >= LEAST_GAIN}
    if not carried:
        return None
    body = min(carried, key=lambda candidate: float(carried[candidate].sum()))
    gains = decisive(analysis, before, carried[body], len(carried))
    if gains is None or gain_of(before, constant.error()) > MOST_RIVAL * gains[0]:
        return None
    course = loads[body]
    mass, std = course.mass(course.best)
    with_load = course.at_any_time(course.best) > 0
    if mass < 0:  # the state "with load" is the one without it
        mass, with_load = -mass, ~with_load
    if mass < SURE * std or not LEAST_PART <= with_load.mean() <= 1.0 - LEAST_PART:
        return None
    return LoadTimes(body, mass, std, with_load, *gains)


@dataclass(frozen=True, eq=False)
class _Course:
    """Two-state model of samples with and without a load.

    Attributes
    ----------
    rows : ndarray, shape (N, n, c)
        Weighted equations [Y, load, torque].
    begins : ndarray of bool, shape (N,)
        Whether there is a gap in time before the sample.
    fold, block : ndarray of int, shape (N,)
        Fold and block of each sample.
    own : int
        Number of samples on either side with errors correlated to the sample's error.
    alike : float
        Number of samples per independent sample.
    load : int
        Number of columns of the load.

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
        """Build from columns Y (n, N, w) and load columns (n, N, k); joints are weighted by their inverse residuals."""
        block, r, index = analysis.block, analysis.residuals, analysis.index
        usable = np.isin(np.arange(len(Y)), analysis.joints)
        weight = np.where(usable, 1.0 / np.where(usable, analysis.rms, 1.0), 0.0)
        tau = analysis.motion.tau.T[:, :, None]
        rows = np.concatenate([Y, load, tau], axis=2) * (~analysis.reverses * weight).T[:, :, None]
        fold = np.zeros(int(block.max()) + 1, dtype=np.int64)
        for k, held_out_fold in enumerate(folds_of_samples(block, analysis.motion.dq, FOLDS)):
            fold[held_out_fold.held_out] = k
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
        """Whether the load acts on an analysed joint; joints of another chain and unmeasured joints do not count."""
        return bool(self.rows[:, :, self._own].any())

    @cached_property
    def best(self) -> Float:
        """State (N,) of each sample in the fit to all samples."""
        return self.states(None)

    def fit(self, fold: int | None, state: Float) -> Float:
        """Fit parameters (c - 1,) without a fold, for given states (N,) between 0 and 1."""
        gram, right, length = self._normal(fold, state)
        factor = cho_factor(gram + RIDGE * np.eye(len(gram)))
        theta = cho_solve(factor, right)
        # One step of iterative refinement removes the effect of the ridge.
        return (theta + cho_solve(factor, right - gram @ theta)) / length

    def missed(self, theta: Float) -> Float:
        """Errors (2, N, n) of all samples without the load and with it."""
        load_columns = self._own
        without = self.rows[:, :, -1] - self.rows[:, :, : load_columns.start] @ theta[: load_columns.start]
        return np.array([without, without - self.rows[:, :, load_columns] @ theta[load_columns]])

    def states(self, fold: int | None, starts: tuple[Float, ...] = ()) -> Float:
        """State (N,) of each sample, 0 or 1: the best result of the alternating fit from several starts.

        Parameters
        ----------
        fold : int or None
            Fold that the fits leave out; None for none.
        starts : tuple of ndarray, shape (N,)
            Initial states; by default several shares of the log and windows.

        """
        N = len(self.rows)
        if self.load == 0:
            return np.zeros(N)
        tried = starts or (
            *((np.arange(N) >= cut * N).astype(float) for cut in STARTS),
            self._of_windows(),
        )
        results = [self._in_turns(fold, start) for start in tried]
        return min(results, key=lambda result: result[0])[1]

    def _in_turns(self, fold: int | None, state: Float) -> tuple[float, Float]:
        """Squared error and states at the end of the alternating fit."""
        for _ in range(MOST_ROUNDS):
            squared = (self.missed(self.fit(fold, state)) ** 2).sum(axis=2)
            evidence, price = squared[0] - squared[1], self._price(squared, state)
            both = self._heard(evidence, price) + self._heard(evidence, price, back=True)
            last, state = state, (both > evidence).astype(float)
            if np.array_equal(last, state):
                break
        return float(np.where(state > 0, squared[1], squared[0]).sum()), state

    def _price(self, squared: Float, state: Float) -> float:
        """Switching penalty in units of squared error: 2 ln N per independent error variance, as in BIC."""
        left = np.where(state > 0, squared[1], squared[0])
        counted = max(int(np.count_nonzero(self.rows[:, :, -1])), 1)
        return 2.0 * float(np.log(len(left))) * self.alike * float(left.sum()) / counted

    def _heard(self, evidence: Float, price: float, back: bool = False) -> Float:
        """Cumulative evidence (N,) for the load from each sample and all samples before it, or after it if `back`.

        V_i = e_i + clip(V_{i-1}, -p, p) is the difference between the least squared errors of the two states, with
        switching penalty p.

        Source: Viterbi 1967.
        """
        order = slice(None, None, -1) if back else slice(None)
        breaks = np.append(self.begins[1:], True) if back else self.begins
        cumulative, last = [], 0.0
        for sample_evidence, breaks_off in zip(evidence[order].tolist(), breaks[order].tolist(), strict=True):
            last = sample_evidence + (0.0 if breaks_off else min(max(last, -price), price))
            cumulative.append(last)
        return np.array(cumulative)[order]

    def _said_by_others(self, theta: Float, state: Float) -> Float:
        """Predict the state (N, n) per sample and joint from other joints and from the same joint at other times."""
        errors = self.missed(theta) ** 2
        evidence, price = errors[0] - errors[1], self._price(errors.sum(axis=2), state)
        whole, (N, n) = evidence.sum(axis=1), evidence.shape
        others = whole[:, None] - evidence
        run = np.cumsum(self.begins)

        def side(back: bool) -> Float:
            # Starts where errors are no longer correlated and runs up to the sample; the caller adds the sample.
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
        """State (N,) in which samples without equations (near reversals) take the state of the nearest other sample."""
        counted = np.flatnonzero(self.rows[:, :, -1].any(axis=1))
        every = np.arange(len(state))
        right = np.clip(np.searchsorted(counted, every), 1, len(counted) - 1)
        nearer = every - counted[right - 1] < counted[right] - every
        return np.asarray(state[counted[np.where(nearer, right - 1, right)]])

    def gain(self) -> float:
        """Relative reduction of the squared training error by the load."""
        none = np.zeros(len(self.rows))
        before = self.missed(self.fit(None, none))[0]
        after = self.missed(self.fit(None, self.best))
        return gain_of(before**2, np.where(self.best[:, None] > 0, after[1], after[0]) ** 2)

    def error(self, known: Float | None = None) -> Float:
        """Held-out squared error (n, M) per joint and block: parameters from other folds, states from other samples.

        Parameters
        ----------
        known : ndarray, shape (N,), optional
            Known states between 0 and 1, which replace the predicted states.

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
        """Mass of the load and its standard deviation from block scores, kg."""
        theta, load_columns = self.fit(None, state), self._own
        gram, _, length = self._normal(None, state)
        without, holding = self.missed(theta)
        left = without + state[:, None] * (holding - without)
        scores = np.einsum("tjc,tj->tc", self.rows[:, :, :-1], left) / length
        scores[:, load_columns] *= state[:, None]
        by_block = np.stack([np.bincount(self.block, column) for column in scores.T], axis=1)
        row = np.linalg.pinv(gram, rcond=RIDGE)[load_columns.start] / length[load_columns.start]
        return float(theta[load_columns.start]), float(np.linalg.norm(by_block @ row))

    @property
    def _own(self) -> slice:
        c = self.rows.shape[2] - 1
        return slice(c - self.load, c)

    @cached_property
    def _products(self) -> Float:
        """Products (folds, c, c) of the rows of each fold with themselves."""
        parts = [
            self.rows[self.fold == k].reshape(-1, self.rows.shape[2]) for k in range(int(self.fold.max()) + 1)
        ]
        return np.array([part.T @ part for part in parts])

    def _normal(self, fold: int | None, state: Float) -> tuple[Float, Float, Float]:
        """Normal equations with unit-length columns: matrix (c - 1, c - 1), right-hand side (c - 1,) and lengths."""
        load_columns, products = self._own, self._products
        total = products.sum(axis=0) if fold is None else np.delete(products, fold, axis=0).sum(axis=0)
        at = (state > 0) if fold is None else (state > 0) & (self.fold != fold)
        rows, share = self.rows[at], state[at][:, None, None]
        load = (rows[:, :, load_columns] * share).reshape(rows.shape[0] * rows.shape[1], self.load)
        load_products = load.T @ rows.reshape(-1, self.rows.shape[2])
        load_products[:, load_columns] = load.T @ load
        total[load_columns], total[:, load_columns] = load_products, load_products.T
        length = np.sqrt(np.diag(total)[:-1])
        length = np.where(length > 0, length, 1.0)
        return total[:-1, :-1] / np.outer(length, length), total[:-1, -1] / length, length

    def _of_windows(self) -> Float:
        """Initial states (N,): fit a load with its own scale in every window, and threshold the scales halfway."""
        load_columns = self._own
        left = self.missed(self.fit(None, np.zeros(len(self.rows))))[0]
        edges = np.arange(0, len(left), WINDOW)
        right = np.add.reduceat(np.einsum("tjk,tj->tk", self.rows[:, :, load_columns], left), edges)
        gram = np.add.reduceat(
            np.einsum("tjk,tjl->tkl", self.rows[:, :, load_columns], self.rows[:, :, load_columns]), edges
        )
        load = np.eye(self.load)[0]
        least = 1e-12 * np.trace(gram.sum(axis=0)) * np.eye(self.load)
        for _ in range(MOST_ROUNDS):
            size = np.maximum(np.einsum("i,wij,j->w", load, gram, load), 1e-300)
            scales = np.clip(right @ load / size, *np.quantile(right @ load / size, TAILS))
            load = np.linalg.solve(np.einsum("w,wij->ij", scales**2, gram) + least, scales @ right)
        middle = 0.5 * (scales.min() + scales.max())
        return np.where(scales > middle, 1.0, 0.0)[np.arange(len(left)) // WINDOW]
