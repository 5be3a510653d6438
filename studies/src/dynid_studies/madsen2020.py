"""Study of Madsen et al. 2020: dynamic parameters of a UR5e with strain-wave gears, rotors and friction compensated."""

from __future__ import annotations

from dynid_studies.madsen_calibration import tell_calibration
from dynid_studies.madsen_estimators import compare_compensated, compare_estimators
from dynid_studies.madsen_model import tell_model
from dynid_studies.madsen_real import tell_real
from dynid_studies.madsen_table4 import tell_table_4
from dynid_studies.madsen_validation import tell_validation
from dynid_studies.study import Dose, Paper, StudyPage

PAPER = Paper(
    name="madsen2020",
    title="Calibration of a collaborative robot with strain-wave gears",
    source="Madsen, Timm, Ujfalusi, Rosenlund, Brandt and Zhang 2020, Math. Probl. Eng.",
    summary="A UR5e with encoders on motors and links: rotors and known friction are taken off the current, what is "
    "left is fitted by weighted least squares.",
)


def study(dose: Dose, page: StudyPage) -> None:
    """Parameters and regrouping, the calibration in its variants, validation, estimators, a real robot."""
    tell_model(page)
    calibration = tell_calibration(page, dose.pick(3, 9))
    tell_table_4(page, calibration.rotor)
    tell_validation(page, calibration)
    compare_estimators(page, dose.full)
    compare_compensated(page, dose.full)
    tell_real(page, dose.file("kr300_rptu", "data.parquet"))
