"""The model of a log: chosen, its nonlinear parameters estimated, fitted, and scored on the training data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Protocol

import numpy as np

from dynid.base.diagnostics import Diagnostics, Finding
from dynid.base.errors import Place, UsageError
from dynid.base.parallel import Progress
from dynid.base.records import dataclass
from dynid.choose.choose_model import Chosen, choose_model, relinearised, within_extent
from dynid.choose.fit_nonlinear import fit_nonlinear
from dynid.choose.search import SPARE, Fitted, LatestKept, NonlinearFit, Search, ShapeEstimate
from dynid.choose.shape_intervals import with_shape_uncertainty
from dynid.diagnosis.ground_contact import require_free_legs
from dynid.diagnosis.masking import spoilt_times, without_times
from dynid.diagnosis.residual_analysis import ResidualAnalysis, first_torque
from dynid.estimate.estimator import Estimate, Estimator
from dynid.estimate.physical import much_worse, project_to_physical, unconstrained, warn_of_descriptions
from dynid.estimate.posterior import MAP
from dynid.estimate.prior import regression_of
from dynid.estimate.scores import LeftOut, Origin
from dynid.estimate.servo_error import of_late_feedback
from dynid.estimate.simulated import stiffness_ranges
from dynid.estimate.source import LogSource
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking, thinned
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.log.summary import LogSummary, switches_of
from dynid.recording import Channels
from dynid.robot.model import RobotModel
from dynid.rows.automatic import RowsChoice, choose_rows
from dynid.rows.elastic import ElasticRows
from dynid.rows.energy import EnergyRows, FilteredPowerRows, PowerRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import Rest, blocks_of, share_to_choose_on, share_to_keep
from dynid.run.result import Validation
from dynid.run.scoring import score
from dynid.run.validation import read_samples, stage, travel_at_rest
from dynid.run.verdict import check_negative_springs
from dynid.signals.noise import MotionNoise
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.repetition import Repetition, repetitions
from dynid.signals.samples import Samples
from dynid.terms.catalogue import with_described
from dynid.terms.elastic import SpringTerm, Stiffness, is_stiffness, on_joints
from dynid.terms.exports import Scale
from dynid.terms.term import Terms, joint_indices, narrowed

# Data that the steps of an identification pass on: the call, the prepared log, and the fit.


@dataclass(frozen=True, eq=False)
class Call:
    """Arguments that all steps share.

    Attributes
    ----------
    robot : RobotModel
        The robot.
    log : Log
        The log.
    settings : Settings
        The settings.
    threads : int
        Threads of passes over the log.
    simulating : int
        Threads of simulations.
    progress : Progress, optional
        Callback.
    diagnostics : Diagnostics
        Sink of notes, warnings and claims.

    """

    robot: RobotModel
    log: Log
    settings: Settings
    threads: int
    simulating: int
    progress: Progress | None
    diagnostics: Diagnostics


@dataclass(frozen=True, eq=False)
class Data:
    """The log, prepared for the equations.

    Attributes
    ----------
    settings : Settings
        The settings, with the terms that the encoders of the log require.
    prepared : Prepared
        The log with resolved filters.
    choice : RowsChoice
        The choice of the equations.
    rows : Rows
        The equations.
    batches : iterable of Samples
        The samples.
    summary : LogSummary
        Summary of the log.
    rest : Rest
        Samples at which all joints rest.
    repeated : mapping of Repetition
        Trajectories whose motion repeats, by name.
    blocks : Blocking
        How the log is cut into blocks; repeated motions into parts that are held out of all repetitions together.

    """

    settings: Settings
    prepared: Prepared
    choice: RowsChoice
    rows: Rows
    batches: Iterable[Samples]
    summary: LogSummary
    rest: Rest
    repeated: Mapping[str, Repetition]
    blocks: Blocking


@dataclass(frozen=True, eq=False)
class ModelFit:
    """The fit of the chosen model with its nonlinear parameters.

    Attributes
    ----------
    trial : Search
        The search on the samples on which models are compared.
    model : Chosen
        The chosen model.
    nonlinear : NonlinearFit
        Its nonlinear parameters.
    fitted : Fitted
        The equations and their unconstrained fit.
    free : Estimate
        The estimate without physical consistency, which may have signs that no real robot has.
    estimate : Estimate
        The final estimate.
    estimator : Estimator
        The method of the final estimate.
    shapes : tuple of ShapeEstimate
        Estimated shapes of friction and other nonlinear terms.
    stiffness : dict
        Ranges of the stiffness of elastic joints, as plain data.
    left_out : LeftOut, optional
        Samples that the training scores leave out, according to this fit.

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


