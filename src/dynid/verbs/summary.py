"""Results in lines of text, for the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.base.diagnostics import Finding, see
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.files import refuse_existing, staged_files
from dynid.base.records import listed
from dynid.base.units import with_interval
from dynid.estimate.estimator import Estimate, Known, Word, base_verdicts, full_verdicts
from dynid.estimate.scores import Scores
from dynid.factor.base import BaseMap, Category, structural_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.run.agreement import ALPHA, Agreement, Runs, SharedParameter, agreement
from dynid.run.links import Value, joint_values, links, total_said
from dynid.run.result import Identification
from dynid.run.serial import scores_to_dict
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Terms

if TYPE_CHECKING:
    from dynid.verbs.statics import StaticEstimate


# The agreement of runs as lines for the terminal, and its pooled parameters as data.

# Parameters that are listed where runs differ.
_LISTED = 12


def agreement_or_reason(runs: Runs) -> tuple[Agreement | None, str]:
    """The agreement of runs; None and why where their parameters cannot be compared: other joints, hardly any data."""
    try:
        return agreement(runs), ""
    except (UsageError, UnfitDataError) as error:
        return None, f"agreement not tested: found {error.found}, expected {error.expected}"


def agreement_lines(found: Agreement) -> list[str]:
    """The answer, the pairs, what differs and by how much."""
    if not found.compared:
        return [f"agreement: {found.reason}"]
    lines = [
        f"agreement of {len(found.names)} runs: {100 * found.share:.1f} % of {found.compared} comparisons of base "
        f"parameters agree at 95 % (with textbook intervals {100 * found.textbook:.1f} %); r.m.s. z {found.rms_z:.2f}"
    ]
    if len(found.pairs) > 1:
        width = max(len(name) for name in found.names)
        lines += [
            f"  {pair.first:<{width}}  {pair.second:<{width}}  {pair.agree:>4} of {pair.compared:<4} "
            f"r.m.s. z {pair.rms_z:.2f}"
            for pair in found.pairs
            if pair.compared
        ]
    if found.together is not None:
        lines.append(
            f"all together: their differences are {found.together.ratio:.2f} times what the noise within them makes "
            f"(p = {found.together.p_value:.2g}; below {ALPHA:g} they disagree)"
        )
    if found.halves is not None:
        lines.append(f"halves of each run: {found.halves.ratio:.2f} times (p = {found.halves.p_value:.2g})")
    lines.append(f"{str(found.cause).upper()}: {found.reason}")
    moved = [
        f"{name} {100 * share:.2g} %"
        for name, share in zip(found.group_names, found.torque, strict=True)
        if share > 0
    ]
    if found.together is not None and found.together.p_value < ALPHA:
        lines.append(f"torque that the runs differ by, beyond chance: {', '.join(moved)}")
        lines += [f"  {change.what} would explain {100 * change.share:.3g} %" for change in found.changes]
    apart = sorted((one for one in found.parameters if not one.agrees), key=lambda one: one.p_value)
    pooled = sum(math.isfinite(one.pooled) for one in found.parameters)
    lines.append(
        f"base parameters: {len(found.parameters) - len(apart)} agree ({pooled} of them pooled), {len(apart)} do not"
    )
    lines += [f"  {_difference(found, one)}" for one in apart[:_LISTED]]
    lines += [f"  ... and {len(apart) - _LISTED} more"] if len(apart) > _LISTED else []
    return lines + [f"note: {note}" for note in found.notes]


def _difference(found: Agreement, one: SharedParameter) -> str:
    i, j = (found.names.index(name) for name in one.apart)
    gap = one.values[j] - one.values[i]
    torque = f", {100 * one.torque:.2g} % of {one.moves}'s torque" if math.isfinite(one.torque) else ""
    return (
        f"{one.formula}: {one.values[i]:.4g} in {one.apart[0]}, {gap:+.3g} {one.unit} in {one.apart[1]} "
        f"(z = {one.z:.1f}{torque})"
    )


def agreement_data(found: Agreement) -> dict[str, Any]:
    """Everything as plain data: figures, cause, and every base parameter by run and pooled; null = not known."""
    return {
        "runs": list(found.names),
        "comparisons": found.compared,
        "agree": _number(found.share),
        "agree_textbook": _number(found.textbook),
        "rms_z": _number(found.rms_z),
        "p_value": None if found.together is None else found.together.p_value,
        "cause": str(found.cause),
        "reason": found.reason,
        "notes": list(found.notes),
        "changes": [
            {"what": change.what, "explains": change.share, "p_value": change.p_value}
            for change in found.changes
        ],
        "pairs": [
            {
                "runs": [pair.first, pair.second],
                "comparisons": pair.compared,
                "agree": pair.agree,
                "rms_z": _number(pair.rms_z),
            }
            for pair in found.pairs
        ],
        "parameters": [
            {
                "formula": one.formula,
                "unit": one.unit,
                "agree": one.agrees,
                "pooled": _number(one.pooled),
                "half_width95": _number(one.half),
                "z": _number(one.z),
                "p_value": one.p_value,
                "runs": {
                    name: {"value": _number(value), "std": _number(std)}
                    for name, value, std in zip(found.names, one.values, one.std, strict=True)
                    if np.isfinite(value)
                },
            }
            for one in found.parameters
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


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


# Results as plain data, for programs: what --json prints.


def identification_data(result: Identification) -> dict[str, Any]:
    """Verdict, scores, links, joints and base parameters; a half width is None unless the data decide."""
    verdict = result.verdict
    words = base_verdicts(result.estimate, result.factors)
    found, total = links(result)
    return {
        "robot": result.robot.name,
        "terms": [term.name for term in result.terms],
        "verdict": {
            "word": verdict.word,
            "headline": verdict.headline,
            "findings": [vars(finding) for finding in verdict.findings],
            "accepted": verdict.accepted,
        },
        "scores": [scores_to_dict(one.scores) for one in (result.training, *result.validations)],
        "links": [
            {
                "name": link.name,
                "mass": _value(link.mass, "kg"),
                "centre": [_value(one, "m") for one in link.centre],
                "centre_in_shape": link.inside,
                "source": link.said,
            }
            for link in found
        ],
        "total_mass": {**_value(total, "kg"), "source": total_said(found, total)} if found else None,
        "joints": [
            {
                "joint": one.joint,
                "parameter": one.column.name,
                "value": one.value,
                "half_width95": one.half,
                "unit": one.column.unit,
                "known": one.known,
            }
            for one in joint_values(result)
        ],
        "base_parameters": [
            one | {"verdict": str(said.word)}
            for one, said in zip(parameter_data(result.estimate), words, strict=True)
        ],
    }


def _value(one: Value, unit: str) -> dict[str, Any]:
    return {
        "value": one.value,
        "half_width95": one.half,
        "unit": unit,
        "described": one.described,
        "share_of_data": one.data,
    }


def parameter_data(estimate: Estimate) -> list[dict[str, Any]]:
    """Base parameters with the half widths of their 95 % intervals."""
    rows = zip(estimate.names, estimate.units, estimate.value, estimate.half_width(), strict=True)
    return [
        {"formula": name, "value": value, "half_width95": half, "unit": unit}
        for name, unit, value, half in rows
    ]


def static_data(result: StaticEstimate) -> dict[str, Any]:
    """What static poses determine."""
    return {
        "poses": len(result.poses),
        "rank": result.estimate.base.rank,
        "structural_rank": result.structural.rank,
        "base_parameters": parameter_data(result.estimate),
    }


def comparison_data(runs: Sequence[tuple[str, Identification]]) -> dict[str, Any]:
    """Verdict and scores of every run, and the base parameters whose intervals do not meet."""
    return {
        "runs": [
            {
                "run": name,
                "verdict": run.verdict.word,
                "scores": [scores_to_dict(one.scores) for one in (run.training, *run.validations)],
            }
            for name, run in runs
        ],
        "differing": different_parameters(runs),
    }


def robot_data(robot: RobotModel, seed: int = 0) -> dict[str, Any]:
    """Joints, bodies, and the base parameters of the rigid bodies."""
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
    found: dict[str, list[str]] = {str(category): [] for category in Category}
    for name, category in zip(base.names, base.categories(), strict=True):
        found[str(category)].append(name)
    return found


# What could be identified of a robot, in words.


def describe_base(robot: RobotModel, seed: int = 0, terms: Terms | None = None) -> list[str]:
    """Lines of text: the number of base parameters, their groupings as formulas, and what nothing can determine.

    terms: the model; the rigid bodies alone when not given.
    """
    model = terms or Terms((RigidBody(),))
    base = structural_base(robot, model, TorqueRows(), seed)
    lines = [
        f"base parameters: {base.rank} of {len(base.names)} parameters ({', '.join(term.name for term in model)})",
        f"  singular values fall by a factor of {base.gap:.1e} behind the last one that counts",
        "",
        "groupings (number = body, counted from 1 at the base):",
    ]
    lines += [f"  {formula}" for formula in base.formulas()]
    lines += ["", *_inspection_categories(base)]
    lines += ["", "bodies:"]
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
