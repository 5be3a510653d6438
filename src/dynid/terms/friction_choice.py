"""Friction whose form is chosen by joint: the candidates, and the term that stands for the choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.errors import UsageError
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.friction_curves import AsymmetricCoulomb, PolynomialFriction
from dynid.terms.friction_shapes import Presliding, Sigmoid, SmoothCoulomb, Stribeck
from dynid.terms.term import Column, Side, Term, Terms, joint_indices

WIDTH = 0.02
Names = tuple[str, ...]

CANDIDATES: dict[str, Callable[[Names], Terms]] = {
    "coulomb": lambda on: Viscous(joints=on) + Coulomb(WIDTH, joints=on) + Offset(joints=on),
    "sides": lambda on: Viscous(joints=on) + AsymmetricCoulomb(WIDTH, joints=on),
    "tanh": lambda on: Viscous(joints=on) + SmoothCoulomb(joints=on) + Offset(joints=on),
    "presliding": lambda on: Viscous(joints=on) + Presliding(joints=on) + Offset(joints=on),
    "cubic": lambda on: (
        Viscous(joints=on)
        + PolynomialFriction((3,), joints=on)
        + Coulomb(WIDTH, joints=on)
        + Offset(joints=on)
    ),
    "sigmoid": lambda on: Viscous(joints=on) + Sigmoid(joints=on) + Offset(joints=on),
    "stribeck": lambda on: (
        Viscous(joints=on) + Coulomb(WIDTH, joints=on) + Stribeck(width=WIDTH, joints=on) + Offset(joints=on)
    ),
}
BASELINE = "coulomb"


@dataclass(frozen=True)
class FrictionChoice(Term):
    """Friction of the form that predicts held-out blocks best, joint by joint; in a result its choice stands instead.

    Until it is chosen it is viscous, Coulomb (width 0.02) and offset.
    choose: "auto" for all candidates, or names of some; "coulomb" is always among them.
    joints: names of the joints it acts on; empty = all.
    """

    choose: str | tuple[str, ...] = "auto"
    joints: tuple[str, ...] = ()
    name: str = "friction"
    remembers: ClassVar[bool] = True
    side = Side.MOTOR

    def __post_init__(self) -> None:
        unknown = [one for one in self.candidates if one not in CANDIDATES]
        if unknown:
            raise UsageError(
                "unknown-friction",
                found=f"friction '{unknown[0]}'",
                expected="'auto' or some of " + ", ".join(CANDIDATES),
            )

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of the candidates, the baseline first."""
        if self.choose == "auto":
            return tuple(CANDIDATES)
        named = (self.choose,) if isinstance(self.choose, str) else self.choose
        return tuple(dict.fromkeys((BASELINE, *named)))

    def baseline(self) -> Terms:
        """The form it has before the choice."""
        return CANDIDATES[BASELINE](self.joints)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the baseline."""
        joint_indices(robot, self.joints)
        return tuple(replace(column, term=self.name) for column in self.baseline().columns(robot))

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """That of the baseline."""
        return np.concatenate([term.alive(robot, moved) for term in self.baseline()])

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """That of the baseline."""
        return self.baseline().torque_regressor(robot, samples, np.asarray(wanted, dtype=np.bool_))
