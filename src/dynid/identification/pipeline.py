"""The main job in one verb: a robot and its log in, a judged model out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np

from dynid.base.diagnostics import Diagnostics, Finding, claim_codes
from dynid.base.errors import SolverError
from dynid.base.parallel import Progress, default_threads, in_background, pass_threads
from dynid.base.records import listed
from dynid.choose.fit_nonlinear import held_out_scores
from dynid.diagnosis.changes import check_changes
from dynid.diagnosis.diagnosis import (
    compare_with_description,
    diagnose,
    report_held_effects,
    report_missing_effects,
)
from dynid.diagnosis.input_checks import (
    check_guidance,
    check_link_lengths,
    check_measured,
    check_negative_friction,
)
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wiring_checks import check_wiring
from dynid.estimate.estimator import Estimator
from dynid.estimate.physical import unconstrained, unphysical, warn_or_raise
from dynid.estimate.scores import cross_validate
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, why_none_held_out
from dynid.identification.commands import with_found_servo
from dynid.identification.fitting import Call, Data, Found, fit_sound, read_data
from dynid.identification.settings import Settings, default_estimator, needs_of, settings_to_experiment
from dynid.log.joints import UNEXPLAINED
from dynid.log.prior_check import all_turned
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.torque import MotorRows, TorqueRows
from dynid.run.links import mass_findings
from dynid.run.result import Identification, Validation, provenance
from dynid.run.validation import note_same_motion, origin_of, score_log
from dynid.run.verdict import MOTION_REPEATS, MOVES_IN_STEP, PARTS_HELD_OUT, judge
from dynid.signals.effort_at_rest import unexplained_at_rest, unexplained_hands
from dynid.signals.noise import directions_of
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind

# Doubts inputs that the residuals of a fit give away.


def examine(
    call: Call, data: Data, found: Found, analysis: ResidualAnalysis | None
) -> Callable[[], tuple[Finding, ...]]:
    """Doubts inputs that the residuals give away; the function waits for what else they say."""
    if analysis is None:
        return tuple
    terms, diagnostics = found.nonlinear.terms, call.diagnostics
    misread = check_guidance(analysis, diagnostics) or check_wiring(analysis, diagnostics)
    # What a known friction lacks may have either sign, and so may the friction of torque that is turned throughout.
    if not all_turned(diagnostics) and not any(term.traits.kind is Kind.COMPENSATION for term in terms):
        check_negative_friction(analysis, diagnostics, call.log.channels.commanded)
    diagnosed = in_background(
        lambda: diagnose(analysis), call.threads
    )  # while the lag is estimated and blocks are held out
    check_measured(analysis, diagnostics)
    check_changes(analysis, diagnostics)
    if misread:
        # Zeros, gains, lengths and masses that explain it are those of other joints.
        return diagnosed
    report_missing_effects(analysis, diagnostics)
    report_held_effects(analysis, diagnostics)
    check_link_lengths(analysis, diagnostics)
    # Bodies are bent by noise of accelerations where the equations read these.
    if data.choice.trusted or isinstance(data.rows, MomentumRows):
        compare_with_description(analysis, diagnostics)
    return diagnosed


# Scores of a model on motion that was not fitted: blocks of the log, or another log.


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


def identify(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    validation: Log | None = None,
    truth: Mapping[str, float] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    experiment: Mapping[str, Any] | None = None,
    files: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
    accept: Sequence[str] = (),
) -> Identification:
    """Identifies the robot's dynamics from a log and judges the result on data that was not fitted.

    robot: joints that are held in the log's robot, as the log does not hold them, are held in the result.
    validation: a log that is held out; without one, contiguous blocks of the log are held out in turn.
    truth: parameter values by name, for simulated robots.    threads: of passes over the log and of
    simulations; None = one, and all processors; results do not depend on it.
    progress: called with (stage, seconds of data done).
    experiment: what to write down of it; None = that of the settings.    files: named in commands that repeat the run.
    diagnostics: sink that may already hold what reading the robot and the log found.
    accept: codes of claims that are to warn, not to be doubts, beside those of the settings.

    What physics says against the log is a doubt: it caps the verdict and stops nothing.
    Raises UnfitDataError if the log cannot support an identification, InputError if it cannot be read, UsageError for
    an accepted code that is not found.
    """
    chosen = _of_commands(settings or Settings(), log).resolved()
    chosen = replace(chosen, accept=(*chosen.accept, *claim_codes(accept)))
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept(chosen.accept)
    robot = log.held_in(robot)
    log = log.of_robot(robot)
    log = _without_unexplained(log, sink)
    robot = log.robot
    validation = None if validation is None else validation.of_robot(robot)
    log, validation = _without_gripping(log, validation, sink)
    simulating = threads or default_threads()
    robot, log, validation = _with_torque(robot, log, validation, chosen, simulating, sink)
    call = Call(robot, log, chosen, pass_threads(threads), simulating, progress, sink)
    if settings is not None and settings.choice_left_out:
        sink.warn("model-not-chosen", settings.choice_left_out)
    started = time.perf_counter()
    hashes = Thread(target=lambda: log.sha256, name="hash", daemon=True)
    hashes.start()  # the files are hashed while they are read
    data, found, training, analysis, masked = fit_sound(call, read_data(call))
    diagnosed = examine(call, data, found, analysis)
    if validation is None:
        validations = hold_out_blocks(call, data, found)
    else:
        hashes.join()
        validations = (score_held_out_log(call, data, found, validation, training),)
    hashes.join()
    sink.require_found(chosen.accept)
    residual_findings = masked + diagnosed()
    nonlinear, fitted = found.nonlinear, found.fitted
    return Identification(
        experiment=dict(experiment) if experiment is not None else settings_to_experiment(call.settings),
        files=dict(files or {}),
        robot=robot,
        terms=nonlinear.terms,
        structural=fitted.structural,
        estimate=found.estimate,
        factors=fitted.factors,
        training=training,
        validations=validations,
        verdict=judge(
            found.estimate,
            fitted.structural,
            training,
            validations,
            call.diagnostics,
            nonlinear.choices,
            residual_findings,
            found.model.selection,
            data.prepared.bandwidth,
            unphysical(robot, found.estimate),
            mass_findings(robot, found.estimate, fitted.regression),
        ),
        diagnostics=call.diagnostics,
        preparation=data.prepared.describe() | {"rows": replace(data.choice, rows=data.rows).describe()},
        log_summary=data.summary.describe() | found.stiffness,
        provenance=provenance(
            log, validation, data.settings.seed, time.perf_counter() - started, needs_of(call.settings)
        ),
        truth=truth,
        shapes=found.shapes,
        choices=nonlinear.choices,
        residual_findings=residual_findings,
        selection=found.model.selection,
    )


def _of_commands(settings: Settings, log: Log) -> Settings:
    """The settings; a log of commands chooses its model where that is asked for, and not by default.

    The controller answers whatever the model lacks, so that couplings, zeros and forms of friction imitate errors of
    its law and its delay, and make the simulated robot follow its commands worse: aliengo_pace 40 in place of 4.5 mrad,
    z1_pace 64 in place of 21 (`dynid replay`).
    """
    by_default = settings.terms is None and settings.automatic is None
    return replace(settings, automatic=False) if log.channels.commanded and by_default else settings


def _with_torque(
    robot: RobotModel,
    log: Log,
    validation: Log | None,
    settings: Settings,
    threads: int,
    diagnostics: Diagnostics,
) -> tuple[RobotModel, Log, Log | None]:
    """Robot and logs whose commands stand in for the effort where none was measured, at their gains and delay."""
    robot = with_found_servo(robot, log, settings.seed, threads, diagnostics)
    return (
        robot,
        replace(log, robot=robot),
        None if validation is None else replace(validation, robot=robot),
    )


def _without_unexplained(log: Log, diagnostics: Diagnostics) -> Log:
    """The log with joints held whose effort at rest is not the torque of what they carry."""
    joints = unexplained_at_rest(log)
    for name in joints:
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{name}' never moved: its friction and rotor inertia are not identified; its effort is not the "
            "torque of what it carries, so that a brake or friction held it, or its encoder is dead",
        )
    return log.with_held({name: log.resting[name] for name in joints}, UNEXPLAINED)


def _without_gripping(log: Log, validation: Log | None, diagnostics: Diagnostics) -> tuple[Log, Log | None]:
    """The logs without the efforts of joints of a hand that are not the torque of their motion."""
    joints = unexplained_hands(log)
    for name in joints:
        diagnostics.warn(
            "joint-unmeasured",
            f"joint '{name}' is one of a hand, and its effort is not the torque of its motion, as where it grips: the "
            "motion is used, the equation is left out, so that its friction and rotor inertia are not identified",
        )
    others = None if validation is None else validation.without_efforts(joints)
    return log.without_efforts(joints), others
