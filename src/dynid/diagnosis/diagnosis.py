"""Protocol and list of the diagnoses of residuals, and the report of effects that terms find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics, Finding, Level, claim_codes
from dynid.diagnosis.load_times import prove_load
from dynid.diagnosis.masking import Bursts, Saturation
from dynid.diagnosis.proof import CHANCE, RIVALS, EffectTest, Proof, feature_groups, prove, reading
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.resonance import GearRipple, Resonance
from dynid.terms.residual_tests import Declared, FittedEffect, Hypothesis, Rival
from dynid.terms.term import CATALOGUE


class Diagnosis(Protocol):
    """Protocol of a residual test: write a class with these members in a small file and list it in DIAGNOSES.

    A missing term needs no diagnosis, because the term defines its residual in `features`.
    """

    @property
    def identifier(self) -> str:
        """Code of its findings in run folders and documentation."""
        ...

    @property
    def looks_at(self) -> str:
        """Tested effect in a few words, for the report."""
        ...

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """Return the findings; the list is empty for a log without the effect."""
        ...


# Tests of effects that no term models.
DIAGNOSES: tuple[Diagnosis, ...] = (
    GearRipple(),
    Saturation(),
    Resonance(),
    Bursts(),
)


def every_diagnosis() -> tuple[Diagnosis, ...]:
    """Tests of all registered terms, including plug-ins, and DIAGNOSES."""
    return (*(EffectTest(group) for group in feature_groups()), *DIAGNOSES)


def diagnose(analysis: ResidualAnalysis, diagnoses: Sequence[Diagnosis] | None = None) -> tuple[Finding, ...]:
    """Run diagnoses (all by default) and return the findings: warnings first, then by share of the residual."""
    if not analysis.enough:
        return ()
    tried = every_diagnosis() if diagnoses is None else diagnoses
    findings = [finding for diagnosis in tried for finding in diagnosis.look(analysis)]
    return tuple(sorted(findings, key=lambda result: (result.level != Level.WARNING, -result.evidence.share)))


# Findings of the terms of the catalogue about a fit: effects that the model lacks, and effects that it contains.


def report_missing_effects(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Report effects on the whole robot that the model lacks, according to the residuals."""
    for kind in CATALOGUE.values():
        for finding in kind.words.lacking(analysis):
            report(analysis, finding, diagnostics)


def compare_with_description(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Report effects that would explain the difference between the fit and the prior."""
    words = [kind.words for kind in CATALOGUE.values()]
    hypotheses = [_hypothesis(finding) for each in words for finding in each.against_description(analysis)]
    explained = {code for hypothesis in hypotheses for code in hypothesis.instead_of}
    for hypothesis in hypotheses:
        if hypothesis.finding.code not in explained:
            report(analysis, hypothesis, diagnostics)


def report_held_effects(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Report the notices of the model's terms about the sizes of their effects."""
    estimate = analysis.estimate
    sizes = {
        estimate.columns[i].name: (float(value), float(half))
        for i, value, half in zip(
            estimate.base.independent, estimate.value, estimate.half_width(), strict=True
        )
    }
    seconds = _seconds(analysis.residuals.t)
    fitted = FittedEffect(
        analysis.robot, sizes, analysis.source_rate, seconds, analysis.torque_rms, analysis.shows_later
    )
    # Do not report an effect again that the residuals already showed.
    known = {(doubt.code, doubt.joint) for doubt in diagnostics.doubts}
    for term in analysis.terms:
        for hypothesis in map(_hypothesis, term.words.notices(term, fitted)):
            if (hypothesis.finding.code, hypothesis.finding.joint) not in known:
                report(analysis, hypothesis, diagnostics)


def report(analysis: ResidualAnalysis, reported: Finding | Hypothesis, diagnostics: Diagnostics) -> None:
    """Add a finding to the diagnostics at its level.

    A hypothesis that names a declaration is tested on held-out blocks; without proof it is added at its lesser level.
    """
    hypothesis = _hypothesis(reported)
    level, text = hypothesis.finding.level, hypothesis.finding.text
    if hypothesis.declared is None:
        _report(hypothesis, level, text, diagnostics)
        return
    if hypothesis.sign is not None and _turned(analysis, hypothesis.declared):
        _report(hypothesis.sign, Level.DOUBT, hypothesis.sign.finding.text, diagnostics)
        return
    proof = _proof(analysis, hypothesis.declared, hypothesis.rivals)
    if proof is not None and proof.holds:
        words = proof.words(analysis.robot.joint_names)
        _report(hypothesis, level, f"{text}: {words}{hypothesis.held}", diagnostics)
    else:
        why = "this model cannot be refitted for a proof" if proof is None else proof.doubts()
        # The model contains the effect together with others; the proof uses the plain model without these.
        alone = "without the model's other effects it is not proven: " if hypothesis.held else ""
        _report(hypothesis, hypothesis.lesser, f"{text}{hypothesis.held}; {alone}{why}", diagnostics)


def _hypothesis(reported: Finding | Hypothesis) -> Hypothesis:
    return Hypothesis(reported) if isinstance(reported, Finding) else reported


def _proof(analysis: ResidualAnalysis, declared: Declared, rivals: Sequence[Rival]) -> Proof | None:
    if declared.load is not None:
        return prove_load(analysis, declared.load)
    mirror = reading(analysis, declared.mirror(analysis.robot))
    columns = {str(rival): RIVALS[rival](analysis) for rival in rivals}
    return prove(analysis, reading(analysis, declared), mirror, columns)


def _report(hypothesis: Hypothesis, level: Level, text: str, diagnostics: Diagnostics) -> None:
    finding = hypothesis.finding
    with_advice = "; ".join(part for part in (text, finding.advice) if part)
    if level is Level.NOTE:
        diagnostics.note(finding.code, with_advice)
    elif level is Level.WARNING:
        diagnostics.warn(finding.code, with_advice)
    else:
        (code,) = claim_codes(finding.code)
        expected, do = hypothesis.expected, finding.advice
        diagnostics.claim(code, found=text, expected=expected, do=do, place=finding.place)


def _turned(analysis: ResidualAnalysis, declared: Declared) -> bool:
    """Whether the plain model fits efforts better with flipped signs than as logged or with the estimated gains."""
    turned = prove(analysis, reading(analysis, Declared(factors=dict.fromkeys(declared.factors, -1.0))))
    if turned is None or turned.gain <= 0:
        return False
    if min(declared.factors.values()) <= 0:
        return True
    scaled = prove(analysis, reading(analysis, declared))
    return turned.p_value < CHANCE and scaled is not None and turned.gain > scaled.gain


def _seconds(t: Float) -> float:
    return float(np.ptp(t)) if len(t) else 0.0
