"""Scores and residuals of an estimate on samples, filtered as its equations are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.base.parallel import ordered_map
from dynid.base.records import dataclass
from dynid.estimate.bands import Bands
from dynid.estimate.estimator import Estimate
from dynid.estimate.residuals import Residuals
from dynid.estimate.scores import LeftOut, MotionRange, Origin, Sums
from dynid.factor.assemble import Assembly
from dynid.factor.thinning import Stretches
from dynid.kernel import release_memory
from dynid.run.residual_rows import ResidualRows
from dynid.run.result import Validation
from dynid.run.score_sums import Counted, Tally, at_rest, kept_sums, opened_equations
from dynid.signals.last_motion import last_direction
from dynid.signals.samples import Samples
from dynid.terms.at_rest import dry_friction

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
