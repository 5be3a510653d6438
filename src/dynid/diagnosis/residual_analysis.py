"""What diagnoses work on: residuals, thinned, freed from everything that the fitted model could still take up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import DynidError
from dynid.base.numerics import f_tail
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.estimate.scores import Residuals
from dynid.robot.model import RobotModel
from dynid.signals.repetition import Repetition
from dynid.signals.samples import Samples
from dynid.terms.exports import Dry, Of
from dynid.terms.forms import known_torque, seen_by
from dynid.terms.residual_tests import AlikeTest, BodyParameters, FeatureTest, Remains
from dynid.terms.term import Terms

if TYPE_CHECKING:
    from dynid.log.read import Log
    from dynid.log.summary import Switch


# The beginning of a log's torque as it was measured, for what filters take away.

SECONDS = 30.0
SHORTEST = 256


@dataclass(frozen=True, eq=False)
class RawTorque:
    """Measured torque before any filter.    rate: Hz.    parts: uniform stretches, each (T_i, n)."""

    rate: float
    parts: tuple[Float, ...]


def first_torque(log: Log, seconds: float = SECONDS) -> RawTorque | None:
    """About the first seconds of a log's torque; None for a log without torque or without a uniform stretch."""
    parts: list[Float] = []
    steps: list[float] = []
    left = seconds
    for trajectory in log.trajectories:
        for chunk in log.chunks(trajectory):
            if chunk.tau is None:
                return None
            inside = chunk.t <= chunk.t[0] + left
            found = _uniform(chunk.t[inside], chunk.tau[inside])
            parts += [part for _, part in found]
            steps += [step for step, _ in found]
            left -= sum(step * len(part) for step, part in found)
            if left <= 0:
                break
        if left <= 0:
            break
    if not parts:
        return None
    step = steps[int(np.argmax([len(part) for part in parts]))]
    alike = [part for part, one in zip(parts, steps, strict=True) if abs(one / step - 1.0) < 0.05]
    return RawTorque(1.0 / step, tuple(alike))


def _uniform(t: Float, tau: Float) -> list[tuple[float, Float]]:
    # Stretches of (time step, torque) without gaps, repeated rows and missing values.
    dt = np.diff(t)
    step = float(np.median(dt)) if len(dt) else 0.0
    if step <= 0:
        return []
    missing: Bool = np.asarray(~np.isfinite(tau).all(axis=1))
    broken = (np.abs(dt / step - 1.0) > 0.5) | missing[1:] | missing[:-1]
    cuts = np.flatnonzero(broken) + 1
    parts = [tau[a:b] for a, b in zip([0, *cuts], [*cuts, len(t)], strict=True)]
    return [(step, part) for part in parts if len(part) >= SHORTEST]


MOST_SAMPLES = 1200
FEW = 20_000
MOST_BLOCKS, LEAST_BLOCKS = 40, 8
BLOCK_CYCLES = 4.0
# Below this share of its own torque a residual is rounding, not evidence.
SILENT = 1e-6
# Of the greatest residual, what rounding leaves of one.
ROUNDING = 1e-12
# rad or m, less than which is noise of a joint at rest.
MOVED = 1e-4
# Measured torque is filtered and a step of friction in the model is not, so that the two differ near reversals.
REVERSAL_CYCLES, REVERSAL_SPEED = 1.0, 0.02
# A feature that the model explains down to this share of itself cannot be distinguished from the model.
FREE = 1e-3


