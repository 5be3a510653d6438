"""The sections of the report, in order. Add a new section here."""

from dynid.report.section import Section
from dynid.report.sections.diagnosis import DiagnosisSection
from dynid.report.sections.excitation import ExcitationSection
from dynid.report.sections.findings import FindingsSection
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

SECTIONS: tuple[Section, ...] = (
    VerdictSection(),
    LinksSection(),
    NextStepsSection(),
    RobotSection(),
    FindingsSection(),
    JointsSection(),
    TorqueSection(),
    ScoresSection(),
    ReplaySection(),
    ParametersSection(),
    SelectionSection(),
    FrictionSection(),
    ExcitationSection(),
    DiagnosisSection(),
    ResidualsSection(),
    SignalsSection(),
    LogSection(),
    ProvenanceSection(),
)

__all__ = ["SECTIONS"]
