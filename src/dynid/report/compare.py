"""A page that compares several runs: scores, agreement, and parameters that differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dynid.base.records import dataclass
from dynid.estimate.scores import Scores
from dynid.report.figures import (
    BLUE,
    CYCLE,
    Axis,
    Figure,
    Panel,
    Trace,
    bars,
    dots,
    labelled,
    level_band,
    row_of,
)
from dynid.report.html import Chapter, page_html, write_text
from dynid.report.section import Page, is_held_out, render
from dynid.report.text import MISSING, duration, formula, interval, number, percent
from dynid.run.agreement import ALPHA, Agreement, Cause, SharedParameter
from dynid.run.result import Identification, Validation

Runs = Sequence[tuple[str, Identification]]
# Standard deviations that contain 95 % of the differences.
EXPECTED = 1.96


@dataclass(frozen=True)
class Difference:
    """One base parameter of several runs.

    Attributes
    ----------
    formula : str
        The same in all runs.
    values, half_widths : tuple of float
        One per run; nan if the run does not have the parameter.
    excess : float
        Largest |a - b| / sqrt(half_a^2 + half_b^2) over pairs of runs; above 1 two runs disagree.

    """

    formula: str
    values: tuple[float, ...]
    half_widths: tuple[float, ...]
    excess: float

    @property
    def disagrees(self) -> bool:
        """Whether two runs differ by more than their 95 % intervals explain."""
        return self.excess > 1.0


def differences(runs: Runs) -> tuple[Difference, ...]:
    """Base parameters with the same formula in at least two runs, in the order of the first run."""
    tables = [_by_formula(identification) for _, identification in runs]
    names = dict.fromkeys(name for table in tables for name in table)
    shared = []
    for name in names:
        pairs = [table.get(name, (math.nan, math.nan)) for table in tables]
        if sum(math.isfinite(value) for value, _ in pairs) >= 2:
            values, halves = tuple(v for v, _ in pairs), tuple(h for _, h in pairs)
            shared.append(Difference(name, values, halves, _excess(values, halves)))
    return tuple(shared)


def write_comparison_page(path: Path, runs: Runs, agreement: Agreement | None = None) -> None:
    """Write an offline HTML page that compares runs, as a whole or not at all.

    Parameters
    ----------
    path : Path
        The HTML file.
    runs : sequence of (str, Identification)
        Runs with their names.
    agreement : Agreement, optional
        Whether the runs agree.

    Raises
    ------
    ResourceError
        If it cannot be written.

    """
    write_text(path, comparison_html(runs, agreement))


def comparison_html(runs: Runs, agreement: Agreement | None = None) -> str:
    """HTML of the page that compares runs."""
    page = Page()
    shared = differences(runs)
    chapters = [
        Chapter(
            "runs", "Runs", render("compare_runs.html.jinja", {"runs": [_run(name, i) for name, i in runs]})
        ),
        Chapter(
            "scores", "Scores per joint", render("compare_scores.html.jinja", _scores_context(runs, page))
        ),
        Chapter(
            "parameters",
            "Parameters as each run estimated them",
            render("compare_parameters.html.jinja", _parameters_context(runs, shared)),
        ),
    ]
    if agreement is not None and agreement.compared:
        text = render("compare_agreement.html.jinja", _agreement_context(agreement, page))
        chapters.insert(1, Chapter("agreement", "Agreement", text))
    subject = ", ".join(dict.fromkeys(i.robot.name for _, i in runs))
    return page_html("Comparison of runs", "Comparison of runs", subject, chapters, page)


def _by_formula(identification: Identification) -> dict[str, tuple[float, float]]:
    estimate = identification.estimate
    return {
        name: (float(value), float(half))
        for name, value, half in zip(estimate.names, estimate.value, estimate.half_width(), strict=True)
    }


def _excess(values: tuple[float, ...], halves: tuple[float, ...]) -> float:
    worst = 0.0
    for i in range(len(values)):
        for j in range(i):
            gap, width = abs(values[i] - values[j]), math.hypot(halves[i], halves[j])
            if math.isfinite(gap) and math.isfinite(width):
                worst = max(worst, gap / width if width > 0 else (math.inf if gap > 0 else 0.0))
    return worst


def _shown(identification: Identification) -> Validation | None:
    """The held-out data with the largest error; None if nothing was held out."""
    held_out = [v for v in identification.validations if is_held_out(v)]
    return max(held_out, key=lambda v: np.nan_to_num(v.scores.total_relative), default=None)


def _run(name: str, identification: Identification) -> dict[str, str]:
    shown = _shown(identification)
    blocks = identification.factors.blocks
    return {
        "name": name,
        "robot": identification.robot.name,
        "level": identification.verdict.level,
        "terms": " + ".join(term.name.replace("_", " ") for term in identification.terms),
        "method": identification.estimate.method,
        "held_out": percent(shown.scores.total_relative, 3) if shown else MISSING,
        "origin": str(shown.scores.origin) if shown else "nothing held out",
        "training": percent(identification.training.scores.total_relative, 3),
        "rank": f"{identification.estimate.base.rank} of {identification.structural.rank}",
        "condition": number(identification.estimate.base.condition),
        "data": duration(sum(block.seconds for block in blocks)),
    }


def _scores_context(runs: Runs, page: Page) -> dict[str, object]:
    joints = list(dict.fromkeys(name for _, run in runs for name in run.training.scores.joint_names))
    scores = [
        (name, shown.scores if (shown := _shown(run)) else None, run.training.scores) for name, run in runs
    ]
    rows = []
    for joint in joints:
        held_out = [_relative(s, joint) for _, s, _ in scores]
        finite = [value for value in held_out if math.isfinite(value)]
        cells = [
            {
                "held_out": percent(h, 3),
                "training": percent(_relative(trained, joint), 3),
                "best": len(finite) > 1 and h == min(finite),
            }
            for h, (_, _, trained) in zip(held_out, scores, strict=True)
        ]
        rows.append((joint, cells))
    return {
        "names": [(name, CYCLE[i % len(CYCLE)]) for i, (name, _) in enumerate(runs)],
        "rows": rows,
        "plot": page.figure(_bars(joints, scores), "held-out relative error per joint and run"),
    }


def _bars(joints: list[str], scores: list[tuple[str, Scores | None, Scores]]) -> Figure:
    traces: list[Trace] = []
    width = 0.8 / len(scores)
    place = np.arange(1.0, len(joints) + 1)
    for i, (name, held_out, _) in enumerate(scores):
        values = np.array([100 * _relative(held_out, joint) for joint in joints])
        labels = [f"{name}, {joint}: {value:.3g} %" for joint, value in zip(joints, values, strict=True)]
        x = place - 0.4 + width * (i + 0.5)
        traces.append(
            labelled(bars(x, values, np.full(len(x), 0.92 * width), name, CYCLE[i % len(CYCLE)]), labels)
        )
    panel = Panel(tuple(traces), Axis(labels=tuple(joints)), Axis("held-out error", percent=True))
    return row_of((panel,), 280)


def _relative(scores: Scores | None, joint: str) -> float:
    if scores is None or joint not in scores.joint_names:
        return math.nan
    return float(scores.relative[scores.joint_names.index(joint)])


def _parameters_context(runs: Runs, shared: tuple[Difference, ...]) -> dict[str, object]:
    known = {difference.formula for difference in shared}
    alone = [(name, [f for f in run.estimate.names if f not in known]) for name, run in runs]
    apart = sorted((d for d in shared if d.disagrees), key=lambda d: -d.excess)
    return {
        "names": [name for name, _ in runs],
        "apart": [_difference_row(runs, d) for d in apart],
        "alike": [_difference_row(runs, d) for d in shared if not d.disagrees],
        "total": len(shared),
        "robots": len({run.robot.name for _, run in runs}),
        "alone": [(name, formulas) for name, formulas in alone if formulas],
    }


def _difference_row(runs: Runs, difference: Difference) -> dict[str, object]:
    run, i = next(
        (run, run.estimate.names.index(difference.formula))
        for _, run in runs
        if difference.formula in run.estimate.names
    )
    base = run.estimate.base
    return {
        "formula": formula(base.B[i], int(base.independent[i]), run.estimate.columns, run.robot),
        "unit": run.estimate.units[i],
        "cells": [
            interval(value, half) if math.isfinite(value) else (MISSING, "")
            for value, half in zip(difference.values, difference.half_widths, strict=True)
        ],
        "excess": number(difference.excess, 2),
    }


def _agreement_context(agreement: Agreement, page: Page) -> dict[str, object]:
    apart = sorted(
        (entry for entry in agreement.parameters if not entry.agrees), key=lambda entry: entry.p_value
    )
    together, halves = agreement.together, agreement.halves
    return {
        "cause": str(agreement.cause),
        "level": "good" if agreement.cause is Cause.NONE else "warning",
        "reason": agreement.reason,
        "share": percent(agreement.share, 3),
        "textbook": percent(agreement.textbook, 3),
        "compared": agreement.compared,
        "rms_z": number(agreement.rms_z, 3),
        "alpha": number(ALPHA),
        "together": together and {"ratio": number(together.ratio), "p": number(together.p_value, 2)},
        "halves": halves and {"ratio": number(halves.ratio), "p": number(halves.p_value, 2)},
        "differ": together is not None and together.p_value < ALPHA,
        "torque": [
            (name, percent(float(share)))
            for name, share in zip(agreement.group_names, agreement.torque, strict=True)
        ],
        "changes": [
            (entry.what, percent(entry.share, 3), number(entry.p_value, 2)) for entry in agreement.changes
        ],
        "pairs": [
            (entry.first, entry.second, entry.agree, entry.compared, number(entry.rms_z))
            for entry in agreement.pairs
        ],
        "names": agreement.names,
        "apart": [_shared_row(entry) for entry in apart],
        "alike": [_shared_row(entry) for entry in agreement.parameters if entry.agrees],
        "notes": agreement.notes,
        "plot": page.figure(
            _z_figure(agreement), "differences of base parameters, divided by their standard deviations"
        ),
    }


def _shared_row(parameter: SharedParameter) -> dict[str, object]:
    return {
        "formula": parameter.formula,
        "unit": parameter.unit,
        "cells": [
            (number(value), number(std, 2)) if math.isfinite(value) else (MISSING, "")
            for value, std in zip(parameter.values, parameter.std, strict=True)
        ],
        "z": number(parameter.z, 2),
        "torque": f"{percent(parameter.torque)} of {parameter.moves}"
        if math.isfinite(parameter.torque)
        else MISSING,
        "pooled": interval(parameter.pooled, parameter.half)
        if math.isfinite(parameter.pooled)
        else (MISSING, ""),
    }


def _z_figure(agreement: Agreement) -> Figure:
    """Differences of every pair of runs, divided by their standard deviations, in the order of the parameters."""
    number = [k + 1.0 for k, parameter in enumerate(agreement.parameters) for _ in parameter.every]
    labels = [f"{parameter.formula}: {z:.2f}" for parameter in agreement.parameters for z in parameter.every]
    x, z = np.array(number), np.concatenate([parameter.every for parameter in agreement.parameters])
    points = labelled(dots(x, z, "difference of two runs", BLUE, 5.0, 0.6), labels)
    panel = Panel(
        (points,),
        Axis("base parameter"),
        Axis("difference / standard deviation"),
        shapes=(level_band(0.0, EXPECTED),),
    )
    return row_of((panel,), 280)
