"""The seam for diagnoses, and those that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dynid.diagnosis.bursts import Bursts
from dynid.diagnosis.effect_tests import EffectTest, feature_groups
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.resonance import Resonance
from dynid.diagnosis.ripple import GearRipple
from dynid.diagnosis.saturation import Saturation


class Diagnosis(Protocol):
    """One test of residuals: to add one write a class with these members in a small file and list it in DIAGNOSES.

    What the lack of a term leaves needs no diagnosis of its own: the term says it in `features`.

    identifier: of its findings.    looks_at: what it tests, in a few words, for the report.
    """

    @property
    def identifier(self) -> str:
        """Names its findings in run folders and documentation."""
        ...

    @property
    def looks_at(self) -> str:
        """What it tests."""
        ...

    def look(self, analysis: ResidualAnalysis) -> list[ResidualFinding]:
        """Findings that were found, none in a log without the effect."""
        ...


# Of what no term stands for.
DIAGNOSES: tuple[Diagnosis, ...] = (
    GearRipple(),
    Saturation(),
    Resonance(),
    Bursts(),
)


def every_diagnosis() -> tuple[Diagnosis, ...]:
    """Those of the terms that are known now, those of plug-ins among them, and DIAGNOSES."""
    return (*(EffectTest(group) for group in feature_groups()), *DIAGNOSES)


def diagnose(
    analysis: ResidualAnalysis, diagnoses: Sequence[Diagnosis] | None = None
) -> tuple[ResidualFinding, ...]:
    """What diagnoses find, that which matters most to the torque first.    diagnoses: None = every one."""
    if not analysis.enough:
        return ()
    tried = every_diagnosis() if diagnoses is None else diagnoses
    found = [finding for diagnosis in tried for finding in diagnosis.look(analysis)]
    return tuple(sorted(found, key=lambda one: (one.level != "warning", -one.share)))
