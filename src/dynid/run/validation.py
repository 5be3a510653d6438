"""Scores of a model on the samples of a log, fitted or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, SpilledRecords
from dynid.base.diagnostics import Diagnostics
from dynid.base.parallel import Progress, ordered_map, pass_threads
from dynid.base.records import dataclass, listed
from dynid.diagnosis.masking import AtPeak, left_out
from dynid.estimate.estimator import Estimate
from dynid.estimate.scores import Origin, Residuals, Scores
from dynid.factor.assemble import Assembly
from dynid.factor.blocking import Blocking
from dynid.kernel import release_memory
from dynid.log.checks import LogWatch
from dynid.log.joints import STILL
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import Rest, block_seconds, sample_bytes, share_to_keep
from dynid.run.result import Identification, Validation
from dynid.run.scoring import score
from dynid.run.verdict import SAME_MOTION
from dynid.signals.effort_at_rest import efforts_at_rest, unexplained_joints
from dynid.signals.filter import low_passed
from dynid.signals.first_look import EVIDENCE_SAMPLES
from dynid.signals.noise import seen_travel
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.repetition import Motion, same_motion
from dynid.signals.samples import BRIEF_BINS, REST, Samples, Stand, WithPast, stands
from dynid.signals.settings import Preparation
from dynid.terms.friction import HALF
from dynid.terms.term import Terms

# Joints that stand still for a time, held there by a brake or by friction: their equations are left out
# there.

_NAMED = 5
# Of the low pass that joints are told to stand by: the equations' own where nobody names another.
SMOOTHING_ORDER = 4
# s, for which a joint is as slow as at rest, from which on it stands.
LEAST_REST = 0.2
# Why samples are left out in which no joint's equation is left.
STOPPED = "stopped by brakes"


@dataclass(frozen=True, eq=False)
class _Shut:
    """Batches without the equations of some joints, (n,) by trajectory."""

    batches: Iterable[Samples]
    shut: dict[str, Bool]

    def __iter__(self) -> Iterator[Samples]:
        return (self.of(samples) for samples in self.batches)

    def of(self, samples: Samples) -> Samples:
        """A batch without them; all have gates then, or none."""
        closed = self.shut.get(samples.trajectory)
        return _without(samples, np.zeros(samples.n, dtype=np.bool_) if closed is None else closed)


@dataclass(frozen=True, eq=False)
class _ShutAtTimes:
    """Batches without the equations of joints while these stand.    seconds: to either side, that filters reach."""

    batches: Iterable[Samples]
    stands: tuple[Stand, ...]
    seconds: float

    def __iter__(self) -> Iterator[Samples]:
        return (part for samples in self.batches for part in self.of(samples))

    def of(self, samples: Samples) -> Iterator[Samples]:
        """The batch as many times as other joints are shut in it, each time with its own samples that count."""
        closed = np.zeros(samples.q.shape, dtype=np.bool_)
        for one in self.stands:
            if one.trajectory == samples.trajectory:
                near = (samples.t >= one.start - self.seconds) & (samples.t <= one.end + self.seconds)
                closed[near, one.joint] = True
        nothing = np.asarray(closed.all(axis=1))
        if nothing.any():
            samples = replace(
                samples,
                keep=samples.keep & ~nothing,
                left_out={**samples.left_out, STOPPED: samples.keep & nothing},
            )
        edges = np.flatnonzero((closed[1:] != closed[:-1]).any(axis=1)) + 1
        for a, b in zip([0, *edges], [*edges, len(samples)], strict=True):
            own = np.zeros(len(samples), dtype=np.bool_)
            own[a:b] = True
            left_out = {reason: mask & own for reason, mask in samples.left_out.items()}
            if len(edges) and not (samples.keep[a:b].any() or any(m.any() for m in left_out.values())):
                continue
            shut = closed[a] & ~nothing[a]
            yield _without(replace(samples, keep=samples.keep & own, left_out=left_out), shut)


@dataclass(frozen=True, eq=False)
class _ShutAtRest:
    """Batches without the equations of joints while friction holds them.

    below: (n,) speeds, nan = never.    seconds: to either side, that filters reach.    smoothing: as of `_Smoothed`.
    """

    batches: Iterable[Samples]
    below: Float
    seconds: float
    smoothing: float

    def __iter__(self) -> Iterator[Samples]:
        return (self.of(samples) for samples in self.batches)

    def of(self, samples: Samples) -> Samples:
        """A batch with the gates of these joints shut where they stand."""
        # Not where a joint turns back, which it does slowly for a moment.
        least = max(1, round(LEAST_REST * samples.rate))
        reach = round(self.seconds * samples.rate)
        gate = np.ones(samples.q.shape, dtype=np.bool_) if samples.gate is None else np.array(samples.gate)
        dq = _smoothed(samples, self.smoothing).dq
        for j in np.flatnonzero(np.isfinite(self.below)):
            slow = np.abs(dq[:, j]) <= self.below[j]
            edges = np.flatnonzero(np.diff(slow, prepend=False, append=False))
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                if b - a >= least:
                    gate[max(a - reach, 0) : b + reach, j] = False
        return replace(samples, gate=gate)


@dataclass(frozen=True, eq=False)
class _Smoothed:
    """Batches with motion behind a low pass of a period of `seconds`, 0 = as it is.

    Positions may be filtered less than the equations; what then is left of their noise is no motion of a joint that
    stands.
    """

    batches: Iterable[Samples]
    seconds: float

    def __iter__(self) -> Iterator[Samples]:
        return (_smoothed(samples, self.seconds) for samples in self.batches)


def _smoothed(samples: Samples, seconds: float) -> Samples:
    if not seconds > 0.0:
        return samples
    cutoffs = [1.0 / seconds] * samples.n
    q, dq = (low_passed(x.T, cutoffs, SMOOTHING_ORDER, samples.rate).T for x in (samples.q, samples.dq))
    return replace(samples, q=np.ascontiguousarray(q), dq=np.ascontiguousarray(dq))


@dataclass(frozen=True, eq=False)
class _StandsCount:
    """Batches in which stands of all joints count as well, or the middle of each.

    seconds: of a period of the cut-off, in half of which there is about one independent value: of a joint that a part
    of friction holds a stand tells no more. None = stands count as motion does.
    """

    batches: Iterable[Samples]
    seconds: float | None

    def __iter__(self) -> Iterator[Samples]:
        return (self.of(samples) for samples in self.batches)

    def of(self, samples: Samples) -> Samples:
        """A batch with them."""
        rest = samples.left_out.get(REST)
        if rest is None:
            return samples
        counts = rest if self.seconds is None else _middles(rest, samples.rate, self.seconds)
        left_out = {**samples.left_out, REST: rest & ~counts}
        return replace(samples, keep=samples.keep | counts, left_out=left_out)


def _middles(rest: Bool, rate: float, seconds: float) -> Bool:
    """Half of so many seconds in the middle of each stand, (T,), but of those that are too short to be one."""
    least, half = max(1, round(LEAST_REST * rate)), max(1, round(0.25 * seconds * rate))
    edges = np.flatnonzero(np.diff(rest, prepend=False, append=False))
    middle = np.zeros_like(rest)
    for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if b - a >= least:
            middle[max((a + b) // 2 - half, a) : min((a + b) // 2 + half, b)] = True
    return middle


def _without(samples: Samples, closed: Bool) -> Samples:
    measured = ~closed if samples.measured is None else samples.measured & ~closed
    gate = np.broadcast_to(measured, samples.q.shape)
    return replace(
        samples, measured=measured, gate=np.array(gate) if samples.gate is None else samples.gate & gate
    )


def _evidence(batches: Iterable[Samples], names: Collection[str]) -> dict[str, list[Samples]]:
    # The first samples of some trajectories.
    found: dict[str, list[Samples]] = {name: [] for name in names}
    for samples in batches if names else ():
        own = found.get(samples.trajectory)
        if own is not None and sum(map(len, own)) < EVIDENCE_SAMPLES:
            own.append(samples)
    return found


def without_held_parts(
    batches: Iterable[Samples],
    summary: LogSummary,
    robot: RobotModel,
    seconds: float,
    keep_rest: bool,
    diagnostics: Diagnostics,
    smoothing: float = 0.0,
) -> Iterable[Samples]:
    """Batches without the equations of joints where a brake or friction holds them, with a warning or a note.

    They stand still there, throughout a trajectory or for a part of it, move elsewhere, and their effort is not the
    torque of what they carry.
    seconds: to either side of such a part, that filters reach.    keep_rest: whether friction at rest is no reason.
    smoothing: s, of a period of the low pass by which joints are told to stand, 0 = none.
    """
    still = {one.name: one.upper - one.lower <= STILL for one in summary.trajectories}
    asked = {name for name, own in still.items() if (own & summary.moved).any() and not own.all()}
    shut = {
        name: found
        for name, parts in _evidence(batches, asked).items()
        if (found := unexplained_joints(robot, parts, ~still[name], still[name] & summary.moved)).any()
    }
    if shut:
        _warn_of_trajectories(robot, shut, diagnostics)
        less = _Shut(batches, shut)
        batches = [less.of(samples) for samples in batches] if isinstance(batches, list) else less
    return _without_stands(batches, robot, seconds, keep_rest, diagnostics, smoothing)


def _without_stands(
    batches: Iterable[Samples],
    robot: RobotModel,
    seconds: float,
    keep_rest: bool,
    diagnostics: Diagnostics,
    smoothing: float,
) -> Iterable[Samples]:
    smooth = _Smoothed(batches, smoothing)
    found = efforts_at_rest(robot, smooth, stands(smooth), stands(smooth, BRIEF_BINS))
    if found.not_carried:
        _warn_of_stands(robot, found.not_carried, diagnostics)
        shut = _ShutAtTimes(batches, found.not_carried, seconds)
        batches = (
            [part for samples in batches for part in shut.of(samples)] if isinstance(batches, list) else shut
        )
    # A log without any motion is refused as such.
    if (found.free or found.nearly_free) and not keep_rest and any(samples.keep.any() for samples in batches):
        what = "stands count as motion does"
        if found.nearly_free:
            what = "they are so nearly, and the middle of each stand counts in the fit"
        diagnostics.note(
            "free-at-rest",
            f"efforts at rest are those of the bodies alone, as of torque sensors behind the gears: {what}",
        )
        count = _StandsCount(batches, None if found.free else seconds)
        batches = [count.of(samples) for samples in batches] if isinstance(batches, list) else count
    held = np.isfinite(found.held_below)
    if held.any() and not keep_rest:
        names = ", ".join(f"'{robot.joint_names[j]}'" for j in np.flatnonzero(held))
        diagnostics.note(
            "held-by-friction",
            f"{names}: friction at rest may take any value up to its limit, and holds a part of the load here: where "
            "these stand, their equations are left out",
        )
        less = _ShutAtRest(batches, found.held_below, seconds, smoothing)
        batches = [less.of(samples) for samples in batches] if isinstance(batches, list) else less
    return batches


def _warn_of_stands(robot: RobotModel, found: Sequence[Stand], diagnostics: Diagnostics) -> None:
    by_joints: dict[tuple[int, ...], list[Stand]] = {}
    for group in _at_once(found):
        by_joints.setdefault(tuple(sorted({one.joint for one in group})), []).append(_spanned(group))
    for joints, times in by_joints.items():
        many = len(joints) > 1
        who = "joints" if many else "joint"
        who += " " + ", ".join(f"'{robot.joint_names[j]}'" for j in joints)
        who += (" stand" if many else " stands") + " still at "
        who += ", ".join(f"{one.start:.2f} to {one.end:.2f} s" for one in times[:_NAMED])
        who += f" and {len(times) - _NAMED} times more" if len(times) > _NAMED else ""
        names = list(dict.fromkeys(f"'{one.trajectory}'" for one in times))
        diagnostics.warn("held-in-part", _words(f"{who} of {', '.join(names[:_NAMED])}", many))


def _warn_of_trajectories(robot: RobotModel, shut: dict[str, Bool], diagnostics: Diagnostics) -> None:
    for j in np.flatnonzero(np.any(list(shut.values()), axis=0)).tolist():
        named = [f"'{name}'" for name, joints in shut.items() if joints[j]]
        shown = ", ".join(named[:_NAMED]) + (
            f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        )
        diagnostics.warn(
            "held-in-part", _words(f"joint '{robot.joint_names[j]}' stands still in {shown}", False)
        )


def _words(standing: str, many: bool) -> str:
    if many:
        return (
            f"{standing}, and their efforts there are not the torques of what they carry, as where brakes or friction "
            "hold them: their equations are left out there"
        )
    return (
        f"{standing}, and its effort there is not the torque of what it carries, as where a brake or friction holds "
        "it: its equation is left out there"
    )


def _at_once(found: Sequence[Stand]) -> Iterator[list[Stand]]:
    # Stands that overlap, in the order of their starts.
    group: list[Stand] = []
    for one in found:
        apart = not group or one.trajectory != group[0].trajectory
        if apart or one.start > max(other.end for other in group):
            if group:
                yield group
            group = []
        group.append(one)
    if group:
        yield group


def _spanned(group: Sequence[Stand]) -> Stand:
    return replace(group[0], start=min(one.start for one in group), end=max(one.end for one in group))


# Whether held-out data go through the motion that a model was fitted on.


def note_same_motion(training: Validation, unseen: Validation, diagnostics: Diagnostics) -> None:
    """Notes held-out trajectories that go through a motion of the training; scores without residuals are left alone."""
    if training.residuals is None or unseen.residuals is None or unseen.scores.origin is Origin.TRAINING:
        return
    found = same_motion(_motions(training.residuals), _motions(unseen.residuals))
    if found:
        held_out, fitted = (
            listed([f"'{name}'" for name in dict.fromkeys(names)]) for names in (found, found.values())
        )
        diagnostics.note(
            SAME_MOTION,
            f"What is held out ({held_out}) goes through the motion that the model was fitted on ({fitted}): what it "
            "misses of another motion is not seen there; validate on another (--validate) to see it.",
        )


def _motions(residuals: Residuals) -> dict[str, Motion]:
    found: dict[str, Motion] = {}
    for k, name in enumerate(residuals.trajectories):
        own = np.flatnonzero(residuals.trajectory == k)
        if len(own):
            # Of one segment alone: the clock runs on without a gap there.
            own = own[residuals.segment[own] == residuals.segment[own[0]]]
            found[name] = Motion(residuals.t[own], residuals.q[own], residuals.dq[own], residuals.rate)
    return found


# Samples beyond it lie in a temporary file: five minutes of a 7-joint arm at 400 samples a second are in memory.
CACHE_BYTES = 30e6


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
    note_same_motion(identification.training, found, diagnostics)
    diagnostics.require_found(accept)
    return found


def travel_at_rest(prepared: Prepared, still: float, batches: Iterable[Samples]) -> Float | None:
    """By how much joints have to move for it to be seen, (n,), rad (m), of a log in which some rest; None without.

    still: seconds in which all do, that are left out.
    batches: of which all have gates, or none, that are shut where one joint rests.
    """
    first = next(iter(batches), None)
    return seen_travel(prepared) if still > 0 or (first is not None and first.gate is not None) else None


def read_samples(
    prepared: Prepared,
    diagnostics: Diagnostics,
    balanced: Bool,
    threads: int,
    progress: Callable[[float], None] | None,
) -> tuple[Iterable[Samples], LogSummary, Rest]:
    """Samples of a log, what was found in it, and how long no joint moved.

    All in one pass over the files; none where the effort is cut off.

    Samples are needed several times, for the equations and for the residuals; where they are too many to be kept in
    memory they lie in a temporary file.
    """
    watch, drive = LogWatch(prepared.log, diagnostics, balanced), prepared.log.robot.drive
    expected = sample_bytes(prepared)
    kept: list[Samples] = []
    spilled = SpilledRecords(Samples) if expected >= CACHE_BYTES else None
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
    keep_rest = prepared.settings.rest <= 0.0
    if prepared.gated_at_rest:
        # What stands by the way of others is in motion here; `gate` leaves out joints that stand while others move.
        return sound, summary, Rest(still, still)
    sharp = max(prepared.settings.state_cutoffs(prepared.log.robot.n)) > prepared.bandwidth
    smoothing = period if sharp else 0.0
    sound = without_held_parts(sound, summary, prepared.log.robot, period, keep_rest, diagnostics, smoothing)
    # Whether stands count is known now.
    left = sum(float(samples.left_out[REST].sum()) / samples.rate for samples in sound) if still > 0 else 0.0
    return sound, summary, Rest(still, left)


def _less_peaks(
    batches: Iterable[Samples], summary: LogSummary, seconds: float, diagnostics: Diagnostics
) -> Iterable[Samples]:
    cut = np.flatnonzero(np.isfinite(summary.cut_off).any(axis=0))
    if not len(cut):
        return batches
    size = np.max([one.effort for one in summary.trajectories], axis=0)
    why = "effort at its peak (" + ", ".join(summary.joint_names[j] for j in cut) + ")"
    return left_out(batches, AtPeak(summary.cut_off, size, seconds), why, diagnostics) or batches


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
    batches, summary, rest = read_samples(
        prepared, diagnostics, terms.balances(robot), threads, stage(progress, "validation")
    )
    seconds = block_seconds(prepared, still=rest.seconds)
    assembly = Assembly(robot, terms, TorqueRows(), nothing, prepared.parallel_filter(), Blocking(seconds))
    share, travel = share_to_keep(prepared), travel_at_rest(prepared, rest.left_out, batches)
    kept = training.kept_at_rest if training.kept_at_rest is not None else np.full(robot.n, HALF)
    found = score(assembly, estimate, batches, origin, threads, None, training.motion, share, travel, kept)[0]
    return found.with_rest(summary.at_rest)


def stage(progress: Progress | None, name: str) -> Callable[[float], None] | None:
    """The part of a progress callback that counts the seconds of one stage."""
    if progress is None:
        return None
    return lambda seconds: progress(name, seconds)
