"""How well a model predicts torque: the same figures for training data, held-out blocks and held-out logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from enum import StrEnum

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.distributions import student_cumulative
from dynid.base.errors import UnfitDataError
from dynid.base.overview import Overview, listed
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimator, Regression
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, judged_equations, moved_once, too_few_blocks
from dynid.terms.at_rest import HALF


class Origin(StrEnum):
    """On what data a model was scored."""

    TRAINING = "training"
    HELD_OUT_BLOCKS = "held-out blocks"
    HELD_OUT_LOG = "held-out log"


# A range of motion ends so much of its width further out: filters and noise move its ends by as much from log to log.
RANGE_MARGIN = 0.05
# A share of samples beyond the training's range that is worth a word.
BEYOND_NOTED = 0.02
# Chance that a model no worse than a constant torque misses so much more than it over blocks of time.
WORSE_BY_CHANCE = 1e-3


@dataclass(frozen=True, eq=False)
class MotionRange:
    """Least and greatest position, velocity and acceleration by joint, each (2, n), SI units."""

    position: Float
    velocity: Float
    acceleration: Float

    @staticmethod
    def of(q: Float, dq: Float, ddq: Float) -> MotionRange:
        """The range of at least one sample, each array (T, n)."""
        return MotionRange(*(np.array([x.min(axis=0), x.max(axis=0)]) for x in (q, dq, ddq)))

    def __or__(self, other: MotionRange) -> MotionRange:
        pairs = zip(self.values, other.values, strict=True)
        return MotionRange(*(np.array([np.minimum(a[0], b[0]), np.maximum(a[1], b[1])]) for a, b in pairs))

    @property
    def values(self) -> tuple[Float, Float, Float]:
        """Position, velocity and acceleration."""
        return self.position, self.velocity, self.acceleration

    def beyond(self, q: Float, dq: Float, ddq: Float) -> Float:
        """How many of the samples, each array (T, n), lie outside, (3, n): in position, velocity, acceleration."""
        counts = []
        for x, (low, high) in zip((q, dq, ddq), self.values, strict=True):
            room = RANGE_MARGIN * (high - low)
            counts.append(((x < low - room) | (x > high + room)).sum(axis=0))
        return np.array(counts, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Scores:
    """Prediction errors e = tau - tau_hat by joint; every array is (n,).

    rms: root mean square of e, N m.    relative: ||e|| / ||tau||.
    r2: 1 - sum e^2 / sum (tau - mean tau)^2.
    nmse: mean(e^2) / mean|tau|, N m; their sum over joints is Madsen et al. 2020, eq. 22.
    mse: mean(e^2), (N m)^2.    sde: standard deviation of e, N m (Nini et al., tables I and II).
    torque_rms: root mean square of tau.    total_relative: ||e|| / ||tau|| over all joints.
    count: samples a joint.
    left_out: share of the sound samples, by reason, that the figures above leave out.
    all_samples: the same figures with these samples; None = nothing was left out, or they have not been scored.
    motion: range of the motion that was scored; None = not known.
    beyond: share of the samples, (n,), outside the training's range by quantity; empty = not compared.
    worse: joints on which a constant torque misses less, beyond chance over blocks of time.
    at_rest: joints that stood still: friction at rest may hold any part of their load, so that no share of their torque
    is the model's to miss.
    moved_once: joints whose motion is in none of the blocks that judge them, as a fit without it knows nothing of their
    friction.
    kept_at_rest: share of the dry friction of their last motion that joints at rest keep in all_samples, (n,); None =
    no samples at rest.
    exported: share of the torque missed by the physically consistent bodies that exports hold, over all joints, where
    the figures are of an estimate without constraints; None = they are of those bodies, or theirs is not known.
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
        """What is shown of the scores: error in all and by joint."""
        by_joint = [f"{name} {100 * one:.3g} %" for name, one in zip(
            self.joint_names, self.relative, strict=True
        ) if np.isfinite(one)]  # fmt: skip
        return Overview(
            f"Scores on {self.origin}: torque error {100 * self.total_relative:.3g} %",
            (("by joint", listed(by_joint, 12)), ("trajectories", listed(self.trajectories))),
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
        """Joints of whose effort there is no sample."""
        silent = (name for name, count in zip(self.joint_names, self.count, strict=True) if not count)
        return tuple(name for name in silent if name not in self.moved_once)

    @property
    def useless(self) -> tuple[str, ...]:
        """Joints that move and are predicted worse than by a constant torque, beyond chance."""
        return tuple(name for name in self.worse if name not in (*self.at_rest, *self.moved_once))

    @property
    def judged_r2(self) -> Float:
        """R2 of the joints that it judges, nan of those at rest or that moved but once, (n,)."""
        silent = (*self.at_rest, *self.moved_once)
        return np.where([name in silent for name in self.joint_names], np.nan, self.r2)

    def remark(self, name: str) -> str:
        """What is to be said beside a joint's figures; "" = nothing."""
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
        """What the figures of all samples predict at rest; "" = they hold no such samples."""
        if self.all_samples is None or self.kept_at_rest is None:
            return ""
        low, high = self.kept_at_rest.min(), self.kept_at_rest.max()
        guessed = low == high == HALF
        span = f"{low:.2g}" if low == high else f"{low:.2g} to {high:.2g}"
        share = "half of that of the last motion is predicted"
        if not guessed:
            share = f"of that of the last motion a share of {span}, as the stops of the training have it, is predicted"
        return f"friction at rest may take any value up to its limit; {share}"

    @property
    def exported_text(self) -> str:
        """What the bodies that exports hold miss, where the figures are of another estimate; "" = they are not."""
        if self.exported is None:
            return ""
        return (
            f"exports hold the physically consistent bodies, which miss {100 * self.exported:.3g} %; these figures are "
            "of the estimate without constraints"
        )

    @property
    def beyond_text(self) -> str:
        """Shares of the samples outside the training's range, where they are worth a word; "" = nowhere."""
        parts = []
        for quantity, shares in self.beyond.items():
            named = zip(self.joint_names, shares, strict=True)
            joints = [f"{name} {100 * share:.2g} %" for name, share in named if share >= BEYOND_NOTED]
            parts += [f"{quantity} of {', '.join(joints)}"] if joints else []
        return "; ".join(parts) + " of the samples" if parts else ""


@dataclass(frozen=True, eq=False)
class Sums:
    """What scores are made of, by joint, each (n,): they add over blocks, folds and logs."""

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
        """Sums over a share of the samples that is like all of them."""
        return Sums(*(share * getattr(self, one.name) for one in fields(self)))

    def of_joints(self, measured: Bool | None) -> Sums:
        """The sums without joints of which nothing was measured, (n,); None = all were."""
        return (
            self
            if measured is None
            else Sums(*(np.where(measured, getattr(self, one.name), 0.0) for one in fields(self)))
        )

    @staticmethod
    def of_arrays(measured: Float, predicted: Float, counted: Bool | None = None) -> Sums:
        """Sums of measured and predicted torque, both (T, n), where they count, (T, n); None = everywhere."""
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
        """Sums over all equations of factors for parameters theta (p,), one entry a group; groups: None = all."""
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
        """Those of each block of time by itself."""
        return [Sums.of_factors(factors.subset([i]), theta, groups) for i in range(len(factors.blocks))]

    def scores(
        self,
        origin: Origin,
        joint_names: Sequence[str],
        trajectories: Sequence[str],
        left_out: LeftOut | None = None,
        parts: Sequence[Sums] = (),
    ) -> Scores:
        """The figures; a joint whose torque is constant or zero gets nan where a figure has no meaning.

        parts: the sums of blocks of time, which show what is beyond chance; () = not known.
        """
        if left_out is not None and left_out.shares:
            own, more = self.scores(origin, joint_names, trajectories, parts=parts), left_out.sums
            whole = None if more is None else (self + more).scores(origin, joint_names, trajectories)
            return replace(
                own,
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
                    for name, one in zip(joint_names, worse_than_constant(parts), strict=bool(parts))
                    if one
                ),
            )


