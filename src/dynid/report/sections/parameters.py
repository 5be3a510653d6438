"""Base parameters with intervals, one set of full parameters, and comparison with a known truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.choose.search import ShapeEstimate
from dynid.estimate.estimator import Known, ParameterVerdict, Word, base_verdicts, full_verdicts, how_well
from dynid.estimate.uncertainty import DESCRIBED, Influence, Intervals
from dynid.factor.base import Category
from dynid.factor.factor import Block
from dynid.report.figures import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    Axis,
    Panel,
    Trace,
    dots,
    labelled,
    level_band,
    level_line,
    line,
    row_of,
    with_errors,
)
from dynid.report.section import Page, render
from dynid.report.text import (
    MISSING,
    formula,
    interval,
    letter,
    number,
    of_whole_robot,
    owner,
    parts,
    percent,
    words,
)
from dynid.run.links import joint_values
from dynid.run.result import Identification
from dynid.terms.term import Column, Of

_FOREST_WIDTH, _FOREST_HEIGHT = 104.0, 16.0
_MARK = {Category.IDENTIFIABLE: "●", Category.COMBINATION: "◐", Category.NOT_IDENTIFIABLE: "○"}
_CSS = {Category.IDENTIFIABLE: "alone", Category.COMBINATION: "combined", Category.NOT_IDENTIFIABLE: "hidden"}


class ParametersSection:
    """Base parameters, and one full parameter set that agrees with them."""

    anchor = "parameters"
    title = "Parameters"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Table of base parameters, comparison with the truth, tables of full parameters."""
        estimate = identification.estimate
        verdicts = base_verdicts(estimate, identification.factors)
        truth = base_truth(identification)
        counts = {str(word): sum(v.word is word for v in verdicts) for word in Word}
        categories = estimate.base.categories()
        influence = identification.influence
        evidence = _no_evidence(len(verdicts)) if influence is None else _evidence(identification, influence)
        return render(
            "parameters.html.jinja",
            {
                "rows": [
                    _row(identification, i, verdict, truth) | evidence[i]
                    for i, verdict in enumerate(verdicts)
                ],
                "counts": counts,
                "shapes": [_shape(identification, shape) for shape in identification.shapes],
                "has_truth": truth is not None,
                "truth": _truth_html(identification, truth, page) if truth is not None else "",
                "method": estimate.method,
                "status": estimate.status,
                "freedom": f"{estimate.degrees_of_freedom:g}",
                "intervals": _intervals(identification),
                "grids": _grids(identification),
                "categories": [
                    (str(c), _MARK[c], _CSS[c], sum(have is c for have in categories)) for c in Category
                ],
                "known": _known(identification),
                "free_scale": _free_scale(identification),
            },
        )


def _intervals(identification: Identification) -> str:
    """Method of the intervals, in words."""
    estimate: Any = identification.experiment.get("estimate", {})
    kind = estimate.get("intervals")
    return DESCRIBED[Intervals(kind or Intervals.JACKKNIFE)]


def base_truth(identification: Identification) -> Float | None:
    """True base parameters B theta, shape (n_base,), nan if a member is unknown; None without truth."""
    if identification.truth is None:
        return None
    estimate = identification.estimate
    theta = np.array([identification.truth.get(column.name, math.nan) for column in estimate.columns])
    needed = estimate.base.B != 0
    value = estimate.base.B @ np.nan_to_num(theta)
    return np.where((needed & np.isnan(theta)).any(axis=1), math.nan, value)


