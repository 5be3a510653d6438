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
from dynid.estimate.prediction import Bands
from dynid.estimate.scores import QUANTITIES, LeftOut, MotionRange, Origin, Residuals, StopSums, Sums
from dynid.factor.assemble import Assembly
from dynid.factor.blocking import Stretches
from dynid.kernel import release_memory
from dynid.robot.model import RobotModel
from dynid.rows.rows import torque_projection
from dynid.run.result import Validation
from dynid.signals.noise import last_direction
from dynid.signals.samples import REST, STANDING, Samples
from dynid.terms.friction import WIDTH, dry_friction

# Residuals are gathered batch by batch in one array, because two copies of a long log may not fit into memory.


class ResidualRows:
    """Collects residuals of many batches.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    room : int
        Expected number of samples; 0 if unknown.
    stretches : bool
        Whether only parts of segments are kept, each as its own segment.

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
        """Append samples of a batch, in the order of `index`.

        `samples`: prepared samples of one trajectory; `index` (n_samples,): indices of the samples in the batch;
        `lines` (5 n_joints, n_samples): measured and predicted torque, positions, velocities, and standard deviations
        of the prediction; `stretch` (n_samples,): number of the part of the segment; `opened` (n_samples, n_joints):
        whose equations count; None = all.
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
        parts, part_of_sample = np.unique(stretch, return_inverse=True)
        names = ((samples.trajectory, samples.segment, part) for part in parts.tolist())
        numbers = [self._runs.setdefault(key, len(self._runs)) for key in names]
        self._segment.append(np.array(numbers, dtype=np.int64)[part_of_sample])

    def residuals(self, rate: float) -> Residuals:
        """All collected residuals; rate: Hz."""
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
            counted=None if all(mask.all() for mask in self._counted) else np.concatenate(self._counted),
        )

    def _append(self, lines: Float) -> None:
        end = self._count + lines.shape[1]
        if end > self._lines.shape[1]:
            grown = np.empty((len(self._lines), max(end, 2 * self._lines.shape[1])))
            grown[:, : self._count] = self._lines[:, : self._count]
            self._lines = grown
        self._lines[:, self._count : end] = lines
        self._count = end


# Contributions of batches to scores: sums of errors, samples left out, ranges of motion.


@dataclass(frozen=True, eq=False)
class Counted:
    """Contribution of one batch to the scores, without its residuals.

    Attributes
    ----------
    count : int
        Samples that count.
    sums, left_out : Sums
        Errors on samples that count, and on those that are left out.
    stops : StopSums
        Dry friction of samples at rest, which `left_out` does not include.
    reasons : mapping of str to float
        Number of samples left out, by reason.
    motion : MotionRange or None
        Range of the samples that count; None without any.
    beyond : ndarray, shape (3, n_joints)
        Number of samples outside the range of the training motion.
    exported : Sums or None
        Errors of the exported links on samples that count; None if they are the links of the model.

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
        """Evaluate a batch.

        `samples`: prepared samples of one trajectory; `index` (n_samples,): valid samples; `torque` (2 n_joints,
        n_samples) in N m: measured, then predicted; `dry` (n_joints, n_samples) in N m: dry friction at rest; `opened`
        (n_samples, n_joints): whose equations count; None = all; `rate` in Hz: sampling rate; `trained`: range of the
        training motion.
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
    """Sums the contributions of all batches."""

    def __init__(self, n: int, trained: MotionRange | None) -> None:
        self.motion: MotionRange | None = None
        self.exported: Sums | None = None
        self._compared = trained is not None
        self.count, self._beyond = 0, np.zeros((3, n))
        self.sums = self._left_out = Sums.of_arrays(np.zeros((0, n)), np.zeros((0, n)))
        self.stops = StopSums.of(np.zeros((n, 0)), np.zeros((n, 0)), np.zeros((n, 0), dtype=np.bool_), 1.0)
        self._reasons: dict[str, float] = {}

    def add(self, counted: Counted) -> None:
        """Add a batch."""
        self.count += counted.count
        self.sums, self._left_out = self.sums + counted.sums, self._left_out + counted.left_out
        self._beyond += counted.beyond
        self.stops += counted.stops
        if counted.exported is not None:
            self.exported = counted.exported if self.exported is None else self.exported + counted.exported
        for reason, number in counted.reasons.items():
            self._reasons[reason] = self._reasons.get(reason, 0) + number
        if counted.motion is not None:
            self.motion = counted.motion if self.motion is None else self.motion | counted.motion

    def left_out(self, kept_at_rest: Float | None) -> LeftOut:
        """Samples left out.

        kept_at_rest: share of the dry friction predicted at rest, shape (n_joints,); None = fitted on their own stops.
        """
        # A sample left out for one joint still counts for the others.
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
        """Share of the counted samples outside the range of the training motion, by quantity."""
        if not self._compared:
            return {}
        shares = self._beyond / self.count
        return dict(zip(QUANTITIES, shares, strict=True))


