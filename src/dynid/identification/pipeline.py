"""The main function: identify a robot from its log and judge the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

import numpy as np

from dynid.base.diagnostics import Diagnostics, Finding, claim_codes
from dynid.base.parallel import Progress, default_threads, in_background, pass_threads
from dynid.base.records import counted, listed
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
from dynid.estimate.physical import unphysical, without_contradicted
from dynid.estimate.prediction import Forecast
from dynid.estimate.scores import cross_validate
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, why_none_held_out
from dynid.identification.commands import with_found_servo
from dynid.identification.fitting import Call, Data, ModelFit, fit_sound, read_data
from dynid.identification.floating import floats, identify_floating
from dynid.identification.settings import Settings, needs_of, settings_to_experiment
from dynid.log.joints import UNEXPLAINED
from dynid.log.prior_check import all_turned
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.torque import MotorRows, TorqueRows
from dynid.run.links import mass_findings, masses_determined
from dynid.run.result import Identification, Validation, provenance
from dynid.run.validation import note_same_motion, origin_of, score_log
from dynid.run.verdict import MOTION_REPEATS, MOVES_IN_STEP, PARTS_HELD_OUT, judge
from dynid.signals.effort_at_rest import unexplained_at_rest, unexplained_hands
from dynid.signals.noise import directions_of
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind

# Wrong inputs that the residuals of a fit reveal.


def examine(
    call: Call, data: Data, model_fit: ModelFit, analysis: ResidualAnalysis | None
) -> Callable[[], tuple[Finding, ...]]:
    """Claim wrong inputs that the residuals reveal, and diagnose the residuals in the background.

    Returns a function that waits for the diagnosis and returns its findings.
    """
    if analysis is None:
        return tuple
    terms, diagnostics = model_fit.nonlinear.terms, call.diagnostics
    misread = check_guidance(analysis, diagnostics) or check_wiring(analysis, diagnostics)
    # Neither the remainder of a known friction nor the friction of torques with reversed sign need be positive.
    if not all_turned(diagnostics) and not any(term.traits.kind is Kind.COMPENSATION for term in terms):
        check_negative_friction(analysis, diagnostics, call.log.channels.commanded)
    diagnosed = in_background(
        lambda: diagnose(analysis), call.threads
    )  # runs while the delay is estimated and blocks are held out
    check_measured(analysis, diagnostics)
    check_changes(analysis, diagnostics)
    if misread:
        # Do not explain the residuals by zeros, gains, lengths and masses, which would belong to other joints.
        return diagnosed
    report_missing_effects(analysis, diagnostics)
    report_held_effects(analysis, diagnostics)
    check_link_lengths(analysis, diagnostics)
    # Equations with noisy accelerations bias the links, which would then differ from the model file without cause.
    if data.choice.trusted or isinstance(data.rows, MomentumRows):
        # A link named as contradicted is no evidence for the scale of the torque.
        believed = without_contradicted(call.robot, model_fit.estimate)
        compare_with_description(replace(analysis, robot=believed), diagnostics)
    return diagnosed


# Held-out scores of a model: on blocks of the log, or on another log.


def score_held_out_log(
    call: Call, data: Data, model_fit: ModelFit, validation: Log, training: Validation
) -> Validation:
    """Score the fit on another log (`validation`), relative to its scores on the training data."""
    origin = origin_of(validation, call.log.identity(), call.diagnostics)
    scored = score_log(
        call.robot,
        model_fit.nonlinear.terms,
        model_fit.estimate,
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


def hold_out_blocks(call: Call, data: Data, model_fit: ModelFit) -> tuple[Validation, ...]:
    """Cross-validate on contiguous blocks; () for a log that is too short."""
    validations = _scores(model_fit, data, model_fit.estimator, call.diagnostics)
    return tuple(validation.with_rest(data.summary.at_rest) for validation in validations)


def _scores(
    model_fit: ModelFit, data: Data, estimator: Estimator, diagnostics: Diagnostics
) -> tuple[Validation, ...]:
    left_out, fitted, batches = model_fit.left_out, model_fit.fitted, data.batches
    nonlinear, search = model_fit.nonlinear, model_fit.trial
    blocks = len(fitted.regression.factors.repetitions())
    made = len(folds_of(fitted.regression.factors, search.folds))
    if not made:
        diagnostics.warn("too-short-to-hold-out", f"{why_none_held_out(blocks)}; validate on another log")
        return ()
    if made != search.folds:
        diagnostics.note(
            "folds", f"{made} folds instead of {search.folds}: the log has {blocks} blocks of time"
        )
    _note_repetitions(model_fit, data, diagnostics)
    moved = directions_of(batches)
    if moved.in_step:
        diagnostics.warn(
            MOVES_IN_STEP,
            f"the motions of {moved.joints} joints are strongly correlated "
            f"({counted(moved.directions, 'independent direction')}): errors on other motions may be much larger. "
            "Move the joints independently (dynid excite) or validate on another motion (--validate)",
        )
    if nonlinear.estimated and not set(fitted.factors.group_names) & set(search.robot.joint_names):
        diagnostics.warn(
            "shapes-not-held-out",
            f"{fitted.assembly.rows.name} rows have no equations of single joints to hold out; validate on another log",
        )
        return ()
    judged = None if nonlinear.estimated else _torque_factors(model_fit, batches)
    if left_out is not None and judged is None and not isinstance(fitted.assembly.rows, TorqueRows):
        left_out = replace(left_out, sums=None)  # these equations are not torques of the joints
    if nonlinear.estimated:
        return (Validation(held_out_scores(fitted, nonlinear, search, estimator, left_out)),)
    return (
        Validation(
            cross_validate(
                fitted.regression, estimator, search.folds, search.robot.joint_names, judged, left_out
            )
        ),
    )


def _note_repetitions(model_fit: ModelFit, data: Data, diagnostics: Diagnostics) -> None:
    fitted = {block.trajectory: block.part for block in model_fit.fitted.regression.factors.blocks}
    motions: dict[int, list[str]] = {}
    for name in fitted:
        if name in data.repeated:
            motions.setdefault(data.repeated[name].motion, []).append(name)
    for names in motions.values():
        repetition = data.repeated[names[0]]
        if len(names) == 1 and not np.isfinite(repetition.period):
            continue
        repeats = f"repeats after {repetition.seconds:.3g} s"
        if len(names) > 1:
            repeats = f"is the same, {repetition.seconds:.3g} s long"
        if repetition.pauses is not None:
            repeats += " without its pauses"
        trajectories = listed([f"'{name}'" for name in names])
        if all(name in data.blocks.repeated and fitted[name] is not None for name in names):
            parts = round(repetition.seconds / data.blocks.seconds)
            diagnostics.note(
                PARTS_HELD_OUT,
                f"The motion of {trajectories} {repeats} ({parts} parts). The same part of every repetition "
                "is held out together, so that no fold predicts motion that it was fitted to.",
            )
        else:
            diagnostics.note(
                MOTION_REPEATS,
                f"The motion of {trajectories} {repeats}, so that held-out blocks contain motion that was fitted "
                "in another repetition. Validate on another motion (--validate).",
            )


def _torque_factors(model_fit: ModelFit, batches: Iterable[Samples]) -> Factors | None:
    fitted = model_fit.fitted
    # Scores are errors of torque for all equations: work and filtered torque have other units and noise.
    if isinstance(fitted.assembly.rows, TorqueRows | ElasticRows | MotorRows):
        return None
    assembly = replace(fitted.assembly, rows=TorqueRows(), wanted=fitted.regression.base.mask)
    return assembly.factors(batches, model_fit.trial.threads)


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
    """Identify the dynamics of a robot from a log and judge the result on held-out data.

    Contradictions between log and physics become claims, which limit the verdict and stop nothing.

    Parameters
    ----------
    robot : RobotModel
        The robot. Joints that are locked because the log lacks them are locked in the result.
    log : Log
        The log.
    settings : Settings, optional
        The settings; without them the defaults.
    validation : Log, optional
        A held-out log; without it contiguous blocks of the log are held out in turn.
    truth : mapping of float, optional
        True parameters by name, of a simulated robot.
    threads : int, optional
        Threads of passes over the log and of simulations; without it one, and all processors. Results do not depend
        on it.
    progress : callable, optional
        Called with the stage and the seconds of data that are done.
    experiment : mapping, optional
        The experiment to store with the result; without it that of the settings.
    files : mapping, optional
        Names of the files, for commands that repeat the run.
    diagnostics : Diagnostics, optional
        Sink that may already contain diagnostics of reading the robot and the log.
    accept : sequence of str
        Further codes of claims that warn only and do not count against the verdict.

    Returns
    -------
    Identification
        The result.

    Raises
    ------
    UnfitDataError
        If the log does not support an identification.
    InputError
        If the log cannot be read.
    UsageError
        For an accepted code that does not occur.

    """
    chosen = _settings_for_commands(settings or Settings(), log).resolved()
    chosen = replace(chosen, accept=(*chosen.accept, *claim_codes(accept)))
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept(chosen.accept)
    robot = log.held_in(robot)
    log = log.of_robot(robot).without_short(chosen.preparation.shortest)
    if floats(robot, log):
        call = Call(robot, log, chosen, pass_threads(threads), threads or default_threads(), progress, sink)
        return identify_floating(
            call, None if validation is None else validation.of_robot(robot), experiment, files, truth
        )
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
    hashes.start()  # hashing runs while the files are read
    data, model_fit, training, analysis, masked = fit_sound(call, read_data(call))
    diagnosed = examine(call, data, model_fit, analysis)
    if validation is None:
        validations = hold_out_blocks(call, data, model_fit)
    else:
        hashes.join()
        validations = (score_held_out_log(call, data, model_fit, validation, training),)
    hashes.join()
    sink.require_found(chosen.accept)
    residual_findings = masked + diagnosed()
    nonlinear, fitted = model_fit.nonlinear, model_fit.fitted
    forecast = Forecast.of(
        robot,
        nonlinear.terms,
        model_fit.estimate,
        training.residuals,
        training.scores,
        validations[-1].scores if validations else None,
    )
    return Identification(
        experiment=dict(experiment) if experiment is not None else settings_to_experiment(call.settings),
        files=dict(files or {}),
        robot=robot,
        terms=nonlinear.terms,
        structural=fitted.structural,
        estimate=model_fit.estimate,
        factors=fitted.factors,
        training=training,
        validations=validations,
        verdict=judge(
            model_fit.estimate,
            fitted.structural,
            training,
            validations,
            call.diagnostics,
            nonlinear.choices,
            residual_findings,
            model_fit.model.selection,
            data.prepared.bandwidth,
            unphysical(robot, model_fit.estimate),
            mass_findings(robot, model_fit.estimate, fitted.regression),
            robot.limits.effort,
            masses_determined(model_fit.estimate, fitted.regression),
            () if forecast is None else forecast.others(),
        ),
        diagnostics=call.diagnostics,
        preparation=data.prepared.describe() | {"rows": replace(data.choice, rows=data.rows).describe()},
        log_summary=data.summary.describe() | model_fit.stiffness,
        provenance=provenance(
            log, validation, data.settings.seed, time.perf_counter() - started, needs_of(call.settings)
        ),
        truth=truth,
        shapes=model_fit.shapes,
        choices=nonlinear.choices,
        residual_findings=residual_findings,
        selection=model_fit.model.selection,
    )


def _settings_for_commands(settings: Settings, log: Log) -> Settings:
    """The settings; for a log of commands the model is chosen only if the settings ask for it.

    The controller compensates effects that the model lacks. Couplings, zeros and forms of friction then absorb errors
    of its control law and delay, and a robot simulated with them follows its commands much worse (`dynid replay`). With
    declared gains, delay and loop there are no such errors, and viscous friction alone would absorb part of the
    Stribeck friction.
    """
    by_default = settings.terms is None and settings.automatic is None
    servo = log.robot.drive.servo
    declared = servo is not None and servo.known and np.isfinite(servo.delay) and servo.loop
    plain = log.channels.commanded and by_default and not declared
    return replace(settings, automatic=False) if plain else settings


def _with_torque(
    robot: RobotModel,
    log: Log,
    validation: Log | None,
    settings: Settings,
    threads: int,
    diagnostics: Diagnostics,
) -> tuple[RobotModel, Log, Log | None]:
    """Robot and logs with the gains and the delay of the position controllers, if commands replace the effort."""
    robot = with_found_servo(robot, log, settings.seed, threads, diagnostics)
    return (
        robot,
        replace(log, robot=robot),
        None if validation is None else replace(validation, robot=robot),
    )


def _without_unexplained(log: Log, diagnostics: Diagnostics) -> Log:
    """The log with joints locked whose effort at rest is not the torque of their load."""
    joints = unexplained_at_rest(log)
    for name in joints:
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{name}' never moved, and its effort is not the torque of its load (brake, friction or dead "
            "encoder): its friction and rotor inertia are not identified",
        )
    return log.with_held({name: log.resting[name] for name in joints}, UNEXPLAINED)


def _without_gripping(log: Log, validation: Log | None, diagnostics: Diagnostics) -> tuple[Log, Log | None]:
    """The logs without the efforts of joints of a hand whose effort is not the torque of their motion."""
    joints = unexplained_hands(log)
    for name in joints:
        diagnostics.warn(
            "joint-unmeasured",
            f"the effort of hand joint '{name}' is not the torque of its motion, for example when it grips: its "
            "equation is left out, and its friction and rotor inertia are not identified",
        )
    others = None if validation is None else validation.without_efforts(joints)
    return log.without_efforts(joints), others
