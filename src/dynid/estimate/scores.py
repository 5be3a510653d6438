"""Prediction errors of a model: the same figures for training data, held-out blocks and held-out logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from enum import StrEnum

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked, locked_bool, locked_int, shared
from dynid.base.errors import UnfitDataError
from dynid.base.numerics import student_cumulative
from dynid.base.records import Overview, dataclass, listed
from dynid.estimate.estimator import Estimator, Regression
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, judged_equations, moved_once, too_few_blocks
from dynid.signals.samples import Samples
from dynid.terms.friction import HALF

# Residual torque of a model.

# Least samples of an unbroken part whose autocorrelation is estimated.
LEAST_STRETCH = 8
# Ratio of correlation times from which residuals contain errors of the model: 1.0 to 1.6 with the right terms on
# simulated recordings of 15 s, up to 12 without rotor inertias.
BEYOND_NOISE = 3.0


@dataclass(frozen=True, eq=False)
class Residuals:
    """Measured and predicted torque, filtered alike, at the decimated rate.

    Attributes
    ----------
    trajectories : tuple of str
        Trajectories.
    joint_names : tuple of str
        Joints.
    t : ndarray, shape (T,), s
        Time on the clock of the log.
    trajectory, segment : ndarray of int, shape (T,)
        Index into `trajectories`, and segment.
    measured, predicted : ndarray, shape (T, n), N m (N)
        Torque.
    q, dq : ndarray, shape (T, n)
        Positions and velocities.
    rate : float, Hz
        Sampling rate.
    std : ndarray, shape (T, n), optional
        Standard deviation of the predicted torque from that of the parameters; None = unknown.
    temperature : ndarray, shape (T, n), degrees C, optional
        Temperature of the drives, nan for joints without; None = not logged.
    counted : ndarray of bool, shape (T, n), optional
        Where a joint's equation counts: not where it rests while others move; None = everywhere.

    """

    trajectories: tuple[str, ...]
    joint_names: tuple[str, ...]
    t: Float
    trajectory: Int
    segment: Int
    measured: Float
    predicted: Float
    q: Float
    dq: Float
    rate: float
    std: Float | None = None
    temperature: Float | None = None
    counted: Bool | None = None

    def __post_init__(self) -> None:
        T, n = len(self.t), len(self.joint_names)
        object.__setattr__(self, "t", shared(self.t, (T,), "t"))
        for name in ("trajectory", "segment"):
            object.__setattr__(self, name, locked_int(getattr(self, name), (T,), name))
        for name in ("measured", "predicted", "q", "dq"):
            object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name in ("std", "temperature"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        if self.counted is not None:
            object.__setattr__(self, "counted", locked_bool(self.counted, (T, n), "counted"))

    @property
    def error(self) -> Float:
        """Measured minus predicted torque, (T, n)."""
        return self.measured - self.predicted

    @property
    def error_counted(self) -> Float:
        """Measured minus predicted torque, (T, n), zero where a joint's equation does not count."""
        return self.error if self.counted is None else np.where(self.counted, self.error, 0.0)

    def counts(self, joint: int) -> Bool:
        """Samples (T,) where the joint's equation counts."""
        return np.ones(len(self.t), dtype=np.bool_) if self.counted is None else self.counted[:, joint]

    def mean_square(self, values: Float) -> Float:
        """Mean square of values (T, n) per joint, (n,), where its equation counts."""
        if self.counted is None:
            return np.asarray(np.mean(values**2, axis=0))
        return np.asarray(np.sum(values**2 * self.counted, axis=0) / np.maximum(self.counted.sum(axis=0), 1))


