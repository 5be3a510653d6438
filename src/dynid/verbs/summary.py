"""Results in lines of text, for the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.atomic_write import refuse_existing, staged_files
from dynid.base.explanation import see
from dynid.base.findings import Finding
from dynid.base.numbers import with_interval
from dynid.base.overview import listed
from dynid.estimate.scores import Scores
from dynid.estimate.verdict import Known, Word, base_verdicts, full_verdicts
from dynid.run.links import Value, joint_values, links, total_said
from dynid.run.result import Identification
from dynid.run.serial import scores_to_dict

if TYPE_CHECKING:
    from dynid.verbs.statics import StaticEstimate


# Characters of a column of names, at least and at most.
_NARROW, _WIDE = 20, 48
# Findings of the same kind that are shown in full, and what stands between a joint and what was found at it.
_OF_A_KIND, _OF = 2, ": "


def identification_lines(result: Identification) -> list[str]:
    """Verdict, findings and scores."""
    marks = {"good": "+", "warning": "!", "doubt": "?", "problem": "x"}
    lines = [f"{result.verdict.word}: {result.verdict.headline}", ""]
    for of_a_kind in _by_kind(result.verdict.findings):
        finding = of_a_kind[0]
        advice = f" {finding.advice}" if finding.advice else ""
        more = f" ({_others(of_a_kind[1:])}: the report has them.)" if len(of_a_kind) > 1 else ""
        lines.append(f" {marks.get(finding.level, '-')} {finding.title}. {finding.text}{advice}{more}")
    codes = [one.code for one in result.verdict.findings if one.code and one.level != "good"]
    lines += [f" {see(codes)}"] if codes else []
    lines += ["", *link_lines(result), "", *parameter_lines(result)]
    chosen = result.preparation.get("rows")
    if isinstance(chosen, Mapping):
        lines += ["", f"{chosen['name']} rows: {chosen['reason']}"]
    for validation in (result.training, *result.validations):
        lines += ["", *score_lines(validation.scores)]
    return lines


def _by_kind(findings: Sequence[Finding]) -> list[list[Finding]]:
    # Each by itself, but for more than a few of the same code and title, the joint's name aside, which are with the
    # first: six links of one description whose inertias are slightly impossible say nothing that the first does not.
    kinds: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        kinds.setdefault(_kind(one), []).append(one)
    shown = []
    for one in findings:
        same = kinds[_kind(one)]
        if len(same) <= _OF_A_KIND:
            shown.append([one])
        elif one is same[0]:
            shown.append(same)
    return shown


def _kind(one: Finding) -> tuple[str, str, str]:
    return one.level, one.title.rpartition(_OF)[2], one.code


def _others(findings: Sequence[Finding]) -> str:
    joints = list(dict.fromkeys(one.title.rpartition(_OF)[0] for one in findings))
    said = f"And {len(findings)} more of this kind"
    return f"{said}, of {listed(joints)}" if len(joints) > 1 else said


def link_lines(result: Identification) -> list[str]:
    """Mass and centre of every link beside the description's, whom to believe; then friction by joint."""
    found, total = links(result)
    values = joint_values(result)
    wide = _width([*(link.name for link in found), *(value.joint for value in values)])
    lines = []
    if found:
        lines = [
            "links, as exports hold them (+- 95 % where the data decide)",
            f"  {'link':<{wide}}{'mass, kg':>18}{'described':>11}  {'centre, mm':<22}{'described':<22}"
            f"{'in shape':<10}who says",
        ]
        for link in found:
            shape = {True: "yes", False: "NO", None: "-"}[link.inside]
            lines.append(
                f"  {_cell(link.name, wide)}{_figure(link.mass):>18}{_known(link.mass.described):>11}  "
                f"{_millimetres([c.value for c in link.centre]):<22}"
                f"{_millimetres([c.described for c in link.centre]):<22}{shape:<10}{link.said}"
            )
        lines.append(
            f"  {'all links':<{wide}}{_figure(total):>18}{_known(total.described):>11}  {'':<54}"
            f"{total_said(found, total)}"
        )
    if values:
        lines += ["", "joints"]
    unmeasured = result.training.scores.unmeasured
    for joint in dict.fromkeys(value.joint for value in values):
        if joint in unmeasured:
            lines.append(f"  {_cell(joint, wide)}effort not measured")
            continue
        own = ", ".join(
            f"{v.column.name} {with_interval(v.value, v.half)} {v.column.unit}"
            for v in values
            if v.joint == joint
        )
        lines.append(f"  {_cell(joint, wide)}{own}")
    return lines


