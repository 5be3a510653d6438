"""The main job in one verb: a robot and its log in, a judged model out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any, Protocol

import numpy as np

from dynid.base.diagnostics import Diagnostics, claim_codes
from dynid.base.errors import SolverError, UsageError
from dynid.base.parallel import beside, default_threads, pass_threads
from dynid.base.progress import Progress
from dynid.base.records import dataclass
from dynid.choose.build import within_speeds
from dynid.choose.choose_model import Chosen, choose_model
from dynid.choose.consistency_cause import cause_text, likely_causes
from dynid.choose.fit_nonlinear import fit_nonlinear
from dynid.choose.held_out import held_out_scores
from dynid.choose.relinearise import relinearised
from dynid.choose.search import SPARE, Fitted, LatestKept, NonlinearFit, Search
from dynid.choose.shape_intervals import with_shape_uncertainty
from dynid.choose.shapes import ShapeEstimate
from dynid.diagnosis.changes import check_changes
from dynid.diagnosis.diagnosis import diagnose
from dynid.diagnosis.effect_notices import (
    compare_with_description,
    report_held_effects,
    report_missing_effects,
)
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.link_lengths import check_link_lengths
from dynid.diagnosis.masking import spoilt_times, without_times
from dynid.diagnosis.measurement import check_measured
from dynid.diagnosis.negative_friction import check_negative_friction
from dynid.diagnosis.raw import first_torque
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wiring_checks import check_wiring
from dynid.estimate.estimator import Estimate, Estimator
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.late_feedback import of_late_feedback
from dynid.estimate.physical import much_worse, project_to_physical, unconstrained, unphysical, warn_or_raise
from dynid.estimate.regression import regression_of
from dynid.estimate.scores import LeftOut, Origin, cross_validate
from dynid.estimate.source import LogSource
from dynid.estimate.stand_in import may_stand_in
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, why_none_held_out
from dynid.factor.thinning import thinned
from dynid.identification.commands import with_found_servo
from dynid.identification.encoders import check_negative_stiffness, for_encoders, report_stiffness
from dynid.identification.settings import Settings, default_estimator, needs_of, settings_to_experiment
from dynid.log.absent import UNEXPLAINED
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.robot.model import RobotModel
from dynid.rows.automatic import RowsChoice, choose_rows
from dynid.rows.elastic import ElasticRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.motor import MotorRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.run.links import mass_findings
from dynid.run.provenance import provenance
from dynid.run.result import Identification, Validation
from dynid.run.scoring import score
from dynid.run.validation import (
    block_seconds,
    origin_of,
    read_samples,
    score_log,
    share_to_choose_on,
    share_to_keep,
    stage,
    travel_at_rest,
)
from dynid.run.verdict import MOTION_REPEATS, check_negative_springs, judge
from dynid.signals.noise import MotionNoise
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.repetition import periods
from dynid.signals.resting_joints import unexplained_at_rest, unexplained_hands
from dynid.signals.samples import Samples
from dynid.terms.term import Scale, Terms


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
    call = _Call(robot, log, chosen, pass_threads(threads), simulating, progress, sink)
    if settings is not None and settings.choice_left_out:
        sink.warn("model-not-chosen", settings.choice_left_out)
    started = time.perf_counter()
    hashes = Thread(target=lambda: log.sha256, name="hash", daemon=True)
    hashes.start()  # the files are hashed while they are read
    data, found, training, analysis, masked = _fit_sound(call, _read(call))
    diagnosed = _examine(call, data, found, analysis)
    if validation is None:
        try:
            validations = _held_out_blocks(found, data.batches, found.estimator, call.diagnostics)
        except SolverError as error:
            warn_or_raise(error, data.settings.estimator != default_estimator(), call.diagnostics)
            validations = _held_out_blocks(
                found, data.batches, unconstrained(found.estimator), call.diagnostics
            )
        validations = tuple(one.with_rest(data.summary.at_rest) for one in validations)
    else:
        hashes.join()
        validations = (_held_out_log(call, data, found, validation, training),)
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


@dataclass(frozen=True, eq=False)
class _Call:
    """What all steps share.

    threads: of passes over the log.    simulating: threads of simulations.
    """

    robot: RobotModel
    log: Log
    settings: Settings
    threads: int
    simulating: int
    progress: Progress | None
    diagnostics: Diagnostics


@dataclass(frozen=True, eq=False)
class _Data:
    """The log as equations want it.

    settings: with the terms that its encoders ask for.    still: seconds at rest, which samples leave out.
    seconds: length of the blocks of time.
    """

    settings: Settings
    prepared: Prepared
    choice: RowsChoice
    rows: Rows
    batches: Iterable[Samples]
    summary: LogSummary
    still: float
    seconds: float


@dataclass(frozen=True, eq=False)
class _Found:
    """The fit of the model as it was chosen, with its nonlinear parameters.

    trial: the search on the samples that models are compared on.
    free: the estimate before its bodies were made physically consistent; it shows signs that no real robot has.
    estimator: that the estimate came from.    left_out: what the training's scores leave out, by this fit.
    """

    trial: Search
    model: Chosen
    nonlinear: NonlinearFit
    fitted: Fitted
    free: Estimate
    estimate: Estimate
    estimator: Estimator
    shapes: tuple[ShapeEstimate, ...]
    stiffness: dict[str, list[dict[str, object]]]
    left_out: LeftOut | None = None


def _of_commands(settings: Settings, log: Log) -> Settings:
    """The settings; a log of commands chooses its model where that is asked for, and not by default.

    The controller answers whatever the model lacks, so that couplings, zeros and forms of friction imitate errors of
    its law and its delay, and make the simulated robot follow its commands worse: aliengo_pace 40 in place of 4.5 mrad,
    z1_pace 64 in place of 21 (`dynid replay`).
    """
    by_default = settings.terms is None and settings.automatic is None
    return replace(settings, automatic=False) if log.mapping.commanded and by_default else settings


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


def _read(call: _Call) -> _Data:
    """Filters, rows and terms that fit the log, and its samples."""
    robot, log, settings, diagnostics = call.robot, call.log, call.settings, call.diagnostics
    prepared = prepare(log, settings.preparation, diagnostics)
    choice = choose_rows(settings.rows, robot, settings.model, prepared, diagnostics)
    prepared = choice.prepared(prepared)
    terms, rows = for_encoders(
        robot, settings.model, choice.rows, log.mapping, diagnostics, settings.chooses_model
    )
    settings = replace(settings, terms=terms)
    _require_efforts(robot, log, rows)
    _require_scale(terms, diagnostics)
    batches, summary, still = read_samples(
        prepared,
        diagnostics,
        terms.balances(robot),
        call.threads,
        stage(call.progress, "reading"),
    )
    _warn_of_rest(summary.at_rest, diagnostics)
    seconds = block_seconds(prepared, settings.block_seconds, still)
    return _Data(settings, prepared, choice, rows, batches, summary, still, seconds)


def _fit(call: _Call, data: _Data) -> _Found:
    """Chooses the model, estimates its shapes and fits it; what cannot be is doubted."""
    robot, settings, batches = call.robot, data.settings, data.batches
    # Of a joint without an equation no friction is found, however it moves.
    moved = np.asarray(data.summary.moved)
    moved = moved if data.prepared.measured is None else moved & data.prepared.measured
    # A model is estimated, and wrong inputs are found out, by estimates that may be unreal.
    searching = unconstrained(settings.estimator)

    def fit_on(batches: Iterable[Samples], terms: Terms, like: Fitted | None = None) -> Fitted:
        structural = structural_base(robot, terms, data.rows, settings.seed)
        alive = np.concatenate([term.alive(robot, moved) for term in terms])
        wanted, parallel = structural.mask & alive, data.prepared.parallel_filter()
        assembly = Assembly(robot, terms, data.rows, wanted, parallel, data.seconds)
        if data.prepared.measured is not None:
            assembly = replace(assembly, wanted=wanted & assembly.of_joints(data.prepared.measured))
        known = None if like is None else assembly.unchanged(like.assembly, like.factors)
        factors = assembly.factors(batches, call.threads, stage(call.progress, "equations"), known)
        noise = partial(MotionNoise.of, data.prepared)
        commands = data.prepared.log.commands_of if data.prepared.log.mapping.commanded else None
        source = LogSource(assembly, batches, call.simulating, noise, call.progress, commands)
        regression = regression_of(robot, terms, structural, factors, source)
        found = searching.fit(regression)
        if data.prepared.log.mapping.commanded:
            late = of_late_feedback(robot, terms, found.base)
            found = replace(found, covariance=found.covariance + late)
        return Fitted(structural, assembly, factors, regression, found)

    fit = partial(fit_on, batches)
    search = Search(robot, fit, batches, moved, settings.folds, settings.seed, call.threads)
    trial = _trial(search, fit_on, data)
    model = (
        choose_model(settings.model, trial, call.diagnostics)
        if settings.chooses_model
        else Chosen(settings.model)
    )
    while True:
        # Of a fit that is given up nothing is to be said.
        attempt = replace(call, diagnostics=Diagnostics(accepting=call.diagnostics.accepting))
        found = _fit_chosen(attempt, data, search, trial, model)
        others = found.model.without_unsure(call.diagnostics)
        if others is None:
            found.model.report(call.diagnostics)
            call.diagnostics.extend(attempt.diagnostics)
            return found
        model = others


def _fit_chosen(call: _Call, data: _Data, search: Search, trial: Search, model: Chosen) -> _Found:
    """The fit of a model that was chosen, its nonlinear parameters and its bodies."""
    robot, settings, batches, fit = call.robot, data.settings, data.batches, search.fit
    nonlinear = fit_nonlinear(model.terms, trial, model.start)
    nonlinear = replace(nonlinear, terms=within_speeds(nonlinear.terms, robot, trial.batches))
    fitted = fit(nonlinear.terms)
    if model.nominal is not None:
        nonlinear, fitted = relinearised(robot, nonlinear, fitted, model.nominal, fit)
    free, shapes = with_shape_uncertainty(fitted, nonlinear, search, trial)
    check_negative_stiffness(robot, free, call.diagnostics)
    check_negative_springs(free, call.diagnostics)
    asked = settings.estimator != default_estimator()

    def cause(consistent: FeasibleFit) -> str:
        # Causes are compared where models are; a prior that holds against fewer equations weighs as much less.
        there = fitted if trial.share == 1.0 else trial.fit(nonlinear.terms)
        weaker = replace(consistent, strength=float(consistent.strength) * trial.share)
        return cause_text(likely_causes(robot, there, free, weaker, trial.fit))

    def stands_in(real: Estimate) -> bool:
        return may_stand_in(robot, nonlinear.terms, free, real, trial.batches)

    estimate, estimator = project_to_physical(
        settings.estimator, fitted.regression, free, asked, call.diagnostics, cause, stands_in
    )
    stiffness = report_stiffness(fitted.assembly, batches, estimate, call.diagnostics)
    return _Found(
        trial, model.as_estimated(estimate), nonlinear, fitted, free, estimate, estimator, shapes, stiffness
    )


class _FitOn(Protocol):
    """Fits a model to some batches."""

    def __call__(self, batches: Iterable[Samples], terms: Terms, like: Fitted | None = None) -> Fitted:
        """As `Fit`."""
        ...


def _trial(search: Search, fit_on: _FitOn, data: _Data) -> Search:
    # Models are compared, and shapes estimated, in a dozen passes: of a log that is read anew each time a share does,
    # in which every block of time has its part.
    share = share_to_choose_on(data.prepared, data.still)
    if share >= 1.0:
        return search
    margin = data.prepared.parallel_filter().margin + SPARE
    kept = list(thinned(data.batches, share, data.seconds, margin))
    return replace(search, fit=LatestKept(partial(fit_on, kept)), batches=kept, share=share)


def _fit_sound(
    call: _Call, data: _Data
) -> tuple[_Data, _Found, Validation, ResidualAnalysis | None, tuple[ResidualFinding, ...]]:
    """The fit and its residuals, once more where these show times that are to be left out; and what was seen there."""
    trial = replace(call, diagnostics=Diagnostics(accepting=call.diagnostics.accepting))
    found, training, analysis = _fit_and_score(trial, data)
    seen = () if analysis is None else spoilt_times(analysis)
    sound = without_times(data.batches, seen, data.prepared.bandwidth, call.diagnostics)
    if sound is None:
        call.diagnostics.extend(trial.diagnostics)
        return data, found, training, analysis, ()
    data = replace(data, batches=sound[0])
    return data, *_fit_and_score(call, data), sound[1]


def _fit_and_score(call: _Call, data: _Data) -> tuple[_Found, Validation, ResidualAnalysis | None]:
    found, progress = _fit(call, data), stage(call.progress, "residuals")
    assembly = found.fitted.assembly
    kept, travel = share_to_keep(data.prepared), travel_at_rest(data.prepared, data.still)
    training, left_out = score(
        assembly,
        found.estimate,
        data.batches,
        Origin.TRAINING,
        call.threads,
        progress,
        share=kept,
        travel=travel,
    )
    training = training.with_rest(data.summary.at_rest)
    found = replace(found, left_out=left_out)
    if training.residuals is None:
        return found, training, None
    terms, raw = found.nonlinear.terms, first_torque(call.log)
    residuals = training.residuals
    if much_worse(found.estimate, found.free):
        # What constraints leave behind is no sign of the log.
        plain, _ = score(
            assembly, found.free, data.batches, Origin.TRAINING, call.threads, progress, share=kept
        )
        residuals = residuals if plain.residuals is None else plain.residuals
    analysis = ResidualAnalysis(
        call.robot,
        terms,
        found.free,
        residuals,
        data.prepared.bandwidth,
        raw,
        data.prepared.source_rate,
        data.choice.trusted,
        data.prepared.measured,
    )
    return found, training, analysis


def _examine(
    call: _Call, data: _Data, found: _Found, analysis: ResidualAnalysis | None
) -> Callable[[], tuple[ResidualFinding, ...]]:
    """Doubts inputs that the residuals give away; the function waits for what else they say."""
    if analysis is None:
        return tuple
    terms, diagnostics = found.nonlinear.terms, call.diagnostics
    misread = check_wiring(analysis, diagnostics)
    # What a known friction lacks may have either sign.
    if not any(term.knows_friction for term in terms):
        check_negative_friction(analysis, diagnostics, call.log.mapping.commanded)
    diagnosed = beside(
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


def _held_out_log(
    call: _Call, data: _Data, found: _Found, validation: Log, training: Validation
) -> Validation:
    origin = origin_of(validation, call.log.identity(), call.diagnostics)
    return score_log(
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


def _warn_of_rest(at_rest: tuple[str, ...], diagnostics: Diagnostics) -> None:
    for name in at_rest:
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{name}' never moved: its friction and rotor inertia are not identified",
        )


def _held_out_blocks(
    found: _Found, batches: Iterable[Samples], estimator: Estimator, diagnostics: Diagnostics
) -> tuple[Validation, ...]:
    left_out, fitted = found.left_out, found.fitted
    nonlinear, search = found.nonlinear, found.trial
    blocks = len(fitted.regression.factors.blocks)
    made = len(folds_of(fitted.regression.factors, search.folds))
    if not made:
        diagnostics.warn("too-short-to-hold-out", f"{why_none_held_out(blocks)}; validate on another log")
        return ()
    if made != search.folds:
        diagnostics.note(
            "folds", f"{made} folds in place of {search.folds}: the log has {blocks} blocks of time"
        )
    trajectories = {block.trajectory for block in fitted.regression.factors.blocks}
    for name, seconds in periods(batches, trajectories).items():
        diagnostics.note(
            MOTION_REPEATS,
            f"The motion of '{name}' repeats after {seconds:.3g} s: held-out blocks hold what the model was fitted on "
            "a repetition before; validate on another motion (--validate) to see what it misses of that.",
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


def _torque_factors(found: _Found, batches: Iterable[Samples]) -> Factors | None:
    fitted = found.fitted
    # A score is an error of torque, whatever was fitted: work or filtered torque has another size and another noise.
    if isinstance(fitted.assembly.rows, TorqueRows | ElasticRows | MotorRows):
        return None
    assembly = replace(fitted.assembly, rows=TorqueRows(), wanted=fitted.regression.base.mask)
    return assembly.factors(batches, found.trial.threads)


def _require_efforts(robot: RobotModel, log: Log, rows: Rows) -> None:
    if not log.unmeasured or set(rows.groups(robot)) & set(robot.joint_names):
        return
    raise UsageError(
        "no-effort",
        found=f"{rows.name} rows, which hold the work of all joints, and no effort of {', '.join(log.unmeasured)}",
        expected="the effort of every joint",
        do="choose torque or momentum rows, which leave out the equation of such a joint",
    )


def _require_scale(terms: Terms, diagnostics: Diagnostics) -> None:
    # With a free gain every torque is right: only a payload of known mass fixes the scale.
    scales = {term.scale for term in terms}
    if Scale.FREES in scales and Scale.FIXES not in scales:
        diagnostics.warn(
            "no-scale",
            "drive gains are free without a payload of known mass: nothing in the equations fixes their scale, and "
            "scores in units of the measured torque mean little",
        )