def worse_than_constant(parts: Sequence[Sums]) -> Bool:
    """Where a constant torque misses less than the model, beyond chance, (n,).    parts: blocks of time.

    One-sided t-test over blocks of the difference of squared errors; the constant is the mean of all of them.
    """
    if len(parts) < 2:
        return np.zeros(len(parts[0].count) if parts else 0, dtype=np.bool_)
    count, torque = (np.array([getattr(one, name) for one in parts]) for name in ("count", "torque"))
    mean = torque.sum(axis=0) / np.maximum(count.sum(axis=0), 1.0)
    constant = np.array([one.torque_square for one in parts]) - 2.0 * mean * torque + mean**2 * count
    loss = np.array([one.error_square for one in parts]) - constant
    spread = loss.std(axis=0, ddof=1) / np.sqrt(len(parts))
    found = [
        size > 0 and student_cumulative(len(parts) - 1, -size / max(width, 1e-300)) < WORSE_BY_CHANCE
        for size, width in zip(loss.mean(axis=0), spread, strict=True)
    ]
    return np.array(found, dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Samples that scores leave out: what a model misses there, and their share of all sound samples by reason.

    sums: None = not known as an error of the equations that are scored.
    kept_at_rest: share of the dry friction of their last motion that joints at rest keep there, (n,); None = none rest.
    """

    sums: Sums | None
    shares: Mapping[str, float]
    kept_at_rest: Float | None = None

    def scaled(self, share: float) -> LeftOut:
        """Those of a share of the log, as far as its parts are alike."""
        return self if self.sums is None else replace(self, sums=self.sums.scaled(share))


def cross_validate(
    regression: Regression,
    estimator: Estimator,
    folds: int = 5,
    joints: Sequence[str] = (),
    judged: Factors | None = None,
    left_out: LeftOut | None = None,
) -> Scores:
    """Scores on blocks that the fit has not seen: contiguous runs of blocks are left out in turn.

    judged: torque equations of the same blocks, where others than torque were fitted; None = the regression's own.
    left_out: samples of the log that are in no equation, by the model that was fitted to all blocks.
    joints: names of the groups to score where there are others besides; all groups where none is called so.
    The folds are cut in the order of time, so that neighbouring, correlated samples stay together. Where the others
    hold too little of a joint's motion, `judged_equations` leaves it out.
    Raises UnfitDataError where `folds` makes none of the blocks.
    """
    factors = regression.factors
    measured = factors if judged is None else judged
    if len(measured.blocks) != len(factors.blocks):
        raise UnfitDataError(
            "no-blocks",
            found=f"{len(measured.blocks)} blocks of torque for {len(factors.blocks)} of the fit",
            expected="the same blocks",
        )
    own = [g for g, name in enumerate(measured.group_names) if name in joints]
    scored = own or list(range(len(measured.group_names)))
    total: Sums | None = None
    blocks: list[Sums] = []
    made = folds_of(factors, folds)
    once, measured = moved_once(measured, made), judged_equations(measured, made)
    for fold in made:
        part = replace(regression, factors=factors.subset(fold.training), value_only=True)
        theta = estimator.fit(part).full_vector
        sums = Sums.of_factors(measured.subset(fold.held_out), theta, scored)
        total = sums if total is None else total + sums
        blocks += Sums.of_blocks(measured.subset(fold.held_out), theta, scored)
    if total is None:
        raise too_few_blocks(len(factors.blocks))
    names = dict.fromkeys(block.trajectory for block in factors.blocks)
    scored_names = [measured.group_names[g] for g in scored]
    found = total.scores(Origin.HELD_OUT_BLOCKS, scored_names, tuple(names), left_out, blocks)
    return replace(found, moved_once=once)