def kept_sums(samples: Samples, index: Int, torque: Float, opened: Bool | None) -> Sums:
    """Sums over the samples that count.

    `samples`: a batch; `index` (n_samples,): valid samples of the batch; `torque` (2 n_joints, n_samples) in N m:
    measured, then predicted; `opened` (n_samples, n_joints): whose equations count; None = all.
    """
    kept = samples.keep[index]
    sound, counted = torque[:, kept], None if opened is None else opened[kept]
    return Sums.of_arrays(sound[: samples.n].T, sound[samples.n :].T, counted).of_joints(samples.measured)


def at_rest(samples: Samples) -> Bool:
    """Mask (n_joints, n_samples) of joints at rest: all joints, or one while others move."""
    # Equations are also left out just before and after rest, where motion is fast enough to fix the sign of friction.
    all_at_rest = np.broadcast_to(
        samples.left_out.get(REST, np.zeros(len(samples), dtype=np.bool_)), (samples.n, len(samples))
    )
    opened = opened_equations(samples, np.arange(len(samples)))
    slow = np.abs(samples.dq.T) <= WIDTH
    return all_at_rest if opened is None else np.asarray(all_at_rest | (slow & ~opened.T))


def opened_equations(samples: Samples, index: Int) -> Bool | None:
    """Mask (n_samples, n_joints) of the equations that count; None = all."""
    # A joint that was not measured has no scores anyway.
    if samples.gate is None:
        return None
    opened = samples.gate[index] if samples.measured is None else samples.gate[index] | ~samples.measured
    return None if opened.all() else opened


# Ratio of the overshoot after a stop to the change by a second pass of the filters: 3.5 to 5 for filters of equal
# cutoff frequency and stops of 0.02 to 0.8 s.
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
    """Scores and residuals of an estimate on samples that are filtered and decimated as in the equations.

    `assembly`: equations and filters; `estimate`: the fitted estimate; `batches`: prepared samples; `origin`: where the
    samples come from; `threads`: number of threads; results do not depend on it; `progress`: called with seconds of
    data done; `trained`: range of the training motion; None = not compared; `share`: share of the log whose residuals
    are kept: a part of each block of time, each as its own segment. Scores are over all samples; `travel` (n_joints,)
    in rad (m): smallest motion that can be distinguished from noise. At rest, a share of the dry friction of the last
    such motion is predicted. None = the model at zero velocity; `kept_at_rest` (n_joints,): that share; None = fitted
    on the stops of these samples. Result: samples that do not count. Raises UnfitDataError if no sample is left between
    the edges of the filters.
    """
    robot = assembly.robot
    rate = assembly.parallel.rate / assembly.parallel.decimation
    bands, tally = Bands(robot, assembly.terms, estimate), Tally(robot.n, trained)
    scoring = _Scoring(assembly, estimate, bands, rate, trained, share, travel)
    # The array has its full size at once if the number is known, so that residuals are never in memory twice.
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
            "no-samples",
            found="no usable sample",
            expected="motion longer than the edges that the filters cut off",
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
    # One scored batch: samples, indices of kept residuals, the residuals (5 n, T), part of the segment, equations that
    # count, and the contribution to the scores.
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
        """Score one batch, filtered as the equations are."""
        assembly, n, theta = self.assembly, self.assembly.robot.n, self.estimate.parameters
        if samples.theta is not None:
            # The equations assume that motors move with their joints. With motor encoders only the fitted base
            # parameters, not the full parameters, give the torque of these equations.
            theta = self.estimate.full_vector
        model = assembly.terms.torque(assembly.robot, samples, theta)
        project = torque_projection(assembly.rows, assembly.robot, samples)
        lines = np.concatenate([project(samples.tau).T, project(model).T, samples.q.T, samples.dq.T])
        if len(self.estimate.consistent):
            exported = project(assembly.terms.torque(assembly.robot, samples, self.estimate.consistent))
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
            # A joint that was not measured has no error: its scores have no meaning.
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
    """Dry friction of the last motion and the friction of the model at rest, filtered, each (n_joints, n_samples).

    Both are zero in motion.    filtered: positions (n_joints, n_samples), filtered as torque is.
    index: valid samples.
    """
    resting = at_rest(samples)
    if not resting[:, index].any():
        nothing = np.zeros_like(filtered)
        return nothing, nothing
    # Filters overshoot after a stop, which is not motion.
    ringing = np.where(resting[:, index], np.abs(filtered - samples.q[index].T), 0.0).max(axis=1)
    direction = last_direction(samples, np.maximum(travel, RINGING * ringing))
    lines = dry_friction(assembly.robot, assembly.terms, samples, theta, direction)
    # Filtered separately, so that samples in motion do not change.
    sound, _ = assembly.parallel.apply(
        np.concatenate([resting * line.T for line in lines]), samples.with_left_out
    )
    dry, smooth = (resting[:, index] * part for part in np.split(sound, 2))
    return dry, smooth


def _by_block(residuals: Residuals, seconds: float) -> list[Sums]:
    r, block = residuals, np.floor(residuals.t / seconds)
    ends = (np.diff(r.trajectory) != 0) | (np.diff(r.segment) != 0) | (np.diff(block) != 0)
    parts = np.split(np.arange(len(r.t)), np.flatnonzero(ends) + 1)
    return [
        Sums.of_arrays(r.measured[part], r.predicted[part], None if r.counted is None else r.counted[part])
        for part in parts
    ]
