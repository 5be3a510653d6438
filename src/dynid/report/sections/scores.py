"""Scores per joint, on training data and on held-out data."""

from __future__ import annotations

import math

from markupsafe import Markup

from dynid.estimate.scores import Scores
from dynid.report.section import Page, data_sets, effort_unit, render
from dynid.report.text import number, percent, r_squared
from dynid.run.result import Identification
from dynid.run.verdict import GOOD_R2, USABLE_R2


class ScoresSection:
    """The same scores for every data set."""

    anchor = "scores"
    title = "Scores per joint"

    def render(self, identification: Identification, page: Page) -> Markup:
        """One table with a row for every joint and data set."""
        sets = data_sets(identification)
        joints = [
            {
                "name": name,
                "unit": effort_unit(identification, j),
                "rows": [_row(label, kind, v.scores, j) for label, kind, v in sets],
            }
            for j, name in enumerate(identification.training.scores.joint_names)
        ]
        totals = [
            {
                "label": label,
                "kind": kind,
                "relative": percent(v.scores.total_relative, 3),
                "all_samples": _all_samples(v.scores, None),
                "left_out": v.scores.left_out_text,
                "at_rest": v.scores.at_rest_text,
                "exported": v.scores.exported_text,
                "beyond": v.scores.beyond_text,
                "nmse": number(v.scores.total_nmse),
                "trajectories": v.scores.trajectories,
            }
            for label, kind, v in sets
        ]
        content = {"joints": joints, "totals": totals, "sets": len(sets)}
        content["whole"] = any(row["all_samples"] for row in totals)
        return render("scores.html.jinja", content)


def _row(label: str, kind: str, scores: Scores, j: int) -> dict[str, str]:
    return {
        "label": label,
        "kind": kind,
        "relative": percent(float(scores.relative[j]), 3),
        "r2": r_squared(float(scores.r2[j])),
        "grade": _grade(float(scores.judged_r2[j])),
        "remark": scores.remark(scores.joint_names[j]),
        "all_samples": _all_samples(scores, j),
        "rms": number(float(scores.rms[j])),
        "torque_rms": number(float(scores.torque_rms[j])),
        "nmse": number(float(scores.nmse[j])),
        "mse": number(float(scores.mse[j])),
        "sde": number(float(scores.sde[j])),
        "count": f"{scores.count[j]:.0f}",
    }


def _all_samples(scores: Scores, j: int | None) -> str:
    whole = scores.all_samples
    if whole is None:
        return ""
    return percent(whole.total_relative if j is None else float(whole.relative[j]), 3)


def _grade(r2: float) -> str:
    if not math.isfinite(r2):
        return ""
    return "" if r2 >= GOOD_R2 else "usable" if r2 >= USABLE_R2 else "poor"
