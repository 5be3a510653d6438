"""Scores of a model on the samples of a log, fitted or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, SpilledRecords
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.base.parallel import Progress, ordered_map, pass_threads
from dynid.base.records import dataclass, listed
from dynid.diagnosis.masking import AtPeak, left_out
from dynid.estimate.estimator import Estimate
from dynid.estimate.prediction import motion_of
from dynid.estimate.scores import Origin, Residuals, Scores
from dynid.factor.assemble import Assembly
from dynid.factor.blocking import Blocking
from dynid.kernel import release_memory
from dynid.log.checks import LogWatch
from dynid.log.joints import STILL
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.robot.load import with_fixed_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import Rest, block_seconds, sample_bytes, share_to_keep
from dynid.run.floating import read_floating, stored_rows
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

# A brake or friction may carry the load of a joint at rest, so its effort is not the torque of the links: its equations
# are left out there.

_NAMED = 5
# Order of the low pass by which rest is detected: that of the filter of the equations by default.
SMOOTHING_ORDER = 4
# s: a joint that is slow for at least this time is at rest; shorter times are reversals.
LEAST_REST = 0.2
# Reason given for samples without the equation of any joint.
STOPPED = "stopped by brakes"


@dataclass(frozen=True, eq=False)
class _WithoutJoints:
    """Batches without the equations of some joints: a mask (n_joints,) for each trajectory."""

    batches: Iterable[Samples]
    left_out: dict[str, Bool]

    def __iter__(self) -> Iterator[Samples]:
        return (self.of(samples) for samples in self.batches)

    def of(self, samples: Samples) -> Samples:
        """A batch without these equations; either all batches get gates or none."""
        closed = self.left_out.get(samples.trajectory)
        return _without(samples, np.zeros(samples.n, dtype=np.bool_) if closed is None else closed)


@dataclass(frozen=True, eq=False)
class _WithoutStands:
    """Batches without the equations of joints while these are at rest; seconds: reach of the filters, s."""

    batches: Iterable[Samples]
    stands: tuple[Stand, ...]
    seconds: float

    def __iter__(self) -> Iterator[Samples]:
        return (part for samples in self.batches for part in self.of(samples))

    def of(self, samples: Samples) -> Iterator[Samples]:
        """The batch once for every set of joints left out in it, each with its own samples that count."""
        closed = np.zeros(samples.q.shape, dtype=np.bool_)
        for stand in self.stands:
            if stand.trajectory == samples.trajectory:
                near = (samples.t >= stand.start - self.seconds) & (samples.t <= stand.end + self.seconds)
                closed[near, stand.joint] = True
        nothing = np.asarray(closed.all(axis=1))
        if nothing.any():
            samples = replace(
                samples,
                keep=samples.keep & ~nothing,
                left_out={**samples.left_out, STOPPED: samples.keep & nothing},
            )
        edges = np.flatnonzero((closed[1:] != closed[:-1]).any(axis=1)) + 1
        for a, b in zip([0, *edges], [*edges, len(samples)], strict=True):
            part = np.zeros(len(samples), dtype=np.bool_)
            part[a:b] = True
            left_out = {reason: mask & part for reason, mask in samples.left_out.items()}
            if len(edges) and not (samples.keep[a:b].any() or any(m.any() for m in left_out.values())):
                continue
            without = closed[a] & ~nothing[a]
            yield _without(replace(samples, keep=samples.keep & part, left_out=left_out), without)


@dataclass(frozen=True, eq=False)
class _WithoutRest:
    """Batches without the equations of joints while friction carries their load at rest.

    below: speed below which a joint counts as at rest, (n_joints,), nan = never.    seconds: reach of the filters, s.
    smoothing: as in `_Smoothed`.
    """

    batches: Iterable[Samples]
    below: Float
    seconds: float
    smoothing: float

    def __iter__(self) -> Iterator[Samples]:
        return (self.of(samples) for samples in self.batches)

    def of(self, samples: Samples) -> Samples:
        """A batch with the gates of these joints closed while they are at rest."""
        # A joint that reverses is slow for a moment as well, so short times do not count.
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
    """Batches with low-passed motion; seconds: period of the cutoff frequency, 0 = unfiltered.

    Positions may be filtered less than the equations: the noise left in them is not motion of a joint at rest.
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
class _CountingRest:
    """Batches in which rest of all joints counts as well, or the middle of each time at rest.

    seconds: period of the cutoff frequency; half of it contains about one independent value, which is all the
    information in a dwell if friction carries a part of the load. None = samples at rest count like motion.
    """

    batches: Iterable[Samples]
    seconds: float | None

    def __iter__(self) -> Iterator[Samples]:
        return (self.of(samples) for samples in self.batches)

    def of(self, samples: Samples) -> Samples:
        """A batch that counts rest."""
        rest = samples.left_out.get(REST)
        if rest is None:
            return samples
        counts = rest if self.seconds is None else _middle_of_rest(rest, samples.rate, self.seconds)
        left_out = {**samples.left_out, REST: rest & ~counts}
        return replace(samples, keep=samples.keep | counts, left_out=left_out)


