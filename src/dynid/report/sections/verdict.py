"""The verdict in plain words, and the figures it rests on."""

from __future__ import annotations

from collections import Counter

import numpy as np
from markupsafe import Markup

from dynid.base.findings import LEVELS, Finding
from dynid.estimate.verdict import Word, base_verdicts
from dynid.report.section import Page, data_sets, render
from dynid.report.symbols import symbol
from dynid.report.text import MISSING, duration, number, percent
from dynid.run.result import Identification, Validation

_ORDER = {"doubt": 0, "problem": 1, "warning": 2, "note": 3, "good": 4}
_NAMED = 4
_MARKS = {"doubt": "?", "problem": "✕", "warning": "!", "note": "i", "good": "✓"}


class VerdictSection:
    """Is this model good, what is weak, what to do next."""

    anchor = "verdict"
    title = "Verdict"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Banner, key figures, error by joint, findings."""
        verdict = identification.verdict
        findings = sorted(verdict.findings, key=lambda f: _ORDER.get(f.level, 3))
        return render(
            "verdict.html.jinja",
            {
                "level": verdict.level if verdict.level in LEVELS else "usable",
                "word": verdict.word.replace(verdict.level.upper(), verdict.level),
                "headline": verdict.headline,
                "cards": _cards(identification),
                "joints": _joint_bars(identification),
                "shown": _shown(identification),
                "open": [f for f in findings if f.level != "good"],
                "fine": [f for f in findings if f.level == "good"],
                "mark": _mark,
                "weak": _weakest(identification),
            },
        )


def _mark(finding: Finding) -> str:
    return _MARKS.get(finding.level, "i")


def _worst_held_out(identification: Identification) -> tuple[str, Validation] | None:
    held_out = [(label, v) for label, kind, v in data_sets(identification) if kind == "held-out"]
    return max(held_out, key=lambda pair: np.nan_to_num(pair[1].scores.total_relative), default=None)


def _shown(identification: Identification) -> str:
    worst = _worst_held_out(identification)
    return "" if worst is None else worst[0]


def _cards(identification: Identification) -> list[dict[str, str]]:
    estimate, structural = identification.estimate, identification.structural
    counts = Counter(v.word for v in base_verdicts(estimate, identification.factors))
    worst = _worst_held_out(identification)
    trained = percent(identification.training.scores.total_relative)
    lost = structural.rank - estimate.base.rank
    parts = [f"{counts[Word.NEGLIGIBLE]} negligible", f"{counts[Word.WEAK]} weak"]
    parts += [f"{lost} not excited"] if lost > 0 else []
    blocks = identification.factors.blocks
    names = {block.trajectory for block in blocks}
    return [
        {
            "kind": "held-out",
            "label": "Held-out relative error",
            "value": percent(worst[1].scores.total_relative) if worst else MISSING,
            "note": f"{worst[0]}, all joints; training {trained}"
            if worst
            else f"nothing held out; training {trained}",
        },
        {
            "kind": "",
            "label": "Base parameters identified",
            "value": f"{counts[Word.IDENTIFIED]} of {structural.rank}",
            "note": ", ".join(parts),
        },
        {
            "kind": "",
            "label": "Condition number",
            "value": number(estimate.base.condition),
            "note": "columns scaled to equal length",
        },
        {
            "kind": "",
            "label": "Data fitted",
            "value": duration(sum(block.end - block.start for block in blocks)),
            "note": f"{len(names)} {'trajectory' if len(names) == 1 else 'trajectories'}, "
            f"{estimate.count} equations",
        },
    ]


def _joint_bars(identification: Identification) -> list[dict[str, object]]:
    worst = _worst_held_out(identification)
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
    """The weak base parameters that could matter most: symbol, greatest share of a torque, joint."""
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
