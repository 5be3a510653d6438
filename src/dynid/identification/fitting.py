"""The model of a log: chosen, with its shapes estimated, fitted, scored on what it was fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.choose.build import within_extent
from dynid.choose.choose_model import Chosen, choose_model
from dynid.choose.consistency_cause import cause_text, likely_causes
from dynid.choose.fit_nonlinear import fit_nonlinear
from dynid.choose.relinearise import relinearised
from dynid.choose.search import SPARE, Fitted, LatestKept, Search
from dynid.choose.shape_intervals import with_shape_uncertainty
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.masking import spoilt_times, without_times
from dynid.diagnosis.raw import first_torque
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.estimate.estimator import Estimate
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.late_feedback import of_late_feedback
from dynid.estimate.physical import much_worse, project_to_physical, unconstrained
from dynid.estimate.regression import regression_of
from dynid.estimate.scores import Origin
from dynid.estimate.source import LogSource
from dynid.estimate.stand_in import may_stand_in
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking
from dynid.factor.thinning import thinned
from dynid.identification.encoders import check_negative_stiffness, report_stiffness
from dynid.identification.settings import default_estimator
from dynid.identification.steps import Call, Data, Found
from dynid.log.prior_check import all_turned
from dynid.log.switches import switches_of
from dynid.run.blocks import share_to_choose_on, share_to_keep
from dynid.run.result import Validation
from dynid.run.scoring import score
from dynid.run.validation import stage, travel_at_rest
from dynid.run.verdict import check_negative_springs
from dynid.signals.noise import MotionNoise
from dynid.signals.samples import Samples
from dynid.terms.joint_term import narrowed
from dynid.terms.term import Terms


def fit_sound(
    call: Call, data: Data
) -> tuple[Data, Found, Validation, ResidualAnalysis | None, tuple[ResidualFinding, ...]]:
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
        alive = np.concatenate([term.alive(robot, moved) for term in terms])
        wanted, parallel = structural.mask & alive, data.prepared.parallel_filter()
        assembly = Assembly(robot, terms, data.rows, wanted, parallel, blocks)
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
