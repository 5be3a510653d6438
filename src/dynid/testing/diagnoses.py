"""What every diagnosis must do, as a suite to inherit from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.diagnosis.diagnosis import Diagnosis, diagnose
from dynid.diagnosis.finding import ResidualFinding, finding_from_dict, finding_to_dict
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.robot.model import RobotModel
from dynid.testing.lab import TrueMotion, analysis_of, small_arm


class DiagnosisContract(ABC):
    """Laws of every diagnosis.

    Hooks: `diagnosis` and `effect` (required), the torque of what it looks for; `joint` that shows it, "" = none in
    particular; `robot`; `speed` of the motion, as a share of the limits.
    """

    joint: str = "shoulder"
    speed: float = 1.0
    seeds = (0, 1, 2)

    @abstractmethod
    def diagnosis(self) -> Diagnosis:
        """The diagnosis under test."""

    @abstractmethod
    def effect(self, motion: TrueMotion, rng: np.random.Generator) -> Float:
        """Torque (T, n) of the effect that it looks for."""

    def robot(self) -> RobotModel:
        """The robot that shows it."""
        return small_arm()

    def look(self, analysis: ResidualAnalysis) -> tuple[ResidualFinding, ...]:
        """Its findings."""
        return diagnose(analysis, (self.diagnosis(),))

    def test_its_effect_is_found_where_it_is(self) -> None:
        """The joint with the effect is named, and no other one."""
        for seed in self.seeds:
            found = self.look(analysis_of(self.robot(), self.effect, seed, speed=self.speed))
            _law(bool(found), f"the effect went unnoticed (seed {seed})")
            names = {finding.joint for finding in found}
            _law(names == {self.joint}, f"{names} named in place of '{self.joint}' (seed {seed})")

    def test_clean_logs_are_silent(self) -> None:
        """Noise of any colour is no finding."""
        for seed in self.seeds:
            for correlation in (0.0, 0.97):
                clean = analysis_of(self.robot(), seed=seed, correlation=correlation, speed=self.speed)
                _law(not self.look(clean), f"a false alarm (seed {seed}, correlation {correlation})")

    def test_findings_are_complete(self) -> None:
        """Words, figures and curves that a reader can use, and that survive a run folder."""
        one = self.diagnosis()
        _law(bool(one.identifier) and bool(one.looks_at), "a diagnosis needs an identifier and a description")
        analysis = analysis_of(self.robot(), self.effect, self.seeds[0], speed=self.speed)
        for finding in self.look(analysis):
            _law(finding.identifier == one.identifier, f"a finding of '{finding.identifier}'")
            _law(finding.level in ("note", "warning"), f"level '{finding.level}'")
            _law(finding.joint in ("", *analysis.robot.joint_names), f"joint '{finding.joint}'")
            _law(all((finding.title, finding.text, finding.advice)), "a finding without words")
            _law(0 <= finding.share <= 1 and 0 <= finding.p_value <= 1, f"{finding.share}, {finding.p_value}")
            curve = finding.curve
            _law(curve is None or bool(np.isfinite(curve.x).all() and np.isfinite(curve.y).all()), "nan")
            back = finding_to_dict(finding_from_dict(finding_to_dict(finding)))
            _law(str(back) == str(finding_to_dict(finding)), "plain data changes the finding")
            first = fields(finding)[0].name
            try:
                setattr(finding, first, getattr(finding, first))
            except FrozenInstanceError:
                continue
            raise AssertionError("a finding must be frozen")

    def test_little_data_are_no_finding(self) -> None:
        """A handful of samples, none at all, an exact fit and joints at rest go by without a word."""
        analysis = analysis_of(self.robot(), self.effect, 0, speed=self.speed)
        r = analysis.residuals
        for count in (0, 1, 2, 30):
            arrays: dict[str, Any] = {
                name: value[:count] for name, value in vars(r).items() if isinstance(value, np.ndarray)
            }
            _law(not self.look(replace(analysis, residuals=replace(r, **arrays))), f"{count} samples")
        _law(not self.look(replace(analysis, residuals=replace(r, predicted=r.measured))), "an exact fit")
        still = replace(r, q=np.zeros_like(r.q), dq=np.zeros_like(r.dq))
        _law(not self.look(replace(analysis, residuals=still)), "a robot at rest")


def _law(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
