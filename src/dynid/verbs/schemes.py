"""Row schemes side by side on one log: parameters, intervals and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError
from dynid.base.numbers import with_interval
from dynid.base.records import dataclass
from dynid.factor.comparison import Candidate, Comparison, compare
from dynid.factor.folds import LEAST_BLOCKS
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.rows.energy import EnergyRows
from dynid.rows.momentum import MomentumRows
from dynid.rows.power import FilteredPowerRows, PowerRows
from dynid.rows.rows import Rows
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import usual_block
from dynid.run.result import Identification
from dynid.signals.prepare import prepare
from dynid.signals.settings import Preparation
from dynid.simulation.open_loop import OpenLoop, first_stretch, open_loop
from dynid.simulation.stick import Hold

# Seconds that a model is driven by measured torque alone.
OPEN_LOOP = 5.0
SCHEMES: tuple[Rows, ...] = (TorqueRows(), MomentumRows(), EnergyRows(), PowerRows(), FilteredPowerRows())


@dataclass(frozen=True, eq=False)
class SchemeResult:
    """One scheme: its identification, or why there is none; its model driven open loop by measured torque.

    open_loop: None where the model cannot be driven, as with terms that read a log channel.
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
    """Identifies with each scheme in turn, everything else alike; a scheme that fails is reported, not hidden.

    Each model is then driven by the measured torque of the first OPEN_LOOP seconds of the held-out log, or of the log.
    """
    chosen = settings or Settings()
    found = []
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
            found.append(SchemeResult(rows.name, result, open_loop=_driven(result, validation or log)))
        except DynidError as error:
            found.append(SchemeResult(rows.name, None, str(error)))
    return tuple(found)


def compare_on_unseen(results: Sequence[SchemeResult]) -> Comparison | None:
    """The schemes compared on blocks of a held-out log, each joint's error by the least that any scheme leaves of it.

    None without a held-out log, or where fewer than two schemes were scored on the same samples of enough blocks.
    """
    scored = [
        (one.name, one.identification, one.identification.validations[0].residuals)
        for one in results
        if one.identification is not None and one.identification.validations
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
    """Drives an identified model by the torque of a log's first seconds, prepared as in the identification.

    Raises UnfitDataError for a log without a stretch of motion, UsageError for terms that cannot be driven.
    """
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
    """A table of schemes, their open-loop errors by joint, and their parameters.

    The table has errors of torque, base parameters and how well they are known, and ||q_error||_2 over all joints.
    """
    lines = [
        f"{'rows':<16}{'held-out':>10}{'training':>10}{'base':>6}{'condition':>11}{'median std':>12}{'open loop':>18}"
    ]
    for one in results:
        if one.identification is None:
            lines.append(f"{one.name:<16}{one.failure}")
            continue
        run = one.identification
        held_out = run.validations[0].scores.total_relative if run.validations else np.nan
        lines.append(
            f"{one.name:<16}{100 * held_out:>8.2f} %{100 * run.training.scores.total_relative:>8.2f} %"
            f"{run.estimate.base.rank:>6}{run.estimate.base.condition:>11.3g}"
            f"{100 * float(np.median(run.estimate.relative_std)):>10.2g} %{_open_loop_cell(one.open_loop):>18}"
        )
    unseen = compare_on_unseen(results)
    if unseen is not None:
        equal = [one.name for one, within in zip(unseen.candidates, unseen.within, strict=True) if within]
        lines += ["", f"as good as the best on unseen motion, within one standard error: {', '.join(equal)}"]
    lines += _open_loop_lines(results)
    return lines + _parameter_lines([one for one in results if one.identification is not None])


def _open_loop_cell(run: OpenLoop | None) -> str:
    if run is None:
        return "-"
    if run.diverged_at is not None:
        return f"diverges, {run.diverged_at:.3g} s"
    return f"{float(np.sqrt((run.norm**2).sum())):.4g}"


def _open_loop_lines(results: Sequence[SchemeResult]) -> list[str]:
    runs = [(one.name, one.open_loop) for one in results if one.open_loop is not None]
    if not runs:
        return []
    first = runs[0][1]
    seconds = float(first.t[-1] - first.t[0])
    lines = ["", f"||q_error||_2 by joint, driven open loop for {seconds:.3g} s ({len(first.t)} samples)"]
    lines.append(f"{'rows':<16}" + "".join(f"{name:>14.13}" for name in first.joint_names))
    for name, run in runs:
        lines.append(f"{name:<16}" + "".join(f"{x:>14.4g}" for x in run.norm))
    return lines


def _parameter_lines(results: Sequence[SchemeResult]) -> list[str]:
    tables = []
    for one in results:
        if one.identification is not None:
            e = one.identification.estimate
            tables.append(dict(zip(e.names, zip(e.value, e.half_width(), strict=True), strict=True)))
    names = dict.fromkeys(name for table in tables for name in table)
    lines = ["", "".join(f"{one.name:<24}" for one in results) + "base parameter"]
    for name in names:
        cells = [with_interval(*t[name]) if name in t else "-" for t in tables]
        lines.append("".join(f"{cell:<24}" for cell in cells) + name)
    return lines
