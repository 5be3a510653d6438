"""The sections of the report: first those that are shown, then those that are folded. Add a new section here."""

from dynid.report.section import Section
from dynid.report.sections.diagnosis import DiagnosisSection
from dynid.report.sections.excitation import ExcitationSection
from dynid.report.sections.findings import ErrorsSection, FindingsSection
from dynid.report.sections.joints import FrictionSection, JointsSection
from dynid.report.sections.links import LinksSection
from dynid.report.sections.log import LogSection, ProvenanceSection
from dynid.report.sections.parameters import ParametersSection
from dynid.report.sections.replay import ReplaySection
from dynid.report.sections.residuals import ResidualsSection
from dynid.report.sections.robot import RobotSection
from dynid.report.sections.scores import ScoresSection
from dynid.report.sections.selection import SelectionSection
from dynid.report.sections.signals import SignalsSection
from dynid.report.sections.torque import TorqueSection
from dynid.report.sections.verdict import NextStepsSection, VerdictSection

# Sections that are always open, each with the class that places it.
SHOWN: tuple[tuple[Section, str], ...] = (
    (VerdictSection(), "most"),
    (ErrorsSection(), "most"),
    (RobotSection(), "beside"),
    (FindingsSection(), ""),
    (TorqueSection(), ""),
    (JointsSection(), ""),
    (LinksSection(), ""),
    (NextStepsSection(), ""),
)
# Sections that open on a click, each with what it shows.
FOLDED: tuple[tuple[Section, str], ...] = (
    (ScoresSection(), "R², RMS, NMSE, SDE of every data set"),
    (ReplaySection(), "errors of URDF and MJCF in other programs"),
    (ParametersSection(), "values, intervals and truth where known"),
    (SelectionSection(), "models compared on held-out blocks"),
    (FrictionSection(), "forms compared per joint"),
    (ExcitationSection(), "rank, influence, range of motion"),
    (DiagnosisSection(), "effects that the model lacks"),
    (ResidualsSection(), "spectrum, trends, distribution"),
    (SignalsSection(), "filters, rates, spectra"),
    (LogSection(), "warnings, notes, contents of the log"),
    (ProvenanceSection(), "versions, hashes, settings"),
)
SECTIONS: tuple[Section, ...] = (*(section for section, _ in SHOWN), *(section for section, _ in FOLDED))

__all__ = ["FOLDED", "SECTIONS", "SHOWN"]