# One or two encoders per joint: which equations a log allows, and how reliable its stiffnesses are.

SIGNIFICANCE = 4.0  # standard deviations below zero from which on a stiffness is negative


def for_encoders(
    robot: RobotModel,
    terms: Terms,
    rows: Rows,
    channels: Channels,
    diagnostics: Diagnostics,
    automatic: bool = False,
) -> tuple[Terms, Rows]:
    """Adapt terms and equations to the encoders: elastic joints where a log has two encoders, rigid ones elsewhere.

    A warning names what cannot be identified.

    Raises UsageError for springs in rigid equations, and for elastic equations without a spring.
    """
    springs = [term.name for term in terms if isinstance(term, SpringTerm)]
    if isinstance(rows, EnergyRows | PowerRows | FilteredPowerRows) and channels.motor_position:
        have = tuple(name for name in robot.joint_names if name in channels.motor_position)
        kept = (on_joints(term, have) for term in terms)
        return Terms(tuple(term for term in kept if term is not None)), replace(rows, joints=have)
    if not isinstance(rows, ElasticRows):
        if springs:
            raise UsageError(
                "springs-in-rigid-rows",
                found=f"{', '.join(springs)} with {rows.name} rows, in which springs cancel",
                expected="the equations of elastic joints",
                do='set rows = "elastic" under [model]',
            )
        return terms, rows
    wanted = [robot.joint_names[j] for j in joint_indices(robot, rows.joints)]
    have = tuple(name for name in wanted if name in channels.motor_position)
    lacking = [name for name in wanted if name not in have]
    if lacking:
        _warn_of_rigid_joints(lacking, springs, whole=not have, sink=diagnostics)
    if not have:
        return Terms(tuple(term for term in terms if not isinstance(term, SpringTerm))), TorqueRows()
    if not springs:
        if not automatic:
            raise UsageError(
                "no-springs",
                found=f"{rows.name} rows without a spring between motor and link",
                expected="a term for that spring",
                do="add 'stiffness' to the terms under [model]",
            )
        terms = Terms((*terms, Stiffness()))
    kept = (on_joints(term, have) for term in terms)
    return Terms(tuple(term for term in kept if term is not None)), replace(rows, joints=have)


def _warn_of_rigid_joints(joints: list[str], springs: list[str], whole: bool, sink: Diagnostics) -> None:
    stiffness = f"stiffness and damping ({', '.join(springs)})" if springs else "stiffness and damping"
    text = (
        f"one encoder on {', '.join(joints)}: treated as rigid, so that {stiffness} and the friction and inertia on "
        "either side of the spring are not separated. Keep the cutoff frequency below the first resonance"
    )
    if whole:
        text += ". Map the second encoder under [log] as motor_position"
    sink.warn("one-encoder", text)


def check_negative_stiffness(robot: RobotModel, estimate: Estimate, diagnostics: Diagnostics) -> None:
    """Claim negative-stiffness for each significantly negative stiffness, or encoders-exchanged if all are.

    Exchanged encoders reverse the sign of every deflection, and thus of every stiffness. The estimate is unconstrained.
    """
    stiffnesses = [
        (column.owner, float(estimate.value[i]), float(estimate.std[i]))
        for i, column in enumerate(estimate.columns[k] for k in estimate.base.independent)
        if is_stiffness(column)
    ]
    wrong = [(owner, value, std) for owner, value, std in stiffnesses if value < -SIGNIFICANCE * std]
    if not wrong:
        return
    evidence = "; ".join(
        f"{robot.joint_names[owner]}: {value:.4g} N m/rad, standard deviation {std:.2g}"
        for owner, value, std in wrong
    )
    exchanged = len(wrong) == len(stiffnesses)
    diagnostics.claim(
        "encoders-exchanged" if exchanged else "negative-stiffness",
        found=f"negative stiffness ({evidence})",
        expected="a motor that leads its link when it pushes",
        do="swap the columns of position and motor_position under [log]"
        + (", since all stiffnesses are negative" if exchanged else " of this joint")
        + ", or check the sign of the effort",
        place=Place(joint=robot.joint_names[wrong[0][0]]) if len(wrong) == 1 else Place(),
    )


