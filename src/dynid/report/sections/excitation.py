"""Rank, condition number and the motion behind them."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.estimate.scores import Residuals
from dynid.factor.base import BaseMap, Category
from dynid.report.figures import (
    BLUE,
    GREY,
    VERMILION,
    Axis,
    Panel,
    bars,
    dots,
    labelled,
    level_line,
    row_of,
    time_line,
)
from dynid.report.section import Page, position_unit, render
from dynid.report.text import MISSING, formula, number, symbol
from dynid.run.result import Identification

# Upper bounds of the condition number, with the word for it.
_WORDS = ((30.0, "excellent"), (100.0, "good"), (300.0, "usable"), (math.inf, "weak: record a richer motion"))

# Most influential blocks that are listed.
MOST_INFLUENTIAL = 6


class ExcitationSection:
    """Directions that the motion excites, how well, and the informative parts of the log."""

    anchor = "excitation"
    title = "Condition and excitation"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Rank, singular values, information over time, range of motion and identifiability."""
        base, structural = identification.estimate.base, identification.structural
        columns, robot = identification.estimate.columns, identification.robot
        lost = sorted(set(structural.independent.tolist()) - set(base.independent.tolist()))
        plots = row_of((_singular_panel(base), _leverage_panel(identification)), 270)
        return render(
            "excitation.html.jinja",
            {
                "rank": base.rank,
                "structural_rank": structural.rank,
                "total": len(columns),
                "gap": _gap(base),
                "structural_gap": _gap(structural),
                "condition": number(base.condition),
                "word": next(word for limit, word in _WORDS if not base.condition > limit),
                "lost": [symbol(columns[j], robot) for j in lost],
                "plot": page.figure(plots, "singular values, and share of the information per block of time"),
                "motion": _motion(identification),
                "categories": _categories(identification),
                "groupings": [
                    formula(row, int(lead), columns, robot)
                    for row, lead in zip(base.B, base.independent, strict=True)
                    if np.count_nonzero(row) > 1
                ],
                "segments": _segments(identification),
            },
        )


def _segments(identification: Identification) -> list[dict[str, str]]:
    """The most influential blocks of time."""
    influence = identification.influence
    if influence is None:
        return []
    estimate, blocks = identification.estimate, identification.factors.blocks
    rows = []
    for m in np.argsort(-influence.cook, kind="stable")[:MOST_INFLUENTIAL].tolist():
        i = int(np.argmax(np.abs(influence.shift[:, m])))
        rows.append(
            {
                "trajectory": blocks[m].trajectory,
                "span": f"{blocks[m].start:.1f} to {blocks[m].end:.1f} s",
                "leverage": f"{100 * influence.leverage[m]:.2g} %",
                "usual": f"{100 / len(blocks):.2g} %",
                "moved": str(int(np.count_nonzero(np.abs(influence.shift[:, m]) > 1.0))),
                "parameter": formula(
                    estimate.base.B[i],
                    int(estimate.base.independent[i]),
                    estimate.columns,
                    identification.robot,
                ),
                "shift": number(float(influence.shift[i, m]), 2),
            }
        )
    return rows


def _singular_panel(base: BaseMap) -> Panel:
    values = base.singular_values
    index = np.arange(1, len(values) + 1, dtype=np.float64)
    labels = [f"singular value {i}: {v:.3g}" for i, v in enumerate(values, start=1)]
    return Panel(
        traces=(labelled(dots(index, values, "singular value", BLUE, 5, 0.9), labels),),
        x=Axis("number"),
        y=Axis("singular value", log=True, span=(float(values.min()) / 1.6, float(values.max()) * 1.6)),
        title="Singular values of the columns scaled to equal length",
    )


def _leverage_panel(identification: Identification) -> Panel:
    blocks, share = identification.factors.blocks, identification.estimate.block_leverage
    if len(blocks) != len(share) or not len(blocks):
        return Panel((), Axis("time, s"), Axis("share"), title="Information per block of time: not available")
    length = np.array([max(block.seconds, 0.0) for block in blocks])
    left = np.concatenate([[0.0], np.cumsum(length)[:-1]])
    labels = [
        f"{block.trajectory} {block.when(2)}: {100 * s:.2g} % of the information"
        for block, s in zip(blocks, share, strict=True)
    ]
    trace = labelled(bars(left + length / 2, 100.0 * share, 0.9 * length, "share", BLUE), labels)
    changes = [i for i in range(1, len(blocks)) if blocks[i].trajectory != blocks[i - 1].trajectory]
    return Panel(
        traces=(trace,),
        x=Axis("time fitted, s"),
        y=Axis("share", percent=True),
        shapes=(
            level_line(100.0 / len(blocks), VERMILION),
            *(time_line(float(left[i]), GREY) for i in changes),
        ),
        title="Information per block of time (dotted: equal shares)",
    )


def _gap(base: BaseMap) -> str:
    if not math.isfinite(base.gap):
        return "no column was dropped"
    return f"the smallest pivot kept is {number(base.gap, 2)} times the largest one dropped"


def _motion(identification: Identification) -> list[dict[str, object]]:
    residuals = identification.training.residuals
    if residuals is None or not len(residuals.t):
        return []
    return [_joint_motion(identification, residuals, j) for j in range(identification.robot.n)]


def _joint_motion(identification: Identification, residuals: Residuals, j: int) -> dict[str, object]:
    limits = identification.robot.limits
    q, dq = residuals.q[:, j], residuals.dq[:, j]
    low, high = float(q.min()), float(q.max())
    lower, upper = float(limits.lower[j]), float(limits.upper[j])
    bounded = math.isfinite(lower) and math.isfinite(upper) and upper > lower
    peak = float(np.abs(dq).max())
    speed = float(limits.velocity[j])
    unit = position_unit(identification, j)
    return {
        "name": residuals.joint_names[j],
        "unit": unit,
        "low": number(low),
        "high": number(high),
        "limits": f"{number(lower)} … {number(upper)}" if bounded else MISSING,
        "bar": _bar(low, high, lower, upper) if bounded else Markup(""),
        "used": f"{100 * (high - low) / (upper - lower):.0f} %" if bounded else MISSING,
        "peak": number(peak),
        "rms": number(float(np.sqrt(np.mean(dq**2)))),
        "speed": f"{100 * peak / speed:.0f} %" if math.isfinite(speed) and speed > 0 else MISSING,
        "reversals": _reversals(dq),
    }


def _reversals(dq: Float) -> int:
    """Number of reversals; speeds below 2 % of the peak are ignored."""
    moving = dq[np.abs(dq) > 0.02 * max(float(np.abs(dq).max()), 1e-12)]
    return int(np.count_nonzero(np.diff(np.sign(moving))))


def _bar(low: float, high: float, lower: float, upper: float) -> Markup:
    left, right = (min(max((v - lower) / (upper - lower), 0.0), 1.0) for v in (low, high))
    return Markup('<span class="track"><span style="left:{:.1f}%;width:{:.1f}%"></span></span>').format(
        100 * left, max(100 * (right - left), 1.0)
    )


def _categories(identification: Identification) -> list[tuple[str, list[Markup]]]:
    estimate = identification.estimate
    categories = estimate.base.categories()
    return [
        (
            str(category),
            [
                symbol(column, identification.robot)
                for column, have in zip(estimate.columns, categories, strict=True)
                if have is category
            ],
        )
        for category in Category
    ]
