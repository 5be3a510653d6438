"""Study of Madsen et al. 2020: dynamic parameters of a UR5e with strain-wave gears, rotors and friction compensated."""

from __future__ import annotations

from dynid_studies.madsen_calibration import add_calibration
from dynid_studies.madsen_estimators import compare_compensated, compare_estimators
from dynid_studies.madsen_model import add_model
from dynid_studies.madsen_real import add_real
from dynid_studies.madsen_table4 import add_table_4
from dynid_studies.madsen_validation import add_validation
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
    add_model(page)
    calibration = add_calibration(page, dose.pick(3, 9))
    add_table_4(page, calibration.rotor)
    add_validation(page, calibration)
    compare_estimators(page, dose.full)
    compare_compensated(page, dose.full)
    add_real(page, dose.file("kr300_rptu", "data.parquet"))
