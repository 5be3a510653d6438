"""Scores and residuals of an estimate on samples, filtered as its equations are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.base.parallel import ordered_map
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.estimate.scores import Bands, LeftOut, MotionRange, Origin, Residuals, StopSums, Sums
from dynid.factor.assemble import Assembly
from dynid.factor.blocking import Stretches
from dynid.kernel import release_memory
from dynid.robot.model import RobotModel
from dynid.run.result import Validation
from dynid.signals.noise import last_direction
from dynid.signals.samples import REST, STANDING, Samples
from dynid.terms.friction import WIDTH, dry_friction

# Residuals gathered batch by batch, in room that is there once.


class ResidualRows:
    """Rows of residuals.

    room: for so many, where their number is known.    stretches: whether parts of segments are kept, each a segment of
    its own.
    """

    def __init__(self, robot: RobotModel, room: int, stretches: bool) -> None:
        self._robot, self._stretches, self._count = robot, stretches, 0
        self._lines = np.empty((5 * robot.n, room))
        self._times: list[Float] = []
        self._trajectory: list[Int] = []
        self._segment: list[Int] = []
        self._warmth: list[Float] = []
        self._counted: list[Bool] = []
        self._names: dict[str, int] = {}
        self._runs: dict[tuple[str, int, int], int] = {}

    def add(self, samples: Samples, index: Int, lines: Float, stretch: Int, opened: Bool | None) -> None:
        """Appends some samples of a batch, in the order of `index`.

        lines: (5 n, T) measured and predicted torque, positions, velocities and standard deviations of the prediction.
        stretch: (T,) number of the part of the segment.    opened: (T, n) whose equation counts; None = all.
        """
        self._append(lines)
        self._counted.append(
            np.ones((len(index), self._robot.n), dtype=np.bool_) if opened is None else opened
        )
        if samples.temperature is not None:
            self._warmth.append(samples.temperature[index])
        self._times.append(samples.t[index])
        name = self._names.setdefault(samples.trajectory, len(self._names))
        self._trajectory.append(np.full(len(index), name))
        if not self._stretches:
            self._segment.append(np.full(len(index), samples.segment))
            return
        parts, own = np.unique(stretch, return_inverse=True)
        names = ((samples.trajectory, samples.segment, part) for part in parts.tolist())
        numbers = [self._runs.setdefault(one, len(self._runs)) for one in names]
        self._segment.append(np.array(numbers, dtype=np.int64)[own])

    def residuals(self, rate: float) -> Residuals:
        """All of them.    rate: Hz."""
        measured, predicted, q, dq, std = np.split(self._lines[:, : self._count], 5)
        return Residuals(
            trajectories=tuple(self._names),
            joint_names=self._robot.joint_names,
            t=np.concatenate(self._times),
            trajectory=np.concatenate(self._trajectory),
            segment=np.concatenate(self._segment),
            measured=measured.T,
            predicted=predicted.T,
            q=q.T,
            dq=dq.T,
            std=std.T,
            rate=rate,
            temperature=np.concatenate(self._warmth) if self._warmth else None,
            counted=None if all(one.all() for one in self._counted) else np.concatenate(self._counted),
        )

    def _append(self, lines: Float) -> None:
        end = self._count + lines.shape[1]
        if end > self._lines.shape[1]:
            grown = np.empty((len(self._lines), max(end, 2 * self._lines.shape[1])))
            grown[:, : self._count] = self._lines[:, : self._count]
            self._lines = grown
        self._lines[:, self._count : end] = lines
        self._count = end


# What batches add to a set of scores: sums of errors, samples that do not count, ranges of the motion.


@dataclass(frozen=True, eq=False)
class Counted:
    """What one batch adds to a set of scores beside its residuals.

    sums, left_out: what the model misses on samples that count, and on those that do not.    reasons: their number.
    stops: the dry friction of those at rest, which left_out is without.
    exported: what the bodies that exports hold miss on samples that count; None = the model is of these.
    motion: range of those that count, None = there are none.    beyond: (3, n) how many lie outside the training's.
    """

    count: int
    sums: Sums
    left_out: Sums
    stops: StopSums
    reasons: Mapping[str, float]
    motion: MotionRange | None
    beyond: Float
    exported: Sums | None = None

    @staticmethod
    def of(
        samples: Samples,
        index: Int,
        torque: Float,
        dry: Float,
        opened: Bool | None,
        rate: float,
        trained: MotionRange | None,
    ) -> Counted:
        """index: of the T sound samples, rate Hz.    torque: (2 n, T) measured, predicted.    dry: (n, T) at rest.

        opened: (T, n) whose equation counts; None = all.
        """
        kept, n = samples.keep[index], samples.n
        reasons = {reason: float(mask[index].sum()) for reason, mask in samples.left_out.items()}
        left, shut = torque[:, ~kept], None
        if opened is not None:
            left, shut = torque, np.asarray(~(kept[:, None] & opened))
            reasons[STANDING] = float((kept[:, None] & ~opened).sum()) / n
        moved = tuple(x[index[kept]] for x in (samples.q, samples.dq, samples.ddq))
        return Counted(
            count=int(kept.sum()),
            sums=kept_sums(samples, index, torque, opened),
            left_out=Sums.of_arrays(left[:n].T, left[n:].T, shut).of_joints(samples.measured),
            stops=StopSums.of(torque[:n] - torque[n:], dry, at_rest(samples)[:, index], rate),
            reasons=reasons,
            motion=MotionRange.of(*moved) if kept.any() else None,
            beyond=trained.beyond(*moved) if trained is not None else np.zeros((3, n)),
        )


class Tally:
    """What the batches add up to."""

    def __init__(self, n: int, trained: MotionRange | None) -> None:
        self.motion: MotionRange | None = None
        self.exported: Sums | None = None
        self._compared = trained is not None
        self.count, self._beyond = 0, np.zeros((3, n))
        self.sums = self._left_out = Sums.of_arrays(np.zeros((0, n)), np.zeros((0, n)))
        self.stops = StopSums.of(np.zeros((n, 0)), np.zeros((n, 0)), np.zeros((n, 0), dtype=np.bool_), 1.0)
        self._reasons: dict[str, float] = {}

    def add(self, one: Counted) -> None:
        """Adds a batch."""
        self.count += one.count
        self.sums, self._left_out = self.sums + one.sums, self._left_out + one.left_out
        self._beyond += one.beyond
        self.stops += one.stops
        if one.exported is not None:
            self.exported = one.exported if self.exported is None else self.exported + one.exported
        for reason, number in one.reasons.items():
            self._reasons[reason] = self._reasons.get(reason, 0) + number
        if one.motion is not None:
            self.motion = one.motion if self.motion is None else self.motion | one.motion

    def left_out(self, kept_at_rest: Float | None) -> LeftOut:
        """The samples that do not count, of those at rest a share (n,) of the dry friction predicted; None = theirs."""
        # Where one joint's equation does not count, those of others do.
        everything = self.count + sum(number for why, number in self._reasons.items() if why != STANDING)
        shares = {reason: number / everything for reason, number in self._reasons.items() if number}
        kept = self.stops.share if kept_at_rest is None else kept_at_rest
        return LeftOut(
            self.stops.predicted(self._left_out, kept),
            shares,
            kept if {REST, STANDING} & set(shares) else None,
        )

    @property
    def beyond(self) -> dict[str, Float]:
        """Share of the samples that count outside the training's range, by quantity."""
        if not self._compared:
            return {}
        shares = self._beyond / self.count
        return dict(zip(("position", "velocity", "acceleration"), shares, strict=True))


