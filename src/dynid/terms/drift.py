"""An offset that changes with time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Role
from dynid.terms.friction import OFFSETS
from dynid.terms.term import JointTerm, Proposal, Symbol, proposal_by_joint

SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True)
class Drift(JointTerm):
    """Offset that changes with time: tau_j = fd_j (t - origin) / 3600 s, in N m an hour.

    origin: on the log's clock, s.    joints: names of the joints it acts on; empty = all.
    """

    origin: float = 0.0
    joints: tuple[str, ...] = ()
    name: str = "drift"
    of_log = True
    symbol = "fd"
    symbols = (Symbol("fd", "f", "d", "offset that grows with time"),)
    unit_revolute = "N m/h"
    unit_prismatic = "N/h"
    needs_motion = False
    role, question = Role.LOG, OFFSETS

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """Joint by joint, counted from the log's beginning."""
        term = cls(log.origin)
        return (proposal_by_joint(robot, term, "drift", "drift on {joints}", measured=True),)

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Hours since the origin."""
        hours = (samples.t - self.origin) / SECONDS_AN_HOUR
        return np.repeat(hours[:, None], robot.n, axis=1)