@dataclass(frozen=True, eq=False)
class ResidualAnalysis:
    """A finished fit and what it left over.

    bandwidth: Hz, up to which residuals were kept.    raw: torque before the filters, None = not at hand.
    source_rate: of the log, Hz; nan = that of the residuals.    accelerations: whether they can be trusted.
    measured: (n,) joints whose effort was measured, None = all; nothing is left over of the others.
    switches: reads the log's unused columns of two values.
    repeated: trajectories whose motion is gone through more than once, by name.
    rest: speed of every joint, rad/s (m/s), below which the robot stands.
    """

    robot: RobotModel
    terms: Terms
    estimate: Estimate
    residuals: Residuals
    bandwidth: float
    raw: RawTorque | None = None
    source_rate: float = np.nan
    accelerations: bool = True
    measured: Bool | None = None
    switches: Callable[[], tuple[Switch, ...]] = tuple
    repeated: Mapping[str, Repetition] = field(default_factory=dict)
    rest: float = 0.0

    def __post_init__(self) -> None:
        if np.isnan(self.source_rate):
            object.__setattr__(self, "source_rate", self.rate)

    @property
    def rate(self) -> float:
        """Of the residuals, Hz."""
        return self.residuals.rate

    @cached_property
    def rms(self) -> Float:
        """Root mean square residual by joint, (n,)."""
        return np.asarray(np.sqrt(self.residuals.mean_square(self.residuals.error)))

    @property
    def weights(self) -> Float:
        """1 / rms by joint, (n,); zero for one that the model does not miss at all."""
        usable = self.rms > ROUNDING * self.rms.max(initial=0.0)
        return np.where(usable, 1.0 / np.where(usable, self.rms, 1.0), 0.0)

    @cached_property
    def torque_rms(self) -> Float:
        """Root mean square of measured torque by joint, (n,)."""
        return np.asarray(np.sqrt(self.residuals.mean_square(self.residuals.measured)))

    @cached_property
    def missed(self) -> Float:
        """(n,) r.m.s. residual over r.m.s. torque."""
        return np.asarray(self.rms / np.maximum(self.torque_rms, 1e-300))

    @cached_property
    def joints(self) -> tuple[int, ...]:
        """Joints whose residual is more than rounding and that moved."""
        moved = np.ptp(self.residuals.q, axis=0) > MOVED
        return tuple(int(j) for j in np.flatnonzero(moved & (self.rms > SILENT * self.torque_rms)))

    def relevance(self, joint: int, share: float) -> float:
        """Torque behind a share of a joint's residual, as a part of the joint's torque."""
        return float(np.sqrt(max(share, 0.0)) * self.rms[joint] / max(self.torque_rms[joint], 1e-300))

    @cached_property
    def runs(self) -> tuple[slice, ...]:
        """Contiguous runs in which time is uniform."""
        r = self.residuals
        if not len(r.t):
            return ()
        cut = (np.diff(r.trajectory) != 0) | (np.diff(r.segment) != 0)
        cut |= np.abs(np.diff(r.t) * r.rate - 1.0) > 0.5
        edges = np.flatnonzero(cut) + 1
        return tuple(slice(int(a), int(b)) for a, b in zip([0, *edges], [*edges, len(r.t)], strict=True))

    @cached_property
    def index(self) -> Int:
        """Indices (N,) of the samples that tests look at: evenly spread, each with a neighbour on either side."""
        inner = np.concatenate([np.arange(run.start + 1, run.stop - 1) for run in self.runs] or [np.zeros(0)])
        inner = inner.astype(np.int64)
        # Of stands that count effects of a motion show nothing, and there are so many samples in all.
        moving = (np.abs(self.residuals.dq[inner]) >= self.rest).any(axis=1)
        inner = inner[moving] if moving.any() else inner
        step = max(1, -(-len(inner) // MOST_SAMPLES))
        return inner[::step]

    @cached_property
    def motion(self) -> Samples:
        """The thinned samples at their times: measured torque, and acceleration by differences."""
        r, i = self.residuals, self.index
        ddq = (r.dq[i + 1] - r.dq[i - 1]) * (0.5 * r.rate)
        return replace(Samples.from_motion(r.q[i], r.dq[i], ddq, r.measured[i], r.rate), t=r.t[i])

    @cached_property
    def error(self) -> Float:
        """Residuals (N, n) at the thinned samples; zero where a joint's equation does not count."""
        return self.residuals.error_counted[self.index]

    @cached_property
    def error_left(self) -> Float:
        """Residuals (N, n) at the thinned samples less what a refit would take up; zero where no equation counts."""
        weight = self._weight
        left = self._left.reshape(weight.shape)
        return np.asarray((left / np.where(weight > 0, weight, np.inf)).T)

    @cached_property
    def slope(self) -> Float:
        """Predicted torque's change in time (N, n), N m/s, at the thinned samples: what late torque leaves."""
        r, i = self.residuals, self.index
        return np.asarray((r.predicted[i + 1] - r.predicted[i - 1]) * (0.5 * r.rate))

    @cached_property
    def elapsed(self) -> Float:
        """Recorded seconds (N,) of the thinned samples, segments one behind the other.

        A drive that rests between segments may cool, but what happens in a long pause is not in the log.
        """
        t = np.array(self.residuals.t[self.index], dtype=np.float64)
        step, segment = np.diff(t, prepend=t[:1]), self.residuals.segment[self.index]
        step[1:][(np.diff(segment) != 0) | (step[1:] < 0)] = 0.0
        return np.asarray(t[:1] + np.cumsum(step))

    @cached_property
    def reverses(self) -> Bool:
        """(N, n) whether a joint is near a reversal at the thinned samples; always where its equation is left out."""
        near = self.near_reversal(REVERSAL_CYCLES / self.bandwidth, REVERSAL_SPEED)[self.index]
        near = near if self.counted is None else near | ~self.counted
        return near if self.measured is None else near | ~self.measured

    @cached_property
    def counted(self) -> Bool | None:
        """(N, n) where a joint's equation counts at the thinned samples; None = everywhere."""
        return None if self.residuals.counted is None else self.residuals.counted[self.index]

    @cached_property
    def bodies(self) -> Float | None:
        """Ten parameters (nb, 10) of each body as chosen by the estimate; None for a model without rigid bodies."""
        own = self._of_bodies
        return None if own is None else np.asarray(self.estimate.parameters[own].reshape(-1, 10))

    @cached_property
    def remains(self) -> Remains:
        """The thinned samples, with seconds since the start and logged temperature."""
        logged = self.residuals.temperature
        warmth = None if logged is None else logged[self.index]
        motion = replace(self.motion, t=self.elapsed, temperature=warmth)
        steps = any(term.traits.dry is Dry.STEP for term in self.terms)
        return Remains(self.robot, motion, self.slope, self.reverses, steps, self.bodies)

    @property
    def balanced(self) -> Bool:
        """Joints (n,) whose gravity a term of the model may carry."""
        return self.terms.balances(self.robot)

    @cached_property
    def body_parameters(self) -> BodyParameters | None:
        """Base parameters that bodies alone make up: rotors and friction share in none of them."""
        own, base = self._of_bodies, self.estimate.base
        if own is None:
            return None
        pure = ~np.any(base.B[:, ~own], axis=1)
        if not pure.any():
            return None
        covariance = self.estimate.covariance[np.ix_(pure, pure)]
        return BodyParameters(base.B[:, own][pure], self.estimate.value[pure], covariance)

    @cached_property
    def _of_bodies(self) -> Bool | None:
        found = np.array([column.of is Of.BODY for column in self.estimate.columns], dtype=np.bool_)
        return found if np.count_nonzero(found) == 10 * self.robot.n_bodies else None

    @cached_property
    def block(self) -> Int:
        """(N,) number of the block of time that each thinned sample lies in."""
        N = len(self.index)
        seconds = len(self.residuals.t) / self.residuals.rate
        count = int(np.clip(seconds * self.bandwidth / BLOCK_CYCLES, LEAST_BLOCKS, MOST_BLOCKS))
        return np.asarray(np.arange(N) * count // max(N, 1), dtype=np.int64)

    @cached_property
    def part(self) -> Int:
        """(N,) number of the part of the log that each thinned sample lies in: a block of time, or of a repetition.

        Of a motion that repeats, in a trajectory or in others, the same part of every repetition is one: what the model
        lacks is the same there.
        """
        r, found = self.residuals, self.block.copy()
        for k, name in enumerate(r.trajectories):
            own = np.flatnonzero(r.trajectory[self.index] == k)
            if name in self.repeated and len(own):
                one = self.repeated[name]
                count = int(np.clip(one.seconds * self.bandwidth / BLOCK_CYCLES, LEAST_BLOCKS, MOST_BLOCKS))
                place = (one.phase(r.t[self.index[own]]) / one.seconds * count).astype(np.int64)
                # Behind the blocks of time, a stretch of numbers for every motion.
                found[own] = (1 + one.motion) * len(found) + np.minimum(place, count - 1)
        return np.unique(found, return_inverse=True)[1].reshape(found.shape).astype(np.int64)

    @property
    def enough(self) -> bool:
        """Whether there are samples enough for any test."""
        return len(self.index) >= 10 * LEAST_BLOCKS and bool(self.joints)

    def near_reversal(self, seconds: float, speed: float) -> Bool:
        """Samples (T, n) of the residuals near a reversal of the joint or a speed below a share of its top one.

        There friction that the model draws a little otherwise than the robot leaves errors of its own.
        """
        dq = self.residuals.dq
        some = np.abs(dq[:: max(1, len(dq) // FEW)])
        slow = np.abs(dq) < speed * np.quantile(some, 0.95, axis=0)
        slow[1:] |= np.sign(dq[1:]) != np.sign(dq[:-1])
        reach = max(1, round(seconds * self.residuals.rate))
        counts = np.cumsum(
            np.concatenate([np.zeros((1, dq.shape[1]), dtype=np.bool_), slow]), axis=0, dtype=np.int32
        )
        T = len(dq)
        low, high = np.maximum(np.arange(T) - reach, 0), np.minimum(np.arange(T) + reach + 1, T)
        return np.asarray(counts[high] > counts[low])

    def test_features(self, features: Float) -> FeatureTest | None:
        """Tests features (n, N, k), torque by joint at the thinned samples, on what the model leaves of the residuals.

        Both are freed from the fitted model's columns, so that what a refit would take up does not count. Scores are
        summed over blocks of time, which are independent where single samples are not.
        Returns None where the model leaves next to nothing of a feature.
        """
        n, N, k = features.shape
        X = (features * self._weight[:, :, None]).reshape(n * N, k)
        return self._tested(X, self._model, self._left, self._weight)

    def test_joint(self, joint: int, columns: Float) -> FeatureTest | None:
        """`test_features` of features (N, k) that act on one joint only, tested on that joint's residual.

        A few blocks may carry most of a large effect, which a test over blocks cannot distinguish from chance; the
        share that is explained of so many independent values is a second test. The smaller p-value counts, doubled.
        """
        N = len(self.index)
        rows = slice(joint * N, (joint + 1) * N)
        found = self._tested(
            columns * self._weight[joint][:, None],
            self._model[rows],
            self._left[rows],
            self._weight[joint : joint + 1],
        )
        if found is None:
            return None
        share = np.zeros(self.robot.n)
        share[joint] = found.share[0]
        second = self.chance_of_share(joint, float(found.share[0]), columns.shape[1])
        return replace(found, share=share, p_value=min(1.0, 2.0 * min(found.p_value, second)))

    def test_alike(self, columns: Float) -> AlikeTest | None:
        """Tests a feature (n, N) with one factor on all joints, and joint by joint; None as for `test_features`."""
        effect = self.test_features(columns[:, :, None]) if self.enough else None
        if effect is None:
            return None
        alone = [self.test_joint(joint, columns[joint][:, None]) for joint in self.joints]
        by_joint = np.array([one.coefficient[0] for one in alone if one is not None])
        share = effect.share[list(self.joints)]
        return AlikeTest(float(effect.coefficient[0]), float(effect.std[0]), by_joint, share, effect.p_value)

    def misfit_by_shift(self, shifts: Float) -> Float | None:
        """Squared errors (k, n) of the plain model by joint over all torque's, torque later by each of (k,) seconds.

        None where the model reads more than motion.
        """
        if self._between is None:
            return None
        found = [self._missed_of(*self._between, self.torque_later(float(seconds))) for seconds in shifts]
        return np.array([missed / max(whole, 1e-300) for missed, whole in found])

    def shows_later(self, seconds: float, joints: Sequence[int]) -> bool:
        """Whether the plain model misses less between reversals where the torque of some joints is read later.

        True where the model reads more than motion, or no joint among these is looked at.
        """
        own = [j for j in joints if j in self.joints]
        if not own or self._between is None:
            return True
        read = self.motion.tau.copy()
        read[:, own] = self.torque_later(seconds)[:, own]
        before, after = (self._missed_of(*self._between, tau)[0].sum() for tau in (self.motion.tau, read))
        return bool(after < before)

    @staticmethod
    def _missed_of(Q: Float, weights: Float, tau: Float) -> tuple[Float, float]:
        # Squared errors (n,) of the plain model in torque (N, n), and the squares of all of it.
        y = (tau.T * weights).reshape(-1)
        left = y - Q @ (Q.T @ y)
        return (left.reshape(weights.shape) ** 2).sum(axis=1), float(y @ y)

    @cached_property
    def _between(self) -> tuple[Float, Float] | None:
        # Orthonormal basis (n N, b) of the plain model's columns and the weights (n, N) of samples between reversals;
        # None where the model reads more than motion.
        terms, wanted = self.plain_model
        Y, complete = regressor(self.robot, terms, self.motion, wanted)
        if not complete:
            return None
        usable = np.isin(np.arange(len(Y)), self.joints)
        size = np.maximum(self.motion.tau.std(axis=0), 1e-300)
        weights = np.asarray((~self.reverses * np.where(usable, 1.0 / size, 0.0)).T, dtype=np.float64)
        return basis((Y * weights[:, :, None]).reshape(-1, Y.shape[2])), weights

    def torque_later(self, seconds: float) -> Float:
        """Measured torque (N, n) so many seconds after the thinned samples, by linear interpolation within its run."""
        r = self.residuals
        found = np.zeros((len(self.index), self.robot.n))
        for run, own in self._runs_of():
            at = self.index[own] - run.start + seconds * r.rate
            place = np.arange(run.stop - run.start)
            found[own] = np.stack([np.interp(at, place, column) for column in r.measured[run].T], axis=1)
        return found

    def _runs_of(self) -> Iterator[tuple[slice, Bool]]:
        for run in self.runs:
            yield run, (self.index >= run.start) & (self.index < run.stop)

    @cached_property
    def plain_model(self) -> tuple[Terms, Bool]:
        """The terms less those that could take up a claim, and the mask of their base parameters' columns."""
        kept, masks, first = [], [], 0
        for term in self.terms:
            count = len(term.columns(self.robot))
            if not term.traits.hides_wiring:
                kept.append(term)
                masks.append(self.estimate.base.mask[first : first + count])
            first += count
        return Terms(tuple(kept)), np.concatenate(masks)

    @cached_property
    def gated(self) -> Samples:
        """The thinned samples, without those in which a joint reverses."""
        return replace(self.motion, gate=~self.reverses)

    @cached_property
    def plain_columns(self) -> tuple[Float, bool]:
        """The plain model's columns (n, N, w) at these, for claims that are tried beside it; see `regressor`."""
        terms, wanted = self.plain_model
        return regressor(self.robot, terms, self.gated, wanted)

    def partial_share(self, joint: int, columns: Float, known: Float) -> float:
        """Share of a joint's residual that features (N, k) explain on top of others (N, l); 0 where none are free."""
        free = [column for column in known.T if self.test_joint(joint, column[:, None]) is not None]
        both = self.test_joint(joint, np.column_stack([*free, columns]))
        if both is None:
            return 0.0
        before = self.test_joint(joint, np.column_stack(free)) if free else None
        return float(both.share[joint]) - (0.0 if before is None else float(before.share[joint]))

    def chance_of_share(self, joint: int, share: float, features: int) -> float:
        """p-value of so many features that explain a share of a joint's residual, by its independent values.

        Half as many are counted as the correlation time gives, for residuals whose colour changes.
        """
        freedom = 0.5 * float(self.independent[joint]) - self.estimate.base.rank / self.robot.n - features
        if freedom < 2.0:
            return 1.0
        ratio = share / max(1.0 - share, 1e-12) * freedom / features
        return float(f_tail(features, freedom, max(ratio, 0.0)))

    def _tested(self, X: Float, model: Float, e: Float, weight: Float) -> FeatureTest | None:
        k, N, joints = X.shape[1], len(self.index), len(weight)
        whole = np.linalg.norm(X, axis=0)
        X = X - model @ (model.T @ X)
        length = np.linalg.norm(X, axis=0)
        free = (length / np.where(whole > 0, whole, 1.0)) ** 2
        if not (free > FREE).all():
            return None
        X = X / length
        coefficient, *_ = np.linalg.lstsq(X, e, rcond=1e-9)
        after, before = (e - X @ coefficient).reshape(joints, N), e.reshape(joints, N)
        scores = self._by_block((X * e[:, None]).reshape(joints, N, k))
        spread = self._by_block((X * after.reshape(-1)[:, None]).reshape(joints, N, k))
        bread = np.linalg.pinv(X.T @ X)
        std = np.sqrt(np.maximum(np.diag(bread @ (spread.T @ spread) @ bread), 0.0))
        total = (before**2).sum(axis=1)
        explained = 1.0 - (after**2).sum(axis=1) / np.where(total > 0, total, 1.0)
        fitted = (before - after) / np.where(weight > 0, weight, np.inf)
        return FeatureTest(coefficient / length, std / length, explained, hotelling(scores), free, fitted)

    @cached_property
    def independent(self) -> Float:
        """About how many independent values a joint's residual holds, (n,): samples in motion by correlation time."""
        best = max(self.runs, key=lambda run: run.stop - run.start)
        e = self.residuals.error_counted[best]
        size = 2 ** int(np.ceil(np.log2(2 * len(e))))
        power = np.abs(np.fft.rfft(e - e.mean(axis=0), size, axis=0)) ** 2
        correlation = np.fft.irfft(power, size, axis=0)[: len(e) // 2 + 1]
        correlation = correlation / np.maximum(correlation[0], 1e-300)
        # Up to the first lag without correlation; what follows is noise of the estimate.
        positive = np.cumprod(correlation > 0, axis=0)
        seconds = 1.0 + 2.0 * (correlation * positive)[1:].sum(axis=0)
        # A joint that stands says nothing of what depends on its own motion, however long it does.
        speed, counted = np.abs(self.residuals.dq), self.residuals.counted
        moves = speed > REVERSAL_SPEED * speed.max(axis=0, initial=0.0)
        return np.asarray((moves if counted is None else moves & counted).sum(axis=0) / seconds)

    def shares(self, joint: int, pairs: Float) -> Float:
        """About the share of a joint's residual that each pair of columns (N, m, 2) explains: quick, for scans."""
        N, m, _ = pairs.shape
        rows = slice(joint * N, (joint + 1) * N)
        Q, e = self._model[rows], self._left[rows]
        X = pairs.reshape(N, 2 * m) * self._weight[joint][:, None]
        score = (X.T @ e).reshape(m, 2)
        held = (Q.T @ X).reshape(-1, m, 2)
        X = X.reshape(N, m, 2)
        gram = np.einsum("nmi,nmj->mij", X, X) - np.einsum("bmi,bmj->mij", held, held)
        gram += 1e-9 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(2) + 1e-300 * np.eye(2)
        solved = np.linalg.solve(gram, score[:, :, None])[:, :, 0]
        return np.asarray((score * solved).sum(axis=1) / max(float(e @ e), 1e-300))

    @cached_property
    def _weight(self) -> Float:
        # (n, N) of the thinned samples: zero where a joint is not looked at or its equation does not count.
        usable = np.zeros(self.robot.n, dtype=np.bool_)
        usable[list(self.joints)] = True
        weight = np.where(usable, 1.0 / np.where(self.rms > 0, self.rms, 1.0), 0.0)
        whole = np.broadcast_to(weight[:, None], (len(weight), len(self.index)))
        return whole if self.counted is None else whole * self.counted.T

    @cached_property
    def _model(self) -> Float:
        # Orthonormal basis of the fitted columns, (n N, b). Terms that read channels of the log are not at hand here.
        Y, _ = regressor(self.robot, self.terms, self.motion, self.estimate.base.mask)
        rows = (Y * self._weight[:, :, None]).reshape(-1, Y.shape[2])
        return basis(rows)

    @cached_property
    def _left(self) -> Float:
        e = (self.error.T * self._weight).reshape(-1)
        return np.asarray(e - self._model @ (self._model.T @ e))

    def _by_block(self, scores: Float) -> Float:
        # (n, N, k) -> (blocks, k)
        summed = scores.sum(axis=0)
        return np.stack([np.bincount(self.block, column) for column in summed.T], axis=1)


def regressor(robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> tuple[Float, bool]:
    """Columns (n, N, w) of the wanted parameters, and whether all terms could be written down from motion alone."""
    n, complete, first = robot.n, True, 0
    dense = np.zeros((n, len(samples), len(wanted)))
    for term in terms:
        count = len(term.columns(robot))
        try:
            panels = term.torque_regressor(robot, seen_by(term, samples), wanted[first : first + count])
            known_torque(term, robot, seen_by(term, samples))  # may read more than motion, too
        except DynidError:
            complete = False
        else:
            for joint, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
                dense[joint][:, first + columns] += values.T
        first += count
    return dense[:, :, wanted], complete


def basis(rows: Float) -> Float:
    """Orthonormal basis (T, r) of the columns of a matrix (T, w), each scaled to unit length before."""
    size = np.linalg.norm(rows, axis=0)
    U, s, _ = np.linalg.svd(rows[:, size > 0] / size[size > 0], full_matrices=False)
    return np.asarray(U[:, s > 1e-7 * s.max(initial=0.0)])


def hotelling(scores: Float) -> float:
    """p-value of Hotelling's test that the blocks' scores (M, k) have mean zero; 1 for too few blocks.

    The covariance is taken about zero, which keeps a large effect from hiding in its own scatter.
    """
    M, k = scores.shape
    if k + 2 > M:
        return 1.0
    total = scores.sum(axis=0)
    T2 = float(total @ np.linalg.pinv(scores.T @ scores, rcond=1e-12) @ total)
    if T2 >= M * (1.0 - 1e-12):
        return 0.0
    centred = T2 / (1.0 - T2 / M) * (M - 1) / M
    return float(f_tail(k, M - k, centred * (M - k) / (k * (M - 1))))
