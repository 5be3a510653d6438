"""Several runs side by side on one page: their scores, and the parameters on which they do not agree."""

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
# Standard deviations within which 95 of 100 differences lie.
EXPECTED = 1.96


@dataclass(frozen=True)
class Difference:
    """One base parameter of several runs.

    formula: as text, the same in all of them.    values, half_widths: one a run, nan where the run has none.
    excess: greatest |a - b| / sqrt(half_a^2 + half_b^2) over pairs of runs; above 1 two runs disagree.
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
    """Base parameters that at least two runs share (same formula), in the order of their first run."""
    tables = [_by_formula(identification) for _, identification in runs]
    names = dict.fromkeys(name for table in tables for name in table)
    found = []
    for name in names:
        pairs = [table.get(name, (math.nan, math.nan)) for table in tables]
        if sum(math.isfinite(value) for value, _ in pairs) >= 2:
            values, halves = tuple(v for v, _ in pairs), tuple(h for _, h in pairs)
            found.append(Difference(name, values, halves, _excess(values, halves)))
    return tuple(found)


def write_comparison_page(path: Path, runs: Runs, found: Agreement | None = None) -> None:
    """Writes one offline HTML page that compares runs, each given with its name; found: whether they agree.

    The file appears whole or not at all.    Raises ResourceError if it cannot be written.
    """
    write_text(path, comparison_html(runs, found))


def comparison_html(runs: Runs, found: Agreement | None = None) -> str:
    """The page as text."""
    page = Page()
    shared = differences(runs)
    chapters = [
        Chapter(
            "runs", "Runs", render("compare_runs.html.jinja", {"runs": [_run(name, i) for name, i in runs]})
        ),
        Chapter(
            "scores", "Scores by joint", render("compare_scores.html.jinja", _scores_context(runs, page))
        ),
        Chapter(
            "parameters",
            "Parameters as the runs state them",
            render("compare_parameters.html.jinja", _parameters_context(runs, shared)),
        ),
    ]
    if found is not None and found.compared:
        text = render("compare_agreement.html.jinja", _agreement_context(found, page))
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
    """The held-out set on which the run does worst; None if nothing was held out."""
    held_out = [v for v in identification.validations if is_held_out(v)]
    return max(held_out, key=lambda v: np.nan_to_num(v.scores.total_relative), default=None)


def _run(name: str, one: Identification) -> dict[str, str]:
    shown = _shown(one)
    blocks = one.factors.blocks
    return {
        "name": name,
        "robot": one.robot.name,
        "level": one.verdict.level,
        "terms": " + ".join(term.name.replace("_", " ") for term in one.terms),
        "method": one.estimate.method,
        "held_out": percent(shown.scores.total_relative, 3) if shown else MISSING,
        "origin": str(shown.scores.origin) if shown else "nothing held out",
        "training": percent(one.training.scores.total_relative, 3),
        "rank": f"{one.estimate.base.rank} of {one.structural.rank}",
        "condition": number(one.estimate.base.condition),
        "data": duration(sum(block.seconds for block in blocks)),
    }


def _scores_context(runs: Runs, page: Page) -> dict[str, object]:
    joints = list(dict.fromkeys(name for _, one in runs for name in one.training.scores.joint_names))
    scores = [
        (name, shown.scores if (shown := _shown(one)) else None, one.training.scores) for name, one in runs
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
        "plot": page.figure(_bars(joints, scores), "held-out relative error by joint and run"),
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
    alone = [(name, [f for f in one.estimate.names if f not in known]) for name, one in runs]
    apart = sorted((d for d in shared if d.disagrees), key=lambda d: -d.excess)
    return {
        "names": [name for name, _ in runs],
        "apart": [_difference_row(runs, d) for d in apart],
        "alike": [_difference_row(runs, d) for d in shared if not d.disagrees],
        "total": len(shared),
        "robots": len({one.robot.name for _, one in runs}),
        "alone": [(name, formulas) for name, formulas in alone if formulas],
    }


def _difference_row(runs: Runs, difference: Difference) -> dict[str, object]:
    one, i = next(
        (one, one.estimate.names.index(difference.formula))
        for _, one in runs
        if difference.formula in one.estimate.names
    )
    base = one.estimate.base
    return {
        "formula": formula(base.B[i], int(base.independent[i]), one.estimate.columns, one.robot),
        "unit": one.estimate.units[i],
        "cells": [
            interval(value, half) if math.isfinite(value) else (MISSING, "")
            for value, half in zip(difference.values, difference.half_widths, strict=True)
        ],
        "excess": number(difference.excess, 2),
    }


def _agreement_context(found: Agreement, page: Page) -> dict[str, object]:
    apart = sorted((one for one in found.parameters if not one.agrees), key=lambda one: one.p_value)
    together, halves = found.together, found.halves
    return {
        "cause": str(found.cause),
        "level": "good" if found.cause is Cause.NONE else "warning",
        "reason": found.reason,
        "share": percent(found.share, 3),
        "textbook": percent(found.textbook, 3),
        "compared": found.compared,
        "rms_z": number(found.rms_z, 3),
        "alpha": number(ALPHA),
        "together": together and {"ratio": number(together.ratio), "p": number(together.p_value, 2)},
        "halves": halves and {"ratio": number(halves.ratio), "p": number(halves.p_value, 2)},
        "differ": together is not None and together.p_value < ALPHA,
        "torque": [
            (name, percent(float(share))) for name, share in zip(found.group_names, found.torque, strict=True)
        ],
        "changes": [(one.what, percent(one.share, 3), number(one.p_value, 2)) for one in found.changes],
        "pairs": [(one.first, one.second, one.agree, one.compared, number(one.rms_z)) for one in found.pairs],
        "names": found.names,
        "apart": [_shared_row(one) for one in apart],
        "alike": [_shared_row(one) for one in found.parameters if one.agrees],
        "notes": found.notes,
        "plot": page.figure(
            _z_figure(found), "differences of base parameters over their standard deviations"
        ),
    }


def _shared_row(one: SharedParameter) -> dict[str, object]:
    return {
        "formula": one.formula,
        "unit": one.unit,
        "cells": [
            (number(value), number(std, 2)) if math.isfinite(value) else (MISSING, "")
            for value, std in zip(one.values, one.std, strict=True)
        ],
        "z": number(one.z, 2),
        "torque": f"{percent(one.torque)} of {one.moves}" if math.isfinite(one.torque) else MISSING,
        "pooled": interval(one.pooled, one.half) if math.isfinite(one.pooled) else (MISSING, ""),
    }


def _z_figure(found: Agreement) -> Figure:
    """Differences of every two runs over their standard deviations, in the order of the parameters."""
    number = [k + 1.0 for k, one in enumerate(found.parameters) for _ in one.every]
    labels = [f"{one.formula}: {z:.2f}" for one in found.parameters for z in one.every]
    x, z = np.array(number), np.concatenate([one.every for one in found.parameters])
    points = labelled(dots(x, z, "difference of two runs", BLUE, 5.0, 0.6), labels)
    panel = Panel(
        (points,),
        Axis("base parameter"),
        Axis("difference / standard deviation"),
        shapes=(level_band(0.0, EXPECTED),),
    )
    return row_of((panel,), 280)