def report_stiffness(
    assembly: Assembly, batches: Iterable[Samples], estimate: Estimate, diagnostics: Diagnostics
) -> dict[str, list[dict[str, object]]]:
    """Compare each stiffness with the range from deflection and torque; warn if it lies outside.

    Returns the ranges as plain data, {"stiffness": [...]}; {} for rigid joints.
    """
    if not isinstance(assembly.rows, ElasticRows):
        return {}
    robot = assembly.robot
    joints = assembly.rows.two_encoders(robot)
    ranges = stiffness_ranges(assembly, joints, batches, estimate.full_vector)
    for joint, interval in zip(joints, ranges, strict=True):
        place = Place(joint=interval.joint)
        range_ = (
            f"{interval.lower:.3g} to {interval.upper:.3g} N m/rad from deflection and torque (deflection explains "
            f"{100 * interval.explained:.2g} % of the torque)"
        )
        value, half = _stiffness(estimate, f"{Stiffness.symbol}{joint + 1}")
        if np.isfinite(value) and (value + half < interval.lower or value - half > interval.upper):
            diagnostics.warn(
                "stiffness-disputed",
                f"stiffness {value:.3g} +- {half:.2g} N m/rad from the equations, but {range_}: hysteresis, backlash "
                "or encoder errors. Trust the wider range",
                place,
            )
        else:
            diagnostics.note("stiffness", f"stiffness {interval.value:.3g}, {range_}", place)
    return {"stiffness": [asdict(interval) for interval in ranges]}


def _stiffness(estimate: Estimate, name: str) -> tuple[float, float]:
    names = [estimate.columns[k].name for k in estimate.base.independent]
    if name not in names:
        return np.nan, np.nan
    i = names.index(name)
    return float(estimate.value[i]), float(estimate.half_width()[i])


# Filters, equations and terms for a log, and its samples.


def read_data(call: Call) -> Data:
    """Choose filters, equations and terms for the log, and compute its samples.

    Raises UsageError if equations, terms and channels of the log do not go together; UnfitDataError if the log has no
    usable sample, or the robot stands on its feet.
    """
    robot, log, settings, diagnostics = call.robot, call.log, call.settings, call.diagnostics
    prepared = prepare(log, settings.preparation, diagnostics)
    choice = choose_rows(settings.rows, robot, settings.model, prepared, diagnostics)
    prepared = choice.prepared(prepared)
    terms, rows = for_encoders(
        robot, settings.model, choice.rows, log.channels, diagnostics, settings.chooses_model
    )
    if settings.chooses_model:
        terms = with_described(terms, robot)
    settings = replace(settings, terms=terms)
    _require_efforts(robot, log, rows)
    _require_scale(terms, diagnostics)
    batches, summary, rest = read_samples(
        prepared,
        diagnostics,
        terms.balances(robot),
        call.threads,
        stage(call.progress, "reading"),
    )
    _warn_of_rest(summary.at_rest, diagnostics)
    require_free_legs(robot, batches, diagnostics)
    repeating = repetitions(batches, {trajectory.name for trajectory in log.trajectories})
    gaps = sum(trajectory.gaps for trajectory in summary.trajectories)
    blocks = blocks_of(repeating, prepared, settings.block_seconds, rest.seconds, gaps)
    return Data(settings, prepared, choice, rows, batches, summary, rest, repeating, blocks)


def _warn_of_rest(at_rest: tuple[str, ...], diagnostics: Diagnostics) -> None:
    for name in at_rest:
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{name}' never moved: its friction and rotor inertia are not identified. Move it, or remove it "
            f"from the model (--lock {name}=VALUE)",
        )


