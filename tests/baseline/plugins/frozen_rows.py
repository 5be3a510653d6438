"""Rows: each joint's equation of torque, multiplied by its velocity."""

from dataclasses import dataclass

from dynid.rows import Equations, TorqueRows


@dataclass(frozen=True)
class JointPowerRows:
    """dq_j tau_j = dq_j Y_j theta, grouped by joint."""

    share: float = 1.0
    name: str = "frozen_power"

    def groups(self, robot):
        return robot.joint_names

    def equations(self, robot, terms, samples, wanted):
        torque = TorqueRows().equations(robot, terms, samples, wanted)
        panels = tuple(panel * samples.dq[:, j] for j, panel in enumerate(torque.panels))
        return Equations(torque.columns, panels)
