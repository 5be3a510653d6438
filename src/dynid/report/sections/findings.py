"""Findings about the model, and its error per joint."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynid.base.diagnostics import Finding, Level
from dynid.estimate.estimator import Word, base_verdicts
from dynid.report.section import Page, render, worst_held_out
from dynid.report.text import markdown, percent, symbol
from dynid.run.explanations import explanation
from dynid.run.result import Identification

_NAMED = 4
_MARKS = {Level.DOUBT: "?", Level.PROBLEM: "✕", Level.WARNING: "!", Level.NOTE: "i", Level.GOOD: "✓"}
_ORDER = [*_MARKS]


class FindingsSection:
    """Error per joint, findings and weak parameters."""

    anchor = "findings"
    title = "Errors and findings"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Bars of errors, and findings with problems first."""
        findings = sorted(identification.verdict.findings, key=lambda f: _ORDER.index(f.level))
        worst = worst_held_out(identification)
        return render(
            "findings.html.jinja",
            {
                "joints": _joint_bars(identification),
                "shown": "" if worst is None else worst[0],
                "findings": _explained(findings),
                "marks": _MARKS,
                "weak": _weakest(identification),
            },
        )


def _explained(findings: list[Finding]) -> list[tuple[Finding, list[tuple[str, Markup]]]]:
    """Findings in their order; the first one of each code has its explanation."""
    first = {finding.code: finding for finding in reversed(findings)}
    explained = []
    for finding in findings:
        entry = explanation(finding.code) if finding.code and first[finding.code] is finding else None
        explained.append((finding, [(head, markdown(text)) for head, text in entry.parts] if entry else []))
    return explained


def _joint_bars(identification: Identification) -> list[dict[str, object]]:
    worst = worst_held_out(identification)
    training = identification.training.scores.relative
    held_out = worst[1].scores.relative if worst else np.full(len(training), np.nan)
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
        }
        for name, h, t in zip(identification.training.scores.joint_names, held_out, training, strict=True)
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