def autocorrelation(parts: Sequence[Float], most: int | None = None) -> Float:
    """Autocorrelation of a signal at lags 0, 1, ..., summed over its unbroken parts (T,) about their common mean.

    most: greatest lag, None = half the longest part. All nan for a constant signal.
    """
    longest = max(len(part) for part in parts)
    lags = max(longest // 2, 1) if most is None else min(max(longest // 2, 1), most)
    mean = np.concatenate(parts).mean()
    total = np.zeros(lags + 1)
    for part in parts:
        line = part - mean
        power = np.abs(np.fft.rfft(line, 1 << int(2 * len(line)).bit_length())) ** 2
        width = min(len(line), lags + 1)
        total[:width] += np.fft.irfft(power)[:width]
    return total / total[0] if total[0] > 0 else np.full(lags + 1, np.nan)


def rows_alike(correlation: Float) -> float:
    """Number of correlated samples with the information of one: 1 + 2 sum up to the first sign change."""
    negative = np.flatnonzero(correlation < 0)
    end = int(negative[0]) if len(negative) else len(correlation)
    return 1.0 + 2.0 * float(correlation[1:end].sum())


def rows_alike_of(stretches: Sequence[Float]) -> Float:
    """`rows_alike` of each column (n,) of unbroken parts (T, n); 1 if none is long enough.

    References
    ----------
    Bartlett 1946; the printed deviations of Madsen et al. 2020 are four times too small for such residuals.

    """
    alike = np.ones(stretches[0].shape[1])
    long = [part for part in stretches if len(part) >= LEAST_STRETCH]
    for j in range(len(alike) if long else 0):
        correlation = autocorrelation([part[:, j] for part in long])
        if np.isfinite(correlation).all():
            alike[j] = rows_alike(correlation)
    return alike


def rows_a_sample(residuals: Residuals) -> Float:
    """Number of rows with the information of one independent row, per joint (n,), at least 1.

    1 + 2 sum of the autocorrelation of the residual up to its first sign change, over all unbroken parts: the variance
    of a mean of correlated rows is that many times larger than of independent ones.
    """
    cuts = np.flatnonzero((np.diff(residuals.trajectory) != 0) | (np.diff(residuals.segment) != 0)) + 1
    return rows_alike_of(np.split(residuals.error_counted, cuts))


def beyond_noise(alike: Float, white: float) -> Bool:
    """Joints with residuals correlated far longer than filtered white noise, which shows an error of the model.

    alike: rows with the information of one independent row.    white: the same for such noise.
    """
    return np.asarray(alike > BEYOND_NOISE * white)


def noise_rows_a_sample(rate: float, cutoff: float, order: int) -> float:
    """`rows_a_sample` of white noise after a Butterworth low pass run forward and backward, at least 1.

    rate / (2 B), B = int_0^inf |H(f)|^4 df = f_c (1 - a) pi a / sin(pi a), a = 1 / (2 order).

    Parameters
    ----------
    rate, cutoff : float, Hz
        Sampling rate and cutoff frequency.
    order : int
        Order of the filter.

    """
    a = 0.5 / order
    shape = (1.0 - a) * np.pi * a / np.sin(np.pi * a)
    return float(max(1.0, rate / (2.0 * cutoff * shape)))


class Origin(StrEnum):
    """Data on which a model was scored."""

    TRAINING = "training"
    HELD_OUT_BLOCKS = "held-out blocks"
    HELD_OUT_LOG = "held-out log"


# Margin of a range of motion, in its width: noise and filters move the ends by as much.
RANGE_MARGIN = 0.05
# Share of samples outside the training's range that is reported.
BEYOND_NOTED = 0.02
QUANTITIES = ("position", "velocity", "acceleration")
# Significance level for a model that is worse than a constant torque.
WORSE_BY_CHANCE = 1e-3


@dataclass(frozen=True, eq=False)
class MotionRange:
    """Least and greatest position, velocity and acceleration per joint, (2, n) each, SI units."""

    position: Float
    velocity: Float
    acceleration: Float

    @staticmethod
    def of(q: Float, dq: Float, ddq: Float) -> MotionRange:
        """Range of at least one sample, (T, n) each."""
        return MotionRange(*(np.array([x.min(axis=0), x.max(axis=0)]) for x in (q, dq, ddq)))

    def __or__(self, other: MotionRange) -> MotionRange:
        pairs = zip(self.values, other.values, strict=True)
        return MotionRange(*(np.array([np.minimum(a[0], b[0]), np.maximum(a[1], b[1])]) for a, b in pairs))

    @property
    def values(self) -> tuple[Float, Float, Float]:
        """Position, velocity and acceleration."""
        return self.position, self.velocity, self.acceleration

    def beyond(self, q: Float, dq: Float, ddq: Float) -> Float:
        """Number of samples outside the range.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (T, n)
            Motion.

        Returns
        -------
        ndarray, shape (3, n)
            Numbers in position, velocity and acceleration.

        """
        counts = []
        for x, (low, high) in zip((q, dq, ddq), self.values, strict=True):
            room = RANGE_MARGIN * (high - low)
            counts.append(((x < low - room) | (x > high + room)).sum(axis=0))
        return np.array(counts, dtype=np.float64)

    def beyond_text(self, motion: Samples, joint_names: Sequence[str]) -> str:
        """Shares of the samples of a motion outside the range, if they are noticeable; "" otherwise."""
        counts = self.beyond(motion.q, motion.dq, motion.ddq)
        shares = counts / max(len(motion), 1)
        return _beyond_text(dict(zip(QUANTITIES, shares, strict=True)), joint_names)


def _beyond_text(beyond: Mapping[str, Float], joint_names: Sequence[str]) -> str:
    """Joints with noticeable shares (n,) of the samples outside a range, by quantity; "" = none."""
    parts = []
    for quantity, shares in beyond.items():
        named = zip(joint_names, shares, strict=True)
        joints = [f"{name} {100 * share:.2g} %" for name, share in named if share >= BEYOND_NOTED]
        parts += [f"{quantity} of {', '.join(joints)}"] if joints else []
    return "; ".join(parts) + " of the samples" if parts else ""


@dataclass(frozen=True, eq=False)
class Scores:
    """Prediction errors e = tau - tau_hat per joint; arrays have the shape (n,).

    Attributes
    ----------
    origin : Origin
        Data.
    joint_names, trajectories : tuple of str
        Joints and trajectories.
    rms : ndarray, N m (N)
        Root mean square of e.
    relative : ndarray
        ||e|| / ||tau||.
    r2 : ndarray
        1 - sum e^2 / sum (tau - mean tau)^2.
    nmse : ndarray, N m (N)
        mean(e^2) / mean|tau|; the sum over joints is eq. 22 of Madsen et al. 2020.
    mse : ndarray, (N m)^2
        mean(e^2).
    sde : ndarray, N m (N)
        Standard deviation of e (Nini et al., tables I and II).
    torque_rms : ndarray, N m (N)
        Root mean square of tau.
    total_relative : float
        ||e|| / ||tau|| over all joints.
    count : ndarray
        Samples per joint.
    left_out : mapping of str to float
        Share of the valid samples that these figures leave out, by reason.
    all_samples : Scores, optional
        The same figures with those samples; None = none left out, or they were not scored.
    motion : MotionRange, optional
        Range of the scored motion; None = unknown.
    beyond : mapping of str to ndarray
        Share of the samples outside the training's range by quantity; empty = not compared.
    worse : tuple of str
        Joints on which a constant torque has a smaller error, beyond chance over blocks of time.
    at_rest : tuple of str
        Joints at rest: dry friction may carry any part of their load, so their error is not that of the model.
    moved_once : tuple of str
        Joints that move in none of the blocks that judge them, since a fit without their motion cannot know their
        friction.
    kept_at_rest : ndarray, optional
        Share of the dry friction of their last motion that joints at rest keep in all_samples; None = no samples at
        rest.
    exported : float, optional
        Torque error over all joints of the physically consistent links in exports, if the figures are of an
        unconstrained estimate; None = they are of those links, or it is unknown.

    """

    origin: Origin
    joint_names: tuple[str, ...]
    trajectories: tuple[str, ...]
    rms: Float
    relative: Float
    r2: Float
    nmse: Float
    mse: Float
    sde: Float
    torque_rms: Float
    total_relative: float
    count: Float
    left_out: Mapping[str, float] = field(default_factory=dict)
    all_samples: Scores | None = None
    motion: MotionRange | None = None
    beyond: Mapping[str, Float] = field(default_factory=dict)
    worse: tuple[str, ...] = ()
    at_rest: tuple[str, ...] = ()
    moved_once: tuple[str, ...] = ()
    kept_at_rest: Float | None = None
    exported: float | None = None

    def __post_init__(self) -> None:
        n = len(self.joint_names)
        for name in ("rms", "relative", "r2", "nmse", "mse", "sde", "torque_rms", "count"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))

    def overview(self) -> Overview:
        """Summary for display: error in total and per joint."""
        by_joint = [f"{name} {100 * error:.3g} %" for name, error in zip(
            self.joint_names, self.relative, strict=True
        ) if np.isfinite(error)]  # fmt: skip
        return Overview(
            f"Scores on {self.origin}: torque error {100 * self.total_relative:.3g} %",
            (("per joint", listed(by_joint, 12)), ("trajectories", listed(self.trajectories))),
            ("joint", "error, %", "r.m.s., N m or N", "R^2"),
            tuple(
                (name, f"{100 * relative:.3g}", f"{rms:.3g}", f"{r2:.4f}")
                for name, relative, rms, r2 in zip(
                    self.joint_names, self.relative, self.rms, self.r2, strict=True
                )
            ),
        )

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()

    @property
    def total_nmse(self) -> float:
        """Sum of nmse over the joints whose effort was measured (Madsen et al. 2020, eq. 22)."""
        return float(self.nmse[self.count > 0].sum())

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Joints without measured effort."""
        silent = (name for name, count in zip(self.joint_names, self.count, strict=True) if not count)
        return tuple(name for name in silent if name not in self.moved_once)

    @property
    def useless(self) -> tuple[str, ...]:
        """Joints that move and are predicted worse than by a constant torque, beyond chance."""
        return tuple(name for name in self.worse if name not in (*self.at_rest, *self.moved_once))

    @property
    def judged_r2(self) -> Float:
        """R2 of judged joints, nan for joints at rest or that moved in one part only, (n,)."""
        silent = (*self.at_rest, *self.moved_once)
        return np.where([name in silent for name in self.joint_names], np.nan, self.r2)

    def remark(self, name: str) -> str:
        """Remark on the figures of a joint; "" = none."""
        if name in self.unmeasured:
            return "effort not measured"
        if name in self.at_rest:
            return "at rest, not judged"
        if name in self.moved_once:
            return "moved once, not judged"
        return "worse than a constant torque" if name in self.useless else ""

    @property
    def left_out_text(self) -> str:
        """Share of the samples that the figures leave out, by reason; "" = none."""
        return ", ".join(f"{100 * share:.3g} % ({reason})" for reason, share in self.left_out.items())

    @property
    def at_rest_text(self) -> str:
        """Friction that is assumed at rest in the figures of all samples; "" = there are no such samples."""
        if self.all_samples is None or self.kept_at_rest is None:
            return ""
        low, high = self.kept_at_rest.min(), self.kept_at_rest.max()
        guessed = low == high == HALF
        span = f"{100 * low:.2g}" if low == high else f"{100 * low:.2g} to {100 * high:.2g}"
        source = "a guess" if guessed else "fitted on the stops in training"
        return f"at rest, {span} % of the last dry friction is assumed ({source})"

    @property
    def exported_text(self) -> str:
        """Error of the links in exports, if the figures are of another estimate; "" otherwise."""
        if self.exported is None:
            return ""
        return (
            f"these scores are of the unconstrained estimate; exports use physically consistent links (torque error "
            f"{100 * self.exported:.3g} %)"
        )

    @property
    def beyond_text(self) -> str:
        """Shares of the samples outside the training's range, if they are noticeable; "" otherwise."""
        return _beyond_text(self.beyond, self.joint_names)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums behind scores, per joint, (n,) each; they add over blocks, folds and logs."""

    count: Float
    error: Float
    error_square: Float
    torque: Float
    torque_abs: Float
    torque_square: Float

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.count + other.count,
            self.error + other.error,
            self.error_square + other.error_square,
            self.torque + other.torque,
            self.torque_abs + other.torque_abs,
            self.torque_square + other.torque_square,
        )

    def scaled(self, share: float) -> Sums:
        """Sums over a representative share of the samples."""
        return Sums(*(share * getattr(self, item.name) for item in fields(self)))

    def of_joints(self, measured: Bool | None) -> Sums:
        """Sums without joints that were not measured, (n,); None = all were."""
        return (
            self
            if measured is None
            else Sums(*(np.where(measured, getattr(self, item.name), 0.0) for item in fields(self)))
        )

    @staticmethod
    def of_arrays(measured: Float, predicted: Float, counted: Bool | None = None) -> Sums:
        """Sums of measured and predicted torque.

        Parameters
        ----------
        measured, predicted : ndarray, shape (T, n), N m (N)
            Torque.
        counted : ndarray of bool, shape (T, n), optional
            Where they count; None = everywhere.

        """
        if counted is not None:
            measured, predicted = np.where(counted, measured, 0.0), np.where(counted, predicted, 0.0)
        e = measured - predicted
        return Sums(
            np.full(measured.shape[1], float(len(measured)))
            if counted is None
            else counted.sum(axis=0, dtype=np.float64),
            e.sum(axis=0),
            (e**2).sum(axis=0),
            measured.sum(axis=0),
            np.abs(measured).sum(axis=0),
            (measured**2).sum(axis=0),
        )

    @staticmethod
    def of_factors(factors: Factors, theta: Float, groups: Sequence[int] | None = None) -> Sums:
        """Sums over all equations of factors, one entry per group.

        Parameters
        ----------
        factors : Factors
            Equations.
        theta : ndarray, shape (p,)
            Parameters.
        groups : sequence of int, optional
            Groups; None = all.

        """
        total = factors.total if groups is None else [factors.total[g] for g in groups]
        return Sums(
            np.array([float(f.count) for f in total]),
            np.array([f.residual_sum(theta) for f in total]),
            np.array([f.residual_square(theta) for f in total]),
            np.array([float(f.sums[-1]) for f in total]),
            np.array([f.target_abs for f in total]),
            np.array([f.target_square for f in total]),
        )

    @staticmethod
    def of_blocks(factors: Factors, theta: Float, groups: Sequence[int] | None = None) -> list[Sums]:
        """Sums of each block of time."""
        return [Sums.of_factors(factors.subset([i]), theta, groups) for i in range(len(factors.blocks))]

    def scores(
        self,
        origin: Origin,
        joint_names: Sequence[str],
        trajectories: Sequence[str],
        left_out: LeftOut | None = None,
        parts: Sequence[Sums] = (),
    ) -> Scores:
        """Scores; a joint with constant or zero torque gets nan where a figure is undefined.

        Parameters
        ----------
        origin : Origin
            Data.
        joint_names, trajectories : sequence of str
            Joints and trajectories.
        left_out : LeftOut, optional
            Samples that the figures leave out.
        parts : sequence of Sums
            Sums of blocks of time, which show what is beyond chance; () = unknown.

        Returns
        -------
        Scores
            Scores.

        """
        if left_out is not None and left_out.shares:
            scored, more = self.scores(origin, joint_names, trajectories, parts=parts), left_out.sums
            whole = None if more is None else (self + more).scores(origin, joint_names, trajectories)
            return replace(
                scored,
                left_out=dict(left_out.shares),
                all_samples=whole,
                kept_at_rest=None if whole is None else left_out.kept_at_rest,
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            mse = self.error_square / self.count
            variance = self.torque_square - self.torque**2 / self.count
            return Scores(
                origin=origin,
                joint_names=tuple(joint_names),
                trajectories=tuple(trajectories),
                rms=np.sqrt(mse),
                relative=np.sqrt(self.error_square / self.torque_square),
                r2=1.0 - self.error_square / variance,
                nmse=mse / (self.torque_abs / self.count),
                mse=mse,
                sde=np.sqrt(np.maximum(mse - (self.error / self.count) ** 2, 0.0)),
                torque_rms=np.sqrt(self.torque_square / self.count),
                total_relative=float(np.sqrt(self.error_square.sum() / self.torque_square.sum())),
                count=self.count,
                worse=tuple(
                    name
                    for name, is_worse in zip(joint_names, worse_than_constant(parts), strict=bool(parts))
                    if is_worse
                ),
            )


def worse_than_constant(parts: Sequence[Sums]) -> Bool:
    """Joints (n,) on which a constant torque has a smaller error than the model, beyond chance.

    One-sided t-test over blocks of time, of the difference of squared errors; the constant is the mean of all blocks.
    """
    if len(parts) < 2:
        return np.zeros(len(parts[0].count) if parts else 0, dtype=np.bool_)
    count, torque = (np.array([getattr(part, name) for part in parts]) for name in ("count", "torque"))
    mean = torque.sum(axis=0) / np.maximum(count.sum(axis=0), 1.0)
    constant = np.array([part.torque_square for part in parts]) - 2.0 * mean * torque + mean**2 * count
    loss = np.array([part.error_square for part in parts]) - constant
    spread = loss.std(axis=0, ddof=1) / np.sqrt(len(parts))
    worse = [
        size > 0 and student_cumulative(len(parts) - 1, -size / max(width, 1e-300)) < WORSE_BY_CHANCE
        for size, width in zip(loss.mean(axis=0), spread, strict=True)
    ]
    return np.array(worse, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Samples that scores leave out: their sums, and their share of all valid samples by reason.

    sums: None = unknown as an error of the scored equations.
    kept_at_rest: (n,) share of the dry friction of their last motion that joints at rest keep; None = none rest.
    """

    sums: Sums | None
    shares: Mapping[str, float]
    kept_at_rest: Float | None = None

    def scaled(self, share: float) -> LeftOut:
        """The same for a representative share of the log."""
        return self if self.sums is None else replace(self, sums=self.sums.scaled(share))


