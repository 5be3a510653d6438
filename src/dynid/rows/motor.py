"""Motor rows: the inverse dynamic model seen from the motors, whose measurements are independent of each other."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.rows import Equations
from dynid.rows.torque import TorqueRows
from dynid.signals.samples import Samples
from dynid.terms.term import Terms


@dataclass(frozen=True)
class MotorRows:
    """J'^-1 (tau - tau_known) = J'^-1 Y theta, grouped by motor, J = d theta_m / dq.

    Torque is measured motor by motor. Mapped to the joints by a coupled transmission, the noise of one motor enters
    several equations; in these rows it enters one, so that weights by group are those of maximum likelihood.
    """

    name: str = "motor"

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The motors, called after their joints."""
        return robot.joint_names

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel a motor: the combination of the joints' panels that it drives."""
        joints = TorqueRows().equations(robot, terms, samples, wanted)
        # tau_m = N'^-1 tau / phi': row i of N'^-1 over the joints.
        mix = np.linalg.inv(robot.drive.transmission).T
        slopes = robot.drive.linkage_slopes(samples.q) if robot.drive.linkages else None
        columns, panels = [], []
        for motor in range(robot.n):
            used = np.flatnonzero(np.abs(mix[motor]) > 1e-12 * np.abs(mix[motor]).max())
            union = np.unique(np.concatenate([joints.columns[j] for j in used]))
            total = np.zeros((len(union) + 1, len(samples)))
            for j in used:
                factor: Float | float = mix[motor, j] if slopes is None else mix[motor, j] / slopes[:, j]
                place = np.append(np.searchsorted(union, joints.columns[j]), len(union))
                total[place] += factor * joints.panels[j]
            columns.append(union)
            panels.append(total)
        return Equations(columns=tuple(columns), panels=tuple(panels))
