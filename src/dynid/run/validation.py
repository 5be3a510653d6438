"""Scores of a model on the samples of a log, fitted or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.parallel import ordered_map, pass_threads
from dynid.base.progress import Progress
from dynid.diagnosis.masking import AtPeak, left_out
from dynid.estimate.estimator import Estimate
from dynid.estimate.scores import Origin, Scores
from dynid.factor.assemble import Assembly
from dynid.factor.blocking import Blocking
from dynid.kernel import release_memory
from dynid.log.checks import LogWatch
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import Rest, block_seconds, sample_bytes, share_to_keep
from dynid.run.held_parts import without_held_parts
from dynid.run.result import Identification, Validation
from dynid.run.same_motion import note_same_motion
from dynid.run.scoring import score
from dynid.signals.last_motion import seen_travel
from dynid.signals.past import WithPast
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import REST, Samples
from dynid.signals.settings import Preparation
from dynid.signals.spill import Spilled
from dynid.terms.at_rest import HALF
from dynid.terms.term import Terms

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
