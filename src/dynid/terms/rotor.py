"""Rotor inertia of a rigid drive."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.arrays import Float
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import JointTerm


@dataclass(frozen=True)
class RotorInertia(JointTerm):
    """Rotor and gear seen at the joint: tau_j = Ia_j ddq_j, Ia = N^2 I_m, kg m^2 (kg when prismatic)."""

    name: str = "rotor_inertia"
    symbol = "Ia"
    unit_revolute = "kg m^2"
    unit_prismatic = "kg"
    lower = 0.0

    def prior(self, robot: RobotModel) -> Float:
        """Reflected rotor inertia of the drive."""
        return robot.drive.reflected_rotor_inertia

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Joint acceleration."""
        return samples.ddq
