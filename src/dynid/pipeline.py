"""The main job in one verb: a robot and its log in, a judged model out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from threading import Thread
from typing import Any

import numpy as np

from dynid.arrays import Bool, Float
from dynid.diagnostics import Diagnostics
from dynid.encoders import for_encoders, refuse_negative_stiffness, report_stiffness
from dynid.errors import UnfitDataError
from dynid.estimate.estimator import Estimate, Estimator, Regression
from dynid.estimate.least_squares import WLS
from dynid.estimate.prior import parameter_spread
from dynid.factor.assemble import Assembly
from dynid.factor.base import DATA_TOLERANCE, BaseMap, base_of_matrix, structural_base
from dynid.factor.factor import Factors, group_scale, stack
from dynid.identification import Identification, Residuals, Validation
from dynid.judge import judge, refuse_negative_friction, refuse_negative_springs
from dynid.lag import check_lag
from dynid.log.checks import LogWatch
from dynid.log.read import Log
from dynid.log.summary import LogSummary
from dynid.parallel import default_threads, ordered_map
from dynid.provenance import provenance
from dynid.robot.model import RobotModel
from dynid.rows.catalogue import rows_to_spec
from dynid.rows.elastic import ElasticRows
from dynid.rows.motor import MotorRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.scores import Origin, Sums, cross_validate
from dynid.shapes.folds import held_out_scores
from dynid.shapes.settle import Fitted, Search, Settled, settle
from dynid.shapes.uncertainty import with_shape_uncertainty
from dynid.signals.past import WithPast
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.terms.catalogue import terms_to_spec
from dynid.terms.compensation import RotorCompensation
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Terms

DEFAULT_TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.02) + Offset()
CACHE_BYTES = 200e6
BLOCKS_WANTED = 60
BLOCK_CYCLES = 8.0

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Settings:
    """How to identify: everything that shapes the numbers, and nothing else.

    terms: the model.    rows: the equations.    estimator: the method.    preparation: the signals.
    folds: number of contiguous folds for held-out blocks.    seed: of the random states for the structural base.
    block_seconds: length of the blocks that intervals and folds are built from; None = from the log's length.
    """

    terms: Terms = DEFAULT_TERMS
    rows: Rows = field(default_factory=TorqueRows)
    estimator: Estimator = field(default_factory=WLS)
    preparation: Preparation = field(default_factory=Preparation)
    folds: int = 5
    seed: int = 0
    block_seconds: float | None = None


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
    terms, rows = for_encoders(robot, chosen.terms, chosen.rows, log.mapping, diagnostics)
    chosen = replace(chosen, terms=terms, rows=rows)
    _require_scale(chosen.terms, diagnostics)
    hashes = Thread(target=lambda: log.sha256, name="hash", daemon=True)
    hashes.start()  # the files are hashed while they are read
    prepared = prepare(log, chosen.preparation, diagnostics)
    balanced = chosen.terms.balances(robot)
    batches, summary = _read(
        prepared, diagnostics, balanced, chosen.terms.remembers, workers, _stage(progress, "reading")
    )
    _warn_of_rest(robot, summary.moved, diagnostics)
    length = chosen.block_seconds or block_seconds(prepared)

    def fit(terms: Terms) -> Fitted:
        structural = structural_base(robot, terms, chosen.rows, chosen.seed)
        alive = np.concatenate([term.alive(robot, summary.moved) for term in terms])
        assembly = Assembly(
            robot, terms, chosen.rows, structural.mask & alive, prepared.parallel_filter(), length
        )
        factors = assembly.factors(batches, workers, _stage(progress, "equations"))
        regression = _regression(robot, terms, structural, factors)
        return Fitted(structural, assembly, factors, regression, chosen.estimator.fit(regression))

    search = Search(robot, fit, batches, np.asarray(summary.moved), chosen.folds, chosen.seed, workers)
    settled = settle(chosen.terms, search)
    fitted = fit(settled.terms)
    structural, assembly, factors = fitted.structural, fitted.assembly, fitted.factors
    estimate, shapes = with_shape_uncertainty(fitted, settled, search)
    refuse_negative_stiffness(robot, estimate)
    refuse_negative_springs(estimate)
    stiffness = report_stiffness(assembly, batches, estimate, diagnostics)
    training = _score(assembly, estimate, batches, Origin.TRAINING, workers, _stage(progress, "residuals"))
    if training.residuals is not None:
        # What a known friction lacks may have either sign.
        if not any(isinstance(term, RotorCompensation) for term in settled.terms):
            refuse_negative_friction(estimate, training.residuals)
        check_lag(training.residuals, prepared.source_rate, diagnostics)
    if validation is None:
        validations: tuple[Validation, ...] = _held_out_blocks(
            fitted, settled, search, chosen.estimator, diagnostics
        )
    else:
        hashes.join()
        origin = _origin(validation, log.identity(), diagnostics)
        validations = (
            _score_log(
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
    return Identification(
        recipe=dict(recipe) if recipe is not None else settings_to_recipe(chosen),
        robot=robot,
        terms=settled.terms,
        structural=structural,
        estimate=estimate,
        factors=factors,
        training=training,
        validations=validations,
        verdict=judge(estimate, structural, training, validations, diagnostics, settled.choices),
        diagnostics=diagnostics,
        preparation=prepared.describe(),
        log_summary=summary.describe() | stiffness,
        provenance=provenance(log, validation, chosen.seed, time.perf_counter() - started),
        truth=truth,
        shapes=shapes,
        choices=settled.choices,
    )


def validate(
    identification: Identification,
    log: Log,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
) -> Validation:
    """Scores an identified model on a log, filtered as in the identification.

    A log that the model was fitted on is scored under the name of training data, with a warning.
    Raises UnfitDataError if the log has no usable sample.
    """
    diagnostics = diagnostics if diagnostics is not None else Diagnostics()
    settings: Any = identification.preparation["settings"]
    trained: Any = identification.provenance.get("training_data", [])
    origin = _origin(log, trained, diagnostics)
    return _score_log(
        identification.robot,
        identification.terms,
        identification.estimate,
        log,
        Preparation(**settings),
        diagnostics,
        threads or default_threads(),
        origin,
        None,
    )


def block_seconds(prepared: Prepared) -> float:
    """Length of a block: a sixtieth of the data, but at least eight periods of the highest frequency kept."""
    return max(prepared.duration / BLOCKS_WANTED, BLOCK_CYCLES / prepared.bandwidth)


def settings_to_recipe(settings: Settings) -> dict[str, Any]:
    """The settings as plain data, in the form of an experiment file."""
    prepare_options = {key: value for key, value in asdict(settings.preparation).items() if value is not None}
    estimate: dict[str, Any] = {
        "method": settings.estimator.name,
        "folds": settings.folds,
        "seed": settings.seed,
    }
    if settings.block_seconds is not None:
        estimate["block_seconds"] = settings.block_seconds
    return {
        "experiment": {
            "model": {"terms": terms_to_spec(settings.terms)} | rows_to_spec(settings.rows),
            "estimate": estimate | _options(settings.estimator),
            "prepare": prepare_options,
        }
    }


def _options(estimator: Estimator) -> dict[str, Any]:
    return {key: value for key, value in vars(estimator).items() if key != "name"}


def _regression(robot: RobotModel, terms: Terms, structural: BaseMap, factors: Factors) -> Regression:
    base = data_base(structural, factors)
    columns = terms.columns(robot)
    kept = factors if base.rank == structural.rank else factors.select(base.mask)
    return Regression(columns, base, kept, parameter_spread(robot, columns, influence(factors)))


def influence(factors: Factors) -> Float:
    """(p,) root mean square of each column over that of the torque it acts on, greatest over the groups; nan = none."""
    found = np.full(factors.parameter_count, np.nan)
    for factor in factors.total:
        torque = np.sqrt(factor.target_square)
        norms = np.linalg.norm(factor.R[:, :-1], axis=0)
        if torque > 0:
            found[factor.columns] = np.fmax(found[factor.columns], norms / torque)
    return np.where(found > 0, found, np.nan)


def data_base(structural: BaseMap, factors: Factors) -> BaseMap:
    """Base parameters that the data at hand can tell apart, as a map from all parameters.

    Each group counts by its own torque, so that a small wrist joint weighs as much as a shoulder.
    """
    present = np.unique(np.concatenate([factor.columns for factor in factors.total]))
    weights = group_scale(factors.total)
    R = stack(factors.total, present, weights)[:-1, :-1]
    rows = np.sqrt(max(factor.count for factor in factors.total))
    names = [structural.names[i] for i in present]
    inner = BaseMap(
        names=structural.names,
        independent=present,
        B=structural.B[np.searchsorted(structural.independent, present)],
        singular_values=structural.singular_values,
        gap=structural.gap,
        scale=structural.scale,
    )
    found = base_of_matrix(R, names, DATA_TOLERANCE)
    scaled = BaseMap(
        names=tuple(names),
        independent=found.independent,
        B=found.B,
        singular_values=found.singular_values,
        gap=found.gap,
        scale=np.linalg.norm(R, axis=0) / rows,
    )
    return scaled.compose(inner)


def _warn_of_rest(robot: RobotModel, moved: Bool, diagnostics: Diagnostics) -> None:
    for joint in np.flatnonzero(~np.asarray(moved)):
        diagnostics.warn(
            "joint-at-rest",
            f"joint '{robot.joint_names[joint]}' never moved: its friction and rotor inertia are not identified",
        )


def _read(
    prepared: Prepared,
    diagnostics: Diagnostics,
    balanced: Bool,
    remembers: bool,
    threads: int,
    progress: Callable[[float], None] | None,
) -> tuple[Iterable[Samples], LogSummary]:
    """Samples of a log and what was found in it, in one pass over the files.

    Samples are needed twice, for the equations and for the residuals; where they are too many to be kept they are made
    anew each time.
    """
    watch = LogWatch(prepared.log, diagnostics, balanced)
    expected = prepared.duration * prepared.rate * 8.0 * (4 * prepared.joints + 4)
    kept: list[Samples] = []
    processed = ordered_map(prepared.process, prepared.windows(watch), threads)
    for samples in WithPast(processed) if remembers else processed:
        if progress is not None:
            progress(len(samples) / samples.rate)
        if expected < CACHE_BYTES:
            kept.append(samples)
    anew = WithPast(prepared) if remembers else prepared
    return (kept if expected < CACHE_BYTES else anew), watch.finish()


def _score(
    assembly: Assembly,
    estimate: Estimate,
    batches: Iterable[Samples],
    origin: Origin,
    threads: int,
    progress: Callable[[float], None] | None,
) -> Validation:
    robot, theta = assembly.robot, estimate.full_vector

    def one(samples: Samples) -> tuple[Samples, Float, Float]:
        model = assembly.terms.torque(robot, samples, theta)
        lines = np.concatenate([samples.tau.T, model.T, samples.q.T, samples.dq.T])
        kept, times = assembly.parallel.apply(np.ascontiguousarray(lines), samples)
        return samples, kept, times

    parts: list[Float] = []
    times: list[Float] = []
    trajectory: list[int] = []
    segment: list[int] = []
    names: dict[str, int] = {}
    for samples, kept, t in ordered_map(one, batches, threads):
        index = names.setdefault(samples.trajectory, len(names))
        parts.append(kept)
        times.append(t)
        trajectory += [index] * len(t)
        segment += [samples.segment] * len(t)
        if progress is not None:
            progress(len(samples) / samples.rate)
    if not parts or not sum(len(t) for t in times):
        raise UnfitDataError(
            "no-samples", found="no usable sample", expected="motion longer than the filters' edges"
        )
    lines = np.concatenate(parts, axis=1)
    n = robot.n
    residuals = Residuals(
        trajectories=tuple(names),
        joint_names=robot.joint_names,
        t=np.concatenate(times),
        trajectory=np.array(trajectory),
        segment=np.array(segment),
        measured=lines[:n].T,
        predicted=lines[n : 2 * n].T,
        q=lines[2 * n : 3 * n].T,
        dq=lines[3 * n :].T,
        rate=assembly.parallel.rate / assembly.parallel.decimation,
    )
    sums = Sums.of_arrays(residuals.measured, residuals.predicted)
    return Validation(sums.scores(origin, robot.joint_names, tuple(names)), residuals)


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


def _origin(log: Log, trained: list[list[Any]], diagnostics: Diagnostics) -> Origin:
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


def _score_log(
    robot: RobotModel,
    terms: Terms,
    estimate: Estimate,
    log: Log,
    preparation: Preparation,
    diagnostics: Diagnostics,
    threads: int,
    origin: Origin,
    progress: Progress | None,
) -> Validation:
    # Filtered as in training; the time grid is this log's own.
    prepared = prepare(log, replace(preparation, rate=None), diagnostics)
    nothing = np.zeros(len(estimate.columns), dtype=np.bool_)
    assembly = Assembly(
        robot, terms, TorqueRows(), nothing, prepared.parallel_filter(), block_seconds(prepared)
    )
    batches, _ = _read(
        prepared, diagnostics, terms.balances(robot), terms.remembers, threads, _stage(progress, "validation")
    )
    return _score(assembly, estimate, batches, origin, threads, None)


def _require_scale(terms: Terms, diagnostics: Diagnostics) -> None:
    # With a free gain every torque is right: only a payload of known mass fixes the scale.
    names = {term.name for term in terms}
    if "drive_gain" in names and "known_payload" not in names:
        diagnostics.warn(
            "no-scale",
            "drive gains are sought without a payload of known mass: nothing in the equations fixes their scale, and "
            "scores in units of the measured torque mean little",
        )


def _stage(progress: Progress | None, name: str) -> Callable[[float], None] | None:
    if progress is None:
        return None
    return lambda seconds: progress(name, seconds)