def _row(
    identification: Identification, i: int, verdict: ParameterVerdict, truth: Float | None
) -> dict[str, object]:
    estimate = identification.estimate
    half = float(estimate.half_width()[i])
    value, std, textbook = float(estimate.value[i]), float(estimate.std[i]), float(estimate.textbook_std[i])
    shown, width = interval(value, half)
    true = math.nan if truth is None else float(truth[i])
    return {
        "formula": formula(
            estimate.base.B[i], int(estimate.base.independent[i]), estimate.columns, identification.robot
        ),
        "value": shown,
        "half": width,
        "unit": estimate.units[i],
        "relative": percent(float(estimate.relative_std[i])),
        "ratio": number(std / textbook, 2) if textbook > 0 else MISSING,
        "word": str(verdict.word),
        "css": "prior" if verdict.word is Word.PRIOR else str(verdict.word),
        "reason": _reason(verdict),
        "forest": _forest(value, half, true),
        "truth": interval(true, half)[0] if math.isfinite(true) else MISSING,
        "covered": "" if not math.isfinite(true) else "yes" if abs(true - value) <= half else "no",
    }


def _known(identification: Identification) -> list[tuple[str, int]]:
    levels = [verdict.known for verdict in full_verdicts(identification.estimate, identification.factors)]
    return [(str(word), levels.count(word)) for word in Known]


def _no_evidence(count: int) -> list[dict[str, str]]:
    return [{"informed": MISSING, "share": "", "when": "", "evidence": ""}] * count


def _evidence(identification: Identification, influence: Influence) -> list[dict[str, str]]:
    """The most informative joint and block, and the most influential block, of each base parameter."""
    names, blocks = identification.factors.group_names, identification.factors.blocks
    rows = []
    for i in range(len(influence.shift)):
        group, best = int(np.argmax(influence.group_share[i])), int(np.argmax(influence.block_share[i]))
        worst = int(np.argmax(np.abs(influence.shift[i])))
        most, change = (
            percent(float(influence.block_share[i, best]), 2),
            number(float(influence.shift[i, worst]), 2),
        )
        text = f"most informative: {_span(blocks[best])} ({most} of the information); "
        text += f"without {_span(blocks[worst])} it changes by {change} standard deviations"
        share = percent(float(influence.group_share[i, group]), 2)
        when = f"{blocks[best].start:.1f}–{blocks[best].end:.1f}\u00a0s"
        rows.append({"informed": names[group], "share": share, "when": when, "evidence": text})
    return rows


def _span(block: Block) -> str:
    return f"{block.when(1)} of {block.trajectory}"


def _shape(identification: Identification, shape: ShapeEstimate) -> dict[str, str]:
    half = identification.estimate.quantile() * shape.std
    value, width = interval(shape.value, half) if math.isfinite(half) else (number(shape.value), MISSING)
    return {
        "joint": shape.joint,
        "term": shape.term,
        "name": shape.name,
        "value": value,
        "half": width,
        "unit": shape.unit,
        "range": f"{number(shape.lower)} … {number(shape.upper)}",
        "note": shape.note,
    }


def _reason(verdict: ParameterVerdict) -> str:
    width = f"95 % half width is {percent(verdict.relative)} of the value"
    if math.isfinite(verdict.contribution):
        width += f"; value plus interval is {percent(verdict.contribution)} of the torque of {verdict.group}"
    return width


def _forest(value: float, half: float, truth: float) -> Markup:
    """An interval relative to its value as a small SVG, from -1 to 3 with marks at 0 and 1."""
    if not (math.isfinite(value) and math.isfinite(half)) or value == 0:
        return Markup("")
    low, high = 1 - half / abs(value), 1 + half / abs(value)

    def place(v: float) -> float:
        return round(6 + (_FOREST_WIDTH - 12) * (min(max(v, -1.0), 3.0) + 1.0) / 4.0, 2)

    middle = _FOREST_HEIGHT / 2
    arrows = Markup("")
    if low < -1:
        arrows += Markup('<path class="arrow" d="M1 {m} l5 -3.5 v7 z"/>').format(m=middle)
    if high > 3:
        arrows += Markup('<path class="arrow" d="M{e} {m} l-5 -3.5 v7 z"/>').format(
            e=_FOREST_WIDTH - 1, m=middle
        )
    true = Markup("")
    if math.isfinite(truth):
        at = place(truth * math.copysign(1.0, value) / abs(value))
        true = Markup('<path class="true" d="M{x} {a} l3.5 4.5 l-3.5 4.5 l-3.5 -4.5 z"/>').format(
            x=at, a=middle - 4.5
        )
    return Markup(
        '<svg class="forest" width="{w}" height="{h}" viewBox="0 0 {w} {h}" aria-hidden="true">'
        '<path class="zero" d="M{z} 0 V{h}"/><path class="one" d="M{o} 0 V{h}"/>'
        '<path class="range" d="M{a} {m} H{b}"/><circle cx="{o}" cy="{m}" r="2.6"/>{arrows}{true}</svg>'
    ).format(
        w=_FOREST_WIDTH, h=_FOREST_HEIGHT, z=place(0), o=place(1), a=place(low), b=place(high), m=middle,
        arrows=arrows, true=true,
    )  # fmt: skip


