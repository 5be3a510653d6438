"""Drive gains that are off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Question, Role
from dynid.terms.nominal import NominalTerm, check_nominal
from dynid.terms.term import Column, Proposal, Symbol, Term, joint_indices, named_joints, proposal_by_joint


@dataclass(frozen=True)
class GainError(NominalTerm):
    """Drive gains that are off, relative to the other joints: tau_j (1 + dg_j), tau of a nominal model.

    All gains together cannot be told from the size of the robot, so one joint has to be left out.
    joints: names of the joints whose gain is free; empty = all but the first.
    inertia, drives: the nominal model, see Nominal.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    joints: tuple[str, ...] = ()
    name: str = "gain_error"
    of_log = True
    role, question = Role.LOG, Question("gains", "as logged")
    symbols = (Symbol("dg", "δg", "", "deviation of the drive gain from the first joint's"),)

    def __post_init__(self) -> None:
        check_nominal(self.inertia, self.drives)

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """Joint by joint, relative to one whose gain is taken for right."""
        term = cls(log.inertia, log.drives, robot.joint_names)

        def build(places: tuple[int, ...]) -> Term:
            return cls(log.inertia, log.drives, named_joints(robot, places))

        return (
            proposal_by_joint(
                robot, term, "gain", "off on {joints}", build=build, measured=True, relative=True
            ),
        )

    def acting(self, robot: RobotModel) -> tuple[int, ...]:
        """Joints whose gain is free."""
        return joint_indices(robot, self.joints) if self.joints else tuple(range(1, robot.n))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One a free joint."""
        return tuple(Column(f"dg{j + 1}", "1", self.name, j, prior=0.0) for j in self.acting(robot))

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Those of the joints that moved."""
        return np.asarray(moved)[list(self.acting(robot))]

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """The nominal torque of one joint each."""
        torque = self.nominal.torque(robot, samples)
        return tuple(torque * (np.arange(robot.n) == j) for j in self.acting(robot))
