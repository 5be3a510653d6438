"""Elastic joints seen by one encoder: the link lags behind the motor by what its torque winds up."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Question, Role
from dynid.terms.joint_term import joint_indices, proposal_by_joint
from dynid.terms.nominal import NominalTerm, check_nominal, slope
from dynid.terms.term import Column, Proposal, Symbol

STEP = 1e-3


@dataclass(frozen=True)
class Compliance(NominalTerm):
    """Link positions q - c_j tau_j e_j in place of q, to first order in the compliances c_j (rad/(N m), m/N).

    tau_j is the torque that bodies of a nominal model ask for; the term is minus the derivative of that torque along
    (tau_j, dtau_j/dt, d2tau_j/dt2) on joint j. The encoder sits at the motor; 1 / c_j is the joint's stiffness.
    inertia: of the nominal model; drives are not read.    joints: names of the elastic joints; empty = all.
    Source: Spong 1987, expanded for stiff joints.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    joints: tuple[str, ...] = ()
    name: str = "compliance"
    reads_rate = True
    symbols = (Symbol("cq", "c", "", "compliance of the joint"),)

    role, question = Role.ROBOT, Question("elasticity")

    def __post_init__(self) -> None:
        check_nominal(self.inertia, self.drives)

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """Joint by joint where the equations do not hold the springs themselves; stiffer than rigid is no spring."""
        if log.both_sides:
            return ()
        term = cls(log.inertia)
        return (proposal_by_joint(robot, term, "compliance", "{count} elastic joint{s}", positive=True),)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One compliance a joint."""
        return tuple(
            Column(f"cq{j + 1}", "m/N" if robot.prismatic[j] else "rad/(N m)", self.name, j, lower=0.0)
            for j in joint_indices(robot, self.joints)
        )

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Those of the joints that moved."""
        return np.asarray(moved)[list(joint_indices(robot, self.joints))]

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Minus the directional derivatives, by central differences: exact in velocity and acceleration."""
        motion = (samples.q, samples.dq, samples.ddq)
        torque = self.nominal.rigid(robot, *motion)
        first = slope(torque, samples.rate)
        along = (torque, first, slope(first, samples.rate))
        found = []
        for j in joint_indices(robot, self.joints):
            step = STEP / max(float(np.abs(torque[:, j]).max(initial=0.0)), 1e-12)
            only = np.eye(robot.n)[j]
            ends = [
                self.nominal.rigid(
                    robot, *(x + sign * step * d * only for x, d in zip(motion, along, strict=True))
                )
                for sign in (1.0, -1.0)
            ]
            found.append((ends[1] - ends[0]) / (2.0 * step))
        return tuple(found)