def _truth_html(identification: Identification, truth: Float, page: Page) -> Markup:
    estimate = identification.estimate
    half = estimate.half_width()
    known = np.isfinite(truth) & np.isfinite(half) & (half > 0)
    covered = known & (np.abs(truth - estimate.value) <= half)
    if not known.any():
        return Markup('<p class="note">No base parameter has a known true value.</p>')
    plot = row_of(
        (_error_panel(identification, truth, known, covered), _truth_panel(identification, truth, known)), 320
    )
    return render(
        "truth.html.jinja",
        {
            "covered": int(covered.sum()),
            "known": int(known.sum()),
            "share": percent(float(covered.sum() / known.sum()), 3),
            "plot": page.figure(
                plot, "error of every base parameter relative to its interval, and estimate against truth"
            ),
        },
    )


def _error_panel(identification: Identification, truth: Float, known: Bool, covered: Bool) -> Panel:
    estimate = identification.estimate
    names = [estimate.columns[i].name for i in estimate.base.independent]
    scaled = (estimate.value - truth) / np.where(known, estimate.half_width(), 1.0)
    index = np.arange(1, len(names) + 1, dtype=np.float64)
    groups: list[Trace] = []
    for mask, word, color in (
        (covered, "inside the interval", GREEN),
        (known & ~covered, "outside the interval", VERMILION),
    ):
        labels = [f"{names[i]}: {scaled[i]:.2f} half widths" for i in np.flatnonzero(mask)]
        groups.append(labelled(dots(index[mask], scaled[mask], word, color, 6, 0.9), labels))
    return Panel(
        traces=tuple(groups),
        x=Axis("base parameter, in the order of the table"),
        y=Axis("error / 95 % half width"),
        shapes=(level_band(-1, 1), level_line(0)),
        title="Error relative to the interval (band: the 95 % interval)",
    )


def _truth_panel(identification: Identification, truth: Float, known: Bool) -> Panel:
    estimate = identification.estimate
    visible = known & (np.abs(truth) > 1e-12) & (np.abs(estimate.value) > 1e-12)
    x, y = np.abs(truth[visible]), np.abs(estimate.value[visible])
    names = [estimate.columns[i].name for i in estimate.base.independent[visible]]
    labels = [f"{n}: estimate {b:.4g}, truth {a:.4g}" for n, a, b in zip(names, x, y, strict=True)]
    ends = np.array([x.min(), x.max()]) if len(x) else np.array([1.0, 1.0])
    points = with_errors(dots(x, y, "estimate", BLUE, 5, 0.9), estimate.half_width()[visible], BLUE)
    return Panel(
        traces=(line(ends, ends, "truth", GREY, 1.0, "dot"), labelled(points, labels)),
        x=Axis("|truth|, SI units", log=True, span=(ends[0] / 2, ends[1] * 2)),
        y=Axis("|estimate|", log=True, span=(ends[0] / 5, ends[1] * 5)),
        title="Estimate against truth, with intervals",
    )


