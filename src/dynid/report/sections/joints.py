"""Friction and drives of every joint."""

from __future__ import annotations

import math

from markupsafe import Markup

from dynid.choose.search import Choice, FormScore
from dynid.report.figures import GREY, INK, Axis, Panel, band, coloured, dots, line, row_of
from dynid.report.friction import speed_curves
from dynid.report.section import Page, effort_unit, render, worst_held_out
from dynid.report.text import interval, letter, number, parts, percent, words
from dynid.run.links import JointValue, joint_values
from dynid.run.result import Identification
from dynid.terms.term import Of

# Samples in a friction plot, most and fewest, and in all of them: they keep a report below 3 MB. Plots that are shown
# without a click.
MOST_SAMPLES, LEAST_SAMPLES, TOTAL_SAMPLES = 500, 100, 4000
MOST_SHOWN = 8


class JointsSection:
    """Friction and drive parameters of every joint, with units and intervals."""

    anchor = "joints"
    title = "Friction and drives"

    def render(self, identification: Identification, page: Page) -> Markup:
        """A plot over speed and a table, joint by joint."""
        values = joint_values(identification)
        names = list(dict.fromkeys(value.joint for value in values))
        plots, colours = _plots(identification, page)
        return render(
            "joints.html.jinja",
            {
                "joints": [(name, [_joint(v) for v in values if v.joint == name]) for name in names],
                "count": len(values),
                "plots": plots[:MOST_SHOWN],
                "more": plots[MOST_SHOWN:],
                "colours": colours,
            },
        )


def _plots(identification: Identification, page: Page) -> tuple[list[tuple[str, Markup]], str]:
    """Friction over speed as (joint, figure), and what the colour of the samples shows."""
    worst = worst_held_out(identification)
    sets = (worst[1] if worst else identification.training, identification.training)
    residuals = next((v.residuals for v in sets if v.residuals is not None and len(v.residuals.t)), None)
    if residuals is None or not any(column.of is Of.JOINT for column in identification.estimate.columns):
        return [], ""
    most = max(min(MOST_SAMPLES, TOTAL_SAMPLES // max(len(residuals.joint_names), 1)), LEAST_SAMPLES)
    curves = speed_curves(identification, residuals, most)
    warm = any(curve.temperature is not None for curve in curves)
    plots = []
    for j, curve in enumerate(curves):
        speed_unit = "m/s" if identification.robot.prismatic[j] else "rad/s"
        colour = curve.load if curve.temperature is None else curve.temperature
        samples = dots(curve.sample_speed, curve.sample_torque, "measured", GREY, 4.0, 0.7)
        traces = (
            samples | {"marker": samples["marker"] | coloured(colour)},
            band(curve.speed, curve.torque - curve.half, curve.torque + curve.half, "95 %", GREY, 0.3),
            line(curve.speed, curve.torque, "model", INK, 1.6),
        )
        panel = Panel(
            traces, Axis(speed_unit, most_ticks=5), Axis(effort_unit(identification, j), most_ticks=5)
        )
        plots.append(
            (curve.joint, page.figure(row_of((panel,), 136), f"friction of joint {curve.joint} over speed"))
        )
    return plots, "" if not curves else "temperature of the drive" if warm else "load"


def _joint(value: JointValue) -> dict[str, object]:
    name = parts(value.column)[0]
    shown, half = (
        interval(value.value, value.half) if math.isfinite(value.half) else (number(value.value), "")
    )
    return {
        "symbol": letter(name),
        "words": words(name),
        "value": shown,
        "half": half,
        "unit": value.column.unit,
        "known": value.known,
    }


# Comparison of friction forms on held-out blocks, per joint.


class FrictionSection:
    """Compared friction forms, their gain on held-out data, and the choice."""

    anchor = "friction"
    title = "Choice of friction"

    def render(self, identification: Identification, page: Page) -> Markup:
        """One table with a row for every joint and candidate."""
        return render(
            "friction.html.jinja",
            {
                "choices": [_choice(c) for c in identification.choices],
                "automatic": _automatic(identification),
            },
        )


def _automatic(identification: Identification) -> str:
    """Friction option of an automatically chosen model; "" if none."""
    selection = identification.selection
    if selection is None:
        return ""
    return dict(zip(selection.axes, selection.chosen.options, strict=True)).get("friction", "")


def _choice(choice: Choice) -> dict[str, object]:
    return {
        "joint": choice.joint,
        "subject": choice.subject,
        "rows": [_row(choice, candidate) for candidate in choice.candidates],
    }


def _row(choice: Choice, candidate: FormScore) -> dict[str, str]:
    first = candidate is choice.candidates[0]
    return {
        "name": candidate.name,
        "parameters": str(candidate.parameters),
        "relative": percent(candidate.relative, 3),
        "gain": "" if first else percent(candidate.gain, 3),
        "error": "" if first else percent(candidate.gain_std, 2),
        "earned": "reference" if first else "yes" if candidate.earned else "no",
        "chosen": "chosen" if candidate.name == choice.chosen else "",
        "gain_number": number(candidate.gain),
    }
