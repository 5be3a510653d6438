"""Identification of a robot whose base floats: the IMU moves the base, and no contact force has to be known."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.diagnosis.floating_checks import check_floating
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.physical import project_to_physical, unconstrained, unphysical
from dynid.estimate.prior import regression_of
from dynid.estimate.scores import Origin, cross_validate
from dynid.factor.assemble import Assembly
from dynid.factor.base import BaseMap, structural_base
from dynid.factor.blocking import Blocking
from dynid.factor.factor import Factors
from dynid.identification.fitting import Call
from dynid.identification.settings import Settings, needs_of, settings_to_experiment
from dynid.log.joints import STILL
from dynid.log.read import Log
from dynid.robot.load import with_floating_base
from dynid.robot.model import RobotModel
from dynid.rows.floating import (
    CONTACT,
    FIRST,
    FloatingRows,
    contact_sets,
)
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import LEAST_CYCLES
from dynid.run.floating import FloatingData, describe_rows, read_floating
from dynid.run.links import mass_findings, masses_determined, total_mass
from dynid.run.result import Identification, Validation, provenance
from dynid.run.scoring import score
from dynid.run.validation import note_same_motion, origin_of
from dynid.run.verdict import judge
from dynid.signals.prepare import Prepared
from dynid.signals.samples import Samples
from dynid.terms.term import Term, Terms, joints_of, on_joints

# Fewest samples of a contact set, at the rate of the equations: they determine its errors to a fifth.
FEWEST = 30
# Rounds of weights. Errors of the rows change by a few per cent in the third.
ROUNDS = 3
# Least error of a row as a share of the median of the same kind, so that no row decides alone.
LEAST = 0.05


def floats(robot: RobotModel, log: Log) -> bool:
    """Whether the base of a log's robot floats; raises UsageError if it should and there is no IMU."""
    wanted = robot.reading.base
    if wanted == "floating" and log.channels.base is None:
        raise UsageError(
            "no-imu",
            found="a floating base and a log without IMU",
            expected="the motion of the base: angular velocity and acceleration",
            do='log the IMU and map its columns under [log.imu]; or set base = "fixed" under [robot]',
        )
    return wanted != "fixed" and log.channels.base is not None


# Errors of the rows by contact set, and the fit weighted by them.


def terms_of(terms: Terms, driven: tuple[str, ...]) -> Terms:
    """The terms on joints with a measured torque: neither the base nor another joint shows friction or rotors."""
    kept: list[Term] = []
    for term in terms:
        of_joints = "joints" in getattr(term, "__dataclass_fields__", {})
        joints = tuple(name for name in joints_of(term) or driven if name in driven)
        if joints or not of_joints:
            kept.append(on_joints(term, joints) if of_joints else term)
    return Terms(tuple(kept))


@dataclass(frozen=True, eq=False)
class _Errors:
    # Per contact set: squares of the projected residuals, the share of each row that the projection keeps, and the
    # count.
    sums: dict[tuple[bool, ...], tuple[Float, Float, int]]

    def rows(self, rows: FloatingRows) -> FloatingRows:
        """Rows with the standard deviations that these residuals show."""
        square = np.sum([part[0] for part in self.sums.values()], axis=0)
        share = np.sum([part[1] for part in self.sums.values()], axis=0)
        usual = _deviation(square, share, np.ones(len(square)))
        sigma = {
            key: tuple(_deviation(sums, part, usual).tolist())
            for key, (sums, part, count) in self.sums.items()
            if count >= FEWEST
        }
        return replace(rows, sigma=sigma, usual=tuple(usual.tolist()))


def _deviation(square: Float, share: Float, usual: Float) -> Float:
    # Rows that the projection removes keep the usual deviation.
    seen = share > 1e-6 * share.max(initial=1e-300)
    sigma = np.where(seen, np.sqrt(square / np.where(seen, share, 1.0)), usual)
    for kind in (slice(0, 3), slice(3, 6), slice(6, None)):
        sigma[kind] = np.maximum(sigma[kind], LEAST * np.median(sigma[kind]))
    return np.asarray(np.maximum(sigma, 1e-12))