def kept_sums(samples: Samples, index: Int, torque: Float, opened: Bool | None) -> Sums:
    """Sums over samples that count, of torque (2 n, T) measured, then predicted."""
    kept = samples.keep[index]
    sound, counted = torque[:, kept], None if opened is None else opened[kept]
    return Sums.of_arrays(sound[: samples.n].T, sound[samples.n :].T, counted).of_joints(samples.measured)


def at_rest(samples: Samples) -> Bool:
    """(n, T) where joints stand: all of them, or one while others move."""
    # Equations are also left out where one comes to rest or leaves it, fast enough for friction to have its sign.
    stands = np.broadcast_to(
        samples.left_out.get(REST, np.zeros(len(samples), dtype=np.bool_)), (samples.n, len(samples))
    )
    opened = opened_equations(samples, np.arange(len(samples)))
    slow = np.abs(samples.dq.T) <= WIDTH
    return stands if opened is None else np.asarray(stands | (slow & ~opened.T))


def opened_equations(samples: Samples, index: Int) -> Bool | None:
    """(T, n) of which joints the equations count; None = of all."""
    # A joint that was not measured has no figures anyway.
    if samples.gate is None:
        return None
    opened = samples.gate[index] if samples.measured is None else samples.gate[index] | ~samples.measured
    return None if opened.all() else opened