def _width(names: Sequence[str]) -> int:
    """Of a column that holds names whole, up to a length."""
    return min(max([_NARROW, *(len(name) + 1 for name in names)]), _WIDE)


def _cell(name: str, width: int) -> str:
    # What tells names of one robot apart stands at their end.
    shown = name if len(name) < width else f"...{name[4 - width :]}"
    return f"{shown:<{width}}"


def _figure(value: Value) -> str:
    if value.value <= value.half < np.inf:
        # To the digits of its interval 0.53 +- 14 kg would be 1 kg, which is not what exports hold.
        return f"{value.value:.4g} +- {value.half:.2g}"
    return with_interval(value.value, value.half)


def _known(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"


def _millimetres(centre: Sequence[float]) -> str:
    # In mm first: what is finite in metres may not be.
    shown = [1000.0 * float(c) for c in centre]
    return ", ".join(f"{round(c):d}" for c in shown) if np.isfinite(shown).all() else "-"


def parameter_lines(result: Identification) -> list[str]:
    """How many base and full parameters there are of each kind."""
    words = [verdict.word for verdict in base_verdicts(result.estimate, result.factors)]
    found = [verdict.known for verdict in full_verdicts(result.estimate, result.factors)]
    alone = [known for known in found if known is not None]
    base = ", ".join(f"{words.count(word)} {word}" for word in Word if word in words)
    full = ", ".join(f"{alone.count(known)} {known}" for known in Known if known in alone)
    return [
        f"{len(words)} base parameters: {base}",
        f"{len(found)} full parameters: {len(alone)} determined by the data alone"
        + (f" ({full})" if full else ""),
    ]


def finding_lines(result: Identification) -> list[str]:
    """What the residuals show, the training error beside it."""
    missed = 100 * result.training.scores.total_relative
    lines = [f"a fitted model misses {missed:.3g} % of the torque; its residuals show"]
    lines += [f"  {one.level}: {one.title}. {one.text} {one.advice}" for one in result.residual_findings]
    return lines if result.residual_findings else [f"{lines[0]} nothing but noise"]


def static_lines(result: StaticEstimate) -> list[str]:
    """What static poses determine: their number, friction at rest, and the base parameters with 95 % intervals."""
    poses, estimate = result.poses, result.estimate
    lines = [
        f"{len(poses)} static poses: {estimate.base.rank} of {result.structural.rank} static base parameters",
        f"  {'joint':<20}{'both sides':>11}{'friction at rest':>18}{'residual':>11}",
    ]
    for j, name in enumerate(result.robot.joint_names):
        known = poses.stiction[poses.both[:, j], j]
        friction = f"{np.mean(np.abs(known)):.4g}" if len(known) else "unknown"
        lines.append(f"  {name:<20}{int(poses.both[:, j].sum()):>11}{friction:>18}{estimate.sigma[j]:>11.4g}")
    lines.append("")
    for name, unit, value, half in zip(
        estimate.names, estimate.units, estimate.value, estimate.half_width(), strict=True
    ):
        lines.append(f"  {with_interval(value, half):>26} {unit:<8} {name}")
    return lines


def score_lines(scores: Scores) -> list[str]:
    """A table of scores by joint."""
    names = ", ".join(scores.trajectories[:3]) + (" ..." if len(scores.trajectories) > 3 else "")
    whole = scores.all_samples
    missed = f"{100 * scores.total_relative:.3g} % of the torque missed"
    if whole is not None:
        missed += f" on the samples kept, {100 * whole.total_relative:.3g} % on all samples"
    lines = [f"{scores.origin} ({names}): {missed}"]
    if scores.left_out:
        lines.append(f"  left out: {scores.left_out_text}")
    if scores.at_rest_text:
        lines.append(f"  all samples: {scores.at_rest_text}")
    if scores.exported_text:
        lines.append(f"  {scores.exported_text}")
    wide = _width(scores.joint_names)
    every = "" if whole is None else f"{'all samples':>13}"
    lines.append(
        f"  {'joint':<{wide}}{'relative':>10}{every}{'RMS':>11}{'R2':>9}{'torque RMS':>12}{'samples':>9}"
    )
    for j, name in enumerate(scores.joint_names):
        every = "" if whole is None else f"{100 * whole.relative[j]:>11.2f} %"
        remark = f"  {said}" if (said := scores.remark(name)) else ""
        if not scores.count[j]:
            every = "" if whole is None else f"{'-':>13}"
            lines.append(f"  {_cell(name, wide)}{'-':>10}{every}{'-':>11}{'-':>9}{'-':>12}{0:>9}{remark}")
            continue
        lines.append(
            f"  {_cell(name, wide)}{100 * scores.relative[j]:>8.2f} %{every}{scores.rms[j]:>11.4g}{scores.r2[j]:>9.4f}"
            f"{scores.torque_rms[j]:>12.4g}{int(scores.count[j]):>9}{remark}"
        )
    if scores.beyond_text:
        lines.append(f"  outside the training's range: {scores.beyond_text}")
    return lines


def comparison_lines(runs: Sequence[tuple[str, Identification]]) -> list[str]:
    """Scores side by side."""
    first = runs[0][1].robot.joint_names
    lines = [f"{'relative error, %':<24}" + "".join(f"{name[-18:]:>20}" for name, _ in runs)]
    for j, joint in enumerate(first):
        cells = []
        for _, run in runs:
            scores = (run.validations or (run.training,))[0].scores
            cells.append(
                f"{100 * scores.relative[j]:>20.2f}" if j < len(scores.joint_names) else f"{'-':>20}"
            )
        lines.append(f"{joint:<24}" + "".join(cells))
    lines.append(
        f"{'scored on':<24}"
        + "".join(f"{(r.validations or (r.training,))[0].scores.origin:>20}" for _, r in runs)
    )
    return lines


def difference_lines(runs: Sequence[tuple[str, Identification]]) -> list[str]:
    """Base parameters of one formula whose 95 % intervals, as the runs state them, do not meet."""
    differing = different_parameters(runs)
    return [
        f"base parameters that differ beyond their 95 % intervals: {len(differing)}",
        *(f"  {line}" for line in differing),
    ]


def different_parameters(runs: Sequence[tuple[str, Identification]]) -> list[str]:
    """Base parameters with the same formula whose 95 % intervals do not meet, as text."""
    lines = []
    tables = []
    for name, run in runs:
        half = run.estimate.half_width()
        units = run.estimate.units
        tables.append(
            (name, {f: (run.estimate.value[i], half[i], units[i]) for i, f in enumerate(run.estimate.names)})
        )
    for formula, (value, half, unit) in tables[0][1].items():
        for name, table in tables[1:]:
            if formula not in table:
                continue
            other, other_half, _ = table[formula]
            if abs(value - other) > np.hypot(half, other_half):
                lines.append(
                    f"{formula}: {with_interval(value, half)} {unit} in {tables[0][0]}, "
                    f"{with_interval(other, other_half)} in {name}"
                )
    return lines


def write_scores(path: str | Path, scores: Scores) -> None:
    """Writes scores as JSON; raises RefusedError if the file exists, ResourceError if it cannot write."""
    path = Path(path)
    refuse_existing(path)
    text = json.dumps(scores_to_dict(scores), indent=1, allow_nan=False) + "\n"
    with staged_files(path) as (scratch,):
        scratch.write_text(text, encoding="utf-8")