def errors_of_rows(assembly: Assembly, estimate: Estimate, batches: Iterable[Samples]) -> _Errors:
    """Errors of the rows of an estimate, filtered as its equations, by contact set."""
    plain = replace(cast(FloatingRows, assembly.rows), weighted=False)
    sums: dict[tuple[bool, ...], tuple[Float, Float, int]] = {}
    for samples in batches:
        kept = assembly.parallel.kept(samples)
        if not len(kept):
            continue
        P = plain.projections(assembly.robot, samples)
        rest = samples.tau - assembly.terms.torque(assembly.robot, samples, estimate.full_vector)
        filtered, _ = assembly.parallel.apply(np.ascontiguousarray(np.einsum("tij,tj->it", P, rest)), samples)
        share = np.einsum("tii->ti", P[kept])
        sets, number = contact_sets(samples.extra[CONTACT][kept] > 0.5)
        for k, key in enumerate(map(tuple, sets.tolist())):
            index = number == k
            before = sums.get(key, (np.zeros(assembly.robot.n), np.zeros(assembly.robot.n), 0))
            sums[key] = (
                before[0] + np.sum(filtered[:, index] ** 2, axis=1),
                before[1] + share[index].sum(axis=0),
                before[2] + int(index.sum()),
            )
    return _Errors(sums)


# m/s^2: standard deviation of the accelerometer's bias along each axis (5 mg), usual for calibrated IMUs. Data sheets
# of MEMS chips state offsets of 20 to 80 mg, most of which a calibration removes.
ACCELEROMETER_BIAS = 0.05


def of_accelerometer_bias(assembly: Assembly, estimate: Estimate, batches: Iterable[Samples]) -> Float:
    """Covariance from the unknown bias of the accelerometer, which acts like another gravity.

    It hardly shows in residuals. A bias b of a recording changes the projected torque by D b, D = P d(Y theta)/da, and
    least squares changes the estimate by H^-1 X' W D b. Half of the variance of b is common to all recordings and half
    independent, since it is unknown how much of the bias is the sensor's and how much changes between recordings.

    Result: covariance of the base parameters, (b, b).
    """
    robot, rows, terms = assembly.robot, cast(FloatingRows, assembly.rows), assembly.terms
    width = len(assembly.wanted)
    H, pulls = np.zeros((width, width)), dict[str, Float]()
    for samples in batches:
        if not len(kept := assembly.parallel.kept(samples)):
            continue
        equations = rows.equations(robot, terms, samples, assembly.wanted)
        panels = assembly.filtered(equations, samples)[0].panels
        before = terms.torque(robot, samples, estimate.full_vector)
        P, changes = rows.projections(robot, samples), []
        for axis in range(3):
            ddq = samples.ddq.copy()
            ddq[:, axis] += 1.0
            change = terms.torque(robot, replace(samples, ddq=ddq), estimate.full_vector) - before
            projected = np.ascontiguousarray(np.einsum("tij,tj->it", P, change))
            changes.append(assembly.parallel.apply(projected, samples)[0])
        pull = pulls.setdefault(samples.trajectory, np.zeros((width, 3)))
        for j, (columns, panel) in enumerate(zip(equations.columns, panels, strict=True)):
            used = slice(None) if samples.gate is None else samples.gate[kept, j]
            X = panel[:-1, used]
            H[np.ix_(columns, columns)] += estimate.weights[j] * (X @ X.T)
            pull[columns] += estimate.weights[j] * (X @ np.array([change[j, used] for change in changes]).T)
    index = estimate.base.independent
    size = np.sqrt(np.diag(H)[index])
    inverse = np.linalg.pinv(H[np.ix_(index, index)] / np.outer(size, size), hermitian=True)
    moves = [(inverse @ (pull[index] / size[:, None])) / size[:, None] for pull in pulls.values()]
    common = np.sum(moves, axis=0)
    independent = np.sum([move @ move.T for move in moves], axis=0)
    return np.asarray(0.5 * ACCELEROMETER_BIAS**2 * (common @ common.T + independent))


