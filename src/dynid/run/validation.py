"""Scores of a model on the samples of a log, fitted or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.parallel import ordered_map, pass_threads
from dynid.base.progress import Progress
from dynid.base.records import dataclass
from dynid.diagnosis.masking import AtPeak, left_out
from dynid.estimate.bands import Bands
from dynid.estimate.estimator import Estimate
from dynid.estimate.kept_friction import StopSums
from dynid.estimate.residuals import Residuals
from dynid.estimate.scores import LeftOut, MotionRange, Origin, Scores, Sums
from dynid.factor.assemble import Assembly
from dynid.factor.thinning import Stretches
from dynid.kernel import release_memory
from dynid.log.checks import LogWatch
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.held_parts import without_held_parts
from dynid.run.result import Identification, Validation
from dynid.signals.last_motion import last_direction, seen_travel
from dynid.signals.past import WithPast
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import REST, Samples
from dynid.signals.settings import Preparation
from dynid.signals.spill import Spilled
from dynid.terms.at_rest import HALF, dry_friction
from dynid.terms.term import Terms

# Samples beyond it lie in a temporary file: five minutes of a 7-joint arm at 400 samples a second are in memory.
CACHE_BYTES = 30e6
# Samples on which models are compared, and shapes estimated, in dozens of passes: seven minutes of a 7-joint arm at 100
# samples a second, in which every block of time has its part. They cost half of the pass over an hour at 1 kHz.
TRIAL_BYTES = 10e6
# Residuals that are kept: of a longer log those of a stretch of every block. Scores are sums over all samples.
RESIDUAL_BYTES = 20e6
# A block is a sixtieth of the data, but at least so many periods of the highest frequency kept. Where that leaves fewer
# blocks than this, blocks are shorter, down to two periods: twenty give a standard error that is known to a sixth and
# three folds or more of several blocks, and intervals keep their coverage (benchmarks/coverage.py --short).
BLOCKS_WANTED, FEW_BLOCKS = 60, 20
BLOCK_CYCLES, LEAST_CYCLES = 8.0, 2.0
# Times what a second pass of the filters moves positions at rest by: the first one has moved them by about as much, to
# both sides, so that a joint that stands still turns back by less than a width of twice this.
RINGING = 3.0
# Of a log, at rest: above it blocks are of the motion alone. Below it half of them hold motion at least, which are
# enough, and blocks do not change with the seconds before and after a motion.
MOSTLY = 0.5


def validate(
    identification: Identification,
    log: Log,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
    *,
    accept: Sequence[str] = (),
) -> Validation:
    """Scores an identified model on a log, filtered as in the identification.

    A log that the model was fitted on is scored under the name of training data, with a warning.
    accept: codes of claims that are to warn, not to be doubts, beside those accepted in the identification.
    Raises UnfitDataError if the log has no usable sample, UsageError for a code given here that is not found and for a
    log without some of the model's joints.
    """
    diagnostics = diagnostics if diagnostics is not None else Diagnostics()
    diagnostics.accept((*identification.accepted, *accept))
    log = log.of_robot(identification.robot)
    # Of a joint whose equation was left out nothing is known that could be scored.
    counted = zip(log.robot.joint_names, identification.training.scores.count, strict=True)
    log = log.without_efforts([name for name, count in counted if not count])
    settings: Any = identification.preparation["settings"]
    trained: Any = identification.provenance.get("training_data", [])
    origin = origin_of(log, trained, diagnostics)
    found = score_log(
        identification.robot,
        identification.terms,
        identification.estimate,
        log,
        Preparation(**settings),
        diagnostics,
        pass_threads(threads),
        origin,
        None,
        identification.training.scores,
    )
    diagnostics.require_found(accept)
    return found


def block_seconds(prepared: Prepared, wanted: float | None = None, still: float = 0.0) -> float:
    """Length of a block, s.

    wanted: what was asked for; None = from the log.    still: seconds at rest, which are left out of the equations.
    Raises UsageError for less than one period of the cut-off frequency, within which filtered samples are as one.
    """
    # Of a robot that stands most of the time, blocks a sixtieth of the log long would hold all its motion in a few.
    moving = prepared.duration - still
    stands = still > MOSTLY * prepared.duration
    chosen = usual_block(moving if stands else prepared.duration, prepared.bandwidth)
    least = 1.0 / prepared.bandwidth
    if wanted is not None and wanted < least:
        raise UsageError(
            "block-seconds",
            found=f"block_seconds = {wanted:g} s at a cut-off frequency of {prepared.bandwidth:g} Hz",
            expected=f"at least {least:.2g} s, one period: blocks count as independent, and filtered samples that lie "
            "closer together are not",
            do=f"leave it out ({chosen:.3g} s for this log), or take {LEAST_CYCLES * least:.2g} s or more",
        )
    return chosen if wanted is None else wanted


def usual_block(seconds: float, bandwidth: float) -> float:
    """Length of a block, s, of so many seconds of data up to a frequency, Hz.

    A sixtieth of the data, at least eight periods; of a short log a twentieth, at least two periods. What the filter
    correlates is half a period long, and blocks count as independent from four such times on.
    """
    period = 1.0 / bandwidth
    least = min(BLOCK_CYCLES * period, max(seconds / FEW_BLOCKS, LEAST_CYCLES * period))
    return max(seconds / BLOCKS_WANTED, least)


def block_of_motion(batches: Iterable[Samples], bandwidth: float) -> float:
    """Length of a block, s, of some samples of a log, up to a frequency, Hz: by what they hold of motion alone."""
    return usual_block(sum(float(samples.keep.sum()) / samples.rate for samples in batches), bandwidth)


def share_to_choose_on(prepared: Prepared, still: float = 0.0) -> float:
    """The share of a log on which models are compared: its samples take TRIAL_BYTES; 1 = all of it.

    still: seconds at rest, of which no sample is taken.
    """
    return min(TRIAL_BYTES / max(_sample_bytes(prepared, still), 1.0), 1.0)


def share_to_keep(prepared: Prepared) -> float:
    """The share of a log whose residuals are kept: they take RESIDUAL_BYTES; 1 = all of them."""
    rows = prepared.duration * prepared.rate / prepared.parallel_filter().decimation
    return min(RESIDUAL_BYTES / max(rows * 8.0 * (5 * prepared.joints + 3), 1.0), 1.0)


def travel_at_rest(prepared: Prepared, still: float) -> Float | None:
    """By how much joints have to move for it to be seen, (n,), rad (m), of a log with seconds at rest; None without."""
    return seen_travel(prepared) if still > 0 else None


def _sample_bytes(prepared: Prepared, still: float = 0.0) -> float:
    return (prepared.duration - still) * prepared.rate * 8.0 * (4 * prepared.joints + 4)


def read_samples(
    prepared: Prepared,
    diagnostics: Diagnostics,
    balanced: Bool,
    threads: int,
    progress: Callable[[float], None] | None,
) -> tuple[Iterable[Samples], LogSummary, float]:
    """Samples of a log, what was found in it, and the seconds that they leave out as no joint moved.

    All in one pass over the files; none where the effort is cut off.

    Samples are needed several times, for the equations and for the residuals; where they are too many to be kept in
    memory they lie in a temporary file.
    """
    watch, drive = LogWatch(prepared.log, diagnostics, balanced), prepared.log.robot.drive
    expected = _sample_bytes(prepared)
    kept: list[Samples] = []
    spilled = Spilled() if expected >= CACHE_BYTES else None
    still = 0.0
    processed = ordered_map(prepared.process, prepared.windows(watch), threads)
    for samples in WithPast(processed, drive):
        if progress is not None:
            progress(len(samples) / samples.rate)
        still += float(samples.left_out[REST].sum()) / samples.rate
        if spilled is None:
            kept.append(samples)
        else:
            spilled.add(samples)
    release_memory()  # the threads' heaps have grown by what the windows took
    summary = watch.finish()
    period = 1.0 / prepared.bandwidth
    sound = _less_peaks(kept if spilled is None else spilled, summary, period, diagnostics)
    return without_held_parts(sound, summary, prepared.log.robot, period, diagnostics), summary, still


def _less_peaks(
    batches: Iterable[Samples], summary: LogSummary, seconds: float, diagnostics: Diagnostics
) -> Iterable[Samples]:
    cut = np.flatnonzero(np.isfinite(summary.cut_off).any(axis=0))
    if not len(cut):
        return batches
    size = np.max([one.effort for one in summary.trajectories], axis=0)
    why = "effort at its peak (" + ", ".join(summary.joint_names[j] for j in cut) + ")"
    return left_out(batches, AtPeak(summary.cut_off, size, seconds), why, diagnostics) or batches


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
    robot, theta = assembly.robot, estimate.full_vector
    bands, tally = Bands(robot, assembly.terms, estimate), _Tally(robot.n, trained)
    rate = assembly.parallel.rate / assembly.parallel.decimation

    def one(samples: Samples) -> tuple[Samples, Float, Int, Int, _Counted]:
        model = assembly.terms.torque(robot, samples, theta)
        lines = np.concatenate([samples.tau.T, model.T, samples.q.T, samples.dq.T])
        whole = samples.with_left_out
        sound, _ = assembly.parallel.apply(np.ascontiguousarray(lines), whole)
        index = assembly.parallel.kept(whole)
        dry = np.zeros((robot.n, len(index)))
        if travel is not None:
            dry, smooth = _dry_at_rest(assembly, theta, samples, travel, sound[2 * robot.n : 3 * robot.n])
            sound[robot.n : 2 * robot.n] -= smooth
        if samples.measured is not None:
            # Of what was not measured nothing is missed: no figure of the joint has a meaning.
            silent = np.flatnonzero(~samples.measured)
            sound[silent] = sound[robot.n + silent]
            dry[silent] = 0.0
        counted = _Counted.of(samples, index, sound[: 2 * robot.n], dry, rate, trained)
        stretches = Stretches(share, max(round(assembly.block_seconds * samples.rate), 1))
        number = stretches.numbers(samples.segment, samples.first + index)
        kept = samples.keep[index] & (number >= 0)
        if not kept.all():
            sound, index, number = sound[:, kept], index[kept], number[kept]
        std = bands.std(samples, index)
        return samples, np.concatenate([sound, std.T]), index, number, counted

    # Room for all of it where their number is known: the residuals are never there twice.
    room = (
        sum(len(assembly.parallel.kept(samples)) for samples in batches) if isinstance(batches, list) else 0
    )
    gathered = _Gathered(5 * robot.n, room)
    times: list[Float] = []
    trajectory: list[int] = []
    segment: list[int] = []
    names: dict[str, int] = {}
    warmth: list[Float] = []
    runs: dict[tuple[str, int, int], int] = {}
    for samples, kept, at, number, counted in ordered_map(one, batches, threads):
        tally.add(counted)
        if samples.temperature is not None:
            warmth.append(samples.temperature[at])
        index = names.setdefault(samples.trajectory, len(names))
        gathered.add(kept)
        times.append(samples.t[at])
        trajectory += [index] * len(at)
        if share >= 1.0:
            segment += [samples.segment] * len(at)
        else:
            own = ((samples.trajectory, samples.segment, block) for block in number.tolist())
            segment += [runs.setdefault(one, len(runs)) for one in own]
        if progress is not None:
            progress(len(samples) / samples.rate)
    if not tally.count:
        raise UnfitDataError(
            "no-samples", found="no usable sample", expected="motion longer than the filters' edges"
        )
    n = robot.n
    lines = gathered.lines
    residuals = Residuals(
        trajectories=tuple(names),
        joint_names=robot.joint_names,
        t=np.concatenate(times),
        trajectory=np.array(trajectory),
        segment=np.array(segment),
        measured=lines[:n].T,
        predicted=lines[n : 2 * n].T,
        q=lines[2 * n : 3 * n].T,
        dq=lines[3 * n : 4 * n].T,
        std=lines[4 * n :].T,
        rate=rate,
        temperature=np.concatenate(warmth) if warmth else None,
    )
    release_memory()
    left_out = tally.left_out(kept_at_rest)
    blocks = _by_block(residuals, assembly.block_seconds)
    scores = tally.sums.scores(origin, robot.joint_names, tuple(names), left_out, blocks)
    return Validation(replace(scores, motion=tally.motion, beyond=tally.beyond), residuals), left_out


def _dry_at_rest(
    assembly: Assembly, theta: Float, samples: Samples, travel: Float, filtered: Float
) -> tuple[Float, Float]:
    """Dry friction of the last motion and what the model has in its place, filtered, (n, T) each; zero in motion.

    filtered: (n, T) positions of the T sound samples, filtered as torque is.
    """
    whole, stands = samples.with_left_out, _at_rest(samples)
    index = assembly.parallel.kept(whole)
    if not stands[index].any():
        nothing = np.zeros_like(filtered)
        return nothing, nothing
    # Filters swing about a stop, which is no motion.
    ringing = np.abs(filtered - samples.q[index].T)[:, stands[index]].max(axis=1)
    direction = last_direction(samples, np.maximum(travel, RINGING * ringing))
    lines = dry_friction(assembly.robot, assembly.terms, samples, theta, direction)
    # Filtered by itself, so that samples in motion stay as they are.
    sound, _ = assembly.parallel.apply(np.concatenate([stands * line.T for line in lines]), whole)
    dry, smooth = np.split(stands[index] * sound, 2)
    return dry, smooth


def _by_block(residuals: Residuals, seconds: float) -> list[Sums]:
    r, block = residuals, np.floor(residuals.t / seconds)
    ends = (np.diff(r.trajectory) != 0) | (np.diff(r.segment) != 0) | (np.diff(block) != 0)
    parts = np.split(np.arange(len(r.t)), np.flatnonzero(ends) + 1)
    return [Sums.of_arrays(r.measured[part], r.predicted[part]) for part in parts]


@dataclass(frozen=True, eq=False)
class _Counted:
    """What one batch adds to a set of scores beside its residuals.

    sums, left_out: what the model misses on samples that count, and on those that do not.    reasons: their number.
    stops: the dry friction of those at rest, which left_out is without.
    motion: range of those that count, None = there are none.    beyond: (3, n) how many lie outside the training's.
    """

    count: int
    sums: Sums
    left_out: Sums
    stops: StopSums
    reasons: Mapping[str, int]
    motion: MotionRange | None
    beyond: Float

    @staticmethod
    def of(
        samples: Samples, index: Int, torque: Float, dry: Float, rate: float, trained: MotionRange | None
    ) -> _Counted:
        """index: of the T sound samples, rate Hz.    torque: (2 n, T) measured, predicted.    dry: (n, T) at rest."""
        kept, n = samples.keep[index], samples.n
        sound, left = torque[:, kept], torque[:, ~kept]
        moved = tuple(x[index[kept]] for x in (samples.q, samples.dq, samples.ddq))
        return _Counted(
            count=int(kept.sum()),
            sums=Sums.of_arrays(sound[:n].T, sound[n:].T).of_joints(samples.measured),
            left_out=Sums.of_arrays(left[:n].T, left[n:].T).of_joints(samples.measured),
            stops=StopSums.of(torque[:n] - torque[n:], dry, _at_rest(samples)[index], rate),
            reasons={reason: int(mask[index].sum()) for reason, mask in samples.left_out.items()},
            motion=MotionRange.of(*moved) if kept.any() else None,
            beyond=trained.beyond(*moved) if trained is not None else np.zeros((3, n)),
        )


def _at_rest(samples: Samples) -> Bool:
    return samples.left_out.get(REST, np.zeros(len(samples), dtype=np.bool_))


class _Tally:
    """What the batches add up to."""

    def __init__(self, n: int, trained: MotionRange | None) -> None:
        self.motion: MotionRange | None = None
        self._compared = trained is not None
        self.count, self._beyond = 0, np.zeros((3, n))
        self.sums = self._left_out = Sums.of_arrays(np.zeros((0, n)), np.zeros((0, n)))
        self.stops = StopSums.of(np.zeros((n, 0)), np.zeros((n, 0)), np.zeros(0, dtype=np.bool_), 1.0)
        self._reasons: dict[str, int] = {}

    def add(self, one: _Counted) -> None:
        """Adds a batch."""
        self.count += one.count
        self.sums, self._left_out = self.sums + one.sums, self._left_out + one.left_out
        self._beyond += one.beyond
        self.stops += one.stops
        for reason, number in one.reasons.items():
            self._reasons[reason] = self._reasons.get(reason, 0) + number
        if one.motion is not None:
            self.motion = one.motion if self.motion is None else self.motion | one.motion

    def left_out(self, kept_at_rest: Float | None) -> LeftOut:
        """The samples that do not count, of those at rest a share (n,) of the dry friction predicted; None = theirs."""
        everything = self.count + sum(self._reasons.values())
        shares = {reason: number / everything for reason, number in self._reasons.items() if number}
        kept = self.stops.share if kept_at_rest is None else kept_at_rest
        return LeftOut(self.stops.predicted(self._left_out, kept), shares, kept if REST in shares else None)

    @property
    def beyond(self) -> dict[str, Float]:
        """Share of the samples that count outside the training's range, by quantity."""
        if not self._compared:
            return {}
        shares = self._beyond / self.count
        return dict(zip(("position", "velocity", "acceleration"), shares, strict=True))


