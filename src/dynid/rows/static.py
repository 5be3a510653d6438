"""Static rows: torque at rest, where only gravity, springs and offsets act."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.errors import Place, UnfitDataError
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.momentum_filter import require_finite
from dynid.rows.motor import MotorRows
from dynid.rows.rows import Equations, Rows
from dynid.rows.torque import TorqueRows
from dynid.signals.samples import Samples
from dynid.terms.term import Terms


@dataclass(frozen=True)
class StaticRows:
    """tau = Y(q, 0, 0) theta, grouped by joint, or by motor where motors move several joints.

    still: rad/s (m/s), the greatest velocity of a pose.
    `equations` raises UnfitDataError that names the first row in which a joint moves faster.
    """

    still: float = option(2e-3, "motion above this is an error", unit="rad/s or m/s", above=0)
    name: str = "static"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The joints, or the motors of a coupled drive: friction at rest sits there."""
        return self._moving(robot).groups(robot)

    @staticmethod
    def _moving(robot: RobotModel) -> Rows:
        return MotorRows() if robot.drive.coupled else TorqueRows()

    def posed(self, robot: RobotModel, samples: Samples) -> Samples:
        """The same positions at rest."""
        rest = np.zeros_like(samples.q)
        return replace(samples, dq=rest, ddq=rest)

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """The torque equations of poses."""
        require_finite(samples, self.name, ("q", "tau"))
        moving = np.abs(np.nan_to_num(samples.dq)) > self.still
        bad = np.argwhere(moving & samples.keep[:, None])
        if len(bad):
            row, joint = (int(i) for i in bad[0])
            raise UnfitDataError(
                "pose-moves",
                found=f"a pose in motion, {abs(samples.dq[row, joint]):.3g} rad/s or m/s",
                expected=f"at most {self.still:g} at rest",
                do="leave this row out, or use rows of motion",
                place=Place(
                    row=samples.first + row, time=float(samples.t[row]), joint=robot.joint_names[joint]
                ),
            )
        return self._moving(robot).equations(robot, terms, self.posed(robot, samples), wanted)