# Memory for the triangles of the blocks of the fit, in MB, and as much for those of the scores.
MOST_MEGABYTES = 150.0
# Fewest and most blocks of time of a log.
FEWEST_BLOCKS, MOST_BLOCKS = 12, 30


def _blocking(prepared: Prepared, groups: int, columns: int) -> Blocking:
    """Blocks of a thirtieth of the log, or longer where the triangles of many joints would fill memory."""
    megabytes = 8e-6 * groups * (columns + 1) ** 2
    most = float(np.clip(MOST_MEGABYTES / megabytes, FEWEST_BLOCKS, MOST_BLOCKS))
    return Blocking(max(prepared.duration / most, LEAST_CYCLES / prepared.bandwidth))


@dataclass(frozen=True, eq=False)
class FloatingFit:
    """A fit of the weighted equations.

    Attributes
    ----------
    assembly : Assembly
        With the weighted rows.
    structural : BaseMap
    regression : Regression
    free, estimate : Estimate
        Without and with the prior.
    judged : Factors
        The same equations as torques, which are scored.

    """

    assembly: Assembly
    structural: BaseMap
    regression: Regression
    free: Estimate
    estimate: Estimate
    judged: Factors


def fit_floating(
    data: FloatingData,
    batches: list[Samples],
    terms: Terms,
    settings: Settings,
    diagnostics: Diagnostics,
    threads: int = 1,
) -> FloatingFit:
    """Fit a floating robot, with the error of each row in each contact set.

    Only joints with motors have friction and rotors.
    """
    robot = data.robot
    structural = structural_base(robot, terms, TorqueRows(), settings.seed)
    moved = np.ptp(np.concatenate([samples.q for samples in batches]), axis=0) > STILL
    moved[:FIRST] = True
    wanted = structural.mask & terms.alive(robot, moved)
    rows = FloatingRows(data.contacts)
    assembly = Assembly(
        robot,
        terms,
        rows,
        wanted,
        data.prepared.parallel_filter(),
        _blocking(data.prepared, robot.n, int(wanted.sum())),
    )
    plain = unconstrained(settings.estimator)
    for _ in range(ROUNDS):
        regression = regression_of(robot, terms, structural, assembly.factors(batches, threads))
        free = plain.fit(regression)
        rows = errors_of_rows(assembly, free, batches).rows(rows)
        assembly = replace(assembly, rows=replace(rows, weighted=True))
    regression = regression_of(robot, terms, structural, assembly.factors(batches, threads))
    free = plain.fit(regression)
    free = replace(free, covariance=free.covariance + of_accelerometer_bias(assembly, free, batches))
    estimate, _ = project_to_physical(settings.estimator, regression, free, diagnostics)
    torque = replace(assembly, rows=replace(rows, weighted=False), wanted=regression.base.mask)
    return FloatingFit(assembly, structural, regression, free, estimate, torque.factors(batches, threads))


