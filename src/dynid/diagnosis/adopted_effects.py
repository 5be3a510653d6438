"""Effects that a model contains are told all the same: what their sizes mean to whoever recorded the log."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics, claim_codes
from dynid.base.errors import NOWHERE, Place
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.terms.evidence import Held, Level, Notice


def report_held_effects(evidence: ResidualAnalysis, source_rate: float, diagnostics: Diagnostics) -> None:
    """Reports what every term of the model says of its sizes.    source_rate: of the log, Hz.    Claims: theirs."""
    estimate = evidence.estimate
    sizes = {
        estimate.columns[i].name: (float(value), float(half))
        for i, value, half in zip(
            estimate.base.independent, estimate.value, estimate.half_width(), strict=True
        )
    }
    held = Held(evidence.robot, sizes, source_rate, _seconds(evidence.residuals.t), evidence.torque_rms)
    for term in evidence.terms:
        for notice in term.notices(held):
            report(notice, diagnostics)


def report(notice: Notice, diagnostics: Diagnostics) -> None:
    """Notes it, warns of it or claims it, as its level says."""
    text = "; ".join(part for part in (notice.found, notice.do) if part)
    if notice.level is Level.NOTE:
        diagnostics.note(notice.identifier, text)
    elif notice.level is Level.WARNING:
        diagnostics.warn(notice.identifier, text)
    else:
        (code,) = claim_codes(notice.identifier)
        place = Place(joint=notice.joint) if notice.joint else NOWHERE
        diagnostics.claim(code, found=notice.found, expected=notice.expected, do=notice.do, place=place)


def _seconds(t: Float) -> float:
    return float(np.ptp(t)) if len(t) else 0.0
