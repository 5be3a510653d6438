"""Torque error per joint, and findings about the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from dynid.base.diagnostics import Finding, Level
from dynid.base.records import dataclass
from dynid.estimate.estimator import Word, base_verdicts
from dynid.report.section import Page, effort_unit, render, worst_held_out
from dynid.report.text import markdown, number, percent, symbol
from dynid.run.explanations import explanation
from dynid.run.result import Identification

# Weak parameters that are named, and findings that are shown without a click.
_NAMED, _OPEN = 4, 3
# Between the joint and the title of a finding.
_AFTER_JOINT = ": "
_MARKS = {Level.DOUBT: "?", Level.PROBLEM: "✕", Level.WARNING: "!", Level.NOTE: "i", Level.GOOD: "✓"}
_ORDER = [*_MARKS]


class ErrorsSection:
    """Torque error of every joint, with units."""

    anchor = "errors"
    title = "Torque error per joint"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A table with bars."""
        worst = worst_held_out(identification)
        return render(
            "errors.html.jinja",
            {"joints": _joint_bars(identification), "shown": "" if worst is None else worst[0]},
        )


class FindingsSection:
    """Findings and weak parameters."""

    anchor = "findings"
    title = "Findings"

    def render(self, identification: Identification, page: Page) -> Markup:
        """The most important findings, then the others folded, problems first."""
        groups = _groups(sorted(identification.verdict.findings, key=lambda f: _ORDER.index(f.level)))
        first = sum(group.level not in (Level.NOTE, Level.GOOD) for group in groups[:_OPEN])
        return render(
            "findings.html.jinja",
            {
                "shown": groups[:first],
                "more": groups[first:],
                "marks": _MARKS,
                "weak": _weakest(identification),
            },
        )


@dataclass(frozen=True)
class Group:
    """Findings of one code and level, and its explanation as (heading, text)."""

    level: str
    code: str
    title: str
    findings: tuple[Finding, ...]
    explained: tuple[tuple[str, Markup], ...]


def _groups(findings: Sequence[Finding]) -> list[Group]:
    """Findings that differ only in the joint, together, in the order of the first of each."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        title = finding.title.rpartition(_AFTER_JOINT)[2]
        groups.setdefault((finding.level, finding.code, title), []).append(finding)
    made, codes = [], set[str]()
    for (level, code, title), members in groups.items():
        # A code has the same explanation at every place.
        entry = explanation(code) if code and code not in codes else None
        codes.add(code)
        joints = [finding.title.rpartition(_AFTER_JOINT)[0] for finding in members]
        named = f"{', '.join(dict.fromkeys(joints))}{_AFTER_JOINT}{title}" if joints[0] else members[0].title
        parts = tuple((heading, markdown(text)) for heading, text in entry.parts) if entry else ()
        made.append(Group(level, code, named, tuple(members), parts))
    return made


def _joint_bars(identification: Identification) -> list[dict[str, object]]:
    worst = worst_held_out(identification)
    training = identification.training.scores.relative
    held_out = worst[1].scores.relative if worst else np.full(len(training), np.nan)
    judged = (worst[1] if worst else identification.training).scores
    everything = np.concatenate([training, held_out])
    finite = everything[np.isfinite(everything)]
    top = max(float(finite.max()) if len(finite) else 0.0, 1e-12)
    return [
        {
            "name": name,
            "held_out": percent(float(h)),
            "training": percent(float(t)),
            "held_out_width": _width(float(h), top),
            "training_width": _width(float(t), top),
            "rms": number(float(judged.rms[j])),
            "torque_rms": number(float(judged.torque_rms[j])),
            "unit": effort_unit(identification, j),
        }
        for j, (name, h, t) in enumerate(zip(judged.joint_names, held_out, training, strict=True))
    ]


def _weakest(identification: Identification) -> list[tuple[Markup, str, str]]:
    """Weak base parameters with the largest possible effect: symbol, share of a joint's torque, joint."""
    estimate = identification.estimate
    verdicts = base_verdicts(estimate, identification.factors)
    weak = [
        (v, int(i)) for v, i in zip(verdicts, estimate.base.independent, strict=True) if v.word is Word.WEAK
    ]
    weak.sort(key=lambda pair: -np.nan_to_num(pair[0].contribution))
    return [
        (symbol(estimate.columns[i], identification.robot), percent(v.contribution), v.group)
        for v, i in weak[:_NAMED]
    ]


def _width(value: float, top: float) -> float:
    return round(100.0 * value / top, 2) if np.isfinite(value) else 0.0
