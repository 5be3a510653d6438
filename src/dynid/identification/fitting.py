"""The model of a log: chosen, with its shapes estimated, fitted, scored on what it was fitted to."""

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
from dynid.choose.consistency_cause import cause_text, likely_causes
from dynid.choose.fit_nonlinear import fit_nonlinear
from dynid.choose.search import SPARE, Fitted, LatestKept, NonlinearFit, Search, ShapeEstimate
from dynid.choose.shape_intervals import with_shape_uncertainty
from dynid.diagnosis.masking import spoilt_times, without_times
from dynid.diagnosis.residual_analysis import ResidualAnalysis, first_torque
from dynid.estimate.estimator import Estimate, Estimator
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.physical import may_stand_in, much_worse, project_to_physical, unconstrained
from dynid.estimate.prior import regression_of
from dynid.estimate.scores import LeftOut, Origin
from dynid.estimate.servo_error import of_late_feedback
from dynid.estimate.simulated import stiffness_ranges
from dynid.estimate.source import LogSource
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking, thinned
from dynid.identification.settings import Settings, default_estimator
from dynid.log.prior_check import all_turned
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

# What the steps of an identification hand on: the call, the log as equations want it, and the fit.


@dataclass(frozen=True, eq=False)
class Call:
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
class Data:
    """The log as equations want it.

    settings: with the terms that its encoders ask for.    rest: in which all joints stand.
    repeated: trajectories whose motion is gone through more than once, by name.    blocks: how the log is cut; of
    `repeated` those into parts of which a part can be held out of all repetitions together.
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
class Found:
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


# One encoder a joint or two: which equations a log allows, and what its stiffnesses are worth.

SIGNIFICANCE = 4.0


def for_encoders(
    robot: RobotModel,
    terms: Terms,
    rows: Rows,
    channels: Channels,
    diagnostics: Diagnostics,
    automatic: bool = False,
) -> tuple[Terms, Rows]:
    """The model and the equations that a log allows: elastic joints where it has two encoders, rigid ones elsewhere.

    automatic: whether the terms are a beginning that may be added to.
    Says in a warning what is lost. Raises UsageError for springs in rigid equations and for elastic ones without.
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
                found=f"{', '.join(springs)} with {rows.name} rows, in whose sum of both sides springs cancel",
                expected="the equations of elastic joints",
                do='set rows = "elastic" under [model]',
            )
        return terms, rows
    wanted = [robot.joint_names[j] for j in joint_indices(robot, rows.joints)]
    have = tuple(name for name in wanted if name in channels.motor_position)
    lacking = [name for name in wanted if name not in have]
    if lacking:
        _say_what_is_lost(lacking, springs, whole=not have, sink=diagnostics)
    if not have:
        return Terms(tuple(term for term in terms if not isinstance(term, SpringTerm))), TorqueRows()
    if not springs:
        if not automatic:
            raise UsageError(
                "no-springs",
                found=f"{rows.name} rows, and no term between motor and link",
                expected="the spring that joins both",
                do="add 'stiffness' to the terms under [model]",
            )
        terms = Terms((*terms, Stiffness()))
    kept = (on_joints(term, have) for term in terms)
    return Terms(tuple(term for term in kept if term is not None)), replace(rows, joints=have)


def _say_what_is_lost(joints: list[str], springs: list[str], whole: bool, sink: Diagnostics) -> None:
    names = ", ".join(joints)
    text = f"one encoder on {names}: rigid joints are identified there. Lost: "
    text += "the transmission's stiffness and damping"
    text += f" ({', '.join(springs)}), " if springs else ", "
    text += (
        "friction behind the spring apart from the motor's, and the rotor's inertia apart from the link's wherever "
        "both follow the same acceleration. Vibration of the joint counts as error: keep the cut-off below its first "
        "resonance"
    )
    if whole:
        text += ". Map the second encoder under [log] as motor_position"
    sink.warn("one-encoder", text)