# Times what a second pass of the filters moves positions at rest by: after a stop the first one has turned a joint back
# by about as much (3.5 to 5 times, by filters of equal cut-off on stops of 0.02 to 0.8 s).
RINGING = 4.0


def score(
    assembly: Assembly,
    estimate: Estimate,
    batches: Iterable[Samples],
    origin: Origin,
    threads: int,
    progress: Callable[[float], None] | None,
    trained: MotionRange | None = None,
    share: float = 1.0,
    travel: Float | None = None,
    kept_at_rest: Float | None = None,
) -> tuple[Validation, LeftOut]:
    """Scores and residuals of an estimate on samples, filtered and thinned as in the equations; what they leave out.

    trained: range of the motion that the estimate was fitted to; None = not to be compared.
    share: of the log whose residuals are kept, a stretch of each block of time, each a segment of its own; scores are
    of all samples.
    travel: (n,) by which joints have to move for it to be seen; of joints at rest, which were fitted to nothing, a
    share of the dry friction of the last such motion is predicted then. None = what the model says of a velocity of
    zero.
    kept_at_rest: (n,) that share; None = as the stops of these samples have it.
    Raises UnfitDataError if no sample is left between the filters' edges.
    """
    robot = assembly.robot
    rate = assembly.parallel.rate / assembly.parallel.decimation
    bands, tally = Bands(robot, assembly.terms, estimate), Tally(robot.n, trained)
    scoring = _Scoring(assembly, estimate, bands, rate, trained, share, travel)
    # Room for all of it where their number is known: the residuals are never there twice.
    known = isinstance(batches, list)
    room = sum(len(assembly.parallel.kept(samples)) for samples in batches) if known else 0
    rows = ResidualRows(robot, room, share < 1.0)
    for batch in ordered_map(scoring.batch, batches, threads):
        tally.add(batch.counted)
        rows.add(batch.samples, batch.index, batch.lines, batch.stretch, batch.opened)
        if progress is not None:
            progress(len(batch.samples) / batch.samples.rate)
    if not tally.count:
        raise UnfitDataError(
            "no-samples", found="no usable sample", expected="motion longer than the filters' edges"
        )
    residuals = rows.residuals(rate)
    del rows
    release_memory()
    left_out = tally.left_out(kept_at_rest)
    blocks = _by_block(residuals, assembly.blocks.seconds)
    names = residuals.trajectories
    scores = tally.sums.scores(origin, robot.joint_names, names, left_out, blocks)
    scores = replace(scores, motion=tally.motion, beyond=tally.beyond)
    if tally.exported is not None:
        others = tally.exported.scores(origin, robot.joint_names, names)
        scores = replace(scores, exported=others.total_relative)
    return Validation(scores, residuals), left_out


@dataclass(frozen=True, eq=False)
class _Batch:
    # Samples, which of them residuals are kept of, these (5 n, T), the part of the segment that each is of, whose
    # equations count, and what all add to the scores.
    samples: Samples
    index: Int
    lines: Float
    stretch: Int
    opened: Bool | None
    counted: Counted