def cross_validate(
    regression: Regression,
    estimator: Estimator,
    folds: int = 5,
    joints: Sequence[str] = (),
    judged: Factors | None = None,
    left_out: LeftOut | None = None,
) -> Scores:
    """Scores on held-out blocks: contiguous runs of blocks are left out in turn.

    The folds are cut in the order of time, so that neighbouring, correlated samples stay together. If the others
    contain too little of a joint's motion, `judged_equations` leaves it out.

    Parameters
    ----------
    regression : Regression
        Equations.
    estimator : Estimator
        Estimator.
    folds : int
        Number of folds.
    joints : sequence of str
        Groups to score if there are others; all groups if none has such a name.
    judged : Factors, optional
        Torque equations of the same blocks, if others were fitted; None = the regression's own.
    left_out : LeftOut, optional
        Samples of the log that are in no equation, by the model fitted to all blocks.

    Returns
    -------
    Scores
        Scores.

    Raises
    ------
    UnfitDataError
        If `folds` makes no fold of the blocks.

    """
    factors = regression.factors
    measured = factors if judged is None else judged
    if len(measured.blocks) != len(factors.blocks):
        raise UnfitDataError(
            "no-blocks",
            found=f"{len(measured.blocks)} blocks of torque for {len(factors.blocks)} of the fit",
            expected="the same blocks",
        )
    named = [g for g, name in enumerate(measured.group_names) if name in joints]
    scored = named or list(range(len(measured.group_names)))
    total: Sums | None = None
    blocks: list[Sums] = []
    made_folds = folds_of(factors, folds)
    once, measured = moved_once(measured, made_folds), judged_equations(measured, made_folds)
    for fold in made_folds:
        part = replace(regression, factors=factors.subset(fold.training), value_only=True)
        theta = estimator.fit(part).full_vector
        sums = Sums.of_factors(measured.subset(fold.held_out), theta, scored)
        total = sums if total is None else total + sums
        blocks += Sums.of_blocks(measured.subset(fold.held_out), theta, scored)
    if total is None:
        raise too_few_blocks(len(factors.blocks))
    names = dict.fromkeys(block.trajectory for block in factors.blocks)
    scored_names = [measured.group_names[g] for g in scored]
    scores = total.scores(Origin.HELD_OUT_BLOCKS, scored_names, tuple(names), left_out, blocks)
    return replace(scores, moved_once=once)


