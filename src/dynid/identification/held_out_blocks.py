"""Scores of a model on motion that was not fitted: blocks of the log, or another log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import SolverError
from dynid.base.overview import listed
from dynid.choose.held_out import held_out_scores
from dynid.estimate.estimator import Estimator
from dynid.estimate.physical import unconstrained, warn_or_raise
from dynid.estimate.scores import cross_validate
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, why_none_held_out
from dynid.identification.settings import default_estimator
from dynid.identification.steps import Call, Data, Found
from dynid.log.read import Log
from dynid.rows.elastic import ElasticRows
from dynid.rows.motor import MotorRows
from dynid.rows.torque import TorqueRows
from dynid.run.result import Validation
from dynid.run.same_motion import note_same_motion
from dynid.run.validation import origin_of, score_log
from dynid.run.verdict import MOTION_REPEATS, MOVES_IN_STEP, PARTS_HELD_OUT
from dynid.signals.in_step import directions_of
from dynid.signals.samples import Samples


def score_held_out_log(
    call: Call, data: Data, found: Found, validation: Log, training: Validation
) -> Validation:
    """Scores and residuals on another log, beside those of the training."""
    origin = origin_of(validation, call.log.identity(), call.diagnostics)
    scored = score_log(
        call.robot,
        found.nonlinear.terms,
        found.estimate,
        validation,
        data.prepared.settings,
        call.diagnostics,
        call.threads,
        origin,
        call.progress,
        training.scores,
    )
    note_same_motion(training, scored, call.diagnostics)
    return scored


def hold_out_blocks(call: Call, data: Data, found: Found) -> tuple[Validation, ...]:
    """Contiguous blocks of the log held out in turn; without constraints where no consistent bodies are found."""
    try:
        validations = _scores(found, data, found.estimator, call.diagnostics)
    except SolverError as error:
        warn_or_raise(error, data.settings.estimator != default_estimator(), call.diagnostics)
        validations = _scores(found, data, unconstrained(found.estimator), call.diagnostics)
    return tuple(one.with_rest(data.summary.at_rest) for one in validations)


def _scores(
    found: Found, data: Data, estimator: Estimator, diagnostics: Diagnostics
) -> tuple[Validation, ...]:
    left_out, fitted, batches = found.left_out, found.fitted, data.batches
    nonlinear, search = found.nonlinear, found.trial
    blocks = len(fitted.regression.factors.repetitions())
    made = len(folds_of(fitted.regression.factors, search.folds))
    if not made:
        diagnostics.warn("too-short-to-hold-out", f"{why_none_held_out(blocks)}; validate on another log")
        return ()
    if made != search.folds:
        diagnostics.note(
            "folds", f"{made} folds in place of {search.folds}: the log has {blocks} blocks of time"
        )
    _note_repetitions(found, data, diagnostics)
    moved = directions_of(batches)
    if moved.in_step:
        diagnostics.warn(
            MOVES_IN_STEP,
            f"{moved.joints} joints move in step, along {moved.directions} of {moved.joints} directions: their shares "
            "of a torque are told apart by little, and held-out blocks hold the same motion; what the model misses of "
            "another motion may be many times as much. Move the joints independently of each other (dynid excite), or "
            "validate on another motion (--validate)",
        )
    if nonlinear.estimated and not set(fitted.factors.group_names) & set(search.robot.joint_names):
        diagnostics.warn(
            "shapes-not-held-out",
            f"{fitted.assembly.rows.name} rows have no equation of single joints to hold out; validate on another log",
        )
        return ()
    judged = None if nonlinear.estimated else _torque_factors(found, batches)
    if left_out is not None and judged is None and not isinstance(fitted.assembly.rows, TorqueRows):
        left_out = replace(left_out, sums=None)  # these equations are no torque of the joints
    if nonlinear.estimated:
        return (Validation(held_out_scores(fitted, nonlinear, search, estimator, left_out)),)
    return (
        Validation(
            cross_validate(
                fitted.regression, estimator, search.folds, search.robot.joint_names, judged, left_out
            )
        ),
    )


def _note_repetitions(found: Found, data: Data, diagnostics: Diagnostics) -> None:
    fitted = {block.trajectory: block.part for block in found.fitted.regression.factors.blocks}
    motions: dict[int, list[str]] = {}
    for name in fitted:
        if name in data.repeated:
            motions.setdefault(data.repeated[name].motion, []).append(name)
    for names in motions.values():
        one = data.repeated[names[0]]
        if len(names) == 1 and not np.isfinite(one.period):
            continue
        again = f"repeats after {one.seconds:.3g} s"
        if len(names) > 1:
            again = f"is the same, of {one.seconds:.3g} s"
        if one.pauses is not None:
            again += " in motion, whatever its pauses"
        who = listed([f"'{name}'" for name in names])
        if all(name in data.blocks.repeated and fitted[name] is not None for name in names):
            parts = round(one.seconds / data.blocks.seconds)
            diagnostics.note(
                PARTS_HELD_OUT,
                f"The motion of {who} {again}, in {parts} parts; the same parts of every "
                "repetition are held out together, so that the model was fitted on no repetition of what it predicts.",
            )
        else:
            diagnostics.note(
                MOTION_REPEATS,
                f"The motion of {who} {again}: held-out blocks hold what the model was fitted on a repetition before; "
                "validate on another motion (--validate) to see what it misses of that.",
            )


def _torque_factors(found: Found, batches: Iterable[Samples]) -> Factors | None:
    fitted = found.fitted
    # A score is an error of torque, whatever was fitted: work or filtered torque has another size and another noise.
    if isinstance(fitted.assembly.rows, TorqueRows | ElasticRows | MotorRows):
        return None
    assembly = replace(fitted.assembly, rows=TorqueRows(), wanted=fitted.regression.base.mask)
    return assembly.factors(batches, found.trial.threads)