def _require_efforts(robot: RobotModel, log: Log, rows: Rows) -> None:
    if not log.unmeasured or set(rows.groups(robot)) & set(robot.joint_names):
        return
    raise UsageError(
        "no-effort",
        found=f"{rows.name} rows, which contain the work of all joints, without the effort of "
        f"{', '.join(log.unmeasured)}",
        expected="the effort of every joint",
        do="choose torque or momentum rows, which leave out the equations of these joints",
    )


def _require_scale(terms: Terms, diagnostics: Diagnostics) -> None:
    # With free drive gains only a payload of known mass determines the scale.
    scales = {term.traits.scale for term in terms}
    if Scale.FREES in scales and Scale.FIXES not in scales:
        diagnostics.warn(
            "no-scale",
            "all drive gains are free without a payload of known mass: the scale of the parameters is not determined, "
            "and torque errors have no meaningful unit",
        )


def fit_sound(
    call: Call, data: Data
) -> tuple[Data, ModelFit, Validation, ResidualAnalysis | None, tuple[Finding, ...]]:
    """Fit and score the model, and again without the times that its residuals show to be corrupted.

    Returns the data without these times, the fit, its scores on the training data, the analysis of its residuals (None
    without residuals) and the findings about these times.
    """
    trial = replace(call, diagnostics=Diagnostics(accepting=call.diagnostics.accepting))
    model_fit, training, analysis = _fit_and_score(trial, data)
    seen = () if analysis is None else spoilt_times(analysis)
    sound = without_times(data.batches, seen, data.prepared.bandwidth, call.diagnostics)
    if sound is None:
        call.diagnostics.extend(trial.diagnostics)
        return data, model_fit, training, analysis, ()
    data = replace(data, batches=sound[0])
    return data, *_fit_and_score(call, data), sound[1]


def _fit_and_score(call: Call, data: Data) -> tuple[ModelFit, Validation, ResidualAnalysis | None]:
    model_fit, progress = _fit(call, data), stage(call.progress, "residuals")
    assembly = model_fit.fitted.assembly
    kept = share_to_keep(data.prepared)
    travel = travel_at_rest(data.prepared, data.rest.left_out, data.batches)
    training, left_out = score(
        assembly,
        model_fit.estimate,
        data.batches,
        Origin.TRAINING,
        call.threads,
        progress,
        share=kept,
        travel=travel,
    )
    training = training.with_rest(data.summary.at_rest)
    model_fit = replace(model_fit, left_out=left_out)
    if training.residuals is None:
        return model_fit, training, None
    terms, raw = model_fit.nonlinear.terms, first_torque(call.log)
    residuals = training.residuals
    if much_worse(model_fit.estimate, model_fit.free):
        # Errors caused by the constraints must not be attributed to the log.
        plain, _ = score(
            assembly, model_fit.free, data.batches, Origin.TRAINING, call.threads, progress, share=kept
        )
        residuals = residuals if plain.residuals is None else plain.residuals
    analysis = ResidualAnalysis(
        call.robot,
        terms,
        model_fit.free,
        residuals,
        data.prepared.bandwidth,
        raw,
        data.prepared.source_rate,
        data.choice.trusted,
        data.prepared.measured,
        partial(switches_of, call.log),
        data.blocks.repeated,
        data.prepared.settings.rest,
    )
    return model_fit, training, analysis


