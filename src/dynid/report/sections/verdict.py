"""The verdict and its key figures."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from dynid.base.diagnostics import LEVELS
from dynid.estimate.estimator import Word, base_verdicts
from dynid.estimate.scores import Scores
from dynid.report.section import Page, render, worst_held_out
from dynid.report.text import MISSING, duration, number, percent
from dynid.run.result import Identification
from dynid.run.verdict import next_steps


class VerdictSection:
    """Whether the model is good."""

    anchor = "verdict"
    title = "Verdict"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Banner and key figures."""
        verdict = identification.verdict
        return render(
            "verdict.html.jinja",
            {
                "level": verdict.level if verdict.level in LEVELS else "usable",
                "word": verdict.word.replace(verdict.level.upper(), verdict.level),
                "headline": verdict.headline,
                "uses": [vars(use) for use in verdict.uses],
                "cards": _cards(identification),
            },
        )


def _cards(identification: Identification) -> list[dict[str, str]]:
    estimate, structural = identification.estimate, identification.structural
    counts = Counter(v.word for v in base_verdicts(estimate, identification.factors))
    worst = worst_held_out(identification)
    trained = percent(identification.training.scores.total_relative)
    lost = structural.rank - estimate.base.rank
    parts = [f"{counts[Word.NEGLIGIBLE]} negligible", f"{counts[Word.WEAK]} weak"]
    if counts[Word.PRIOR]:
        parts.append(f"{counts[Word.PRIOR]} from the prior")
    parts += [f"{lost} not excited"] if lost > 0 else []
    blocks = identification.factors.blocks
    names = {block.trajectory for block in blocks}
    return [
        {
            "kind": "held-out",
            "label": "Held-out relative error",
            "value": percent(worst[1].scores.total_relative) if worst else MISSING,
            "note": f"{worst[0]}, all joints; training {trained}{_exported(worst[1].scores)}"
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
            "value": duration(sum(block.seconds for block in blocks)),
            "note": f"{len(names)} {'trajectory' if len(names) == 1 else 'trajectories'}, "
            f"{estimate.count} equations",
        },
    ]


def _exported(scores: Scores) -> str:
    return "" if scores.exported is None else f"; exported model {percent(scores.exported)}"


# What to do next, with commands to copy.


class NextStepsSection:
    """Recommended steps, and uses of the model."""

    anchor = "next"
    title = "What to do next"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A list of steps with their commands."""
        return render("next_steps.html.jinja", {"steps": next_steps(identification)})
