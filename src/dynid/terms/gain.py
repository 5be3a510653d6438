"""Drive gain: the factor between what the drive reports and the torque at the joint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.joint_term import JointTerm
from dynid.terms.term import Scale, Symbol


@dataclass(frozen=True)
class DriveGain(JointTerm):
    """Relative error of the drive gain: tau_true = (1 + dk_j) tau_nominal.

    So tau_nominal = Y theta - dk_j tau_nominal.
    Only a torque known from elsewhere gives the equations a scale: without one, dk = -1 and theta = 0 solve
    them exactly. Use it together with a known payload or a channel of known torque.
    Source: Gautier and Briot 2014 (global identification of drive gains with a payload).
    """

    name: str = "drive_gain"
    symbol = "dk"
    symbols = (Symbol("dk", "δk", "", "deviation of the drive gain"),)
    unit_revolute = "1"
    unit_prismatic = "1"
    lower = -1.0
    of_log = True
    scale = Scale.FREES

    def prior(self, robot: RobotModel) -> Float:
        """Zero: the declared gain is right."""
        return np.zeros(robot.n)

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Minus the torque by the declared gain."""
        return -samples.tau