def _middle_of_rest(rest: Bool, rate: float, seconds: float) -> Bool:
    """Mask (n_samples,) of half of `seconds` in the middle of each time at rest that is long enough."""
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
    # The first samples of each trajectory are enough.
    evidence: dict[str, list[Samples]] = {name: [] for name in names}
    for samples in batches if names else ():
        parts = evidence.get(samples.trajectory)
        if parts is not None and sum(map(len, parts)) < EVIDENCE_SAMPLES:
            parts.append(samples)
    return evidence


def without_held_parts(
    batches: Iterable[Samples],
    summary: LogSummary,
    robot: RobotModel,
    seconds: float,
    keep_rest: bool,
    diagnostics: Diagnostics,
    smoothing: float = 0.0,
) -> Iterable[Samples]:
    """Leave out the equations of joints while a brake or friction carries their load, with a warning or a note.

    Such joints are at rest throughout a trajectory or in a part of it, move elsewhere, and have an effort at rest that
    is not the torque of the links.

    `batches`: prepared samples; `seconds` in s: reach of the filters to either side of a time at rest; `keep_rest`:
    whether rest counts despite friction; `diagnostics`: collects warnings and notes; `smoothing` in s: period of the
    cutoff frequency of the low pass by which rest is detected; 0 = none.
    """
    still = {
        trajectory.name: trajectory.upper - trajectory.lower <= STILL for trajectory in summary.trajectories
    }
    asked = {name for name, at_rest in still.items() if (at_rest & summary.moved).any() and not at_rest.all()}
    left_out = {
        name: unexplained
        for name, parts in _evidence(batches, asked).items()
        if (unexplained := unexplained_joints(robot, parts, ~still[name], still[name] & summary.moved)).any()
    }
    if left_out:
        _warn_of_trajectories(robot, left_out, diagnostics)
        less = _WithoutJoints(batches, left_out)
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
    efforts = efforts_at_rest(robot, smooth, stands(smooth), stands(smooth, BRIEF_BINS))
    if efforts.not_carried:
        _warn_of_stands(robot, efforts.not_carried, diagnostics)
        without = _WithoutStands(batches, efforts.not_carried, seconds)
        batches = (
            [part for samples in batches for part in without.of(samples)]
            if isinstance(batches, list)
            else without
        )
    # A log without any motion is rejected elsewhere.
    if (
        (efforts.free or efforts.nearly_free)
        and not keep_rest
        and any(samples.keep.any() for samples in batches)
    ):
        treatment = "rest is fitted like motion"
        if efforts.nearly_free:
            treatment = "this holds approximately, so the middle of each time at rest is fitted"
        diagnostics.note(
            "free-at-rest",
            f"efforts at rest have no friction, as with torque sensors at the joint output: {treatment}",
        )
        count = _CountingRest(batches, None if efforts.free else seconds)
        batches = [count.of(samples) for samples in batches] if isinstance(batches, list) else count
    by_friction = np.isfinite(efforts.held_below)
    if by_friction.any() and not keep_rest:
        names = ", ".join(f"'{robot.joint_names[j]}'" for j in np.flatnonzero(by_friction))
        diagnostics.note(
            "held-by-friction",
            f"{names}: at rest, friction carries a part of the load (it may take any value up to its limit), so the "
            "equations at rest are left out",
        )
        less = _WithoutRest(batches, efforts.held_below, seconds, smoothing)
        batches = [less.of(samples) for samples in batches] if isinstance(batches, list) else less
    return batches