@dataclass(frozen=True)
class Grid:
    """Table of full parameters of links or joints: one row per owner, one column per symbol."""

    title: str
    symbols: list[tuple[Markup, str, str]]
    lines: list[tuple[str, str, list[dict[str, str] | None]]]


def _grids(identification: Identification) -> list[Grid]:
    columns = identification.estimate.columns
    # The intervals of joints are those of the section on friction and drives.
    half = {value.column.name: value.half for value in joint_values(identification)}
    whole = [j for j, column in enumerate(columns) if of_whole_robot(column)]
    bodies = [j for j, column in enumerate(columns) if column.of is Of.BODY]
    joints = [j for j in range(len(columns)) if j not in {*whole, *bodies}]
    grids = [("Links", bodies), ("Joints", joints), ("Robot and log", whole)]
    return [_grid(identification, title, members, half) for title, members in grids if members]


def _grid(identification: Identification, title: str, members: list[int], half: Mapping[str, float]) -> Grid:
    columns = identification.estimate.columns
    placed: dict[tuple[int, str], int] = {}
    units: dict[str, str] = {}
    for j in members:
        name = parts(columns[j])[0]
        key = name if (columns[j].owner, name) not in placed else columns[j].name
        placed[columns[j].owner, key] = j
        units[key] = columns[j].unit if units.get(key, columns[j].unit) == columns[j].unit else "SI"
    owners = sorted({owner_index for owner_index, _ in placed})
    return Grid(
        title=title,
        symbols=[(letter(key), words(key), unit) for key, unit in units.items()],
        lines=[
            (
                _owner_name(
                    identification,
                    lead := columns[next(j for (o, _), j in placed.items() if o == owner_index)],
                ),
                "" if of_whole_robot(lead) else str(owner_index + 1),
                [
                    _cell(identification, placed[owner_index, key], half)
                    if (owner_index, key) in placed
                    else None
                    for key in units
                ],
            )
            for owner_index in owners
        ],
    )


def _owner_name(identification: Identification, column: Column) -> str:
    robot = identification.robot
    if of_whole_robot(column):
        return robot.name
    names = robot.body_names if column.of is Of.BODY else robot.joint_names
    return names[column.owner] if 0 <= column.owner < len(names) else owner(column, robot)


def _cell(identification: Identification, j: int, known_half: Mapping[str, float]) -> dict[str, str]:
    estimate = identification.estimate
    column = estimate.columns[j]
    category = estimate.base.categories()[j]
    combined = [estimate.names[i] for i in np.flatnonzero(estimate.base.B[:, j])]
    named = (
        f"{category}: {'; '.join(combined)}"
        if category is Category.COMBINATION
        else _category_text(column, category)
    )
    value, css = float(estimate.parameters[j]), _CSS[category]
    half = known_half.get(column.name, math.nan)
    if category is Category.IDENTIFIABLE:
        half = float(estimate.half_width()[list(estimate.base.independent).index(j)])
        named = f"{category}, {how_well(value, half)}"
        css += " maybe" if how_well(value, half) is Known.ZERO else ""
    shown, width = interval(value, half) if math.isfinite(half) else (number(value), "")
    truth = identification.truth.get(column.name, math.nan) if identification.truth is not None else math.nan
    return {
        "value": shown,
        "half": width,
        "css": css,
        "mark": _MARK[category],
        "prior": number(column.prior) if math.isfinite(column.prior) else "",
        "truth": number(truth) if math.isfinite(truth) else "",
        "title": f"{column.name} [{column.unit}], {owner(column, identification.robot)}: {named}",
    }


def _category_text(column: Column, category: Category) -> str:
    if category is Category.NOT_IDENTIFIABLE and math.isfinite(column.prior):
        return f"{category}, from the prior"
    return str(category)


def _free_scale(identification: Identification) -> bool:
    """Whether the common scale of all masses depends on the torque calibration alone."""
    names = {term.name for term in identification.terms}
    unknown = bool(np.isnan(identification.robot.inertia_prior).any())
    return unknown and "rigid_body" in names and "known_payload" not in names