def identify_floating(
    call: Call,
    validation: Log | None,
    experiment: Mapping[str, Any] | None,
    files: Mapping[str, Any] | None,
    truth: Mapping[str, float] | None,
) -> Identification:
    """Identify a robot with a floating base and judge the result on held-out data.

    Scores are errors of projected torque, which no contact force can change. Models are not compared, since effects of
    single joints would need equations of single joints. Arguments as in `identify`.

    Raises UsageError for equations other than torques.
    """
    started = time.perf_counter()
    settings, diagnostics = call.settings, call.diagnostics
    if settings.rows.name not in ("auto", "torque"):
        raise UsageError(
            "floating-rows",
            found=f"{settings.rows.name} rows with a floating base",
            expected="torque rows: momentum and energy of the robot change by contact forces, which are unknown, and "
            "their integrals over a change of contacts cannot be projected",
            do='leave rows out under [model], or set base = "fixed" under [robot] for a base that does not move',
        )
    robot = with_floating_base(call.robot)
    data, batches, summary = read_floating(call.log, robot, settings.preparation, diagnostics)
    check_floating(robot, data.contacts, batches, data.imu_place, data.expected_contacts(), diagnostics)
    silent = call.log.unmeasured
    terms = terms_of(settings.model, tuple(name for name in robot.driven if name not in silent))
    fit = fit_floating(data, batches, terms, settings, diagnostics, call.threads)
    fitted_rows = cast(FloatingRows, fit.assembly.rows)
    scored = replace(fit.assembly, rows=replace(fitted_rows, weighted=False))
    training, left_out = score(scored, fit.estimate, batches, Origin.TRAINING, call.threads, None)
    if validation is None:
        scores = cross_validate(
            fit.regression, settings.estimator, settings.folds, robot.joint_names, fit.judged, left_out
        )
        validations = (Validation(scores),)
    else:
        origin = origin_of(validation, call.log.identity(), diagnostics)
        others, held_out, _ = read_floating(validation, robot, data.prepared.settings, diagnostics)
        rows = replace(fitted_rows, contacts=others.contacts, weighted=False)
        validations = (
            score(
                replace(scored, rows=rows),
                fit.estimate,
                held_out,
                origin,
                call.threads,
                None,
                training.scores.motion,
            )[0],
        )
        note_same_motion(training, validations[0], diagnostics)
    diagnostics.warn("floating-base", in_words(data, fit))
    return Identification(
        experiment=dict(experiment) if experiment is not None else settings_to_experiment(settings),
        files=dict(files or {}),
        robot=robot,
        terms=terms,
        structural=fit.structural,
        estimate=fit.estimate,
        factors=fit.regression.factors,
        training=training,
        validations=validations,
        verdict=judge(
            fit.estimate,
            fit.structural,
            training,
            validations,
            diagnostics,
            bandwidth=data.prepared.bandwidth,
            faults=unphysical(robot, fit.estimate),
            masses=mass_findings(robot, fit.estimate, fit.regression),
            effort_limit=robot.limits.effort,
            masses_determined=masses_determined(fit.estimate, fit.regression),
        ),
        diagnostics=diagnostics,
        preparation=data.prepared.describe() | {"rows": describe_rows(fitted_rows)},
        log_summary=summary.describe(),
        provenance=provenance(
            call.log, validation, settings.seed, time.perf_counter() - started, needs_of(settings)
        ),
        truth=truth,
    )


def in_words(data: FloatingData, fit: FloatingFit) -> str:
    """Number of base parameters that the log determines, with and without contact forces, and motion to record next."""
    rank, whole = fit.regression.base.rank, fit.structural.rank
    mass = total_mass(fit.estimate, fit.regression)
    weighed = data.prepared.log.channels.weighed
    text = f"{rank} of {whole} base parameters are determined "
    text += "by the normal forces of the feet" if weighed else "without contact forces"
    text += "; the robot weighs "
    text += (
        f"{mass.value:.4g} +- {mass.half:.2g} kg" if np.isfinite(mass.half) else "not determined by the log"
    )
    missing = "the torques of the joints" if weighed else record_next(data, fit)
    text += f". Record next: {missing}" if missing else ""
    # Such errors do not show in the residuals of one log, so that no interval from residuals contains them.
    return text + (
        "; the intervals of masses and inertias do not include errors constant over a log: scale of the "
        f"accelerometer, {'scale and offset of the force sensors' if weighed else 'sliding feet'}"
    )


def record_next(data: FloatingData, fit: FloatingFit) -> str:
    """Motion that the log lacks: hanging, standing or stepping; "" if it determines all base parameters."""
    if fit.regression.base.rank == fit.structural.rank:
        return ""
    feet = len(data.contacts) - len(data.base.supports)
    hung = bool(data.base.supports)
    if feet and not hung:
        return "the robot on a rope, all legs moving in the air"
    return "the robot standing, its trunk swaying, then stepping"