def _warn_of_stands(robot: RobotModel, unexplained: Sequence[Stand], diagnostics: Diagnostics) -> None:
    by_joints: dict[tuple[int, ...], list[Stand]] = {}
    for group in _overlapping(unexplained):
        by_joints.setdefault(tuple(sorted({stand.joint for stand in group})), []).append(_joined_stand(group))
    for joints, times in by_joints.items():
        many = len(joints) > 1
        subject = "joints" if many else "joint"
        subject += " " + ", ".join(f"'{robot.joint_names[j]}'" for j in joints)
        subject += (" are" if many else " is") + " at rest at "
        subject += ", ".join(f"{stand.start:.2f} to {stand.end:.2f} s" for stand in times[:_NAMED])
        subject += f" and {len(times) - _NAMED} times more" if len(times) > _NAMED else ""
        names = list(dict.fromkeys(f"'{stand.trajectory}'" for stand in times))
        diagnostics.warn("held-in-part", _effort_at_rest(f"{subject} of {', '.join(names[:_NAMED])}", many))


def _warn_of_trajectories(robot: RobotModel, left_out: dict[str, Bool], diagnostics: Diagnostics) -> None:
    for j in np.flatnonzero(np.any(list(left_out.values()), axis=0)).tolist():
        named = [f"'{name}'" for name, joints in left_out.items() if joints[j]]
        shown = ", ".join(named[:_NAMED]) + (
            f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        )
        diagnostics.warn(
            "held-in-part", _effort_at_rest(f"joint '{robot.joint_names[j]}' is at rest in {shown}", False)
        )


def _effort_at_rest(subject: str, many: bool) -> str:
    if many:
        return (
            f"{subject}, and their efforts there are not the torques of the links (brakes or friction may carry the "
            "load): their equations are left out there"
        )
    return (
        f"{subject}, and its effort there is not the torque of the links (a brake or friction may carry the load): its "
        "equation is left out there"
    )


def _overlapping(every_stand: Sequence[Stand]) -> Iterator[list[Stand]]:
    # Groups of times at rest that overlap, in the order of their starts.
    group: list[Stand] = []
    for stand in every_stand:
        apart = not group or stand.trajectory != group[0].trajectory
        if apart or stand.start > max(other.end for other in group):
            if group:
                yield group
            group = []
        group.append(stand)
    if group:
        yield group


def _joined_stand(group: Sequence[Stand]) -> Stand:
    return replace(group[0], start=min(stand.start for stand in group), end=max(stand.end for stand in group))


# Whether held-out data repeat the motion that a model was fitted to.


def note_same_motion(training: Validation, held_out_set: Validation, diagnostics: Diagnostics) -> None:
    """Note held-out trajectories that repeat a training motion.

    `training`: scores on the fitted data; ignored without residuals; `held_out_set`: scores on held-out data; ignored
    without residuals; `diagnostics`: gets the note.
    """
    if (
        training.residuals is None
        or held_out_set.residuals is None
        or held_out_set.scores.origin is Origin.TRAINING
    ):
        return
    matches = same_motion(_motions(training.residuals), _motions(held_out_set.residuals))
    if matches:
        held_out, fitted = (
            listed([f"'{name}'" for name in dict.fromkeys(names)]) for names in (matches, matches.values())
        )
        diagnostics.note(
            SAME_MOTION,
            f"The held-out data ({held_out}) repeat the training motion ({fitted}), so they do not show the error on "
            "other motions. Validate on another motion (--validate).",
        )


def _motions(residuals: Residuals) -> dict[str, Motion]:
    motions: dict[str, Motion] = {}
    for k, name in enumerate(residuals.trajectories):
        rows = np.flatnonzero(residuals.trajectory == k)
        if len(rows):
            # One segment only, because time has no gaps within it.
            rows = rows[residuals.segment[rows] == residuals.segment[rows[0]]]
            motions[name] = Motion(residuals.t[rows], residuals.q[rows], residuals.dq[rows], residuals.rate)
    return motions