def check_negative_stiffness(robot: RobotModel, estimate: Estimate, diagnostics: Diagnostics) -> None:
    """Claims negative-stiffness or encoders-exchanged beyond doubt: springs push back, they do not pull on.

    Exchanged encoders turn the sign of every deflection, and so of every stiffness.
    """
    found = [
        (column.owner, float(estimate.value[i]), float(estimate.std[i]))
        for i, column in enumerate(estimate.columns[k] for k in estimate.base.independent)
        if is_stiffness(column)
    ]
    wrong = [(owner, value, std) for owner, value, std in found if value < -SIGNIFICANCE * std]
    if not wrong:
        return
    evidence = "; ".join(
        f"{robot.joint_names[owner]}: {value:.4g} N m/rad, standard deviation {std:.2g}"
        for owner, value, std in wrong
    )
    exchanged = len(wrong) == len(found)
    diagnostics.claim(
        "encoders-exchanged" if exchanged else "negative-stiffness",
        found=f"negative stiffness beyond doubt ({evidence})",
        expected="a motor that runs ahead of its link when it pushes",
        do="exchange the columns of position and motor_position under [log]"
        + (
            ": every joint's is negative, as when the encoders are exchanged"
            if exchanged
            else " of this joint"
        )
        + ", or check the sign of the effort",
        place=Place(joint=robot.joint_names[wrong[0][0]]) if len(wrong) == 1 else Place(),
    )


def report_stiffness(
    assembly: Assembly, batches: Iterable[Samples], estimate: Estimate, diagnostics: Diagnostics
) -> dict[str, list[dict[str, object]]]:
    """Sets each stiffness beside the range that deflection and torque allow; a warning where it lies outside.

    Returns the ranges as plain data, {"stiffness": [...]}; {} for rigid joints.
    """
    if not isinstance(assembly.rows, ElasticRows):
        return {}
    robot = assembly.robot
    joints = assembly.rows.two_encoders(robot)
    ranges = stiffness_ranges(assembly, joints, batches, estimate.full_vector)
    for joint, one in zip(joints, ranges, strict=True):
        place = Place(joint=one.joint)
        range_ = f"{one.lower:.3g} to {one.upper:.3g} N m/rad by deflection and torque, {one.value:.3g} in the middle"
        range_ += f" (deflection explains {100 * one.explained:.2g} % of the torque)"
        value, half = _stiffness(estimate, f"{Stiffness.symbol}{joint + 1}")
        if np.isfinite(value) and (value + half < one.lower or value - half > one.upper):
            diagnostics.warn(
                "stiffness-disputed",
                f"stiffness {value:.3g} +- {half:.2g} N m/rad from the equations, but {range_}: hysteresis, play or "
                "errors of an encoder; trust the wider range",
                place,
            )
        else:
            diagnostics.note("stiffness", f"stiffness {range_}", place)
    return {"stiffness": [asdict(one) for one in ranges]}


def _stiffness(estimate: Estimate, name: str) -> tuple[float, float]:
    names = [estimate.columns[k].name for k in estimate.base.independent]
    if name not in names:
        return np.nan, np.nan
    i = names.index(name)
    return float(estimate.value[i]), float(estimate.half_width()[i])


# Filters, rows and terms that fit a log, and its samples.


def read_data(call: Call) -> Data:
    """Filters, rows and terms that fit the log, and its samples."""
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
    found = repetitions(batches, {one.name for one in log.trajectories})
    gaps = sum(one.gaps for one in summary.trajectories)
    blocks = blocks_of(found, prepared, settings.block_seconds, rest.seconds, gaps)
    return Data(settings, prepared, choice, rows, batches, summary, rest, found, blocks)


def _warn_of_rest(at_rest: tuple[str, ...], diagnostics: Diagnostics) -> None:
    for name in at_rest:
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{name}' never moved: its friction and rotor inertia are not identified; move it, or take it out "
            f"of the model (--lock {name}=VALUE)",
        )


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
    scales = {term.traits.scale for term in terms}
    if Scale.FREES in scales and Scale.FIXES not in scales:
        diagnostics.warn(
            "no-scale",
            "drive gains are free without a payload of known mass: nothing in the equations fixes their scale, and "
            "scores in units of the measured torque mean little",
        )


