"""Effects found in the residuals, with their evidence, and all tests."""

from __future__ import annotations

from markupsafe import Markup

from dynid.base.diagnostics import Curve, Finding
from dynid.diagnosis.diagnosis import every_diagnosis
from dynid.report.figures import BLUE, VERMILION, Axis, Panel, line, row_of
from dynid.report.section import Page, render
from dynid.report.text import percent
from dynid.run.result import Identification

_HEIGHT = 220
_MARKS = {"warning": "!", "note": "i"}


class DiagnosisSection:
    """Every finding with the curve that shows it, then the list of tests."""

    anchor = "diagnosis"
    title = "Diagnosis"

    def render(self, identification: Identification, page: Page) -> Markup:
        """Findings, and the tests with their numbers of findings."""
        findings = identification.residual_findings
        tests = [
            {
                "looks_at": diagnosis.looks_at,
                "count": sum(s.code == diagnosis.identifier for s in findings),
            }
            for diagnosis in every_diagnosis()
        ]
        return render(
            "diagnosis.html.jinja",
            {"findings": [_finding(finding, page) for finding in findings], "tests": tests},
        )


def _finding(finding: Finding, page: Page) -> dict[str, object]:
    curve = finding.evidence.curve
    return {
        "level": finding.level,
        "mark": _MARKS.get(finding.level, "i"),
        "title": finding.title,
        "text": finding.text,
        "advice": finding.advice,
        "share": percent(finding.evidence.share),
        "beside": curve.beside_title if curve is not None and len(curve.beside) else "",
        "name": curve.y_title if curve is not None else "",
        "plot": page.figure(row_of((_panel(curve),), _HEIGHT), finding.title) if curve is not None else "",
    }


def _panel(curve: Curve) -> Panel:
    traces = [line(curve.x, curve.y, curve.y_title, BLUE, 1.4)]
    if len(curve.beside):
        traces.append(line(curve.x, curve.beside, curve.beside_title, VERMILION, 1.4))
    positive = curve.y[curve.y > 0]
    span = None
    if curve.logarithmic and len(positive):
        span = (max(float(positive.min()) / 2, float(positive.max()) * 1e-8), float(positive.max()) * 2)
    return Panel(
        tuple(traces),
        Axis(curve.x_title),
        Axis(log=span is not None, span=span, most_ticks=5),
        title=curve.y_title,
    )