# bytes: larger logs are kept in a temporary file. Five minutes of a 7-joint arm at 400 Hz fit into memory.
CACHE_BYTES = 30e6


def validate(
    identification: Identification,
    log: Log,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
    *,
    accept: Sequence[str] = (),
) -> Validation:
    """Score an identified model on a log that is filtered as in the identification.

    A log that the model was fitted to is scored as training data, with a warning.

    Parameters
    ----------
    identification : Identification
        The finished identification.
    log : Log
        The log.
    diagnostics : Diagnostics, optional
        Collects warnings and notes.
    threads : int, optional
        Number of threads; results do not depend on it.
    accept : sequence of str
        Codes of doubts to accept, in addition to those accepted in the identification.

    Returns
    -------
    Validation

    Raises
    ------
    UnfitDataError
        If the log has no usable sample.
    UsageError
        For an accepted code that does not occur, or a log without some of the model's joints.

    """
    diagnostics = diagnostics if diagnostics is not None else Diagnostics()
    diagnostics.accept((*identification.accepted, *accept))
    log = log.of_robot(with_fixed_base(identification.robot))
    if identification.robot.floats:
        result = _score_floating(identification, log, diagnostics, pass_threads(threads))
        note_same_motion(identification.training, result, diagnostics)
        diagnostics.require_found(accept)
        return result
    # A joint whose equations were left out has no model to score.
    counted = zip(log.robot.joint_names, identification.training.scores.count, strict=True)
    log = log.without_efforts([name for name, count in counted if not count])
    settings: Any = identification.preparation["settings"]
    trained: Any = identification.provenance.get("training_data", [])
    origin = origin_of(log, trained, diagnostics)
    result = score_log(
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
    note_same_motion(identification.training, result, diagnostics)
    diagnostics.require_found(accept)
    return replace(result, expected=_expected(identification, result.residuals))


def _expected(identification: Identification, residuals: Residuals | None) -> float | None:
    """Torque error that the fit expects on the motion of these residuals; None = not predicted."""
    if residuals is None or identification.forecast is None:
        return None
    motion = motion_of(residuals)
    return identification.forecast.relative(motion, np.zeros(motion.q.shape, dtype=np.bool_))


def _score_floating(
    identification: Identification, log: Log, diagnostics: Diagnostics, threads: int
) -> Validation:
    # Errors of projected torque, with the weights of the fit.
    if log.channels.base is None:
        raise UsageError(
            "no-imu",
            found="a model with a floating base and a log without IMU",
            expected="the motion of the base: angular velocity and acceleration",
            do="log the IMU and map its columns under [log.imu]",
        )
    robot, estimate = identification.robot, identification.estimate
    settings: Any = identification.preparation["settings"]
    trained: Any = identification.provenance.get("training_data", [])
    origin = origin_of(log, trained, diagnostics)
    # The sampling rate of the training log may differ from this one.
    preparation = replace(Preparation(**settings), rate=None)
    data, batches, summary = read_floating(log, robot, preparation, diagnostics)
    stored: Any = identification.preparation.get("rows", {})
    assembly = Assembly(
        robot,
        identification.terms,
        stored_rows(stored, data.contacts),
        np.zeros(len(estimate.columns), dtype=np.bool_),
        data.prepared.parallel_filter(),
        Blocking(block_seconds(data.prepared, still=0.0)),
    )
    motion = identification.training.scores.motion
    return score(assembly, estimate, batches, origin, threads, None, motion)[0].with_rest(summary.at_rest)


def travel_at_rest(prepared: Prepared, still: float, batches: Iterable[Samples]) -> Float | None:
    """Smallest motion of each joint that can be distinguished from noise.

    Parameters
    ----------
    prepared : Prepared
        The log with its signal settings.
    still : float, s
        Time in which all joints are at rest and are left out.
    batches : iterable of Samples
        With closed gates where a single joint is at rest; either all batches have gates or none.

    Returns
    -------
    ndarray, shape (n_joints,), rad (m), or None
        None for a log without rest.

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
    """Read the samples of a log, its summary and its time at rest in one pass over the files.

    Samples are needed several times, for the equations and for the residuals, so samples of a long log are kept in a
    temporary file. Samples with a clipped effort are left out.

    Parameters
    ----------
    prepared : Prepared
        The log with its signal settings.
    diagnostics : Diagnostics
        Collects warnings and notes.
    balanced : ndarray of bool, shape (n_joints,)
        Joints whose gravity torque a spring or counterbalance of the model may carry.
    threads : int
        Number of threads; results do not depend on it.
    progress : callable, optional
        Called with seconds of data done.

    Returns
    -------
    iterable of Samples
    LogSummary
    Rest

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
    release_memory()  # the heaps of the threads have grown by the memory of the windows
    summary = watch.finish()
    period = 1.0 / prepared.bandwidth
    sound = _without_clipped(kept if spilled is None else spilled, summary, period, diagnostics)
    keep_rest = prepared.settings.rest <= 0.0
    if prepared.gated_at_rest:
        # `gate` already leaves out joints that are at rest while others move.
        return sound, summary, Rest(still, still)
    sharp = max(prepared.settings.state_cutoffs(prepared.log.robot.n)) > prepared.bandwidth
    smoothing = period if sharp else 0.0
    sound = without_held_parts(sound, summary, prepared.log.robot, period, keep_rest, diagnostics, smoothing)
    # Only now it is known whether rest counts.
    left = sum(float(samples.left_out[REST].sum()) / samples.rate for samples in sound) if still > 0 else 0.0
    return sound, summary, Rest(still, left)


def _without_clipped(
    batches: Iterable[Samples], summary: LogSummary, seconds: float, diagnostics: Diagnostics
) -> Iterable[Samples]:
    cut = np.flatnonzero(np.isfinite(summary.cut_off).any(axis=0))
    if not len(cut):
        return batches
    size = np.max([trajectory.effort for trajectory in summary.trajectories], axis=0)
    why = "effort at its peak (" + ", ".join(summary.joint_names[j] for j in cut) + ")"
    return left_out(batches, AtPeak(summary.cut_off, size, seconds), why, diagnostics) or batches


def origin_of(log: Log, trained: list[list[Any]], diagnostics: Diagnostics) -> Origin:
    """Whether a log is held out or was training data, which is warned of.

    `log`: the log to score; `trained`: the fitted data; `diagnostics`: gets the warning.
    """
    shared = [
        t.name
        for t, (sha, row, start, end) in zip(log.trajectories, log.identity(), strict=True)
        if any(sha == s and row == r and start < e and end > b for s, r, b, e in trained)
    ]
    if not shared:
        return Origin.HELD_OUT_LOG
    diagnostics.warn(
        "training-is-validation",
        f"{', '.join(shared[:4])} was also used for fitting, so these scores count as training, not as validation",
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

    `terms`: the model; `estimate`: the fitted estimate; `preparation`: signal settings; `diagnostics`: collects
    warnings and notes; `threads`: number of threads; results do not depend on it; `origin`: whether the log is held out
    or training data; `progress`: called with stage and seconds of data done; `training`: scores on the fitted log: its
    range of motion and its share of friction kept at rest are used.
    """
    # The sampling rate of the training log may differ from this one.
    prepared = prepare(log, replace(preparation, rate=None), diagnostics)
    nothing = np.zeros(len(estimate.columns), dtype=np.bool_)
    batches, summary, rest = read_samples(
        prepared, diagnostics, terms.balances(robot), threads, stage(progress, "validation")
    )
    seconds = block_seconds(prepared, still=rest.seconds)
    assembly = Assembly(robot, terms, TorqueRows(), nothing, prepared.parallel_filter(), Blocking(seconds))
    share, travel = share_to_keep(prepared), travel_at_rest(prepared, rest.left_out, batches)
    kept = training.kept_at_rest if training.kept_at_rest is not None else np.full(robot.n, HALF)
    result = score(assembly, estimate, batches, origin, threads, None, training.motion, share, travel, kept)[
        0
    ]
    return result.with_rest(summary.at_rest)


def stage(progress: Progress | None, name: str) -> Callable[[float], None] | None:
    """Progress callback of one stage; None without progress."""
    if progress is None:
        return None
    return lambda seconds: progress(name, seconds)
