"""Rotor inertia of a rigid drive."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Question, Role
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm, proposal_by_joint
from dynid.terms.term import Proposal, Symbol, empty_panels


@dataclass(frozen=True)
class RotorInertia(JointTerm):
    """Rotor and gear seen at the joint: tau_j = Ia_j ddq_j, Ia = N^2 I_m, kg m^2 (kg when prismatic)."""

    name: str = "rotor_inertia"
    symbol = "Ia"
    symbols = (Symbol("Ia", "I", "a", "rotor inertia seen at the joint"),)
    unit_revolute = "kg m^2"
    unit_prismatic = "kg"
    lower = 0.0
    of_rotors = True
    exports_as = MotionBasis.ACCELERATION
    role, question = Role.PLAIN, Question("rotors", words="rotor inertia", certain=True)
    as_cause = "rotors, which the model lacks"

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """All rotors or none."""
        return (proposal_by_joint(robot, cls(), "rotor", "rotors", build=lambda places: cls()),)

    def prior(self, robot: RobotModel) -> Float:
        """Reflected rotor inertia of the drive."""
        return robot.drive.reflected_rotor_inertia

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Joint acceleration."""
        return samples.ddq

    def momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """P = dq_j, R = 0."""
        return self.panels(robot, samples.dq, wanted), empty_panels(robot, samples)

    def energy_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
        """Kinetic energy h = dq_j^2 / 2; nothing is lost."""
        return np.ascontiguousarray(0.5 * samples.dq.T[wanted] ** 2), empty_panels(robot, samples)
