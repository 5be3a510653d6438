"""Results in lines of text, for the terminal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.base.diagnostics import Finding, Level, see
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.files import refuse_existing, staged_files
from dynid.base.records import listed
from dynid.base.units import with_interval
from dynid.estimate.estimator import Estimate, Known, Word, base_verdicts, full_verdicts
from dynid.estimate.prediction import HOLDS
from dynid.estimate.scores import Scores
from dynid.factor.base import BaseMap, Category, structural_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.agreement import ALPHA, Agreement, Runs, SharedParameter, agreement
from dynid.run.links import Link, Value, joint_values, links, total_source
from dynid.run.result import Identification
from dynid.run.serial import scores_to_dict, verdict_findings
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Terms

if TYPE_CHECKING:
    from dynid.verbs.statics import StaticEstimate


# The agreement of runs as lines for the terminal, and its pooled parameters as data.

# Parameters that are listed where runs differ.
_LISTED = 12


def agreement_or_reason(runs: Runs) -> tuple[Agreement | None, str]:
    """Agreement of runs; None and the reason if their parameters cannot be compared."""
    try:
        return agreement(runs), ""
    except (UsageError, UnfitDataError) as error:
        return None, f"agreement not tested: found {error.found}; needed: {error.expected}"


def agreement_lines(result: Agreement) -> list[str]:
    """Lines of text: whether the runs agree, the pairs, the likely cause and the differing parameters."""
    if not result.compared:
        return [f"agreement: {result.reason}"]
    lines = [
        f"agreement of {len(result.names)} runs: {100 * result.share:.1f} % of {result.compared} comparisons of base "
        f"parameters agree at 95 % (textbook intervals: {100 * result.textbook:.1f} %); RMS z = {result.rms_z:.2f}"
    ]
    if len(result.pairs) > 1:
        width = max(len(name) for name in result.names)
        lines += [
            f"  {pair.first:<{width}}  {pair.second:<{width}}  {pair.agree:>4} of {pair.compared:<4} "
            f"RMS z = {pair.rms_z:.2f}"
            for pair in result.pairs
            if pair.compared
        ]
    if result.together is not None:
        lines.append(
            f"all together: the differences are {result.together.ratio:.2f} times those expected from noise "
            f"(p = {result.together.p_value:.2g}; runs disagree if p < {ALPHA:g})"
        )
    if result.halves is not None:
        lines.append(
            f"first and second half of each run: {result.halves.ratio:.2f} times (p = {result.halves.p_value:.2g})"
        )
    lines.append(f"{str(result.cause).upper()}: {result.reason}")
    moved = [
        f"{name} {100 * share:.2g} %"
        for name, share in zip(result.group_names, result.torque, strict=True)
        if share > 0
    ]
    if result.together is not None and result.together.p_value < ALPHA:
        lines.append(f"torque difference beyond chance: {', '.join(moved)}")
        lines += [
            f"  a change of {change.what} would explain {100 * change.share:.3g} %"
            for change in result.changes
        ]
    apart = sorted(
        (parameter for parameter in result.parameters if not parameter.agrees),
        key=lambda parameter: parameter.p_value,
    )
    pooled = sum(math.isfinite(parameter.pooled) for parameter in result.parameters)
    lines.append(
        f"base parameters: {len(result.parameters) - len(apart)} agree ({pooled} of them pooled), {len(apart)} do not"
    )
    lines += [f"  {_difference(result, parameter)}" for parameter in apart[:_LISTED]]
    lines += [f"  ... and {len(apart) - _LISTED} more"] if len(apart) > _LISTED else []
    return lines + [f"note: {note}" for note in result.notes]


def _difference(result: Agreement, parameter: SharedParameter) -> str:
    i, j = (result.names.index(name) for name in parameter.apart)
    gap = parameter.values[j] - parameter.values[i]
    torque = (
        f", {100 * parameter.torque:.2g} % of {parameter.moves}'s torque"
        if math.isfinite(parameter.torque)
        else ""
    )
    return (
        f"{parameter.formula}: {parameter.values[i]:.4g} in {parameter.apart[0]}, {gap:+.3g} {parameter.unit} in "
        f"{parameter.apart[1]} (z = {parameter.z:.1f}{torque})"
    )


def agreement_data(result: Agreement) -> dict[str, Any]:
    """Agreement as plain data: figures, cause, and every base parameter per run and pooled; null = unknown."""
    return {
        "runs": list(result.names),
        "comparisons": result.compared,
        "agree": _number(result.share),
        "agree_textbook": _number(result.textbook),
        "rms_z": _number(result.rms_z),
        "p_value": None if result.together is None else result.together.p_value,
        "cause": str(result.cause),
        "reason": result.reason,
        "notes": list(result.notes),
        "changes": [
            {"what": change.what, "explains": change.share, "p_value": change.p_value}
            for change in result.changes
        ],
        "pairs": [
            {
                "runs": [pair.first, pair.second],
                "comparisons": pair.compared,
                "agree": pair.agree,
                "rms_z": _number(pair.rms_z),
            }
            for pair in result.pairs
        ],
        "parameters": [
            {
                "formula": parameter.formula,
                "unit": parameter.unit,
                "agree": parameter.agrees,
                "pooled": _number(parameter.pooled),
                "half_width95": _number(parameter.half),
                "z": _number(parameter.z),
                "p_value": parameter.p_value,
                "runs": {
                    name: {"value": _number(value), "std": _number(std)}
                    for name, value, std in zip(result.names, parameter.values, parameter.std, strict=True)
                    if np.isfinite(value)
                },
            }
            for parameter in result.parameters
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# Characters of a column of names, at least and at most.
_NARROW, _WIDE = 20, 48
# Findings of the same kind that are all shown in full; separator of the joint in a title.
_SHOWN_OF_A_KIND, _AFTER_JOINT = 2, ": "
# What the overview shows at most, so that it fits a terminal of 25 lines of 100 characters.
_TOP_FINDINGS, _TOP_ROWS, _LINE = 3, 9, 100
_MARKS = {"good": "+", "warning": "!", "doubt": "?", "problem": "x"}


def overview_lines(result: Identification) -> list[str]:
    """At most 25 lines of text: verdict and uses, error and mass per joint, and the most important findings."""
    return [
        *_sentences(f"{result.verdict.word}: {result.verdict.headline}"),
        *(f"  {use}" for use in result.verdict.uses),
        "",
        *_joint_table(result),
        "",
        *_top_findings(result),
    ]


def _sentences(text: str) -> list[str]:
    first, *others = re.split(r"(?<=[a-z0-9)]\.) (?=[A-Z])", text)
    return [first, *(f"  {sentence}" for sentence in others)]


def _joint_table(result: Identification) -> list[str]:
    """Error of every joint, and mass of the links that it moves until the next joint; the worst if there are many."""
    scores = (result.validations or (result.training,))[0].scores
    every_link, total = links(result)
    mass_of = {result.robot.tree_joint_names[link.body]: link for link in every_link}
    joints = list(scores.joint_names)
    wide = _width([*joints, *(link.name for link in mass_of.values())])
    units = "N" if all(result.robot.prismatic) else "N, N m" if any(result.robot.prismatic) else "N m"
    head = f"  {'joint':<{wide}}{'error':>8}{'RMS, ' + units:>13}{'of torque':>11}"
    lines = [head + (f"   {'link':<{wide}}{'mass, kg':>16}{'robot file':>12}" if mass_of else "")]
    shown = sorted(
        range(len(joints)), key=lambda j: -scores.relative[j] if np.isfinite(scores.relative[j]) else 1.0
    )[:_TOP_ROWS]
    for j in sorted(shown):
        line = f"  {_cell(joints[j], wide)}"
        if scores.count[j]:
            line += f"{100 * scores.relative[j]:>6.3g} %{scores.rms[j]:>13.3g}{scores.torque_rms[j]:>11.3g}"
        else:
            line += f"{'-':>8}{'-':>13}{'-':>11}"
        if (link := mass_of.get(joints[j])) is not None:
            mass = (
                _figure(link.mass)
                if np.isfinite(link.mass.half)
                else f"{link.mass.value:.3g} ({_taken(link)})"
            )
            line += f"   {_cell(link.name, wide)}{mass:>16}{_known(link.mass.described):>12}"
        lines.append(line.rstrip())
    if len(joints) > len(shown):
        lines.append(f"  ... and {len(joints) - len(shown)} joints with smaller errors")
    if mass_of:
        lines.append(
            f"  {'':<{wide + 32}}   {'all links':<{wide}}{_figure(total):>16}{_known(total.described):>12}"
        )
    return lines


def _taken(link: Link) -> str:
    """Where a mass comes from that the log does not determine."""
    return "guess" if link.guessed else "prior"


def _top_findings(result: Identification) -> list[str]:
    """The findings that limit the model most, one line each, with the command that explains them.

    Doubts are not among them: they come in full, with what to do, whatever else is printed.
    """
    limits = " ".join(use.reason for use in result.verdict.uses)
    # Findings about the log, as they were found: the verdict has their place in the text.
    of_log = {finding.code for finding in result.diagnostics.warnings}
    weight = {Level.PROBLEM: 0, Level.WARNING: 1}
    by_code: dict[str, list[Finding]] = {}
    for finding in result.verdict.findings:
        if finding.level in weight:
            by_code.setdefault(finding.code or finding.title, []).append(finding)
    ordered = sorted(by_code, key=lambda code: (weight[by_code[code][0].level], code not in limits))
    lines = []
    for code in ordered[:_TOP_FINDINGS]:
        command = f"dynid explain {code}" if by_code[code][0].code else ""
        of_kind = by_code[code]
        if of_kind[0].title.endswith(f"{_AFTER_JOINT}{code}") and code in of_log:
            of_kind = [finding for finding in result.diagnostics.warnings if finding.code == code]
        text = _in_one_line(of_kind, _LINE - len(command) - 5)
        lines.append(f" {_MARKS[by_code[code][0].level]} {text:<{_LINE - len(command) - 5}}  {command}")
    if len(ordered) > _TOP_FINDINGS:
        lines.append(f"   and {len(ordered) - _TOP_FINDINGS} more: see the report, or -v")
    return lines


def _in_one_line(findings: Sequence[Finding], width: int) -> str:
    first = findings[0]
    joint, _, title = first.title.rpartition(_AFTER_JOINT)
    if title in ("", first.code):  # of a log: its title says less than the first clause of its text
        title = re.split(r"[;:.] ", first.text)[0]
        joints = [finding.place.joint for finding in findings if finding.place.joint]
    else:
        joints = [finding.title.rpartition(_AFTER_JOINT)[0] for finding in findings if joint]
    text = f"{', '.join(dict.fromkeys(joints))}: {title}" if joints else title
    return text if len(text) <= width else f"{text[: width - 3].rstrip()}..."


def identification_lines(result: Identification) -> list[str]:
    """Lines of text: verdict, findings, links, joints, parameters and scores."""
    lines = [f"{result.verdict.word}: {result.verdict.headline}", *map(str, result.verdict.uses), ""]
    for of_a_kind in _by_kind(result.verdict.findings):
        finding = of_a_kind[0]
        advice = f" {finding.advice}" if finding.advice else ""
        more = f" ({_others(of_a_kind[1:])}: see the report.)" if len(of_a_kind) > 1 else ""
        lines.append(f" {_MARKS.get(finding.level, '-')} {finding.title}. {finding.text}{advice}{more}")
    codes = [entry.code for entry in result.verdict.findings if entry.code and entry.level != "good"]
    lines += [f" {see(codes)}"] if codes else []
    lines += ["", *link_lines(result), "", *parameter_lines(result)]
    chosen = result.preparation.get("rows")
    if isinstance(chosen, Mapping):
        lines += ["", f"{chosen['name']} rows: {chosen['reason']}"]
    for validation in (result.training, *result.validations):
        lines += ["", *score_lines(validation.scores)]
    return lines


def _by_kind(findings: Sequence[Finding]) -> list[list[Finding]]:
    # Many findings that differ only in the joint are shown as one, because the others add no information.
    kinds: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        kinds.setdefault(_kind(finding), []).append(finding)
    shown = []
    for finding in findings:
        same = kinds[_kind(finding)]
        if len(same) <= _SHOWN_OF_A_KIND:
            shown.append([finding])
        elif finding is same[0]:
            shown.append(same)
    return shown


def _kind(finding: Finding) -> tuple[str, str, str]:
    return finding.level, finding.title.rpartition(_AFTER_JOINT)[2], finding.code


def _others(findings: Sequence[Finding]) -> str:
    joints = list(dict.fromkeys(finding.title.rpartition(_AFTER_JOINT)[0] for finding in findings))
    text = f"{len(findings)} more of this kind"
    return f"{text} on {listed(joints)}" if len(joints) > 1 else text


def link_lines(result: Identification) -> list[str]:
    """Lines of text: mass and centre of mass of every link with its prior and source, then friction per joint."""
    every_link, total = links(result)
    values = joint_values(result)
    wide = _width([*(link.name for link in every_link), *(value.joint for value in values)])
    lines = []
    if every_link:
        lines = [
            "links as exported (+- 95 % interval if the data determine the mass; prior: robot file)",
            f"  {'link':<{wide}}{'mass, kg':>18}{'prior':>11}  {'centre, mm':<22}{'prior':<22}"
            f"{'in shape':<10}source of mass",
        ]
        for link in every_link:
            shape = {True: "yes", False: "NO", None: "-"}[link.inside]
            lines.append(
                f"  {_cell(link.name, wide)}{_figure(link.mass):>18}{_known(link.mass.described):>11}  "
                f"{_millimetres([c.value for c in link.centre]):<22}"
                f"{_millimetres([c.described for c in link.centre]):<22}{shape:<10}{link.source}"
            )
        lines.append(
            f"  {'all links':<{wide}}{_figure(total):>18}{_known(total.described):>11}  {'':<54}"
            f"{total_source(every_link, total)}"
        )
    if values:
        lines += ["", "joints"]
    unmeasured = result.training.scores.unmeasured
    for joint in dict.fromkeys(value.joint for value in values):
        if joint in unmeasured:
            lines.append(f"  {_cell(joint, wide)}effort not measured")
            continue
        parameters = ", ".join(
            f"{v.column.name} {with_interval(v.value, v.half)} {v.column.unit}"
            for v in values
            if v.joint == joint
        )
        lines.append(f"  {_cell(joint, wide)}{parameters}")
    return lines


def _width(names: Sequence[str]) -> int:
    """Width of a column for names of up to _WIDE characters."""
    return min(max([_NARROW, *(len(name) + 1 for name in names)]), _WIDE)


def _cell(name: str, width: int) -> str:
    # Names of one robot usually differ at their end, so a long name loses its beginning.
    shown = name if len(name) < width else f"...{name[4 - width :]}"
    return f"{shown:<{width}}"


def _figure(value: Value) -> str:
    if value.value <= value.half < np.inf:
        # Rounded to the digits of its interval, 0.53 +- 14 kg would be 1 kg, which is not the exported value.
        return f"{value.value:.4g} +- {value.half:.2g}"
    return with_interval(value.value, value.half)


def _known(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "-"


def _millimetres(centre: Sequence[float]) -> str:
    # Tested after conversion, because a value that is finite in metres may overflow in mm.
    shown = [1000.0 * float(c) for c in centre]
    return ", ".join(f"{round(c):d}" for c in shown) if np.isfinite(shown).all() else "-"


def parameter_lines(result: Identification) -> list[str]:
    """Lines of text: number of base and full parameters of each kind."""
    words = [verdict.word for verdict in base_verdicts(result.estimate, result.factors)]
    levels = [verdict.known for verdict in full_verdicts(result.estimate, result.factors)]
    alone = [known for known in levels if known is not None]
    base = ", ".join(f"{words.count(word)} {word}" for word in Word if word in words)
    full = ", ".join(f"{alone.count(known)} {known}" for known in Known if known in alone)
    return [
        f"{len(words)} base parameters: {base}",
        f"{len(levels)} full parameters: {len(alone)} identifiable from the data alone"
        + (f" ({full})" if full else ""),
    ]


def finding_lines(result: Identification) -> list[str]:
    """Lines of text: effects visible in the residuals, with the training error."""
    error = 100 * result.training.scores.total_relative
    lines = [f"residuals of a fitted model (training error {error:.3g} %) show:"]
    lines += [
        f"  {finding.level}: {finding.title}. {finding.text} {finding.advice}"
        for finding in result.residual_findings
    ]
    return lines if result.residual_findings else [f"{lines[0]} only noise"]


def static_lines(result: StaticEstimate) -> list[str]:
    """Lines of text: number of static poses, friction at rest, and base parameters with 95 % intervals."""
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


def score_lines(scores: Scores, expected: float | None = None) -> list[str]:
    """Lines of text: a table of scores per joint, and the error that the fit expects on this motion."""
    names = ", ".join(scores.trajectories[:3]) + (" ..." if len(scores.trajectories) > 3 else "")
    whole = scores.all_samples
    error = f"torque error {100 * scores.total_relative:.3g} %"
    if whole is not None:
        error += f", {100 * whole.total_relative:.3g} % on all samples"
    lines = [f"{scores.origin} ({names}): {error}"]
    if expected is not None:
        lines.append(f"  {_beside_expected(scores.total_relative, expected)}")
    if scores.left_out:
        lines.append(f"  samples left out: {scores.left_out_text}")
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
        remark = f"  {text}" if (text := scores.remark(name)) else ""
        if not scores.count[j]:
            every = "" if whole is None else f"{'-':>13}"
            lines.append(f"  {_cell(name, wide)}{'-':>10}{every}{'-':>11}{'-':>9}{'-':>12}{0:>9}{remark}")
            continue
        lines.append(
            f"  {_cell(name, wide)}{100 * scores.relative[j]:>8.2f} %{every}{scores.rms[j]:>11.4g}{scores.r2[j]:>9.4f}"
            f"{scores.torque_rms[j]:>12.4g}{int(scores.count[j]):>9}{remark}"
        )
    if scores.beyond_text:
        lines.append(f"  outside the training range: {scores.beyond_text}")
    return lines


def _beside_expected(error: float, expected: float) -> str:
    text = f"expected on this motion: {100 * expected:.2g} %"
    if error <= HOLDS * expected:
        return text
    return (
        f"{text}; the error is {error / expected:.2g} times as large, so the model lacks an effect of this log: "
        "a load, changed friction or contact"
    )


def comparison_lines(runs: Sequence[tuple[str, Identification]]) -> list[str]:
    """Lines of text: scores of several runs side by side."""
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
    """Lines of text: base parameters whose 95 % intervals do not overlap."""
    differing = different_parameters(runs)
    return [
        f"base parameters that differ beyond their 95 % intervals: {len(differing)}",
        *(f"  {line}" for line in differing),
    ]


def different_parameters(runs: Sequence[tuple[str, Identification]]) -> list[str]:
    """Base parameters with the same formula whose 95 % intervals do not overlap, as text."""
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
    """Write scores as JSON; raises RefusedError if the file exists, ResourceError if it cannot be written."""
    path = Path(path)
    refuse_existing(path)
    text = json.dumps(scores_to_dict(scores), indent=1, allow_nan=False) + "\n"
    with staged_files(path) as (scratch,):
        scratch.write_text(text, encoding="utf-8")


# Results as plain data, for programs: what --json prints.


def identification_data(result: Identification) -> dict[str, Any]:
    """Verdict, scores, links, joints and base parameters as plain data.

    A half width is None unless the data determine the value.
    """
    verdict = result.verdict
    words = base_verdicts(result.estimate, result.factors)
    every_link, total = links(result)
    return {
        "robot": result.robot.name,
        "terms": [term.name for term in result.terms],
        "verdict": {
            "word": verdict.word,
            "headline": verdict.headline,
            "findings": verdict_findings(verdict),
            "accepted": verdict.accepted,
            "uses": [vars(use) for use in verdict.uses],
            "expected": [vars(motion) for motion in verdict.expected],
        },
        "scores": [scores_to_dict(entry.scores) for entry in (result.training, *result.validations)],
        "links": [
            {
                "name": link.name,
                "mass": _value(link.mass, "kg"),
                "centre": [_value(coordinate, "m") for coordinate in link.centre],
                "centre_in_shape": link.inside,
                "source": link.source,
            }
            for link in every_link
        ],
        "total_mass": {**_value(total, "kg"), "source": total_source(every_link, total)}
        if every_link
        else None,
        "joints": [
            {
                "joint": parameter.joint,
                "parameter": parameter.column.name,
                "value": parameter.value,
                "half_width95": parameter.half,
                "unit": parameter.column.unit,
                "known": parameter.known,
            }
            for parameter in joint_values(result)
        ],
        "base_parameters": [
            entry | {"verdict": str(base_verdict.word)}
            for entry, base_verdict in zip(parameter_data(result.estimate), words, strict=True)
        ],
    }


def _value(quantity: Value, unit: str) -> dict[str, Any]:
    return {
        "value": quantity.value,
        "half_width95": quantity.half,
        "unit": unit,
        "described": quantity.described,
        "share_of_data": quantity.data,
    }


def parameter_data(estimate: Estimate) -> list[dict[str, Any]]:
    """Base parameters with 95 % half widths, as plain data."""
    rows = zip(estimate.names, estimate.units, estimate.value, estimate.half_width(), strict=True)
    return [
        {"formula": name, "value": value, "half_width95": half, "unit": unit}
        for name, unit, value, half in rows
    ]


def static_data(result: StaticEstimate) -> dict[str, Any]:
    """Result of static poses, as plain data."""
    return {
        "poses": len(result.poses),
        "rank": result.estimate.base.rank,
        "structural_rank": result.structural.rank,
        "base_parameters": parameter_data(result.estimate),
    }


def comparison_data(runs: Sequence[tuple[str, Identification]]) -> dict[str, Any]:
    """Verdict and scores of every run, and base parameters whose intervals do not overlap, as plain data."""
    return {
        "runs": [
            {
                "run": name,
                "verdict": run.verdict.word,
                "scores": [
                    scores_to_dict(validation.scores) for validation in (run.training, *run.validations)
                ],
            }
            for name, run in runs
        ],
        "differing": different_parameters(runs),
    }


def robot_data(robot: RobotModel, seed: int = 0) -> dict[str, Any]:
    """Joints, links, and base parameters of the rigid bodies, as plain data."""
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows(), seed)
    return {
        "robot": robot.name,
        "joints": robot.joint_names,
        "bodies": [
            {"name": body, "moved_by": joint, "prior_mass": float(ten[0])}
            for body, joint, ten in zip(
                robot.body_names, robot.tree_joint_names, robot.inertia_prior, strict=True
            )
        ],
        "base_parameters": base.formulas(),
        "parameters": _categories(base),
    }


def _categories(base: BaseMap) -> dict[str, list[str]]:
    by_category: dict[str, list[str]] = {str(category): [] for category in Category}
    for name, category in zip(base.names, base.categories(), strict=True):
        by_category[str(category)].append(name)
    return by_category


# Identifiable parameters of a robot, in words.


def describe_base(robot: RobotModel, seed: int = 0, terms: Terms | None = None) -> list[str]:
    """Lines of text: number of base parameters, their formulas, and the parameters that no motion can determine.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    seed : int
        Seed of the random states.
    terms : Terms, optional
        The model; None = rigid bodies.

    Returns
    -------
    list of str

    """
    model = terms or Terms((RigidBody(),))
    base = structural_base(robot, model, TorqueRows(), seed)
    lines = [
        f"base parameters: {base.rank} of {len(base.names)} parameters ({', '.join(term.name for term in model)})",
        f"  the smallest pivot kept is {base.gap:.1e} times the largest one dropped",
        "",
        "base parameters as sums (number = link, counted from 1 at the base):",
    ]
    lines += [f"  {formula}" for formula in base.formulas()]
    lines += ["", *_inspection_categories(base)]
    lines += ["", "links:"]
    lines += [
        f"  {i + 1}: {body} (moved by joint '{joint}')"
        for i, (body, joint) in enumerate(zip(robot.body_names, robot.tree_joint_names, strict=True))
    ]
    return lines


def _inspection_categories(base: BaseMap) -> list[str]:
    categories = base.categories()
    lines = []
    for category in Category:
        members = [name for name, have in zip(base.names, categories, strict=True) if have is category]
        lines.append(f"{category} ({len(members)}): {', '.join(members) or 'none'}")
    return lines
