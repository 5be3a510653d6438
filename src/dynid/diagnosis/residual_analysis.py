"""Thinned residuals for the diagnoses, orthogonal to the columns of the fitted model."""

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


# Unfiltered torque from the beginning of a log, for effects above the cutoff frequency of the filters.

# Length of the unfiltered torque, s, and the least number of samples of a uniform stretch.
SECONDS = 30.0
SHORTEST = 256


@dataclass(frozen=True, eq=False)
class RawTorque:
    """Measured torque before any filter.

    Attributes
    ----------
    rate : float
        Sample rate, Hz.
    parts : tuple of ndarray, each of shape (T_i, n)
        Uniformly sampled stretches.

    """

    rate: float
    parts: tuple[Float, ...]


def first_torque(log: Log, seconds: float = SECONDS) -> RawTorque | None:
    """Return about the first 30 s of measured torque; None if the log has no torque or no uniform stretch."""
    parts: list[Float] = []
    steps: list[float] = []
    left = seconds
    for trajectory in log.trajectories:
        for chunk in log.chunks(trajectory):
            if chunk.tau is None:
                return None
            inside = chunk.t <= chunk.t[0] + left
            stretches = _uniform(chunk.t[inside], chunk.tau[inside])
            parts += [part for _, part in stretches]
            steps += [step for step, _ in stretches]
            left -= sum(step * len(part) for step, part in stretches)
            if left <= 0:
                break
        if left <= 0:
            break
    if not parts:
        return None
    step = steps[int(np.argmax([len(part) for part in parts]))]
    alike = [part for part, part_step in zip(parts, steps, strict=True) if abs(part_step / step - 1.0) < 0.05]
    return RawTorque(1.0 / step, tuple(alike))


def _uniform(t: Float, tau: Float) -> list[tuple[float, Float]]:
    # Returns (time step, torque) of each stretch without gaps, repeated rows or missing values.
    dt = np.diff(t)
    step = float(np.median(dt)) if len(dt) else 0.0
    if step <= 0:
        return []
    missing: Bool = np.asarray(~np.isfinite(tau).all(axis=1))
    broken = (np.abs(dt / step - 1.0) > 0.5) | missing[1:] | missing[:-1]
    cuts = np.flatnonzero(broken) + 1
    parts = [tau[a:b] for a, b in zip([0, *cuts], [*cuts, len(t)], strict=True)]
    return [(step, part) for part in parts if len(part) >= SHORTEST]


# Most thinned samples of the tests, and about how many samples the quantile of speed is computed from.
MOST_SAMPLES = 1200
FEW = 20_000
# Limits on the number of blocks of time, and their length in periods of the bandwidth.
MOST_BLOCKS, LEAST_BLOCKS = 40, 8
BLOCK_CYCLES = 4.0
# A residual below this share of the joint's torque is rounding error.
SILENT = 1e-6
# A residual below this share of the largest residual is rounding error.
ROUNDING = 1e-12
# A range of positions below this, rad or m, is sensor noise of a joint at rest.
MOVED = 1e-4
# Excluded time around a reversal, in periods of the bandwidth, and excluded speed as a share of the top speed: measured
# torque is filtered, but the step of friction in the model is not.
REVERSAL_CYCLES, REVERSAL_SPEED = 1.0, 0.02
# A feature with less than this share of its square outside the model's columns cannot be distinguished from the model.
FREE = 1e-3