# Share of dry friction that a joint keeps after a stop, from the stops of a log.

# Variance of that share between robots, uniform from 0 to 1, and between stops as long as a log has few.
VARIANCE = 1.0 / 12.0
# s: shorter stops are reversals, in which the friction is still changing.
LEAST_STOP = 0.2


@dataclass(frozen=True, eq=False)
class StopSums:
    """Sums of samples at rest for the friction that joints keep, (n,) each; they add over batches.

    Attributes
    ----------
    friction, friction_square, product : ndarray
        Sums of x, x^2 and e x over samples, with the torque error e without dry friction, and the dry friction x before
        the stop (0 = unknown).
    weight, weight_square, weighted, spread : ndarray
        Over stops with means e and x and N samples, sums of w = N x^2, of w^2, of N e x and of N e^2.

    """

    friction: Float
    friction_square: Float
    product: Float
    weight: Float
    weight_square: Float
    weighted: Float
    spread: Float

    def __add__(self, other: StopSums) -> StopSums:
        return StopSums(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    @staticmethod
    def of(e: Float, x: Float, stands: Bool, rate: float) -> StopSums:
        """Sums of samples with e and x (n, T), at rest where `stands` (n, T); rate in Hz."""
        sums = np.zeros((len(fields(StopSums)), len(e)))
        for j in np.flatnonzero(stands.any(axis=1)).tolist():
            sums[:, j] = _stop_sums_of_joint(
                e[j, stands[j]], x[j, stands[j]], np.flatnonzero(stands[j]), rate
            )
        return StopSums(*sums)

    @property
    def share(self) -> Float:
        """Share of dry friction that joints keep, (n,), from 0 to 1.

        (S k + V HALF) / (S + V): k the mean over stops, weighted by w, V the variance of k from stop to stop over their
        effective number (sum w)^2 / sum w^2, S = VARIANCE that of the guess of a half.
        """
        # Friction whose square underflows is unknown.
        known = self.weight_square > 0
        weight = np.where(known, self.weight, 1.0)
        mean = self.weighted / weight
        stops = weight**2 / np.where(known, self.weight_square, 1.0)
        varied = np.maximum(self.spread / weight - mean**2, 0.0) * stops
        variance = (VARIANCE + varied) / stops**2
        share = (VARIANCE * mean + variance * HALF) / (VARIANCE + variance)
        return np.asarray(np.clip(np.where(known, share, HALF), 0.0, 1.0))

    def predicted(self, sums: Sums, share: Float) -> Sums:
        """Sums of these samples with a share (n,) of x predicted."""
        return replace(
            sums,
            error=sums.error - share * self.friction,
            error_square=sums.error_square - 2.0 * share * self.product + share**2 * self.friction_square,
        )


def _stop_sums_of_joint(e: Float, x: Float, index: Int, rate: float) -> tuple[float, ...]:
    """Sums of one joint's samples at rest, (T,) each, in the order of the fields.    index: of these samples."""
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 2) > 1)
    lengths = np.diff(starts, append=len(index))
    long = lengths >= LEAST_STOP * rate
    e_mean, x_mean = ((np.add.reduceat(line, starts) / lengths)[long] for line in (e, x))
    N = np.where(x_mean != 0, lengths[long], 0)
    w = N * x_mean**2
    sums = (x, x**2, e * x, w, w**2, N * e_mean * x_mean, N * e_mean**2)
    return tuple(float(values.sum()) for values in sums)
