"""Doubts inputs that the residuals of a fit give away."""

from __future__ import annotations

from collections.abc import Callable

from dynid.base.parallel import beside
from dynid.diagnosis.changes import check_changes
from dynid.diagnosis.diagnosis import diagnose
from dynid.diagnosis.effect_notices import (
    compare_with_description,
    report_held_effects,
    report_missing_effects,
)
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.guidance import check_guidance
from dynid.diagnosis.link_lengths import check_link_lengths
from dynid.diagnosis.measurement import check_measured
from dynid.diagnosis.negative_friction import check_negative_friction
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wiring_checks import check_wiring
from dynid.identification.steps import Call, Data, Found
from dynid.log.prior_check import all_turned
from dynid.rows.momentum import MomentumRows


def examine(
    call: Call, data: Data, found: Found, analysis: ResidualAnalysis | None
) -> Callable[[], tuple[ResidualFinding, ...]]:
    """Doubts inputs that the residuals give away; the function waits for what else they say."""
    if analysis is None:
        return tuple
    terms, diagnostics = found.nonlinear.terms, call.diagnostics
    misread = check_guidance(analysis, diagnostics) or check_wiring(analysis, diagnostics)
    # What a known friction lacks may have either sign, and so may the friction of torque that is turned throughout.
    if not all_turned(diagnostics) and not any(term.knows_friction for term in terms):
        check_negative_friction(analysis, diagnostics, call.log.mapping.commanded)
    diagnosed = beside(
        lambda: diagnose(analysis), call.threads
    )  # while the lag is estimated and blocks are held out
    check_measured(analysis, diagnostics)
    check_changes(analysis, diagnostics)
    if misread:
        # Zeros, gains, lengths and masses that explain it are those of other joints.
        return diagnosed
    report_missing_effects(analysis, diagnostics)
    report_held_effects(analysis, diagnostics)
    check_link_lengths(analysis, diagnostics)
    # Bodies are bent by noise of accelerations where the equations read these.
    if data.choice.trusted or isinstance(data.rows, MomentumRows):
        compare_with_description(analysis, diagnostics)
    return diagnosed
