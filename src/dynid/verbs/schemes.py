"""Row schemes side by side on one log: parameters, intervals and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError, UsageError
from dynid.base.records import dataclass
from dynid.base.units import with_interval
from dynid.estimate.estimator import Regression
from dynid.estimate.physical import unconstrained
from dynid.estimate.prior import parameter_spread
from dynid.factor.base import influence
from dynid.factor.factor import Block
from dynid.factor.folds import LEAST_BLOCKS, Candidate, Comparison, compare, folds_of, too_few_blocks
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.energy import EnergyRows, FilteredPowerRows, PowerRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import usual_block
from dynid.run.floating import refuse_floating
from dynid.run.result import Identification
from dynid.signals.prepare import prepare
from dynid.signals.settings import Preparation
from dynid.simulation.forward import Hold
from dynid.simulation.open_loop import OpenLoop, first_stretch, open_loop
from dynid.terms.term import CATALOGUE, Terms
from dynid.terms.transmission import placed_at

# Side of a coupled transmission on which friction acts, by comparing both models on held-out blocks.

SIDES = ("joint", "motor", "both")
# Standard errors by which one side must be better.
DECISIVE = 3.0


@dataclass(frozen=True, eq=False)
class SideComparison:
    """Friction at the joints compared with friction at the motors.

    Attributes
    ----------
    side : str
        "joint", "motor" or "undecided".
    joint, motor : Identification
        Both fits.
    relative : ndarray, shape (2, n_joints)
        Relative error on held-out blocks, joint side first.
    difference : float
        Sum over held-out blocks of the squared errors of the joint-side fit minus those of the motor-side fit, in units
        of each joint's noise; positive values favour the motors.
    std : float
        Standard deviation of that difference over blocks.
    text : str
        The answer in words.

    """

    side: str
    joint: Identification
    motor: Identification
    relative: Float
    difference: float
    std: float
    text: str


def friction_on(terms: Terms, side: str, robot: RobotModel | None = None) -> Terms:
    """The same model with its friction on the other side of the transmission.

    Parameters
    ----------
    terms : Terms
        The model.
    side : {"joint", "motor"}
        Where friction acts.
    robot : RobotModel, optional
        If given, widths of smoothed signs are converted by its median gear ratio.

    Returns
    -------
    Terms

    Raises
    ------
    UsageError
        For another side.

    """
    if side not in ("joint", "motor"):
        raise UsageError("friction-side", found=f"side '{side}'", expected="'joint' or 'motor'")
    ratio = 1.0 if robot is None else float(np.median(np.abs(robot.drive.own_ratio)))
    return Terms(tuple(placed_at(term, side == "motor", ratio) for term in terms))


def on_side(
    robot: RobotModel, log: Log, settings: Settings, side: str, diagnostics: Diagnostics
) -> tuple[Settings, SideComparison | None]:
    """Settings with friction at the joints, at the motors, or (side "both") where held-out blocks are predicted better.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    log : Log
        The log.
    settings : Settings
        Settings of the identification.
    side : {"joint", "motor", "both"}
        With "both", undecided settings stay unchanged.
    diagnostics : Diagnostics
        Collects warnings and notes.

    Returns
    -------
    Settings
    SideComparison or None
        The comparison for "both".

    Raises
    ------
    UsageError
        For another side; also as `compare_sides`.

    """
    if side not in SIDES:
        raise UsageError("friction-side", found=f"side '{side}'", expected=", ".join(SIDES))
    comparison = compare_sides(robot, log, settings) if side == "both" else None
    if comparison is not None:
        diagnostics.note("friction-side", comparison.text)
        side = comparison.side
    if side == "undecided":
        return settings, comparison
    return replace(settings, terms=friction_on(settings.model, side, robot)), comparison


def compare_sides(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    diagnostics: Diagnostics | None = None,
) -> SideComparison:
    """Fit friction at the joints and at the motors to a log, and compare both on held-out blocks.

    If no motor moves several joints, both are the same model and the answer is "undecided".

    Parameters
    ----------
    robot : RobotModel
        The robot.
    log : Log
        The log.
    settings : Settings, optional
        Settings of the identification.
    diagnostics : Diagnostics, optional
        Collects warnings and notes.

    Returns
    -------
    SideComparison

    Raises
    ------
    UsageError
        If the model has no friction term.
    UnfitDataError
        If the log is too short to hold blocks out.

    """
    chosen = settings or Settings()
    # A doubt that is accepted for one model need not occur with the other.
    sink = diagnostics if diagnostics is not None else Diagnostics()
    sink.accept(chosen.accept)
    other = Diagnostics(accepting=sink.accepting)
    # Constraints would bias both estimates, so the comparison is without them.
    chosen = replace(chosen, accept=(), estimator=unconstrained(chosen.estimator))
    models = {side: friction_on(chosen.model, side, robot) for side in ("joint", "motor")}
    if models["joint"] == models["motor"]:
        movable = ", ".join(name for name, kind in CATALOGUE.items() if kind.traits.either_side)
        raise UsageError(
            "no-friction", found=f"a model without {movable}", expected="a model with one of these terms"
        )
    joint, motor = (
        identify(robot, log, replace(chosen, terms=models[side]), diagnostics=collector)
        for side, collector in (("joint", sink), ("motor", other))
    )
    # A fit may have masked some times, so errors are paired only on blocks that are complete in both fits.
    places = [{_block_key(block): m for m, block in enumerate(run.factors.blocks)} for run in (joint, motor)]
    common = [place for place in places[0] if place in places[1]]
    if len(common) < LEAST_BLOCKS:
        raise too_few_blocks(len(common))
    errors = np.stack(
        [
            _held_out_squares(run, chosen)[[place[key] for key in common]]
            for run, place in zip((joint, motor), places, strict=True)
        ]
    )
    blocks = [joint.factors.blocks[places[0][key]] for key in common]
    counts = np.array([[f.count for f in block.groups] for block in blocks], dtype=np.float64)
    torque = np.array([[f.target_square for f in block.groups] for block in blocks]).sum(axis=0)
    noise = errors.sum(axis=1).min(axis=0) / counts.sum(axis=0)
    judged = [
        Candidate(side, run.estimate.base.rank, (squares / np.maximum(noise, 1e-300)).sum(axis=1))
        for side, run, squares in zip(("joint", "motor"), (joint, motor), errors, strict=True)
    ]
    comparison = compare(judged, counts.sum(axis=1), errors=DECISIVE)
    difference = float((judged[0].squares - judged[1].squares).sum())
    std = float(comparison.excess_std.max())
    relative = np.sqrt(errors.sum(axis=1) / np.maximum(torque, 1e-300))
    side = "undecided"
    if robot.drive.coupled and not comparison.within.all():
        side = comparison.winner.name
    return SideComparison(
        side, joint, motor, relative, difference, std, _text(side, robot, relative, difference, std)
    )


def _block_key(block: Block) -> tuple[object, ...]:
    return block.trajectory, block.segment, block.start, *(group.count for group in block.groups)


def _held_out_squares(identification: Identification, settings: Settings) -> Float:
    # Squared errors (n_blocks, n_groups) of each block by a fit without it.
    base = identification.estimate.base
    factors = identification.factors.select(base.mask)
    columns = identification.estimate.columns
    spread = parameter_spread(identification.robot, columns, influence(identification.factors))
    squares = np.zeros((len(factors.blocks), len(factors.group_names)))
    folds = folds_of(factors, settings.folds)
    if not folds:
        raise too_few_blocks(len(factors.blocks))
    for fold in folds:
        training = factors.subset(fold.training)
        theta = settings.estimator.fit(Regression(columns, base, training, spread)).full_vector
        for m in fold.held_out:
            squares[m] = [group.residual_square(theta) for group in factors.blocks[m].groups]
    return squares


def _text(side: str, robot: RobotModel, relative: Float, difference: float, std: float) -> str:
    worst = int(np.argmax(np.abs(relative[0] - relative[1])))
    figures = (
        f"largest difference at joint '{robot.joint_names[worst]}': error {100 * relative[0, worst]:.3g} % with "
        f"friction at the joints, {100 * relative[1, worst]:.3g} % at the motors"
    )
    if side != "undecided":
        return f"friction acts at the {side}s ({abs(difference) / std:.3g} standard deviations); {figures}"
    if not robot.drive.coupled:
        return (
            "no motor moves several joints, so friction at the joints and at the motors gives the same model"
        )
    return f"this log does not separate joint-side from motor-side friction; {figures}"


# s: a model is driven by measured torque alone for this time.
OPEN_LOOP = 5.0
SCHEMES: tuple[Rows, ...] = (TorqueRows(), MomentumRows(), EnergyRows(), PowerRows(), FilteredPowerRows())


@dataclass(frozen=True, eq=False)
class SchemeResult:
    """One scheme of equations: its identification or failure, and its model driven open loop by measured torque.

    open_loop: None if the model cannot be driven, as with terms that read a log channel.
    """

    name: str
    identification: Identification | None
    failure: str = ""
    open_loop: OpenLoop | None = None


def compare_schemes(
    robot: RobotModel,
    log: Log,
    settings: Settings | None = None,
    *,
    validation: Log | None = None,
    threads: int | None = None,
    schemes: Sequence[Rows] = SCHEMES,
) -> tuple[SchemeResult, ...]:
    """Identify with each scheme of equations and otherwise equal settings; failures are part of the result.

    Each model is then driven by the measured torque of the first OPEN_LOOP seconds of the held-out log, or of the log.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    log : Log
        The log.
    settings : Settings, optional
        Settings of the identification.
    validation : Log, optional
        Held-out log.
    threads : int, optional
        Number of threads; results do not depend on it.
    schemes : sequence of Rows
        The schemes to compare.

    Returns
    -------
    tuple of SchemeResult

    """
    chosen = settings or Settings()
    results = []
    for rows in schemes:
        try:
            result = identify(
                robot,
                log,
                replace(chosen, rows=rows, accept=()),
                validation=validation,
                threads=threads,
                diagnostics=Diagnostics(accepting=frozenset(chosen.accept)),
            )
            results.append(SchemeResult(rows.name, result, open_loop=_driven(result, validation or log)))
        except DynidError as error:
            results.append(SchemeResult(rows.name, None, str(error)))
    return tuple(results)


def compare_on_unseen(results: Sequence[SchemeResult]) -> Comparison | None:
    """Compare schemes on blocks of a held-out log, with errors relative to the smallest of each joint.

    None without a held-out log, or if fewer than two schemes were scored on the same samples of enough blocks.
    """
    scored = [
        (result.name, result.identification, result.identification.validations[0].residuals)
        for result in results
        if result.identification is not None and result.identification.validations
    ]
    runs = [(name, run, r) for name, run, r in scored if r is not None]
    if len(runs) < 2 or any(not np.array_equal(r.t, runs[0][2].t) for _, _, r in runs):
        return None
    first = runs[0][2]
    settings: Any = runs[0][1].preparation["settings"]
    seconds = usual_block(len(first.t) / first.rate, float(settings["cutoff"]))
    segments = np.stack([first.trajectory, first.segment, np.floor(first.t / seconds).astype(np.int64)])
    _, block = np.unique(segments, axis=1, return_inverse=True)
    counts: Float = np.bincount(block).astype(np.float64)
    if len(counts) < LEAST_BLOCKS:
        return None
    noise = np.min([r.mean_square(r.error) for _, _, r in runs], axis=0)
    weights = np.where(noise > 0, 1.0 / np.where(noise > 0, noise, 1.0), 0.0)
    return compare(
        [
            Candidate(
                name,
                run.estimate.base.rank,
                np.bincount(block, r.error_counted**2 @ weights).astype(np.float64),
            )
            for name, run, r in runs
        ],
        counts,
    )


def drive(identification: Identification, log: Log, seconds: float) -> OpenLoop:
    """Drive an identified model by the measured torque of the first seconds of a log.

    Parameters
    ----------
    identification : Identification
        The finished identification.
    log : Log
        Prepared as in the identification.
    seconds : float, s
        Length of the simulation.

    Returns
    -------
    OpenLoop

    Raises
    ------
    UnfitDataError
        For a log without motion.
    UsageError
        For terms that cannot be simulated.

    """
    refuse_floating(identification.robot, "a run in open loop")
    settings: Any = identification.preparation["settings"]
    preparation = replace(Preparation(**settings), rate=None)
    samples = first_stretch(prepare(log, preparation, Diagnostics()), seconds)
    model: Any = identification.experiment.get("model", {})
    rows = model.get("rows", {})
    hold: Hold = "zero" if isinstance(rows, dict) and rows.get("hold") == "zero" else "linear"
    return open_loop(
        identification.robot, identification.terms, identification.estimate.parameters, samples, hold
    )


def _driven(result: Identification, log: Log) -> OpenLoop | None:
    try:
        return drive(result, log, OPEN_LOOP)
    except DynidError:
        return None


def scheme_lines(results: Sequence[SchemeResult]) -> list[str]:
    """Lines of text: torque errors, base parameters and open-loop errors ||q_error||_2 of each scheme."""
    lines = [
        f"{'rows':<16}{'held-out':>10}{'training':>10}{'base':>6}{'condition':>11}{'median std':>12}{'open loop':>18}"
    ]
    for result in results:
        if result.identification is None:
            lines.append(f"{result.name:<16}{result.failure}")
            continue
        run = result.identification
        held_out = run.validations[0].scores.total_relative if run.validations else np.nan
        lines.append(
            f"{result.name:<16}{100 * held_out:>8.2f} %{100 * run.training.scores.total_relative:>8.2f} %"
            f"{run.estimate.base.rank:>6}{run.estimate.base.condition:>11.3g}"
            f"{100 * float(np.median(run.estimate.relative_std)):>10.2g} %{_open_loop_cell(result.open_loop):>18}"
        )
    comparison = compare_on_unseen(results)
    if comparison is not None:
        equal = [
            result.name
            for result, within in zip(comparison.candidates, comparison.within, strict=True)
            if within
        ]
        lines += ["", f"within one standard error of the best on held-out motion: {', '.join(equal)}"]
    lines += _open_loop_lines(results)
    return lines + _parameter_lines([result for result in results if result.identification is not None])


def _open_loop_cell(run: OpenLoop | None) -> str:
    if run is None:
        return "-"
    if run.diverged_at is not None:
        return f"diverges, {run.diverged_at:.3g} s"
    return f"{float(np.sqrt((run.norm**2).sum())):.4g}"


def _open_loop_lines(results: Sequence[SchemeResult]) -> list[str]:
    runs = [(result.name, result.open_loop) for result in results if result.open_loop is not None]
    if not runs:
        return []
    first = runs[0][1]
    seconds = float(first.t[-1] - first.t[0])
    lines = ["", f"||q_error||_2 per joint, driven open loop for {seconds:.3g} s ({len(first.t)} samples)"]
    lines.append(f"{'rows':<16}" + "".join(f"{name:>14.13}" for name in first.joint_names))
    for name, run in runs:
        lines.append(f"{name:<16}" + "".join(f"{x:>14.4g}" for x in run.norm))
    return lines


def _parameter_lines(results: Sequence[SchemeResult]) -> list[str]:
    tables = []
    for result in results:
        if result.identification is not None:
            e = result.identification.estimate
            tables.append(dict(zip(e.names, zip(e.value, e.half_width(), strict=True), strict=True)))
    names = dict.fromkeys(name for table in tables for name in table)
    lines = ["", "".join(f"{result.name:<24}" for result in results) + "base parameter"]
    for name in names:
        cells = [with_interval(*t[name]) if name in t else "-" for t in tables]
        lines.append("".join(f"{cell:<24}" for cell in cells) + name)
    return lines