class _Gathered:
    """Lines (L, T) that grow along T."""

    def __init__(self, lines: int, room: int) -> None:
        self.count = 0
        self._lines = np.empty((lines, room))

    def add(self, part: Float) -> None:
        """Appends a part (L, T_i)."""
        end = self.count + part.shape[1]
        if end > self._lines.shape[1]:
            grown = np.empty((len(self._lines), max(end, 2 * self._lines.shape[1])))
            grown[:, : self.count] = self.lines
            self._lines = grown
        self._lines[:, self.count : end] = part
        self.count = end

    @property
    def lines(self) -> Float:
        """All of it, (L, T)."""
        return self._lines[:, : self.count]


def origin_of(log: Log, trained: list[list[Any]], diagnostics: Diagnostics) -> Origin:
    """What a log is to a model fitted on `trained` (sha256, row, start, end): held out, or training data after all."""
    shared = [
        t.name
        for t, (sha, row, start, end) in zip(log.trajectories, log.identity(), strict=True)
        if any(sha == s and row == r and start < e and end > b for s, r, b, e in trained)
    ]
    if not shared:
        return Origin.HELD_OUT_LOG
    diagnostics.warn(
        "training-is-validation",
        f"{', '.join(shared[:4])} served for fitting as well, so these scores are not called validation",
    )
    return Origin.TRAINING