@dataclass(frozen=True, eq=False)
class ResidualAnalysis:
    """A finished fit and its residuals.

    Attributes
    ----------
    robot : RobotModel
    terms : Terms
    estimate : Estimate
    residuals : Residuals
    bandwidth : float
        Cutoff frequency of the residuals, Hz.
    raw : RawTorque or None
        Torque before the filters; None if not available.
    source_rate : float
        Sample rate of the log, Hz; nan means the rate of the residuals.
    accelerations : bool
        Whether the accelerations can be trusted.
    measured : ndarray of bool, shape (n,), or None
        Joints with measured effort, None for all joints. The other joints have no residual.
    switches : callable
        Reads the unused columns of the log that have two values.
    repeated : mapping of str to Repetition
        Repeated motion, by the name of the trajectory.
    rest : float
        The robot is at rest if every joint is slower than this, rad/s or m/s.

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
        """Sample rate of the residuals, Hz."""
        return self.residuals.rate

    @cached_property
    def rms(self) -> Float:
        """Root mean square residual per joint, (n,)."""
        return np.asarray(np.sqrt(self.residuals.mean_square(self.residuals.error)))

    @property
    def weights(self) -> Float:
        """1 / rms per joint, (n,); zero for a joint whose residual is only rounding error."""
        usable = self.rms > ROUNDING * self.rms.max(initial=0.0)
        return np.where(usable, 1.0 / np.where(usable, self.rms, 1.0), 0.0)

    @cached_property
    def torque_rms(self) -> Float:
        """Root mean square of measured torque per joint, (n,)."""
        return np.asarray(np.sqrt(self.residuals.mean_square(self.residuals.measured)))

    @cached_property
    def missed(self) -> Float:
        """Ratio of rms residual to rms torque per joint, (n,)."""
        return np.asarray(self.rms / np.maximum(self.torque_rms, 1e-300))

    @cached_property
    def joints(self) -> tuple[int, ...]:
        """Joints that moved and whose residual exceeds rounding error."""
        moved = np.ptp(self.residuals.q, axis=0) > MOVED
        return tuple(int(j) for j in np.flatnonzero(moved & (self.rms > SILENT * self.torque_rms)))

    def relevance(self, joint: int, share: float) -> float:
        """Convert a share of a joint's squared residual to a share of its rms torque."""
        return float(np.sqrt(max(share, 0.0)) * self.rms[joint] / max(self.torque_rms[joint], 1e-300))

    @cached_property
    def runs(self) -> tuple[slice, ...]:
        """Contiguous runs of uniformly spaced samples."""
        r = self.residuals
        if not len(r.t):
            return ()
        cut = (np.diff(r.trajectory) != 0) | (np.diff(r.segment) != 0)
        cut |= np.abs(np.diff(r.t) * r.rate - 1.0) > 0.5
        edges = np.flatnonzero(cut) + 1
        return tuple(slice(int(a), int(b)) for a, b in zip([0, *edges], [*edges, len(r.t)], strict=True))

    @cached_property
    def index(self) -> Int:
        """Indices (N,) of the thinned samples: evenly spread, each with a neighbour on either side."""
        inner = np.concatenate([np.arange(run.start + 1, run.stop - 1) for run in self.runs] or [np.zeros(0)])
        inner = inner.astype(np.int64)
        # Samples at rest show no effects of motion, and the number of samples is limited.
        moving = (np.abs(self.residuals.dq[inner]) >= self.rest).any(axis=1)
        inner = inner[moving] if moving.any() else inner
        step = max(1, -(-len(inner) // MOST_SAMPLES))
        return inner[::step]

    @cached_property
    def motion(self) -> Samples:
        """The thinned samples with measured torque, and acceleration by central differences."""
        r, i = self.residuals, self.index
        ddq = (r.dq[i + 1] - r.dq[i - 1]) * (0.5 * r.rate)
        return replace(Samples.from_motion(r.q[i], r.dq[i], ddq, r.measured[i], r.rate), t=r.t[i])

    @cached_property
    def error(self) -> Float:
        """Residuals (N, n) at the thinned samples; zero where a joint's equation does not count."""
        return self.residuals.error_counted[self.index]

    @cached_property
    def error_left(self) -> Float:
        """Residuals (N, n) at the thinned samples, orthogonal to the model's columns; zero where no equation counts."""
        weight = self._weight
        left = self._left.reshape(weight.shape)
        return np.asarray((left / np.where(weight > 0, weight, np.inf)).T)

    @cached_property
    def slope(self) -> Float:
        """Rate of change of predicted torque (N, n), N m/s, at the thinned samples: the residual of late torque."""
        r, i = self.residuals, self.index
        return np.asarray((r.predicted[i + 1] - r.predicted[i - 1]) * (0.5 * r.rate))

    @cached_property
    def elapsed(self) -> Float:
        """Recorded time (N,), s, at the thinned samples, without the pauses between segments.

        Drives may cool during a pause, but the log does not show how much.
        """
        t = np.array(self.residuals.t[self.index], dtype=np.float64)
        step, segment = np.diff(t, prepend=t[:1]), self.residuals.segment[self.index]
        step[1:][(np.diff(segment) != 0) | (step[1:] < 0)] = 0.0
        return np.asarray(t[:1] + np.cumsum(step))

    @cached_property
    def reverses(self) -> Bool:
        """Whether a joint is near a reversal, or its equation does not count, at the thinned samples (N, n)."""
        near = self.near_reversal(REVERSAL_CYCLES / self.bandwidth, REVERSAL_SPEED)[self.index]
        near = near if self.counted is None else near | ~self.counted
        return near if self.measured is None else near | ~self.measured

    @cached_property
    def counted(self) -> Bool | None:
        """Whether a joint's equation counts at the thinned samples (N, n); None means everywhere."""
        return None if self.residuals.counted is None else self.residuals.counted[self.index]

    @cached_property
    def bodies(self) -> Float | None:
        """Estimated inertial parameters (nb, 10) of the links; None for a model without rigid bodies."""
        body_columns = self._of_bodies
        return (
            None
            if body_columns is None
            else np.asarray(self.estimate.parameters[body_columns].reshape(-1, 10))
        )

    @cached_property
    def remains(self) -> Remains:
        """Input of the residual tests: the thinned samples with recorded time and logged temperature."""
        logged = self.residuals.temperature
        warmth = None if logged is None else logged[self.index]
        motion = replace(self.motion, t=self.elapsed, temperature=warmth)
        steps = any(term.traits.dry is Dry.STEP for term in self.terms)
        return Remains(self.robot, motion, self.slope, self.reverses, steps, self.bodies)

    @property
    def balanced(self) -> Bool:
        """Joints (n,) with a term that can balance gravity, for example a spring."""
        return self.terms.balances(self.robot)

    @cached_property
    def body_parameters(self) -> BodyParameters | None:
        """Base parameters that combine only link parameters, without rotors and friction."""
        body_columns, base = self._of_bodies, self.estimate.base
        if body_columns is None:
            return None
        pure = ~np.any(base.B[:, ~body_columns], axis=1)
        if not pure.any():
            return None
        covariance = self.estimate.covariance[np.ix_(pure, pure)]
        return BodyParameters(base.B[:, body_columns][pure], self.estimate.value[pure], covariance)

    @cached_property
    def _of_bodies(self) -> Bool | None:
        of_bodies = np.array([column.of is Of.BODY for column in self.estimate.columns], dtype=np.bool_)
        return of_bodies if np.count_nonzero(of_bodies) == 10 * self.robot.n_bodies else None

    @cached_property
    def block(self) -> Int:
        """Index (N,) of the block of time that contains each thinned sample."""
        N = len(self.index)
        seconds = len(self.residuals.t) / self.residuals.rate
        count = int(np.clip(seconds * self.bandwidth / BLOCK_CYCLES, LEAST_BLOCKS, MOST_BLOCKS))
        return np.asarray(np.arange(N) * count // max(N, 1), dtype=np.int64)

    @cached_property
    def part(self) -> Int:
        """Index (N,) of the part of the log that contains each thinned sample.

        A part is a block of time or, in repeated motion, the same phase of all repetitions, because the modelling error
        is the same in every repetition.
        """
        r, part = self.residuals, self.block.copy()
        for k, name in enumerate(r.trajectories):
            in_trajectory = np.flatnonzero(r.trajectory[self.index] == k)
            if name in self.repeated and len(in_trajectory):
                repetition = self.repeated[name]
                count = int(
                    np.clip(repetition.seconds * self.bandwidth / BLOCK_CYCLES, LEAST_BLOCKS, MOST_BLOCKS)
                )
                place = (
                    repetition.phase(r.t[self.index[in_trajectory]]) / repetition.seconds * count
                ).astype(np.int64)
                # Each motion gets a range of numbers after the numbers of the blocks of time.
                part[in_trajectory] = (1 + repetition.motion) * len(part) + np.minimum(place, count - 1)
        return np.unique(part, return_inverse=True)[1].reshape(part.shape).astype(np.int64)

    @property
    def enough(self) -> bool:
        """Whether the log has enough samples for a test."""
        return len(self.index) >= 10 * LEAST_BLOCKS and bool(self.joints)

    def near_reversal(self, seconds: float, speed: float) -> Bool:
        """Find residual samples (T, n) near a reversal of the joint, or near a speed below a share of its top speed.

        There a small error in the friction model causes large residuals.

        Parameters
        ----------
        seconds : float
            Time on either side of a reversal, s.
        speed : float
            Share of the joint's 95 % quantile of speed.

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
        """Test whether features explain the residuals.

        Features and residuals are made orthogonal to the fitted model's columns, so effects that a refit could absorb
        do not count. Scores are summed over blocks of time, because single samples are not independent.

        Parameters
        ----------
        features : ndarray, shape (n, N, k)
            Torque of each feature, per joint, at the thinned samples.

        Returns
        -------
        FeatureTest or None
            None if the model's columns already explain a feature.

        """
        n, N, k = features.shape
        X = (features * self._weight[:, :, None]).reshape(n * N, k)
        return self._tested(X, self._model, self._left, self._weight)

    def test_joint(self, joint: int, columns: Float) -> FeatureTest | None:
        """Test features (N, k) of a single joint on the residual of this joint; see `test_features`.

        If a few blocks contain most of a large effect, the test over blocks cannot distinguish it from chance. So there
        is a second test, an F-test of the explained share. The result is twice the smaller p-value.
        """
        N = len(self.index)
        rows = slice(joint * N, (joint + 1) * N)
        effect = self._tested(
            columns * self._weight[joint][:, None],
            self._model[rows],
            self._left[rows],
            self._weight[joint : joint + 1],
        )
        if effect is None:
            return None
        share = np.zeros(self.robot.n)
        share[joint] = effect.share[0]
        second = self.chance_of_share(joint, float(effect.share[0]), columns.shape[1])
        return replace(effect, share=share, p_value=min(1.0, 2.0 * min(effect.p_value, second)))

    def test_alike(self, columns: Float) -> AlikeTest | None:
        """Test a feature (n, N) with a common coefficient on all joints, and with a coefficient per joint.

        Returns None under the same condition as `test_features`.
        """
        effect = self.test_features(columns[:, :, None]) if self.enough else None
        if effect is None:
            return None
        alone = [self.test_joint(joint, columns[joint][:, None]) for joint in self.joints]
        by_joint = np.array(
            [joint_effect.coefficient[0] for joint_effect in alone if joint_effect is not None]
        )
        share = effect.share[list(self.joints)]
        return AlikeTest(float(effect.coefficient[0]), float(effect.std[0]), by_joint, share, effect.p_value)

    def misfit_by_shift(self, shifts: Float) -> Float | None:
        """Squared error per joint of the plain model for shifted torque, over the squared torque of all joints.

        Parameters
        ----------
        shifts : ndarray, shape (k,)
            Time shifts of the torque, s; positive values read the torque later.

        Returns
        -------
        ndarray, shape (k, n), or None
            None if the model needs other inputs than motion.

        """
        if self._between is None:
            return None
        errors = [self._missed_of(*self._between, self.torque_later(float(seconds))) for seconds in shifts]
        return np.array([missed / max(whole, 1e-300) for missed, whole in errors])

    def shows_later(self, seconds: float, joints: Sequence[int]) -> bool:
        """Whether the plain model fits better away from reversals if the torque of some joints is read later.

        The result is also True if the model needs other inputs than motion, or if none of the joints is analysed.
        """
        analysed = [j for j in joints if j in self.joints]
        if not analysed or self._between is None:
            return True
        read = self.motion.tau.copy()
        read[:, analysed] = self.torque_later(seconds)[:, analysed]
        before, after = (self._missed_of(*self._between, tau)[0].sum() for tau in (self.motion.tau, read))
        return bool(after < before)

    @staticmethod
    def _missed_of(Q: Float, weights: Float, tau: Float) -> tuple[Float, float]:
        # Returns the squared errors (n,) of the plain model for torque (N, n), and the sum of squared torque.
        y = (tau.T * weights).reshape(-1)
        left = y - Q @ (Q.T @ y)
        return (left.reshape(weights.shape) ** 2).sum(axis=1), float(y @ y)

    @cached_property
    def _between(self) -> tuple[Float, Float] | None:
        # Orthonormal basis (n N, b) of the plain model's columns, and weights (n, N) that are zero near reversals. None
        # if the model needs other inputs than motion.
        terms, wanted = self.plain_model
        Y, complete = regressor(self.robot, terms, self.motion, wanted)
        if not complete:
            return None
        usable = np.isin(np.arange(len(Y)), self.joints)
        size = np.maximum(self.motion.tau.std(axis=0), 1e-300)
        weights = np.asarray((~self.reverses * np.where(usable, 1.0 / size, 0.0)).T, dtype=np.float64)
        return basis((Y * weights[:, :, None]).reshape(-1, Y.shape[2])), weights

    def torque_later(self, seconds: float) -> Float:
        """Measured torque (N, n) a given time after the thinned samples, by linear interpolation within each run."""
        r = self.residuals
        torque = np.zeros((len(self.index), self.robot.n))
        for run, in_run in self._runs_of():
            at = self.index[in_run] - run.start + seconds * r.rate
            place = np.arange(run.stop - run.start)
            torque[in_run] = np.stack([np.interp(at, place, column) for column in r.measured[run].T], axis=1)
        return torque

    def _runs_of(self) -> Iterator[tuple[slice, Bool]]:
        for run in self.runs:
            yield run, (self.index >= run.start) & (self.index < run.stop)

    @cached_property
    def plain_model(self) -> tuple[Terms, Bool]:
        """The terms that cannot absorb a wiring error, and the mask of the columns of their base parameters."""
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
        """The thinned samples with a gate that excludes each joint near its reversals."""
        return replace(self.motion, gate=~self.reverses)

    @cached_property
    def plain_columns(self) -> tuple[Float, bool]:
        """Columns (n, N, w) of the plain model at the gated samples; see `regressor`."""
        terms, wanted = self.plain_model
        return regressor(self.robot, terms, self.gated, wanted)

    def partial_share(self, joint: int, columns: Float, known: Float) -> float:
        """Share of a joint's squared residual that features (N, k) explain in addition to known features (N, l).

        The share is 0 if the features cannot be distinguished from the model and the known features.
        """
        free = [column for column in known.T if self.test_joint(joint, column[:, None]) is not None]
        both = self.test_joint(joint, np.column_stack([*free, columns]))
        if both is None:
            return 0.0
        before = self.test_joint(joint, np.column_stack(free)) if free else None
        return float(both.share[joint]) - (0.0 if before is None else float(before.share[joint]))

    def chance_of_share(self, joint: int, share: float, features: int) -> float:
        """Compute the p-value of an F-test for features that explain a share of a joint's squared residual.

        The degrees of freedom are half the number of independent values from the correlation time, because the spectrum
        of the residual may vary with time.
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
        """Approximate number of independent residual values per joint, (n,): moving samples over correlation time."""
        best = max(self.runs, key=lambda run: run.stop - run.start)
        e = self.residuals.error_counted[best]
        size = 2 ** int(np.ceil(np.log2(2 * len(e))))
        power = np.abs(np.fft.rfft(e - e.mean(axis=0), size, axis=0)) ** 2
        correlation = np.fft.irfft(power, size, axis=0)[: len(e) // 2 + 1]
        correlation = correlation / np.maximum(correlation[0], 1e-300)
        # Sum up to the first lag without positive correlation; later lags are noise of the estimate.
        positive = np.cumprod(correlation > 0, axis=0)
        seconds = 1.0 + 2.0 * (correlation * positive)[1:].sum(axis=0)
        # Samples of a joint at rest do not show effects of its motion.
        speed, counted = np.abs(self.residuals.dq), self.residuals.counted
        moves = speed > REVERSAL_SPEED * speed.max(axis=0, initial=0.0)
        return np.asarray((moves if counted is None else moves & counted).sum(axis=0) / seconds)

    def shares(self, joint: int, pairs: Float) -> Float:
        """Approximate share of a joint's squared residual that each pair of columns (N, m, 2) explains; for scans."""
        N, m, _ = pairs.shape
        rows = slice(joint * N, (joint + 1) * N)
        Q, e = self._model[rows], self._left[rows]
        X = pairs.reshape(N, 2 * m) * self._weight[joint][:, None]
        score = (X.T @ e).reshape(m, 2)
        projected = (Q.T @ X).reshape(-1, m, 2)
        X = X.reshape(N, m, 2)
        gram = np.einsum("nmi,nmj->mij", X, X) - np.einsum("bmi,bmj->mij", projected, projected)
        gram += 1e-9 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(2) + 1e-300 * np.eye(2)
        solved = np.linalg.solve(gram, score[:, :, None])[:, :, 0]
        return np.asarray((score * solved).sum(axis=1) / max(float(e @ e), 1e-300))

    @cached_property
    def _weight(self) -> Float:
        # (n, N) at the thinned samples: zero where a joint is not analysed or its equation does not count.
        usable = np.zeros(self.robot.n, dtype=np.bool_)
        usable[list(self.joints)] = True
        weight = np.where(usable, 1.0 / np.where(self.rms > 0, self.rms, 1.0), 0.0)
        whole = np.broadcast_to(weight[:, None], (len(weight), len(self.index)))
        return whole if self.counted is None else whole * self.counted.T

    @cached_property
    def _model(self) -> Float:
        # Orthonormal basis of the fitted columns, (n N, b), without terms that need other channels of the log.
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
    """Columns (n, N, w) of the wanted parameters, and whether motion is the only input that the terms need."""
    n, complete, first = robot.n, True, 0
    dense = np.zeros((n, len(samples), len(wanted)))
    for term in terms:
        count = len(term.columns(robot))
        try:
            panels = term.torque_regressor(robot, seen_by(term, samples), wanted[first : first + count])
            known_torque(term, robot, seen_by(term, samples))  # can also need other inputs than motion
        except DynidError:
            complete = False
        else:
            for joint, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
                dense[joint][:, first + columns] += values.T
        first += count
    return dense[:, :, wanted], complete


def basis(rows: Float) -> Float:
    """Orthonormal basis (T, r) of the columns of a matrix (T, w), after scaling each column to unit length."""
    size = np.linalg.norm(rows, axis=0)
    U, s, _ = np.linalg.svd(rows[:, size > 0] / size[size > 0], full_matrices=False)
    return np.asarray(U[:, s > 1e-7 * s.max(initial=0.0)])


def hotelling(scores: Float) -> float:
    """Compute the p-value of Hotelling's test that scores (M, k) have mean zero; 1 with too few blocks.

    The covariance is first taken about zero and then converted to the covariance about the mean, which stays accurate
    for a large effect.
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
