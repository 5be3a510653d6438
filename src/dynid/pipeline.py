"""The main job in one verb: a robot and its log in, a judged model out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

import numpy as np

from dynid.absorbed import tell_absorbed
from dynid.arrays import Bool
from dynid.diagnosis.diagnosis import diagnose
from dynid.diagnosis.evidence import Evidence
from dynid.diagnosis.raw import first_torque
from dynid.diagnosis.rivals import refuse_other_readings
from dynid.diagnosis.symptom import Symptom
from dynid.diagnosis.traps import compare_with_description
from dynid.diagnostics import Diagnostics
from dynid.encoders import for_encoders, refuse_negative_stiffness, report_stiffness
from dynid.estimate.estimator import Estimator, Regression
from dynid.estimate.prior import parameter_spread
from dynid.estimate.source import LogSource
from dynid.factor.assemble import Assembly
from dynid.factor.base import BaseMap, structural_base
from dynid.factor.data_base import data_base, influence
from dynid.factor.factor import Factors
from dynid.identification import Identification, Validation
from dynid.judge import judge, refuse_negative_friction, refuse_negative_springs
from dynid.lag import check_lag
from dynid.log.read import Log
from dynid.parallel import beside, default_threads
from dynid.provenance import provenance
from dynid.robot.model import RobotModel
from dynid.rows.automatic import choose_rows
from dynid.rows.elastic import ElasticRows
from dynid.rows.motor import MotorRows
from dynid.rows.torque import TorqueRows
from dynid.scores import Origin, cross_validate
from dynid.selection.choose import Chosen, choose_model
from dynid.settings import Progress, Settings, settings_to_recipe
from dynid.shapes.folds import held_out_scores
from dynid.shapes.settle import Fitted, Search, Settled, settle
from dynid.shapes.uncertainty import with_shape_uncertainty
from dynid.signals.noise import MotionNoise
from dynid.signals.prepare import prepare
from dynid.terms.compensation import RotorCompensation
from dynid.terms.term import Terms
from dynid.validation import block_seconds, origin_of, read_samples, score, score_log, stage


def identify(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    validation: Log | None = None,
    truth: Mapping[str, float] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    recipe: Mapping[str, Any] | None = None,
    diagnostics: Diagnostics | None = None,
) -> Identification:
    """Identifies the robot's dynamics from a log and judges the result on data that was not fitted.

    validation: a log that is held out; without one, contiguous blocks of the log are held out in turn.
    truth: parameter values by name, for simulated robots.    threads: None = all; results do not depend on it.
    progress: told (stage, seconds of data done).    recipe: what to write down as the recipe.
    diagnostics: sink that may already hold what reading the robot and the log found.

    Raises UnfitDataError if the log cannot support an identification, InputError if it cannot be read.
    """
    chosen = settings or Settings()
    workers = threads or default_threads()
    diagnostics = diagnostics if diagnostics is not None else Diagnostics()
    started = time.perf_counter()
    hashes = Thread(target=lambda: log.sha256, name="hash", daemon=True)
    hashes.start()  # the files are hashed while they are read
    prepared = prepare(log, chosen.preparation, diagnostics)
    choice = choose_rows(chosen.rows, robot, chosen.terms, prepared, diagnostics)
    terms, rows = for_encoders(robot, chosen.terms, choice.rows, log.mapping, diagnostics)
    chosen = replace(chosen, terms=terms)
    _require_scale(chosen.terms, diagnostics)
    balanced = chosen.terms.balances(robot)
    remembers = chosen.terms.remembers or chosen.automatic
    batches, summary = read_samples(
        prepared, diagnostics, balanced, remembers, workers, stage(progress, "reading")
    )
    _warn_of_rest(robot, summary.moved, diagnostics)
    length = chosen.block_seconds or block_seconds(prepared)

    def fit(terms: Terms) -> Fitted:
        structural = structural_base(robot, terms, rows, chosen.seed)
        alive = np.concatenate([term.alive(robot, summary.moved) for term in terms])
        assembly = Assembly(robot, terms, rows, structural.mask & alive, prepared.parallel_filter(), length)
        factors = assembly.factors(batches, workers, stage(progress, "equations"))
        regression = replace(
            _regression(robot, terms, structural, factors),
            source=LogSource(assembly, batches, workers, partial(MotionNoise.of, prepared)),
        )
        return Fitted(structural, assembly, factors, regression, chosen.estimator.fit(regression))

    search = Search(robot, fit, batches, np.asarray(summary.moved), chosen.folds, chosen.seed, workers)
    model = choose_model(chosen.terms, search, diagnostics) if chosen.automatic else Chosen(chosen.terms)
    settled = settle(model.terms, search, model.start)
    fitted = fit(settled.terms)
    structural, assembly, factors = fitted.structural, fitted.assembly, fitted.factors
    estimate, shapes = with_shape_uncertainty(fitted, settled, search)
    refuse_negative_stiffness(robot, estimate)
    refuse_negative_springs(estimate)
    stiffness = report_stiffness(assembly, batches, estimate, diagnostics)
    training = score(assembly, estimate, batches, Origin.TRAINING, workers, stage(progress, "residuals"))
    diagnosed: Callable[[], tuple[Symptom, ...]] = tuple
    if training.residuals is not None:
        evidence = Evidence(robot, settled.terms, estimate, training.residuals, prepared.bandwidth)
        refuse_other_readings(evidence)
        # What a known friction lacks may have either sign.
        if not any(isinstance(term, RotorCompensation) for term in settled.terms):
            refuse_negative_friction(estimate, training.residuals)
        check_lag(evidence, prepared.source_rate, diagnostics)
        tell_absorbed(robot, estimate, prepared.source_rate, diagnostics)
        # Residuals that are noise of accelerations say nothing of gravity or loads.
        if choice.trusted:
            compare_with_description(evidence, diagnostics)
        whole = replace(evidence, raw=first_torque(log))
        diagnosed = beside(lambda: diagnose(whole), workers)  # while blocks are held out
    if validation is None:
        validations: tuple[Validation, ...] = _held_out_blocks(
            fitted, settled, search, chosen.estimator, diagnostics
        )
    else:
        hashes.join()
        origin = origin_of(validation, log.identity(), diagnostics)
        validations = (
            score_log(
                robot,
                settled.terms,
                estimate,
                validation,
                prepared.settings,
                diagnostics,
                workers,
                origin,
                progress,
            ),
        )
    hashes.join()
    symptoms = diagnosed()
    return Identification(
        recipe=dict(recipe) if recipe is not None else settings_to_recipe(chosen),
        robot=robot,
        terms=settled.terms,
        structural=structural,
        estimate=estimate,
        factors=factors,
        training=training,
        validations=validations,
        verdict=judge(
            estimate,
            structural,
            training,
            validations,
            diagnostics,
            settled.choices,
            symptoms,
            model.selection,
        ),
        diagnostics=diagnostics,
        preparation=prepared.describe() | {"rows": replace(choice, rows=rows).describe()},
        log_summary=summary.describe() | stiffness,
        provenance=provenance(log, validation, chosen.seed, time.perf_counter() - started),
        truth=truth,
        shapes=shapes,
        choices=settled.choices,
        symptoms=symptoms,
        selection=model.selection,
    )


def _regression(robot: RobotModel, terms: Terms, structural: BaseMap, factors: Factors) -> Regression:
    base = data_base(structural, factors)
    columns = terms.columns(robot)
    kept = factors if base.rank == structural.rank else factors.select(base.mask)
    return Regression(columns, base, kept, parameter_spread(robot, columns, influence(factors)))


def _warn_of_rest(robot: RobotModel, moved: Bool, diagnostics: Diagnostics) -> None:
    for joint in np.flatnonzero(~np.asarray(moved)):
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{robot.joint_names[joint]}' never moved: its friction and rotor inertia are not identified",
        )


def _held_out_blocks(
    fitted: Fitted, settled: Settled, search: Search, estimator: Estimator, diagnostics: Diagnostics
) -> tuple[Validation, ...]:
    blocks = len(fitted.regression.factors.blocks)
    if blocks < 2 * search.folds:
        diagnostics.warn(
            "too-short-to-hold-out",
            f"{blocks} blocks of data are too few to hold any out; validate on another log",
        )
        return ()
    if settled.sought and not set(fitted.factors.group_names) & set(search.robot.joint_names):
        diagnostics.warn(
            "shapes-not-held-out",
            f"{fitted.assembly.rows.name} rows have no equation of single joints to hold out; validate on another log",
        )
        return ()
    if settled.sought:
        return (Validation(held_out_scores(fitted, settled, search, estimator)),)
    judged = _torque_factors(fitted, search)
    return (
        Validation(
            cross_validate(fitted.regression, estimator, search.folds, search.robot.joint_names, judged)
        ),
    )


def _torque_factors(fitted: Fitted, search: Search) -> Factors | None:
    # A score is an error of torque, whatever was fitted: work or filtered torque has another size and another noise.
    if isinstance(fitted.assembly.rows, TorqueRows | ElasticRows | MotorRows):
        return None
    assembly = replace(fitted.assembly, rows=TorqueRows(), wanted=fitted.regression.base.mask)
    return assembly.factors(search.batches, search.threads)


def _require_scale(terms: Terms, diagnostics: Diagnostics) -> None:
    # With a free gain every torque is right: only a payload of known mass fixes the scale.
    names = {term.name for term in terms}
    if "drive_gain" in names and "known_payload" not in names:
        diagnostics.warn(
            "no-scale",
            "drive gains are sought without a payload of known mass: nothing in the equations fixes their scale, and "
            "scores in units of the measured torque mean little",
        )