def _fit(call: Call, data: Data) -> ModelFit:
    """Choose the model, estimate its nonlinear parameters and fit it; claims for results that no robot has."""
    robot, settings, batches = call.robot, data.settings, data.batches
    # A joint without an equation shows no friction, however it moves.
    moved = np.asarray(data.summary.moved)
    moved = moved if data.prepared.measured is None else moved & data.prepared.measured
    # Models are compared, and wrong inputs detected, by unconstrained estimates.
    searching = unconstrained(settings.estimator)

    def fit_on(
        batches: Iterable[Samples], blocks: Blocking, terms: Terms, like: Fitted | None = None
    ) -> Fitted:
        structural = structural_base(robot, terms, data.rows, settings.seed)
        alive = terms.alive(robot, moved)
        wanted, parallel = structural.mask & alive, data.prepared.parallel_filter()
        assembly = Assembly(robot, terms, data.rows, wanted, parallel, blocks)
        if data.prepared.measured is not None:
            assembly = replace(assembly, wanted=wanted & assembly.of_joints(data.prepared.measured))
        known = None if like is None else assembly.unchanged(like.assembly, like.factors)
        factors = assembly.factors(batches, call.threads, stage(call.progress, "equations"), known)
        noise = partial(MotionNoise.of, data.prepared)
        commands = data.prepared.log.commands_of if data.prepared.log.channels.commanded else None
        source = LogSource(assembly, batches, call.simulating, noise, call.progress, commands)
        regression = regression_of(robot, terms, structural, factors, source)
        estimate = searching.fit(regression)
        if data.prepared.log.channels.commanded:
            late = of_late_feedback(robot, terms, estimate.base)
            estimate = replace(estimate, covariance=estimate.covariance + late)
        return Fitted(structural, assembly, factors, regression, estimate)

    fit = partial(fit_on, batches, data.blocks)
    search = Search(
        robot,
        fit,
        batches,
        moved,
        settings.folds,
        settings.seed,
        call.threads,
        slowness=data.prepared.slowness,
        prior=settings.estimator if isinstance(settings.estimator, MAP) else MAP(),
    )
    trial = _trial(search, fit_on, data)
    first = settings.model
    if settings.terms is None:
        first = Terms(tuple(narrowed(term, data.prepared.slowness) for term in first))
    model = choose_model(first, trial, call.diagnostics) if settings.chooses_model else Chosen(first)
    while True:
        # Discard the diagnostics of a rejected fit.
        attempt = replace(call, diagnostics=Diagnostics(accepting=call.diagnostics.accepting))
        model_fit = _fit_chosen(attempt, data, search, trial, model)
        others = model_fit.model.without_unsure(model_fit.estimate, call.diagnostics)
        if others is None:
            model_fit.model.report(call.diagnostics)
            call.diagnostics.extend(attempt.diagnostics)
            return model_fit
        model = others


def _fit_chosen(call: Call, data: Data, search: Search, trial: Search, model: Chosen) -> ModelFit:
    """Fit a chosen model: its nonlinear parameters, then physically consistent links."""
    robot, settings, batches, fit = call.robot, data.settings, data.batches, search.fit
    nonlinear = fit_nonlinear(model.terms, trial, model.start)
    nonlinear = replace(nonlinear, terms=within_extent(nonlinear.terms, robot, trial.batches))
    fitted = fit(nonlinear.terms)
    if model.nominal is not None:
        nonlinear, fitted = relinearised(robot, nonlinear, fitted, model.nominal, fit)
    free, shapes = with_shape_uncertainty(fitted, nonlinear, search, trial)
    check_negative_stiffness(robot, free, call.diagnostics)
    check_negative_springs(free, call.diagnostics)

    estimate, estimator = project_to_physical(settings.estimator, fitted.regression, free, call.diagnostics)
    # Links that miss much more torque lack an effect, which may look like a wrong link.
    if not much_worse(estimate, free):
        warn_of_descriptions(robot, estimate, call.diagnostics)
    stiffness = report_stiffness(fitted.assembly, batches, estimate, call.diagnostics)
    return ModelFit(
        trial, model.as_estimated(estimate), nonlinear, fitted, free, estimate, estimator, shapes, stiffness
    )


class _FitOn(Protocol):
    """Fits a model to batches that are cut into blocks."""

    def __call__(
        self, batches: Iterable[Samples], blocks: Blocking, terms: Terms, like: Fitted | None = None
    ) -> Fitted:
        """As `Fit`."""
        ...


def _trial(search: Search, fit_on: _FitOn, data: Data) -> Search:
    # Comparing models and estimating shapes takes a dozen passes. Each pass reads a long log anew, so that a share of
    # it with a part of every block of time is used.
    share = share_to_choose_on(data.prepared, data.rest.left_out)
    if share >= 1.0:
        return search
    margin = data.prepared.parallel_filter().margin + SPARE
    kept = list(thinned(data.batches, share, data.blocks, margin))
    # The same part of all repetitions of a motion counts as one block.
    fit = partial(fit_on, kept, data.blocks.of_all_repetitions())
    return replace(search, fit=LatestKept(fit), batches=kept, share=share)
