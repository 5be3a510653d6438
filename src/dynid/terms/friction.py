"""Friction that is linear in its coefficients: tau = ... + fv dq + fc sign(dq) + fo."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float
from dynid.errors import UsageError
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import JointTerm


def smooth_sign(speed: Float, width: float) -> Float:
    """tanh(speed / width), or the plain sign for a width of 0."""
    return np.tanh(speed / width) if width > 0 else np.sign(speed)


@dataclass(frozen=True)
class Viscous(JointTerm):
    """Viscous friction: tau_j = fv_j dq_j, fv in N m s/rad (N s/m when prismatic).

    joints: names of the joints it acts on; empty = all.
    """

    joints: tuple[str, ...] = ()
    name: str = "viscous"
    symbol = "fv"
    unit_revolute = "N m s/rad"
    unit_prismatic = "N s/m"
    lower = 0.0

    def prior(self, robot: RobotModel) -> Float:
        """Damping of the description."""
        return robot.friction_prior[:, 0]

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Joint velocity."""
        return samples.dq


@dataclass(frozen=True)
class Coulomb(JointTerm):
    """Coulomb friction: tau_j = fc_j s(dq_j), s = sign, or tanh(dq / width) when a width is given.

    width: velocity in rad/s (m/s) over which the sign is smoothed; 0 keeps the sign, with sign(0) = 0.
    joints: names of the joints it acts on; empty = all.

    Raises UsageError if the width is negative.
    """

    width: float = 0.0
    joints: tuple[str, ...] = ()
    name: str = "coulomb"
    symbol = "fc"
    unit_revolute = "N m"
    unit_prismatic = "N"
    lower = 0.0

    def __post_init__(self) -> None:
        if not self.width >= 0:
            raise UsageError("coulomb-width", found=f"width = {self.width}", expected="a velocity >= 0")

    def prior(self, robot: RobotModel) -> Float:
        """Dry friction of the description."""
        return robot.friction_prior[:, 1]

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Smoothed or plain sign of the joint velocity."""
        return smooth_sign(samples.dq, self.width)


@dataclass(frozen=True)
class Offset(JointTerm):
    """Constant torque: tau_j = fo_j; asymmetric Coulomb friction and sensor offset in one.

    joints: names of the joints it acts on; empty = all.
    """

    joints: tuple[str, ...] = ()
    name: str = "offset"
    symbol = "fo"
    unit_revolute = "N m"
    unit_prismatic = "N"
    needs_motion = False

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """One."""
        return np.ones_like(samples.dq)
