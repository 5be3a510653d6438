"""Diagnosis of residuals: each test searches for one effect and reports it with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.diagnosis.changes import check_changes as check_changes
    from dynid.diagnosis.diagnosis import Diagnosis as Diagnosis
    from dynid.diagnosis.diagnosis import compare_with_description as compare_with_description
    from dynid.diagnosis.diagnosis import diagnose as diagnose
    from dynid.diagnosis.diagnosis import every_diagnosis as every_diagnosis
    from dynid.diagnosis.diagnosis import report_missing_effects as report_missing_effects
    from dynid.diagnosis.finding import finding_from_dict as finding_from_dict
    from dynid.diagnosis.finding import finding_to_dict as finding_to_dict
    from dynid.diagnosis.ground_contact import Stance as Stance
    from dynid.diagnosis.ground_contact import require_free_legs as require_free_legs
    from dynid.diagnosis.ground_contact import stance as stance
    from dynid.diagnosis.input_checks import check_guidance as check_guidance
    from dynid.diagnosis.input_checks import check_link_lengths as check_link_lengths
    from dynid.diagnosis.input_checks import check_negative_friction as check_negative_friction
    from dynid.diagnosis.masking import AtPeak as AtPeak
    from dynid.diagnosis.masking import left_out as left_out
    from dynid.diagnosis.masking import spoilt_times as spoilt_times
    from dynid.diagnosis.masking import without_times as without_times
    from dynid.diagnosis.residual_analysis import ResidualAnalysis as ResidualAnalysis
    from dynid.diagnosis.residual_analysis import first_torque as first_torque
    from dynid.diagnosis.resonance import spectrum as spectrum
    from dynid.diagnosis.wiring_checks import check_wiring as check_wiring

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "changes": "check_changes",
        "diagnosis": "Diagnosis compare_with_description diagnose every_diagnosis report_missing_effects",
        "finding": "finding_from_dict finding_to_dict",
        "ground_contact": "Stance require_free_legs stance",
        "input_checks": "check_guidance check_link_lengths check_negative_friction",
        "masking": "AtPeak left_out spoilt_times without_times",
        "residual_analysis": "ResidualAnalysis first_torque",
        "resonance": "spectrum",
        "wiring_checks": "check_wiring",
    },
)
