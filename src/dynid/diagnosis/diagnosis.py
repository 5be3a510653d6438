"""The seam for diagnoses, and those that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dynid.diagnosis.bursts import Bursts
from dynid.diagnosis.delay import LateTorque
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

    def look(self, evidence: ResidualAnalysis) -> list[ResidualFinding]:
        """Findings that were found, none in a log without the effect."""
        ...


DIAGNOSES: tuple[Diagnosis, ...] = (
    *(EffectTest(group) for group in feature_groups()),
    GearRipple(),
    LateTorque(),
    Saturation(),
    Resonance(),
    Bursts(),
)


def diagnose(
    evidence: ResidualAnalysis, diagnoses: Sequence[Diagnosis] = DIAGNOSES
) -> tuple[ResidualFinding, ...]:
    """What all diagnoses find, that which matters most to the torque first."""
    if not evidence.enough:
        return ()
    found = [finding for diagnosis in diagnoses for finding in diagnosis.look(evidence)]
    return tuple(sorted(found, key=lambda one: (one.level != "warning", -one.share)))