def fit_sound(
    call: Call, data: Data
) -> tuple[Data, Found, Validation, ResidualAnalysis | None, tuple[Finding, ...]]:
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


def _fit_and_score(call: Call, data: Data) -> tuple[Found, Validation, ResidualAnalysis | None]:
    found, progress = _fit(call, data), stage(call.progress, "residuals")
    assembly = found.fitted.assembly
    kept = share_to_keep(data.prepared)
    travel = travel_at_rest(data.prepared, data.rest.left_out, data.batches)
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
        partial(switches_of, call.log),
        data.blocks.repeated,
        data.prepared.settings.rest,
    )
    return found, training, analysis


def _fit(call: Call, data: Data) -> Found:
    """Chooses the model, estimates its shapes and fits it; what cannot be is doubted."""
    robot, settings, batches = call.robot, data.settings, data.batches
    # Of a joint without an equation no friction is found, however it moves.
    moved = np.asarray(data.summary.moved)
    moved = moved if data.prepared.measured is None else moved & data.prepared.measured
    # A model is estimated, and wrong inputs are found out, by estimates that may be unreal.
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
        found = searching.fit(regression)
        if data.prepared.log.channels.commanded:
            late = of_late_feedback(robot, terms, found.base)
            found = replace(found, covariance=found.covariance + late)
        return Fitted(structural, assembly, factors, regression, found)

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
    )
    trial = _trial(search, fit_on, data)
    first = settings.model
    if settings.terms is None:
        first = Terms(tuple(narrowed(term, data.prepared.slowness) for term in first))
    model = choose_model(first, trial, call.diagnostics) if settings.chooses_model else Chosen(first)
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


def _fit_chosen(call: Call, data: Data, search: Search, trial: Search, model: Chosen) -> Found:
    """The fit of a model that was chosen, its nonlinear parameters and its bodies."""
    robot, settings, batches, fit = call.robot, data.settings, data.batches, search.fit
    nonlinear = fit_nonlinear(model.terms, trial, model.start)
    nonlinear = replace(nonlinear, terms=within_extent(nonlinear.terms, robot, trial.batches))
    fitted = fit(nonlinear.terms)
    if model.nominal is not None:
        nonlinear, fitted = relinearised(robot, nonlinear, fitted, model.nominal, fit)
    free, shapes = with_shape_uncertainty(fitted, nonlinear, search, trial)
    check_negative_stiffness(robot, free, call.diagnostics)
    check_negative_springs(free, call.diagnostics)
    asked = settings.estimator != default_estimator()

    def cause(consistent: FeasibleFit) -> str:
        if all_turned(call.diagnostics):
            return ""  # the bodies that such a torque needs are not possible ones
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
    return Found(
        trial, model.as_estimated(estimate), nonlinear, fitted, free, estimate, estimator, shapes, stiffness
    )


class _FitOn(Protocol):
    """Fits a model to some batches, cut into blocks."""

    def __call__(
        self, batches: Iterable[Samples], blocks: Blocking, terms: Terms, like: Fitted | None = None
    ) -> Fitted:
        """As `Fit`."""
        ...


def _trial(search: Search, fit_on: _FitOn, data: Data) -> Search:
    # Models are compared, and shapes estimated, in a dozen passes: of a log that is read anew each time a share does,
    # in which every block of time has its part.
    share = share_to_choose_on(data.prepared, data.rest.left_out)
    if share >= 1.0:
        return search
    margin = data.prepared.parallel_filter().margin + SPARE
    kept = list(thinned(data.batches, share, data.blocks, margin))
    # Of a motion that repeats the same part of all repetitions is judged as one.
    fit = partial(fit_on, kept, data.blocks.of_all_repetitions())
    return replace(search, fit=LatestKept(fit), batches=kept, share=share)