@dataclass(frozen=True, eq=False)
class _Scoring:
    assembly: Assembly
    estimate: Estimate
    bands: Bands
    rate: float
    trained: MotionRange | None
    share: float
    travel: Float | None

    def batch(self, samples: Samples) -> _Batch:
        """One batch, filtered as the equations are."""
        assembly, n, theta = self.assembly, self.assembly.robot.n, self.estimate.parameters
        if samples.theta is not None:
            # Base parameters of rigid rows take motors to move with their joints: they are the same torque as all
            # parameters there alone, and where motors move apart it is they that were fitted.
            theta = self.estimate.full_vector
        model = assembly.terms.torque(assembly.robot, samples, theta)
        lines = np.concatenate([samples.tau.T, model.T, samples.q.T, samples.dq.T])
        if len(self.estimate.consistent):
            exported = assembly.terms.torque(assembly.robot, samples, self.estimate.consistent)
            lines = np.concatenate([lines, exported.T])
        whole = samples.with_left_out
        sound, _ = assembly.parallel.apply(np.ascontiguousarray(lines), whole)
        index = assembly.parallel.kept(whole)
        dry = np.zeros((n, len(index)))
        if self.travel is not None:
            filtered = sound[2 * n : 3 * n]
            dry, smooth = _dry_at_rest(assembly, theta, samples, self.travel, filtered, index)
            sound[n : 2 * n] -= smooth
        opened = opened_equations(samples, index)
        if samples.measured is not None:
            # Of what was not measured nothing is missed: no figure of the joint has a meaning.
            silent = np.flatnonzero(~samples.measured)
            sound[silent] = sound[n + silent]
            dry[silent] = 0.0
        counted = Counted.of(samples, index, sound[: 2 * n], dry, opened, self.rate, self.trained)
        if len(sound) > 4 * n:
            pair, sound = sound[[*range(n), *range(4 * n, 5 * n)]], sound[: 4 * n]
            counted = replace(counted, exported=kept_sums(samples, index, pair, opened))
        stretches = Stretches.of(self.share, assembly.blocks, samples)
        stretch = stretches.numbers(samples.segment, assembly.blocks.index(samples, index))
        kept = samples.keep[index] & (stretch >= 0)
        if not kept.all():
            sound, index, stretch = sound[:, kept], index[kept], stretch[kept]
            opened = None if opened is None else opened[kept]
        std = self.bands.std(samples, index)
        return _Batch(samples, index, np.concatenate([sound, std.T]), stretch, opened, counted)


def _dry_at_rest(
    assembly: Assembly, theta: Float, samples: Samples, travel: Float, filtered: Float, index: Int
) -> tuple[Float, Float]:
    """Dry friction of the last motion and what the model has in its place, filtered, (n, T) each; zero in motion.

    filtered: (n, T) positions of the T sound samples, filtered as torque is.    index: of these.
    """
    stands = at_rest(samples)
    if not stands[:, index].any():
        nothing = np.zeros_like(filtered)
        return nothing, nothing
    # Filters swing about a stop, which is no motion.
    ringing = np.where(stands[:, index], np.abs(filtered - samples.q[index].T), 0.0).max(axis=1)
    direction = last_direction(samples, np.maximum(travel, RINGING * ringing))
    lines = dry_friction(assembly.robot, assembly.terms, samples, theta, direction)
    # Filtered by itself, so that samples in motion stay as they are.
    sound, _ = assembly.parallel.apply(
        np.concatenate([stands * line.T for line in lines]), samples.with_left_out
    )
    dry, smooth = (stands[:, index] * one for one in np.split(sound, 2))
    return dry, smooth


def _by_block(residuals: Residuals, seconds: float) -> list[Sums]:
    r, block = residuals, np.floor(residuals.t / seconds)
    ends = (np.diff(r.trajectory) != 0) | (np.diff(r.segment) != 0) | (np.diff(block) != 0)
    parts = np.split(np.arange(len(r.t)), np.flatnonzero(ends) + 1)
    return [
        Sums.of_arrays(r.measured[part], r.predicted[part], None if r.counted is None else r.counted[part])
        for part in parts
    ]
