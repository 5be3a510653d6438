"""What residuals say about the cause: each diagnosis looks for one effect and names it, with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.diagnosis.changes import check_changes
    from dynid.diagnosis.diagnosis import (
        Diagnosis,
        compare_with_description,
        diagnose,
        every_diagnosis,
        report_missing_effects,
    )
    from dynid.diagnosis.input_checks import check_guidance, check_link_lengths, check_negative_friction
    from dynid.diagnosis.masking import left_out, spoilt_times, without_times
    from dynid.diagnosis.residual_analysis import ResidualAnalysis, first_torque
    from dynid.diagnosis.resonance import spectrum
    from dynid.diagnosis.wiring_checks import check_wiring

__all__ = [
    "Diagnosis",
    "ResidualAnalysis",
    "check_changes",
    "check_guidance",
    "check_link_lengths",
    "check_negative_friction",
    "check_wiring",
    "compare_with_description",
    "diagnose",
    "every_diagnosis",
    "first_torque",
    "left_out",
    "report_missing_effects",
    "spectrum",
    "spoilt_times",
    "without_times",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "changes": "check_changes",
        "diagnosis": "Diagnosis compare_with_description diagnose every_diagnosis report_missing_effects",
        "input_checks": "check_guidance check_link_lengths check_negative_friction",
        "masking": "left_out spoilt_times without_times",
        "residual_analysis": "ResidualAnalysis first_torque",
        "resonance": "spectrum",
        "wiring_checks": "check_wiring",
    },
)