def score_log(
    robot: RobotModel,
    terms: Terms,
    estimate: Estimate,
    log: Log,
    preparation: Preparation,
    diagnostics: Diagnostics,
    threads: int,
    origin: Origin,
    progress: Progress | None,
    training: Scores,
) -> Validation:
    """Torque scores of an estimate on a log that is prepared like the training log, on its own time grid.

    training: scores on the log that was fitted, whose range of motion and share of friction kept at rest are taken.
    """
    # Filtered as in training; the time grid is this log's own.
    prepared = prepare(log, replace(preparation, rate=None), diagnostics)
    nothing = np.zeros(len(estimate.columns), dtype=np.bool_)
    batches, summary, still = read_samples(
        prepared, diagnostics, terms.balances(robot), threads, stage(progress, "validation")
    )
    seconds = block_seconds(prepared, still=still)
    assembly = Assembly(robot, terms, TorqueRows(), nothing, prepared.parallel_filter(), seconds)
    share, travel = share_to_keep(prepared), travel_at_rest(prepared, still)
    kept = training.kept_at_rest if training.kept_at_rest is not None else np.full(robot.n, HALF)
    found = score(assembly, estimate, batches, origin, threads, None, training.motion, share, travel, kept)[0]
    return found.with_rest(summary.at_rest)


def stage(progress: Progress | None, name: str) -> Callable[[float], None] | None:
    """The part of a progress callback that counts the seconds of one stage."""
    if progress is None:
        return None
    return lambda seconds: progress(name, seconds)
